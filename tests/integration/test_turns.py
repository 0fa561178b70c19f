"""Turns of live streams are counted from the end of sound: words with exact pauses between them, in each dialect that has a
threshold in milliseconds or seconds. tests/unit/test_turns.c has more pauses, noise of other kinds and other models."""
import base64
import json
import random
import sys

from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SLOW, Stenod, case, converse, tap
from paused_words import RATE, pieces, with_pauses

PAUSES = (0.2, 0.35, 0.6, 0.85, 1.1, 1.5, 2.0)  # s
THRESHOLDS = (200, 300, 500, 700, 1000, 1200)  # ms


def native(d, ms, audio):
    got = converse(d.ws, [{"type": "start", "sample_rate": RATE, "silence_after": ms / 1000}, *pieces(audio), {"type": "end"}]).messages
    return [m["text"] for m in got if m["type"] == "final"]


def deepgram(d, ms, audio):
    where = f"ws://127.0.0.1:{d.port}/v1/listen?encoding=linear16&sample_rate={RATE}&endpointing={ms}"
    got = converse(where, [*pieces(audio), {"type": "CloseStream"}]).messages
    finals = [m for m in got if m["type"] == "Results" and m["is_final"]]
    assert all(m["speech_final"] for m in finals), finals
    return [m["channel"]["alternatives"][0]["transcript"] for m in finals]


def realtime(d, ms, audio):
    session = {"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": {"type": "server_vad", "silence_duration_ms": ms}}}}
    with connect(f"ws://127.0.0.1:{d.port}/v1/realtime?intent=transcription", **OPEN) as ws:
        ws.send(json.dumps({"type": "session.update", "session": session}))
        for p in pieces(audio):
            ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(p).decode()}))
        ws.send('{"type":"input_audio_buffer.commit"}')  # answered by an error, as nothing is left: the last message
        texts = []
        while (m := json.loads(ws.recv(timeout=60 * SLOW)))["type"] != "error":
            if m["type"].endswith("transcription.completed"):
                texts.append(m["transcript"])
    return texts


@case
def turns_are_exact_in_every_dialect(d):
    random.seed(7)
    wrong = []
    for pause in PAUSES:
        for noise in (False, True):
            audio = with_pauses(pause, noise)
            for ms in THRESHOLDS:
                if abs(pause * 1000 - ms) < 60:  # as in tests/unit/test_turns.c
                    continue
                want = DIGITS_TEXT.split() if pause * 1000 > ms else [DIGITS_TEXT]
                for ask in (native, deepgram, realtime):
                    got = ask(d, ms, audio)
                    if got != want:
                        wrong.append((ask.__name__, pause, noise, ms, got))
    assert not wrong, wrong


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    sys.exit(result)
