/* Who speaks, told while it is said: what steno.h has, with the rules that tests change. */
#ifndef STENO_SPEAKERS_LIVE_H
#define STENO_SPEAKERS_LIVE_H

#include "speech/speakers/stable.h"
#include "steno.h"

struct steno_live_rules {
    double hop;                       /* s between windows */
    double delay;                     /* s of a window after the frames that it labels */
    struct steno_stable_rules labels; /* share and max_speakers are filled in */
};
extern const struct steno_live_rules steno_live_own;

/* steno_live_speakers_open with other rules, which are copied. */
STENO_MUST steno_status steno_live_speakers_open_rules(steno_live_speakers **out,
                                                       const steno_speakers *speakers,
                                                       int sample_rate, int max_speakers,
                                                       const struct steno_live_rules *rules,
                                                       steno_err *err);

#endif
