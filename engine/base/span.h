/* What searches find and words are made of. */
#ifndef STENO_BASE_SPAN_H
#define STENO_BASE_SPAN_H

#include <stdint.h>

/* A token and the frames it was heard in. */
struct steno_span {
    int32_t token;
    float peak;          /* highest log-probability of the token in its frames */
    int64_t first, last; /* frames, both included */
};

#endif
