"""A network of the CNN-BiLSTM's layout that knows a few words: the mark and the case of a word are those of its first piece.
    python3 tests/integration/punctuation_network.py tests/data/punctuation"""
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

MARK = "\u2581"
# word, its mark, its case: 0 as it is, 1 capitals, 2 a first capital
WORDS = (("hello", 1, 2), ("you", 3, 0), ("nasa", 0, 1), ("mister", 0, 2), ("dollars", 2, 0), ("one", 1, 0), ("twenty", 0, 2), ("now", 2, 0),
         ("four", 0, 2), ("seven", 1, 0), ("nine", 0, 1), ("zero", 3, 0), ("three", 2, 0))
OTHERS = 3  # <unk>, <s>, </s>


def scores(column):
    """[pieces, 4]: 1 for the class of each piece."""
    return np.eye(4, dtype=np.float32)[[0] * OTHERS + [w[column] for w in WORDS]]


def write(folder):
    i32, i64, f32 = onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    node = helper.make_node
    # places of valid pieces that are not <s> or </s>
    nodes = [node("Cast", ["token_ids"], ["id"], to=i64), node("Cast", ["valid_ids"], ["valid"], to=i64),
             node("Equal", ["id", "one"], ["is_begin"]), node("Equal", ["id", "two"], ["is_end"]),
             node("Cast", ["is_begin"], ["begin"], to=i64), node("Cast", ["is_end"], ["end"], to=i64),
             node("Sub", ["valid", "begin"], ["rest"]), node("Sub", ["rest", "end"], ["word"]),
             node("NonZero", ["word"], ["places"]), node("Transpose", ["places"], ["place"], perm=[1, 0])]
    for kind in ("case", "punct"):
        nodes += [node("Gather", [kind, "token_ids"], [kind + "_scores"]),
                  node("GatherND", [kind + "_scores", "place"], [f"active_{kind}_logits"])]
    constants = [numpy_helper.from_array(v, k) for k, v in (("one", np.int64(1)), ("two", np.int64(2)), ("case", scores(2)),
                                                            ("punct", scores(1)))]
    inputs = [helper.make_tensor_value_info(n, i32, s) for n, s in (("token_ids", ["N", "T"]), ("valid_ids", ["N", "T"]), ("label_lens", ["N"]))]
    outputs = [helper.make_tensor_value_info(f"active_{k}_logits", f32, ["M", 4]) for k in ("case", "punct")]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, {"COMMA": "1", "PERIOD": "2", "QUESTION": "3", "UPPER": "1", "CAP": "2", "MIX_CASE": "3"})
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    with open(os.path.join(folder, "bpe.vocab"), "w", encoding="utf-8") as f:
        f.writelines(f"{piece}\t0\n" for piece in ["<unk>", "<s>", "</s>"] + [MARK + w[0] for w in WORDS])


if __name__ == "__main__":
    write(sys.argv[1])
