# not under sanitizers: no program of ours runs
"""The judgement of `make soak`, on made-up courses of runs: leaks and drifts are found, other courses pass."""
import contextlib
import io
import os
import sys

from daemon import ROOT, case, tap

sys.path.insert(0, os.path.join(ROOT, "loadtest"))
import soak  # noqa: E402

MINUTES, EVERY, RELOAD = 3, 3, 20
# resident MiB of three minutes under AddressSanitizer, measured every 9 s: its quarantine fills, reloads come and go
ASAN = [80, 83, 84, 89, 89, 98, 90, 105, 97, 111, 97, 112, 97, 112, 99, 98, 113, 99, 113, 98]


def course(mib=lambda t: 50.0, ms=lambda t: 5.0, cpu=lambda t: 0.02, seconds=60 * MINUTES, every=EVERY):
    """The points of a run. Memory, latency and processor time per second of audio are functions of the time in s."""
    return [dict(zip(soak.POINT, (t, mib(t), 20, ms(t), 30 * cpu(t), 30.0))) for t in range(every, seconds + 1, every)]


def failed(fn, *args):
    """The first words of the lines that report a failure, and all that was printed."""
    judge, out = soak.Judge(), io.StringIO()
    with contextlib.redirect_stdout(out):
        fn(judge, *args)
    lines = out.getvalue().splitlines()
    assert judge.good + judge.bad == len(lines) and judge.bad == sum(x.startswith("FAILED") for x in lines)
    return [x.split()[1].rstrip(":") for x in lines if x.startswith("FAILED")], out.getvalue()


def judged(points, growth=1.0, slope=1.0):
    return failed(soak.judge_course, points, growth, slope, 4, 2, RELOAD)


def reloads(t):
    """15 MiB for 6 s after each reload."""
    return 15.0 if t % RELOAD < 6 and t > RELOAD else 0.0


@case
def a_flat_course_passes(_):
    assert judged(course()) == ([], judged(course())[1])
    for wave in (lambda t: 50 + reloads(t), lambda t: 50 + 0.3 * (t % 7), lambda t: 90 - t / 60, lambda t: 50 + 30 * (1 - 2.0 ** (-t / 6))):
        bad, out = judged(course(wave))
        assert not bad, out
    # a run of an hour that creeps by less than a MiB
    bad, out = judged(course(lambda t: 50 + 0.9 * t / 3600 + reloads(t), seconds=3600, every=5))
    assert not bad, out


@case
def a_leak_of_2_mb_a_minute_is_found(_):
    for base in (lambda t: 50.0, lambda t: 50 + reloads(t), lambda t: 50 + 30 * (1 - 2.0 ** (-t / 6))):
        bad, out = judged(course(lambda t: base(t) + 2 * t / 60))
        assert bad == ["memory", "memory"], out
        # by its slope alone too, if much growth is allowed
        bad, out = judged(course(lambda t: base(t) + 2 * t / 60), growth=24)
        assert bad == ["memory"] and "floor goes up by 2." in out or "floor goes up by 1.9" in out, out
    # a leak that starts late
    bad, out = judged(course(lambda t: 50 + max(0, t - 100) * 2 / 60))
    assert bad == ["memory", "memory"], out


@case
def a_sanitizer_may_grow_but_not_leak(_):
    def quarantine(t):
        return ASAN[min(len(ASAN) - 1, t // 9)]
    bad, out = judged(course(quarantine), growth=24, slope=4)
    assert not bad, out
    bad, out = judged(course(lambda t: quarantine(t) + 6 * t / 60), growth=24, slope=4)
    assert bad == ["memory"], out
    assert judged(course(lambda t: 18 + reloads(t)), growth=24, slope=4)[0] == []
    assert judged(course(lambda t: 18 + reloads(t) + 6 * t / 60), growth=24, slope=4)[0] == ["memory"]


@case
def a_drift_is_found_and_a_slow_machine_is_not_a_drift(_):
    assert judged(course(ms=lambda t: 5 + t * t / 10))[0] == ["partials"]
    assert judged(course(ms=lambda t: 5 + t / 3))[0] == [], "below a tenth of a second nobody waits"
    assert judged(course(ms=lambda t: 900.0, cpu=lambda t: 0.9))[0] == [], "slow, and no slower"
    assert judged(course(ms=lambda t: 900 if t < 90 else 2500, cpu=lambda t: 0.02 if t < 90 else 0.035))[0] == [], "something else ran"
    assert judged(course(ms=lambda t: None))[0] == [], "no partial came"
    assert judged(course(cpu=lambda t: 0.02 + t / 500))[0] == ["processor"]


def books(**change):
    """A page of metrics that adds up, except for the changed values."""
    m = {f'steno_sessions_started_total{{api="{api}"}}': n for api, n in (("stream", 7.0), ("transcribe", 3.0))}
    m |= {'steno_sessions_total{api="stream",result="ok"}': 4.0, 'steno_sessions_total{api="stream",result="gone"}': 3.0,
          'steno_sessions_total{api="transcribe",result="ok"}': 2.0, 'steno_sessions_total{api="transcribe",result="gone"}': 1.0,
          'steno_sessions_active{api="stream"}': 0.0}
    for api in ("stream", "transcribe"):
        m |= {f'steno_audio_{k}seconds_total{{api="{api}"}}': v for k, v in (("received_", 30.0), ("", 29.9), ("dropped_", 0.1))}
    for k, v in change.items():
        key, = (x for x in m if x.startswith("steno_" + k) and 'api="stream"' in x and ("result" not in x or "gone" in x))
        m[key] += v
    return m


@case
def every_session_and_second_of_audio_has_to_add_up(_):
    assert failed(soak.judge_books, books())[0] == []
    for change, what in (("sessions_started", "sessions"), ("sessions_total", "sessions"), ("audio_received", "audio"),
                         ("audio_seconds", "audio"), ("audio_dropped", "audio")):
        for by in (1, -1):
            bad, out = failed(soak.judge_books, books(**{change: by}))
            assert bad == [what] and "stream" in out, out
    assert failed(soak.judge_books, books(audio_received=1 / 48000))[0] == ["audio"], "to the sample"
    assert failed(soak.judge_books, {})[0] == ["sessions", "audio"], "nothing is no good page"


def clients():
    return [{"label": "streams", "ok": 3, "wrong": 0, "dropped": 1, "audio_seconds": 25.0},
            {"label": "fast", "ok": 1, "wrong": 0, "dropped": 0, "audio_seconds": 4.0},
            {"label": "uploads", "ok": 2, "wrong": 0, "dropped": 0, "audio_seconds": 30.0}]


@case
def sessions_have_to_be_those_of_the_clients(_):
    broken = soak.Broken()
    broken.streams, broken.spoken, broken.uploads = 2, 1, 1
    assert failed(soak.judge_metrics, books(), clients(), broken)[0] == []
    broken.streams = 3
    assert failed(soak.judge_metrics, books(), clients(), broken)[0] == ["stream"]
    broken.streams, broken.uploads = 2, 0
    assert failed(soak.judge_metrics, books(), clients(), broken)[0] == ["transcribe"]
    broken.uploads, more = 1, clients()
    more[2]["audio_seconds"] -= 1
    assert failed(soak.judge_metrics, books(), more, broken)[0] == ["audio"]
    more[2]["audio_seconds"], more[1]["ok"] = 30.0, 2
    assert failed(soak.judge_metrics, books(), more, broken)[0] == ["stream"]
    running = books() | {'steno_workers_busy': 1.0}
    assert failed(soak.judge_metrics, running, clients(), broken)[0] == ["nothing"]


if __name__ == "__main__":
    sys.exit(tap(None))
