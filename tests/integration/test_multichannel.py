"""Recordings whose channels have a transcript each: the texts are those of the channels alone, in every dialect."""
import json
import shutil
import subprocess
import sys

import numpy as np
from daemon import Skip, Stenod, case, eventually, pcm, tap, wav
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

SAMPLES, RATE = pcm()
LEFT = np.frombuffer(SAMPLES, "<i2")
RIGHT = np.concatenate([np.zeros(RATE, "<i2"), LEFT[:len(LEFT) // 2]])  # other words, one second later
HEADERS = {"Content-Type": "audio/wav"}


def wav_of(*channels):
    n = max(map(len, channels))
    samples = np.stack([np.pad(c, (0, n - len(c))) for c in channels], 1)
    return wav(samples.astype("<i2").tobytes(), RATE, len(channels))


STEREO = wav_of(LEFT, RIGHT)


def post(d, path, body=STEREO):
    code, headers, text = d.request("POST", path, body, HEADERS)
    assert code == 200, (code, text)
    return headers, text.decode()


def form(d, body=STEREO, **fields):
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    parts += [b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n', body, b"\r\n--x--\r\n"]
    return d.request("POST", "/v1/audio/transcriptions", b"".join(parts), {"Content-Type": "multipart/form-data; boundary=x"})


def alone(d, channel):
    """Words of one channel, alone in its recording, as long as both."""
    n = max(len(LEFT), len(RIGHT))
    _, text = post(d, "/v1/transcribe", wav_of(np.pad(channel, (0, n - len(channel)))))
    return json.loads(text)


@case
def deepgram_has_a_transcript_for_each_channel(d):
    _, text = post(d, "/v1/listen?multichannel=true&utterances=true")
    got = json.loads(text)
    channels = got["results"]["channels"]
    assert got["metadata"]["channels"] == 2 and len(channels) == 2, got
    for channel, samples in zip(channels, (LEFT, RIGHT)):
        want = alone(d, samples)
        best = channel["alternatives"][0]
        assert best["transcript"] == want["text"] and want["text"], (best, want)
        assert [w["start"] for w in best["words"]] == [w["start"] for s in want["segments"] for w in s["words"]]
    utterances = got["results"]["utterances"]
    assert {u["channel"] for u in utterances} == {0, 1}
    assert [u["start"] for u in utterances] == sorted(u["start"] for u in utterances)


@case
def the_native_answer_names_the_channel_of_each_segment(d):
    _, text = post(d, "/v1/transcribe?multichannel=true")
    got = json.loads(text)
    assert got["channels"] == 2 and "warnings" not in got, got
    for k, samples in ((1, LEFT), (2, RIGHT)):
        assert " ".join(s["text"] for s in got["segments"] if s["channel"] == k) == alone(d, samples)["text"]
    assert got["text"] == alone(d, LEFT)["text"] + "\n" + alone(d, RIGHT)["text"]
    assert abs(got["duration"] - len(LEFT) / RATE) < 0.01, got["duration"]
    assert post(d, "/v1/transcribe?multichannel=true&format=text")[1] == got["text"] + "\n"
    who = [(f"Channel {s['channel']}", s["text"]) for s in got["segments"]]
    lines = post(d, "/v1/transcribe?multichannel=true&format=tsv")[1].splitlines()[1:]
    assert [line.split("\t")[2] for line in lines] == [": ".join(x) for x in who], lines
    x = json.loads(post(d, "/v1/transcribe?multichannel=true&format=whisperx")[1])
    assert [(s["speaker"], s["text"]) for s in x["segments"]] == who and all("speaker" in w for w in x["word_segments"]), x


@case
def openai_segments_words_and_subtitles_have_channels(d):
    code, _, text = form(d, response_format="verbose_json", multichannel="true", **{"timestamp_granularities[]": "word"})
    got = json.loads(text)
    assert code == 200 and {w["channel"] for w in got["words"]} == {1, 2}, got
    code, _, text = form(d, response_format="verbose_json", multichannel="true")
    assert {s["channel"] for s in json.loads(text)["segments"]} == {1, 2}, text
    code, _, text = form(d, response_format="vtt", multichannel="true")
    assert b"<v Channel 1>" in text and b"<v Channel 2>" in text, text
    code, _, text = form(d, response_format="srt", multichannel="true")
    assert b"Channel 1: " in text and b"Channel 2: " in text, text


def events(d, body):
    code, headers, text = form(d, body, multichannel="true", stream="true")
    assert code == 200 and headers["content-type"] == "text/event-stream", (code, text)
    data = [e.removeprefix("data: ") for e in text.decode().split("\n\n") if e]
    assert data[-1] == "[DONE]", data
    return [json.loads(e) for e in data[:-1]]


@case
def deltas_of_channels_add_up_to_the_text(d):
    silence = np.zeros(RATE, "<i2")
    for channels in ((LEFT, RIGHT), (silence, LEFT), (LEFT, silence, silence, RIGHT, silence), (silence, silence), (LEFT,)):
        got = events(d, wav_of(*channels))
        deltas, done = got[:-1], got[-1]
        assert done["type"] == "transcript.text.done" and "".join(m["delta"] for m in deltas) == done["text"], got
        assert [c["channel"] for c in done["channels"]] == list(range(1, len(channels) + 1)), done
        for c in done["channels"]:
            assert "".join(m["delta"] for m in deltas if m["channel"] == c["channel"]).lstrip("\n") == c["text"], got
        assert done["text"] == "\n".join(c["text"] for c in done["channels"])
        assert [m["channel"] for m in deltas] == sorted(m["channel"] for m in deltas), got
    assert [c["text"] for c in events(d, STEREO)[-1]["channels"]] == [alone(d, LEFT)["text"], alone(d, RIGHT)["text"]]
    code, _, text = form(d, multichannel="true", stream="true", channel="1")
    assert code == 400 and json.loads(text)["error"]["param"] == "multichannel", text
    code, _, text = form(d, stream="true")
    assert code == 200 and b'"channel"' not in text and b'"channels"' not in text, text


@case
def channels_are_the_speakers_of_diarized_json(d):
    code, _, text = form(d, response_format="diarized_json", multichannel="true", **{"known_speaker_names[]": "agent"})
    got = json.loads(text)
    assert code == 200 and got["task"] == "transcribe" and got["usage"]["type"] == "duration", got
    for speaker, samples in (("agent", LEFT), ("B", RIGHT)):
        assert " ".join(s["text"] for s in got["segments"] if s["speaker"] == speaker) == alone(d, samples)["text"], got
    assert [s["start"] for s in got["segments"]] == sorted(s["start"] for s in got["segments"])
    assert got["text"] == "\n".join(f"{s['speaker']}: {s['text']}" for s in got["segments"]), got
    code, headers, text = form(d, response_format="diarized_json", multichannel="true", stream="true")
    told = [json.loads(e.removeprefix("data: ")) for e in text.decode().split("\n\n") if e and "[DONE]" not in e]
    assert code == 200 and headers["x-steno-model"] == "digits-en", headers
    segments = [m for m in told if m["type"] == "transcript.text.segment"]
    for speaker, samples in (("A", LEFT), ("B", RIGHT)):
        assert " ".join(s["text"] for s in segments if s["speaker"] == speaker) == alone(d, samples)["text"], told
    code, _, text = form(d, response_format="diarized_json")
    error = json.loads(text)["error"]
    assert code == 400 and error["param"] == "response_format" and "multichannel=true" in error["message"], text


@case
def openais_client_gets_diarized_json(d):
    try:
        from openai import OpenAI
    except ImportError as e:
        raise Skip(str(e)) from e
    client_ = OpenAI(base_url=d.url + "/v1", api_key="none-is-asked-for-here")
    got = client_.audio.transcriptions.create(file=("a.wav", STEREO), model="gpt-4o-transcribe-diarize", response_format="diarized_json",
                                              chunking_strategy="auto", extra_body={"multichannel": True})
    assert type(got).__name__ == "TranscriptionDiarized" and {s.speaker for s in got.segments} == {"A", "B"}, got


@case
def one_channel_of_many_is_a_list_of_one(d):
    mono = wav_of(LEFT)
    assert len(json.loads(post(d, "/v1/listen?multichannel=true", mono)[1])["results"]["channels"]) == 1
    got = json.loads(post(d, "/v1/transcribe?multichannel=true", mono)[1])
    assert got["channels"] == 1 and {s["channel"] for s in got["segments"]} == {1}, got


@case
def a_mix_is_told(d):
    headers, text = post(d, "/v1/transcribe")
    assert "2 channels were mixed" in json.loads(text)["warnings"][0], text
    assert "2 channels were mixed" in headers["x-steno-warning"], headers
    headers, _ = post(d, "/v1/transcribe?channel=2")
    assert "x-steno-warning" not in headers, headers
    headers, _ = post(d, "/v1/transcribe", wav_of(LEFT))
    assert "x-steno-warning" not in headers, headers


@case
def twenty_channels_are_transcribed_and_more_refused(d):
    got = json.loads(post(d, "/v1/listen?multichannel=true", wav_of(*[LEFT[:RATE * 2]] * 20))[1])
    texts = {c["alternatives"][0]["transcript"] for c in got["results"]["channels"]}
    assert len(got["results"]["channels"]) == 20 and len(texts) == 1 and texts != {""}, texts
    code, _, text = d.request("POST", "/v1/listen?multichannel=true", wav_of(*[LEFT[:4000]] * 21), HEADERS)
    assert code == 413 and b"21 channels" in text, (code, text)
    code, _, text = d.request("POST", "/v1/transcribe?multichannel=true&channel=1", STEREO, HEADERS)
    assert code == 400 and b"multichannel" in text, (code, text)


def live(d, where, messages, end):
    """Messages of a live stream."""
    got = []
    with connect(d.ws.replace("/v1/stream", where)) as ws:
        try:
            for m in [*messages, end]:
                ws.send(json.dumps(m) if isinstance(m, dict) else m)
        except ConnectionClosedError:
            pass  # its last message says why
        try:
            for m in ws:
                got.append(json.loads(m))
        except ConnectionClosedError:
            pass  # its last message says why
    return got


def pieces(data, n=3200):
    return [data[at:at + n] for at in range(0, len(data), n)]


def texts(got, k):
    return " ".join(m["text"] for m in got if m["type"] == "final" and m["channel"] == k and m["text"])


def interleaved(*channels):
    return wav_of(*channels)[44:]


@case
def live_channels_have_their_own_finals(d):
    want = [alone(d, c)["text"] for c in (LEFT, RIGHT)]
    start = {"type": "start", "sample_rate": RATE, "channels": 2, "multichannel": True}
    for messages in ([start, *pieces(interleaved(LEFT, RIGHT), 3201)], [{**start, "encoding": "wav"}, *pieces(STEREO, 999)],
                     [start, interleaved(LEFT, RIGHT)]):
        got = live(d, "/v1/stream", messages, {"type": "end"})
        assert [texts(got, 1), texts(got, 2)] == want and got[-1]["type"] == "end", got
        assert {m["channel"] for m in got if m["type"] == "partial"} <= {1, 2}
        assert got[-1]["finals"] == sum(m["type"] == "final" for m in got), got[-1]
        assert [m["seq"] for m in got] == sorted(m["seq"] for m in got)


@case
def live_deepgram_has_a_channel_index(d):
    want = [alone(d, c)["text"] for c in (LEFT, RIGHT)]
    query = f"?multichannel=true&encoding=linear16&sample_rate={RATE}&channels=2&interim_results=true&utterance_end_ms=1000&vad_events=true"
    got = live(d, "/v1/listen" + query, pieces(interleaved(LEFT, RIGHT)), {"type": "CloseStream"})
    for k in (0, 1):
        finals = [m for m in got if m["type"] == "Results" and m["is_final"] and m["channel_index"] == [k, 2]]
        assert " ".join(t for m in finals if (t := m["channel"]["alternatives"][0]["transcript"])) == want[k], finals
        starts = [m["start"] for m in finals]
        assert starts == sorted(starts), starts
    assert {tuple(m["channel"]) for m in got if m["type"] == "SpeechStarted"} <= {(0, 2), (1, 2)}
    assert got[-1]["type"] == "Metadata" and got[-1]["channels"] == 2, got[-1]
    assert abs(got[-1]["duration"] - len(LEFT) / RATE) < 0.05, got[-1]


@case
def a_finalize_is_of_every_channel(d):
    half = interleaved(LEFT[:len(LEFT) // 2], RIGHT[:len(LEFT) // 2])
    start = {"type": "start", "sample_rate": RATE, "channels": 2, "multichannel": True, "endpointing": False}
    got = live(d, "/v1/stream", [start, *pieces(half), {"type": "finalize"}, *pieces(half)], {"type": "end"})
    for k in (1, 2):
        assert [m["reason"] for m in got if m["type"] == "final" and m["channel"] == k] == ["request", "end"], got


@case
def eight_live_channels_are_possible_and_nine_not(d):
    start = {"type": "start", "sample_rate": RATE, "channels": 8, "multichannel": True}
    got = live(d, "/v1/stream", [start, *pieces(interleaved(*[LEFT] * 8), 16000)], {"type": "end"})
    want = alone(d, LEFT)["text"]
    assert [texts(got, k) for k in range(1, 9)] == [want] * 8, got
    got = live(d, "/v1/stream", [{"type": "start", "encoding": "wav", "multichannel": True}, wav_of(*[LEFT] * 9)], {"type": "end"})
    assert got[-1]["code"] == "limit_exceeded" and "9 channels" in got[-1]["message"], got
    got = live(d, "/v1/stream", [{**start, "channel": 1}], {"type": "end"})
    assert got[-1]["code"] == "invalid_argument" and "multichannel" in got[-1]["message"], got


@case
def channels_of_a_container_are_told_apart(d):
    if not shutil.which("ffmpeg"):
        raise Skip("ffmpeg is not installed")
    data = subprocess.run(["ffmpeg", "-v", "error", "-f", "wav", "-i", "-", "-c:a", "libopus", "-b:a", "96k", "-f", "webm", "-"], input=STEREO,
                          stdout=subprocess.PIPE, check=True).stdout
    want = [alone(d, c)["text"] for c in (LEFT, RIGHT)]
    got = live(d, "/v1/stream", [{"type": "start", "encoding": "webm", "multichannel": True}, *pieces(data)], {"type": "end"})
    assert [texts(got, 1), texts(got, 2)] == want, got
    got = live(d, "/v1/listen?multichannel=true", pieces(data), {"type": "CloseStream"})
    assert {m["channel_index"][0] for m in got if m["type"] == "Results"} == {0, 1}, got
    got = json.loads(post(d, "/v1/listen?multichannel=true", data)[1])
    assert [c["alternatives"][0]["transcript"] for c in got["results"]["channels"]] == want, got


@case
def a_live_mix_is_told_and_in_the_log(d):
    stereo, start = pieces(interleaved(LEFT, RIGHT)), {"type": "start", "sample_rate": RATE, "channels": 2}
    got = live(d, "/v1/stream", [start, *stereo], {"type": "end"})
    assert "2 channels were mixed" in got[-1]["warnings"][0], got[-1]
    query = f"?encoding=linear16&sample_rate={RATE}&channels=2"
    got = live(d, "/v1/listen" + query, stereo, {"type": "CloseStream"})
    assert [w["type"] for w in got[-1]["warnings"]] == ["audio"] and "2 channels were mixed" in got[-1]["warnings"][0]["message"], got[-1]
    meta = json.loads(post(d, "/v1/listen")[1])["metadata"]
    assert "2 channels were mixed" in meta["warnings"][0]["message"], meta
    for more in ({"channel": 2}, {"multichannel": True}):
        assert "warnings" not in live(d, "/v1/stream", [{**start, **more}, *stereo], {"type": "end"})[-1]
    assert "warnings" not in live(d, "/v1/listen" + query + "&multichannel=true", stereo, {"type": "CloseStream"})[-1]
    assert eventually(lambda: "2 channels mixed" in d.output())


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    sys.exit(result)
