"""The clients of a soak on a model of speech (Whisper), whose transcripts nobody has written down.

What is expected is recorded before the run: of an upload, the text that `steno transcribe` prints for the file with the
same options; of a live stream, the text that the same client gets when it is alone on the idle server. A final keeps the stable
text of its partials, and under load partials come at other times. So streams with partials are compared without case and
punctuation, and a few of their words may differ. Of streams without partials, none may.

LIVE and UPLOADS describe the kinds of clients that are spoken here; our own dialect, streams at full speed and plain
uploads are steno-load's, which also checks that no stable text is taken back."""
import base64
import glob
import http.client
import itertools
import json
import os
import random
import string
import subprocess
import threading
import time
import wave
from typing import Callable, NamedTuple

from soak_clients import BINARY, LONG, TEXT, Conversation, reset

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JFK = os.path.join(ROOT, "tests/data/speech/jfk.wav")
SPEECH = os.path.join(ROOT, "../shared/audio/speech")
PIECE = 0.2  # s of audio in a message
PAUSE = 1.5  # s of silence after a recording, as steno-load sends it
COMPLAINTS = 3  # printed of each kind of client


# ---- recordings ----

class Recording(NamedTuple):
    name: str
    path: str
    rate: int
    pcm: bytes  # s16le, mono

    @property
    def seconds(self):
        return len(self.pcm) / 2 / self.rate


def read_recording(path):
    """None for a WAV that is not mono with 16 bits."""
    with wave.open(path, "rb") as w:
        if w.getnchannels() != 1 or w.getsampwidth() != 2:
            return None
        return Recording(os.path.basename(path)[:-4], path, w.getframerate(), w.readframes(w.getnframes()))


def recordings(folder):
    """Those of the folder and of the repository, the shortest first."""
    found = [read_recording(p) for p in [JFK, *glob.glob(os.path.join(folder, "*.wav"))]]
    return sorted((r for r in found if r), key=lambda r: r.seconds)


def long_recording(path, parts, seconds):
    """Write a WAV of the parts, one after the other, until it is that long."""
    rate = parts[0].rate
    pcm, same = b"", itertools.cycle([p for p in parts if p.rate == rate])
    while len(pcm) < 2 * rate * seconds:
        pcm += next(same).pcm + bytes(2 * rate)
    with wave.open(path, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(pcm)
    return read_recording(path)


# ---- what a session has heard ----

class Heard:
    def __init__(self):
        self.finals, self.words, self.faults = [], [], []
        self.deltas, self.partials, self.owed, self.ended, self.over = "", 0, 0, False, False

    @property
    def text(self):
        return " ".join(" ".join(self.finals).split())

    def final(self, text, words=()):
        self.finals.append(text)
        self.words += [(w["start"], w["end"]) for w in words]

    def add_up(self, text):
        """The deltas so far are this text."""
        if self.deltas != text:
            self.faults.append(f"deltas '{self.deltas}' do not add up to '{text}'")
        self.deltas = ""

    def check_times(self, seconds, wanted):
        """Words have times in order and within the recording."""
        if wanted and self.text and not self.words:
            self.faults.append("there are no times of words")
        before = 0.0
        for start, end in self.words:
            if not before <= start <= end <= seconds + 0.001:
                self.faults.append(f"a word from {start} to {end} s follows one from {before} s, in {seconds:.3f} s of audio")
            before = start


# ---- live dialects ----

def hear_ours(m, heard):
    if m["type"] == "final":
        heard.final(m["text"], m["words"])
    elif m["type"] == "error":
        heard.faults.append(str(m))
    heard.partials += m["type"] == "partial"
    heard.over = heard.over or m["type"] == "end"


def hear_deepgram(m, heard):
    if m["type"] == "Results":
        best = m["channel"]["alternatives"][0]
        if m["is_final"]:
            heard.final(best["transcript"], best["words"])
        else:
            heard.partials += 1
    elif m["type"] == "Error":
        heard.faults.append(str(m))
    heard.over = heard.over or m["type"] == "Metadata"


def hear_vosk(m, heard):
    heard.owed -= 1
    if "text" in m:
        heard.final(m["text"], m.get("result", ()))
    elif "partial" in m:
        heard.partials += bool(m["partial"])
    else:
        heard.faults.append(str(m))
    heard.over = heard.ended and heard.owed == 0


def hear_realtime(m, heard):
    if m["type"].endswith("input_audio_transcription.delta"):
        heard.deltas += m["delta"]
        heard.partials += 1
    elif m["type"].endswith("input_audio_transcription.completed"):
        heard.add_up(m["transcript"])
        heard.final(m["transcript"])
        heard.over = True
    elif m["type"] == "error":
        heard.faults.append(str(m))


def realtime_update(rate):
    return json.dumps({"type": "session.update", "session": {"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": rate}, "transcription": {"model": "whisper-1"}, "turn_detection": None}}}})


def realtime_append(pcm):
    return TEXT, json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}).encode()


def binary(pcm):
    return BINARY, pcm


class Live(NamedTuple):
    api: str  # as metrics name it
    path: str
    hear: Callable  # (message, Heard)
    after: str
    before: Callable = lambda rate: None  # the first message
    wrap: Callable = binary  # (op, payload) of samples
    times: bool = True  # finals have times of words
    closes: bool = True  # the server closes after its last message; else the client does


OUR_LIVE = Live("stream", "/v1/stream?sample_rate={rate}", hear_ours, '{"type":"end"}')  # in the soak it is steno-load's
LIVE = (
    Live("deepgram", "/v1/listen?encoding=linear16&sample_rate={rate}&interim_results=true", hear_deepgram, '{"type":"CloseStream"}'),
    Live("vosk", "/vosk", hear_vosk, '{"eof" : 1}', lambda rate: json.dumps({"config": {"sample_rate": rate}})),
    Live("realtime", "/v1/realtime?intent=transcription", hear_realtime, '{"type":"input_audio_buffer.commit"}', realtime_update,
         realtime_append, times=False, closes=False),
)


def stream(server, kind, recording, cut_at=None, rng=random, paced=True, wait=LONG):
    """Say the recording in real time, or (not paced) as fast as it is taken, which may bring no partials; Heard, or None if it
    was cut, and the seconds of audio that were sent. cut_at: s. wait: s for what comes after the audio."""
    heard, pcm = Heard(), recording.pcm + bytes(2 * int(PAUSE * recording.rate))
    n = 2 * int(PIECE * recording.rate)
    c = Conversation(server.host, server.port, kind.path.format(rate=recording.rate), max(wait, LONG))

    def hear(until):
        for text in c.texts(until):
            kind.hear(json.loads(text), heard)
            if heard.over and not kind.closes:
                return
    try:
        if first := kind.before(recording.rate):
            c.send(TEXT, first.encode())
        begin = time.monotonic()
        for i, at in enumerate(range(0, len(pcm), n)):
            hear(begin + (i + 1) * PIECE if paced else 0)  # a chunk is sent when its last sample would have been recorded
            if cut_at is not None and at >= 2 * cut_at * recording.rate:
                if rng.random() < 0.5:
                    reset(c.s)
                return None, at / 2 / recording.rate
            c.send(*kind.wrap(pcm[at:at + n]))
            heard.owed += 1
        c.send(TEXT, kind.after.encode())
        heard.owed, heard.ended = heard.owed + 1, True
        hear(time.monotonic() + wait)
        closed = c.code is not None
        c.close()
    finally:
        c.s.close()
    seconds = len(pcm) / 2 / recording.rate
    if not heard.over or closed != kind.closes or c.code not in (None, 1000):
        heard.faults.append(f"the stream did not end well: close code {c.code}")
    if paced and not heard.partials:
        heard.faults.append("there was no partial result")
    heard.check_times(seconds, kind.times)
    return heard, seconds


# ---- uploads ----

def answer_text(body, heard):
    heard.final(body.decode())


def answer_json(body, heard):
    heard.final(json.loads(body)["text"])


def answer_verbose(body, heard):
    j = json.loads(body)
    heard.final(j["text"], j["words"])


def answer_segments(body, heard):
    j = json.loads(body)
    heard.final(j["text"], [w for s in j["segments"] for w in s["words"]])


def answer_events(body, heard):
    for line in body.decode().splitlines():
        m = json.loads(line[6:]) if line.startswith("data: {") else {"type": ""}
        if m["type"] == "transcript.text.delta":
            heard.deltas += m["delta"]
            heard.partials += 1
        elif m["type"] == "transcript.text.done":
            heard.add_up(m["text"])
            heard.final(m["text"])
    if heard.partials < 2 or len(heard.finals) != 1:
        heard.faults.append(f"{heard.partials} deltas and {len(heard.finals)} ends came")


class Upload(NamedTuple):
    label: str
    api: str
    path: str
    fields: tuple  # of OpenAI's form; without any, the body is the file
    options: tuple  # of steno transcribe, for the same text
    answer: Callable  # (body, Heard)
    long: bool = False  # of the long recording
    times: bool = False


FORM, OURS = "/v1/audio/transcriptions", "/v1/transcribe"
UPLOADS = (
    Upload("form", "openai", FORM, (("model", "whisper-1"),), (), answer_json),
    Upload("words", "openai", FORM, (("response_format", "verbose_json"), ("timestamp_granularities[]", "word")), (), answer_verbose, times=True),
    Upload("streamed", "openai", FORM, (("stream", "true"),), (), answer_events, long=True),
    Upload("greedy", "transcribe", OURS + "?beam=1&temperature_fallback=no&format=text", (), ("--beam", "1", "--temperature-fallback", "no"), answer_text),
    Upload("vad", "openai", FORM, (("vad_filter", "true"),), ("--batched", "8"), answer_json, long=True),
    Upload("ours", "transcribe", OURS, (), (), answer_segments, times=True),
    Upload("batched", "transcribe", OURS + "?batched=4", (), ("--batched", "4"), answer_segments, long=True, times=True),
)


def request_body(kind, recording):
    """(body, headers)"""
    with open(recording.path, "rb") as f:
        audio = f.read()
    if not kind.fields:
        return audio, {"Content-Type": "audio/wav"}
    head = "".join(f'--soak\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in kind.fields)
    head += '--soak\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return head.encode() + audio + b"\r\n--soak--\r\n", {"Content-Type": "multipart/form-data; boundary=soak"}


def upload(server, kind, recording, cut_at=None):
    """Heard, or None if it was cut, and the seconds of audio that were sent. cut_at: share of the body; above 1 the
    client leaves cut_at - 1 s after it."""
    body, headers = request_body(kind, recording)
    c = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
    try:
        if cut_at is not None:
            c.putrequest("POST", kind.path)
            for k, v in {**headers, "Content-Length": str(len(body))}.items():
                c.putheader(k, v)
            c.endheaders()
            c.send(body[:int(len(body) * cut_at)])
            time.sleep(max(0.0, cut_at - 1))
            return None, recording.seconds * min(1.0, cut_at)
        c.request("POST", kind.path, body, headers)
        r = c.getresponse()
        heard, text = Heard(), r.read()
    finally:
        c.close()
    if r.status == 200:
        kind.answer(text, heard)
        heard.check_times(recording.seconds, kind.times)
    else:
        heard.faults.append(f"status {r.status}: {text[:200]!r}")
    return heard, recording.seconds


# ---- the run ----

def plain(text):
    """Without case and punctuation."""
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def word_errors(want, got):
    """Levenshtein distance over words."""
    want, got = want.split(), got.split()
    row = list(range(len(got) + 1))
    for i, a in enumerate(want, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(got, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


class Tally:
    """Sessions of one kind of client, with the names of steno-load's figures. late: cut after all was sent, so that the
    server may have answered before it saw that. exact: with case and punctuation."""

    def __init__(self, label, api, exact=True):
        self.label, self.api, self.exact, self.same = label, api, exact, str if exact else plain
        self.ok = self.wrong = self.failed = self.dropped = self.late = self.words = self.word_errors = 0
        self.audio_seconds, self.lock, self.printed = 0.0, threading.Lock(), 0

    def complain(self, name, *lines):
        self.printed += 1
        for line in lines if self.printed <= COMPLAINTS else ():
            print(f"soak: {self.label}, {name}: {line}", flush=True)

    def add(self, name, want, heard, seconds, late=False):
        with self.lock:
            self.audio_seconds += seconds
            if heard is None:
                self.dropped += 1
                self.late += late
                return
            wrong = word_errors(self.same(want), self.same(heard.text))
            self.words += len(want.split())
            self.word_errors += wrong
            if heard.faults:
                self.failed += 1
                self.complain(name, *heard.faults[:COMPLAINTS])
            elif wrong:
                self.wrong += 1
                self.complain(name, f"expected '{want}'", f"heard    '{heard.text}'")
            else:
                self.ok += 1

    def broke(self, name, why):
        with self.lock:
            self.failed += 1
            self.complain(name, repr(why))

    def summary(self):
        return {k: v for k, v in vars(self).items() if isinstance(v, (int, float, str)) and k != "printed"}


def judge_speech(judge, figures, limit):
    """figures: summaries of kinds of clients, of Tally and of steno-load. limit: percent of words that may differ where
    they are not compared exactly."""
    for x in figures:
        n, most = x["ok"] + x["wrong"], 0 if x["exact"] else limit
        differ = 100 * x["word_errors"] / max(1, x["words"])
        judge(n and not x["failed"] and differ <= most,
              f"{x['label']}: {n} ended well, {x['failed']} failed, {x['dropped']} cut; {x['word_errors']} of {x['words']} words differ "
              f"from what was expected (at most {most:g} %)")


class Speech:
    """The clients. build, out: folders. streams: real-time streams, half of them in our own dialect, and one of these without
    partials. uploaders: users of UPLOADS. long_seconds: length of the long recording. drop: percent of sessions that hang up."""

    def __init__(self, server, model, build, out, streams=6, uploaders=2, folder=SPEECH, long_seconds=180, drop=15):
        self.server, self.model, self.build, self.out = server, model, build, os.path.join(out, "speech")
        self.streams, self.uploaders, self.drop = streams, uploaders, drop
        os.makedirs(self.out, exist_ok=True)
        found = recordings(folder)
        self.short = [r for r in found if r.seconds < 25][:3]
        self.long = long_recording(os.path.join(self.out, "long.wav"), found, long_seconds)
        self.expected, self.loads, self.threads = {}, {}, []
        self.tallies = {k: Tally(k.api, k.api, exact=False) for k in LIVE} | {k: Tally(f"{k.api}, {k.label}", k.api) for k in UPLOADS}

    # steno-load's part: label -> options. It takes the text of a recording from a file beside it.
    def kinds_of_load(self):
        rough = ["--plain", "--max-wer", "1000"]  # judge_speech has the limit
        own = max(1, self.streams - self.streams // 2 - 1)
        return {"streams": ["--users", str(own), *rough, "--encodings", "s16le,f32le,wav", "--drop", str(self.drop), "--think-ms", "200"],
                "quiet": ["--users", "1", "--start", '"interim":false', "--think-ms", "200"],
                "fast": ["--users", "1", *rough, "--fast", "--think-ms", "2000"],
                "uploads": ["--users", "1", "--think-ms", "1000"]}

    def load(self, label, *options):
        kind, path = ("http", OURS) if label == "uploads" else ("ws", "/v1/stream")
        folder = os.path.join(self.out, label)
        return subprocess.Popen([os.path.join(self.build, "loadtest/steno-load"), "--label", label, "--url",
                                 f"{kind}://{self.server.host}:{self.server.port}{path}", "--json", self.figures(label), "--gap-ms",
                                 str(0 if label == "uploads" else int(1000 * PAUSE)), *options,
                                 *[os.path.join(folder, r.name + ".wav") for r in self.short]])

    def figures(self, label):
        return os.path.join(self.out, label + ".json")

    def expect_of_load(self, label, options):
        """Put links to the recordings and their expected texts into the folder of the kind of client."""
        folder = os.path.join(self.out, label)
        os.makedirs(folder, exist_ok=True)
        for r in self.short:
            path = os.path.join(folder, r.name)
            for old in (path + ".wav", path + ".txt"):
                if os.path.lexists(old):
                    os.unlink(old)
            os.symlink(os.path.abspath(r.path), path + ".wav")
        if label == "uploads":
            texts = self.transcribe(self.short)
        else:
            rc = self.load(label, *options, "--users", "1", "--sessions", str(len(self.short)), "--drop", "0", "--encodings", "s16le").wait()
            assert rc == 0, f"steno-load {label}: status {rc} before the run"
            with open(self.figures(label), encoding="utf-8") as f:
                texts = {os.path.basename(x["file"])[:-4]: x["text"] for x in json.load(f)["transcripts"]}
        for r in self.short:
            with open(os.path.join(folder, r.name + ".txt"), "w", encoding="utf-8") as f:
                f.write(texts[r.name] + "\n")

    def transcribe(self, found, options=()):
        """Texts by name of these recordings, by the command."""
        got = subprocess.run([os.path.join(self.build, "steno"), "transcribe", "--model", self.model, *options, *[r.path for r in found]],
                             stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        assert len(got) == len(found), got
        return {r.name: " ".join(text.split()) for r, text in zip(found, got)}

    def of(self, kind):
        """The recordings of a kind."""
        if isinstance(kind, Upload):
            return [self.long] if kind.long else self.short
        return self.short[:2]

    def prepare(self):
        """Record what is expected."""
        for label, options in self.kinds_of_load().items():
            self.expect_of_load(label, options)
        for options in {kind.options for kind in UPLOADS}:
            same = [kind for kind in UPLOADS if kind.options == options]
            texts = self.transcribe(sorted({r for kind in same for r in self.of(kind)}), options)
            for kind in same:
                self.expected |= {(kind, r.name): texts[r.name] for r in self.of(kind)}
        for kind in LIVE:
            for r in self.of(kind):
                heard, _ = stream(self.server, kind, r)
                assert heard.text and not heard.faults, f"{kind.api}, {r.name}, before the run: {heard.faults or 'no text'}"
                self.expected[kind, r.name] = heard.text

    def start(self, seconds):
        end = time.time() + seconds
        for label, options in self.kinds_of_load().items():
            self.loads[label] = self.load(label, "--seconds", str(seconds), *options)
        for i in range(self.streams // 2):
            self.threads.append(threading.Thread(target=self.use, args=(LIVE, i, end)))
        for i in range(self.uploaders):
            self.threads.append(threading.Thread(target=self.use, args=(UPLOADS, i * 3, end)))
        for t in self.threads:
            t.start()
        return list(self.loads.values())

    def use(self, kinds, first, end):
        """One user, session by session, to the end; each kind at least once, however slow the machine is."""
        rng = random.Random(first)
        for n in itertools.count(first):
            if time.time() >= end and n - first >= len(kinds):
                return
            kind = kinds[n % len(kinds)]
            self.session(kind, self.of(kind)[n // len(kinds) % len(self.of(kind))], rng)
            time.sleep(0.3)

    def session(self, kind, recording, rng):
        t = self.tallies[kind]
        hang_up = rng.randrange(100) < self.drop and t.ok + t.wrong + t.failed  # the first one shows that it works
        try:
            if isinstance(kind, Upload):
                cut = rng.uniform(0.5, 1.5) if hang_up else None
                late = bool(cut and cut >= 1)
                heard, seconds = upload(self.server, kind, recording, cut)
            else:
                late = False
                heard, seconds = stream(self.server, kind, recording, rng.uniform(0, recording.seconds) if hang_up else None, rng)
            t.add(recording.name, self.expected[kind, recording.name], heard, seconds, late)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as why:
            t.broke(recording.name, why)

    def join(self):
        for t in self.threads:
            t.join()

    def summaries(self):
        out = []
        for label in self.loads:
            with open(self.figures(label), encoding="utf-8") as f:
                out.append(json.load(f) | {"exact": label in ("quiet", "uploads")})
        return out + [t.summary() for t in self.tallies.values()]
