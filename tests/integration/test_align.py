"""Words of a given text found in a recording: `steno align`, with the model that ships and with toys of other families. Times
are compared with those of the sound: strings of digits whose pauses are known."""
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
import wave

import numpy as np
from daemon import BUILD, DIGITS, DIGITS_TEXT, OPEN, ROOT, SHARED, SLOW, Stenod, case, converse, need, pcm, tap, wav
from websockets.sync.client import connect

STENO = os.path.join(BUILD, "steno")
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
WORDS = "zero one two three four five six seven eight nine".split()
SOUND = [(0.545, 0.865), (1.095, 1.48), (1.705, 2.055), (2.395, 2.85), (3.125, 3.62), (3.8, 4.425), (4.685, 5.05)]  # of digits.wav, by energy


def whisper_tiny():
    return need(os.environ.get("STENO_WHISPER_TINY_EN", os.path.join(BUILD, "data", "models", "tiny.en")))


def align(text, *args, recording=DIGITS, model=MODEL):
    return subprocess.run([STENO, "align", "--model", model, *args, "-", recording], input=text.encode(), capture_output=True)


def lines(text, **kw):
    """[(start, end, score, word)]"""
    p = align(text, **kw)
    assert p.returncode == 0, p.stderr.decode()
    return [(float(a), float(b), float(c), w) for a, b, c, w in (line.split(" ", 3) for line in p.stdout.decode().splitlines())]


@case
def a_line_for_each_word_where_it_is_heard():
    got = lines(DIGITS_TEXT)
    assert [w for *_, w in got] == DIGITS_TEXT.split(), got
    errors = [abs(t - s) for g, sound in zip(got, SOUND) for t, s in zip(g[:2], sound)]
    assert statistics.median(errors) < 0.08 and max(errors) < 0.25 and all(score > 0.9 for _, _, score, _ in got), (errors, got)


@case
def characters_without_a_token_are_wildcards_and_marks_are_silent():
    spoken = lines(DIGITS_TEXT)
    got = lines("four Two\n- 7 one, “nine” -- 0\n\nthree.")
    assert [w for *_, w in got] == "four Two - 7 one, “nine” -- 0 three.".split(), got
    placed = [g for g in got if g[2]]
    assert [g[3] for g in got if not g[2]] == ["-", "--"] and [g[:2] for g in placed] == [g[:2] for g in spoken], (got, spoken)


@case
def audio_may_go_on_before_and_behind_the_text():
    spoken = lines(DIGITS_TEXT)
    assert [g[:2] for g in lines("seven one")] == [g[:2] for g in spoken[2:4]]
    assert [g[:2] for g in lines("zero three")] == [g[:2] for g in spoken[5:]]


@case
def json_of_whisperx():
    p = align("four two\nseven - 1 nine\n", "--format", "whisperx", "--characters")
    j = json.loads(p.stdout)
    assert list(j) == ["segments", "word_segments", "language"] and j["language"] == "en", j
    assert [s["text"] for s in j["segments"]] == ["four two", "seven - 1 nine"], j
    first, second = j["segments"]
    assert list(first) == ["start", "end", "text", "words", "chars"], first
    assert [list(w) for w in second["words"]] == [["word", "start", "end", "score"], ["word"], *[["word", "start", "end", "score"]] * 2], second
    assert j["word_segments"] == first["words"] + second["words"], j
    assert [c["char"] for c in second["chars"]] == ["seven", "1", "nine"], second  # this model's tokens are words
    assert first["start"] == first["words"][0]["start"] and first["end"] == first["words"][-1]["end"], first
    own = json.loads(align("seven\n", "--format", "json", "--characters").stdout)
    assert own["segments"][0]["characters"][0]["character"] == "seven", own


@case
def subtitles_of_a_text():
    p = align("four two.\nSeven one nine.\n", "--format", "srt")
    assert p.stdout.decode().startswith("1\n00:00:00,") and "Seven one nine." in p.stdout.decode(), p.stdout
    p = align("four\ntwo\n", "--format", "tsv")
    assert p.stdout.decode().splitlines()[0] == "start\tend\ttext" and len(p.stdout.splitlines()) == 3, p.stdout


@case
def what_cannot_be_aligned_says_why():
    p = subprocess.run([STENO, "align", "--model", MODEL, "-", DIGITS], input=b"four \xff", capture_output=True)
    assert p.returncode != 0 and b"text: line 1: byte 6 is not UTF-8" in p.stderr, p.stderr
    p = subprocess.run([STENO, "align", "--model", MODEL, "-", DIGITS], input=b"four\0two", capture_output=True)
    assert p.returncode != 0 and b"zero bytes" in p.stderr, p.stderr
    p = align("a " * (1 << 19) + "b")
    assert p.returncode != 0 and b"bytes" in p.stderr, p.stderr
    assert subprocess.run([STENO, "align", DIGITS], capture_output=True).returncode == 64
    assert align("").returncode == 0 and align("").stdout == b""


def form(d, recording=None, headers=(), path="/v1/align", **fields):
    """The status, and the answer as JSON where it is some."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n'.encode() + (v if isinstance(v, bytes) else str(v).encode()) + b"\r\n"
             for k, v in fields.items()]
    if recording is not False:
        with open(recording or DIGITS, "rb") as f:
            parts.append(b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + f.read() + b"\r\n")
    code, head, body = d.request("POST", path, b"".join(parts) + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x", **dict(headers)})
    return code, json.loads(body) if "json" in head["content-type"] else body.decode()


def refused(d, status, code, param, **kw):
    got, body = form(d, **kw)
    assert got == status and (body["error"]["code"], body["error"]["param"]) == (code, param), (got, body)
    return body["error"]["message"]


@case
def over_http_as_on_the_command_line():
    text = "four Two\nseven - 1 nine"
    with Stenod() as d:
        code, j = form(d, text=text, granularity="character")
        own = json.loads(align(text, "--format", "json", "--characters").stdout)
        own.pop("file")
        assert (code, j) == (200, own), (j, own)
        code, j = form(d, text=text, response_format="whisperx")
        assert (code, j) == (200, json.loads(align(text, "--format", "whisperx").stdout)), j
        code, srt = form(d, text=text, format="srt")
        assert (code, srt) == (200, align(text, "--format", "srt").stdout.decode()), srt
        code, j = form(d, text=text + "\n", path="/v1/align?format=whisperx&granularity=character")
        assert code == 200 and [c["char"] for c in j["segments"][1]["chars"]] == ["seven", "1", "nine"], j
        assert form(d, text=DIGITS_TEXT.encode() + b"\r\n" * 20000)[0] == 200  # longer than any other field


@case
def a_model_that_is_not_there_is_told_at_the_start():
    with Stenod("align.model=en=digits-en,nowhere") as d:
        assert "warning: align.model: the model 'nowhere' does not exist" in d.output(), d.output()
        assert "'digits-en' does not" not in d.output()


@case
def what_a_request_gets_wrong():
    with Stenod("limits.body=3MiB") as d:
        assert "text" in refused(d, 400, "invalid_argument", "text")
        assert "file" in refused(d, 400, "invalid_argument", "file", recording=False, text="a")
        assert "UTF-8" in refused(d, 400, "invalid_argument", "text", text=b"a \xff")
        assert "zero" in refused(d, 400, "invalid_argument", "text", text=b"a\0b")
        assert "1 MiB" in refused(d, 413, "limit_exceeded", "text", text=b"a " * (1 << 19) + b"a")
        refused(d, 400, "invalid_argument", "granularity", text="a", granularity="phone")
        refused(d, 400, "invalid_argument", "words", text="a", words="yes")
        refused(d, 400, "invalid_argument", "response_format", text="a", response_format="xml")
        refused(d, 404, "model_not_found", "model", text="a", model="none-such")
        assert "not 'de'" in refused(d, 400, "unsupported_language", "language", text="vier", language="de")
        assert form(d, text="four", language="English", response_format="", granularity="", max_line_width="")[0] == 200  # empty: absent
        code, body = form(d, text="four", recording=__file__)
        assert code in (400, 415) and body["error"]["param"] == "file", body
        code, body = form(d, text=DIGITS_TEXT)
        assert code == 200 and body["segments"][0]["words"][0]["word"] == "four", body


@case
def keys_and_limits_are_those_of_uploads():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("[reader]\nkey = sesame-open-the-door-1\nrequests_per_minute = 1\n")
        keys.flush()
        with Stenod(f"auth.keys={keys.name}") as d:
            assert form(d, text="four")[0] == 401
            auth = {"Authorization": "Bearer sesame-open-the-door-1"}
            assert form(d, headers=auth, text="four")[0] == 200
            assert form(d, headers=auth, text="four")[0] == 429
            d.becomes('steno_sessions_total{api="align",result="ok"}', 1)


@case
def the_memory_of_long_texts_is_counted():
    with Stenod("limits.upload_memory=4MiB", "limits.body=1MiB") as d:
        assert form(d, text="four two " * 1000)[0] == 200
        code, j = form(d, text="four two " * 10000)  # an alignment takes up to 224 times its text
        assert code == 503 and j["error"]["param"] == "text", (code, j)
        assert form(d, text="four two " * 1000)[0] == 200  # nothing stays reserved


@case
def the_configured_model_aligns_where_the_default_one_cannot():
    toys = need(os.path.join(SHARED, "zoo", "tiny"))
    with tempfile.TemporaryDirectory() as models:
        os.symlink(MODEL, os.path.join(models, "digits"))
        os.symlink(os.path.join(toys, "t-one"), os.path.join(models, "russian"))
        with Stenod(f"model.dir={toys}/zipformer2-transducer-offline", f"models.dir={models}") as d:
            message = refused(d, 400, "unsupported_model", "model", text="four")
            assert "gives no scores of CTC" in message, message
        with Stenod(f"model.dir={toys}/zipformer2-transducer-offline", f"models.dir={models}", "align.model=ru=russian,digits") as d:
            for language, name in (("", "digits"), ("en", "digits"), ("Russian", "russian")):
                for _ in range(100):
                    code, j = form(d, text="four", language=language)
                    if code != 503:  # it is being loaded
                        break
                    time.sleep(0.2)
                assert code == 200 and j["model"] == name, (code, j)
    p = subprocess.run([os.path.join(BUILD, "stenod"), "--set", "align.model=xx=digits", "--check-config"], capture_output=True, cwd=ROOT)
    assert p.returncode != 0 and b"align.model: 'xx' is no language" in p.stderr, p.stderr


def words_of(d, **fields):
    """The words of an upload, and the warning."""
    for _ in range(100):
        code, j = form(d, path="/v1/audio/transcriptions", response_format="whisperx", **fields)
        if code != 503:  # the model that aligns is being loaded
            break
        time.sleep(0.2)
    assert code == 200, (code, j)
    return [(w["word"].strip(",.").lower(), w["start"], w["end"]) for w in j["word_segments"]]


@case
def word_times_aligned_are_those_of_the_aligner():
    """Whisper's own times are 0.1 s and more off; digits-en tells where the same words are."""
    tiny = whisper_tiny()
    here = [(w, a, b) for a, b, _, w in lines(DIGITS_TEXT)]
    p = subprocess.run([STENO, "transcribe", "--model", tiny, "--words", "--align-model", MODEL, DIGITS], capture_output=True, check=True)
    got = [line.split() for line in p.stdout.decode().splitlines()]
    assert [(w.strip(",.").lower(), float(a), float(b)) for a, b, _, w in got] == here, (got, here)
    p = subprocess.run([STENO, "transcribe", "--model", tiny, "--align-model", MODEL, "--stream", DIGITS], capture_output=True)
    assert p.returncode == 64, p
    with tempfile.TemporaryDirectory() as models:
        os.symlink(MODEL, os.path.join(models, "digits"))
        with Stenod(f"model.dir={tiny}", f"models.dir={models}", "align.model=en=digits") as d:
            own, aligned = words_of(d), words_of(d, word_times="aligned")
            assert aligned == here and own != aligned, (own, aligned, here)
            code, j = form(d, path="/v1/audio/transcriptions", response_format="verbose_json", **{"timestamp_granularities[]": "word"}, word_times="aligned")
            assert code == 200 and [(w["start"], w["end"]) for w in j["words"]] == [h[1:] for h in here], j
            code, j = form(d, text=DIGITS_TEXT)  # a text is in the default model's language
            assert code == 200 and j["model"] == "digits", (code, j)
            code, j = form(d, path="/v1/audio/transcriptions", word_times="loud")
            assert code == 400 and j["error"]["param"] == "word_times", j
            for path in ("/v1/transcribe?word_times=aligned", "/v1/listen?word_times=aligned&language=en"):
                with open(DIGITS, "rb") as f:
                    code, head, body = d.request("POST", path, f.read(), {"Content-Type": "audio/wav"})
                j = json.loads(body)
                words = j["segments"][0]["words"] if "segments" in j else j["results"]["channels"][0]["alternatives"][0]["words"]
                assert code == 200 and [w["start"] for w in words] == [h[1] for h in here] and "x-steno-warning" not in head, (j, head)
            # two channels, each aligned by itself
            with wave.open(DIGITS) as w:
                x = np.frombuffer(w.readframes(w.getnframes()), "<i2")
            late = np.concatenate([np.zeros(16000, "<i2"), x])[:len(x) + 16000]
            two = wav(np.stack([np.pad(x, (0, 16000)), late], 1).tobytes(), 8000, 2)
            code, head, body = d.request("POST", "/v1/transcribe?word_times=aligned&multichannel=true", two, {"Content-Type": "audio/wav"})
            j = json.loads(body)
            first, second = ([w for s in j["segments"] if s["channel"] == k for w in s["words"]] for k in (1, 2))
            assert code == 200 and len(first) == len(second) == len(here), j
            assert all(abs(b["start"] - a["start"] - 2) < 0.09 for a, b in zip(first, second)), (first, second)
            assert abs(j["duration"] - 7.824) < 0.01, j
        with Stenod(f"model.dir={tiny}", f"models.dir={models}", "align.model=de=digits") as d:
            with open(DIGITS, "rb") as f:
                code, head, body = d.request("POST", "/v1/transcribe?word_times=aligned", f.read(), {"Content-Type": "audio/wav"})
            assert code == 200 and "no model of align.model is for the language" in head["x-steno-warning"], (code, head)
        with Stenod(f"model.dir={tiny}", f"models.dir={models}") as d:
            code, j = form(d, path="/v1/audio/transcriptions", word_times="aligned")
            assert code == 400 and j["error"]["param"] == "word_times" and "align.model" in j["error"]["message"], j


@case
def a_model_that_cannot_align_costs_a_warning_alone():
    toys = need(os.path.join(SHARED, "zoo", "tiny"))
    with tempfile.TemporaryDirectory() as models:
        os.symlink(os.path.join(toys, "zipformer2-transducer-offline"), os.path.join(models, "transducer"))
        with Stenod(f"models.dir={models}", f"model.dir={MODEL}", "align.model=transducer") as d:
            for _ in range(100):
                with open(DIGITS, "rb") as f:
                    code, head, body = d.request("POST", "/v1/transcribe?word_times=aligned", f.read(), {"Content-Type": "audio/wav"})
                if code != 503:
                    break
                time.sleep(0.2)
            assert code == 200 and json.loads(body)["text"] == DIGITS_TEXT and "no scores of CTC" in head["x-steno-warning"], (code, head)


def live(d, *messages, where="/v1/stream?", **start):
    """The messages of a session that sends these, a moment after the models that it needs are loaded."""
    for _ in range(int(100 * SLOW)):
        got = converse(f"ws://127.0.0.1:{d.port}{where}", [*([{"type": "start", "sample_rate": 8000, **start}] if start else []), *messages]).messages
        if not got or got[-1].get("code") != "busy":
            break
        time.sleep(0.2)
    return got


def spoken_words(messages):
    return [(w["word"], w["start"], w["end"]) for m in messages if m["type"] == "final" for w in m["words"]]


def same_times(got, expected, within=0.011):
    assert [g[0] for g in got] == [e[0] for e in expected], (got, expected)
    assert all(abs(a - b) < within for g, e in zip(got, expected) for a, b in zip(g[1:3], e[1:3])), (got, expected)


def late_digits(folder):
    """A model like digits-en that has every word begin 0.2 s later, and beside it digits-en as `digits`. The path of the former."""
    late = os.path.join(folder, "late")
    shutil.copytree(MODEL, late, ignore=shutil.ignore_patterns("train"))
    with open(os.path.join(late, "model.conf"), encoding="utf-8") as f:
        conf = f.read()
    assert "word_before = 0.23" in conf
    with open(os.path.join(late, "model.conf"), "w", encoding="utf-8") as f:
        f.write(conf.replace("word_before = 0.23", "word_before = 0.03"))
    os.symlink(MODEL, os.path.join(folder, "digits"))
    return late


def twice_with_silence():
    """digits.wav, 2 s of silence, and it again, at 8000 Hz."""
    x = np.frombuffer(pcm(DIGITS)[0], "<i2")
    return np.concatenate([x, np.zeros(16000, "<i2"), x]).tobytes()


@case
def words_of_live_finals_have_the_times_of_uploads():
    """The same sound through a session in several dialects and divisions, and as an upload. The model that recognizes has its
    words 0.2 s too late."""
    sound = twice_with_silence()
    end = {"type": "end"}
    with tempfile.TemporaryDirectory() as models, Stenod(f"model.dir={late_digits(models)}", f"models.dir={models}", "align.model=en=digits") as d:
        live(d, b"", end, word_times="aligned")  # the model that aligns is loaded then
        code, head, body = d.request("POST", "/v1/transcribe?word_times=aligned", wav(sound, 8000), {"Content-Type": "audio/wav"})
        upload = [(w["word"], w["start"], w["end"]) for s in json.loads(body)["segments"] for w in s["words"]]
        assert code == 200 and len(upload) == 14 and "x-steno-warning" not in head, (code, body, head)
        own = live(d, sound, end, words=True)
        for piece in (len(sound), 1600, 50001):
            got = live(d, *[sound[i:i + piece] for i in range(0, len(sound), piece)], end, word_times="aligned")
            assert got[0]["word_times"] == "aligned" and got[-1]["type"] == "end" and "warnings" not in got[-1], got
            assert len([m for m in got if m["type"] == "final" and m["text"]]) == 2, got
            same_times(spoken_words(got), upload)
            for m in got:
                if m["type"] == "final" and m["words"]:
                    assert (m["start"], m["end"]) == (m["words"][0]["start"], m["words"][-1]["end"]), m
            assert [m["seq"] for m in got] == sorted({m["seq"] for m in got}), got
        assert all(abs(o[1] - u[1] - 0.2) < 0.05 for o, u in zip(spoken_words(own), upload)), (own, upload)
        # the segment ends with its audio
        got = live(d, pcm(DIGITS)[0], {"type": "finalize"}, b"", end, word_times="aligned")
        same_times(spoken_words(got), upload[:7], 0.13)
        # each channel by itself, the second one a second later
        x = np.frombuffer(pcm(DIGITS)[0], "<i2")
        two = np.stack([np.pad(x, (0, 8000)), np.pad(x, (8000, 0))], 1)
        got = live(d, two.astype("<i2").tobytes(), end, word_times="aligned", channels=2, multichannel=True)
        for channel in (1, 2):
            words = spoken_words([m for m in got if m.get("channel") == channel])
            same_times([(w, a - channel + 1, b - channel + 1) for w, a, b in words], upload[:7])
        # other dialects
        got = live(d, sound, {"type": "CloseStream"}, where="/v1/listen?encoding=linear16&sample_rate=8000&word_times=aligned&utterance_end_ms=1000")
        words = [w for m in got if m["type"] == "Results" and m["is_final"] for w in m["channel"]["alternatives"][0]["words"]]
        same_times([(w["word"], w["start"], w["end"]) for w in words], upload)
        assert got[-1]["type"] == "Metadata" and "warnings" not in got[-1], got[-1]
        got = live(d, {"config": {"sample_rate": 8000}}, sound, {"eof": 1}, where="/vosk?word_times=aligned")
        same_times([(w["word"], w["start"], w["end"]) for m in got for w in m.get("result", [])], upload)
        got = live(d, sound, {"type": "CloseStream"}, where="/v2/listen?model=flux-general-en&encoding=linear16&sample_rate=8000&word_times=aligned")
        words = [w for m in got if m.get("event") == "EndOfTurn" for w in m["words"]]
        assert [w["word"] for w in words] == [w[0] for w in upload], got


@case
def what_live_sessions_are_told_of_words_that_are_not_aligned():
    toys = need(os.path.join(SHARED, "zoo", "tiny"))
    sound, end, aligned = twice_with_silence(), {"type": "end"}, {"word_times": "aligned"}
    with Stenod() as d:
        got = live(d, sound, end, **aligned)
        assert got[-1]["code"] == "invalid_argument" and "align.model" in got[-1]["message"], got
        got = live(d, sound, end, word_times="loud")
        assert got[-1]["code"] == "invalid_argument" and "'loud' is neither model nor aligned" in got[-1]["message"], got
    with tempfile.TemporaryDirectory() as models:
        os.symlink(os.path.join(toys, "zipformer2-transducer-offline"), os.path.join(models, "transducer"))
        for setting, why in (("de=digits-en", "no model of align.model is for the language"), ("transducer", "no scores of CTC")):
            with Stenod(f"models.dir={models}", f"model.dir={MODEL}", f"align.model={setting}") as d:
                own = spoken_words(live(d, sound, end, words=True))
                got = live(d, sound, end, **aligned)
                assert spoken_words(got) == own and len(own) == 14, (got, own)
                assert len(got[-1]["warnings"]) == 1 and got[-1]["warnings"][0].startswith("word_times: words have the times of digits-en: "), got[-1]
                assert why in got[-1]["warnings"][0], got[-1]
                got = live(d, sound, {"type": "CloseStream"}, where="/v1/listen?encoding=linear16&sample_rate=8000&word_times=aligned")
                assert why in got[-1]["warnings"][0]["message"], got[-1]
                assert d.output().count("word_times: ") == 2, d.output()  # a line for each session


@case
def a_segment_longer_than_what_is_kept_has_its_own_times():
    with Stenod("align.model=digits-en") as d:
        x = np.frombuffer(pcm(DIGITS)[0], "<i2")
        sound = np.concatenate([x, np.zeros(8000 * 62, "<i2"), x]).tobytes()
        got = live(d, sound, {"type": "end"}, word_times="aligned", endpointing=False)
        assert len(spoken_words(got)) == 14 and "a segment is longer than 57 s" in got[-1]["warnings"][0], got[-1]
        got = live(d, sound, {"type": "end"}, word_times="aligned")  # the pause is none of a segment's
        assert len(spoken_words(got)) == 14 and "warnings" not in got[-1], got[-1]
        same_times([(w, a - 62 - len(x) / 8000, b - 62 - len(x) / 8000) for w, a, b in spoken_words(got)[7:]], spoken_words(got)[:7], 0.04)


@case
def whispers_live_finals_are_aligned():
    tiny = whisper_tiny()
    with tempfile.TemporaryDirectory() as models:
        os.symlink(MODEL, os.path.join(models, "digits"))
        with Stenod(f"model.dir={tiny}", f"models.dir={models}", "align.model=en=digits") as d:
            got = live(d, pcm(DIGITS)[0], {"type": "end"}, word_times="aligned")
            text = " ".join(m["text"] for m in got if m["type"] == "final")
            assert "warnings" not in got[-1] and text, got
            same_times(spoken_words(got), [(w, a, b) for a, b, _, w in lines(text)])


@case
def clients_may_leave_while_words_are_aligned():
    sound = twice_with_silence()
    with Stenod("align.model=digits-en", "pool.threads=1") as d:  # which recognizes, too: a worker that waited for itself would stop
        for n in range(40):
            with connect(f"ws://127.0.0.1:{d.port}/v1/stream?sample_rate=8000&word_times=aligned", **OPEN) as ws:
                ws.send(sound[:40000 + 1000 * n])
                ws.send('{"type":"finalize"}')
                if n % 2:
                    json.loads(ws.recv(timeout=60 * SLOW))
        assert len(spoken_words(live(d, sound, {"type": "end"}, word_times="aligned"))) == 14
        d.wait_idle()


@case
def examples_of_the_page_run():
    with open(os.path.join(ROOT, "docs", "align.md"), encoding="utf-8") as f:
        examples = [line.strip() for line in f if line.startswith(("    steno ", "    curl "))]
    assert len(examples) == 5, examples
    with tempfile.TemporaryDirectory() as folder, Stenod("align.model=digits-en") as d:
        os.symlink(DIGITS, os.path.join(folder, "talk.wav"))
        os.symlink(MODEL, os.path.join(folder, "digits-en"))
        with open(os.path.join(folder, "script.txt"), "w", encoding="utf-8") as f:
            f.write(DIGITS_TEXT + "\n")
        for line in examples:
            p = subprocess.run(["sh", "-c", line.replace("http://127.0.0.1:8080", d.url)], cwd=folder, capture_output=True,
                               env={**os.environ, "PATH": BUILD + os.pathsep + os.environ["PATH"]})
            assert p.returncode == 0 and b"seven" in p.stdout, (line, p)


@case
def every_family_with_ctc_aligns():
    """Random weights: words and their order, not their places."""
    toys = need(os.path.join(SHARED, "zoo", "tiny"))
    text = "hello 12 你好 привет\nworld."
    for name in ("dolphin-ctc", "fire-red-asr-ctc", "giga-am-v2-ctc", "medasr-ctc", "nemo-fastconformer-ctc-streaming", "omnilingual-ctc",
                 "sense-voice", "t-one", "telespeech-ctc", "wenet-ctc-streaming", "zipformer2-ctc-offline", "zipformer2-ctc-streaming"):
        got = lines(text, model=os.path.join(toys, name))
        assert [w for *_, w in got] == ["hello", "12", "你", "好", "привет", "world."], (name, got)
        times = [t for g in got for t in g[:2]]
        assert times == sorted(times) and 0 <= times[0] and times[-1] < 6, (name, got)
    for name in ("zipformer2-transducer-offline", "paraformer-offline", "moonshine-v1"):
        p = align(text, model=os.path.join(toys, name))
        assert p.returncode != 0 and b"gives no scores of CTC" in p.stderr, (name, p.stderr)


def edges(x, rate):
    """Where a take begins and ends, by its energy: frames of 5 ms over half a percent of the loudest one."""
    n = rate // 200
    e = np.array([np.mean(x[i:i + n].astype(float) ** 2) for i in range(0, len(x) - n + 1, n)])
    on = np.flatnonzero(e > e.max() * 0.005)
    return on[0] * n, (on[-1] + 1) * n


def string_of_digits(rng, noise, takes):
    """4 to 8 takes of one speaker with pauses of 0.12 to 0.7 s between: samples, [(word, start, end)]."""
    parts, truth, at = [noise.normal(0, 6, int(8000 * rng.uniform(0.3, 1)))], [], 0
    at = len(parts[0])
    for _ in range(rng.randint(4, 8)):
        path = rng.choice(takes)
        with wave.open(path) as w:
            y = np.frombuffer(w.readframes(w.getnframes()), "<i2")
        a, b = edges(y, 8000)
        truth.append((WORDS[int(os.path.basename(path)[0])], (at + a) / 8000, (at + b) / 8000))
        pause = noise.normal(0, 6, int(8000 * rng.uniform(0.12, 0.7)))
        parts += [y + noise.normal(0, 6, len(y)), pause]
        at += len(y) + len(pause)
    return np.clip(np.concatenate(parts), -32768, 32767).astype("<i2"), truth


@case
def boundaries_of_words_are_those_of_the_sound():
    """docs/align.md has 57 ms over 60 strings."""
    folder = need(os.path.join(SHARED, "audio", "fsdd"))
    rng, noise = random.Random(11), np.random.default_rng(11)
    files = sorted(glob.glob(os.path.join(folder, "*.wav")))
    errors = []
    for k in range(20):
        speaker = ("george", "jackson", "lucas", "nicolas", "yweweler")[k % 5]
        x, truth = string_of_digits(rng, noise, [f for f in files if f"_{speaker}_" in f])
        with tempfile.NamedTemporaryFile(suffix=".wav") as f:
            f.write(wav(x.tobytes(), 8000))
            f.flush()
            got = lines(" ".join(w for w, *_ in truth), recording=f.name)
        errors += [abs(g[i] - t[1 + i]) for g, t in zip(got, truth) for i in (0, 1)]
    median = statistics.median(errors)
    assert median < 0.07, f"median {1000 * median:.0f} ms over {len(errors)} boundaries"


if __name__ == "__main__":
    raise SystemExit(tap())
