"""Count errors through the exported network, chunk by chunk; with --steno through the program itself.

usage: evaluate.py DATA_DIR WORK_DIR ENCODER.onnx --part digits --speaker NAME | --part tts | --part negatives
       | --part prompts
       [--penalty P] [--scale S] [--steno build/steno] [--json OUT]
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile

import numpy as np
import soundfile
import torch

import features
import mix
import model as M
from export import Session
from features import RATE

MODES = ["ola", "none", "short", "mid", "long"]


def decode(logp, penalty=0.0):
    """Greedy: [(token, frame)], <unk> dropped."""
    logp = logp.copy()
    logp[:, M.BLANK] -= penalty
    best, out, last = logp.argmax(-1), [], M.BLANK
    for t, k in enumerate(best):
        if k != last and k not in (M.BLANK, M.UNK):
            out.append((int(k), t))
        last = k
    return out


def distance(ref, hyp):
    """(substitutions, deletions, insertions)"""
    d = [[(j, 0, 0, j) for j in range(len(hyp) + 1)]]
    for i, r in enumerate(ref):
        row = [(i + 1, 0, i + 1, 0)]
        for j, h in enumerate(hyp):
            a, b, c = d[i][j], d[i][j + 1], row[j]
            sub = (a[0] + (r != h), a[1] + (r != h), a[2], a[3])
            row.append(min(sub, (b[0] + 1, b[1], b[2] + 1, b[3]), (c[0] + 1, c[1], c[2], c[3] + 1)))
        d.append(row)
    return d[-1][-1][1:]


def score_of(run, waves, refs):
    hyps = [[t for t, _ in h] for h in run(waves)]
    e = np.array([distance(r, h) for r, h in zip(refs, hyps)]).sum(0)
    n = sum(len(r) for r in refs)
    return dict(words=n, wer=round(100 * float(e.sum()) / n, 2), sub=int(e[0]), dele=int(e[1]), ins=int(e[2]),
                exact=round(100 * float(np.mean([r == h for r, h in zip(refs, hyps)])), 1))


class Runner:
    timed = True

    def __init__(self, path, penalty=0.0):
        self.session, self.penalty = Session(path), penalty

    def __call__(self, waves):
        """[wave] -> [[(token, frame)]]; the tail is pushed with silence as the server does."""
        order = np.argsort([len(w) for w in waves])
        out = [None] * len(waves)
        for i in range(0, len(order), 24):
            idx = order[i:i + 24]
            n = max(len(waves[k]) for k in idx) + 2 * M.SHIFT * 80
            x = np.zeros((len(idx), n), np.float32)
            for r, k in enumerate(idx):
                x[r, :len(waves[k])] = waves[k]
            logp = self.session.run(features.fbank(torch.from_numpy(x)).numpy())
            for r, k in enumerate(idx):
                out[k] = decode(logp[r], self.penalty)
        return out

    score = score_of


class Steno:
    """The network's model directory through `steno transcribe`, with its own settings."""

    timed = False  # no frames, so no delay

    def __init__(self, program, path):
        self.program, self.model = os.path.abspath(program), os.path.dirname(os.path.abspath(path))
        self.ids = {t.strip("▁"): i for i, t in enumerate(M.TOKENS)}

    def __call__(self, waves):
        """[wave] -> [[(token, None)]]"""
        out = []
        with tempfile.TemporaryDirectory() as tmp:
            for i in range(0, len(waves), 100):
                paths = []
                for k, w in enumerate(waves[i:i + 100]):
                    paths.append(f"{tmp}/{k}.wav")
                    soundfile.write(paths[-1], np.clip(w, -1, 1), RATE, subtype="PCM_16")
                done = subprocess.run([self.program, "transcribe", "--model", self.model, "--format", "json", *paths],
                                      check=True, stdout=subprocess.PIPE)
                texts = {r["file"]: r["text"] for r in map(json.loads, done.stdout.decode().splitlines())}
                out += [[(self.ids[w], None) for w in texts[p].split()] for p in paths]
        return out

    score = score_of


def tempo(x, factor):
    """Faster without a higher pitch (WSOLA, by sox)."""
    with tempfile.TemporaryDirectory() as tmp:
        soundfile.write(f"{tmp}/a.wav", x, RATE, subtype="PCM_16")
        subprocess.run(["sox", f"{tmp}/a.wav", f"{tmp}/b.wav", "tempo", "-s", str(factor)], check=True)
        return soundfile.read(f"{tmp}/b.wav", dtype="float32")[0]


def join(rng, takes, mode):
    out, ends = [np.zeros(3200, np.float32)], []
    n = 3200
    for x in takes:
        x = mix.tight(x, {"ola": -24, "none": -28}.get(mode, -40)).copy()
        k = min(400 if mode == "ola" else 40, len(x) // 3)
        x[:k] *= np.linspace(0, 1, k)
        x[-k:] *= np.linspace(1, 0, k)
        gap = dict(ola=-k, none=0, short=int(rng.uniform(0.02, 0.12) * RATE), mid=int(rng.uniform(0.12, 0.45) * RATE),
                   long=int(rng.uniform(0.45, 1.0) * RATE))[mode] if ends else 0
        if gap < 0:
            out[-1][gap:] += x[:-gap]
            x = x[-gap:]
            gap = 0
        out += [np.zeros(gap, np.float32), x]
        n += gap + len(x)
        ends.append(n)
    out.append(np.zeros(2400, np.float32))
    return np.concatenate(out), ends


def strings(folder, speaker, per_mode=10, seed=0):
    """[(mode, wave, tokens, word ends)] from one speaker's takes."""
    rng = np.random.default_rng(seed + sum(map(ord, speaker)))
    out = []
    for mode in MODES:
        for _ in range(per_mode):
            ds = [int(d) for d in rng.integers(0, 10, int(rng.integers(3, 11)))]
            for i in range(1, len(ds)):
                if rng.random() < 0.12:
                    ds[i] = ds[i - 1]
            takes = [soundfile.read(os.path.join(folder, f"{d}_{speaker}_{int(rng.integers(50))}.wav"), dtype="float32")[0]
                     for d in ds]
            takes = [t / max(0.05, np.abs(t).max()) * 0.5 * 10 ** (rng.normal(0, 2) / 20) for t in takes]
            x, ends = join(rng, takes, mode)
            out.append((mode, x + rng.normal(0, 2e-4, len(x)).astype(np.float32), [d + 1 for d in ds], ends))
    return out


def noisy(x, rng, snr, kind):
    n = len(x)
    if kind == "white":
        z = rng.normal(0, 1, n)
    else:
        z = np.fft.irfft((rng.normal(0, 1, n // 2 + 1) + 1j * rng.normal(0, 1, n // 2 + 1))
                         / np.sqrt(np.arange(n // 2 + 1) + 5), n)
    level = np.sqrt((x[np.abs(x) > 0.02] ** 2).mean())
    return (x + z * level * 10 ** (-snr / 20) / np.sqrt((z ** 2).mean())).astype(np.float32)


def room(x, rng, t60):
    h = rng.normal(0, 1, int(t60 * RATE)) * np.exp(-6.9 * np.arange(int(t60 * RATE)) / RATE / t60)
    h[:24] = 0
    h *= 0.7 / np.sqrt((h ** 2).sum())
    h[0] = 1
    return np.convolve(x, h)[:len(x)].astype(np.float32)


def digits(run, folder, speaker, scale=1.0):
    res = {}
    paths = sorted(glob.glob(os.path.join(folder, f"*_{speaker}_*.wav")))
    paths = paths[::max(1, int(1 / scale))]
    waves = [np.pad(soundfile.read(p, dtype="float32")[0], (2400, 1600)) for p in paths]
    refs = [[int(os.path.basename(p)[0]) + 1] for p in paths]
    res["isolated"] = run.score(waves, refs)
    sets = strings(folder, speaker, max(1, round(10 * scale)))
    waves, refs = [s[1] for s in sets], [s[2] for s in sets]
    hyps = run(waves)
    for mode in MODES:
        k = [i for i, s in enumerate(sets) if s[0] == mode]
        res["strings " + mode] = run.score([waves[i] for i in k], [refs[i] for i in k])
    res["strings"] = run.score(waves, refs)
    late = []
    for (_, _, ref, ends), h in zip(sets, hyps):
        if run.timed and [t for t, _ in h] == ref:
            for (_, t), e in zip(h, ends):
                ready = ((t // M.CHUNK) * M.SHIFT + M.WINDOW - 1) * 80 + 200
                late.append((ready - e) / RATE)
    if late:
        res["delay"] = dict(median=round(float(np.median(late)), 3), p95=round(float(np.quantile(late, 0.95)), 3),
                            max=round(float(max(late)), 3))
    rng = np.random.default_rng(1)
    for f in (1.25, 1.5):
        res[f"strings faster x{f}"] = run.score([tempo(w, f) for w in waves], refs)
    for snr in (20, 10, 5, 0):
        res[f"strings {snr} dB"] = run.score([noisy(w, rng, snr, ["white", "pink"][i % 2]) for i, w in enumerate(waves)], refs)
    res["strings room 0.3 s"] = run.score([room(w, rng, 0.3) for w in waves], refs)
    res["strings room 0.6 s"] = run.score([room(w, rng, 0.6) for w in waves], refs)
    res["strings mu-law"] = run.score([mix.mulaw(w).astype(np.float32) for w in waves], refs)
    res["strings opus 8 kbit/s"] = run.score([mix.opus(w[None], rng, 8)[0] for w in waves], refs)
    return res


def items(work, name, kinds):
    wave = np.load(os.path.join(work, f"pool_{name}.npy"), mmap_mode="r")
    with open(os.path.join(work, f"pool_{name}.json")) as f:
        meta = json.load(f)
    for off, n, g, kind, tok, _ in meta["items"]:
        if kind in kinds:
            x = wave[off:off + n].astype(np.float32) / 32768
            yield kind, np.pad(x, (2400, 1600)), [t for t in tok if t != M.UNK], meta["groups"][g]


def tts(run, work):
    res = {}
    for name in ("espeak_held", "natural_held"):
        for kind, label in (("d", "isolated"), ("s", "strings"), ("c", "in sentences")):
            got = list(items(work, name, kind))[:400]
            res[f"{name} {label}"] = run.score([g[1] for g in got], [g[2] for g in got])
    return res


def prompts(run, work):
    """The recorded prompts, voice by voice: digits, digits in sentences, and all prompts without digits."""
    res = {}
    for pool in ("prompts", "prompts_held"):
        got = [(k, x, t, g) for k, x, t, g in items(work, pool, "dcnw") if "~" not in g]
        for voice in sorted({g for _, _, _, g in got}):
            for kind, label in (("d", "isolated"), ("c", "in sentences")):
                said = [(x, t) for k, x, t, g in got if g == voice and k == kind]
                if said:
                    res[f"{voice} {label}"] = run.score([x for x, _ in said], [t for _, t in said])
            for kind, label in (("n", "phrases"), ("w", "words")):
                waves = [x for k, x, _, g in got if g == voice and k == kind]
                if waves:
                    minutes, n = sum(map(len, waves)) / RATE / 60, sum(map(len, run(waves)))
                    res[f"{voice} {label}"] = dict(minutes=round(minutes, 2), false=n, per_minute=round(n / minutes, 2))
    return res


def negatives(run, work):
    res = {}

    def count(label, waves):
        hyps = run(waves)
        minutes = sum(map(len, waves)) / RATE / 60
        n = sum(map(len, hyps))
        from collections import Counter
        what = Counter(M.TOKENS[t].strip("▁") for h in hyps for t, _ in h)
        res[label] = dict(minutes=round(minutes, 2), false=n, per_minute=round(n / minutes, 2), what=dict(what))
    for name in ("speech_held", "speech"):
        by = {}
        for _, x, _, g in items(work, name, "r"):
            by.setdefault(g, []).append(x)
        for g, ws in by.items():
            count(f"{name} {g}", ws)
        count(name + " all", sum(by.values(), []))
    for name in ("espeak_held", "natural_held"):
        count(name + " sentences", [g[1] for g in items(work, name, "n")][:300])
        count(name + " words", [g[1] for g in items(work, name, "w")][:300])
    mixer = mix.Mixer(mix.Pools(work, ["speech_held", "espeak_held"]), 5)
    for label, fn in (("noise", mixer.coloured), ("tones", mixer.tones), ("clicks", mixer.clicks)):
        waves = []
        for i in range(12):
            x = fn(20 * RATE)
            waves.append((x / (np.abs(x).max() + 1e-9) * [0.02, 0.1, 0.5][i % 3]).astype(np.float32))
        count(label, waves)
    count("digital silence", [np.zeros(60 * RATE, np.float32)])
    return res


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("data")
    ap.add_argument("work")
    ap.add_argument("encoder")
    ap.add_argument("--part", default="digits")
    ap.add_argument("--speaker", default="")
    ap.add_argument("--penalty", type=float, default=0.0)
    ap.add_argument("--scale", type=float, default=1.0, help="count this share of the digits, for a trial run")
    ap.add_argument("--steno", help="the program to count with; its model directory is the network's")
    ap.add_argument("--json")
    args = ap.parse_args()
    torch.set_num_threads(1)
    run = Steno(args.steno, args.encoder) if args.steno else Runner(args.encoder, args.penalty)
    if args.part == "digits":
        res = {s: digits(run, os.path.join(args.data, "fsdd"), s, args.scale) for s in args.speaker.split(",")}
    elif args.part in ("tts", "prompts"):
        res = dict(tts=tts, prompts=prompts)[args.part](run, args.work)
    else:
        res = negatives(run, args.work)
    for k, v in res.items():
        if args.part == "digits":
            print(k)
            for c, r in v.items():
                print(f"  {c:24s} {r}")
        else:
            print(f"{k:44s} {v}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(res, f, indent=1)


if __name__ == "__main__":
    main()
