"""Each dialect once with each model family: the text of a recording is that of `steno transcribe`. Small models of random
weights say nothing that makes sense, so texts are compared without blanks. Most need ../shared/zoo/tiny. TAP.

    test_dialects_families.py [DIRECTORY OF THE ZOO...]"""
import base64
import concurrent.futures
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.parse
import wave

from daemon import BUILD, OPEN, ROOT, SHARED, SLOW, Stenod, case, converse, need, tap, wav

ZOO = os.path.join(SHARED, "zoo", "tiny")
STENO = os.path.join(BUILD, "steno")
SECONDS = 3.0
RATE = 16000
MODELS = ["zipformer1-transducer-streaming", "zipformer2-transducer-streaming", "zipformer2-ctc-streaming",
          "zipformer2-transducer-offline", "zipformer2-ctc-offline", "nemo-parakeet-tdt", "nemo-rnnt-streaming",
          "nemo-fastconformer-ctc-streaming", "nemo-canary", "wenet-ctc-streaming", "sense-voice", "paraformer-offline",
          "paraformer-streaming", "moonshine-v1", "moonshine-v2"]


def read_clip():
    beckett = os.path.join(SHARED, "audio", "speech", "beckett.wav")
    with wave.open(beckett if os.path.exists(beckett) else os.path.join(ROOT, "tests/data/speech/jfk.wav")) as w:
        assert w.getframerate() == RATE and w.getnchannels() == 1
        return w.readframes(int(SECONDS * RATE))


PCM = read_clip()
FLOATS = struct.pack(f"<{len(PCM) // 2}f", *(v / 32768 for v in struct.unpack(f"<{len(PCM) // 2}h", PCM)))


WAV = wav(PCM, RATE)


def pieces(data, n=6400):
    return [data[i:i + n] for i in range(0, len(data), n)]


def url(d, path, **query):
    return f"ws://127.0.0.1:{d.port}{path}" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")


def upload(d, path, data, kind):
    status, _, body = d.request("POST", path, data, {"Content-Type": kind})
    assert status == 200, (path, status, body[:300])
    return json.loads(body)


# ---- the dialects: each gives the text of the clip ----

def native_upload(d):
    return upload(d, "/v1/transcribe", WAV, "audio/wav")["text"]


def native_stream(d):
    got, code, _, _ = converse(url(d, "/v1/stream"), [{"type": "start", "sample_rate": RATE}] + pieces(PCM) + [{"type": "end"}])
    assert code == 1000, got[-1:]
    return " ".join(m["text"] for m in got if m["type"] == "final")


def openai_upload(d):
    mark = "----steno"
    body = (f'--{mark}\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n').encode() + WAV + f"\r\n--{mark}--\r\n".encode()
    return upload(d, "/v1/audio/transcriptions", body, f"multipart/form-data; boundary={mark}")["text"]


def openai_realtime(d):
    from websockets.sync.client import connect
    update = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": RATE}, "transcription": {"model": "gpt-4o-transcribe"}, "turn_detection": None}}}}
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
        ws.send(json.dumps(update))
        for p in pieces(PCM):
            ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(p).decode()}))
        ws.send('{"type":"input_audio_buffer.commit"}')
        while True:
            m = json.loads(ws.recv(timeout=60 * SLOW))
            assert m["type"] != "error", m
            if m["type"].endswith("transcription.completed"):
                return m["transcript"]


def deepgram_upload(d):
    return upload(d, "/v1/listen", WAV, "audio/wav")["results"]["channels"][0]["alternatives"][0]["transcript"]


def deepgram_live(d):
    got, code, _, _ = converse(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE, endpointing="false"),
                               pieces(PCM) + ['{"type":"CloseStream"}'])
    assert code == 1000, got[-1:]
    return " ".join(m["channel"]["alternatives"][0]["transcript"] for m in got if m["type"] == "Results" and m["is_final"])


def vosk(d):
    got, code, _, _ = converse(url(d, "/vosk"), [{"config": {"sample_rate": RATE}}] + pieces(PCM) + ['{"eof" : 1}'])
    assert code == 1000, got[-1:]
    return " ".join(m["text"] for m in got if m.get("text"))


def sherpa_online(d):
    got, code, _, _ = converse(url(d, "/sherpa", sample_rate=RATE), pieces(FLOATS) + ["Done"])
    assert code == 1000 and got[-1] == "Done!", got[-1:]
    return " ".join(m["text"] for m in got[:-1] if m["is_final"])


def sherpa_offline(d):
    from websockets.sync.client import connect
    with connect(url(d, "/sherpa"), **OPEN) as ws:
        ws.send(struct.pack("<ii", RATE, len(FLOATS)) + FLOATS)
        m = json.loads(ws.recv(timeout=60 * SLOW))
        ws.send("Done")
        return m["text"]


def wenet(d):
    got, code, _, _ = converse(url(d, "/wenet", sample_rate=RATE),
                               [{"signal": "start", "nbest": 1, "continuous_decoding": True}] + pieces(PCM) + ['{"signal":"end"}'])
    assert code == 1000, got[-1:]
    return " ".join(json.loads(m["nbest"])[0]["sentence"] for m in got if m["type"] == "final_result")


def wyoming(d):
    form = {"rate": RATE, "width": 2, "channels": 1}

    def event(kind, data, payload=b""):
        rest = json.dumps(data).encode()
        head = {"type": kind, "data_length": len(rest), "payload_length": len(payload)}
        return json.dumps(head).encode() + b"\n" + rest + payload

    port = int(re.search(r"listening on wyoming://127\.0\.0\.1:(\d+)", d.output()).group(1))
    got = b""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(60 * SLOW)
        s.sendall(event("transcribe", {}) + event("audio-start", form) + b"".join(event("audio-chunk", form, p) for p in pieces(PCM)) +
                  event("audio-stop", {}))
        while piece := s.recv(65536):
            got += piece
    while got:
        line, _, got = got.partition(b"\n")
        head = json.loads(line)
        n = head.get("data_length", 0)
        if head["type"] == "transcript":
            return json.loads(got[:n])["text"]
        got = got[n:]
    raise AssertionError("no transcript")


DIALECTS = [native_upload, native_stream, openai_upload, openai_realtime, deepgram_upload, deepgram_live, vosk, sherpa_online,
            sherpa_offline, wenet, wyoming]


def squeeze(text):
    return "".join(text.split())


def transcribed(path, *args):
    r = subprocess.run([STENO, "transcribe", "--model", path, *args, "-"], input=WAV, capture_output=True, check=False)
    assert r.returncode == 0, r.stderr
    return squeeze(r.stdout.decode())


def check(model):
    path = need(os.path.join(ZOO, model))
    want = transcribed(path)
    assert want, model
    wrong = []
    with Stenod(f"model.dir={path}", "wyoming.listen=127.0.0.1:0", "websocket.root=auto") as d:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # streams beside each other change nothing
            texts = {f.__name__: pool.submit(f, d) for f in DIALECTS}
        for name, text in texts.items():
            if squeeze(text.result()) != want:
                wrong.append(f"{name}: {text.result()!r}")
    assert not wrong, f"{model}: wanted {want!r}\n" + "\n".join(wrong)


def add(model):
    def run(_):
        check(model)
    run.__name__ = model.replace("-", "_") + "_says_the_same_in_every_dialect"
    case(run)


for _m in MODELS:
    add(_m)


@case
def info_says_what_people_choose_by(_):
    """Family, languages, streaming or whole, chunk and look-ahead, hot words, memory of a stream."""
    for model in MODELS:
        r = subprocess.run([STENO, "model", "info", need(os.path.join(ZOO, model))], capture_output=True, text=True, check=True).stdout
        missing = [w for w in (r"model +\S+, \w+", r"languages +\w", r"streaming|whole|chunk", r"\d+ m?s\b", r"hot ?words",
                               r"MiB for each stream") if not re.search(w, r)]
        assert not missing and ("lookahead" in r or "at most" in r), (model, missing, r)


@case
def converted_checkpoints_of_wenet_say_the_same_in_every_dialect(_):
    """WeNet's own layout: finals are rescored by the attention decoder."""
    check_converted("wenet-u2pp.zip", "wenet-offline.zip")


@case
def converted_checkpoints_say_the_same_in_every_dialect(_):
    """Families and kinds that the zoo does not have."""
    check_converted("hubert-batchnorm.zip", "nemo-vggnet-ctc.nemo", "moonshine.zip")


def check_converted(*names):
    for name in names:
        with tempfile.TemporaryDirectory() as d:
            made = subprocess.run([STENO, "convert", os.path.join(ROOT, "tests/data/convert", name), "-o", f"{d}/{name}"],
                                  capture_output=True, check=False)
            assert made.returncode == 0, made.stderr
            check(f"{d}/{name}")


@case
def hot_words_reach_the_families_that_have_them(_):
    need(ZOO)
    for model, words in (("zipformer2-ctc-streaming", "六七, 九五"), ("nemo-parakeet-tdt", "with these, the ring"),
                         ("nemo-rnnt-streaming", "with"), ("nemo-fastconformer-ctc-streaming", "the"), ("wenet-ctc-streaming", "THE, 一二"),
                         ("sense-voice", "Ring, thing, 中他, not")):
        path = os.path.join(ZOO, model)
        hot = transcribed(path, "--hotwords", words, "--hotwords-score", "4")
        assert hot != transcribed(path, "--beam", "4"), model
        with Stenod(f"model.dir={path}") as d:
            query = urllib.parse.urlencode({"hotwords": words, "hotwords_score": 4})
            assert squeeze(upload(d, f"/v1/transcribe?{query}", WAV, "audio/wav")["text"]) == hot, model
    with Stenod(f"model.dir={os.path.join(ZOO, 'moonshine-v1')}") as d:
        status, _, body = d.request("POST", "/v1/transcribe?hotwords=the", WAV, {"Content-Type": "audio/wav"})
        assert status == 400 and b"hotwords" in body, (status, body)

if __name__ == "__main__":
    sys.exit(tap(None))
