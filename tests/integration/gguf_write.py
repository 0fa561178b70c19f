"""Writes GGUF files (version 3), for tests that read them."""
import struct

import numpy as np

ALIGN = 32
BLOCK = 32


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v, in_list=False):
    """-> number of the type, bytes; as the gguf package chooses them"""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return (4, struct.pack("<I", v)) if v >= 0 and not in_list else (5, struct.pack("<i", v))
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, text(v)
    kind = value(v[0], True)[0]
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(value(x, True)[1] for x in v)


def blocks(x):
    return x.reshape(-1, BLOCK)


def scaled(d, q):
    """-> bytes of blocks with a scale each, the values that they stand for"""
    d = d.astype("<f2")
    return b"".join(s.tobytes() + r.tobytes() for s, r in zip(d, q)), d.astype("f4")


def of_f16(x):
    h = x.astype("<f2")
    return h.tobytes(), h.astype("f4")


def of_bf16(x):
    bits = x.view("<u4")
    h = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return h.tobytes(), (h.astype("<u4") << 16).view("<f4")


def of_q8_0(x):
    rows = blocks(x)
    d = np.abs(rows).max(1, keepdims=True) / 127
    q = np.round(rows / np.where(d, d, 1)).astype("i1")
    b, d = scaled(d, q)
    return b, (d * q).reshape(x.shape)


def of_q4_0(x):
    rows = blocks(x)
    d = rows[np.arange(len(rows)), np.abs(rows).argmax(1)][:, None] / -8
    q = np.clip(np.floor(rows / np.where(d, d, 1) + 8.5), 0, 15).astype("u1")
    b, d = scaled(d, q[:, :BLOCK // 2] | q[:, BLOCK // 2:] << 4)
    return b, (d * (q.astype("f4") - 8)).reshape(x.shape)


# number of the type, x -> (its bytes, x as they give it back), elements of a block
KINDS = {"F32": (0, lambda x: (x.tobytes(), x), 1), "F16": (1, of_f16, 1), "BF16": (30, of_bf16, 1), "Q8_0": (8, of_q8_0, BLOCK), "Q4_0": (2, of_q4_0, BLOCK)}


def write(path, keys, tensors, kind="F32", rounded=False):
    """keys: {name: value}; tensors: {name: f32 array}. kind: of matrices whose rows it fits; vectors and others are F32, as the programs leave them.
    rounded: all are F32, with the values that the kind gives back."""
    infos, data = b"", b""
    for name, x in tensors.items():
        x = np.ascontiguousarray(x, np.float32)
        number, code, _ = KINDS[kind if x.ndim == 2 and x.shape[-1] % KINDS[kind][2] == 0 else "F32"]
        b, back = code(x)
        if rounded:
            number, b = 0, back.tobytes()
        infos += text(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *x.shape[::-1], number, len(data))
        data += b + b"\0" * (-len(b) % ALIGN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, v in keys.items():
        number, b = value(v)
        head += text(name) + struct.pack("<I", number) + b
    head += infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN) + data)
