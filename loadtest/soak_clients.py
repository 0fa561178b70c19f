"""Connections of the soak: WebSocket messages on a plain socket, and clients that break off where they should not."""
import os
import random
import select
import socket
import struct
import time

# s: on the busiest machine, everything that works takes less
LONG = 120 if "release" in os.environ.get("B", "release") else 600
START = b'{"type":"start","encoding":"s16le","sample_rate":8000}'
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def upgrade(path):
    return (f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rlbm8gbG9hZCB0ZXN0IQ==\r\n\r\n").encode()


UPGRADE = upgrade("/v1/stream")


def frame(op, body):
    n = len(body)
    size = bytes([0x80 | n]) if n < 126 else struct.pack(">BH", 0xfe, n) if n < 65536 else struct.pack(">BQ", 0xff, n)
    return bytes([0x80 | op]) + size + b"\0\0\0\0" + body


def reset(s):
    """Close with a TCP reset."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


class Conversation:
    """A WebSocket for one thread, which sends and receives in turns. code: of the server's close frame, when it came."""

    def __init__(self, host, port, path, timeout=LONG):
        self.timeout, self.data, self.code = timeout, b"", None
        self.s = socket.create_connection((host, port), timeout=timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s.sendall(upgrade(path))
        while b"\r\n\r\n" not in self.data:
            self.read()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            self.s.close()
            raise OSError(f"handshake: {head.splitlines()[0].decode()}")

    def read(self):
        got = self.s.recv(65536)
        if not got:
            raise OSError("the server closed the connection without a close frame")
        self.data += got

    def send(self, op, body):
        self.s.sendall(frame(op, body))

    def take(self):
        """The next whole (op, payload) that has arrived; None if there is none."""
        if len(self.data) < 2:
            return None
        n, at = self.data[1] & 0x7f, 2
        if n == 126:
            n, at = int.from_bytes(self.data[2:4], "big"), 4
        elif n == 127:
            n, at = int.from_bytes(self.data[2:10], "big"), 10
        if len(self.data) < at + n:
            return None
        op, body, self.data = self.data[0] & 0xf, self.data[at:at + n], self.data[at + n:]
        return op, body

    def texts(self, until):
        """Yield text messages as they come, until that time (time.monotonic) or the server's close."""
        while self.code is None:
            while got := self.take():
                op, body = got
                if op == TEXT:
                    yield body.decode()
                elif op == PING:
                    self.send(PONG, body)
                elif op == CLOSE:
                    self.code = int.from_bytes(body[:2], "big") if len(body) >= 2 else 1005
                    return
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.s], [], [], left)[0]:
                return
            self.read()

    def close(self):
        """Say goodbye, where the server has not done so."""
        if self.code is None:
            self.send(CLOSE, struct.pack(">H", 1000))
            for _ in self.texts(time.monotonic() + self.timeout):
                pass
        self.s.close()


class Broken:
    """Sessions that were broken off. streams: handshake answered; spoken: those with audio; uploads."""
    streams = spoken = uploads = 0


def break_off(server, stop, count):
    """Make connections that end where they should not, one after the other."""
    rng = random.Random(1)
    while not stop.wait(0.2):
        kind = rng.randrange(7)
        try:
            s = socket.create_connection((server.host, server.port), timeout=LONG)
            if kind == 0:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            elif kind == 1:
                s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + os.urandom(5000))
                count.uploads += 1
            elif kind == 2:
                s.sendall(UPGRADE[:60])
            else:
                s.sendall(UPGRADE)
                answer = s.recv(4096)
                if not answer.startswith(b"HTTP/1.1 101"):
                    raise OSError(f"{answer!r}")
                count.streams += 1
                if kind >= 4:
                    s.sendall(frame(TEXT, START) + frame(BINARY, os.urandom(4000) * (1 + 4 * (kind == 6))))
                    count.spoken += 1
                if kind == 5:
                    s.sendall(frame(BINARY, os.urandom(50))[:20])
            time.sleep(rng.random() * 0.2)
            if kind == 6:
                reset(s)
            else:
                s.close()
        except OSError as e:
            print(f"soak: break-off {kind}: {e}")


def leave_running(server, n):
    """Start streams that then send nothing."""
    out = []
    for _ in range(n):
        s = socket.create_connection((server.host, server.port), timeout=LONG)
        s.sendall(UPGRADE)
        s.recv(4096)
        s.sendall(frame(TEXT, START) + frame(BINARY, os.urandom(4000)))
        s.recv(4096)  # ready
        out.append(s)
    return out
