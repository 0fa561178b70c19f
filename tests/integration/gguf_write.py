"""Writes GGUF files (version 3), for tests that read them."""
import struct

import numpy as np

ALIGN = 32


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    """-> number of the type, bytes"""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 5, struct.pack("<i", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, text(v)
    kind = value(v[0])[0]
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(value(x)[1] for x in v)


def write(path, keys, tensors):
    """keys: {name: value}; tensors: {name: f32 array}"""
    infos, at = b"", 0
    for name, x in tensors.items():
        infos += text(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *x.shape[::-1], 0, at)
        at += -(-x.nbytes // ALIGN) * ALIGN
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, v in keys.items():
        kind, b = value(v)
        head += text(name) + struct.pack("<I", kind) + b
    head += infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for x in tensors.values():
            b = np.ascontiguousarray(x, np.float32).tobytes()
            f.write(b + b"\0" * (-len(b) % ALIGN))
