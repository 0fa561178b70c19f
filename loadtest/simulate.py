#!/usr/bin/env python3
"""How many machines carry 100,000 live streams and a million hours of recordings a day, how long jobs wait, and what the loss of a
zone does. Every event is simulated, with a fixed seed; measured numbers are those of docs/capacity.md and docs/server.md.

    loadtest/simulate.py          # prints the tables and draws docs/img/scale.svg, a minute
"""
import argparse
import heapq
import math
import os
import random

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CAPACITY = 1370  # streams that two cores of a Zen 4 admit once they know their load (docs/capacity.md: 1,370 to 1,660)
SPEED = 288  # seconds of recordings in a second of one core: six of 10 minutes in 12.5 s (docs/server.md)
STREAM_S, JOB_S = 180.0, 1800.0  # mean lengths: exponential, log-normal with sigma 1
ZONES = 3


def schedule(rate, mean, seconds, seed):
    """[(arrival, length)] of a Poisson process with exponential lengths."""
    rng, t, out = random.Random(seed), 0.0, []
    while (t := t + rng.expovariate(rate)) < seconds:
        out.append((t, rng.expovariate(1 / mean)))
    return out


def live(arrivals, machines, capacity, lose_at=None, retry=1.0, seed=1, start=0):
    """Streams on machines, each new one on the freest. At lose_at a zone dies, and its clients come back, spread as Retry-After
    spreads them. Returns (arrivals that were refused, streams cut off, those that had no place at their first return, s until
    all were back)."""
    rng = random.Random(seed)
    load = [0] * machines
    alive = [True] * machines
    heap = [(0, i) for i in range(machines)]  # lazily updated: (load, machine)
    events, running, serial = [], {}, 0
    refused = cut = late = 0
    last_back = 0.0

    def place(t, length):
        nonlocal serial
        while heap:
            n, i = heap[0]
            if not alive[i]:
                heapq.heappop(heap)
            elif n != load[i]:
                heapq.heapreplace(heap, (load[i], i))
            else:
                break
        if not heap or load[heap[0][1]] >= capacity:
            return False
        i = heap[0][1]
        load[i] += 1
        heapq.heapreplace(heap, (load[i], i))
        serial += 1
        running[serial] = (i, t + length)
        heapq.heappush(events, (t + length, 1, serial, 0.0))
        return True
    for _ in range(start):  # those that run already; exponential lengths have no memory
        place(0.0, rng.expovariate(1 / STREAM_S))
    for k, (t, length) in enumerate(arrivals):
        events.append((t, 0, -k, length))
    if lose_at is not None:
        events.append((lose_at, -1, 0, 0.0))
    heapq.heapify(events)
    while events:
        t, kind, key, length = heapq.heappop(events)
        if kind == 0:
            refused += not place(t, length)
        elif kind == 1:
            if key in running:
                i, _ = running.pop(key)
                load[i] -= 1
                if alive[i]:
                    heapq.heappush(heap, (load[i], i))
        elif kind == 2:  # a client returns; length: of the rest, key: how often it has tried
            if place(t, length):
                last_back = max(last_back, t)
            else:
                late += key == 0
                heapq.heappush(events, (t + retry * (1 + rng.random()), 2, key + 1, length))
        else:
            for i in range(0, machines, ZONES):
                alive[i] = False
            for k in [k for k, (i, _) in running.items() if not alive[i]]:
                i, end = running.pop(k)
                cut += 1
                heapq.heappush(events, (t + rng.uniform(0, 2), 2, 0, end - t))
    return refused, cut, late, last_back - lose_at if cut else 0.0


def jobs(cores, hours_a_day, seconds, seed=2, peak=1.5):
    """Waits of jobs, first come first served, one core each, in the peak of the day: (mean, p99, share of time busy)."""
    rng, t, waits, busy = random.Random(seed), 0.0, [], 0.0
    rate = hours_a_day * 3600 / 86400 / JOB_S * peak
    free = [0.0] * cores
    while (t := t + rng.expovariate(rate)) < seconds:
        work = rng.lognormvariate(math.log(JOB_S) - 0.5, 1) / SPEED
        begin = max(t, free[0])
        heapq.heapreplace(free, begin + work)
        busy += work
        waits.append(begin - t)
    waits.sort()
    return sum(waits) / len(waits), waits[int(0.99 * len(waits))], busy / cores / seconds


def draw(path, streams, queue):
    """Two panels: refusals after the loss of a zone, and p99 of the wait, against what is there."""
    w, h, out = 360, 230, []

    def panel(x0, title, unit, points, log):
        top = max(y for _, y in points) or 1
        lo, hi = points[0][0], points[-1][0]

        def at(x, y):
            v = math.log10(1 + y) / math.log10(1 + top) if log else y / top
            return x0 + 50 + (x - lo) / (hi - lo) * (w - 80), h - 40 - v * (h - 90)
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(*p) for p in points))
        out.append(f'<text x="{x0 + 50}" y="22" font-size="13">{title}</text>')
        out.append(f'<path d="M{x0 + 50} 40V{h - 40}H{x0 + w - 20}" fill="none" stroke="#888"/>')
        out.append(f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>')
        for x, y in points:
            a, b = at(x, y)
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#06c"/><text x="{a:.1f}" y="{b - 7:.1f}" font-size="9" '
                       f'text-anchor="middle">{y:,.3g}</text><text x="{a:.1f}" y="{h - 26}" font-size="10" text-anchor="middle">{x}</text>')
        out.append(f'<text x="{x0 + w / 2 + 10}" y="{h - 8}" font-size="11" text-anchor="middle">{unit}</text>')
    panel(0, "% of cut-off streams without a place at once", "machines for 100,000 streams; a zone of 3 dies", streams, False)
    panel(w, "p99 of a job's wait, s (logarithmic)", "cores for a million hours a day, peak of 1.5", queue, True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * w} {h}" font-family="sans-serif">'
                f'<rect width="{2 * w}" height="{h}" fill="#fff"/>' + "\n".join(out) + "</svg>\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--streams", type=int, default=100000)
    p.add_argument("--hours", type=float, default=1e6, help="of recordings a day")
    p.add_argument("--out", default=os.path.join(ROOT, "docs", "img", "scale.svg"))
    a = p.parse_args()
    arrivals = schedule(a.streams / STREAM_S, STREAM_S, 120, 1)
    least = math.ceil(a.streams / CAPACITY)
    streams, queue = [], []
    print(f"{a.streams} streams of {STREAM_S:g} s, {CAPACITY} on a machine; after 60 s a zone of {ZONES} dies")
    print("machines  refused  cut off  no place at once  all back after, s")
    for factor in (1.0, 1.02, 1.1, 1.25, 1.4, 1.5, 1.55):
        m = math.ceil(least * factor / ZONES) * ZONES
        calm = live(arrivals, m, CAPACITY, start=a.streams)[0]
        _, cut, late, back = live(arrivals, m, CAPACITY, lose_at=60.0, start=a.streams)
        print(f"{m:8d} {calm:8d} {cut:8d} {late:17d} {back:18.1f}", flush=True)
        if not streams or streams[-1][0] != m:
            streams.append((m, 100 * late / cut))
    print(f"{a.hours:g} hours a day in recordings of {JOB_S / 60:g} min, {SPEED} times real time on a core, an hour of the peak (1.5)")
    print("cores  busy  mean wait, s  p99, s")
    need = math.ceil(a.hours * 3600 / 86400 / SPEED * 1.5)
    for factor in (1.0, 1.02, 1.05, 1.1, 1.2):
        c = math.ceil(need * factor)
        mean, p99, busy = jobs(c, a.hours, 3600)
        print(f"{c:5d} {busy:5.2f} {mean:13.2f} {p99:7.2f}")
        queue.append((c, p99))
    draw(a.out, streams, queue)


if __name__ == "__main__":
    main()
