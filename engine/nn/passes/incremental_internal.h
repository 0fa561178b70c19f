/* Shared by incremental.c (what is what, rewriting) and incremental_proof.c (what must be true). */
#ifndef STENO_NN_PASSES_INCREMENTAL_INTERNAL_H
#define STENO_NN_PASSES_INCREMENTAL_INTERNAL_H

#include "nn/passes/passes.h"

#define MAX_LAYERS 256

enum { DEP_TGT = 1, DEP_MEMORY = 2, DEP_CACHE = 4 };

struct layer {
    steno_value_id cache, out, newest; /* input, output, newest row */
    int32_t self, cross;               /* nodes of attention; cross may be STENO_NONE */
    steno_value_id self_kv, cross_kv;
};

struct cut {
    struct steno_graph *g;
    const struct steno_pass_env *env;
    steno_err *err;
    steno_arena *mem;
    steno_value_id tgt, memory, y, mask;
    struct layer layer[MAX_LAYERS];
    int n_layers, n_cross;
    unsigned char *dep;                /* by value */
    const struct steno_tensor **known; /* by value: computed for the proof */
    bool has_table, keeps_mask;
};

/* STENO_ERR_UNSUPPORTED: what, at the node or value of that name unless it is "". */
steno_status steno_cut_refuse(const struct cut *c, const char *what, const char *name);
/* Constant integers in [count]; false for anything else. */
bool steno_cut_ints(const struct cut *c, steno_value_id v, int64_t *out, size_t count);
/* Slice(x, [from], [end], [1]) on positions. */
bool steno_cut_is_slice(const struct cut *c, const struct steno_node *n, int64_t from);
/* table[:, :L]: constant f32 [1, rows, d], cut at the length. */
bool steno_cut_is_table(const struct cut *c, const struct steno_node *n);
/* The table is cut at the length, for a few of them. */
STENO_MUST steno_status steno_cut_prove_table(struct cut *c, const struct steno_node *n);
/* The mask that the last position sees says of each key what its own token alone says. */
STENO_MUST steno_status steno_cut_prove_mask(struct cut *c);
/* Nodes on the way to `y`, past masks and the ends of tables, which have been computed, work on
 * each position by itself. */
STENO_MUST steno_status steno_cut_prove_nodes(struct cut *c);

#endif
