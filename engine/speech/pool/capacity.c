/* A live stream takes, per second of audio, what was planned times how much slower the machine has
 * become. What fits into BUSY of the processors, less what everything else takes, is the capacity.
 * docs/admission.md */
#include "speech/pool/capacity.h"

#include <math.h>

/* STENO_POOL_BUSY of streams that take steps by parts: their results take longer than they wait,
 * and partials become rarer instead of late. docs/whisper.md, "Live". */
#define BUSY_PARTS 0.8
/* s of a processor per s of audio for sockets and JSON: ten messages of 15 us on Zen 4. It is known
 * beforehand; what they really take is part of `others`. */
#define SOCKETS 150e-6

/* Above it queues grow, even if other processors are free. */
static double workers_busy(void)
{
    return (1 + STENO_POOL_BUSY) / 2;
}

double steno_capacity_slower(const struct steno_capacity *c)
{
    return c->expected > 0 ? c->spent / c->expected : 1;
}

double steno_capacity_fit(const struct steno_capacity *c)
{
    const double busy = c->parts ? BUSY_PARTS : STENO_POOL_BUSY;
    const double worker = c->planned * steno_capacity_slower(c), all = worker + SOCKETS;
    /* Load that came with the streams stays in it. So the nearer the streams come to the capacity,
     * the less matters what SOCKETS leaves out. If both want everything, each gets half. */
    const double others = fmin(fmax(c->others - c->rate * SOCKETS, 0), c->cpus * busy / 2);
    return fmin(c->workers * workers_busy() / worker,
                fmin(c->cpus * busy - others, c->quota * busy) / all);
}

void steno_capacity_start(struct steno_capacity *c, int64_t now_ns)
{
    c->at_ns = now_ns;
    c->spent = c->expected = c->planned * steno_capacity_fit(c) * STENO_POOL_MEAN_SECONDS;
}

/* A mean over STENO_POOL_STREAM_SECONDS of a full pool. Few streams count by the square of their
 * share, since they do not cost what each of many costs: batches are smaller, and threads wake more
 * often. */
static void learn_cost(struct steno_capacity *c, const struct steno_capacity_look *l)
{
    const double fit = steno_capacity_fit(c), use = fmin(c->rate / fit, 1);
    const double most = c->planned * fit * STENO_POOL_STREAM_SECONDS;
    c->spent += use * use * l->spent;
    c->expected += use * use * l->planned;
    if (c->expected > most) {
        c->spent *= most / c->expected;
        c->expected = most;
    }
}

void steno_capacity_look(struct steno_capacity *c, const struct steno_capacity_look *l)
{
    const double seconds = (double)(l->now_ns - c->at_ns) * 1e-9;
    const double part = -expm1(-seconds / STENO_POOL_MEAN_SECONDS);
    if (!(seconds > 0))
        return;
    learn_cost(c, l);
    c->rate += (l->audio / seconds - c->rate) * part;
    if (c->free > 0 && l->free > 0)
        c->others +=
            (c->cpus - (l->free - c->free + l->worked - c->worked) / seconds - c->others) * part;
    c->at_ns = l->now_ns;
    c->free = l->free;
    c->worked = l->worked;
}
