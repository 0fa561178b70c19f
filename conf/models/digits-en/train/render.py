"""Render the pools: synthetic speech and recordings as 8 kHz int16, cut into items with their labels.

usage: render.py DATA_DIR WORK_DIR [--part espeak|accent|natural|fsdd|prompts|speech] [--jobs N] [--scale S]

A pool is pool_NAME.npy (all samples) and pool_NAME.json: items [offset, length, group, kind, tokens, phones].
A group is one voice in one manner (accent, variant, pitch, formants); kinds are d isolated digit, s string,
c sentence with digits in it, n sentence without, w word, r recording without transcript (no digits in it).
"""
import argparse
import glob
import json
import os
import pickle
import subprocess
import sys
import tempfile
from math import gcd
from multiprocessing import Pool

import numpy as np
import soundfile
from scipy.signal import resample_poly

import text as T
from espeak import Espeak

RATE = 8000
SOUNDS = "/usr/share/asterisk/sounds"
ACCENTS = ["en-us", "en-us", "en-us", "en", "en", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan",
           "en-gb-x-gbcwmd", "en-029", "en-us-nyc"]
VARIANTS = """Alex Alicia Andrea Andy Annie AnxiousAndy Denis Diogo Gene Gene2 Henrique Hugo Jacky Lee Marco Mario Michael
Mike Mr_serious Nguyen RicishayMax RicishayMax2 RicishayMax3 Storm Tweaky adam anika announcer antonio aunty belinda
benjamin boris caleb croak david ed edward edward2 f1 f2 f3 f4 f5 grandma grandpa gustave iven iven2 iven3 iven4 john
kaukovalta klatt klatt2 klatt3 klatt4 klatt5 klatt6 linda m1 m2 m3 m4 m5 m6 m7 m8 marcelo max michel miguel norbert
pablo paul pedro quincy rob robert sandro shelby steph steph2 steph3 travis victor whisper whisperf zac""".split()
HELD_VARIANTS = ["f4", "m7", "klatt3", "Andrea", "grandpa", "linda", "Denis", "quincy"]  # never trained on
FOLD = {"I2": "I", "I#": "I", "t#": "t", "t2": "t", "a#": "@", "@2": "@", "@-": "@", "n-": "n", "r-": "r", "aI3": "aI@",
        "i@3": "i@", "O2": "O:", "O": "O:", "a:": "A:", "aa": "a", "o@": "O@", "A@": "A:", "3": "@", "i": "i:",
        "e@": "E", "U@": "U", "0": "A:", "A": "A:", "V": "V"}
PHONES = ["@", "@L", "A:", "D", "E", "I", "N", "O:", "O@", "OI", "S", "T", "U", "V", "Z", "a", "aI", "aI@", "aU", "b", "d",
          "dZ", "eI", "f", "g", "h", "i:", "i@", "j", "k", "l", "m", "n", "oU", "p", "r", "s", "t", "tS", "u:", "v", "w",
          "z", "3:"]
PHONE_ID = {p: i + 1 for i, p in enumerate(PHONES)}  # 0 is the blank


def phone_ids(esp, words):
    out = []
    for p in esp.phones(words):
        p = FOLD.get(p, p)
        if p in PHONE_ID:
            out.append(PHONE_ID[p])
    return out


def to_rate(x, rate):
    x = np.asarray(x, np.float32)
    if rate != RATE:
        g = gcd(rate, RATE)
        x = resample_poly(x, RATE // g, rate // g)
    return x


def trim(x, floor_db=-45, keep=160):
    """Cut silence at both ends; x float in [-1, 1]."""
    if len(x) < 400:
        return x
    n = len(x) // 80
    e = np.sqrt((x[:n * 80].reshape(n, 80) ** 2).mean(1) + 1e-12)
    on = np.where(e > e.max() * 10 ** (floor_db / 20))[0]
    return x[max(0, on[0] * 80 - keep):min(len(x), (on[-1] + 1) * 80 + keep)]


def level(x):
    """Scale to a common loudness, 0.08 RMS over the loud part, so that the mixer knows the levels."""
    if not len(x):
        return x
    n = max(1, len(x) // 200)
    e = np.sqrt((x[:n * 200].reshape(n, -1) ** 2).mean(1) + 1e-12)
    x = x * (0.08 / max(1e-5, np.sqrt((e[e > 0.2 * e.max()] ** 2).mean())))
    return x / max(1.0, np.abs(x).max() / 0.98)


class Out:
    def __init__(self):
        self.waves, self.items, self.groups, self.pos = [], [], [], 0

    def group(self, name):
        self.groups.append(name)
        return len(self.groups) - 1

    def add(self, x, group, kind, tokens, phones, do_trim=True):
        if do_trim:
            x = trim(x)
        if len(x) < 640:
            return
        w = np.round(level(x) * 32767).astype(np.int16)
        self.waves.append(w)
        self.items.append([self.pos, len(w), group, kind, list(tokens), list(phones)])
        self.pos += len(w)

    def merge(self, other):
        g0 = len(self.groups)
        self.groups += other.groups
        for o, n, g, k, t, p in other.items:
            self.items.append([o + self.pos, n, g + g0, k, t, p])
        self.waves += other.waves
        self.pos += other.pos

    def save(self, folder, name):
        np.save(os.path.join(folder, f"pool_{name}.npy"), np.concatenate(self.waves))
        with open(os.path.join(folder, f"pool_{name}.json"), "w") as f:
            json.dump(dict(groups=self.groups, items=self.items), f)
        hours = {}
        for _, n, _, k, _, _ in self.items:
            hours[k] = hours.get(k, 0) + n / RATE / 3600
        print(name, len(self.groups), "groups", len(self.items), "items, hours:",
              {k: round(v, 2) for k, v in sorted(hours.items())}, flush=True)


# ---- WORLD: another speaker from a recorded one ----

def analyse(x, rate):
    import pyworld as pw
    x = np.asarray(x, np.float64)
    f0, at = pw.dio(x, rate, f0_floor=65, f0_ceil=450)
    f0 = pw.stonemask(x, f0, at, rate)
    return f0, pw.cheaptrick(x, f0, at, rate), pw.d4c(x, f0, at, rate)


def manner(rng):
    """How a converted speaker differs: formants, pitch, pitch range, pace, breath."""
    formant = float(np.exp(rng.uniform(np.log(0.82), np.log(1.24))))
    pitch = float(np.exp(np.log(formant) * rng.uniform(0.5, 2.5) + rng.uniform(-0.25, 0.25)))
    return dict(formant=formant, pitch=pitch, live=float(rng.uniform(0.3, 1.7)),
                breath=float(rng.uniform(0, 0.35)) if rng.random() < 0.4 else 0.0,
                tilt=float(rng.uniform(-4, 4)))


def far_manner(rng):
    """A speaker that differs more: in half of the cases formants and pitch are independent."""
    m = manner(rng)
    m["formant"] = float(np.exp(rng.uniform(np.log(0.8), np.log(1.27))))
    m["pitch"] = float(np.exp(rng.uniform(np.log(0.6), np.log(2.0)))) if rng.random() < 0.5 else \
        float(np.exp(np.log(m["formant"]) * rng.uniform(1, 3) + rng.uniform(-0.25, 0.25)))
    return m


def respeak(parts, rate, rng, m, pace):
    import pyworld as pw
    f0, sp, ap = parts
    n, bins = sp.shape
    steps = pace * np.exp(np.interp(np.arange(int(n * 3)), np.linspace(0, n * 3, 6), rng.normal(0, 0.12, 6)))
    at = np.cumsum(1.0 / steps)
    at = at[at < n - 1]
    if len(at) < 10:
        return np.zeros(0, np.float32)
    i = at.astype(int)
    f = (at - i)[:, None]
    sp = np.exp((1 - f) * np.log(sp[i] + 1e-16) + f * np.log(sp[i + 1] + 1e-16))
    ap = (1 - f) * ap[i] + f * ap[i + 1]
    f0 = f0[np.round(at).astype(int)].copy()
    src = np.minimum(np.arange(bins) / m["formant"], bins - 1.001)
    k = src.astype(int)
    g = src - k
    sp = np.exp((1 - g) * np.log(sp[:, k]) + g * np.log(sp[:, k + 1]))
    sp *= 10 ** (m["tilt"] / 10 * np.linspace(0, 1, bins) * 2)
    ap = np.clip(ap + m["breath"] * np.linspace(0.2, 1, bins), 0.001, 1.0)
    v = f0 > 0
    if v.any():
        mid = np.exp(np.log(f0[v]).mean())
        f0[v] = np.clip(mid * m["pitch"] * (f0[v] / mid) ** m["live"], 55, 480)
    return pw.synthesize(f0, np.ascontiguousarray(sp), np.ascontiguousarray(ap), rate).astype(np.float32)


# ---- espeak-ng ----

def espeak_part(job):
    seed, n_groups, variants, prefix = job
    rng = np.random.default_rng(seed)
    esp, out = Espeak(), Out()
    esp.voice("en-us")
    sents, words = T.sentences(), T.words()

    def ids(s):  # phones in the reference accent, for every voice
        return phone_ids(esp, s)
    digit_phones = {w: ids(w) for w in T.DIGITS}
    for g in range(n_groups):
        variant = variants[int(rng.integers(len(variants)))].replace("Mr_serious", "Mr serious")
        accent = ACCENTS[int(rng.integers(len(ACCENTS)))]
        rate, pitch, spread = int(rng.integers(115, 260)), int(rng.integers(5, 95)), int(rng.integers(10, 90))
        name = f"{prefix}:{accent}+{variant}"
        gid = out.group(name)
        texts = []
        for w in T.DIGITS:
            for _ in range(2):
                texts.append(("d", w + rng.choice(["", ".", "?", ",", "!"]), [T.TOKEN[w]], digit_phones[w],
                              rate * rng.uniform(0.7, 1.3)))
        for _ in range(8):
            ws = T.digit_string(rng)
            texts.append(("s", T.punctuate(rng, ws), [T.TOKEN[w] for w in ws], sum((digit_phones[w] for w in ws), []),
                          rate * rng.uniform(0.8, 1.5)))
        for _ in range(5):
            s, toks = T.context(rng)
            texts.append(("c", s, toks, None, rate * rng.uniform(0.8, 1.3)))
        for _ in range(12):
            s = sents[int(rng.integers(len(sents)))] if rng.random() < 0.85 else \
                T.HOMOPHONE[int(rng.integers(len(T.HOMOPHONE)))]
            texts.append(("n", s, [T.UNK] * len(s.replace(",", " ").split()), None, rate * rng.uniform(0.8, 1.3)))
        for _ in range(14):
            w = T.NEAR[int(rng.integers(len(T.NEAR)))] if rng.random() < 0.6 else words[int(rng.integers(len(words)))]
            texts.append(("w", w, [T.UNK], None, rate * rng.uniform(0.7, 1.3)))
        if any(p is None for _, _, _, p, _ in texts):
            esp.voice("en-us")
            texts = [(k, s, t, ids(s) if p is None else p, r) for k, s, t, p, r in texts]
        for kind, s, toks, phones, r in texts:
            esp.voice(f"{accent}+{variant}", np.clip(r, 80, 400), np.clip(pitch + rng.integers(-5, 6), 0, 99), spread,
                      gap=int(rng.integers(0, 4)) if kind == "s" else 0)
            x = to_rate(esp.say(s) / 32768.0, esp.rate)
            out.add(x, gid, kind, toks, phones)
    return out


def accent_part(job):
    """Voices of other languages: digits with that accent, English sentences as these voices mispronounce them."""
    seed, n_groups, variants = job
    rng = np.random.default_rng(seed)
    esp, out = Espeak(), Out()
    esp.voice("en-us")
    sents, words = T.sentences(), T.words()
    phones = {w: phone_ids(esp, w) for w in T.DIGITS}
    for _ in range(n_groups):
        language = str(rng.choice(list(T.ACCENTED)))
        spelt = dict(zip(T.DIGITS, T.ACCENTED[language][int(rng.integers(len(T.ACCENTED[language])))].split()))
        variant = variants[int(rng.integers(len(variants)))].replace("Mr_serious", "Mr serious")
        rate, pitch, spread = int(rng.integers(115, 260)), int(rng.integers(5, 95)), int(rng.integers(10, 90))
        gid = out.group(f"accent:{language}+{variant}")
        texts = [("d", [w]) for w in T.DIGITS for _ in range(3)] + [("s", T.digit_string(rng)) for _ in range(5)]
        texts = [(k, T.punctuate(rng, [spelt[w] for w in ws]), [T.TOKEN[w] for w in ws], sum((phones[w] for w in ws), []))
                 for k, ws in texts]
        texts += [("n", s, [T.UNK] * len(s.replace(",", " ").split()), []) for s in rng.choice(sents, 10)]
        texts += [("w", w, [T.UNK], []) for w in rng.choice(words, 10)]
        for kind, s, toks, ph in texts:
            esp.voice(f"{language}+{variant}", np.clip(rate * rng.uniform(0.7, 1.3), 80, 400),
                      np.clip(pitch + rng.integers(-5, 6), 0, 99), spread, gap=int(rng.integers(0, 4)) if kind == "s" else 0)
            out.add(to_rate(esp.say(s) / 32768.0, esp.rate), gid, kind, toks, ph)
    return out


# ---- flite and festival: recorded people, as diphones, HTS and clustergen ----

def natural_texts(rng, sents, words, n_sent, n_string, n_digit, n_word, n_context):
    texts = []
    for _ in range(n_digit):
        for w in T.DIGITS:
            texts.append(("d", w + str(rng.choice(["", ".", "?", ","])), [T.TOKEN[w]]))
    for _ in range(n_string):
        ws = T.digit_string(rng)
        texts.append(("s", T.punctuate(rng, ws), [T.TOKEN[w] for w in ws]))
    for _ in range(n_context):
        s, toks = T.context(rng)
        texts.append(("c", s, toks))
    for _ in range(n_sent):
        s = sents[int(rng.integers(len(sents)))] if rng.random() < 0.85 else \
            T.HOMOPHONE[int(rng.integers(len(T.HOMOPHONE)))]
        texts.append(("n", s, [T.UNK] * len(s.replace(",", " ").split())))
    for _ in range(n_word):
        w = T.NEAR[int(rng.integers(len(T.NEAR)))] if rng.random() < 0.6 else words[int(rng.integers(len(words)))]
        texts.append(("w", w, [T.UNK]))
    return texts


def flite_say(voice, s, stretch):
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        subprocess.run(["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.2f}", "-t", s, f.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return soundfile.read(f.name, dtype="float32")


def festival_say(voice, jobs):
    """jobs [(text, stretch)] -> [(wave, rate)], in one run of festival."""
    with tempfile.TemporaryDirectory() as tmp:
        scm = os.path.join(tmp, "run.scm")
        with open(scm, "w") as f:
            f.write(f"(voice_{voice})\n")
            for i, (s, stretch) in enumerate(jobs):
                f.write(f"(Parameter.set 'Duration_Stretch {stretch:.2f})\n")
                f.write(f"(utt.save.wave (utt.synth (eval (list 'Utterance 'Text \"{s}\"))) \"{tmp}/{i}.wav\" 'riff)\n")
        subprocess.run(["festival", "-b", scm], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        out = []
        for i in range(len(jobs)):
            path = f"{tmp}/{i}.wav"
            out.append(soundfile.read(path, dtype="float32") if os.path.exists(path) else (np.zeros(0, np.float32), RATE))
        return out


NATURAL = [("flite", "rms", 1.0), ("flite", "slt", 1.0), ("flite", "awb", 1.0), ("flite", "kal16", 0.7),
           ("festival", "kal_diphone", 0.5), ("festival", "cmu_us_slt_arctic_hts", 0.6)]
HELD_NATURAL = [("festival", "ked_diphone", 0.25)]


def natural_part(job):
    seed, engine, voice, share, warps, prefix = job  # share: of the texts of one voice
    rng = np.random.default_rng(seed)
    esp, out = Espeak(), Out()
    esp.voice("en-us")
    texts = natural_texts(rng, T.sentences(), T.words(), *(max(1, int(share * k)) for k in (900, 260, 10, 220, 120)))
    stretch = [float(rng.uniform(0.55, 1.3)) for _ in texts]
    if engine == "flite":
        waves = [flite_say(voice, s, r) for (_, s, _), r in zip(texts, stretch)]
    else:
        waves = []
        for i in range(0, len(texts), 200):
            waves += festival_say(voice, [(s, r) for (_, s, _), r in zip(texts[i:i + 200], stretch[i:i + 200])])
    gid = out.group(f"{prefix}:{engine}:{voice}")
    kept = []
    for (kind, s, toks), (x, rate) in zip(texts, waves):
        if len(x) < 800:
            continue
        phones = phone_ids(esp, s)
        x = trim(x)
        out.add(to_rate(x, rate), gid, kind, toks, phones)
        if warps and kind in "dswc" or (warps and rng.random() < 0.4):
            if rate > 16000:
                x, rate = resample_poly(x, 1, rate // 16000), 16000
            kept.append((kind, toks, phones, analyse(x, rate), rate))
    for _ in range(warps):
        m = manner(rng)
        gid = out.group(f"{prefix}:{engine}:{voice}~{m['formant']:.2f}/{m['pitch']:.2f}")
        for j in rng.permutation(len(kept))[:max(60, len(kept) // 6)]:
            kind, toks, phones, parts, rate = kept[j]
            y = respeak(parts, rate, rng, m, float(rng.uniform(0.75, 1.5)))
            out.add(to_rate(y, rate), gid, kind, toks, phones)
    return out


# ---- the recordings ----

def fsdd_part(job):
    seed, folder, speaker, warps, takes, manner_of = job
    rng = np.random.default_rng(seed)
    esp, out = Espeak(), Out()
    esp.voice("en-us")
    gid = out.group(f"fsdd:{speaker}")
    kept = []
    for d in range(10):
        for path in sorted(glob.glob(os.path.join(folder, f"{d}_{speaker}_*.wav")))[:takes]:
            x, rate = soundfile.read(path, dtype="float32")
            assert rate == RATE
            x = x - x.mean()
            tok, phones = [d + 1], phone_ids(esp, T.DIGITS[d])
            out.add(x, gid, "d", tok, phones, do_trim=False)
            kept.append((tok, phones, analyse(trim(x), RATE)))
    for _ in range(warps):
        m = manner_of(rng)
        gid = out.group(f"fsdd:{speaker}~{m['formant']:.2f}/{m['pitch']:.2f}")
        pace = float(rng.uniform(0.85, 1.7))
        for d in range(10):
            for j in rng.permutation(takes)[:10]:
                tok, phones, parts = kept[d * takes + j]
                out.add(respeak(parts, RATE, rng, m, pace * float(rng.uniform(0.85, 1.2))), gid, "d", tok, phones)
    return out


PROMPT_VOICES = [("en", "en_US_f_Allison", 40), ("es", "es_MX_f_Allison", 4), ("fr", "fr_CA_f_June", 6),
                 ("it", "it_IT_m_Carlo", 6)]
HELD_PROMPTS = [("ru", "ru_RU_f_IvrvoiceRU", 0)]  # never trained on


def pieces_of(x, longest=7 * RATE):
    """Cut at the quietest places, so that each part fits into a scene."""
    out = []
    while len(x) > longest:
        e = np.convolve(x[3 * RATE:longest] ** 2, np.ones(400), "valid")
        cut = 3 * RATE + int(e.argmin()) + 200
        out.append(x[:cut])
        x = x[cut:]
    return out + [x]


def prompts_part(job):
    """Recorded prompts: English digits alone and in sentences, and much running speech. Other languages come without
    their digits and are examples of speech without English digits."""
    seed, language, folder, warps, prefix, share = job
    rng = np.random.default_rng(seed)
    esp, out = Espeak(), Out()
    esp.voice("en-us")
    single = {f"digits/{d}": d for d in range(10)} | {"digits/oh": 10, "letters/o": 10}
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.wav"), recursive=True)):
        name = os.path.relpath(path, folder)[:-4]
        top = name.split("/")[0]
        if name in T.UNSURE or top == "silence" or (language != "en" and (top in ("digits", "letters", "phonetic")
                                                                         or 0 in T.PROMPTS.get(name, []))):
            continue
        x, rate = soundfile.read(path, dtype="float32")
        x = to_rate(x - x.mean(), rate)
        said = T.PROMPTS.get(name, []) if language == "en" else []
        if language == "en" and name in single:
            w = T.DIGITS[single[name]]
            texts.append(("d", [T.TOKEN[w]], phone_ids(esp, w), x))
        elif said:
            texts.append(("c", [d + 1 for d in said], [], x))
        else:
            texts += [("n" if len(p) > 1.3 * RATE else "w", [T.UNK], [], p) for p in pieces_of(x)]
    if share < 1:
        texts = texts[::max(1, round(1 / share))] + [t for t in texts if t[0] == "d"][:2]
    gid = out.group(f"{prefix}:{language}")
    for kind, tokens, phones, x in texts:
        out.add(x, gid, kind, tokens, phones)
    if not warps:
        return out
    other = rng.permutation([i for i, t in enumerate(texts) if t[0] in "nw"])[:150]
    kept = [(*t[:3], analyse(trim(t[3]), RATE)) for t in [texts[i] for i in other] + [t for t in texts if t[0] in "dc"]]
    by = {k: [i for i, t in enumerate(kept) if t[0] == k] for k in "dcnw"}
    for _ in range(warps):
        m = far_manner(rng)
        gid = out.group(f"{prefix}:{language}~{m['formant']:.2f}/{m['pitch']:.2f}")
        pace = float(rng.uniform(0.8, 1.6))
        for i in by["d"] * 3 + [i for k, n in (("c", 22), ("n", 14), ("w", 20)) for i in rng.permutation(by[k])[:n]]:
            kind, tokens, phones, parts = kept[i]
            out.add(respeak(parts, RATE, rng, m, pace * float(rng.uniform(0.8, 1.25))), gid, kind, tokens, phones)
    return out


def speech_part(folder):
    """Running speech without transcript. Training gets all files except those in HELD, which are for the final test."""
    held = ("two_cities_16k.wav", "jfk.flac", "61-70968-0002.flac")
    train, test = Out(), Out()
    paths = sorted(glob.glob(os.path.join(folder, "speech", "*")) + glob.glob(os.path.join(folder, "librispeech", "*.flac"))
                   + glob.glob(os.path.join(folder, "formats", "silero-test.wav")))
    for path in paths:
        x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        x = to_rate(x.mean(1), rate)
        name = os.path.basename(path)
        out = test if name in held else train
        gid = out.group("speech:" + name)
        step = len(x) if out is test else 8 * RATE
        for i in range(0, max(1, len(x) - RATE), step):
            out.add(x[i:i + step], gid, "r", [], [], do_trim=False)
    return train, test


class Apart:
    """A job in a process of its own: some voices of other languages sometimes crash libespeak-ng. A job that crashes
    is left out, the same one in every run."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, job):
        with tempfile.TemporaryFile() as f:
            pid = os.fork()
            if pid == 0:
                pickle.dump(self.fn(job), f)
                f.flush()
                os._exit(0)
            if os.waitpid(pid, 0)[1] != 0:
                print("a voice crashed; left out: job", job[:2], flush=True)
                return Out()
            f.seek(0)
            return pickle.load(f)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("data")
    ap.add_argument("work")
    ap.add_argument("--part", default="all")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--groups", type=int, default=900, help="espeak-ng voice settings")
    ap.add_argument("--scale", type=float, default=1.0, help="render this share of everything, for a trial run")
    args = ap.parse_args()
    os.makedirs(args.work, exist_ok=True)

    def part_of(n):
        return max(1, round(n * args.scale))
    with Pool(args.jobs, maxtasksperchild=1) as pool:  # a voice must not depend on earlier jobs of its process
        def run(name, fn, jobs):
            total = Out()
            for part in pool.imap(fn, jobs, chunksize=1):
                total.merge(part)
            total.save(args.work, name)
        if args.part in ("all", "fsdd"):
            speakers = sorted({os.path.basename(p).split("_")[1] for p in glob.glob(os.path.join(args.data, "fsdd", "*.wav"))})
            for i, s in enumerate(speakers):
                job = os.path.join(args.data, "fsdd"), s
                run("fsdd_" + s, fsdd_part, [(50 + i, *job, part_of(24), max(5, part_of(50)), manner)])
                run("far_" + s, fsdd_part, [(60 + i, *job, part_of(50), max(5, part_of(50)), far_manner)])
        if args.part in ("all", "prompts"):
            for name, voices in (("prompts", PROMPT_VOICES), ("prompts_held", HELD_PROMPTS)):
                run(name, prompts_part, [(80 + i, lang, os.path.join(SOUNDS, folder), part_of(n) if n else 0, name, args.scale)
                                         for i, (lang, folder, n) in enumerate(voices)])
        if args.part in ("all", "speech"):
            train, test = speech_part(args.data)
            train.save(args.work, "speech")
            test.save(args.work, "speech_held")
        if args.part in ("all", "espeak"):
            n = min(20, part_of(args.groups))
            each = part_of(args.groups) // n
            free = [v for v in VARIANTS if v not in HELD_VARIANTS]
            run("espeak", espeak_part, [(100 + i, each, free, "espeak") for i in range(n)])
            run("espeak_held", espeak_part, [(900 + i, part_of(20), HELD_VARIANTS, "espeak-held") for i in range(2)])
        if args.part in ("all", "accent"):
            free = [v for v in VARIANTS if v not in HELD_VARIANTS]
            run("accent", Apart(accent_part), [(500 + i, min(5, part_of(120)), free) for i in range(max(1, part_of(120) // 5))])
        if args.part in ("all", "natural"):
            run("natural", natural_part, [(200 + i, e, v, s * args.scale, part_of(20), "natural") for i, (e, v, s) in enumerate(NATURAL)])
            run("natural_held", natural_part, [(290, e, v, s * args.scale, 0, "natural-held") for e, v, s in HELD_NATURAL])


if __name__ == "__main__":
    sys.exit(main())
