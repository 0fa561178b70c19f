#!/usr/bin/env python3
"""Write cases.txt: small node tests of the onnx package, in the line format that test_ops.c reads.

    build/venv/bin/python tests/ops/make_cases.py > tests/ops/cases.txt

A line is  name|domain|operator|opset|attributes|inputs|outputs , see test_ops.c. Included are tests of one node
whose tensors hold few elements, at most PER_OP per operator of OPS (without If, Loop, Scan, which test_ops.c
makes by hand).
"""
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")
PER_OP, ELEMENTS = 4, 64
TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int8": "i8", "uint8": "u8", "int16": "i16",
         "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64", "bool": "bool"}
# Tests whose expected values have four digits.
ROUNDED = ("test_averagepool_2d_ceil_last_window_starts_on_pad", "test_gridsample_bicubic")
OPS = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitCast
BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu Clip Compress Concat
ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DepthToSpace DequantizeLinear Div
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow
HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LSTM LayerNormalization LeakyRelu
Less LessOrEqual Log LogSoftmax Loop LpNormalization MatMul MatMulInteger Max MaxPool Mean
MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv
QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence
RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size
Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose
Trilu Unsqueeze Where Xor CausalConvWithState CenterCropPad Col2Im DeformConv Det LRN LinearAttention MaxUnpool NegativeLogLikelihoodLoss
RoiAlign SoftmaxCrossEntropyLoss SwiGLU TensorScatter Unique
""".split()


def number(v):
    if isinstance(v, (bool, np.bool_)):
        return str(int(v))
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    return repr(float(v)) if np.isfinite(v) else str(float(v))


def tensor(a):
    a = np.asarray(a)
    return f"{TYPES[a.dtype.name]}[{','.join(map(str, a.shape))}]:{' '.join(number(v) for v in a.ravel())}"


def attribute(a):
    kinds = {onnx.AttributeProto.INT: ("i", lambda: str(a.i)), onnx.AttributeProto.FLOAT: ("f", lambda: repr(a.f)),
             onnx.AttributeProto.STRING: ("s", lambda: a.s.decode()),
             onnx.AttributeProto.INTS: ("I", lambda: ",".join(map(str, a.ints)))}
    if a.type not in kinds:
        raise KeyError(a.type)
    kind, text = kinds[a.type]
    return f"{a.name}={kind}:{text()}"


def line(case):
    model, node = case.model, case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    values = dict(zip((i.name for i in model.graph.input), inputs))
    if sum(np.asarray(v).size for v in (*inputs, *outputs)) > ELEMENTS:
        raise KeyError("large")
    return "|".join((case.name.removeprefix("test_"), node.domain, node.op_type,
                     str(model.opset_import[0].version), ";".join(attribute(a) for a in node.attribute),
                     ";".join(tensor(values[n]) if n else "-" for n in node.input),
                     ";".join(tensor(v) for v in outputs)))


def main():
    taken = {}
    for case in sorted(collect_testcases(None), key=lambda c: c.name):
        nodes = case.model.graph.node
        if len(nodes) != 1 or case.name.endswith("_expanded") or nodes[0].op_type not in OPS:
            continue
        if nodes[0].domain or len(case.model.opset_import) > 1 or len(case.data_sets) != 1:
            continue
        if case.name in ROUNDED:
            continue
        if len(nodes[0].output) != len(case.model.graph.output):
            continue
        seen = taken.setdefault(nodes[0].op_type, [])
        try:
            text = line(case)
        except (KeyError, AttributeError, TypeError, ValueError):
            continue
        if len(seen) < PER_OP:
            seen.append(text)
    for op in sorted(taken):
        for text in taken[op]:
            print(text)


if __name__ == "__main__":
    main()
