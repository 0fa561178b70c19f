/* Which inputs and outputs a node must have. Passes and shape inference read them without a check,
 * so the check comes first. The table comes from the operators' schemas (ONNX 1.23, parameters that
 * are "Single"; ONNX Runtime's ContribOperators.md). */
#include "nn/ops/registry.h"

#include <string.h>

enum { EVERY = 1 << 15 }; /* no element of the list may be left out */

/* Bit k: input (output) k is required. A row holds from opset `since` on, until another row of the
 * same name. An operator without a row requires its first input and its first output. */
static const struct arity {
    const char *domain, *type;
    int since;
    unsigned in, out;
} arities[] = {
    {"", "Add", 1, 0x3, 0x1},
    {"", "AffineGrid", 20, 0x3, 0x1},
    {"", "And", 1, 0x3, 0x1},
    {"", "Attention", 23, 0x7, 0x1},
    {"", "BatchNormalization", 1, 0x1f, 0x1},
    {"", "BitShift", 11, 0x3, 0x1},
    {"", "BitwiseAnd", 18, 0x3, 0x1},
    {"", "BitwiseOr", 18, 0x3, 0x1},
    {"", "BitwiseXor", 18, 0x3, 0x1},
    {"", "CastLike", 15, 0x3, 0x1},
    {"", "CausalConvWithState", 27, 0x3, 0x1},
    {"", "CenterCropPad", 18, 0x3, 0x1},
    {"", "Col2Im", 18, 0x7, 0x1},
    {"", "Compress", 9, 0x3, 0x1},
    {"", "Concat", 1, EVERY | 1, 0x1},
    {"", "Conv", 1, 0x3, 0x1},
    {"", "ConvInteger", 10, 0x3, 0x1},
    {"", "ConvTranspose", 1, 0x3, 0x1},
    {"", "CumProd", 26, 0x3, 0x1},
    {"", "CumSum", 11, 0x3, 0x1},
    {"", "DeformConv", 19, 0x7, 0x1},
    {"", "DequantizeLinear", 10, 0x3, 0x1},
    {"", "Div", 1, 0x3, 0x1},
    {"", "DynamicQuantizeLinear", 11, 0x1, 0x7},
    {"", "Einsum", 12, EVERY | 1, 0x1},
    {"", "Equal", 1, 0x3, 0x1},
    {"", "Expand", 8, 0x3, 0x1},
    {"", "GRU", 1, 0x7, 0x0},
    {"", "Gather", 1, 0x3, 0x1},
    {"", "GatherElements", 11, 0x3, 0x1},
    {"", "GatherND", 11, 0x3, 0x1},
    {"", "Gemm", 1, 0x7, 0x1},
    {"", "Gemm", 11, 0x3, 0x1},
    {"", "Greater", 1, 0x3, 0x1},
    {"", "GreaterOrEqual", 12, 0x3, 0x1},
    {"", "GridSample", 16, 0x3, 0x1},
    {"", "GroupNormalization", 18, 0x7, 0x1},
    {"", "If", 1, 0x1, 0x0},
    {"", "InstanceNormalization", 1, 0x7, 0x1},
    {"", "LSTM", 1, 0x7, 0x0},
    {"", "LayerNormalization", 17, 0x3, 0x1},
    {"", "Less", 1, 0x3, 0x1},
    {"", "LessOrEqual", 12, 0x3, 0x1},
    {"", "LinearAttention", 27, 0x7, 0x1},
    {"", "Loop", 1, 0x0, 0x0},
    {"", "MatMul", 1, 0x3, 0x1},
    {"", "MatMulInteger", 10, 0x3, 0x1},
    {"", "Max", 1, EVERY | 1, 0x1},
    {"", "MaxRoiPool", 1, 0x3, 0x1},
    {"", "MaxUnpool", 9, 0x3, 0x1},
    {"", "Mean", 1, EVERY | 1, 0x1},
    {"", "MelWeightMatrix", 17, 0x1f, 0x1},
    {"", "Min", 1, EVERY | 1, 0x1},
    {"", "Mod", 10, 0x3, 0x1},
    {"", "Mul", 1, 0x3, 0x1},
    {"", "NegativeLogLikelihoodLoss", 12, 0x3, 0x1},
    {"", "NonMaxSuppression", 10, 0x3, 0x1},
    {"", "OneHot", 9, 0x7, 0x1},
    {"", "Optional", 15, 0x0, 0x1},
    {"", "OptionalHasElement", 15, 0x0, 0x1},
    {"", "Or", 1, 0x3, 0x1},
    {"", "PRelu", 1, 0x3, 0x1},
    {"", "Pad", 11, 0x3, 0x1},
    {"", "Pow", 1, 0x3, 0x1},
    {"", "QLinearConv", 10, 0xff, 0x1},
    {"", "QLinearMatMul", 10, 0xff, 0x1},
    {"", "QuantizeLinear", 10, 0x3, 0x1},
    {"", "RMSNormalization", 23, 0x3, 0x1},
    {"", "RNN", 1, 0x7, 0x0},
    {"", "RandomNormal", 1, 0x0, 0x1},
    {"", "RandomUniform", 1, 0x0, 0x1},
    {"", "Range", 11, 0x7, 0x1},
    {"", "Reshape", 5, 0x3, 0x1},
    {"", "Resize", 10, 0x3, 0x1},
    {"", "Resize", 11, 0x1, 0x1},
    {"", "ReverseSequence", 10, 0x3, 0x1},
    {"", "RoiAlign", 10, 0x7, 0x1},
    {"", "RotaryEmbedding", 23, 0x7, 0x1},
    {"", "STFT", 17, 0x3, 0x1},
    {"", "Scan", 8, 0x0, 0x0},
    {"", "Scatter", 9, 0x7, 0x1},
    {"", "ScatterElements", 11, 0x7, 0x1},
    {"", "ScatterND", 11, 0x7, 0x1},
    {"", "SequenceAt", 11, 0x3, 0x1},
    {"", "SequenceConstruct", 11, EVERY | 1, 0x1},
    {"", "SequenceEmpty", 11, 0x0, 0x1},
    {"", "SequenceInsert", 11, 0x3, 0x1},
    {"", "SimplifiedLayerNormalization", 1, 0x3, 0x1},
    {"", "Slice", 10, 0x7, 0x1},
    {"", "SoftmaxCrossEntropyLoss", 12, 0x3, 0x1},
    {"", "Split", 1, 0x1, 0x0},
    {"", "Sub", 1, 0x3, 0x1},
    {"", "Sum", 1, EVERY | 1, 0x1},
    {"", "SwiGLU", 28, 0x3, 0x1},
    {"", "TensorScatter", 24, 0x3, 0x1},
    {"", "Tile", 1, 0x7, 0x1},
    {"", "Tile", 6, 0x3, 0x1},
    {"", "TopK", 1, 0x1, 0x1},
    {"", "TopK", 10, 0x3, 0x1},
    {"", "Unsqueeze", 13, 0x3, 0x1},
    {"", "Upsample", 9, 0x3, 0x1},
    {"", "Where", 9, 0x7, 0x1},
    {"", "Xor", 1, 0x3, 0x1},
    {"com.microsoft", "Attention", 1, 0x3, 0x1},
    {"com.microsoft", "BiasGelu", 1, 0x3, 0x1},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, 0xf07, 0x0},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 0x7, 0x1},
    {"com.microsoft", "EmbedLayerNormalization", 1, 0x6d, 0x1},
    {"com.microsoft", "FusedConv", 1, 0x3, 0x1},
    {"com.microsoft", "FusedGemm", 1, 0x3, 0x1},
    {"com.microsoft", "FusedMatMul", 1, 0x3, 0x1},
    {"com.microsoft", "GatedRelativePositionBias", 1, 0x3f, 0x1},
    {"com.microsoft", "GatherBlockQuantized", 1, 0x7, 0x1},
    {"com.microsoft", "GroupQueryAttention", 1, 0x61, 0x1},
    {"com.microsoft", "MatMulIntegerToFloat", 1, 0xf, 0x1},
    {"com.microsoft", "MatMulNBits", 1, 0x7, 0x1},
    {"com.microsoft", "QAttention", 1, 0x1f, 0x1},
    {"com.microsoft", "QGemm", 1, 0x1b, 0x1},
    {"com.microsoft", "RelativePositionBias", 1, 0x7, 0x1},
    {"com.microsoft", "RotaryEmbedding", 1, 0xf, 0x1},
    {"com.microsoft", "SkipLayerNormalization", 1, 0x7, 0x1},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, 0x7, 0x1},
    {"ai.onnx.preview", "FlexAttention", 1, 0x7, 0x1},
    {"ai.steno", "Attention", 1, 0x7, 0x1},
    {"ai.steno", "ConvNhwc", 1, 0x3, 0x1},
    {"ai.steno", "PoolNhwc", 1, 0x1, 0x1},
    {"ai.steno", "DepthwiseConv1d", 1, 0x3, 0x1},
    {"ai.steno", "IntLinear", 1, 0x37, 0x1},
    {"ai.steno", "Linear", 1, 0x3, 0x1},
    {"ai.steno", "LocalAttention", 1, 0x7, 0x1},
    {"ai.steno", "MaskedSoftmax", 1, 0x3, 0x1},
    {"ai.steno.run", "ConvRowTiles", 1, 0xb, 0x1},
    {"ai.steno.run", "PastAttention", 1, 0x3f, 0x1},
    {"ai.steno.run", "ScatterEach", 1, 0x7, 0x1},
    {"ai.steno.run", "WindowAttention", 1, 0x7, 0x1},
};

static const struct arity *find_arity(const struct steno_node *n)
{
    static const struct arity fallback = {"", "", 1, 1, 1};
    const struct arity *best = &fallback;
    for (size_t i = 0; i < sizeof arities / sizeof arities[0]; i++) {
        const struct arity *a = &arities[i];
        if (!strcmp(a->type, n->op_type) && !strcmp(a->domain, n->domain) && a->since <= n->opset)
            best = a;
    }
    return best;
}

/* Index of the first required value that is absent, or -1. */
static int absent(unsigned wanted, const steno_value_id *v, int n)
{
    for (int k = 0; k < 15; k++)
        if ((wanted >> k & 1) && (k >= n || v[k] == STENO_NONE))
            return k;
    for (int k = 0; (wanted & EVERY) && k < n; k++)
        if (v[k] == STENO_NONE)
            return k;
    return -1;
}

steno_status steno_op_check_arity(const struct steno_node *n, steno_err *err)
{
    const struct arity *a;
    int k;
    if (!n->op || !n->op->infer)
        return STENO_OK;
    a = find_arity(n);
    if ((k = absent(a->in, n->in, n->n_in)) >= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "node '%.80s': %.40s requires input %d", n->name,
                          n->op_type, k);
    if ((k = absent(a->out, n->out, n->n_out)) >= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "node '%.80s': %.40s requires output %d", n->name,
                          n->op_type, k);
    return STENO_OK;
}
