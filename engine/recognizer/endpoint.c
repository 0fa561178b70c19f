#include "recognizer/endpoint.h"

enum steno_endpoint_kind steno_endpoint_check(const struct steno_endpoint *e, int64_t now,
                                              int64_t begin, int64_t first, int64_t last)
{
    if (first < 0)
        return e->silence_alone > 0 && now - begin >= e->silence_alone ? STENO_ENDPOINT_EMPTY
                                                                       : STENO_ENDPOINT_NONE;
    if (e->silence_after > 0 && now - (last + 1) >= e->silence_after)
        return STENO_ENDPOINT_SILENCE;
    if (e->longest > 0 && now - first >= e->longest &&
        (last < now - 1 || now - first >= e->longest + e->grace))
        return STENO_ENDPOINT_LENGTH;
    return STENO_ENDPOINT_NONE;
}
