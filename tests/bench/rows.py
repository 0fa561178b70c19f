"""The workloads of `make bench`: graphs, input shapes, and what they are compared with.

A row names a model in the folder of filled graphs (models.py), or a path in the repository for a model that needs
no filling. One run of ours has `per` streams; ONNX Runtime runs them one by one with `alone` shapes.
"""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    name: str
    model: str
    shapes: dict = field(default_factory=dict)
    quantized: str = ""  # the same network in 8 bits, made by ONNX Runtime's quantizer
    per: int = 1
    alone: dict = field(default_factory=dict)  # shapes of one stream, if per > 1
    wanted: dict = field(default_factory=dict)  # the goal for the ratio, by precision
    free_batch: tuple = ()  # inputs exported for one stream that get `per`


def espnet(kind, part):
    return f"espnet-{kind}-op13/full/{part}.onnx", f"espnet-{kind}-op13/quantize/{part}_qt.onnx"


def encoder(kind, layers, frames, wanted):
    model, quantized = espnet(kind, "default_encoder")
    return Row(f"{kind}-{layers} T={frames}", model, {"feats": (1, frames, 80)}, quantized, wanted=wanted)


def block(streams=1):
    """One call of the contextual block encoder after the first: 64 new feature frames and 24 kept frames after
    subsampling."""
    model, quantized = espnet("stream-conformer", "xformer_encoder")
    each = {"xs_pad": (64, 80), "buffer_before_downsampling": (8, 80), "buffer_after_downsampling": (24, 512),
            "prev_addin": (1, 512), "pos_enc_xs": (40, 512), "pos_enc_addin": (1, 512), "past_encoder_ctx": (12, 512)}
    name, same = "stream-conformer-12 block", {"mask": (1, 1, 42, 42), "is_first": (1,)}
    alone = {**same, **{k: (1, *v) for k, v in each.items()}}
    if streams == 1:
        return Row(name, model, alone, quantized, wanted={"fp32": 2.5, "bf16": 5, "int8": 5})
    return Row(f"{name}, {streams} streams", model, {**same, **{k: (streams, *v) for k, v in each.items()}}, quantized,
               streams, alone, {"fp32": 3, "bf16": 6, "int8": 6}, tuple(each))


def step(name, part, layers, prefix, beam, memory, wanted):
    model, quantized = espnet("conformer", part)
    shapes = {"tgt": (beam, prefix)}
    if memory:
        shapes["memory"] = (beam, memory, 512)
    shapes.update({f"cache_{i}": (beam, prefix - (not memory), 512) for i in range(layers)})
    return Row(f"{name} prefix {prefix} beam {beam}", model, shapes, quantized, wanted=wanted)


def zipformer(streams):
    """A chunk of 0.32 s: state inputs have the extents in the graph, with N streams each."""
    wanted = {"fp32": 3, "bf16": 6 if streams > 1 else 5, "int8": 4}
    return Row(f"zipformer2-66m chunk, {streams} stream{'s' if streams > 1 else ''}", "zipformer2-66m/encoder.onnx",
               {"N": streams}, "zipformer2-66m/encoder.int8.onnx", streams, {"N": 1} if streams > 1 else {}, wanted)


LARGE = {"fp32": 1.9, "bf16": 3.8, "int8": 4}
TABLE = [
    encoder("conformer", 12, 100, {"fp32": 2, "bf16": 4, "int8": 4}),
    encoder("conformer", 12, 1000, LARGE),
    encoder("conformer", 12, 3000, LARGE),
    encoder("transformer", 18, 100, {"fp32": 2, "bf16": 4, "int8": 3.5}),
    encoder("transformer", 18, 1000, LARGE),
    encoder("transformer", 18, 3000, LARGE),
    block(),
    block(4),
    block(16),
    *[step("decoder-6", "xformer_decoder", 6, p, b, 24, {"fp32": 2, "bf16": 4, "int8": 3})
      for p in (10, 60) for b in (1, 10)],
    *[step("LM-16", "transformer_lm", 16, p, b, 0, {"fp32": 1.6, "bf16": 3, "int8": 2.5})
      for p in (10, 60) for b in (1, 10)],
    zipformer(1),
    zipformer(16),
    Row("silero-vad step", "silero-vad/silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)},
        wanted={"fp32": 5}),
    Row("spelling-cnn", "spelling-cnn/spelling_cnn_mel.shrunk.onnx", {"log_mel": (1, 1, 64, 128)}),
    Row("digits-en chunk", "conf/models/digits-en/encoder.onnx", {"N": 1}),
]
LENGTHS = (25, 50, 100, 200, 400, 800, 1600, 3000, 6000)
CURVES = {"conformer-12": [encoder("conformer", 12, t, {}) for t in LENGTHS],
          "transformer-18": [encoder("transformer", 18, t, {}) for t in LENGTHS]}
