/* Every token of every hypothesis has a row in each layer's cache. Rows never move: hypotheses have
 * a list of the rows that are their prefix (index), and where the beam is reordered, the lists are.
 * Rows that no list names are written again; hypotheses of a beam have most of their past in
 * common, so that there are not many more rows than tokens.
 *
 * Both lie by heads, as attention reads them (ops/op_cached_attention.c). A row of the cache has its
 * number in each head: [heads, cap_rows, size + v_size], a key and its value. Of the utterance's rows there
 * are for each layer keys [heads, size, cap_memory], then values [heads, cap_memory, v_size].
 *
 * All shapes but the number of hypotheses stay as they are from step to step and from utterance to
 * utterance (caches and lists grow by doubling, memory by half, counts say how much of them is in use), and
 * the number of hypotheses is rounded up to a quarter of the beam: the session keeps a plan for
 * each and makes none in steady state. */
#include "models/espnet_step.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define FIRST_ROWS 128 /* of keys and values */
#define FIRST_CAP 128  /* tokens, rows of the encoder */
#define MEMORY_STEP 32 /* rows: a whole panel of the products */

struct block { /* aligned, growing */
    void *p;
    size_t bytes;
};

/* The keys and values in a row that a network gives out. */
struct columns {
    size_t width, heads, size, v_size, k_at, v_at;
};

struct layer {
    int cache, fresh, memory; /* inputs and output of the step; memory -1: none */
    struct columns cache_of, memory_of;
    struct block zero;
};

/* What one search keeps from step to step. */
struct steno_estep_state {
    int n_layers;
    struct kept {
        struct block rows, memories;
    } *layer;
    size_t beam;         /* of this utterance */
    size_t cap_rows;     /* of the caches */
    size_t cap_tokens;   /* columns of the lists */
    size_t cap_memory;   /* rows of the memories */
    size_t n_memory;     /* ... in use */
    size_t cap_hyps;     /* rows of the lists, and of what follows */
    int32_t *list[2];    /* [cap_hyps, cap_tokens]: now, and those of the step before */
    int32_t *slot;       /* [cap_hyps] rows of the newest tokens */
    uint32_t *used;      /* [cap_rows] step that last saw the row in use */
    uint32_t now;
    struct block biases; /* [cap_rows] */
    bool rewinds;        /* rows of the step before stay, so that it can be gone back to */
    bool again;          /* the next step is one that was done before */
    size_t n, n_before;  /* hypotheses of list[0] and list[1] */
};

struct steno_estep {
    struct steno_estep_options o;
    const char *name;
    steno_session *step, *once;
    const steno_network *net, *once_net;
    int tgt, position, counts, index, bias, y, new_bias; /* -1: none */
    struct layer *layer;
    int n_layers;
    int64_t *count;              /* [layers + 1] */
    int64_t *tokens;             /* [cap_tokens] */
    size_t cap_tokens;
    int64_t place;               /* position */
    steno_estep_state *own, *st; /* st: the one in use */
};

static steno_status no_memory(const steno_estep *s, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
}

/* Room for `bytes`, of which `keep` stay as they are; what is new is zero. */
static bool reserve(struct block *b, size_t bytes, size_t keep)
{
    void *p;
    if (bytes <= b->bytes)
        return true;
    p = steno_aligned_alloc(bytes);
    if (!p)
        return false;
    if (keep)
        memcpy(p, b->p, keep);
    memset((char *)p + keep, 0, bytes - keep);
    steno_aligned_free(b->p);
    b->p = p;
    b->bytes = bytes;
    return true;
}

/* ---- binding ------------------------------------------------------------------------------- */

static size_t width_of(const struct steno_value *v)
{
    return v->shape.rank > 0 && v->shape.dim[v->shape.rank - 1] > 0
               ? (size_t)v->shape.dim[v->shape.rank - 1]
               : 0;
}

static int in_order(const char *name, const char *prefix, int *at)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) || name[n] != '_')
        return -1;
    return (*at)++;
}

static size_t attribute(const struct steno_node *n, const char *name)
{
    int64_t v = steno_node_int(n, name, 0);
    return v > 0 ? (size_t)v : 0;
}

/* As the attention that reads input i takes its rows; heads 0: none does. */
static struct columns columns_of(const steno_network *net, int i)
{
    const struct steno_graph *g = steno_network_graph(net);
    struct columns c = {0};
    for (int32_t k = 0; k < g->n_nodes; k++) {
        const struct steno_node *n = &g->nodes[k];
        if (n->dead || strcmp(n->op_type, "CachedAttention") != 0 || n->n_in < 2 ||
            n->in[1] != g->inputs[i])
            continue;
        c.heads = attribute(n, "heads");
        c.size = attribute(n, "size");
        c.v_size = attribute(n, "v_size");
        c.k_at = attribute(n, "k_at");
        c.v_at = attribute(n, "v_at");
    }
    return c;
}

static bool fits(const struct columns *c)
{
    const size_t k = c->heads * c->size, v = c->heads * c->v_size;
    return c->heads && k + v <= c->width && c->k_at + k <= c->width && c->v_at + v <= c->width;
}

static steno_status bind(steno_estep *s, steno_err *err)
{
    int caches = 0, fresh = 0, memories = 0, i;
    s->position = s->bias = s->new_bias = s->tgt = s->counts = s->index = s->y = -1;
    for (i = 0; i < steno_network_n_inputs(s->net); i++) {
        const struct steno_value *v = steno_network_input(s->net, i);
        int at = in_order(v->name, "cache", &caches);
        if (at >= 0) {
            s->layer[at].cache = i;
            s->layer[at].cache_of = columns_of(s->net, i);
            s->layer[at].cache_of.width = width_of(v);
        } else if ((at = in_order(v->name, "memory", &memories)) >= 0) {
            s->layer[at].memory = i;
            s->layer[at].memory_of = columns_of(s->net, i);
            s->layer[at].memory_of.width = width_of(v);
        }
    }
    s->tgt = steno_network_find_input(s->net, "tgt");
    s->position = steno_network_find_input(s->net, "position");
    s->counts = steno_network_find_input(s->net, "counts");
    s->index = steno_network_find_input(s->net, "index");
    s->bias = steno_network_find_input(s->net, "bias");
    s->y = steno_network_find_output(s->net, "y");
    s->new_bias = steno_network_find_output(s->net, "new_bias");
    for (i = 0; i < steno_network_n_outputs(s->net); i++)
        if (i != s->new_bias &&
            strncmp(steno_network_output(s->net, i)->name, "new_", 4) == 0 && fresh < s->n_layers)
            s->layer[fresh++].fresh = i;
    for (i = 0; i < s->n_layers; i++)
        if (!fits(&s->layer[i].cache_of) || (memories && !fits(&s->layer[i].memory_of)))
            caches = -1;
    if (caches != s->n_layers || fresh != s->n_layers || (memories && memories != s->n_layers) ||
        s->tgt < 0 || s->counts < 0 || s->index < 0 || s->y < 0 || (memories && !s->once_net))
        return steno_fail(err, STENO_ERR_INTERNAL, "%s: not a network for single steps", s->name);
    return STENO_OK;
}

static int count_caches(const steno_network *net)
{
    int n = 0, at = 0;
    for (int i = 0; i < steno_network_n_inputs(net); i++)
        n += in_order(steno_network_input(net, i)->name, "cache", &at) >= 0;
    return n;
}

/* ---- room ---------------------------------------------------------------------------------- */

/* Zeros for `cap` rows of a layer, in place of what a block has. */
static float *new_rows(const struct columns *c, size_t cap)
{
    size_t n = cap * c->width * sizeof(float);
    float *p = steno_aligned_alloc(n);
    return p ? memset(p, 0, n) : NULL;
}

static void put_rows(struct block *b, float *p, const struct columns *c, size_t cap)
{
    steno_aligned_free(b->p);
    b->p = p;
    b->bytes = cap * c->width * sizeof *p;
}

/* A layer's cache with room for `cap` rows instead of `from`. */
static bool spread_rows(struct block *b, const struct columns *c, size_t from, size_t cap)
{
    const size_t pair = c->size + c->v_size;
    float *p = new_rows(c, cap);
    if (!p)
        return false;
    for (size_t h = 0; from && h < c->heads; h++)
        memcpy(p + h * cap * pair, (const float *)b->p + h * from * pair, from * pair * sizeof *p);
    put_rows(b, p, c, cap);
    return true;
}

/* Row `at` of a layer's cache of `cap` rows is x [width]. */
static void put_row(float *cache, size_t cap, const struct columns *c, size_t at, const float *x)
{
    const size_t pair = c->size + c->v_size;
    for (size_t h = 0; h < c->heads; h++) {
        float *to = cache + (h * cap + at) * pair;
        memcpy(to, x + c->k_at + h * c->size, c->size * sizeof *to);
        memcpy(to + c->size, x + c->v_at + h * c->v_size, c->v_size * sizeof *to);
    }
}

static bool grow_rows(steno_estep *s, size_t want)
{
    steno_estep_state *k = s->st;
    size_t cap = k->cap_rows ? k->cap_rows : FIRST_ROWS;
    uint32_t *used;
    while (cap < want) /* by quarters: rows are the most of what a search holds */
        cap += cap / 4;
    if (cap == k->cap_rows)
        return true;
    for (int i = 0; i < s->n_layers; i++)
        if (!spread_rows(&k->layer[i].rows, &s->layer[i].cache_of, k->cap_rows, cap))
            return false;
    if (!reserve(&k->biases, cap * sizeof(float), k->cap_rows * sizeof(float)))
        return false;
    used = realloc(k->used, cap * sizeof *used);
    if (!used)
        return false;
    memset(used + k->cap_rows, 0, (cap - k->cap_rows) * sizeof *used);
    k->used = used;
    k->cap_rows = cap;
    return true;
}

/* Lists of `tokens` columns for `hyps` hypotheses; those there are stay. */
static bool grow_lists(steno_estep_state *k, size_t hyps, size_t tokens)
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

static bool grow_input(steno_estep *s, size_t hyps)
{
    int64_t *t;
    if (hyps <= s->cap_tokens)
        return true;
    t = realloc(s->tokens, hyps * sizeof *t);
    if (!t)
        return false;
    s->tokens = t;
    s->cap_tokens = hyps;
    return true;
}

/* ---- state --------------------------------------------------------------------------------- */

steno_estep_state *steno_estep_state_new(const steno_estep *s)
{
    steno_estep_state *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->n_layers = s->n_layers;
    k->rewinds = true;
    k->layer = calloc((size_t)k->n_layers + 1, sizeof *k->layer);
    if (k->layer)
        return k;
    free(k);
    return NULL;
}

void steno_estep_state_free(steno_estep_state *k)
{
    if (!k)
        return;
    for (int i = 0; i < k->n_layers; i++) {
        steno_aligned_free(k->layer[i].rows.p);
        steno_aligned_free(k->layer[i].memories.p);
    }
    steno_aligned_free(k->biases.p);
    free(k->layer);
    free(k->list[0]);
    free(k->list[1]);
    free(k->slot);
    free(k->used);
    free(k);
}

size_t steno_estep_state_bytes(const steno_estep_state *k)
{
    size_t n = k->biases.bytes + k->cap_rows * sizeof *k->used +
               2 * k->cap_hyps * k->cap_tokens * sizeof(int32_t);
    for (int i = 0; i < k->n_layers; i++)
        n += k->layer[i].rows.bytes + k->layer[i].memories.bytes;
    return n;
}

void steno_estep_use(steno_estep *s, steno_estep_state *k)
{
    s->st = k ? k : s->own;
}

void steno_estep_rewind(void *self, int calls)
{
    steno_estep_state *k = ((steno_estep *)self)->st;
    int32_t *swap = k->list[0];
    k->again = true;
    if (!calls)
        return;
    k->list[0] = k->list[1];
    k->list[1] = swap;
    k->n = k->n_before;
}

/* ---- opening ------------------------------------------------------------------------------- */

static steno_status run_once(steno_estep *s, steno_err *err)
{
    steno_status st = steno_session_run(s->once, err);
    return st ? steno_fail_in(err, st, "%s", s->name) : STENO_OK;
}

/* Keys and values of a row of zeros, for all layers but the first. */
static steno_status read_zeros(steno_estep *s, steno_err *err)
{
    steno_status st = run_once(s, err);
    for (int i = 1; i < s->n_layers && !st; i++) {
        const struct steno_tensor *t = steno_session_get(s->once, i - 1);
        struct layer *l = &s->layer[i];
        if (!t || t->dtype != STENO_F32 || steno_numel(t) != l->cache_of.width)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: layer %d has another width", s->name, i);
        if (!reserve(&l->zero, l->cache_of.width * sizeof(float), 0))
            return no_memory(s, err);
        memcpy(l->zero.p, t->data, l->cache_of.width * sizeof(float));
    }
    return st;
}

steno_status steno_estep_open(steno_estep **out, steno_network *step, steno_network *once,
                              const struct steno_estep_options *opt, const char *name,
                              steno_err *err)
{
    struct steno_session_options so = {.threads = opt->threads};
    steno_estep *s = calloc(1, sizeof *s);
    steno_status st = STENO_OK;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    s->o = *opt;
    s->name = name;
    s->net = step;
    s->once_net = once;
    s->n_layers = count_caches(step);
    s->layer = calloc((size_t)s->n_layers + 1, sizeof *s->layer);
    s->count = calloc((size_t)s->n_layers + 1, sizeof *s->count);
    for (int i = 0; s->layer && i < s->n_layers; i++)
        s->layer[i].memory = -1;
    if (!s->layer || !s->count)
        st = no_memory(s, err);
    if (!st)
        st = bind(s, err);
    if (!st)
        st = steno_session_open(&s->step, step, &so, err);
    if (!st && once)
        st = steno_session_open(&s->once, once, &so, err);
    if (!st && !(s->own = steno_estep_state_new(s)))
        st = no_memory(s, err);
    if (!st)
        s->own->rewinds = false;
    s->st = s->own;
    if (!st && opt->first_row && !steno_network_n_inputs(once))
        st = read_zeros(s, err);
    if (st)
        steno_estep_close(s);
    else
        *out = s;
    return st;
}

void steno_estep_close(steno_estep *s)
{
    if (!s)
        return;
    steno_session_close(s->step);
    steno_session_close(s->once);
    steno_estep_state_free(s->own);
    for (int i = 0; s->layer && i < s->n_layers; i++)
        steno_aligned_free(s->layer[i].zero.p);
    free(s->layer);
    free(s->count);
    free(s->tokens);
    free(s);
}

/* ---- an utterance -------------------------------------------------------------------------- */

/* A layer's memory with room for `cap` rows instead of `from`, n of which are there. */
static bool spread_memory(struct block *b, const struct columns *c, size_t from, size_t n, size_t cap)
{
    const size_t k = c->heads * c->size;
    const float *old = b->p;
    float *p = new_rows(c, cap);
    if (!p)
        return false;
    for (size_t i = 0; n && i < k; i++)
        memcpy(p + i * cap, old + i * from, n * sizeof *p);
    for (size_t h = 0; n && h < c->heads; h++)
        memcpy(p + k * cap + h * cap * c->v_size, old + k * from + h * from * c->v_size,
               n * c->v_size * sizeof *p);
    put_rows(b, p, c, cap);
    return true;
}

/* Room for n rows. An utterance that comes at one go gets what it needs, one that comes in blocks half as
 * much again each time. */
static bool grow_memory(steno_estep *s, size_t n)
{
    steno_estep_state *k = s->st;
    size_t cap = k->n_memory ? k->cap_memory + k->cap_memory / 2 : FIRST_CAP;
    if (n <= k->cap_memory)
        return true;
    cap = ((cap > n ? cap : n) + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP;
    for (int i = 0; i < s->n_layers; i++) {
        const struct columns *c = &s->layer[i].memory_of;
        if (!spread_memory(&k->layer[i].memories, c, k->cap_memory, k->n_memory, cap))
            return false;
    }
    k->cap_memory = cap;
    return true;
}

/* Rows [n, width] of keys and values become numbers `at` and on of the memory p. */
static void add_memory(float *p, size_t cap, const struct columns *c, size_t at, const float *rows,
                       size_t n)
{
    const size_t k = c->heads * c->size;
    float *values = p + k * cap;
    for (size_t r0 = 0; r0 < n; r0 += 16) { /* a cache line of each key's number i at a time */
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

/* n more of the utterance's rows through keys and values of every layer. */
static steno_status project(steno_estep *s, const float *rows, size_t n, int64_t dim,
                            steno_err *err)
{
    struct steno_tensor t = {.dtype = STENO_F32,
                             .shape = {.rank = 3, .dim = {1, (int64_t)n, dim}}};
    steno_estep_state *k = s->st;
    steno_status st;
    memcpy(&t.data, &rows, sizeof t.data); /* inputs are only read */
    if (!grow_memory(s, k->n_memory + n))
        return no_memory(s, err);
    st = steno_session_set(s->once, 0, &t, err);
    if (!st)
        st = run_once(s, err);
    for (int i = 0; i < s->n_layers && !st; i++) {
        const struct steno_tensor *kv = steno_session_get(s->once, i);
        const struct columns *c = &s->layer[i].memory_of;
        if (kv->dtype != STENO_F32 || steno_numel(kv) != n * c->width)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: layer %d makes keys of %zu numbers from %zu rows", s->name, i,
                              steno_numel(kv), n);
        add_memory(k->layer[i].memories.p, k->cap_memory, c, k->n_memory, kv->data, n);
    }
    if (!st)
        k->n_memory += n;
    return st;
}

steno_status steno_estep_start(steno_estep *s, const float *rows, size_t n, int64_t dim,
                               size_t beam, steno_err *err)
{
    s->st->beam = beam;
    s->st->n_memory = s->st->n = s->st->n_before = 0;
    s->st->again = false;
    return steno_estep_extend(s, rows, n, dim, err);
}

steno_status steno_estep_extend(steno_estep *s, const float *rows, size_t n, int64_t dim,
                                steno_err *err)
{
    bool reads = s->n_layers && s->layer[0].memory >= 0;
    return reads && n ? project(s, rows, n, dim, err) : STENO_OK;
}

void steno_estep_rest(steno_estep *s)
{
    if (s->once)
        steno_session_rest(s->once, false);
}

/* ---- one step ------------------------------------------------------------------------------ */

/* Number of hypotheses to run for n: the beam, or a quarter, half or three quarters of it. */
static size_t rounded(const steno_estep_state *k, size_t n)
{
    size_t quarter = (k->beam + 3) / 4, m;
    if (n <= 1 || n >= k->beam)
        return n;
    m = (n + quarter - 1) / quarter * quarter;
    return m < k->beam ? m : k->beam;
}

/* Lists of the hypotheses that go on: those of the step before, and their rows. */
static void reorder(steno_estep_state *k, const int32_t *parent, size_t n, size_t count)
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

static void mark_used(steno_estep_state *k, const int32_t *list, size_t n, size_t count)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < count; c++)
            k->used[list[i * k->cap_tokens + c]] = k->now;
}

/* Rows for the newest tokens: any that no list names. */
static bool choose_slots(steno_estep *s, size_t n, size_t count)
{
    steno_estep_state *k = s->st;
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
        if (at == k->cap_rows && !grow_rows(s, k->cap_rows + 1))
            return false;
        k->slot[i] = (int32_t)at++;
    }
    return true;
}

static void set_counts(steno_estep *s, size_t count)
{
    steno_estep_state *k = s->st;
    s->place = (int64_t)count;
    for (int i = 0; i < s->n_layers; i++)
        s->count[i] = (int64_t)count;
    s->count[s->n_layers] = (int64_t)k->n_memory;
    if (!count && s->o.first_row)
        for (int i = 1; i < s->n_layers; i++) {
            put_row(k->layer[i].rows.p, k->cap_rows, &s->layer[i].cache_of, 0, s->layer[i].zero.p);
            s->count[i] = 1;
        }
}

/* Everything of a step but the run: lists, rows, tokens, counts. m: hypotheses to be run. */
static bool prepare(steno_estep *s, const int32_t *const *prefix, size_t length,
                    const int32_t *parent, size_t n, size_t m)
{
    steno_estep_state *k = s->st;
    size_t count = length - 1;
    if (!grow_lists(k, m > k->beam ? m : k->beam, length + 1) || !grow_rows(s, 2 * n) ||
        !grow_input(s, m))
        return false;
    if (count && !k->again) {
        reorder(k, parent, n, count);
        k->n_before = k->n;
    }
    k->n = n;
    if (!choose_slots(s, n, count))
        return false;
    k->again = false;
    for (size_t i = 0; i < m; i++) {
        size_t from = i < n ? i : 0; /* as many as the plan is for: the first one again */
        s->tokens[i] = prefix[from][count];
        if (from != i)
            memcpy(k->list[0] + i * k->cap_tokens, k->list[0], count * sizeof(int32_t));
    }
    set_counts(s, count);
    for (size_t i = 0; !count && i < m; i++)
        k->list[0][i * k->cap_tokens] = 0;
    if (!count)
        ((float *)k->biases.p)[0] = 0;
    return true;
}

static steno_status set(steno_estep *s, int input, steno_dtype type, void *data, int rank,
                        size_t rows, size_t cols, steno_err *err)
{
    struct steno_tensor t = {.dtype = type,
                             .shape = {.rank = rank, .dim = {(int64_t)rows, (int64_t)cols}},
                             .data = data};
    return input < 0 ? STENO_OK : steno_session_set(s->step, input, &t, err);
}

static steno_status set_inputs(steno_estep *s, size_t m, steno_err *err)
{
    steno_estep_state *k = s->st;
    steno_status st = set(s, s->tgt, STENO_I64, s->tokens, 2, m, 1, err);
    if (!st)
        st = set(s, s->position, STENO_I64, &s->place, 1, 1, 0, err);
    if (!st)
        st = set(s, s->counts, STENO_I64, s->count, 1, (size_t)s->n_layers + 1, 0, err);
    if (!st)
        st = set(s, s->index, STENO_I32, k->list[0], 2, m, k->cap_tokens, err);
    if (!st)
        st = set(s, s->bias, STENO_F32, k->biases.p, 1, k->cap_rows, 0, err);
    for (int i = 0; i < s->n_layers && !st; i++) {
        const struct layer *l = &s->layer[i];
        struct kept *kept = &k->layer[i];
        st = set(s, l->cache, STENO_F32, kept->rows.p, 2, k->cap_rows, l->cache_of.width,
                 err);
        if (!st)
            st = set(s, l->memory, STENO_F32, kept->memories.p, 2, k->cap_memory,
                     l->memory_of.width,
                     err);
    }
    return st;
}

/* The run's keys and values go to the rows chosen for them. */
static steno_status keep(steno_estep *s, size_t n, size_t m, steno_err *err)
{
    steno_estep_state *k = s->st;
    const struct steno_tensor *t;
    for (int i = 0; i < s->n_layers; i++) {
        const struct layer *l = &s->layer[i];
        t = steno_session_get(s->step, l->fresh);
        if (t->dtype != STENO_F32 || steno_numel(t) != m * l->cache_of.width)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: layer %d gave rows of another width",
                              s->name, i);
        for (size_t h = 0; h < n; h++)
            put_row(k->layer[i].rows.p, k->cap_rows, &l->cache_of, (size_t)k->slot[h],
                    (const float *)t->data + h * l->cache_of.width);
    }
    t = s->new_bias < 0 ? NULL : steno_session_get(s->step, s->new_bias);
    for (size_t h = 0; t && h < n; h++)
        ((float *)k->biases.p)[k->slot[h]] =
            ((const float *)t->data)[steno_numel(t) == m ? h : 0];
    return STENO_OK;
}

steno_status steno_estep_score(void *self, const int32_t *const *prefix, size_t length,
                               const int32_t *parent, size_t n, float *out, steno_err *err)
{
    steno_estep *s = self;
    const struct steno_tensor *y;
    size_t m = rounded(s->st, n);
    steno_status st = prepare(s, prefix, length, parent, n, m) ? STENO_OK : no_memory(s, err);
    if (!st)
        st = set_inputs(s, m, err);
    if (!st)
        st = steno_session_run(s->step, err);
    if (st)
        return steno_fail_in(err, st, "%s", s->name);
    y = steno_session_get(s->step, s->y);
    if (y->dtype != STENO_F32 || steno_numel(y) != m * (size_t)s->o.vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: y has %zu scores for %zu prefixes, the token list has %d entries",
                          s->name, steno_numel(y), m, (int)s->o.vocab);
    memcpy(out, y->data, n * (size_t)s->o.vocab * sizeof *out);
    return keep(s, n, m, err);
}

size_t steno_estep_bytes(const steno_estep *s)
{
    size_t n = steno_session_arena_bytes(s->step) + steno_estep_state_bytes(s->own);
    return s->once ? n + steno_session_arena_bytes(s->once) : n;
}
