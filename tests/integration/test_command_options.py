"""The command steno as its help says: options do what they promise, those that do nothing are errors, defaults are those of the
help, exit codes are those of steno(1), and no output is lost without a word. Tables; a row for each. TAP.
Rows with Whisper need STENO_WHISPER_TINY_EN (a faster-whisper directory), rows with SHARED ../shared."""
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import wave

import numpy as np
from daemon import BUILD, DIGITS, ROOT, SLOW, Skip, Stenod, case, pcm, tap
from wire import certificate

STENO = os.path.join(BUILD, "steno")
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
NETWORK = os.path.join(MODEL, "encoder.onnx")
SHARED = os.path.join(ROOT, "..", "shared")
JFK = os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")
TINY = os.environ.get("STENO_WHISPER_TINY_EN") or os.path.join(ROOT, "build", "models", "tiny.en")
USAGE, DATAERR, NOINPUT, CANTCREAT, IOERR = 64, 65, 66, 73, 74


def steno(*args, out=subprocess.PIPE, data=b"", cwd=None, **env):
    return subprocess.run([STENO, *args], input=data, stdout=out, stderr=subprocess.PIPE, timeout=300 * SLOW, check=False, cwd=cwd,
                          env={**os.environ, "STENO_SERVER": "http://127.0.0.1:1", **env})


def says(code, text, *args, **kw):
    """The command fails with the code and one line that has the text."""
    r = steno(*args, **kw)
    error = r.stderr.decode("utf-8", "replace")
    assert r.returncode == code and text in error and error.startswith("steno: ") and error.count("\n") == 1, (args, r)


def prints(*args, **kw):
    r = steno(*args, **kw)
    assert r.returncode == 0, (args, r)
    return r.stdout.decode()


@contextlib.contextmanager
def folder():
    """A folder with recordings, texts and what is no recording."""
    with tempfile.TemporaryDirectory() as d:
        samples, rate = pcm()
        silence = bytes(2 * rate * 3)
        for name, channels, frames in (("pauses", 1, (samples + silence) * 2),
                                       ("stereo", 2, np.stack([np.frombuffer(samples, "<i2"), np.zeros(len(samples) // 2, "<i2")], 1).tobytes())):
            with wave.open(f"{d}/{name}.wav", "wb") as w:
                w.setparams((channels, 2, rate, 0, "NONE", ""))
                w.writeframes(frames)
        for name, text in (("text", "four two\nseven\n"), ("empty", ""), ("list", f"{DIGITS}\tfour two seven\n")):
            with open(f"{d}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        os.mkdir(f"{d}/dir")
        shutil.copy(DIGITS, f"{d}/-a b ü.wav")
        yield d


# ---- exit codes ------------------------------------------------------------------------------------------------------

# {} stands for a file that is not there
MISSING = ("transcribe {}", "transcribe --model {} x", "transcribe --model M --speakers auto --speaker-model {} D", "align --model M {} D",
           "align --model M text {}", "align --model {} text D", "bench {}", "profile {}", "graph {}", "verify {}", "verify N {}",
           "verify --model {} --audio D", "verify --model M --audio {}", "run {} --output-dir out", "run N --input x={} --output-dir out",
           "optimize {} -o out", "optimize N --quantize static --calibrate {} -o out", "convert {} -o out", "model info {}",
           "features --output out {}", "model calibrate M {}", "model calibrate {} list", "speakers --model {} D", "speakers --model V {}",
           "speakers --model V --known a={} D", "speakers --model V --enrolled {} D", "speaker enroll bob {}", "speaker list --enrolled {}",
           "turn --model {} D", "itn {}", "punctuate --model {}", "jobs submit {}", "jobs list --cafile {}")


def words(row, d, missing):
    """The words of a row: M is a model, N a network, D a recording, V networks that tell speakers apart; names are those of the folder."""
    stand = {"M": MODEL, "N": NETWORK, "D": DIGITS, "V": f"{d}/voices", "{}": missing}
    return [stand.get(w, w.replace("{}", missing)) for w in row.split()]


@case
def a_file_that_is_not_there_is_66_and_named():
    with folder() as d:
        voices = os.path.join(SHARED, "speakers", "models")
        if os.path.isdir(voices):
            os.mkdir(f"{d}/voices")
            for name in ("campplus-zh-en-common-advanced", "pyannote-segmentation-3.0"):
                os.symlink(os.path.abspath(os.path.join(voices, name)), f"{d}/voices/{name}")
        for row in MISSING:
            if " V " in row and not os.path.isdir(voices):
                continue
            says(NOINPUT, "no such.thing: No such file", *words(row, d, "no such.thing"), cwd=d, STENO_DATA=f"{d}/data")
        assert not os.path.exists(f"{d}/out")


@case
def what_is_no_recording_or_network_is_65():
    with folder() as d:
        for row, text in (("transcribe --model M {}", "the input is empty"), ("align --model M text {}", "the input is empty"), ("bench {}", "the file is empty"),
                          ("features --output out {}", "the input is empty"), ("model info {}", "the file is empty"), ("model calibrate M {}", "it has no line"),
                          ("transcribe --model {} D", "not a model"), ("model calibrate M list", "7 words are too few")):
            r = steno(*words(row, d, "empty"), cwd=d)
            assert r.returncode == DATAERR and text in r.stderr.decode(), (row, r)
        for row, text in (("transcribe --model {} D", "dir: not a model's directory"), ("optimize {} -o out", "dir: there is no network (.onnx) in it"),
                          ("verify --model M --audio {}", "dir: there is no recording in it"), ("jobs submit {}", "dir: there is no recording in it")):
            says(DATAERR, text, *words(row, d, "dir"), cwd=d)
        with open(f"{d}/zeros", "wb") as f:
            f.write(b"one\0two\n")
        says(DATAERR, "zeros: text: it has zero bytes", "align", "--model", MODEL, "zeros", DIGITS, cwd=d)


@case
def a_full_disk_is_74_for_every_command():
    with folder() as d, open("/dev/full", "wb") as full:
        for row in ("--help", "--version", "help --names", "transcribe --help", "transcribe --model M D", "transcribe --model M --stream D", "align --model M text D",
                    "optimize N -o out.onnx", "bench N --runs 1", "profile N --runs 1", "verify N --samples 1", "verify N --samples 1 --json", "graph N",
                    "model info N", "model info M", "model ops", "model options", "model list"):
            r = steno(*words(row, d, ""), out=full, cwd=d)
            assert r.returncode == IOERR and r.stderr.startswith(b"steno: standard output: ") and r.stderr.count(b"\n") == 1, (row, r)
        for row in ("optimize N -o /dev/full", "features --output /dev/full D", "profile N --runs 1 --trace /dev/full"):
            says(IOERR, "/dev/full: cannot ", *words(row, d, ""))
        says(IOERR, "dir: Is a directory", "features", "--output", "dir", DIGITS, cwd=d)
        says(IOERR, "dir: cannot be written: Is a directory", "optimize", NETWORK, "-o", "dir", cwd=d)
        says(CANTCREAT, "--cache: empty: Not a directory", "bench", NETWORK, "--cache", "empty", cwd=d)


@case
def names_with_blanks_dashes_and_letters_of_other_scripts_are_files():
    with folder() as d:
        want = prints("transcribe", "--model", MODEL, DIGITS)
        assert prints("transcribe", "--model", MODEL, "--", "-a b ü.wav", cwd=d) == prints("transcribe", "--model", MODEL, "./-a b ü.wav", cwd=d) == want
        says(USAGE, "unknown option -a b ü.wav", "transcribe", "-a b ü.wav", cwd=d)
        with open(DIGITS, "rb") as f:
            assert prints("transcribe", "--model", MODEL, "-", data=f.read()) == want


@case
def the_first_failure_decides_and_the_others_are_done():
    r = steno("transcribe", "--model", MODEL, "nothing", DIGITS)
    assert r.returncode == NOINPUT and r.stdout.decode() == "\n" + prints("transcribe", "--model", MODEL, DIGITS), r


# ---- options that do nothing, and wrong values -----------------------------------------------------------------------

IDLE = (("align --characters text D", "align: --characters is for --format json or whisperx"), ("align --characters --format srt text D", "--characters is for"),
        ("transcribe --align-model M D", "--align-model gives times, and text without --words has none"),
        ("features --output o --n-fft 512 D", "--n-fft is for --type espnet"), ("features --output o --hop=128 --type nemo D", "--hop is for --type espnet"),
        ("features --output o --snip-edges true --type whisper D", "--snip-edges is for --type kaldi or nemo"),
        ("features --output o --sample-rate 16000 --type whisper D", "--sample-rate is not for --type whisper"),
        ("features --output o --snip-edges maybe D", "'maybe' is none of true|false"), ("features --output o --normalize all D", "is none of none|per-feature|utterance"),
        ("features --output o --channel 0 D", "'0' is not a whole number from 1"), ("features --output o --low nan D", "'nan' is not a number of at least 0"),
        ("optimize N -o o --range percentile", "--range needs --quantize static"), ("optimize N -o o --percentile 99", "--percentile needs --quantize static"),
        ("optimize N -o o --quantize static --calibrate D --percentile 99", "--percentile needs --range percentile"),
        ("optimize N -o o --calibrate D", "--calibrate needs --quantize static or --layer-errors"), ("optimize N -o o --block 64", "--block needs --weight-bits"),
        ("optimize N -o o --reduce-range", "--reduce-range needs --quantize or --precision int8"),
        ("optimize N -o o --weight-bits 8 --reduce-range", "--reduce-range needs --quantize"), ("optimize N -o o --exclude x", "--exclude needs --quantize, --precision"),
        ("optimize N -o o --exclude-op MatMul", "--exclude-op needs"), ("optimize N -o o --layer-errors", "--layer-errors needs"),
        ("optimize N -o o --precision int8 --exclude-op MatMul,Foo", "--exclude-op: 'Foo' is none of MatMul, Gemm, Conv"),
        ("verify --model M --audio D --samples 3", "verify: --samples is for networks, not for --model"),
        ("verify --model M --audio D --precision int8", "--precision is for networks"), ("verify --model M --audio D --opt-level=0", "--opt-level is for networks"),
        ("bench N --value x=a", "--value 'x=a' is not NAME=N"), ("bench N --value x=", "--value 'x=' is not NAME=N"), ("model list x", "model list: unexpected argument 'x'"),
        ("speakers --threshold 0 D", "--threshold: it has to be above 0"), ("speakers --speakers 2 --min 4 D", "--speakers excludes --min and --max"),
        ("speakers --latency 1.04 D", "--latency needs --live"), ("transcribe --format json --highlight-words D", "--highlight-words is for --format srt or vtt"))


@case
def an_option_that_would_do_nothing_is_an_error():
    with folder() as d:
        for row, text in IDLE:
            says(USAGE, text, *words(row, d, ""), cwd=d)
        assert not os.path.exists(f"{d}/o")


@case
def a_line_with_a_zero_byte_is_named():
    grammar = os.path.join(ROOT, "tests", "data", "punctuation")
    networks = [os.path.join(base, d) for base, dirs, _ in os.walk(grammar) for d in dirs] + [grammar]
    for n in networks:
        r = steno("punctuate", "--model", n, data=b"one\none\0two\n")
        if r.returncode == DATAERR and b"zero byte" in r.stderr:
            assert b"steno: line 2: it has a zero byte\n" == r.stderr, r
            return
    raise Skip("no network that writes marks is in tests/data")


# ---- options that do something ---------------------------------------------------------------------------------------

def digest(path):
    if os.path.isdir(path):
        return [(n, digest(os.path.join(path, n))) for n in sorted(os.listdir(path))]
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def result(row, d):
    """What a row prints, and what it writes to `out`."""
    out = f"{d}/out"
    with contextlib.suppress(FileNotFoundError):
        (shutil.rmtree if os.path.isdir(out) else os.remove)(out)
    text = prints(*words(row, d, ""), cwd=d)
    return text, digest(out) if os.path.exists(out) else None


# (command, options that change its result, options that do not): `|` between the options
CHANGES = (("transcribe --model M D", "--words|--format json|--format srt|--format vtt|--format lrc|--format tsv|--format nbest|--format whisper|--format whisperx|--stream|"
            "--replace two:deux|--redact numbers", "--language en|--language English|--vad off|--vad energy|--channel 1|--threads 2|--no-fillers|--punctuation off|--itn off"),
           ("transcribe --model M --format srt D", "--max-line-width 5|--max-words-per-line 2|--highlight-words", "--max-line-width 42|--max-line-count 2"),
           ("transcribe --model M --format srt --max-line-width 10 D", "--max-line-count 1", "--max-line-count 2"),
           ("transcribe --model M --format vtt D", "--max-line-width 5|--max-words-per-line 2|--highlight-words", "--max-line-width 42|--max-line-count 2"),
           ("transcribe --model M --format lrc --max-line-width 10 D", "--max-line-count 1|--max-words-per-line 1", "--max-line-count 2"),
           ("transcribe --model M --format tsv pauses.wav", "--no-endpoint", "--beam 4"),
           ("transcribe --model M --format nbest D", "--nbest 3|--beam 1|--precision fp32", "--nbest 1|--beam 4"),
           ("transcribe --model M --words stereo.wav", "--channel 1|--channel 2", "--threads 2"),
           ("align --model M text D", "--format json|--format whisperx|--format srt|--format vtt|--format lrc|--format tsv", "--format text|--threads 2|--channel 1"),
           ("align --model M --format json text D", "--characters", "--cpu native"),
           ("align --model M text stereo.wav", "--channel 2", "--threads 2"),
           ("graph N", "--dot|--opt-level 0|--opt-level 2|--disable-pass attention|--only dead", "--text|--opt-level 3"),
           ("model info N", "--opt-level 0|--disable-pass linear|--only dead,cse", "--opt-level 3"),
           ("model info M", "--precision fp32", "--precision auto"),
           ("features --output out D", "--type nemo|--type espnet|--type whisper|--sample-rate 8000|--bins 40|--low 100|--high 3000|--high -400|--snip-edges false|"
            "--window hamming|--scale 32768|--normalize per-feature|--normalize utterance",
            "--type kaldi|--sample-rate 16000|--bins 80|--low 20|--high 0|--snip-edges true|--window povey|--scale 1|--normalize none|--chunk 7|--chunk 100000|--channel 1"),
           ("features --type espnet --output out D", "--n-fft 400|--hop 160", "--n-fft 512|--hop 128|--low 0"),
           ("features --type nemo --output out D", "--snip-edges true", "--snip-edges false"),
           ("features --output out stereo.wav", "--channel 2|--channel 1", "--chunk 1"),
           ("optimize N -o out", "--level basic|--level extended|--disable-pass attention|--only dead|--opset 13|--contrib|--precision fp16|--precision bf16|--precision int8|"
            "--quantize dynamic|--weight-bits 4|--weight-bits 8|--verbose|--report json",
            "--level layer|--level all|--opset 17|--external auto|--external never|--precision fp32|--model-type auto|--model-type conformer|--num-heads 4|--hidden-size 128|"
            "--quantize none|--report text|--freeze-inputs|--input-int32"),
           ("optimize N --precision int8 -o out", "--exclude /proj*|--exclude-op MatMul|--convolutions|--reduce-range|--layer-errors", "--exclude nothing|--quantize dynamic"),
           ("optimize N --weight-bits 4 -o out", "--block 16|--block 64", "--block 32"),
           ("optimize N --quantize static --calibrate D -o out", "--range percentile", "--range minmax"),
           ("optimize N --quantize static --calibrate D --range percentile -o out", "--percentile 90", "--percentile 99.99"),
           ("verify N --no-hard-inputs", "--samples 1|--seed 2|--batch 3|--opt-level 0|--json", "--samples 5|--batch 1|--seed 1|--rtol 0.0001|--atol 0.0001|--precision fp32"))


def named(report):
    """A report without the name of the file that was written."""
    return re.sub(r"-> \S+", "", report)


@case
def an_option_changes_what_its_help_says_and_a_default_does_not():
    with folder() as d:
        for command, changing, same in CHANGES:
            base = result(command, d)
            assert result(command, d) == base, command
            first, _, rest = command.partition(" ")
            for option in changing.split("|"):
                got = result(f"{first} {option} {rest}", d)
                assert got != base, f"{command}: {option} changes nothing"
            for option in same.split("|"):
                got = result(f"{first} {option} {rest}", d)
                assert (named(got[0]), got[1]) == (named(base[0]), base[1]), f"{command}: {option} is not the default: {got[0][-300:]}"


WHISPER = (("", "--prompt AMERICANS|--max-new-tokens 5|--suppress-tokens 1842,3399|--repetition-penalty 10|--no-repeat-ngram-size 1|--replace country:Land|"
            "--prefix Well,then|--beam 1",
            "--temperature 0|--temperature-fallback yes|--best-of 5|--length-penalty 1|--repetition-penalty 1|--no-repeat-ngram-size 0|--compression-ratio-threshold 2.4|"
            "--log-prob-threshold -1|--no-speech-threshold 0.6|--condition-on-previous-text yes|--prompt-reset-on-temperature 0.5|--max-initial-timestamp 1|"
            "--max-new-tokens 0|--suppress-blank yes|--suppress-tokens -1|--hallucination-silence-threshold 0|--batched 1|--language en|--carry-context"),
           ("--format tsv", "--without-timestamps", "--vad off"),
           ("--temperature 1 --temperature-fallback no", "--best-of 1", "--best-of 5"),
           ("--no-speech-threshold 0", "--log-prob-threshold 0", "--log-prob-threshold -1"),
           ("--log-prob-threshold 0", "--no-speech-threshold 0", "--no-speech-threshold 0.6"),
           ("--beam 5", "--length-penalty -10", "--length-penalty 1|--patience 1"))


# of 125 s of three speakers: what one window does to the next one
LONG = (("", "--condition-on-previous-text no|--hallucination-silence-threshold 0.1|--beam 5 --patience 2", ""),)


def compare_texts(rows, recording):
    if not os.path.isdir(TINY):
        raise Skip("there are no weights of Whisper's tiny.en: STENO_WHISPER_TINY_EN")
    if not os.path.exists(recording):
        raise Skip(f"{recording} is not there")
    for given, changing, same in rows:
        command = ["transcribe", "--model", TINY, "--precision", "fp32", *given.split()]
        base = prints(*command, recording)
        for option in changing.split("|"):
            assert prints(*command, *option.split(), recording) != base, f"{given}: {option} changes nothing"
        for option in filter(None, same.split("|")):
            assert prints(*command, *option.split(), recording) == base, f"{given}: {option} is not the default"


@case
def whispers_options_change_its_text_and_their_defaults_do_not():
    compare_texts(WHISPER, JFK)


@case
def whispers_options_of_several_windows_change_its_text():
    compare_texts(LONG, os.path.join(SHARED, "speakers", "recordings", "phone.flac"))


# ---- what is written -------------------------------------------------------------------------------------------------

def copy_of_model(d, name):
    os.mkdir(f"{d}/{name}")
    for n in ("encoder.onnx", "model.conf", "tokens.txt"):
        shutil.copy(os.path.join(MODEL, n), f"{d}/{name}/{n}")
    return f"{d}/{name}"


@case
def a_model_that_is_optimized_in_its_place_keeps_its_other_files():
    with tempfile.TemporaryDirectory() as d:
        m = copy_of_model(d, "m")
        before = {n: digest(f"{m}/{n}") for n in os.listdir(m)}
        for out in (m, f"{m}/.", f"{d}/link"):
            if out.endswith("link"):
                os.symlink(m, out)
            prints("optimize", m, "-o", out)
            assert {n for n in before if digest(f"{m}/{n}") != before[n]} == {"encoder.onnx"}, out
        assert prints("transcribe", "--model", m, DIGITS) == prints("transcribe", "--model", MODEL, DIGITS)


@case
def weights_beside_a_network_are_those_of_the_new_one():
    with tempfile.TemporaryDirectory() as d:
        m = copy_of_model(d, "m")
        prints("optimize", NETWORK, "-o", f"{m}/encoder.onnx", "--external", "always", "--level", "basic")
        assert os.path.getsize(f"{m}/encoder.onnx.data") > 1 << 20
        want = prints("transcribe", "--model", m, "--precision", "fp32", DIGITS)
        prints("optimize", m, "-o", f"{d}/beside", "--external", "always")
        prints("optimize", m, "-o", f"{d}/within")
        assert sorted(os.listdir(f"{d}/within")) == ["encoder.onnx", "model.conf", "tokens.txt"]
        for out in ("beside", "within"):
            assert prints("transcribe", "--model", f"{d}/{out}", "--precision", "fp32", DIGITS) == want, out


@case
def a_pipe_or_device_is_written_to_and_stays():
    with tempfile.TemporaryDirectory() as d:
        prints("optimize", NETWORK, "-o", f"{d}/file.onnx")
        os.mkfifo(f"{d}/pipe")
        got = []
        reader = threading.Thread(target=lambda: got.append(open(f"{d}/pipe", "rb").read()))  # pylint: disable=consider-using-with
        reader.start()
        prints("optimize", NETWORK, "-o", f"{d}/pipe", "--external", "always")
        reader.join()
        with open(f"{d}/file.onnx", "rb") as f:
            assert got[0] == f.read()
        assert sorted(os.listdir(d)) == ["file.onnx", "pipe"]


@case
def transcripts_of_recordings_with_one_name_are_all_kept():
    with tempfile.TemporaryDirectory() as jobs, folder() as d, Stenod(f"jobs.dir={jobs}") as server:
        for sub in ("a", "b"):
            os.mkdir(f"{d}/{sub}")
            shutil.copy(DIGITS, f"{d}/{sub}/x.wav")
        r = steno("jobs", "submit", "--quiet", "--watch", "--output-dir", "texts", "a/x.wav", "b/x.wav", cwd=d, STENO_SERVER=server.url)
        assert r.returncode == 0, r
        second = r.stdout.decode().splitlines()[1].split("\t")
        assert sorted(os.listdir(f"{d}/texts")) == sorted(["x.txt", f"x.{second[0]}.txt"]) and second[1] == f"texts/x.{second[0]}.txt", r
        # what the server refuses does not keep it from the others
        r = steno("jobs", "submit", "--quiet", "empty", DIGITS, cwd=d, STENO_SERVER=server.url)
        assert r.returncode == USAGE and r.stdout.decode().endswith(f"\t{DIGITS}\n") and b"empty: the server answers 400" in r.stderr, r
        for options, text in ((("--expires", "x"), b"expires: 'x' is not a number"), (("--expires", "0"), b"expires: 0 is outside"), (("--set", "foo=1"), b"'foo' is unknown")):
            r = steno("jobs", "submit", "--quiet", *options, DIGITS, STENO_SERVER=server.url)
            assert r.returncode == USAGE and text in r.stderr, r
        assert prints("jobs", "list", "--dead", STENO_SERVER=server.url) == ""


@case
def certificates_that_are_trusted_are_those_of_cafile():
    with folder() as d:
        certificate("any", f"{d}/cert.pem", f"{d}/key.pem")
        with tempfile.TemporaryDirectory() as jobs, Stenod(f"jobs.dir={jobs}", f"tls.certificate={d}/cert.pem", f"tls.key={d}/key.pem") as server:
            url = f"https://localhost:{server.port}"
            assert prints("jobs", "list", "--server", url, "--cafile", f"{d}/cert.pem") == ""
            says(IOERR, url, "jobs", "list", "--server", url)
            says(IOERR, url, "jobs", "list", "--server", url, "--cafile", f"{d}/text")


@case
def help_has_no_effect_and_every_command_has_one():
    names = prints("help", "--names").split()
    with tempfile.TemporaryDirectory() as d:
        for name in names:
            text = prints(name, "--help", cwd=d)
            assert text.startswith(f"Usage: steno {name}") and text == prints("help", name, cwd=d) == prints(name, "-h", cwd=d), name
        for sub in ("fetch", "calibrate"):
            assert prints("help", "model", sub) == prints("model", sub, "--help") != prints("model", "--help")
        assert not os.listdir(d)


if __name__ == "__main__":
    sys.exit(tap())
