"""SIGKILL at any moment: before each write of stored data, and before each message of a stream and of an upload's
answer. The next start finds no half-written file, serves, and reports the session as unknown. All results before
the kill were correct and whole, and the client continues after them. tests/faults/inject.c kills at the nth call."""
# not under sanitizers: a killed process reports nothing
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from broken import DISK, HEADERS, RECEIVE, SEND, Broken
from daemon import DIGITS, DIGITS_TEXT, ROOT, SLOW, case, eventually, pcm, tap

PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
OPEN = dict(additional_headers=HEADERS, max_size=None, max_queue=None, compression=None, open_timeout=20 * SLOW, close_timeout=2,
            proxy=None)
TIMES = 3  # the digits, each time followed by a pause
PAUSE = bytes(2 * RATE)
LONG = (PCM + PAUSE) * TIMES
PLACES = 60 if os.environ.get("STENO_TEST_LONG") == "1" else 12  # number of tried calls per kind: the first, the last, some between


class Killed(Broken):
    """A stenod with caches in its own folders. It may end by SIGKILL in `with`."""

    def __init__(self, *settings):
        super().__init__("websocket.resume=30s", *settings)
        self.cache = os.path.join(self.folder, "cache")
        self.d.env["STENO_CACHE"] = self.cache

    def start(self):
        """Start it as a service manager does. Whether it is ready; otherwise it was killed."""
        d = self.d
        d.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        d.proc = subprocess.Popen(d.cmd, stderr=d.log, cwd=ROOT, env={**os.environ, **d.env})
        assert eventually(lambda: self.is_ready() or d.proc.poll() is not None, 30), d.output()
        return d.proc.poll() is None

    def is_ready(self):
        m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.d.output())
        if m:
            self.d.port = int(m[1])
        return m and self.d.status("/readyz") == 200

    def strike(self, kind, n):
        self.fail(kind, n, kill=True)

    def was_killed(self):
        """Whether the call was reached; then it has killed the process."""
        if self.mend() > 0:
            return False
        code = self.d.proc.wait(60 * SLOW)
        assert code == -signal.SIGKILL, (code, self.d.output()[-2000:])
        return True

    def stop(self):
        assert self.d.terminate() == 0, self.d.output()[-2000:]

    def kept(self):
        return sorted(os.listdir(self.cache) + os.listdir(os.path.join(self.folder, "costs")))

    def forget(self):
        for folder in (self.cache, os.path.join(self.folder, "costs")):
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.d.proc and self.d.proc.poll() is None:
            self.d.proc.kill()
            self.d.proc.wait()
        self.close()


def works(b):
    status, _, body = b.d.request("POST", "/v1/transcribe?format=text", WAV, HEADERS)
    assert (status, body.decode().strip()) == (200, DIGITS_TEXT), (status, body)


def places(calls):
    ends = PLACES // 3
    between = range(ends, calls - ends, max(1, (calls - 2 * ends) // ends))
    return sorted({n for n in (*range(1, ends + 1), *between, *range(calls - ends + 1, calls + 1)) if 0 < n <= calls})


def counted(b, kind, what):
    """The number of calls of this kind that what() makes."""
    b.fail(kind, 1 << 40)
    what()
    return (1 << 40) - b.mend()


@case
def stored_files_are_whole_wherever_their_writer_was_killed(_):
    """Packed model, its note, measured costs: a start that is killed at each write, then an undisturbed one."""
    with Killed() as b:
        calls = counted(b, DISK, b.start)
        works(b)
        b.stop()
        whole = b.kept()
        assert calls > 6 and {os.path.splitext(f)[1] for f in whole} >= {".stenopack", ".stenokey"}, (calls, whole)
        left = 0
        for n in places(calls):
            b.forget()
            b.strike(DISK, n)
            b.start()
            if not b.was_killed():  # one line of the log fewer
                assert n > calls - 4, (n, calls, b.d.output())
                b.stop()
                continue
            left += any(f.endswith(".new") for f in os.listdir(b.cache)) if os.path.isdir(b.cache) else 0
            assert b.start(), (n, b.d.output())
            works(b)
            b.stop()
            assert b.kept() == whole, (n, b.kept(), whole)
        assert left, "it was never killed while a file was half written"


def say(ws, audio):
    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}))
    for at in range(0, len(audio), RATE):
        ws.send(audio[at:at + RATE])
    ws.send(json.dumps({"type": "end"}))


def listen(b, audio, got):
    """A session of the audio. `got` gets its messages until the end or until the server is gone."""
    try:
        with connect(b.d.ws, **OPEN) as ws:
            try:
                say(ws, audio)
            except (ConnectionClosed, OSError):
                pass
            try:
                while True:
                    got.append(json.loads(ws.recv(timeout=60 * SLOW)))
            except (ConnectionClosed, OSError):
                pass
    except (OSError, InvalidHandshake, ConnectionClosed, AssertionError, EOFError):
        pass  # killed during the handshake


def finals(messages):
    return [m for m in messages if m["type"] == "final"]


def words(messages):
    return " ".join(m["text"] for m in finals(messages) if m["text"])


@case
def finals_stay_valid_and_the_next_server_gives_the_rest(_):
    """Killed before each send and receive of a stream. The new server does not know the old session (404). The
    client starts again after its last final."""
    with Killed() as b:
        assert b.start()
        calls, expected = {}, " ".join([DIGITS_TEXT] * TIMES)
        for kind in (SEND, RECEIVE):
            reference = []
            calls[kind] = counted(b, kind, lambda: listen(b, LONG, reference))
            assert words(reference) == expected, words(reference)
        b.stop()
        some, killed = 0, dict.fromkeys(calls, 0)
        for kind, most in calls.items():
            for n in places(most):
                assert b.start(), b.d.output()
                b.strike(kind, n)
                got = []
                listen(b, LONG, got)
                if not b.was_killed():  # on a busy machine several messages go into one send
                    assert words(got) == expected, (kind, n, most)
                    b.stop()
                    continue
                killed[kind] += 1
                said = finals(got)
                some += bool(said)
                assert expected.startswith(words(got)), words(got)
                assert b.start(), b.d.output()
                if got:
                    refused(b, got)
                behind = 2 * int(said[-1]["end"] * RATE) if said else 0
                rest = []
                listen(b, LONG[behind:], rest)
                assert rest[-1]["type"] == "end" and " ".join(filter(None, (words(got), words(rest)))) == expected, (kind, n, words(got), words(rest))
                b.stop()
        assert some, "no final came before any of the kills"
        assert all(n >= 4 for n in killed.values()), killed  # at least the first sends and receives; the total depends on the load


def refused(b, got):
    try:
        connect(f"{b.d.ws}?session_id={got[0]['session_id']}&seq={got[-1]['seq']}", **OPEN).close()
    except InvalidStatus as e:
        assert e.response.status_code == 404 and b"session_not_found" in e.response.body, e.response
        return
    raise AssertionError("a session of a server that is gone was taken up")


def ask(b, path, body, kind):
    """(status, body) of a complete answer, else None."""
    try:
        status, _, got = b.d.request("POST", path, body, {**HEADERS, "Content-Type": kind})
        return status, got
    except (OSError, http.client.HTTPException):
        return None


@case
def an_answer_is_whole_or_none_wherever_the_server_was_killed(_):
    """Uploads with an answer of one body, and with an answer that is sent while the audio is decoded. A client never
    takes a part for the whole."""
    form = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + WAV + b"\r\n--b\r\nContent-Disposition: "
            b'form-data; name="stream"\r\n\r\ntrue\r\n--b--\r\n')
    uploads = (("/v1/transcribe?format=text", WAV, "audio/wav"), ("/v1/audio/transcriptions", form, "multipart/form-data; boundary=b"))
    with Killed() as b:
        assert b.start()
        for path, body, form_type in uploads:
            right = ask(b, path, body, form_type)
            assert right and right[0] == 200, right
            for kind in (SEND, RECEIVE):
                answers = 0
                for n in places(counted(b, kind, lambda: ask(b, path, body, form_type)))[::2]:
                    b.strike(kind, n)
                    got = ask(b, path, body, form_type)
                    answers += got is not None
                    assert got is None or got == right, (path, kind, n, got)
                    if not b.was_killed():
                        b.stop()
                    assert b.start(), b.d.output()
                assert answers <= PLACES // 4, (path, kind, answers)
            assert ask(b, path, body, form_type) == right


if __name__ == "__main__":
    sys.exit(tap(None))
