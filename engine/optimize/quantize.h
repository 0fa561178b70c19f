/* Rewriting products by constant weights into fewer bits, for files: standard operators (ONNX)
 * where there are such, so that other runtimes run them too. Not a pass: it changes what is
 * computed.
 *
 * DYNAMIC   MatMul(x, W) -> DynamicQuantizeLinear(x), MatMulInteger(q, W i8), Cast, Mul of the
 *           scales, Mul: weights over their own range by column, activations by tensor. Products of
 *           one x share its DynamicQuantizeLinear.
 * STATIC    MatMul(x, W) -> QuantizeLinear, DequantizeLinear (x, the range of calibration), MatMul
 * by DequantizeLinear(W i8, by column): what other tools call QDQ. Pass qdq makes an integer
 *           product of it.
 * BLOCKS    MatMul(x, W) -> com.microsoft MatMulNBits: 4 or 8 bits, a scale for each block of rows
 *           of a column; activations stay f32
 * F16, BF16 W -> Cast(W in 16 bits) to f32: half the file. For graphs after the passes (which would
 *           undo it); the others are for graphs before the fusions (which then find the long form)
 */
#ifndef STENO_OPTIMIZE_QUANTIZE_H
#define STENO_OPTIMIZE_QUANTIZE_H

#include "nn/graph/graph.h"

enum steno_quantize_kind {
    STENO_QUANTIZE_DYNAMIC,
    STENO_QUANTIZE_STATIC,
    STENO_QUANTIZE_BLOCKS,
    STENO_QUANTIZE_F16,
    STENO_QUANTIZE_BF16
};

/* x [.., rows] times weights [rows, columns] is y; strings are the graph's. */
struct steno_quantize_product {
    const char *node, *op_type;
    int64_t rows, columns;
    steno_value_id x, y;
    const char *kept; /* why it was left alone, or NULL */
    double error;     /* relative, of the weights: sqrt(sum (w - w')^2 / sum w^2); -1 when kept */
    float lo, hi;     /* STATIC: the range of x */
    bool in_body;     /* of If, Loop, Scan */
};

struct steno_quantize_options {
    enum steno_quantize_kind kind;
    int bits, block;   /* BLOCKS: 4 or 8; rows of a block, a power of two of at least 16 */
    bool reduce_range; /* DYNAMIC, STATIC: 7-bit weights, for runtimes whose 8-bit sums saturate */
    /* Comma-separated patterns (* and ?) of node names, of operator types; or NULL. */
    const char *exclude, *exclude_ops;
    /* STATIC: what value x of the main graph was in calibration; false: nothing is known of it. */
    bool (*range)(void *arg, steno_value_id x, float *lo, float *hi);
    void *range_arg;
    /* Hears of each product. May be NULL. */
    void (*report)(void *arg, const struct steno_quantize_product *p);
    void *report_arg;
};

/* For all kinds but F16 and BF16, first: Gemm by a constant becomes MatMul and Add. The graph is to
 * be sorted and inferred anew. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize_split(struct steno_graph *g,
                                             const struct steno_quantize_options *opt,
                                             steno_err *err);
/* Products of the main graph that steno_quantize would take, *n of them in *out, to be freed.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize_list(struct steno_graph *g,
                                            const struct steno_quantize_options *opt,
                                            struct steno_quantize_product **out, int *n,
                                            steno_err *err);
/* Products of g and its bodies; *changed gets their number. The graph is to be sorted and inferred
 * anew. STENO_ERR_INVAL for absurd options, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize(struct steno_graph *g,
                                       const struct steno_quantize_options *opt, int *changed,
                                       steno_err *err);

#endif
