"""Damaged directories of espnet_onnx, and audio without content. Each damage gives an error that names the file and
the fault, nothing is unpacked or read beyond its limit, and silence or very short audio is not an error. Needs
../shared (zoo/tiny, audio)."""
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import soundfile
from onnx import numpy_helper

from daemon import BUILD, SHARED, SLOW, Stenod, case, need, tap

OFFLINE = os.path.join(SHARED, "zoo", "tiny", "espnet-conformer-op13")
STREAM = os.path.join(SHARED, "zoo", "tiny", "espnet-stream-conformer-op13")
AUDIO = os.path.join(SHARED, "audio", "librispeech", "61-70968-0002.flac")
WORK = tempfile.mkdtemp(prefix="steno-bad-")
STATS, RATE = "feats_stats.npz", 16000


def need_shared():
    need(OFFLINE, STREAM, AUDIO)


def damaged(damage):
    folder = os.path.join(WORK, "model")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(OFFLINE, folder, copy_function=shutil.copyfile)
    for root, _, _ in os.walk(folder):
        os.chmod(root, 0o755)
    damage(folder)
    return folder


def transcribe(model, wav, *options):
    return subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--model", model, *options, wav], capture_output=True,
                          text=True, timeout=120 * SLOW)


def refused(damage, *words):
    """The exit status is that of bad data, and one line has the words."""
    p = transcribe(damaged(damage), AUDIO)
    assert p.returncode == 65 and p.stderr.count("\n") == 1, (p.returncode, p.stdout, p.stderr)
    for w in words:
        assert re.search(w, p.stderr), (w, p.stderr)


def stats(**changed):
    def damage(folder):
        path = os.path.join(folder, STATS)
        with np.load(path) as z:
            arrays = dict(z)
        np.savez(path, **{**arrays, **changed})
    return damage


def header(shape):
    b = io.BytesIO()
    np.lib.format.write_array_header_1_0(b, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return b.getvalue()


def zip_bomb(folder):
    """64 MB of zeros in 64 KB; the archive gives the true size."""
    with zipfile.ZipFile(os.path.join(folder, STATS), "w", zipfile.ZIP_DEFLATED) as z, z.open("count.npy", "w") as f:
        f.write(header((1 << 23,)))
        for _ in range(64):
            f.write(bytes(1 << 20))


def lying_bomb(folder):
    """The same, but the archive's directory claims 100 bytes."""
    zip_bomb(folder)
    path = os.path.join(folder, STATS)
    with zipfile.ZipFile(path) as z:
        size = z.getinfo("count.npy").file_size
    with open(path, "rb") as f:
        data = f.read()
    assert data.count(size.to_bytes(4, "little")) >= 1
    with open(path, "wb") as f:
        f.write(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))


def npy_bomb(folder):
    with zipfile.ZipFile(os.path.join(folder, STATS), "w", zipfile.ZIP_DEFLATED) as z:
        for name in ("count", "sum", "sum_square"):
            z.writestr(name + ".npy", header((1 << 40,)))


def config(pattern, text):
    def damage(folder):
        path = os.path.join(folder, "config.yaml")
        with open(path, encoding="utf-8") as f:
            old = f.read()
        new = re.sub(pattern, text, old, count=1)
        assert new != old
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)
    return damage


def halved(name):
    def damage(folder):
        path = os.path.join(folder, name)
        os.truncate(path, os.path.getsize(path) // 2)
    return damage


def not_a_number(name):
    def damage(folder):
        path = os.path.join(folder, "full", name)
        m = onnx.load(path)
        w = next(i for i in m.graph.initializer if len(i.dims) == 2 and i.data_type == onnx.TensorProto.FLOAT)
        w.CopyFrom(numpy_helper.from_array(np.full_like(numpy_helper.to_array(w), np.nan), w.name))
        onnx.save(m, path)
    return damage


@case
def zip_bombs_are_refused_before_they_are_unpacked():
    need_shared()
    refused(zip_bomb, STATS, r"count.npy has 6710\d+ bytes, the limit is")
    refused(lying_bomb, STATS, r"count\.npy")
    refused(npy_bomb, STATS, r"8796093022208 bytes, the limit is")


@case
def statistics_that_do_not_fit_are_named():
    need_shared()
    refused(stats(sum=np.zeros(40), sum_square=np.zeros(40)), STATS, "not 80 numbers each")
    refused(stats(sum=np.full(80, np.nan)), STATS, "dimension 0 has mean nan")
    refused(stats(count=np.array(0)), STATS, "over 0 frames")
    refused(stats(sum=np.array(["a"] * 80)), STATS)


@case
def a_token_list_of_another_length_is_named_with_both_numbers():
    need_shared()
    refused(config(r"  list:\n", "  list:\n  - more\n"), "ctc_out is 31 wide, the token list has 32 entries")
    refused(config(r"  - <unk>\n", ""), "the token list has 30 entries|sos|30")


@case
def networks_that_are_cut_short_are_named():
    need_shared()
    for name in ("default_encoder", "ctc", "xformer_decoder", "transformer_lm"):
        refused(halved(f"full/{name}.onnx"), f"{name}.onnx", "cut short")


@case
def scores_that_are_not_numbers_are_an_error():
    need_shared()
    refused(not_a_number("ctc.onnx"), "ctc.onnx: gave scores that are not numbers")
    refused(not_a_number("xformer_decoder.onnx"), "not a number")
    refused(not_a_number("default_encoder.onnx"), "not a? ?number")


@case
def very_short_audio_is_not_an_error():
    need_shared()
    wav = os.path.join(WORK, "x.wav")
    noise = np.random.default_rng(0).standard_normal(RATE) * 8000
    for samples in (noise[:0], noise[:1], noise[:RATE // 50], np.zeros(RATE // 50), noise[:RATE // 10]):
        soundfile.write(wav, samples.astype("int16"), RATE)
        for options in ([], ["--no-endpoint"], ["--beam", "1", "--ctc-weight", "1", "--lm-weight", "0"], ["--quantized"],
                        ["--compat", "espnet-onnx", "--format", "json"]):
            for model in (OFFLINE, STREAM):
                p = transcribe(model, wav, *options)
                assert p.returncode == 0 and not p.stderr, (model, len(samples), options, p.stderr)


@case
def an_hour_of_silence_is_processed_to_its_end_without_text():
    need_shared()
    wav = os.path.join(WORK, "hour.wav")
    soundfile.write(wav, np.zeros(3600 * RATE, "int16"), RATE)
    for model in (OFFLINE, STREAM):
        p = transcribe(model, wav, "--format", "json")
        got = json.loads(p.stdout)
        assert p.returncode == 0 and not got["text"] and abs(got["duration"] - 3600) < 0.1, (p.stdout[:200], p.stderr)


@case
def the_server_still_serves_after_unusable_audio():
    need_shared()
    with open(AUDIO, "rb") as f:
        speech = f.read()
    with Stenod(f"model.dir={OFFLINE}") as d:
        want = json.loads(d.request("POST", "/v1/transcribe?format=json", speech)[2])["text"]
        for n in (0, 1, 320):
            b = io.BytesIO()
            soundfile.write(b, np.zeros(n, "int16"), RATE, format="WAV")
            status, _, body = d.request("POST", "/v1/transcribe?format=json&beam=3&ctc_weight=0.5", b.getvalue())
            assert status in (200, 400) and (status != 200 or not json.loads(body)["text"]), (n, status, body)
        status, _, body = d.request("POST", "/v1/transcribe?format=json", speech[:len(speech) // 2])
        assert status in (200, 400, 422), (status, body)
        assert json.loads(d.request("POST", "/v1/transcribe?format=json", speech)[2])["text"] == want


if __name__ == "__main__":
    sys.exit(tap())
