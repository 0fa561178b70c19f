"""What requests say of their recordings, through every form, with Whisper's base: language, translation, prompt, words,
streamed segments; and errors that name the field. The packages openai and deepgram-sdk are the clients where they exist.
Needs STENO_WHISPER_BASE (a faster-whisper directory of base) and ../shared/audio/real. TAP."""
import json
import os
import re
import subprocess
import sys
import urllib.parse

import numpy as np

from daemon import ROOT, Skip, Stenod, case, client, converse, pcm, tap, wav

BASE = os.environ.get("STENO_WHISPER_BASE") or os.path.join(ROOT, "build", "models", "base")
REAL = os.path.join(ROOT, "..", "shared", "audio", "real")
SPANISH, CHINESE = os.path.join(REAL, "es-mx_en-us.wav"), os.path.join(REAL, "zhcn_short.wav")
ENGLISH = os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")
SEGMENT = {"id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio",
           "no_speech_prob"}


def sdk(d):
    try:
        from openai import OpenAI
    except ImportError as why:
        raise Skip("the package openai is not installed") from why
    return OpenAI(base_url=d.url + "/v1", api_key="none", max_retries=0)


def audio(path):
    with open(path, "rb") as f:
        return f.read()


def post(d, path, **query):
    status, _, body = d.request("POST", path + ("?" if query else "") + urllib.parse.urlencode(query), audio(CHINESE))
    return status, json.loads(body)


@case
@client("openai", "verbose_json: segments, words, language")
def openais_client_gets_segments_words_and_the_language(d):
    with open(SPANISH, "rb") as f:
        r = sdk(d).audio.transcriptions.create(model="whisper-1", file=f, language="es", response_format="verbose_json",
                                               timestamp_granularities=["word", "segment"], temperature=0,
                                               prompt="Cuando abrió los ojos.")
    assert r.language == "spanish" and 23 < float(r.duration) < 25
    assert "doméstica" in r.text and r.text == "".join(s.text for s in r.segments).strip()
    for s in r.segments:
        assert SEGMENT <= set(s.model_dump()) and s.text.startswith(" ") and s.tokens[0] >= 50364 and s.avg_logprob < 0, s
    assert " ".join(w.word for w in r.words).startswith("Cuando abrió los ojos")
    assert all(0 <= w.start <= w.end <= float(r.duration) for w in r.words)


@case
@client("openai", "translations")
def openais_client_gets_english_from_translations(d):
    with open(CHINESE, "rb") as f:
        r = sdk(d).audio.translations.create(model="whisper-1", file=f, response_format="verbose_json")
    assert r.language == "english" and "weather" in r.text, r
    with open(CHINESE, "rb") as f:
        assert "weather" in sdk(d).audio.translations.create(model="whisper-1", file=f, response_format="text")


@case
@client("openai", "uploads with stream=True")
def streamed_segments_add_up_to_the_text(d):
    with open(SPANISH, "rb") as f:
        deltas, done = [], None
        for event in sdk(d).audio.transcriptions.create(model="whisper-1", file=f, stream=True):
            if event.type == "transcript.text.delta":
                deltas.append(event.delta)
            else:
                done = event.text
    assert len(deltas) > 1 and "".join(deltas) == done, (deltas, done)


@case
def a_vad_leaves_silence_out_and_keeps_the_text(d):
    def words(**query):
        _, _, body = d.request("POST", "/v1/transcribe?" + urllib.parse.urlencode(query), audio(SPANISH))
        return json.loads(body)
    got = words(vad="energy", language="es")
    assert "doméstica" in got["text"] and got["segments"][-1]["end"] <= got["duration"], got
    times = [w["start"] for s in got["segments"] for w in s["words"]]
    assert times == sorted(times) and times[-1] > 12, times


def hold_music(seconds):
    """Four chords, struck twice a second."""
    t = np.arange(16000 * seconds) / 16000
    chords = ((262, 330, 392), (220, 262, 330), (175, 220, 262), (196, 247, 294))
    return sum(0.2 * np.sin(2 * np.pi * f * t) * (t // 2 % 4 == i) * np.exp(-4 * (t % 0.5)) for i, c in enumerate(chords) for f in c)


@case
def nothing_is_heard_in_silence_noise_and_music(d):
    noise = np.random.default_rng(1).normal(0, 1, 16000 * 9)
    sounds = {"silence": 0 * noise, "faint noise": 0.003 * noise, "loud noise": 0.1 * noise, "brown noise": 1e-4 * np.cumsum(noise),
              "music of two windows": hold_music(35), "faint music": 0.02 * hold_music(9), "hum": 0.2 * np.sin(np.arange(16000 * 9) * np.pi / 160)}
    for name, samples in sounds.items():
        pcm16 = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        status, _, body = d.request("POST", "/v1/transcribe", wav(pcm16, 16000))
        assert status == 200 and json.loads(body)["text"] == "", (name, body)


@case
def errors_of_openais_form_name_the_field(d):
    from openai import BadRequestError
    for field, value in (("language", "klingon"), ("temperature", "3"), ("best_of", "2.5"), ("no_speech_threshold", "x"),
                         ("vad_filter", "perhaps"), ("suppress_tokens", "1,x"), ("suppress_tokens", [60000]),
                         ("prompt", 9000 * "a")):
        try:
            with open(CHINESE, "rb") as f:
                sdk(d).audio.transcriptions.create(model="whisper-1", file=f, extra_body={field: value})
        except BadRequestError as why:
            assert why.param == field and field in why.message, why
        else:
            raise AssertionError(f"{field}={value} was taken")


@case
@client("openai", "suppress_tokens by extra_body")
def suppressed_tokens_may_be_text_or_an_array(d):
    comma, of_text = 11, {}
    for value in ("-1", f"-1,{comma}", [-1, comma]):
        with open(ENGLISH, "rb") as f:
            text = sdk(d).audio.transcriptions.create(model="whisper-1", file=f, language="en",
                                                      extra_body={"suppress_tokens": value}).text
        of_text[str(value)] = text
    assert ["And so, my" in t for t in of_text.values()] == [True, False, False], of_text
    assert all("your country" in t for t in of_text.values()) and not any("," in of_text[v] for v in list(of_text)[1:]), of_text
    status, r = post(d, "/v1/transcribe", suppress_tokens="-1 60000")
    assert status == 400 and r["error"]["message"].startswith("suppress_tokens:"), r


@case
def hypotheses_of_an_upload_are_texts_of_the_whole(d):
    def posted(path):
        _, _, body = d.request("POST", path, audio(SPANISH))
        return json.loads(body)
    ours = posted("/v1/transcribe?n_best=3&language=es")
    texts = [a["text"] for a in ours["alternatives"]]
    assert len(ours["segments"]) > 1 and len(set(texts)) == len(texts) > 1 and texts[0] == ours["text"], ours
    assert all(len(a["words"]) > 25 and a["words"][-1]["end"] <= ours["duration"] for a in ours["alternatives"]), ours
    deepgram = posted("/v1/listen?alternatives=3&language=es")["results"]["channels"][0]["alternatives"]
    assert [a["transcript"] for a in deepgram] == texts, deepgram
    with open(SPANISH, "rb") as f:
        r = sdk(d).audio.transcriptions.create(model="whisper-1", file=f, language="es", response_format="verbose_json",
                                               extra_body={"n_best": 3}).model_dump()
    assert [a["text"] for a in r["alternatives"]] == texts, r


@case
def our_form_says_what_was_detected(d):
    status, r = post(d, "/v1/transcribe")
    assert status == 200 and r["language"] == "zh" and r["language_probability"] > 0.9 and "天" in r["text"], r
    status, r = post(d, "/v1/transcribe", language="Chinese", translate="true", words="false")
    assert r["language"] == "zh" and r["language_probability"] == 1 and "weather" in r["text"], r
    assert "words" not in r["segments"][0] and r["segments"][0]["avg_logprob"] < 0
    for query in ({"language": "xx"}, {"translate": "2"}, {"patience": "9"}):
        status, r = post(d, "/v1/transcribe", **query)
        assert status == 400 and r["error"]["message"].startswith(list(query)[0] + ":"), r


@case
def answers_are_as_openapi_describes_them(d):
    import jsonschema
    import yaml
    with open(os.path.join(ROOT, "docs", "openapi.yaml"), encoding="utf-8") as f:
        doc = yaml.safe_load(f)

    def validate(name, value):
        schema = {"$ref": "#/components/schemas/" + name, "components": doc["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)
    validate("result", post(d, "/v1/transcribe")[1])
    parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in (
        ("response_format", "verbose_json"), ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")))
    body = (parts + '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n').encode()
    for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
        status, _, answer = d.request("POST", path, body + audio(CHINESE) + b"\r\n--b--\r\n",
                                      {"Content-Type": "multipart/form-data; boundary=b"})
        assert status == 200, answer
        validate("verbose_transcription", json.loads(answer))


@case
def deepgrams_form_has_language_words_and_paragraphs(d):
    status, r = post(d, "/v1/listen", detect_language="true", smart_format="true", paragraphs="true", utterances="true",
                     keyterm="天氣")
    channel = r["results"]["channels"][0]
    best = channel["alternatives"][0]
    assert status == 200 and channel["detected_language"] == "zh" and channel["language_confidence"] > 0.9
    assert best["paragraphs"]["paragraphs"][0]["sentences"][0]["text"] == best["transcript"]
    assert best["words"][-1]["punctuated_word"].endswith("?") and not best["words"][-1]["word"].endswith("?"), best
    assert r["results"]["utterances"][0]["transcript"] == best["transcript"]
    status, r = post(d, "/v1/listen", language="xx")
    assert status == 400 and r["err_msg"].startswith("language:"), r


@case
def of_several_languages_one_is_detected(d):
    for language, want in (("zh,en", "zh"), ("Spanish, chinese", "zh"), ("en,ja", "ja")):
        status, r = post(d, "/v1/transcribe", language=language)
        assert status == 200 and r["language"] == want and 0.5 < r["language_probability"] <= 1, (language, r)
    status, r = post(d, "/v1/transcribe", language="en,xx")
    assert status == 400 and r["error"]["param"] == "language" and "'xx'" in r["error"]["message"], r
    status, r = post(d, "/v1/listen?detect_language=en&detect_language=es&detect_language=zh-TW")
    assert status == 200 and r["results"]["channels"][0]["detected_language"] == "zh", r
    got = say(d.ws, lambda rate: {"type": "start", "sample_rate": rate, "language": "en,ja"}, [{"type": "end"}]).messages
    final = [m for m in got if m["type"] == "final"][-1]
    assert final["language"] == "ja" and 0.5 < final["language_probability"] <= 1, got


@case
def the_examples_of_the_document_work(d):
    with open(os.path.join(ROOT, "docs", "whisper.md"), encoding="utf-8") as f:
        text = f.read().split("## Requests", 1)[1].split("## Options", 1)[0]
    blocks = dict(re.findall(r"```(sh|python)\n(.*?)```", text, re.S))
    for kind, command in (("sh", ["bash", "-e", "-c"]), ("python", [sys.executable, "-c"])):
        code = blocks[kind].replace("http://127.0.0.1:8080", d.url).replace("speech.wav", CHINESE)
        if kind == "sh":
            code = code.replace("curl ", "curl -sS --fail-with-body ")
        r = subprocess.run([*command, code], capture_output=True, text=True, check=False, timeout=300)
        assert r.returncode == 0 and "天" in r.stdout and "weather" in r.stdout, (kind, r.stdout, r.stderr)


def say(where, start, end):
    samples, rate = pcm(CHINESE)
    first = [start(rate)] if start else []
    return converse(where, first + [samples, *end])


@case
def live_streams_take_language_and_translation(d):
    got = say(d.ws, lambda rate: {"type": "start", "sample_rate": rate, "language": "zh-CN", "hotwords": "天氣"},
              [{"type": "end"}]).messages
    final = [m for m in got if m["type"] == "final"][-1]
    assert final["language"] == "zh" and final["language_probability"] == 1 and "天" in final["text"], got
    got = say(d.ws, lambda rate: {"type": "start", "sample_rate": rate, "translate": True}, [{"type": "end"}]).messages
    final = [m for m in got if m["type"] == "final"][-1]
    assert final["language"] == "zh" and 0.9 < final["language_probability"] < 1 and "weather" in final["text"], got
    got = say(d.ws, lambda rate: {"type": "start", "sample_rate": rate, "language": "xx"}, []).messages
    assert got[-1]["type"] == "error" and got[-1]["message"].startswith("language:"), got


def languages_said(d, rate, parts, among):
    """The languages of finals, one for each part, in a live stream of these with pauses between."""
    pause = np.zeros(int(1.5 * rate), np.int16)
    sound = np.concatenate([x for part in parts for x in (part, pause)]).tobytes()
    messages = [{"type": "start", "sample_rate": rate, "language": among, "interim": False}]
    got = converse(d.ws, messages + [sound[at:at + 8000] for at in range(0, len(sound), 8000)] + [{"type": "end"}]).messages
    return [m["language"] for m in got if m["type"] == "final" and m["text"]]


@case
def a_live_stream_changes_its_language_when_the_speaker_does(d):
    both, rate = pcm(SPANISH)
    both = np.frombuffer(both, np.int16)
    turns = [both[int(a * rate):int(b * rate)] for a, b in ((0, 6.8), (7.6, 8.6), (8.6, 10.9), (12, 13), (13, 18), (19.5, 20.5))]
    assert languages_said(d, rate, turns, "en,es") == ["es", "en", "en", "es", "es", "en"]


@case
def a_word_of_two_languages_does_not_change_it(d):
    nine, rate = pcm(os.path.join(REAL, "..", "fsdd", "9_lucas_20.wav"))
    nine = np.frombuffer(nine, np.int16)
    english, twice = pcm(ENGLISH)
    english = np.frombuffer(english, np.int16)
    assert twice == 2 * rate
    english = ((english[:-1:2].astype(np.int32) + english[1::2]) // 2).astype(np.int16)
    assert languages_said(d, rate, [nine], "en,de") == ["de"], "alone it is nein"
    assert languages_said(d, rate, [english, nine, nine], "en,de") == ["en"] * 3


@case
def deepgrams_live_form_takes_a_language(d):
    _, rate = pcm(CHINESE)
    url = f"ws://127.0.0.1:{d.port}/v1/listen?encoding=linear16&sample_rate={rate}&language=multi&punctuate=true"
    got = say(url, None, [{"type": "CloseStream"}]).messages
    best = [m for m in got if m["type"] == "Results" and m["is_final"]][-1]["channel"]["alternatives"][0]
    assert best["languages"] == ["zh"] and "punctuated_word" in best["words"][0], got


@case
def the_command_takes_the_same(_):
    steno = os.path.join(ROOT, os.environ.get("STENO_BUILD", os.path.join("build", "release")), "steno")

    def run(*args):
        return subprocess.run([steno, "transcribe", "--model", BASE, "--precision", "fp32", *args, CHINESE],
                              capture_output=True, text=True, check=False)
    assert "weather" in run("--translate", "--language", "chinese").stdout
    assert len(run("--word-times", "--language", "zh", "--temperature", "0").stdout.splitlines()) > 1
    r = run("--language", "klingon")
    assert r.returncode == 64 and "language: 'klingon'" in r.stderr, r
    r = run("--temperature", "2")
    assert r.returncode == 64 and "--temperature: 2 is outside 0..1" in r.stderr, r


if __name__ == "__main__":
    if not os.path.exists(BASE) or not os.path.exists(SPANISH):
        print("1..0 # SKIP set STENO_WHISPER_BASE to a faster-whisper directory of base; ../shared/audio/real is needed too")
        sys.exit(0)
    # in other precisions the words that are hardest to tell depend on the CPU
    with Stenod("model.dir=" + BASE, "model.precision=fp32") as server:
        code = tap(server)
    sys.exit(code)
