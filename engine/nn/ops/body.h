/* Function bodies: fused operators in terms of standard ones. A fused node is written to a file as
 * a model-local function with such a body (optimize/write.h), so that every tool that inlines
 * functions computes what our kernel computes.
 *
 * A body is text, one statement per line, with operators of ai.onnx:
 *
 *     a, b = Split<axis = -1, num_outputs = 2>(in0)
 *     p = Transpose<perm = [0, 2, 1]>(in0)
 *     c = f32(0.5)               constant without dimensions; also f64, f16, i64, i32, u8, i8, bool
 *     d = i64[0, -1]             constant of one dimension
 *     out0 = Where(in1, , b)     an input left out
 *
 * Inputs are in0, in1, ..., outputs out0, out1, ...; every other name is local to the body and
 * written once. Attribute values: whole number, number with a point or exponent (float), "string",
 * [list].
 *
 * A body may depend on the attributes of the node, on which inputs and outputs are present, on type
 * and shape of constant inputs, and on the opset it is written for, and on nothing else. A reader
 * of the file can then generate the body again and see that the function is what our kernel
 * computes. Other facts that a body needs (a rank, a width) belong in an attribute. */
#ifndef STENO_NN_OPS_BODY_H
#define STENO_NN_OPS_BODY_H

#include "base/buf.h"
#include "nn/graph/graph.h"

struct steno_body {
    const struct steno_graph *g;
    const struct steno_node *node;
    int opset; /* of ai.onnx, 11 or later */
    struct steno_buf *text;
    int n_temps;
    steno_status st; /* the first failure; later calls do nothing */
};

typedef void steno_body_fn(struct steno_body *b);

struct steno_body_row {
    const char *domain, *type; /* the operator as the engine knows it; types are unique here */
    int opset;
    steno_body_fn *write;
};

/* Find a body by operator type; NULL if there is none. */
const struct steno_body_row *steno_body_find(const char *type);
/* Iterate over all rows: NULL gives the first; after the last, NULL. */
const struct steno_body_row *steno_body_next(const struct steno_body_row *row);
/* Write the body of a node. STENO_ERR_UNSUPPORTED: its operator has no body, or none for this opset
 * or these attributes. STENO_ERR_LIMIT: text is full. */
STENO_MUST steno_status steno_body_text(const struct steno_graph *g, const struct steno_node *node,
                                        int opset, struct steno_buf *text);

/* ---- for the writers of bodies ---- */
bool steno_body_has(const struct steno_body *b, int in);
bool steno_body_wants(const struct steno_body *b, int out);
/* Type and shape of a constant input; NULL when it is not constant. Its elements must not be
 * used. */
const struct steno_tensor *steno_body_const(const struct steno_body *b, int in);
/* Say that standard operators cannot express this node. */
void steno_body_unsupported(struct steno_body *b);
/* Add one or more lines; the last newline is added here. */
void steno_body_add(struct steno_body *b, const char *fmt, ...) STENO_PRINTF(2, 3);
/* A name that this body has not used before: "t0", "t1", ... */
struct steno_body_name {
    char s[24];
};
struct steno_body_name steno_body_temp(struct steno_body *b);
/* `"%.9g"` with a point, so that it reads as a float; inf and nan included. */
struct steno_body_name steno_body_float(double v);

/* What differs between opsets, or is used often. y and x are names. */
void steno_body_reduce_mean(struct steno_body *b, const char *y, const char *x); /* last, kept */
void steno_body_halves(struct steno_body *b, const char *a, const char *c,
                       const char *x); /* Split in two on the last axis */
/* Elements [from, to) of one axis. NULL from: 0; NULL to: the end. Both name an i64 of one
 * element. */
void steno_body_slice(struct steno_body *b, const char *y, const char *x, const char *from,
                      const char *to, int axis);
/* act (enum steno_activation) of x, at most once in a body. Kinds that have no formula here are
 * unsupported. Kinds with parameters read the node's act_min and act_max. */
void steno_body_act(struct steno_body *b, const char *y, const char *x, int act);
/* y = (x - mean) / sqrt(var + epsilon) * gamma + beta along the last axis; beta NULL: none. */
void steno_body_layernorm(struct steno_body *b, const char *y, const char *x, const char *gamma,
                          const char *beta, float epsilon);

void steno_body_gelu_tanh(struct steno_body *b, const char *y, const char *x); /* once per body */

/* Bodies by family. A new body is declared here and listed in nn/ops/body.c. */
steno_body_fn steno_body_linear, steno_body_glu, steno_body_depthwise, steno_body_conv_nhwc,
    steno_body_pool_nhwc, steno_body_masked_softmax, steno_body_relative_shift,
    steno_body_int_linear, steno_body_swish, steno_body_gelu, steno_body_layer_normalization,
    steno_body_fused_conv, steno_body_attention, steno_body_absorbed_attention,
    steno_body_rms_normalization, steno_body_skip_norm, steno_body_bias_gelu, steno_body_embed,
    steno_body_fused_matmul, steno_body_hard_swish, steno_body_mish, steno_body_swoosh,
    steno_body_bias_norm, steno_body_bypass, steno_body_chunk_conv, steno_body_relative_window,
    steno_body_power_spectrum, steno_body_attention_weights, steno_body_weighted_values,
    steno_body_nonlin_attention, steno_body_local_attention;

#endif
