/* Spans of tokens: results of searches, and the input for words. */
#ifndef STENO_BASE_SPAN_H
#define STENO_BASE_SPAN_H

#include <stdint.h>

/* A token and the frames in which it was recognized. */
struct steno_span {
    int32_t token;
    float peak;          /* highest log-probability of the token in these frames */
    int64_t first, last; /* frames, both inclusive */
};

#endif
