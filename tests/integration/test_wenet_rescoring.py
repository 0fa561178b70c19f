"""WeNet's own layout (encoder.onnx, ctc.onnx, decoder.onnx): the alternatives of steno against WeNet's CTC prefix beam
search and attention rescoring, written here with NumPy over the networks in ONNX Runtime; the daemon's streams. TAP."""
import json
import math
import os
import sys
import wave

import numpy as np
import onnx
import onnxruntime
from daemon import run_in_folders
from test_convert import DATA, RECORDING, steno
from test_convert_wenet import metadata

BEAM, TOLERANCE = 10, 2e-2  # of scores of hundreds; the features differ in the last bits


def samples():
    with wave.open(RECORDING) as w:
        assert w.getframerate() == 16000
        return np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(float)


def fbank(x):
    """Kaldi's features (feat/feature-fbank.cc) without dither: 80 bins from 20 to 8000 Hz, whole frames."""
    n = 1 + (len(x) - 400) // 160
    frames = np.lib.stride_tricks.sliding_window_view(x, 400)[:: 160][:n]
    frames = frames - frames.mean(1, keepdims=True)
    frames = frames - 0.97 * np.concatenate([frames[:, :1], frames[:, :-1]], 1)
    frames = frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft(frames, 512)[:, :256]) ** 2
    mel = lambda f: 1127 * np.log(1 + f / 700)  # noqa: E731
    edges = np.linspace(mel(20), mel(8000), 82)
    at = mel(np.arange(256) * 16000 / 512)
    up = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return np.log(np.maximum(power @ np.maximum(0, np.minimum(up, down)).T, np.finfo("f4").eps)).astype("f4")


class Networks:
    def __init__(self, folder):
        self.meta = metadata(f"{folder}/encoder.onnx")
        self.encoder, self.ctc, self.decoder = (onnxruntime.InferenceSession(f"{folder}/{n}.onnx") for n in ("encoder", "ctc", "decoder"))
        with open(f"{folder}/units.txt", encoding="utf-8") as f:
            self.tokens = [line.split()[0] for line in f]
        self.number = {k: int(v) for k, v in self.meta.items() if v.lstrip("-").isdigit()}

    def run_encoder(self, chunk, offset, attention, convolution, mask):
        feed = {"chunk": chunk, "offset": np.array(offset), "att_cache": attention, "cnn_cache": convolution, "att_mask": mask,
                "required_cache_size": np.array(self.number["chunk_size"] * self.number["left_chunks"])}
        return self.encoder.run(None, {i.name: feed[i.name] for i in self.encoder.get_inputs()})

    def caches(self, rows):
        d, blocks, heads = (self.number[k] for k in ("output_size", "num_blocks", "head"))
        return (np.zeros((blocks, heads, rows, 2 * d // heads), "f4"),
                np.zeros((blocks, 1, d, self.number["cnn_module_kernel"] - 1), "f4"))

    def whole(self, x):
        return self.run_encoder(fbank(x)[None], 0, *self.caches(0), None)[0]

    def chunks(self, x):
        """As the daemon feeds them: silence follows until the last frame has left the window."""
        chunk, left, by = self.number["chunk_size"], self.number["left_chunks"], self.number["subsampling_rate"]
        window, shift, cached = self.number["decoding_window"], chunk * by, max(left, 0) * chunk
        steps = (-(-len(x) // 160) + window + shift - 1) // shift
        x = fbank(np.concatenate([x, np.zeros(160 * (steps * shift + window))]))
        attention, convolution = self.caches(cached)
        out = []
        for n in range(steps):
            mask = np.ones((1, 1, cached + chunk), bool)
            mask[..., : max(left - n, 0) * chunk] = False
            y, attention, convolution = self.run_encoder(x[None, n * shift : n * shift + window], cached + n * chunk, attention,
                                                         convolution, mask)
            out.append(y)
        return np.concatenate(out, 1)


def add(*x):
    top = max(x)
    return top if top == -math.inf else top + math.log(sum(math.exp(v - top) for v in x))


def prefix_beam(scores, wenet=False):
    """Prefix beam search: [(tokens, log-probability)], best first. A hypothesis may go on with the ten likeliest tokens
    of a frame. wenet: the blank counts as one of them, and its last token goes on only if it is one; ours may always,
    so that no alignment of a hypothesis is lost."""
    beam = {(): (0.0, -math.inf)}
    for row in scores.astype(float):
        new = {}

        def put(prefix, blank, other, new=new):
            b, o = new.get(prefix, (-math.inf, -math.inf))
            new[prefix] = add(b, blank), add(o, other)

        order = np.argsort(-row, kind="stable").tolist()
        top = order[:BEAM] if wenet else [0] + [t for t in order if t][:BEAM]
        for prefix, (blank, other) in beam.items():
            if not wenet and prefix and prefix[-1] not in top:
                put(prefix, -math.inf, other + row[prefix[-1]])
            for token in top:
                p = row[token]
                if token == 0:
                    put(prefix, add(blank, other) + p, -math.inf)
                elif prefix and token == prefix[-1]:
                    put(prefix, -math.inf, other + p)
                    put((*prefix, token), -math.inf, blank + p)
                else:
                    put((*prefix, token), -math.inf, add(blank, other) + p)
        beam = dict(sorted(new.items(), key=lambda i: -add(*i[1]))[:BEAM])
    return [(p, add(*v)) for p, v in beam.items()]


def rescore(networks, memory, hypotheses, ctc=0.5, attention=1.0, reverse=None):
    """WeNet's attention_rescoring, one hypothesis at a time: [(tokens, score)], best first."""
    eos = networks.number["eos_symbol"]
    both = networks.number["is_bidirectional_decoder"]
    reverse = (float(networks.meta["reverse_weight"]) if both else 0) if reverse is None else reverse
    out = []
    for tokens, score in hypotheses:
        ids = np.array([[networks.number["sos_symbol"], *tokens]])
        left, right = networks.decoder.run(None, {"hyps": ids, "hyps_lens": np.array([ids.shape[1]]), "encoder_out": memory})

        def total(y, order):
            return sum(float(y[0, j, t]) for j, t in enumerate(order)) + float(y[0, len(order), eos])

        value = total(left, tokens)
        if both and reverse > 0:
            value = (1 - reverse) * value + reverse * total(right, tokens[::-1])
        out.append((tokens, attention * value + ctc * score))
    return sorted(out, key=lambda i: -i[1])


def text(networks, tokens):
    return "".join(networks.tokens[t] for t in tokens if t not in (1, len(networks.tokens) - 1)).replace("▁", " ").strip()


def alternatives(folder, *args):
    said = json.loads(steno("transcribe", "--format", "json", "--no-endpoint", "--precision", "fp32", "--beam", str(BEAM), "--nbest",
                            str(BEAM), *args, "--model", folder, RECORDING)[0])
    assert len(said["segments"]) == 1, said
    return [(a["text"], a["score"]) for a in said["segments"][0]["alternatives"]]


def distinct(networks, want):
    """The texts, each once: tokens that are not written make equal ones."""
    out = {}
    for tokens, score in want:
        out.setdefault(text(networks, tokens), score)
    return list(out.items())


def same(got, want, networks):
    want = distinct(networks, want)
    assert len(got) == len(want), (len(got), len(want))
    for n, ((mine, a), (other, b)) in enumerate(zip(got, want)):
        assert abs(a - b) < TOLERANCE, f"alternative {n}: {a}, expected {b}"
        assert mine == other or any(mine == t and abs(a - s) < TOLERANCE for t, s in want), f"alternative {n}: {mine}, expected {other}"


def sharpened(folder, by=4.0):
    """CTC scores of a trained model are sharper than those of random weights: scale them."""
    model = onnx.load(f"{folder}/ctc.onnx")
    for i in model.graph.initializer:
        i.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(i) * np.float32(by), i.name))
    onnx.save(model, f"{folder}/ctc.onnx")


def equal_to_wenet(d, name, *args):
    folder = f"{d}/m"
    steno("convert", f"{DATA}/{name}.zip", "-o", folder, "--layout", "wenet", *args)
    sharpened(folder)
    networks = Networks(folder)
    memory = networks.whole(samples()) if networks.number["chunk_size"] < 0 else networks.chunks(samples())
    found = prefix_beam(networks.ctc.run(None, {"hidden": memory})[0][0])
    same(alternatives(folder), rescore(networks, memory, found), networks)
    same(alternatives(folder, "--rescoring-weight", "0"), found, networks)
    same(alternatives(folder, "--ctc-weight", "0.2", "--rescoring-weight", "0.7", "--reverse-weight", "0.6"),
         rescore(networks, memory, found, 0.2, 0.7, 0.6), networks)
    wenets = rescore(networks, memory, prefix_beam(networks.ctc.run(None, {"hidden": memory})[0][0], wenet=True))
    assert [t for t, _ in alternatives(folder)] == [t for t, _ in distinct(networks, wenets)], "WeNet's own search"
    ranks = [text(networks, t) for t, _ in found]
    assert [text(networks, t) for t, _ in rescore(networks, memory, found)] != ranks, "rescoring changes nothing: a weak test"


def streams_are_rescored(d):
    equal_to_wenet(d, "wenet-u2pp")


def streams_that_see_all_chunks_are_rescored(d):
    equal_to_wenet(d, "wenet-u2pp", "--left-chunks", "-1")


def streams_that_see_no_chunk_are_rescored(d):
    equal_to_wenet(d, "wenet-transformer", "--left-chunks", "0")


def transformers_are_rescored(d):
    equal_to_wenet(d, "wenet-transformer")


def whole_utterances_are_rescored(d):
    equal_to_wenet(d, "wenet-offline")


def directories_that_do_not_fit_are_named(d):
    folder = f"{d}/m"
    steno("convert", f"{DATA}/wenet-u2pp.zip", "-o", folder)

    def changed(name, change):
        path = f"{folder}/{name}.onnx"
        with open(path, "rb") as f:
            before = f.read()
        model = onnx.load(path)
        change(model)
        onnx.save(model, path)
        err = steno("model", "info", folder, want=65)[1]
        with open(path, "wb") as f:
            f.write(before)
        return err

    def key(name, value):
        def change(model):
            next(p for p in model.metadata_props if p.key == name).value = value
        return change

    def rename(old, new):
        def change(model):
            for n in model.graph.node:
                for i, x in enumerate(n.input):
                    n.input[i] = new if x == old else x
            next(i for i in model.graph.input if i.name == old).name = new
        return change

    for name, change, part in (("encoder", key("head", "3"), "do not fit together"),
                               ("encoder", key("eos_symbol", "31"), "eos_symbol 31 do not fit together"),
                               ("encoder", key("num_blocks", "many"), "metadata num_blocks is 'many', expected 1 to 1024"),
                               ("encoder", key("left_chunks", "-2"), "metadata left_chunks is '-2', expected -1 to 1024"),
                               ("encoder", key("feature_size", "40"), "metadata feature_size is '40', expected 80 to 80"),
                               ("encoder", key("vocab_size", "32"), "31 tokens, expected 32"),
                               ("encoder", rename("att_mask", "mask"), "expected an input att_mask"),
                               ("decoder", rename("hyps_lens", "lens"), "expected an input hyps_lens")):
        err = changed(name, change)
        assert part in err, (part, err)
    os.remove(f"{folder}/decoder.onnx")
    assert "attention rescoring" not in steno("model", "info", folder)[0]
    steno("transcribe", "--model", folder, RECORDING)


TESTS = [directories_that_do_not_fit_are_named, streams_are_rescored, streams_that_see_all_chunks_are_rescored, streams_that_see_no_chunk_are_rescored,
         transformers_are_rescored, whole_utterances_are_rescored]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
