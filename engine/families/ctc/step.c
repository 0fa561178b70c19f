/* Steps of ctc_streaming networks: workers, batches of streams, trials on noise. */
#include <stdlib.h>
#include <string.h>

#include "families/common/cached_encoder_trial.h"
#include "families/ctc/internal.h"

struct worker {
    const struct steno_ctc_model *model;
    steno_cached_encoder_batch *batch;
};

steno_status steno_ctc_worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_ctc_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st =
        w ? steno_cached_encoder_batch_open(&w->batch, &m->encoder, max, m->threads, err)
          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (st) {
        free(w);
        return st;
    }
    w->model = m;
    *worker = w;
    return STENO_OK;
}

void steno_ctc_worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_cached_encoder_batch_close(w->batch);
    free(w);
}

void steno_ctc_step(void *worker, struct steno_step_item *items, size_t n, int size,
                    struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    const float *scores = NULL;
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        struct steno_ctc_stream *s = items[i].state;
        memcpy(steno_cached_encoder_batch_x(w->batch, (int)i), items[i].window,
               steno_cached_encoder_window(e) * sizeof *items[i].window);
        state[i] = &s->encoder;
    }
    steno_network_time_begin(spent);
    st = steno_cached_encoder_batch_step(w->batch, state, (int)n, size, &scores, &why);
    steno_network_time_end(spent);
    for (size_t i = 0; i < n; i++) {
        struct steno_ctc_stream *s = items[i].state;
        items[i].st = st;
        if (st && items[i].err)
            *items[i].err = why;
        if (st)
            steno_token_search_give(&s->search, NULL, 0);
        else
            steno_token_search_give(&s->search,
                                    scores + (int64_t)i * e->shape.frames * e->shape.width,
                                    (size_t)e->shape.frames);
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

steno_status steno_ctc_trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_cached_encoder_trial_open(trial, ((struct worker *)worker)->batch, err);
}

steno_status steno_ctc_try(struct steno_ctc_model *m, steno_err *err)
{
    void *w = NULL;
    steno_status st = steno_ctc_worker_open(&w, m, 2, err);
    if (!st)
        st = steno_cached_encoder_try(&m->encoder, ((struct worker *)w)->batch,
                                      &(struct steno_cached_encoder_reader){.read = NULL}, err);
    steno_ctc_worker_close(w);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, m->conf.network) : STENO_OK;
}
