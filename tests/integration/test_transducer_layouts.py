"""icefall's LSTM and Conformer transducers, made by transducer_layouts.py, against what sherpa-onnx 2.0.1 decodes with them
(tests/data/transducers): texts, and times of words to one frame; live streams together give what streams alone give. Needs
the packages onnx and numpy, and ../shared/audio. TAP."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import wave

from daemon import BUILD, ROOT, SHARED, Skip, Stenod, case, converse, need, tap

try:
    import transducer_layouts
except ImportError:
    transducer_layouts = None

AUDIO = os.path.join(SHARED, "audio", "speech")
STENO = os.path.join(BUILD, "steno")
FRAME = 0.04
with open(os.path.join(ROOT, "tests", "data", "transducers", "decode.json"), encoding="utf-8") as _f:
    RECORDED = json.load(_f)


def made(kind, folder):
    if not transducer_layouts:
        raise Skip("the package onnx is not there")
    path = os.path.join(folder, kind)
    transducer_layouts.save(kind, path)
    return path


def transcribe(path, file, beam, *args):
    r = subprocess.run([STENO, "transcribe", "--model", path, "--precision", "fp32", "--no-endpoint", "--beam", str(beam), *args, file],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


def seconds_of(file):
    with wave.open(file) as w:
        return w.getnframes() / w.getframerate()


def words_of(row, end):
    """(word, time of its first token). Our times do not go beyond the end of the audio."""
    words = []
    for token, time in zip(row["tokens"], row["timestamps"]):
        if token.startswith(" ") or not words:
            words.append(["", min(time, end)])
        words[-1][0] += token.strip()
    return words


def check_recorded(kind):
    need(AUDIO)
    with tempfile.TemporaryDirectory(prefix="steno-transducer-") as folder:
        path = made(kind, folder)
        info = subprocess.run([STENO, "model", "info", path], capture_output=True, text=True, check=True).stdout
        assert f"streaming {kind} transducer" in info, info
        for method, beam in (("greedy_search", 1), ("modified_beam_search", 4)):
            for name, row in RECORDED[kind][method].items():
                file = os.path.join(AUDIO, name + ".wav")
                text = transcribe(path, file, beam)
                assert text.split() == row["text"].split() and len(row["tokens"]) > 20, (method, name, text, row["text"])
                lines = [w.split() for w in transcribe(path, file, beam, "--words").splitlines()]
                want = words_of(row, seconds_of(file))
                assert [w[3] for w in lines] == [w[0] for w in want], (method, name)
                for line, (word, time) in zip(lines, want):
                    assert abs(float(line[0]) - time) < FRAME + 1e-6, (method, name, line, word, time)


@case
def lstm_is_as_recorded():
    check_recorded("lstm")


@case
def conformer_is_as_recorded():
    check_recorded("conformer")


def check_streams(kind):
    need(AUDIO)
    with wave.open(os.path.join(AUDIO, "beckett.wav")) as w:
        pcm, rate = w.readframes(w.getnframes()), w.getframerate()
    want = RECORDED[kind]["greedy_search"]["beckett"]["text"].split()
    texts = {}
    with tempfile.TemporaryDirectory(prefix="steno-transducer-") as folder, \
            Stenod("model.dir=" + made(kind, folder), "model.precision=fp32") as d:

        def speak(i):
            step = 320 * (1 + 7 * i)  # pieces of another length for each
            got = converse(f"ws://127.0.0.1:{d.port}/v1/stream",
                           [{"type": "start", "sample_rate": rate, "endpointing": False}] +
                           [pcm[at:at + step] for at in range(0, len(pcm), step)] + [{"type": "end"}]).messages
            texts[i] = " ".join(m["text"] for m in got if m["type"] == "final").split()

        threads = [threading.Thread(target=speak, args=(i,)) for i in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(texts) == 5 and all(t == want for t in texts.values()), (want, texts)


@case
def live_lstm_streams_say_the_same_together():
    check_streams("lstm")


@case
def live_conformer_streams_say_the_same_together():
    check_streams("conformer")


if __name__ == "__main__":
    sys.exit(tap())
