#include "speech/pool/others.h"

#include <math.h>

#define IDLE_RATE 0.02 /* of the rate that fits: below it, all load of others is their own */
/* Above it, load of others beyond their own comes from the audio. */
#define LOADED_RATE 0.25
/* limit of their load, of the processors: others who take more share them with this process, as the
 * kernel's scheduler does */
#define OTHERS_MOST 0.5

static void blend(double *value, double measured, double seconds)
{
    *value += (measured - *value) * -expm1(-seconds / STENO_POOL_MEAN_SECONDS);
}

void steno_pool_others_look(struct steno_pool_others *o, int64_t now_ns, int cpus, double free,
                            double process, double rate, double most)
{
    double seconds = (double)(now_ns - o->at_ns) * 1e-9;
    if (!(free > 0))
        return;
    if (o->free > 0 && seconds > 0) {
        double busy = cpus - (free - o->free + process - o->process) / seconds;
        blend(&o->busy, fmin(fmax(busy, 0), cpus), seconds);
        blend(&o->rate, rate, seconds);
        if (o->rate < IDLE_RATE * most)
            blend(&o->alone, o->busy, seconds);
        else if (o->rate > LOADED_RATE * most)
            blend(&o->each, fmax(o->busy - o->alone, 0) / o->rate, seconds);
    }
    o->at_ns = now_ns;
    o->free = free;
    o->process = process;
}

double steno_pool_others_fit(const struct steno_pool_others *o, double cpus, double own)
{
    double alone = fmin(o->busy - o->each * o->rate, OTHERS_MOST * cpus);
    /* A job that began after the streams looks like load that comes with them. Streams refused for
     * it would make it look like more for each of those left. */
    return fmax((cpus - alone) / (own + o->each), (1 - OTHERS_MOST) * cpus / own);
}
