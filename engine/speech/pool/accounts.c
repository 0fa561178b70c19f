/* What the workers' time was spent on, as the capacity and the choice of batches need it. */
#include "base/clock.h"
#include "speech/pool/internal.h"

double steno_pool_thread_cpu(void)
{
    return 1e-9 * (double)steno_thread_ns();
}

/* Even in the middle of their rounds, which take seconds with a large model. */
static double workers_cpu(const steno_pool *p)
{
    double sum = 0;
    struct timespec ts;
    for (int i = 0; i < p->n_workers; i++)
        if (p->workers[i].has_clock && !clock_gettime(p->workers[i].clock, &ts))
            sum += (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
    return sum;
}

double steno_pool_planned(const steno_pool *p, size_t n)
{
    struct steno_step_costs s;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        s.seconds[i] = p->load.costs.step[i];
    return steno_step_cost(&s, n);
}

void steno_pool_plan(steno_pool *p)
{
    struct steno_capacity *c = &p->load.capacity;
    const size_t n = (size_t)p->batch_max;
    c->planned = p->load.costs.host + steno_pool_planned(p, n) / (double)n / p->load.chunk;
    steno_capacity_start(c, steno_now_ns());
}

double steno_pool_each(const steno_pool *p)
{
    return p->load.capacity.planned * steno_capacity_slower(&p->load.capacity);
}

static bool is_look_due(const steno_pool *p, int64_t now_ns)
{
    return !p->load.measuring &&
           now_ns - p->load.capacity.at_ns >= (int64_t)(1e9 * STENO_POOL_LOOK_SECONDS);
}

bool steno_pool_account(steno_pool *p, const struct steno_pool_work *w)
{
    struct steno_pool_load *l = &p->load;
    l->since.audio += w->live_audio;
    l->since.spent += w->live_cpu;
    l->since.planned += w->live_planned + w->live_audio * l->costs.host;
    l->steps += w->live_steps;
    return is_look_due(p, steno_now_ns());
}

/* The pool's lock is held. */
static void look(steno_pool *p, double cpu_free)
{
    struct steno_pool_load *l = &p->load;
    const int64_t now = steno_now_ns();
    const double seconds = (double)(now - l->capacity.at_ns) * 1e-9;
    if (!is_look_due(p, now))
        return; /* another thread was faster */
    l->since.now_ns = now;
    l->since.free = cpu_free;
    l->since.worked = workers_cpu(p);
    steno_capacity_look(&l->capacity, &l->since);
    l->demand = (double)l->steps / seconds * (l->costs.step[0] + l->costs.host * l->chunk) *
                steno_capacity_slower(&l->capacity);
    l->since = (struct steno_capacity_look){0};
    l->steps = 0;
}

void steno_pool_look(steno_pool *p)
{
    double cpu_free;
    bool due;
    pthread_mutex_lock(&p->lock);
    due = is_look_due(p, steno_now_ns());
    pthread_mutex_unlock(&p->lock);
    if (!due)
        return;
    cpu_free = p->ops->cpu_free ? p->ops->cpu_free() : 0; /* reads files, so without the lock */
    pthread_mutex_lock(&p->lock);
    look(p, cpu_free);
    pthread_mutex_unlock(&p->lock);
}

bool steno_pool_crowded(const steno_pool *p)
{
    return p->batch_max > 1 && p->wait_ns > 0 && !p->load.capacity.parts &&
           p->load.demand > p->n_workers;
}

int steno_pool_capacity_now(const steno_pool *p)
{
    const int most = p->opt.max_streams;
    /* a stream for each worker until the cost of one is known */
    const double n = p->load.measuring ? p->n_workers : steno_capacity_fit(&p->load.capacity);
    if (p->opt.capacity)
        return p->opt.capacity < 0 || p->opt.capacity > most ? most : p->opt.capacity;
    return n < 1 ? 1 : n < most ? (int)n : most;
}
