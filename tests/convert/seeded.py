"""Weights that follow from their names, and files of torch.save without PyTorch.

A recording of what PyTorch computes then needs no weights: names and shapes are enough. RandomState's streams are frozen
in NumPy, so they are the same with every version.
"""

import io
import pickle
import struct
import sys
import types
import zipfile
import zlib

import numpy as np


def stream(name):
    return np.random.RandomState(zlib.crc32(name.encode()))


def matrix(r, shape):
    """Of about unit gain, by its fan-in."""
    return r.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def weight(name, shape):
    """About unit gain in a network: matrices by their fan-in, norms around 1, biases small."""
    r, shape = stream(name), tuple(shape)
    if name.endswith("running_var"):
        x = r.random_sample(shape) + 0.5
    elif len(shape) >= 2:
        x = matrix(r, shape)
    else:
        x = (1.0 if name.endswith("weight") or name.endswith("alpha") else 0.0) + 0.1 * r.standard_normal(shape)
    return np.asarray(x, "f4")


def icefall_weight(name, shape):
    """As weight(), for icefall's networks: no norms have weights, what a bypass keeps lies between 0.3 and 0.7."""
    r = stream(name)
    if name.endswith(("bypass_scale", "weight1")):
        x = 0.3 + 0.4 * r.random_sample(shape)
    elif len(shape) >= 2 and not name.endswith("upsample.bias"):
        x = matrix(r, shape)
    else:
        x = 0.3 * r.standard_normal(shape)
    return np.asarray(x, "f4")


def icefall_checkpoint(shapes):
    """shapes: of the weights, by their names."""
    return {name: icefall_weight(name, shape) for name, shape in shapes.items()}


def normal(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype("f4")


def values(name, *shape):
    return stream(name).standard_normal(shape).astype("f4")


def features(seed, *shape):
    """Of few different values, which compress."""
    return (np.round(np.random.RandomState(seed).standard_normal((*shape, 80)) * 4) / 2).astype("f4")


def torch_file(state, dims=None):
    """torch.save of a dictionary of f32 arrays; with dims: of {"dims": dims, "model_state_dict": it}, as Whisper's."""
    storage = types.ModuleType("torch")
    utils = types.ModuleType("torch._utils")

    class FloatStorage:
        pass

    def rebuild():
        raise NotImplementedError

    FloatStorage.__module__, FloatStorage.__qualname__ = "torch", "FloatStorage"
    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    storage.FloatStorage, utils._rebuild_tensor_v2, storage._utils = FloatStorage, rebuild, utils

    class Tensor:
        def __init__(self, key, a):
            self.key, self.a = key, a

        def __reduce__(self):
            strides = tuple(int(s) // 4 for s in np.empty(self.a.shape, "f4").strides)
            return rebuild, (Storage(self.key, self.a.size), 0, self.a.shape, strides, False, {})

    class Storage:
        def __init__(self, key, n):
            self.key, self.n = key, n

    class Pickler(pickle.Pickler):
        def persistent_id(self, x):
            return ("storage", FloatStorage, x.key, "cpu", x.n) if isinstance(x, Storage) else None

    saved = {n: sys.modules.get(n) for n in ("torch", "torch._utils")}
    sys.modules.update({"torch": storage, "torch._utils": utils})
    try:
        data = io.BytesIO()
        tensors = {k: Tensor(str(i), np.asarray(a)) for i, (k, a) in enumerate(state.items())}
        Pickler(data, 2).dump({"dims": dims, "model_state_dict": tensors} if dims else tensors)
    finally:
        for n, module in saved.items():
            sys.modules.pop(n)
            if module:
                sys.modules[n] = module
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", data.getvalue())
        z.writestr("archive/byteorder", sys.byteorder)
        for i, a in enumerate(state.values()):
            a = np.ascontiguousarray(a, "<f4")
            z.writestr(f"archive/data/{i}", a.tobytes() if a.shape else struct.pack("<f", float(a)))
        z.writestr("archive/version", "3\n")
    return out.getvalue()
