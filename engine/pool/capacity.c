/* What a stream costs on this machine, and how many it can carry.
 *
 * At start the network is timed on noise for every batch size, and everything around it (features,
 * search, the end of a stream) by some streams of a few seconds of sound each. While running, both are compared with what
 * the workers really take, other load on the machine included, and what the process spends outside
 * its workers (sockets, JSON) is added. A live stream then costs, per second of audio,
 *
 *     host + other + step(largest batch) / largest batch / chunk * slower
 *
 * and the capacity is what fits into LOAD of the workers, and into LOAD of the processors. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/threads.h"
#include "pool/internal.h"

#define LOAD 0.85         /* of a worker's time that streams may take: queues grow beyond */
#define LOOK_NS 500000000 /* between two corrections */
#define ENOUGH 1.0        /* s of audio that a correction must rest on */
#define WEIGHT 20.0       /* s of audio that the value so far counts for */
#define CROWDED 0.7       /* share of the workers that live steps would keep busy alone */
#define WORTH 0.97        /* a larger batch must cost less than this per stream */
#define TRIAL_SECONDS 3.0 /* of sound through a stream on trial */
#define TYPICAL 10.0      /* s of a stream: a live one's end costs more than what it hears meanwhile */
#define TRIAL_BLOCK 1024  /* samples at a time */
#define TRIALS 5          /* streams, of which the median counts */
#define TRIAL_MOST 0.6    /* s that they may take before the last one begins */
#define TRIAL_COMPANY 63  /* other workers that are at it meanwhile */
#define MOST_SLOWER 20.0  /* bounds of the correction */

static double cpu_seconds(clockid_t clock)
{
    struct timespec ts;
    return clock_gettime(clock, &ts) ? 0 : (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double steno_pool_thread_cpu(void)
{
    return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

static double cost_of(const struct steno_pool_costs *c, size_t n)
{
    struct steno_step_costs s;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        s.seconds[i] = c->step[i];
    return steno_step_cost(&s, n);
}

double steno_pool_planned(const steno_pool *p, size_t n)
{
    return cost_of(&p->load.costs, n);
}

/* ---- at start ------------------------------------------------------------------------------ */

/* The smallest batch whose cost per stream is about the least; sizes above it are not used. */
static int best_batch(struct steno_pool_costs *c, int limit)
{
    double best = c->step[0];
    int at = 0;
    for (int i = 1; i < STENO_BATCH_SIZES && 1 << i <= limit; i++) {
        double each = c->step[i] / (1 << i);
        if (each < WORTH * best) {
            best = each;
            at = i;
        }
    }
    for (int i = at + 1; i < STENO_BATCH_SIZES; i++)
        c->step[i] = INFINITY;
    return 1 << at;
}

/* ---- a stream on trial ---- */

/* Something like speech, in [-0.5, 0.5]: a voice at 120 Hz through a resonance that moves four times
 * a second, a little noise, and every fourth syllable left out. n samples from sample `from` on;
 * state: of the resonance. */
static void sound(float *pcm, size_t n, size_t from, int rate, float state[2])
{
    static const float hz[] = {300, 700, 500, 1200, 400, 900};
    size_t syllable = (size_t)rate / 4, period = (size_t)rate / 120;
    for (size_t i = 0; i < n; i++) {
        size_t at = from + i, number = at / syllable;
        float turn = 6.2831853f * hz[number % 6] / (float)rate;
        uint32_t noise = (uint32_t)at * 2654435761u; /* Knuth's multiplicative hash */
        float in = (float)(int32_t)(noise ^ noise << 13) * 0x1p-38f, y;
        if (number % 4 != 3 && at % period == 0)
            in += 0.1f;
        y = in + 1.94f * cosf(turn) * state[0] - 0.94f * state[1];
        state[1] = state[0];
        state[0] = y;
        pcm[i] = fminf(fmaxf(y, -0.5f), 0.5f);
    }
}

static void drain(const struct steno_pool_ops *ops, steno_stream *s)
{
    struct steno_event ev;
    while (ops->next(s, &ev))
        ;
}

/* Processor time of this thread so far, without that of the network. */
static double without_network(const steno_pool *p, steno_stepper *stepper)
{
    return steno_pool_thread_cpu() - (double)p->ops->network_cpu(stepper) * 1e-9;
}

/* TRIAL_SECONDS of it through s, to the end, or to where *over (may be NULL) becomes true; *heard:
 * without_network when all was heard. */
static steno_status hear(const steno_pool *p, steno_stepper *stepper, steno_stream *s,
                         const _Atomic bool *over, double *heard, steno_err *err)
{
    const struct steno_pool_ops *ops = p->ops;
    int rate = ops->rate(p->model);
    size_t at = 0, n = 0, used = 0, total = (size_t)(TRIAL_SECONDS * rate);
    float pcm[TRIAL_BLOCK], state[2] = {0};
    bool done = false, ending = false;
    steno_status st = STENO_OK;
    while (!st && !done && !(over && atomic_load_explicit(over, memory_order_relaxed))) {
        if (ops->ready(s)) {
            ops->step(stepper, &s, 1, &st, err);
        } else if (at < total || used < n) {
            if (used == n) {
                n = total - at < TRIAL_BLOCK ? total - at : TRIAL_BLOCK;
                sound(pcm, n, at, rate, state);
                at += n;
                used = 0;
            }
            size_t k = 0;
            st = ops->feed(s, pcm + used, n - used, &k, err);
            used += k;
        } else {
            *heard = ending ? *heard : without_network(p, stepper);
            ending = true;
            st = ops->flush(s, true, &done, err);
        }
        drain(ops, s);
    }
    return st;
}

/* One stream: *each is this thread's processor time without that of the network, in seconds for a
 * second of audio of a stream of TYPICAL seconds, *all that of the trial as a whole, in seconds. */
static steno_status trial(const steno_pool *p, steno_stepper *stepper, const _Atomic bool *over,
                          double *each, double *all, steno_err *err)
{
    const struct steno_stream_options opt = {0};
    steno_stream *s = NULL;
    double begun = without_network(p, stepper), cpu = steno_pool_thread_cpu(), heard = begun;
    steno_status st = p->ops->open(&s, p->model, &opt, err);
    if (!st)
        st = hear(p, stepper, s, over, &heard, err);
    if (s)
        p->ops->close(s);
    *all = steno_pool_thread_cpu() - cpu;
    *each = (heard - begun) / TRIAL_SECONDS + (without_network(p, stepper) - heard) / TYPICAL;
    return st;
}

/* The other workers, as busy with streams of their own as they will be: they share memory and
 * caches with the one that is measured. */
struct company {
    const steno_pool *p;
    pthread_t thread;
    bool started;
    _Atomic bool *over;
};

static void *keep_company(void *arg)
{
    struct company *c = arg;
    steno_stepper *stepper = NULL;
    double each, all;
    steno_status st = c->p->ops->stepper_open(&stepper, c->p->model, 1, NULL);
    while (!st && !atomic_load_explicit(c->over, memory_order_relaxed)) /* no data hangs on it */
        st = trial(c->p, stepper, c->over, &each, &all, NULL);
    c->p->ops->stepper_close(stepper);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All but the network: the median of some streams, fewer where one takes long. */
static steno_status measure_host(steno_pool *p, steno_stepper *stepper, steno_err *err)
{
    double each[TRIALS], spent = 0, all;
    steno_status st = STENO_OK;
    size_t n = 0;
    for (; n < TRIALS && !st && spent < TRIAL_MOST; n++, spent += all)
        st = trial(p, stepper, NULL, &each[n], &all, err);
    if (st)
        return st;
    qsort(each, n, sizeof *each, by_size);
    p->load.costs.host = fmax(each[n / 2], 0);
    return STENO_OK;
}

static steno_status measure_in_company(steno_pool *p, steno_stepper *stepper, steno_err *err)
{
    struct company others[TRIAL_COMPANY] = {{0}};
    int n = p->n_workers - 1 < TRIAL_COMPANY ? p->n_workers - 1 : TRIAL_COMPANY;
    _Atomic bool over = false;
    steno_status st;
    for (int i = 0; i < n; i++) {
        others[i].p = p;
        others[i].over = &over;
        others[i].started = !pthread_create(&others[i].thread, NULL, keep_company, &others[i]);
    }
    st = measure_host(p, stepper, err);
    atomic_store_explicit(&over, true, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (others[i].started)
            pthread_join(others[i].thread, NULL);
    return st;
}

static steno_status measure(steno_pool *p, steno_stepper *s, steno_err *err)
{
    struct steno_step_costs c;
    steno_status st = p->ops->measure(s, p->opt.batch_run, &c, err);
    if (st)
        return st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        p->load.costs.step[i] = c.seconds[i];
    return measure_in_company(p, s, err);
}

steno_status steno_pool_calibrate(steno_pool *p, const struct steno_pool_costs *known,
                                  steno_err *err)
{
    struct steno_pool_load *l = &p->load;
    int limit = p->opt.batch ? p->opt.batch : STENO_BATCH_MAX;
    steno_stepper *s = NULL;
    steno_status st = p->ops->stepper_open(&s, p->model, limit, err);
    if (st)
        return st;
    limit = p->ops->stepper_max(s);
    l->chunk = p->ops->chunk_seconds(p->model);
    if (!(l->chunk > 0)) /* a model that hears a recording as a whole: all it does is the host's */
        l->chunk = 1;
    l->slower = 1;
    l->since_ns = steno_now_ns();
    l->process_cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (known)
        l->costs = *known;
    else
        st = measure(p, s, err);
    p->ops->stepper_close(s);
    p->batch_max = best_batch(&l->costs, limit);
    return st;
}

/* ---- while running ------------------------------------------------------------------------- */

static double workers_cpu(const steno_pool *p)
{
    double sum = 0;
    for (int i = 0; i < p->n_workers; i++)
        sum += p->workers[i].cpu;
    return sum;
}

static void correct(double *value, double measured, double audio)
{
    *value += (measured - *value) * audio / (audio + WEIGHT);
}

static void look(steno_pool *p, int64_t now)
{
    struct steno_pool_load *l = &p->load;
    double seconds = (double)(now - l->since_ns) * 1e-9;
    double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), workers = workers_cpu(p);
    l->demand =
        (double)l->live_steps / seconds * (l->costs.step[0] * l->slower + l->costs.host * l->chunk);
    if (l->audio >= ENOUGH) {
        double outside = process - l->process_cpu - (workers - l->worker_cpu);
        correct(&l->costs.host, l->host / l->audio, l->audio);
        correct(&l->other, fmax(0, outside) / l->audio, l->audio);
        if (l->planned > 0)
            correct(&l->slower, fmin(fmax(l->network / l->planned, 1 / MOST_SLOWER), MOST_SLOWER),
                    l->audio);
    }
    l->since_ns = now;
    l->planned = l->network = l->host = l->audio = 0;
    l->live_steps = 0;
    l->process_cpu = process;
    l->worker_cpu = workers;
}

void steno_pool_account(steno_pool *p, const struct steno_pool_work *w)
{
    struct steno_pool_load *l = &p->load;
    int64_t now = steno_now_ns();
    l->planned += w->planned;
    l->network += w->network;
    l->host += w->host;
    l->audio += w->audio;
    l->live_steps += w->live_steps;
    if (now - l->since_ns >= LOOK_NS)
        look(p, now);
}

bool steno_pool_crowded(const steno_pool *p)
{
    return p->batch_max > 1 && p->wait_ns > 0 && p->load.demand > CROWDED * p->n_workers;
}

int steno_pool_capacity_now(const steno_pool *p)
{
    const struct steno_pool_load *l = &p->load;
    double step = cost_of(&l->costs, (size_t)p->batch_max) / p->batch_max / l->chunk * l->slower;
    double worker = l->costs.host + step;
    double fits = fmin(p->n_workers / worker, steno_cpu_count() / (worker + l->other)) * LOAD;
    int most = p->opt.max_streams;
    if (p->opt.capacity)
        return p->opt.capacity < 0 || p->opt.capacity > most ? most : p->opt.capacity;
    return fits < 1 ? 1 : fits < most ? (int)fits : most;
}
