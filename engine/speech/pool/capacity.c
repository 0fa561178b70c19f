/* Costs of a stream on this machine, and the capacity.
 *
 * At start the network is timed on noise for every batch size, and everything around it (features,
 * search, the end of a stream) with some streams of a few seconds of sound each (trial.c). If
 * streams run networks of their own, only those streams count. They may take seconds, so the pool
 * serves meanwhile, with a few streams per worker. At run time both are compared with what the
 * workers really take, which includes other load on the machine, and the process's time outside its
 * workers (sockets, JSON) is added. A live stream then takes, per second of audio,
 *
 *     worker = host + step(largest batch) / largest batch / chunk * slower
 *
 * of a worker's time, and worker * running + other of a processor's. The capacity is what fits into
 * LOAD of the workers, into BUSY (or BUSY_PARTS) of the processors together with everything else
 * that the machine does (others.c), and into as much of the control group's quota.
 * docs/admission.md has the constants of all files that decide it. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/processors.h"
#include "speech/pool/internal.h"

/* Share of the processors' time, others' work included; above it latencies grow. */
#define BUSY 0.7
/* The same if streams take steps by parts (Whisper): their results take longer than they wait, and
 * partials become rarer instead of late. docs/whisper.md, "Live", has latencies up to 92 %. */
#define BUSY_PARTS 0.8
/* Share of a worker's time for streams, where workers are fewer than processors; above it queues
 * grow. */
#define LOAD ((1 + BUSY) / 2)
#define LOOK (STENO_POOL_MEAN_SECONDS / 10) /* s between two looks */
#define ENOUGH 1.0                          /* s of audio that a correction needs */
#define WEIGHT 20.0                         /* s of audio: weight of the value so far */
/* s of as many streams as fit: weight of host's mean, at most; what is known at start has that of
 * STENO_POOL_MEAN_SECONDS. An utterance of Whisper costs little while it is spoken and much at its
 * end; in means over 5 s the capacity went from 15 to 29 while the same 19 streams ran. */
#define HOST_MOST 30.0
/* s per s of audio until it is measured: ten messages of 15 us on Zen 4. */
#define OTHER 150e-6
#define AT_ONCE 0.1 /* largest part of the way that one look goes */
/* Streams opened and closed between two looks, relative to live ones; more is a rush. */
#define TURNOVER 0.1
/* Of few live streams so many may come or go in any look: the end of each is part of its cost. */
#define TURNOVER_FREE 2
#define WORTH 0.97       /* a larger batch must cost less than this per stream, relatively */
#define UNKNOWN 4        /* streams per worker until their cost is known, even of large models */
#define MOST_SLOWER 20.0 /* bounds of the correction are 1 / this and this */

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

/* Return the largest batch size that is worth it: each larger size must cost less per stream by
 * WORTH. Larger sizes are marked unused. */
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

void steno_pool_watch_begin(struct steno_pool_watch *w)
{
    w->wall_ns = steno_now_ns();
    w->cpu = steno_pool_thread_cpu();
}

double steno_pool_watch_end(const struct steno_pool_watch *w)
{
    double cpu = steno_pool_thread_cpu() - w->cpu;
    return cpu > 0 ? (double)(steno_now_ns() - w->wall_ns) * 1e-9 / cpu : 1;
}

/* *whole: nothing is left to measure later. */
static steno_status measure(steno_pool *p, steno_batcher *s, bool *whole, steno_err *err)
{
    struct steno_step_costs c = {0};
    steno_status st = p->ops->measure(s, p->opt.batch_run, &c, err);
    if (st)
        return st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        p->load.costs.step[i] = c.seconds[i];
    *whole = !c.more;
    if (*whole)
        return steno_pool_try(p, s, &p->load.costs.host, err);
    /* The streams' own networks are measured later, which may take long. */
    p->load.measuring = !p->opt.capacity;
    return STENO_OK;
}

steno_status steno_pool_calibrate(steno_pool *p, const struct steno_pool_costs *known,
                                  steno_err *err)
{
    struct steno_pool_load *l = &p->load;
    int limit = p->opt.batch ? p->opt.batch : STENO_BATCH_MAX;
    steno_batcher *s = NULL;
    struct steno_pool_watch w;
    bool whole = false;
    steno_status st = p->ops->batcher_open(&s, p->model, limit, err);
    if (st)
        return st;
    steno_pool_watch_begin(&w);
    limit = p->ops->batcher_max(s);
    l->chunk = p->ops->chunk_seconds(p->model);
    /* A model without chunks takes whole recordings: all it does counts as host. */
    if (!(l->chunk > 0))
        l->chunk = 1;
    l->cpus = steno_cpu_count();
    l->quota = steno_cpu_quota();
    l->slower = l->running = 1;
    l->other = OTHER;
    l->host_weight = STENO_POOL_MEAN_SECONDS;
    atomic_init(&l->since_ns, steno_now_ns());
    l->process_cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (known)
        l->costs = *known;
    else
        st = measure(p, s, &whole, err);
    p->batch_max = best_batch(&l->costs, limit);
    l->shares = p->ops->batcher_shares && p->ops->batcher_shares(s);
    if (l->shares)
        p->batch_max = limit; /* the streams' parts limit it */
    p->ops->batcher_close(s);
    if (!st && whole && p->opt.on_measured)
        p->opt.on_measured(p->opt.measured_user, &l->costs, steno_pool_watch_end(&w), 0);
    return st;
}

/* ---- at run time -------------------------------------------------------------------------- */

static double workers_cpu(const steno_pool *p)
{
    double sum = 0;
    for (int i = 0; i < p->n_workers; i++)
        sum += p->workers[i].cpu;
    return sum;
}

/* Weight of a look, by the part of the capacity that is in use: the cost of few streams is not that
 * of many, which run in larger batches and wake their threads less often. */
static double weight_of_use(double rate, double fit)
{
    double share = fmin(rate / fit, 1);
    return share * share;
}

/* One look with many streams covers much audio but little time: what a thousand streams that begin
 * together cost for half a second is not their usual cost. So it goes AT_ONCE of the way at most.
 */
static void correct(double *value, double measured, double audio, double use)
{
    *value += (measured - *value) * fmin(audio / (audio + WEIGHT), AT_ONCE) * use;
}

/* Move host towards what live streams took since the last look: a mean over HOST_MOST s, at first
 * over fewer. Uploads do not count: without partials they take another amount per second of audio.
 * The part in use is a recent mean too: where streams wait for many ends of utterances at once they
 * are fed less audio, and if such looks counted less, so would the ends. */
static void correct_host(struct steno_pool_load *l, double fit)
{
    double weight = l->live_audio / fit * weight_of_use(l->live_rate, fit);
    if (l->live_audio < ENOUGH)
        return;
    l->costs.host += (l->live_host / l->live_audio - l->costs.host) *
                     fmin(weight / (weight + l->host_weight), AT_ONCE);
    l->host_weight = fmin(l->host_weight + weight, HOST_MOST);
}

static struct steno_pool_turnover turnover(const steno_pool *p)
{
    return (struct steno_pool_turnover){.all = 2 * (int64_t)p->stats.opened - p->stats.active,
                                        .live = p->load.live_turnover};
}

/* True if of all live streams at most TURNOVER were opened or closed (changed) since the last look,
 * and at most as many refused as run. Only then is the time spent the cost of the running streams'
 * audio. The cost of a rush of clients is not: it does not grow with the audio, and each refusal
 * would make the next one likelier. Nor is the cost of hundreds of streams that end together,
 * divided by the little audio of those left. */
static bool is_steady(const steno_pool *p, int64_t changed)
{
    return (double)changed <= TURNOVER * p->stats.live &&
           p->stats.refused - p->load.refused <= (uint64_t)p->stats.live;
}

double steno_pool_each(const steno_pool *p)
{
    const struct steno_pool_load *l = &p->load;
    double step = cost_of(&l->costs, (size_t)p->batch_max) / p->batch_max / l->chunk * l->slower;
    return l->costs.host + step;
}

/* Number of streams that fit in real time, by their costs. */
static double fits(const steno_pool *p)
{
    const struct steno_pool_load *l = &p->load;
    double worker = steno_pool_each(p), own = worker * l->running + l->other;
    double busy = l->shares ? BUSY_PARTS : BUSY;
    double machine = steno_pool_others_fit(&l->others, l->cpus * busy, own);
    return fmin(p->n_workers * LOAD / worker, fmin(machine, l->quota * busy / own));
}

static void look(steno_pool *p, int64_t now, double cpu_free)
{
    struct steno_pool_load *l = &p->load;
    double seconds = (double)(now - l->since_ns) * 1e-9;
    double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), workers = workers_cpu(p);
    double rate = l->live_audio / seconds, fit = fits(p);
    const struct steno_pool_turnover turned = turnover(p);
    l->live_rate += (rate - l->live_rate) * -expm1(-seconds / STENO_POOL_MEAN_SECONDS);
    l->demand =
        (double)l->live_steps / seconds * (l->costs.step[0] * l->slower + l->costs.host * l->chunk);
    if (!l->measuring && is_steady(p, turned.live - l->turnover.live - TURNOVER_FREE))
        correct_host(l, fit);
    if (l->audio >= ENOUGH) {
        double outside = process - l->process_cpu - (workers - l->worker_cpu);
        double use = weight_of_use(l->audio / seconds, fit), a = l->audio;
        if (is_steady(p, turned.all - l->turnover.all))
            correct(&l->other, fmax(0, outside) / a, a, use);
        if (workers > l->worker_cpu && l->host + l->network > 0)
            correct(&l->running, fmin((workers - l->worker_cpu) / (l->host + l->network), 1), a,
                    use);
        if (l->planned > 0)
            correct(&l->slower, fmin(fmax(l->network / l->planned, 1 / MOST_SLOWER), MOST_SLOWER),
                    a, use);
    }
    steno_pool_others_look(&l->others, now, l->cpus, cpu_free, process, rate, fits(p));
    atomic_store_explicit(&l->since_ns, now, memory_order_relaxed);
    l->planned = l->network = l->host = l->audio = l->live_host = l->live_audio = 0;
    l->live_steps = 0;
    l->turnover = turned;
    l->refused = p->stats.refused;
    l->process_cpu = process;
    l->worker_cpu = workers;
}

bool steno_pool_look_due(const steno_pool *p)
{
    return steno_now_ns() - atomic_load_explicit(&p->load.since_ns, memory_order_relaxed) >=
           (int64_t)(LOOK * 1e9);
}

void steno_pool_account(steno_pool *p, const struct steno_pool_work *w)
{
    struct steno_pool_load *l = &p->load;
    int64_t now = steno_now_ns();
    l->planned += w->planned;
    l->network += w->network;
    l->host += w->host;
    l->audio += w->audio;
    l->live_host += w->live_host;
    l->live_audio += w->live_audio;
    l->live_steps += w->live_steps;
    if (now - l->since_ns >= (int64_t)(LOOK * 1e9))
        look(p, now, w->cpu_free);
}

bool steno_pool_crowded(const steno_pool *p)
{
    return p->batch_max > 1 && p->wait_ns > 0 && !p->load.shares && p->load.demand > p->n_workers;
}

int steno_pool_capacity_now(const steno_pool *p)
{
    const struct steno_pool_load *l = &p->load;
    double n = fits(p);
    int most = p->opt.max_streams;
    if (p->opt.capacity)
        return p->opt.capacity < 0 || p->opt.capacity > most ? most : p->opt.capacity;
    if (l->measuring)
        return p->n_workers * UNKNOWN < most ? p->n_workers * UNKNOWN : most;
    return n < 1 ? 1 : n < most ? (int)n : most;
}
