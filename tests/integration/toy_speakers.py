"""Networks that tell toy speakers apart, and recordings of these: what a test of answers needs, without real weights.

A toy speaker lifts all samples by a constant, up or down, and hums a high note of its own. The segmentation network
reads the constant, which recognizers and features remove; the embedding network compares the notes. Both have the
metadata of sherpa-onnx's exports.
"""
import os

import numpy as np

RATE = 16000
LIFT = 0.04
NOTES = (7000, 6000)  # Hz


def _save(path, nodes, inputs, outputs, constants, meta):
    import onnx
    from onnx import helper, numpy_helper
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs + outputs]
    graph = helper.make_graph([helper.make_node(op, i, [o], **a) for op, i, o, a in nodes], "toy", values[:len(inputs)],
                              values[len(inputs):], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    for key, value in meta.items():
        model.metadata_props.add(key=key, value=str(value))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(model, path)


def segmentation(path, window=160000):
    """Samples [N,1,160000] to scores [N,frames,7] of nobody, speaker 1, 2, 3 and their pairs."""
    weight = np.zeros((1, 7), np.float32)
    weight[0, 1:3] = 1000, -1000
    bias = np.array([0, -500 * LIFT, -500 * LIFT, -1e4, -1e4, -1e4, -1e4], np.float32)
    nodes = [("AveragePool", ["x"], "mean", {"kernel_shape": [991], "strides": [270]}), ("Transpose", ["mean"], "frames", {"perm": [0, 2, 1]}),
             ("MatMul", ["frames", "weight"], "product", {}), ("Add", ["product", "bias"], "y", {})]
    meta = {"model_type": "pyannote-segmentation-3.0", "sample_rate": RATE, "window_size": window, "receptive_field_shift": 270,
            "receptive_field_size": 991, "num_speakers": 3, "powerset_max_classes": 2, "num_classes": 7}
    _save(path, nodes, [("x", ["N", 1, "T"])], [("y", ["N", "F", 7])], {"weight": weight, "bias": bias}, meta)


def embedding(path):
    """Features [N,frames,80] to a vector [N,2], by which note is louder."""
    def bin_of(hertz):
        mel = 1127 * np.log(1 + np.array([20, RATE / 2 - 400, hertz]) / 700)
        return round(float((mel[2] - mel[0]) / (mel[1] - mel[0]) * 81)) - 1
    weight = np.zeros((80, 2), np.float32)
    for k, hertz in enumerate(NOTES):
        weight[bin_of(hertz) - 1:bin_of(hertz) + 2, k] = 1
    weight -= weight[:, ::-1].copy()
    nodes = [("ReduceMean", ["x"], "mean", {"axes": [1], "keepdims": 0}), ("MatMul", ["mean", "weight"], "y", {})]
    meta = {"framework": "3d-speaker", "sample_rate": RATE, "output_dim": 2, "normalize_samples": 0}
    _save(path, nodes, [("x", ["N", "T", 80])], [("y", ["N", 2])], {"weight": weight}, meta)


def write(folder):
    """Write both networks."""
    segmentation(os.path.join(folder, "segmentation", "model.onnx"))
    embedding(os.path.join(folder, "embedding", "model.onnx"))
    return folder


def spoken_by(samples, speaker, rate=RATE):
    """Samples (s16) as toy speaker 0 or 1 says them."""
    hum = 0.004 * np.sin(2 * np.pi * NOTES[speaker] * np.arange(len(samples)) / rate)
    lift = LIFT if speaker == 0 else -LIFT
    return np.clip(samples + 32768 * (hum + lift), -32768, 32767).astype("<i2")


def dialogue(samples, rate, speakers):
    """What all speakers say one after the other, with pauses of half a second: s16 at RATE. samples: s16 at rate, which may
    be lower."""
    at = np.arange(len(samples) * RATE // rate) * rate / RATE
    said = np.interp(at, np.arange(len(samples)), samples)
    pause = np.zeros(RATE // 2, "<i2")
    return np.concatenate([x for speaker in speakers for x in (spoken_by(said, speaker), pause)])
