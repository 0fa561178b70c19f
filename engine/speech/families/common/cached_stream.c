#include "speech/families/common/cached_stream.h"

#include <string.h>

void steno_cached_stream_close(void *stream)
{
    steno_cached_encoder_state_free(&((struct steno_cached_stream *)stream)->encoder);
}

steno_status steno_cached_worker_open(void *worker, const struct steno_cached_encoder *e, int max,
                                      steno_err *err)
{
    struct steno_cached_worker *w = worker;
    const struct steno_shell_model *m = w->base.model;
    return steno_cached_encoder_batch_open(&w->batch, e, max, m->threads, err);
}

void steno_cached_worker_close(void *worker)
{
    steno_cached_encoder_batch_close(((struct steno_cached_worker *)worker)->batch);
}

steno_status steno_cached_trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_cached_encoder_trial_open(trial, ((struct steno_cached_worker *)worker)->batch,
                                           err);
}

steno_status steno_cached_step(void *worker, struct steno_step_item *items, size_t n, int size,
                               struct steno_network_time *spent, const float **y)
{
    steno_cached_encoder_batch *batch = ((struct steno_cached_worker *)worker)->batch;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        memcpy(steno_cached_encoder_batch_x(batch, (int)i), items[i].window,
               steno_cached_encoder_window(steno_cached_encoder_batch_encoder(batch)) *
                   sizeof *items[i].window);
        state[i] = &((struct steno_cached_stream *)items[i].state)->encoder;
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
