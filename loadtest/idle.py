"""Open silent WebSocket connections and measure what they cost the server.

    idle.py HOST PORT PID N
"""
import os
import socket
import sys
import time

HZ = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def rss(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status", encoding="ascii") if line.startswith("VmRSS"))


def main():
    host, port, pid, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    before, idle0, t0 = rss(pid), cpu(pid), time.time()
    time.sleep(5)
    alone = (cpu(pid) - idle0) / (time.time() - t0)
    sockets = []
    for _ in range(n):
        s = socket.create_connection((host, port))
        s.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rlbm8gbG9hZCB0ZXN0IQ==\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 101")
        sockets.append(s)
    c0, t0 = cpu(pid), time.time()
    time.sleep(15)
    used = (cpu(pid) - c0) / (time.time() - t0)
    print(f"{n} silent connections: {100 * used:.2f} % of a core ({100 * alone:.2f} % without them), "
          f"{(rss(pid) - before) / n:.1f} KiB each")


if __name__ == "__main__":
    main()
