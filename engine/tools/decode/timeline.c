#include "tools/decode/timeline.h"

#define LEAST_LEAD 0.02  /* seconds; below, it is rounding and priming */
#define LEAST_GAP 0.1    /* of FFmpeg's aresample, too: times of packets are rounded, and jitter */
#define LONGEST 21600.0  /* beyond, the clock is wrong */
#define LONGEST_JUMP 10. /* where clocks restart; FFmpeg's -dts_delta_threshold */
#define LONGEST_JOIN 60. /* a stream that begins later was joined, its begin is now */

int64_t steno_timeline_take(struct steno_timeline *t, int64_t time, int64_t n)
{
    const double seconds = ((double)time - (double)t->ahead - (double)t->at) / t->rate;
    const double longest = t->begun    ? t->restarts ? LONGEST_JUMP : LONGEST
                           : t->joined ? LONGEST_JOIN
                                       : LONGEST;
    int64_t silence = 0;
    if (seconds > longest || seconds < -LONGEST_JUMP)
        t->ahead = time - t->at;
    else if (seconds > (t->begun ? LEAST_GAP : LEAST_LEAD))
        silence = time - t->ahead - t->at;
    t->at += silence;
    steno_timeline_go_on(t, n);
    return silence;
}

void steno_timeline_go_on(struct steno_timeline *t, int64_t n)
{
    t->begun = true;
    t->at += n;
}
