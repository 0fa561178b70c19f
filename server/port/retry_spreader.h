/* Spreads the Retry-After times of refused clients. A thousand clients with the same time come back
 * together, second after second. So each second is given to a limited number of clients; the next
 * ones get a later second, up to a minute later. Confined. */
#ifndef STENO_SERVER_PORT_RETRY_SPREADER_H
#define STENO_SERVER_PORT_RETRY_SPREADER_H

#include <stdint.h>

struct steno_retry_spreader { /* zero at first */
    int64_t last;             /* s of CLOCK_MONOTONIC: the latest second that was given */
    int n;                    /* clients that got it */
};

/* Whole seconds from now_ns (CLOCK_MONOTONIC) until a client that is refused now should come back;
 * at least `least`. */
double steno_retry_spreader_next(struct steno_retry_spreader *c, int64_t now_ns, double least);

#endif
