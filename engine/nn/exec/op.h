/* The interface of an operator to the engine: a row of functions, found by (domain, type, opset).
 * The executor calls operators only through these rows, and operators call only the functions of
 * this header (nn/exec/{infer,prepare,ctx}.c).
 *
 * infer    Infer types and shapes of the outputs from those of the inputs. Called at load with
 *          symbolic shapes, and again when a session binds concrete input shapes. Must accept
 *          unknown ranks and dims, and infer as much as possible. steno_infer_value gives input
 *          values that are known (constants, shape arithmetic).
 * prepare  Once per node, at load: check attributes, pack constant weights into *priv (frozen,
 *          shared by all sessions). Optional.
 * run      Compute the outputs from concrete inputs; steno_op_out gives outputs of the exact
 *          shape. Inputs that nn/ops/arity.c requires are there. Must allocate only through the
 *          ctx. Must check everything else that input data could violate (indices out of range,
 *          shapes that do not fit): models and their inputs are hostile.
 *
 * The tables of rows: nn/ops/registry.h. */
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
    /* Output 0 may overwrite input 0 (elementwise; same bytes per element, same count). */
    STENO_OP_INPLACE0 = 1u << 0,
    STENO_OP_INPLACE1 = 1u << 1, /* ... or input 1 */
    /* Output 0 is input 0 with another shape (Reshape, Squeeze...). run calls steno_op_view;
     * nothing is copied where the plan allows it. */
    STENO_OP_VIEW = 1u << 2,
    STENO_OP_IMPURE = 1u << 3,     /* must not be folded or merged (random numbers) */
    STENO_OP_SHAPE_ONLY = 1u << 4, /* reads the shape of input 0, not its data (Shape, Size) */
    STENO_OP_DYNAMIC = 1u << 5,    /* output shape depends on data (NonZero, Unique, Loop) */
    /* Input 2 is a state. run can update it in place, entry by entry of axis 0, to the contents of
     * output 1 (steno_op_rows). */
    STENO_OP_ROWS2 = 1u << 6,
    /* Gather: with one index that is known, output 0 can be a part of input 0. run calls
     * steno_op_part first. */
    STENO_OP_PART = 1u << 7
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
/* Type of an input; STENO_DT_NONE if absent or unknown. */
steno_dtype steno_infer_dtype(const struct steno_infer *ic, int in);
/* Shape of an input; rank -1 if unknown. */
struct steno_shape steno_infer_shape(const struct steno_infer *ic, int in);
/* Value of an input, or NULL if it is not known yet. */
const struct steno_tensor *steno_infer_value(const struct steno_infer *ic, int in);
/* Integers of a known i64 or i32 input. False: not known, or more than max. */
bool steno_infer_ints(const struct steno_infer *ic, int in, int64_t *out, size_t max, size_t *n);
/* Set type and shape of an output; shape NULL = unknown rank. */
void steno_infer_set(struct steno_infer *ic, int out, steno_dtype dtype,
                     const struct steno_shape *shape);
/* A new symbol for a dim that is not known yet. */
int64_t steno_infer_new_dim(struct steno_infer *ic);
/* The dim that results when the different symbols a and b broadcast; STENO_DIM_ANY: not known. */
int64_t steno_infer_meet(const struct steno_infer *ic, int64_t a, int64_t b);
/* Infer a body graph (If, Loop, Scan) with the given input types. steno_infer_subgraph_out returns
 * the results by output index, until the next call. Do not read them from the body's values: after
 * load the graph is frozen and shared. */
STENO_MUST steno_status steno_infer_subgraph(struct steno_infer *ic, struct steno_graph *g,
                                             const steno_dtype *in_dtype,
                                             const struct steno_shape *in_shape, int n_in,
                                             steno_err *err);

void steno_infer_subgraph_out(const struct steno_infer *ic, int i, steno_dtype *dtype,
                              struct steno_shape *shape);

/* ---- prepare ---- */
const struct steno_node *steno_prepare_node_of(const struct steno_prepare *pc);
/* A constant input; NULL if it is not constant. */
const struct steno_tensor *steno_prepare_const(const struct steno_prepare *pc, int in);
struct steno_shape steno_prepare_shape(const struct steno_prepare *pc, int in);
steno_dtype steno_prepare_dtype(const struct steno_prepare *pc, int in);
const steno_kernels *steno_prepare_kernels(const struct steno_prepare *pc);
/* Say that the node has its own packed copy of constant input `in`. The loader drops the original
 * when no other node reads it, so that weights are held once. */
void steno_prepare_consumed(struct steno_prepare *pc, int in);

/* How a block is packed. Blocks that are packed alike from the same constants are one block, which
 * the branches of an If share, and nodes that read one constant. */
struct steno_packing {
    unsigned char key[256]; /* what the packed bytes depend on besides the constants */
    size_t n;               /* bytes of the key; 0: the block is not shared */
    int also[2];            /* further constant inputs that are packed into the block; 0: none */
};
/* Append n bytes to the key. A key that becomes too long is not used. */
void steno_packing_put(struct steno_packing *p, const void *bytes, size_t n);
/* Get memory for `bytes` of weights packed from constant input `in`. It belongs to the network, is
 * freed with it, and is counted (do not call steno_prepare_consumed and steno_prepare_packed as
 * well). how: may be NULL, not shared. *filled: the packed weights are there already, read-only.
 * Another node packed them, or an earlier load did, and then the constant has a type and a shape
 * but no elements. NULL: out of memory, or the cache belongs to another network. */
void *steno_prepare_memory(struct steno_prepare *pc, int in, size_t bytes,
                           const struct steno_packing *how, bool *filled);

/* Report bytes of packed weights that the node's priv holds. */
void steno_prepare_packed(struct steno_prepare *pc, size_t bytes);

/* The precision that the network's weights are to have. */
enum steno_precision steno_prepare_precision(const struct steno_prepare *pc);
/* Report that the weights of the node's next block of steno_prepare_memory stay in f32 because the
 * precision does not hold them. A cache keeps that with the block. */
void steno_prepare_overflowed(struct steno_prepare *pc);
/* True if an earlier load has filled the next block of steno_prepare_memory; then *overflowed tells
 * whether it reported so. */
bool steno_prepare_filled(const struct steno_prepare *pc, bool *overflowed);
/* Report weights w [n] of a product, once for each block; lowered: they are held in less than f32,
 * with `square_error` as the sum of squared rounding errors. */
void steno_prepare_rounded(struct steno_prepare *pc, const float *w, size_t n, bool lowered,
                           double square_error);

/* ---- run ---- */
const struct steno_node *steno_op_node(const struct steno_op_ctx *ctx);
void *steno_op_priv(const struct steno_op_ctx *ctx);
int steno_op_n_in(const struct steno_op_ctx *ctx);
int steno_op_n_out(const struct steno_op_ctx *ctx);
/* Input i; NULL: absent, or the node has no so many inputs. */
const struct steno_tensor *steno_op_in(const struct steno_op_ctx *ctx, int i);
/* True when output i is used; false for absent optional outputs. */
bool steno_op_wants(const struct steno_op_ctx *ctx, int i);
/* The separate entries of input `in` along axis 0, if the caller passed them so; else NULL (always
 * NULL for an operator without STENO_OP_ROWS2). If not NULL, the input's data is NULL, and run
 * writes output 1 over the entries instead of into the output's memory. run must still call
 * steno_op_out for it. */
void *const *steno_op_rows(const struct steno_op_ctx *ctx, int in);
/* The key/value cache that the session's caller has bound; NULL: none (nn/exec/kv_cache.h). */
const struct steno_kv_binding *steno_op_bound_kv(const struct steno_op_ctx *ctx);
/* Get memory for output i of this exact type and shape; its contents are undefined. */
STENO_MUST steno_status steno_op_out(struct steno_op_ctx *ctx, int i, steno_dtype dtype,
                                     const struct steno_shape *shape, struct steno_tensor **out,
                                     steno_err *err);
/* Make output 0 the part of input 0 that begins `offset` bytes in, if the plan says so. False: it
 * does not; the operator copies. */
bool steno_op_part(struct steno_op_ctx *ctx, const struct steno_shape *shape, size_t offset);
/* Make output i a view of input `in` with another shape of the same element count. */
STENO_MUST steno_status steno_op_view(struct steno_op_ctx *ctx, int i, int in,
                                      const struct steno_shape *shape, steno_err *err);
/* Get scratch of at least n bytes, 64-byte aligned, valid until run returns. Each call gives
 * another block. Memory is reused between runs, so that steady state allocates nothing. NULL: out
 * of memory. */
void *steno_op_scratch(struct steno_op_ctx *ctx, size_t n);
const steno_kernels *steno_op_kernels(const struct steno_op_ctx *ctx);
/* Call fn(arg, part) for part in [0, n_parts) on the session's worker team, this thread included,
 * and wait for all. Runs inline when the team has one thread, or for one part. */
void steno_op_parallel(struct steno_op_ctx *ctx, int n_parts, void (*fn)(void *arg, int part),
                       void *arg);
int steno_op_threads(const struct steno_op_ctx *ctx);
/* Run a body graph (attribute `attr`). The outputs stay valid until the next call for the same
 * attribute returns, so they may be inputs of that call: a loop carries its state without
 * copies. */
STENO_MUST steno_status steno_op_subgraph(struct steno_op_ctx *ctx, const char *attr,
                                          const struct steno_tensor *const *in, int n_in,
                                          const struct steno_tensor **out, int n_out,
                                          steno_err *err);
STENO_MUST steno_status steno_op_fail(const struct steno_op_ctx *ctx, steno_err *err,
                                      steno_status st, const char *fmt, ...) STENO_PRINTF(4, 5);

#endif
