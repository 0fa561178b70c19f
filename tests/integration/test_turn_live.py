"""Live sessions whose turns a network ends: in each dialect that asks for it, with networks that always give one number; with
the real one of ../shared and Whisper tiny.en, speech that breaks off in a sentence."""
import base64
import json
import os
import sys
import tempfile
import wave
from unittest import mock

import numpy as np
from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SHARED, SLOW, Stenod, case, converse, need, tap
from paused_words import RATE, pieces, with_pauses

AUDIO = with_pauses(0.7, False)  # and 2.5 s of silence behind
WORDS = DIGITS_TEXT.split()


def always(number):
    """A network of smart-turn's form that gives this number for everything."""
    import onnx
    from onnx import helper, numpy_helper
    path = os.path.join(tempfile.mkdtemp(prefix="steno-turn-"), "smart-turn.onnx")
    values = [helper.make_tensor_value_info(n, 1, s) for n, s in (("input_features", ["n", 80, 800]), ("logits", ["n"]))]
    nodes = [helper.make_node("ReduceMax", ["input_features"], ["m"], axes=[1, 2], keepdims=0), helper.make_node("Mul", ["m", "zero"], ["z"]),
             helper.make_node("Add", ["z", "number"], ["logits"])]
    constants = [numpy_helper.from_array(np.float32(v), k) for k, v in (("zero", 0), ("number", number))]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], constants), opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), path)
    return path


def native(d, **start):
    got = converse(d.ws, [{"type": "start", "sample_rate": RATE, **start}, *pieces(AUDIO), {"type": "end"}]).messages
    return [m["text"] for m in got if m["type"] == "final"] or got


def realtime(d, detection):
    """What the session says of its detection, and the items."""
    session = {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": detection}}}
    with connect(f"ws://127.0.0.1:{d.port}/v1/realtime?intent=transcription", **OPEN) as ws:
        ws.send(json.dumps({"type": "session.update", "session": session}))
        for p in pieces(AUDIO):
            ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(p).decode()}))
        ws.send('{"type":"input_audio_buffer.commit"}')
        said, texts = None, []
        m = {"type": ""}
        while m["type"] != "error" and " ".join(texts) != DIGITS_TEXT:
            m = json.loads(ws.recv(timeout=60 * SLOW))
            if m["type"] == "session.updated":
                said = m["session"]["audio"]["input"]["turn_detection"]
            if m["type"].endswith("transcription.completed"):
                texts.append(m["transcript"])
        return said, texts, m


def flux(d, query):
    where = f"ws://127.0.0.1:{d.port}/v2/listen?model=flux-general-en&encoding=linear16&sample_rate={RATE}&{query}"
    got = converse(where, [*pieces(AUDIO), {"type": "CloseStream"}]).messages
    return [(m["transcript"], m["trigger"], m["end_of_turn_confidence"]) for m in got if m.get("event") == "EndOfTurn"]


@case
def the_network_ends_turns_of_sessions_that_ask_for_it(yes, no, none):
    for d in (yes, no, none):
        assert native(d, silence_after=2) == [DIGITS_TEXT]
        assert native(d, silence_after=2, turn="silence") == [DIGITS_TEXT]
    assert native(yes, silence_after=2, turn="semantic") == WORDS
    assert native(yes, turn="semantic") == WORDS
    assert native(no, silence_after=2, turn="semantic") == [DIGITS_TEXT]
    assert native(no, turn="semantic") == [DIGITS_TEXT]  # waits 3 s, where the model's own rule would end it
    assert native(no, silence_after=0.5, turn="semantic") == WORDS  # the rule on silence holds too
    assert native(yes, silence_after=2, turn="semantic", turn_threshold=0.8) == [DIGITS_TEXT]
    assert native(no, silence_after=2, turn="semantic", turn_threshold=0.2) == WORDS


@case
def the_fetched_network_is_used_without_being_a_model(*_):
    with tempfile.TemporaryDirectory() as data, mock.patch.dict(os.environ, STENO_DATA=data):
        os.mkdir(data + "/models")
        os.symlink(os.path.dirname(always(0.75)), data + "/models/smart-turn")
        with Stenod() as d:
            assert native(d, turn="semantic", silence_after=2) == WORDS
            assert [m["id"] for m in json.loads(d.request("GET", "/v1/models")[2])["data"]] == ["digits-en"]


@case
def wrong_settings_and_a_server_without_the_network_are_named(yes, _no, none):
    for start, says in (({"turn": "loud"}, "turn: 'loud' is none of silence, semantic"), ({"turn": 1}, "turn: must be a string"),
                        ({"turn_threshold": 1.5}, "turn_threshold: 1.5 is outside 0..1"), ({"turn_threshold": "a"}, "turn_threshold: must be a number"),
                        ({"turn": "semantic", "endpointing": False}, "turn: not possible with endpointing=false"),
                        ({"turn_threshold": 0.8}, "turn_threshold: needs turn=semantic")):
        got = native(yes, **start)
        assert got[-1]["type"] == "error" and says in got[-1]["message"], got
    got = native(none, turn="semantic")
    assert got[-1]["type"] == "error" and "steno model fetch smart-turn" in got[-1]["message"], got


@case
def openais_semantic_vad_is_the_network(yes, no, none):
    said, texts, _ = realtime(yes, {"type": "semantic_vad"})
    assert said == {"type": "semantic_vad", "eagerness": "auto"} and texts == WORDS, (said, texts)
    said, texts, _ = realtime(yes, {"type": "semantic_vad", "eagerness": "low"})  # 0.75 is not enough
    assert said["eagerness"] == "low" and texts == [DIGITS_TEXT], (said, texts)
    assert realtime(no, {"type": "semantic_vad", "eagerness": "medium"})[1] == [DIGITS_TEXT]
    assert realtime(yes, {"type": "server_vad", "silence_duration_ms": 2000})[1] == [DIGITS_TEXT]
    assert realtime(none, {"type": "semantic_vad"})[1] == WORDS  # 0.5 s of silence
    assert "turn_detection.eagerness: 'keen'" in realtime(yes, {"type": "semantic_vad", "eagerness": "keen"})[2]["error"]["message"]


@case
def flux_thresholds_are_the_networks(yes, _no, none):
    assert flux(yes, "eot_threshold=0.7") == [(w, "model", 0.7) for w in WORDS]
    late = flux(yes, "eot_threshold=0.9&eot_timeout_ms=1500")
    assert [(text, trigger) for text, trigger, _ in late] == [(DIGITS_TEXT, "timeout")], late
    assert [text for text, _, _ in flux(none, "eot_threshold=0.5")] == WORDS  # 0.5 s of silence
    assert [text for text, _, _ in flux(none, "eot_threshold=0.9")] == [DIGITS_TEXT]


def cut(begin, end):
    with wave.open(os.path.join(SHARED, "audio", "real", "katiesteve.wav")) as r:
        assert r.getframerate() == 16000 and r.getnchannels() == 1
        r.setpos(begin)
        return r.readframes(end - begin)


@case
def a_pause_in_a_sentence_does_not_end_it(_yes, _no, _none):
    model = os.environ.get("STENO_WHISPER_TINY_EN", "none")
    need(model, os.path.join(SHARED, "turn"), os.path.join(SHARED, "audio", "real"))
    # "I've been using the batch transcription with diarization functionality, but", 0.8 s, "Have you tried ... Speech Service?"
    audio = cut(208800, 271200) + bytes(2 * 12800) + cut(60800, 129600)
    sentence = len(audio) / 32000
    start = {"type": "start", "sample_rate": 16000, "silence_after": 3, "turn": "semantic"}
    with Stenod(f"model.dir={model}", f"turn.model={os.path.join(SHARED, 'turn')}") as d:
        got = converse(d.ws, [start, *pieces(audio + bytes(5 * 32000), 3200), {"type": "end"}]).messages
    finals = [m for m in got if m["type"] == "final" and m["text"]]
    assert len(finals) == 1, [m["text"] for m in finals]
    assert "functionality" in finals[0]["text"] and "Speech Service" in finals[0]["text"], finals
    assert finals[0]["reason"] == "endpoint" and finals[0]["audio_ms"] / 1000 < sentence + 1, finals  # not 3 s behind it


if __name__ == "__main__":
    with Stenod(f"turn.model={always(0.75)}") as sure, Stenod(f"turn.model={always(0.25)}") as unsure, Stenod("turn.model=none") as without:
        result = tap(sure, unsure, without)
    sys.exit(result)
