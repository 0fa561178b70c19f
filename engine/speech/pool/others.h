/* The load of other processes on the machine: how much of the processors is left to this one, and
 * how much of that load comes and goes with the streams (a proxy in front, clients on the same
 * machine). */
#ifndef STENO_POOL_OTHERS_H
#define STENO_POOL_OTHERS_H

#include <stdint.h>

#define STENO_POOL_MEAN_SECONDS 5.0 /* time constant of recent means */

struct steno_pool_others {
    double busy;  /* processors that others keep busy, recent mean */
    double rate;  /* s of audio per s in the same time */
    double alone; /* busy, as of the last time with next to no audio */
    /* Additional load of others, s per s of audio. */
    double each;
    /* at the last look; free is 0 before the first */
    int64_t at_ns;
    double free, process;
};

/* Record a look at now_ns. free, process: seconds so far that the machine's `cpus` processors have
 * been free, and have worked for this process; free is 0 if not known. rate: s of audio per s since
 * the last look; most: about the rate that the machine can carry. */
void steno_pool_others_look(struct steno_pool_others *o, int64_t now_ns, int cpus, double free,
                            double process, double rate, double most);
/* Return the rate that fits if this process and the others may take `cpus` processors together,
 * and this process takes `own` s per s of audio. The others' own work leaves it at least half of
 * them. */
double steno_pool_others_fit(const struct steno_pool_others *o, double cpus, double own);

#endif
