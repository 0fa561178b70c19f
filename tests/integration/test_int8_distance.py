"""int8 on the recorded networks (ESPnet's encoders, decoder, language model and streaming block; Zipformer's
chunks): the distance of the result from f32, compared with that of ONNX Runtime's own int8 graph (TAP). The
distance is the root mean square of the difference divided by that of the f32 result, over the recorded inputs.
For the language model it is taken over 64 rows of random tokens, because nine recorded rows cannot tell two ways
of rounding apart. For Zipformers it is taken over consecutive chunks, each with the states that the f32 graph
left. Neither the f32 graph opened in 8 bits nor the quantizer's graph, opened in the fast way, may be further
from f32 than ONNX Runtime's graph. The exact way gives ONNX Runtime's numbers, except that after the layers of a
Zipformer single roundings in the other direction show."""
# not under sanitizers: the graphs are those of test_models
import importlib.util
import itertools
import os
import sys

import numpy as np
import ort_exact
from test_models import SHARED, carry, feeds as zeros_of, steno

TINY = os.path.join(SHARED, "zoo", "tiny")
ENCODER = ("default_encoder", "encoder_out", ("encoder.T7", "encoder.T41", "encoder.T100", "encoder.T257"))
DECODER = ("xformer_decoder", "y", ("decoder.B1L1T9", "decoder.B3L5T24", "decoder.B5L12T63"))
LM = ("transformer_lm", "y", (1, 5, 12))  # tokens
BLOCK = ("xformer_encoder", "ys_pad", ("stream.block1", "stream.block2", "stream.block3"))
ZIPFORMER = ("encoder", "encoder_out", "feats")
NETWORKS = [("espnet-conformer-op13", ENCODER), ("espnet-transformer-op13", ENCODER), ("espnet-conformer-op13", DECODER),
            ("espnet-conformer-op13", LM), ("espnet-stream-conformer-op13", BLOCK),
            ("zipformer2-transducer-streaming", ZIPFORMER), ("zipformer1-transducer-streaming", ZIPFORMER)]


def block_states(folder, ref, case):
    """The inputs of a block besides its features: the f32 states of the block before it, positions, the mask of a
    block."""
    n = int(case[-1])
    before = f"stream.block{n - 1}/full/next_"
    pe = np.load(f"{folder}/pe.npy")
    mask = np.zeros((1, 1, 42, 42), np.float32)
    mask[..., 1:, :-1] = 1
    return {"mask": mask, "buffer_before_downsampling": ref[before + "buffer_before_downsampling"],
            "buffer_after_downsampling": ref[before + "buffer_after_downsampling"], "prev_addin": ref[before + "addin"],
            "pos_enc_xs": pe[:, 16 * n:16 * n + 40], "pos_enc_addin": pe[:, n:n + 1],
            "past_encoder_ctx": ref[before + "encoder_ctx"], "is_first": np.zeros(1, np.int64)}


def said(graph, lengths, rows=64, tokens=31, width=32):
    """Steps of a language model after random tokens, with the cache of its f32 graph, and its f32 results."""
    session = ort_exact.Session(graph, providers=["CPUExecutionProvider"])
    tgt = np.random.default_rng(1).integers(1, tokens, (rows, max(lengths)))
    caches = [np.zeros((rows, 1, width), np.float32)] * 2
    feeds, wanted = [], []
    for n in range(1, max(lengths) + 1):
        feed = {"tgt": tgt[:, :n], "cache_0": caches[0], "cache_1": caches[1]}
        y, *left = session.run(None, feed)
        caches = [c[:, -n:] for c in left]
        if n in lengths:
            feeds.append(feed)
            wanted.append(y)
    return feeds, wanted


def chunks(graph, feats):
    """Chunks of recorded features, each with the states that the f32 graph left before it, and its f32 results."""
    session = ort_exact.Session(graph, providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta().custom_metadata_map
    window, step = int(meta["T"]), int(meta["decode_chunk_len"])
    feed, inputs, wanted = zeros_of(session, {}, np.random.default_rng(0)), [], []
    for at in range(0, len(feats) - window + 1, step):
        feed["x"] = feats[None, at:at + window]
        inputs.append(dict(feed))
        y = session.run(None, feed)
        wanted.append(y[0])
        feed = carry(dict(feed), session, y)
    return inputs, wanted


def recorded(folder, network):
    """The inputs and f32 results of each case."""
    _, output, cases = network
    feeds, wanted = [], []
    with np.load(os.path.join(TINY, "espnet-inputs.npz")) as z, np.load(f"{folder}/ref.npz") as ref:
        for case in cases:
            feeds.append({k.split("/")[1]: z[k] for k in z.files if k.startswith(case + "/")})
            if network is BLOCK:
                feeds[-1].update(block_states(folder, ref, case))
            wanted.append(ref[f"{case}/full/{output}"])
    return feeds, wanted


def theirs(path, feeds):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    session = ort_exact.Session(path, o, providers=["CPUExecutionProvider"])
    return [session.run(None, feed)[0] for feed in feeds]


def distance(results, wanted):
    off = sum(float(np.sum((r - w) ** 2)) for r, w in zip(results, wanted))
    return (off / sum(float(np.sum(w ** 2)) for w in wanted)) ** 0.5


def ours(path, feeds, precision, cpu):
    return [steno(path, feed, 1, "3", cpu, "--precision", precision)[0] for feed in feeds]


def main():
    if not os.path.isdir(TINY) or importlib.util.find_spec("onnxruntime") is None:
        print(f"ok 1 - distance of int8 # SKIP {TINY} or the package onnxruntime is absent\n1..1")
        return 0
    number, bad = 0, 0
    for directory, network in NETWORKS:
        folder = os.path.join(TINY, directory)
        graph, quantized = f"{folder}/full/{network[0]}.onnx", f"{folder}/quantize/{network[0]}_qt.onnx"
        if network is ZIPFORMER:
            graph, quantized = f"{folder}/{network[0]}.onnx", f"{folder}/{network[0]}.int8.onnx"
            feeds, wanted = chunks(graph, np.load(f"{folder}/ref.npz")[network[2]])
        else:
            feeds, wanted = said(graph, network[2]) if network is LM else recorded(folder, network)
        most = distance(theirs(quantized, feeds), wanted)
        cases = [("f32 graph", graph, "int8", 1), *(("quantized graph", quantized, p, 1) for p in ("auto", "int8", "bf16")),
                 ("quantized graph", quantized, "fp32", 1.01 if network is ZIPFORMER else 1.001)]
        for (name, path, precision, times), cpu in itertools.product(cases, ("native", "avx2", "scalar")):
            number += 1
            got = distance(ours(path, feeds, precision, cpu), wanted)
            bad += got > most * times
            print(f"{'ok' if got <= most * times else 'not ok'} {number} - {directory} {network[0]}, {name} opened in {precision} "
                  f"at {cpu}: {got:.4f}, ONNX Runtime {most:.4f}")
    print(f"1..{number}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
