/* What a recurrent scorer of the joint search (search/aed_beam.h) remembers of each hypothesis: a
 * state of some floats, in three generations: what the newest step began with, what the one before
 * it began with (so that a search that goes block by block can take either again), and what the
 * newest step left. Confined. */
#ifndef STENO_FAMILIES_ESPNET_BEAM_STATES_H
#define STENO_FAMILIES_ESPNET_BEAM_STATES_H

#include "base/status.h"

enum { STENO_BEAM_IN, STENO_BEAM_BEFORE, STENO_BEAM_OUT };

struct steno_beam_states {
    float *p[3];        /* [cap, stride] each; aligned */
    size_t cap, stride; /* stride: a multiple of 16 */
    bool again;         /* the next step is one that was taken before */
};

void steno_beam_states_free(struct steno_beam_states *b);
/* Room for n states of `floats`; those there are stay, with zeros behind them. False: out of
 * memory. */
bool steno_beam_states_reserve(struct steno_beam_states *b, size_t n, size_t floats);
/* A step of n hypotheses begins: IN of each is what its parent left, or zeros (parent NULL). After
 * rewind: IN is there already. */
void steno_beam_states_step(struct steno_beam_states *b, const int32_t *parent, size_t n);
/* struct steno_joint_scorer's rewind. */
void steno_beam_states_rewind(struct steno_beam_states *b, int calls);
size_t steno_beam_states_bytes(const struct steno_beam_states *b);

static inline float *steno_beam_state(const struct steno_beam_states *b, int which, size_t i)
{
    return b->p[which] + i * b->stride;
}

#endif
