#!/usr/bin/env python3
"""Greedy decoding of the int8 networks of ../shared/zoo/tiny with ONNX Runtime, on this machine's kernels.

    build/venv/bin/python tests/data/nemo/record_int8.py > tests/data/nemo/int8.json

decode.json there comes from another CPU: rounding of 8-bit activations differs between ONNX Runtime's kernels, and the caches
of a streaming network carry one such difference on for the rest of a recording. Features are those of `steno features`, which
are sherpa-onnx's for these models.
"""
import json
import subprocess
import sys

import numpy as np
import onnxruntime as ort
import soundfile

AUDIO, ZOO = "../shared/audio", "../shared/zoo/tiny"
SILENCE = 0.66  # s


def features(path, seconds, bins):
    x, rate = soundfile.read(path, dtype="float32")
    assert rate == 16000
    x = x[: int(seconds * rate)] if seconds else x
    x = np.concatenate([x, np.zeros(int(SILENCE * rate), "f4")])
    soundfile.write("/tmp/steno-record.wav", x, rate, subtype="FLOAT")
    subprocess.run(["build/release/steno", "features", "--type", "nemo", "--snip-edges", "false", "--bins", str(bins),
                    "--output", "/tmp/steno-record.npy", "/tmp/steno-record.wav"], check=True)
    return np.load("/tmp/steno-record.npy")


def session(path):
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    return ort.InferenceSession(path, o)


class Encoder:
    def __init__(self, path):
        self.net = session(path)
        meta = self.net.get_modelmeta().custom_metadata_map
        shape = lambda key: (1, *(int(meta[f"{key}_dim{i}"]) for i in (1, 2, 3)))
        self.window, self.shift = int(meta["window_size"]), int(meta["chunk_shift"])
        self.caches = [np.zeros(shape("cache_last_channel"), "f4"), np.zeros(shape("cache_last_time"), "f4"), np.zeros(1, "i8")]

    def steps(self, feats):
        caches = self.caches
        for at in range(0, len(feats), self.shift):
            if at + self.window >= len(feats):
                return
            x = np.ascontiguousarray(feats[at:at + self.window].T[None])
            names = [i.name for i in self.net.get_inputs()]
            y = self.net.run(None, dict(zip(names, [x, np.array([self.window], "i8"), *caches])))
            caches = y[2:]
            yield y[0]


def ctc(folder, feats):
    ids, before = [], None
    for scores in Encoder(f"{folder}/model.int8.onnx").steps(feats):
        for row in scores[0]:
            best = int(row.argmax())
            if best not in (before, len(row) - 1):
                ids.append(best)
            before = best
    return ids


def rnnt(folder, feats):
    decoder, joiner = session(f"{folder}/decoder.int8.onnx"), session(f"{folder}/joiner.int8.onnx")
    names = [i.name for i in decoder.get_inputs()]
    hidden = decoder.get_inputs()[2].shape[2]

    def read(token, states):
        y = decoder.run(None, dict(zip(names, [np.array([[token]], "i4"), np.array([1], "i4"), *states])))
        return y[0], y[2:]

    blank = joiner.get_outputs()[0].shape[-1] - 1
    row, states = read(blank, [np.zeros((2, 1, hidden), "f4")] * 2)
    ids = []
    for frames in Encoder(f"{folder}/encoder.int8.onnx").steps(feats):
        for t in range(frames.shape[2]):
            for _ in range(10):
                best = int(joiner.run(None, {"encoder_outputs": frames[:, :, t:t + 1].copy(), "decoder_outputs": row})[0].argmax())
                if best == blank:
                    break
                ids.append(best)
                row, states = read(best, states)
    return ids


def tdt(folder, path):
    """As onnx-asr: features of nemo128.onnx, at most 10 tokens of a frame."""
    x, _ = soundfile.read(path, dtype="float32")
    front, encoder, joint = (session(f"{folder}/{n}") for n in
                             ("onnx-asr/nemo128.onnx", "encoder.int8.onnx", "onnx-asr/decoder_joint-model.int8.onnx"))
    feats, n = front.run(None, {"waveforms": x[None], "waveforms_lens": np.array([len(x)], "i8")})
    frames, n = encoder.run(None, {"audio_signal": feats, "length": n})
    vocab = sum(1 for _ in open(f"{folder}/onnx-asr/vocab.txt"))
    hidden = joint.get_inputs()[3].shape[2]
    states, ids, t, here = [np.zeros((2, 1, hidden), "f4")] * 2, [], 0, 0
    names = [i.name for i in joint.get_inputs()]
    while t < n[0]:
        token = np.array([[ids[-1] if ids else vocab - 1]], "i4")
        y = joint.run(None, dict(zip(names, [frames[:, :, t:t + 1].copy(), token, np.array([1], "i4"), *states])))
        scores = y[0].ravel()
        best, duration = int(scores[:vocab].argmax()), int(scores[vocab:].argmax())
        if best != vocab - 1:
            ids.append(best)
            states = y[2:]
            here += 1
        if duration or best == vocab - 1 or here == 10:
            t, here = t + max(duration, 1), 0
    return ids


def main():
    speech = [f"librispeech/61-70968-000{i}.flac" for i in range(3)]
    others = [f"speech/{n}.wav" for n in ("beckett", "intent", "two_cities_16k")]
    out = {"runtime": f"onnxruntime {ort.__version__}, CPU with AMX and AVX-512 VNNI"}
    for folder, run, files, seconds, bins in (("nemo-rnnt-streaming", rnnt, speech, 0, 128),
                                              ("nemo-fastconformer-ctc-streaming", ctc, others, 15, 80)):
        out[folder] = {f.split("/")[1].split(".")[0]: run(f"{ZOO}/{folder}", features(f"{AUDIO}/{f}", seconds, bins))
                       for f in files}
    out["nemo-parakeet-tdt/onnx-asr"] = {f.split("/")[1].split(".")[0]: tdt(f"{ZOO}/nemo-parakeet-tdt", f"{AUDIO}/{f}")
                                         for f in speech}
    json.dump(out, sys.stdout)
    print()


main()
