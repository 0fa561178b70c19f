"""OpenAI's forms beside the transcription itself: joined paths, names of models, fields, ephemeral keys. TAP."""
import asyncio
import base64
import json
import signal
import sys
import tempfile
import time

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Skip, Stenod, case, eventually, pcm, tap

PCM, RATE = pcm()
KEY = "a-key-of-the-server-1"
with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def form(d, path="/v1/audio/transcriptions", **fields):
    parts = [b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + WAV + b"\r\n"]
    parts += [f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    status, headers, body = d.request("POST", path, b"".join(parts) + b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"})
    return status, headers, json.loads(body)


@case
def paths_may_have_more_slashes(d):
    for path in ("/v1/audio/transcriptions/", "/v1//audio/transcriptions", "//v1/audio//transcriptions//"):
        status, _, body = form(d, path)
        assert status == 200 and body["text"] == DIGITS_TEXT, (path, status, body)
    for path in ("/v1/models/", "//v1/models", "/v1/models/digits-en/"):
        assert d.get(path)[0] == 200, path
    for path in ("/v1/stream/", "//v1/stream", "/v1/realtime/", "/v1//listen"):
        with connect(f"ws://127.0.0.1:{d.port}{path}", **OPEN):
            pass


@case
def names_of_models_may_have_slashes(d):
    for name in ("Systran/faster-whisper-large-v3", "Systran%2Ffaster-whisper-large-v3", "openai%2fwhisper-small"):
        status, _, body = d.get("/v1/models/" + name)
        assert status == 200 and json.loads(body)["object"] == "model", (name, status, body)
    assert d.get("/v1/models/a%2")[0] == 404
    assert form(d, model="Systran/faster-whisper-large-v3")[0] == 200


@case
def fields_are_read_as_clients_send_them(d):
    empty = dict.fromkeys(("model", "language", "prompt", "response_format", "temperature", "stream", "hotwords", "beam", "vad"), "")
    status, _, body = form(d, **empty)
    assert status == 200 and body["text"] == DIGITS_TEXT, body
    status, _, body = form(d, response_format="verbose_json", timestamp_granularities="word,segment")
    assert status == 200 and body["words"] and body["segments"], body
    status, _, body = form(d, response_format="diarized_json")
    assert status == 400 and body["error"]["param"] == "response_format" and "multichannel=true" in body["error"]["message"], body


@case
def mistakes_of_queries_name_their_parameter(d):
    for query, param in (("sample_rat=1", "sample_rat"), ("beam=x", "beam"), ("language=klingon", "language"), ("format=xml", "format"),
                         ("temperature=0.5", "temperature"), ("channel=999", "channel")):
        status, _, body = d.request("POST", "/v1/transcribe?" + query, WAV)
        assert status == 400 and json.loads(body)["error"]["param"] == param, (query, status, body)


def posted(d, path, file, fields=(), headers=()):
    """The same with any name of the file's field, and several fields of a name."""
    parts = [b'--b\r\nContent-Disposition: form-data; name="%s"; filename="a.wav"\r\n\r\n' % file.encode() + WAV + b"\r\n"]
    parts += [f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields]
    status, _, body = d.request("POST", path, b"".join(parts) + b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b", **dict(headers)})
    return status, json.loads(body)


@case
def several_languages_and_a_task_are_honoured_or_refused(d):
    path = "/v1/audio/transcriptions"
    for fields, status, names in (([("languages[]", "en")], 200, None), ([("languages[]", "de"), ("languages[]", "en")], 400, "de,en"),
                                  ([("languages", "klingon")], 400, "klingon"), ([("task", "transcribe")], 200, None),
                                  ([("task", "translate")], 400, "translate"), ([("task", "sing")], 400, "sing")):
        got, body = posted(d, path, "file", fields)
        assert got == status and (status != 400 or names in body["error"]["message"]), (fields, got, body)


@case
def a_file_by_another_name_is_missed_by_its_own(d):
    for file in ("audio_file", "audio"):
        status, body = posted(d, "/v1/audio/transcriptions", file)
        assert status == 400 and body["error"]["param"] == "file" and file in body["error"]["message"], body
    assert d.request("POST", "/asr", b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n",
                     {"Content-Type": "multipart/form-data; boundary=b"})[0] == 400


@case
def paths_and_keys_of_groq_and_azure_work(_):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {KEY}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as d:
            key = {"api-key": KEY}
            for path in ("/openai/v1/audio/transcriptions", "/openai/deployments/digits-en/audio/transcriptions?api-version=2024-10-21",
                         "/openai/deployments/whisper-1/audio/transcriptions"):
                status, body = posted(d, path, "file", headers=key)
                assert status == 200 and body["text"] == DIGITS_TEXT, (path, status, body)
                assert posted(d, path, "file")[0] == 401, path
            status, body = posted(d, "/openai/deployments/no-such-model/audio/transcriptions?api-version=1", "file", headers=key)
            assert status == 404 and body["error"]["code"] == "model_not_found" and "no-such-model" in body["error"]["message"], body
            status, body = posted(d, "/openai/deployments/digits-en/audio/translations", "file", headers=key)
            assert status == 400 and "translate" in body["error"]["message"], body
            assert d.request("GET", "/openai/v1/models", None, key)[0] == 200
            for path in ("/openai/deployments//audio/transcriptions", "/openai/deployments/digits-en", "/openai/v2/models"):
                assert d.request("GET", path, None, key)[0] == 404, path
            with connect(f"ws://127.0.0.1:{d.port}/openai/v1/realtime?intent=transcription", **{**OPEN, "additional_headers": key}) as ws:
                assert "created" in json.loads(ws.recv(timeout=20 * SLOW))["type"]


@case
def no_dialect_at_the_root_is_no_page(_):
    with Stenod("websocket.root=none") as d:
        ask = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        status, _, body = d.request("GET", "/", None, ask)
        assert status == 404 and "/v1/stream" in json.loads(body)["error"]["message"], (status, body)
        assert d.request("GET", "/")[0] == 200


@case
def deepgrams_tokens_open_live_sessions(_):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {KEY}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as d:
            auth = {"Authorization": "Token " + KEY}
            assert d.request("POST", "/v1/auth/grant")[0] == 401
            for body, seconds in ((b"", 30), (b"{}", 30), (b'{"ttl_seconds":null}', 30), (b'{"ttl_seconds":3600}', 3600)):
                status, _, got = d.request("POST", "/v1/auth/grant", body, auth)
                granted = json.loads(got)
                assert status == 200 and granted["expires_in"] == seconds and len(granted["access_token"]) > 30, got
            for bad in (b'{"ttl_seconds":0}', b'{"ttl_seconds":3601}', b'{"ttl_seconds":"x"}', b"{", b"[]"):
                status, headers, got = d.request("POST", "/v1/auth/grant", bad, auth)
                assert status == 400 and json.loads(got)["err_msg"] == headers["dg-error"], (bad, got)
            token = granted["access_token"]
            for path in ("/v1/listen", "/v2/listen"):
                with connect(f"ws://127.0.0.1:{d.port}{path}?encoding=linear16&sample_rate={RATE}",
                             **{**OPEN, "additional_headers": {"Authorization": "Bearer " + token}}) as ws:
                    ws.send('{"type":"CloseStream"}')
            assert d.request("POST", "/v1/auth/grant", b"", {"Authorization": "Bearer " + token})[0] == 401
            assert token not in d.output()


@case
def errors_of_the_http_library_are_json_too(d):
    import socket
    alive = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for data, status in ((b"POST /v1/transcribe HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
                         (alive + alive[:-2] + b"X: " + b"a" * 60000 + b"\r\n\r\n", 431), (alive + b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\n\r\n", 414)):
        with socket.create_connection(("127.0.0.1", d.port)) as s:
            s.settimeout(60 * SLOW)
            s.sendall(data)
            got = b""
            try:
                while piece := s.recv(65536):
                    got += piece
            except ConnectionResetError:
                pass
        head, body = got[got.rindex(b"HTTP/1.1 "):].split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 %d " % status) and b"Content-Type: application/json" in head, (status, got[-600:])
        assert json.loads(body)["error"]["message"], body
    assert d.request("GET", "/")[2].lower().startswith(b"<!doctype html")


@case
def there_is_no_speech(d):
    status, _, body = d.request("POST", "/v1/audio/speech", b'{"model":"tts-1","input":"hi","voice":"alloy"}', {"Content-Type": "application/json"})
    error = json.loads(body)["error"]
    assert status == 404 and error["code"] == "not_found" and error["type"] == "invalid_request_error" and error["param"] is None, body


@case
def an_ephemeral_key_opens_a_session_with_its_settings(_):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {KEY}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as d:
            auth = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
            session = {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None,
                                                                    "transcription": {"model": "gpt-4o-transcribe", "language": "en"}}}}
            for path, body, value in (
                    ("/v1/realtime/client_secrets", {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": session}, lambda j: j),
                    ("/v1/realtime/transcription_sessions", {"input_audio_format": "pcm16", "turn_detection": None}, lambda j: j["client_secret"])):
                assert d.request("POST", path, json.dumps(body))[0] == 401
                status, _, got = d.request("POST", path, json.dumps(body), auth)
                secret = value(json.loads(got))
                assert status == 200 and secret["value"].startswith("ek_") and 0 < secret["expires_at"] - time.time() < 601, got
                offer = ["realtime", "openai-insecure-api-key." + secret["value"]]
                with connect(f"ws://127.0.0.1:{d.port}/v1/realtime", **{**OPEN, "subprotocols": offer}) as ws:
                    told = json.loads(ws.recv(timeout=20 * SLOW))["session"]["audio"]["input"]
                    assert told["turn_detection"] is None and told["format"]["rate"] == (RATE if "client" in path else 24000), told
                    if "client" in path:
                        ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(PCM).decode()}))
                        ws.send('{"type":"input_audio_buffer.commit"}')
                        while (m := json.loads(ws.recv(timeout=60 * SLOW)))["type"].split(".")[-1] != "completed":
                            pass
                        assert m["transcript"] == DIGITS_TEXT, m
            for path in ("/v1/realtime/client_secrets", "/v1/realtime/transcription_sessions"):  # else a key would never end
                for given in ({"Authorization": "Bearer " + secret["value"]}, {"X-API-Key": secret["value"]}):
                    status, _, got = d.request("POST", path, "{}", given)
                    assert status == 401 and b"ephemeral" in got, (path, status, got)
                assert d.request("POST", f"{path}?api_key={secret['value']}", "{}")[0] == 401
            for method, path in (("POST", "/v1/transcribe"), ("POST", "/v1/listen"), ("GET", "/v1/models"), ("GET", "/v1/usage")):
                status, _, got = d.request(method, path, WAV if method == "POST" else None, {"Authorization": "Bearer " + secret["value"]})
                assert status == 401 and b"opens live sessions alone" in got, (path, status, got)
            f.seek(0)
            f.write(f"[one]\nkey = {KEY[::-1]}\n")
            f.flush()
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: d.request("GET", "/v1/models", None, auth)[0] == 401)
            try:
                connect(f"ws://127.0.0.1:{d.port}/v1/realtime", **{**OPEN, "subprotocols": offer}).close()
                raise AssertionError("an ephemeral key outlived the secret that made it")
            except InvalidStatus as e:
                assert e.response.status_code == 401
            auth["Authorization"] = "Bearer " + KEY[::-1]
            for bad in (b"{", b'{"session":{"type":"realtime"}}', b'{"expires_after":{"seconds":1}}'):
                assert d.request("POST", "/v1/realtime/client_secrets", bad, auth)[0] == 400, bad
            assert d.request("POST", "/v1/realtime/client_secrets", b" " * 70000, auth)[0] == 413
            assert secret["value"] not in d.output()


@case
def openais_client_makes_ephemeral_keys(d):
    try:
        from openai import AsyncOpenAI
    except ImportError as e:
        raise Skip(str(e)) from e

    async def run():
        client = AsyncOpenAI(base_url=d.url + "/v1", api_key="none-is-asked-for-here")
        secret = await client.realtime.client_secrets.create(session={"type": "transcription"})
        assert secret.value.startswith("ek_") and secret.expires_at > time.time()
        beta = await client.beta.realtime.transcription_sessions.create(input_audio_format="pcm16")
        assert beta.client_secret.value.startswith("ek_")

    asyncio.run(asyncio.wait_for(run(), 60 * SLOW))


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    sys.exit(result)
