"""A directory of Qwen3-ASR's layout as sherpa-onnx has it, with small random networks, and its decoding with ONNX Runtime: an own loop
after offline-recognizer-qwen3-asr-impl.cc, an own tokenizer with merges, and Whisper's front end in numpy."""
import json
import os

import numpy as np
import onnx
from onnx import helper, numpy_helper

BINS, H, D, HEADS, KV, HD, LAYERS, INNER = 128, 12, 32, 4, 2, 8, 2, 48
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>", "<asr_text>"]
WORDS = ["system", "user", "assistant", "language", " English", " Spanish", " hello", " world", " 你好", "Kyiv", " None"]
F32, F16, I64, BOOL = (getattr(onnx.TensorProto, n) for n in ("FLOAT", "FLOAT16", "INT64", "BOOL"))

# ---- the tokenizer


def letters():
    """GPT-2's printable letter of each byte, in the order of the first 256 pieces."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


LETTER = letters()


def merges():
    """The pairs that spell each word from its front."""
    out = []
    for word in WORDS:
        s = [LETTER[b] for b in word.encode()]
        for i in range(1, len(s)):
            pair = ("".join(s[:i]), s[i])
            if pair not in out:
                out.append(pair)
    return out


MERGES = merges()
PIECES = list(LETTER.values()) + [a + b for a, b in MERGES]
NUMBER = {p: i for i, p in enumerate(PIECES)}
MARK = {m: len(PIECES) + i for i, m in enumerate(MARKS)}
VOCAB = len(PIECES) + len(MARKS)
SPARE = 3  # logits behind the vocabulary, as the published network has


def encode(text):
    """Without marks; words are split at blanks and line ends."""
    ids, words = [], []
    for c in text:
        if not words or c in " \n" or words[-1] == "\n":
            words.append("")
        words[-1] += c
    for word in words:
        s = [LETTER[b] for b in word.encode()]
        while True:
            pairs = [(MERGES.index(p), i) for i, p in enumerate(zip(s, s[1:])) if p in MERGES]
            if not pairs:
                break
            _, i = min(pairs)
            s[i:i + 2] = [s[i] + s[i + 1]]
        ids += [NUMBER[p] for p in s]
    return ids


def decode(ids):
    """Control characters are blanks, and the rest of an incomplete character is left out."""
    back = {v: k for k, v in LETTER.items()}
    text = bytes(back[c] for i in ids if i < len(PIECES) for c in PIECES[i]).decode(errors="ignore")
    return " ".join("".join(c if c >= " " else " " for c in text).split())


# ---- the networks


class Graph:
    def __init__(self, seed):
        self.nodes, self.constants, self.rng, self.n = [], [], np.random.default_rng(seed), 0

    def const(self, value):
        self.n += 1
        name = f"c{self.n}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape, scale=1.0):
        return self.const((self.rng.standard_normal(shape) * scale / np.sqrt(shape[-2] if len(shape) > 1 else 1)).astype(np.float32))

    def __call__(self, op, *inputs, out=None, **attributes):
        self.n += 1
        out = out or f"t{self.n}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def cache(self, name):
        """In f32."""
        return name if self.cache_type == F32 else self("Cast", name, to=F32)

    def shape(self, x, axis):
        return self("Gather", self("Shape", x), self.const(np.int64([axis])))

    def save(self, path, inputs, outputs):
        info = [[helper.make_tensor_value_info(*v) for v in vs] for vs in (inputs, outputs)]
        model = helper.make_model(helper.make_graph(self.nodes, "g", *info, self.constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def front_end(path):
    """Blocks of 100 frames to 13 rows each."""
    g = Graph(1)
    t = g.shape("x", 1)
    blocks = g("Div", g("Add", t, g.const(np.int64([99]))), g.const(np.int64([100])))
    more = g("Sub", g("Mul", blocks, g.const(np.int64([100]))), t)
    padded = g("Pad", "x", g("Concat", g.const(np.int64([0, 0, 0, 0])), more, g.const(np.int64([0])), axis=0))
    y = g("Reshape", padded, g("Concat", blocks, g.const(np.int64([100, BINS])), axis=0))
    y = g("Tanh", g("MatMul", g("MatMul", g.weight(13, 100, scale=3), y), g.weight(BINS, H)))
    g("Reshape", y, g.const(np.int64([1, -1, H])), out="y")
    g.save(path, [("x", F32, [1, "T", BINS])], [("y", F32, [1, "A", H])])


def encoder(path):
    """Attention among the rows of the recording; the others are zeros."""
    g = Graph(2)
    scores = g("MatMul", g("MatMul", "x", g.weight(H, H)), g("Transpose", "x", perm=[0, 2, 1]))
    seen = g("Where", g("Unsqueeze", "mask", g.const(np.int64([1]))), scores, g.const(np.float32(-1e9)))
    y = g("Add", "x", g("MatMul", g("Softmax", seen, axis=-1), "x"))
    y = g("MatMul", g("Tanh", g("MatMul", y, g.weight(H, D))), g.weight(D, D))
    g("Where", g("Unsqueeze", "mask", g.const(np.int64([2]))), y, g.const(np.float32(0)), out="y")
    g.save(path, [("x", F32, [1, "A", H]), ("mask", BOOL, [1, "A"])], [("y", F32, [1, "A", D])])


def rms(g, x):
    mean = g("ReduceMean", g("Mul", x, x), axes=[-1])
    return g("Mul", g("Div", x, g("Sqrt", g("Add", mean, g.const(np.float32(1e-6))))), g.weight(1, D))


def rotate(g, x, cos, sin):
    """x [n, heads, HD]"""
    half = [g("Slice", x, *(g.const(np.int64([v])) for v in (at, at + HD // 2, 2))) for at in (0, HD // 2)]
    turned = g("Concat", g("Neg", half[1]), half[0], axis=-1)
    return g("Add", g("Mul", x, cos), g("Mul", turned, sin))


def repeated(g, x):
    """[1, KV, S, HD] -> [1, HEADS, S, HD]"""
    x = g("Tile", g("Unsqueeze", x, g.const(np.int64([2]))), g.const(np.int64([1, 1, HEADS // KV, 1, 1])))
    shape = g("Shape", x)
    ends = [g("Slice", shape, g.const(np.int64([a])), g.const(np.int64([b]))) for a, b in ((0, 1), (3, 5))]
    return g("Reshape", x, g("Concat", ends[0], g.const(np.int64([-1])), ends[1], axis=0))


def sliced(g, q, new, layer, positions):
    """Scores and values: rows of the cache that are before the new ones, and those. As the published network has it."""
    first = g("Gather", positions, g.const(np.int64(0)))
    end = g("Unsqueeze", g("Clip", g("Min", first, g("Squeeze", g.shape(f"past_k_{layer}", 1))), g.const(np.int64(1))), g.const(np.int64([0])))
    old = [g("Slice", g.cache(f"past_{n}_{layer}"), g.const(np.int64([0])), end, g.const(np.int64([1])), g.const(np.int64([1]))) for n in "kv"]
    old = [repeated(g, g("Transpose", x, perm=[0, 2, 1, 3])) for x in old]
    new = [repeated(g, g("Transpose", g("Unsqueeze", x, g.const(np.int64([0]))), perm=[0, 2, 1, 3])) for x in new]
    scores = [g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.const(np.float32(HD ** -0.5))) for k in (old[0], new[0])]
    some = g("Cast", g("Greater", first, g.const(np.int64(0))), to=F32)
    scores[0] = g("Add", scores[0], g("Mul", g("Sub", g.const(np.float32(1)), some), g.const(np.float32(-1e4))))
    seen = g("LessOrEqual", g("Unsqueeze", positions, g.const(np.int64([0]))), g("Unsqueeze", positions, g.const(np.int64([1]))))
    mask = g("Unsqueeze", g("Where", seen, g.const(np.float32(0)), g.const(np.float32(-1e4))), g.const(np.int64([0, 1])))
    scores[1] = g("Add", scores[1], g("Expand", mask, g("Shape", scores[1])))
    return g("Concat", *scores, axis=-1), g("Concat", old[1], new[1], axis=2)


def scattered(g, q, new, layer, positions):
    """The same over the whole cache, in which the new rows are."""
    caches = []
    for name, x in zip("kv", new):
        past = g("Squeeze", g.cache(f"past_{name}_{layer}"), g.const(np.int64([0])))
        whole = g("ScatterND", past, g("Unsqueeze", positions, g.const(np.int64([1]))), x)
        whole = g("Transpose", g("Unsqueeze", whole, g.const(np.int64([0]))), perm=[0, 2, 1, 3])  # [1, KV, C, HD]
        shape = g("Concat", g.const(np.int64([1, KV, HEADS // KV])), g.shape(f"past_k_{layer}", 1), g.const(np.int64([HD])), axis=0)
        whole = g("Expand", g("Unsqueeze", whole, g.const(np.int64([2]))), shape)
        caches.append(g("Reshape", whole, g.const(np.int64([1, HEADS, -1, HD]))))
    scores = g("Mul", g("MatMul", q, g("Transpose", caches[0], perm=[0, 1, 3, 2])), g.const(np.float32(HD ** -0.5)))
    places = g("Range", g.const(np.int64(0)), g("Squeeze", g.shape(f"past_k_{layer}", 1)), g.const(np.int64(1)))
    seen = g("LessOrEqual", places, g("Unsqueeze", positions, g.const(np.int64([1]))))
    return g("Add", scores, g("Where", seen, g.const(np.float32(0)), g.const(np.float32(-3.4028235e38)))), caches[1]


def attention(g, layer, x, angles, positions, form):
    cos, sin = angles
    shaped = {}
    for name, heads in (("q", HEADS), ("k", KV), ("v", KV)):
        shaped[name] = g("Reshape", g("MatMul", x, g.weight(D, heads * HD)), g.const(np.int64([-1, heads, HD])))
    q, k, v = rotate(g, shaped["q"], cos, sin), rotate(g, shaped["k"], cos, sin), shaped["v"]
    for name, new in (("k", k), ("v", v)):
        kept = g("Cast", new, to=g.cache_type) if g.cache_type != F32 else new
        g("Unsqueeze", kept, g.const(np.int64([0])), out=f"{name}_delta_{layer}")
    q = g("Transpose", g("Unsqueeze", q, g.const(np.int64([0]))), perm=[0, 2, 1, 3])
    scores, values = form(g, q, (k, v), layer, positions)
    y = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), values), perm=[0, 2, 1, 3])
    return g("MatMul", g("Reshape", y, g.const(np.int64([-1, HEADS * HD]))), g.weight(HEADS * HD, D))


def likely():
    """[VOCAB + SPARE, same]: what follows what, beside what the networks say."""
    b = np.zeros((VOCAB + SPARE, VOCAB + SPARE), np.float32)
    b[:, VOCAB:] = 30  # no part of the vocabulary: must not be taken
    number = {w: encode(w)[0] for w in WORDS}
    b[encode("\n")[0], number["language"]] = 30
    for name in (" English", " Spanish", " None"):
        b[number["language"], number[name]] = 30
        b[number[name], MARK["<asr_text>"]] = 30
    for w in (" hello", " world", " 你好", "Kyiv"):
        b[MARK["<asr_text>"]:, number[w]] = 4
        for before in (" hello", " world", " 你好", "Kyiv"):
            b[number[before], number[w]] = 4
            b[number[before], MARK["<|im_end|>"]] = 3
    return b


def decoder(path, positions, cache_type, form=sliced):
    g = Graph(3)
    g.cache_type = cache_type
    ids, table = g("Squeeze", "ids", g.const(np.int64([0]))), g.weight(VOCAB + SPARE, D, scale=4)
    audio = g("Equal", ids, g.const(np.int64(MARK["<|audio_pad|>"])))
    place = g("Sub", g("CumSum", g("Cast", audio, to=I64), g.const(np.int64(0))), g.const(np.int64(1)))
    place = g("Max", place, g.const(np.int64(0)))
    rows = g("Gather", g("Squeeze", "rows", g.const(np.int64([0]))), place)
    x = g("Where", g("Unsqueeze", audio, g.const(np.int64([1]))), rows, g("Gather", table, ids))
    speed = 100.0 ** (-np.arange(HD // 2) / (HD // 2))
    angle = g("Mul", g("Unsqueeze", g("Cast", "positions", to=F32), g.const(np.int64([1, 2]))), g.const(np.float32(np.tile(speed, 2))))
    angles = g("Cos", angle), g("Sin", angle)  # [n, 1, HD]
    for layer in range(LAYERS):
        x = g("Add", x, attention(g, layer, rms(g, x), angles, "positions", form))
        h = rms(g, x)
        gate = g("MatMul", h, g.weight(D, INNER))
        h = g("Mul", g("Mul", gate, g("Sigmoid", gate)), g("MatMul", h, g.weight(D, INNER)))
        x = g("Add", x, g("MatMul", h, g.weight(INNER, D)))
    logits = g("MatMul", rms(g, x), g("Transpose", table, perm=[1, 0]))
    logits = g("Add", logits, g("Gather", g.const(likely()), ids))
    keep = g("Mul", g("Cast", g.shape("mask", 1), to=F32), g.const(np.float32([0])))  # the mask is an input
    g("Unsqueeze", g("Add", logits, keep), g.const(np.int64([0])), out="logits")
    cache = [1, positions or "C", KV, HD]
    inputs = [("ids", I64, [1, "n"]), ("rows", F32, [1, "a", D]), ("mask", I64, [1, "n"]), ("positions", I64, ["n"])]
    outputs = [("logits", F32, [1, "n", VOCAB + SPARE])]
    for layer in range(LAYERS):
        inputs += [(f"past_{name}_{layer}", cache_type, cache) for name in "kv"]
        outputs += [(f"{name}_delta_{layer}", cache_type, [1, "n", KV, HD]) for name in "kv"]
    g.save(path, inputs, outputs)


def write(folder, positions=256, cache_type=F32, form=sliced):
    os.makedirs(os.path.join(folder, "tokenizer"), exist_ok=True)
    front_end(os.path.join(folder, "conv_frontend.onnx"))
    encoder(os.path.join(folder, "encoder.onnx"))
    decoder(os.path.join(folder, "decoder.onnx"), positions, cache_type, form)

    def put(name, text):
        with open(os.path.join(folder, "tokenizer", name), "w", encoding="utf-8") as f:
            f.write(text)
    put("vocab.json", json.dumps(NUMBER, ensure_ascii=False))
    put("merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    put("tokenizer_config.json", json.dumps({"added_tokens_decoder": {str(i): {"content": m, "special": True} for m, i in MARK.items()}}))


# ---- decoding


def mel_filters(points=400):
    """Slaney's filters of 0 to 8 kHz, with area 1: [BINS, points / 2 + 1]"""
    def to_mel(f):
        return np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4))

    def to_hz(m):
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    edges = to_hz(np.linspace(0, to_mel(np.float64(8000)), BINS + 2))
    f = np.linspace(0, 8000, points // 2 + 1)
    up = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def features(pcm):
    """[frames, BINS]: Whisper's log-mel of the recording alone"""
    x = np.pad(pcm.astype(np.float64), 200, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(x, 400)[::160][:len(pcm) // 160]
    power = np.abs(np.fft.rfft(frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)))) ** 2
    y = np.log10(np.maximum(power @ mel_filters().T, 1e-10))
    return ((np.maximum(y, y.max() - 8) + 4) / 4).astype(np.float32)


def once(said):
    """Of 1 to 20 tokens that are there 5 times and more at the end, those of the first time."""
    for n in range(1, 21):
        head = list(said)
        while len(head) > n and head[-1] == head[-1 - n]:
            head.pop()
        if len(said) - len(head) >= 4 * n:
            return head
    return said


class Reference:
    def __init__(self, folder):
        import onnxruntime as ort
        self.net = {n: ort.InferenceSession(os.path.join(folder, n + ".onnx"), providers=["CPUExecutionProvider"])
                    for n in ("conv_frontend", "encoder", "decoder")}

    def rows(self, pcm):
        x = features(pcm)
        y = self.net["conv_frontend"].run(None, {"x": x[None]})[0]
        n = len(x) // 100 * 13 + (len(x) % 100 + 7) // 8
        return self.net["encoder"].run(None, {"x": y, "mask": (np.arange(y.shape[1]) < n)[None]})[0], n

    def __call__(self, pcm, context="", language=None, positions=256, most=None):
        """-> (language that was found or None, text)"""
        rows, n = self.rows(pcm)
        before = [MARK["<|im_start|>"], *encode("system\n"), *encode(context), MARK["<|im_end|>"], *encode("\n"), MARK["<|im_start|>"],
                  *encode("user\n"), MARK["<|audio_start|>"]]
        after = [MARK["<|audio_end|>"], MARK["<|im_end|>"], *encode("\n"), MARK["<|im_start|>"], *encode("assistant\n")]
        if language:
            after += encode("language " + language) + [MARK["<asr_text>"]]
        ids, cache, net = before + [MARK["<|audio_pad|>"]] * n + after, {}, self.net["decoder"]
        names = [i.name for i in net.get_inputs()]
        kind = np.float16 if "16" in net.get_inputs()[4].type else np.float32
        for name in names[4:]:
            cache[name] = np.zeros((1, positions, KV, HD), kind)
        said, at, new = [], 0, ids
        most = most or len(pcm) // 160 * 8 // 100 + 16
        while len(said) < most:
            out = net.run(None, {"ids": np.int64([new]), "rows": rows[:, :n], "mask": np.ones((1, len(new)), np.int64),
                                 "positions": np.arange(at, at + len(new)), **cache})
            for name, delta in zip(names[4:], out[1:]):
                cache[name][:, at:at + len(new)] = delta
            at += len(new)
            scores = out[0][0, -1, :VOCAB].copy()
            if not said:
                scores[MARK["<|im_end|>"]] = -np.inf
            token = int(scores.argmax())
            if token == MARK["<|im_end|>"]:
                return self.split(said)
            said, new = said + [token], [token]
            if at == positions:
                break
        return self.split(once(said))

    @staticmethod
    def split(said):
        found = None
        if MARK["<asr_text>"] in said[1:16] and decode(said[:said.index(MARK["<asr_text>"])]).startswith("language"):
            at = said.index(MARK["<asr_text>"])
            found, said = decode(said[:at])[9:], said[at + 1:]
        return found, decode(said)
