#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/ggml_kind.h"

#define BLANK "<blk>"
#define MAX_POSITIONS (1 << 25) /* times columns */
#define MATRIX "encoder.layers.0.feed_forward1.linear1."
#define LSTM_BIAS ".bias_ih_l"

/* ---- weights ------------------------------------------------------------------------------- */

static int by_name_nemo(const void *a, const void *b)
{
    return strcmp(((const struct steno_nemo_tensor *)a)->t.name,
                  ((const struct steno_nemo_tensor *)b)->t.name);
}

static const struct steno_nemo_tensor *find_tensor(const steno_nemo_file *f, const char *name)
{
    const struct steno_nemo_tensor key = {.t = {.name = name}};
    return f->n ? bsearch(&key, f->tensor, f->n, sizeof key, by_name_nemo) : NULL;
}

static const struct steno_torch_tensor *find_for_builder(const void *of, const char *name)
{
    const struct steno_nemo_tensor *t = find_tensor(of, name);
    return t ? &t->t : NULL;
}

static void read_rows(const struct steno_nemo_tensor *t, size_t from, size_t n, float *out)
{
    t->type->read(t->data + from / t->type->per * t->type->bytes, n / t->type->per, out);
}

/* Gates i, f, g, o out of i, f, o, g; whole rows. */
static void read_gates(const struct steno_nemo_tensor *t, size_t from, size_t n, float *out)
{
    static const size_t order[4] = {0, 1, 3, 2};
    const size_t rows = (size_t)t->t.dim[0], units = rows / 4, row = t->t.count / rows;
    for (size_t at = from; at < from + n; at += row, out += row) {
        const size_t r = at / row;
        read_rows(t, (order[r / units] * units + r % units) * row, row, out);
    }
}

static void read_for_builder(const struct steno_torch_tensor *tensor, size_t from, size_t n,
                             float *out)
{
    const struct steno_nemo_tensor *t = (const struct steno_nemo_tensor *)(const void *)tensor;
    if (!t->data)
        memset(out, 0, n * sizeof *out);
    else if (t->ifog)
        read_gates(t, from, n, out);
    else
        read_rows(t, from, n, out);
}

int64_t steno_nemo_file_extent(const steno_nemo_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].t.name, name) == 0)
            return f->tensor[i].t.rank ? f->tensor[i].t.dim[0] : 0;
    return 0;
}

static steno_status add_tensor(steno_nemo_file *f, const char *name,
                               const struct steno_nemo_tensor *t, steno_err *err)
{
    struct steno_nemo_tensor *p = f->tensor;
    if (f->n == STENO_NEMO_MAX_TENSORS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d tensors", f->name,
                          STENO_NEMO_MAX_TENSORS);
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 256;
        p = realloc(p, f->cap * sizeof *p);
        if (!p)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
        f->tensor = p;
    }
    p += f->n;
    *p = *t;
    p->t.name = steno_arena_strdup(f->mem, name);
    p->t.contiguous = true;
    p->t.count = 1;
    for (int i = 0; i < t->t.rank; i++)
        p->t.count *= (size_t)t->t.dim[i];
    if (!p->t.name)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
    f->n++;
    return STENO_OK;
}

steno_status steno_nemo_file_add(steno_nemo_file *f, const char *name,
                                 const struct steno_nemo_tensor *t, steno_err *err)
{
    const char *bias = strstr(name, LSTM_BIAS);
    struct steno_nemo_tensor zeros = *t;
    char other[STENO_GGUF_MAX_NAME + 64];
    steno_status st = add_tensor(f, name, t, err);
    if (st || !bias || t->both)
        return st;
    snprintf(other, sizeof other, "%.*s.bias_hh_l%s", (int)(bias - name), name,
             bias + strlen(LSTM_BIAS));
    zeros.data = NULL;
    return add_tensor(f, other, &zeros, err);
}

/* An LSTM whose gates are told apart has four of them. */
static steno_status check_tensors(steno_nemo_file *f, steno_err *err)
{
    if (f->n)
        qsort(f->tensor, f->n, sizeof *f->tensor, by_name_nemo);
    for (size_t i = 0; i < f->n; i++) {
        const struct steno_nemo_tensor *t = &f->tensor[i];
        if (i && !by_name_nemo(t - 1, t))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%s' is given twice", f->name,
                              t->t.name);
        if (t->ifog && (t->t.rank < 1 || t->t.dim[0] % 4))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%s' has no four gates", f->name,
                              t->t.name);
    }
    return STENO_OK;
}

/* ---- vocabulary ---------------------------------------------------------------------------- */

steno_status steno_nemo_file_piece(steno_nemo_file *f, const char *piece, size_t n, steno_err *err)
{
    const long long id = (long long)f->info.arch.vocab++;
    if (!n || memchr(piece, '\n', n) || memchr(piece, '\r', n) || memchr(piece, '\0', n))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: piece %lld is empty or has a line break",
                          f->name, id);
    if (steno_buf_add(&f->tokens, piece, n) || steno_buf_printf(&f->tokens, " %lld\n", id))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %zu bytes of vocabulary", f->name,
                          STENO_NEMO_MAX_TOKENS);
    return STENO_OK;
}

static steno_status end_tokens(steno_nemo_file *f, steno_err *err)
{
    const steno_status st = steno_nemo_file_piece(f, BLANK, strlen(BLANK), err);
    f->info.arch.vocab--;
    f->info.tokens = f->tokens.data;
    f->info.n_tokens = f->tokens.len;
    return st;
}

static bool is_in_blocks(const steno_nemo_file *f)
{
    const struct steno_nemo_tensor *t = find_tensor(f, MATRIX "weight");
    return t && t->type->per > 1;
}

/* ---- opening ------------------------------------------------------------------------------- */

bool steno_nemo_file_probe(const char *path)
{
    return steno_ggml_kind_of_file(path) == STENO_GGML_PARAKEET;
}

/* What all these models have; and limits, since tables are made of a file's numbers alone. */
static steno_status complete_arch(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    a->bias = steno_nemo_file_extent(f, MATRIX "bias") > 0;
    a->subsampling = STENO_NEMO_DW_STRIDING;
    a->rel = true;
    a->normalize = f->info.per_feature ? "per_feature" : "NA";
    if (a->d % a->heads || a->d % 2 || a->factor & (a->factor - 1) ||
        a->positions > MAX_POSITIONS / a->d)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: %lld columns in %lld heads, %lld positions, subsampling by %lld",
                          f->name, (long long)a->d, (long long)a->heads, (long long)a->positions,
                          (long long)a->factor);
    return STENO_OK;
}

static steno_status read_all(steno_nemo_file *f, const void *bytes, size_t n, steno_err *err)
{
    steno_status st;
    f->mem = steno_arena_new(0);
    if (!f->mem)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
    steno_buf_init(&f->tokens, STENO_NEMO_MAX_TOKENS);
    steno_buf_init(&f->prompts, STENO_NEMO_MAX_PROMPTS);
    f->info.languages = f->languages;
    st = steno_gguf_probe(bytes, n) ? steno_nemo_read_gguf(f, bytes, n, err)
                                    : steno_nemo_read_ggml(f, bytes, n, err);
    if (!st)
        st = end_tokens(f, err);
    if (!st)
        st = complete_arch(f, err);
    if (!st)
        st = check_tensors(f, err);
    f->info.blocks = !st && is_in_blocks(f);
    f->weights = (struct steno_make_weights){.file = f->name,
                                             .find = find_for_builder,
                                             .of = f,
                                             .read = read_for_builder,
                                             .squeezed = true,
                                             .late = true,
                                             .map = &f->map,
                                             .root = ""};
    return st;
}

steno_status steno_nemo_file_parse(steno_nemo_file **out, const void *bytes, size_t n,
                                   const char *name, steno_err *err)
{
    steno_nemo_file *f = calloc(1, sizeof *f);
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    f->name = name;
    st = read_all(f, bytes, n, err);
    if (st)
        steno_nemo_file_close(f);
    else
        *out = f;
    return st;
}

steno_status steno_nemo_file_open(steno_nemo_file **out, const char *path, steno_err *err)
{
    struct steno_map map;
    const char *name;
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    st = steno_nemo_file_parse(out, map.p, map.n, path, err);
    if (st) {
        steno_map_close(&map);
        return st;
    }
    (*out)->map = map;
    name = steno_arena_strdup((*out)->mem, path); /* messages outlive the caller's */
    (*out)->name = (*out)->weights.file = name;
    if (name)
        return STENO_OK;
    steno_nemo_file_close(*out);
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
}

void steno_nemo_file_close(steno_nemo_file *f)
{
    if (!f)
        return;
    steno_gguf_close(f->gguf);
    steno_buf_free(&f->tokens);
    steno_buf_free(&f->prompts);
    free(f->tensor);
    steno_arena_free(f->mem);
    steno_map_close(&f->map);
    free(f);
}

bool steno_nemo_file_streams(const char *path)
{
    steno_nemo_file *f;
    bool yes;
    if (!steno_nemo_file_probe(path) || steno_nemo_file_open(&f, path, NULL))
        return false;
    yes = f->info.arch.streaming;
    steno_nemo_file_close(f);
    return yes;
}

steno_status steno_nemo_file_look(steno_nemo_file *f, int64_t frames, steno_err *err)
{
    char known[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < f->n_contexts; i++) {
        if (f->context[i][1] == frames) {
            f->info.arch.left = f->context[i][0];
            f->info.arch.right = frames;
            return STENO_OK;
        }
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%lld", i ? ", " : "",
                                  (long long)f->context[i][1]);
    }
    return steno_fail(err, STENO_ERR_INVAL, "%s: lookahead %lld: the file has %s", f->name,
                      (long long)frames, *known ? known : "none to choose");
}

steno_status steno_nemo_file_check(const steno_nemo_file *f, steno_err *err)
{
    return steno_map_check(&f->map, f->name, err);
}

const struct steno_nemo_file_info *steno_nemo_file_info(const steno_nemo_file *f)
{
    return &f->info;
}

steno_status steno_nemo_file_build(const steno_nemo_file *f, enum steno_nemo_part part,
                                   struct steno_graph **out, steno_err *err)
{
    const struct steno_nemo_arch *a = &f->info.arch;
    if (f->info.ctc && part != STENO_NEMO_ENCODER)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the encoder has the scores", f->name);
    switch (part) {
    case STENO_NEMO_DECODER:
        return steno_nemo_build_decoder(a, &f->weights, out, err);
    case STENO_NEMO_JOINER:
        return steno_nemo_build_joiner(a, &f->weights, out, err);
    default:
        return steno_nemo_build_encoder(a, &f->weights, f->info.ctc ? "decoder." : NULL, out, err);
    }
}
