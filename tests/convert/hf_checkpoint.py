#!/usr/bin/env python3
"""Checkpoints of random weights as transformers saves them, and what its modules compute.

    hf_checkpoint.py OUT [--only NAME]

Needs the PyPI packages torch (2.13.0) and transformers (5.24.0). For each model OUT/NAME.zip, whose weights are in f16,
and OUT/NAME.npz: scores and texts of the chirps that chirp() makes. Some of them are in tests/data/convert.
"""

import argparse
import io
import json
import os
import tempfile
import zipfile

import numpy as np
import torch
import transformers as tf

SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, vocab_size=12,
             conv_dim=[8, 8, 12], conv_kernel=[10, 3, 2], conv_stride=[8, 5, 8], num_conv_pos_embeddings=6,
             num_conv_pos_embedding_groups=2)  # fmt: skip
LAYER = dict(feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)
WAVLM = dict(num_buckets=20, max_bucket_distance=30)
CTC = {
    "wav2vec2": (tf.Wav2Vec2Config, tf.Wav2Vec2ForCTC, {}),
    "wav2vec2-stable": (tf.Wav2Vec2Config, tf.Wav2Vec2ForCTC, LAYER | dict(num_conv_pos_embeddings=7)),
    "hubert": (tf.HubertConfig, tf.HubertForCTC, {}),
    "hubert-stable": (tf.HubertConfig, tf.HubertForCTC, LAYER),
    "hubert-batchnorm": (tf.HubertConfig, tf.HubertForCTC, dict(conv_pos_batch_norm=True, feat_proj_layer_norm=False)),
    "wavlm": (tf.WavLMConfig, tf.WavLMForCTC, WAVLM),
    "wavlm-stable": (tf.WavLMConfig, tf.WavLMForCTC, LAYER | WAVLM),
    "data2vec": (tf.Data2VecAudioConfig, tf.Data2VecAudioForCTC,
                 dict(num_conv_pos_embeddings=2, conv_pos_kernel_size=5, num_conv_pos_embedding_groups=2)),
}  # fmt: skip
LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", "E", "T", "A", "O", "N", "I", "H"]
LENGTHS = (16000, 9001, 4000)  # samples


def chirp(n):
    t = np.arange(n) / 16000
    return (0.3 * np.sin(2 * np.pi * (150 + 900 * t) * t) + 0.2 * np.sin(11 * t) * np.sin(4000 * t)).astype("f4")


def shaken(model, head):
    """Weights that give more than one token, rounded to f16; statistics that are not an untrained network's."""
    gen = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            if not p.dtype.is_floating_point or "inv_freq" in name:
                continue
            more = torch.randn(p.shape, generator=gen)
            scale = 0.8 if name.startswith(head) and p.dim() > 1 else 0.15 if p.dim() < 2 else 0.4
            p.copy_((p + more * scale).abs() + 0.1 if "running_var" in name else p + more * scale)
            p.copy_(p.half().float())
    return model.eval()


def old_names(state):
    """As torch before 2.1 wrote the norm of a weight."""
    return {k.replace("parametrizations.weight.original0", "weight_g")
            .replace("parametrizations.weight.original1", "weight_v"): v for k, v in state.items()}  # fmt: skip


def pack(path, folder):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name in sorted(os.listdir(folder)):
            info = zipfile.ZipInfo(name, (2026, 11, 26, 0, 0, 0))
            with open(f"{folder}/{name}", "rb") as f:
                z.writestr(info, f.read(), zipfile.ZIP_DEFLATED)


def ctc(name, out):
    config, kind, more = CTC[name]
    torch.manual_seed(3)
    model, got = shaken(kind(config(**(SMALL | more))), "lm_head"), {}
    with torch.no_grad():
        model.lm_head.bias[1:4] = -30  # <s>, </s>, <unk>, which transformers would write
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/vocab.json", "w", encoding="utf-8") as f:
            json.dump({t: i for i, t in enumerate(LETTERS)}, f)
        tokenizer = tf.Wav2Vec2CTCTokenizer(f"{d}/vocab.json")
        extractor = tf.Wav2Vec2FeatureExtractor(do_normalize="stable" not in name)
        processor = tf.Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
        tokenizer.save_pretrained(d)
        extractor.save_pretrained(d)
        for n in LENGTHS:
            x = extractor(chirp(n), sampling_rate=16000, return_tensors="pt").input_values
            with torch.no_grad():
                y = model(x).logits
            got[f"y.{n}"] = y.numpy()
            got[f"text.{n}"] = np.array(processor.batch_decode(y.argmax(-1))[0])
        if name == "wav2vec2":
            model.config.save_pretrained(d)
            f = io.BytesIO()
            torch.save(old_names({k: v.half() for k, v in model.state_dict().items()}), f)
            with open(f"{d}/pytorch_model.bin", "wb") as to:
                to.write(f.getvalue())
        else:
            model.half().save_pretrained(d)
        pack(f"{out}/{name}.zip", d)
    np.savez_compressed(f"{out}/{name}.npz", **got)


MOONSHINE = {
    "moonshine": {},
    "moonshine-old": dict(attention_bias=True, encoder_num_attention_heads=1, decoder_num_attention_heads=1,
                          encoder_hidden_act="silu", decoder_hidden_act="gelu"),
}
PIECES = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "\u2581the", "\u2581of", "\u2581a", "\u2581", "er", "s", "t",
          "e", "a", "n", "\u2581in", "ing", ",", "."]  # fmt: skip


def tokens_json(path):
    """Byte fallback and marks of SentencePiece, as Moonshine's tokenizer has them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    t = Tokenizer(models.BPE({p: i for i, p in enumerate(PIECES)}, [], byte_fallback=True, unk_token="<unk>"))
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(p, special=True) for p in PIECES[:3]])
    t.save(path)
    return t


def moonshine(name, out):
    config = dict(hidden_size=16, intermediate_size=24, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
                  encoder_num_attention_heads=2, decoder_num_attention_heads=2, vocab_size=len(PIECES), bos_token_id=1,
                  eos_token_id=2, decoder_start_token_id=1, pad_head_dim_to_multiple_of=8)  # fmt: skip
    torch.manual_seed(3)
    model, got = shaken(tf.MoonshineForConditionalGeneration(tf.MoonshineConfig(**(config | MOONSHINE[name]))), "-"), {}
    with tempfile.TemporaryDirectory() as d:
        tokenizer = tokens_json(f"{d}/tokenizer.json")
        tf.Wav2Vec2FeatureExtractor(do_normalize=False).save_pretrained(d)
        for n in LENGTHS:
            x, ids, scores = torch.from_numpy(chirp(n))[None], [1], []
            with torch.no_grad():
                encoded = model.model.encoder(x).last_hidden_state
                for _ in range(int(encoded.shape[1] * 384 / 16000 * 15)):
                    y = model(input_values=x, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
                    scores.append(y.numpy())
                    ids.append(int(y.argmax()))
                    if ids[-1] == 2:
                        break
            got[f"x.{n}"], got[f"y.{n}"], got[f"ids.{n}"] = encoded.numpy(), np.stack(scores), np.array(ids)
            got[f"text.{n}"] = np.array(tokenizer.decode(ids, skip_special_tokens=True))
        model.half().save_pretrained(d)
        if name == "moonshine-old":  # keys of transformers 4
            with open(f"{d}/config.json", encoding="utf-8") as f:
                c = json.load(f)
            c |= {k: c["rope_parameters"][k] for k in ("rope_theta", "partial_rotary_factor")} | {"rope_scaling": None}
            del c["rope_parameters"]
            with open(f"{d}/config.json", "w", encoding="utf-8") as f:
                json.dump(c, f)
        pack(f"{out}/{name}.zip", d)
    np.savez_compressed(f"{out}/{name}.npz", **got)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--only")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    for make, names in ((ctc, CTC), (moonshine, MOONSHINE)):
        for name in names:
            if a.only in (None, name):
                make(name, a.out)
