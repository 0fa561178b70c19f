"""A small LSTM transducer of icefall's lstm_transducer_stateless2: names and shapes of its weights. The weights follow from
the names (seeded.py), so that a recording of what PyTorch computes needs no checkpoint."""

STEPS = 6
SMALL = dict(d=12, units=20, layers=3, ff=24, conv=(2, 3, 8), decoder=16, joiner=12, context=2, vocab=40)
EQUAL = dict(SMALL, units=12)  # as many cells as columns: no projection
LARGE = dict(d=512, units=1024, layers=12, ff=2048, conv=(8, 32, 128), decoder=512, joiner=512, context=2, vocab=500)


def shapes(a):
    """Each weight has a scale beside it."""
    out, d, c = {}, a["d"], a["conv"]

    def layer(name, *shape):
        out[f"{name}.weight"], out[f"{name}.bias"] = shape, shape[:1]

    for i, (n_in, n_out) in enumerate(zip((1, *c), c)):
        layer(f"encoder.encoder_embed.conv.{3 * i}", n_out, n_in, 3, 3)
    layer("encoder.encoder_embed.out", d, 18 * c[2])
    for i in range(a["layers"]):
        at = f"encoder.encoder.layers.{i}"
        out[f"{at}.lstm.weight_ih_l0"] = out[f"{at}.lstm.weight_hh_l0"] = (4 * a["units"], d)
        out[f"{at}.lstm.bias_ih_l0"] = out[f"{at}.lstm.bias_hh_l0"] = (4 * a["units"],)
        if a["units"] > d:
            out[f"{at}.lstm.weight_hr_l0"] = (d, a["units"])
        layer(f"{at}.feed_forward.0", a["ff"], d)
        layer(f"{at}.feed_forward.4", d, a["ff"])
    layer("joiner.encoder_proj", a["joiner"], d)
    layer("joiner.decoder_proj", a["joiner"], a["decoder"])
    layer("joiner.output_linear", a["vocab"], a["joiner"])
    layer("simple_am_proj", a["vocab"], d)
    out["decoder.conv.weight"] = (a["decoder"], 1, a["context"])
    out |= {f"{name}_scale": () for name in out}
    out["encoder.encoder_embed.out_norm.eps"] = ()
    out |= {f"encoder.encoder.layers.{i}.norm_final.eps": () for i in range(a["layers"])}
    out["decoder.embedding.weight"] = (a["vocab"], a["decoder"])
    out["decoder.embedding.scale"] = ()
    return out
