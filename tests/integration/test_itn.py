"""Grammars that write numbers: `steno itn`, `steno transcribe --itn`, uploads, live streams and dialects, with the times of
what was spoken. The grammar here is one transducer that knows "four two seven" and copies every other byte."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest.mock

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, Stenod, case, converse, pcm, tap, wav

STENO = os.path.join(BUILD, "steno")
PCM, RATE = pcm()
WRITTEN = DIGITS_TEXT.replace("four two seven", "427")
START, END = 0.53, 2.10  # of "four two seven"


def openfst(states, final):
    """An OpenFst file. states: lists of arcs (input, output, weight, next); final: the states in which a text may end."""
    out = struct.pack("<i", 2125659606)
    for name in (b"vector", b"standard"):
        out += struct.pack("<i", len(name)) + name
    out += struct.pack("<iiQqqq", 2, 0, 0, 0, len(states), 0)
    for i, arcs in enumerate(states):
        out += struct.pack("<fq", 0 if i in final else float("inf"), len(arcs)) + b"".join(struct.pack("<iifi", *a) for a in arcs)
    return out


def add_path(states, at, spoken, written, to):
    """Arcs that read `spoken` and write `written`, from state `at` to state `to`."""
    n = max(len(spoken), len(written))
    for i in range(n):
        after = to if i + 1 == n else len(states)
        states[at].append((spoken[i] if i < len(spoken) else 0, written[i] if i < len(written) else 0, 0.0, after))
        if after != to:
            at = after
            states.append([])


def transducer(rules, before=(b"", b""), behind=(b"", b"")):
    """One that copies each byte at weight 1 and follows rules at weight 0, between two other rules."""
    states = [[], [(c, c, 1.0, 1) for c in range(1, 256)], []]
    add_path(states, 0, *before, 1) if any(before) else states[0].append((0, 0, 0.0, 1))
    add_path(states, 1, *behind, 2) if any(behind) else states[1].append((0, 0, 0.0, 2))
    for spoken, written in rules:
        add_path(states, 1, spoken, written, 1)
    return openfst(states, {2})


def steno(*args, text=""):
    return subprocess.run([STENO, *args], input=text, capture_output=True, text=True)


@case
def lines_are_written(d, folder):
    x = steno("itn", folder, text="a four two seven\n\n four\n")
    assert (x.returncode, x.stdout) == (0, "a 427\n\nfour\n"), x
    spoken = "a four two seven\n  four two seven \tb\n"
    kept = "A four two seven\nfour two seven.\nfour two seven 3\n\n"
    x = steno("itn", "--auto", folder, text=spoken + kept)
    assert x.stdout == "a 427\n427 \tb\n" + kept, x  # as finals are with itn=auto: what has capitals, marks or digits stays
    x = steno("itn", os.path.join(folder, "no"))
    assert x.returncode == 66 and "no: No such file" in x.stderr, x
    x = steno("itn")
    assert x.returncode == 64 and "directory of a grammar is missing" in x.stderr, x


@case
def transcribe_writes_where_it_is_asked_to(d, folder):
    grammars = f"en={folder}"
    x = steno("transcribe", "--itn", "on", "--grammars", grammars, "--words", DIGITS)
    words = [line.split() for line in x.stdout.splitlines()]
    assert [w[3] for w in words] == WRITTEN.split(), x
    assert (float(words[0][0]), float(words[0][1])) == (START, END), words
    for args in ((), ("--itn", "auto"), ("--itn", "off")):  # digits-en is a model of commands: auto leaves it alone
        x = steno("transcribe", *args, "--grammars", grammars, DIGITS)
        assert x.stdout == DIGITS_TEXT + "\n", x
    x = steno("transcribe", "--itn", "on", "--itn-digits", "--grammars", grammars, DIGITS)
    assert x.stdout == "427 one 9 0 3\n", x
    x = steno("transcribe", "--itn", "off", "--itn-digits", "--grammars", grammars, DIGITS)
    assert x.returncode == 64 and "itn_digits: needs a grammar for this model, and itn" in x.stderr, x
    x = steno("transcribe", "--itn", "on", DIGITS)
    assert x.returncode == 64 and "itn: there is no grammar for this model" in x.stderr, x
    x = steno("transcribe", "--grammars", "en", DIGITS)
    assert x.returncode == 64 and "'en' is not LANGUAGE=DIR" in x.stderr, x


def check_words(words, key):
    assert [w[key] for w in words] == WRITTEN.split(), words
    assert abs(words[0]["start"] - START) < 0.006 and abs(words[0]["end"] - END) < 0.006, words[0]


@case
def uploads_are_written(d, folder):
    status, _, text = d.request("POST", "/v1/transcribe?itn=on", wav(PCM, RATE))
    assert status == 200, text
    got = json.loads(text)
    assert got["text"].strip() == WRITTEN, got
    check_words(got["segments"][0]["words"], "word")
    status, _, text = d.request("POST", "/v1/listen?itn=on", wav(PCM, RATE))
    assert status == 200, text
    got = json.loads(text)["results"]["channels"][0]["alternatives"][0]
    assert got["transcript"] == WRITTEN, got
    check_words(got["words"], "word")
    status, _, text = d.request("POST", "/v1/transcribe?itn=on&format=srt", wav(PCM, RATE))
    assert status == 200 and "427" in text.decode(), text
    for query in ("", "&itn=off", "&itn=auto"):
        status, _, text = d.request("POST", "/v1/transcribe?format=text" + query, wav(PCM, RATE))
        assert status == 200 and text.decode().strip() == DIGITS_TEXT, text
    status, _, text = d.request("POST", "/v1/transcribe?format=text&itn=true", wav(PCM, RATE))
    assert status == 200 and text.decode().strip() == WRITTEN, text
    status, _, text = d.request("POST", "/v1/transcribe?itn=often", wav(PCM, RATE))
    assert status == 400 and b"itn: 'often'" in text, text


@case
def live_finals_are_written(d, folder):
    chunks = [PCM[at:at + 3200] for at in range(0, len(PCM), 3200)]
    for itn in ("on", True):
        got = converse(d.ws, [{"type": "start", "encoding": "s16le", "sample_rate": RATE, "words": True, "itn": itn}, *chunks,
                              {"type": "end"}]).messages
        final = [m for m in got if m["type"] == "final"]
        assert " ".join(m["text"] for m in final) == WRITTEN, got
        check_words(final[0]["words"], "word")
        spoken = [m for m in got if m["type"] == "partial"]
        assert spoken and all("427" not in m["text"] for m in spoken), spoken


def pair():
    """A tagger whose words are tokens, "four two seven" one of them, and its verbalizer."""
    begin, end = b'word { value: "', b'" }'
    tagger = [[], [], [(32, 32, 0.0, 0)]]  # between tokens, within a word, behind one
    add_path(tagger, 0, b"", begin, 1)
    add_path(tagger, 0, b"four two seven", begin + b"427" + end, 2)
    add_path(tagger, 1, b"", end, 2)
    verbalizer = [[], [], [(32, 32, 0.0, 0)]]
    add_path(verbalizer, 0, begin, b"", 1)
    add_path(verbalizer, 1, end, b"", 2)
    for states, letters in ((tagger, b"abcdefghijklmnopqrstuvwxyz"), (verbalizer, b"abcdefghijklmnopqrstuvwxyz0123456789")):
        states[1] += [(c, c, 1.0, 1) for c in letters]
        for arcs in states:
            arcs.sort(key=lambda a: a[0])
    return openfst(tagger, {2}), openfst(verbalizer, {2})


@case
def partials_are_written_where_nothing_may_change(d, folder):
    """What is stable stays, and the final begins with it. The last word may grow, so it is never stable."""
    with tempfile.TemporaryDirectory() as work:
        for name, content in zip(("tagger", "verbalizer"), pair()):
            with open(os.path.join(work, name + ".fst"), "wb") as f:
                f.write(content)
        with Stenod(f"text.grammars=en={work}") as other:
            for piece in (800, 3200, 30000):
                chunks = [PCM[at:at + piece] for at in range(0, len(PCM), piece)]
                start = {"type": "start", "encoding": "s16le", "sample_rate": RATE, "itn": "on"}
                got = converse(other.ws, [start, *chunks, {"type": "end"}]).messages
                final = [m["text"] for m in got if m["type"] == "final"]
                assert final == [WRITTEN], got
                partials = [m for m in got if m["type"] == "partial"]
                stable = ""
                for m in partials:
                    assert m["stable"].startswith(stable) and m["text"].startswith(m["stable"]) and WRITTEN.startswith(m["stable"]), (m, stable)
                    assert ("427" in m["text"]) == ("427" in m["stable"]) and "four two seven" not in m["stable"], m
                    assert [w["word"] for w in m["words"]] == m["text"].split(), m
                    stable = m["stable"]
                if piece < 30000:  # else the client may read the last one alone
                    assert "427 one" in " | ".join(m["text"] for m in partials), partials
            url = f"ws://127.0.0.1:{other.port}/v1/listen?encoding=linear16&sample_rate={RATE}&interim_results=true&itn=on"
            got = converse(url, [*[PCM[at:at + 1600] for at in range(0, len(PCM), 1600)], {"type": "CloseStream"}]).messages
            texts = [m["channel"]["alternatives"][0]["transcript"] for m in got if m["type"] == "Results"]
            assert texts[-1] == WRITTEN and any("427 one" in t for t in texts[:-1]), texts


@case
def a_server_without_a_grammar_says_so(d, folder):
    with Stenod("text.grammars=none") as other:
        status, _, text = other.request("POST", "/v1/transcribe?itn=on", wav(PCM, RATE))
        assert status == 400 and b"itn: there is no grammar" in text, (status, text)
        status, _, text = other.request("POST", "/v1/transcribe?format=text&itn=auto", wav(PCM, RATE))
        assert status == 200 and text.decode().strip() == DIGITS_TEXT, text


@case
def fetched_grammars_are_found(d, folder):
    begin, end = b'word { value: "', b'" }'
    with tempfile.TemporaryDirectory() as data:
        place = os.path.join(data, "models", "itn-en")
        os.makedirs(place)
        for name, content in (("tagger", transducer([], (b"", begin), (b"", end))),
                              ("verbalizer", transducer([(b"four two seven", b"427")], (begin, b""), (end, b"")))):
            with open(os.path.join(place, name + ".fst"), "wb") as f:
                f.write(content)
        env = dict(os.environ, STENO_DATA=data)
        x = subprocess.run([STENO, "transcribe", "--itn", "on", "--words", DIGITS], env=env, capture_output=True, text=True)
        assert [line.split()[3] for line in x.stdout.splitlines()] == WRITTEN.split(), x
        x = subprocess.run([STENO, "transcribe", "--itn", "on", "--grammars", "none", DIGITS], env=env, capture_output=True, text=True)
        assert x.returncode == 64 and "there is no grammar" in x.stderr, x
        with unittest.mock.patch.dict(os.environ, STENO_DATA=data), Stenod("model.dir=digits-en") as other:
            status, _, text = other.request("POST", "/v1/transcribe?format=text&itn=on", wav(PCM, RATE))
            assert status == 200 and text.decode().strip() == WRITTEN, text


@case
def requests_of_the_pages_are_taken(d, folder):
    with tempfile.TemporaryDirectory() as work:
        os.symlink(DIGITS, os.path.join(work, "call.wav"))
        for page, answer in (("itn", b"427"), ("punctuation", b"punctuation: ")):  # there is no network: it says so
            with open(os.path.join(ROOT, "docs", page + ".md"), encoding="utf-8") as f:
                line = next(line for line in f if line.startswith("    curl "))
            p = subprocess.run(["sh", "-c", line.replace("http://127.0.0.1:8080", d.url)], cwd=work, capture_output=True)
            assert p.returncode == 0 and answer in p.stdout, (line, p)


@case
def a_damaged_grammar_ends_the_start(d, folder):
    with tempfile.TemporaryDirectory() as bad:
        with open(os.path.join(bad, "x.fst"), "wb") as f:
            f.write(transducer([])[:-3])
        x = subprocess.run([os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--set", f"text.grammars=en={bad}"],
                           capture_output=True, text=True, timeout=120)
        assert x.returncode and "x.fst: " in x.stderr, x


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "rules.fst"), "wb") as rules:
            rules.write(transducer([(b"four two seven", b"427")]))
        with Stenod(f"text.grammars=en={work}") as daemon:
            sys.exit(tap(daemon, work))
