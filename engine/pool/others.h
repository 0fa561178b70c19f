/* What else the machine does: how much of its processors is left to this process, and how much of
 * the rest comes and goes with the streams (a proxy in front, clients on the same machine). */
#ifndef STENO_POOL_OTHERS_H
#define STENO_POOL_OTHERS_H

#include <stdint.h>

struct steno_pool_others {
    double busy;  /* processors that others keep busy, lately */
    double rate;  /* s of audio per s meanwhile */
    double alone; /* busy, when there was next to no audio last */
    double each;  /* s per s of audio: what the others take more with more of it */
    /* at the last look; free is not above 0 before the first */
    int64_t at_ns;
    double free, process;
};

/* At now_ns: the machine's processors (cpus of them) have been free for `free` s so far and worked
 * `process` s for this process; 0 where the first is not known. rate: s of audio per s since the
 * last look; most: of which the machine can carry about as much. */
void steno_pool_others_look(struct steno_pool_others *o, int64_t now_ns, int cpus, double free,
                            double process, double rate, double most);
/* The rate that fits where this process may take, with the others, `cpus` processors, and takes
 * `own` s for a s of audio. What others do of their own leaves it half of them at least. */
double steno_pool_others_fit(const struct steno_pool_others *o, double cpus, double own);

#endif
