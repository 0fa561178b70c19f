#include "tests/support/test.h"
#include "tests/support/whisper_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/half.h"

#define D WHISPER_TOY_STATE

struct tensor {
    char name[64];
    int rank;
    size_t dim[3];
};

struct set {
    struct tensor t[96];
    size_t n;
};

static void must(steno_status st)
{
    if (st)
        abort();
}

static void u(struct steno_buf *b, uint32_t v, size_t size)
{
    for (size_t i = 0; i < size; i++, v >>= 8)
        must(steno_buf_add(b, &(char){(char)(v & 255)}, 1));
}

float whisper_toy_element(const char *name, size_t i)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint32_t)*name) * 16777619u;
    h = (h + (uint32_t)i) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    return (float)((int)(h >> 20) - 2048) / 4096; /* exact in f16 */
}

static size_t count(const struct tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

/* ---- the model in OpenAI's names ----------------------------------------------------------- */

static void add(struct set *s, const char *prefix, const char *name, int rank, size_t a, size_t b,
                size_t c)
{
    struct tensor *t = &s->t[s->n++];
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->rank = rank;
    t->dim[0] = a;
    t->dim[1] = b;
    t->dim[2] = c;
}

static void add_attention(struct set *s, const char *prefix, const char *kind)
{
    static const char *const parts[] = {"query", "key", "value", "out"};
    char name[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", kind, parts[i]);
        add(s, prefix, name, 2, D, D, 0);
        snprintf(name, sizeof name, "%s.%s.bias", kind, parts[i]);
        if (i != 1)
            add(s, prefix, name, 1, D, 0, 0);
    }
    snprintf(name, sizeof name, "%s_ln.weight", kind);
    add(s, prefix, name, 1, D, 0, 0);
    snprintf(name, sizeof name, "%s_ln.bias", kind);
    add(s, prefix, name, 1, D, 0, 0);
}

static void add_block(struct set *s, const char *prefix, bool cross)
{
    add_attention(s, prefix, "attn");
    if (cross)
        add_attention(s, prefix, "cross_attn");
    add(s, prefix, "mlp.0.weight", 2, D, D, 0);
    add(s, prefix, "mlp.0.bias", 1, D, 0, 0);
    add(s, prefix, "mlp.2.weight", 2, D, D, 0);
    add(s, prefix, "mlp.2.bias", 1, D, 0, 0);
    add(s, prefix, "mlp_ln.weight", 1, D, 0, 0);
    add(s, prefix, "mlp_ln.bias", 1, D, 0, 0);
}

static void make(struct set *s)
{
    s->n = 0;
    add(s, "encoder.", "conv1.weight", 3, D, WHISPER_TOY_MELS, 3);
    add(s, "encoder.", "conv1.bias", 1, D, 0, 0);
    add(s, "encoder.", "conv2.weight", 3, D, D, 3);
    add(s, "encoder.", "conv2.bias", 1, D, 0, 0);
    add(s, "encoder.", "positional_embedding", 2, WHISPER_TOY_CTX, D, 0);
    add_block(s, "encoder.blocks.0.", false);
    add(s, "encoder.", "ln_post.weight", 1, D, 0, 0);
    add(s, "encoder.", "ln_post.bias", 1, D, 0, 0);
    add(s, "decoder.", "token_embedding.weight", 2, WHISPER_TOY_VOCAB, D, 0);
    add(s, "decoder.", "positional_embedding", 2, WHISPER_TOY_TEXT_CTX, D, 0);
    add_block(s, "decoder.blocks.0.", true);
    add(s, "decoder.", "ln.weight", 1, D, 0, 0);
    add(s, "decoder.", "ln.bias", 1, D, 0, 0);
}

static const struct tensor *find(const struct set *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->t[i].name, name))
            return &s->t[i];
    return NULL;
}

/* ---- elements ------------------------------------------------------------------------------ */

static void put_f16(struct steno_buf *b, float x)
{
    u(b, half_to_f16(x), 2);
}

static void put_f32(struct steno_buf *b, float x)
{
    uint32_t v;
    memcpy(&v, &x, sizeof v);
    u(b, v, 4);
}

static void put_floats(struct steno_buf *b, const char *name, size_t n, bool half)
{
    for (size_t i = 0; i < n; i++) {
        if (half)
            put_f16(b, whisper_toy_element(name, i));
        else
            put_f32(b, whisper_toy_element(name, i));
    }
}

static float largest(const char *name, size_t from, size_t n)
{
    float max = 0;
    for (size_t i = from; i < from + n; i++)
        max = fmaxf(max, fabsf(whisper_toy_element(name, i)));
    return max;
}

static void put_q8_0(struct steno_buf *b, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i += 32) {
        float d = half_from_f16(half_to_f16(largest(name, i, 32) / 127));
        put_f16(b, d);
        for (size_t j = i; j < i + 32; j++)
            u(b, (uint32_t)(int)rintf(whisper_toy_element(name, j) / d), 1);
    }
}

/* ---- CTranslate2 --------------------------------------------------------------------------- */

struct join { /* a variable and the tensors in it, one after the other */
    const char *variable, *parts[3];
};

static const struct join joins[] = {
    {"encoder/conv1/", {"encoder.conv1."}},
    {"encoder/conv2/", {"encoder.conv2."}},
    {"encoder/layer_0/self_attention/linear_0/",
     {"encoder.blocks.0.attn.query.", "encoder.blocks.0.attn.key.",
      "encoder.blocks.0.attn.value."}},
    {"encoder/layer_0/self_attention/linear_1/", {"encoder.blocks.0.attn.out."}},
    {"encoder/layer_0/self_attention/layer_norm/", {"encoder.blocks.0.attn_ln."}},
    {"encoder/layer_0/ffn/linear_0/", {"encoder.blocks.0.mlp.0."}},
    {"encoder/layer_0/ffn/linear_1/", {"encoder.blocks.0.mlp.2."}},
    {"encoder/layer_0/ffn/layer_norm/", {"encoder.blocks.0.mlp_ln."}},
    {"encoder/layer_norm/", {"encoder.ln_post."}},
    {"decoder/embeddings/", {"decoder.token_embedding."}},
    {"decoder/layer_0/self_attention/linear_0/",
     {"decoder.blocks.0.attn.query.", "decoder.blocks.0.attn.key.",
      "decoder.blocks.0.attn.value."}},
    {"decoder/layer_0/self_attention/linear_1/", {"decoder.blocks.0.attn.out."}},
    {"decoder/layer_0/self_attention/layer_norm/", {"decoder.blocks.0.attn_ln."}},
    {"decoder/layer_0/attention/linear_0/", {"decoder.blocks.0.cross_attn.query."}},
    {"decoder/layer_0/attention/linear_1/",
     {"decoder.blocks.0.cross_attn.key.", "decoder.blocks.0.cross_attn.value."}},
    {"decoder/layer_0/attention/linear_2/", {"decoder.blocks.0.cross_attn.out."}},
    {"decoder/layer_0/attention/layer_norm/", {"decoder.blocks.0.cross_attn_ln."}},
    {"decoder/layer_0/ffn/linear_0/", {"decoder.blocks.0.mlp.0."}},
    {"decoder/layer_0/ffn/linear_1/", {"decoder.blocks.0.mlp.2."}},
    {"decoder/layer_0/ffn/layer_norm/", {"decoder.blocks.0.mlp_ln."}},
    {"decoder/layer_norm/", {"decoder.ln."}},
};

struct ct2 {
    const struct set *s;
    struct steno_buf *b;
    enum whisper_toy_format f;
    uint32_t n;
};

static void put_name(struct steno_buf *b, const char *name)
{
    u(b, (uint32_t)strlen(name) + 1, 2);
    must(steno_buf_add(b, name, strlen(name) + 1));
}

static void put_header(struct ct2 *c, const char *name, int rank, const size_t *dim, uint32_t dtype,
                       size_t bytes)
{
    put_name(c->b, name);
    u(c->b, (uint32_t)rank, 1);
    for (int i = 0; i < rank; i++)
        u(c->b, (uint32_t)dim[i], 4);
    u(c->b, dtype, 1);
    u(c->b, (uint32_t)bytes, 4);
    c->n++;
}

/* Weights of rank 2 and 3 in 8 bits, with a scale per row. */
static void put_int8(struct ct2 *c, const char *name, const struct tensor *const *part, int parts,
                     const size_t *dim)
{
    size_t row = count(part[0]) / part[0]->dim[0];
    char scale[160];
    put_header(c, name, part[0]->rank, dim, 1, dim[0] * row);
    for (int p = 0; p < parts; p++)
        for (size_t i = 0; i < count(part[p]); i++) {
            float s = 127 / largest(part[p]->name, i / row * row, row);
            u(c->b, (uint32_t)(int)rintf(whisper_toy_element(part[p]->name, i) * s), 1);
        }
    snprintf(scale, sizeof scale, "%s_scale", name);
    put_header(c, scale, 1, dim, 0, 4 * dim[0]);
    for (int p = 0; p < parts; p++)
        for (size_t r = 0; r < part[p]->dim[0]; r++)
            put_f32(c->b, 127 / largest(part[p]->name, r * row, row));
}

static void put_variable(struct ct2 *c, const struct join *j, bool bias)
{
    static const char *const roles[] = {"weight", "bias"}, *const norms[] = {"gamma", "beta"};
    const bool half = c->f == WHISPER_TOY_CT2_F16, norm = strstr(j->variable, "norm") != NULL;
    const struct tensor *part[3] = {0};
    char name[128];
    size_t dim[3] = {0}, n = 0;
    int parts = 0;
    for (; parts < 3 && j->parts[parts]; parts++) {
        snprintf(name, sizeof name, "%s%s", j->parts[parts], roles[bias]);
        part[parts] = find(c->s, name);
        if (!part[parts] && parts != (strstr(name, "cross") ? 0 : 1))
            return; /* the embeddings have no bias */
    }
    for (int p = 0; p < parts; p++) {
        const struct tensor *t = part[p] ? part[p] : part[p ? 0 : 1];
        memcpy(dim, t->dim, sizeof dim);
        n += t->dim[0];
    }
    dim[0] = n;
    snprintf(name, sizeof name, "%s%s", j->variable, (norm ? norms : roles)[bias]);
    if (c->f == WHISPER_TOY_CT2_I8 && part[0] && part[0]->rank > 1) {
        put_int8(c, name, part, parts, dim);
        return;
    }
    for (size_t i = 1, rank = bias || norm ? 1 : part[0] ? (size_t)part[0]->rank : 1; i < rank; i++)
        n *= dim[i];
    put_header(c, name, bias || norm ? 1 : part[0]->rank, dim, half ? 4 : 0, n * (half ? 2 : 4));
    for (int p = 0; p < parts; p++) {
        if (part[p])
            put_floats(c->b, part[p]->name, count(part[p]), half);
        for (size_t i = 0; !part[p] && i < D * (half ? 2u : 4u); i++)
            u(c->b, 0, 1); /* keys have no bias; the file has zeros */
    }
}

static void put_positions(struct ct2 *c, const char *variable, const char *name)
{
    const struct tensor *t = find(c->s, name);
    put_header(c, variable, 2, t->dim, 0, 4 * count(t));
    put_floats(c->b, name, count(t), false);
}

static void put_scalar(struct ct2 *c, const char *name, uint32_t v)
{
    put_header(c, name, 0, NULL, 2, 2);
    u(c->b, v, 2);
}

static void write_ct2(const struct set *s, enum whisper_toy_format f, struct steno_buf *b)
{
    struct ct2 c = {.s = s, .b = b, .f = f};
    size_t at;
    u(b, 6, 4);
    put_name(b, "WhisperSpec");
    u(b, 3, 4);
    at = b->len;
    u(b, 0, 4);
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        put_variable(&c, &joins[i], false);
        put_variable(&c, &joins[i], true);
    }
    put_positions(&c, "encoder/position_encodings/encodings", "encoder.positional_embedding");
    put_positions(&c, "decoder/position_encodings/encodings", "decoder.positional_embedding");
    put_scalar(&c, "encoder/num_heads", 2);
    put_scalar(&c, "decoder/num_heads", 2);
    b->data[at] = (char)c.n;
    u(b, 1, 4);
    put_name(b, "decoder/projection/weight");
    put_name(b, "decoder/embeddings/weight");
}

/* ---- safetensors --------------------------------------------------------------------------- */

static const char *const renames[][2] = {
    {"blocks.", "layers."},
    {"cross_attn_ln", "encoder_attn_layer_norm"},
    {"attn_ln", "self_attn_layer_norm"},
    {"cross_attn.query", "encoder_attn.q_proj"},
    {"cross_attn.key", "encoder_attn.k_proj"},
    {"cross_attn.value", "encoder_attn.v_proj"},
    {"cross_attn.out", "encoder_attn.out_proj"},
    {".attn.query", ".self_attn.q_proj"},
    {".attn.key", ".self_attn.k_proj"},
    {".attn.value", ".self_attn.v_proj"},
    {".attn.out", ".self_attn.out_proj"},
    {"mlp.0", "fc1"},
    {"mlp.2", "fc2"},
    {"mlp_ln", "final_layer_norm"},
    {"positional_embedding", "embed_positions.weight"},
    {"token_embedding", "embed_tokens"},
    {"ln_post", "layer_norm"},
    {"decoder.ln.", "decoder.layer_norm."},
};

static void hf_name(const char *name, char *out, size_t size)
{
    snprintf(out, size, "model.%s", name);
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        char copy[128], *at = strstr(out, renames[i][0]);
        if (!at || (i == 2 && strstr(out, "encoder_attn")))
            continue;
        snprintf(copy, sizeof copy, "%s", at + strlen(renames[i][0]));
        *at = '\0';
        snprintf(at, size - (size_t)(at - out), "%s%.100s", renames[i][1], copy);
    }
}

static void write_hf(const struct set *s, bool half, struct steno_buf *b)
{
    struct steno_buf h;
    size_t at = 0;
    steno_buf_init(&h, 1 << 20);
    must(steno_buf_puts(&h, "{\"__metadata__\":{\"format\":\"pt\"}"));
    for (size_t i = 0; i < s->n; i++) {
        const struct tensor *t = &s->t[i];
        char name[128];
        size_t bytes = count(t) * (half ? 2 : 4);
        hf_name(t->name, name, sizeof name);
        must(steno_buf_printf(&h, ",\"%s\":{\"dtype\":\"F%d\",\"shape\":[", name, half ? 16 : 32));
        for (int r = 0; r < t->rank; r++)
            must(steno_buf_printf(&h, "%s%zu", r ? "," : "", t->dim[r]));
        must(steno_buf_printf(&h, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes));
        at += bytes;
    }
    must(steno_buf_puts(&h, "}"));
    u(b, (uint32_t)h.len, 4);
    u(b, 0, 4);
    must(steno_buf_add(b, h.data, h.len));
    steno_buf_free(&h);
    for (size_t i = 0; i < s->n; i++)
        put_floats(b, s->t[i].name, count(&s->t[i]), half);
}

/* ---- ggml ---------------------------------------------------------------------------------- */

static void put_ggml_tensor(const struct tensor *t, bool q8, struct steno_buf *b)
{
    const bool matrix = t->rank > 1 && !strstr(t->name, "positional");
    const bool bytes = q8 && t->rank == 2 && matrix;
    const bool column = strstr(t->name, "conv") && t->rank == 1; /* biases of convolutions */
    u(b, (uint32_t)t->rank + column, 4);
    u(b, (uint32_t)strlen(t->name), 4);
    u(b, bytes ? 8 : matrix ? 1 : 0, 4);
    if (column)
        u(b, 1, 4);
    for (int r = t->rank; r-- > 0;)
        u(b, (uint32_t)t->dim[r], 4);
    must(steno_buf_puts(b, t->name));
    if (bytes)
        put_q8_0(b, t->name, count(t));
    else
        put_floats(b, t->name, count(t), matrix);
}

static void write_ggml(const struct set *s, bool q8, struct steno_buf *b)
{
    const uint32_t header[] = {WHISPER_TOY_VOCAB,
                               WHISPER_TOY_CTX,
                               D,
                               2,
                               1,
                               WHISPER_TOY_TEXT_CTX,
                               D,
                               2,
                               1,
                               WHISPER_TOY_MELS,
                               q8 ? 2007 : 1,
                               WHISPER_TOY_MELS,
                               3};
    u(b, 0x67676d6c, 4);
    for (size_t i = 0; i < sizeof header / sizeof *header; i++)
        u(b, header[i], 4);
    for (size_t i = 0; i < 3 * WHISPER_TOY_MELS; i++)
        put_f32(b, 0.25f);
    u(b, 3, 4);
    for (uint32_t i = 0; i < 3; i++) {
        u(b, 1, 4);
        u(b, 'a' + i, 1);
    }
    for (size_t i = 0; i < s->n; i++)
        put_ggml_tensor(&s->t[i], q8, b);
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

static void write_gguf(const struct set *s, bool q8, struct steno_buf *out)
{
    struct gguf_make g;
    gguf_make_begin(&g);
    whisper_toy_gguf_keys(&g);
    for (size_t i = 0; i < s->n; i++) {
        const struct tensor *t = &s->t[i];
        const int64_t dim[] = {(int64_t)t->dim[0], (int64_t)t->dim[1], (int64_t)t->dim[2]};
        const bool blocks = q8 && t->rank == 2;
        struct steno_buf b;
        char name[80];
        steno_buf_init(&b, 1 << 20);
        if (blocks)
            put_q8_0(&b, t->name, count(t));
        else
            put_floats(&b, t->name, count(t), t->rank > 1);
        whisper_toy_gguf_name(t->name, name, sizeof name);
        gguf_make_tensor(&g, name, blocks ? 8 : t->rank > 1, t->rank, dim, b.data, b.len);
        steno_buf_free(&b);
    }
    gguf_make_end(&g, out);
}

void whisper_toy_write(enum whisper_toy_format f, struct steno_buf *out)
{
    struct set s;
    make(&s);
    if (f <= WHISPER_TOY_CT2_I8)
        write_ct2(&s, f, out);
    else if (f <= WHISPER_TOY_HF_F16)
        write_hf(&s, f == WHISPER_TOY_HF_F16, out);
    else if (f <= WHISPER_TOY_GGML_Q8_0)
        write_ggml(&s, f == WHISPER_TOY_GGML_Q8_0, out);
    else
        write_gguf(&s, f == WHISPER_TOY_GGUF_Q8_0, out);
}

void whisper_toy_check_dims(const steno_whisper_weights *w)
{
    const struct steno_whisper_dims d = steno_whisper_weights_dims(w);
    assert_int_equal(d.mels, WHISPER_TOY_MELS);
    assert_int_equal(d.audio_ctx, WHISPER_TOY_CTX);
    assert_int_equal(d.text_ctx, WHISPER_TOY_TEXT_CTX);
    assert_int_equal(d.vocab, WHISPER_TOY_VOCAB);
    assert_int_equal(d.audio_layers, 1);
    assert_int_equal(d.text_layers, 1);
}
