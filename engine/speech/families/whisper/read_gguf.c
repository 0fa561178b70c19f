/* GGUF files as transcribe.cpp writes them (handy-computer/transcribe.cpp, its converter for
 * Whisper): names and keys of its own, the vocabulary in GPT-2's printable form, special pieces and
 * suppressed ones by key. Spectrograms are computed here, as for every format. */
#include "speech/families/whisper/weights_internal.h"

#include "speech/families/common/ggml_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "stt.whisper."
#define MAX_LIST 4096 /* suppressed pieces */

/* ---- names --------------------------------------------------------------------------------- */

struct rename {
    const char *from, *to;
};

static const struct rename of_model[] = {
    {"enc.conv.0.weight", "encoder.conv1.weight"},
    {"enc.conv.0.bias", "encoder.conv1.bias"},
    {"enc.conv.1.weight", "encoder.conv2.weight"},
    {"enc.conv.1.bias", "encoder.conv2.bias"},
    {"enc.pos_emb.weight", "encoder.positional_embedding"},
    {"enc.final_norm.weight", "encoder.ln_post.weight"},
    {"enc.final_norm.bias", "encoder.ln_post.bias"},
    {"dec.token_embd.weight", "decoder.token_embedding.weight"},
    {"dec.pos_emb.weight", "decoder.positional_embedding"},
    {"dec.final_norm.weight", "decoder.ln.weight"},
    {"dec.final_norm.bias", "decoder.ln.bias"},
};

/* Begins of the parts of a block. */
static const struct rename of_block[] = {
    {"norm_attn.", "attn_ln."},
    {"norm_self.", "attn_ln."},
    {"norm_cross.", "cross_attn_ln."},
    {"norm_ffn.", "mlp_ln."},
    {"attn.q.", "attn.query."},
    {"attn.k.", "attn.key."},
    {"attn.v.", "attn.value."},
    {"attn.out.", "attn.out."},
    {"self_attn.q.", "attn.query."},
    {"self_attn.k.", "attn.key."},
    {"self_attn.v.", "attn.value."},
    {"self_attn.out.", "attn.out."},
    {"cross_attn.q.", "cross_attn.query."},
    {"cross_attn.k.", "cross_attn.key."},
    {"cross_attn.v.", "cross_attn.value."},
    {"cross_attn.out.", "cross_attn.out."},
    {"ffn.fc1.", "mlp.0."},
    {"ffn.fc2.", "mlp.2."},
};

/* OpenAI's name; false: none that the model needs. */
static bool our_name(const char *name, char out[STENO_WHISPER_NAME])
{
    char side[4];
    unsigned layer;
    int used = 0;
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        if (!strcmp(of_model[i].from, name)) {
            snprintf(out, STENO_WHISPER_NAME, "%s", of_model[i].to);
            return true;
        }
    if (sscanf(name, "%3[a-z].blocks.%4u.%n", side, &layer, &used) != 2 || !used)
        return false;
    for (size_t i = 0; i < sizeof of_block / sizeof *of_block; i++) {
        const size_t n = strlen(of_block[i].from);
        if (strncmp(of_block[i].from, name + used, n) != 0)
            continue;
        return snprintf(out, STENO_WHISPER_NAME, "%soder.blocks.%u.%s%s", side, layer,
                        of_block[i].to, name + used + n) < STENO_WHISPER_NAME;
    }
    return false;
}

static steno_status read_tensors(steno_whisper_weights *w, const steno_gguf *g, const char *file,
                                 steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_gguf_count(g) && !st; i++) {
        const struct steno_gguf_tensor *from = steno_gguf_get(g, i);
        struct steno_whisper_tensor t = {.file = file,
                                         .type = STENO_WHISPER_GGML,
                                         .ggml = from->type,
                                         .rank = from->rank,
                                         .data = from->data};
        if (!our_name(from->name, t.name))
            continue;
        if (!from->type || !from->rank)
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: tensor '%s' has type %u and %d axes, " STENO_GGML_TYPES
                              " are read",
                              file, from->name, (unsigned)from->number, from->rank);
        memcpy(t.dim, from->dim, (size_t)from->rank * sizeof *t.dim);
        st = steno_whisper_add(w, &t, err);
    }
    return st;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static steno_status wrong_key(const char *file, const char *key, const char *want, steno_err *err)
{
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: key '%s' is missing or not %s", file, key,
                      want);
}

/* Features and networks as all Whisper models have them. */
static steno_status check_keys(const steno_gguf *g, const char *file, steno_err *err)
{
    static const struct {
        const char *key;
        int64_t number;
        const char *text; /* as it is told; of a text also what it is */
    } wanted[] = {{"stt.frontend.sample_rate", 16000, "16000"},
                  {"stt.frontend.n_fft", 400, "400"},
                  {"stt.frontend.win_length", 400, "400"},
                  {"stt.frontend.hop_length", 160, "160"},
                  {"stt.frontend.normalize", -1, "whisper_logmel"},
                  {KEY "encoder.activation", -1, "gelu"},
                  {KEY "decoder.activation", -1, "gelu"},
                  {KEY "decoder.tie_word_embeddings", 1, "true"},
                  {KEY "decoder.scale_embedding", 0, "false"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *text = steno_gguf_text(g, wanted[i].key);
        int64_t v;
        if (wanted[i].number < 0
                ? !text || strcmp(text, wanted[i].text) != 0
                : !steno_gguf_int(g, wanted[i].key, wanted[i].number, wanted[i].number, &v))
            return wrong_key(file, wanted[i].key, wanted[i].text, err);
    }
    return STENO_OK;
}

static steno_status read_numbers(steno_whisper_weights *w, const steno_gguf *g, const char *file,
                                 steno_err *err)
{
    struct steno_whisper_marks *m = &w->marks;
    const struct {
        const char *key;
        int64_t max, *to;
    } wanted[] = {{KEY "encoder.n_heads", 1024, &w->audio_heads},
                  {KEY "decoder.n_heads", 1024, &w->text_heads},
                  {"tokenizer.ggml.eos_token_id", STENO_BPE_MAX_PIECES, &m->eot},
                  {KEY "sot_token_id", STENO_BPE_MAX_PIECES, &m->sot}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!steno_gguf_int(g, wanted[i].key, 1, wanted[i].max, wanted[i].to))
            return wrong_key(file, wanted[i].key, "a number above 0", err);
    /* models of English alone cannot translate */
    (void)steno_gguf_int(g, KEY "translate_token_id", 1, STENO_BPE_MAX_PIECES, &m->translate);
    return STENO_OK;
}

/* Pieces of a list, if the file has it; *ids is the view's. */
static steno_status read_list(steno_whisper_weights *w, const steno_gguf *g, const char *key,
                              struct steno_whisper_ids *out, const char *file, steno_err *err)
{
    struct steno_gguf_list l;
    int32_t *ids;
    int64_t id;
    if (!steno_gguf_list(g, key, &l))
        return STENO_OK;
    if (l.left > MAX_LIST)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: key '%s': more than %d pieces", file, key,
                          MAX_LIST);
    out->id = ids = steno_arena_calloc(w->mem, l.left + 1, sizeof *ids);
    if (!ids)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    while (steno_gguf_next_int(&l, &id)) {
        if (id < 0 || id >= STENO_BPE_MAX_PIECES)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: key '%s': there is no piece %lld", file,
                              key, (long long)id);
        ids[out->n++] = (int32_t)id;
    }
    return STENO_OK;
}

static steno_status read_vocabulary(steno_whisper_weights *w, const steno_gguf *g, const char *file,
                                    steno_err *err)
{
    const char *model = steno_gguf_text(g, "tokenizer.ggml.model");
    struct steno_bpe_piece *all;
    struct steno_gguf_list l;
    size_t n = 0;
    steno_status st;
    if (!model || strcmp(model, "gpt2") != 0 || !steno_gguf_list(g, "tokenizer.ggml.tokens", &l))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: no list tokenizer.ggml.tokens of a tokenizer.ggml.model gpt2", file);
    if (l.left > STENO_BPE_MAX_PIECES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d pieces", file,
                          STENO_BPE_MAX_PIECES);
    all = calloc(l.left + 1, sizeof *all);
    if (!all)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    while (steno_gguf_next_text(&l, &all[n].p, &all[n].n))
        n++;
    st = steno_bpe_new_printed(&w->bpe, all, n, file, err);
    free(all);
    return st;
}

steno_status steno_whisper_read_gguf(steno_whisper_weights *w, const steno_gguf *g,
                                     const char *file, steno_err *err)
{
    const char *kind = steno_gguf_text(g, "general.architecture");
    steno_status st;
    if (!kind || strcmp(kind, "whisper") != 0)
        return steno_fail(
            err, STENO_ERR_UNSUPPORTED,
            "%s: a GGUF file of architecture '%.60s'; known: " STENO_GGUF_ARCHITECTURES
            " (docs/models.md)",
            file, kind ? kind : "unknown");
    st = check_keys(g, file, err);
    if (!st)
        st = read_numbers(w, g, file, err);
    if (!st)
        st = read_list(w, g, KEY "suppress_tokens", &w->marks.never, file, err);
    if (!st)
        st = read_list(w, g, KEY "begin_suppress_tokens", &w->marks.not_first, file, err);
    if (!st)
        st = read_vocabulary(w, g, file, err);
    return st ? st : read_tensors(w, g, file, err);
}
