#!/usr/bin/env python3
"""What a storm of TLS handshakes costs the other clients: 50 live streams over TLS, a probe that pings a WebSocket and asks
/healthz on a kept connection every 20 ms, and 500 clients that send their hello at the same moment.

    tls_storm.py [--rounds 5] [--hellos 500] [--streams 50] STENOD...

Several servers are measured in turns, so that what else the machine does is the same for all. The hellos are one recorded
ClientHello (TLS 1.3): the server computes a whole handshake for each, with a signature of RSA 2048, and the storm costs this
side next to nothing, as a storm from elsewhere would. "answered" is the time until all of them have the server's part.

Prints for each server p50 and p99 of the probes in the second before the storm and while it lasts."""
import argparse
import asyncio
import os
import re
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WAV = os.path.join(ROOT, "tests", "data", "digits.wav")
EVERY = 0.02  # s between two probes


def certificate(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def client_hello():
    c = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = c.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        s.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Server:
    def __init__(self, binary, cert, key):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        # more streams than a busy machine's calibration may find
        self.proc = subprocess.Popen([binary, "--listen", "127.0.0.1:0", "--model", os.path.join(ROOT, "conf/models/digits-en"), "--set", f"tls.certificate={cert}",
                                      "--set", f"tls.key={key}", "--set", "limits.connections=4000", "--set", "limits.connections_per_address=4000",
                                      "--set", "pool.capacity=1000", "--log-level", "notice"], stderr=self.log)
        while True:
            with open(self.log.name, encoding="utf-8") as f:
                m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", f.read())
            if m:
                self.port = int(m[1])
                return
            assert self.proc.poll() is None, "the server ended"
            time.sleep(0.05)

    def close(self):
        self.proc.terminate()
        self.proc.wait(60)
        self.log.close()


async def stream(where, context, pcm, rate, stop):
    """Audio at the pace of real time until stop."""
    from websockets.asyncio.client import connect
    async with connect(where, ssl=context, compression=None, ping_interval=None, open_timeout=60, close_timeout=60, proxy=None) as ws:
        async def read():
            async for _ in ws:
                pass
        reading = asyncio.create_task(read())
        await ws.send('{"type":"start","encoding":"s16le","sample_rate":%d}' % rate)
        at, begun = 0, asyncio.get_running_loop().time()
        n = rate // 10 * 2
        while not stop.is_set():
            await ws.send(pcm[at % len(pcm):][:n])
            at += n
            await asyncio.sleep(max(0, begun + at / 2 / rate - asyncio.get_running_loop().time()))
        await ws.send('{"type":"end"}')
        await reading


def streams(n, port, cert, stop, failures):
    """n streams, in a process of their own."""
    with wave.open(WAV, "rb") as w:
        pcm, rate = w.readframes(w.getnframes()), w.getframerate()

    async def run():
        context = ssl.create_default_context(cafile=cert)
        ended = asyncio.Event()
        all_ = asyncio.gather(*(stream(f"wss://localhost:{port}/v1/stream", context, pcm, rate, ended) for _ in range(n)), return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, stop.wait)
        ended.set()
        failures.value = sum(isinstance(r, Exception) for r in await all_)
    asyncio.run(run())


class Probe(threading.Thread):
    """Round trips of pings and of GET /healthz: [(when, seconds)] of each. Plain sockets: as little of this side as may be."""

    def __init__(self, port, cert):
        super().__init__(daemon=True)
        context = ssl.create_default_context(cafile=cert)
        self.http, self.ws = (context.wrap_socket(socket.create_connection(("localhost", port)), server_hostname="localhost") for _ in range(2))
        for s in (self.http, self.ws):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.settimeout(60)
        self.ws.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        assert b" 101 " in self.ws.recv(4096)
        self.pings, self.requests, self.over = [], [], False

    def run(self):
        ping = b"\x89\x84\x00\x00\x00\x00ping"
        while not self.over:
            t0 = time.monotonic()
            self.ws.sendall(ping)
            while self.ws.recv(4096)[:1] != b"\x8a":
                pass
            t1 = time.monotonic()
            self.http.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            self.http.recv(65536)
            t2 = time.monotonic()
            self.pings.append((t0, t1 - t0))
            self.requests.append((t1, t2 - t1))
            time.sleep(max(0, EVERY - (t2 - t0)))


def storm(port, n, hello):
    """Returns (begin, end): when the hellos were sent, when the last was answered."""
    socks = []
    for _ in range(n):
        s = socket.create_connection(("localhost", port))
        s.setblocking(False)
        socks.append(s)
    time.sleep(0.5)
    begun = time.monotonic()
    with selectors.DefaultSelector() as sel:
        for s in socks:
            s.send(hello)
            sel.register(s, selectors.EVENT_READ)
        left = n
        while left and time.monotonic() - begun < 60:
            for key, _ in sel.select(1):
                sel.unregister(key.fileobj)
                left -= 1
    end = time.monotonic()
    assert not left, f"{left} hellos were not answered"
    for s in socks:
        s.close()
    return begun, end


def quantiles(of):
    of = sorted(of)
    return (1e3 * of[len(of) // 2], 1e3 * of[min(len(of) - 1, int(len(of) * 0.99))], 1e3 * of[-1]) if of else (0, 0, 0)


def measure(binary, cert, key, args):
    import multiprocessing
    server = Server(binary, cert, key)
    try:
        context = multiprocessing.get_context("fork")
        stop, failures = context.Event(), context.Value("i", -1)
        users = context.Process(target=streams, args=(args.streams, server.port, cert, stop, failures))
        users.start()
        time.sleep(3)
        probe = Probe(server.port, cert)
        probe.start()
        time.sleep(2)
        begun, end = storm(server.port, args.hellos, client_hello())
        probe.over = True
        probe.join()
        stop.set()
        users.join(120)
        assert failures.value == 0, f"{failures.value} streams failed"
        calm = [[s for t, s in of if begun - 1.5 < t < begun - 0.6] for of in (probe.pings, probe.requests)]
        during = [[s for t, s in of if begun <= t + s and t <= end] for of in (probe.pings, probe.requests)]
        return calm, during, end - begun
    finally:
        server.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--hellos", type=int, default=500)
    p.add_argument("--streams", type=int, default=50)
    p.add_argument("stenod", nargs="+")
    args = p.parse_args()
    sums = {b: ([[], []], [[], []], []) for b in args.stenod}
    with tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(folder)
        for _ in range(args.rounds):
            for binary in args.stenod:
                calm, during, took = measure(binary, cert, key, args)
                for i in range(2):
                    sums[binary][0][i] += calm[i]
                    sums[binary][1][i] += during[i]
                sums[binary][2].append(took)
    for binary, (calm, during, took) in sums.items():
        print(f"{binary}: {args.rounds} storms of {args.hellos} hellos beside {args.streams} streams, answered in "
              f"{min(took):.2f} to {max(took):.2f} s")
        for i, what in enumerate(("ping", "GET /healthz")):
            for when, of in (("without", calm), ("in the storm", during)):
                print("  %-13s %-13s p50 %6.1f  p99 %7.1f  worst %7.1f ms (n = %d)" % (what, when, *quantiles(of[i]), len(of[i])))


if __name__ == "__main__":
    sys.exit(main())
