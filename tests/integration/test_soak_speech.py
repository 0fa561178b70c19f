# not under sanitizers: what it checks is a program of the tests
"""The clients of `make soak MODEL=WHISPER`: faults that are injected into answers are found, and good answers pass. The last
cases need STENO_WHISPER_TINY_EN (a faster-whisper directory of tiny.en)."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import types

from daemon import BUILD, ROOT, Skip, Stenod, case, serves, tap

sys.path.insert(0, os.path.join(ROOT, "loadtest"))
import soak  # noqa: E402
import soak_speech  # noqa: E402
from soak_speech import JFK, LIVE, OUR_LIVE, UPLOADS, Heard, Recording, Speech, Tally  # noqa: E402

TINY = os.environ.get("STENO_WHISPER_TINY_EN") or os.path.join(ROOT, "build", "models", "tiny.en")
DEEPGRAM, VOSK, REALTIME = LIVE
TONE = Recording("tone", "", 8000, bytes(8000))  # half a second
PARTIAL = {"type": "Results", "is_final": False, "channel": {"alternatives": [{"transcript": "so", "words": []}]}}


def final(text, *times):
    words = [{"start": a, "end": b} for a, b in times]
    return {"type": "Results", "is_final": True, "channel": {"alternatives": [{"transcript": text, "words": words}]}}


def heard_from(kind, talk, wait=soak_speech.LONG):
    """The results that a stream gets from a server whose connections talk() serves. wait: s for what comes after the audio."""
    with serves(talk) as port:
        where = types.SimpleNamespace(host="127.0.0.1", port=port)
        return soak_speech.stream(where, kind, TONE, wait=wait)[0]


def says(*messages, code=1000):
    """Serve Deepgram's: these messages when all was said, then a close. code None: the client has to close."""
    def talk(ws):
        while ws.recv() != DEEPGRAM.after:
            pass
        for m in messages:
            ws.send(json.dumps(m))
        if code is None:
            ws.recv()
        else:
            ws.close(code)
    return talk


@case
def a_good_stream_has_no_fault(_):
    heard = heard_from(DEEPGRAM, says(PARTIAL, final("so it", (0.1, 0.2), (0.2, 0.4)), final("goes", (0.5, 2.0)), {"type": "Metadata"}))
    assert heard.text == "so it goes" and not heard.faults, heard.faults


@case
def faults_of_a_stream_are_found(_):
    end = {"type": "Metadata"}
    for messages, code, fault in (
            ((PARTIAL, final("so", (0.1, 0.2))), 1000, "did not end well"), ((PARTIAL, final("so", (0.1, 0.2)), end), 1011, "close code 1011"),
            ((final("so", (0.1, 0.2)), end), 1000, "no partial"), ((PARTIAL, final("so"), end), 1000, "no times"),
            ((PARTIAL, final("so it", (0.3, 0.4), (0.2, 0.5)), end), 1000, "follows one from 0.3"),
            ((PARTIAL, final("so", (0.1, 2.1)), end), 1000, "in 2.000 s"), ((PARTIAL, final("so", (0.4, 0.3)), end), 1000, "from 0.4 to 0.3"),
            ((PARTIAL, final("so", (0.1, 0.2)), {"type": "Error", "message": "odd"}, end), 1000, "odd")):
        heard = heard_from(DEEPGRAM, says(*messages, code=code))
        assert len(heard.faults) == 1 and fault in heard.faults[0], (fault, heard.faults)


@case
def deltas_that_do_not_add_up_are_found(_):
    def item(delta, text):
        def talk(ws):
            while ws.recv() != REALTIME.after:
                pass
            for m in ({"type": "conversation.item.input_audio_transcription.delta", "delta": delta},
                      {"type": "conversation.item.input_audio_transcription.completed", "transcript": text}):
                ws.send(json.dumps(m))
            ws.recv()
        return heard_from(REALTIME, talk)
    assert item("so it", "so it").faults == []
    assert "do not add up" in item("so", "so it").faults[0]

    def events(*deltas, done="so it goes"):
        heard = Heard()
        lines = [{"type": "transcript.text.delta", "delta": x} for x in deltas] + [{"type": "transcript.text.done", "text": done}]
        soak_speech.answer_events("".join(f"data: {json.dumps(m)}\n\n" for m in lines if done or "text" not in m).encode(), heard)
        return heard
    assert events("so", " it goes").faults == [] and events("so", " it goes").text == "so it goes"
    assert "do not add up" in events("so", " it").faults[0]
    assert "1 deltas" in events("so it goes").faults[0], "all at the end is not streamed"
    assert "0 ends" in events("so", " it goes", done="").faults[0]


@case
def every_reply_of_vosk_is_waited_for(_):
    def talk(ws):
        ws.recv()
        while ws.recv() != VOSK.after:
            ws.send('{"partial": "so"}')
        ws.send('{"text": "so it goes", "result": [{"start": 0.1, "end": 0.2}]}')
    heard = heard_from(VOSK, talk)
    assert heard.text == "so it goes" and not heard.faults and heard.owed == 0, heard.faults

    def silent(ws):
        talk(types.SimpleNamespace(recv=ws.recv, send=lambda m, n=iter(range(99)): ws.send(m) if next(n) else None))
    assert "did not end well" in heard_from(VOSK, silent).faults[0]


@case
def a_stream_that_the_server_does_not_close_is_a_fault(_):
    faults = heard_from(DEEPGRAM, says(PARTIAL, final("so", (0.1, 0.2)), {"type": "Metadata"}, code=None), wait=2).faults
    assert len(faults) == 1 and "did not end well" in faults[0], faults


def judged(fn, *args):
    """(bad, output)"""
    judge, out = soak.Judge(), io.StringIO()
    with contextlib.redirect_stdout(out):
        fn(judge, *args)
    return judge.bad, out.getvalue()


def tally(*sessions, exact=True):
    t = Tally("deepgram", "deepgram", exact)
    with contextlib.redirect_stdout(io.StringIO()):
        for want, got in sessions:
            heard = Heard()
            heard.final(got)
            t.add("jfk", want, heard, 10.0)
    return t


@case
def words_that_differ_are_counted_and_judged(_):
    assert [soak_speech.word_errors("a b c d", x) for x in ("a b c d", "a c d", "a x c d", "a b c d e", "")] == [0, 1, 1, 1, 4]
    good, bad = tally(("a b c d", "a b c d")), tally(("a b c d", "a b c d"), ("a b c d", "a b c"))
    assert judged(soak_speech.judge_speech, [good.summary()], 0)[0] == 0
    count, out = judged(soak_speech.judge_speech, [good.summary(), bad.summary()], 0)
    assert count == 1 and "1 of 8 words differ" in out, out
    rough = tally(("a b c d", "a b c d"), ("a b c d", "A, b C"), exact=False)
    assert judged(soak_speech.judge_speech, [rough.summary()], 12.5)[0] == 0 and judged(soak_speech.judge_speech, [rough.summary()], 12)[0] == 1
    assert judged(soak_speech.judge_speech, [bad.summary()], 12.5)[0] == 1, "the limit is for streams with partials"
    assert judged(soak_speech.judge_speech, [tally().summary()], 0)[0] == 1, "a kind of client that was never there shows nothing"
    live = Tally("vosk", "vosk", exact=False)
    with contextlib.redirect_stdout(io.StringIO()):
        for got in ("Ever tried. Ever failed", "Ever tried, ever failed.", "Ever tried, ever."):
            heard = Heard()
            heard.final(got)
            live.add("beckett", "Ever tried, ever failed.", heard, 10.0)
    assert (live.ok, live.wrong, live.word_errors) == (2, 1, 1), live.summary()
    with contextlib.redirect_stdout(io.StringIO()):
        good.broke("jfk", OSError("reset"))
    assert judged(soak_speech.judge_speech, [good.summary()], 0)[0] == 1


@case
def sessions_of_each_api_have_to_be_those_of_the_clients(_):
    def page(ok, gone):
        m = {f'steno_sessions_started_total{{api="{a}"}}': float(n) for a, n in (("deepgram", ok + gone), ("stream", 0))}
        m |= {'steno_sessions_total{api="deepgram",result="ok"}': float(ok), 'steno_sessions_total{api="deepgram",result="gone"}': float(gone)}
        for k, v in (("received_", 40.0), ("", 35.0), ("dropped_", 5.0)):
            m[f'steno_audio_{k}seconds_total{{api="deepgram"}}'] = v
        return m
    t = tally(("a b", "a b"), ("a b", "a b"))
    t.add("jfk", "a b", None, 9.0)
    t.add("jfk", "a b", None, 11.0, late=True)

    def bad(ok, gone):
        return judged(soak.judge_metrics, page(ok, gone), [t.summary()], soak.Broken(), 20.0)[0]
    assert bad(2, 2) == 0 and bad(3, 1) == 0, "of one who left after all was sent, the server may think either"
    assert bad(4, 0) == 1 and bad(1, 3) == 1 and bad(2, 3) == 1 and bad(2, 1) == 1
    t.audio_seconds = 100.0
    assert bad(2, 2) == 1


class Whisper:
    """A soak's clients beside a server of tiny.en, with the one recording of the repository."""

    def __init__(self, d, out):
        with tempfile.TemporaryDirectory() as empty:
            self.speech = Speech(types.SimpleNamespace(host="127.0.0.1", port=d.port), TINY, BUILD, out, folder=empty, long_seconds=12)
        self.kinds = [*LIVE, *UPLOADS]
        s = self.speech
        for kind in self.kinds:
            for r in s.of(kind):
                s.expected[kind, r.name] = soak_speech.stream(s.server, kind, r)[0].text if kind in LIVE else s.transcribe([r], kind.options)[r.name]

    def run(self, drop=0):
        """Each kind once, at the same time; figures by kind. drop: 0, or 100 after another run, whose figures are kept."""
        s = self.speech
        s.drop = drop
        if not drop:
            s.tallies = {k: Tally(k.api, k.api, exact=k in UPLOADS) for k in self.kinds}
        rng = types.SimpleNamespace(randrange=lambda n: 0, random=lambda: 0.7, uniform=lambda a, b: 0.8 * b if b > 1.5 else 0.7)
        threads = [threading.Thread(target=s.session, args=(k, s.of(k)[0], rng)) for k in self.kinds]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        return [s.tallies[k].summary() for k in self.kinds], out.getvalue()


# ---- live streams with pauses ----
# How fast the machine is does not matter here: clients wait as long as the server has something to do.

DAYS = 1e6  # s
LOOKS, LOOK = 1200, 0.05  # s; a client that speaks gives the server something to do in less than this minute
MISHEARD = 5  # words; a lost utterance has more


@contextlib.contextmanager
def two_cores(busy):
    """Two cores for this thread and all that it starts, whatever the machine has. busy: each runs something else, too."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usual)[:2])
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * busy)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
        for p in spinning:
            p.kill()
            p.wait()


def works(pid):
    """Whether a thread of the process runs, or would if it had a processor or its disk."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as f:
            if f.read().rpartition(")")[2].split()[0] in "RD":
                return True
    return False


def join_while_it_works(threads, proc):
    """Kill a server that stands still, which ends the clients that wait for it. Returns its faults."""
    still = 0
    while any(t.is_alive() for t in threads):
        time.sleep(LOOK)
        if proc.poll() is not None:
            still = LOOKS
        elif (still := 0 if works(proc.pid) else still + 1) == LOOKS:
            proc.kill()
        if still >= LOOKS:
            for t in threads:
                t.join()
            return ["the server ended, or slept while clients waited for it"]
    return []


def say_at_once(port, said):
    """Every dialect says it twice, at the pace of real time and as fast as it is taken. ({(dialect, paced): Heard}, faults,
    threads)"""
    heard, faults = {}, []

    def say(kind, paced):
        try:
            heard[kind.api, paced] = soak_speech.stream(types.SimpleNamespace(host="127.0.0.1", port=port), kind, said, paced=paced, wait=DAYS)[0]
        except (OSError, ValueError, KeyError) as why:
            faults.append(f"{kind.api}, paced {paced}: {why!r}")
    threads = [threading.Thread(target=say, args=(kind, paced)) for kind in (OUR_LIVE, *LIVE) for paced in (True, False)]
    for t in threads:
        t.start()
    return heard, faults, threads


@case
def live_streams_with_pauses_end_well_on_idle_and_busy_cores(_):
    """Each says two utterances with a pause of 3 s between them. How many partials come is a matter of the machine."""
    if not os.path.exists(TINY):
        raise Skip("set STENO_WHISPER_TINY_EN to a faster-whisper directory of tiny.en")
    jfk = soak_speech.read_recording(JFK)
    last = jfk.pcm[2 * jfk.rate * 8:]
    said = jfk._replace(pcm=last + bytes(2 * jfk.rate * 3) + last)  # stream() adds a pause at the end
    want = " ".join(2 * ["ask what you can do for your country"])
    bad = []
    for busy in (False, True):
        # the server's clocks have tests of their own
        patient = [f"websocket.{name}=1h" for name in ("idle_timeout", "ping_interval", "slow_timeout")]
        with two_cores(busy), Stenod("model.dir=" + TINY, *patient) as d:
            heard, faults, threads = say_at_once(d.port, said)
            faults = join_while_it_works(threads, d.proc) + faults
        for who, got in heard.items():
            faults += [f"{who}: {fault}" for fault in got.faults if "no partial" not in fault]
            if soak_speech.word_errors(want, soak_speech.plain(got.text)) > MISHEARD:
                faults.append(f"{who}: heard '{got.text}'")
        bad += [f"busy {busy}, {fault}" for fault in faults]
    assert not bad, bad


@case
def with_a_model_every_kind_of_client_passes_and_a_wrong_text_is_found(_):
    if not os.path.exists(TINY):
        raise Skip("set STENO_WHISPER_TINY_EN to a faster-whisper directory of tiny.en")
    with tempfile.TemporaryDirectory() as out, Stenod("model.dir=" + TINY) as d:
        w = Whisper(d, out)
        assert soak_speech.read_recording(JFK).seconds == 11 and all("your country" in x for x in w.speech.expected.values()), w.speech.expected
        figures, said = w.run()
        bad, text = judged(soak_speech.judge_speech, figures, 0)
        assert not bad, (text, said)
        figures, said = w.run(drop=100)
        assert all(x["dropped"] == x["ok"] == 1 for x in figures) and not sum(x["failed"] for x in figures), (figures, said)
        for key in w.speech.expected:
            w.speech.expected[key] = w.speech.expected[key].replace("your country", "your county", 1)
        figures, said = w.run()
        bad, text = judged(soak_speech.judge_speech, figures, 0)
        assert bad == len(w.kinds) and all(x["wrong"] == x["word_errors"] == 1 for x in figures) and "heard" in said, (text, said)


if __name__ == "__main__":
    sys.exit(tap(None))
