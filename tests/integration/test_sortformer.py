"""A streaming Sortformer against an own loop over ONNX Runtime (toy_sortformer.py), on small random networks: recordings, live, fixed
lengths, fine rows, learned silence, what the file says of itself, and what does not fit. TAP."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import toy_sortformer as toy
import toy_speakers
from daemon import BUILD, ROOT, case, pcm, wav
from toy_check import main

BYTES, RATE = pcm(os.path.join(ROOT, "tests", "data", "speech", "jfk.wav"))
_JFK = np.frombuffer(BYTES, np.int16)
SOUND = np.concatenate([_JFK[i * 7919 % 30000:] if i % 2 else _JFK[::-1] for i in range(12)])  # two minutes, four steps of a recording
SECONDS = len(SOUND) / RATE
FLOATS = SOUND.astype(np.float32) / 32768
OFFLINE = (340, 1, 40, 188, 40, 300)


def command(model, *args, sound=SOUND):
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        f.write(wav(sound.tobytes(), RATE))
        f.flush()
        return subprocess.run([os.path.join(BUILD, "steno"), "speakers", "--model", model, "--format", "json", *args, f.name], capture_output=True,
                              text=True, check=False)


def told(model, *args, sound=SOUND):
    r = command(model, *args, sound=sound)
    assert r.returncode == 0, r.stderr
    said = json.loads(r.stdout)
    return [(t["start"], t["end"], t["speaker"] - 1) for t in said["turns"]], said["speakers"]


def same(got, want):
    assert len(got) == len(want) > 50, (len(got), len(want), got[:4], want[:4])
    for a, b in zip(got, want):
        assert a[2] == b[2] and abs(a[0] - b[0]) < 2e-3 and abs(a[1] - b[1]) < 2e-3, (a, b)


def one_at_a_time(p):
    """Live, a row has its most probable speaker alone."""
    return np.where(np.arange(p.shape[1]) == p.argmax(1)[:, None], p, 0)


def folder(d, **options):
    """-> a directory with a network of these options, and its path"""
    return d, toy.network(os.path.join(d, "any-name.onnx"), **options)


@case
def recordings_are_those_of_the_reference(_):
    with tempfile.TemporaryDirectory() as d:
        model, path = folder(d)
        p = toy.Reference(path, OFFLINE)(FLOATS)
        assert (p > .5).any(0).all() and ((p > .5).sum(1) > 1).any(), "a toy of which some say nothing"
        got, speakers = told(model)
        same(got, toy.numbered(toy.turns(p, SECONDS)))
        assert speakers == 4
        short = SOUND[:3 * RATE]
        want = toy.numbered(toy.turns(toy.Reference(path, OFFLINE)(short.astype(np.float32) / 32768), 3))
        assert want and [t[2] for t in told(model, sound=short)[0]] == [t[2] for t in want]
        assert told(model, sound=SOUND[:100]) == ([], 0)


@case
def latencies_are_those_that_are_documented(_):
    with tempfile.TemporaryDirectory() as d:
        model, path = folder(d)
        answers = set()
        for latency, (chunk, right, queue, period) in toy.LATENCIES.items():
            p = toy.Reference(path, (chunk, 1, right, 188, queue, period))(FLOATS)
            got, _ = told(model, "--live", "--latency", str(latency))
            same(got, toy.turns(one_at_a_time(p), SECONDS))
            answers.add(str(got))
            if latency == 10:
                assert told(model, "--live")[0] == got, "10 s is the default"
        assert len(answers) == len(toy.LATENCIES), "the latency is of no consequence"
        r = command(model, "--live", "--latency", "2")
        assert r.returncode and "latency 2 is not 0.32, 1.04, 10 or 30.4 s" in r.stderr, r


@case
def what_the_file_says_counts_live(_):
    with tempfile.TemporaryDirectory() as d:
        meta = {"chunk_len": 20, "right_context": 3, "fifo_len": 30, "spkcache_len": 60, "spkcache_update_period": 25}
        model, path = folder(d, meta=meta)
        same(told(model, "--live")[0], toy.turns(one_at_a_time(toy.Reference(path, (20, 1, 3, 60, 30, 25))(FLOATS)), SECONDS))
        same(told(model)[0], toy.numbered(toy.turns(toy.Reference(path, (340, 1, 40, 60, 40, 300))(FLOATS), SECONDS)))


@case
def fixed_lengths_are_filled_up(_):
    with tempfile.TemporaryDirectory() as d:
        fixed = (8 * 381, 188, 40)
        model, path = folder(d, fixed=fixed)
        same(told(model)[0], toy.numbered(toy.turns(toy.Reference(path, OFFLINE, fixed=fixed)(FLOATS), SECONDS)))
    with tempfile.TemporaryDirectory() as d:
        fixed = (8 * 40, 50, 20)
        model, path = folder(d, fixed=fixed)
        with open(os.path.join(d, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"chunk_len": 30, "chunk_right_context": 8, "spkcache_update_period": 35, "model": "x"}, f)
        same(told(model)[0], toy.numbered(toy.turns(toy.Reference(path, (30, 2, 8, 50, 20, 35), fixed=fixed)(FLOATS), SECONDS)))
        r = command(model, "--live", "--latency", "10")
        assert r.returncode and "the latency of this Sortformer is fixed: 3.04 s" in r.stderr, r


@case
def eight_speakers_have_finer_rows_and_a_learned_silence(_):
    with tempfile.TemporaryDirectory() as d:
        silence = np.linspace(-1, 1, toy.D).astype(np.float32)
        said = {"chunk_len": 340, "chunk_right_context": 40, "fifo_len": 40, "spkcache_len": 264, "spkcache_update_period": 300,
                "spkcache_sil_frames_per_spk": 1, "learnable_sil_emb_f32le_b64": toy.silence_text(silence)}
        model, path = folder(d, speakers=8, fine=8, meta={"vernacula.diar." + k: v for k, v in said.items()})
        p = toy.Reference(path, (340, 1, 40, 264, 40, 300), speakers=8, rests=1, silence=silence)(FLOATS)
        same(told(model)[0], toy.numbered(toy.turns(p, SECONDS, frame=.01)))


@case
def a_network_without_lengths_of_the_memory_runs(_):
    with tempfile.TemporaryDirectory() as d:
        model, path = folder(d, lengths=False)
        same(told(model)[0], toy.numbered(toy.turns(toy.Reference(path, OFFLINE)(FLOATS), SECONDS)))


@case
def a_number_of_speakers_is_an_upper_bound(_):
    with tempfile.TemporaryDirectory() as d:
        model, path = folder(d)
        p = toy.Reference(path, OFFLINE)(FLOATS)
        most = sorted(np.argsort(-(p > .5).sum(0), kind="stable")[:2])
        rest = [s for s in range(4) if s not in most]
        best = np.array(most)[p[:, most].argmax(1)]
        p[np.arange(len(p)), best] = np.maximum(p[np.arange(len(p)), best], p[:, rest].max(1))
        p[:, rest] = 0
        got, speakers = told(model, "--max", "2")
        same(got, toy.numbered(toy.turns(p, SECONDS)))
        assert speakers == 2 and told(model, "--speakers", "2") == (got, 2) and told(model, "--speakers", "9")[1] == 4
        r = command(model, "--threshold", ".5")
        assert r.returncode and "a Sortformer has no threshold" in r.stderr, r


class Turn(ctypes.Structure):
    _fields_ = [("start", ctypes.c_double), ("end", ctypes.c_double), ("speaker", ctypes.c_int)]


@case
def how_the_samples_come_does_not_matter(_):
    if "address" in BUILD or "thread" in BUILD:
        return  # a sanitizer's library must be the first of a process
    lib = ctypes.CDLL(os.path.join(BUILD, "libsteno.so.0"))
    lib.steno_diarization_turns.restype = ctypes.POINTER(Turn)
    lib.steno_live_speakers_known.restype = ctypes.c_double
    rng = np.random.default_rng(1)

    def good(status):
        assert status == 0, status

    def pieces(sizes):
        at = 0
        for n in sizes:
            if at < len(FLOATS):
                part = np.ascontiguousarray(FLOATS[at:at + n])
                yield part.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(part))
                at += n

    def recording(speakers, sizes):
        d, n = ctypes.c_void_p(), ctypes.c_size_t()
        good(lib.steno_diarization_open(ctypes.byref(d), speakers, RATE, None, None))
        for part in pieces(sizes):
            good(lib.steno_diarization_push(d, *part, None))
        good(lib.steno_diarization_end(d, None))
        turns = lib.steno_diarization_turns(d, ctypes.byref(n))
        got = [(t.start, t.end, t.speaker) for t in turns[:n.value]]
        lib.steno_diarization_close(d)
        return got

    def live(speakers, sizes, flush):
        w, s = ctypes.c_void_p(), ctypes.c_void_p()
        good(lib.steno_live_networks_open(ctypes.byref(w), speakers, None))
        good(lib.steno_live_speakers_open(ctypes.byref(s), speakers, RATE, 0, None))
        known = 0.
        for part in pieces(sizes):
            good(lib.steno_live_speakers_push(s, w, *part, None))
            if flush and rng.random() < .1:
                good(lib.steno_live_speakers_flush(s, w, None))
                assert lib.steno_live_speakers_known(s) >= known, "what was known is known"
                known = lib.steno_live_speakers_known(s)
        good(lib.steno_live_speakers_end(s, w, None))
        got = [lib.steno_live_speakers_at(s, ctypes.c_double(t), ctypes.c_double(0)) for t in np.arange(.04, SECONDS - .08, .08)]
        lib.steno_live_speakers_close(s)
        lib.steno_live_networks_close(w)
        return got
    with tempfile.TemporaryDirectory() as d:
        folder(d)
        speakers = ctypes.c_void_p()
        good(lib.steno_speakers_open(ctypes.byref(speakers), d.encode(), 1, None))
        whole, small = [len(FLOATS)], [int(n) for n in rng.integers(1, 9000, 1000)]
        once = recording(speakers, whole)
        assert len(once) > 50 and recording(speakers, small) == once
        labels = live(speakers, whole, False)
        assert len(set(labels)) == 5 and live(speakers, small, False) == labels
        flushed = live(speakers, small, True)
        agree = np.mean([a == b for a, b in zip(labels, flushed)])
        assert .5 < agree, agree  # what a flush told stays, and what follows is as without
        lib.steno_speakers_close(speakers)


@case
def people_are_known_where_there_is_an_embedding_network(_):
    with tempfile.TemporaryDirectory() as d:
        model, _ = folder(d)
        sound = os.path.join(d, "a.wav")
        with open(sound, "wb") as f:
            f.write(wav(toy_speakers.dialogue(_JFK[::2], RATE // 2, [0]).tobytes(), RATE))
        r = command(model, "--known", "Ann=" + sound)
        assert r.returncode and "no embedding network beside the Sortformer" in r.stderr, r
        r = subprocess.run([os.path.join(BUILD, "steno"), "speaker", "enroll", "--model", model, "--enrolled", d + "/people", "Ann", sound],
                           capture_output=True, text=True, check=False)
        assert r.returncode and "no embedding network beside the Sortformer" in r.stderr, r
        toy_speakers.embedding(os.path.join(d, "embedding", "model.onnx"))
        r = command(model, "--known", "Ann=" + sound)
        assert r.returncode == 0 and json.loads(r.stdout)["turns"], r


@case
def model_info_and_the_recognizer_say_what_it_is(_):
    with tempfile.TemporaryDirectory() as d:
        model, _ = folder(d)
        r = subprocess.run([os.path.join(BUILD, "steno"), "model", "info", model], capture_output=True, text=True, check=False)
        assert r.returncode == 0 and "Sortformer" in r.stdout and "up to 4 speakers" in r.stdout, r
        r = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--model", model, "/dev/null"], capture_output=True, text=True, check=False)
        assert r.returncode and "tell speakers apart" in r.stderr, r


@case
def what_does_not_fit_is_named(_):
    faults = (({"bins": 64}, "input chunk has 64 mel bins, expected 128 or 80"),
              ({"fixed": (8 * 33, 188, 40)}, "chunk_len and chunk_right_context must be in the metadata"),
              ({"fixed": (8 * 10, 188, 40), "meta": {"chunk_len": 9, "right_context": 4}}, "chunk_len 9 and chunk_right_context 4 are more than the 80"),
              ({"fixed": ("T", 188, 40), "lengths": False}, "no input of how many are filled"),
              ({"speakers": 9}, "9 speakers, expected 1 to 8"),
              ({"meta": {"spkcache_len": 10}}, "a speaker cache of 10 frames, expected 16 to"),
              ({"meta": {"fifo_len": "many"}}, "fifo_len is 'many', expected 0 to"),
              ({"meta": {"chunk_len": 0}}, "a chunk of 0 frames"),
              ({"meta": {"vernacula.diar.learnable_sil_emb_f32le_b64": "AAAA"}}, "is not 32 numbers in base64"),
              ({"fine": 5}, "5 fine rows for each frame"))
    for options, message in faults:
        with tempfile.TemporaryDirectory() as d:
            model, path = folder(d, **options)
            r = command(model, sound=SOUND[:RATE])
            assert r.returncode and message in r.stderr and path in r.stderr, (message, r.stderr)


if __name__ == "__main__":
    main(lambda folder: None)
