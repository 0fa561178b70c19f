"""A directory of Fun-ASR-Nano's layout as sherpa-onnx has it, with small random networks whose attention is the exporter's (FunASR-nano-onnx,
scripts/qwen.py), and its decoding with ONNX Runtime: an own loop after offline-recognizer-funasr-nano-impl.cc, and Kaldi's front end in
numpy, as the model was trained with it or as sherpa-onnx 2.0.1 has it."""
import json
import os
import shutil

import numpy as np
import onnx

import toy_qwen_asr as qwen
from toy_qwen_asr import F16, F32, I64, LETTER, MERGES, NUMBER, PIECES, Graph, encode, once

WIDTH, D, HEADS, KV, HD, LAYERS, INNER = 560, 32, 4, 2, 8, 2, 48
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"]
MARK = {m: len(PIECES) + i for i, m in enumerate(MARKS)}
VOCAB = len(PIECES) + len(MARKS)
SPARE = 3  # logits behind the vocabulary, as the published network has
FOLDER = "Qwen3-0.6B"


def set_meta(path, **meta):
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {k: str(v) for k, v in meta.items()})
    del model.opset_import[:]  # both names of the domain, as the exporter has it
    model.opset_import.extend([onnx.helper.make_opsetid("ai.onnx", 17), onnx.helper.make_opsetid("", 17)])
    onnx.save(model, path)


def encoder(path, comment):
    g = Graph(21)
    x = g("Mul", g("Sub", "x", g.const(np.float32(12))), g.const(np.float32(0.3)))
    y = g("Tanh", g("MatMul", x, g.weight(WIDTH, D)))
    near = g("Softmax", g("MatMul", g("MatMul", y, g.weight(D, D)), g("Transpose", y, perm=[0, 2, 1])), axis=-1)
    y = g("Add", y, g("MatMul", near, y))
    g("MatMul", g("Tanh", g("MatMul", y, g.weight(D, D))), g.weight(D, D, scale=2), out="encoder_out")
    g.save(path, [("x", F32, [1, "T", WIDTH])], [("encoder_out", F32, [1, "T_out", D])])
    set_meta(path, lfr_window_size=7, lfr_window_shift=6, normalize_samples=0, model_type="sense_voice_encoder_adaptor", version=1,
             encoder_output_size=D, llm_dim=D, comment=comment)


def embedding(path, table):
    g = Graph(22)
    g("Gather", g.const(table), "input_ids", out="embeddings")
    g.save(path, [("input_ids", I64, ["b", "s"])], [("embeddings", F32, ["b", "s", D])])
    set_meta(path, hidden_size=D)


def rms(g, x, n, scale=1.0):
    mean = g("ReduceMean", g("Mul", x, x), axes=[-1])
    return g("Mul", g.const((scale + 0.1 * g.rng.standard_normal(n)).astype(np.float32)),
             g("Mul", x, g("Div", g.const(np.float32(1)), g("Sqrt", g("Add", mean, g.const(np.float32(1e-6)))))))


def part(g, x, begin, end, axis):
    """begin, end: numbers, or values of one element"""
    return g("Slice", x, *(v if isinstance(v, str) else g.const(np.int64([v])) for v in (begin, end, axis)))


def repeated(g, x):
    """[1, KV, S, HD] -> [1, HEADS, S, HD]"""
    x = g("Tile", g("Unsqueeze", x, g.const(np.int64([2]))), g.const(np.int64([1, 1, HEADS // KV, 1, 1])))
    return g("Reshape", x, g.const(np.int64([1, HEADS, -1, HD])))


def rotated(g, x, angles):
    turned = g("Concat", g("Neg", part(g, x, HD // 2, HD, 3)), part(g, x, 0, HD // 2, 3), axis=-1)
    return g("Add", g("Mul", x, angles[0]), g("Mul", turned, angles[1]))


def seen(g, first, end):
    """What is added to scores of the cache's rows and the new ones: as the exporter, with -1e4."""
    n = g.shape("cache_position", 0)
    chunk = g("Cast", g("Greater", part(g, "attention_mask", g("Neg", n), 1 << 62, 1), g.const(np.int64(0))), to=F32)
    cache = g("Mul", g("ConstantOfShape", g("Concat", g.const(np.int64([1])), end, axis=0), value=onnx.numpy_helper.from_array(np.float32([1]))),
              g("Cast", g("Greater", first, g.const(np.int64(0))), to=F32))
    pad = g("Mul", g("Sub", g.const(np.float32(1)), g("Concat", cache, chunk, axis=1)), g.const(np.float32(1e4)))
    places = g("Concat", g("Range", g.const(np.int64(0)), g("Squeeze", end), g.const(np.int64(1))), "cache_position", axis=0)
    ok = g("LessOrEqual", g("Unsqueeze", places, g.const(np.int64([0]))), g("Unsqueeze", "cache_position", g.const(np.int64([1]))))
    causal = g("Where", ok, g.const(np.float32(0)), g.const(np.float32(-1e4)))
    return g("Unsqueeze", causal, g.const(np.int64([0, 1]))), g("Unsqueeze", pad, g.const(np.int64([1, 2])))


def attention(g, layer, x, angles, end, masks):
    def heads(n):
        return g("Transpose", g("Reshape", g("MatMul", x, g.weight(D, n * HD)), g.const(np.int64([1, -1, n, HD]))), perm=[0, 2, 1, 3])
    q, k, v = rms(g, heads(HEADS), HD, 3), rms(g, heads(KV), HD), heads(KV)
    q, k = rotated(g, q, angles), rotated(g, k, angles)
    for name, new in (("key", k), ("value", v)):
        rows = g("Transpose", new, perm=[0, 2, 1, 3])
        g("Cast" if g.cache_type != F32 else "Identity", rows, out=f"{name}_delta_{layer}", **({"to": g.cache_type} if g.cache_type != F32 else {}))
    old = [repeated(g, g("Transpose", part(g, g.cache(f"cache_{n}_{layer}"), 0, end, 1), perm=[0, 2, 1, 3])) for n in ("key", "value")]
    scores = [g("Mul", g("MatMul", q, g("Transpose", rows, perm=[0, 1, 3, 2])), g.const(np.float32(HD ** -0.5))) for rows in (old[0], repeated(g, k))]
    weights = g("Softmax", g("Sub", g("Add", g("Concat", *scores, axis=-1), masks[0]), masks[1]), axis=-1)
    y = g("Add", g("MatMul", part(g, weights, 0, end, 3), old[1]), g("MatMul", part(g, weights, end, 1 << 62, 3), repeated(g, v)))
    return g("MatMul", g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.const(np.int64([1, -1, HEADS * HD]))), g.weight(HEADS * HD, D))


def likely():
    """[VOCAB + SPARE]: words, and ends"""
    b = np.full(VOCAB + SPARE, -30, np.float32)
    for w in (" hello", " world", " 你好", "Kyiv", " English", " None", " Spanish"):
        b[encode(w)[0]] = 2
    b[MARK["<think>"]] = 1
    b[MARK["<|im_end|>"]], b[MARK["<|endoftext|>"]] = 0, -0.5
    return b


def llm(path, positions, cache_type, **meta):
    g = Graph(23)
    g.cache_type = cache_type
    first = g("Gather", "cache_position", g.const(np.int64(0)))
    end = g("Unsqueeze", g("Clip", first, g.const(np.int64(1))), g.const(np.int64([0])))
    speed = 100.0 ** (-np.arange(HD // 2) / (HD // 2))
    angle = g("Mul", g("Unsqueeze", g("Cast", "cache_position", to=F32), g.const(np.int64([0, 1, 3]))), g.const(np.float32(np.tile(speed, 2))))
    angles, masks = (g("Cos", angle), g("Sin", angle)), seen(g, first, end)
    x = "inputs_embeds"
    for layer in range(LAYERS):
        x = g("Add", x, attention(g, layer, rms(g, x, D), angles, end, masks))
        h = rms(g, x, D)
        gate = g("MatMul", h, g.weight(D, INNER))
        h = g("Mul", g("Mul", gate, g("Sigmoid", gate)), g("MatMul", h, g.weight(D, INNER)))
        x = g("Add", x, g("MatMul", h, g.weight(INNER, D)))
    logits = g("MatMul", rms(g, x, D), g.weight(D, VOCAB + SPARE, scale=2))
    g("Add", logits, g.const(likely()), out="logits")
    cache = [1, positions or "C", KV, HD]
    inputs = [("inputs_embeds", F32, [1, "seq", D]), ("attention_mask", I64, [1, "total_seq"]), ("cache_position", I64, ["seq"])]
    outputs = [("logits", F32, [1, "seq", VOCAB + SPARE])]
    for layer in range(LAYERS):
        inputs += [(f"cache_{n}_{layer}", cache_type, cache) for n in ("key", "value")]
        outputs += [(f"{n}_delta_{layer}", cache_type, [1, "seq", KV, HD]) for n in ("key", "value")]
    g.save(path, inputs, outputs)
    set_meta(path, model_type="qwen3_causallm_unified_prefill_decode_kv_delta", version=1, hidden_size=D, vocab_size=VOCAB + SPARE, num_layers=LAYERS,
             io_dtype="float32", num_kv_heads=KV, head_dim=HD, **{"max_total_len": positions or 512, **meta})


def write(folder, positions=512, cache_type=F32, comment="FunAudioLLM/Fun-ASR-Nano-2512", **meta):
    tokenizer = os.path.join(folder, FOLDER)
    os.makedirs(tokenizer, exist_ok=True)
    table = Graph(24).rng.standard_normal((VOCAB + SPARE, D)).astype(np.float32)
    encoder(os.path.join(folder, "encoder_adaptor.onnx"), comment)
    embedding(os.path.join(folder, "embedding.onnx"), table)
    llm(os.path.join(folder, "llm.onnx"), positions, cache_type, **meta)

    def put(name, text):
        with open(os.path.join(tokenizer, name), "w", encoding="utf-8") as f:
            f.write(text)
    put("vocab.json", json.dumps(NUMBER, ensure_ascii=False))
    put("merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    put("tokenizer.json", json.dumps({"version": "1.0", "added_tokens": [{"id": i, "content": m, "special": True} for m, i in MARK.items()]}))


def as_8_bits(folder, out):
    """As the exporter: onnxruntime's dynamic quantization, which knows one name of the domain alone."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    shutil.copytree(os.path.join(folder, FOLDER), os.path.join(out, FOLDER))
    for name in ("encoder_adaptor", "llm", "embedding"):
        path = os.path.join(out, name + ".int8.onnx")
        model = onnx.load(os.path.join(folder, name + ".onnx"))
        del model.opset_import[0]
        onnx.save(model, path)
        quantize_dynamic(path, path, weight_type=QuantType.QUInt8 if name == "encoder_adaptor" else QuantType.QInt8, per_channel=name == "llm")
        set_meta(path, **{p.key: p.value for p in model.metadata_props})


def as_4_bits(path):
    """Its products as MatMulNBits, in blocks of 32."""
    model = onnx.load(path)
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in model.graph.node:
        w = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if w is None:
            continue
        k, n = w.shape
        blocks = np.pad(w.T, ((0, 0), (0, -k % 32))).reshape(n, -1, 32)
        scales = np.abs(blocks).max(-1) / 7
        q = (np.clip(np.rint(blocks / scales[..., None]), -8, 7) + 8).astype(np.uint8)
        for name, value in (("q", q[..., ::2] | q[..., 1::2] << 4), ("s", scales.astype(np.float32).ravel())):
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, node.input[1] + name))
        node.CopyFrom(onnx.helper.make_node("MatMulNBits", [node.input[0], node.input[1] + "q", node.input[1] + "s"], list(node.output),
                                            domain="com.microsoft", K=k, N=n, bits=4, block_size=32))
        model.graph.initializer.remove(next(i for i in model.graph.initializer if i.name + "q" == node.input[1]))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)


# ---- decoding


def fbank(pcm, trained):
    """Kaldi's, Hamming, of samples as 16-bit values. sherpa-onnx: windows beyond the edges, and bands up to 7.6 kHz."""
    x = pcm.astype(np.float64) * 32768
    if trained:
        at = np.arange(1 + (len(x) - 400) // 160)[:, None] * 160 + np.arange(400)
    else:
        at = np.arange((len(x) + 80) // 160)[:, None] * 160 - 120 + np.arange(400)
        at = np.where(at < 0, -at - 1, at)
        at = np.where(at >= len(x), 2 * len(x) - 1 - at, at)
    f = x[at] - x[at].mean(1, keepdims=True)
    f = (f - 0.97 * np.concatenate([f[:, :1], f[:, :-1]], 1)) * (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 399))
    power = np.abs(np.fft.rfft(f, 512)[:, :256]) ** 2

    def mel(hz):
        return 1127 * np.log(1 + hz / 700)
    edges, bins = np.linspace(mel(20), mel(8000 if trained else 7600), 82), mel(np.arange(256) * 16000 / 512)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.log(np.maximum(power @ np.maximum(0, np.minimum(up, down)).T, np.finfo("f4").eps)).astype("f4")


def frames(pcm, trained=True):
    """[rows, WIDTH]: seven side by side every six. FunASR repeats the first and last; sherpa-onnx takes whole ones."""
    x = fbank(pcm, trained)
    n = -(-len(x) // 6) if trained else (len(x) - 7) // 6 + 1
    at = np.arange(n)[:, None] * 6 - 3 * trained + np.arange(7)
    return x[np.clip(at, 0, len(x) - 1)].reshape(n, WIDTH)


def decode(ids):
    return qwen.decode([i for i in ids if i < len(PIECES)])


class Reference:
    def __init__(self, folder, trained=True):
        import onnxruntime as ort
        names = {"encoder_adaptor": None, "embedding": None, "llm": None}
        for name in names:
            files = sorted(f for f in os.listdir(folder) if f.startswith(name) and f.endswith(".onnx"))
            names[name] = ort.InferenceSession(os.path.join(folder, files[0]), providers=["CPUExecutionProvider"])
        self.encoder, self.embedding, self.llm = names.values()
        self.trained = trained

    def text(self, *parts):
        """Embeddings of marks, by their names, and texts."""
        ids = [i for p in parts for i in ([MARK[p]] if p in MARK else encode(p))]
        return self.embedding.run(None, {"input_ids": np.int64([ids])})[0]

    def wish(self, words, language, itn, prompt):
        context = "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n**上下文信息：**\n\n\n" if words or prompt else ""
        context += (prompt + "\n" if prompt else "") + ("热词列表：[" + ", ".join(words) + "]\n" if words else "")
        return context + "语音转写" + ("成" + language if language else "") + ("" if itn else "，不进行文本规整") + "："

    def __call__(self, pcm, words=(), language=None, itn=True, prompt=None, most=None):
        names = [i.name for i in self.llm.get_inputs()][3:]
        caches = self.llm.get_inputs()[3]
        positions = caches.shape[1] if isinstance(caches.shape[1], int) else 512
        cache = {n: np.zeros((1, positions, *caches.shape[2:]), np.float16 if "16" in caches.type else np.float32) for n in names}
        rows = self.encoder.run(None, {"x": frames(pcm, self.trained)[None]})[0]
        x = np.concatenate([self.text("<|im_start|>", "system\nYou are a helpful assistant.", "<|im_end|>", "\n", "<|im_start|>",
                                      "user\n" + self.wish(words, language, itn, prompt)), rows,
                            self.text("<|im_end|>", "\n", "<|im_start|>", "assistant\n")], 1)
        said, at = [], 0
        most = most or len(pcm) * 8 // 16000 + 16
        while len(said) < most and at < positions:
            n = x.shape[1]
            out = self.llm.run(None, {"inputs_embeds": x, "attention_mask": np.ones((1, at + n), np.int64), "cache_position": np.arange(at, at + n), **cache})
            for name, delta in zip(names, out[1:]):
                cache[name][:, at:at + n] = delta
            at += n + (at == 0 and not self.trained)  # sherpa-onnx leaves a position behind the prompt out
            token = int(out[0][0, -1, :VOCAB].argmax())
            if token in (MARK["<|im_end|>"], MARK["<|endoftext|>"]):
                return decode(said)
            said.append(token)
            x = self.embedding.run(None, {"input_ids": np.int64([[token]])})[0]
        return decode(once(said) if self.trained else said)
