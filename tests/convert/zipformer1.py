"""A small Zipformer of icefall's pruned_transducer_stateless7: names and shapes of its weights. The weights follow from the
names (seeded.py), so that a recording of what PyTorch computes needs no checkpoint."""

CHUNK_LEN, LEFT_CHUNKS, STEPS = 32, 2, 4
SMALL = dict(d=(16, 16, 24, 24, 24), layers=(1, 2, 1, 1, 1), by=(1, 2, 4, 8, 2), heads=2, attention=16, ff=24, kernel=5,
             conv=(2, 3, 8), decoder=16, joiner=12, context=2, vocab=40)  # fmt: skip
LARGE = dict(d=(384,) * 5, layers=(2, 4, 3, 2, 4), by=(1, 2, 4, 8, 2), heads=8, attention=192, ff=1024, kernel=31,
             conv=(8, 32, 128), decoder=512, joiner=512, context=2, vocab=500)  # fmt: skip


def skipped_to(by, i):
    """The stack whose output goes into stack i besides the last one."""
    if i < 2 or by[i - 1] <= by[i]:
        return None
    return next(j for j in range(i - 2, -1, -1) if by[j] <= by[i] or j == 0)


def shapes(a):
    out = {}

    def linear(name, n_out, n_in, bias=True):
        out[f"{name}.weight"] = (n_out, n_in)
        if bias:
            out[f"{name}.bias"] = (n_out,)

    def conv(name, *shape):
        out[f"{name}.weight"], out[f"{name}.bias"] = shape, shape[:1]

    c, att, pos = a["conv"], a["attention"], 4 * a["heads"]
    for i, (n_in, n_out) in enumerate(zip((1, *c), c)):
        conv(f"encoder.encoder_embed.conv.{3 * i}", n_out, n_in, 3, 3)
    linear("encoder.encoder_embed.out", a["d"][0], 19 * c[2])
    for i, (d, by) in enumerate(zip(a["d"], a["by"])):
        stack, before = f"encoder.encoders.{i}", a["d"][max(i - 1, 0)]
        if skipped_to(a["by"], i) is not None:
            out[f"encoder.skip_modules.{i}.weight1"] = ()
        for k in range(a["layers"][i]):
            at = f"{stack}.{'encoder.' if by > 1 else ''}layers.{k}"
            out[f"{at}.bypass_scale"] = out[f"{at}.norm_final.eps"] = ()
            linear(f"{at}.self_attn.in_proj", 5 * att // 2 + pos, d)
            linear(f"{at}.self_attn.linear_pos", pos, d, bias=False)
            linear(f"{at}.self_attn.out_proj", d, att // 2)
            linear(f"{at}.self_attn.in_proj2", att // 2, d, bias=False)
            linear(f"{at}.self_attn.out_proj2", d, att // 2)
            linear(f"{at}.pooling.proj", d, d, bias=False)
            for n in (1, 2, 3):
                linear(f"{at}.feed_forward{n}.in_proj", a["ff"], d)
                linear(f"{at}.feed_forward{n}.out_proj", d, a["ff"])
            for n in (1, 2):
                conv(f"{at}.conv_module{n}.pointwise_conv1", 2 * d, d, 1)
                conv(f"{at}.conv_module{n}.depthwise_conv", d, 1, a["kernel"])
                conv(f"{at}.conv_module{n}.pointwise_conv2", d, d, 1)
        if by > 1:
            out[f"{stack}.downsample.query"] = (before,)
            if d > before:
                linear(f"{stack}.downsample.extra_proj", d - before, by * before, bias=False)
            out[f"{stack}.upsample.bias"] = (by, d)
            out[f"{stack}.out_combiner.weight1"] = ()
    out["encoder.downsample_output.query"] = (a["d"][-1],)
    out["decoder.embedding.weight"] = (a["vocab"], a["decoder"])
    out["decoder.conv.weight"] = (a["decoder"], 4, a["context"])
    linear("joiner.encoder_proj", a["joiner"], a["d"][-1])
    linear("joiner.decoder_proj", a["joiner"], a["decoder"])
    linear("joiner.output_linear", a["vocab"], a["joiner"])
    linear("ctc_output.1", a["vocab"], a["d"][-1])
    linear("simple_am_proj", a["vocab"], a["d"][-1])
    return out
