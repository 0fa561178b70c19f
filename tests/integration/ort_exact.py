"""Sessions of onnxruntime whose 8-bit sums do not saturate on any CPU.

On CPUs without VNNI its products of u8 and i8 use an instruction that saturates sums of two products at 16 bits
(vpmaddubsw). Such results are wrong and no reference. `session.x64quantprecision` makes onnxruntime use products
of u8 and u8 there, which are exact and slower. Not all graphs survive this rewriting (onnxruntime 1.31).

    ort_exact.py PROGRAM [ARGUMENT]...     run another Python program with such sessions
"""
import functools
import runpy
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

Plain = onnxruntime.InferenceSession


class Saturates(Exception):
    """No session with exact sums exists, so the test cannot be answered on this CPU."""

    def __init__(self, why):
        super().__init__(f"onnxruntime's sums of bytes saturate on this CPU, its exact way fails: {str(why)[:100]}")


@functools.lru_cache(None)
def saturates():
    a, b = np.full((8, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g",
                              [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
                              [helper.make_tensor("b", TensorProto.INT8, b.shape, b.tobytes(), raw=True)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    y = Plain(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"a": a})[0]
    return bool(np.any(y != 64 * 255 * 127))


class Session(Plain):
    """Like onnxruntime's. Raises Saturates if only the exact way fails. A bad model or input fails both ways."""

    def __init__(self, model, sess_options=None, *args, **kwargs):
        def plain():
            options.add_session_config_entry("session.x64quantprecision", "0")
            return Plain(model, options, *args, **kwargs)

        options = sess_options or onnxruntime.SessionOptions()
        self.plain = plain
        if saturates():
            options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            super().__init__(model, options, *args, **kwargs)
        except Exception as e:  # onnxruntime has its own exceptions
            if not saturates():
                raise
            plain()
            raise Saturates(e) from None

    def run(self, *args, **kwargs):
        try:
            return super().run(*args, **kwargs)
        except Exception as e:
            if not saturates():
                raise
            self.plain().run(*args, **kwargs)
            raise Saturates(e) from None


if __name__ == "__main__":
    onnxruntime.InferenceSession = Session
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
