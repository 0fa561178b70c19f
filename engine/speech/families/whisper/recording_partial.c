#include "speech/families/whisper/recording_internal.h"

#include <string.h>

#define PROMPT_ROOM 16   /* pieces: the start of a transcript, and a few new ones */
#define HEARD_FRAMES 500 /* with more audio partials do not detect the language again */

static size_t growing_frames(const steno_whisper_recording *r)
{
    const size_t frames = steno_whisper_mel_frames(r->mel);
    return frames > r->at.next_seek ? frames - r->at.next_seek : 0;
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
    a->n = a->agreed = steno_whisper_least(r->prefix.n, STENO_WHISPER_CONTEXT);
    memcpy(a->ids, r->prefix.ids, a->n * sizeof *a->ids);
    memset(a->log_probs, 0, a->n * sizeof *a->log_probs);
}

steno_status steno_whisper_recording_partial(steno_whisper_recording *r, bool glance,
                                             steno_err *err)
{
    const bool heard =
        r->at.language >= 0 || (r->at.heard >= 0 && (glance || growing_frames(r) > HEARD_FRAMES));
    steno_status st = STENO_OK;
    if (steno_whisper_recording_ready(r) || r->ended || !growing_frames(r) || (glance && !heard))
        return STENO_OK;
    if (!r->live)
        st = steno_whisper_live_open(&r->live, r->m, r->o.every_guess ? NULL : r->aligner, err);
    if (st || !has_room(r))
        return st;
    steno_whisper_live_begin(r->live, glance);
    if (!r->o.every_guess)
        steno_whisper_state_keep_keys(r->state);
    r->at.seek = r->at.next_seek;
    if (r->at.seek == 0)
        begin_with_prefix(r);
    r->n_cuts = r->n_read = 0;
    r->encoded = false;
    r->phase = heard ? STENO_WHISPER_WRITING : STENO_WHISPER_HEARING;
    return STENO_OK;
}

struct steno_whisper_partial steno_whisper_recording_hypothesis(const steno_whisper_recording *r)
{
    struct steno_whisper_partial p = {.start = (double)r->at.next_seek * STENO_WHISPER_FRAME_S,
                                      .end = (double)(r->at.next_seek + growing_frames(r)) *
                                             STENO_WHISPER_FRAME_S};
    if (r->live)
        p.ids = steno_whisper_live_hypothesis(r->live, &p.log_probs, &p.n, &p.agreed);
    return p;
}

static steno_status start_partial(steno_whisper_recording *j, steno_err *err)
{
    j->n_behind = steno_whisper_live_agreement(j->live)->n;
    steno_whisper_prompt_make(j);
    return steno_whisper_live_start(j->live, j->prompt, j->n_prompt, err);
}

static steno_status encode_partial(steno_whisper_recording *j, steno_whisper_runner *net,
                                   steno_err *err)
{
    struct steno_whisper_live_window w = {.floor = steno_whisper_mel_floor(j->mel),
                                          .o = &j->o.decode};
    steno_status st;
    w.mel = steno_whisper_mel_at(j->mel, j->at.seek, &w.n);
    w.n = steno_whisper_least(growing_frames(j), 2 * (size_t)j->m->dims.audio_ctx);
    w.by_characters =
        steno_whisper_by_characters(j->at.language < 0 ? j->at.heard : j->at.language);
    st = steno_whisper_live_encode(j->live, net, j->state, &w, err);
    j->encoded = !st;
    return st || j->phase == STENO_WHISPER_HEARING ? st : start_partial(j, err);
}

steno_status steno_whisper_partial_ask(steno_whisper_recording *j, steno_whisper_runner *net,
                                       struct steno_whisper_ask *ask, steno_err *err)
{
    steno_status st = j->encoded ? STENO_OK : encode_partial(j, net, err);
    if (st)
        return st;
    if (j->phase == STENO_WHISPER_HEARING) {
        steno_whisper_language_ask(j, ask);
        return STENO_OK;
    }
    return steno_whisper_live_ask(j->live, ask)
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INTERNAL, "a partial without a step");
}

steno_status steno_whisper_partial_take(steno_whisper_recording *j, steno_whisper_runner *net,
                                        const struct steno_whisper_ask *ask, steno_err *err)
{
    struct steno_whisper_ask more;
    bool again = false;
    steno_status st;
    if (j->phase == STENO_WHISPER_HEARING) {
        j->at.heard = steno_whisper_language_keep(j, steno_whisper_language_best(j, ask)).language;
        j->phase = STENO_WHISPER_WRITING;
        return start_partial(j, err);
    }
    st = steno_whisper_live_take(j->live, net, ask, &again, err);
    if (again)
        j->encoded = false;
    else if (st || !steno_whisper_live_ask(j->live, &more))
        j->phase = STENO_WHISPER_LISTENING;
    return st;
}

/* ---- the window when it is full -------------------------------------------------------------- */

size_t steno_whisper_partial_agreed(const steno_whisper_recording *j)
{
    return j->live ? steno_whisper_live_agreement(j->live)->agreed : 0;
}

bool steno_whisper_partial_kept(const steno_whisper_recording *j)
{
    const struct steno_whisper_agreement *a;
    size_t used;
    if (!steno_whisper_partial_agreed(j))
        return true;
    a = steno_whisper_live_agreement(j->live);
    return steno_whisper_agreement_kept(a, j->decoded.ids, steno_whisper_segments_pieces(j),
                                        &used) &&
           (j->at.next_seek < j->at.seek + j->at.size || used == steno_whisper_agreement_text(a));
}

void steno_whisper_partial_end_window(steno_whisper_recording *j)
{
    struct steno_whisper_agreement *a;
    size_t used;
    j->forced = false;
    if (!j->live)
        return;
    a = steno_whisper_live_agreement(j->live);
    (void)steno_whisper_agreement_kept(a, j->decoded.ids, steno_whisper_segments_pieces(j), &used);
    steno_whisper_agreement_move(a, used);
    steno_whisper_live_next_window(j->live);
}
