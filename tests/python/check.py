"""The installed package steno_asr. TAP.

check.py STENO MODEL: the command to compare with, the directory of digits-en. Runs in the root of the sources.
"""

import array
import copy
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import wave

import steno_asr

steno, model_dir = sys.argv[1], sys.argv[2]
DIGITS = "tests/data/digits.wav"
TEXT = open("tests/data/digits.txt").read().strip()


def command(*arguments):
    run = [steno, "transcribe", "--model", model_dir, "--format", "json", *arguments]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


def samples():
    with wave.open(DIGITS) as w:
        return w.readframes(w.getnframes()), w.getframerate()


def error(function, *arguments, of=steno_asr.Error, **settings):
    try:
        function(*arguments, **settings)
    except of as e:
        return e
    raise AssertionError(f"{function.__name__}{arguments} raised nothing")


def as_json(segment):
    """A segment as `steno transcribe --format json` prints it."""
    ms = lambda s: round(s, 3)
    return {
        "text": segment.text, "start": ms(segment.start), "end": ms(segment.end), "reason": segment.reason,
        "words": [{"word": w.text, "start": ms(w.start), "end": ms(w.end)} for w in segment.words],
    }  # fmt: skip


def reduced(segment):
    return {
        **{k: segment[k] for k in ("text", "start", "end", "reason")},
        "words": [{k: w[k] for k in ("word", "start", "end")} for w in segment["words"]],
    }


def a_file_gives_what_the_command_prints():
    want = json.loads(command(DIGITS))
    with steno_asr.Model(model_dir) as model:
        got = model.transcribe(DIGITS)
        from_memory = model.transcribe_bytes(open(DIGITS, "rb").read())
    assert got.text == want["text"] == TEXT, got.text
    assert [as_json(s) for s in got.segments] == [reduced(s) for s in want["segments"]], got.segments
    for s, w in zip(got.segments, want["segments"]):
        assert abs(s.confidence - w["confidence"]) < 1e-3
        assert s.stable == s.text and s.alternatives[0].text == s.text
    assert abs(got.duration - want["duration"]) < 1e-3 and got.language == want["language"] and got.warning is None
    assert from_memory == got


def other_formats_give_the_command_s_text():
    names = [f"tests/data/speech/{f}" for f in sorted(os.listdir("tests/data/speech")) if f.endswith((".flac", ".mp3", ".ogg", ".wav"))]
    assert names
    with steno_asr.Model(model_dir) as model:
        for name in names[:3]:
            assert model.transcribe(name).text == json.loads(command(name))["text"], name


def samples_of_each_kind_give_the_same_text():
    pcm, rate = samples()
    ints = array.array("h", pcm)
    floats = array.array("f", (s / 32768 for s in ints))
    kinds = [pcm, ints, floats, memoryview(pcm), bytearray(pcm)]
    try:
        import numpy

        kinds += [numpy.array(ints, dtype=numpy.int16), numpy.array(floats, dtype=numpy.float32)]
    except ImportError:
        assert os.environ.get("NEED_NUMPY") is None
    with steno_asr.Model(model_dir) as model:
        want = model.transcribe(DIGITS)
        for kind in kinds:
            got = model.transcribe(kind, sample_rate=rate)
            assert got == want, type(kind)


def a_stream_gives_the_command_s_events():
    pcm, rate = samples()
    lines = [json.loads(l) for l in command("--stream", DIGITS).splitlines()]
    with steno_asr.Model(model_dir) as model, model.stream(sample_rate=rate) as stream:
        got = list(stream.events(pcm[i : i + 8192] for i in range(0, len(pcm), 8192)))  # as the command
        assert abs(stream.seconds - len(pcm) / 2 / rate) < 1e-9
    kinds = [e.kind for e in got]
    assert kinds.count("partial") > 3 and kinds[-1] == "final" and "speech_start" in kinds, kinds
    for l in lines:
        l.setdefault("text", "")
    want = [(l["type"], l["segment"], l["time"], l["text"], l.get("stable", l["text"]), l.get("reason")) for l in lines]
    assert [(e.kind, e.segment, round(e.time, 3), e.text, e.stable, e.reason) for e in got] == want, got


def finalize_ends_a_segment_and_the_stream_goes_on():
    pcm, rate = samples()
    half = len(pcm) // 4 * 2
    with steno_asr.Model(model_dir) as model, model.stream(sample_rate=rate, partials=False) as stream:
        events = stream.push(pcm[:half]) + stream.finalize() + stream.push(pcm[half:]) + stream.end()
    finals = [e for e in events if e.kind == "final"]
    assert len(finals) == 2 and finals[0].reason == "request" and finals[1].reason == "end", finals
    assert finals[0].segment == 0 and finals[1].segment == 1
    assert not any(e.kind == "partial" for e in events)


def threads_share_a_model():
    pcm, rate = samples()
    results = []
    with steno_asr.Model(model_dir) as model:
        threads = [
            threading.Thread(target=lambda: results.append(model.transcribe(pcm, sample_rate=rate).text)) for _ in range(4)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert results == [TEXT] * 4, results


def finals_are_begun_early_unless_the_stream_says_no():
    """Half a second behind the last word a final is begun, so that finalize has nothing left to compute."""
    weights = os.environ.get("STENO_WHISPER_TINY_EN") or "build/models/tiny.en"
    if not os.path.exists(f"{weights}/model.bin"):
        return f"needs the weights of tiny.en ({weights})"
    with wave.open("tests/data/speech/jfk.wav") as w:
        rate, pcm = w.getframerate(), w.readframes(w.getnframes())
    left, finals = {}, {}
    with steno_asr.Model(weights) as model:
        for early in (True, False):
            with model.stream(sample_rate=rate, early=early, partials=False) as stream:
                assert "final" not in [e.kind for e in stream.push(pcm + bytes(rate * 2 * 7 // 10))]
                began = time.process_time()
                finals[early] = [e for e in stream.finalize() if e.kind == "final"]
                left[early] = time.process_time() - began
    assert finals[True] == finals[False] and "country" in finals[True][0].text, finals
    assert 10 * left[True] < left[False], left


def a_stream_in_two_threads_takes_every_sample_once():
    pcm, rate = samples()
    with steno_asr.Model(model_dir) as model, model.stream(sample_rate=rate) as stream:
        threads = [threading.Thread(target=lambda: [stream.push(bytes(1600)) for _ in range(50)]) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert abs(stream.seconds - 100 * 800 / rate) < 1e-9


def options_and_a_vad_are_passed_on():
    with steno_asr.Vad() as vad, steno_asr.Model(model_dir, precision="fp32", threads=2, cpu="scalar") as model:
        got = model.transcribe(DIGITS, beam=4, n_best=3, vad=vad, turn_vad=vad, word_times=False)
        assert got.text == TEXT
        assert len(got.segments[0].alternatives) == 3
        assert "option" in str(error(model.stream, options={"no_such": True}))
        assert error(model.stream, language="tlhingan").code == "invalid_argument"
    assert "no_such" in str(error(steno_asr.Model, model_dir, options={"no_such": 1}))
    e = error(steno_asr.Vad, "/")
    assert e.code == "io_error" and "silero_vad.onnx" in str(e), (e.code, e)
    assert "fp7" in str(error(steno_asr.Model, model_dir, precision="fp7"))


def errors_say_what_is_wrong():
    e = error(steno_asr.Model, "/nowhere")
    assert e.code == "io_error" and "/nowhere" in str(e), (e.code, e)
    assert str(pickle.loads(pickle.dumps(e))) == str(e) and pickle.loads(pickle.dumps(e)).code == e.code
    with steno_asr.Model(model_dir) as model:
        assert "/nowhere.wav" in str(error(model.transcribe, "/nowhere.wav"))
        assert error(model.transcribe, "tests/data/digits.txt").code == "invalid_data"
        assert error(model.transcribe_bytes, b"").code == "invalid_data"
        assert error(model.transcribe, DIGITS, channel=7).code == "invalid_argument"
        assert error(model.stream, sample_rate=10).code == "invalid_argument"
        error(model.transcribe, b"12", of=TypeError)
        error(model.transcribe, DIGITS, 8000, of=TypeError)
        with model.stream() as stream:
            error(stream.push, b"123", of=ValueError)
            error(stream.push, array.array("d", [0.0]), of=TypeError)
            error(stream.push, 5, of=TypeError)
            stream.end()
            assert error(stream.push, b"12").code == "invalid_argument"


def what_ctypes_would_cut_or_take_for_something_else_is_an_error():
    pcm, rate = samples()
    error(steno_asr.Model, model_dir + "\0x", of=ValueError)
    with steno_asr.Model(model_dir) as model, model.stream() as stream:
        for setting in ("beam", "n_best"):
            error(model.transcribe, pcm, rate, **{setting: (1 << 32) + 1}, of=OverflowError)
        error(model.transcribe, pcm, (1 << 32) + rate, of=OverflowError)
        error(model.transcribe, DIGITS, channel=1 << 32, of=OverflowError)
        error(steno_asr.Model, model_dir, threads=(1 << 32) + 1, of=OverflowError)
        error(steno_asr.Model, model_dir, precision=None, of=TypeError)
        error(model.transcribe, DIGITS + "\0x", of=ValueError)
        error(model.transcribe, pcm, rate, language="en\0x", of=ValueError)
        error(model.transcribe, pcm, rate, language=b"en", of=TypeError)
        error(model.transcribe, pcm, rate, options={"a\0b": 1}, of=ValueError)
        error(model.transcribe, pcm, rate, options={5: 1}, of=TypeError)
        error(model.transcribe, pcm, rate, vad="energy", of=TypeError)
        error(model.transcribe_bytes, "text", of=TypeError)
        assert model.transcribe_bytes(bytearray(open(DIGITS, "rb").read())).text == TEXT
        error(stream.push, memoryview(pcm)[::2], of=TypeError)
        assert stream.push(b"") == [] and stream.push(array.array("f")) == []
        for of in (model, stream):  # a copy would be freed twice
            error(copy.copy, of, of=TypeError)
            error(pickle.dumps, of, of=TypeError)


def a_short_file_is_truncated_and_a_damaged_one_keeps_its_beginning():
    data = open(DIGITS, "rb").read()
    with steno_asr.Model(model_dir) as model:
        got = model.transcribe_bytes(data[: len(data) // 2])
        assert got.warning == "truncated" and TEXT.startswith(got.text) and got.text


def close_comes_in_the_right_order():
    pcm, rate = samples()
    model = steno_asr.Model(model_dir)
    stream = model.stream(sample_rate=rate)
    assert "1 open stream" in str(error(model.close, of=ValueError))
    stream.close()
    stream.close()
    error(stream.push, pcm, of=ValueError)
    error(lambda: stream.seconds, of=ValueError)
    model.close()
    model.close()
    error(model.stream, of=ValueError)
    model = steno_asr.Model(model_dir)
    stream = model.stream()
    del model  # the stream keeps it
    stream.push(pcm)
    del stream


def memory_does_not_grow():
    def pages():
        return int(open("/proc/self/statm").read().split()[1])

    pcm, rate = samples()
    with steno_asr.Model(model_dir) as model:
        for _ in range(5):
            model.transcribe(pcm, sample_rate=rate)
        before = pages()
        for _ in range(40):
            model.transcribe(pcm, sample_rate=rate)
        assert pages() - before < 1000, pages() - before  # 4 MB; one stream left open is 0.5 MB


def the_version_is_that_of_the_sources():
    want = next(l.split()[2] for l in open("Makefile") if l.startswith("VERSION :="))
    assert steno_asr.version() == want


tests = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", None) == "__main__"]
helpers = {"command", "samples", "error", "as_json", "reduced"}
tests = [f for f in tests if f.__name__ not in helpers]
failed = 0
for n, test in enumerate(tests, 1):
    name = test.__name__.replace("_", " ")
    try:
        skipped = test()
        print(f"ok {n} - {name}" + (f" # SKIP {skipped}" if skipped else ""))
    except Exception:
        failed = 1
        print(f"not ok {n} - {name}")
        print("".join("# " + l + "\n" for l in traceback.format_exc().splitlines()), end="")
print(f"1..{len(tests)}")
sys.exit(failed)
