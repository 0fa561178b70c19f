"""The memory that a network takes to load and run once, for us and for ONNX Runtime, each in a process of its own,
above what such a process takes without a network. In bytes.

    peak      maximum of resident memory, from before the network is read until after the run: weights as stored in
              memory, temporary second copies while they are packed, activations
    arena     ours: as the session reports; ONNX Runtime's: growth of the peak by two runs
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# A process counts at least the size of the one it was forked from, so it is forked from a small one.
LAUNCH = """import os, sys
pid = os.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))"""

THEIRS = """import json, sys
sys.path.insert(0, sys.argv[1])
import numpy, onnxruntime, bench
def status(k):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(k)) * 1024
def forget():
    open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
forget()
s = bench.ort_session(sys.argv[2], 1)
loading, loaded = status("VmHWM"), status("VmRSS")
f = bench.feeds(s, json.loads(sys.argv[3]))
forget()
with_input = status("VmRSS")
s.run(None, f)
s.run(None, f)
running = status("VmHWM")
print(json.dumps({"ort_peak": max(loading, running) - before, "ort_loaded": loaded - before,
                  "ort_arena": running - with_input}))"""


def nothing():
    """A graph that adds x to itself."""
    import onnx
    from onnx import helper

    path = os.path.join(tempfile.mkdtemp(prefix="steno-bench-"), "nothing.onnx")
    x, y = (helper.make_tensor_value_info(n, 1, [4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def resident(cmd):
    """(the command's JSON, its peak in bytes)"""
    p = subprocess.run([sys.executable, "-S", "-c", LAUNCH, *cmd], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(p.stdout), int(p.stderr.split()[-1]) * 1024


def ours(cmd):
    """cmd: steno bench with its options."""
    empty = nothing()
    _, without = resident([*cmd[:2], empty, "--runs", "1", "--json"])
    os.unlink(empty)
    os.rmdir(os.path.dirname(empty))
    j, most = resident(cmd)
    return {"weights": j["weights_bytes"], "arena": j["arena_bytes"], "peak": most - without, "process": without}


def theirs(path, shapes):
    p = subprocess.run([sys.executable, "-c", THEIRS, HERE, path, json.dumps(shapes)], capture_output=True, text=True,
                       check=True)
    return json.loads(p.stdout)
