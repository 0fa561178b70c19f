"""FunASR's and Moonshine's models through the server and the command: languages, text norm, emotion and sound in every
form, live streams, recordings longer than a chunk, and networks that the zoo does not have (BiCif's peaks, texts without
an end), made here. Needs ../shared/zoo/tiny; the last ones need onnx. TAP."""
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.parse
import wave

from daemon import BUILD, SHARED, Skip, Stenod, case, converse, tap

ZOO = os.path.join(SHARED, "zoo", "tiny")
STENO = os.path.join(BUILD, "steno")
SHORT = os.path.join(SHARED, "audio", "librispeech", "61-70968-0002.flac")
LONG = os.path.join(SHARED, "audio", "speech", "two_cities_16k.wav")


def post(d, path, file=SHORT, **query):
    with open(file, "rb") as f:
        status, _, body = d.request("POST", path + "?" + urllib.parse.urlencode(query), f.read())
    return status, json.loads(body)


def transcribe(model, *args, file=SHORT):
    path = model if model.startswith("/") else os.path.join(ZOO, model)
    r = subprocess.run([STENO, "transcribe", "--model", path, *args, file], capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


@case
def uploads_have_language_emotion_and_sound(d):
    status, r = post(d, "/v1/transcribe")
    first = r["segments"][0]
    assert status == 200 and r["language"] == "en" and 0 < r["language_probability"] <= 1, r
    assert (first["emotion"], first["sound"]) == ("neutral", "speech") and "temperature" not in first, first
    assert r["text"].startswith("이lepG hadly")
    status, other = post(d, "/v1/transcribe", language="zh", itn="true")
    assert other["language"] == "zh" and other["language_probability"] == 1 and other["text"] != r["text"], other
    status, r = post(d, "/v1/transcribe", language="de")
    assert status == 400 and "language" in json.dumps(r), r


@case
def long_recordings_are_segments_on_the_clock_of_the_recording(d):
    with wave.open(LONG) as w:
        seconds = w.getnframes() / w.getframerate()
    status, r = post(d, "/v1/transcribe", file=LONG)
    assert status == 200 and abs(r["duration"] - seconds) < 0.1, r
    assert len(r["segments"]) >= seconds // 30, len(r["segments"])
    words = [w for s in r["segments"] for w in s["words"]]
    assert all(a["start"] <= b["start"] + 1e-3 for a, b in zip(words, words[1:]))
    assert words[-1]["end"] > seconds - 10 and words[-1]["end"] <= seconds + 0.1
    assert "".join(r["text"].split()) == "".join("".join(s["text"] for s in r["segments"]).split())
    assert any("emotion" in s for s in r["segments"])


@case
def live_finals_have_the_same(d):
    x = subprocess.run([STENO, "transcribe", "--help"], capture_output=True, check=True)
    assert b"--itn" in x.stdout
    with wave.open(LONG) as w:
        samples, rate = w.readframes(5 * w.getframerate()), w.getframerate()
    got = converse(d.ws, [{"type": "start", "sample_rate": rate, "language": "en", "itn": True}, samples,
                          {"type": "end"}]).messages
    final = [m for m in got if m["type"] == "final"][-1]
    assert final["language"] == "en" and final["emotion"] == "neutral", final
    assert [m for m in got if m["type"] == "partial"], got


@case
def info_names_what_a_model_is(_):
    for model, words in (("sense-voice", ("sense_voice", "zh en yue ja ko", "no: a chunk of at most 30 s")),
                         ("paraformer-offline", ("paraformer", "estimates")),
                         ("paraformer-streaming", ("paraformer_streaming", "600 ms and 180 ms of lookahead")),
                         ("moonshine-v1", ("moonshine v1", "uncached_decode.onnx")),
                         ("moonshine-v2", ("moonshine v2", "decoder_model_merged.onnx")),
                         ("moonshine-v2-ort", ("moonshine v2", "decoder_model_merged.ort"))):
        r = subprocess.run([STENO, "model", "info", os.path.join(ZOO, model)], capture_output=True, text=True, check=True)
        assert all(w in r.stdout for w in (*words, "MiB for each stream")), r.stdout


@case
def missing_metadata_is_named(_):
    try:
        import onnx
    except ImportError as why:
        raise Skip("onnx is not installed") from why
    for key, model in (("neg_mean", "sense-voice"), ("with_itn", "sense-voice"), ("vocab_size", "paraformer-offline"),
                       ("lfr_window_size", "paraformer-offline")):
        m = onnx.load(os.path.join(ZOO, model, "model.onnx"))
        kept = [p for p in m.metadata_props if p.key != key]
        del m.metadata_props[:]
        m.metadata_props.extend(kept)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(m, os.path.join(folder, "model.onnx"))
            r = subprocess.run([STENO, "model", "info", folder], capture_output=True, text=True, check=False)
        assert r.returncode and f"model.onnx: metadata: {key} is missing, expected" in r.stderr, r.stderr


@case
def audio_without_a_token_is_an_empty_text(_):
    """The decoder of a text without tokens gets no frames: ONNX Runtime's convolution fails then."""
    empty = 0
    with tempfile.TemporaryDirectory() as folder:
        for samples in (0, 300, 800, 1200, 2000):
            path = os.path.join(folder, "short.wav")
            with wave.open(path, "wb") as w:
                w.setparams((1, 2, 16000, samples, "NONE", ""))
                w.writeframes(random.Random(samples).randbytes(2 * samples))
            for model in ("sense-voice", "paraformer-streaming", "moonshine-v1", "moonshine-v2"):
                transcribe(model, file=path)
            empty += transcribe("paraformer-offline", file=path) == "\n"
    assert empty >= 3, empty


def paraformer(folder, ids, count, peaks=None):
    """A network that gives the tokens `ids` and says there are `count`, whatever it hears."""
    import numpy as np
    import onnx
    from onnx import TensorProto as T, helper as h, numpy_helper as n
    pieces = ["<blank>", "<s>", "</s>", "one", "tw@@", "o", "三"]
    scores = np.full((1, len(ids), len(pieces)), -9, "f4")
    scores[0, range(len(ids)), ids] = -0.1
    inits = [n.from_array(scores, "s"), n.from_array(np.array([count], "i4"), "c")]
    nodes = [h.make_node("Identity", ["s"], ["logits"]), h.make_node("Identity", ["c"], ["token_num"])]
    outs = [h.make_tensor_value_info("logits", T.FLOAT, ["b", "u", len(pieces)]),
            h.make_tensor_value_info("token_num", T.INT32, ["b"])]
    if peaks is not None:
        inits.append(n.from_array(np.array([peaks], "f4"), "p"))
        for name in ("us_alphas", "us_cif_peak"):
            nodes.append(h.make_node("Identity", ["p"], [name]))
            outs.append(h.make_tensor_value_info(name, T.FLOAT, ["b", "v"]))
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("speech", T.FLOAT, ["b", "t", 560]),
                                  h.make_tensor_value_info("speech_lengths", T.INT32, ["b"])], outs, inits)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 13)])
    m.ir_version = 8
    many = ",".join(["1"] * 560)
    h.set_model_props(m, {"model_type": "paraformer", "vocab_size": str(len(pieces)), "lfr_window_size": "7",
                          "lfr_window_shift": "6", "neg_mean": many, "inv_stddev": many})
    onnx.save(m, os.path.join(folder, "model.onnx"))
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{p} {i}\n" for i, p in enumerate(pieces))


@case
def a_text_without_an_end_has_as_many_tokens_as_the_network_says(_):
    try:
        import onnx  # noqa: F401
    except ImportError as why:
        raise Skip("onnx is not installed") from why
    with tempfile.TemporaryDirectory() as folder:
        paraformer(folder, [3, 4, 5, 6, 3, 3, 3], 4)
        assert transcribe(folder) == "one two 三\n"
        paraformer(folder, [3, 2, 5, 6], 4)
        assert transcribe(folder) == "one\n"


@case
def peaks_of_bicif_are_times(_):
    try:
        import onnx  # noqa: F401
    except ImportError as why:
        raise Skip("onnx is not installed") from why
    peaks = [0.0] * 140
    for at in (10, 20, 25, 100, 130):  # frames of 20 ms; the last is the end
        peaks[at] = 1.0
    with tempfile.TemporaryDirectory() as folder:
        paraformer(folder, [3, 4, 5, 6, 2], 5, peaks)
        words = [line.split() for line in transcribe(folder, "--words").splitlines()]
        assert [w[3] for w in words] == ["one", "two", "三"], words
        # a token ends at the next one, at most 0.24 s later
        assert [(float(w[0]), float(w[1])) for w in words] == [(0.2, 0.4), (0.4, 0.74), (2.0, 2.24)], words
        paraformer(folder, [3, 4, 5, 6, 2], 5, peaks[:100])  # one peak for five tokens: estimates
        words = [line.split() for line in transcribe(folder, "--words").splitlines()]
        assert float(words[0][0]) == 0 and float(words[-1][1]) > 2.9, words


if __name__ == "__main__":
    if not os.path.exists(os.path.join(ZOO, "sense-voice")):
        print("1..0 # SKIP ../shared/zoo/tiny is not there")
        sys.exit(0)
    with Stenod("model.dir=" + os.path.join(ZOO, "sense-voice")) as server:
        code = tap(server)
    sys.exit(code)
