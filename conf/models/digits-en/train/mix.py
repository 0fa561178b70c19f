"""Make training scenes from the pools: speech put together, rooms, noise, levels, codecs; saved as feature shards.

usage: mix.py WORK_DIR OUT_NAME --pools espeak,natural,speech [--shards N] [--seed S]

A shard holds scenes of one length: feats float16 [scenes, frames, 40], the token and phone sequences, and a flag for
scenes without transcript (any mix of blank and <unk> is right there).
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
import soundfile
import torch

import features
import model as M
from features import RATE

SECONDS = [3.9, 6.0, 8.9]         # scene lengths, rounded to whole chunks
SCENES = [96, 64, 42]             # scenes in a shard of that length
ROOM = 4000                       # samples after the scene for the room to ring out


def frames_of(seconds):
    return round(seconds * 100 / M.SHIFT) * M.SHIFT + M.OVERLAP


def samples_of(frames):
    return (frames - 1) * 80 + 200


class Pools:
    def __init__(self, work, names, weights=None):
        self.waves, self.groups, self.loose, self.weights = [], [], {}, []
        for p, name in enumerate(names):
            self.waves.append(np.load(os.path.join(work, f"pool_{name}.npy"), mmap_mode="r"))
            with open(os.path.join(work, f"pool_{name}.json")) as f:
                meta = json.load(f)
            groups = [dict(name=g, items={}) for g in meta["groups"]]
            for off, n, g, kind, tokens, phones in meta["items"]:
                groups[g]["items"].setdefault(kind, []).append((p, off, n, tokens, phones))
            w = (weights or {}).get(name, 1.0)
            groups = [g for g in groups if g["items"]]
            for g in groups:
                self.groups.append(g)
                self.weights.append(w / len(groups))
                for kind, items in g["items"].items():
                    self.loose.setdefault(kind, []).extend(items)
        self.by_kind = {}
        for kind in self.loose:
            idx = [i for i, g in enumerate(self.groups) if kind in g["items"]]
            w = np.array([self.weights[i] for i in idx])
            self.by_kind[kind] = (idx, np.cumsum(w / w.sum()))

    def group(self, rng, kind):
        idx, cum = self.by_kind[kind]
        return self.groups[idx[min(int(np.searchsorted(cum, rng.random())), len(idx) - 1)]]

    def wave(self, item):
        p, off, n, _, _ = item
        return self.waves[p][off:off + n].astype(np.float32) / 32768


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def tight(x, db):
    n = len(x) // 40
    e = np.sqrt((x[:n * 40].reshape(n, 40) ** 2).mean(1) + 1e-12)
    on = np.flatnonzero(e > e.max() * 10 ** (db / 20))
    return x[max(0, on[0] * 40 - 40):(on[-1] + 1) * 40 + 40]


class Mixer:
    def __init__(self, pools, seed, digits=0.34, bare=0.0):
        self.pools, self.rng, self.share, self.bare = pools, np.random.default_rng(seed), digits, bare
        rng = np.random.default_rng(seed + 7)
        self.rooms = {}
        for s in SECONDS:
            total = samples_of(frames_of(s)) + ROOM
            self.rooms[s] = [np.fft.rfft(self.room(rng), total).astype(np.complex64) for _ in range(120)]

    @staticmethod
    def room(rng):
        """An impulse response: direct sound, a few reflections, a coloured decaying tail."""
        t60 = float(rng.uniform(0.08, 0.8)) if rng.random() < 0.8 else float(rng.uniform(0.8, 1.3))
        n = int(min(t60, 0.5) * RATE)
        h = np.zeros(n)
        start = int(rng.uniform(0.002, 0.02) * RATE)
        t = np.arange(n) / RATE
        tail = rng.normal(0, 1, n) * np.exp(-6.9 * t / t60)
        tail = np.convolve(tail, [1, rng.uniform(-0.5, 0.9)], "same")
        tail[:start] = 0
        for _ in range(int(rng.integers(2, 9))):
            h[int(rng.uniform(0.0008, 0.04) * RATE) % n] += rng.normal(0, 0.35)
        drr = 10 ** (rng.uniform(-6, 15) / 10)
        tail *= np.sqrt(1 / drr / (tail ** 2).sum())
        h += tail
        h[0] = 1
        return h / np.sqrt((h ** 2).sum())

    # ---- speech ----

    def join(self, pieces, mode, room):
        """pieces [(wave, tokens, phones)] -> (wave, tokens, phones) with pauses of one kind between them."""
        rng = self.rng
        out, pos, tokens, phones = np.zeros(room, np.float32), 0, [], []
        for i, (x, tok, ph) in enumerate(pieces):
            if mode == "ola":
                gap = -int(rng.uniform(0.01, 0.07) * RATE)
            elif mode == "none":
                gap = 0
            elif mode == "short":
                gap = int(rng.uniform(0, 0.12) * RATE)
            elif mode == "mid":
                gap = int(rng.uniform(0.1, 0.45) * RATE)
            else:  # "long" and "cut"
                gap = int(rng.uniform(0.3, 1.0) * RATE)
            if i == 0:
                gap = 0
            start = max(0, pos + gap)
            if start + len(x) > room:
                break
            k = min(max(16, -gap), len(x) // 3)
            x = x.copy()
            if mode != "cut":
                x[:k] *= np.linspace(0, 1, k)
                x[-k:] *= np.linspace(1, 0, k)
            out[start:start + len(x)] += x
            pos = start + len(x)
            tokens += tok
            phones += ph
        return out[:pos], tokens, phones

    def take(self, item, trim_db=None):
        x = self.pools.wave(item)
        if trim_db is not None:
            x = tight(x, trim_db)
        return x, item[3], item[4]

    def digits(self, room, words=0.0, mode=None):
        rng = self.rng
        g = self.pools.group(rng, "d")
        mode = mode or pick(rng, ["ola", "ola", "ola", "none", "none", "short", "short", "short", "mid", "mid", "long"])
        n = int(rng.integers(1, 11)) if rng.random() < 0.85 else int(rng.integers(8, 15))
        trim_db = {"ola": -24, "none": -28, "short": -34}.get(mode, -40 if rng.random() < 0.7 else None)
        if mode == "cut":  # takes as they were recorded
            n, trim_db = int(rng.integers(1, 7)), None
        items = g["items"]["d"]
        real = g["name"].startswith(("fsdd", "prompts"))
        by_digit = {}
        for it in items:
            by_digit.setdefault(it[3][0], []).append(it)
        keys = list(by_digit)
        chosen, last, lvl = [], None, rng.uniform(0, 4)
        for _ in range(n):
            if words and rng.random() < words and "w" in g["items"]:
                it, last = pick(rng, g["items"]["w"]), None
            else:
                if last is None or rng.random() > 0.14:
                    last = pick(rng, keys)
                it = pick(rng, by_digit[last])
            x, tok, ph = self.take(it, trim_db)
            if real and rng.random() < 0.04 and tok[0] not in (10, 11):
                x, tok, ph = x[::-1], [M.UNK], []  # a voice without any word
            chosen.append((x * 10 ** (rng.normal(0, lvl) / 20), tok, ph))
        return self.join(chosen, mode, room)

    def whole(self, kinds, room):
        """Rendered utterances one after another, unchanged."""
        rng = self.rng
        pieces, used = [], 0
        kind = pick(rng, kinds)
        g = self.pools.group(rng, kind)
        for _ in range(8):
            if pieces:
                kind = pick(rng, kinds)
            it = pick(rng, g["items"].get(kind) or self.pools.loose[kind])
            if used + it[2] + (2000 if pieces else 0) <= room:
                pieces.append(self.take(it))
                used += it[2] + 2000
                if rng.random() < 0.35:
                    break
        return self.join(pieces, pick(rng, ["short", "mid", "long"]), room)

    def speech(self, room):
        """(wave, tokens, phones, free): free means that no transcript is known."""
        rng = self.rng
        if rng.random() < self.share:
            return (*self.digits(room), False)
        r = rng.uniform(0.34, 1)
        if r < 0.39:
            return (*self.digits(room, words=0.35), False)
        if r < 0.54:
            return (*self.whole(["s"], room), False)
        if r < 0.64:
            return (*self.whole(["c"], room), False)
        if r < 0.82:
            return (*self.whole(["n"], room), False)
        if r < 0.86:
            return (*self.whole(["n", "s", "d", "w"], room), False)
        if r < 0.90:
            return (*self.whole(["w"], room), False)
        if r < 0.955 and "r" in self.pools.loose:
            x = self.pools.wave(pick(rng, self.pools.loose["r"]))
            if len(x) > room:
                i = int(rng.integers(len(x) - room))
                x = x[i:i + room]
            return x, [], [], True
        return np.zeros(0, np.float32), [], [], False

    # ---- other sounds ----

    def coloured(self, total):
        rng = self.rng
        bins = total // 2 + 1
        f = np.linspace(0, 1, bins)
        shape = np.interp(f, np.linspace(0, 1, 8), rng.normal(0, 6, 8)) - 10 * rng.uniform(0, 2.2) * np.log10(f * 40 + 1)
        z = (rng.standard_normal(bins, dtype=np.float32) + 1j * rng.standard_normal(bins, dtype=np.float32))
        x = np.fft.irfft(z * 10 ** (shape / 20), total).astype(np.float32)
        if rng.random() < 0.4:  # traffic, wind: the level varies
            k = int(rng.integers(3, 16))
            x *= np.interp(np.arange(total), np.linspace(0, total, k), np.exp(rng.normal(0, 0.8, k)))
        return x

    def babble(self, total):
        rng = self.rng
        out = np.zeros(total, np.float32)
        for _ in range(int(rng.integers(2, 8))):
            x = self.pools.wave(pick(rng, self.pools.loose[pick(rng, ["n", "n", "r"]) if "r" in self.pools.loose else "n"]))
            i = int(rng.integers(max(1, total - len(x) // 2)))
            x = x[:total - i]
            out[i:i + len(x)] += x * 10 ** (rng.normal(0, 3) / 20)
        return out

    def tones(self, total):
        """Music-like notes, beeps, dial tones, hum."""
        rng = self.rng
        out = np.zeros(total, np.float32)
        t = np.arange(total, dtype=np.float32) / RATE
        r = rng.random()
        if r < 0.2:
            base = float(rng.choice([50, 60, 100, 120]))
            for k in range(1, 9):
                out += rng.exponential(1 / k) * np.sin(2 * np.pi * base * k * t + rng.uniform(0, 6))
        elif r < 0.45:
            i = 0
            while i < total:
                n = int(rng.uniform(0.05, 0.5) * RATE)
                f = rng.choice([350, 440, 480, 620, 697, 770, 852, 941, 1209, 1336, 1477, 1000, 2000, 2600], 2)
                seg = t[:min(n, total - i)]
                out[i:i + n] += np.sin(2 * np.pi * f[0] * seg) + np.sin(2 * np.pi * f[1] * seg)
                i += n + int(rng.exponential(0.4) * RATE)
        else:
            root, beat = rng.uniform(80, 300), rng.uniform(0.12, 0.6)
            i = 0
            while i < total:
                n = min(int(rng.uniform(0.5, 3) * beat * RATE), total - i)
                seg = t[:n]
                env = np.minimum(1, seg * rng.uniform(10, 200)) * np.exp(-seg * rng.uniform(0.3, 8))
                for _ in range(int(rng.integers(1, 4))):
                    f = root * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11, 12, 16, 19]) / 12)
                    for k in range(1, int(rng.integers(2, 7))):
                        out[i:i + n] += env * rng.uniform(0.2, 1) / k * np.sin(2 * np.pi * f * k * seg)
                i += max(200, int(beat * RATE * rng.choice([0.5, 1, 1, 2])))
        return out

    def clicks(self, total):
        rng = self.rng
        out = np.zeros(total, np.float32)
        for _ in range(int(rng.integers(1, 25))):
            n = int(rng.uniform(0.001, 0.08) * RATE)
            i = int(rng.integers(total - n))
            x = rng.normal(0, 1, n) * np.exp(-np.arange(n) / n * rng.uniform(2, 8))
            out[i:i + n] += x * rng.exponential(1)
        return out

    def noise(self, total):
        r = self.rng.random()
        if r < 0.55:
            return self.coloured(total)
        if r < 0.78:
            return self.babble(total)
        if r < 0.9:
            return self.tones(total)
        return self.clicks(total)

    # ---- one scene ----

    def equalise(self, bins):
        rng = self.rng
        hz = np.linspace(0, RATE / 2, bins)
        at = [0, 150, 300, 600, 1200, 2000, 3000, 3600, 4000]
        db = np.interp(hz, at, rng.normal(0, rng.uniform(0, 6), len(at)))
        if rng.random() < 0.4:
            cut = rng.uniform(80, 380)
            db = db - 24 * np.maximum(0, np.log2(cut / np.maximum(hz, 10)))
        if rng.random() < 0.35:
            cut = rng.uniform(2500, 3900)
            db = db - rng.uniform(40, 300) * np.maximum(0, np.log2(np.maximum(hz, 10) / cut))
        return 10 ** (np.clip(db, -70, 40) / 20)

    def scene(self, seconds):
        rng = self.rng
        n = samples_of(frames_of(seconds))
        total = n + ROOM
        speed = float(np.exp(rng.uniform(np.log(0.86), np.log(1.2))))
        before = int(round(total * speed / 64)) * 64
        room = int(n * speed)
        lead = int(min(rng.exponential(0.35), 1.5) * RATE) if rng.random() < 0.85 else 0
        bare = rng.random() < self.bare  # takes without margins, between digital silences or on a little noise
        x, tokens, phones, free = (*self.digits(room - lead, mode="cut"), False) if bare else self.speech(room - lead)
        buf = np.zeros(before, np.float32)
        if len(x) < room - lead and rng.random() < 0.4:  # anywhere, with any length of tail
            lead = int(rng.uniform(0, room - len(x)))
        buf[lead:lead + len(x)] = x
        spec = np.fft.rfft(buf)
        bins = total // 2 + 1
        k = min(len(spec), bins)
        full = np.zeros(bins, np.complex64)
        full[:k] = spec[:k] * (total / before)
        if rng.random() < 0.55 and not bare:
            full *= pick(rng, self.rooms[seconds])
        eq = self.equalise(bins) if rng.random() < (0.3 if bare else 0.75) else 1.0
        full *= eq
        y = np.fft.irfft(full, total)[:n].astype(np.float32)
        power = float((y ** 2).mean()) * n / max(800, len(x) / speed) if len(x) else 0.08 ** 2
        rms = max(np.sqrt(power), 1e-4)
        if bare:
            if rng.random() < 0.5:
                y = y + rng.normal(0, 10 ** (rng.uniform(-60, -25) / 20) * rms, n).astype(np.float32)
        elif rng.random() < 0.78 or (not len(x) and rng.random() < 0.8):
            noise = self.noise(n)
            if rng.random() < 0.3:
                noise += self.noise(n) * float(rng.uniform(0, 1)) * np.sqrt((noise ** 2).mean() + 1e-9) / 0.1
            snr = rng.uniform(0, 30) if rng.random() < 0.7 else rng.uniform(30, 55)
            level = np.sqrt((noise ** 2).mean()) + 1e-9
            y = y + noise * (rms * 10 ** (-snr / 20) / level)
        y = y * (10 ** (rng.uniform(-32, 6) / 20) * 0.1 / rms if rng.random() < 0.9 else 1)
        if np.abs(y).max() > 1 and rng.random() < 0.7:
            y = y / np.abs(y).max()
        y = np.clip(y, -1, 1)
        r = rng.random()
        if r < 0.12:
            y = mulaw(y)
        elif r < 0.15:
            y = np.round(y * 127) / 127
        elif r < 0.9:
            y = np.round(y * 32767) / 32768
        if rng.random() < 0.02:  # lost packets
            for _ in range(int(rng.integers(1, 6))):
                i = int(rng.integers(n - 400))
                y[i:i + int(rng.integers(80, 400))] = 0
        return y.astype(np.float32), tokens, phones, free

    def shard(self):
        rng = self.rng
        c = int(rng.choice(3, p=[0.3, 0.4, 0.3]))
        scenes = [self.scene(SECONDS[c]) for _ in range(SCENES[c])]
        waves = np.stack([s[0] for s in scenes])
        coded = np.flatnonzero(rng.random(len(waves)) < 0.13)
        if len(coded):
            waves[coded] = opus(waves[coded], rng)
        feats = features.fbank(torch.from_numpy(waves)).numpy().astype(np.float16)
        return dict(feats=feats, free=np.array([s[3] for s in scenes]), **ragged("tok", [s[1] for s in scenes]),
                    **ragged("ph", [s[2] for s in scenes]))


def ragged(name, rows):
    return {name: np.array(sum(rows, []), np.int16), name + "_n": np.array([len(r) for r in rows], np.int16)}


def mulaw(x):
    y = np.sign(x) * np.log1p(255 * np.abs(x)) / np.log(256)
    y = np.round(y * 127) / 127
    return np.sign(y) * (256 ** np.abs(y) - 1) / 255


def opus(waves, rng, bitrate=None):
    bitrate = bitrate or float(rng.choice([6, 8, 10, 12, 16, 24, 32]))
    with tempfile.TemporaryDirectory() as tmp:
        soundfile.write(f"{tmp}/a.wav", waves.reshape(-1), RATE, subtype="PCM_16")
        subprocess.run(["opusenc", "--quiet", "--bitrate", str(bitrate), "--comp", "3", f"{tmp}/a.wav", f"{tmp}/a.opus"],
                       check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["opusdec", "--quiet", "--rate", str(RATE), f"{tmp}/a.opus", f"{tmp}/b.wav"], check=True,
                       stderr=subprocess.DEVNULL)
        y, _ = soundfile.read(f"{tmp}/b.wav", dtype="float32")
    out = np.zeros(waves.size, np.float32)
    out[:min(len(y), waves.size)] = y[:waves.size]
    return out.reshape(waves.shape)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("work")
    ap.add_argument("name")
    ap.add_argument("--pools", default="espeak,natural,speech")
    ap.add_argument("--weights", default="", help="NAME=W,...; a pool's share of the voices, else 1")
    ap.add_argument("--shards", type=int, default=100)
    ap.add_argument("--digits", type=float, default=0.34, help="share of scenes that are joined from isolated digits")
    ap.add_argument("--bare", type=float, default=0.0, help="share of scenes of takes without margins and without a room")
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    weights = dict((k, float(v)) for k, v in (w.split("=") for w in args.weights.split(",") if w))
    mixer = Mixer(Pools(args.work, args.pools.split(","), weights), args.seed, args.digits, args.bare)
    folder = os.path.join(args.work, "shards", args.name)
    os.makedirs(folder, exist_ok=True)
    for i in range(args.shards):
        path = os.path.join(folder, f"{args.seed:04d}_{i:05d}.npz")
        with open(path + ".part", "wb") as f:
            np.savez(f, **mixer.shard())
        os.rename(path + ".part", path)


if __name__ == "__main__":
    main()
