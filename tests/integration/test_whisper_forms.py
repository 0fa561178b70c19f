"""The forms of whisper.cpp's server and of whisper-asr-webservice, as their clients send them: curl's examples of both READMEs,
Bazarr's provider. The models are digits-en, and Whisper's tiny.en and base where STENO_WHISPER_TINY_EN and STENO_WHISPER_BASE
(faster-whisper directories) exist. TAP."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import wave

import numpy as np

from daemon import DIGITS, DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, client, pcm, tap, wav

TINY = os.environ.get("STENO_WHISPER_TINY_EN") or os.path.join(ROOT, "build", "models", "tiny.en")
BASE = os.environ.get("STENO_WHISPER_BASE") or os.path.join(ROOT, "build", "models", "base")
SPEECH = os.path.join(ROOT, "tests", "data", "speech")
KENNEDY, CHINESE = os.path.join(SPEECH, "jfk.wav"), os.path.join(SPEECH, "chinese.wav")
SAMPLES, RATE = pcm()
WORDS = DIGITS_TEXT.split()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def at_16k(samples=np.frombuffer(SAMPLES, "<i2")):
    """What ffmpeg makes of the digits for Bazarr: s16le, 16 kHz, mono."""
    at = np.arange(len(samples) * 16000 // RATE) * RATE / 16000
    return np.interp(at, np.arange(len(samples)), samples).astype("<i2").tobytes()


def curl(d, path, *args):
    """(status, media type, text)"""
    r = subprocess.run(["curl", "-sS", "--max-time", str(60 * SLOW), "-w", "\n%{http_code} %{content_type}", *args, d.url + path],
                       capture_output=True, check=True)
    text, _, tail = r.stdout.decode().rpartition("\n")
    status, _, kind = tail.partition(" ")
    return int(status), kind, text


def infer(d, *fields, file=DIGITS):
    return curl(d, "/inference", *(x for f in fields for x in ("-F", f)), "-F", f"file=@{file}")


def asr(d, query="", file=DIGITS, path="/asr"):
    return curl(d, f"{path}?{query}", "-F", f"audio_file=@{file}")


def good(answer, kind=None):
    assert answer[0] == 200 and kind in (None, answer[1]), answer
    return answer[2]


def wrong(answer, member, status, says):
    """An error in the form of its API."""
    assert answer[0] == status and answer[1] == "application/json", answer
    body = json.loads(answer[2])
    assert list(body) == [member] and says in body[member], (says, body)


def times(text):
    return re.findall(r"^(\d+:\d\d:\d\d[.,]\d{3}) --> (\d+:\d\d:\d\d[.,]\d{3})$", text, re.M)


def joined(cues):
    """The words of SRT or VTT."""
    return re.sub(r"WEBVTT|^\d+$|^.* --> .*$", "", cues, flags=re.M).split()


# ---- whisper.cpp ----


@case
@client("curl", "the examples of whisper.cpp's server: /inference, /load", "Debian 12's")
def curl_sends_the_examples_of_whisper_cpp(d):
    got = curl(d, "/inference", "-H", "Content-Type: multipart/form-data", "-F", f"file=@{DIGITS}", "-F", "temperature=0.0", "-F",
               "temperature_inc=0.2", "-F", "response_format=json")
    body = json.loads(good(got, "application/json"))
    assert list(body) == ["text"] and body["text"].split() == WORDS and body["text"].endswith("\n"), body
    got = curl(d, "/load", "-H", "Content-Type: multipart/form-data", "-F", "model=/models/ggml-base.en.bin")
    wrong(got, "error", 400, "GET /v1/models")
    assert json.loads(good(curl(d, "/health")))["status"] == "ok"


@case
def every_format_of_inference_has_the_words(d):
    assert json.loads(good(infer(d), "application/json"))["text"].split() == WORDS
    assert good(infer(d, "response_format=text"), "text/plain; charset=utf-8").split() == WORDS
    srt, vtt = (good(infer(d, f"response_format={f}")) for f in ("srt", "vtt"))
    assert srt.startswith("1\n00:00:") and srt.endswith("\n\n") and joined(srt) == WORDS and "," in times(srt)[0][0], srt
    assert vtt.startswith("WEBVTT\n\n00:00:") and joined(vtt) == WORDS and "." in times(vtt)[0][0], vtt
    assert json.loads(good(infer(d, "response_format=xml")))["text"].split() == WORDS  # the server's default
    v = json.loads(good(infer(d, "response_format=verbose_json"), "application/json"))
    assert (v["task"], v["language"]) == ("transcribe", "english") and abs(v["duration"] - len(SAMPLES) / 2 / RATE) < 0.01, v
    words = [w for s in v["segments"] for w in s["words"]]
    assert "".join(w["word"] for w in words).split() == WORDS and all(0 < w["probability"] <= 1 for w in words), v
    assert all(set(s) == {"id", "text", "start", "end", "words", "tokens", "temperature", "avg_logprob", "no_speech_prob"} for s in v["segments"])
    assert all(s["start"] <= w["start"] <= w["end"] <= s["end"] + 1e-9 for s in v["segments"] for w in s["words"]), v


@case
def fields_of_inference_have_their_effects(d):
    one = good(infer(d, "response_format=srt", "max_len=1", "split_on_word=true", "offset_n=4"))
    assert re.findall(r"^\d+$", one, re.M) == [str(5 + i) for i in range(len(WORDS))] and joined(one) == WORDS, one
    plain = good(infer(d, "response_format=srt"))
    for cut in ("max_line_width=12", "max_words_per_line=2", "highlight_words=true"):  # ours, as in other forms
        assert good(infer(d, "response_format=srt", cut)) != plain, cut
    assert joined(good(infer(d, "response_format=srt", "max_line_width=12", "max_line_count=1"))) == WORDS
    assert max(map(len, good(infer(d, "response_format=srt", "max_len=9", "max_line_width=30")).splitlines()[2::4])) <= 9
    v = json.loads(good(infer(d, "response_format=verbose_json", "no_timestamps=true")))
    assert not any("start" in x for s in v["segments"] for x in (s, *s["words"])), v
    v = json.loads(good(infer(d, "response_format=verbose_json", "token_timestamps=false")))
    assert all("start" in s for s in v["segments"]) and not any("start" in w for s in v["segments"] for w in s["words"]), v
    v = json.loads(good(infer(d, "response_format=verbose_json", "duration=1500")))
    assert v["duration"] == 1.5 and 0 < len(v["text"].split()) < len(WORDS), v
    for ignored in ("best_of=2", "beam_size=-1", "entropy_thold=2.40", "no_speech_thold=0.6", "temperature=0.4", "from_the_future=x",
                    "prompt=digits", "language=", "language=auto", "language=en", "vad=true", "suppress_nst=true", "max_context=-1", "model=whisper-1"):
        assert json.loads(good(infer(d, ignored)))["text"].split() == WORDS, ignored


@case
def channels_are_speakers_with_diarize(d):
    left = np.frombuffer(SAMPLES, "<i2")
    stereo = np.stack([left, np.roll(left, RATE // 4)], 1)
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        f.write(wav(stereo.tobytes(), RATE, 2))
        f.flush()
        v = json.loads(good(infer(d, "response_format=verbose_json", "diarize=true", file=f.name)))
        assert {s["speaker"] for s in v["segments"]} == {"(speaker 0)", "(speaker 1)"}, v
        assert v["text"].count("(speaker 0)") == v["text"].count("(speaker 1)") > 0, v
    alone = json.loads(good(infer(d, "response_format=verbose_json", "diarize=true")))
    assert alone["text"].split() == WORDS and "speaker" not in alone["segments"][0], alone


@case
def errors_of_inference_are_a_text(d):
    wrong(curl(d, "/inference", "-F", "temperature=0"), "error", 400, "no 'file' field in the request")
    wrong(infer(d, "temperature=hot"), "error", 400, "temperature: 'hot' is not a number")
    wrong(infer(d, "offset_t=500"), "error", 400, "offset_t: only 0 is possible")
    wrong(infer(d, "language=de"), "error", 400, "language: the model 'digits-en'")
    wrong(infer(d, "model=mine"), "error", 404, "the model 'mine' does not exist")
    wrong(infer(d, "prompt=" + 9000 * "x"), "error", 400, "longer than 8192 bytes")
    wrong(infer(d, file=os.path.join(ROOT, "README.md")), "error", 400, "not a recognised audio format")
    wrong(infer(d, file="/dev/null"), "error", 400, "file: it is empty")
    wrong(curl(d, "/inference", "-d", "file=x"), "error", 415, "expected multipart/form-data")
    wrong(curl(d, "/inference"), "error", 405, "GET is not allowed here")


# ---- whisper-asr-webservice ----


@case
@client("curl", "the examples of whisper-asr-webservice: /asr, /detect-language", "Debian 12's")
def curl_sends_the_examples_of_whisper_asr_webservice(d):
    got = curl(d, "/asr?output=json", "-X", "POST", "-H", "content-type: multipart/form-data", "-F", f"audio_file=@{DIGITS}")
    v = json.loads(good(got, "text/plain; charset=utf-8"))
    assert list(v) == ["text", "segments", "language"] and v["text"].split() == WORDS and v["language"] == "en", v
    assert all(list(s) == ["id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob"]
               for s in v["segments"]), v
    got = json.loads(good(asr(d, path="/detect-language"), "application/json"))
    assert got == {"detected_language": "english", "language_code": "en", "confidence": 1}, got


@case
def every_output_of_asr_has_the_words(d):
    text = "text/plain; charset=utf-8"
    for query in ("", "output=txt", "output=text", "output=", "task=transcribe&encode=true&vad_filter=false&diarize=false&video_file=a.mkv"):
        assert good(asr(d, query), text).split() == WORDS, query
    srt, vtt, tsv = (good(asr(d, "output=" + o), text) for o in ("srt", "vtt", "tsv"))
    assert joined(srt) == joined(vtt) == WORDS and srt.endswith("\n\n") and vtt.startswith("WEBVTT\n\n"), (srt, vtt)
    head, *lines = tsv.splitlines()
    assert head == "start\tend\ttext" and " ".join(line.split("\t")[2] for line in lines).split() == WORDS, tsv
    assert all(int(line.split("\t")[0]) < int(line.split("\t")[1]) <= 6000 for line in lines), tsv
    v = json.loads(good(asr(d, "output=json&word_timestamps=True")))
    assert "".join(w["word"] for s in v["segments"] for w in s["words"]).split() == WORDS, v


@case
def the_answer_of_asr_has_the_files_name(d):
    for name, want in (("a.wav", "a.wav"), ('b "c"/\xe4.mp4', "b%20%22c%22%2F%C3%A4.mp4"), (100 * "\xe4" + ".mkv", 100 * "%C3%A4" + ".mkv"), ("", "audio")):
        quoted = name.replace('"', '\\"')
        body = f'--b\r\nContent-Disposition: form-data; name="audio_file"; filename="{quoted}"\r\n\r\n'.encode() + WAV + b"\r\n--b--\r\n"
        status, headers, _ = d.request("POST", "/asr?output=srt", body, {"Content-Type": "multipart/form-data; boundary=b"})
        assert status == 200 and headers["content-disposition"] == f'attachment; filename="{want}.srt"', (name, headers)
        assert headers["asr-engine"] == "steno" and headers["x-steno-model"] == "digits-en", headers


def as_bazarr(d, path, samples, **params):
    """Bazarr's provider (subliminal_patch/providers/whisperai.py): requests sends params and files={'audio_file': bytes}."""
    b = "0123456789abcdef0123456789abcdef"
    body = f'--{b}\r\nContent-Disposition: form-data; name="audio_file"; filename="audio_file"\r\n\r\n'.encode() + samples + \
        f"\r\n--{b}--\r\n".encode()
    status, headers, got = d.request("POST", path + "?" + urllib.parse.urlencode(params), body,
                                     {"User-Agent": "Subliminal/2.1.0", "Accept-Encoding": "gzip, deflate", "Accept": "*/*",
                                      "Connection": "keep-alive", "Content-Type": "multipart/form-data; boundary=" + b})
    return status, headers["content-type"], got.decode()


@case
@client("Bazarr: the Whisper provider", "raw samples to /asr and /detect-language", "bytes of its source")
def bazarr_gets_subtitles_of_samples(d):
    got = as_bazarr(d, "/asr", at_16k(), task="transcribe", language="en", output="srt", encode="false")
    assert joined(good(got)) == WORDS and len(times(got[2])) > 0, got
    got = as_bazarr(d, "/asr", at_16k(), task="transcribe", language="en", output="srt", encode="false", video_file="/films/A & B.mkv")
    assert joined(good(got)) == WORDS, got
    got = as_bazarr(d, "/detect-language", at_16k(), encode="false")
    assert json.loads(good(got))["language_code"] == "en", got
    wrong(as_bazarr(d, "/asr", at_16k(), task="translate", language="ja", output="srt", encode="false"), "detail", 400, "digits-en")


@case
def samples_are_samples_whatever_they_look_like(d):
    """The first bytes of MP3, Ogg, FLAC and MP4 are possible samples too."""
    for head in (b"\xff\xfb\x90\x64", b"OggS", b"fLaC", b"\x00\x00\x00\x20ftyp", b"ID3\x03"):
        got = as_bazarr(d, "/asr", head + at_16k(), output="txt", encode="false")
        assert good(got).split() == WORDS, (head, got)


@case
def a_language_is_detected_in_the_first_30_seconds(d):
    before = d.wait_idle().metric('steno_audio_seconds_total{api="detect_language"}')
    long = np.tile(np.frombuffer(at_16k(), "<i2"), 8).tobytes()
    assert len(long) > 40 * 32000
    for samples, seconds in ((long, 30), (long[:32000], 1)):
        assert json.loads(good(as_bazarr(d, "/detect-language", samples, encode="False", language="de", task="translate")))["language_code"] == "en"
        now = d.wait_idle().metric('steno_audio_seconds_total{api="detect_language"}')
        assert abs(now - before - seconds) < 1e-6, (before, now)
        before = now


@case
def errors_of_asr_have_a_detail(d):
    wrong(asr(d, "output=xml"), "detail", 400, "output: 'xml' is not one of txt, json, srt, vtt, tsv")
    wrong(asr(d, "diarize=true&min_speakers=3&max_speakers=2"), "detail", 400, "min_speakers: 3 is more than max_speakers, 2")
    good(asr(d, "min_speakers=3&max_speakers=2"), "text/plain; charset=utf-8")  # its clients send them in any case
    wrong(asr(d, "encode=perhaps"), "detail", 400, "encode: 'perhaps' is neither true nor false")
    wrong(asr(d, "language=klingon"), "detail", 400, "language: 'klingon'")
    wrong(asr(d, "model=mine"), "detail", 404, "the model 'mine' does not exist")
    wrong(asr(d, file="/dev/null"), "detail", 400, "audio_file: it is empty")
    for path in ("/asr", "/detect-language"):
        wrong(curl(d, path, "-F", f"file=@{DIGITS}"), "detail", 400, "no 'audio_file' field in the request")
        wrong(curl(d, path, "-d", "x"), "detail", 415, "expected multipart/form-data")
        wrong(curl(d, path), "detail", 405, "GET is not allowed here")


@case
def ignored_fields_do_not_cost_the_answer(d):
    """Without a length the server reads only so much (16 MB) of a body that is wrong; fields that are ignored before that do not count."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(bytes(17 << 20))
        f.flush()
        form = ("-H", "Transfer-Encoding: chunked", "-F", f"other=@{f.name}", "-F", f"audio_file=@{DIGITS}")
        assert good(curl(d, "/asr", *form)).split() == WORDS
        wrong(curl(d, "/asr", *form, "-F", f"audio_file=@{DIGITS}"), "detail", 400, "audio_file: the form has more than one")


# ---- of both ----


@case
def keys_limits_and_metrics_know_the_routes(_):
    key = "a-key-of-the-callers-1"
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {key}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}", "limits.body=200K", "server.cors_origins=https://page.example") as d:
            wrong(infer(d), "error", 401, "key")
            wrong(curl(d, "/load", "-F", "model=x"), "error", 401, "key")
            wrong(asr(d), "detail", 401, "key")
            wrong(asr(d, path="/detect-language"), "detail", 401, "key")
            for path, field, member in (("/inference", "file", "error"), ("/asr", "audio_file", "detail"), ("/detect-language", "audio_file", "detail")):
                bearer = ("-H", "Authorization: Bearer " + key)
                good(curl(d, path, *bearer, "-H", "Origin: https://page.example", "-F", f"{field}=@{DIGITS}"))
                wrong(curl(d, path, *bearer, "-F", f"{field}=@{KENNEDY}"), member, 413, "Maximum content size limit")
                if field == "audio_file":  # what is ignored has a limit too, also without a length
                    wrong(curl(d, path, *bearer, "-H", "Transfer-Encoding: chunked", "-F", f"other=@{KENNEDY}"), member, 413, "Maximum")
                status, headers, _ = d.request("OPTIONS", path, headers={"Origin": "https://page.example", "Access-Control-Request-Method": "POST"})
                assert status == 204 and headers["access-control-allow-origin"] == "https://page.example", headers
            d.wait_idle()
            for api, path, bad in (("whisper_cpp", "/inference", 1), ("whisper_asr", "/asr", 2), ("detect_language", "/detect-language", 2)):
                assert d.metric(f'steno_sessions_total{{api="{api}",result="ok"}}') == 1, api
                assert d.metric(f'steno_sessions_total{{api="{api}",result="bad"}}') == bad, api
                assert d.metric(f'steno_http_requests_total{{route="{path}",method="POST",code="200"}}') == 1, path
            use = json.loads(d.request("GET", "/v1/usage", headers={"X-API-Key": key})[2])
            assert use["requests"] == 8 and use["audio_seconds"] > 17, use


def answer_of_half_closed(d, path, body):
    """What is sent to a client that closes its sending side with the body's last bytes: MSG_MORE holds them until then. One that closes it
    later may do so while its answer is being sent, which libmicrohttpd takes for a client that left."""
    with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body,
                  socket.MSG_MORE)
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(65536), b""))


@case
def errors_that_the_server_writes_itself_have_the_same_form(_):
    with Stenod("limits.idle_timeout=1s") as d:
        for path, field, member in (("/inference", "file", "error"), ("/asr", "audio_file", "detail"), ("/detect-language", "audio_file", "detail"),
                                    ("/v1/listen", "", "err_msg")):
            head = f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'.encode()
            with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
                s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9999\r\n\r\n".encode() + head)
                late = b"".join(iter(lambda s=s: s.recv(65536), b""))
            assert late.startswith(b"HTTP/1.1 408 ") and "nothing more" in json.loads(late.partition(b"\r\n\r\n")[2])[member], late
            if not field:
                continue
            bad = answer_of_half_closed(d, path, head + b"RIFF\0\0\0\0WAVEfmt \0\r\n--b--\r\n")
            bad = bad[bad.rindex(b"HTTP/1.1 4"):]
            assert bad.startswith(b"HTTP/1.1 400 ") and isinstance(json.loads(bad.partition(b"\r\n\r\n")[2])[member], str), bad
            good_ = answer_of_half_closed(d, path, head + WAV + b"\r\n--b--\r\n")
            kind = b"text/plain" if path == "/asr" else b"application/json"
            # with a Date where the upload was whole before the server saw that nothing more comes
            assert re.search(rb"HTTP/1\.1 200 OK\r\n(Date: [^\r]*\r\n)?Content-Type: " + kind, good_) and b"\r\nX-Steno-Model: digits-en\r\n" in good_, good_
            assert (b'\r\nContent-Disposition: attachment; filename="a.txt"\r\n' in good_) == (path == "/asr"), good_


@case
def whisper_gives_segments_words_and_languages(_):
    if not os.path.isdir(TINY):
        raise Skip("set STENO_WHISPER_TINY_EN to a faster-whisper directory of tiny.en")
    with wave.open(KENNEDY, "rb") as w:
        samples = w.readframes(w.getnframes())
    with Stenod(args=["--model", TINY]) as d:
        v = json.loads(good(infer(d, "response_format=verbose_json", "temperature=0.0", "temperature_inc=0.2", file=KENNEDY)))
        text = v["text"]
        assert text == "".join(s["text"] + "\n" for s in v["segments"]) and text.startswith(" And so") and "your country" in text, v
        assert all("".join(w["word"] for w in s["words"]) == s["text"] and max(s["tokens"]) < 50256 for s in v["segments"]), v
        assert "detected_language" not in v  # there is but one
        j = json.loads(good(asr(d, "output=json&word_timestamps=true", file=KENNEDY)))
        assert j["text"] == "".join(s["text"] for s in j["segments"]) == text.replace("\n", "") and j["segments"][0]["tokens"][0] > 50256, j
        assert all("".join(w["word"] for w in s["words"]) == s["text"] for s in j["segments"]), j
        got = as_bazarr(d, "/asr", samples, task="transcribe", language="en", output="srt", encode="false")
        assert joined(good(got)) == text.split(), got
        assert max(len(line) for line in got[2].splitlines()) <= 42 and "00:00:1" in times(got[2])[-1][1], got
        wrong(as_bazarr(d, "/asr", samples, task="translate", language="ja", output="srt", encode="false"), "detail", 400, "language: ")


@case
def whisper_detects_and_translates(_):
    if not os.path.isdir(BASE):
        raise Skip("set STENO_WHISPER_BASE to a faster-whisper directory of base")
    with Stenod(args=["--model", BASE]) as d:
        got = json.loads(good(asr(d, path="/detect-language", file=CHINESE)))
        assert (got["detected_language"], got["language_code"]) == ("chinese", "zh") and 0.9 < got["confidence"] < 1, got
        silence = json.loads(good(as_bazarr(d, "/detect-language", bytes(64000), encode="false")))
        assert silence == {"detected_language": "undetermined", "language_code": "und", "confidence": 0}, silence
        with tempfile.NamedTemporaryFile(suffix=".raw") as f:  # what was asked for is all that is known of silence
            f.write(bytes(64000))
            f.flush()
            v = json.loads(good(asr(d, "encode=false&output=json&language=de", file=f.name)))
            assert v == {"text": "", "segments": [], "language": "de"}, v
        assert "weather" in good(asr(d, "task=translate&language=zh&output=txt", file=CHINESE))
        v = json.loads(good(infer(d, "response_format=verbose_json", "translate=true", "language=auto", file=CHINESE)))
        assert v["task"] == "translate" and "weather" in v["text"] and v["language"] == v["detected_language"] == "chinese", v
        assert v["language_probabilities"] == {"zh": v["detected_language_probability"]}, v
        v = json.loads(good(infer(d, "response_format=verbose_json", "detect_language=true", "language=en", file=CHINESE)))
        assert v["detected_language"] == "chinese" and v["segments"] == [] and v["text"] == "", v


if __name__ == "__main__":
    with Stenod() as daemon:
        code = tap(daemon)
    sys.exit(code)
