#include "speech/families/whisper/weights_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pages.h"

/* ---- elements ------------------------------------------------------------------------------ */

/* Bytes of `per` elements. */
struct item {
    size_t bytes, per;
};

static struct item item_of(const struct steno_whisper_tensor *t)
{
    static const struct item items[] = {
        [STENO_WHISPER_F32] = {4, 1}, [STENO_WHISPER_F16] = {2, 1}, [STENO_WHISPER_BF16] = {2, 1},
        [STENO_WHISPER_I8] = {1, 1},  [STENO_WHISPER_I16] = {2, 1}, [STENO_WHISPER_U8] = {1, 1},
        [STENO_WHISPER_U4] = {1, 2}};
    return t->type == STENO_WHISPER_GGML ? (struct item){t->ggml->bytes, t->ggml->per}
                                         : items[t->type];
}

size_t steno_whisper_row_count(const struct steno_whisper_tensor *t)
{
    return t->rank > 1 ? (size_t)t->dim[0] : 1;
}

size_t steno_whisper_row_length(const struct steno_whisper_tensor *t)
{
    size_t n = t->rank == 1 ? (size_t)t->dim[0] : 1;
    for (int i = 1; i < t->rank; i++)
        n *= (size_t)t->dim[i];
    return n;
}

bool steno_whisper_bytes(const struct steno_whisper_tensor *t, size_t *bytes)
{
    const struct item item = item_of(t);
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || (uint64_t)t->dim[i] > SIZE_MAX ||
            !steno_mul_size(n, (size_t)t->dim[i], &n))
            return false;
    if (n && (steno_whisper_row_length(t) % item.per || n > SIZE_MAX / 64))
        return false;
    *bytes = n / item.per * item.bytes;
    return true;
}

static float f32_at(const unsigned char *p)
{
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Element i of integers. */
static int integer_at(enum steno_whisper_type type, const unsigned char *p, size_t i)
{
    int16_t v;
    switch (type) {
    case STENO_WHISPER_I16:
        memcpy(&v, p + 2 * i, sizeof v);
        return v;
    case STENO_WHISPER_U8:
        return p[i];
    case STENO_WHISPER_U4:
        return p[i / 2] >> (i & 1 ? 4 : 0) & 15;
    default:
        return (signed char)p[i];
    }
}

static bool is_integer(enum steno_whisper_type type)
{
    return type >= STENO_WHISPER_I8 && type <= STENO_WHISPER_U4;
}

/* What integers with scale number `at` are worth. */
struct worth {
    float scale, zero;
    bool factors;
};

static struct worth worth_of(const struct steno_whisper_tensor *t, size_t at)
{
    const enum steno_whisper_type one = t->type == STENO_WHISPER_U4 ? STENO_WHISPER_U8 : t->type;
    return (struct worth){.scale = t->scale ? f32_at(t->scale + at * 4) : 1,
                          .zero = t->zero ? (float)integer_at(one, t->zero, at) : 0,
                          .factors = t->factors};
}

static float scaled(struct worth w, float q)
{
    return w.factors ? (q - w.zero) * w.scale : q / w.scale;
}

/* n elements, integers without their scales. */
static void plain(enum steno_whisper_type type, const unsigned char *p, size_t n, float *out)
{
    switch (type) {
    case STENO_WHISPER_F32:
        memcpy(out, p, n * sizeof *out);
        return;
    case STENO_WHISPER_F16:
        steno_ggml_from_f16(p, n, out);
        return;
    case STENO_WHISPER_BF16:
        steno_ggml_from_bf16(p, n, out);
        return;
    case STENO_WHISPER_I8:
        for (size_t i = 0; i < n; i++)
            out[i] = (float)(signed char)p[i];
        return;
    default:
        for (size_t i = 0; i < n; i++)
            out[i] = (float)integer_at(type, p, i);
    }
}

/* A row in blocks, each with a scale. */
static void blocked_row(const struct steno_whisper_tensor *t, size_t row, size_t n, float *out)
{
    const size_t block = (size_t)t->block, blocks = (n + block - 1) / block;
    const unsigned char *p = t->data + row * (blocks * block / item_of(t).per);
    for (size_t b = 0; b < blocks; b++) {
        const struct worth w = worth_of(t, row * blocks + b);
        for (size_t i = b * block; i < n && i < (b + 1) * block; i++)
            out[i] = scaled(w, (float)integer_at(t->type, p, i));
    }
}

static void one_row(const struct steno_whisper_tensor *t, size_t row, size_t n, float *out)
{
    const struct item item = item_of(t);
    const unsigned char *p = t->data + row * (n / item.per * item.bytes);
    struct worth w;
    if (t->type == STENO_WHISPER_GGML) {
        t->ggml->read(p, n / item.per, out);
        return;
    }
    plain(t->type, p, n, out);
    if (!is_integer(t->type))
        return;
    w = worth_of(t, t->n_scale > 1 ? row : 0);
    for (size_t i = 0; i < n; i++)
        out[i] = scaled(w, out[i]);
}

/* Rows of a matrix whose columns lie one after the other: a piece of each column at a time. */
static void transposed_rows(const struct steno_whisper_tensor *t, size_t from, size_t n, float *out)
{
    const size_t length = steno_whisper_row_length(t), rows = steno_whisper_row_count(t);
    const size_t bytes = item_of(t).bytes;
    const bool integer = is_integer(t->type);
    struct worth w[64];
    float piece[64];
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < 64 ? n - at : 64;
        for (size_t r = 0; integer && r < k; r++)
            w[r] = worth_of(t, t->n_scale > 1 ? from + at + r : 0);
        for (size_t i = 0; i < length; i++) {
            plain(t->type, t->data + (i * rows + from + at) * bytes, k, piece);
            for (size_t r = 0; r < k; r++)
                out[(at + r) * length + i] = integer ? scaled(w[r], piece[r]) : piece[r];
        }
    }
}

void steno_whisper_rows(const struct steno_whisper_tensor *t, size_t from, size_t n, float *out)
{
    const size_t length = steno_whisper_row_length(t);
    if (t->transposed) {
        transposed_rows(t, from, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (t->block)
            blocked_row(t, from + i, length, out + i * length);
        else
            one_row(t, from + i, length, out + i * length);
    }
}

/* ---- the view ------------------------------------------------------------------------------ */

steno_status steno_whisper_add(steno_whisper_weights *w, const struct steno_whisper_tensor *t,
                               steno_err *err)
{
    if (w->n == STENO_WHISPER_MAX_TENSORS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d tensors", t->file,
                          STENO_WHISPER_MAX_TENSORS);
    if (STENO_RESERVE(&w->tensor, &w->cap, w->n + 1))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", t->file);
    w->tensor[w->n++] = *t;
    return STENO_OK;
}

static int by_name_weights(const void *a, const void *b)
{
    return strcmp(((const struct steno_whisper_tensor *)a)->name,
                  ((const struct steno_whisper_tensor *)b)->name);
}

const struct steno_whisper_tensor *steno_whisper_weights_find(const steno_whisper_weights *w,
                                                              const char *name)
{
    struct steno_whisper_tensor key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return w->n ? bsearch(&key, w->tensor, w->n, sizeof key, by_name_weights) : NULL;
}

steno_status steno_whisper_read_heads(steno_whisper_weights *w, const struct steno_json_node *list,
                                      const char *file, steno_err *err)
{
    size_t n = 0;
    if (!list || list->kind != STENO_JSON_LIST || !list->n || w->n_heads)
        return STENO_OK;
    if (list->n > STENO_WHISPER_MAX_HEADS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu alignment_heads", file, list->n);
    w->head = steno_arena_calloc(w->mem, list->n, sizeof *w->head);
    if (!w->head)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    for (const struct steno_json_node *p = list->first; p; p = p->next, n++) {
        int64_t layer, head;
        if (p->kind != STENO_JSON_LIST || p->n != 2 ||
            !steno_json_int(p->first, 0, STENO_WHISPER_MAX_LAYERS - 1, &layer) ||
            !steno_json_int(p->first->next, 0, STENO_WHISPER_MAX_LAYERS - 1, &head))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: line %zu: entry %zu of alignment_heads is no [layer, head]",
                              file, p->line, n);
        w->head[n] = (struct steno_whisper_head){(int)layer, (int)head};
    }
    w->n_heads = n;
    return STENO_OK;
}

/* ---- checking ------------------------------------------------------------------------------ */

struct check {
    const steno_whisper_weights *w;
    steno_status st;
    steno_err *err;
};

static const char *shape_text(int rank, const int64_t *dim, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    return out;
}

static bool same_shape(const struct steno_whisper_tensor *t, int rank, const int64_t *dim)
{
    return t->rank == rank && !memcmp(t->dim, dim, (size_t)rank * sizeof *dim);
}

/* Tensor `name`, whose shape is to be dim [rank] with a size of 0 for any; those are filled in. */
static void need(struct check *c, bool optional, const char *name, int rank, int64_t *dim)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(c->w, name);
    char want[64], have[64];
    if (c->st || (!t && optional))
        return;
    if (!t) {
        c->st =
            steno_fail(c->err, STENO_ERR_FORMAT, "%s: tensor '%s' is missing", c->w->file, name);
        return;
    }
    shape_text(rank, dim, want, sizeof want);
    for (int i = 0; i < rank; i++)
        if (!dim[i] && t->rank >= rank)
            dim[i] = t->dim[i];
    if (!same_shape(t, rank, dim))
        c->st = steno_fail(c->err, STENO_ERR_FORMAT,
                           "%s: tensor '%s' has the shape [%s], expected [%s]", t->file, name,
                           shape_text(t->rank, t->dim, have, sizeof have), want);
}

static void need_matrix(struct check *c, const char *prefix, const char *part, int64_t rows,
                        int64_t cols, bool bias_optional)
{
    char name[STENO_WHISPER_NAME];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, part);
    need(c, false, name, 2, (int64_t[]){rows, cols});
    snprintf(name, sizeof name, "%s.%s.bias", prefix, part);
    need(c, bias_optional, name, 1, (int64_t[]){rows});
}

static void need_norm(struct check *c, const char *prefix, const char *part, int64_t d)
{
    char name[STENO_WHISPER_NAME];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, part);
    need(c, false, name, 1, (int64_t[]){d});
    snprintf(name, sizeof name, "%s.%s.bias", prefix, part);
    need(c, false, name, 1, (int64_t[]){d});
}

static void need_attention(struct check *c, const char *prefix, const char *kind, int64_t d,
                           int64_t memory)
{
    static const char *const parts[] = {"query", "key", "value", "out"};
    char name[STENO_WHISPER_NAME];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s", kind, parts[i]);
        need_matrix(c, prefix, name, d, i == 1 || i == 2 ? memory : d, i == 1);
    }
    snprintf(name, sizeof name, "%s_ln", kind);
    need_norm(c, prefix, name, d);
}

static void need_block(struct check *c, const char *side, int64_t layer, int64_t d, int64_t memory)
{
    char prefix[40], name[STENO_WHISPER_NAME];
    const struct steno_whisper_tensor *t;
    int64_t ff;
    snprintf(prefix, sizeof prefix, "%s.blocks.%lld", side, (long long)layer);
    need_attention(c, prefix, "attn", d, d);
    if (memory)
        need_attention(c, prefix, "cross_attn", d, memory);
    snprintf(name, sizeof name, "%s.mlp.0.bias", prefix);
    t = steno_whisper_weights_find(c->w, name);
    ff = t && t->rank ? t->dim[0] : 4 * d;
    need_matrix(c, prefix, "mlp.0", ff, d, false);
    need_matrix(c, prefix, "mlp.2", d, ff, false);
    need_norm(c, prefix, "mlp_ln", d);
}

static int64_t count_layers(const steno_whisper_weights *w, const char *side)
{
    char name[STENO_WHISPER_NAME];
    int64_t n = 0;
    for (; n < STENO_WHISPER_MAX_LAYERS; n++) {
        snprintf(name, sizeof name, "%s.blocks.%lld.mlp.0.weight", side, (long long)n);
        if (!steno_whisper_weights_find(w, name))
            break;
    }
    return n;
}

static int64_t dim_of(const steno_whisper_weights *w, const char *name, int axis)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(w, name);
    return t && axis < t->rank ? t->dim[axis] : 0;
}

/* Heads are of 64 columns in every published size. */
static int64_t heads_of(int64_t said, int64_t columns)
{
    return said ? said : columns < 64 ? 1 : columns / 64;
}

struct steno_whisper_dims steno_whisper_weights_dims(const steno_whisper_weights *w)
{
    struct steno_whisper_dims d = {
        .mels = dim_of(w, "encoder.conv1.weight", 1),
        .audio_ctx = dim_of(w, "encoder.positional_embedding", 0),
        .audio_state = dim_of(w, "encoder.positional_embedding", 1),
        .audio_layers = count_layers(w, "encoder"),
        .vocab = dim_of(w, "decoder.token_embedding.weight", 0),
        .text_ctx = dim_of(w, "decoder.positional_embedding", 0),
        .text_state = dim_of(w, "decoder.token_embedding.weight", 1),
        .text_layers = count_layers(w, "decoder"),
    };
    d.audio_heads = heads_of(w->audio_heads, d.audio_state);
    d.text_heads = heads_of(w->text_heads, d.text_state);
    return d;
}

static void check_tensors(struct check *c, const struct steno_whisper_dims *d)
{
    const int64_t a = d->audio_state, t = d->text_state;
    need(c, false, "encoder.conv1.weight", 3, (int64_t[]){a, d->mels, 3});
    need(c, false, "encoder.conv1.bias", 1, (int64_t[]){a});
    need(c, false, "encoder.conv2.weight", 3, (int64_t[]){a, a, 3});
    need(c, false, "encoder.conv2.bias", 1, (int64_t[]){a});
    need(c, false, "encoder.positional_embedding", 2, (int64_t[]){d->audio_ctx, a});
    need_norm(c, "encoder", "ln_post", a);
    for (int64_t i = 0; i < d->audio_layers; i++)
        need_block(c, "encoder", i, a, 0);
    need(c, false, "decoder.token_embedding.weight", 2, (int64_t[]){d->vocab, t});
    need(c, false, "decoder.positional_embedding", 2, (int64_t[]){d->text_ctx, t});
    need_norm(c, "decoder", "ln", t);
    for (int64_t i = 0; i < d->text_layers; i++)
        need_block(c, "decoder", i, t, a);
}

static steno_status check_dims(const steno_whisper_weights *w, const struct steno_whisper_dims *d,
                               steno_err *err)
{
    const struct {
        const char *what;
        int64_t v, min, max;
    } all[] = {{"mel bands", d->mels, 1, 512},
               {"encoder layers", d->audio_layers, 1, STENO_WHISPER_MAX_LAYERS},
               {"decoder layers", d->text_layers, 1, STENO_WHISPER_MAX_LAYERS},
               {"encoder positions", d->audio_ctx, 1, 1 << 16},
               {"decoder positions", d->text_ctx, 8, 1 << 16},
               {"columns of the encoder", d->audio_state, 1, 1 << 16},
               {"columns of the decoder", d->text_state, 1, 1 << 16},
               {"pieces", d->vocab, 1, STENO_BPE_MAX_PIECES}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].v < all[i].min || all[i].v > all[i].max)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: %lld %s, expected %lld to %lld", w->file,
                              (long long)all[i].v, all[i].what, (long long)all[i].min,
                              (long long)all[i].max);
    if (d->audio_heads < 1 || d->audio_state % d->audio_heads || d->text_heads < 1 ||
        d->text_state % d->text_heads)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: %lld and %lld heads for %lld and %lld columns of encoder and decoder", w->file,
            (long long)d->audio_heads, (long long)d->text_heads, (long long)d->audio_state,
            (long long)d->text_state);
    return STENO_OK;
}

static steno_status check_heads(const steno_whisper_weights *w, const struct steno_whisper_dims *d,
                                steno_err *err)
{
    for (size_t i = 0; i < w->n_heads; i++)
        if (w->head[i].layer >= d->text_layers || w->head[i].head >= d->text_heads)
            return steno_fail(
                err, STENO_ERR_FORMAT,
                "%s: alignment head [%d, %d], the decoder has %lld layers of %lld heads", w->file,
                w->head[i].layer, w->head[i].head, (long long)d->text_layers,
                (long long)d->text_heads);
    return STENO_OK;
}

steno_status steno_whisper_check(steno_whisper_weights *w, steno_err *err)
{
    struct check c = {.w = w, .err = err};
    struct steno_whisper_dims d;
    steno_status st;
    if (w->n)
        qsort(w->tensor, w->n, sizeof *w->tensor, by_name_weights);
    for (size_t i = 1; i < w->n; i++)
        if (!by_name_weights(&w->tensor[i - 1], &w->tensor[i]))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%s' is given twice",
                              w->tensor[i].file, w->tensor[i].name);
    d = steno_whisper_weights_dims(w);
    check_tensors(&c, &d);
    st = c.st;
    if (!st)
        st = check_dims(w, &d, err);
    return st ? st : check_heads(w, &d, err);
}

/* ---- the view as a whole ------------------------------------------------------------------- */

steno_whisper_weights *steno_whisper_weights_new(const char *path, steno_err *err)
{
    steno_whisper_weights *w = calloc(1, sizeof *w);
    if (w)
        w->mem = steno_arena_new(0);
    if (w && w->mem)
        return w;
    free(w);
    (void)steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    return NULL;
}

steno_status steno_whisper_weights_hand(steno_whisper_weights **out, steno_whisper_weights *w,
                                        steno_status st)
{
    if (st)
        steno_whisper_weights_close(w);
    else
        *out = w;
    return st;
}

void steno_whisper_weights_close(steno_whisper_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_shards; i++)
        steno_safetensors_close(w->shard[i]);
    for (int i = 0; i < 2; i++)
        steno_graph_free(w->graph[i]);
    steno_torch_close(w->torch);
    steno_gguf_close(w->gguf);
    steno_map_close(&w->map);
    steno_bpe_close(w->bpe);
    free(w->tensor);
    steno_arena_free(w->mem);
    free(w);
}

void steno_whisper_weights_rest(const steno_whisper_weights *w)
{
    if (w->map.n)
        steno_pages_rest(w->map.p, w->map.n);
    for (size_t i = 0; i < w->n_shards; i++)
        steno_safetensors_rest(w->shard[i]);
    for (int i = 0; i < 2; i++)
        if (w->graph[i])
            steno_graph_rest_map(w->graph[i]);
}

steno_status steno_whisper_weights_check(const steno_whisper_weights *w, steno_err *err)
{
    steno_status st = steno_map_check(&w->map, w->file, err);
    for (size_t i = 0; !st && i < w->n_shards; i++)
        st = steno_map_check(steno_safetensors_map(w->shard[i]), w->file, err);
    for (int i = 0; !st && i < 2; i++)
        if (w->graph[i])
            st = steno_map_check(&w->graph[i]->map, w->file, err);
    return st;
}

const char *steno_whisper_weights_format(const steno_whisper_weights *w)
{
    return w->format;
}

const char *steno_whisper_weights_file(const steno_whisper_weights *w)
{
    return w->file;
}

const char *steno_whisper_weights_variant(const steno_whisper_weights *w)
{
    return w->variant;
}

const steno_bpe *steno_whisper_weights_bpe(const steno_whisper_weights *w)
{
    return w->bpe;
}

const struct steno_whisper_marks *steno_whisper_weights_marks(const steno_whisper_weights *w)
{
    return &w->marks;
}

const struct steno_whisper_head *steno_whisper_weights_heads(const steno_whisper_weights *w,
                                                             size_t *n)
{
    *n = w->n_heads;
    return w->head;
}
