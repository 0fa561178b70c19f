#!/usr/bin/env python3
"""Latency of live sessions as voice agents feel it, of one user on a core of its own: one server after the other, the same clips.

    latency.py [--core N] [--json FILE] [--repeat N] [--ways finalize,silence,semantic] [--set KEY=VALUE] [--beside NAME=URL]
               --pieces FILE.json AUDIO MODEL...

MODEL: a directory for stenod, or what `steno model fetch` calls it. FILE.json: a list of {"file" (below AUDIO), "begin_sample", "end_sample"
(at the file's rate), "complete"}: utterances, and pieces that break off within a sentence. A clip is sent in pieces of 20 ms at the pace of
real time and followed by 3 s of zeros. It ends where its last 10 ms are that are louder than a thirtieth (-30 dB) of its loudest ones: times
count from there.

Each model is run in three ways:
- finalize: the client asks for the final 0.2 s after the end, as an agent does whose own VAD has that delay
- silence: the server ends the turn after 0.5 s of silence
- semantic: by the turn network (docs/turns.md), if the server has it

--set is a member of the `start` message, as JSON (stabilize_partials=false). --beside measures a server of another kind that runs already, in the ways
finalize and silence (latency_peers.py has their names: whisper-live, whisperlivekit).

Figures, those of pipecat's stt-benchmark where it has them:
- TTFS: from the end of speech to the final that has all words of the last result. Complete clips alone.
- whole: from the end of speech to the first result that has all words of the last one, and all later results have them
- word: from the end of a word, as the final times it, to the first partial (or final) that has it
- partials: sent for each second of speech
- taken back: words that a later partial or the final has no more in their place, of all words that were shown. Case and marks count in the
  first figure (a mark that comes behind a word changes nothing), and not in the second.
- cut off: incomplete clips whose turn was ended within a second. missed: complete ones that had no final within 3 s."""
import argparse
import array
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import websockets

from latency_peers import PEERS

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("B", os.path.join(HERE, "..", "build", "release"))
RATE, STEP, AFTER = 16000, 320, 3.0
WAYS = {"finalize": {"silence_after": 5}, "silence": {"silence_after": 0.5}, "semantic": {"turn": "semantic"}}


def read_clip(path, begin, end):
    """The samples at 16 kHz, and the index behind the last one that is loud."""
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ac", "1", "-f", "s16le", "-"], capture_output=True, check=True).stdout
    ask = ["ffprobe", "-v", "error", "-show_entries", "stream=sample_rate", "-of", "csv=p=0", path]
    rate = int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0])
    cut = raw[2 * begin:2 * end]
    if rate != RATE:
        cut = subprocess.run(["ffmpeg", "-v", "error", "-f", "s16le", "-ar", str(rate), "-ac", "1", "-i", "-", "-ar", str(RATE), "-f", "s16le", "-"],
                             input=cut, capture_output=True, check=True).stdout
    pcm = array.array("h", cut)
    loud = [max(map(abs, pcm[i:i + 160]), default=0) for i in range(0, len(pcm), 160)]
    last = max(i for i, x in enumerate(loud) if x * 30 >= max(loud))
    return pcm[:(last + 1) * 160]


class Server:
    def __init__(self, model, core):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        command = [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--set", f"model.dir={model}", "--set", "pool.threads=1"]
        self.process = subprocess.Popen((["taskset", "-c", str(core)] if core is not None else []) + command, stderr=self.log)
        while not (m := re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.read())):
            if self.process.poll() is not None:
                sys.exit("stenod did not start:\n" + self.read())
            time.sleep(0.1)
        self.url = f"ws://127.0.0.1:{m.group(1)}/v1/stream"

    def read(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


async def talk(url, start, pcm, way):
    """[(seconds since the first sample would have been spoken, message)], and what is said of an error."""
    got = []
    async with websockets.connect(url, max_size=None) as ws:
        await ws.send(json.dumps({"type": "start", "sample_rate": RATE, **start}))
        ready = json.loads(await ws.recv())
        if ready["type"] != "ready":
            return got, ready.get("message")
        begin = time.monotonic()

        async def listen():
            async for m in ws:
                got.append((time.monotonic() - begin, json.loads(m)))

        async def speak():
            sound = pcm.tobytes() + bytes(int(AFTER * RATE) * 2)
            asked = False
            for i in range(0, len(sound), 2 * STEP):  # a piece is sent when its last sample would have been spoken
                due = (i // 2 + STEP) / RATE
                await asyncio.sleep(max(0, begin + due - time.monotonic()))
                await ws.send(sound[i:i + 2 * STEP])
                if way == "finalize" and not asked and due >= len(pcm) / RATE + 0.2:
                    await ws.send('{"type":"finalize"}')
                    asked = True
            await ws.send('{"type":"end"}')

        listening = asyncio.create_task(listen())
        await speak()
        await asyncio.wait_for(listening, 60)
    return got, None


def plain(word):
    return re.sub(r"\W", "", word.lower())


def stays(before, after):
    """Whether a shown word is still there, perhaps with marks behind it."""
    return after.startswith(before) and not re.sub(r"\W", "", after[len(before):])


class Figures:
    def __init__(self):
        self.ttfs, self.whole, self.word, self.cut, self.missed, self.incomplete, self.complete = [], [], [], 0, 0, 0, 0
        self.partials, self.seconds, self.shown, self.back, self.back_plain = 0, 0.0, 0, 0, 0

    def add(self, got, seconds, complete):
        finals = [(t, m) for t, m in got if m["type"] == "final" and m["text"]]
        ended = [(t, m) for t, m in finals if m["reason"] != "end" and t >= seconds]
        if complete:
            self.complete += 1
            whole = self.whole_at(got)
            done = [t - seconds for t, m in ended if t >= whole]
            if done:
                self.ttfs.append(done[0])
            else:
                self.missed += 1
            if finals:
                self.whole.append(whole - seconds)
        else:
            self.incomplete += 1
            self.cut += any(t <= seconds + 1 and m["reason"] == "endpoint" for t, m in ended)
        self.seconds += seconds
        for segment in {m["segment"] for _, m in finals}:
            self.add_segment([(t, m) for t, m in got if m.get("segment") == segment and m["type"] in ("partial", "final")])

    @staticmethod
    def whole_at(got):
        """When the words of the last result were there for good: the texts of all segments, one behind the other."""
        shown, texts, since = {}, [], 0.0
        for t, m in got:
            if m["type"] in ("partial", "final"):
                shown[m["segment"]] = [plain(w) for w in m["text"].split()]
                texts.append((t, [w for s in sorted(shown) for w in shown[s]]))
        for t, words in reversed(texts):
            if words != texts[-1][1]:
                break
            since = t
        return since

    def add_segment(self, messages):
        self.partials += len(messages) - 1
        texts = [(t, m["text"].split()) for t, m in messages]
        final = messages[-1][1]
        for one in (str, plain):
            before, back, shown = [], 0, 0
            for _, words in texts:
                words = [one(w) for w in words]
                kept = sum(stays(a, b) for a, b in zip(before, words))
                back += len(before) - kept
                shown += len(words) - kept
                before = words
            if one is str:
                self.back, self.shown = self.back + back, self.shown + shown
            else:
                self.back_plain += back
        for i, word in enumerate(final.get("words", [])):
            seen = next((t for t, words in texts if len(words) > i and plain(words[i]) == plain(word["word"])), None)
            if seen is not None:
                self.word.append(seen - word["end"])

    def row(self):
        def of(values, share):
            return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None
        return {"clips": self.complete + self.incomplete, "ttfs": [of(self.ttfs, p) for p in (.5, .95, .99)],
                "whole": [of(self.whole, p) for p in (.5, .95)],
                "word": [of(self.word, p) for p in (.5, .95)], "partials_per_second": self.partials / self.seconds if self.seconds else 0, "taken_back": self.back / max(1, self.shown),
                "taken_back_plain": self.back_plain / max(1, self.shown),
                "cut_off": [self.cut, self.incomplete], "missed": [self.missed, self.complete]}


def show(model, way, r):
    def ms(values):
        return " / ".join("-" if v is None else f"{1000 * v:.0f}" for v in values)
    print(f"| {model} | {way} | {ms(r['ttfs'])} | {ms(r['whole'])} | {ms(r['word'])} | {r['partials_per_second']:.1f} | {100 * r['taken_back']:.1f} / "
          f"{100 * r['taken_back_plain']:.1f} | {r['cut_off'][0]} of {r['cut_off'][1]} | {r['missed'][0]} of {r['missed'][1]} |", flush=True)


def pair(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=VALUE")
    return name, value


def measure_beside(a, clips, rows):
    """Servers of other kinds, which run already."""
    for name, url in a.beside:
        if name not in PEERS:
            sys.exit(f"--beside {name}: expected one of {', '.join(PEERS)}")
        for way in [w for w in a.ways if w != "semantic"]:
            figures = Figures()
            for pcm, complete in clips * a.repeat:
                figures.add(asyncio.run(PEERS[name](url, pcm, way)), len(pcm) / RATE, complete)
            rows.append({"model": name, "way": way, **figures.row()})
            show(name, way, rows[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pieces", required=True)
    p.add_argument("--core", type=int)
    p.add_argument("--ways", default=",".join(WAYS), type=lambda s: s.split(","))
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--json")
    p.add_argument("--set", action="append", default=[], type=lambda s: (pair(s)[0], json.loads(pair(s)[1])))
    p.add_argument("--beside", action="append", default=[], type=pair)
    p.add_argument("audio")
    p.add_argument("model", nargs="*")
    a = p.parse_args()
    with open(a.pieces, encoding="utf-8") as f:
        pieces = json.load(f)
    clips = [(read_clip(os.path.join(a.audio, c["file"]), c["begin_sample"], c["end_sample"]), c["complete"]) for c in pieces]
    rows = []
    print("| model | turn ends by | TTFS, ms: median / p95 / p99 | whole, ms: median / p95 | word, ms: median / p95 | partials a second | "
          "taken back, %: as shown / words | cut off | missed |\n|---|---|---|---|---|---|---|---|---|")
    for model in a.model:
        server = Server(model, a.core)
        for way in a.ways:
            figures = Figures()
            for _ in range(a.repeat):
                for pcm, complete in clips:
                    got, refused = asyncio.run(talk(server.url, {**WAYS[way], **dict(a.set)}, pcm, way))
                    if refused:
                        break
                    figures.add(got, len(pcm) / RATE, complete)
            if refused:
                print(f"| {model} | {way} | {refused} | | | | | | |")
                continue
            rows.append({"model": os.path.basename(model.rstrip('/')), "way": way, **figures.row()})
            show(rows[-1]["model"], way, rows[-1])
        server.stop()
    measure_beside(a, clips, rows)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
