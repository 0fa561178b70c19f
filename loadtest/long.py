"""One long live stream, sent as fast as the server reads: what each part of it costs, and the memory at its end.

    long.py WS_URL PID WAV SECONDS [PARTS]

Repeats WAV (16 bit, mono) with a second of silence after it. Prints processor seconds and resident memory of process PID
for each of PARTS (6) equal parts of the stream, by the server's audio time, and the slope of memory after the first part.
Needs websockets (tests/requirements.txt)."""
import json
import sys
import threading
import wave

from idle import cpu, rss
from websockets.sync.client import connect


def speak(ws, path, seconds):
    with wave.open(path) as f:
        rate, data = f.getframerate(), f.readframes(f.getnframes())
    data += bytes(2 * rate)
    step, left, at = rate // 5, int(seconds * rate) * 2, 0
    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": rate}))
    while left > 0:
        piece = data[at:at + min(step, left)]
        ws.send(piece)
        left -= len(piece)
        at = (at + len(piece)) % len(data)
    ws.send('{"type":"end"}')


def main():
    url, pid, path, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    parts = int(sys.argv[5]) if len(sys.argv) > 5 else 6
    rows, finals = [(0.0, cpu(pid), rss(pid))], 0
    with connect(url, compression=None, max_size=None, max_queue=None, proxy=None, open_timeout=60,
                 ping_interval=None) as ws:
        threading.Thread(target=speak, args=(ws, path, seconds), daemon=True).start()
        for text in ws:
            m = json.loads(text)
            finals += m["type"] == "final"
            if m["type"] == "error":
                sys.exit(f"long.py: {m}")
            if m["audio_ms"] / 1000 >= len(rows) * seconds / parts - 1e-3:
                rows.append((m["audio_ms"] / 1000, cpu(pid), rss(pid)))
    print("| up to s | processor s | ms per second of audio | resident KiB |\n|---|---|---|---|")
    for (a, c, _), (b, d, r) in zip(rows, rows[1:]):
        print(f"| {b:.0f} | {d - c:.2f} | {1000 * (d - c) / (b - a):.3f} | {r} |")
    hours = (rows[-1][0] - rows[1][0]) / 3600
    if hours > 0:
        print(f"{finals} finals; resident memory after the first part: {(rows[-1][2] - rows[1][2]) / hours:+.0f} KiB an hour")


if __name__ == "__main__":
    main()
