"""`steno features` against features recorded from kaldi-native-fbank and ESPnet (../shared/zoo/tiny)."""
import json
import os
import subprocess
import sys
import tempfile
import wave

import numpy as np

from daemon import BUILD, DIGITS, SHARED, SLOW, case, need, tap

WORK = tempfile.mkdtemp(prefix="steno-features-")


def features(path, *options, data=None):
    out = os.path.join(WORK, "out.npy")
    subprocess.run([os.path.join(BUILD, "steno"), "features", *options, "--output", out, path],
                   input=data, check=True, timeout=120 * SLOW)
    return np.load(out)


def shared(*parts):
    return need(os.path.join(SHARED, *parts))


def write_wav(samples, rate=16000):
    path = os.path.join(WORK, "in.wav")
    with wave.open(path, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(samples.astype("<i2").tobytes())
    return path


def close(got, want, tolerance):
    assert got.shape[1] == want.shape[1], (got.shape, want.shape)
    worst = np.abs(got[: len(want)] - want).max()
    assert len(got) >= len(want) and worst <= tolerance, (got.shape, want.shape, worst)


def reference(name, key):
    """(wav path, recorded first 200 frames). One file names the recording behind all of them."""
    with np.load(shared("zoo", "tiny", "frontend", "fbank-kaldi.npz")) as z:
        wav = write_wav(z["wav"])
    with np.load(shared("zoo", "tiny", "frontend", name)) as z:
        return wav, z[key]


@case
def kaldi_fbank_of_zipformer_models():
    wav, want = reference("fbank-kaldi.npz", "zipformer")
    close(features(wav, "--snip-edges", "false", "--high", "-400"), want, 1e-4)


@case
def kaldi_fbank_of_wenet_models_on_int16_values():
    wav, want = reference("fbank-kaldi.npz", "wenet_x32768")
    close(features(wav, "--snip-edges", "false", "--high", "-400", "--scale", "32768"), want, 1e-4)


@case
def kaldi_fbank_with_hamming_window_and_snipped_edges():
    wav, want = reference("fbank-kaldi.npz", "sensevoice_paraformer_x32768")
    close(features(wav, "--window", "hamming", "--scale", "32768"), want, 1e-4)


@case
def librosa_mode_of_nemo_models():
    wav, want = reference("fbank-nemo-whisper.npz", "nemo_transducer")
    close(features(wav, "--type", "nemo", "--high", "8000"), want, 2e-4)
    wav, want = reference("fbank-nemo-whisper.npz", "nemo_128")
    close(features(wav, "--type", "nemo", "--bins", "128", "--high", "8000"), want, 5e-4)


@case
def options_recorded_with_the_references_are_the_ones_tested():
    with open(shared("zoo", "tiny", "frontend", "options.json"), encoding="utf-8") as f:
        o = json.load(f)
    assert o["zipformer"]["mel_opts__high_freq"] == -400 and not o["zipformer"]["frame_opts__snip_edges"]
    assert o["sensevoice_paraformer_x32768"]["frame_opts__window_type"] == "hamming"
    assert all(v["dither"] == 0 for v in o.values())


@case
def espnet_frontend():
    with np.load(shared("zoo", "tiny", "espnet-frontend.npz")) as z:
        for name in ("61-70968-0000", "61-70968-0001", "61-70968-0002"):
            got = features(shared("audio", "librispeech", name + ".flac"), "--type", "espnet", "--hop", "160")
            want = z[name + "/logmel"]
            assert got.shape == want.shape
            close(got, want, 1e-4)
        got = features(write_wav(np.zeros(1600)), "--type", "espnet", "--hop", "160")
        close(got, z["zeros/logmel"], 0)


@case
def whole_and_any_chunk_size_give_the_same_bits():
    for options in (["--sample-rate", "8000", "--bins", "40"], ["--type", "espnet"], ["--type", "nemo"]):
        want = features(DIGITS, *options)
        for chunk in ("1", "7", "160", "4096"):
            assert np.array_equal(features(DIGITS, *options, "--chunk", chunk), want), (options, chunk)


@case
def pipe_and_file_give_the_same():
    with open(DIGITS, "rb") as f:
        data = f.read()
    assert np.array_equal(features("-", data=data), features(DIGITS))


@case
def per_feature_normalisation_has_mean_0_and_deviation_1():
    x = features(DIGITS, "--sample-rate", "8000", "--type", "nemo", "--bins", "40", "--normalize", "per-feature")
    assert np.abs(x.mean(0)).max() < 1e-4 and np.abs(x.std(0, ddof=1) - 1).max() < 1e-3


@case
def wrong_input_is_named_with_its_exit_code():
    with open(os.path.join(WORK, "text.wav"), "w", encoding="utf-8") as f:
        f.write("Hello world, this is text")
    for path, code, says in ((f.name, 65, 'not a recognised audio format (starts with "Hello wor")'),
                             ("/nowhere.wav", 66, "/nowhere.wav"), (WORK, 74, "directory")):
        p = subprocess.run([os.path.join(BUILD, "steno"), "features", "--output", os.path.join(WORK, "no.npy"), path],
                           capture_output=True, text=True, check=False, timeout=60 * SLOW)
        assert p.returncode == code and says in p.stderr, (path, p.returncode, p.stderr)
    assert not os.path.exists(os.path.join(WORK, "no.npy"))


if __name__ == "__main__":
    sys.exit(tap())
