#!/usr/bin/env python3
"""Small directories of Granite Speech and Voxtral as transformers.js has them, trained to write given texts for a few pieces of one recording, and
what transformers writes with them: tests/data/models/granite-speech-tiny and voxtral-tiny.

    hearing_models.py OUT

Needs torch 2.13.0, transformers 5.24.0, onnxruntime-genai 0.18.0 (its builder writes the decoders), onnxruntime 1.32.0. The encoders are
exported from transformers' modules; the two functions of Granite's that branch on the length are written anew for that and compared."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import wave

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (GenerationConfig, GraniteConfig, GraniteForCausalLM, GraniteSpeechConfig, GraniteSpeechForConditionalGeneration, LlamaConfig,
                          LlamaForCausalLM, PreTrainedTokenizerFast, VoxtralConfig, VoxtralForConditionalGeneration, WhisperFeatureExtractor)
from transformers.audio_utils import mel_filter_bank

HERE = os.path.dirname(os.path.abspath(__file__))
SPANS = ((0, 4), (2, 5), (5, 11), (3, 3.5), (7, 9.13))
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, initializer_range=0.1,
            max_position_embeddings=1024)


def speech():
    with wave.open(os.path.join(HERE, "..", "data", "speech", "jfk.wav")) as w:
        x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
        return [x[int(a * 16000):int(b * 16000)] for a, b in SPANS]


# ---- tokenizers


def tokenizer(pattern, words, before, behind):
    """Byte-level BPE; `before` are marks with the first numbers, `behind` those with the last."""
    letter = dict(zip(range(256), pre_tokenizers.ByteLevel.alphabet()))
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    letter = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}
    merges = []
    for word in words:
        s = [letter[b] for b in word.encode()]
        for i in range(1, len(s)):
            pair = ("".join(s[:i]), s[i])
            if pair not in merges:
                merges.append(pair)
    pieces = before + list(letter.values()) + [a + b for a, b in merges]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in before + behind])
    return t


# ---- networks


def export_encoder(path, module, x, names, axes):
    torch.onnx.export(module, (x,), path, input_names=[names], output_names=["audio_features"], dynamic_axes={names: axes, "audio_features": {0: "b", 1: "rows"}},
                      opset_version=17, dynamo=False)
    m = onnx.load(path)
    m.producer_name, m.producer_version, m.doc_string = "", "", ""
    for n in m.graph.node:
        n.doc_string = ""
        del n.metadata_props[:]
    onnx.save(m, path)


def save_embeddings(path, table):
    graph = helper.make_graph([helper.make_node("Gather", ["table", "input_ids"], ["inputs_embeds"])], "g",
                              [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "n"])],
                              [helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, ["b", "n", table.shape[1]])],
                              [numpy_helper.from_array(table.astype(np.float32), "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def quantized_embeddings(path, out):
    """As MatMulNBitsQuantizer writes it."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    q = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True, op_types_to_quantize=("Gather",))
    q.process()
    onnx.save(q.model.model, out)


def build_decoder(folder, language_model, tok, precision, out):
    """By the builder of onnxruntime-genai, without embeddings."""
    with tempfile.TemporaryDirectory() as d:
        language_model.save_pretrained(os.path.join(d, "hf"))
        PreTrainedTokenizerFast(tokenizer_object=tok).save_pretrained(os.path.join(d, "hf"))
        subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", os.path.join(d, "hf"), "-o", os.path.join(d, "out"), "-p", precision,
                        "-e", "cpu", "-c", os.path.join(d, "cache"), "--extra_options", "exclude_embeds=true"], check=True, capture_output=True)
        m = onnx.load(os.path.join(d, "out", "model.onnx"))
    onnx.save(m, os.path.join(folder, "onnx", out))


def put(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def finish(folder, tok, model, parts, cases, audio, end):
    """cases: (piece, language or prompt, hot words, ids before the rows, ids behind them, rows)"""
    rows = []
    for i, asked, hotwords, before, after, n in cases:
        a, b = SPANS[i]
        ids = write(model, parts[i], before + [audio] * n + after, [end], int((b - a) * 8) + 16)
        ids = ids[:ids.index(end)] if end in ids else ids
        rows.append({"from": a, "to": b, "asked": asked, "hotwords": hotwords, "before": before, "after": after, "rows": n, "ids": ids, "text": tok.decode(ids)})
        print(asked or "", hotwords or "", len(ids), repr(rows[-1]["text"]))
    put(folder, "expected.json", rows)


def train(model, rows, end, steps=400):
    """rows: (features, ids of the prompt, ids to write). Until each is written."""
    with torch.enable_grad():
        o = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for step in range(steps):
            losses = []
            for x, ids, want in rows:
                whole = torch.tensor([ids + want + [end]])
                logits = model(input_ids=whole, attention_mask=torch.ones_like(whole), input_features=x).logits[0, len(ids) - 1:-1]
                losses.append(torch.nn.functional.cross_entropy(logits, whole[0, len(ids):]))
            o.zero_grad()
            sum(losses).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            o.step()
            if max(losses) < 0.02:
                break
    print("trained", step, float(max(losses)))


def write(model, x, ids, ends, most):
    out = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), input_features=x,
                         generation_config=GenerationConfig(do_sample=False, max_new_tokens=most, eos_token_id=ends, pad_token_id=ends[0]))
    return out[0, len(ids):].tolist()


# ---- Granite Speech


def granite_features(x):
    """GraniteSpeechFeatureExtractor with torch's STFT in place of torchaudio's."""
    s = torch.stft(torch.from_numpy(x), 512, 160, 400, torch.hann_window(400), center=True, pad_mode="reflect", return_complex=True).abs() ** 2
    mel = torch.from_numpy(mel_filter_bank(257, 80, 0, 8000, 16000, norm=None, mel_scale="htk")).float()
    y = (s.T @ mel).clip(min=1e-10).log10()
    y = torch.maximum(y, y.max() - 8) / 4 + 1
    return y[:len(y) // 2 * 2].reshape(1, -1, 160)


def blocks_of(n, size):
    return (n + size - 1) // size


class GraniteEncoder(torch.nn.Module):
    """Encoder and projector; lengths are part of the graph."""
    def __init__(self, model, scale):
        super().__init__()
        self.encoder, self.projector, self.scale = model.model.encoder, model.model.projector, scale
        for layer in self.encoder.layers:
            layer.attn.forward = self.attention(layer.attn)

    @staticmethod
    def attention(a):
        def forward(x, attention_dists):
            x = a.pre_norm(x)
            n, c = torch._shape_as_tensor(x)[1], a.context_size
            blocks = blocks_of(n, c)
            padded = torch.nn.functional.pad(x, (0, 0, 0, c - 1))[:, :blocks * c]
            q, (k, v) = a.to_q(padded), a.to_kv(padded).chunk(2, dim=-1)
            q, k, v = (t.reshape(-1, c, a.num_heads, a.dim_head).transpose(1, 2) for t in (q, k, v))
            scores = torch.einsum("bhcd,crd->bhcr", q, a.rel_pos_emb(attention_dists)) * a.scale
            real = (torch.arange(blocks * c) < n).reshape(-1, 1, 1, c)
            scores = torch.where(real, scores, torch.tensor(-torch.finfo(torch.float32).max))
            y = torch.softmax(q @ k.transpose(-1, -2) * a.scale + scores, -1) @ v
            y = y.transpose(1, 2).reshape(1, -1, a.num_heads * a.dim_head)
            return a.to_out(y[:, :n])
        return forward

    def forward(self, input_features):
        e, p = self.encoder, self.projector
        x = e.input_linear(input_features)
        for i, layer in enumerate(e.layers, 1):
            x = layer(x, attention_dists=e.attention_dists)
            if i == e.num_layers // 2:
                x = x + e.out_mid(torch.softmax(e.out(x), -1))
        n, w = torch._shape_as_tensor(x)[1], p.window_size
        x = torch.nn.functional.pad(x, (0, 0, 0, w - 1))[:, :blocks_of(n, w) * w].reshape(-1, w, x.shape[-1])
        y = p.qformer(query_embeds=p.query, encoder_hidden_states=x, encoder_attention_mask=None, return_dict=True).last_hidden_state
        return p.linear(y.reshape(1, -1, y.shape[-1])) * self.scale


GRANITE_TEMPLATE = """{%- for message in messages %}
{%- if message['role'] == 'user' %}
{{- 'USER: ' + message['content'] + '\\n ASSISTANT:' }}
{%- elif message['role'] == 'assistant' %}
{{- message['content'] + eos_token }}
{%- endif %}
{%- endfor %}
"""


def granite(folder, seed):
    torch.manual_seed(seed)
    tok = tokenizer(CL100K, ["USER", " ASSISTANT", " transcribe", " the", " speech", " text", " hello", " world", " Kyiv", " 2024", "你好", " over", " and"],
                    [], ["<|end_of_text|>", "<|pad|>", "<|audio|>"])
    number, vocab = tok.token_to_id, tok.get_vocab_size()
    config = GraniteSpeechConfig(
        text_config=GraniteConfig(vocab_size=vocab, embedding_multiplier=12.0, residual_multiplier=0.5, attention_multiplier=0.0625, logits_scaling=2.0,
                                  bos_token_id=number("<|end_of_text|>"), eos_token_id=number("<|end_of_text|>"), pad_token_id=number("<|pad|>"),
                                  tie_word_embeddings=False, **TEXT).to_dict(),
        encoder_config=dict(input_dim=160, num_layers=2, hidden_dim=16, feedforward_mult=2, num_heads=2, dim_head=8, output_dim=12, context_size=30, max_pos_emb=40,
                            conv_kernel_size=5, conv_expansion_factor=2, initializer_range=0.3),
        projector_config=dict(model_type="blip_2_qformer", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, encoder_hidden_size=16,
                              cross_attention_frequency=1, initializer_range=0.5),
        audio_token_index=number("<|audio|>"), has_lora_adapter=False, downsample_rate=5, window_size=15)
    model = GraniteSpeechForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "encoder." in name and p.ndim > 1:
                p.copy_(torch.randn_like(p) / p[0].numel() ** 0.5)
        model.model.projector.linear.weight.mul_(4)
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    parts = [granite_features(x) for x in speech()]
    scale = config.text_config.embedding_multiplier
    prompts = [(None, None, "can you transcribe the speech into a written format?"), ("transcribe the speech with text", None, "transcribe the speech with text"),
               (None, "Kyiv, 2024", "transcribe the speech to text. Keywords: Kyiv, 2024")]
    texts = [" hello world and over", " the text over there", "Kyiv and 2024", "你好 hello", " speech over the world and the text", " hello", " world world hello", "12345, hello!",
             " and so on"]
    audio, end, cases = number("<|audio|>"), number("<|end_of_text|>"), []
    for i, x in enumerate(parts):
        for prompt, hotwords, wish in prompts[:3 if i < 2 else 1]:
            cases.append((i, prompt, hotwords, tok.encode("USER: ").ids, tok.encode(wish + "\n ASSISTANT:").ids, 3 * blocks_of(x.shape[1], 15)))
    train(model, [(parts[i], before + [audio] * n + after, tok.encode(text).ids) for (i, _, _, before, after, n), text in zip(cases, texts)], end)
    model.eval()
    want = [model.get_audio_features(x).pooler_output for x in parts]
    finish(folder, tok, model, parts, cases, audio, end)
    language = GraniteForCausalLM(config.text_config)
    language.load_state_dict({k.replace("model.language_model.", "model."): v for k, v in model.state_dict().items() if "language_model" in k or k.startswith("lm_head")})
    path = os.path.join(folder, "onnx", "audio_encoder.onnx")
    with torch.no_grad():
        encoder = GraniteEncoder(model, scale)
        export_encoder(path, encoder, parts[0], "input_features", {1: "frames"})
    import onnxruntime as ort
    net = ort.InferenceSession(path)
    for x, y in zip(parts, want):
        got = net.run(None, {"input_features": x.numpy()})[0] / scale
        assert got.shape == tuple(y.shape) and np.abs(got - y.detach().numpy()).max() < 1e-4, np.abs(got - y.detach().numpy()).max()
    save_embeddings(os.path.join(folder, "onnx", "embed_tokens.onnx"), language.model.embed_tokens.weight.detach().numpy() * scale)
    quantized_embeddings(os.path.join(folder, "onnx", "embed_tokens.onnx"), os.path.join(folder, "onnx", "embed_tokens_q4.onnx"))
    build_decoder(folder, language, tok, "fp32", "decoder_model_merged.onnx")
    build_decoder(folder, language, tok, "int4", "decoder_model_merged_q4.onnx")
    tok.save(os.path.join(folder, "tokenizer.json"))
    put(folder, "config.json", config.to_dict())
    put(folder, "generation_config.json", {"eos_token_id": number("<|end_of_text|>"), "pad_token_id": number("<|pad|>")})
    put(folder, "preprocessor_config.json", {"feature_extractor_type": "GraniteSpeechFeatureExtractor", "projector_downsample_rate": 5, "projector_window_size": 15, "sampling_rate": 16000,
                                             "melspec_kwargs": {"hop_length": 160, "n_fft": 512, "n_mels": 80, "sample_rate": 16000, "win_length": 400}})
    put(folder, "chat_template.jinja", GRANITE_TEMPLATE)


# ---- Voxtral


class VoxtralEncoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.width = model.model, model.config.audio_config.intermediate_size

    def forward(self, audio_values):
        x = self.model.audio_tower(audio_values).last_hidden_state
        return self.model.multi_modal_projector(x.reshape(-1, self.width)).unsqueeze(0)


def voxtral(folder, seed):
    torch.manual_seed(seed)
    marks = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AUDIO]", "[BEGIN_AUDIO]", "[TRANSCRIBE]"]
    tok = tokenizer(TEKKEN, ["lang", ":en", ":fr", " hello", " world", " monde", "你好", " et", " and", " le"], marks, [])
    number, vocab = tok.token_to_id, tok.get_vocab_size()
    config = VoxtralConfig(
        text_config=LlamaConfig(vocab_size=vocab, head_dim=16, rope_theta=1e8, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, **TEXT).to_dict(),
        audio_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_mel_bins=128, max_source_positions=1500, vocab_size=100),
        audio_token_id=number("[AUDIO]"), projector_hidden_act="gelu")
    model = VoxtralForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ("audio_tower" in name or "projector" in name) and p.ndim > 1 and "embed_positions" not in name:
                p.copy_(torch.randn_like(p) * 1.5 / p[0].numel() ** 0.5)
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    extract = WhisperFeatureExtractor(feature_size=128)
    parts = [extract(x, sampling_rate=16000, return_tensors="pt").input_features for x in speech()]
    texts = [" hello world", " le monde", "你好 hello and", " et le monde", " world and hello and world", " monde et monde", " lang", " and so on", " hello 12"]
    cases = []
    for i in range(len(parts)):
        for language in (None, "fr") if i < 3 else (None,):
            after = [number("[/INST]")] + (tok.encode("lang:" + language).ids if language else []) + [number("[TRANSCRIBE]")]
            cases.append((i, language, None, [number(m) for m in ("<s>", "[INST]", "[BEGIN_AUDIO]")], after, 375))
    train(model, [(parts[i], before + [number("[AUDIO]")] * n + after, tok.encode(text).ids) for (i, _, _, before, after, n), text in zip(cases, texts)], 2)
    model.eval()
    finish(folder, tok, model, parts, cases, number("[AUDIO]"), 2)
    with torch.no_grad():
        export_encoder(os.path.join(folder, "onnx", "audio_encoder.onnx"), VoxtralEncoder(model), parts[0], "audio_values", {0: "b"})
    language = LlamaForCausalLM(config.text_config)
    language.load_state_dict({k.replace("model.language_model.", "model."): v for k, v in model.state_dict().items() if "language_model" in k or k.startswith("lm_head")})
    save_embeddings(os.path.join(folder, "onnx", "embed_tokens.onnx"), language.model.embed_tokens.weight.detach().numpy())
    build_decoder(folder, language, tok, "fp32", "decoder_model_merged.onnx")
    tok.save(os.path.join(folder, "tokenizer.json"))
    put(folder, "config.json", config.to_dict())
    put(folder, "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    put(folder, "preprocessor_config.json", {k: v for k, v in extract.to_dict().items() if k != "mel_filters"})


if __name__ == "__main__":
    for make, name, seed in ((granite, "granite-speech-tiny", 5), (voxtral, "voxtral-tiny", 3)):
        shutil.rmtree(os.path.join(sys.argv[1], name), ignore_errors=True)
        make(os.path.join(sys.argv[1], name), seed)
