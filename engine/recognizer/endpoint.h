/* When an utterance is over (the rules of Kaldi's online2/online-endpoint.h, on frames). Pure. */
#ifndef STENO_RECOGNIZER_ENDPOINT_H
#define STENO_RECOGNIZER_ENDPOINT_H

#include "base/status.h"

struct steno_endpoint {    /* frames; 0 or less = that rule is off */
    int64_t silence_alone; /* trailing silence, nothing heard yet */
    int64_t silence_after; /* trailing silence after something was heard */
    int64_t longest;       /* frames since the first sound */
    int64_t grace;         /* past longest: wait this long for a silent frame to cut at */
};

enum steno_endpoint_kind {
    STENO_ENDPOINT_NONE,
    STENO_ENDPOINT_EMPTY, /* silence only: start over, nothing to report */
    STENO_ENDPOINT_SILENCE,
    STENO_ENDPOINT_LENGTH
};

/* now: frames decoded so far; begin: frame the utterance began at; first, last: first and last
 * frame in it that were not silent (first < 0: none). All on one count. */
enum steno_endpoint_kind steno_endpoint_check(const struct steno_endpoint *e, int64_t now,
                                              int64_t begin, int64_t first, int64_t last);

#endif
