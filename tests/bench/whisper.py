"""Whisper beside faster-whisper on one core: parts (encoder window, decoder token) and whole recordings, and the peak
of memory. Every measurement is a process of its own, pinned to one core; ours and theirs alternate for some rounds,
and the smallest processor time counts, so that it is of use on a machine that others share, too. Times of whole
recordings are without loading the model.

    whisper.py [--rounds 3] [--level avx2] [--parts tiny.en,base] [--recordings tiny.en,base] [--long FILE] [--out JSON]

Needs faster-whisper 1.2.1 in this Python, build/release/steno, build/release/tests/bench/whisper_speed, and the weights in
build/models. With --level avx2 both sides use AVX2 alone (--cpu; CT2_FORCE_CPU_ISA and the
settings of the libraries under it)."""
import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))
RELEASE = os.path.join(ROOT, "build", "release")
AUDIO = {"jfk": "zoo/whisper/audio/jfk_16k.flac", "two_cities": "audio/speech/two_cities_16k.wav"}
TOKENS = 48
# ours and theirs
PRECISIONS = {"f32": ("fp32", "float32"), "bf16": ("bf16", "float32"), "int8": ("int8", "int8")}


# ---- theirs, in a process of its own ------------------------------------------------------------

def their_parts(directory, kind, rounds):
    import ctranslate2
    import numpy as np
    model = ctranslate2.models.Whisper(directory, device="cpu", compute_type=kind, intra_threads=1, inter_threads=1)
    mels = model.n_mels
    noise = np.random.default_rng(1).uniform(-0.5, 1, (1, mels, 3000)).astype("f4")
    features = ctranslate2.StorageView.from_array(noise)
    prompt = [50258, 50259, 50359, 50363] if model.is_multilingual else [50257, 50362]
    end = 50257 if model.is_multilingual else 50256
    best = {}

    def spend(name, function):
        began = time.process_time()
        result = function()
        best[name] = min(best.get(name, 1e9), (time.process_time() - began) * 1e3)
        return result

    def write(frames, beam, tokens):  # twice: CTranslate2 halves the limit
        model.generate(frames, [prompt], beam_size=beam, max_length=2 * tokens, suppress_tokens=[end], suppress_blank=False)

    for _ in range(rounds):
        frames = spend("encoder", lambda: model.encode(features))
        for beam in (1, 5):
            spend(f"first{beam}", lambda b=beam: write(frames, b, 8))
            spend(f"all{beam}", lambda b=beam: write(frames, b, 8 + TOKENS))
    token = {beam: (best[f"all{beam}"] - best[f"first{beam}"]) / TOKENS for beam in (1, 5)}
    cross = best["first1"] - 8 * token[1]  # the prompt with the keys and values of the window
    print(json.dumps({"encoder": best["encoder"] + cross, "greedy": token[1], "beam5": token[5]}))


def their_recording(directory, kind, recording, beam, batch):
    from faster_whisper import BatchedInferencePipeline, WhisperModel
    model = WhisperModel(directory, device="cpu", compute_type=kind, cpu_threads=1, num_workers=1)
    began = time.process_time()
    if batch:
        segments, _ = BatchedInferencePipeline(model).transcribe(recording, beam_size=beam, language="en", batch_size=batch)
    else:
        segments, _ = model.transcribe(recording, beam_size=beam, language="en")
    words = sum(len(s.text.split()) for s in segments)
    print(json.dumps({"seconds": time.process_time() - began, "words": words}))


# ---- both, from outside ---------------------------------------------------------------------------

def run(argv, core, level):
    """Output, errors and peak of memory in MB."""
    env = dict(os.environ, OMP_NUM_THREADS="1", STENO_CACHE="")
    if level:
        # CTranslate2's own kernels, and its products, which are MKL's or oneDNN's
        env.update(CT2_FORCE_CPU_ISA=level.upper(), MKL_ENABLE_INSTRUCTIONS=level.upper(), ONEDNN_MAX_CPU_ISA=level.upper())
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                         preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    out, err = p.stdout.read(), p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        raise RuntimeError(f"{' '.join(argv)}: {err.strip()[-300:]}")
    return out, err, usage.ru_maxrss / 1024


def our_parts(directory, kind, a):
    argv = [RELEASE + "/tests/bench/whisper_speed", directory, kind, a.level or "", "2"]
    return {k: float(v) for k, v in (line.split() for line in run(argv, a.core, a.level)[0].splitlines())}


def our_recording(directory, kind, recording, beam, batch, a):
    argv = [RELEASE + "/steno", "transcribe", "--model", directory, "--precision", kind, "--beam", str(beam), "--times"]
    argv += ["--batched", str(batch)] if batch else ["--no-endpoint"]
    argv += ["--cpu", a.level] if a.level else []
    out, err, peak = run(argv + [recording], a.core, a.level)
    return {"seconds": float(re.search(r"([\d.]+) s of processor", err)[1]), "words": len(out.split()), "peak": peak}


def theirs(what, a, *arguments):
    out, _, peak = run([sys.executable, os.path.abspath(__file__), "--theirs", what, *map(str, arguments)], a.core, a.level)
    return {**json.loads(out), "peak": peak}


def keep(results, name, side, found):
    row = results.setdefault(name, {}).setdefault(side, {})
    for key, value in found.items():
        row[key] = min(row.get(key, value), value)


def measure(a):
    results = {}
    for _ in range(a.rounds):
        for model in filter(None, a.parts.split(",")):
            directory = model if os.path.isdir(model) else os.path.join(ROOT, "build", "models", model)
            for name in a.precisions.split(","):
                mine, other = PRECISIONS[name]
                keep(results, f"parts {model} {name}", "ours", our_parts(directory, mine, a))
                keep(results, f"parts {model} {name}", "theirs", theirs("parts", a, directory, other, 2))
        for model in filter(None, a.recordings.split(",")):
            directory = os.path.join(ROOT, "build", "models", model)
            cases = [(name, os.path.join(SHARED, AUDIO[name]), beam, 0) for name in AUDIO for beam in (1, 5)]
            cases += [("long", a.long, 5, 8)] if a.long else []
            for name, path, beam, batch in cases:
                row = f"{name} {model} beam {beam}" + (f" batched {batch}" if batch else "")
                keep(results, row, "ours", our_recording(directory, "int8", path, beam, batch, a))
                keep(results, row, "theirs", theirs("recording", a, directory, "int8", path, beam, batch))
        if a.out:
            with open(a.out, "w") as f:
                json.dump(results, f, indent=1)
    return results


def report(results, other="faster-whisper"):
    """A Markdown table of our numbers beside the other program's."""
    print(f"| what | ours | {other} | ratio | peak MB |\n|---|---|---|---|---|")
    for name, row in results.items():
        for key in ("encoder", "greedy", "beam5", "seconds"):
            if key in row["ours"]:
                x, y = row["ours"][key], row["theirs"][key]
                peak = f"{row['ours']['peak']:.0f} / {row['theirs']['peak']:.0f}" if key == "seconds" else ""
                print(f"| {name}{'' if key == 'seconds' else ' ' + key} | {x:.4g} | {y:.4g} | {y / x:.2f} | {peak} |")


def main():
    if sys.argv[1:2] == ["--theirs"]:
        what, directory, kind, *rest = sys.argv[2:]
        if what == "parts":
            return their_parts(directory, kind, int(rest[0]))
        return their_recording(directory, kind, rest[0], int(rest[1]), int(rest[2]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    p.add_argument("--level", choices=("avx2",))
    p.add_argument("--parts", default="tiny.en,base")
    p.add_argument("--precisions", default="f32,bf16,int8")
    p.add_argument("--recordings", default="tiny.en,base")
    p.add_argument("--long", help="a recording of minutes, for windows side by side")
    p.add_argument("--out")
    report(measure(p.parse_args()))


if __name__ == "__main__":
    main()
