"""Write the tone network into this folder: a streaming "recognizer" of sine tones, small enough to reason about.

Frame t of the scores depends on the mean of four feature frames and, through the state, on the frame before it.
The score of a token is the log-mel energy around its frequency minus the mean of all bins. usage: make.py
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WINDOW, SHIFT, SUB, BINS, RATE = 11, 8, 4, 40, 8000
TOKENS = [("<blk>", None), ("\u2581one", 500), ("\u2581two", 1000), ("ty", 1700), ("<unk>", 2800)]


def mel(f):
    return 1127 * np.log(1 + f / 700)


def centre_bin(freq):
    lo, hi = mel(60.0), mel(3800.0)
    return int(round((mel(freq) - lo) / ((hi - lo) / (BINS + 1)))) - 1


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    w = np.zeros((BINS, len(TOKENS)), np.float32)
    bias = np.zeros(len(TOKENS), np.float32)
    bias[0] = 9
    for i, (_, freq) in enumerate(TOKENS):
        if freq:
            b = centre_bin(freq)
            w[b - 1:b + 2, i] = 1
            w[:, i] -= 3 / BINS
    consts = dict(w=w, bias=bias, half=np.float32(0.5), zero=np.array([0]), rows=np.array([SHIFT // SUB]),
                  one=np.array([1]), rows1=np.array([SHIFT // SUB + 1]), shift=np.array([SHIFT]), axis=np.array([1]),
                  shape=np.array([0, SHIFT // SUB, SUB, BINS]))
    n = [
        helper.make_node("Slice", ["x", "zero", "shift", "axis"], ["frames"]),
        helper.make_node("Reshape", ["frames", "shape"], ["groups"]),
        helper.make_node("ReduceMean", ["groups"], ["means"], axes=[2], keepdims=0),
        helper.make_node("Concat", ["prev", "means"], ["all"], axis=1),
        helper.make_node("Slice", ["all", "zero", "rows", "axis"], ["before"]),
        helper.make_node("Slice", ["all", "one", "rows1", "axis"], ["now"]),
        helper.make_node("Slice", ["all", "rows", "rows1", "axis"], ["new_prev"]),
        helper.make_node("Add", ["before", "now"], ["sum"]),
        helper.make_node("Mul", ["sum", "half"], ["smooth"]),
        helper.make_node("MatMul", ["smooth", "w"], ["excess"]),
        helper.make_node("Add", ["excess", "bias"], ["logits"]),
        helper.make_node("LogSoftmax", ["logits"], ["log_probs"], axis=-1),
    ]
    f32 = TensorProto.FLOAT
    graph = helper.make_graph(
        n, "tones",
        [helper.make_tensor_value_info("x", f32, ["N", WINDOW, BINS]),
         helper.make_tensor_value_info("prev", f32, ["N", 1, BINS])],
        [helper.make_tensor_value_info("log_probs", f32, ["N", SHIFT // SUB, len(TOKENS)]),
         helper.make_tensor_value_info("new_prev", f32, ["N", 1, BINS])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for k, v in dict(window_frames=WINDOW, shift_frames=SHIFT, vocab_size=len(TOKENS)).items():
        model.metadata_props.add(key=k, value=str(v))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(here, "encoder.onnx"))
    with open(os.path.join(here, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, (t, _) in enumerate(TOKENS))
    with open(os.path.join(here, "model.conf"), "w", encoding="utf-8") as f:
        f.write(f"""; made by make.py; hears sine tones: 500 Hz is "one", 1000 Hz "two", 1700 Hz "ty", 2800 Hz nothing
[model]
name = tones
family = ctc_streaming
language = en
[features]
sample_rate = {RATE}
mel_bins = {BINS}
low_freq = 60
high_freq = 3800
[network]
file = encoder.onnx
window_frames = {WINDOW}
shift_frames = {SHIFT}
subsampling = {SUB}
tail_frames = 8
[decoder]
drop = <unk>
[endpoint]
rule1_silence = 3
rule2_silence = 0.6
rule3_length = 4
""")


if __name__ == "__main__":
    main()
