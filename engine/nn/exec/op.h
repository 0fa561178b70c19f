/* What an operator is to the engine: a row of functions, found by (domain, type, opset). The
 * executor's plug-in header: it calls operators through these rows alone, and they call nothing of
 * it but what stands here (nn/exec/{infer,prepare,ctx}.c).
 *
 * infer    shapes and types of the outputs from those of the inputs. Called at load with symbolic
 *          shapes and again when a session binds concrete input shapes; must accept unknown ranks
 *          and dims, and say as much as it can. Known input values (constants, shape arithmetic)
 *          are at hand through steno_infer_value.
 * prepare  once per node at load: check attributes, pack constant weights into *priv (frozen,
 *          shared by all sessions). Optional.
 * run      concrete inputs in, outputs asked for by steno_op_out with their exact shape. Must not
 *          allocate but through the ctx; must check at run time what input data could break
 *          (indices out of range, shapes that do not fit): models and their input are hostile.
 *
 * The rows themselves: nn/ops/registry.h. */
#ifndef STENO_NN_EXEC_OP_H
#define STENO_NN_EXEC_OP_H

#include "nn/graph/graph.h"
#include "nn/kernels/kernels.h"
#include "nn/exec/precision.h"

struct steno_infer;   /* nn/exec/infer.c: the view of one node during inference */
struct steno_op_ctx;  /* the view of one node during a run */
struct steno_prepare; /* the view of one node while it is prepared */
struct steno_kv_binding;

enum {
    STENO_OP_INPLACE0 = 1u << 0,   /* output 0 may overwrite input 0 (same bytes per element, same
                                      count): elementwise */
    STENO_OP_INPLACE1 = 1u << 1,   /* ... or input 1 */
    STENO_OP_VIEW = 1u << 2,       /* output 0 is input 0 with another shape (Reshape, Squeeze...):
                                      run calls steno_op_view, nothing is copied where the plan can */
    STENO_OP_IMPURE = 1u << 3,     /* not to be folded or merged (random numbers) */
    STENO_OP_SHAPE_ONLY = 1u << 4, /* needs shapes, not data, of input 0 (Shape, Size) */
    STENO_OP_DYNAMIC = 1u << 5,    /* output shape depends on data (NonZero, Unique, Loop) */
    STENO_OP_ROWS2 = 1u << 6       /* input 2 is a state that run can change where it lies, entry by
                                      entry of axis 0, to what output 1 would be: steno_op_rows */
};

struct steno_op {
    const char *domain, *type;
    int since, until; /* opset versions, inclusive; until 0 = newest */
    unsigned flags;
    steno_status (*infer)(struct steno_infer *ic, steno_err *err);
    steno_status (*prepare)(struct steno_prepare *pc, void **priv, steno_err *err);
    void (*release)(void *priv);
    steno_status (*run)(struct steno_op_ctx *ctx, steno_err *err);
};

/* ---- infer ---- */
const struct steno_node *steno_infer_node(const struct steno_infer *ic);
bool steno_infer_has(const struct steno_infer *ic, int in);
steno_dtype steno_infer_dtype(const struct steno_infer *ic,
                              int in); /* STENO_DT_NONE if absent/unknown */
struct steno_shape steno_infer_shape(const struct steno_infer *ic, int in); /* rank -1 if unknown */
/* Value of an input when it is known now, else NULL. */
const struct steno_tensor *steno_infer_value(const struct steno_infer *ic, int in);
/* Integers of a known I64/I32 input: false when not known or more than max. */
bool steno_infer_ints(const struct steno_infer *ic, int in, int64_t *out, size_t max, size_t *n);
void steno_infer_set(struct steno_infer *ic, int out, steno_dtype dtype,
                     const struct steno_shape *shape); /* shape NULL = unknown rank */
/* A fresh symbol for a dim that is unknown yet. */
int64_t steno_infer_new_dim(struct steno_infer *ic);
/* What two different symbols are where they broadcast, if they do; STENO_DIM_ANY: not known. */
int64_t steno_infer_meet(const struct steno_infer *ic, int64_t a, int64_t b);
/* Infer a body graph (If, Loop, Scan) with the given input types. Results by output number:
 * steno_infer_subgraph_out, until the next call. Do not read them from the body's values: after
 * load the graph is frozen and shared. */
STENO_MUST steno_status steno_infer_subgraph(struct steno_infer *ic, struct steno_graph *g,
                                             const steno_dtype *in_dtype,
                                             const struct steno_shape *in_shape, int n_in,
                                             steno_err *err);

void steno_infer_subgraph_out(const struct steno_infer *ic, int i, steno_dtype *dtype,
                              struct steno_shape *shape);

/* ---- prepare ---- */
const struct steno_node *steno_prepare_node_of(const struct steno_prepare *pc);
const struct steno_tensor *steno_prepare_const(const struct steno_prepare *pc,
                                               int in); /* NULL if not constant */
struct steno_shape steno_prepare_shape(const struct steno_prepare *pc, int in);
steno_dtype steno_prepare_dtype(const struct steno_prepare *pc, int in);
const steno_kernels *steno_prepare_kernels(const struct steno_prepare *pc);
/* The node has its own packed copy of constant input `in`: the loader may drop the original once no
 * one else reads it (weights are held once). */
void steno_prepare_consumed(struct steno_prepare *pc, int in);

/* Memory for `bytes` of weights packed from constant input `in`: the network's, freed with it, and
 * counted (do not call the two functions around this one as well). *filled: an earlier load's
 * packed weights lie there already, mapped and not to be written; the constant then has a type and
 * a shape but no elements. NULL: out of memory, or the cache is not of this network. */
void *steno_prepare_memory(struct steno_prepare *pc, int in, size_t bytes, bool *filled);

/* Bytes of packed weights that the node's priv holds, for reports. */
void steno_prepare_packed(struct steno_prepare *pc, size_t bytes);

/* How the network wants its weights kept. */
enum steno_precision steno_prepare_precision(const struct steno_prepare *pc);
/* For the report: weights w [n] of a product, kept in less than f32 (lowered) with this sum of
 * squared rounding errors. */
void steno_prepare_rounded(struct steno_prepare *pc, const float *w, size_t n, bool lowered,
                           double lost);

/* ---- run ---- */
const struct steno_node *steno_op_node(const struct steno_op_ctx *ctx);
void *steno_op_priv(const struct steno_op_ctx *ctx);
int steno_op_n_in(const struct steno_op_ctx *ctx);
int steno_op_n_out(const struct steno_op_ctx *ctx);
/* NULL when the optional input is absent. */
const struct steno_tensor *steno_op_in(const struct steno_op_ctx *ctx, int i);
/* True when output i is used by someone (absent optional outputs are not). */
bool steno_op_wants(const struct steno_op_ctx *ctx, int i);
/* Entries of input `in` along axis 0, when the caller keeps them apart; NULL otherwise (always, for
 * an operator without STENO_OP_ROWS2). The input's data is NULL then, and run is to write output 1
 * over the entries instead of into its memory, which is still to be asked for. */
void *const *steno_op_rows(const struct steno_op_ctx *ctx, int in);
/* What whoever runs the session has lent it, NULL for nothing (nn/exec/kv_cache.h). */
const struct steno_kv_binding *steno_op_bound_kv(const struct steno_op_ctx *ctx);
/* Memory for output i of this exact type and shape; contents undefined. */
STENO_MUST steno_status steno_op_out(struct steno_op_ctx *ctx, int i, steno_dtype dtype,
                                     const struct steno_shape *shape, struct steno_tensor **out,
                                     steno_err *err);
/* Output i shows input `in`'s elements under another shape of the same count. */
STENO_MUST steno_status steno_op_view(struct steno_op_ctx *ctx, int i, int in,
                                      const struct steno_shape *shape, steno_err *err);
/* Scratch of at least n bytes, 64-byte aligned, until run returns. Several calls give several
 * blocks; reused between runs, so steady state allocates nothing. NULL when out of memory. */
void *steno_op_scratch(struct steno_op_ctx *ctx, size_t n);
const steno_kernels *steno_op_kernels(const struct steno_op_ctx *ctx);
/* fn(arg, part) for part in [0, n_parts) on the session's worker team (this thread included);
 * returns when all are done. Runs inline when the team has one thread. */
void steno_op_parallel(struct steno_op_ctx *ctx, int n_parts, void (*fn)(void *arg, int part),
                       void *arg);
int steno_op_threads(const struct steno_op_ctx *ctx);
/* Run a body graph (attribute `attr`). Outputs stay valid until the next call for the same
 * attribute has returned: they may be inputs of that next call (a loop carries its state without
 * copies). */
STENO_MUST steno_status steno_op_subgraph(struct steno_op_ctx *ctx, const char *attr,
                                          const struct steno_tensor *const *in, int n_in,
                                          const struct steno_tensor **out, int n_out,
                                          steno_err *err);
STENO_MUST steno_status steno_op_fail(const struct steno_op_ctx *ctx, steno_err *err,
                                      steno_status st, const char *fmt, ...) STENO_PRINTF(4, 5);

#endif
