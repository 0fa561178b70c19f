"""Parakeet unified, streaming (family nemo_streaming, windows that overlap) against ONNX Runtime with an own loop, on a small directory of random networks. TAP."""
import os
import subprocess
import tempfile
import threading

import onnx

import toy_unified as toy
from daemon import Stenod, case, converse, wav
from toy_check import RATE, STENO, main, pieces, refused, samples, transcribe

PARTS = pieces((0, 4), (2, 5), (5, 11), (3, 3.5), (0, 11))


@case
def texts_are_those_of_the_reference(model):
    reference, said = toy.Reference(model), set()
    for part in PARTS:
        text = toy.text(reference(samples(part)))
        assert transcribe(model, part)[1] == text, text
        said.add(text)
    assert len(said) == len(PARTS) and "" not in said, said


# What sherpa-onnx 2.0.1 says of the first parts; the ends differ, as silence follows here and zeros there.
RECORDED = (
    "ddddddddddddddddddddah mata matac matacaaaaaaaaaa the the the the the the the the the the sat satdddddddddd satddddddddddddddddddddhhhhhaahhhaacdd the",
    "dddddddddddddddddddd the the the the the the the the the theaaaaaaaaaa the the the the the the the the the the sat the sathhchchcaaaa sataaaacaaaaaaaa",
    "ddddddddddddddddddddhhhaaaaa the thea the the the the the the the the thecccccccccccccccccccccccccccccccccccccccceeecececec the the the the the the th",
)


@case
def sherpa_onnx_counts_zeros_before_a_recording(model):
    for part, text in zip(PARTS, RECORDED):
        got = transcribe(model, part, "--frontend", "sherpa")[1]
        assert got.startswith(text), (got, text)
        assert not transcribe(model, part)[1].startswith(text)


@case
def times_are_those_of_the_frames(model):
    said = toy.Reference(model)(samples(PARTS[0]))
    starts = [0.08 * frame for i, (token, frame) in enumerate(said) if i == 0 or toy.TOKENS[token][0] == "\u2581"]
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        f.write(wav(PARTS[0].tobytes(), RATE))
        f.flush()
        r = subprocess.run([STENO, "transcribe", "--model", model, "--precision", "fp32", "--no-endpoint", "--words", f.name],
                           capture_output=True, text=True, check=True)
    got = [float(line.split()[0]) for line in r.stdout.splitlines()]
    # a word does not begin before the one before it has ended
    assert got[0] == round(starts[0], 2) and all(min(abs(a - b) for b in got) < 0.081 for a in starts if a < 3.9), (got, starts)
    info = subprocess.run([STENO, "model", "info", model], capture_output=True, text=True, check=True).stdout
    assert "streaming: 160 ms and 240 ms of lookahead" in info, info


@case
def streams_that_begin_at_other_times_share_steps(model):
    """Windows near a recording's begin have fewer frames than those of other streams."""
    reference, got = toy.Reference(model), {}
    want = [toy.text(reference(samples(part))) for part in PARTS]

    def speak(i, d):
        data = PARTS[i].tobytes()
        pieces = [data[k:k + 9000 + 1000 * i] for k in range(0, len(data), 9000 + 1000 * i)]
        start = {"type": "start", "sample_rate": RATE, "endpointing": False}
        final = [m for m in converse(d.ws, [start, *pieces, {"type": "end"}]).messages if m["type"] == "final"]
        got[i] = " ".join(m["text"] for m in final)
    with Stenod("model.dir=" + model, "model.precision=fp32", "pool.threads=1") as d:
        threads = [threading.Thread(target=speak, args=(i, d)) for i in range(len(PARTS))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert [got[i] for i in range(len(PARTS))] == want, (got, want)


@case
def what_does_not_fit_is_named(model):
    def meta(key, value):
        def spoil(folder):
            path = os.path.join(folder, "encoder.onnx")
            m = onnx.load(path)
            props = {p.key: p.value for p in m.metadata_props} | {key: value}
            onnx.helper.set_model_props(m, {k: v for k, v in props.items() if v})
            onnx.save(m, path)
        return spoil
    refused(model, ((meta("left_feature_frames", "47"), "windows of 47, 16 and 24 feature frames are not 8 times 6, 2 and 3"),
                    (meta("chunk_encoder_frames", ""), "chunk_encoder_frames"),
                    (meta("right_feature_frames", "-1"), "right_feature_frames"),
                    (meta("subsampling_factor", "4"), "are not 4 times")))


if __name__ == "__main__":
    main(toy.write)
