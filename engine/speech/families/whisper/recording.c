#include "speech/families/whisper/recording_internal.h"

#include <stdlib.h>

#define DOUBT 0.5f /* languages are close: the second has this share of the first or more */

struct steno_whisper_recording_options
steno_whisper_recording_default(const struct steno_whisper *m)
{
    return (struct steno_whisper_recording_options){.decode = steno_whisper_decode_default(m),
                                                    .language = -1,
                                                    .times = true,
                                                    .batched = 1,
                                                    .words_move = true,
                                                    .condition = true,
                                                    .condition_reset = 0.5f};
}

/* ---- windows --------------------------------------------------------------------------------- */

static steno_status start_decoding(steno_whisper_recording *j, steno_err *err)
{
    struct steno_whisper_decode_options o = j->o.decode;
    if (j->forced) {
        const struct steno_whisper_agreement *a = steno_whisper_live_agreement(j->live);
        o.search.given = a->ids;
        o.search.given_log_probs = a->log_probs;
        o.search.n_given = a->agreed;
    } else if (j->at.seek == 0) {
        steno_whisper_prompt_give_prefix(j, &o.search);
    }
    j->n_behind = o.search.n_given;
    steno_whisper_prompt_make(j);
    j->phase = STENO_WHISPER_DECODING;
    return steno_whisper_decoder_start(j->decoder, &o, j->state, j->prompt, j->n_prompt, err);
}

/* n frames from seek on into the state. */
static steno_status encode_window(steno_whisper_recording *j, size_t n, steno_whisper_runner *net,
                                  steno_err *err)
{
    struct steno_whisper_window w = {.rows = (size_t)j->m->dims.audio_ctx,
                                     .floor = steno_whisper_mel_floor(j->mel)};
    w.mel = steno_whisper_mel_at(j->mel, j->at.seek, &w.n);
    w.n = n;
    return steno_whisper_encode(net, j->state, &w, err);
}

static steno_status begin_window(steno_whisper_recording *j, steno_whisper_runner *net,
                                 steno_err *err)
{
    const size_t left = steno_whisper_mel_frames(j->mel) - j->at.seek;
    const size_t most = 2 * (size_t)j->m->dims.audio_ctx;
    steno_status st;
    j->n_cuts = j->n_read = 0;
    if (j->live)
        steno_whisper_live_join(j->live);
    j->at.size = steno_whisper_least(steno_whisper_least(left, STENO_WHISPER_WINDOW_FRAMES), most);
    st = encode_window(j, j->at.size, net, err);
    if (st)
        return st;
    if (j->at.language >= 0)
        return start_decoding(j, err);
    j->phase = STENO_WHISPER_DETECTING;
    return STENO_OK;
}

/* Decode the window again, behind the agreed text. */
static steno_status force(steno_whisper_recording *j, steno_err *err)
{
    j->forced = true;
    return start_decoding(j, err);
}

static void set_times(steno_whisper_recording *j, bool times)
{
    j->o.times = j->o.decode.search.rules.times = times;
}

/* Decode the window again, with timestamps: the first one has to lie at its beginning. */
static steno_status decode_with_times(steno_whisper_recording *j, steno_err *err)
{
    j->timed = true;
    set_times(j, true);
    return start_decoding(j, err);
}

void steno_whisper_end_times(steno_whisper_recording *j)
{
    if (j->timed)
        set_times(j, false);
    j->timed = false;
}

static void leave_window(steno_whisper_recording *j, size_t next)
{
    steno_whisper_end_times(j);
    steno_whisper_partial_end_window(j);
    j->at.next_seek =
        next > j->at.seek ? next : j->at.seek + j->at.size; /* never the same window again */
    if (j->o.each_language && j->m->special.multilingual)
        j->at.language = j->at.heard = -1;
    j->phase = STENO_WHISPER_LISTENING;
    j->at.windows++;
}

static steno_status finish_window(steno_whisper_recording *j, size_t next, steno_err *err)
{
    steno_status st = steno_whisper_segments_keep(j, err);
    steno_whisper_prompt_forget(j);
    j->at.spoken = j->n_cuts ? j->at.language : j->at.spoken;
    leave_window(j, next);
    return st;
}

/* Words have times. Text that clients have seen as stable stays. */
static steno_status finish_words(steno_whisper_recording *j, double before, steno_err *err)
{
    size_t next;
    if (!j->o.times && steno_whisper_segments_skip(j)) {
        j->at.last_speech = before;
        return decode_with_times(j, err);
    }
    next = steno_whisper_segments_seek(j, j->at.next_seek);
    if (!(j->o.hallucination_silence > 0) || steno_whisper_partial_agreed(j))
        return finish_window(j, next, err);
    if (steno_whisper_hallucination_cut(j, before, &next)) {
        j->n_cuts = 0;
        j->at.last_speech = before;
        leave_window(j, next);
        return STENO_OK;
    }
    j->at.last_speech = j->n_cuts ? steno_whisper_segments_end(j) : before;
    return finish_window(j, next, err);
}

/* Whether the window's words are aligned: also to see whether a timestamp that ends it is right. */
static bool needs_words(const steno_whisper_recording *j)
{
    return j->o.words &&
           (!j->o.few_words || j->o.recover || j->at.next_seek < j->at.seek + j->at.size);
}

/* Its pieces are there. */
static steno_status take_window(steno_whisper_recording *j, steno_err *err)
{
    j->decoded = *steno_whisper_decoder_result(j->decoder);
    if (!j->forced && steno_whisper_decoded_silent(&j->o.decode, &j->decoded)) {
        if (steno_whisper_partial_agreed(j))
            return force(j, err);
        leave_window(j, j->at.seek + j->at.size);
        return STENO_OK;
    }
    j->at.next_seek = j->at.seek + steno_whisper_segments_cut(j);
    if (!j->forced && !steno_whisper_partial_kept(j))
        return force(j, err);
    if (!needs_words(j))
        return finish_window(j, j->at.next_seek, err);
    steno_whisper_words_free(&j->words);
    for (size_t i = 0; i < j->n_cuts; i++)
        j->cut[i].n_words = 0;
    steno_whisper_segments_text(j);
    if (!j->n_text)
        return finish_window(j, steno_whisper_segments_seek(j, j->at.next_seek), err);
    j->phase = STENO_WHISPER_ALIGNING;
    return STENO_OK;
}

static steno_status take_language(steno_whisper_recording *j, const struct steno_whisper_ask *ask,
                                  steno_err *err)
{
    struct steno_whisper_guess g = steno_whisper_language_best(j, ask);
    const bool doubted = j->phase == STENO_WHISPER_DOUBTING, first = j->at.first_language < 0;
    if (first && !doubted && g.second >= DOUBT * g.probability &&
        steno_whisper_language_has_padding(j)) {
        j->phase = STENO_WHISPER_DOUBTING;
        return STENO_OK;
    }
    g = steno_whisper_language_keep(j, g);
    if (first) {
        j->at.first_language = g.language;
        j->at.language_probability = g.probability;
    }
    if (doubted) { /* the window begins again, without the padding */
        j->at.language = j->o.each_language ? -1 : g.language;
        j->phase = STENO_WHISPER_LISTENING;
        return STENO_OK;
    }
    j->at.language = g.language;
    return start_decoding(j, err);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static steno_status open_parts(steno_whisper_recording *j, steno_err *err)
{
    const struct steno_whisper *m = j->m;
    steno_status st = steno_whisper_language_choose(j, err);
    if (!st)
        st = steno_whisper_decoder_open(&j->decoder, m, err);
    if (!st)
        st = steno_whisper_aligner_open(&j->aligner, m, err);
    if (!st)
        st = steno_whisper_state_open(&j->state, m, err);
    if (!st)
        st = steno_whisper_mel_open(&j->mel, (size_t)m->dims.mels, err);
    if (!st && j->o.words)
        steno_whisper_state_keep_keys(j->state);
    if (!st)
        st =
            steno_whisper_pieces_encode(m, j->o.hotwords, STENO_WHISPER_CONTEXT, &j->hotwords, err);
    if (!st)
        st = steno_whisper_prompt_encode_prefix(j, err);
    if (!st)
        st = steno_whisper_pieces_encode(m, j->o.prompt, STENO_WHISPER_TEXT_BYTES, &j->prompt_text,
                                         err);
    return st ? st
              : steno_whisper_pieces_add(&j->at.context, j->prompt_text.ids, j->prompt_text.n, err);
}

steno_status steno_whisper_recording_open(steno_whisper_recording **out,
                                          const struct steno_whisper *m,
                                          const struct steno_whisper_recording_options *o,
                                          steno_err *err)
{
    steno_whisper_recording *j = calloc(1, sizeof *j);
    steno_status st;
    if (!j)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    j->m = m;
    j->o = *o;
    j->o.decode.search.rules.times = o->times;
    j->at.heard = j->at.spoken = -1;
    steno_buf_init(&j->text, STENO_WHISPER_TEXT_BYTES);
    st = open_parts(j, err);
    if (st)
        steno_whisper_recording_close(j);
    else
        *out = j;
    return st;
}

void steno_whisper_recording_close(steno_whisper_recording *j)
{
    if (!j)
        return;
    steno_whisper_decoder_close(j->decoder);
    steno_whisper_aligner_close(j->aligner);
    steno_whisper_state_close(j->state);
    steno_whisper_mel_close(j->mel);
    steno_whisper_live_close(j->live);
    steno_whisper_words_free(&j->words);
    steno_buf_free(&j->text);
    free(j->prompt_text.ids);
    free(j->at.context.ids);
    free(j->hotwords.ids);
    free(j->prefix.ids);
    free(j->early.was.context.ids);
    free(j->out);
    free(j);
}

steno_status steno_whisper_recording_restart(steno_whisper_recording *r, int language,
                                             steno_err *err)
{
    steno_status st;
    r->o.language = language;
    r->phase = STENO_WHISPER_LISTENING;
    r->ended = r->early.ended = r->forced = r->encoded = false;
    steno_whisper_end_times(r);
    steno_whisper_live_close(r->live);
    r->live = NULL;
    r->at = (struct steno_whisper_place){.heard = -1, .spoken = -1, .context = r->at.context};
    r->at.context.n = 0; /* its memory is kept */
    r->n_cuts = r->n_read = 0;
    steno_whisper_mel_restart(r->mel);
    st = steno_whisper_language_choose(r, err);
    return st ? st
              : steno_whisper_pieces_add(&r->at.context, r->prompt_text.ids, r->prompt_text.n, err);
}

steno_status steno_whisper_recording_push(steno_whisper_recording *r, const float *pcm, size_t n,
                                          steno_err *err)
{
    return steno_whisper_mel_push(r->mel, pcm, n, err);
}

steno_status steno_whisper_recording_end(steno_whisper_recording *r, steno_err *err)
{
    r->ended = true;
    if (r->phase == STENO_WHISPER_HEARING || r->phase == STENO_WHISPER_WRITING)
        r->phase = STENO_WHISPER_LISTENING;
    return steno_whisper_mel_end(r->mel, err);
}

bool steno_whisper_recording_ready(const steno_whisper_recording *r)
{
    const size_t frames = steno_whisper_mel_frames(r->mel);
    if (r->phase != STENO_WHISPER_LISTENING)
        return true;
    return r->ended ? r->at.next_seek < frames
                    : r->at.next_seek + STENO_WHISPER_WINDOW_FRAMES <= frames;
}

const struct steno_whisper_decoded *
steno_whisper_recording_window(const steno_whisper_recording *r, const int32_t **prompt, size_t *n)
{
    if (prompt) {
        *prompt = r->prompt;
        *n = r->n_prompt;
    }
    return &r->decoded;
}

void steno_whisper_recording_span(const steno_whisper_recording *r, double *start, double *end)
{
    *start = (double)(r->at.seek * STENO_WHISPER_HOP) / STENO_WHISPER_RATE;
    *end = (double)(r->at.next_seek * STENO_WHISPER_HOP) / STENO_WHISPER_RATE;
}

size_t steno_whisper_recording_texts(const steno_whisper_recording *r,
                                     struct steno_whisper_text *out, size_t max)
{
    return steno_whisper_decoder_texts(r->decoder, out, max);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static steno_status ask_one(steno_whisper_recording *j, steno_whisper_runner *net,
                            struct steno_whisper_ask *ask, steno_err *err)
{
    if (j->phase == STENO_WHISPER_LISTENING) {
        steno_status st;
        j->at.seek = j->at.next_seek;
        if (!j->early.ended)
            steno_whisper_mel_drop(j->mel, j->at.seek);
        st = begin_window(j, net, err);
        if (st)
            return st;
    }
    if (j->phase == STENO_WHISPER_ALIGNING)
        return steno_whisper_segments_ask(j, ask, err);
    if (j->phase == STENO_WHISPER_DECODING)
        return steno_whisper_decoder_ask(j->decoder, ask)
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_INTERNAL, "a search without a step");
    if (j->phase == STENO_WHISPER_DOUBTING) {
        const steno_status st = encode_window(j, j->at.size + 1, net, err); /* with padding */
        if (st)
            return st;
    }
    if (j->phase != STENO_WHISPER_DETECTING && j->phase != STENO_WHISPER_DOUBTING)
        return steno_whisper_partial_ask(j, net, ask, err);
    steno_whisper_language_ask(j, ask);
    return STENO_OK;
}

static steno_status take_one(steno_whisper_recording *j, steno_whisper_runner *net,
                             const struct steno_whisper_ask *ask, steno_err *err)
{
    const double before = j->at.last_speech;
    struct steno_whisper_ask more;
    steno_status st;
    switch (j->phase) {
    case STENO_WHISPER_DETECTING:
    case STENO_WHISPER_DOUBTING:
        return take_language(j, ask, err);
    case STENO_WHISPER_HEARING:
    case STENO_WHISPER_WRITING:
        return steno_whisper_partial_take(j, net, ask, err);
    case STENO_WHISPER_ALIGNING:
        st = steno_whisper_segments_take(j, net, ask, err);
        return st ? st : finish_words(j, before, err);
    default:
        st = steno_whisper_decoder_take(j->decoder, ask, err);
        return st || steno_whisper_decoder_ask(j->decoder, &more) ? st : take_window(j, err);
    }
}

/* The part of a run of the decoder (steno_whisper_recording_share): the bytes of its keys and
 * values, divided by those of the weights. */
static double part_of_run(const steno_whisper_recording *r)
{
    const bool partial = r->phase == STENO_WHISPER_HEARING || r->phase == STENO_WHISPER_WRITING;
    const size_t rows = partial ? steno_whisper_live_rows(r->live) : (size_t)r->m->dims.audio_ctx;
    return (double)steno_whisper_window_bytes(r->m, rows) / (double)steno_whisper_step_bytes(r->m);
}

double steno_whisper_recording_share(const steno_whisper_recording *r)
{
    switch (r->phase) {
    case STENO_WHISPER_LISTENING:
    case STENO_WHISPER_DOUBTING:
    case STENO_WHISPER_ALIGNING:
        return 1;
    case STENO_WHISPER_HEARING:
    case STENO_WHISPER_WRITING:
        return r->encoded ? part_of_run(r) : 1;
    default:
        return part_of_run(r);
    }
}

/* Recordings that share a run of the decoder. */
struct run {
    struct steno_whisper_ask ask[STENO_WHISPER_BATCH];
    size_t of[STENO_WHISPER_BATCH], n;
    double full; /* sum of their parts */
};

static void run_together(struct run *w, steno_whisper_runner *net,
                         steno_whisper_recording *const *r, steno_status *st, steno_err *err)
{
    steno_err why = {0};
    const steno_status ran = w->n ? steno_whisper_step(net, w->ask, w->n, &why) : STENO_OK;
    /* those whose scores come later run the network of the scores again, so they are last */
    for (int later = 0; later < 2; later++)
        for (size_t i = 0; i < w->n; i++) {
            const size_t of = w->of[i];
            steno_err *e = err ? &err[of] : NULL;
            if (w->ask[i].later == later)
                st[of] =
                    ran ? steno_fail(e, ran, "%s", why.msg) : take_one(r[of], net, &w->ask[i], e);
        }
    w->n = 0;
    w->full = 0;
}

void steno_whisper_recordings_step(steno_whisper_runner *net, steno_whisper_recording *const *r,
                                   size_t n, steno_status *st, steno_err *err)
{
    struct run w = {.n = 0};
    bool encoded = false;
    for (size_t i = 0; i < n; i++) {
        const bool begins =
            r[i]->phase == STENO_WHISPER_LISTENING || r[i]->phase == STENO_WHISPER_DOUBTING;
        struct steno_whisper_ask ask;
        st[i] = STENO_OK;
        if (begins && encoded)
            continue;
        encoded |= begins;
        st[i] = ask_one(r[i], net, &ask, err ? &err[i] : NULL);
        if (st[i])
            continue;
        if (w.n && w.full + part_of_run(r[i]) > 1)
            run_together(&w, net, r, st, err);
        w.full += part_of_run(r[i]);
        w.ask[w.n] = ask;
        w.of[w.n++] = i;
    }
    run_together(&w, net, r, st, err);
}
