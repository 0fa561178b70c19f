"""Live Whisper beside whisper_streaming on faster-whisper: processor time of one stream on one core, per second of audio.

    whisper_live.py [--models tiny.en,base] [--rounds 2] [--beams 1,5] [--step 1] [FILE.wav]

FILE: 16 kHz, mono (the two cities of shared/audio by default). The other side is the package whisper-streaming 0.1.0, a port of
UFAL's whisper_streaming: it transcribes its buffer of at most 15 s again after every --step seconds, int8, with faster-whisper
1.2.1. Ours is loadtest/streams, with partials and finals, int8. Both are processes of their own on the same core and alternate;
the smaller time counts. Needs both packages (and opus-fast-mosestokenizer) in this Python, and build/models."""
import argparse
import os
import subprocess
import sys
import time
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))


def theirs(directory, path, beam, step):
    """In a process of its own. Prints processor seconds per second of audio, and the words committed."""
    import numpy as np
    from whisper_streaming import ASRProcessor, AudioReceiver, Backend, TimeTrimming
    from whisper_streaming.backend import (FasterWhisperFeatureExtractorConfig, FasterWhisperModelConfig,
                                           FasterWhisperTranscribeConfig)

    class Silent(AudioReceiver):
        def _do_receive(self):
            return None

        def _do_close(self):
            pass

    p = ASRProcessor(
        ASRProcessor.ProcessorConfig(sampling_rate=16000, prompt_size=200, audio_receiver_timeout=1,
                                     audio_trimming=TimeTrimming(15), language="en"),
        Silent(), [], Backend.FASTER_WHISPER,
        FasterWhisperModelConfig(directory, device="cpu", compute_type="int8", cpu_threads=1),
        FasterWhisperTranscribeConfig(beam_size=beam), FasterWhisperFeatureExtractorConfig())
    with wave.open(path) as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype("f4") / 32768
    n, words, began = int(16000 * step), [], time.process_time()
    for at in range(0, len(pcm), n):
        said = p._process(pcm[at:at + n])
        words += said.word.split() if said else []
    print((time.process_time() - began) / (len(pcm) / 16000), len(words))


def run(core, argv):
    env = dict(os.environ, OMP_NUM_THREADS="1", STENO_CACHE="")
    p = subprocess.run(["taskset", "-c", str(core), *argv], capture_output=True, text=True, env=env)
    if p.returncode:
        raise RuntimeError(p.stderr[-400:])
    return p.stdout


def main():
    if sys.argv[1:2] == ["--theirs"]:
        return theirs(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("file", nargs="?", default=os.path.join(SHARED, "audio", "speech", "two_cities_16k.wav"))
    a.add_argument("--models", default="tiny.en,base")
    a.add_argument("--rounds", type=int, default=2)
    a.add_argument("--beams", default="1,5")
    a.add_argument("--step", type=float, default=1)
    a.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    a = a.parse_args()
    with wave.open(a.file) as w:
        seconds = w.getnframes() / w.getframerate()
    print("| model | steno, % of a core | whisper_streaming, beam: % of a core | ratio |\n|---|---|---|---|")
    for model in a.models.split(","):
        directory = os.path.join(ROOT, "build", "models", model)
        ours, other = 1e9, {}
        for _ in range(a.rounds):
            out = run(a.core, [os.path.join(ROOT, "build", "release", "loadtest", "streams"), "--model", directory, "--precision", "int8",
                               "--seconds", f"{seconds:.1f}", a.file])
            ours = min(ours, float(out.splitlines()[-1].split("|")[4]) / 100)
            for beam in a.beams.split(","):
                spent, words = run(a.core, [sys.executable, os.path.abspath(__file__), "--theirs", directory, a.file, beam, str(a.step)]).split()
                other[beam] = min(other.get(beam, 1e9), float(spent))
                print(f"{model} beam {beam}: {float(spent):.3f}, {words} words committed", file=sys.stderr)
        print(f"| {model} | {ours:.1%} | " + ", ".join(f"{b}: {v:.0%}" for b, v in other.items()) + " | "
              + ", ".join(f"{v / ours:.1f}" for v in other.values()) + " |")


if __name__ == "__main__":
    main()
