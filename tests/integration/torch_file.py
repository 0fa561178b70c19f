"""Files of torch.save without PyTorch: names of its module stand in the pickle, nothing of it is imported."""
import pickle
import sys
import types
import zipfile

import numpy as np

STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage"}


def module(name):
    for i in range(1, name.count(".") + 2):
        part = ".".join(name.split(".")[:i])
        sys.modules.setdefault(part, types.ModuleType(part)).__path__ = []
    return sys.modules[name]


def named(where, name):
    """A function that is pickled as where.name."""
    m = module(where)
    if not hasattr(m, name):
        def f(*_):
            raise AssertionError(f"{where}.{name} was called")
        f.__module__, f.__qualname__, f.__name__ = where, name, name
        setattr(m, name, f)
    return getattr(m, name)


class Storage:
    def __init__(self, key, array):
        self.key, self.array = key, array


class Call:
    """Pickled as a call of where.name."""
    def __init__(self, where, name, *args):
        self.call = (named(where, name), args)

    def __reduce__(self):
        return self.call


class Repeated:
    """A view of an array's shape, all of whose elements are the first."""
    def __init__(self, array):
        self.array = array


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            kind = named("torch", STORAGES[str(obj.array.dtype)])
            return ("storage", kind, obj.key, "cpu", obj.array.size)
        return None


def save(path, content, packed=False):
    """content: dictionaries and lists of arrays and plain values."""
    storages = []

    def tensors(v):
        if isinstance(v, dict):
            return {k: tensors(x) for k, x in v.items()}
        if isinstance(v, Repeated):
            storages.append(Storage(str(len(storages)), v.array.ravel()[:1]))
            strides = (0,) * v.array.ndim
            return Call("torch._utils", "_rebuild_tensor_v2", storages[-1], 0, v.array.shape, strides, False, {})
        if isinstance(v, np.ndarray):
            v = np.asarray(v, order="C")
            storages.append(Storage(str(len(storages)), v))
            strides = tuple(s // v.itemsize for s in v.strides)
            return Call("torch._utils", "_rebuild_tensor_v2", storages[-1], 0, v.shape, strides, False, {})
        return v

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as z:
        with z.open("archive/data.pkl", "w") as f:
            Pickler(f, 2).dump(tensors(content))
        for s in storages:
            z.writestr(f"archive/data/{s.key}", s.array.tobytes())
        z.writestr("archive/version", "3\n")


def load(path):
    """{"a": {"b": array}} of a file that `save` or torch.save wrote."""
    with zipfile.ZipFile(path) as z:
        names = z.namelist()
        pkl = next(n for n in names if n.endswith("/data.pkl"))

        class Unpickler(pickle.Unpickler):
            def find_class(self, where, name):
                if where == "collections":
                    return dict
                return (where, name) if name.endswith("Storage") else lambda *a: a

            def persistent_load(self, pid):
                dtype = next(d for d, s in STORAGES.items() if s == pid[1][1])
                return np.frombuffer(z.read(pkl[: -len("data.pkl")] + "data/" + pid[2]), dtype)

        def arrays(v):
            if isinstance(v, dict):
                return {k: arrays(x) for k, x in v.items()}
            if isinstance(v, tuple) and len(v) >= 4 and isinstance(v[0], np.ndarray):
                strides = [s * v[0].itemsize for s in v[3]]
                return np.lib.stride_tricks.as_strided(v[0][v[1]:], v[2], strides).copy()
            return v

        with z.open(pkl) as f:
            return arrays(Unpickler(f).load())
