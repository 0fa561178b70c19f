"""A small random network with the inputs and outputs of a streaming Sortformer, and the loop around it with ONNX Runtime: an own one after
NeMo's SortformerModules (streaming_feat_loader, streaming_update, _compress_spkcache) and its post-processing, in numpy."""
import base64
import math
import os

import numpy as np
import onnx

from toy_cohere import log_mel
from toy_qwen_asr import BINS, F32, I64, Graph, mel_filters

D, RATE = 32, 16000
LATENCIES = {0.32: (3, 1, 188, 144), 1.04: (6, 7, 188, 144), 10: (124, 1, 124, 124), 30.4: (340, 40, 40, 300)}  # chunk, right, fifo, period

# ---- the network


def packed(g, parts, lengths):
    """The filled rows of parts [1, T, D], one after the other, as NeMo's concat_and_pad has them; zeros follow."""
    whole = g("Concat", *parts, axis=1)
    at = g("Range", g.const(np.int64(0)), g("Squeeze", g.shape(whole, 1)), g.const(np.int64(1)))
    origin, end, source = g.const(np.int64(0)), g.const(np.int64(0)), at
    for part, length in zip(parts, lengths):  # rows from `end` on are of this part, which lies at `origin`
        there = g("Add", origin, g("Sub", at, end))
        source = g("Where", g("Less", at, end), source, there)
        origin, end = g("Add", origin, g.shape(part, 1)), g("Add", end, length)
    filled = g("Less", at, end)
    source = g("Where", filled, source, g.const(np.int64(0)))
    return g("Mul", g("Gather", whole, source, axis=1), g("Unsqueeze", g("Cast", filled, to=F32), g.const(np.int64([0, 2])))), filled


def network(path, speakers=4, fixed=None, fine=0, lengths=True, meta=(), bins=BINS, seed=3, dim=D):
    """fixed: (mel frames, cache, queue) of the inputs; fine: rows of a second output for each frame; lengths: the inputs have them."""
    g = Graph(seed)
    mels = g("Reshape", "chunk", g.const(np.int64([1, -1, 8 * bins])))
    rows = g("Tanh", g("MatMul", g("Add", mels, g.const(np.float32(8))), g.weight(8 * bins, D, scale=.5)))
    g("Add", rows, g.const(np.float32(0)), out="chunk_pre_encode_embs")
    filled = g("Div", g("Add", "chunk_lengths", g.const(np.int64(7))), g.const(np.int64(8)))
    g("Add", filled, g.const(np.int64(0)), out="chunk_pre_encode_lengths")
    parts = ["spkcache", "fifo", rows]
    x, seen = packed(g, parts, ["spkcache_lengths" if lengths else g.shape("spkcache", 1), "fifo_lengths" if lengths else g.shape("fifo", 1), filled])
    q, k, v = (g("MatMul", x, g.weight(D, D, scale=s)) for s in (2, 2, 3))
    scores = g("Where", seen, g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), g.const(np.float32(-1e9)))
    x = g("Add", x, g("MatMul", g("Softmax", scores, axis=-1), v))
    probs = g("Mul", g("Sigmoid", g("Sub", g("MatMul", x, g.weight(D, speakers, scale=3)), g.const(np.float32(1)))),
              g("Unsqueeze", g("Cast", seen, to=F32), g.const(np.int64([0, 2]))))
    g("Add", probs, g.const(np.float32(0)), out="spkcache_fifo_chunk_preds")
    outputs = [("spkcache_fifo_chunk_preds", F32, [1, "P", speakers]), ("chunk_pre_encode_embs", F32, [1, "E", D]), ("chunk_pre_encode_lengths", I64, [1])]
    if fine:
        x = g("Reshape", g("MatMul", x, g.weight(D, fine * speakers, scale=6)), g.const(np.int64([1, -1, speakers])))
        g("Sigmoid", x, out="spkcache_fifo_chunk_preds_hr")
        outputs.append(("spkcache_fifo_chunk_preds_hr", F32, [1, "H", speakers]))
    mel, cache, queue = fixed or ("T", "S", "F")
    inputs = [("chunk", F32, [1, mel, bins]), ("chunk_lengths", I64, [1]), ("spkcache", F32, [1, cache, D]), ("fifo", F32, [1, queue, dim])]
    if lengths:
        inputs[3:3] = [("spkcache_lengths", I64, [1])]
        inputs += [("fifo_lengths", I64, [1])]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    g.save(path, inputs, outputs)
    if meta:
        model = onnx.load(path)
        onnx.helper.set_model_props(model, {k: str(v) for k, v in dict(meta).items()})
        onnx.save(model, path)
    return path


def silence_text(x):
    return base64.b64encode(np.asarray(x, "<f4").tobytes()).decode()


# ---- the loop


class Memory:
    """Speaker cache and FIFO. numpy's float32 throughout, as torch has it."""

    def __init__(self, speakers, cache, queue, period, rests=3, silence=None, dim=D):
        self.speakers, self.most, self.most_queue, self.period, self.rests = speakers, cache, queue, period, rests
        self.learned = silence
        self.cache, self.queue = np.zeros((0, dim), np.float32), np.zeros((0, dim), np.float32)
        self.cache_probs = None
        self.mean, self.n_silent = np.zeros(dim, np.float32), 0

    def take(self, probs, rows, skip, n):
        """What the network said of cache, queue and chunk [.., speakers], and the chunk's embeddings; its n frames from `skip` on are new."""
        nc, nq = len(self.cache), len(self.queue)
        new = probs[nc + nq + skip:nc + nq + skip + n]
        queue = np.concatenate([self.queue, rows[skip:skip + n]])
        queue_probs = np.concatenate([probs[nc:nc + nq], new])
        if nq + n > self.most_queue:
            pop = min(max(self.period, n - self.most_queue + nq), nq + n)
            self.hear(queue[:pop], queue_probs[:pop])
            self.cache = np.concatenate([self.cache, queue[:pop]])
            if self.cache_probs is not None:
                self.cache_probs = np.concatenate([self.cache_probs, queue_probs[:pop]])
            if len(self.cache) > self.most:
                if self.cache_probs is None:
                    self.cache_probs = np.concatenate([probs[:nc], queue_probs[:pop]])
                self.compress()
            queue = queue[pop:]
        self.queue = queue
        return new

    def hear(self, rows, probs):
        silent = probs.sum(1) < np.float32(0.2)
        n = self.n_silent + int(silent.sum())
        if n > self.n_silent:
            self.mean = (self.mean * np.float32(self.n_silent) + (rows * silent[:, None]).sum(0)) / np.float32(n)
        self.n_silent = n

    def scores(self):
        p, least = self.cache_probs, np.float32(0.25)
        no = np.log(np.maximum(1 - p, least))
        score = np.log(np.maximum(p, least)) - no + no.sum(1, keepdims=True) - np.float32(math.log(0.5))
        score = np.where(p > 0.5, score, -np.inf)
        part = self.most // self.speakers - self.rests
        enough = (score > 0).sum(0) >= math.floor(part * 0.5)
        score = np.where(~(score > 0) & enough, -np.inf, score).astype(np.float32)
        score[self.most:] += np.float32(0.05)
        for share, by in ((0.75, 2), (1.5, 1)):
            for s in range(self.speakers):
                best = np.argsort(-score[:, s], kind="stable")[:math.floor(part * share)]
                score[best, s] -= np.float32(by * math.log(0.5))
        return np.concatenate([score, np.full((self.rests, self.speakers), np.inf, np.float32)])

    def compress(self):
        score = self.scores()
        frames = len(score) - self.rests
        flat = score.T.reshape(-1)
        best = np.argsort(-flat, kind="stable")[:self.most]
        best = np.sort(np.where(flat[best] == -np.inf, 1 << 40, best))
        at = np.where(best == 1 << 40, frames, best % len(score))
        off = at >= frames
        at = np.where(off, 0, at)
        rest = self.mean if self.learned is None else self.learned
        self.cache = np.where(off[:, None], rest, self.cache[at]).astype(np.float32)
        self.cache_probs = np.where(off[:, None], np.float32(0), self.cache_probs[at])


class Reference:
    """The rows that are told of samples [n]. steps: (chunk, left, right, cache, queue, period) in frames."""

    def __init__(self, path, steps, speakers=4, fixed=None, **memory):
        import onnxruntime as ort
        self.session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.names = [x.name for x in self.session.get_inputs()]
        self.fine = len(self.session.get_outputs()) > 3
        self.steps, self.speakers, self.fixed, self.memory = steps, speakers, fixed, memory

    def run(self, mel, memory):
        """-> probabilities, embeddings and what is told, all of filled rows"""
        def rows(x, n):
            return np.pad(x, ((0, n - len(x)), (0, 0)))[None].astype(np.float32)
        n = [len(mel), len(memory.cache), len(memory.queue)]
        size = self.fixed or [-(-n[0] // 8) * 8, *n[1:]]
        feed = {"chunk": rows(mel, size[0]), "spkcache": rows(memory.cache, size[1]), "fifo": rows(memory.queue, size[2])}
        feed.update({f"{k}_lengths": np.int64([v]) for k, v in zip(("chunk", "spkcache", "fifo"), n)})
        out = self.session.run(None, {k: v for k, v in feed.items() if k in self.names})
        return out[0][0], out[1][0], out[3][0] if self.fine else out[0][0]

    def __call__(self, pcm):
        chunk, left, right, cache, queue, period = self.steps
        mel, memory, told, end = log_mel(pcm), Memory(self.speakers, cache, queue, period, **self.memory), [], 0
        while end < len(mel):
            begin, end = end, min(end + 8 * chunk, len(mel))
            before, after = min(8 * left, begin), min(8 * right, len(mel) - end)
            probs, rows, fine = self.run(mel[begin - before:end + after], memory)
            parts = len(fine) // len(probs)
            at = len(memory.cache) + len(memory.queue) + before // 8
            n = -(-(end - begin) // 8)
            told.append(fine[at * parts:(at + n) * parts])
            memory.take(probs, rows, before // 8, n)
        return np.concatenate(told)


def turns(p, seconds, frame=.08, onset=.5, offset=.5):
    """[(start, end, slot)] of probabilities [rows, speakers]."""
    out = []
    for s in range(p.shape[1]):
        first = None
        for f, x in enumerate([*p[:, s], -1]):
            if first is None and x > onset:
                first = f
            elif first is not None and x < offset:
                out.append((first * frame, min(f * frame, seconds), s))
                first = None
    return sorted(out, key=lambda t: (t[0], t[2]))


def numbered(told):
    """Speakers are numbered as they begin."""
    names = {}
    return [(start, end, names.setdefault(s, len(names))) for start, end, s in told]


# ---- one that tells the speakers of toy_speakers.py apart


def of_notes(path):
    """Says who talks by which of the two notes is louder, without a memory; its chunk is short, so that it tells soon."""
    import toy_speakers
    rows = mel_filters(512)
    notes = [int(np.argmax(rows[:, round(hertz / (RATE / 2) * (rows.shape[1] - 1))])) for hertz in toy_speakers.NOTES]
    weight = np.zeros((8, BINS, 4), np.float32)
    for k, sign in ((0, 1), (1, -1)):
        weight[:, notes[0], k], weight[:, notes[1], k] = sign / 8, -sign / 8
    g = Graph(1)
    blocks = g("Reshape", "chunk", g.const(np.int64([1, -1, 8 * BINS])))
    said = g("MatMul", blocks, g.const(weight.reshape(-1, 4)))
    probs = g("Sigmoid", g("Sub", g("Mul", said, g.const(np.float32(4))), g.const(np.float32([8, 8, 30, 30]))))
    g("Slice", blocks, *(g.const(np.int64([v])) for v in (0, D, 2)), out="chunk_pre_encode_embs")
    before = g("Slice", g("Concat", "spkcache", "fifo", axis=1), *(g.const(np.int64([v])) for v in (0, 4, 2)))
    g("Concat", g("Mul", before, g.const(np.float32(0))), probs, axis=1, out="spkcache_fifo_chunk_preds")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    g.save(path, [("chunk", F32, [1, "T", BINS]), ("spkcache", F32, [1, "S", D]), ("fifo", F32, [1, "F", D])],
           [("spkcache_fifo_chunk_preds", F32, [1, "P", 4]), ("chunk_pre_encode_embs", F32, [1, "E", D])])
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"chunk_len": "6", "chunk_right_context": "7", "fifo_len": "188"})
    onnx.save(model, path)


def write(folder):
    """The network, and beside it the embedding network of the toy speakers."""
    import toy_speakers
    of_notes(os.path.join(folder, "sortformer.onnx"))
    toy_speakers.embedding(os.path.join(folder, "embedding", "model.onnx"))
    return folder
