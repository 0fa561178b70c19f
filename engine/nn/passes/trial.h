/* A part of a graph that depends on one value, computed for numbers of a caller's choice. */
#ifndef STENO_NN_PASSES_TRIAL_H
#define STENO_NN_PASSES_TRIAL_H

#include "nn/passes/passes.h"

/* The nodes between value `from` and value `end`, which also read constants and shapes. */
struct steno_trial {
    struct steno_graph *g;
    const bool *fixed; /* of steno_trial_fixed */
    steno_value_id from, end;
    /* set by steno_trial_find */
    int32_t *node; /* [n], each after those that it reads */
    int n, room;
};

/* Tell which values of g depend on constants, shapes and value `also` (or STENO_NONE) alone: fixed
 * [n_values]. */
void steno_trial_fixed(const struct steno_graph *g, steno_value_id also, bool *fixed);
/* Find the part. False: it depends on another value, or not on `from`, or has more nodes than a
 * part can have, or there is no memory. The caller calls steno_trial_free in any case. */
bool steno_trial_find(struct steno_trial *p);
void steno_trial_free(struct steno_trial *p);

/* The extents that stand for symbols; 0: no symbol. */
enum { STENO_TRIAL_SYMBOLS = 5 };
struct steno_trial_sizes {
    int64_t symbol[STENO_TRIAL_SYMBOLS], extent[STENO_TRIAL_SYMBOLS];
};
/* Compute p->end. *out: its elements, in `mem`. False: it cannot be computed. */
bool steno_trial_run(const struct steno_trial *p, const struct steno_pass_env *env,
                     const struct steno_trial_sizes *sizes, const struct steno_tensor *from,
                     struct steno_tensor *out, steno_arena *mem);

#endif
