/* Which inputs and outputs a node must have. Passes and shape inference read them without a check,
 * so the check comes first. The table comes from the operators' schemas (ONNX 1.23, parameters that
 * are "Single"; ONNX Runtime's ContribOperators.md). */
#include "nn/ops/registry.h"

#include <string.h>

enum { EVERY = 1 << 15 }; /* no element of the list may be left out */

/* Bit k: input (output) k is required. types: those that a row holds for, from opset `since` on,
 * until a later row has them. An operator without a row requires its first input and its first
 * output. */
static const struct arity {
    const char *domain;
    int since;
    unsigned in, out;
    const char *types;
} arities[] = {
    {"", 1, 0x3, 0x1,
     "Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CausalConvWithState "
     "CenterCropPad Compress Conv ConvInteger ConvTranspose CumProd CumSum DequantizeLinear Div "
     "Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual GridSample "
     "LayerNormalization Less LessOrEqual MatMul MatMulInteger MaxRoiPool MaxUnpool Mod Mul "
     "NegativeLogLikelihoodLoss NonMaxSuppression Or PRelu Pow QuantizeLinear RMSNormalization "
     "Reshape Resize ReverseSequence STFT SequenceAt SequenceInsert SimplifiedLayerNormalization "
     "SoftmaxCrossEntropyLoss Sub SwiGLU TensorScatter Tile Xor"},
    {"", 1, 0x7, 0x1,
     "Attention Col2Im DeformConv Gemm GroupNormalization InstanceNormalization LinearAttention "
     "OneHot Range RoiAlign RotaryEmbedding Scatter ScatterElements ScatterND Where"},
    {"", 1, 0x1f, 0x1, "BatchNormalization MelWeightMatrix"},
    {"", 1, EVERY | 1, 0x1, "Concat Einsum Max Mean Min SequenceConstruct Sum"},
    {"", 1, 0x1, 0x7, "DynamicQuantizeLinear"},
    {"", 1, 0x7, 0x0, "GRU LSTM RNN"},
    {"", 1, 0x1, 0x0, "If Split"},
    {"", 1, 0x0, 0x0, "Loop Scan"},
    {"", 1, 0x0, 0x1, "Optional OptionalHasElement RandomNormal RandomUniform SequenceEmpty"},
    {"", 1, 0xff, 0x1, "QLinearConv QLinearMatMul"},
    {"", 1, 0x1, 0x1, "TopK"},
    {"", 9, 0x3, 0x1, "Upsample"},
    {"", 10, 0x7, 0x1, "Slice"},
    {"", 10, 0x3, 0x1, "TopK"},
    {"", 11, 0x3, 0x1, "Gemm Pad"},
    {"", 11, 0x1, 0x1, "Resize"},
    {"", 13, 0x3, 0x1, "Unsqueeze"},
    {"com.microsoft", 1, 0x3, 0x1, "Attention BiasGelu FusedConv FusedGemm FusedMatMul"},
    {"com.microsoft", 1, 0xf07, 0x0, "DynamicQuantizeLSTM"},
    {"com.microsoft", 1, 0x7, 0x1,
     "DynamicQuantizeMatMul GatherBlockQuantized MatMulNBits RelativePositionBias "
     "SkipLayerNormalization SkipSimplifiedLayerNormalization"},
    {"com.microsoft", 1, 0x6d, 0x1, "EmbedLayerNormalization"},
    {"com.microsoft", 1, 0x3f, 0x1, "GatedRelativePositionBias"},
    {"com.microsoft", 1, 0x61, 0x1, "GroupQueryAttention"},
    {"com.microsoft", 1, 0xf, 0x1, "MatMulIntegerToFloat RotaryEmbedding"},
    {"com.microsoft", 1, 0x1f, 0x1, "QAttention"},
    {"com.microsoft", 1, 0x1b, 0x1, "QGemm"},
    {"ai.onnx.preview", 1, 0x7, 0x1, "FlexAttention"},
    {"ai.steno", 1, 0x7, 0x1, "Attention LocalAttention"},
    {"ai.steno", 1, 0x3, 0x1, "ConvNhwc DepthwiseConv1d Linear MaskedSoftmax"},
    {"ai.steno", 1, 0x1, 0x1, "PoolNhwc"},
    {"ai.steno", 1, 0x37, 0x1, "IntLinear"},
    {"ai.steno.run", 1, 0xb, 0x1, "ConvRowTiles"},
    {"ai.steno.run", 1, 0x3f, 0x1, "PastAttention"},
    {"ai.steno.run", 1, 0x7, 0x1, "ScatterEach WindowAttention"},
};

static const struct arity *find_arity(const struct steno_node *n)
{
    static const struct arity fallback = {"", 1, 1, 1, ""};
    const struct arity *best = &fallback;
    for (size_t i = 0; i < sizeof arities / sizeof arities[0]; i++) {
        const struct arity *a = &arities[i];
        if (!strcmp(a->domain, n->domain) && a->since <= n->opset &&
            steno_op_type_in(n->op_type, a->types))
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
