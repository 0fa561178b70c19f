"""`steno optimize` on whole models: onnx.checker accepts the file; onnxruntime loads it and agrees with the original
to 1e-4 (graphs with integer products: as test_models.py says); our own engine takes every fused function as one
node and agrees too; the report adds up. Always on the shipped model, and on ../shared/zoo/tiny if it exists;
there also every --opset from 13 to 21 on some models, --contrib, --input-int32, external weights and a whole
model directory. TAP."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import ort_exact
import zoo_feeds
from daemon import SAN, SLOW
from test_models import INTEGER, ROOT, SHARED, STENO, carry, difference, feeds, steno

ZOO = os.path.join(SHARED, "zoo", "tiny")
DIGITS = os.path.join(ROOT, "conf/models/digits-en/encoder.onnx")
# The file declares whether it needs com.microsoft operators; every other file must run with onnx alone.
FUSED = "ai.steno"


def zoo():
    for root, _, files in sorted(os.walk(ZOO)):
        for f in sorted(files):
            if f.endswith(".onnx"):
                yield os.path.join(root, f)


def optimize(path, out, *args):
    p = subprocess.run([STENO, "optimize", path, "-o", out, "--report", "json", *args], capture_output=True,
                       text=True, timeout=300 * SLOW, check=False)
    if p.returncode:
        raise AssertionError(f"steno optimize {' '.join(args)}: exit {p.returncode}: {p.stderr.strip()}")
    return json.loads(p.stdout)


def session(path, kind=ort_exact.Session):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    return kind(path, o, providers=["CPUExecutionProvider"])


def written(path):
    """A session with onnxruntime's defaults: what we write must be right in it on every CPU."""
    return session(path, ort_exact.Plain)


def nodes(graph):
    """The number of nodes by operator, including the bodies of If, Loop and Scan."""
    count = collections.Counter()
    for n in graph.node:
        count[n.domain, n.op_type.split("__")[0] if n.domain == FUSED else n.op_type] += 1
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                count += nodes(a.g)
    return count


def all_graphs(graph):
    yield graph
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from all_graphs(a.g)


def check_file(path, out, report):
    model = onnx.load(out)
    onnx.checker.check_model(out, full_check=True)
    count = nodes(model.graph)
    if sum(count.values()) != report["nodes"]["optimized"]:
        raise AssertionError(f"{sum(count.values())} nodes in the file, {report['nodes']['optimized']} reported")
    if report["nodes"]["optimized"] > report["nodes"]["original"]:
        raise AssertionError("more nodes than before")
    read = set()
    for g in all_graphs(model.graph):
        read |= {i for n in g.node for i in n.input} | {o.name for o in g.output}
    unread = {i.name for i in model.graph.initializer} - read
    if unread:
        raise AssertionError(f"constants that nobody reads: {sorted(unread)[:5]}")
    domains = {o.domain for o in onnx.load(path, load_external_data=False).opset_import}
    foreign = {o.domain for o in model.opset_import} - domains - {FUSED, ""}
    if foreign:
        raise AssertionError(f"operators of {foreign} were not there before")
    return model


def first(path, sess=None):
    if path.startswith(ZOO):
        return zoo_feeds.feeds(zoo_feeds.load_tool(SHARED), path)
    rng, sess = np.random.default_rng(7), sess or session(path)
    return lambda step, outs: carry(feeds(sess, {}, rng), sess, outs) if outs else feeds(sess, {}, rng)


def run_alone(path, out, native):
    """Our engine on the optimized file, which it packs, and on what it packed. test_models runs these networks at level 0."""
    feed, graph = first(path)(0, None), onnx.load(out).graph
    short = {i.name for i in graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.INT32}
    feed = {k: v.astype("i4") if k in short else v for k, v in feed.items()}
    if native:
        packed(out, feed, len(graph.output), os.path.dirname(out))
    return 0.0


def compare(path, out, native=True):
    """Two steps: the original in onnxruntime against the optimized file there and in our engine. Under sanitizers our engine
    alone: the plain build compares."""
    if SAN:
        return run_alone(path, out, native)
    a, b = session(path), written(out)
    names = [x.name for x in a.get_outputs()]
    if names != [x.name for x in b.get_outputs()] or [x.name for x in a.get_inputs()] != [x.name for x in b.get_inputs()]:
        raise AssertionError("inputs or outputs have other names")
    quantized = any(n.op_type in INTEGER for n in onnx.load(path).graph.node)
    most = 1e-2 if zoo_feeds.in_halves(path) else 1e-4  # the file computes in f32 where the original rounds to f16
    feed_of, outs, worst = first(path, a), None, 0.0
    types = {i.name: i.type for i in b.get_inputs()}
    for step in range(2):
        feed = feed_of(step, outs)
        outs = a.run(None, feed)
        other = {k: v.astype("i4") if types[k] == "tensor(int32)" else v for k, v in feed.items()}
        for n, w, g in zip(names, outs, b.run(None, other)):
            worst = max(worst, difference(f"onnxruntime: {n}", w, g, quantized, most))
        for level in ("0", "3") if native else ():
            for n, w, g in zip(names, outs, steno(out, other, len(names), level, "native")):
                worst = max(worst, difference(f"steno --opt-level {level}: {n}", w, g, quantized, most))
    return worst


def recognised(out, report):
    """Our engine takes every function of a fused operator as one node: it runs as many steps as the file has nodes."""
    p = subprocess.run([STENO, "model", "info", out], capture_output=True, text=True, check=True)
    loaded = int(re.search(r"(\d+) in the file", p.stdout).group(1))
    if loaded != report["steps"]["optimized"]:
        raise AssertionError(f"{report['steps']['optimized']} nodes written, {loaded} after loading")


def whole(path, d, *args):
    out = os.path.join(d, "out.onnx")
    report = optimize(path, out, *args)
    worst = compare(path, out)
    if SAN:
        return "our engine alone"
    model = check_file(path, out, report)
    recognised(out, report)
    return f"{report['nodes']['original']} -> {report['nodes']['optimized']} nodes, {len(model.functions)} functions, " \
           f"largest relative difference {worst:.2g}"


def changed_body(d):
    """A function with our name but another body is computed by its body, not by our kernel."""
    path, out = os.path.join(d, "in.onnx"), os.path.join(d, "out.onnx")
    h = onnx.helper
    f = h.make_function(FUSED, "Glu", ["in0"], ["out0"], [h.make_node("Neg", ["in0"], ["out0"])],
                        [h.make_opsetid("", 17)])
    g = h.make_graph([h.make_node("Glu", ["x"], ["y"], domain=FUSED)], "g",
                     [h.make_tensor_value_info("x", 1, [2, 4])], [h.make_tensor_value_info("y", 1, None)])
    onnx.save(h.make_model(g, functions=[f], opset_imports=[h.make_opsetid("", 17), h.make_opsetid(FUSED, 1)],
                           ir_version=9), path)
    x = np.arange(8, dtype="f4").reshape(2, 4)
    if not np.array_equal(steno(path, {"x": x}, 1, "3", "native")[0], -x):
        raise AssertionError("the kernel was called in place of the body")
    optimize(path, out)
    if not np.array_equal(written(out).run(None, {"x": x})[0], -x):
        raise AssertionError("the optimized file lost the body")
    return "Neg"


def external(path, d):
    out = os.path.join(d, "out.onnx")
    optimize(path, out, "--external", "always")
    if not any(t.data_location == onnx.TensorProto.EXTERNAL
               for t in onnx.load(out, load_external_data=False).graph.initializer):
        raise AssertionError("no weight lies outside")
    return f"largest relative difference {compare(path, out):.2g}"


def contrib(path, d):
    out = os.path.join(d, "out.onnx")
    optimize(path, out, "--contrib")
    m = onnx.load(out)
    found = {n.op_type for g in [m.graph, *m.functions] for n in g.node if n.domain == "com.microsoft"}
    if not found:
        raise AssertionError("no com.microsoft operator was written")
    return f"{', '.join(sorted(found))}; largest relative difference {compare(path, out):.2g}"


def int32(path, d):
    out = os.path.join(d, "out.onnx")
    optimize(path, out, "--input-int32")
    if any(i.type == "tensor(int64)" for i in written(out).get_inputs()):
        raise AssertionError("an input is still 64 bits wide")
    return f"largest relative difference {compare(path, out):.2g}"


def directory(path, d):
    out = os.path.join(d, "model")
    p = subprocess.run([STENO, "optimize", path, "-o", out], capture_output=True, text=True, check=False)
    if p.returncode:
        raise AssertionError(p.stderr)
    rel = {os.path.relpath(os.path.join(r, f), path) for r, _, fs in os.walk(path) for f in fs if f[0] != "."}
    got = {os.path.relpath(os.path.join(r, f), out) for r, _, fs in os.walk(out) for f in fs}
    if rel != got:
        raise AssertionError(f"files differ: {rel ^ got}")
    before, after = steps(path), steps(out)
    if before != after:
        raise AssertionError(f"{before!r} before, {after!r} after")
    return f"{len(rel)} files{', ' if after else ''}{after}"


def steps(path):
    """How decoder and LM of a directory decode: keys and values must stay in the cache."""
    p = subprocess.run([STENO, "model", "info", path], capture_output=True, text=True, check=True)
    return "".join(" ".join(x.split()) for x in p.stdout.splitlines() if x.startswith("steps"))


def twice(path, d):
    """Optimizing an optimized file changes nothing: the second file has the same operators."""
    a, b = os.path.join(d, "a.onnx"), os.path.join(d, "b.onnx")
    optimize(path, a)
    optimize(a, b)
    na, nb = nodes(onnx.load(a).graph), nodes(onnx.load(b).graph)
    if na != nb:
        raise AssertionError(f"{na - nb} before, {nb - na} after")
    return f"{sum(na.values())} nodes, largest relative difference {compare(path, b, native=False):.2g}"


def cached(path, d):
    return packed(path, first(path)(0, None), len(onnx.load(path).graph.output), d)


def packed(path, feed, count, d):
    """With --cache the second run maps the file that the first one packed: the same bits as without a cache, and no
    file is written again. count: outputs; d: a folder for the file."""
    plain = None if SAN else steno(path, feed, count, "3", "native")
    for turn in range(2):
        got = steno(path, feed, count, "3", "native", "--cache", f"{d}/packed")
        plain = plain or got
        for w, g in zip(plain, got):
            if not np.array_equal(w, g, equal_nan=w.dtype.kind == "f"):
                raise AssertionError(f"run {turn + 1} differs")
        files = [os.stat(e.path).st_ino for e in os.scandir(f"{d}/packed") if e.name.endswith(".stenopack")]
        if len(files) != 1 or (turn and files != made):
            raise AssertionError(f"run {turn + 1}: {len(files)} files, made anew: {bool(turn)}")
        made = files
    return "the same bits"


def refusal(path, d, *args):
    p = subprocess.run([STENO, "optimize", path, "-o", os.path.join(d, "out.onnx"), *args], capture_output=True, text=True,
                       timeout=300 * SLOW, check=False)
    return p.returncode, p.stderr


LM = os.path.join(ROOT, "tests", "data", "lm")
KINDS = {DIGITS: "conformer", os.path.join(LM, "bert.onnx"): "bert", os.path.join(LM, "gpt2.onnx"): "gpt2",
         os.path.join(LM, "gpt2-past.onnx"): "gpt2"}
ZOO_KINDS = {"espnet-conformer-op13/full/default_encoder.onnx": "conformer", "espnet-transformer-op13/full/default_encoder.onnx": "transformer",
             "espnet-conformer-op13/full/xformer_decoder.onnx": "transformer", "espnet-stream-conformer-op13/full/xformer_encoder.onnx": "conformer",
             "zipformer2-ctc-streaming/model.onnx": "zipformer"}


def model_types(d):
    """The right model type is accepted; every other one is refused with what was found. bert and gpt2 are
    transformers."""
    kinds = dict(KINDS)
    kinds.update({os.path.join(ZOO, k): v for k, v in ZOO_KINDS.items() if os.path.exists(os.path.join(ZOO, k))})
    for path, kind in kinds.items():
        for t in ("auto", "conformer", "transformer", "zipformer", "bert", "gpt2"):
            fits = t in ("auto", kind) or (t == "transformer" and kind in ("bert", "gpt2"))
            rc, said = refusal(path, d, "--model-type", t)
            if kind == "transformer" and t == "gpt2":
                continue  # layers without embeddings before them and without a memory: nothing tells these types apart
            if fits != (rc == 0) or (not fits and not ("found: " in said and path in said)):
                raise AssertionError(f"{path} as {t}: exit {rc}: {said}")
    rc, said = refusal(os.path.dirname(DIGITS), d, "-o", os.path.join(d, "folder"), "--model-type", "bert")
    if rc == 0 or "no network in it" not in said:
        raise AssertionError(f"a directory: exit {rc}: {said}")
    return f"{len(kinds)} models"


def heads(d):
    path = os.path.join(LM, "bert.onnx")
    for args, wants in ((("--num-heads", "2", "--hidden-size", "8"), None), (("--num-heads", "4"), "has 2 heads and hidden size 8"),
                        (("--hidden-size", "12"), "has 2 heads and hidden size 8"), (("--num-heads", "0"), "--num-heads")):
        rc, said = refusal(path, d, *args)
        if (rc == 0) != (wants is None) or (wants and wants not in said):
            raise AssertionError(f"{args}: exit {rc}: {said}")
    return "found and held against what is said"


def heads_told(d):
    """The number of heads comes from an input: attention is found if the caller gives the number."""
    h, rng = onnx.helper, np.random.default_rng(4)
    n, consts = [], {}

    def op(kind, ins, **attrs):
        n.append(h.make_node(kind, ins, [f"v{len(n)}"], name=f"n{len(n)}", **attrs))
        return n[-1].output[0]

    def weight(a):
        consts[f"c{len(consts)}"] = np.asarray(a)
        return f"c{len(consts) - 1}"

    def side(perm):
        p = op("MatMul", ["x", weight(rng.standard_normal((32, 32)).astype("f4"))])
        return op("Transpose", [op("Reshape", [p, "heads"])], perm=perm)
    q, k, v = side([0, 2, 1, 3]), side([0, 2, 3, 1]), side([0, 2, 1, 3])
    s = op("Softmax", [op("Mul", [op("MatMul", [q, k]), weight(np.float32(0.35))])], axis=-1)
    y = op("Reshape", [op("Transpose", [op("MatMul", [s, v])], perm=[0, 2, 1, 3]), weight(np.array([0, 0, 32]))])
    n[-1].output[0] = "y"
    g = h.make_graph(n, "g", [h.make_tensor_value_info("x", 1, ["b", "t", 32]), h.make_tensor_value_info("heads", 7, [4])],
                     [h.make_tensor_value_info("y", 1, None)], [onnx.numpy_helper.from_array(a, k) for k, a in consts.items()])
    path, out = os.path.join(d, "in.onnx"), os.path.join(d, "out.onnx")
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    if "attention" in optimize(path, out)["passes"]:
        raise AssertionError("attention is found without heads")
    report = optimize(path, out, "--num-heads", "4", "--hidden-size", "32")
    if report["passes"].get("attention") != 1:
        raise AssertionError(f"attention is not found: {report['passes']}")
    feed = {"x": rng.standard_normal((2, 5, 32)).astype("f4"), "heads": np.array([2, 5, 4, 8])}
    want = session(path).run(None, feed)
    got = [written(out).run(None, feed), steno(out, feed, 1, "3", "native")]
    for a in got:
        difference("y", want[0], a[0], False)
    if refusal(path, d, "--num-heads", "8", "--hidden-size", "32")[0]:
        raise AssertionError("what the graph does not tell cannot be refused")
    return "4 heads of 8"


def resize_between_convolutions(d):
    """onnxruntime does not shrink channels-last images by cubic interpolation; it does by the others."""
    h, rng = onnx.helper, np.random.default_rng(1)
    x = rng.standard_normal((1, 3, 8, 8)).astype("f4")
    consts = {"w1": rng.standard_normal((4, 3, 3, 3)).astype("f4"), "w2": rng.standard_normal((4, 4, 3, 3)).astype("f4")}
    path, out, moved = os.path.join(d, "in.onnx"), os.path.join(d, "out.onnx"), 0
    for mode in ("nearest", "linear", "cubic"):
        for by in [np.array(s, "f4") for s in ((1, 1, .5, .5), (1, 1, 2, .6), (1, 1, 2, 2))] + [np.array([1, 4, 5, 11])]:
            n = [h.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
                 h.make_node("Resize", ["a", "", "s"] if by.dtype == "f4" else ["a", "", "", "s"], ["b"], mode=mode),
                 h.make_node("Conv", ["b", "w2"], ["y"], pads=[1] * 4)]
            g = h.make_graph(n, "g", [h.make_tensor_value_info("x", 1, x.shape)], [h.make_tensor_value_info("y", 1, None)],
                             [onnx.numpy_helper.from_array(a, k) for k, a in (consts | {"s": by}).items()])
            onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 13)], ir_version=8), path)
            want = session(path).run(None, {"x": x})[0]
            for level in ("basic", "all"):
                optimize(path, out, "--level", level)
                for got in (written(out).run(None, {"x": x})[0], steno(out, {"x": x}, 1, "3", "native")[0]):
                    difference(f"{mode} {by.tolist()} {level}", want, got, False)
            moved += nodes(onnx.load(out).graph)["", "Transpose"] == 2
    if moved != 8:
        raise AssertionError(f"{moved} of 12 are channels last")
    return "nearest and linear channels last, cubic not"


def tests():
    yield "Resize between convolutions", resize_between_convolutions, ()
    yield "model types", model_types, ()
    yield "heads", heads, ()
    yield "heads that only the caller knows", heads_told, ()
    yield "the shipped model", whole, (DIGITS,)
    yield "the shipped model, twice", twice, (DIGITS,)
    yield "the shipped model packed", cached, (DIGITS,)
    yield "a function of another body", changed_body, ()
    yield "external weights", external, (DIGITS,)
    yield "a model directory", directory, (os.path.dirname(DIGITS),)
    for name in ("espnet-conformer-op13", "espnet-transformer-op13", "espnet-stream-conformer-op13"):
        if os.path.isdir(os.path.join(ZOO, name)):
            yield name, directory, (os.path.join(ZOO, name),)
    for path in zoo():
        yield os.path.relpath(path, ZOO), whole, (path,)
        if not SAN:  # there `whole` runs what it wrote so
            yield f"{os.path.relpath(path, ZOO)} packed", cached, (path,)
    conformer = os.path.join(ZOO, "espnet-conformer-op13", "full", "default_encoder.onnx")
    if not os.path.exists(conformer):
        yield "the zoo", None, (ZOO,)
        return
    for opset in (13, 14, 15, 17, 18, 19, 20, 21):
        yield f"conformer in opset {opset}", whole, (conformer, "--opset", str(opset))
    for level in ("basic", "extended"):
        yield f"conformer at level {level}", whole, (conformer, "--level", level)
    yield "conformer with contrib operators", contrib, (conformer,)
    yield "conformer with 32-bit inputs", int32, (conformer,)
    yield "conformer twice", twice, (conformer,)


def main():
    n = failed = 0
    for name, test, args in tests():
        n += 1
        if test is None:
            print(f"ok {n} - {name} # SKIP {args[0]} is not there")
            continue
        try:
            with tempfile.TemporaryDirectory() as d:
                said = test(*args[:1], d, *args[1:]) if args else test(d)
            print(f"ok {n} - optimize: {name} ({said})", flush=True)
        except (ort_exact.Saturates, zoo_feeds.NoInputs) as e:
            print(f"ok {n} - optimize: {name} # SKIP {e}", flush=True)
        except Exception as e:  # exceptions of onnx.checker and onnxruntime too; one model's failure must not end the run
            said = str(e).replace("\n", "\n# ")[:600]
            print(f"not ok {n} - optimize: {name}\n# {type(e).__name__}: {said}", flush=True)
            failed += 1
    print(f"1..{n}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
