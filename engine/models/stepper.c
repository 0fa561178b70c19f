/* The network for several streams at once: which batch sizes, in which order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "models/family.h"
#include "models/internal.h"

#define TIMED_ROUNDS 6 /* of runs of each size */
#define GUESS 1.2      /* a size takes at least this times the time of the one before */

struct steno_stepper {
    const steno_model *model;
    steno_ctcbatch *batch; /* NULL: a family whose streams step by themselves */
    int max;
    int64_t network_ns;
    bool timed; /* processor time is wanted, too: a call of the system at both ends of each run */
    int64_t cpu_ns;
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
    const struct steno_step_costs even = {{1, 1, 1, 1, 1, 1}};
    steno_stepper *p = calloc(1, sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    p->model = m;
    p->max = m->ctc.batches ? max : 1;
    st = m->ctc.net ? steno_ctcbatch_open(&p->batch, &m->ctc, p->max, m->threads, err) : STENO_OK;
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
    steno_ctcbatch_close(p->batch);
    free(p);
}

int steno_stepper_max(const steno_stepper *p)
{
    return p->max;
}

int64_t steno_stepper_network_ns(const steno_stepper *p)
{
    return p->network_ns;
}

int64_t steno_stepper_network_cpu(steno_stepper *p)
{
    p->timed = true;
    return p->cpu_ns;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void step_batch(steno_stepper *p, struct steno_stream_turn *t, int n, int size)
{
    const struct steno_ctcnet *net = &p->model->ctc;
    struct steno_ctcstate *state[STENO_BATCH_MAX];
    const float *scores = NULL;
    steno_err err = {0};
    steno_status st;
    int64_t begin, cpu;
    for (int i = 0; i < n; i++)
        state[i] = steno_stream_hand_over(t[i].s, steno_ctcbatch_x(p->batch, i));
    begin = steno_now_ns();
    cpu = p->timed ? steno_thread_ns() : 0;
    st = steno_ctcbatch_step(p->batch, state, n, size, &scores, &err);
    p->cpu_ns += p->timed ? steno_thread_ns() - cpu : 0;
    p->network_ns += steno_now_ns() - begin;
    for (int i = 0; i < n; i++) {
        if (st && t[i].err)
            *t[i].err = err;
        *t[i].st =
            steno_stream_take(t[i].s, st, scores + (st ? 0 : i * net->rows * net->vocab), t[i].err);
    }
}

void steno_streams_step(steno_stepper *p, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err)
{
    struct steno_stream_turn t[STENO_BATCH_MAX];
    if (n && !p->batch) /* streams of one model are of one family */
        ((const struct steno_stream_head *)s[0])->ops->step(s, n, st, err);
    for (size_t at = 0; p->batch && at < n;) {
        size_t left = n - at;
        int size = p->take[left < STENO_BATCH_MAX ? left : STENO_BATCH_MAX];
        int k = left < (size_t)size ? (int)left : size;
        for (int i = 0; i < k; i++, at++)
            t[i] = (struct steno_stream_turn){s[at], &st[at], err ? &err[at] : NULL};
        step_batch(p, t, k, size);
    }
}

/* ---- how long it takes --------------------------------------------------------------------- */

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u; /* Numerical Recipes, 3rd ed., 7.1.1 */
    return (float)(int32_t)*seed * 0x1p-31f;
}

/* Window i of the coming step. */
static void fill(steno_stepper *p, int i, uint32_t seed)
{
    const struct steno_ctcnet *net = &p->model->ctc;
    float *x = steno_ctcbatch_x(p->batch, i);
    for (int64_t k = 0; k < net->window * net->bins; k++)
        x[k] = 4 * noise(&seed);
}

/* Processor time where the thread is alone at it: then what else runs on the machine hardly counts. */
static int64_t clock_ns(const steno_stepper *p)
{
    struct timespec ts;
    if (p->model->threads > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts))
        return steno_now_ns();
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* One run, after one that plans the first time; *seconds becomes the smallest so far. */
static steno_status time_size(steno_stepper *p, struct steno_ctcstate *const *s, int size,
                              double *seconds, steno_err *err)
{
    const float *scores;
    for (int i = 0; i < size; i++)
        fill(p, i, (uint32_t)i);
    for (int i = isinf(*seconds) ? 0 : 1; i < 2; i++) {
        int64_t t = clock_ns(p);
        steno_status st = steno_ctcbatch_step(p->batch, s, size, size, &scores, err);
        if (st)
            return st;
        if (i)
            *seconds = fmin(*seconds, (double)(clock_ns(p) - t) * 1e-9);
    }
    return STENO_OK;
}

/* Every size once per round: what disturbs a moment disturbs all of them. */
static steno_status time_rounds(steno_stepper *p, struct steno_ctcstate *const *s, double longest,
                                struct steno_step_costs *c, steno_err *err)
{
    int n = 1;
    steno_status st = time_size(p, s, 1, &c->seconds[0], err);
    while (!st && n < STENO_BATCH_SIZES && size_of(n) <= p->max &&
           (double)GUESS * c->seconds[n - 1] <= longest) {
        st = time_size(p, s, size_of(n), &c->seconds[n], err);
        n++;
    }
    for (int round = 1; round < TIMED_ROUNDS; round++)
        for (int i = 0; i < n && !st; i++)
            if (c->seconds[i] < longest / TIMED_ROUNDS || round == 1)
                st = time_size(p, s, size_of(i), &c->seconds[i], err);
    for (int i = 1; i < n; i++)
        if (c->seconds[i] > longest)
            c->seconds[i] = INFINITY;
    return st;
}

steno_status steno_stepper_measure(steno_stepper *p, double longest, struct steno_step_costs *c,
                                   steno_err *err)
{
    struct steno_ctcstate mem[STENO_BATCH_MAX] = {0}, *s[STENO_BATCH_MAX];
    steno_status st;
    for (int i = 0; i < STENO_BATCH_MAX; i++) {
        mem[i].fresh = true;
        s[i] = &mem[i];
    }
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c->seconds[i] = INFINITY;
    if (!p->batch) {
        c->seconds[0] = 0; /* all of it is the host's, who cannot tell */
        return STENO_OK;
    }
    st = time_rounds(p, s, longest, c, err);
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_ctcstate_free(&mem[i]);
    return st;
}

/* ---- the trial at load --------------------------------------------------------------------- */

#define TRIAL_STEPS 2 /* the second one reads what the first has left in the states */
/* Of log-probabilities, as a share of 1 + their size: all that is promised of a network we do not
 * know. Our own kernels give a row the same bits whatever the number of rows, in every precision
 * (tests/unit/test_stepper.c); OpenBLAS, at level blas, sums in another order in a batch. */
#define TRIAL_ERROR 1e-3f

/* Both streams over TRIAL_STEPS, one by one or as one batch. scores: [2, rows, vocab] of the last. */
static steno_status trial(steno_stepper *p, bool batch, float *scores, steno_err *err)
{
    const struct steno_ctcnet *net = &p->model->ctc;
    struct steno_ctcstate mem[2] = {{.fresh = true}, {.fresh = true}}, *s[2] = {&mem[0], &mem[1]};
    size_t row = (size_t)(net->rows * net->vocab);
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < TRIAL_STEPS && !st; k++)
        for (int i = 0; i < 2 && !st; i += size) {
            const float *y;
            for (int at = 0; at < size; at++)
                fill(p, at, (uint32_t)(2 * k + i + at));
            st = steno_ctcbatch_step(p->batch, s + i, size, size, &y, err);
            if (!st)
                memcpy(scores + (size_t)i * row, y, (size_t)size * row * sizeof *y);
        }
    for (int i = 0; i < 2; i++)
        steno_ctcstate_free(&mem[i]);
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
