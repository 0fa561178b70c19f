#include "speech/recognizer/endpoint.h"

#include <math.h>

/* Whether silence has lasted for e->silence_after. */
static bool is_silent(const struct steno_endpoint *e, const struct steno_endpoint_state *s)
{
    const double blank = (double)(s->now - (s->last + 1));
    double sound = s->sound;
    if (e->silence_after <= 0)
        return false;
    if (sound < (double)(s->first - e->late)) /* too soft for the VAD */
        return blank >= e->silence_after;
    sound = fmax(sound, (double)(s->last + 1 - e->late));
    return blank >= e->silence_after + (double)e->no_symbol ||
           ((double)s->now - sound >= e->silence_after && blank >= (double)e->clear);
}

enum steno_endpoint_kind steno_endpoint_check(const struct steno_endpoint *e,
                                              const struct steno_endpoint_state *s)
{
    const int64_t length = s->now - s->first;
    if (e->marks && s->ending != STENO_ENDING_NONE) /* without words it ends nothing */
        return s->first < 0                     ? STENO_ENDPOINT_EMPTY
               : s->ending == STENO_ENDING_TURN ? STENO_ENDPOINT_TURN
                                                : STENO_ENDPOINT_BACKCHANNEL;
    if (s->first < 0)
        return e->silence_alone > 0 && s->now - s->begin >= e->silence_alone ? STENO_ENDPOINT_EMPTY
                                                                             : STENO_ENDPOINT_NONE;
    if (is_silent(e, s))
        return STENO_ENDPOINT_SILENCE;
    if (e->longest > 0 && length >= e->longest &&
        (s->last < s->now - 1 || length >= e->longest + e->grace))
        return STENO_ENDPOINT_LENGTH;
    return STENO_ENDPOINT_NONE;
}
