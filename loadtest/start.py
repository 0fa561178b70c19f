"""Time from exec to the first success of /readyz.

    start.py STENOD [MODEL]
"""
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request


def once(args):
    t0 = time.monotonic()
    p = subprocess.Popen(args, stderr=subprocess.PIPE, text=True)
    try:
        while not (m := re.search(r"listening on (http://\S+)", line := p.stderr.readline())):
            assert line, "the server ended"
        while True:
            try:
                urllib.request.urlopen(m[1] + "/readyz", timeout=1).read()
                took = time.monotonic() - t0
                fields = open(f"/proc/{p.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
                return took, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.002)
    finally:
        p.terminate()
        p.wait()


def main():
    args = [sys.argv[1], "--listen", "127.0.0.1:0", "--log-level", "notice", *(["--model", sys.argv[2]] if len(sys.argv) > 2 else [])]
    times = sorted(once(args) for _ in range(7))
    print(f"start to ready: median {statistics.median(t for t, _ in times):.3f} s, {times[0][0]:.3f} to {times[-1][0]:.3f}; "
          f"processor time {statistics.median(c for _, c in times):.2f} s")


main()
