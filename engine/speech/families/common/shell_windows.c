/* The shell of families by windows: the search of a stream, and an encoder with states. */
#include <string.h>

#include "speech/families/common/shell.h"

/* ---- the search ------------------------------------------------------------------------------ */

steno_status steno_shell_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                    size_t *n, size_t *stable)
{
    return steno_token_search_list(&((struct steno_shell_stream *)state)->search, out, max, n,
                                   stable);
}

steno_status steno_shell_consume(void *state, bool *left)
{
    return steno_token_search_consume(&((struct steno_shell_stream *)state)->search, left);
}

int64_t steno_shell_frames(const void *state)
{
    return steno_token_search_frames(&((const struct steno_shell_stream *)state)->search);
}

int64_t steno_shell_last_sound(const void *state)
{
    return steno_token_search_last_sound(&((const struct steno_shell_stream *)state)->search);
}

size_t steno_shell_n_tokens(const void *state)
{
    return steno_token_search_n_tokens(&((const struct steno_shell_stream *)state)->search);
}

steno_status steno_shell_reset_search(void *state, enum steno_reset what)
{
    struct steno_token_search *s = &((struct steno_shell_stream *)state)->search;
    return what == STENO_RESET_RECORDING ? steno_token_search_restart(s, 0)
                                         : steno_token_search_reset(s);
}

/* ---- an encoder with states ------------------------------------------------------------------ */

steno_status steno_shell_try_encoder(struct steno_shell_model *m,
                                     const struct steno_cached_encoder_reader *r, bool leads,
                                     const char *file, steno_err *err)
{
    struct steno_cached_encoder_reader reader = *r;
    void *w = NULL;
    steno_status st = steno_shell_worker_open(&w, m, 2, err);
    steno_cached_encoder_batch *batch = st ? NULL : ((struct steno_shell_worker *)w)->batch;
    reader.arg = w;
    if (!st)
        st = steno_cached_encoder_try(&m->encoder, batch, &reader, err);
    if (!st && leads)
        st = steno_cached_encoder_lead_in(&m->encoder, batch, err);
    steno_shell_worker_close(w);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, file) : STENO_OK;
}

steno_status steno_shell_make_quiet(struct steno_shell_model *m, int64_t frames, int32_t vocab,
                                    steno_err *err)
{
    m->quiet = steno_ctc_quiet(frames, vocab, m->blank);
    return m->quiet ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", m->dir);
}

steno_status steno_shell_encoder_trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_cached_encoder_trial_open(trial, ((struct steno_shell_worker *)worker)->batch,
                                           err);
}

steno_status steno_shell_step_encoder(void *worker, struct steno_step_item *items, size_t n,
                                      int size, struct steno_network_time *spent, const float **y)
{
    const struct steno_shell_model *m = ((struct steno_shell_worker *)worker)->model;
    steno_cached_encoder_batch *batch = ((struct steno_shell_worker *)worker)->batch;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        memcpy(steno_cached_encoder_batch_x(batch, (int)i), items[i].window,
               steno_cached_encoder_window(&m->encoder) * sizeof *items[i].window);
        state[i] = &((struct steno_shell_stream *)items[i].state)->encoder;
    }
    steno_network_time_begin(spent);
    st = steno_cached_encoder_batch_step(batch, state, (int)n, size, y, &why);
    steno_network_time_end(spent);
    for (size_t i = 0; i < n; i++) {
        items[i].st = st;
        if (st && items[i].err)
            *items[i].err = why;
    }
    return st;
}

/* ---- whose frames are the scores of CTC ------------------------------------------------------ */

steno_status steno_shell_reset_ctc(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_shell_stream *s = state;
    (void)err;
    s->encoder.fresh = s->encoder.fresh || what == STENO_RESET_RECORDING;
    return steno_shell_reset_search(state, what);
}

steno_status steno_shell_skip_ctc(void *state)
{
    struct steno_shell_stream *s = state;
    const struct steno_shell_model *m = s->model;
    steno_token_search_give(&s->search, m->quiet, (size_t)m->encoder.shape.frames);
    return STENO_OK;
}

void steno_shell_step_ctc(void *worker, struct steno_step_item *items, size_t n, int size,
                          struct steno_network_time *spent)
{
    const struct steno_shell_model *m = ((struct steno_shell_worker *)worker)->model;
    const struct steno_cached_encoder_shape *e = &m->encoder.shape;
    const float *y = NULL;
    const bool ran = !steno_shell_step_encoder(worker, items, n, size, spent, &y);
    for (size_t i = 0; i < n; i++)
        steno_token_search_give(&((struct steno_shell_stream *)items[i].state)->search,
                                ran ? y + (int64_t)i * e->frames * e->width : NULL,
                                ran ? (size_t)e->frames : 0);
}
