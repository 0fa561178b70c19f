"""Words that are taken out of a text or replaced by others: in every dialect, uploads, jobs and live sessions."""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

from daemon import BUILD, DIGITS, ROOT, SLOW, Stenod, case, converse, eventually, pcm, tap, wav

SAMPLES, RATE = pcm()
SOUND = wav(SAMPLES, RATE)
OPEN = "/v1/audio/transcriptions"
HIDDEN = "[REDACTED]"
SPOKEN = "four two seven one nine zero three"


def post(d, path, body=SOUND, headers=None):
    code, _, text = d.request("POST", path, body, headers or {"Content-Type": "audio/wav"})
    return code, text.decode()


def form(d, path, field="file", **fields):
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{x}\r\n'.encode() for k, v in fields.items() for x in (v if isinstance(v, list) else [v])]
    parts += [f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'.encode(), SOUND, b"\r\n--x--\r\n"]
    return post(d, path, b"".join(parts), {"Content-Type": "multipart/form-data; boundary=x"})


@case
def every_form_of_upload_redacts(d):
    for code, text in (post(d, "/v1/transcribe?redact=numbers"), post(d, "/v1/transcribe?redact=numbers&redact=ssn"), post(d, "/v1/transcribe?redact=numbers&format=srt"),
                       post(d, "/v1/listen?redact=numbers&redact=ssn"), form(d, OPEN, redact="numbers"), form(d, OPEN, **{"redact[]": ["pci", "true"]}),
                       form(d, OPEN, redact="numbers", response_format="verbose_json", **{"timestamp_granularities[]": "word"}),
                       form(d, OPEN, redact="numbers", stream="true"), form(d, "/inference", redact="numbers"),
                       form(d, "/inference", **{"redact[]": ["pci", "numbers"]}),
                       form(d, "/asr?redact=numbers&output=json", "audio_file")):
        assert code == 200 and HIDDEN in text, text
        assert not set(re.findall("[a-z]+", text)) & set(SPOKEN.split()), text


@case
def words_are_replaced_in_every_form(d):
    pairs = urllib.parse.quote("four two:42,nine:")
    want = "42 seven one zero three"
    assert json.loads(post(d, f"/v1/transcribe?replace={pairs}")[1])["text"] == want
    got = json.loads(post(d, "/v1/listen?replace=four%20two:42&replace=nine:")[1])["results"]["channels"][0]["alternatives"][0]
    assert got["transcript"] == want and [w["word"] for w in got["words"]] == want.split(), got
    plain = json.loads(post(d, "/v1/listen")[1])["results"]["channels"][0]["alternatives"][0]["words"]
    assert (got["words"][0]["start"], got["words"][0]["end"]) == (plain[0]["start"], plain[1]["end"]), got
    assert json.loads(form(d, OPEN, **{"replace[]": ["four two:42", "nine:"]})[1])["text"] == want


@case
def what_cannot_be_filtered_is_refused(d):
    for path in ("/v1/transcribe", "/v1/listen"):
        for query, name in (("redact=pii", "redact"), ("replace=x", "replace")):
            code, text = post(d, f"{path}?{query}")
            assert code == 400 and f"{name}:" in text, (path, text)
    code, text = form(d, OPEN, redact="names")
    assert code == 400 and json.loads(text)["error"]["param"] == "redact", text


@case
def live_texts_are_filtered_from_the_first_partial_on(d):
    for where, ending in (("/v1/stream?redact=numbers", '{"type":"end"}'), ("/v1/listen?interim_results=true&redact=numbers", '{"type":"CloseStream"}'),
                          ("/v2/listen?redact=numbers", '{"type":"CloseStream"}')):
        flux = "encoding=linear16&" if "/v2" in where else ""
        got = converse(f"ws://127.0.0.1:{d.port}{where}&{flux}sample_rate={RATE}" + ("&encoding=linear16" if "/v1/listen" in where else ""),
                       [SAMPLES[i:i + 3200] for i in range(0, len(SAMPLES), 3200)] + [ending])
        text = json.dumps(got.messages)
        assert HIDDEN in text and got.code == 1000, (where, got)
        assert not any(f'"{word}' in text or f" {word}" in text for word in SPOKEN.split()), (where, text)
    start = json.dumps({"type": "start", "sample_rate": RATE, "redact": ["pci", "numbers"], "replace": ["seven:7"]})
    got = converse(d.ws, [start, SAMPLES, '{"type":"end"}'])
    finals = [m for m in got.messages if m["type"] == "final"]
    assert [m["text"] for m in finals] == [HIDDEN] and [w["word"] for m in finals for w in m["words"]] == [HIDDEN], got


@case
def listed_words_are_masked_where_there_is_a_list(d):
    code, text = post(d, "/v1/transcribe?profanity_filter=true")
    assert code == 400 and "profanity_filter: the server has no list" in text, text
    code, text = post(d, "/v1/listen?profanity_filter=true&filler_words=false")
    assert code == 200 and [w["parameter"] for w in json.loads(text)["metadata"]["warnings"]] == ["profanity_filter"], text
    got = converse(f"ws://127.0.0.1:{d.port}/v1/listen?encoding=linear16&sample_rate={RATE}&profanity_filter=true&redact=false", [SAMPLES, '{"type":"CloseStream"}'])
    assert got.code == 1000 and f'"{SPOKEN}"' in json.dumps(got.messages) and got.messages[-1]["warnings"][0]["parameter"] == "profanity_filter", got
    want = SPOKEN.replace("four two", "**** ***").replace("nine", "****")
    with tempfile.NamedTemporaryFile() as words:
        words.write(b"Four two\n\nnine\n")
        words.flush()
        with Stenod(f"text.profanity={words.name}") as other:
            for path in ("/v1/transcribe", "/v1/listen"):
                assert f'"{SPOKEN}"' in post(other, path)[1]
                code, text = post(other, f"{path}?profanity_filter=true&filler_words=false")
                assert code == 200 and f'"{want}"' in text and "warnings" not in text, text
            assert json.loads(form(other, OPEN, profanity_filter="true")[1])["text"] == want
            start = json.dumps({"type": "start", "sample_rate": RATE, "profanity_filter": True, "filler_words": False})
            got = converse(other.ws, [start, SAMPLES, '{"type":"end"}'])
            assert [m["text"] for m in got.messages if m["type"] == "final"] == [want], got
            for where in ("/v1/listen", "/v2/listen"):
                got = converse(f"ws://127.0.0.1:{other.port}{where}?encoding=linear16&sample_rate={RATE}&profanity_filter=true", [SAMPLES, '{"type":"CloseStream"}'])
                assert f'"{want}"' in json.dumps(got.messages) and "nine" not in json.dumps(got.messages), (where, got)


@case
def a_list_that_cannot_be_read_is_an_error_at_start(_d):
    with tempfile.NamedTemporaryFile() as words:
        for text, reason in ((b"\xff\n", "is not UTF-8"), (b" \n", "has no word"), (b"a\n" * 4097, "mask: more than 4096")):
            words.seek(0)
            words.truncate()
            words.write(text)
            words.flush()
            r = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config", "--set", f"text.profanity={words.name}"], capture_output=True, text=True, check=False)
            assert r.returncode and "text.profanity" in r.stderr + r.stdout and reason in r.stderr + r.stdout, r


@case
def a_redacted_text_is_in_no_job_and_no_log(_d):
    with tempfile.TemporaryDirectory() as folder:
        with Stenod(f"jobs.dir={folder}", "log.transcripts=yes", "log.level=debug") as d:
            job = json.loads(post(d, "/v1/jobs?redact=numbers&redact=ssn&replace=x:y&replace=v:w")[1])["id"]
            assert eventually(lambda: json.loads(d.get(f"/v1/jobs/{job}")[2])["state"] == "done", 60 * SLOW)
            assert HIDDEN in d.get(f"/v1/jobs/{job}/result?format=text")[2].decode()
            post(d, "/v1/transcribe?redact=numbers")
            converse(f"{d.ws}?redact=numbers&sample_rate={RATE}", [SAMPLES, '{"type":"end"}'])
            said = d.output()
            assert HIDDEN in said and SPOKEN not in said and "seven" not in said, said
        kept = b"".join(open(os.path.join(folder, f), "rb").read() for f in os.listdir(folder) if os.path.isfile(os.path.join(folder, f)))
        assert HIDDEN.encode() in kept and b"seven" not in kept


@case
def the_command_filters(_d):
    command = [os.path.join(BUILD, "steno"), "transcribe", "--model", os.path.join(ROOT, "conf", "models", "digits-en"), DIGITS]
    for args, want in ((["--redact", "numbers"], HIDDEN), (["--redact", "pci"], SPOKEN), (["--replace", "four two:42"], "42 seven one nine zero three")):
        assert subprocess.run(command + args, capture_output=True, text=True, check=True).stdout.strip() == want, args
    r = subprocess.run(command + ["--redact", "names"], capture_output=True, text=True, check=False)
    assert r.returncode and "redact: 'names'" in r.stderr and not r.stdout, r


def main():
    with Stenod() as d:
        return tap(d)


if __name__ == "__main__":
    sys.exit(main())
