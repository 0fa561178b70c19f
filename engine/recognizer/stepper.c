/* The network for several streams at once: which batch sizes, in which order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/espnet/block.h"
#include "recognizer/family.h"
#include "recognizer/internal.h"

#define TIMED_ROUNDS 6 /* of runs of each size */
#define GUESS 1.2      /* a size takes at least this times the time of the one before */

struct steno_stepper {
    const steno_model *model;
    steno_ctc_batch *batch; /* NULL: a family that steps its streams itself */
    int max;
    struct steno_network_time network;
    unsigned char take[STENO_BATCH_MAX + 1]; /* of n waiting streams: the size to run next */
};

static int size_of(int i)
{
    return 1 << i;
}

/* The cheapest way to run n streams, for every n: cost[n], and the size that comes first. */
static void cheapest(const struct steno_step_costs *c, double *cost, unsigned char *take)
{
    cost[0] = 0;
    take[0] = 1;
    for (int n = 1; n <= STENO_BATCH_MAX; n++) {
        cost[n] = INFINITY;
        take[n] = 1;
        for (int i = 0; i < STENO_BATCH_SIZES; i++) {
            int size = size_of(i), left = n > size ? n - size : 0;
            double sum = c->seconds[i] + cost[left];
            if (sum < cost[n]) {
                cost[n] = sum;
                take[n] = (unsigned char)size;
            }
        }
    }
}

double steno_step_cost(const struct steno_step_costs *c, size_t n)
{
    double cost[STENO_BATCH_MAX + 1];
    unsigned char take[STENO_BATCH_MAX + 1];
    cheapest(c, cost, take);
    return (double)(n / STENO_BATCH_MAX) * cost[STENO_BATCH_MAX] + cost[n % STENO_BATCH_MAX];
}

void steno_stepper_set_costs(steno_stepper *p, const struct steno_step_costs *c)
{
    struct steno_step_costs mine = *c;
    double cost[STENO_BATCH_MAX + 1];
    for (int i = 1; i < STENO_BATCH_SIZES; i++)
        if (size_of(i) > p->max)
            mine.seconds[i] = INFINITY;
    cheapest(&mine, cost, p->take);
}

steno_status steno_stepper_open(steno_stepper **out, const steno_model *m, int max, steno_err *err)
{
    const struct steno_step_costs even = {.seconds = {1, 1, 1, 1, 1, 1}};
    steno_stepper *p = calloc(1, sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    p->model = m;
    p->max = m->ctc.batches || (m->espnet && m->espnet->batches) ? max : 1;
    st = m->ctc.net ? steno_ctc_batch_open(&p->batch, &m->ctc, p->max, m->threads, err) : STENO_OK;
    if (st) {
        free(p);
        return st;
    }
    steno_stepper_set_costs(p, &even);
    *out = p;
    return STENO_OK;
}

void steno_stepper_close(steno_stepper *p)
{
    if (!p)
        return;
    steno_ctc_batch_close(p->batch);
    free(p);
}

int steno_stepper_max(const steno_stepper *p)
{
    return p->max;
}

int64_t steno_stepper_network_ns(const steno_stepper *p)
{
    return p->network.ns;
}

int64_t steno_stepper_network_cpu(steno_stepper *p)
{
    p->network.timed = true;
    return p->network.cpu_ns;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void step_batch(steno_stepper *p, steno_stream *const *s, int n, int size, steno_status *st,
                       steno_err *err)
{
    const struct steno_ctc_network *net = &p->model->ctc;
    struct steno_ctc_state *state[STENO_BATCH_MAX];
    const float *scores = NULL;
    steno_err why = {0};
    steno_status ran;
    for (int i = 0; i < n; i++)
        state[i] = steno_stream_fill_input(s[i], steno_ctc_batch_x(p->batch, i));
    steno_network_time_begin(&p->network);
    ran = steno_ctc_batch_step(p->batch, state, n, size, &scores, &why);
    steno_network_time_end(&p->network);
    for (int i = 0; i < n; i++) {
        if (ran && err)
            err[i] = why;
        st[i] = steno_stream_consume_output(
            s[i], ran, scores + (ran ? 0 : i * net->rows * net->vocab), err ? &err[i] : NULL);
    }
}

void steno_streams_step(steno_stepper *p, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err)
{
    for (size_t at = 0, k; at < n; at += k) {
        size_t left = n - at;
        int size = p->take[left < STENO_BATCH_MAX ? left : STENO_BATCH_MAX];
        steno_err *errs = err ? err + at : NULL;
        k = left < (size_t)size ? left : (size_t)size;
        if (p->batch)
            step_batch(p, s + at, (int)k, size, st + at, errs);
        else /* streams of one model are of one family */
            ((const struct steno_stream_head *)s[at])
                ->ops->step(s + at, k, st + at, errs, &p->network);
    }
}

/* ---- how long it takes --------------------------------------------------------------------- */

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u; /* Numerical Recipes, 3rd ed., 7.1.1 */
    return (float)(int32_t)*seed * 0x1p-31f;
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t k = 0; k < n; k++)
        x[k] = 4 * noise(&seed);
}

static size_t window_of(const struct steno_ctc_network *net)
{
    return (size_t)(net->window * net->bins);
}

/* Streams of noise whose networks are timed. */
struct trial_streams {
    steno_stepper *p;
    struct steno_ctc_state ctc[STENO_BATCH_MAX];
    /* ... of contextual blocks */
    steno_espnet_runner *runner;
    struct steno_espnet_state block[STENO_BATCH_MAX];
    float *feats; /* a block's frames, of all streams */
};

static steno_status run_ctc(struct trial_streams *t, int size, steno_err *err)
{
    struct steno_ctc_state *s[STENO_BATCH_MAX];
    const float *scores;
    for (int i = 0; i < size; i++)
        s[i] = &t->ctc[i];
    return steno_ctc_batch_step(t->p->batch, s, size, size, &scores, err);
}

/* A block behind the first, whose states have the extents that streams begin with. */
static steno_status run_blocks(struct trial_streams *t, int size, steno_err *err)
{
    const struct steno_espnet *e = t->p->model->espnet;
    struct steno_espnet_state *s[STENO_BATCH_MAX];
    const float *feats[STENO_BATCH_MAX], *rows, *ctc;
    size_t n;
    steno_status st;
    for (int i = 0; i < size; i++) {
        s[i] = &t->block[i];
        s[i]->block = 1;
        feats[i] = t->feats;
    }
    st = steno_espnet_block(t->runner, s, feats, (size_t)size, steno_espnet_next_frames(&e->conf),
                            &rows, &n, err);
    return st ? st : steno_espnet_ctc(t->runner, rows, (size_t)size * n, &ctc, err);
}

static steno_status begin_blocks(struct trial_streams *t, steno_err *err)
{
    struct steno_espnet *e = t->p->model->espnet;
    size_t n = steno_espnet_next_frames(&e->conf) * (size_t)e->conf.bins;
    steno_status st = steno_espnet_acquire(e, &t->runner, err);
    t->feats = malloc(n * sizeof *t->feats);
    if (!st && !t->feats)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < STENO_BATCH_MAX && !st; i++)
        st = steno_espnet_state_reset(&t->block[i], e, err);
    if (!st)
        fill(t->feats, n, 1);
    return st;
}

static steno_status begin_trial(struct trial_streams *t, steno_err *err)
{
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->ctc[i].fresh = true;
    return t->p->batch ? STENO_OK : begin_blocks(t, err);
}

static void end_trial(struct trial_streams *t)
{
    for (int i = 0; i < STENO_BATCH_MAX; i++) {
        steno_ctc_state_free(&t->ctc[i]);
        steno_espnet_state_free(&t->block[i]);
    }
    if (t->runner)
        steno_espnet_release(t->p->model->espnet, t->runner);
    free(t->feats);
}

/* Processor time where the thread is alone at it: then what else runs on the machine hardly counts.
 */
static int64_t clock_ns(const steno_stepper *p)
{
    return p->model->threads > 1 ? steno_now_ns() : steno_thread_ns();
}

/* One run, after one that plans the first time; *seconds becomes the smallest so far. */
static steno_status time_size(struct trial_streams *t, int size, double *seconds, steno_err *err)
{
    for (int i = 0; t->p->batch && i < size; i++)
        fill(steno_ctc_batch_x(t->p->batch, i), window_of(&t->p->model->ctc), (uint32_t)i);
    for (int i = isinf(*seconds) ? 0 : 1; i < 2; i++) {
        int64_t begin = clock_ns(t->p);
        steno_status st = t->p->batch ? run_ctc(t, size, err) : run_blocks(t, size, err);
        if (st)
            return st;
        if (i)
            *seconds = fmin(*seconds, (double)(clock_ns(t->p) - begin) * 1e-9);
    }
    return STENO_OK;
}

/* Every size once per round: what disturbs a moment disturbs all of them. */
static steno_status time_rounds(struct trial_streams *t, double longest, struct steno_step_costs *c,
                                steno_err *err)
{
    int n = 1;
    steno_status st = time_size(t, 1, &c->seconds[0], err);
    while (!st && n < STENO_BATCH_SIZES && size_of(n) <= t->p->max &&
           (double)GUESS * c->seconds[n - 1] <= longest) {
        st = time_size(t, size_of(n), &c->seconds[n], err);
        n++;
    }
    for (int round = 1; round < TIMED_ROUNDS; round++)
        for (int i = 0; i < n && !st; i++)
            if (c->seconds[i] < longest / TIMED_ROUNDS || round == 1)
                st = time_size(t, size_of(i), &c->seconds[i], err);
    for (int i = 1; i < n; i++)
        if (c->seconds[i] > longest)
            c->seconds[i] = INFINITY;
    return st;
}

steno_status steno_stepper_measure(steno_stepper *p, double longest, struct steno_step_costs *c,
                                   steno_err *err)
{
    const struct steno_espnet *e = p->model->espnet;
    struct trial_streams t = {.p = p};
    steno_status st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c->seconds[i] = INFINITY;
    c->more = e != NULL;
    if (e && !e->batches) {
        c->seconds[0] = 0; /* all of it is the host's, who cannot tell */
        return STENO_OK;
    }
    st = begin_trial(&t, err);
    if (!st)
        st = time_rounds(&t, longest, c, err);
    end_trial(&t);
    return st;
}

/* ---- the trial at load --------------------------------------------------------------------- */

#define TRIAL_STEPS 2 /* the second one reads what the first has left in the states */
/* Of log-probabilities, as a share of 1 + their size: all that is promised of a network we do not
 * know. Our own kernels give a row the same bits whatever the number of rows, in every precision
 * (tests/unit/test_stepper.c); OpenBLAS, at level blas, sums in another order in a batch. */
#define TRIAL_ERROR 1e-3f

/* Both streams over TRIAL_STEPS, one by one or as one batch. scores: [2, rows, vocab] of the last.
 */
static steno_status trial(steno_stepper *p, bool batch, float *scores, steno_err *err)
{
    const struct steno_ctc_network *net = &p->model->ctc;
    struct steno_ctc_state mem[2] = {{.fresh = true}, {.fresh = true}}, *s[2] = {&mem[0], &mem[1]};
    size_t row = (size_t)(net->rows * net->vocab);
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < TRIAL_STEPS && !st; k++)
        for (int i = 0; i < 2 && !st; i += size) {
            const float *y;
            for (int at = 0; at < size; at++)
                fill(steno_ctc_batch_x(p->batch, at), window_of(net), (uint32_t)(2 * k + i + at));
            st = steno_ctc_batch_step(p->batch, s + i, size, size, &y, err);
            if (!st)
                memcpy(scores + (size_t)i * row, y, (size_t)size * row * sizeof *y);
        }
    for (int i = 0; i < 2; i++)
        steno_ctc_state_free(&mem[i]);
    return st;
}

static bool agree(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= TRIAL_ERROR * (1 + fabsf(a[i]))) &&
            memcmp(&a[i], &b[i], sizeof *a) != 0) /* -inf, NaN */
            return false;
    return true;
}

static steno_status try_both(steno_model *m, steno_stepper *p, float *scores, steno_err *err)
{
    size_t n = 2 * (size_t)(m->ctc.rows * m->ctc.vocab);
    steno_status st = trial(p, false, scores, err);
    if (!st && m->ctc.batches)
        m->ctc.batches = !trial(p, true, scores + n, NULL) && agree(scores, scores + n, n);
    return st;
}

steno_status steno_stepper_try(steno_model *m, steno_err *err)
{
    size_t n = 2 * (size_t)(m->ctc.rows * m->ctc.vocab);
    float *scores = calloc(2 * n, sizeof *scores);
    steno_stepper *p = NULL;
    steno_status st = scores ? steno_stepper_open(&p, m, 2, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = try_both(m, p, scores, err);
    if (!st)
        m->stream_bytes =
            m->ctc.state_bytes + (size_t)(m->ctc.window * m->ctc.bins) * sizeof(float);
    steno_stepper_close(p);
    free(scores);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, m->conf.network) : STENO_OK;
}
