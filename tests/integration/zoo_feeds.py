"""Inputs that a model of ../shared/zoo accepts, for comparisons with onnxruntime.

The zoo's own tool generates inputs (tools/zoo_check.py). Some models refuse them: a length does not equal the
number of frames, or a window has more frames than the input. feeds() then tries, in this order: the tool's inputs
with recorded ones (ref.npz beside the model) in their place, and sizes by the dimensions' names; each with
lengths that equal the actual sizes. It takes the first inputs that onnxruntime accepts without optimizations. It
prefers inputs with finite results that are not all zero, because other results compare nothing."""
import importlib.util
import itertools
import os
import re

import numpy as np
import onnx
import onnxruntime as ort

SAMPLES, FRAMES = 16000, 122


class NoInputs(Exception):
    """onnxruntime refuses all tried inputs."""


def load_tool(shared):
    path = os.path.join(shared, "tools", "zoo_check.py")
    spec = importlib.util.spec_from_file_location("zoo_check", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def in_halves(path):
    """Whether a network has weights in f16."""
    return any(i.data_type == onnx.TensorProto.FLOAT16 for i in onnx.load(path, load_external_data=False).graph.initializer)


def plain(path):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def fits(array, info, dtype):
    return array.dtype == dtype and len(array.shape) == len(info.shape) and \
        all(not isinstance(d, int) or d == n for d, n in zip(info.shape, array.shape))


def recorded(path, infos, types):
    """Recorded inputs by name. Keys of ref.npz are NAME or PREFIX_NAME; the first step comes before later ones."""
    found, folder = {}, os.path.dirname(path)
    for file in (os.path.join(folder, "ref.npz"), os.path.join(os.path.dirname(folder), "ref.npz")):
        if not os.path.exists(file):
            continue
        with np.load(file) as z:
            for i in infos:
                keys = [k for k in z.files if k == i.name or k.endswith(f"_{i.name}")]
                fitting = [z[k] for k in sorted(keys, key=lambda k: k != i.name) if fits(z[k], i, types[i.name])]
                if fitting:
                    found.setdefault(i.name, fitting[0])
    return found


def sized(infos, types, rng):
    """Inputs of equal size if dimensions have equal names. A model that reads samples calls them n."""
    def size(info, axis, d):
        if isinstance(d, int):
            return d
        if axis == 0 or re.search("batch|^b$|^B$", str(d)):
            return 1
        if str(d).lower() == "n" and len(info.shape) == 2:
            return SAMPLES
        return 1 if types[info.name].kind != "f" or str(d) in ("t", "u") else FRAMES
    return {i.name: made([size(i, a, d) for a, d in enumerate(i.shape)], types[i.name], rng) for i in infos}


def made(shape, dtype, rng):
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return np.ones(shape, dtype)


def lengths(feed, infos, free):
    """Ways to set lengths that no recording has. NAME_len counts the free axis of NAME. For a length with an unknown
    name every free size is tried, and each size plus one, for a step after a past of that size."""
    sizes = {i.name: [feed[i.name].shape[a] for a, d in enumerate(i.shape) if a and not isinstance(d, int)]
             for i in infos}
    every = sorted({n for s in sizes.values() for n in s} | {1}, reverse=True)
    ways = []
    for name in free:
        base = re.sub("_?(lengths?|lens?)$", "", name)
        ways.append([sizes[base][-1]] if sizes.get(base) else every + [n + 1 for n in every])
    for way in itertools.product(*ways):
        yield {name: np.full(feed[name].shape, n, feed[name].dtype) for name, n in zip(free, way)}


def candidates(tool, sess, path, step):
    infos = sess.get_inputs()
    types = {i.name: np.dtype(tool.TYPES[i.type]) for i in infos}
    counts = [i.name for i in infos if types[i.name].kind == "i" and len(i.shape) < 2]
    first = tool.first_feed(sess, path, np.random.default_rng(step), step)
    yield first
    known = recorded(path, infos, types)
    for base in ({**first, **known}, {**sized(infos, types, np.random.default_rng(step)), **known}):
        for more in lengths(base, infos, [n for n in counts if n not in known]):
            yield {**base, **more}


def feeds(tool, path):
    """Make inputs: a function of the step and of the outputs of the step before (or None). Raises NoInputs."""
    sess, accepted, why = plain(path), None, ""
    for at, feed in enumerate(candidates(tool, sess, path, 0)):
        try:
            outs = sess.run(None, feed)
        except Exception as e:  # onnxruntime has its own exceptions
            why = why or str(e).splitlines()[0][-200:]
            continue
        numbers = [o for o in outs if o.dtype.kind == "f"]
        good = all(np.isfinite(o).all() for o in numbers) and any(o.any() for o in outs)
        if accepted is None or good:
            accepted = at
        if good:
            break
    if accepted is None:
        raise NoInputs(f"onnxruntime without optimizations refuses all inputs: {why}")

    def feed_of(step, outs):
        feed = next(itertools.islice(candidates(tool, sess, path, step), accepted, None))
        return tool.carry(feed, sess, outs) if outs else feed
    return feed_of
