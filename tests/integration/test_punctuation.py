"""Marks and capitals: `steno punctuate` on the recorded networks of ../shared/punctuation; finals of `steno transcribe`, uploads, live streams
and Deepgram's dialect, marked by the network of tests/data/punctuation, which knows a few words."""
import json
import os
import subprocess
import sys
import tempfile
import wave

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SHARED, Stenod, case, converse, need, pcm, tap, wav

STENO = os.path.join(BUILD, "steno")
NETWORKS = os.path.join(SHARED, "punctuation")
ENGLISH = os.path.join(NETWORKS, "online-cnn-bilstm")
NETWORK = os.path.join(ROOT, "tests", "data", "punctuation")
PCM, RATE = pcm()
MARKED = "Four two seven, one, NINE zero? three."


def steno(*args, text="", **env):
    return subprocess.run([STENO, *args], input=text, capture_output=True, text=True, env=dict(os.environ, **env))


def recorded(network, i):
    with open(need(os.path.join(NETWORKS, network, "recorded.json")), encoding="utf-8") as f:
        row = json.load(f)[i]
    return row["in"], row["out"]


@case
def lines_get_marks(d):
    for network in ("online-cnn-bilstm", "ct-transformer"):
        plain, marked = recorded(network, 1)
        x = steno("punctuate", "--model", os.path.join(NETWORKS, network), text=plain + "\n\n" + plain)
        assert (x.returncode, x.stdout) == (0, marked + "\n\n" + marked + "\n"), x


@case
def fetched_networks_are_found(d):
    plain, marked = recorded("online-cnn-bilstm", 1)
    with tempfile.TemporaryDirectory() as data:
        os.makedirs(os.path.join(data, "models"))
        os.symlink(ENGLISH, os.path.join(data, "models", "punctuation-en"))
        for args in ((), ("--model", "punctuation-en")):
            x = steno("punctuate", *args, text=plain + "\n", STENO_DATA=data)
            assert (x.returncode, x.stdout) == (0, marked + "\n"), x


@case
def what_is_missing_is_named(d):
    with tempfile.TemporaryDirectory() as data:
        x = steno("punctuate", STENO_DATA=data)
        assert x.returncode == 74 and "steno model fetch punctuation-en" in x.stderr, x
        x = steno("punctuate", "--model", data)
        assert x.returncode == 74 and "has no network of the layouts of sherpa-onnx" in x.stderr, x
        if os.path.isdir(ENGLISH):
            os.symlink(os.path.join(ENGLISH, "model.onnx"), os.path.join(data, "model.onnx"))
            x = steno("punctuate", "--model", data)
            assert x.returncode == 74 and "bpe.vocab: No such file" in x.stderr, x


def plain_words(text):
    return [w.strip(",.?").lower() for w in text.split()]


@case
def transcribe_marks_where_it_is_asked_to(d):
    network = f"en={NETWORK}"
    x = steno("transcribe", "--punctuation", "on", "--punctuators", network, "--words", DIGITS)
    spoken = steno("transcribe", "--words", DIGITS)
    assert [line.split()[3] for line in x.stdout.splitlines()] == MARKED.split(), x
    assert [line.split()[:3] for line in x.stdout.splitlines()] == [line.split()[:3] for line in spoken.stdout.splitlines()], (x, spoken)
    for args in ((), ("--punctuation", "auto"), ("--punctuation", "off")):  # digits-en is a model of commands: auto leaves it alone
        x = steno("transcribe", *args, "--punctuators", network, DIGITS)
        assert x.stdout == DIGITS_TEXT + "\n", x
    x = steno("transcribe", "--punctuation", "on", DIGITS)
    assert x.returncode == 64 and "punctuation: there is no network for this model" in x.stderr, x
    x = steno("transcribe", "--punctuators", "en", DIGITS)
    assert x.returncode == 64 and "punctuators: 'en' is not LANGUAGE=DIR" in x.stderr, x
    x = steno("transcribe", "--model", NETWORK, DIGITS)
    assert x.returncode == 65 and "writes marks of text and is no model" in x.stderr, x


@case
def transcripts_without_marks_get_them(d):
    """A model that writes capitals alone, beside which a network is fetched: words and times stay, letters become small ones."""
    model = need(os.path.join(SHARED, "zoo", "tiny", "zipformer2-transducer-offline"))
    recording = os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")
    with tempfile.TemporaryDirectory() as data:
        os.makedirs(os.path.join(data, "models"))
        os.symlink(need(ENGLISH), os.path.join(data, "models", "punctuation-en"))
        ask = ("transcribe", "--model", model, "--words", recording)
        spoken, marked = ([line.split() for line in steno(*ask, *args, STENO_DATA=data).stdout.splitlines()]
                          for args in (("--punctuation", "off"), ()))
    assert spoken and all(w[3].isupper() for w in spoken), spoken
    assert [w[:3] for w in marked] == [w[:3] for w in spoken], (marked, spoken)
    assert [w[3].strip(",.?").lower() for w in marked] == [w[3].lower() for w in spoken], (marked, spoken)
    assert any(w[3][-1] in ",.?" for w in marked) and any(w[3][0].islower() for w in marked), marked


@case
def segments_of_a_long_recording_are_marked(d):
    """An offline model cuts a recording into segments of at most 30 s: each is written alone, and its words and times stay.
    The text is English: the CT-Transformer reads both."""
    model = need(os.path.join(SHARED, "zoo", "tiny", "paraformer-offline"))
    with tempfile.TemporaryDirectory() as data:
        os.makedirs(os.path.join(data, "models"))
        os.symlink(need(os.path.join(NETWORKS, "ct-transformer")), os.path.join(data, "models", "punctuation-zh"))
        recording = os.path.join(data, "long.wav")
        with wave.open(os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")) as r, wave.open(recording, "wb") as w:
            w.setparams(r.getparams())
            w.writeframes(r.readframes(r.getnframes()) * 4)
        spoken, marked = (json.loads(steno("transcribe", "--model", model, "--format", "json", *args, recording, STENO_DATA=data).stdout)
                          for args in (("--punctuation", "off"), ()))
    bare = str.maketrans("", "", ",.?\uff0c\u3002\uff1f\u3001")
    assert len(spoken["segments"]) > 1 and spoken["text"] != marked["text"], marked
    for s, m in zip(spoken["segments"], marked["segments"], strict=True):
        assert (m["start"], m["end"], m["text"].translate(bare)) == (s["start"], s["end"], s["text"]), (m, s)
        assert m["text"][-1] in ".?\u3002\uff1f", m
        assert [(w["word"].translate(bare), w["start"], w["end"]) for w in m["words"]] == \
            [(w["word"], w["start"], w["end"]) for w in s["words"]], (m, s)
    assert marked["text"].translate(bare) == spoken["text"], marked


@case
def uploads_are_marked(d):
    status, _, text = d.request("POST", "/v1/transcribe?punctuation=on", wav(PCM, RATE))
    got = json.loads(text)
    assert status == 200 and got["text"].strip() == MARKED, got
    assert [w["word"] for w in got["segments"][0]["words"]] == MARKED.split(), got
    for query in ("", "&punctuation=off", "&punctuation=auto"):
        status, _, text = d.request("POST", "/v1/transcribe?format=text" + query, wav(PCM, RATE))
        assert status == 200 and text.decode().strip() == DIGITS_TEXT, text
    status, _, text = d.request("POST", "/v1/transcribe?punctuation=often", wav(PCM, RATE))
    assert status == 400 and b"punctuation: 'often'" in text, text


@case
def deepgrams_words_are_bare_beside_their_marks(d):
    status, _, text = d.request("POST", "/v1/listen?punctuate=true&punctuation=on", wav(PCM, RATE))
    got = json.loads(text)["results"]["channels"][0]["alternatives"][0]
    assert status == 200 and got["transcript"] == MARKED, got
    assert [w["punctuated_word"] for w in got["words"]] == MARKED.split(), got
    assert [w["word"] for w in got["words"]] == plain_words(MARKED), got


@case
def live_finals_are_marked(d):
    chunks = [PCM[at:at + 3200] for at in range(0, len(PCM), 3200)]
    got = converse(d.ws, [{"type": "start", "encoding": "s16le", "sample_rate": RATE, "words": True, "punctuation": "on"}, *chunks,
                          {"type": "end"}]).messages
    final = [m for m in got if m["type"] == "final"]
    assert " ".join(m["text"] for m in final) == MARKED, got
    partial = [m["text"] for m in got if m["type"] == "partial"]
    assert partial and all("," not in p and p == p.lower() for p in partial), partial


@case
def a_server_without_a_network_says_so(d):
    with Stenod("text.punctuators=none") as other:
        status, _, text = other.request("POST", "/v1/transcribe?punctuation=on", wav(PCM, RATE))
        assert status == 400 and b"punctuation: there is no network" in text, (status, text)
        status, _, text = other.request("POST", "/v1/listen?punctuate=true", wav(PCM, RATE))
        assert status == 200 and json.loads(text)["results"]["channels"][0]["alternatives"][0]["transcript"] == DIGITS_TEXT, text


if __name__ == "__main__":
    with Stenod(f"text.punctuators=en={NETWORK}") as daemon:
        sys.exit(tap(daemon))
