"""Whisper beside whisper.cpp on one core: encoder window, greedy token and whole recordings, as whisper.py measures them
beside faster-whisper: processes of their own on one core that alternate, and the smallest processor time of each.

    whisper_cpp.py --python PYTHON --ggml DIR [--rounds 3] [--level avx2] [--models tiny.en,base] [--kinds q8_0,f16]
                   [--recordings jfk,two_cities] [--out JSON]

PYTHON has pywhispercpp (1.4.1: whisper.cpp 1.8.2), whose build may use fewer instructions than the machine has: its own line
on them is printed. DIR has ggml-NAME.bin and ggml-NAME-q8_0.bin of the weights in build/models."""
import argparse
import json
import os
import subprocess
import sys
import time

import whisper as beside

TOKENS = 48
KINDS = {"q8_0": ("-q8_0", "int8"), "f16": ("", "bf16")}  # file, and the precision of ours beside it


# ---- theirs, in a process of its own ------------------------------------------------------------

def spent(function, *arguments):
    began = time.process_time()
    result = function(*arguments)
    assert not result, result
    return time.process_time() - began


def parts(cpp, context):
    import numpy
    noise = numpy.random.default_rng(1).uniform(-0.5, 0.5, 30 * 16000).astype("f4")
    assert not cpp.whisper_pcm_to_mel(context, noise, len(noise), 1)
    encoder = min(spent(cpp.whisper_encode, context, 0, 1) for _ in range(3))
    first = [cpp.whisper_token_sot(context)]
    if cpp.whisper_is_multilingual(context):
        first += [cpp.whisper_token_lang(context, 0), cpp.whisper_token_transcribe(context)]
    first.append(cpp.whisper_token_not(context))
    best = 1e9
    for _ in range(3):
        for i, token in enumerate(first):
            assert not cpp.whisper_decode(context, token, 1, i, 1)
        at = len(first)
        best = min(best, sum(spent(cpp.whisper_decode, context, 1000 + i, 1, at + i, 1) for i in range(TOKENS)))
    return {"encoder": 1e3 * encoder, "greedy": 1e3 * best / TOKENS}


def recording(cpp, context, path, beam):
    import numpy
    import wave
    with wave.open(path) as f:
        pcm = numpy.frombuffer(f.readframes(f.getnframes()), "<i2").astype("f4") / 32768
    strategy = cpp.whisper_sampling_strategy
    p = cpp.whisper_full_default_params(strategy.WHISPER_SAMPLING_BEAM_SEARCH if beam > 1
                                        else strategy.WHISPER_SAMPLING_GREEDY)
    p.n_threads = 1
    p.print_progress = p.print_realtime = p.print_timestamps = False
    p.language = "en"
    if beam > 1:
        p.beam_search = {"beam_size": beam, "patience": -1.0}
    seconds = spent(cpp.whisper_full, context, p, pcm, len(pcm))
    text = b"".join(cpp.whisper_full_get_segment_text(context, i) for i in range(cpp.whisper_full_n_segments(context)))
    return {"seconds": seconds, "words": len(text.split())}


def theirs(model, *what):
    import _pywhispercpp as cpp
    context = cpp.whisper_init_from_file(model)
    found = recording(cpp, context, what[0], int(what[1])) if what else parts(cpp, context)
    print(json.dumps({**found, "system": cpp.whisper_print_system_info()}))


# ---- both, from outside ---------------------------------------------------------------------------

def their_run(a, *arguments):
    out, _, peak = beside.run([a.python, os.path.abspath(__file__), "--theirs", *map(str, arguments)], a.core, a.level)
    found = json.loads(out.splitlines()[-1])
    a.system = found.pop("system")
    return {**found, "peak": peak}


def wav_of(name, folder):
    path = os.path.join(folder, name + ".wav")
    if not os.path.exists(path):
        subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-i", os.path.join(beside.SHARED, beside.AUDIO[name]), "-ar",
                        "16000", "-ac", "1", path], check=True)
    return path


def keep(a, results, row, ours, found):
    beside.keep(results, row, "ours", ours)
    beside.keep(results, row, "theirs", found)
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


def measure(a):
    results = {}
    for _ in range(a.rounds):
        for model in a.models.split(","):
            directory = os.path.join(beside.ROOT, "build", "models", model)
            for kind in a.kinds.split(","):
                suffix, mine = KINDS[kind]
                ggml = os.path.join(a.ggml, f"ggml-{model}{suffix}.bin")
                row = f"{model}, {mine} beside {kind}"
                ours = beside.our_parts(directory, mine, a)
                ours.pop("beam5")
                keep(a, results, row, ours, their_run(a, ggml))
                for name in filter(None, a.recordings.split(",")):
                    path = wav_of(name, a.folder)
                    for beam in (1, 5):
                        row = f"{name}, {model}, {mine} beside {kind}, beam {beam}"
                        keep(a, results, row, beside.our_recording(directory, mine, path, beam, 0, a),
                             their_run(a, ggml, path, beam))
    return results


def main():
    if sys.argv[1:2] == ["--theirs"]:
        return theirs(*sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", required=True)
    p.add_argument("--ggml", required=True)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    p.add_argument("--level", choices=("avx2",))
    p.add_argument("--models", default="tiny.en,base")
    p.add_argument("--kinds", default="q8_0,f16")
    p.add_argument("--recordings", default="jfk,two_cities")
    p.add_argument("--out", help="JSON, written after every measurement")
    p.add_argument("--folder", default="/tmp", help="where recordings are put as WAV")
    a = p.parse_args()
    beside.report(measure(a), "whisper.cpp")
    print(f"\n{a.system}")


if __name__ == "__main__":
    main()
