/* Every token of every hypothesis has a row of keys and values in each layer's cache. Rows never
 * move. A hypothesis has a list of the rows that are its prefix (the index); reordering the beam
 * reorders the lists. Rows that no list names are used again. Hypotheses of a beam share most of
 * their past, so there are not many more rows than tokens.
 *
 * Caches are laid out by heads, as attention reads them (nn/ops/op_cached_attention.c). A cache row
 * has the same number in each head: [heads, cap_rows, size + v_size], a key and its value. Keys and
 * values of the encoder's frames, the memory, are for each layer keys [heads, size, cap_memory],
 * then values [heads, cap_memory, v_size]. Where the network is in 16 or 8 bits and the CPU has a
 * kernel for it, the memory is bf16 in pages of STENO_KV_PAGE_KEYS frames.
 *
 * The network reads the caches in place (nn/exec/kv_cache.h), of one search or of several in one
 * run: its weights are then read once for all their hypotheses. Caches grow by a quarter, lists by
 * doubling, memories by half. The number of hypotheses of a run is rounded up to a quarter of the
 * beam or to whole beams: the session keeps a plan for each such number and makes none in steady
 * state. */
#include "speech/families/common/cached_decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "nn/kernels/kernels.h"
#include "nn/network/run.h"

#define FIRST_ROWS 128 /* of a cache */
#define FIRST_CAP 128  /* tokens; encoder frames */
#define MEMORY_STEP 32 /* frames: a whole panel of the products */
#define MOST_HYPS 128  /* of one run of several searches */

struct block { /* aligned, growing */
    void *p;
    size_t bytes;
};

/* Where keys and values are in an output row of a network. */
struct columns {
    size_t width, heads, size, v_size, k_at, v_at;
};

struct layer {
    int new_row;                        /* output of the step network */
    struct columns cache_of, memory_of; /* memory_of.heads 0: no memory */
    struct block zero;
};

struct steno_cached_decoder_state {
    int n_layers;
    struct layer_cache {
        struct block rows, memories;
    } * layer;
    struct steno_kv_layer *view; /* [n_layers] for the network */
    size_t beam;                 /* maximum hypotheses of this utterance */
    size_t cap_rows;             /* of the caches */
    size_t cap_tokens;           /* columns of the lists */
    size_t cap_memory;           /* frames of the memories */
    size_t n_memory;             /* frames in use */
    size_t cap_hyps;             /* rows of the lists; length of slot */
    int32_t *list[2];            /* [cap_hyps, cap_tokens]: of this step, of the step before */
    int32_t *slot;               /* [cap_hyps] cache rows of the newest tokens */
    uint32_t *used;              /* [cap_rows] the last step in which the row was in use */
    uint32_t now;
    struct block biases; /* [cap_rows] */
    bool rewinds;        /* rows of the step before stay, so that rewind can go back to it */
    bool again;          /* the next step repeats an earlier one */
    size_t n, n_before;  /* hypotheses of list[0] and list[1] */
};

struct steno_cached_decoder {
    struct steno_cached_decoder_options o;
    const char *name;
    steno_session *step, *once;
    const steno_network *net, *once_net;
    int tgt, position, y, new_bias;  /* graph inputs and outputs; -1: none */
    const steno_kernels *kv_kernels; /* memories are bf16 pages; NULL: f32 */
    struct layer *layer;
    int n_layers;
    int64_t *tokens, *places; /* [cap_hyps] each, one block */
    size_t cap_hyps;
    struct steno_kv_view *view; /* [cap_views] */
    size_t cap_views;
    struct steno_kv_binding kv_binding;
    steno_cached_decoder_state *own;
};

static steno_status no_memory_cached_decoder(const steno_cached_decoder *s, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
}

static void replace_block(struct block *b, void *p, size_t bytes)
{
    steno_aligned_free(b->p);
    b->p = p;
    b->bytes = bytes;
}

/* Make room for `bytes`. The first `keep` bytes stay; new ones are zero. */
static bool reserve_cached_decoder(struct block *b, size_t bytes, size_t keep)
{
    void *p;
    if (bytes <= b->bytes)
        return true;
    p = steno_aligned_zeroed(bytes);
    if (!p)
        return false;
    if (keep)
        memcpy(p, b->p, keep);
    replace_block(b, p, bytes);
    return true;
}

/* ---- binding ------------------------------------------------------------------------------- */

static size_t width_of(const struct steno_value *v)
{
    return v->shape.rank > 0 && v->shape.dim[v->shape.rank - 1] > 0
               ? (size_t)v->shape.dim[v->shape.rank - 1]
               : 0;
}

static size_t attribute(const struct steno_node *n, const char *name)
{
    int64_t v = steno_node_int(n, name, 0);
    return v > 0 ? (size_t)v : 0;
}

/* The columns that attention node n reads. */
static void read_columns(steno_cached_decoder *s, const struct steno_node *n)
{
    const bool own = n->n_in > 1 && n->in[1] != STENO_NONE;
    const size_t at = attribute(n, "layer");
    struct columns *c;
    if (at >= (size_t)s->n_layers ||
        (!own && (!s->once_net || (int)at >= steno_network_n_outputs(s->once_net))))
        return;
    c = own ? &s->layer[at].cache_of : &s->layer[at].memory_of;
    c->width = width_of(own ? steno_network_output(s->net, s->layer[at].new_row)
                            : steno_network_output(s->once_net, (int)at));
    c->heads = attribute(n, "heads");
    c->size = attribute(n, "size");
    c->v_size = attribute(n, "v_size");
    c->k_at = attribute(n, "k_at");
    c->v_at = attribute(n, "v_at");
}

static bool fits(const struct columns *c)
{
    const size_t k = c->heads * c->size, v = c->heads * c->v_size;
    return c->heads && k + v <= c->width && c->k_at + k <= c->width && c->v_at + v <= c->width;
}

static bool is_attention(const struct steno_node *n)
{
    return !n->dead && strcmp(n->op_type, "CachedAttention") == 0;
}

static steno_status bind_cached_decoder(steno_cached_decoder *s, steno_err *err)
{
    const struct steno_graph *g = steno_network_graph(s->net);
    const int memories_wanted =
        s->once_net && steno_network_n_inputs(s->once_net) ? s->n_layers : 0;
    int new_row = 0, memories = 0;
    bool ok = true;
    s->tgt = steno_network_find_input(s->net, "tgt");
    s->position = steno_network_find_input(s->net, "position");
    s->y = steno_network_find_output(s->net, "y");
    s->new_bias = steno_network_find_output(s->net, "new_bias");
    for (int i = 0; i < steno_network_n_outputs(s->net); i++)
        if (i != s->new_bias && i != s->y && new_row < s->n_layers)
            s->layer[new_row++].new_row = i;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (is_attention(&g->nodes[i]))
            read_columns(s, &g->nodes[i]);
    s->kv_kernels = memories_wanted ? steno_network_kv_bf16(s->net) : NULL;
    for (int i = 0; i < s->n_layers; i++) {
        ok = ok && fits(&s->layer[i].cache_of);
        memories += fits(&s->layer[i].memory_of);
        s->kv_kernels = s->layer[i].memory_of.size <= STENO_ATTEND_SIZE ? s->kv_kernels : NULL;
    }
    if (!ok || new_row != s->n_layers || !s->n_layers || memories != memories_wanted ||
        s->tgt < 0 || s->y < 0)
        return steno_fail(err, STENO_ERR_INTERNAL, "%s: not a network for single steps", s->name);
    return STENO_OK;
}

/* Each layer has one output new_i. */
static int count_layers(const steno_network *net)
{
    int n = 0;
    for (int i = 0; i < steno_network_n_outputs(net); i++)
        n += strncmp(steno_network_output(net, i)->name, "new_", 4) == 0 &&
             strcmp(steno_network_output(net, i)->name, "new_bias") != 0;
    return n;
}

/* ---- room ---------------------------------------------------------------------------------- */

/* Give a layer's cache room for `cap` rows instead of `from`. */
static bool resize_rows(struct block *b, const struct columns *c, size_t from, size_t cap)
{
    const size_t pair = c->size + c->v_size, bytes = cap * c->width * sizeof(float);
    float *p = steno_aligned_zeroed(bytes);
    if (!p)
        return false;
    for (size_t h = 0; from && h < c->heads; h++)
        memcpy(p + h * cap * pair, (const float *)b->p + h * from * pair, from * pair * sizeof *p);
    replace_block(b, p, bytes);
    return true;
}

/* Store x [width] as row `at` of a layer's cache of `cap` rows. */
static void put_row(float *cache, size_t cap, const struct columns *c, size_t at, const float *x)
{
    const size_t pair = c->size + c->v_size;
    for (size_t h = 0; h < c->heads; h++) {
        float *to = cache + (h * cap + at) * pair;
        memcpy(to, x + c->k_at + h * c->size, c->size * sizeof *to);
        memcpy(to + c->size, x + c->v_at + h * c->v_size, c->v_size * sizeof *to);
    }
}

static bool grow_rows(const steno_cached_decoder *s, steno_cached_decoder_state *k, size_t want)
{
    size_t cap = k->cap_rows ? k->cap_rows : FIRST_ROWS;
    uint32_t *used;
    while (cap < want) /* by quarters: rows take most of a search's memory */
        cap += cap / 4;
    if (cap == k->cap_rows)
        return true;
    for (int i = 0; i < s->n_layers; i++)
        if (!resize_rows(&k->layer[i].rows, &s->layer[i].cache_of, k->cap_rows, cap))
            return false;
    if (!reserve_cached_decoder(&k->biases, cap * sizeof(float), k->cap_rows * sizeof(float)))
        return false;
    used = realloc(k->used, cap * sizeof *used);
    if (!used)
        return false;
    memset(used + k->cap_rows, 0, (cap - k->cap_rows) * sizeof *used);
    k->used = used;
    k->cap_rows = cap;
    return true;
}

/* Make room for lists of `tokens` columns for `hyps` hypotheses. Existing lists stay. */
static bool grow_lists(steno_cached_decoder_state *k, size_t hyps, size_t tokens)
{
    size_t n = k->cap_hyps, cols = k->cap_tokens ? k->cap_tokens : FIRST_CAP;
    int32_t *list[2], *slot;
    if (hyps <= n && tokens <= k->cap_tokens)
        return true;
    n = n < hyps ? hyps : n;
    while (cols < tokens)
        cols *= 2;
    list[0] = calloc(n * cols, sizeof *list[0]);
    list[1] = calloc(n * cols, sizeof *list[1]);
    slot = realloc(k->slot, n * sizeof *slot);
    if (slot)
        k->slot = slot;
    if (!list[0] || !list[1] || !slot) {
        free(list[0]);
        free(list[1]);
        return false;
    }
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < k->cap_hyps; i++)
            memcpy(list[l] + i * cols, k->list[l] + i * k->cap_tokens,
                   k->cap_tokens * sizeof *list[l]);
        free(k->list[l]);
        k->list[l] = list[l];
    }
    k->cap_tokens = cols;
    k->cap_hyps = n;
    return true;
}

/* Make room for the inputs of `hyps` hypotheses and the views of n searches. */
static bool grow_inputs(steno_cached_decoder *s, size_t hyps, size_t n)
{
    if (steno_array_reserve(&s->tokens, &s->cap_hyps, hyps, 2 * sizeof *s->tokens) ||
        STENO_RESERVE(&s->view, &s->cap_views, n))
        return false;
    s->places = s->tokens + s->cap_hyps;
    return true;
}

/* ---- state --------------------------------------------------------------------------------- */

steno_cached_decoder_state *steno_cached_decoder_state_new(const steno_cached_decoder *s)
{
    steno_cached_decoder_state *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->n_layers = s->n_layers;
    k->rewinds = true;
    k->layer = calloc((size_t)k->n_layers + 1, sizeof *k->layer);
    k->view = calloc((size_t)k->n_layers + 1, sizeof *k->view);
    if (k->layer && k->view)
        return k;
    steno_cached_decoder_state_free(k);
    return NULL;
}

void steno_cached_decoder_state_free(steno_cached_decoder_state *k)
{
    if (!k)
        return;
    for (int i = 0; k->layer && i < k->n_layers; i++) {
        steno_aligned_free(k->layer[i].rows.p);
        steno_aligned_free(k->layer[i].memories.p);
    }
    steno_aligned_free(k->biases.p);
    free(k->layer);
    free(k->view);
    free(k->list[0]);
    free(k->list[1]);
    free(k->slot);
    free(k->used);
    free(k);
}

size_t steno_cached_decoder_state_bytes(const steno_cached_decoder_state *k)
{
    size_t n = k->biases.bytes + k->cap_rows * sizeof *k->used +
               2 * k->cap_hyps * k->cap_tokens * sizeof(int32_t);
    for (int i = 0; i < k->n_layers; i++)
        n += k->layer[i].rows.bytes + k->layer[i].memories.bytes;
    return n;
}

steno_cached_decoder_state *steno_cached_decoder_own_state(const steno_cached_decoder *s)
{
    return s->own;
}

void steno_cached_decoder_rewind(void *self, int calls)
{
    steno_cached_decoder_state *k = ((struct steno_cached_decoder_search *)self)->state;
    int32_t *swap = k->list[0];
    k->again = true;
    if (!calls)
        return;
    k->list[0] = k->list[1];
    k->list[1] = swap;
    k->n = k->n_before;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Keys and values of a row of zeros, for all layers but the first. */
static steno_status read_zeros(steno_cached_decoder *s, steno_err *err)
{
    struct steno_run run = steno_run_begin(s->once, s->name, err);
    steno_status st = steno_run_end(&run);
    for (int i = 1; i < s->n_layers && !st; i++) {
        const struct steno_tensor *t = steno_session_get(s->once, i - 1);
        struct layer *l = &s->layer[i];
        if (!t || t->dtype != STENO_F32 || steno_numel(t) != l->cache_of.width)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: layer %d has another width", s->name, i);
        if (!reserve_cached_decoder(&l->zero, l->cache_of.width * sizeof(float), 0))
            return no_memory_cached_decoder(s, err);
        memcpy(l->zero.p, t->data, l->cache_of.width * sizeof(float));
    }
    return st;
}

steno_status steno_cached_decoder_open(steno_cached_decoder **out, steno_network *step,
                                       steno_network *once,
                                       const struct steno_cached_decoder_options *opt,
                                       const char *name, steno_err *err)
{
    struct steno_session_options so = {.threads = opt->threads};
    steno_cached_decoder *s = calloc(1, sizeof *s);
    steno_status st = STENO_OK;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    s->o = *opt;
    s->name = name;
    s->net = step;
    s->once_net = once;
    s->n_layers = count_layers(step);
    s->layer = calloc((size_t)s->n_layers + 1, sizeof *s->layer);
    if (!s->layer)
        st = no_memory_cached_decoder(s, err);
    if (!st)
        st = bind_cached_decoder(s, err);
    if (!st)
        st = steno_session_open(&s->step, step, &so, err);
    if (!st && once)
        st = steno_session_open(&s->once, once, &so, err);
    if (!st && !(s->own = steno_cached_decoder_state_new(s)))
        st = no_memory_cached_decoder(s, err);
    if (!st)
        s->own->rewinds = false;
    if (!st && opt->zero_row && !steno_network_n_inputs(once))
        st = read_zeros(s, err);
    if (st)
        steno_cached_decoder_close(s);
    else
        *out = s;
    return st;
}

void steno_cached_decoder_close(steno_cached_decoder *s)
{
    if (!s)
        return;
    steno_session_close(s->step);
    steno_session_close(s->once);
    steno_cached_decoder_state_free(s->own);
    for (int i = 0; s->layer && i < s->n_layers; i++)
        steno_aligned_free(s->layer[i].zero.p);
    free(s->layer);
    free(s->tokens);
    free(s->view);
    free(s);
}

/* ---- an utterance -------------------------------------------------------------------------- */

/* Bytes of a page: STENO_KV_PAGE_KEYS keys and values of one head in bf16. */
static size_t page_bytes(const steno_kernels *k, const struct columns *c)
{
    return steno_kv_page_bytes(k, c->size, c->v_size);
}

/* Give a layer's memory room for `cap` frames instead of `from`; n of them are filled. */
static bool resize_memory(struct block *b, const struct columns *c, size_t from, size_t n,
                          size_t cap)
{
    const size_t k = c->heads * c->size, bytes = cap * c->width * sizeof(float);
    const float *old = b->p;
    float *p = steno_aligned_zeroed(bytes);
    if (!p)
        return false;
    for (size_t i = 0; n && i < k; i++)
        memcpy(p + i * cap, old + i * from, n * sizeof *p);
    for (size_t h = 0; n && h < c->heads; h++)
        memcpy(p + k * cap + h * cap * c->v_size, old + k * from + h * from * c->v_size,
               n * c->v_size * sizeof *p);
    replace_block(b, p, bytes);
    return true;
}

/* The same for a memory in pages. */
static bool resize_pages(const steno_kernels *k, struct block *b, const struct columns *c,
                         size_t from, size_t cap)
{
    const size_t old = from / STENO_KV_PAGE_KEYS * page_bytes(k, c),
                 now = cap / STENO_KV_PAGE_KEYS * page_bytes(k, c);
    char *p = steno_aligned_zeroed(c->heads * now);
    if (!p)
        return false;
    for (size_t h = 0; old && h < c->heads; h++)
        memcpy(p + h * now, (const char *)b->p + h * old, old);
    replace_block(b, p, c->heads * now);
    return true;
}

/* Make room for n frames. An utterance that comes whole gets what it needs; one that comes in
 * blocks gets half as much again each time. */
static bool grow_memory(const steno_cached_decoder *s, steno_cached_decoder_state *k, size_t n)
{
    size_t step = s->kv_kernels ? STENO_KV_PAGE_KEYS : MEMORY_STEP;
    size_t cap = k->n_memory ? k->cap_memory + k->cap_memory / 2 : FIRST_CAP;
    if (n <= k->cap_memory)
        return true;
    cap = ((cap > n ? cap : n) + step - 1) / step * step;
    for (int i = 0; i < s->n_layers; i++) {
        const struct columns *c = &s->layer[i].memory_of;
        struct block *b = &k->layer[i].memories;
        if (!(s->kv_kernels ? resize_pages(s->kv_kernels, b, c, k->cap_memory, cap)
                            : resize_memory(b, c, k->cap_memory, k->n_memory, cap)))
            return false;
    }
    k->cap_memory = cap;
    return true;
}

/* Append rows [n, width] of keys and values to the memory p, from frame `at` on. */
static void add_memory(float *p, size_t cap, const struct columns *c, size_t at, const float *rows,
                       size_t n)
{
    const size_t k = c->heads * c->size;
    float *values = p + k * cap;
    for (size_t r0 = 0; r0 < n; r0 += 16) { /* a cache line of component i of the keys at a time */
        const size_t r1 = n - r0 < 16 ? n : r0 + 16;
        for (size_t i = 0; i < k; i++)
            for (size_t r = r0; r < r1; r++)
                p[i * cap + at + r] = rows[r * c->width + c->k_at + i];
    }
    for (size_t h = 0; h < c->heads; h++)
        for (size_t r = 0; r < n; r++)
            memcpy(values + (h * cap + at + r) * c->v_size,
                   rows + r * c->width + c->v_at + h * c->v_size, c->v_size * sizeof *values);
}

/* The same in bf16, a page at a time. */
static void append_pages(const steno_kernels *k, char *p, size_t cap, const struct columns *c,
                         size_t at, const float *rows, size_t n)
{
    const size_t bytes = page_bytes(k, c);
    for (size_t end = at + n, in; at < end; at += in, rows += in * c->width) {
        const size_t first = at % STENO_KV_PAGE_KEYS;
        in = end - at < STENO_KV_PAGE_KEYS - first ? end - at : STENO_KV_PAGE_KEYS - first;
        for (size_t h = 0; h < c->heads; h++)
            k->kv_append_bf16(p + (h * cap + at) / STENO_KV_PAGE_KEYS * bytes, c->size, c->v_size,
                              first, in, rows + c->k_at + h * c->size, c->width,
                              rows + c->v_at + h * c->v_size, c->width);
    }
}

/* Compute keys and values of n more encoder frames in every layer, and append them. */
static steno_status project(steno_cached_decoder *s, steno_cached_decoder_state *k,
                            const float *frames, size_t n, int64_t dim, steno_err *err)
{
    struct steno_run run = steno_run_begin(s->once, s->name, err);
    steno_status st;
    if (!grow_memory(s, k, k->n_memory + n))
        return no_memory_cached_decoder(s, err);
    steno_run_set(&run, 0, STENO_F32, (const int64_t[]){1, (int64_t)n, dim}, 3, frames);
    st = steno_run_end(&run);
    for (int i = 0; i < s->n_layers && !st; i++) {
        const struct steno_tensor *kv = steno_session_get(s->once, i);
        const struct columns *c = &s->layer[i].memory_of;
        if (kv->dtype != STENO_F32 || steno_numel(kv) != n * c->width)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: layer %d makes keys of %zu numbers from %zu frames", s->name, i,
                              steno_numel(kv), n);
        if (s->kv_kernels)
            append_pages(s->kv_kernels, k->layer[i].memories.p, k->cap_memory, c, k->n_memory,
                         kv->data, n);
        else
            add_memory(k->layer[i].memories.p, k->cap_memory, c, k->n_memory, kv->data, n);
    }
    if (!st)
        k->n_memory += n;
    return st;
}

/* Pages must be zero behind their frames: attention multiplies what is there by weights of 0, and a
 * NaN of an earlier utterance would come through. */
static void clear_pages(const steno_cached_decoder *s, steno_cached_decoder_state *k)
{
    for (int i = 0; s->kv_kernels && k->cap_memory && i < s->n_layers; i++)
        memset(k->layer[i].memories.p, 0, k->layer[i].memories.bytes);
}

steno_status steno_cached_decoder_start(steno_cached_decoder *s, steno_cached_decoder_state *k,
                                        const float *frames, size_t n, int64_t dim, size_t beam,
                                        steno_err *err)
{
    clear_pages(s, k);
    k->beam = beam;
    k->n_memory = k->n = k->n_before = 0;
    k->again = false;
    return steno_cached_decoder_extend(s, k, frames, n, dim, err);
}

steno_status steno_cached_decoder_extend(steno_cached_decoder *s, steno_cached_decoder_state *k,
                                         const float *frames, size_t n, int64_t dim, steno_err *err)
{
    return s->layer[0].memory_of.heads && n ? project(s, k, frames, n, dim, err) : STENO_OK;
}

void steno_cached_decoder_trim(steno_cached_decoder *s)
{
    if (s->once)
        steno_session_trim(s->once, false);
}

/* ---- one step ------------------------------------------------------------------------------ */

/* Number of hypotheses to run for n of them: a quarter, half or three quarters of the beam, or
 * whole beams. */
static size_t rounded(size_t beam, size_t n)
{
    size_t quarter = (beam + 3) / 4, m = (n + quarter - 1) / quarter * quarter;
    if (n <= 1)
        return n;
    return n > beam ? (n + beam - 1) / beam * beam : m < beam ? m : beam;
}

/* The list of a hypothesis is its parent's list and the row of the parent's newest token. */
static void reorder(steno_cached_decoder_state *k, const int32_t *parent, size_t n, size_t count)
{
    int32_t *swap = k->list[0];
    for (size_t i = 0; i < n; i++) {
        int32_t *to = k->list[1] + i * k->cap_tokens;
        size_t p = (size_t)parent[i];
        memcpy(to, k->list[0] + p * k->cap_tokens, (count - 1) * sizeof *to);
        to[count - 1] = k->slot[p];
    }
    k->list[0] = k->list[1];
    k->list[1] = swap;
}

static void mark_used(steno_cached_decoder_state *k, const int32_t *list, size_t n, size_t count)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < count; c++)
            k->used[list[i * k->cap_tokens + c]] = k->now;
}

/* Choose rows for the newest tokens: any that no list names. */
static bool choose_slots(const steno_cached_decoder *s, steno_cached_decoder_state *k, size_t n,
                         size_t count)
{
    size_t at = 0;
    if (!++k->now) { /* after 2^32 steps */
        memset(k->used, 0, k->cap_rows * sizeof *k->used);
        k->now = 1;
    }
    mark_used(k, k->list[0], n, count);
    if (k->rewinds && count && !k->again)
        mark_used(k, k->list[1], k->n_before, count - 1);
    for (size_t i = 0; i < n; i++) {
        while (at < k->cap_rows && k->used[at] == k->now)
            at++;
        if (at == k->cap_rows && !grow_rows(s, k, k->cap_rows + 1))
            return false;
        k->slot[i] = (int32_t)at++;
    }
    return true;
}

static void make_views(const steno_cached_decoder *s, steno_cached_decoder_state *k, size_t count)
{
    for (int i = 0; i < s->n_layers; i++) {
        struct steno_kv_layer *v = &k->view[i];
        v->own = (struct steno_kv_rows){k->layer[i].rows.p, k->cap_rows, count};
        v->memory = (struct steno_kv_rows){s->kv_kernels ? NULL : k->layer[i].memories.p,
                                           k->cap_memory, k->n_memory};
        v->pages = s->kv_kernels ? k->layer[i].memories.p : NULL;
        if (!count && s->o.zero_row && i) {
            put_row(k->layer[i].rows.p, k->cap_rows, &s->layer[i].cache_of, 0, s->layer[i].zero.p);
            v->own.n = 1;
        }
    }
}

/* Prepare the lists, rows and views of one search's step. */
static bool prepare_cached_decoder(const steno_cached_decoder *s, steno_cached_decoder_state *k,
                                   const struct steno_score_request *r)
{
    size_t count = r->length - 1, n = r->n;
    if (!grow_lists(k, n > k->beam ? n : k->beam, r->length + 1) || !grow_rows(s, k, 2 * n))
        return false;
    if (count && !k->again) {
        reorder(k, r->parent, n, count);
        k->n_before = k->n;
    }
    k->n = n;
    if (!choose_slots(s, k, n, count))
        return false;
    k->again = false;
    for (size_t i = 0; !count && i < n; i++)
        k->list[0][i * k->cap_tokens] = 0;
    if (!count)
        ((float *)k->biases.p)[0] = 0;
    make_views(s, k, count);
    return true;
}

static steno_cached_decoder_state *state_of(const struct steno_score_request *r)
{
    return ((const struct steno_cached_decoder_search *)r->self)->state;
}

/* m: hypotheses to run_cached_decoder; those after the requested ones are padding. */
static void set_inputs_cached_decoder(steno_cached_decoder *s, const struct steno_score_request *r,
                                      size_t n, size_t m, struct steno_run *run)
{
    const int64_t dim[] = {(int64_t)m, 1};
    size_t at = 0;
    if (!grow_inputs(s, m, n)) {
        run->st = steno_fail(run->err, STENO_ERR_NOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const steno_cached_decoder_state *k = state_of(&r[i]);
        s->view[i] = (struct steno_kv_view){.hyps = r[i].n,
                                            .index = k->list[0],
                                            .index_row = k->cap_tokens,
                                            .bias = s->new_bias < 0 ? NULL : k->biases.p,
                                            .layer = k->view,
                                            .n_layers = (size_t)s->n_layers};
        for (size_t h = 0; h < r[i].n; h++, at++) {
            s->tokens[at] = r[i].prefix[h][r[i].length - 1];
            s->places[at] = (int64_t)r[i].length - 1;
        }
    }
    for (; at < m; at++)
        s->tokens[at] = s->places[at] = 0;
    s->kv_binding = (struct steno_kv_binding){s->view, n};
    steno_session_bind_kv(s->step, &s->kv_binding);
    steno_run_set(run, s->tgt, STENO_I64, dim, 2, s->tokens);
    steno_run_set(run, s->position, STENO_I64, dim, 1, s->places);
}

/* Store the run's keys and values of hypotheses from `at` on in the rows chosen for them. */
static steno_status store_rows(steno_cached_decoder *s, const struct steno_score_request *r,
                               size_t at, size_t m, steno_err *err)
{
    steno_cached_decoder_state *k = state_of(r);
    const struct steno_tensor *t;
    for (int i = 0; i < s->n_layers; i++) {
        const struct layer *l = &s->layer[i];
        t = steno_session_get(s->step, l->new_row);
        if (t->dtype != STENO_F32 || steno_numel(t) != m * l->cache_of.width)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: layer %d gave rows of another width",
                              s->name, i);
        for (size_t h = 0; h < r->n; h++)
            put_row(k->layer[i].rows.p, k->cap_rows, &l->cache_of, (size_t)k->slot[h],
                    (const float *)t->data + (at + h) * l->cache_of.width);
    }
    t = s->new_bias < 0 ? NULL : steno_session_get(s->step, s->new_bias);
    for (size_t h = 0; t && h < r->n; h++)
        ((float *)k->biases.p)[k->slot[h]] =
            ((const float *)t->data)[steno_numel(t) == m ? at + h : 0];
    return STENO_OK;
}

/* Run the hypotheses of n prepared searches at once. */
static steno_status run_cached_decoder(steno_cached_decoder *s, const struct steno_score_request *r,
                                       size_t n, steno_err *err)
{
    const size_t vocab = (size_t)s->o.vocab;
    const struct steno_tensor *y;
    struct steno_run run = steno_run_begin(s->step, s->name, err);
    size_t all = 0, m, at = 0;
    steno_status st;
    for (size_t i = 0; i < n; i++)
        all += r[i].n;
    m = rounded(state_of(r)->beam, all);
    set_inputs_cached_decoder(s, r, n, m, &run);
    st = steno_run_end(&run);
    if (st)
        return st;
    y = steno_session_get(s->step, s->y);
    if (y->dtype != STENO_F32 || steno_numel(y) != m * vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: y has %zu scores for %zu prefixes, the token list has %d entries",
                          s->name, steno_numel(y), m, (int)s->o.vocab);
    for (size_t i = 0; i < n && !st; at += r[i++].n) {
        memcpy(r[i].out, (const float *)y->data + at * vocab, r[i].n * vocab * sizeof *r[i].out);
        st = store_rows(s, &r[i], at, m, err);
    }
    return st;
}

/* Like run. If it fails, run each search alone, so that none fails because of another. */
static void run_or_each(steno_cached_decoder *s, struct steno_score_request *r, size_t n)
{
    if (n > 1 && run_cached_decoder(s, r, n, NULL) == STENO_OK)
        return;
    for (size_t i = 0; i < n; i++)
        r[i].st = run_cached_decoder(s, &r[i], 1, r[i].err);
}

void steno_cached_decoder_score_each(struct steno_score_request *r, size_t n)
{
    steno_cached_decoder *s = ((struct steno_cached_decoder_search *)r->self)->decoder;
    for (size_t i = 0; i < n; i++)
        r[i].st = prepare_cached_decoder(s, state_of(&r[i]), &r[i])
                      ? STENO_OK
                      : no_memory_cached_decoder(s, r[i].err);
    for (size_t i = 0, end; i<n; i = end> i ? end : i + 1) {
        size_t hyps = 0;
        for (end = i; end < n && !r[end].st && (end == i || hyps + r[end].n <= MOST_HYPS); end++)
            hyps += r[end].n;
        run_or_each(s, r + i, end - i);
    }
}

size_t steno_cached_decoder_bytes(const steno_cached_decoder *s)
{
    size_t n = steno_session_arena_bytes(s->step) + steno_cached_decoder_state_bytes(s->own);
    return s->once ? n + steno_session_arena_bytes(s->once) : n;
}
