"""Runs a network of contextual blocks as espnet_onnx's runtime does, block by block."""

import numpy as np

SUBSAMPLE = dict(conv2d=4, conv2d6=6, conv2d8=8)


def sizes(conf):
    """Subsampling, block, hop, look-ahead of an encoder_conf."""
    return (SUBSAMPLE[conf.get("input_layer", "conv2d")], conf.get("block_size", 40), conf.get("hop_size", 16),
            conf.get("look_ahead", 16))  # fmt: skip


def frames(conf, blocks):
    """Feature frames of each of that many calls."""
    subsample, block, hop, _ = sizes(conf)
    return [subsample * (block + 2)] + [subsample * hop] * (blocks - 1)


def run(call, conf, layers, x, pe, blocks):
    """call: inputs by name -> outputs. x: [1, frames, bands]. Returns the frames of all blocks."""
    subsample, block, hop, _ = sizes(conf)
    d, mask = pe.shape[2], np.zeros((1, 1, block + 2, block + 2), "f4")
    mask[..., 1:, :-1] = 1
    state = [np.zeros((1, n, w), "f4") for n, w in ((2 * subsample, x.shape[2]), (block - hop, d), (1, d), (layers, d))]
    out, at = [], 0
    for i, n in enumerate(frames(conf, blocks)):
        y, *state = call(dict(xs_pad=x[:, at : at + n], mask=mask, buffer_before_downsampling=state[0],
                              buffer_after_downsampling=state[1], prev_addin=state[2], pos_enc_xs=pe[:, i * hop : i * hop + block],
                              pos_enc_addin=pe[:, i : i + 1], past_encoder_ctx=state[3],
                              is_first=np.array([i == 0], "i8")))  # fmt: skip
        out.append(y)
        at += n
    return np.concatenate(out, 1)
