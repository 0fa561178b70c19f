#include "speech/recognizer/batcher.h"

#include <math.h>
#include <stdlib.h>

#include "speech/recognizer/stream_internal.h"

#define TIMED_ROUNDS 6 /* runs of each size */
#define GUESS 1.2      /* a size takes at least this many times the time of the next smaller one */

struct steno_batcher {
    const steno_model *model;
    void *worker; /* the family's */
    int max;
    struct steno_turn_judges judges;
    struct steno_network_time network;
    unsigned char
        first[STENO_BATCH_MAX + 1]; /* by number of waiting streams: the size to run next */
};

static int size_of(int i)
{
    return 1 << i;
}

/* For every n find the cheapest way to run n streams: its cost[n], and the size of its first batch.
 */
static void cheapest(const struct steno_step_costs *c, double *cost, unsigned char *first)
{
    cost[0] = 0;
    first[0] = 1;
    for (int n = 1; n <= STENO_BATCH_MAX; n++) {
        cost[n] = INFINITY;
        first[n] = 1;
        for (int i = 0; i < STENO_BATCH_SIZES; i++) {
            int size = size_of(i), left = n > size ? n - size : 0;
            double sum = c->seconds[i] + cost[left];
            if (sum < cost[n]) {
                cost[n] = sum;
                first[n] = (unsigned char)size;
            }
        }
    }
}

double steno_step_cost(const struct steno_step_costs *c, size_t n)
{
    double cost[STENO_BATCH_MAX + 1];
    unsigned char first[STENO_BATCH_MAX + 1];
    cheapest(c, cost, first);
    return (double)(n / STENO_BATCH_MAX) * cost[STENO_BATCH_MAX] + cost[n % STENO_BATCH_MAX];
}

static void choose_sizes(steno_batcher *b, const struct steno_step_costs *c)
{
    struct steno_step_costs mine = *c;
    double cost[STENO_BATCH_MAX + 1];
    for (int i = 1; i < STENO_BATCH_SIZES; i++)
        if (size_of(i) > b->max)
            mine.seconds[i] = INFINITY;
    cheapest(&mine, cost, b->first);
}

void steno_batcher_set_costs(steno_batcher *b, const struct steno_step_costs *c)
{
    if (!b->model->family->share) /* the streams' parts say which of them share a run */
        choose_sizes(b, c);
}

steno_status steno_batcher_open(steno_batcher **out, const steno_model *m, int max, steno_err *err)
{
    const struct steno_step_costs even = {.seconds = {1, 1, 1, 1, 1, 1}};
    steno_batcher *b = calloc(1, sizeof *b);
    steno_status st;
    if (!b)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    b->model = m;
    b->max = m->info.batches ? max : 1;
    st = m->family->worker_open(&b->worker, m->impl, b->max, err);
    if (st) {
        free(b);
        return st;
    }
    choose_sizes(b, &even);
    *out = b;
    return STENO_OK;
}

void steno_batcher_close(steno_batcher *b)
{
    if (!b)
        return;
    b->model->family->worker_close(b->worker);
    steno_turn_judges_close(&b->judges);
    free(b);
}

int steno_batcher_max(const steno_batcher *b)
{
    return b->max;
}

bool steno_batcher_shares(const steno_batcher *b)
{
    return b->model->family->share != NULL;
}

int64_t steno_batcher_network_ns(const steno_batcher *b)
{
    return b->network.ns;
}

int64_t steno_batcher_network_cpu(steno_batcher *b)
{
    b->network.timed = true;
    return b->network.cpu_ns;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The result of a stream's step. */
static void end_step(steno_stream *s, steno_status run, steno_status finished, steno_status *st,
                     steno_err *err)
{
    *st = run ? finished : steno_stream_explain(finished, err);
    s->failed |= finished != STENO_OK;
}

static void step_batch(steno_batcher *b, steno_stream *const *s, size_t n, int size,
                       steno_status *const *st, steno_err *const *err)
{
    const struct steno_family *f = b->model->family;
    struct steno_step_item items[STENO_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        items[i] = (struct steno_step_item){.state = s[i]->state, .err = err[i]};
        s[i]->feeder->fill_item(s[i], &items[i]);
    }
    f->step(b->worker, items, n, size, &b->network);
    for (size_t i = 0; i < n; i++)
        end_step(s[i], items[i].st, s[i]->feeder->finish_step(s[i], &items[i]), st[i], err[i]);
}

/* Streams whose turn watches are due get their answers instead of a step of the model. */
static void judge_batch(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *const *st,
                        steno_err *const *err)
{
    steno_turn_watch *w[STENO_BATCH_MAX];
    bool complete[STENO_BATCH_MAX] = {false};
    steno_err why = {0};
    steno_status run;
    for (size_t i = 0; i < n; i++)
        w[i] = s[i]->turn;
    run = n ? steno_turn_watches_judge(&b->judges, w, n, complete, &why) : STENO_OK;
    for (size_t i = 0; i < n; i++) {
        if (run && err[i])
            *err[i] = why;
        end_step(s[i], run, run ? run : s[i]->feeder->finish_turn(s[i], complete[i]), st[i],
                 err[i]);
    }
}

void steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err)
{
    struct lane {
        steno_stream *s[STENO_BATCH_MAX];
        steno_status *st[STENO_BATCH_MAX];
        steno_err *err[STENO_BATCH_MAX];
        size_t n;
    } lane[2]; /* steps of the model; answers */
    for (size_t at = 0, k; at < n; at += k) {
        size_t left = n - at;
        int size = b->first[left < STENO_BATCH_MAX ? left : STENO_BATCH_MAX];
        k = left < (size_t)size ? left : (size_t)size;
        lane[0].n = lane[1].n = 0;
        for (size_t i = at; i < at + k; i++) {
            struct lane *l = &lane[steno_turn_watch_due(s[i]->turn)];
            l->s[l->n] = s[i];
            l->st[l->n] = &st[i];
            l->err[l->n++] = err ? &err[i] : NULL;
        }
        judge_batch(b, lane[1].s, lane[1].n, lane[1].st, lane[1].err);
        if (lane[0].n)
            step_batch(b, lane[0].s, lane[0].n, size, lane[0].st, lane[0].err);
    }
}

/* ---- how long it takes ----------------------------------------------------------------------- */

/* With one thread, processor time: other programs on the machine then hardly count. */
static int64_t clock_ns(const steno_batcher *b)
{
    return b->model->threads > 1 ? steno_now_ns() : steno_thread_ns();
}

/* Time one run; *seconds becomes the minimum so far. The first time an untimed run makes the plan.
 */
static steno_status time_size(const steno_batcher *b, void *trial, int size, double *seconds,
                              steno_err *err)
{
    for (int i = isinf(*seconds) ? 0 : 1; i < 2; i++) {
        int64_t begin = clock_ns(b);
        steno_status st = b->model->family->trial_run(trial, size, err);
        if (st)
            return st;
        if (i)
            *seconds = fmin(*seconds, (double)(clock_ns(b) - begin) * 1e-9);
    }
    return STENO_OK;
}

/* Each round times every size once, so that a disturbance does not hit one size alone. */
static steno_status time_rounds(const steno_batcher *b, void *trial, double longest,
                                struct steno_step_costs *c, steno_err *err)
{
    int n = 1;
    steno_status st = time_size(b, trial, 1, &c->seconds[0], err);
    while (!st && n < STENO_BATCH_SIZES && size_of(n) <= b->max &&
           (double)GUESS * c->seconds[n - 1] <= longest) {
        st = time_size(b, trial, size_of(n), &c->seconds[n], err);
        n++;
    }
    for (int round = 1; round < TIMED_ROUNDS; round++)
        for (int i = 0; i < n && !st; i++)
            if (c->seconds[i] < longest / TIMED_ROUNDS || round == 1)
                st = time_size(b, trial, size_of(i), &c->seconds[i], err);
    for (int i = 1; i < n; i++)
        if (c->seconds[i] > longest)
            c->seconds[i] = INFINITY;
    return st;
}

steno_status steno_batcher_measure(steno_batcher *b, double longest, struct steno_step_costs *c,
                                   steno_err *err)
{
    const struct steno_family *f = b->model->family;
    void *trial = NULL;
    steno_status st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c->seconds[i] = INFINITY;
    c->more = b->model->info.untimed;
    st = f->trial_open(&trial, b->worker, err);
    if (st)
        return st;
    if (!trial) {
        c->seconds[0] = 0; /* no trial: the cost of a step is unknown */
        return STENO_OK;
    }
    st = time_rounds(b, trial, longest, c, err);
    f->trial_close(trial);
    return st;
}
