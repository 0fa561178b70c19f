"""A directory of Parakeet unified's layout as sherpa-onnx exports it for streaming, with small random networks, and its decoding with ONNX Runtime: windows that
overlap, after NeMo's speech_to_text_streaming_infer_rnnt.py, or as sherpa-onnx fills them up with zeros."""
import os

import numpy as np
import onnx
from onnx import helper

from toy_cohere import log_mel, normalised
from toy_qwen_asr import BINS, F32, I64, Graph

D, P, FACTOR = 24, 16, 8
I32 = onnx.TensorProto.INT32
TOKENS = ["<unk>", *("\u2581" + w for w in ("the", "cat", "sat", "on", "a", "mat")), *"abcdefgh", "<blk>"]
WINDOW = {"left": 6, "chunk": 2, "right": 3}  # encoder frames
TAIL = 64  # feature frames of silence that are heard behind a recording


def describe(path, meta):
    model = onnx.load(path)
    helper.set_model_props(model, {k: str(v) for k, v in meta.items()})
    onnx.save(model, path)


def encoder(path):
    """Each frame sees those beside it and the mean of the window."""
    g = Graph(21)
    x = g("Transpose", "audio_signal", perm=[0, 2, 1])
    x = g("Reshape", x, g.const(np.int64([0, -1, FACTOR * BINS])))
    x = g("Tanh", g("MatMul", x, g.weight(FACTOR * BINS, D, scale=3)))
    x = g("Add", x, g("Tanh", g("MatMul", g("ReduceMean", x, axes=[1]), g.weight(D, D, scale=6))))
    x = g("Transpose", x, perm=[0, 2, 1])
    g("Tanh", g("Conv", x, g.const((g.rng.standard_normal((D, D, 5)) / 4).astype(np.float32)), pads=[2, 2]), out="outputs")
    g("Div", "length", g.const(np.int64(FACTOR)), out="encoded_lengths")
    g.save(path, [("audio_signal", F32, ["N", BINS, "T"]), ("length", I64, ["N"])], [("outputs", F32, ["N", D, "U"]), ("encoded_lengths", I64, ["N"])])
    meta = {"vocab_size": len(TOKENS) - 1, "normalize_type": "per_feature", "pred_rnn_layers": 1, "pred_hidden": P, "subsampling_factor": FACTOR,
            "model_type": "EncDecRNNTBPEModel", "streaming_model_type": "nemo_parakeet_unified_streaming", "buffered_streaming": 1, "version": 2,
            "url": "https://huggingface.co/nvidia/parakeet-unified-en-0.6b", "feat_dim": BINS}
    meta |= {f"{k}_encoder_frames": v for k, v in WINDOW.items()} | {f"{k}_feature_frames": v * FACTOR for k, v in WINDOW.items()}
    describe(path, meta)


def decoder(path):
    g = Graph(22)
    x = g("Transpose", g("Gather", g.weight(len(TOKENS), P, scale=4), "targets"), perm=[1, 0, 2])
    w, r = (g.const((g.rng.standard_normal((1, 4 * P, P)) / 3).astype(np.float32)) for _ in range(2))
    g.nodes.append(helper.make_node("LSTM", [x, w, r, "", "", "states.1", "states.2"], ["y", "states", "cells"], hidden_size=P))
    g("Transpose", g("Squeeze", "y", g.const(np.int64([1]))), perm=[1, 2, 0], out="outputs")
    g("Identity", "target_length", out="prednet_lengths")
    state = [1, "N", P]
    g.save(path, [("targets", I32, ["N", "U"]), ("target_length", I32, ["N"]), ("states.1", F32, state), ("states.2", F32, state)],
           [("outputs", F32, ["N", P, "U"]), ("prednet_lengths", I32, ["N"]), ("states", F32, state), ("cells", F32, state)])
    describe(path, {"streaming_model_type": "nemo_parakeet_unified_streaming"})


def joiner(path):
    g = Graph(23)
    axis = [g.const(np.int64([i])) for i in (2, 1)]
    parts = [g("Unsqueeze", g("MatMul", g("Transpose", n, perm=[0, 2, 1]), g.weight(d, D, scale=2)), a)
             for n, d, a in (("encoder_outputs", D, axis[0]), ("decoder_outputs", P, axis[1]))]
    bias = np.zeros(len(TOKENS), np.float32)
    bias[-1] = 3
    g("Add", g("MatMul", g("Relu", g("Add", *parts)), g.weight(D, len(TOKENS), scale=2)), g.const(bias), out="outputs")
    g.save(path, [("encoder_outputs", F32, ["N", D, "T"]), ("decoder_outputs", F32, ["N", P, "U"])], [("outputs", F32, ["N", "T", "U", len(TOKENS)])])


def write(folder):
    os.makedirs(folder, exist_ok=True)
    for part in (encoder, decoder, joiner):
        part(os.path.join(folder, part.__name__ + ".onnx"))
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(TOKENS))


class Reference:
    def __init__(self, folder):
        import onnxruntime as ort
        self.encoder, self.decoder, self.joiner = (ort.InferenceSession(os.path.join(folder, n + ".onnx"), providers=["CPUExecutionProvider"])
                                                   for n in ("encoder", "decoder", "joiner"))

    def windows(self, pcm, zeros):
        """Encoder frames of each chunk of pcm and the silence behind it."""
        left, chunk, right = (WINDOW[k] * FACTOR for k in ("left", "chunk", "right"))
        y = log_mel(np.pad(pcm, (0, 32000)))
        for at in range(0, len(pcm) // 160 + TAIL, chunk):
            window = y[max(0, at - left):at + chunk + right]
            if zeros:
                window = np.pad(window, ((max(0, left - at), 0), (0, 0)))
            x = normalised(window, 0 if zeros else 1)[None]
            out = self.encoder.run(None, {"audio_signal": x, "length": np.int64([x.shape[2]])})[0][0].T
            first = len(out) - WINDOW["chunk"] - WINDOW["right"]
            yield out[first:first + WINDOW["chunk"]]

    def predict(self, token, states):
        y, _, *states = self.decoder.run(None, {"targets": np.int32([[token]]), "target_length": np.int32([1]), "states.1": states[0], "states.2": states[1]})
        return y, states

    def __call__(self, pcm, zeros=False):
        """-> [(token, encoder frame)]"""
        blank, said, frame = len(TOKENS) - 1, [], 0
        y, states = self.predict(blank, [np.zeros((1, 1, P), np.float32)] * 2)
        for rows in self.windows(pcm, zeros):
            for row in rows:
                for _ in range(10):
                    token = int(self.joiner.run(None, {"encoder_outputs": row[None, :, None], "decoder_outputs": y})[0].argmax())
                    if token == blank:
                        break
                    said.append((token, frame))
                    y, states = self.predict(token, states)
                frame += 1
        return said


def text(said):
    return "".join(TOKENS[t] for t, _ in said if TOKENS[t] != "<unk>").replace("\u2581", " ").strip()
