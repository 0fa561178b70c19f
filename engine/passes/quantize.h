/* Rewriting products by constant weights into fewer bits, for files: standard operators (ONNX) where
 * there are such, so that other runtimes run them too. Not a pass: it changes what is computed.
 *
 * DYNAMIC   MatMul(x, W) -> DynamicQuantizeLinear(x), MatMulInteger(q, W i8), Cast, Mul of the
 *           scales, Mul: weights over their own range by column, activations by tensor. Products of
 *           one x share its DynamicQuantizeLinear.
 * BLOCKS    MatMul(x, W) -> com.microsoft MatMulNBits: 4 or 8 bits, a scale for each block of rows
 *           of a column; activations stay f32
 * F16, BF16 W -> Cast(W in 16 bits) to f32: half the file. For graphs after the passes (which would
 *           undo it); the others are for graphs before the fusions (which then find the long form) */
#ifndef STENO_PASSES_QUANTIZE_H
#define STENO_PASSES_QUANTIZE_H

#include "graph/graph.h"

enum steno_quantize_kind {
    STENO_QUANTIZE_DYNAMIC,
    STENO_QUANTIZE_BLOCKS,
    STENO_QUANTIZE_F16,
    STENO_QUANTIZE_BF16
};

struct steno_quantize_options {
    enum steno_quantize_kind kind;
    int bits, block;     /* BLOCKS: 4 or 8; rows of a block, a power of two of at least 16 */
    bool reduce_range;   /* DYNAMIC: 7-bit weights, for runtimes whose 8-bit sums saturate */
    const char *exclude; /* comma-separated patterns (* and ?) of node names; or NULL */
    /* Each product: node, size of the weights, relative error sqrt(sum (w - w')^2 / sum w^2), or why
     * it was left alone (error -1). May be NULL. */
    void (*report)(void *arg, const char *node, int64_t rows, int64_t columns, double error,
                   const char *why);
    void *report_arg;
};

/* Products of g and its bodies; *changed gets their number. The graph is to be sorted and inferred
 * anew. STENO_ERR_INVAL for absurd options, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_quantize(struct steno_graph *g,
                                       const struct steno_quantize_options *opt, int *changed,
                                       steno_err *err);

#endif
