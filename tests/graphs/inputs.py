"""Inputs of random graphs: the usual ones, and those at which rewrites break."""
import numpy as np

from build import BOOL, F, NP

KINDS = ["normal", "large", "small", "zeros", "nan", "inf", "outlier", "equal", "offset", "mixed", "hundred"]


def floats(rng, kind, shape):
    x = rng.standard_normal(shape)
    with np.errstate(all="ignore"):
        if kind == "large":
            x = x * 1e30
        elif kind == "small":
            x = x * 1e-30
        elif kind == "zeros":
            x = x * 0.0
        elif kind == "hundred":
            x = x * 100
        elif kind == "outlier" and x.size:
            x.flat[rng.integers(x.size)] = rng.choice([100.0, -1000.0, 1e6])
        elif kind == "equal":
            x = np.broadcast_to(rng.standard_normal(shape[:-1] + (1,)) if len(shape) else x, shape).copy()
        elif kind == "offset":
            x = x + 50
        elif kind == "nan" and x.size:
            x.flat[rng.integers(x.size)] = np.nan
        elif kind == "inf" and x.size:
            x.flat[rng.integers(x.size)] = rng.choice([np.inf, -np.inf])
        elif kind == "mixed":
            x = x * 10.0 ** rng.integers(-6, 7, shape)
    return np.asarray(x, np.float32)


def make(g, ranges, scenario, kind, seed):
    """Arrays by name. scenario: which of the extents of dynamic axes."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name, t, dims in g.inputs:
        shape = tuple(d[scenario] if isinstance(d, tuple) else d for d in dims)
        low, high = ranges.get(name, (0, 1))
        if t == F:
            feeds[name] = floats(rng, kind, shape)
        elif t == BOOL:
            feeds[name] = np.asarray(rng.random(shape) < rng.choice([0.2, 0.7, 1.0]))
        else:
            feeds[name] = np.asarray(rng.integers(low, max(high, low + 1), shape), NP[t])
    return feeds
