#include "families/whisper/recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/whisper/live.h"
#include "families/whisper/mel.h"
#include "families/whisper/words.h"
#include "text/language.h"

#define WINDOW 3000   /* mel frames: 30 s */
#define SPEECH_MIN 20 /* mel frames that are worth a window */
#define UNSAID 200    /* mel frames of speech that are more than a word */
#define FRAME 0.01    /* seconds */
#define STEP 0.02     /* seconds of a timestamp: two frames */
#define CONTEXT STENO_WHISPER_CONTEXT
#define PROMPT_MAX 460                            /* pieces: the start, and all around it */
#define MAX_SEGMENTS (STENO_WHISPER_MAX_TEXT + 1) /* of a window */
#define TEXT_MAX ((size_t)1 << 20)
#define MAX_LANGUAGES 128
#define PROMPT_ROOM 16   /* pieces: the start of a transcript, and a few new ones */
#define HEARD_FRAMES 500 /* with more audio partials do not detect the language again */
#define DOUBT 0.5f       /* languages are close: the second has this share of the first or more */

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

/* A segment while its window is worked on: pieces first .. first + n of the window's. */
struct cut {
    size_t first, n;
    double start, end;
    size_t first_word, n_words; /* of the window's words */
};

struct pieces {
    int32_t *ids;
    size_t n, cap;
};

enum phase {
    LISTENING, /* for the samples of a window */
    DETECTING, /* its language */
    DOUBTING,  /* its language once more, with the frame of padding */
    DECODING,
    ALIGNING, /* its words */
    HEARING,  /* a partial: the language of what there is of the window */
    WRITING   /* a partial: its text */
};

struct steno_whisper_recording {
    const struct steno_whisper *m;
    struct steno_whisper_recording_options o; /* texts are not read after open */
    steno_whisper_decoder *decoder;
    steno_whisper_aligner *aligner;
    steno_whisper_state *state;
    steno_whisper_mel *mel;
    enum phase phase;
    bool ended;
    int language; /* -1: not known yet */
    float language_probability;
    struct pieces prompt_text, context, hotwords, prefix;
    size_t context_from; /* pieces before have been forgotten */
    double last_speech;  /* seconds */
    size_t windows;      /* finished */
    size_t spoken;       /* frames before this one, at most, have speech */

    /* the window */
    size_t seek, size; /* frames */
    size_t next_seek;
    int32_t prompt[PROMPT_MAX];
    size_t n_prompt;
    struct steno_whisper_decoded decoded;
    int32_t text_ids[STENO_WHISPER_MAX_TEXT];
    struct cut cut[MAX_SEGMENTS];
    size_t n_cuts, n_read; /* n_read: what next has given */
    bool single_end;       /* it ended with one timestamp, not two */
    struct steno_whisper_words words;

    /* partials of the window that grows */
    steno_whisper_live *live; /* NULL: there were none */
    int heard;                /* language of the last partial */
    bool encoded;             /* for the partial that runs */
    bool forced;              /* the agreed text was given to the decoder */
    size_t n_behind;          /* pieces that follow the prompt */
    size_t n_forced;          /* windows */

    /* the segment that next gave */
    struct steno_buf text;
    struct steno_whisper_word *out;
};

/* ---- pieces of text ------------------------------------------------------------------------ */

static steno_status add_pieces(struct pieces *p, const int32_t *ids, size_t n, steno_err *err)
{
    if (p->n + n > p->cap) {
        size_t cap = 2 * (p->n + n);
        int32_t *more = realloc(p->ids, cap * sizeof *more);
        if (!more)
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        p->ids = more;
        p->cap = cap;
    }
    if (n)
        memcpy(p->ids + p->n, ids, n * sizeof *ids);
    p->n += n;
    return STENO_OK;
}

/* A blank and text without the white space at its ends, as pieces: at most `most`, from the front.
 */
static steno_status encode(const struct steno_whisper *m, const char *text, size_t most,
                           struct pieces *p, steno_err *err)
{
    struct steno_buf b;
    const char *at;
    size_t n, count = 0;
    int32_t *ids = NULL;
    steno_status st;
    if (!text)
        return STENO_OK;
    at = steno_whisper_strip(text, strlen(text), &n);
    steno_buf_init(&b, TEXT_MAX);
    st = steno_buf_puts(&b, " ");
    if (!st)
        st = steno_buf_add(&b, at, n);
    if (st)
        st = steno_fail(err, st, "a prompt of %zu bytes", n);
    if (!st && !(ids = malloc((b.len + 1) * sizeof *ids)))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_bpe_encode(m->bpe, b.data, b.len, ids, b.len, &count, err);
    if (!st)
        st = add_pieces(p, ids, count < most ? count : most, err);
    free(ids);
    steno_buf_free(&b);
    return st;
}

/* The prefix, behind the timestamp that begins a window. */
static steno_status encode_prefix(steno_whisper_recording *j, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!j->o.prefix)
        return STENO_OK;
    if (j->o.times)
        st = add_pieces(&j->prefix, &j->m->special.first_time, 1, err);
    return st ? st : encode(j->m, j->o.prefix, CONTEXT, &j->prefix, err);
}

/* ---- the prompt ---------------------------------------------------------------------------- */

static void put(steno_whisper_recording *j, const int32_t *ids, size_t n)
{
    if (n > PROMPT_MAX - j->n_prompt)
        n = PROMPT_MAX - j->n_prompt;
    if (n)
        memcpy(j->prompt + j->n_prompt, ids, n * sizeof *ids);
    j->n_prompt += n;
}

static void put_one(steno_whisper_recording *j, int32_t id)
{
    put(j, &id, 1);
}

/* The start of a transcript into out [3]; returns its length. */
static size_t put_start(const steno_whisper_recording *j, int32_t *out)
{
    out[0] = j->m->special.sot;
    if (!j->m->special.multilingual)
        return 1;
    out[1] = j->m->special.first_language + (j->language < 0 ? j->heard : j->language);
    out[2] = j->o.translate ? j->m->special.translate : j->m->special.transcribe;
    return 3;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Agreed pieces [*n] of the window, in front of the audio that a partial decodes. */
static const int32_t *before_partial(const steno_whisper_recording *j, size_t *n)
{
    *n = 0;
    return j->phase == HEARING || j->phase == WRITING ? steno_whisper_live_before(j->live, n)
                                                      : NULL;
}

/* Hotwords and what was said before share the room: 223 pieces. faster-whisper gives 223 to each,
 * which the decoder may have no positions for. */
static void put_context(steno_whisper_recording *j, bool with_hotwords)
{
    const size_t hot = with_hotwords ? j->hotwords.n : 0;
    const size_t room = CONTEXT - (hot > j->n_behind ? hot : least(j->n_behind, CONTEXT));
    size_t n = j->context.n - j->context_from, all_before, n_before;
    const int32_t *before = before_partial(j, &all_before);
    if (!n && !hot && !all_before)
        return;
    n_before = least(all_before, room);
    n = least(n, room - n_before);
    put_one(j, j->m->special.sot_prev);
    put(j, j->hotwords.ids, hot);
    put(j, j->context.ids + j->context.n - n, n);
    if (n_before)
        put(j, before + all_before - n_before, n_before);
}

static void make_prompt(steno_whisper_recording *j)
{
    size_t before;
    const bool partial_begins_later = before_partial(j, &before) && before;
    const bool with_prefix = j->prefix.n && j->seek == 0 && !partial_begins_later;
    int32_t start[3];
    j->n_prompt = 0;
    put_context(j, !with_prefix);
    put(j, start, put_start(j, start));
    if (!j->o.times)
        put_one(j, j->m->special.no_times);
}

/* The first window begins with the prefix, as if it had been sampled: the result has it, and the
 * rules count it. Its pieces have log-probability 0. */
static void give_prefix(steno_whisper_recording *j, struct steno_whisper_search_options *o)
{
    static const float certain[STENO_WHISPER_MAX_TEXT];
    o->given = j->prefix.ids;
    o->given_log_probs = certain;
    o->n_given = least(j->prefix.n, CONTEXT);
}

/* ---- cutting a window into segments -------------------------------------------------------- */

static bool is_time(const steno_whisper_recording *j, size_t i)
{
    return j->decoded.ids[i] >= j->m->special.first_time;
}

static double seconds_at(const steno_whisper_recording *j, size_t i)
{
    return (double)j->seek * FRAME + STEP * (j->decoded.ids[i] - j->m->special.first_time);
}

static void add_cut(steno_whisper_recording *j, size_t first, size_t end, double from, double to)
{
    if (j->n_cuts < MAX_SEGMENTS)
        j->cut[j->n_cuts++] =
            (struct cut){.first = first, .n = end - first, .start = from, .end = to};
}

/* One segment of all pieces; its end is the last timestamp, or the window's. */
static void cut_whole(steno_whisper_recording *j)
{
    const double from = (double)j->seek * FRAME;
    double length = (double)j->size * FRAME;
    for (size_t i = j->decoded.n; i-- > 0;) {
        if (!is_time(j, i))
            continue;
        if (j->decoded.ids[i] != j->m->special.first_time)
            length = STEP * (j->decoded.ids[i] - j->m->special.first_time);
        break;
    }
    add_cut(j, 0, j->decoded.n, from, from + length);
}

/* Cut where two timestamps follow each other. Returns the frames to go on by. */
static size_t cut_segments(steno_whisper_recording *j)
{
    const size_t n = j->decoded.n;
    size_t last = 0;
    j->n_cuts = 0;
    j->single_end = n >= 2 && !is_time(j, n - 2) && is_time(j, n - 1);
    for (size_t i = 1; i < n; i++)
        if (is_time(j, i) && is_time(j, i - 1)) {
            add_cut(j, last, i, seconds_at(j, last), seconds_at(j, i - 1));
            last = i;
        }
    if (!last) {
        cut_whole(j);
        return j->size;
    }
    if (j->single_end) {
        add_cut(j, last, n, seconds_at(j, last), seconds_at(j, n - 1));
        return j->size;
    }
    return 2 * (size_t)(j->decoded.ids[last - 1] - j->m->special.first_time);
}

/* ---- words --------------------------------------------------------------------------------- */

static double hundredths(double x)
{
    return rint(x * 100) / 100;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* The first word after a pause, or the first two, are not to reach back into it. */
static void shorten_first(steno_whisper_recording *j, struct steno_whisper_timed *w, size_t n)
{
    const double median = j->words.median, longest = j->words.longest;
    if (w[0].end - j->last_speech <= median * 4 ||
        (w[0].end - w[0].start <= longest && (n < 2 || w[1].end - w[0].start <= longest * 2)))
        return;
    if (n > 1 && w[1].end - w[1].start > longest)
        w[0].end = w[1].start = larger(w[1].end / 2, w[1].end - longest);
    w[0].start = larger(0, w[0].end - longest);
}

/* Whichever of segment and word is less likely to hold a pause gives the time. */
static void settle_ends(steno_whisper_recording *j, struct cut *c,
                        struct steno_whisper_timed *first, struct steno_whisper_timed *last)
{
    if (c->start < first->end && c->start - 0.5 > first->start)
        first->start = larger(0, smaller(first->end - j->words.median, c->start));
    else
        c->start = first->start;
    if (c->end > last->start && c->end + 0.5 < last->end)
        last->end = larger(last->start + j->words.median, c->end);
    else
        c->end = last->end;
    j->last_speech = c->end;
}

/* Words of one segment from number *at on; those without spelling are gone afterwards. */
static void take_words(steno_whisper_recording *j, struct cut *c, size_t *at, size_t *to)
{
    struct steno_whisper_timed *w = j->words.word;
    size_t text = 0, taken = 0;
    for (size_t i = c->first; i < c->first + c->n; i++)
        text += j->decoded.ids[i] < j->m->special.eot;
    c->first_word = *to;
    for (; *at < j->words.n && taken < text; ++*at) {
        struct steno_whisper_timed t = w[*at];
        taken += t.n;
        if (!t.bytes)
            continue;
        t.start = hundredths((double)j->seek * FRAME + t.start);
        t.end = hundredths((double)j->seek * FRAME + t.end);
        w[(*to)++] = t;
    }
    c->n_words = *to - c->first_word;
    if (!c->n_words)
        return;
    shorten_first(j, w + c->first_word, c->n_words);
    settle_ends(j, c, w + c->first_word, w + *to - 1);
}

/* Pieces of text of the window. */
static size_t text_of(const steno_whisper_recording *j, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < j->decoded.n; i++)
        if (j->decoded.ids[i] < j->m->special.eot)
            ids[n++] = j->decoded.ids[i];
    return n;
}

static steno_status ask_alignment(steno_whisper_recording *j, struct steno_whisper_ask *ask,
                                  steno_err *err)
{
    const size_t n = text_of(j, j->text_ids);
    int32_t start[3];
    return steno_whisper_aligner_ask(j->aligner, j->state, start, put_start(j, start), j->text_ids,
                                     n, j->size / 2, ask, err);
}

static steno_status take_alignment(steno_whisper_recording *j, const steno_whisper_runner *net,
                                   const struct steno_whisper_ask *ask, steno_err *err)
{
    struct steno_whisper_alignment a;
    size_t at = 0, to = 0;
    steno_status st = steno_whisper_aligner_take(j->aligner, net, ask, &a, err);
    if (st)
        return st;
    st = steno_whisper_words_make(j->m, &a, j->text_ids, steno_whisper_by_characters(j->language),
                                  &j->words, err);
    steno_whisper_alignment_free(&a);
    for (size_t i = 0; i < j->n_cuts && !st; i++)
        take_words(j, &j->cut[i], &at, &to);
    return st;
}

/* End of the last word; of the last segment where there are none. */
static double end_of_words(const steno_whisper_recording *j)
{
    for (size_t i = j->n_cuts; i-- > 0;)
        if (j->cut[i].n_words)
            return j->words.word[j->cut[i].first_word + j->cut[i].n_words - 1].end;
    return j->cut[j->n_cuts - 1].end;
}

/* The frame behind the last word if more speech follows than a word, else the window's end. */
static size_t seek_unsaid(const steno_whisper_recording *j)
{
    const size_t end = j->seek + j->size, spoken = j->spoken < end ? j->spoken : end;
    const double said = j->n_cuts ? end_of_words(j) * 100 : 0;
    const size_t at = said > 0 ? (size_t)said : 0;
    return at > j->seek && at + UNSAID < spoken ? at : end;
}

/* The frame behind the window's words, unless a timestamp alone says that there is no more. */
static size_t seek_behind_words(steno_whisper_recording *j, size_t seek)
{
    const double end = end_of_words(j);
    j->last_speech = end;
    if (j->o.recover)
        return seek_unsaid(j);
    return j->o.words_move && !j->single_end && end > (double)j->seek * FRAME
               ? (size_t)rint(end * 100)
               : seek;
}

/* ---- windows ------------------------------------------------------------------------------- */

static steno_status start_decoding(steno_whisper_recording *j, steno_err *err)
{
    struct steno_whisper_decode_options o = j->o.decode;
    if (j->forced) {
        const struct steno_whisper_agreement *a = steno_whisper_live_agreement(j->live);
        o.search.given = a->ids;
        o.search.given_log_probs = a->log_probs;
        o.search.n_given = a->agreed;
    } else if (j->seek == 0) {
        give_prefix(j, &o.search);
    }
    j->n_behind = o.search.n_given;
    make_prompt(j);
    j->phase = DECODING;
    return steno_whisper_decoder_start(j->decoder, &o, j->state, j->prompt, j->n_prompt, err);
}

/* The window at seek into the state. */
static steno_status begin_window(steno_whisper_recording *j, steno_whisper_runner *net,
                                 steno_err *err)
{
    struct steno_whisper_window w = {.rows = (size_t)j->m->dims.audio_ctx,
                                     .floor = steno_whisper_mel_floor(j->mel)};
    const size_t left = steno_whisper_mel_frames(j->mel) - j->seek, most = 2 * w.rows;
    steno_status st;
    j->n_cuts = j->n_read = 0;
    if (j->live)
        steno_whisper_live_join(j->live);
    j->size = left < WINDOW ? left : WINDOW;
    j->size = j->size < most ? j->size : most;
    w.mel = steno_whisper_mel_at(j->mel, j->seek, &w.n);
    w.n = j->size;
    st = steno_whisper_encode(net, j->state, &w, err);
    if (st)
        return st;
    if (j->language >= 0)
        return start_decoding(j, err);
    j->phase = DETECTING;
    return STENO_OK;
}

/* Pieces that partials of the window agree on. */
static size_t agreed_of(const steno_whisper_recording *j)
{
    return j->live ? steno_whisper_live_agreement(j->live)->agreed : 0;
}

/* faster-whisper detects the language with the frame of padding behind the recording, and decodes
 * without it. A window is encoded for both at once, so there is no such frame; where two languages
 * are close, it may decide which is first. */
static bool has_padding(const steno_whisper_recording *j)
{
    size_t there;
    (void)steno_whisper_mel_at(j->mel, j->seek, &there);
    return there > j->size && j->size < WINDOW && j->size < 2 * (size_t)j->m->dims.audio_ctx;
}

static steno_status encode_padded(steno_whisper_recording *j, steno_whisper_runner *net,
                                  steno_err *err)
{
    struct steno_whisper_window w = {.rows = (size_t)j->m->dims.audio_ctx,
                                     .floor = steno_whisper_mel_floor(j->mel)};
    w.mel = steno_whisper_mel_at(j->mel, j->seek, &w.n);
    w.n = j->size + 1;
    return steno_whisper_encode(net, j->state, &w, err);
}

/* Segments with a text and a length are added to what was said; where partials have agreed on text
 * already, those without a length too. */
static steno_status keep_segments(steno_whisper_recording *j, steno_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->n_cuts; i++) {
        const struct cut c = j->cut[i];
        size_t n;
        steno_status st;
        steno_buf_cut(&j->text, 0);
        st = steno_bpe_text(j->m->bpe, j->decoded.ids + c.first, c.n, &j->text);
        if (st)
            return steno_fail(err, st, "out of memory for text");
        (void)steno_whisper_strip(j->text.data ? j->text.data : "", j->text.len, &n);
        if (!n || (c.start == c.end && !agreed_of(j)))
            continue;
        st = add_pieces(&j->context, j->decoded.ids + c.first, c.n, err);
        if (st)
            return st;
        j->cut[kept++] = c;
    }
    j->n_cuts = kept;
    return STENO_OK;
}

/* The context is for CONTEXT pieces: older ones go. */
static void forget_context(steno_whisper_recording *j)
{
    struct pieces *p = &j->context;
    if (!j->o.condition || j->decoded.temperature > j->o.condition_reset)
        j->context_from = p->n;
    if (p->n - j->context_from > CONTEXT)
        j->context_from = p->n - CONTEXT;
    if (j->context_from) {
        p->n -= j->context_from;
        memmove(p->ids, p->ids + j->context_from, p->n * sizeof *p->ids);
        j->context_from = 0;
    }
}

/* Number of pieces in the window's segments. */
static size_t pieces_of_cuts(const steno_whisper_recording *j)
{
    return j->n_cuts ? j->cut[j->n_cuts - 1].first + j->cut[j->n_cuts - 1].n : 0;
}

/* Whether the result begins with the text that partials agree on. Agreed text behind the last
 * segment belongs to the next window. */
static bool keeps_agreed(const steno_whisper_recording *j)
{
    const struct steno_whisper_agreement *a;
    size_t used;
    if (!agreed_of(j))
        return true;
    a = steno_whisper_live_agreement(j->live);
    return steno_whisper_agreement_kept(a, j->decoded.ids, pieces_of_cuts(j), &used) &&
           (j->next_seek < j->seek + j->size || used == steno_whisper_agreement_text(a));
}

/* The window is finished: partials of the next one begin. */
static void end_partials(steno_whisper_recording *j)
{
    struct steno_whisper_agreement *a;
    size_t used;
    j->forced = false;
    if (!j->live)
        return;
    a = steno_whisper_live_agreement(j->live);
    (void)steno_whisper_agreement_kept(a, j->decoded.ids, pieces_of_cuts(j), &used);
    steno_whisper_agreement_move(a, used);
    steno_whisper_live_next_window(j->live);
}

/* Decode the window again, behind the agreed text. */
static steno_status force(steno_whisper_recording *j, steno_err *err)
{
    j->forced = true;
    j->n_forced++;
    return start_decoding(j, err);
}

static steno_status finish_window(steno_whisper_recording *j, size_t next, steno_err *err)
{
    steno_status st = keep_segments(j, err);
    forget_context(j);
    end_partials(j);
    j->next_seek = next > j->seek ? next : j->seek + j->size; /* never the same window again */
    j->phase = LISTENING;
    j->windows++;
    return st;
}

/* Its pieces are there. */
static steno_status take_window(steno_whisper_recording *j, steno_err *err)
{
    int32_t ids[STENO_WHISPER_MAX_TEXT];
    j->decoded = *steno_whisper_decoder_result(j->decoder);
    if (!j->forced && steno_whisper_decoded_silent(&j->o.decode, &j->decoded)) {
        if (agreed_of(j))
            return force(j, err);
        end_partials(j);
        j->phase = LISTENING;
        j->next_seek = j->seek + j->size;
        j->windows++;
        return STENO_OK;
    }
    j->next_seek = j->seek + cut_segments(j);
    if (!j->forced && !keeps_agreed(j))
        return force(j, err);
    if (!j->o.words)
        return finish_window(j, j->next_seek, err);
    steno_whisper_words_free(&j->words);
    for (size_t i = 0; i < j->n_cuts; i++)
        j->cut[i].n_words = 0;
    if (!text_of(j, ids))
        return finish_window(j, seek_behind_words(j, j->next_seek), err);
    j->phase = ALIGNING;
    return STENO_OK;
}

/* ---- languages ----------------------------------------------------------------------------- */

struct guess {
    int language;
    float probability, second; /* second: of the next best language */
};

static struct guess best_language(const steno_whisper_recording *j,
                                  const struct steno_whisper_ask *ask)
{
    const size_t n = (size_t)j->m->special.n_languages;
    float p[MAX_LANGUAGES];
    struct guess g = {0};
    j->m->kernels.softmax_f32(p, ask->logits + j->m->special.first_language, 1, n);
    g.probability = p[0];
    for (size_t i = 1; i < n; i++) {
        if (p[i] > g.probability)
            g = (struct guess){(int)i, p[i], g.probability};
        else if (p[i] > g.second)
            g.second = p[i];
    }
    return g;
}

static steno_status take_language(steno_whisper_recording *j, const struct steno_whisper_ask *ask,
                                  steno_err *err)
{
    const struct guess g = best_language(j, ask);
    const bool doubted = j->phase == DOUBTING;
    if (!doubted && g.second >= DOUBT * g.probability && has_padding(j)) {
        j->phase = DOUBTING;
        return STENO_OK;
    }
    j->language = g.language;
    j->language_probability = g.probability;
    if (!doubted)
        return start_decoding(j, err);
    j->phase = LISTENING; /* the window begins again, without the padding */
    return STENO_OK;
}

static steno_status choose_language(steno_whisper_recording *j, steno_err *err)
{
    const struct steno_whisper_specials *s = &j->m->special;
    const char *code = steno_language_code_at(j->o.language);
    j->language = j->o.language;
    j->language_probability = 1;
    if (j->language >= s->n_languages || (!s->multilingual && j->language > 0))
        return steno_fail(err, STENO_ERR_INVAL, "language '%s': the model knows %s",
                          code ? code : "?", s->multilingual ? "99 others" : "English alone");
    if (!s->multilingual && j->o.translate)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "a model for English alone translates nothing");
    if (!s->multilingual)
        j->language = 0;
    return STENO_OK;
}

int steno_whisper_recording_language(const steno_whisper_recording *r, float *probability)
{
    *probability = r->language_probability;
    return r->language;
}

/* ---- recordings ---------------------------------------------------------------------------- */

static steno_status open_parts(steno_whisper_recording *j, steno_err *err)
{
    const struct steno_whisper *m = j->m;
    steno_status st = choose_language(j, err);
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
        st = encode(m, j->o.hotwords, CONTEXT, &j->hotwords, err);
    if (!st)
        st = encode_prefix(j, err);
    if (!st)
        st = encode(m, j->o.prompt, TEXT_MAX, &j->prompt_text, err);
    return st ? st : add_pieces(&j->context, j->prompt_text.ids, j->prompt_text.n, err);
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
    j->heard = -1;
    j->spoken = SIZE_MAX;
    steno_buf_init(&j->text, TEXT_MAX);
    st = open_parts(j, err);
    if (st)
        steno_whisper_recording_close(j);
    else
        *out = j;
    return st;
}

steno_status steno_whisper_recording_follow(steno_whisper_recording *r, const int32_t *ids,
                                            size_t n, steno_err *err)
{
    r->context.n = r->context_from = 0;
    return add_pieces(&r->context, ids, n, err);
}

const int32_t *steno_whisper_recording_context(const steno_whisper_recording *r, size_t *n)
{
    *n = least(r->context.n - r->context_from, CONTEXT);
    return *n ? r->context.ids + r->context.n - *n : NULL;
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
    free(j->context.ids);
    free(j->hotwords.ids);
    free(j->prefix.ids);
    free(j->out);
    free(j);
}

steno_status steno_whisper_recording_restart(steno_whisper_recording *r, int language,
                                             steno_err *err)
{
    steno_status st;
    r->o.language = language;
    r->phase = LISTENING;
    r->ended = r->single_end = false;
    r->context.n = r->context_from = 0;
    r->last_speech = 0;
    r->spoken = SIZE_MAX;
    r->heard = -1;
    r->windows = r->seek = r->size = r->next_seek = 0;
    r->n_cuts = r->n_read = 0;
    steno_whisper_mel_restart(r->mel);
    st = choose_language(r, err);
    return st ? st : add_pieces(&r->context, r->prompt_text.ids, r->prompt_text.n, err);
}

steno_status steno_whisper_recording_push(steno_whisper_recording *r, const float *pcm, size_t n,
                                          steno_err *err)
{
    return steno_whisper_mel_push(r->mel, pcm, n, err);
}

steno_status steno_whisper_recording_end(steno_whisper_recording *r, steno_err *err)
{
    r->ended = true;
    if (r->phase == HEARING || r->phase == WRITING)
        r->phase = LISTENING;
    return steno_whisper_mel_end(r->mel, err);
}

void steno_whisper_recording_set_speech(steno_whisper_recording *r, size_t end)
{
    r->spoken = (end + STENO_WHISPER_HOP - 1) / STENO_WHISPER_HOP;
}

bool steno_whisper_recording_ready(const steno_whisper_recording *r)
{
    const size_t frames = steno_whisper_mel_frames(r->mel);
    if (r->phase != LISTENING)
        return true;
    if (r->windows && r->next_seek + SPEECH_MIN > r->spoken)
        return false;
    return r->ended ? r->next_seek < frames : r->next_seek + WINDOW <= frames;
}

size_t steno_whisper_recording_windows(const steno_whisper_recording *r)
{
    return r->windows;
}

const struct steno_whisper_decoded *
steno_whisper_recording_window(const steno_whisper_recording *r, const int32_t **prompt, size_t *n)
{
    *prompt = r->prompt;
    *n = r->n_prompt;
    return &r->decoded;
}

/* ---- partials ------------------------------------------------------------------------------ */

static size_t growing_frames(const steno_whisper_recording *r)
{
    const size_t frames = steno_whisper_mel_frames(r->mel);
    return frames > r->next_seek ? frames - r->next_seek : 0;
}

/* Whether the prompt, and what the last partial wrote, leave the decoder room. */
static bool has_room(const steno_whisper_recording *r)
{
    const struct steno_whisper_agreement *a = steno_whisper_live_agreement(r->live);
    const size_t text = a->n;
    return a->agreed + 1 < STENO_WHISPER_MAX_TEXT &&
           r->hotwords.n + r->prefix.n + text + PROMPT_ROOM < (size_t)r->m->dims.text_ctx;
}

/* The first window's text begins with the prefix. */
static void begin_with_prefix(steno_whisper_recording *r)
{
    struct steno_whisper_agreement *a = steno_whisper_live_agreement(r->live);
    size_t before;
    (void)steno_whisper_live_before(r->live, &before);
    if (a->n || before || !r->prefix.n)
        return;
    a->n = a->agreed = least(r->prefix.n, CONTEXT);
    memcpy(a->ids, r->prefix.ids, a->n * sizeof *a->ids);
    memset(a->log_probs, 0, a->n * sizeof *a->log_probs);
}

steno_status steno_whisper_recording_partial(steno_whisper_recording *r, steno_err *err)
{
    steno_status st = STENO_OK;
    if (steno_whisper_recording_ready(r) || r->ended || !growing_frames(r))
        return STENO_OK;
    if (!r->live)
        st = steno_whisper_live_open(&r->live, r->m, err);
    if (st || !has_room(r))
        return st;
    r->seek = r->next_seek;
    if (r->seek == 0)
        begin_with_prefix(r);
    r->n_cuts = r->n_read = 0;
    r->encoded = false;
    r->phase =
        r->language >= 0 || (r->heard >= 0 && growing_frames(r) > HEARD_FRAMES) ? WRITING : HEARING;
    return STENO_OK;
}

struct steno_whisper_partial steno_whisper_recording_hypothesis(const steno_whisper_recording *r)
{
    struct steno_whisper_partial p = {.start = (double)r->next_seek * FRAME,
                                      .end = (double)(r->next_seek + growing_frames(r)) * FRAME};
    if (r->live)
        p.ids = steno_whisper_live_hypothesis(r->live, &p.log_probs, &p.n, &p.agreed);
    return p;
}

size_t steno_whisper_recording_forced(const steno_whisper_recording *r)
{
    return r->n_forced;
}

static steno_status start_partial(steno_whisper_recording *j, steno_err *err)
{
    j->n_behind = steno_whisper_live_agreement(j->live)->n;
    make_prompt(j);
    return steno_whisper_live_start(j->live, j->prompt, j->n_prompt, err);
}

static steno_status encode_partial(steno_whisper_recording *j, steno_whisper_runner *net,
                                   steno_err *err)
{
    struct steno_whisper_live_window w = {.floor = steno_whisper_mel_floor(j->mel),
                                          .o = &j->o.decode};
    steno_status st;
    w.mel = steno_whisper_mel_at(j->mel, j->seek, &w.n);
    w.n = least(growing_frames(j), 2 * (size_t)j->m->dims.audio_ctx);
    w.by_characters = steno_whisper_by_characters(j->language < 0 ? j->heard : j->language);
    st = steno_whisper_live_encode(j->live, net, j->state, &w, err);
    j->encoded = !st;
    return st || j->phase == HEARING ? st : start_partial(j, err);
}

static void ask_language(const steno_whisper_recording *j, struct steno_whisper_ask *ask)
{
    static const size_t first = 0;
    *ask = (struct steno_whisper_ask){
        .state = j->state, .token = &j->m->special.sot, .n = 1, .pick = &first, .n_pick = 1};
}

static steno_status ask_partial(steno_whisper_recording *j, steno_whisper_runner *net,
                                struct steno_whisper_ask *ask, steno_err *err)
{
    steno_status st = j->encoded ? STENO_OK : encode_partial(j, net, err);
    if (st)
        return st;
    if (j->phase == HEARING) {
        ask_language(j, ask);
        return STENO_OK;
    }
    return steno_whisper_live_ask(j->live, ask)
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INTERNAL, "a partial without a step");
}

static steno_status take_partial(steno_whisper_recording *j, const struct steno_whisper_ask *ask,
                                 steno_err *err)
{
    struct steno_whisper_ask more;
    bool again = false;
    steno_status st;
    if (j->phase == HEARING) {
        j->heard = best_language(j, ask).language;
        j->phase = WRITING;
        return start_partial(j, err);
    }
    st = steno_whisper_live_take(j->live, ask, &again, err);
    if (again)
        j->encoded = false;
    else if (st || !steno_whisper_live_ask(j->live, &more))
        j->phase = LISTENING;
    return st;
}

/* ---- steps --------------------------------------------------------------------------------- */

static steno_status ask_one(steno_whisper_recording *j, steno_whisper_runner *net,
                            struct steno_whisper_ask *ask, steno_err *err)
{
    if (j->phase == LISTENING) {
        steno_status st;
        j->seek = j->next_seek;
        steno_whisper_mel_drop(j->mel, j->seek);
        st = begin_window(j, net, err);
        if (st)
            return st;
    }
    if (j->phase == ALIGNING)
        return ask_alignment(j, ask, err);
    if (j->phase == DECODING)
        return steno_whisper_decoder_ask(j->decoder, ask)
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_INTERNAL, "a search without a step");
    if (j->phase == DOUBTING) {
        const steno_status st = encode_padded(j, net, err);
        if (st)
            return st;
    }
    if (j->phase != DETECTING && j->phase != DOUBTING)
        return ask_partial(j, net, ask, err);
    ask_language(j, ask);
    return STENO_OK;
}

static steno_status take_one(steno_whisper_recording *j, const steno_whisper_runner *net,
                             const struct steno_whisper_ask *ask, steno_err *err)
{
    struct steno_whisper_ask more;
    steno_status st;
    switch (j->phase) {
    case DETECTING:
    case DOUBTING:
        return take_language(j, ask, err);
    case HEARING:
    case WRITING:
        return take_partial(j, ask, err);
    case ALIGNING:
        st = take_alignment(j, net, ask, err);
        return st ? st : finish_window(j, seek_behind_words(j, j->next_seek), err);
    default:
        st = steno_whisper_decoder_take(j->decoder, ask, err);
        return st || steno_whisper_decoder_ask(j->decoder, &more) ? st : take_window(j, err);
    }
}

void steno_whisper_recordings_step(steno_whisper_runner *net, steno_whisper_recording *const *r,
                                   size_t n, steno_status *st, steno_err *err)
{
    struct steno_whisper_ask ask[STENO_WHISPER_BATCH];
    size_t of[STENO_WHISPER_BATCH], asks = 0;
    steno_err why = {0};
    steno_status run = STENO_OK;
    bool encoded = false;
    for (size_t i = 0; i < n; i++) {
        const bool begins = r[i]->phase == LISTENING || r[i]->phase == DOUBTING;
        st[i] = STENO_OK;
        if (begins && encoded)
            continue;
        encoded |= begins;
        st[i] = ask_one(r[i], net, &ask[asks], err ? &err[i] : NULL);
        if (!st[i])
            of[asks++] = i;
    }
    if (asks)
        run = steno_whisper_step(net, ask, asks, &why);
    for (size_t i = 0; i < asks; i++) {
        steno_err *e = err ? &err[of[i]] : NULL;
        st[of[i]] = run ? steno_fail(e, run, "%s", why.msg) : take_one(r[of[i]], net, &ask[i], e);
    }
}

/* ---- results ------------------------------------------------------------------------------- */

/* The text of the segment, then the spellings of its words, each terminated. */
static steno_status write_texts(steno_whisper_recording *j, const struct cut *c, size_t *words)
{
    const struct steno_whisper_timed *t = j->words.word + c->first_word;
    steno_status st;
    steno_buf_cut(&j->text, 0);
    st = steno_bpe_text(j->m->bpe, j->decoded.ids + c->first, c->n, &j->text);
    if (!st)
        st = steno_buf_add(&j->text, "", 1);
    *words = j->text.len;
    for (size_t i = 0; i < c->n_words && !st; i++) {
        st = steno_buf_add(&j->text, j->words.text.data + t[i].text, t[i].bytes);
        if (!st)
            st = steno_buf_add(&j->text, "", 1);
    }
    if (st)
        return st;
    free(j->out);
    j->out = calloc(c->n_words + 1, sizeof *j->out);
    return j->out ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_whisper_recording_next(steno_whisper_recording *j,
                                          struct steno_whisper_segment *out)
{
    const struct cut *c = &j->cut[j->n_read];
    const struct steno_whisper_timed *t = j->words.word ? j->words.word + c->first_word : NULL;
    size_t at;
    steno_status st;
    if (j->phase != LISTENING || j->n_read == j->n_cuts)
        return STENO_NEED_MORE;
    st = write_texts(j, c, &at);
    if (st)
        return st;
    j->n_read++;
    for (size_t i = 0; i < c->n_words; at += t[i++].bytes + 1)
        j->out[i] = (struct steno_whisper_word){.text = j->text.data + at,
                                                .n_ids = t[i].n,
                                                .start = t[i].start,
                                                .end = t[i].end,
                                                .probability = t[i].probability};
    *out = (struct steno_whisper_segment){.seek = j->seek,
                                          .start = c->start,
                                          .end = c->end,
                                          .text = j->text.data,
                                          .ids = j->decoded.ids + c->first,
                                          .log_probs = j->decoded.log_probs + c->first,
                                          .n_ids = c->n,
                                          .words = j->out,
                                          .n_words = c->n_words};
    return STENO_OK;
}
