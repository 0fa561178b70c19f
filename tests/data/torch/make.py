#!/usr/bin/env python3
"""Writes the checkpoints of this folder with torch.save (torch 2.13.0), and deflated.pt with zipfile."""

import collections
import pathlib
import zipfile

import torch

here = pathlib.Path(__file__).parent
base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
state = collections.OrderedDict(
    a=base, t=base.t(), view=base[1:3, 2:5],
    h=torch.tensor([1.5, -2, 65504, 6e-8]).half(), b=torch.tensor([1.5, -3]).bfloat16(),
    d=torch.tensor([0.1, 2.0], dtype=torch.float64), i64=torch.tensor([1, -2**40]),
    i32=torch.tensor([5], dtype=torch.int32), i16=torch.tensor([-7], dtype=torch.int16),
    i8=torch.tensor([-8], dtype=torch.int8), u8=torch.tensor([200], dtype=torch.uint8),
    bool=torch.tensor([True, False]), p=torch.nn.Parameter(torch.ones(2, 2)), scalar=torch.tensor(3.25),
    empty=torch.zeros(0, 4), expanded=torch.tensor([4.0, 5.0]).expand(3, 2),
)  # fmt: skip
state._metadata = collections.OrderedDict([("", {"version": 1})])
plain = {"n": 7, "x": 1.5, "s": "text", "none": None, "yes": True, "big": 2**80, 3: "three"}
everything = {"model": state, "dims": plain, "list": [torch.tensor([9.0]), (1, 2)]}
torch.save(everything, here / "zip.pt")
torch.save(everything, here / "protocol4.pt", pickle_protocol=4)
torch.save(everything, here / "protocol5.pt", pickle_protocol=5)
torch.save(everything, here / "older.pt", _use_new_zipfile_serialization=False)
with zipfile.ZipFile(here / "zip.pt") as stored, zipfile.ZipFile(
    here / "deflated.pt", "w", zipfile.ZIP_DEFLATED
) as packed:
    for name in stored.namelist():
        packed.writestr(zipfile.ZipInfo(name), stored.read(name), zipfile.ZIP_DEFLATED)
