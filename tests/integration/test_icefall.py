"""Models of icefall through the server and the command: uploads, live streams together, hotwords in several dialects,
what info says. Needs ../shared/zoo/tiny. TAP."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import wave

from daemon import BUILD, ROOT, SHARED, Stenod, case, converse, eventually, tap

ZOO = os.path.join(SHARED, "zoo", "tiny")
STENO = os.path.join(BUILD, "steno")
MODEL = "zipformer2-transducer-streaming"
FILE = os.path.join(SHARED, "audio", "speech", "beckett.wav")
HOT = {"hotwords": "七九, 六七, 九五", "hotwords_score": 5, "beam": 4}


def transcribe(model, *args):
    r = subprocess.run([STENO, "transcribe", "--model", os.path.join(ZOO, model), "--no-endpoint", *args, FILE],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


def flags(options):
    return [v for k, x in options.items() for v in ("--" + k.replace("_", "-"), str(x))]


def post(d, path, **query):
    with open(FILE, "rb") as f:
        status, _, body = d.request("POST", path + "?" + urllib.parse.urlencode(query), f.read())
    return status, json.loads(body)


def speak(d, **start):
    with wave.open(FILE) as w:
        rate, pcm = w.getframerate(), w.readframes(w.getnframes())
    pieces = [pcm[at:at + 3200] for at in range(0, len(pcm), 3200)]
    got = converse(d.ws, [{"type": "start", "sample_rate": rate, "endpointing": False, **start}, *pieces, {"type": "end"}])
    assert any(m["type"] == "partial" for m in got.messages), got.messages
    return " ".join(m["text"] for m in got.messages if m["type"] == "final")


@case
def live_streams_together_give_what_the_command_gives(d):
    want = {beam: transcribe(MODEL, "--beam", str(beam)) for beam in (1, 4)}
    got = {}

    def one(i):
        got[i] = speak(d, beam=4 if i % 2 else 1)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(got[i] == want[4 if i % 2 else 1] for i in range(6)), (got, want)


@case
def hotwords_count_in_uploads_and_live(d):
    plain, hot = transcribe(MODEL, "--beam", "4"), transcribe(MODEL, *flags(HOT))
    assert plain != hot and "七九" in hot, (plain, hot)
    assert transcribe(MODEL, *flags({"hotwords": HOT["hotwords"], "hotwords_score": 5})) == hot, "4 is the beam with hotwords"
    assert speak(d, **HOT) == hot
    assert speak(d, hotwords="".join(f"{w} :5\n" for w in HOT["hotwords"].split(", ")), beam=4) == hot
    status, r = post(d, "/v1/transcribe", **HOT)
    assert status == 200 and "七九" in r["text"], r
    status, r = post(d, "/v1/transcribe", **{**HOT, "beam": 1})
    assert status == 400 and "hotwords: the beam is 1" in json.dumps(r), r


@case
def dialects_pass_hotwords_on(d):
    with open(FILE, "rb") as f:
        data = f.read()
    query = urllib.parse.urlencode([("keyterm", w) for w in HOT["hotwords"].split(", ")] + [("hotwords_score", 5)])
    texts = []
    for q in ("", "?" + query):
        status, _, body = d.request("POST", "/v1/listen" + q, data)
        assert status == 200, body
        texts.append(json.loads(body)["results"]["channels"][0]["alternatives"][0]["transcript"])
    assert texts[0] != texts[1] and "七九" in texts[1].replace(" ", ""), texts


@case
def the_servers_vocabulary_counts_everywhere_and_never_refuses(_):
    hot, plain = transcribe(MODEL, *flags(HOT)), transcribe(MODEL, "--beam", "1")
    listed = "".join(f"{w} :5\n" for w in HOT["hotwords"].split(", "))
    with tempfile.TemporaryDirectory() as t:
        words, keys = os.path.join(t, "words"), os.path.join(t, "keys")
        key, other = "one-of-the-callers-1", "two-of-the-callers-2"

        def write(path, text):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        write(words, listed)
        with Stenod("model.dir=" + os.path.join(ZOO, MODEL), "text.vocabulary=" + words) as d:
            assert post(d, "/v1/transcribe")[1]["text"] == hot and speak(d) == hot
            assert post(d, "/v1/transcribe", beam=1)[1]["text"] == plain, "a greedy search has none"
            write(words, "unheard-of")
            d.proc.send_signal(signal.SIGHUP)
            eventually(lambda: post(d, "/v1/transcribe", beam=4)[1]["text"] == transcribe(MODEL, "--beam", "4"))
        write(words, listed)
        write(keys, f"[one]\nkey = {key}\nvocabulary = {words}\n[two]\nkey = {other}\n")
        with Stenod("model.dir=" + os.path.join(ZOO, MODEL), "auth.keys=" + keys) as d:
            assert post(d, "/v1/transcribe", token=key)[1]["text"] == hot
            assert post(d, "/v1/transcribe", token=other)[1]["text"] == plain
        with Stenod("model.dir=" + os.path.join(ZOO, MODEL), "model.search=beam=1") as d:
            words = {k: HOT[k] for k in ("hotwords", "hotwords_score")}
            assert post(d, "/v1/transcribe", **words)[1]["text"] == hot and speak(d, **words) == hot, "nobody asked for that beam"
            assert post(d, "/v1/transcribe")[1]["text"] == plain
        write(keys, f"[one]\nkey = {key}\nvocabulary = {t}/none\n")
        r = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config", "--set", "auth.keys=" + keys], capture_output=True, text=True, check=False)
        assert r.returncode == 78 and f"one: {t}/none" in r.stdout + r.stderr, r


@case
def hotwords_count_in_streaming_ctc(_):
    plain = transcribe("zipformer2-ctc-streaming", "--beam", "8")
    hot = transcribe("zipformer2-ctc-streaming", "--beam", "8", "--hotwords", "五六", "--hotwords-score", "6")
    assert hot.count("五六") > plain.count("五六"), (plain, hot)


@case
def byte_level_vocabularies_become_text_and_take_hotwords(_):
    """tests/data/pieces/bbpe.json: what sherpa-onnx 2.0.1 writes with the same tokens."""
    data = os.path.join(ROOT, "tests", "data")
    with open(os.path.join(data, "pieces", "bbpe.json"), encoding="utf-8") as f:
        recorded = json.load(f)
    with tempfile.TemporaryDirectory() as model:
        os.symlink(os.path.join(ZOO, "zipformer2-ctc-streaming", "model.onnx"), os.path.join(model, "model.onnx"))
        with open(os.path.join(model, "tokens.txt"), "w", encoding="utf-8") as f:
            f.writelines(f"{t} {i}\n" for i, t in enumerate(recorded["tokens"]))

        def text(name, *args):
            return subprocess.run([STENO, "transcribe", "--model", model, "--precision", "fp32", "--no-endpoint", *args,
                                   os.path.join(data, name)], capture_output=True, text=True, check=True).stdout.strip()
        for name, want in recorded["texts"].items():
            assert text(name) == want, (text(name), want)
            hot = text(name, "--hotwords", "hello world, 东南西北", "--hotwords-score", "6")
            assert hot.count("HELLO WORLD") > 2 and hot.count("东") > want.count("东"), hot


@case
def json_has_the_shape_of_other_families_and_lists_have_a_format(_):
    """Of a model that gives the results of another program."""
    said = json.loads(transcribe(MODEL, "--format", "json", "--beam", "4", "--nbest", "3"))
    listed = [json.loads(line) for line in transcribe(MODEL, "--format", "nbest", "--beam", "4", "--nbest", "3").splitlines()]
    assert said["text"] == transcribe(MODEL, "--beam", "4") and said["segments"][0]["words"], said
    assert [[a["text"] for a in s["alternatives"]] for s in said["segments"]] == [[a["text"] for a in o["nbest"]] for o in listed], (said, listed)


@case
def info_says_what_a_model_is(_):
    for model, words in ((MODEL, ("streaming zipformer2 transducer", "320 ms and 130 ms of lookahead", "sees 2")),
                         ("zipformer1-transducer-streaming", ("streaming zipformer transducer", "320 ms and 70 ms")),
                         ("zipformer2-ctc-streaming", ("streaming zipformer2 CTC",)),
                         ("zipformer2-transducer-offline", ("offline zipformer2 transducer", "30 s", "bpe.vocab"))):
        r = subprocess.run([STENO, "model", "info", os.path.join(ZOO, model)], capture_output=True, text=True, check=True)
        assert all(w in r.stdout for w in (*words, "MiB for each stream")), r.stdout


if __name__ == "__main__":
    if not os.path.exists(os.path.join(ZOO, MODEL)):
        print("1..0 # SKIP ../shared/zoo/tiny is not there")
        sys.exit(0)
    with Stenod("model.dir=" + os.path.join(ZOO, MODEL)) as server:
        code = tap(server)
    sys.exit(code)
