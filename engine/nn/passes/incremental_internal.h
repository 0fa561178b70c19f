/* Shared by incremental.c (finding the parts, rewriting) and incremental_proof.c (what must
 * hold). */
#ifndef STENO_NN_PASSES_INCREMENTAL_INTERNAL_H
#define STENO_NN_PASSES_INCREMENTAL_INTERNAL_H

#include "nn/passes/passes.h"

#define MAX_LAYERS 256

enum { DEP_TGT = 1, DEP_MEMORY = 2, DEP_CACHE = 4 };

struct layer {
    steno_value_id cache, out, newest; /* input, output, newest row */
    int32_t self, cross;               /* attention nodes; cross may be STENO_NONE */
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
    const struct steno_tensor **known; /* by value: results computed for the proof */
    bool has_table, keeps_mask;
};

/* Fail with STENO_ERR_UNSUPPORTED: `what`, at the node or value `name` unless it is "". */
steno_status steno_cut_refuse(const struct cut *c, const char *what, const char *name);
/* Read constant integers [count]; false for other values. */
bool steno_cut_ints(const struct cut *c, steno_value_id v, int64_t *out, size_t count);
/* Slice(x, [from], [end], [1]) on positions. */
bool steno_cut_is_slice(const struct cut *c, const struct steno_node *n, int64_t from);
/* table[:, :L]: a constant f32 [1, rows, d], cut at the length. */
bool steno_cut_is_table(const struct cut *c, const struct steno_node *n);
/* Prove for a few lengths that the table is cut at the length. */
STENO_MUST steno_status steno_cut_prove_table(struct cut *c, const struct steno_node *n);
/* Prove that the mask of the last position depends, for each key, on the key's own token alone. */
STENO_MUST steno_status steno_cut_prove_mask(struct cut *c);
/* Prove that the nodes that lead to `y` work on each position by itself. Masks and table ends have
 * been computed before and are skipped. */
STENO_MUST steno_status steno_cut_prove_nodes(struct cut *c);

#endif
