"""Recordings of two speakers: in every dialect each word has the right one. The networks are toys (toy_speakers.py), so the
turns are exact; with real ones, where ../shared has them, the command and the server agree."""
import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import toy_speakers as toy
from daemon import (BUILD, DIGITS, DIGITS_TEXT, OPEN, ROOT, SAN, SHARED, SLOW, Skip, Stenod, case, client, converse, eventually, need, pcm, tap,
                    wav)

WORDS = DIGITS_TEXT.split()
_SAMPLES, _RATE = pcm()
_LOW = np.frombuffer(_SAMPLES, "<i2")  # 8 kHz have no room for the notes
LINES = [(0, WORDS), (1, WORDS), (0, WORDS)]  # what is said in DIALOGUE
DIALOGUE = toy.dialogue(_LOW, _RATE, [speaker for speaker, _ in LINES])
MONO = wav(DIALOGUE.tobytes(), toy.RATE)
OTHER = toy.dialogue(_LOW, _RATE, [1])
STEREO = wav(np.stack([DIALOGUE, np.pad(OTHER, (0, len(DIALOGUE) - len(OTHER)))], 1).tobytes(), toy.RATE, 2)
FOLDER = tempfile.mkdtemp(prefix="steno-toy-speakers-")


def post(d, path, body=MONO):
    code, headers, text = d.request("POST", path, body, {"Content-Type": "audio/wav"})
    assert code == 200, (code, text)
    return headers, text.decode()


def form(d, path="/v1/audio/transcriptions", body=MONO, field="file", **fields):
    pairs = [(k, x) for k, v in fields.items() for x in (v if isinstance(v, list) else [v])]
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in pairs]
    parts += [f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'.encode(), body, b"\r\n--x--\r\n"]
    code, headers, text = d.request("POST", path, b"".join(parts), {"Content-Type": "multipart/form-data; boundary=x"})
    return code, headers, text.decode()


def good(answer):
    assert answer[0] == 200, answer
    return answer[2]


def lines(said):
    """Join what follows each other of one speaker: [(speaker, words)]."""
    out = []
    for speaker, text in said:
        if not out or out[-1][0] != speaker:
            out.append((speaker, []))
        out[-1][1].extend(text.split())
    return out


def said_by(*names):
    return [(names[speaker], words) for speaker, words in LINES]


@case
def the_native_answer_has_the_speaker_of_each_segment(d):
    got = json.loads(post(d, "/v1/transcribe?diarize=true")[1])
    assert got["speakers"] == 2 and "warnings" not in got, got
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by(1, 2), got
    text = post(d, "/v1/transcribe?diarize=true&format=text")[1]
    assert text == "".join(f"Speaker {n + 1}: {' '.join(words)}\n" for n, words in LINES), text
    assert post(d, "/v1/transcribe?diarize=true&format=vtt")[1].count("<v Speaker 2>") >= 1
    assert "\nSpeaker 1: " in post(d, "/v1/transcribe?diarize=true&format=srt")[1]
    plain = json.loads(post(d, "/v1/transcribe?diarize=false")[1])
    assert "speakers" not in plain and plain["text"] == got["text"] and "speaker" not in plain["segments"][0], plain


@case
def audio_and_time_of_speakers_are_counted(d):
    names = ("steno_speakers_audio_seconds_total", "steno_speakers_cpu_seconds_total")
    heard, took = map(d.metric, names)
    post(d, "/v1/transcribe")
    assert [heard, took] == list(map(d.metric, names))
    post(d, "/v1/transcribe?diarize=true")
    assert abs(d.metric(names[0]) - heard - len(DIALOGUE) / toy.RATE) < 0.01 and d.metric(names[1]) > took
    assert eventually(lambda: d.metric("steno_speakers_running") == 0)


@case
def a_given_number_of_speakers_is_met(d):
    for query, n in (("num_speakers=1", 1), ("max_speakers=1", 1), ("num_speakers=2", 2), ("min_speakers=2&max_speakers=5", 2)):
        assert json.loads(post(d, f"/v1/transcribe?diarize=true&{query}")[1])["speakers"] == n, query
    for query, param in (("num_speakers=2", "num_speakers"), ("diarize=true&num_speakers=0", "num_speakers"), ("diarize=perhaps", "diarize"),
                         ("diarize=true&min_speakers=3&max_speakers=2", "min_speakers"), ("diarize=true&max_speakers=1001", "max_speakers")):
        code, _, text = d.request("POST", f"/v1/transcribe?{query}", MONO, {"Content-Type": "audio/wav"})
        error = json.loads(text)["error"]
        assert code == 400 and error["param"] == param and error["message"].startswith(param + ":"), (query, text)


@case
def channels_stay_channels_and_speakers_are_numbered_through(d):
    got = json.loads(post(d, "/v1/transcribe?diarize=true&multichannel=true", STEREO)[1])
    assert got["speakers"] == 3 and got["channels"] == 2, got
    assert {(s["channel"], s["speaker"]) for s in got["segments"]} == {(1, 1), (1, 2), (2, 3)}, got
    channels = json.loads(post(d, "/v1/listen?diarize=true&multichannel=true", STEREO)[1])["results"]["channels"]
    assert [{w["speaker"] for w in c["alternatives"][0]["words"]} for c in channels] == [{0, 1}, {2}], channels


@case
def verbose_json_has_the_speaker_of_words_and_segments(d):
    fields = {"response_format": "verbose_json", "diarize": "true"}
    got = json.loads(good(form(d, **fields)))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("A", "B"), got
    got = json.loads(good(form(d, **fields, **{"timestamp_granularities[]": "word"})))
    assert lines((w["speaker"], w["word"]) for w in got["words"]) == said_by("A", "B"), got
    assert good(form(d, response_format="text", diarize="true")).startswith("Speaker 1: ")
    assert "speaker" not in good(form(d, response_format="verbose_json"))


@case
def diarized_json_is_of_voices(d):
    got = json.loads(good(form(d, response_format="diarized_json", chunking_strategy="auto")))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("A", "B"), got
    assert got["text"].startswith("A: ") and "\nB: " in got["text"] and got["task"] == "transcribe", got


def reference(speaker, seconds=6):
    samples = toy.dialogue(_LOW, _RATE, [speaker])[:int(seconds * toy.RATE)]
    return "data:audio/wav;base64," + base64.b64encode(wav(samples.tobytes(), toy.RATE)).decode()


def known(names, references, **fields):
    return {"response_format": "diarized_json", "known_speaker_names[]": names, "known_speaker_references[]": references, **fields}


@case
def known_speakers_have_their_names(d):
    both = known(["Zoë <2>", "Ann"], [reference(1), reference(0)])
    got = json.loads(good(form(d, **both)))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("Ann", "Zoë <2>"), got
    assert got["text"].startswith("Ann: ") and "\nZoë <2>: " in got["text"] and "warning" not in got, got
    told = [json.loads(x[6:]) for x in good(form(d, **both, stream="true")).splitlines() if x.startswith("data: {")]
    assert lines((e["speaker"], e["text"]) for e in told if e["type"] == "transcript.text.segment") == said_by("Ann", "Zoë <2>"), told
    words = json.loads(good(form(d, **{**both, "response_format": "verbose_json"}, diarize="true")))["segments"]
    assert {s["speaker"] for s in words} == {"Ann", "Zoë <2>"}, words
    assert "\nZoë <2>: " in good(form(d, **{**both, "response_format": "text"}, diarize="true"))
    assert "\nAnn: " in good(form(d, **{**both, "response_format": "srt"}, diarize="true"))
    assert "<v Zoë &lt;2&gt;>" in good(form(d, **{**both, "response_format": "vtt"}, diarize="true"))


@case
def others_than_the_known_speakers_have_letters(d):
    got = json.loads(good(form(d, **known("Bob", reference(1)))))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("A", "Bob"), got
    silence = "data:audio/wav;base64," + base64.b64encode(wav(bytes(2 * toy.RATE * 4), toy.RATE)).decode()
    got = json.loads(good(form(d, **known(["Bob", "Eve"], [reference(1), silence]))))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("A", "Bob"), got
    assert "number 2 has too little speech" in json.dumps(got), got


@case
def known_speakers_that_cannot_be_are_refused(d):
    ref = reference(1, 3)
    for fields, param, message in (
            (known("Ann", []), "known_speaker_names", "known_speaker_references"),
            (known([], ref), "known_speaker_references", "1, but 0"), (known(["a", "b"], ref), "known_speaker_references", "1, but 2"),
            (known(list("abcde"), [ref] * 5), "known_speaker_references", "more than 4"),
            (known("a", "http://x/a.wav"), "known_speaker_references", "data URL"),
            (known("a", "data:audio/wav;base64,AA*A"), "known_speaker_references", "character 24"),
            (known("a", "data:audio/wav;base64," + "A" * 9999), "known_speaker_references", "recognised audio format"),
            (known("a", reference(1) [:22] + base64.b64encode(wav(bytes(2 * toy.RATE * 16), toy.RATE)).decode()), "known_speaker_references", "15"),
            (known("a", "data:audio/wav;base64," + "A" * (9 << 20)), "known_speaker_references", "longer than"),
            (known("a", ref, multichannel="true"), "known_speaker_references", "multichannel"),
            (known("a", ref, response_format="json"), "known_speaker_references", "diarize")):
        code, _, text = form(d, **fields)
        assert code in (400, 413) and json.loads(text)["error"]["param"] == param and message in text, (fields.keys(), param, message, code, text)
    code, _, text = form(d, "/v1/jobs", **known("a", ref))
    assert code == 400 and "known_speaker_references" in text, text


def enroll(d, name, seconds=6, speaker=0, key=None, body=None):
    sound = toy.dialogue(_LOW, _RATE, [speaker] * (1 + int(seconds) // 6))[:int(seconds * toy.RATE)]
    parts = (f'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n{name}\r\n'
             '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n').encode() + (body or wav(sound.tobytes(), toy.RATE))
    headers = {"Content-Type": "multipart/form-data; boundary=x", **({"Authorization": f"Bearer {key}"} if key else {})}
    code, _, text = d.request("POST", "/v1/speakers", parts + b"\r\n--x--\r\n", headers)
    return code, json.loads(text)


@case
def enrolled_speakers_have_their_names(_d):
    one, two = "one-of-the-callers-1", "two-of-the-callers-2"
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys, tempfile.TemporaryDirectory() as store:
        keys.write(f"[a.b]\nkey = {one}\n[..]\nkey = {two}\n")
        keys.flush()
        with Stenod(f"speakers.model={FOLDER}", f"speakers.store={store}", f"auth.keys={keys.name}", f"jobs.dir={FOLDER}/keyed",
                    "log.level=debug") as d:
            def ask(method, path, key=one, body=None):
                return d.request(method, path, body, {"Authorization": f"Bearer {key}", "Content-Type": "audio/wav"})

            def names(key=one):
                return [x["name"] for x in json.loads(ask("GET", "/v1/speakers", key)[2])["data"]]

            def said(key=one):
                return lines(x.split(": ") for x in ask("POST", "/v1/transcribe?diarize=true&format=text", key, MONO)[2].decode().splitlines())
            assert names() == []
            code, got = enroll(d, "Zoë <2>", speaker=1, key=one)
            assert code == 200 and got["name"] == "Zoë <2>" and got["known"] and 3 < got["seconds"] <= 6, got
            assert enroll(d, "Ann", key=one)[0] == 200 and enroll(d, "Ann", 4, key=one)[0] == 200
            assert names() == ["Ann", "Zoë <2>"] and names(two) == []
            assert said() == said_by("Ann", "Zoë <2>") and said(two) == said_by("Speaker 1", "Speaker 2"), (said(), said(two))
            job = json.loads(ask("POST", "/v1/jobs?diarize=true", body=MONO)[2])["id"]
            assert eventually(lambda: json.loads(ask("GET", f"/v1/jobs/{job}")[2])["state"] == "done", 60 * SLOW)
            got = json.loads(ask("GET", f"/v1/jobs/{job}/result")[2])
            assert lines((s["speaker_name"], s["text"]) for s in got["segments"]) == said_by("Ann", "Zoë <2>"), got
            turns = [t for m in live(d, f"&api_key={one}").messages if m["type"] == "final" for t in m.get("turns", [])]
            assert lines((t["name"], t["text"]) for t in turns) == said_by("Ann", "Zoë <2>"), turns
            turns = [t for m in live(d, f"&api_key={two}").messages if m["type"] == "final" for t in m.get("turns", [])]
            assert turns and not any("name" in t for t in turns), turns
            assert ask("DELETE", "/v1/speakers/Zo%C3%AB%20%3C2%3E", two)[0] == 404
            assert ask("DELETE", "/v1/speakers/Zo%C3%AB%20%3C2%3E")[0] == 204 and names() == ["Ann"]
            assert said() == said_by("Ann", "Speaker 2"), said()
            secret = json.loads(ask("POST", "/v1/realtime/client_secrets", body=b"{}")[2])["value"]
            for method, path in (("GET", "/v1/speakers"), ("DELETE", "/v1/speakers/Ann")):
                assert ask(method, path, secret)[0] == 401
            assert enroll(d, "Eve", key=secret)[0] == 401 and enroll(d, "Eve")[0] == 401
            assert os.listdir(store) == ["key-a.b"] and os.stat(f"{store}/key-a.b").st_mode & 0o777 == 0o700
            assert os.stat(f"{store}/key-a.b/Ann.voice").st_mode & 0o777 == 0o600
            assert d.metric('steno_sessions_total{api="speakers",result="ok"}') == 3
            shown = d.output() + d.get("/metrics")[2].decode()
            assert "Ann" not in shown and "Zo" not in shown, "a name is in the log or the metrics"


@case
def an_enrolment_that_cannot_be_is_refused(d):
    code, got = enroll(d, "Ann")
    assert code == 404 and "speakers.store" in got["error"]["message"], got
    silence = wav(bytes(2 * toy.RATE), toy.RATE)
    with tempfile.TemporaryDirectory() as store:
        with Stenod(f"speakers.model={FOLDER}", f"speakers.store={store}") as own:
            for args, word, param in ((("",), "name: 1 to 64", "name"), (("x" * 65,), "name: 1 to 64", "name"), ((" a",), "blanks", "name"),
                                      (("a", 6, 0, None, b"no sound"), "format", "file"), (("a", .4), "clear speech", "file"),
                                      (("a", 6, 0, None, silence), "clear speech", "file")):
                code, got = enroll(own, *args)
                assert code == 400 and word in got["error"]["message"] and got["error"]["param"] == param, (args[0], got)
            assert own.request("POST", "/v1/speakers", MONO, {"Content-Type": "audio/wav"})[0] == 415
            assert not os.listdir(store)
            code, got = enroll(own, "Ann", 90)
            assert code == 200 and os.listdir(store) == ["open"]
            assert 30 <= got["seconds"] <= 60, got  # of the first minute; a second that several windows hear counts once
            os.chmod(f"{store}/open", 0o755)
            code, got = enroll(own, "Bob")
            assert code == 503 and got["error"]["code"] == "store_unavailable", got
            headers, text = post(own, "/v1/transcribe?diarize=true&format=text")  # the transcript is not lost
            assert "enrolled speakers could not be read" in headers["x-steno-warning"] and text.startswith("Speaker 1"), headers
        with Stenod("speakers.model=none", f"speakers.store={store}") as without:
            code, got = enroll(without, "Ann")
            assert code == 400 and "no networks" in got["error"]["message"], got
        os.chmod(store, 0o750)
        r = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config", "--set", f"speakers.store={store}"], capture_output=True, text=True,
                           check=False)
        assert r.returncode != 0 and "speakers.store" in r.stderr + r.stdout, r


@case
@client("openai", "diarized_json of voices, whole and streamed")
def openais_client_gets_the_speakers(d):
    try:
        from openai import OpenAI
    except ImportError as e:
        raise Skip(str(e)) from e
    calls = OpenAI(base_url=d.url + "/v1", api_key="none-is-asked-for-here").audio.transcriptions
    ask = dict(file=("a.wav", MONO), model="gpt-4o-transcribe-diarize", response_format="diarized_json")
    got = calls.create(**ask, chunking_strategy="auto")
    assert type(got).__name__ == "TranscriptionDiarized", got
    assert lines((s.speaker, s.text) for s in got.segments) == said_by("A", "B"), got
    got = calls.create(**ask, chunking_strategy="auto", known_speaker_names=["Ann"], known_speaker_references=[reference(0)])
    assert lines((s.speaker, s.text) for s in got.segments) == said_by("Ann", "A"), got
    events = list(calls.create(**ask, chunking_strategy={"type": "server_vad", "silence_duration_ms": 300}, stream=True))
    told = [e for e in events if type(e).__name__ == "TranscriptionTextSegmentEvent"]
    assert lines((s.speaker, s.text) for s in told) == said_by("A", "B"), events
    assert "".join(e.delta for e in events if e.type == "transcript.text.delta") == events[-1].text, events


@case
def deepgrams_words_utterances_and_paragraphs_have_speakers(d):
    for query in ("diarize=true&smart_format=true&numerals=true", "diarize_model=latest"):
        got = json.loads(post(d, f"/v1/listen?{query}&utterances=true&paragraphs=true")[1])
        assert "warnings" not in got["metadata"], got["metadata"]
        best = got["results"]["channels"][0]["alternatives"][0]
        assert {w["speaker"] for w in best["words"]} == {0, 1}, best
        assert all(0 < w["speaker_confidence"] <= 1 for w in best["words"]), best
        assert [u["speaker"] for u in got["results"]["utterances"]] == [0, 1, 0], got
        assert all(w["speaker"] == u["speaker"] for u in got["results"]["utterances"] for w in u["words"]), got
        assert [p["speaker"] for p in best["paragraphs"]["paragraphs"]] == [0, 1, 0], best
        assert best["paragraphs"]["transcript"].startswith("\nSpeaker 0: ") and "\n\nSpeaker 1: " in best["paragraphs"]["transcript"], best
    best = json.loads(post(d, "/v1/listen?diarize=true")[1])["results"]["channels"][0]["alternatives"][0]
    assert lines((w["speaker"], w["word"]) for w in best["words"]) == said_by(0, 1), best
    assert "speaker" not in post(d, "/v1/listen?diarize=false&utterances=true")[1]


@case
@client("deepgram-sdk", "uploads with diarize=true: speakers of words, utterances and paragraphs")
def deepgrams_own_client_gets_the_speakers(d):
    try:
        from deepgram import DeepgramClient
        from deepgram.environment import DeepgramClientEnvironment
    except ImportError as e:
        raise Skip(str(e)) from e
    environment = DeepgramClientEnvironment(base=d.url, production=d.ws, agent=d.ws)
    sdk = DeepgramClient(api_key="none-is-asked-for-here", environment=environment)
    got = sdk.listen.v1.media.transcribe_file(request=MONO, model="nova-3", diarize=True, utterances=True, paragraphs=True)
    assert [u.speaker for u in got.results.utterances] == [0, 1, 0], got
    assert lines((w.speaker, w.word) for u in got.results.utterances for w in u.words) == said_by(0, 1), got
    assert [p.speaker for p in got.results.channels[0].alternatives[0].paragraphs.paragraphs] == [0, 1, 0], got


@case
def whisper_asr_webservice_has_the_labels_of_whisperx(d):
    def ask(query):
        return good(form(d, f"/asr?{query}", field="audio_file"))
    got = json.loads(ask("output=json&diarize=True&min_speakers=&max_speakers=5&word_timestamps=true"))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("SPEAKER_00", "SPEAKER_01"), got
    assert all(w["speaker"] == s["speaker"] for s in got["segments"] for w in s["words"]), got
    assert ask("output=txt&diarize=true").splitlines()[0].startswith("[SPEAKER_00]: ")
    assert "[SPEAKER_01]: " in ask("output=tsv&diarize=true")
    assert "<v Speaker 2>" in ask("output=vtt&diarize=true")
    assert "SPEAKER" not in ask("output=txt&diarize=false&min_speakers=2")


@case
def whisper_cpps_speakers_are_voices_where_there_is_one_channel(d):
    got = json.loads(good(form(d, "/inference", response_format="verbose_json", diarize="true")))
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by("(speaker 0)", "(speaker 1)"), got
    got = json.loads(good(form(d, "/inference", STEREO, response_format="verbose_json", diarize="true")))
    assert {s["speaker"] for s in got["segments"]} == {"(speaker 0)", "(speaker 1)"}, got
    assert [len(s["text"].split()) for s in got["segments"]] == [21, 7], got  # a channel, whoever speaks


@case
def a_job_has_speakers(d):
    _, _, text = d.request("POST", "/v1/jobs?diarize=true&num_speakers=2", MONO, {"Content-Type": "audio/wav"})
    job = json.loads(text)["id"]
    assert eventually(lambda: json.loads(d.get(f"/v1/jobs/{job}")[2])["state"] == "done", 60 * SLOW), d.get(f"/v1/jobs/{job}")
    text = d.get(f"/v1/jobs/{job}/result")[2]
    got = json.loads(text)
    assert lines((s["speaker"], s["text"]) for s in got["segments"]) == said_by(1, 2), text
    code, _, text = d.request("POST", "/v1/jobs?num_speakers=2", MONO, {"Content-Type": "audio/wav"})
    assert code == 400 and json.loads(text)["error"]["param"] == "num_speakers", text


@case
def more_recordings_than_places_all_get_their_speakers(d):
    with ThreadPoolExecutor(12) as many:
        got = list(many.map(lambda _: json.loads(post(d, "/v1/transcribe?diarize=true")[1])["speakers"], range(12)))
    assert got == [2] * 12, got


@case
def a_client_that_leaves_ends_its_diarization(d):
    """It leaves when the last word has come: what follows are the speakers."""
    body = wav(np.tile(DIALOGUE, 4).tobytes(), toy.RATE)
    parts = "".join(f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'
                    for k, v in (("response_format", "diarized_json"), ("stream", "true")))
    form_ = (parts + '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n').encode() + body + b"\r\n--x--\r\n"
    head = ("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            f"Content-Length: {len(form_)}\r\n\r\n")
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", d.port), 60 * SLOW) as s:
            s.sendall(head.encode() + form_)
            got = b""
            while got.count(WORDS[-1].encode()) < 4 * len(LINES):
                more = s.recv(65536)
                assert more, got
                got += more
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # not only half closed
    d.wait_idle()
    assert json.loads(post(d, "/v1/transcribe?diarize=true")[1])["speakers"] == 2


@case
def without_networks_a_warning_says_what_is_missing(_d):
    with Stenod("speakers.model=none") as d:
        got = json.loads(post(d, "/v1/transcribe?diarize=true")[1])
        assert "speakers.model" in got["warnings"][0] and "speakers" not in got, got
        assert "speakers.model" in post(d, "/v1/transcribe?diarize=true&format=text")[0]["x-steno-warning"]
        meta = json.loads(post(d, "/v1/listen?diarize=true")[1])["metadata"]
        assert meta["warnings"][0]["parameter"] == "diarize" and "speakers.model" in meta["warnings"][0]["message"], meta
        assert "speakers.model" in good(form(d, response_format="verbose_json", diarize="true"))
        assert "speakers.model" in form(d, "/inference", diarize="true")[1]["x-steno-warning"]
        assert "speakers.model" in form(d, "/asr?diarize=true", field="audio_file")[1]["x-steno-warning"]
        code, _, text = form(d, response_format="diarized_json")
        assert code == 400 and "speakers.model" in json.loads(text)["error"]["message"], text


def live(d, query="", path="/v1/stream", step=6400, end='{"type":"end"}', samples=DIALOGUE):
    data = samples.tobytes()
    return converse(f"ws://127.0.0.1:{d.port}{path}?diarize=true&sample_rate={toy.RATE}{query}",
                    [data[i:i + step] for i in range(0, len(data), step)] + [end])


@case
def finals_of_a_live_session_say_who_speaks(d):
    for step, query in ((6400, ""), (333332, "&interim=false"), (6400, "&words=false"), (6400, "&max_speakers=2&alternatives=2")):
        got = live(d, query, step=step)
        assert got.code == 1000 and got.messages[0]["diarize"], got
        finals = [m for m in got.messages if m["type"] == "final" and m["text"]]
        assert lines((t["speaker"], t["text"]) for f in finals for t in f["turns"]) == said_by(1, 2), (step, query, finals)
        assert all(" ".join(t["text"] for t in f["turns"]) == f["text"] for f in finals), finals
        assert [m["seq"] for m in got.messages] == sorted(m["seq"] for m in got.messages)
        if "words" not in query:
            assert lines((w["speaker"], w["word"]) for f in finals for w in f["words"]) == said_by(1, 2), finals
    d.becomes("steno_speakers_running", 0)
    plain = converse(f"ws://127.0.0.1:{d.port}/v1/stream?sample_rate={toy.RATE}", [DIALOGUE.tobytes(), {"type": "end"}])
    assert "turns" not in json.dumps(plain.messages) and "speaker" not in json.dumps(plain.messages), plain


@case
def every_finalize_is_answered_with_speakers(d):
    third = len(DIALOGUE) // 3
    messages = [m for i in range(3) for m in (DIALOGUE[i * third:(i + 1) * third].tobytes(), {"type": "finalize"})]
    got = converse(f"ws://127.0.0.1:{d.port}/v1/stream?diarize=true&endpointing=false&sample_rate={toy.RATE}", messages + [{"type": "end"}])
    finals = [m for m in got.messages if m["type"] == "final" and m["reason"] == "request"]
    assert lines((t["speaker"], t["text"]) for f in finals for t in f.get("turns", [])) == said_by(1, 2), got.messages
    assert len(finals) == 3 and got.messages[-1]["type"] == "end" and got.code == 1000, got.messages


@case
def deepgrams_live_words_have_speakers(d):
    got = live(d, "&encoding=linear16", "/v1/listen", end='{"type":"CloseStream"}').messages
    words = [w for m in got if m["type"] == "Results" for w in m["channel"]["alternatives"][0]["words"]]
    assert lines((w["speaker"], w["word"]) for w in words) == said_by(0, 1), got
    assert "warnings" not in got[-1], got[-1]
    both = live(d, "&encoding=linear16&multichannel=true&channels=2", "/v1/listen", end='{"type":"CloseStream"}').messages
    assert [w["parameter"] for w in both[-1]["warnings"]] == ["diarize"] and '"speaker"' not in json.dumps(both), both


@case
def a_live_session_that_cannot_have_speakers_is_told_why(d):
    for query, path, want in (("&multichannel=true&channels=2", "/v1/stream", "multichannel"), ("", "/wenet", "diarize"),
                              ("&max_speakers=33", "/v1/stream", "max_speakers"), ("&diarize=false&max_speakers=2", "/v1/stream", "max_speakers")):
        got = live(d, query, path, samples=DIALOGUE[:toy.RATE])
        assert want in json.dumps(got.messages[-1]) and got.code != 1000, (query, path, got)
    with Stenod("speakers.model=none") as other:
        got = live(other, samples=DIALOGUE[:toy.RATE])
        assert got.messages[-1]["type"] == "error" and "speakers.model" in got.messages[-1]["message"], got
        got = live(other, "&encoding=linear16", "/v1/listen", end='{"type":"CloseStream"}').messages
        assert "speakers.model" in got[-1]["warnings"][0]["message"], got[-1]


@case
def a_live_session_beyond_the_places_is_refused(d):
    from websockets.sync.client import connect
    where = f"ws://127.0.0.1:{d.port}/v1/stream?diarize=true&sample_rate={toy.RATE}"
    with contextlib.ExitStack() as open_:
        for _ in range(16):
            ws = open_.enter_context(connect(where, **OPEN))
            ws.send(b"\0" * 320)
            assert json.loads(ws.recv(timeout=60 * SLOW))["type"] == "ready"
        got = live(d, samples=DIALOGUE[:toy.RATE])
        assert got.messages[-1]["code"] == "busy" and "speakers.threads" in got.messages[-1]["message"], got
    d.wait_idle()
    assert live(d).code == 1000


@case
def a_bad_directory_is_an_error_at_start(_d):
    r = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config", "--set", f"speakers.model={FOLDER}/absent"], capture_output=True,
                       text=True, check=False)
    assert r.returncode != 0 and "speakers.model" in r.stderr + r.stdout, r


@case
def a_network_of_short_windows_is_refused(_d):
    with tempfile.TemporaryDirectory() as folder:
        toy.segmentation(f"{folder}/segmentation.onnx", window=toy.RATE)
        toy.embedding(f"{folder}/embedding.onnx")
        for more in ([], ["--live"]):
            r = subprocess.run([os.path.join(BUILD, "steno"), "speakers", "--model", folder, *more, DIGITS], capture_output=True, text=True)
            assert r.returncode == 65 and "shorter than 2.5 s" in r.stderr, r


@case
def the_command_tells_speakers_as_if_live(_d):
    path = os.path.join(FOLDER, "dialogue.wav")
    with open(path, "wb") as f:
        f.write(MONO)
    command = [os.path.join(BUILD, "steno"), "speakers", "--model", FOLDER, "--format", "json", path]
    whole, live = (json.loads(subprocess.run(command + more, capture_output=True, text=True, check=True).stdout) for more in ([], ["--live"]))
    assert live["speakers"] == 2 and live["duration"] == whole["duration"], (whole, live)
    assert [t["speaker"] for t in live["turns"]] == [t["speaker"] for t in whole["turns"]] == [1, 2, 1], (whole, live)
    for a, b in zip(live["turns"], whole["turns"]):
        assert abs(a["start"] - b["start"]) < 0.1 and abs(a["end"] - b["end"]) < 0.1, (a, b)
    r = subprocess.run(command + ["--live", "--speakers", "2"], capture_output=True, text=True, check=False)
    assert r.returncode == 64 and "--live: not together with" in r.stderr, r


@case
def the_command_names_known_speakers(_d):
    def save(name, data):
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as f:
            f.write(data)
        return path
    path, silence = save("dialogue.wav", MONO), save("silence.wav", wav(bytes(2 * toy.RATE), toy.RATE))
    low = save("low=er.wav", wav(toy.dialogue(_LOW, _RATE, [0]).tobytes(), toy.RATE))
    command = [os.path.join(BUILD, "steno"), "transcribe", "--model", os.path.join(ROOT, "conf", "models", "digits-en"), path]
    ask = ["--speakers", "auto", "--speaker-model", FOLDER]
    r = subprocess.run(command + ask + ["--known", f"Ann Lee={low}"], capture_output=True, text=True, check=True)
    assert [x.split(":")[0] for x in r.stdout.splitlines()] == ["Ann Lee", "Speaker 2", "Ann Lee"], r
    for more, message in ((["--known", "Ann"], "--known needs --speakers"), (ask + ["--known", "Ann"], "NAME=FILE"),
                                (ask + ["--known", f"Eve={silence}"], "clear speech"), (ask + ["--known", "A=/absent"], "/absent")):
        r = subprocess.run(command + more, capture_output=True, text=True, check=False)
        assert r.returncode != 0 and message in r.stderr and not r.stdout, r


@case
def the_command_names_enrolled_speakers(_d):
    def run(*args):
        return subprocess.run([os.path.join(BUILD, "steno"), *args], capture_output=True, text=True, check=False)
    paths = {}
    for name, data in (("dialogue", MONO), ("low", wav(toy.dialogue(_LOW, _RATE, [0]).tobytes(), toy.RATE)), ("high", wav(OTHER.tobytes(), toy.RATE))):
        paths[name] = os.path.join(FOLDER, f"{name}.wav")
        with open(paths[name], "wb") as f:
            f.write(data)
    data = os.path.join(FOLDER, "data", "of", "a", "user")  # other users read models there
    r = subprocess.run([os.path.join(BUILD, "steno"), "speaker", "list"], env={**os.environ, "STENO_DATA": data}, capture_output=True, text=True, check=True)
    assert not r.stdout and not os.path.exists(data), r
    r = subprocess.run([os.path.join(BUILD, "steno"), "speaker", "enroll", "--model", FOLDER, "Ann", paths["low"]], env={**os.environ, "STENO_DATA": data},
                       capture_output=True, text=True, check=True)
    assert os.listdir(data + "/voices") == ["Ann.voice"] and [os.stat(data + x).st_mode & 0o777 for x in ("", "/voices")] == [0o755, 0o700], r
    place = ["--enrolled", os.path.join(FOLDER, "people")]
    for name, sound in (("Ann Lee", "low"), ("Zoë", "high")):
        r = run("speaker", "enroll", "--model", FOLDER, *place, name, paths[sound], paths[sound])
        assert r.returncode == 0 and r.stdout.startswith(name + "\t"), r
    r = run("speaker", "list", "--model", FOLDER, *place)
    assert [x.split("\t")[0] for x in r.stdout.splitlines()] == ["Ann Lee", "Zoë"] and "again" not in r.stdout, r
    speakers = ["speakers", "--model", FOLDER, paths["dialogue"]]
    r = run(*speakers, *place)
    assert [x.split()[7] for x in r.stdout.splitlines()] == ["Ann_Lee", "Zoë", "Ann_Lee"], r
    turns = json.loads(run(*speakers, *place, "--format", "json").stdout)["turns"]
    assert [(t["speaker"], t["name"]) for t in turns] == [(1, "Ann Lee"), (2, "Zoë"), (1, "Ann Lee")], turns
    transcribe = ["transcribe", "--model", os.path.join(ROOT, "conf", "models", "digits-en"), paths["dialogue"]]
    r = run(*transcribe, "--speakers", "auto", "--speaker-model", FOLDER, *place)
    assert [x.split(":")[0] for x in r.stdout.splitlines()] == ["Ann Lee", "Zoë", "Ann Lee"], r
    assert [x.split()[7] for x in run(*speakers, *place, "--live").stdout.splitlines()] == ["Ann_Lee", "Zoë", "Ann_Lee"]
    assert run("speaker", "delete", *place, "Zoë").returncode == 0
    assert [x.split()[7] for x in run(*speakers, *place).stdout.splitlines()] == ["Ann_Lee", "SPEAKER_01", "Ann_Lee"]
    assert [x.split()[7] for x in run(*speakers, "--enrolled", "none").stdout.splitlines()] == ["SPEAKER_00", "SPEAKER_01", "SPEAKER_00"]
    for args, message in ((("speaker", "delete", *place, "Zoë"), "nobody of this name"), (("speaker", "enroll", *place, "A"), "recordings are needed"),
                                    (("speaker", "enroll", "--model", FOLDER, *place, "A", "/absent"), "/absent"),
                                    (("speaker", "enroll", "--model", FOLDER, *place, "A\n", paths["low"]), "name:"),
                                    (("speaker", "keep"), "enroll, list, delete"), ((*transcribe, *place), "--enrolled needs --speakers")):
        r = run(*args)
        assert r.returncode != 0 and message in r.stderr and not r.stdout, (args, r)


@case
def the_command_and_the_server_agree(_d):
    need(os.path.join(SHARED, "speakers"))
    if SAN:
        raise Skip("the plain build compares; the unit tests run these networks, those above the toys on the same ways")
    models, path = (os.path.join(SHARED, "speakers", p) for p in ("models", "recordings/phone.flac"))
    r = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--speakers", "auto", "--speaker-model", models, path], capture_output=True,
                       text=True, check=True)
    with Stenod(f"speakers.model={models}") as d, open(path, "rb") as f:
        got = post(d, "/v1/transcribe?diarize=true&format=text", f.read())[1]
    assert got == r.stdout and got.startswith("Speaker 1: "), (got, r)


def main():
    try:
        toy.write(FOLDER)
        with Stenod(f"speakers.model={FOLDER}", f"jobs.dir={FOLDER}/jobs") as d:
            return tap(d)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
