"""A directory of Cohere Transcribe's layout as sherpa-onnx has it, with small random networks, and its decoding with ONNX Runtime: an
own loop after offline-recognizer-cohere-transcribe-impl.h, and NeMo's front end in numpy."""
import os

import numpy as np
import onnx

from toy_qwen_asr import BINS, F32, I64, Graph, mel_filters

D, HEADS, HD, LAYERS, POSITIONS = 32, 4, 8, 2, 40
MARKS = ["<unk>", "<|endoftext|>", "<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|en|>", "<|de|>", "<|ja|>", "<|sw|>",
         "<|pnc|>", "<|nopnc|>", "<|itn|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"]
TOKENS = MARKS + [*("\u2581" + w for w in ("the", "cat", "sat", "on", "a", "mat", "in", "June")), *".,?!", *"abcdefghij", "今", "日"]
NUMBER = {t: i for i, t in enumerate(TOKENS)}


def attend(g, q, k, v, seen=None):
    """q [1, heads, n, HD], k and v [1, heads, m, HD] -> [1, n, D]"""
    scores = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.const(np.float32(HD ** -0.5)))
    if seen:
        scores = g("Where", seen, scores, g.const(np.float32(-1e9)))
    y = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return g("Reshape", y, g.const(np.int64([1, -1, D])))


def heads(g, x):
    return g("Transpose", g("Reshape", x, g.const(np.int64([1, -1, HEADS, HD]))), perm=[0, 2, 1, 3])


def norm(g, x):
    mean = g("ReduceMean", x, axes=[-1])
    x = g("Sub", x, mean)
    return g("Div", x, g("Sqrt", g("Add", g("ReduceMean", g("Mul", x, x), axes=[-1]), g.const(np.float32(1e-5)))))


def stack(g, parts, out):
    g("Concat", *(g("Unsqueeze", p, g.const(np.int64([0]))) for p in parts), out=out, axis=0)


def encoder(path):
    g = Graph(11)
    x = g("Transpose", "mel", perm=[0, 2, 1])
    x = g("Slice", x, *(g.const(np.int64([v])) for v in (0, 1 << 40, 1, 8)))
    x = g("Tanh", g("MatMul", x, g.weight(BINS, D, scale=2)))
    for name in "kv":
        stack(g, [g("MatMul", x, g.weight(D, D, scale=2)) for _ in range(LAYERS)], f"n_layer_cross_{name}")
    g.save(path, [("mel", F32, [1, BINS, "T"])], [(f"n_layer_cross_{n}", F32, [LAYERS, 1, "U", D]) for n in "kv"])
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"model_type": "cohere-transcribe-03-2026"})
    onnx.save(model, path)


def layer_of(g, name, layer):
    return g("Gather", name, g.const(np.int64(layer)))


def updated(g, cache, new, begin, end):
    """cache [1, heads, C, HD] with `new` from begin to end"""
    axis, zero, far = (g.const(np.int64([v])) for v in (2, 0, 1 << 40))
    return g("Concat", g("Slice", cache, zero, begin, axis), new, g("Slice", cache, end, far, axis), axis=2)


def decoder(path, free=False):
    g = Graph(12)
    begin = g("Unsqueeze", "offset", g.const(np.int64([0])))
    end = g("Add", begin, g.shape("tokens", 1))
    places = g("Range", "offset", g("Squeeze", end), g.const(np.int64(1)))
    table = g.weight(len(TOKENS), D, scale=4)
    x = g("Add", g("Gather", table, "tokens"), g("Gather", g.weight(64, D), places))
    cells = g("Range", g.const(np.int64(0)), g("Squeeze", g.shape("in_n_layer_self_k_cache", 3)), g.const(np.int64(1)))
    seen = g("LessOrEqual", cells, g("Unsqueeze", places, g.const(np.int64([1]))))
    caches = {"k": [], "v": []}
    for layer in range(LAYERS):
        h = norm(g, x)
        for n in "kv":
            new = heads(g, g("MatMul", h, g.weight(D, D)))
            caches[n].append(updated(g, layer_of(g, f"in_n_layer_self_{n}_cache", layer), new, begin, end))
        q = heads(g, g("MatMul", h, g.weight(D, D)))
        x = g("Add", x, g("MatMul", attend(g, q, caches["k"][-1], caches["v"][-1], seen), g.weight(D, D)))
        q = heads(g, g("MatMul", norm(g, x), g.weight(D, D)))
        cross = [heads(g, layer_of(g, f"n_layer_cross_{n}", layer)) for n in "kv"]
        x = g("Add", x, g("MatMul", attend(g, q, *cross), g.weight(D, D, scale=4)))
    g("MatMul", norm(g, x), g("Transpose", table, perm=[1, 0]), out="logits")
    for n in "kv":
        stack(g, caches[n], f"out_n_layer_self_{n}_cache")
    shape = [LAYERS, 1, HEADS, "C" if free else POSITIONS, HD]
    inputs = [("tokens", I64, [1, "n"]), *((f"in_n_layer_self_{n}_cache", F32, shape) for n in "kv"),
              *((f"n_layer_cross_{n}", F32, [LAYERS, 1, "U", D]) for n in "kv"), ("offset", I64, [])]
    g.save(path, inputs, [("logits", F32, [1, "n", len(TOKENS)]), *((f"out_n_layer_self_{n}_cache", F32, shape) for n in "kv")])


def write(folder, free=False):
    os.makedirs(folder, exist_ok=True)
    encoder(os.path.join(folder, "encoder.onnx"))
    decoder(os.path.join(folder, "decoder.onnx"), free)
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(TOKENS))


def log_mel(pcm):
    """[frames, BINS]: NeMo's log-mel"""
    x = pcm.astype(np.float64)
    x = np.pad(np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]]), 256)
    frames = np.lib.stride_tricks.sliding_window_view(x, 512)[::160][:len(pcm) // 160]
    window = np.pad(np.hanning(400), 56)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    return np.log(power @ mel_filters(512).T + 2.0 ** -24)


def normalised(y, ddof=1):
    """[BINS, frames]: each bin to mean 0 and deviation 1"""
    return ((y - y.mean(0)) / (y.std(0, ddof=ddof) + 1e-5)).T.astype(np.float32)


def features(pcm):
    return normalised(log_mel(pcm))


class Reference:
    def __init__(self, folder):
        import onnxruntime as ort
        self.encoder, self.decoder = (ort.InferenceSession(os.path.join(folder, n + ".onnx"), providers=["CPUExecutionProvider"])
                                      for n in ("encoder", "decoder"))

    def __call__(self, pcm, language="en", itn=True, positions=POSITIONS):
        k, v = self.encoder.run(None, {"mel": features(pcm)[None]})
        new = [NUMBER[t] for t in ("<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", f"<|{language}|>", f"<|{language}|>", "<|pnc|>",
                                   "<|itn|>" if itn else "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>")]
        caches, at, said = [np.zeros((LAYERS, 1, HEADS, positions, HD), np.float32)] * 2, 0, []
        for _ in range(min(len(pcm) // 160 * 6 // 100, positions - len(new))):
            logits, *caches = self.decoder.run(None, {"tokens": np.int64([new]), "in_n_layer_self_k_cache": caches[0], "in_n_layer_self_v_cache": caches[1],
                                                      "n_layer_cross_k": k, "n_layer_cross_v": v, "offset": np.array(at)})
            at += len(new)
            token = int(logits[0, -1].argmax())
            if token == NUMBER["<|endoftext|>"]:
                break
            said.append(token)
            new = [token]
        return said


def pieces(ids):
    """What is written of tokens: none of the marks."""
    return "".join(TOKENS[i] for i in ids if TOKENS[i] not in MARKS).replace("\u2581", " ")
