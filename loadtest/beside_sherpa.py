#!/usr/bin/env python3
"""Real-time streams per core, stenod and sherpa-onnx in one run, with the same clients: sherpa-onnx's protocol, 0.1 s of float
samples at a time, never before they would have been recorded. Each server runs alone, on one core; the clients have the
others. Streams per core are seconds of audio per second of the server's processor time; the wait is from "Done" to "Done!".

    beside_sherpa.py [--streams 1,4,16,32] [--seconds 10] [--form int8] [--beam 1] [--json FILE] MODEL FILE.wav

MODEL: encoder, decoder, joiner (.onnx, .int8.onnx) and tokens.txt, as for tests/bench/sherpa.py; FILE: 16 kHz. sherpa-onnx's own
server is a C++ program that its wheel does not have: sherpa_server.py has its rules."""
import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import wave

import numpy as np
import websockets

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("B", os.path.join(HERE, "..", "build", "release"))
RATE, CHUNK = 16000, 1600
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        v = f.read().rsplit(")", 1)[1].split()
    return (int(v[11]) + int(v[12])) / TICK


class Server:
    """A server on one core."""

    def __init__(self, command, core, address):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=self.log, stderr=self.log, env=env)
        end = time.monotonic() + 300
        while not (m := re.search(address, self.read(), re.M)):
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("the server did not start:\n" + self.read())
            time.sleep(0.1)
        self.port = int(m.group(1))

    def read(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


async def stream(url, pcm, begin):
    """(text, seconds from Done to Done!)."""
    loop = asyncio.get_running_loop()
    async with websockets.connect(url, max_size=None, ping_interval=None, compression=None, open_timeout=60, proxy=None) as ws:
        texts = []

        async def receive():
            async for m in ws:
                if m == "Done!":
                    return
                m = json.loads(m)
                if m["is_final"] and m["text"]:
                    texts.append(m["text"])
        receiver = asyncio.create_task(receive())
        await asyncio.sleep(max(0, begin - loop.time()))
        start = loop.time()
        for at in range(0, len(pcm), CHUNK):
            await asyncio.sleep(max(0, start + (at + CHUNK) / RATE - loop.time()))
            await ws.send(pcm[at:at + CHUNK].tobytes())
        await ws.send("Done")
        done = loop.time()
        await asyncio.wait_for(receiver, 300)
        return " ".join(texts), loop.time() - done


async def run(url, pcm, n):
    begin = asyncio.get_running_loop().time() + 0.5
    return await asyncio.gather(*(stream(url, pcm, begin + i / n) for i in range(n)))


def measure(server, path, pcm, n):
    before = cpu_seconds(server.process.pid)
    got = asyncio.run(run(f"ws://127.0.0.1:{server.port}{path}", pcm, n))
    spent = cpu_seconds(server.process.pid) - before
    waits = sorted(w for _, w in got)
    return {"streams": n, "cpu_per_second": spent / (n * len(pcm) / RATE), "wait_p50": waits[n // 2], "wait_max": waits[-1],
            "texts": len({t for t, _ in got})}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("file")
    p.add_argument("--streams", default="1,4,16")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--form", default="int8", choices=("fp32", "int8"))
    p.add_argument("--beam", type=int, default=1)
    p.add_argument("--json")
    a = p.parse_args()
    with wave.open(a.file) as w:
        if w.getframerate() != RATE or w.getnchannels() != 1:
            sys.exit(f"{a.file}: expected 16 kHz mono")
        pcm = np.frombuffer(w.readframes(int(a.seconds * RATE)), np.int16).astype(np.float32) / 32768
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[:-1])
    servers = [
        ("stenod", [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--threads", "1", "--model", a.model, "--set",
                    "pool.capacity=20000", "--set", "model.precision=" + a.form, "--set", f"model.search=beam={a.beam}"],
         r"listening on http://127\.0\.0\.1:(\d+)", f"/sherpa?sample_rate={RATE}"),
        ("sherpa-onnx", [sys.executable, os.path.join(HERE, "sherpa_server.py"), a.model, a.form, str(a.beam)], r"^(\d+)$", "")]
    rows = {}
    for name, command, address, path in servers:
        server = Server(command, cores[-1], address)
        try:
            measure(server, path, pcm[:RATE], 1)  # plans and buffers
            for n in map(int, a.streams.split(",")):
                rows[name, n] = measure(server, path, pcm, n)
        finally:
            server.stop()
    print(f"{os.path.basename(os.path.abspath(a.model))}, {a.form}, beam {a.beam}, {a.seconds:g} s, load {os.getloadavg()[0]:.1f}")
    print("| streams | server | CPU s per s of audio | streams per core | wait p50, max, s | texts |\n|---|---|---|---|---|---|")
    for n in map(int, a.streams.split(",")):
        for name, *_ in servers:
            r = rows[name, n]
            print(f"| {n} | {name} | {r['cpu_per_second']:.4f} | {1 / r['cpu_per_second']:.0f} | {r['wait_p50']:.2f}, {r['wait_max']:.2f} "
                  f"| {r['texts']} |")
        print(f"| {n} | ratio | {rows['sherpa-onnx', n]['cpu_per_second'] / rows['stenod', n]['cpu_per_second']:.1f} | | | |")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump([{"server": k[0], **v} for k, v in rows.items()], f, indent=1)


if __name__ == "__main__":
    main()
