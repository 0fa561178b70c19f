/* Shape and type inference over a graph. Used at load (symbolic shapes, results into the graph) and
 * when a session binds concrete input shapes (results into a table of its own: the graph is frozen
 * and shared by then). */
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

/* What is known of one value. */
struct steno_known {
    steno_dtype dtype;
    struct steno_shape shape;
    const struct steno_tensor *value; /* NULL = not known now */
    struct steno_partial *part; /* NULL, or what is known of the elements while value is not */
};

struct steno_expressions; /* nn/exec/symbols.c */

struct steno_infer {
    struct steno_graph *g;
    const struct steno_node *node;
    struct steno_known *known;    /* by value number of g */
    const struct steno_infer *up; /* inference of the graph around */
    int64_t *next_dim;
    struct steno_expressions *exprs; /* what symbols stand for; NULL: dimensions are numbers */
    bool symbols;                    /* dimensions may be symbols: nn/exec/partial.c helps */
    bool into_graph;                 /* body graphs: store results in their values */
    steno_arena *mem;
    /* Results of the last steno_infer_subgraph. */
    struct steno_known *sub_known;
    const struct steno_graph *sub;
};

/* Inference of one node: outputs' entries of ic->known are set; what the operator does not say
 * becomes unknown. The error names the node. */
STENO_MUST steno_status steno_infer_one(struct steno_infer *ic, const struct steno_node *n,
                                        steno_err *err);
/* What the operator's own inference cannot see of ic->node: symbols that travel through shape
 * arithmetic. Called after it. */
void steno_infer_partial(struct steno_infer *ic);
/* NULL: out of memory. */
struct steno_expressions *steno_expressions_new(steno_arena *mem);
/* The dimension a op b: '+', '*', '/' (rounded down), 'm' (the lesser). One of them is a symbol;
 * the same terms give the same symbol. */
int64_t steno_infer_expr(struct steno_infer *ic, char op, int64_t a, int64_t b);
/* The dimension a - b, where it is known to be one. */
bool steno_infer_minus(const struct steno_infer *ic, int64_t a, int64_t b, int64_t *out);
/* Whole graph at load: g->values gets dtypes and symbolic shapes. */
STENO_MUST steno_status steno_infer_graph(struct steno_graph *g, steno_err *err);

#endif
