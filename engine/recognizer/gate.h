/* Which of a stream's samples the networks need not hear. Samples go in, are judged (vad.h), and
 * come out again; while nobody speaks they are held back for STENO_GATE_AHEAD, so that what comes
 * out is known to be STENO_GATE_BEFORE at least from the next speech. What is farther than
 * STENO_GATE_AFTER behind speech, and STENO_GATE_BEFORE before it, is quiet. Which samples are does
 * not depend on how they were cut into pushes. Confined.
 *
 * STENO_GATE_AFTER is longer than endpoints usually wait, so that finals do not come later. */
#ifndef STENO_RECOGNIZER_GATE_H
#define STENO_RECOGNIZER_GATE_H

#include "steno.h"

#define STENO_GATE_BEFORE 0.2 /* s */
#define STENO_GATE_AFTER 1.0

typedef struct steno_gate steno_gate;

/* rate: Hz; lead: samples that are not pushed count as quiet in front of the first. */
STENO_MUST steno_status steno_gate_open(steno_gate **out, const steno_vad *vad, int rate,
                                        int64_t lead, steno_err *err);
void steno_gate_close(steno_gate *g);
/* All of pcm [n] f32 is taken. On failure the gate is of no more use. */
STENO_MUST steno_status steno_gate_push(steno_gate *g, const float *pcm, size_t n, steno_err *err);
/* Nothing is pushed any more until reset: what is held back may come out. */
void steno_gate_end(steno_gate *g);
/* The samples that may come out: *n of them at *pcm, valid until the next call; false: none. */
bool steno_gate_peek(const steno_gate *g, const float **pcm, size_t *n);
void steno_gate_drop(steno_gate *g, size_t n);
/* Samples that are in and not out. */
size_t steno_gate_held(const steno_gate *g);
/* Whether samples [from, to) since open or reset, the lead counted, are quiet; those before `to`
 * must have come out. */
bool steno_gate_quiet(const steno_gate *g, int64_t from, int64_t to);
STENO_MUST steno_status steno_gate_reset(steno_gate *g, steno_err *err);

#endif
