/* Steps of streaming models: workers, batches of streams, trials on noise. A step runs the encoder
 * once for all streams, then, frame by frame, the joiner once for all their hypotheses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/common/noise.h"
#include "families/icefall/internal.h"

struct worker {
    struct steno_icefall_model *model;
    steno_cached_encoder_batch *batch;
    steno_icefall_scorer *scorer; /* transducer */
    int max;
};

static size_t window_of(const struct steno_cached_encoder *e)
{
    return (size_t)(e->shape.window * e->shape.bins);
}

steno_status steno_icefall_worker_open(void **worker, void *model, int max, steno_err *err)
{
    struct steno_icefall_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st =
        w ? steno_cached_encoder_batch_open(&w->batch, &m->encoder, max, m->threads, err)
          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && !m->ctc)
        st = steno_icefall_scorer_open(&w->scorer, &m->nets, m->threads, err);
    if (st) {
        steno_icefall_worker_close(w);
        return st;
    }
    w->model = m;
    w->max = m->encoder.batches ? max : 1;
    *worker = w;
    return STENO_OK;
}

void steno_icefall_worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_cached_encoder_batch_close(w->batch);
    steno_icefall_scorer_close(w->scorer);
    free(w);
}

/* ---- search ---------------------------------------------------------------------------------- */

/* The hypotheses of streams [from, to) for one frame: as many streams as fit into one run. */
struct gathered {
    const float *enc[STENO_ICEFALL_ROWS];
    const int32_t *context[STENO_ICEFALL_ROWS];
    size_t n, to;
};

static void gather(struct steno_step_item *items, size_t n, size_t from, const float *frames,
                   size_t stride, struct gathered *g)
{
    g->n = 0;
    for (g->to = from; g->to < n; g->to++) {
        const steno_stateless *s = ((struct steno_icefall_stream *)items[g->to].state)->search;
        size_t width = items[g->to].st ? 0 : steno_stateless_width(s);
        if (g->n + width > STENO_ICEFALL_ROWS)
            return;
        for (size_t i = 0; i < width; i++, g->n++) {
            g->enc[g->n] = frames + g->to * stride;
            g->context[g->n] = steno_stateless_context(s, i);
        }
    }
}

/* Push the logits of streams [from, g->to). */
static void scatter(const struct worker *w, struct steno_step_item *items, size_t from,
                    const struct gathered *g, float *logits)
{
    for (size_t i = from; i < g->to; i++) {
        steno_stateless *s = ((struct steno_icefall_stream *)items[i].state)->search;
        size_t width = items[i].st ? 0 : steno_stateless_width(s);
        if (!width)
            continue;
        items[i].st = steno_stateless_push(s, logits);
        if (items[i].st == STENO_ERR_FORMAT)
            items[i].st = steno_fail(items[i].err, STENO_ERR_FORMAT, "%s: a score is not a number",
                                     w->model->nets.joiner_name);
        logits += width * (size_t)w->model->vocab;
    }
}

static void fail_all(struct steno_step_item *items, size_t n, steno_status st, const steno_err *why)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].st)
            continue;
        items[i].st = st;
        if (items[i].err)
            *items[i].err = *why;
    }
}

/* One frame of every stream. frames: that of the first one; those of the others follow by stride.
 */
static void search_frame(struct worker *w, struct steno_step_item *items, size_t n,
                         const float *frames, size_t stride)
{
    struct gathered g;
    for (size_t from = 0; from < n; from = g.to) {
        float *logits = NULL;
        steno_err why = {0};
        steno_status st = STENO_OK;
        gather(items, n, from, frames, stride, &g);
        if (g.n)
            st = steno_icefall_score(w->scorer, g.enc, g.context, g.n, &logits, &why);
        if (st)
            fail_all(items + from, g.to - from, st, &why);
        else
            scatter(w, items, from, &g, logits);
    }
}

static void search(struct worker *w, struct steno_step_item *items, size_t n, const float *y)
{
    const struct steno_cached_encoder_shape *e = &w->model->encoder.shape;
    size_t stride = (size_t)(e->frames * e->width);
    for (int64_t t = 0; t < e->frames && w->scorer; t++)
        search_frame(w, items, n, y + t * e->width, stride);
    for (size_t i = 0; i < n; i++) {
        struct steno_icefall_stream *s = items[i].state;
        s->stepped = !items[i].st;
        if (items[i].st || w->scorer)
            continue;
        items[i].st = s->beam ? steno_ctc_beam_push(s->beam, y + i * stride, (size_t)e->frames)
                              : steno_ctc_greedy_push(s->greedy, y + i * stride, (size_t)e->frames);
    }
}

void steno_icefall_step(void *worker, struct steno_step_item *items, size_t n, int size,
                        struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    const float *y = NULL;
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        struct steno_icefall_stream *s = items[i].state;
        memcpy(steno_cached_encoder_batch_x(w->batch, (int)i), items[i].window,
               window_of(e) * sizeof *items[i].window);
        state[i] = &s->encoder;
        items[i].st = STENO_OK;
    }
    steno_network_time_begin(spent);
    st = steno_cached_encoder_batch_step(w->batch, state, (int)n, size, &y, &why);
    steno_network_time_end(spent);
    if (st)
        fail_all(items, n, st, &why);
    else
        search(w, items, n, y);
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct worker *worker;
    struct steno_cached_encoder_state state[STENO_BATCH_MAX];
};

steno_status steno_icefall_trial_open(void **trial, void *worker, steno_err *err)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    t->worker = worker;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->state[i].fresh = true;
    for (int i = 0; i < t->worker->max; i++)
        steno_noise_fill(steno_cached_encoder_batch_x(t->worker->batch, i),
                         window_of(&t->worker->model->encoder), (uint32_t)i);
    *trial = t;
    return STENO_OK;
}

steno_status steno_icefall_trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    struct steno_cached_encoder_state *s[STENO_BATCH_MAX];
    const float *y;
    for (int i = 0; i < size; i++)
        s[i] = &t->state[i];
    return steno_cached_encoder_batch_step(t->worker->batch, s, size, size, &y, err);
}

void steno_icefall_trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_cached_encoder_state_free(&t->state[i]);
    free(t);
}

/* ---- the trial at load ----------------------------------------------------------------------- */

#define TRIAL_STEPS 2 /* the second step reads the states of the first */
/* Allowed difference of scores x, relative to 1 + |x|, between a batch and streams alone (the same
 * as of families/ctc). A quantized network may have products that round over the range of the whole
 * batch: then any difference counts. */
#define TRIAL_ERROR 1e-3f

/* What the search reads of one stream's last frame of output: the scores of CTC, or the joiner's
 * logits after an empty context. */
static steno_status read_scores(struct worker *w, const float *const *frame, size_t n, float *out,
                                steno_err *err)
{
    const struct steno_icefall_model *m = w->model;
    int32_t context[STENO_STATELESS_CONTEXT] = {0};
    const int32_t *contexts[2] = {context, context};
    float *logits = NULL;
    steno_status st = STENO_OK;
    if (!m->ctc)
        st = steno_icefall_score(w->scorer, frame, contexts, n, &logits, err);
    for (size_t i = 0; i < n && !st; i++)
        memcpy(out + i * (size_t)m->vocab, m->ctc ? frame[i] : logits + i * (size_t)m->vocab,
               (size_t)m->vocab * sizeof *out);
    return st;
}

/* Run TRIAL_STEPS of two streams, alone or as a batch. scores: [2, vocab] of the last frame. */
static steno_status run_two(struct worker *w, bool batch, float *scores, steno_err *err)
{
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state mem[2] = {{.fresh = true}, {.fresh = true}},
                                      *s[2] = {&mem[0], &mem[1]};
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < TRIAL_STEPS && !st; k++)
        for (int i = 0; i < 2 && !st; i += size) {
            const float *y, *frame[2];
            for (int at = 0; at < size; at++)
                steno_noise_fill(steno_cached_encoder_batch_x(w->batch, at), window_of(e),
                                 (uint32_t)(2 * k + i + at));
            st = steno_cached_encoder_batch_step(w->batch, s + i, size, size, &y, err);
            for (int at = 0; at < size && !st; at++)
                frame[at] = y + ((int64_t)(at + 1) * e->shape.frames - 1) * e->shape.width;
            if (!st)
                st =
                    read_scores(w, frame, (size_t)size, scores + (int64_t)i * w->model->vocab, err);
        }
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&mem[i]);
    return st;
}

static bool agree(const float *a, const float *b, size_t n, float error)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= error * (1 + fabsf(a[i]))) &&
            memcmp(&a[i], &b[i], sizeof *a) != 0) /* equal -inf or NaN */
            return false;
    return true;
}

steno_status steno_icefall_try(struct steno_icefall_model *m, steno_err *err)
{
    size_t n = 2 * (size_t)m->vocab;
    float *scores = calloc(2 * n, sizeof *scores);
    void *w = NULL;
    steno_status st = scores ? steno_icefall_worker_open(&w, m, 2, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = run_two(w, false, scores, err);
    if (!st && m->encoder.batches)
        m->encoder.batches = !run_two(w, true, scores + n, NULL) &&
                             agree(scores, scores + n, n, m->files.quantized ? 0 : TRIAL_ERROR);
    steno_icefall_worker_close(w);
    free(scores);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, m->network) : STENO_OK;
}
