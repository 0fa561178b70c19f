/* Shape and type inference over a graph. Used at load (symbolic shapes; the results go into the
 * graph) and when a session binds concrete input shapes (the results go into a separate table,
 * because the graph is then frozen and shared). */
#ifndef STENO_NN_EXEC_INFER_H
#define STENO_NN_EXEC_INFER_H

#include "nn/exec/op.h"

/* A short I64 vector of dimensions (nn/exec/partial.c): element i is the symbol v[i] (a negative
 * dimension) where sym[i], else the number v[i]. */
struct steno_partial {
    int n;
    int64_t v[STENO_MAX_RANK];
    bool sym[STENO_MAX_RANK];
};

/* Facts about one value. */
struct steno_known {
    steno_dtype dtype;
    struct steno_shape shape;
    const struct steno_tensor *value; /* NULL = not known yet */
    struct steno_partial *part; /* NULL, or what is known of the elements while value is not */
};

struct steno_expressions; /* nn/exec/symbols.c */

struct steno_infer {
    struct steno_graph *g;
    const struct steno_node *node;
    struct steno_known *known;    /* by value id of g */
    const struct steno_infer *up; /* inference of the enclosing graph */
    int64_t *next_dim;
    struct steno_expressions *exprs; /* meanings of symbols; NULL: dimensions are numbers */
    bool symbols;                    /* dimensions may be symbols: nn/exec/partial.c is used */
    bool into_graph;                 /* body graphs: store results in their values */
    /* The graph is inferred once and runs at most once for each run of the main graph: the main
     * graph, and branches of If that no loop contains. */
    bool once;
    steno_arena *mem;
    /* Results of the last steno_infer_subgraph. */
    struct steno_known *sub_known;
    const struct steno_graph *sub;
};

/* Infer one node: set the entries of its outputs in ic->known. What the operator's inference does
 * not set becomes unknown. The error names the node. */
STENO_MUST steno_status steno_infer_one(struct steno_infer *ic, const struct steno_node *n,
                                        steno_err *err);
/* Infer what the operator's own inference of ic->node cannot see: symbols that pass through shape
 * arithmetic. Call it after that inference. */
void steno_infer_partial(struct steno_infer *ic);
/* Create an empty table of expressions in mem. NULL: out of memory. */
struct steno_expressions *steno_expressions_new(steno_arena *mem);
/* The dimension a op b: '+', '*', '/' (rounded down), 'm' (the minimum). At least one of a and b is
 * a symbol. The same terms give the same symbol. */
int64_t steno_infer_expr(struct steno_infer *ic, char op, int64_t a, int64_t b);
/* Set *out to the dimension a - b. False: it is not known to be a dimension. */
bool steno_infer_minus(const struct steno_infer *ic, int64_t a, int64_t b, int64_t *out);
/* Infer a whole graph at load: g->values get types and symbolic shapes. STENO_ERR_FORMAT: shapes
 * contradict each other. */
STENO_MUST steno_status steno_infer_graph(struct steno_graph *g, steno_err *err);

#endif
