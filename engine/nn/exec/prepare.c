/* Prepares operators: attribute checks, packed weights. Weights are held once: a constant is
 * dropped when every reader has packed it. */
#include "nn/exec/internal.h"

#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct steno_prepare {
    struct steno_graph *g;
    const struct steno_node *node;
    const steno_kernels *k;
    uint32_t *consumed; /* by value id: readers that have their own copy; NULL: not counted */
    uint32_t *cached;   /* by value id: readers whose copy is in the store */
    uint32_t *read;     /* by value id: readers so far */
    struct steno_packed_store *store;
    size_t packed;
    size_t of_node;     /* bytes that this node has packed or shares */
    uint32_t packed_in; /* inputs that this node has packed, as bits */
    bool overflowed;    /* of the next block */
    enum steno_precision precision;
    struct steno_precision_report *report; /* or NULL */
};

const struct steno_node *steno_prepare_node_of(const struct steno_prepare *pc)
{
    return pc->node;
}

static const struct steno_value *value(const struct steno_prepare *pc, int in)
{
    if (in < 0 || in >= pc->node->n_in || pc->node->in[in] == STENO_NONE)
        return NULL;
    return &pc->g->values[pc->node->in[in]];
}

const struct steno_tensor *steno_prepare_const(const struct steno_prepare *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    return v ? v->constant : NULL;
}

struct steno_shape steno_prepare_shape(const struct steno_prepare *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    struct steno_shape none = {.rank = STENO_RANK_ANY};
    return v ? v->shape : none;
}

steno_dtype steno_prepare_dtype(const struct steno_prepare *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    return v ? v->dtype : STENO_DT_NONE;
}

const steno_kernels *steno_prepare_kernels(const struct steno_prepare *pc)
{
    return pc->k;
}

void steno_prepare_consumed(struct steno_prepare *pc, int in)
{
    if (!value(pc, in))
        return;
    if (pc->consumed)
        pc->consumed[pc->node->in[in]]++;
    pc->packed_in |= in < 32 ? (uint32_t)1 << in : 0;
}

void steno_prepare_packed(struct steno_prepare *pc, size_t bytes)
{
    pc->packed += bytes;
    pc->of_node += bytes;
}

enum steno_precision steno_prepare_precision(const struct steno_prepare *pc)
{
    return pc->precision;
}

void steno_prepare_rounded(struct steno_prepare *pc, const float *w, size_t n, bool lowered,
                           double square_error)
{
    struct steno_precision_report *r = pc->report;
    double square, error;
    if (!r)
        return;
    r->products++;
    if (!lowered)
        return;
    square = steno_square_sum(w, n);
    error = square > 0 ? sqrt(square_error / square) : 0;
    if (!r->lowered++ || error > r->worst) {
        r->worst = error;
        snprintf(r->worst_node, sizeof r->worst_node, "%s", pc->node->name);
    }
    r->square += square;
    r->square_error += square_error;
    r->error = r->square > 0 ? sqrt(r->square_error / r->square) : 0;
}

void steno_prepare_overflowed(struct steno_prepare *pc)
{
    struct steno_precision_report *r = pc->report;
    pc->overflowed = true;
    if (r && !r->overflowed++)
        snprintf(r->overflowed_node, sizeof r->overflowed_node, "%s", pc->node->name);
}

/* ---- memory of packed weights ---- */

bool steno_prepare_filled(const struct steno_prepare *pc, bool *overflowed)
{
    const struct steno_packed_store *s = pc->store;
    *overflowed = s->cached && s->n < s->n_cached && s->cached[s->n].overflowed;
    return s->cached != NULL;
}

static struct steno_packed_block *next_block(struct steno_packed_store *s)
{
    if (s->n == s->cap) {
        int cap = s->cap ? 2 * s->cap : 32;
        struct steno_packed_block *p = realloc(s->block, (size_t)cap * sizeof *p);
        if (!p)
            return NULL;
        s->block = p;
        s->cap = cap;
    }
    return &s->block[s->n];
}

/* With ASan every block is separate, so that it sees reads past a block's end. */
#if defined(__SANITIZE_ADDRESS__)
#define CHUNK ((size_t)0)
#define chunk_new(n) steno_aligned_alloc(n)
#define chunk_cut(p, n, keep) ((void)(p), (void)(n), (void)(keep))
#define chunk_free(p, n) ((void)(n), steno_aligned_free(p))
#else
/* Chunks reserve address space: unused parts take no memory and go back after the last block. All
 * weights of a network lie in one chunk, because the last large page of each chunk is only partly
 * filled. */
#define CHUNK ((size_t)1 << 30)
#define chunk_new(n) steno_pages_new(n)
#define chunk_cut(p, n, keep) steno_pages_cut(p, n, keep)
#define chunk_free(p, n) steno_pages_free(p, n)
#endif
#define CHUNK_MIN ((size_t)32 << 20) /* used where address space is limited */

static bool new_chunk(struct steno_packed_store *s, size_t bytes)
{
    size_t size = bytes > CHUNK ? bytes : CHUNK;
    struct steno_packed_chunk *p = realloc(s->chunk, ((size_t)s->n_chunks + 1) * sizeof *p);
    char *base;
    if (!p)
        return false;
    s->chunk = p;
    while (!(base = chunk_new(size)) && size / 2 >= bytes && size / 2 >= CHUNK_MIN)
        size /= 2;
    if (base)
        p[s->n_chunks++] = (struct steno_packed_chunk){.base = base, .size = size};
    return base != NULL;
}

/* Cut a block from a chunk. Blocks are contiguous in large pages: a product with few rows reads its
 * weights a fifth faster that way. */
static void *from_chunk(struct steno_packed_store *s, size_t bytes)
{
    struct steno_packed_chunk *c = s->n_chunks ? &s->chunk[s->n_chunks - 1] : NULL;
    size_t need;
    if (!steno_add_size(bytes, STENO_OVERREAD + STENO_ALIGN - 1, &need))
        return NULL;
    need &= ~(size_t)(STENO_ALIGN - 1);
    if ((!c || c->size - c->used < need) && !new_chunk(s, need))
        return NULL;
    c = &s->chunk[s->n_chunks - 1];
    c->used += need;
    return c->base + c->used - need;
}

/* The order of requests is the order of packing, which is the same at every load of the same
 * graph. */
static void *from_cache(struct steno_packed_store *s, size_t bytes)
{
    const struct steno_packed_block *b = &s->cached[s->n];
    return s->n < s->n_cached && b->bytes == bytes ? b->data : NULL;
}

/* ---- blocks that nodes share ---- */

void steno_packing_put(struct steno_packing *p, const void *bytes, size_t n)
{
    const size_t room = sizeof p->key;
    if (p->n <= room && n <= room - p->n)
        memcpy(p->key + p->n, bytes, n);
    p->n = p->n > room || n > room - p->n ? room + 1 : p->n + n;
}

static bool same_packing(const struct steno_packing *a, const struct steno_packing *b)
{
    return a->n == b->n && !memcmp(a->key, b->key, a->n);
}

/* Return the block that is packed like b; NULL: none so far. */
static void *shared_block(const struct steno_packed_store *s, const struct steno_packed_block *b)
{
    for (int i = 0; b->how && i < s->n; i++) {
        const struct steno_packed_block *o = &s->block[i];
        if (o->bytes == b->bytes && o->how && !memcmp(o->from, b->from, sizeof b->from) &&
            same_packing(o->how, b->how))
            return o->data;
    }
    return NULL;
}

/* The cache has the data of a shared block once. */
static bool counted(const struct steno_packed_store *s, const void *data)
{
    for (int i = 0; i < s->n; i++)
        if (s->block[i].data == data)
            return true;
    return false;
}

/* Note what block b is packed from. Without memory it is not shared. */
static void describe_block(const struct steno_prepare *pc, int in, const struct steno_packing *how,
                           struct steno_packed_block *b)
{
    const int inputs[3] = {in, how ? how->also[0] : 0, how ? how->also[1] : 0};
    if (!how || !how->n || how->n > sizeof how->key || !(b->how = malloc(sizeof *b->how)))
        return;
    *b->how = *how;
    for (int i = 0; i < 3; i++)
        b->from[i] = !i || inputs[i] ? steno_prepare_const(pc, inputs[i]) : NULL;
}

void *steno_prepare_memory(struct steno_prepare *pc, int in, size_t bytes,
                           const struct steno_packing *how, bool *filled)
{
    struct steno_packed_store *s = pc->store;
    struct steno_packed_block *b = next_block(s);
    const struct steno_value *v = value(pc, in);
    bool is_new;
    if (!b || !v)
        return NULL;
    *b = (struct steno_packed_block){.bytes = bytes, .overflowed = pc->overflowed};
    pc->overflowed = false;
    if (s->cached) {
        b->data = from_cache(s, bytes);
        is_new = b->data && !counted(s, b->data);
    } else {
        describe_block(pc, in, how, b);
        b->data = shared_block(s, b);
        is_new = !b->data;
        if (is_new)
            b->data = from_chunk(s, bytes);
    }
    *filled = s->cached || !is_new;
    if (!b->data) {
        free(b->how);
        return NULL;
    }
    s->n++;
    steno_prepare_consumed(pc, in);
    pc->packed += is_new ? bytes : 0;
    pc->of_node += bytes;
    if (pc->cached)
        pc->cached[pc->node->in[in]]++;
    return b->data;
}

static void forget_packings(struct steno_packed_store *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->block[i].how);
        s->block[i].how = NULL;
    }
}

void steno_packed_store_shrink(struct steno_packed_store *s)
{
    forget_packings(s);
    for (int i = 0; i < s->n_chunks; i++) {
        struct steno_packed_chunk *c = &s->chunk[i];
        chunk_cut(c->base, c->size, c->used);
        c->size = c->used;
    }
}

void steno_packed_store_free(struct steno_packed_store *s)
{
    for (int i = 0; i < s->n_chunks; i++)
        chunk_free(s->chunk[i].base, s->chunk[i].size);
    forget_packings(s);
    free(s->chunk);
    free(s->block);
    memset(s, 0, sizeof *s);
}

static void drop_consumed(struct steno_prepare *pc, const struct steno_node *n)
{
    bool fetched = false;
    for (int i = 0; i < n->n_in; i++) {
        steno_value_id v = n->in[i];
        fetched = fetched || (v != STENO_NONE && pc->consumed[v]);
        if (v != STENO_NONE && pc->consumed[v] == pc->read[v])
            steno_graph_unfetch(pc->g, v); /* the next reader fetches it again */
        if (v == STENO_NONE || !pc->consumed[v] || pc->consumed[v] != pc->g->values[v].uses)
            continue;
        pc->g->values[v].spent = true;
        pc->g->values[v].cached = pc->cached[v] == pc->consumed[v];
        if (!pc->store->keep)
            steno_graph_drop_const(pc->g, v);
    }
    if (fetched)
        steno_graph_rest_map(pc->g);
}

static int drop_spent(struct steno_graph *g, void *arg)
{
    (void)arg;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].spent)
            steno_graph_drop_const(g, i);
    for (int32_t i = 0; i < g->n_nodes; i++)
        steno_node_each_graph(&g->nodes[i], drop_spent, NULL);
    return 0;
}

void steno_prepare_drop(struct steno_graph *g)
{
    (void)drop_spent(g, NULL);
}

static steno_status prepare_node(struct steno_prepare *pc, struct steno_node *n, steno_err *err)
{
    steno_status st;
    if (!n->op->prepare)
        return STENO_OK;
    pc->node = n;
    pc->packed_in = 0;
    pc->of_node = 0;
    pc->overflowed = false;
    for (int i = 0; i < n->n_in; i++) {
        st = steno_graph_fetch(pc->g, n->in[i], err);
        if (st)
            return steno_fail_in(err, st, "node '%s' (%s)", n->name, n->op_type);
        if (pc->read && n->in[i] != STENO_NONE)
            pc->read[n->in[i]]++;
    }
    st = n->op->prepare(pc, &n->priv, err);
    n->packed = pc->of_node;
    n->packed_in = pc->packed_in;
    return st ? steno_fail_in(err, st, "node '%s' (%s)", n->name, n->op_type) : STENO_OK;
}

steno_status steno_prepare_one(struct steno_graph *g, struct steno_node *n, const steno_kernels *k,
                               struct steno_packed_store *store, steno_err *err)
{
    struct steno_prepare pc = {.g = g, .k = k, .store = store};
    return prepare_node(&pc, n, err);
}

/* ---- the order of packing ---- */

struct place {
    size_t bytes; /* size of the largest constant that the node reads */
    int32_t node;
};

static int larger_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->node < y->node ? -1 : 1;
}

/* Order of packing: nodes with large constants first. While a constant is packed, its elements take
 * memory twice, since the file has them too; that should be little at the end, when nearly
 * everything is packed. The order depends on shapes, which a graph from the cache has as well.
 * NULL: out of memory. */
static struct place *packing_order(const struct steno_graph *g)
{
    struct place *order = calloc((size_t)g->n_nodes + 1, sizeof *order);
    for (int32_t i = 0; order && i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        order[i].node = i;
        for (int k = 0; k < n->n_in; k++) {
            const struct steno_value *v = n->in[k] == STENO_NONE ? NULL : &g->values[n->in[k]];
            size_t bytes;
            if (v && v->producer == STENO_NONE && !v->is_input && v->captured_from == STENO_NONE &&
                !steno_shape_bytes(&v->shape, v->dtype, &bytes) && bytes > order[i].bytes)
                order[i].bytes = bytes;
        }
    }
    if (order)
        qsort(order, (size_t)g->n_nodes, sizeof *order, larger_first);
    return order;
}

steno_status steno_prepare_graph(struct steno_graph *g, const steno_kernels *k,
                                 enum steno_precision precision,
                                 struct steno_precision_report *report,
                                 struct steno_packed_store *store, size_t *packed, steno_err *err)
{
    struct steno_prepare pc = {
        .g = g, .k = k, .precision = precision, .report = report, .store = store};
    steno_status st = STENO_OK;
    struct place *order = packing_order(g);
    pc.consumed = calloc((size_t)g->n_values + 1, sizeof *pc.consumed);
    pc.cached = calloc((size_t)g->n_values + 1, sizeof *pc.cached);
    pc.read = calloc((size_t)g->n_values + 1, sizeof *pc.read);
    if (!order || !pc.consumed || !pc.cached || !pc.read) {
        free(order);
        free(pc.consumed);
        free(pc.cached);
        free(pc.read);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory while packing weights");
    }
    for (int32_t i = 0; !st && i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[order[i].node];
        st = prepare_node(&pc, n, err);
        if (!st)
            drop_consumed(&pc, n);
        for (int k2 = 0; !st && k2 < n->n_attr; k2++)
            if (n->attr[k2].kind == STENO_ATTR_GRAPH)
                st = steno_prepare_graph(n->attr[k2].g, k, precision, report, store, packed, err);
    }
    *packed += pc.packed;
    free(order);
    free(pc.consumed);
    free(pc.cached);
    free(pc.read);
    return st;
}

static int release_body(struct steno_graph *g, void *arg)
{
    (void)arg;
    steno_release_graph(g);
    return 0;
}

void steno_release_graph(struct steno_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->priv && n->op && n->op->release)
            n->op->release(n->priv);
        n->priv = NULL;
        steno_node_each_graph(n, release_body, NULL);
    }
}
