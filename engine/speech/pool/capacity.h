/* How many live streams a machine carries: what one takes of it, and how much is left for them. No
 * clocks and no locks, so that a test can let hours pass. Confined; in a pool, by the pool's lock.
 * docs/admission.md explains the constants. */
#ifndef STENO_POOL_CAPACITY_H
#define STENO_POOL_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

/* Share of the processors that may be busy, with everything else that the machine does. */
#define STENO_POOL_BUSY 0.7
#define STENO_POOL_MEAN_SECONDS 5.0    /* time constant of recent means */
#define STENO_POOL_STREAM_SECONDS 10.0 /* of a stream, over which its cost is a mean */
#define STENO_POOL_LOOK_SECONDS (STENO_POOL_MEAN_SECONDS / 10) /* between two looks */

struct steno_capacity {
    /* given */
    double planned; /* s of a processor that a second of a live stream's audio takes */
    int workers, cpus;
    double quota; /* processors that the control group may use */
    bool parts;   /* streams take steps by parts (Whisper) */
    /* learnt: recent processor time of live streams, and the same as planned */
    double spent, expected;
    double rate;   /* recent s of live audio per s */
    double others; /* processors that all but the workers keep busy, recent mean */
    /* at the last look; free is 0 before the first */
    int64_t at_ns;
    double free, worked;
};

/* What a look finds. */
struct steno_capacity_look {
    int64_t now_ns;
    double free;   /* s that the processors together have been free; <= 0: not known */
    double worked; /* s of a processor that the workers have taken */
    /* Of live streams since the last look: s of audio, s of a processor, and the same as planned */
    double audio, spent, planned;
};

/* planned, workers, cpus, quota and parts are set, the rest is 0. */
void steno_capacity_start(struct steno_capacity *c, int64_t now_ns);
void steno_capacity_look(struct steno_capacity *c, const struct steno_capacity_look *l);
/* Return what live streams take, relative to what was planned. */
double steno_capacity_slower(const struct steno_capacity *c);
/* Return the number of live streams that fit. */
double steno_capacity_fit(const struct steno_capacity *c);

#endif
