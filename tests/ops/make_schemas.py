#!/usr/bin/env python3
"""Write engine/tools/optimize/opset_table.h from the operator schemas of the onnx package.

    python3 tests/ops/make_schemas.py > engine/tools/optimize/opset_table.h
    python3 tests/ops/make_schemas.py --check     exit status 1 if the file differs

All versions of every operator of ai.onnx: inputs, outputs, element types, attributes with their defaults.
--check wants the version of the package that the file names; with another one it says so and exits with 77.
"""
import argparse
import collections
import os
import sys

import onnx
from onnx import TensorProto, defs

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "engine", "tools", "optimize", "opset_table.h")
KINDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "F", "INTS": "I",
         "STRINGS": "S", "SPARSE_TENSOR": "x", "TYPE_PROTO": "x"}
HEAD = """/* Written by tests/ops/make_schemas.py from the operator schemas of onnx %s; do not edit.
 * All versions of every operator of ai.onnx. Bit k of a set of types stands for element type k
 * (nn/graph/tensor.h), bit 0 for sequences, bit 31 for optionals. */
#ifndef STENO_OPTIMIZE_OPSET_TABLE_H
#define STENO_OPTIMIZE_OPSET_TABLE_H

#include "tools/optimize/opset.h"

/* clang-format off */
"""
TYPE_NAMES = {"float": "FLOAT", "double": "DOUBLE"}


def type_bit(text):
    if text.startswith("optional("):
        return 31
    if not text.startswith("tensor("):
        return 0
    name = text[len("tensor("):-1]
    return TensorProto.DataType.Value(TYPE_NAMES.get(name, name.upper()))


class Pool:
    """A list in which equal runs of rows are stored once."""

    def __init__(self):
        self.rows, self.at = [], {}

    def add(self, rows):
        rows = tuple(rows)
        if rows not in self.at:
            self.at[rows] = len(self.rows)
            self.rows.extend(rows)
        return self.at[rows]


def default(attribute):
    """The default as text; None: there is none."""
    v = attribute.default_value
    kind = attribute.type.name
    if not v.name:
        return None
    if kind == "FLOAT":
        return f"{v.f:.9g}"
    if kind == "INT":
        return str(v.i)
    if kind == "STRING":
        return v.s.decode()
    if kind == "INTS":
        return ",".join(str(i) for i in v.ints)
    if kind == "FLOATS":
        return ",".join(f"{f:.9g}" for f in v.floats)
    if kind == "STRINGS":
        return ",".join(s.decode() for s in v.strings)
    return None


def quote(text):
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def wrapped(out, items):
    line = "   "
    for x in items:
        if len(line) + len(x) + 2 > 100:
            out.append(line)
            line = "   "
        line += f" {x},"
    out.append(line)


def table():
    versions = collections.defaultdict(list)
    for s in defs.get_all_schemas_with_history():
        if not s.domain:
            versions[s.name].append(s)
    sets, params, attrs = Pool(), Pool(), Pool()
    version_rows, op_rows = [], []

    def param_rows(formals, variables):
        rows = []
        for p in formals:
            bits = 0
            for t in p.types:
                bits |= 1 << type_bit(t)
            kind = {"Single": "'1'", "Optional": "'?'", "Variadic": "'*'"}[p.option.name]
            same = variables.index(p.type_str) + 1 if p.type_str in variables and p.is_homogeneous else 0
            rows.append(f"{{{quote(p.name)}, {kind}, {same}, {sets.add([f'0x{bits:08x}u'])}}}")
        return rows

    for name in sorted(versions):
        first = len(version_rows)
        for s in sorted(versions[name], key=lambda s: s.since_version):
            variables = [c.type_param_str for c in s.type_constraints]
            a = []
            for key in sorted(s.attributes):
                x = s.attributes[key]
                a.append(f"{{{quote(key)}, '{KINDS[x.type.name]}', {int(x.required)}, {quote(default(x))}}}")
            ins, outs = param_rows(s.inputs, variables), param_rows(s.outputs, variables)
            version_rows.append("{%d, %d, %d, %d, %d, %d, %d, %d, %d}" % (
                s.since_version, int(s.deprecated), s.min_input, len(ins), params.add(ins), len(outs), params.add(outs),
                len(a), attrs.add(a)))
        op_rows.append(f"{{{quote(name)}, {len(version_rows) - first}, {first}}}")
    out = []
    out.append("static const uint32_t opset_types[] = {")
    wrapped(out, sets.rows)
    out.append("};\n")
    out.append("/* name, how often ('1', '?' optional, '*' any number), type variable or 0, index of its types */")
    out.append("static const struct opset_param opset_params[] = {")
    wrapped(out, params.rows)
    out.append("};\n")
    out.append("/* name, kind, required, default */")
    out.append("static const struct opset_attr opset_attrs[] = {")
    wrapped(out, attrs.rows)
    out.append("};\n")
    out.append("/* since, deprecated, least inputs; number and first of inputs, of outputs, of attributes */")
    out.append("static const struct opset_version opset_versions[] = {")
    wrapped(out, version_rows)
    out.append("};\n")
    out.append("static const struct opset_op opset_ops[] = {")
    wrapped(out, op_rows)
    out.append("};")
    return HEAD % onnx.__version__ + "\n".join(out) + "\n/* clang-format on */\n\n#endif\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if not a.check:
        sys.stdout.write(table())
        return 0
    with open(TABLE, encoding="utf-8") as f:
        have = f.read()
    if f"onnx {onnx.__version__};" not in have:
        print(f"the table is that of another version of the onnx package than {onnx.__version__}")
        return 77
    if have != table():
        print("engine/tools/optimize/opset_table.h is not what tests/ops/make_schemas.py writes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
