#include "server/port/retry_spreader.h"

#include <math.h>

/* A refusal costs 35 us on Zen 4 (docs/log/2026-11-22.md); COME_BACK of them per second cost 2 % of
 * a core. */
#define COME_BACK 500 /* clients in one second */
#define MOST_LATER 60 /* s beyond the minimum */

double steno_retry_spreader_next(struct steno_retry_spreader *c, int64_t now_ns, double least)
{
    int64_t now = now_ns / 1000000000, first = now + (int64_t)ceil(least);
    if (c->last < first || c->last > first + MOST_LATER) {
        c->last = first;
        c->n = 0;
    } else if (c->n >= COME_BACK && c->last < first + MOST_LATER) {
        c->last++;
        c->n = 0;
    }
    c->n++;
    return (double)(c->last - now);
}
