/* CTranslate2's model.bin (OpenNMT/CTranslate2, src/models/model.cc), little-endian, no alignment:
 *
 *     u32 version  str spec  u32 revision  u32 n  n x {str name; u8 rank; u32 dim[rank]; u8 dtype;
 *     u32 bytes; bytes}  u32 m  m x {str alias; str name}
 *
 * str = u16 length, the closing NUL included. A quantised variable X has a sibling X_scale: one f32
 * for each row (i8) or one in all (i16). q, k and v are one matrix, and so are the cross
 * attention's k and v; conv weights keep their shape but are scaled by row. Versions below 4 are
 * not read: no Whisper model was ever written in one. */
#include "speech/families/whisper/weights_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/little_endian.h"

#define VERSION_MIN 4
#define VERSION_MAX 6
#define REVISION_MAX 3

struct variable {
    const char *name; /* terminated, in the file */
    struct steno_whisper_tensor t;
    size_t bytes;
    bool scalar;
};

struct file {
    steno_whisper_weights *w;
    struct steno_cursor at;
    const char *name;
    steno_err *err;
};

static steno_status cut_short(const struct file *f, const char *what, const char *where)
{
    return steno_fail(f->err, STENO_ERR_FORMAT, "%s: the file ends in %s%s%.80s", f->name, what,
                      *where ? " of " : "", where);
}

static steno_status read_string(struct file *f, const char **out)
{
    uint64_t n;
    const unsigned char *p;
    if (!steno_cursor_number(&f->at, 2, &n) || !(p = steno_cursor_skip(&f->at, n)))
        return cut_short(f, "a name", "");
    if (!n || p[n - 1] || memchr(p, 0, n - 1))
        return steno_fail(f->err, STENO_ERR_FORMAT, "%s: a name of %u bytes without its NUL",
                          f->name, (unsigned)n);
    *out = (const char *)p;
    return STENO_OK;
}

static steno_status read_type(struct file *f, struct variable *v)
{
    static const enum steno_whisper_type types[] = {STENO_WHISPER_F32, STENO_WHISPER_I8,
                                                    STENO_WHISPER_I16, STENO_WHISPER_F32,
                                                    STENO_WHISPER_F16, STENO_WHISPER_BF16};
    uint64_t dtype;
    uint32_t bytes;
    size_t want;
    if (!steno_cursor_number(&f->at, 1, &dtype) || !steno_cursor_u32(&f->at, &bytes))
        return cut_short(f, "the header", v->name);
    if (dtype >= sizeof types / sizeof *types)
        return steno_fail(f->err, STENO_ERR_UNSUPPORTED,
                          "%s: variable '%.80s' has data type %u, 0 to 5 are known", f->name,
                          v->name, (unsigned)dtype);
    v->t.type = types[dtype];
    v->bytes = bytes;
    if (!steno_whisper_bytes(&v->t, &want) || want != bytes)
        return steno_fail(f->err, STENO_ERR_FORMAT,
                          "%s: variable '%.80s' has %u bytes, its shape and type take %zu", f->name,
                          v->name, (unsigned)bytes, want);
    v->t.data = steno_cursor_skip(&f->at, bytes);
    if (!v->t.data)
        return steno_fail(f->err, STENO_ERR_FORMAT,
                          "%s: variable '%.80s' has %u bytes, %zu are left of the file", f->name,
                          v->name, (unsigned)bytes, steno_cursor_left(&f->at));
    return STENO_OK;
}

static steno_status read_variable(struct file *f, struct variable *v)
{
    uint64_t rank;
    uint32_t dim;
    steno_status st = read_string(f, &v->name);
    if (st)
        return st;
    v->t.file = f->name;
    if (!steno_cursor_number(&f->at, 1, &rank))
        return cut_short(f, "the shape", v->name);
    if (rank > STENO_WHISPER_MAX_RANK)
        return steno_fail(f->err, STENO_ERR_FORMAT, "%s: variable '%.80s' has %u axes, at most %d",
                          f->name, v->name, (unsigned)rank, STENO_WHISPER_MAX_RANK);
    for (uint64_t i = 0; i < rank; i++) {
        if (!steno_cursor_u32(&f->at, &dim))
            return cut_short(f, "the shape", v->name);
        v->t.dim[i] = dim;
    }
    v->t.rank = (int)rank;
    v->scalar = !rank;
    return read_type(f, v);
}

/* ---- names --------------------------------------------------------------------------------- */

/* Rows part .. of the n_parts that a variable has side by side; bias and weight alike. */
struct piece {
    const char *from, *to;
    int part, n_parts;
};

static const struct piece block_parts[] = {
    {"self_attention/linear_0", "attn.query", 0, 3},
    {"self_attention/linear_0", "attn.key", 1, 3},
    {"self_attention/linear_0", "attn.value", 2, 3},
    {"self_attention/linear_1", "attn.out", 0, 1},
    {"self_attention/layer_norm", "attn_ln", 0, 1},
    {"attention/linear_0", "cross_attn.query", 0, 1},
    {"attention/linear_1", "cross_attn.key", 0, 2},
    {"attention/linear_1", "cross_attn.value", 1, 2},
    {"attention/linear_2", "cross_attn.out", 0, 1},
    {"attention/layer_norm", "cross_attn_ln", 0, 1},
    {"ffn/linear_0", "mlp.0", 0, 1},
    {"ffn/linear_1", "mlp.2", 0, 1},
    {"ffn/layer_norm", "mlp_ln", 0, 1},
};

static const struct piece top_parts[] = {
    {"encoder/conv1", "encoder.conv1", 0, 1},
    {"encoder/conv2", "encoder.conv2", 0, 1},
    {"encoder/layer_norm", "encoder.ln_post", 0, 1},
    {"decoder/embeddings", "decoder.token_embedding", 0, 1},
    {"decoder/layer_norm", "decoder.ln", 0, 1},
};

/* "weight" of ".../gamma" and so on; NULL: none of ours. */
static const char *role_of(const char *last)
{
    if (!strcmp(last, "weight") || !strcmp(last, "gamma"))
        return "weight";
    return !strcmp(last, "bias") || !strcmp(last, "beta") ? "bias" : NULL;
}

static steno_status add_part(struct file *f, const struct variable *v, const struct piece *p,
                             const char *prefix, const char *role)
{
    struct steno_whisper_tensor t = v->t;
    size_t bytes = v->bytes / (size_t)p->n_parts;
    if (t.rank < 1 || t.dim[0] % p->n_parts)
        return steno_fail(f->err, STENO_ERR_FORMAT,
                          "%s: variable '%.80s' has %lld rows, expected a multiple of %d", f->name,
                          v->name, t.rank ? (long long)t.dim[0] : 0LL, p->n_parts);
    t.dim[0] /= p->n_parts;
    t.data += (size_t)p->part * bytes;
    if (t.n_scale > 1) {
        t.n_scale /= (size_t)p->n_parts;
        t.scale += (size_t)p->part * t.n_scale * 4;
    }
    snprintf(t.name, sizeof t.name, "%s%s.%s", prefix, p->to, role);
    return steno_whisper_add(f->w, &t, f->err);
}

static steno_status add_parts(struct file *f, const struct variable *v, const struct piece *all,
                              size_t n, const char *stem, size_t len, const char *prefix)
{
    const char *role = role_of(stem + len + 1);
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && role && !st; i++)
        if (strlen(all[i].from) == len && !memcmp(all[i].from, stem, len))
            st = add_part(f, v, &all[i], prefix, role);
    return st;
}

/* Layer number and what follows it in "encoder/layer_N/rest"; NULL: another name. */
static const char *layer_of(const char *name, const char *side, unsigned *layer)
{
    int used = 0;
    if (strncmp(name, side, 7) || name[7] != '/' ||
        sscanf(name + 8, "layer_%4u/%n", layer, &used) != 1)
        return NULL;
    return used ? name + 8 + used : NULL;
}

static steno_status add_positions(struct file *f, const struct variable *v, bool *found)
{
    static const char *const sides[] = {"encoder", "decoder"};
    char name[STENO_WHISPER_NAME];
    *found = false;
    for (int i = 0; i < 2; i++) {
        struct steno_whisper_tensor t = v->t;
        snprintf(name, sizeof name, "%s/position_encodings/encodings", sides[i]);
        if (strcmp(v->name, name))
            continue;
        *found = true;
        snprintf(t.name, sizeof t.name, "%s.positional_embedding", sides[i]);
        return steno_whisper_add(f->w, &t, f->err);
    }
    return STENO_OK;
}

static steno_status add_variable(struct file *f, const struct variable *v)
{
    static const char *const sides[] = {"encoder", "decoder"};
    const char *slash = strrchr(v->name, '/');
    bool found;
    steno_status st = add_positions(f, v, &found);
    if (st || found || !slash)
        return st;
    for (int i = 0; i < 2; i++) {
        char prefix[40];
        unsigned layer;
        const char *rest = layer_of(v->name, sides[i], &layer);
        if (!rest || rest > slash)
            continue;
        snprintf(prefix, sizeof prefix, "%s.blocks.%u.", sides[i], layer);
        return add_parts(f, v, block_parts, sizeof block_parts / sizeof *block_parts, rest,
                         (size_t)(slash - rest), prefix);
    }
    return add_parts(f, v, top_parts, sizeof top_parts / sizeof *top_parts, v->name,
                     (size_t)(slash - v->name), "");
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool is_name_read_ctranslate2(const struct variable *v, const char *name, const char *suffix)
{
    size_t n = strlen(name);
    return !strncmp(v->name, name, n) && !strcmp(v->name + n, suffix);
}

static steno_status find_scale(const struct file *f, struct variable *v, const struct variable *all,
                               size_t n)
{
    size_t rows = v->t.rank ? (size_t)v->t.dim[0] : 1;
    for (size_t i = 0; i < n; i++) {
        const struct variable *s = &all[i];
        if (!is_name_read_ctranslate2(s, v->name, "_scale"))
            continue;
        v->t.scale = s->t.data;
        v->t.n_scale = s->bytes / 4;
        if (s->t.type != STENO_WHISPER_F32 || (v->t.n_scale != rows && v->t.n_scale != 1))
            return steno_fail(f->err, STENO_ERR_FORMAT,
                              "%s: variable '%.80s' has %zu scales, expected 1 or %zu of float32",
                              f->name, v->name, v->t.n_scale, rows);
        return STENO_OK;
    }
    return steno_fail(f->err, STENO_ERR_FORMAT,
                      "%s: variable '%.80s' is of integers without scales", f->name, v->name);
}

static bool is_integer(const struct variable *v)
{
    return !v->scalar && (v->t.type == STENO_WHISPER_I8 || v->t.type == STENO_WHISPER_I16);
}

static void read_heads(struct file *f, const struct variable *v)
{
    int64_t heads;
    if (!v->scalar || v->t.type != STENO_WHISPER_I16)
        return;
    heads = v->t.data[0] | (v->t.data[1] & 0x7f) << 8;
    if (!strcmp(v->name, "encoder/num_heads"))
        f->w->audio_heads = heads;
    else if (!strcmp(v->name, "decoder/num_heads"))
        f->w->text_heads = heads;
}

static steno_status read_head(struct file *f, uint32_t *n)
{
    uint32_t version, revision;
    const char *spec = "";
    steno_status st;
    if (!steno_cursor_u32(&f->at, &version))
        return cut_short(f, "the header", "");
    if (version < VERSION_MIN || version > VERSION_MAX)
        return steno_fail(f->err, STENO_ERR_UNSUPPORTED, "%s: format version %u, %d to %d are read",
                          f->name, (unsigned)version, VERSION_MIN, VERSION_MAX);
    st = read_string(f, &spec);
    if (st)
        return st;
    if (strcmp(spec, "WhisperSpec"))
        return steno_fail(f->err, STENO_ERR_UNSUPPORTED,
                          "%s: a model of kind '%.40s', not WhisperSpec", f->name, spec);
    if (!steno_cursor_u32(&f->at, &revision) || !steno_cursor_u32(&f->at, n))
        return cut_short(f, "the header", "");
    if (revision > REVISION_MAX)
        return steno_fail(f->err, STENO_ERR_UNSUPPORTED, "%s: revision %u, up to %d are read",
                          f->name, (unsigned)revision, REVISION_MAX);
    if (*n > STENO_WHISPER_MAX_TENSORS)
        return steno_fail(f->err, STENO_ERR_LIMIT, "%s: %u variables, at most %d", f->name,
                          (unsigned)*n, STENO_WHISPER_MAX_TENSORS);
    return STENO_OK;
}

/* "decoder/projection/weight" is another name of the embeddings in every file: read for its bounds.
 */
static steno_status read_aliases(struct file *f)
{
    uint32_t n;
    const char *name;
    steno_status st = STENO_OK;
    if (!steno_cursor_u32(&f->at, &n))
        return cut_short(f, "the aliases", "");
    for (uint64_t i = 0; i < 2 * (uint64_t)n && !st; i++)
        st = read_string(f, &name);
    if (!st && steno_cursor_left(&f->at))
        return steno_fail(f->err, STENO_ERR_FORMAT, "%s: %zu bytes behind the last alias", f->name,
                          steno_cursor_left(&f->at));
    return st;
}

steno_status steno_whisper_read_ctranslate2(steno_whisper_weights *w, const void *bytes, size_t n,
                                            const char *name, steno_err *err)
{
    struct file f = {w, {bytes, (const unsigned char *)bytes + n}, name, err};
    struct variable *all;
    uint32_t count = 0;
    steno_status st = read_head(&f, &count);
    if (st)
        return st;
    all = steno_arena_calloc(w->mem, (size_t)count + 1, sizeof *all);
    if (!all)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    for (uint32_t i = 0; i < count && !st; i++)
        st = read_variable(&f, &all[i]);
    if (!st)
        st = read_aliases(&f);
    for (uint32_t i = 0; i < count && !st; i++) {
        read_heads(&f, &all[i]);
        if (is_integer(&all[i]))
            st = find_scale(&f, &all[i], all, count);
        if (!st)
            st = add_variable(&f, &all[i]);
    }
    return st;
}
