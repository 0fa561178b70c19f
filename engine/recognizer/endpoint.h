/* Decides when an utterance is over: the rules of Kaldi's online2/online-endpoint.h, on frames.
 * Pure functions. */
#ifndef STENO_RECOGNIZER_ENDPOINT_H
#define STENO_RECOGNIZER_ENDPOINT_H

#include "base/status.h"

struct steno_endpoint {    /* frames; 0 or less: the rule is off */
    int64_t silence_alone; /* trailing silence before any sound */
    int64_t silence_after; /* trailing silence after sound */
    int64_t longest;       /* frames since the first sound */
    int64_t grace;         /* after longest: wait this long for a silent frame to cut at */
};

enum steno_endpoint_kind {
    STENO_ENDPOINT_NONE,
    STENO_ENDPOINT_EMPTY, /* silence only: begin again, with no result */
    STENO_ENDPOINT_SILENCE,
    STENO_ENDPOINT_LENGTH
};

/* Apply the rules. All arguments count frames from the same origin. now: frames decoded so far;
 * begin: first frame of the utterance; first, last: its first and last frame with sound (first < 0:
 * none). */
enum steno_endpoint_kind steno_endpoint_check(const struct steno_endpoint *e, int64_t now,
                                              int64_t begin, int64_t first, int64_t last);

#endif
