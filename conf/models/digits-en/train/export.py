"""Write a checkpoint as encoder.onnx, with tokens.txt beside it, and check it against the training form.

usage: export.py CHECKPOINT[,CHECKPOINT...]|random OUT_DIR [--half] [--ref REF.npz]
"""
import argparse
import os
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import features
import model as M


def load(paths):
    """The mean of the checkpoints: the mean of a tuned model and its start forgets less than the tuned model."""
    net = M.Digits()
    if paths != "random":
        all_of = [torch.load(p, map_location="cpu", weights_only=True)["model"] for p in paths.split(",")]
        net.load_state_dict({k: sum(m[k] for m in all_of) / len(all_of) for k in net.state_dict()})
    return net.eval()


def halve(graph):
    """Store large initializers as f16 followed by a Cast; the engine folds the Cast when it loads the model."""
    casts = []
    for init in graph.initializer:
        if init.data_type != TensorProto.FLOAT or np.prod(init.dims) < 4096:
            continue
        value = numpy_helper.to_array(init).astype(np.float16)
        name = init.name
        init.CopyFrom(numpy_helper.from_array(value, name + "_f16"))
        casts.append(helper.make_node("Cast", [name + "_f16"], [name], name=name + "_cast", to=TensorProto.FLOAT))
    for node in reversed(casts):
        graph.node.insert(0, node)


def export(net, out, half=False):
    names = M.Stream.names()
    path = os.path.join(out, "encoder.onnx")
    inputs = ["x"] + names
    outputs = ["log_probs"] + ["new_" + n for n in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(M.Stream(net).eval(), (torch.zeros(1, M.WINDOW, M.BINS), *M.Stream.states()), path,
                          input_names=inputs, output_names=outputs, opset_version=17, dynamo=False,
                          do_constant_folding=True, dynamic_axes={n: {0: "N"} for n in inputs + outputs})
    proto = onnx.load(path)
    shapes = {"log_probs": [M.CHUNK, len(M.TOKENS)]}
    for n, s in zip(names, M.Stream.states()):
        shapes["new_" + n] = list(s.shape[1:])
    for o in proto.graph.output:  # the exporter names fixed dimensions too; set their values
        dims = o.type.tensor_type.shape.dim
        for d, size in zip(list(dims)[1:], shapes[o.name]):
            d.Clear()
            d.dim_value = size
    if half:
        halve(proto.graph)
    meta = dict(model_type="ctc_streaming", window_frames=M.WINDOW, shift_frames=M.SHIFT, subsampling=M.SUB,
                tail_frames=2 * M.SHIFT, blank_id=M.BLANK, vocab_size=len(M.TOKENS), feature="kaldi-fbank",
                sample_rate=features.RATE, mel_bins=M.BINS, low_freq=60, high_freq=3800, language="en",
                license="CC-BY-SA-4.0")
    del proto.metadata_props[:]
    for k, v in meta.items():
        proto.metadata_props.add(key=k, value=str(v))
    proto.graph.name = "digits-en"
    proto.producer_name, proto.producer_version = "steno", ""
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)
    with open(os.path.join(out, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(M.TOKENS))
    return path


class Session:
    """Streaming decode through onnxruntime, as the engine does it."""

    def __init__(self, path):
        opt = ort.SessionOptions()
        opt.intra_op_num_threads = opt.inter_op_num_threads = 1
        self.s = ort.InferenceSession(path, opt, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.s.get_inputs()][1:]
        self.shapes = [i.shape[1:] for i in self.s.get_inputs()][1:]

    def run(self, feats, trace=None):
        """feats [B, frames, BINS] -> log probabilities [B, T', V]; pads the end with silence to whole chunks."""
        b, t, _ = feats.shape
        n = max(1, -(-(t - M.OVERLAP) // M.SHIFT))
        feats = np.concatenate([feats, np.full((b, n * M.SHIFT + M.OVERLAP - t, M.BINS), features.LOG_FLOOR,
                                               np.float32)], 1) if n * M.SHIFT + M.OVERLAP > t else feats
        states = [np.zeros((b, *s), np.float32) for s in self.shapes]
        out = []
        for i in range(n):
            x = np.ascontiguousarray(feats[:, i * M.SHIFT:i * M.SHIFT + M.WINDOW], dtype=np.float32)
            res = self.s.run(None, {"x": x, **dict(zip(self.names, states))})
            if trace is not None:
                trace.append((x, states, res[0], res[1:]))
            out.append(res[0])
            states = res[1:]
        return np.concatenate(out, 1)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("checkpoint")
    ap.add_argument("out")
    ap.add_argument("--half", action="store_true")
    ap.add_argument("--ref", help="also write features, chunks, states and log probabilities of one recording")
    ap.add_argument("--wav")
    args = ap.parse_args()
    torch.set_num_threads(1)
    net = load(args.checkpoint)
    path = export(net, args.out, args.half)
    session = Session(path)
    rng = np.random.default_rng(0)
    feats = rng.normal(-6, 3, (2, 12 * M.SHIFT + M.OVERLAP, M.BINS)).astype(np.float32)
    if args.wav:
        import soundfile
        wave, rate = soundfile.read(args.wav, dtype="float32")
        assert rate == features.RATE
        feats = features.fbank(np.concatenate([wave, np.zeros(2 * M.SHIFT * 80, np.float32)]))[None].numpy()
        n = -(-(feats.shape[1] - M.OVERLAP) // M.SHIFT)
        pad = n * M.SHIFT + M.OVERLAP - feats.shape[1]
        feats = np.pad(feats, ((0, 0), (0, pad), (0, 0)), constant_values=features.LOG_FLOOR)
    trace = []
    got = session.run(feats, trace)
    with torch.no_grad():
        want = net(torch.from_numpy(feats))[0].numpy()
    diff = np.abs(got - want).max()
    print(f"{path}: {os.path.getsize(path)} bytes, {sum(p.numel() for p in net.parameters())} parameters, "
          f"streaming vs whole utterance: max difference {diff:.2e}")
    assert diff < (5e-2 if args.half else 1e-4)
    if args.ref:
        arrays = dict(feats=feats, log_probs=got, chunks=np.stack([t[0] for t in trace]),
                      chunk_log_probs=np.stack([t[2] for t in trace]))
        if args.wav:
            arrays["wave"] = wave
        for name, first, last in zip(session.names, trace[-1][1], trace[-1][3]):
            arrays["last_in_" + name], arrays["last_out_" + name] = first, last
        np.savez(args.ref, **arrays)


if __name__ == "__main__":
    main()
