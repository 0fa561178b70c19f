/* Continuous integrate-and-fire (Dong and Xu, "CIF: Continuous Integrate-and-Fire for End-to-End
 * Speech Recognition", ICASSP 2020): weights of frames add up; at 1 a token fires, and its
 * embedding is the weighted sum of the frames since the last one. The rest of the weight begins the
 * next token. Confined. */
#ifndef STENO_FAMILIES_FUNASR_CIF_H
#define STENO_FAMILIES_FUNASR_CIF_H

#include "base/status.h"

struct steno_cif {
    size_t dim;
    float *sum;     /* [dim] weighted frames of the open token */
    float integral; /* of their weights, in [0, 1) */
    int quiet;      /* frames since the last one of some weight */
};

/* A token that fires at the end of speech: at its integral so far plus this (FunASR's
 * tail_threshold). */
#define STENO_CIF_TAIL 0.45f
#define STENO_CIF_QUIET 0.05f  /* a smaller weight is of a frame in which nobody speaks */
#define STENO_CIF_QUIET_ROWS 5 /* so many of them end speech */

/* False: out of memory. */
bool steno_cif_open(struct steno_cif *c, size_t dim);
void steno_cif_close(struct steno_cif *c);
void steno_cif_reset(struct steno_cif *c);
/* Take a frame [dim] of weight alpha. True: a token fires, with the embedding out [dim]. A token
 * that is due at a pause (steno_cif_flush) fires here too. */
bool steno_cif_push(struct steno_cif *c, const float *frame, float alpha, float *out);
/* Speech has ended. True: the open token has enough weight to be one, and fires. */
bool steno_cif_flush(struct steno_cif *c, float *out);

#endif
