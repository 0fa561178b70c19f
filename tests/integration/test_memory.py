"""Memory of a model while it is loaded: packed weights, activations and nothing else of that size, in every
precision. Peak resident memory of `steno bench`, compared with the peak for a network of a few bytes. No clock.
TAP."""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

from daemon import BUILD, ROOT, Skip, case, tap

sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
from memory import resident  # noqa: E402

WORK = tempfile.mkdtemp(prefix="steno-memory-")
STENO = os.path.join(BUILD, "steno")
D, LAYERS, WIDE = 1024, 24, 8192
SLACK = 11 << 20  # the matrix of 4 MiB that is being packed, before and after packing; and the last large page


def save(path, nodes, consts, rank):
    dims = [1, "time", consts[0][1].shape[0]][-rank:]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, dims)],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(a, n) for n, a in consts])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def products(path, d, layers, quantized=False):
    """x -> layers of [d, d]: MatMul, or Gemm with weights to be transposed, or DynamicQuantizeLinear and
    MatMulInteger."""
    rng = np.random.default_rng(3)
    nodes, consts, x = [], [], "x"
    for i in range(layers):
        y = "y" if i + 1 == layers else f"h{i}"
        w = (rng.standard_normal((d, d)) / d ** 0.5).astype("f4")
        if quantized:
            consts += [(f"w{i}", np.clip(w * 1000, -127, 127).astype("i1")), (f"s{i}", np.float32(1e-3)), (f"z{i}", np.int8(0))]
            nodes += [helper.make_node("DynamicQuantizeLinear", [x], [f"q{i}", f"a{i}", f"b{i}"]),
                      helper.make_node("MatMulInteger", [f"q{i}", f"w{i}", f"b{i}", f"z{i}"], [f"p{i}"]),
                      helper.make_node("Cast", [f"p{i}"], [f"f{i}"], to=1),
                      helper.make_node("Mul", [f"a{i}", f"s{i}"], [f"c{i}"]),
                      helper.make_node("Mul", [f"f{i}", f"c{i}"], [y])]
        else:
            consts.append((f"w{i}", w))
            nodes.append(helper.make_node("Gemm" if i % 2 else "MatMul", [x, f"w{i}"], [y], **({"transB": 1} if i % 2 else {})))
        x = y
    return save(path, nodes, consts, 2)


def peak(path, d, *options):
    """(peak of the process, bytes of the weights, bytes of the activations)"""
    j, most = resident([STENO, "bench", path, "--runs", "1", "--json", "--shape", f"x=4x{d}", *options])
    return most, j["weights_bytes"], j["arena_bytes"]


def check(path, expected, *options):
    empty, _, _ = peak(products(os.path.join(WORK, "empty.onnx"), 16, 1), 16)
    most, weights, arena = peak(path, D, *options)
    assert expected <= weights <= 1.1 * expected, (weights, expected)
    assert most - empty <= weights + arena + SLACK, \
        f"peak {most >> 20} MiB, {empty >> 20} without the network, weights {weights >> 20} MiB, activations {arena >> 20}"


def need_plain_memory():
    if os.environ.get("STENO_SAN"):
        raise Skip("a sanitizer keeps freed memory")


@case
def a_network_is_loaded_without_a_second_copy_of_its_weights():
    need_plain_memory()
    path = products(os.path.join(WORK, "f32.onnx"), D, LAYERS)
    check(path, 4 * D * D * LAYERS)
    check(path, 2 * D * D * LAYERS, "--precision", "bf16")
    check(path, 2 * D * D * LAYERS, "--precision", "fp16")
    check(path, D * D * LAYERS, "--precision", "int8")


@case
def an_8_bit_network_is_loaded_without_a_second_copy():
    need_plain_memory()
    check(products(os.path.join(WORK, "i8.onnx"), D, 2 * LAYERS, quantized=True), 2 * D * D * LAYERS)


@case
def a_network_with_a_cache_is_loaded_without_a_second_copy():
    need_plain_memory()
    path = products(os.path.join(WORK, "cached.onnx"), D, LAYERS)
    cache = os.path.join(WORK, "cache")
    check(path, 4 * D * D * LAYERS, "--cache", cache)
    assert os.listdir(cache)
    check(path, 4 * D * D * LAYERS, "--cache", cache)


def table_and_products(path):
    """y = (row of a table + x) times small matrices, then times a large one: the weight that is packed last is also
    the last in the file."""
    rng = np.random.default_rng(4)
    consts = [("table", rng.standard_normal((WIDE, D)).astype("f4"))]
    consts += [(f"w{i}", (rng.standard_normal((D, WIDE if i == LAYERS else D)) / D ** 0.5).astype("f4")) for i in range(LAYERS + 1)]
    nodes = [helper.make_node("Gather", ["table", "id"], ["row"]), helper.make_node("Add", ["row", "x"], ["h"])]
    for i in range(LAYERS + 1):
        nodes.append(helper.make_node("MatMul", [f"h{i - 1}" if i else "h", f"w{i}"], ["y" if i == LAYERS else f"h{i}"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["time", D]), helper.make_tensor_value_info("id", 7, [1])],
                              [helper.make_tensor_value_info("y", 1, None)], [numpy_helper.from_array(a, n) for n, a in consts])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@case
def a_table_and_the_largest_product_are_not_held_twice_at_the_end_of_a_load():
    need_plain_memory()
    path = table_and_products(os.path.join(WORK, "table.onnx"))
    weights = D * D * LAYERS + D * WIDE
    check(path, 4 * D * WIDE + 4 * weights)
    check(path, 4 * D * WIDE + 2 * weights, "--precision", "bf16")
    check(path, 4 * D * WIDE + weights, "--precision", "int8")


if __name__ == "__main__":
    sys.exit(tap())
