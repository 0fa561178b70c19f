/* The toy's names and keys in GGUF files. */
#include "tests/support/whisper_toy.h"

#include <stdio.h>
#include <string.h>

struct rename {
    const char *ours, *theirs;
};

static const struct rename models[] = {{"encoder.conv1.", "enc.conv.0."},
                                       {"encoder.conv2.", "enc.conv.1."},
                                       {"encoder.positional_embedding", "enc.pos_emb.weight"},
                                       {"encoder.ln_post.", "enc.final_norm."},
                                       {"decoder.token_embedding.", "dec.token_embd."},
                                       {"decoder.positional_embedding", "dec.pos_emb.weight"},
                                       {"decoder.ln.", "dec.final_norm."}};

static const struct rename parts[] = {{"cross_attn_ln.", "norm_cross."},
                                      {"cross_attn.query.", "cross_attn.q."},
                                      {"cross_attn.key.", "cross_attn.k."},
                                      {"cross_attn.value.", "cross_attn.v."},
                                      {"cross_attn.out.", "cross_attn.out."},
                                      {"mlp_ln.", "norm_ffn."},
                                      {"mlp.0.", "ffn.fc1."},
                                      {"mlp.2.", "ffn.fc2."}};

/* Of self attention, which the decoder calls so. */
static const struct rename selves[] = {{"attn.query.", "attn.q."},
                                       {"attn.key.", "attn.k."},
                                       {"attn.value.", "attn.v."},
                                       {"attn.out.", "attn.out."}};

static bool rename_begin(const struct rename *table, size_t n, const char *name, const char *before,
                         char *out, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(table[i].ours);
        if (strncmp(table[i].ours, name, len) != 0)
            continue;
        snprintf(out, size, "%s%s%s", before, table[i].theirs, name + len);
        return true;
    }
    return false;
}

void whisper_toy_gguf_name(const char *name, char *out, size_t size)
{
    static const char block[] = "encoder.blocks.0.";
    const bool decoder = *name == 'd';
    const char *part = name + sizeof block - 1;
    char before[32];
    if (rename_begin(models, sizeof models / sizeof *models, name, "", out, size))
        return;
    snprintf(before, sizeof before, "%s.blocks.0.", decoder ? "dec" : "enc");
    if (rename_begin(parts, sizeof parts / sizeof *parts, part, before, out, size))
        return;
    if (!strncmp(part, "attn_ln.", 8)) {
        snprintf(out, size, "%snorm_%s.%s", before, decoder ? "self" : "attn", part + 8);
        return;
    }
    snprintf(before, sizeof before, "%s.blocks.0.%s", decoder ? "dec" : "enc",
             decoder ? "self_" : "");
    (void)rename_begin(selves, sizeof selves / sizeof *selves, part, before, out, size);
}

void whisper_toy_gguf_keys(struct gguf_make *g)
{
    static const char *const pieces[] = {"a", "\304\240b", "c", "<|endoftext|>",
                                         "<|startoftranscript|>"};
    gguf_make_text(g, "general.architecture", "whisper");
    gguf_make_u32(g, "stt.frontend.sample_rate", 16000);
    gguf_make_u32(g, "stt.frontend.n_fft", 400);
    gguf_make_u32(g, "stt.frontend.win_length", 400);
    gguf_make_u32(g, "stt.frontend.hop_length", 160);
    gguf_make_text(g, "stt.frontend.normalize", "whisper_logmel");
    gguf_make_text(g, "stt.whisper.encoder.activation", "gelu");
    gguf_make_text(g, "stt.whisper.decoder.activation", "gelu");
    gguf_make_flag(g, "stt.whisper.decoder.tie_word_embeddings", true);
    gguf_make_flag(g, "stt.whisper.decoder.scale_embedding", false);
    gguf_make_u32(g, "stt.whisper.encoder.n_heads", 2);
    gguf_make_u32(g, "stt.whisper.decoder.n_heads", 2);
    gguf_make_u32(g, "stt.whisper.sot_token_id", 4);
    gguf_make_ints(g, "stt.whisper.suppress_tokens", 2, (const int32_t[]){1, 2});
    gguf_make_u32(g, "tokenizer.ggml.eos_token_id", 3);
    gguf_make_text(g, "tokenizer.ggml.model", "gpt2");
    gguf_make_texts(g, "tokenizer.ggml.tokens", 5, pieces);
}
