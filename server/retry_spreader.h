/* When those who are refused are told to come back. A thousand that are told the same come back
 * together, each second anew; so every second is promised to so many only, and the next ones are
 * told a later one, up to a minute later. Confined. */
#ifndef STENO_SERVER_RETRY_SPREADER_H
#define STENO_SERVER_RETRY_SPREADER_H

#include <stdint.h>

struct steno_retry_spreader { /* zero at first */
    int64_t last;             /* s of CLOCK_MONOTONIC: the latest that somebody was told of */
    int n;                    /* who were */
};

/* Whole seconds from now_ns (CLOCK_MONOTONIC) until somebody who is refused now should come,
 * `least` or more. */
double steno_retry_spreader_next(struct steno_retry_spreader *c, int64_t now_ns, double least);

#endif
