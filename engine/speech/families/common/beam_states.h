/* States of a recurrent scorer of the joint search (search/aed_beam.h): some floats per hypothesis,
 * in three generations. IN is what the newest step began with, BEFORE what the step before it began
 * with, OUT what the newest step left. A search that goes block by block can repeat either step.
 * Confined. */
#ifndef STENO_FAMILIES_COMMON_BEAM_STATES_H
#define STENO_FAMILIES_COMMON_BEAM_STATES_H

#include "base/status.h"

enum { STENO_BEAM_IN, STENO_BEAM_BEFORE, STENO_BEAM_OUT };

struct steno_beam_states {
    float *p[3];        /* [cap, stride] each; aligned */
    size_t cap, stride; /* stride: a multiple of 16 */
    bool again;         /* the next step repeats an earlier one */
};

void steno_beam_states_free(struct steno_beam_states *b);
/* Make room for n states of `floats`. Existing states keep their values; the rest is zero. False:
 * out of memory, and nothing has changed. */
bool steno_beam_states_reserve(struct steno_beam_states *b, size_t n, size_t floats);
/* Begin a step of n hypotheses: IN of each becomes OUT of its parent, or zeros (parent NULL). After
 * rewind IN stays as it is. */
void steno_beam_states_step(struct steno_beam_states *b, const int32_t *parent, size_t n);
/* struct steno_joint_scorer's rewind. */
void steno_beam_states_rewind(struct steno_beam_states *b, int calls);
size_t steno_beam_states_bytes(const struct steno_beam_states *b);

static inline float *steno_beam_state(const struct steno_beam_states *b, int which, size_t i)
{
    return b->p[which] + i * b->stride;
}

#endif
