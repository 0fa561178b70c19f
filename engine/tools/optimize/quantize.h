/* Quantizes products with constant weights, for files. Uses standard operators (ONNX) where they
 * exist, so that other runtimes can run the files too. This is not a pass: it changes what is
 * computed.
 *
 * DYNAMIC   MatMul(x, W) -> DynamicQuantizeLinear(x), MatMulInteger(q, W u8), Cast, Mul of the
 *           scales, Mul. Weights have a range by column, activations by tensor. Products of one x
 *           share its DynamicQuantizeLinear.
 * STATIC    MatMul(x, W) -> QuantizeLinear, DequantizeLinear (x, the range of calibration), MatMul
 *           by DequantizeLinear(W u8, by column). Other tools call this QDQ. Pass qdq turns it into
 *           an integer product.
 *           With `convolutions` a Conv of one group becomes ConvInteger likewise (DYNAMIC), with a
 *           range of the weights by channel, or keeps its place between DequantizeLinear (STATIC).
 * BLOCKS    MatMul(x, W) -> com.microsoft MatMulNBits: 4 or 8 bits, a scale for each block of rows
 *           of a column; activations stay f32.
 * F16, BF16 W -> Cast(W in 16 bits) to f32, which halves the file. For graphs after the passes,
 *           which would undo it. The other kinds are for graphs before the fusions, which then find
 *           the long form. */
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

/* Single weights that fewer bits do not hold. */
struct steno_quantize_counts {
    size_t overflow;  /* finite, but infinite in 16 bits, or above 1e30 for 8 and 4 bits */
    size_t underflow; /* not 0, but 0 in fewer bits */
    size_t infinite, nan;
};

/* The product y of x [.., rows] and weights [rows, columns]; the strings belong to the graph. */
struct steno_quantize_product {
    const char *node, *op_type;
    int64_t rows, columns; /* of a Conv: taps of one channel, channels */
    steno_value_id x, y;
    const char *kept; /* why it was not quantized, or NULL */
    /* relative error of the weights: sqrt(sum (w - w')^2 / sum w^2); -1 if not quantized */
    double error;
    struct steno_quantize_counts counts; /* all 0 if not looked at */
    float lo, hi;                        /* STATIC: the range of x */
    bool in_body;                        /* in a body of If, Loop or Scan */
};

struct steno_quantize_options {
    enum steno_quantize_kind kind;
    int bits, block;   /* BLOCKS: 4 or 8; rows per block, a power of two of at least 16 */
    bool reduce_range; /* DYNAMIC, STATIC: 7-bit weights, for runtimes whose 8-bit sums saturate */
    bool convolutions; /* DYNAMIC, STATIC: Conv, too */
    /* Comma-separated patterns (* and ?) of node names and of operator types; or NULL. */
    const char *exclude, *exclude_ops;
    /* STATIC: the range of value x of the main graph in calibration; false: not known. */
    bool (*range)(void *arg, steno_value_id x, float *lo, float *hi);
    void *range_arg;
    /* Called for each product. May be NULL. */
    void (*report)(void *arg, const struct steno_quantize_product *p);
    void *report_arg;
};

/* For all kinds but F16 and BF16, to be called first: replace Gemm with a constant factor by MatMul
 * and Add. The caller must sort the graph and infer it again. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize_split(struct steno_graph *g,
                                             const struct steno_quantize_options *opt,
                                             steno_err *err);
/* List the products of the main graph that steno_quantize would quantize: *n of them in *out, freed
 * by the caller. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize_list(struct steno_graph *g,
                                            const struct steno_quantize_options *opt,
                                            struct steno_quantize_product **out, int *n,
                                            steno_err *err);
/* Quantize the products of g and its bodies; *changed gets their number. A product keeps its
 * weights if one of them overflows, and with 8 or 4 bits if one is infinite or NaN. The caller must
 * sort the graph and infer it again. STENO_ERR_INVAL: invalid options. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize(struct steno_graph *g,
                                       const struct steno_quantize_options *opt, int *changed,
                                       steno_err *err);

#endif
