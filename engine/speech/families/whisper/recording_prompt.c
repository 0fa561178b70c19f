#include "speech/families/whisper/recording_internal.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

steno_status steno_whisper_pieces_add(struct steno_whisper_pieces *p, const int32_t *ids, size_t n,
                                      steno_err *err)
{
    if (STENO_RESERVE(&p->ids, &p->cap, p->n + n))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (n)
        memcpy(p->ids + p->n, ids, n * sizeof *ids);
    p->n += n;
    return STENO_OK;
}

steno_status steno_whisper_pieces_encode(const struct steno_whisper *m, const char *text,
                                         size_t most, struct steno_whisper_pieces *p,
                                         steno_err *err)
{
    struct steno_buf b;
    const char *at;
    size_t n, count = 0;
    int32_t *ids = NULL;
    steno_status st;
    if (!text)
        return STENO_OK;
    at = steno_whisper_strip(text, strlen(text), &n);
    steno_buf_init(&b, STENO_WHISPER_TEXT_BYTES);
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
        st = steno_whisper_pieces_add(p, ids, count < most ? count : most, err);
    free(ids);
    steno_buf_free(&b);
    return st;
}

steno_status steno_whisper_prompt_encode_prefix(steno_whisper_recording *j, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!j->o.prefix)
        return STENO_OK;
    if (j->o.times)
        st = steno_whisper_pieces_add(&j->prefix, &j->m->special.first_time, 1, err);
    return st ? st
              : steno_whisper_pieces_encode(j->m, j->o.prefix, STENO_WHISPER_CONTEXT, &j->prefix,
                                            err);
}

steno_status steno_whisper_recording_follow(steno_whisper_recording *r, const int32_t *ids,
                                            size_t n, steno_err *err)
{
    r->at.context.n = 0;
    return steno_whisper_pieces_add(&r->at.context, ids, n, err);
}

const int32_t *steno_whisper_recording_context(const steno_whisper_recording *r, size_t *n)
{
    *n = steno_whisper_least(r->at.context.n, STENO_WHISPER_CONTEXT);
    return *n ? r->at.context.ids + r->at.context.n - *n : NULL;
}

void steno_whisper_prompt_forget(steno_whisper_recording *j)
{
    struct steno_whisper_pieces *p = &j->at.context;
    const size_t n = steno_whisper_least(p->n, STENO_WHISPER_CONTEXT);
    if (!j->o.condition || j->decoded.temperature > j->o.condition_reset) {
        p->n = 0;
    } else if (n < p->n) {
        memmove(p->ids, p->ids + p->n - n, n * sizeof *p->ids);
        p->n = n;
    }
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static void put_recording_prompt(steno_whisper_recording *j, const int32_t *ids, size_t n)
{
    if (n > STENO_WHISPER_PROMPT_MAX - j->n_prompt)
        n = STENO_WHISPER_PROMPT_MAX - j->n_prompt;
    if (n)
        memcpy(j->prompt + j->n_prompt, ids, n * sizeof *ids);
    j->n_prompt += n;
}

static void put_one(steno_whisper_recording *j, int32_t id)
{
    put_recording_prompt(j, &id, 1);
}

size_t steno_whisper_prompt_start(const steno_whisper_recording *j, int32_t *out)
{
    out[0] = j->m->special.sot;
    if (!j->m->special.multilingual)
        return 1;
    out[1] = j->m->special.first_language + (j->at.language < 0 ? j->at.heard : j->at.language);
    out[2] = j->o.translate ? j->m->special.translate : j->m->special.transcribe;
    return 3;
}

/* Agreed pieces [*n] of the window, in front of the audio that a partial decodes. */
static const int32_t *before_partial(const steno_whisper_recording *j, size_t *n)
{
    *n = 0;
    return j->phase == STENO_WHISPER_HEARING || j->phase == STENO_WHISPER_WRITING
               ? steno_whisper_live_before(j->live, n)
               : NULL;
}

/* Hotwords and what was said before share the room: 223 pieces. faster-whisper gives 223 to each,
 * which the decoder may have no positions for. */
static void put_context(steno_whisper_recording *j, bool with_hotwords)
{
    const size_t hot = with_hotwords ? j->hotwords.n : 0;
    const size_t room =
        STENO_WHISPER_CONTEXT -
        (hot > j->n_behind ? hot : steno_whisper_least(j->n_behind, STENO_WHISPER_CONTEXT));
    size_t n = j->at.context.n, all_before, n_before;
    const int32_t *before = before_partial(j, &all_before);
    if (!n && !hot && !all_before)
        return;
    n_before = steno_whisper_least(all_before, room);
    n = steno_whisper_least(n, room - n_before);
    put_one(j, j->m->special.sot_prev);
    put_recording_prompt(j, j->hotwords.ids, hot);
    put_recording_prompt(j, j->at.context.ids + j->at.context.n - n, n);
    if (n_before)
        put_recording_prompt(j, before + all_before - n_before, n_before);
}

void steno_whisper_prompt_make(steno_whisper_recording *j)
{
    size_t before;
    const bool partial_begins_later = before_partial(j, &before) && before;
    const bool with_prefix = j->prefix.n && j->at.seek == 0 && !partial_begins_later;
    int32_t start[3];
    j->n_prompt = 0;
    put_context(j, !with_prefix);
    put_recording_prompt(j, start, steno_whisper_prompt_start(j, start));
    if (!j->o.times)
        put_one(j, j->m->special.no_times);
}

void steno_whisper_prompt_give_prefix(steno_whisper_recording *j,
                                      struct steno_whisper_search_options *o)
{
    static const float certain[STENO_WHISPER_MAX_TEXT];
    o->given = j->prefix.ids;
    o->given_log_probs = certain;
    o->n_given = steno_whisper_least(j->prefix.n, STENO_WHISPER_CONTEXT);
}
