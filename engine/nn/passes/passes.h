/* Graph rewrites at load: an ordered table, one file each. Every pass keeps what the graph
 * computes. */
#ifndef STENO_NN_PASSES_PASSES_H
#define STENO_NN_PASSES_PASSES_H

#include "nn/graph/graph.h"
#include "nn/ops/registry.h"
#include "nn/passes/put.h"

/* The executor's functions that passes call, and what the caller allows them. */
struct steno_pass_env {
    void *arg;
    /* Infer types and shapes of the main graph and its bodies again. */
    steno_status (*infer)(void *arg, struct steno_graph *g, steno_err *err);
    /* Compute the outputs of a node whose inputs are all constant. in: [n_in], out: [n_out],
     * allocated in `mem`. */
    steno_status (*eval)(void *arg, struct steno_graph *g, struct steno_node *n,
                         const struct steno_tensor **in, struct steno_tensor *out,
                         const bool *wanted, steno_arena *mem, steno_err *err);
    /* Called for near misses; NULL: no call. */
    void (*refused)(void *arg, const char *pass, const char *node, const char *why);
    void *refused_arg;
    /* Of attention, where the graph does not tell; 0: not known. */
    int num_heads, hidden_size;
    /* A part is cut out after all passes, at the projected keys and values. */
    bool cut_after;
    /* The graph is run and not written: operators of domain ai.steno.run are allowed. */
    bool to_run;
    /* The graph is written for other runtimes and not run. */
    bool to_write;
    int opset; /* of ai.onnx, in which the graph is written; 0: not known (a graph that is run) */
    /* 8-bit products may quantize activations over other ranges than the graph says: one per
     * row. */
    bool rows_in_8_bits;
};

/* Rewrite one graph without its bodies; they get their own call, inner ones first.
 * *changed += number of rewrites. Dead nodes may stay in the array. Uses are counted again after
 * each pass. */
typedef steno_status steno_pass_fn(struct steno_graph *g, const struct steno_pass_env *env,
                                   int *changed, steno_err *err);
/* Rewrite what ends with node n. Called for each live node of a graph, in order, and not for those
 * that the pass appends. */
typedef steno_status steno_pass_node_fn(struct steno_graph *g, const struct steno_pass_env *env,
                                        struct steno_node *n, int *changed, steno_err *err);

struct steno_pass {
    const char *name;
    steno_pass_fn *run; /* this, or: */
    steno_pass_node_fn *each;
    int level; /* runs at --opt-level N >= level */
    int phase; /* the passes of a phase repeat until no pass changes anything */
    const char *about;
};

/* The last entry has no name. */
extern const struct steno_pass steno_passes[];

struct steno_pass_counts {
    int changed[96]; /* by index in steno_passes */
};

/* Run the table on g and its bodies.
 * counts: may be NULL.
 * disabled: comma-separated names of passes to leave out, or NULL.
 * only: comma-separated names of the passes to run, or NULL for all.
 * STENO_ERR_INVAL for an unknown name. */
STENO_MUST steno_status steno_passes_run(struct steno_graph *g, int level, const char *disabled,
                                         const char *only, const struct steno_pass_env *env,
                                         struct steno_pass_counts *counts, steno_err *err);

/* ---- helpers for passes (nn/passes/util.c) ---- */

/* Report a near miss: most of the pattern of `pass` is there around n, but the pass refuses it. The
 * message says why, with names and numbers (`steno optimize --verbose`). Only for cases that the
 * reader can do something about. */
void steno_pass_refuse(const struct steno_pass_env *env, const char *pass,
                       const struct steno_node *n, const char *fmt, ...) STENO_PRINTF(4, 5);
/* Make all readers of `from`, a node output, read `to`. The name of a graph output stays. Returns
 * false and changes nothing when both values must stay separate (two graph outputs, or an input
 * that is an output). */
bool steno_pass_replace(struct steno_graph *g, steno_value_id from, steno_value_id to);
/* True if n is not NULL and is `type` of ai.onnx. */
bool steno_pass_is(const struct steno_node *n, const char *type);
/* True if n is not NULL and is of ai.onnx and one of these types, which are separated by spaces. */
bool steno_pass_is_any(const struct steno_node *n, const char *types);
/* True if n is not NULL and is `type` of ai.steno. */
bool steno_pass_is_ours(const struct steno_node *n, const char *type);
/* Return the node that writes v, or NULL. */
struct steno_node *steno_pass_producer(struct steno_graph *g, steno_value_id v);
/* Get the value that all elements of a constant share; false for other values. */
bool steno_pass_scalar(const struct steno_graph *g, steno_value_id v, double *out);
/* False if v is a constant of f32 with an infinite or NaN element. */
bool steno_pass_is_finite(const struct steno_graph *g, steno_value_id v);
/* Constant input i of n, or NULL. */
const struct steno_tensor *steno_pass_const(const struct steno_graph *g, const struct steno_node *n,
                                            int i);
/* True if every number of the attribute is `want`. An absent attribute counts as `otherwise`. */
bool steno_pass_ints_are(const struct steno_node *n, const char *attr, int64_t want,
                         int64_t otherwise);
/* Read a Slice of one axis in steps of one with constant inputs (opset 10 or later): its start, end
 * and axis. False for other nodes. */
struct steno_pass_cut {
    double start, end, axis;
};
bool steno_pass_cut_of(const struct steno_graph *g, const struct steno_node *n,
                       struct steno_pass_cut *out);
/* True if v has no axes, or one of one element. */
bool steno_pass_one_element(const struct steno_graph *g, steno_value_id v);
/* True if v is read once and is no graph output. */
bool steno_pass_read_once(const struct steno_graph *g, steno_value_id v);
/* True if nobody reads n's outputs but the first. */
bool steno_pass_one_output(const struct steno_graph *g, const struct steno_node *n);
/* Return the one node that reads v if v is read once and is no graph output, else NULL. */
struct steno_node *steno_pass_only_reader(struct steno_graph *g, steno_value_id v);
/* Return the node that writes v if it is `type` of ai.onnx and v is read only once, else NULL. */
struct steno_node *steno_pass_only_use(struct steno_graph *g, steno_value_id v, const char *type);
/* True if both shapes are known to be the same, by number or symbol. */
bool steno_pass_same_shape(const struct steno_graph *g, steno_value_id a, steno_value_id b);
/* Return the elements of a constant f32 [n], else NULL. */
const float *steno_pass_vector(const struct steno_graph *g, steno_value_id v, int64_t n);
/* True if input i of n is such a constant, or absent. */
bool steno_pass_vector_or_none(const struct steno_graph *g, const struct steno_node *n, int i,
                               int64_t len);
/* True if n is a LayerNormalization, or an RMSNormalization if `rms`, of the last axis by constant
 * vectors, and nobody reads its other outputs. */
bool steno_pass_norm_of_rows(const struct steno_graph *g, const struct steno_node *n, bool rms);
/* True if n is not NULL and is Transpose(x; perm) of `rank` axes. */
bool steno_pass_permutes(const struct steno_node *n, int rank, const int64_t *perm);
/* True if n is not NULL and is a Transpose of the last two of `rank` axes. */
bool steno_pass_swaps_last_two(const struct steno_node *n, int rank);
/* True if n is a ConstantOfShape of this type and fills with `with`. */
bool steno_pass_fills(const struct steno_node *n, steno_dtype type, double with);
/* Keys or values whose heads several queries share: those of x, [B, h, S, d] or, not apart, [B, S,
 * h, d]. */
struct steno_pass_heads {
    steno_value_id x;
    bool apart;
    int64_t heads;
};
/* True if v [B, heads, S, size] repeats each head of m->x (nn/passes/pass_groups.c). */
bool steno_pass_shared_heads(struct steno_graph *g, steno_value_id v, int64_t heads, int64_t size,
                             struct steno_pass_heads *m);
/* The value [B, S, h, d] that a Transpose made v [B, h, S, d] from, or v; *apart: it is v. */
steno_value_id steno_pass_before_heads(struct steno_graph *g, steno_value_id v, bool *apart);
/* Attributes of a new ai.steno:Linear, in the order that pass linear reads them in. */
#define STENO_LINEAR_ATTRS(ALPHA)                                                                  \
    STENO_ATTRS(STENO_INT_ATTR("act", STENO_ACT_NONE), STENO_FLOAT_ATTR("alpha", ALPHA),           \
                STENO_FLOAT_ATTR("act_min", 0), STENO_FLOAT_ATTR("act_max", 0))
/* Return the activation that n applies to its input 0, if an epilogue can apply it (struct
 * steno_epilogue), else STENO_ACT_NONE. p: its parameters as act_min and act_max
 * have them (limits of CLIP are the largest floats where absent), else 0. */
enum steno_activation steno_pass_act(const struct steno_graph *g, const struct steno_node *n,
                                     float p[2]);
bool steno_pass_act_has_parameters(enum steno_activation act);
/* Return the Transpose of the last two of three axes (0,2,1) that writes v, or NULL. */
struct steno_node *steno_pass_swapped(struct steno_graph *g, steno_value_id v);
/* Let input k of n be v, and keep the counts of uses right. */
void steno_pass_reroute(struct steno_graph *g, struct steno_node *n, int k, steno_value_id v);
/* Move the nodes of a body graph into g in place of node number `at`. in: values for the body's
 * inputs. */
STENO_MUST steno_status steno_pass_inline(struct steno_graph *g, int32_t at,
                                          struct steno_graph *body, const steno_value_id *in,
                                          steno_err *err);

steno_pass_fn steno_pass_dead, steno_pass_fold, steno_pass_constants, steno_pass_cse,
    steno_pass_share, steno_pass_widen, steno_pass_qdq, steno_pass_int8, steno_pass_signs,
    steno_pass_attention, steno_pass_nhwc, steno_pass_layers, steno_pass_swish, steno_pass_swoosh,
    steno_pass_gelu, steno_pass_layernorm, steno_pass_rmsnorm;
/* single operators */
steno_pass_node_fn steno_pass_modern, steno_pass_if, steno_pass_identity, steno_pass_again,
    steno_pass_ones, steno_pass_shape, steno_pass_transpose, steno_pass_reshape, steno_pass_flat,
    steno_pass_reduce, steno_pass_einsum, steno_pass_outer, steno_pass_concat, steno_pass_slice;
/* epilogues and normalization */
steno_pass_node_fn steno_pass_affine, steno_pass_logsoftmax, steno_pass_glu, steno_pass_linear,
    steno_pass_foldtranspose, steno_pass_skipnorm, steno_pass_biasgelu, steno_pass_embed,
    steno_pass_matmul;
/* convolutions and frontends */
steno_pass_node_fn steno_pass_pad, steno_pass_convint, steno_pass_convact, steno_pass_pointwise,
    steno_pass_depthwise, steno_pass_rowtile, steno_pass_spectrum;
/* Zipformer */
steno_pass_node_fn steno_pass_biasnorm, steno_pass_bypass, steno_pass_chunkconv,
    steno_pass_relwindow, steno_pass_weights;
/* attention */
steno_pass_node_fn steno_pass_softmax, steno_pass_relshift, steno_pass_past, steno_pass_groups,
    steno_pass_qkv, steno_pass_absorb, steno_pass_absorbnorm, steno_pass_window;

/* True if n widens the weights of a product that pass qdq rewrites; such a node must not be folded
 * before. */
bool steno_pass_qdq_weights(struct steno_graph *g, const struct steno_node *n);

#endif
