/* Products of table rows, which the network holds for all its sessions.
 *
 * Relative positions (Dai et al. 2019, section 3.3) are rows start .. end of a table of sines, as
 * many as the input has frames; every layer multiplies them with its own weights. Row r of such a
 * product is the same for every length, so the product for the longest input so far has the rows of
 * all shorter ones. Rows live as long as a plan refers to them. When a longer input replaces them,
 * the plans that refer to the old rows are dropped. */
#include "nn/exec/internal.h"

#include <string.h>

#define START 1 /* input indices of Slice and Positions */
#define END 2

struct steno_table_rows {
    struct steno_row_store *store;
    struct steno_table_rows *next; /* in the store's list, while it is the newest of its node */
    const struct steno_node *node;
    int64_t lo, hi; /* table rows [lo, hi) */
    size_t row_bytes;
    int refs;
    bool newest;
    steno_arena *mem;
    const char *data;
};

steno_status steno_row_store_init(struct steno_row_store *s, steno_err *err)
{
    return pthread_mutex_init(&s->lock, NULL)
               ? steno_fail(err, STENO_ERR_NOMEM, "cannot make a mutex")
               : STENO_OK;
}

void steno_row_store_free(struct steno_row_store *s)
{
    pthread_mutex_destroy(&s->lock);
}

size_t steno_row_store_bytes(struct steno_row_store *s)
{
    size_t n;
    pthread_mutex_lock(&s->lock);
    n = s->bytes;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- which nodes ---- */

static const struct steno_tensor *known(const struct steno_infer *ic, const struct steno_node *n,
                                        int i)
{
    return i < n->n_in && n->in[i] != STENO_NONE ? ic->known[n->in[i]].value : NULL;
}

/* Read a known input that is one i64 number. */
static bool known_number(const struct steno_infer *ic, const struct steno_node *n, int i,
                         int64_t *out)
{
    const struct steno_tensor *t = known(ic, n, i);
    if (!t || t->dtype != STENO_I64 || steno_numel(t) != 1)
        return false;
    *out = *(const int64_t *)t->data;
    return true;
}

/* True for a matrix [.., rows, columns] whose other dimensions are 1. */
static bool is_matrix(const struct steno_shape *s)
{
    for (int d = 0; d < s->rank - 2; d++)
        if (s->dim[d] != 1)
            return false;
    return s->rank >= 2;
}

/* True when n takes consecutive whole rows of the table. */
static bool takes_rows(const struct steno_infer *ic, const struct steno_node *n,
                       const struct steno_tensor *table)
{
    int64_t axis, step = 1;
    if (!strcmp(n->domain, "ai.steno.run") && !strcmp(n->op_type, "Positions"))
        return n->n_in == 3 && n->in[END] != STENO_NONE;
    return !*n->domain && !strcmp(n->op_type, "Slice") && known_number(ic, n, 3, &axis) &&
           (n->n_in < 5 || n->in[4] == STENO_NONE ||
            (known_number(ic, n, 4, &step) && step == 1)) &&
           (axis == table->shape.rank - 2 || axis == -2);
}

bool steno_table_rows_find(const struct steno_infer *ic, const struct steno_node *n,
                           struct steno_row_range *out)
{
    const struct steno_value *x =
        n->n_in && n->in[0] != STENO_NONE ? &ic->g->values[n->in[0]] : NULL;
    const struct steno_tensor *table;
    const struct steno_node *src;
    const struct steno_shape *y;
    if (!x || !n->packed || strcmp(n->domain, "ai.steno") || strcmp(n->op_type, "Linear") ||
        n->out[0] == STENO_NONE || x->producer == STENO_NONE ||
        (n->n_in > 3 && n->in[3] != STENO_NONE) ||
        (n->n_in > 2 && n->in[2] != STENO_NONE && !known(ic, n, 2)))
        return false;
    src = &ic->g->nodes[x->producer];
    if (src->n_in < 3 || src->in[0] == STENO_NONE || !ic->g->values[src->in[0]].constant)
        return false;
    table = known(ic, src, 0);
    if (!table || !table->data || table->dtype != STENO_F32 || !is_matrix(&table->shape) ||
        !takes_rows(ic, src, table) || !known_number(ic, src, START, &out->lo) ||
        !known_number(ic, src, END, &out->hi))
        return false;
    if (out->lo < INT32_MIN || out->hi > INT32_MAX ||
        (!*src->domain && (out->lo < 0 || out->hi > table->shape.dim[table->shape.rank - 2])))
        return false; /* ranges from the back or to the end are left out */
    out->src = src;
    y = &ic->known[n->out[0]].shape;
    return out->lo < out->hi && is_matrix(y) && y->rank == table->shape.rank &&
           y->dim[y->rank - 2] == out->hi - out->lo && y->dim[y->rank - 1] > 0;
}

/* ---- the store ---- */

static void unlink_rows(struct steno_row_store *s, struct steno_table_rows *r)
{
    struct steno_table_rows **p = &s->first;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    r->newest = false;
    s->n--;
    s->bytes -= (size_t)(r->hi - r->lo) * r->row_bytes;
}

static struct steno_table_rows *newest_of(const struct steno_row_store *s,
                                          const struct steno_node *n)
{
    struct steno_table_rows *r = s->first;
    while (r && r->node != n)
        r = r->next;
    return r;
}

/* Find rows that include *range; they get another reference. NULL: *range becomes the rows to
 * compute, existing rows included; it becomes empty if there is no room. */
static struct steno_table_rows *take_rows(struct steno_row_store *s, const struct steno_node *n,
                                          size_t row_bytes, struct steno_row_range *range)
{
    struct steno_table_rows *r;
    int64_t lo = range->lo, hi = range->hi, room;
    pthread_mutex_lock(&s->lock);
    r = newest_of(s, n);
    room = (r || s->n < STENO_MAX_TABLES) && s->bytes < STENO_MAX_TABLE_ROWS
               ? (int64_t)((STENO_MAX_TABLE_ROWS - s->bytes) / row_bytes)
               : 0;
    if (r && r->lo <= lo && r->hi >= hi) {
        r->refs++;
    } else if (r) {
        room += r->hi - r->lo;
        lo = r->lo < lo ? r->lo : lo;
        hi = r->hi > hi ? r->hi : hi;
        r = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (hi - lo <= room) {
        range->lo = lo;
        range->hi = hi;
    } else if (range->hi - range->lo > room) {
        range->hi = range->lo;
    }
    return r;
}

/* Make the new rows the newest of their node, unless the store has rows that include them. */
static struct steno_table_rows *publish(struct steno_row_store *s, struct steno_table_rows *r)
{
    struct steno_table_rows *old, *mine = r;
    pthread_mutex_lock(&s->lock);
    old = newest_of(s, r->node);
    if (old && old->lo <= r->lo && old->hi >= r->hi) {
        old->refs++;
        mine = old;
    } else {
        if (old)
            unlink_rows(s, old);
        r->next = s->first;
        r->newest = true;
        s->first = r;
        s->n++;
        s->bytes += (size_t)(r->hi - r->lo) * r->row_bytes;
    }
    pthread_mutex_unlock(&s->lock);
    if (mine != r)
        steno_arena_free(r->mem);
    return mine;
}

void steno_table_rows_drop(struct steno_table_rows *r)
{
    struct steno_row_store *s = r->store;
    bool last;
    pthread_mutex_lock(&s->lock);
    last = !--r->refs;
    if (last && r->newest)
        unlink_rows(s, r);
    pthread_mutex_unlock(&s->lock);
    if (last)
        steno_arena_free(r->mem);
}

bool steno_table_rows_newest(const struct steno_table_rows *r)
{
    bool newest;
    pthread_mutex_lock(&r->store->lock);
    newest = r->newest;
    pthread_mutex_unlock(&r->store->lock);
    return newest;
}

const void *steno_table_rows_data(const struct steno_table_rows *r, int64_t row)
{
    return r->data + (size_t)(row - r->lo) * r->row_bytes;
}

/* ---- computing ---- */

/* Evaluate the table's rows themselves; all layers share them. */
static steno_status table_rows(struct workspace *ws, const struct steno_infer *ic,
                               const struct steno_row_range *range, struct steno_table_part *t,
                               steno_err *err)
{
    const struct steno_node *n = range->src;
    const bool wanted = true;
    int64_t number[2] = {range->lo, range->hi};
    struct steno_tensor at[2];
    const struct steno_tensor **in;
    if (t->mem && t->range.src == n && t->range.lo == range->lo && t->range.hi == range->hi)
        return STENO_OK;
    steno_arena_free(t->mem);
    *t = (struct steno_table_part){.mem = steno_arena_new(0), .range = *range};
    in = t->mem ? steno_arena_calloc(t->mem, (size_t)n->n_in + 1, sizeof *in) : NULL;
    if (!in)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory while planning");
    for (int i = 0; i < n->n_in; i++)
        in[i] = known(ic, n, i);
    for (int i = 0; i < 2; i++) {
        at[i] = *in[START + i];
        at[i].data = &number[i];
        in[START + i] = &at[i];
    }
    return steno_eval_node(ws, n, in, &t->x, &wanted, t->mem, err);
}

static steno_status compute_rows(struct workspace *ws, const struct steno_infer *ic,
                                 const struct steno_node *n, const struct steno_row_range *range,
                                 size_t row_bytes, struct steno_table_part *t,
                                 struct steno_table_rows **out, steno_err *err)
{
    steno_arena *mem = steno_arena_new(0);
    struct steno_table_rows *r = mem ? steno_arena_alloc(mem, sizeof *r) : NULL;
    const struct steno_tensor **in =
        r ? steno_arena_calloc(mem, (size_t)n->n_in + 1, sizeof *in) : NULL;
    const bool wanted = true;
    struct steno_tensor y;
    steno_status st = in ? table_rows(ws, ic, range, t, err)
                         : steno_fail(err, STENO_ERR_NOMEM, "out of memory while planning");
    for (int i = 0; i < n->n_in && !st; i++)
        in[i] = i ? known(ic, n, i) : &t->x;
    if (!st)
        st = steno_eval_node(ws, n, in, &y, &wanted, mem, err);
    if (st) {
        steno_arena_free(mem);
        return st;
    }
    *r = (struct steno_table_rows){.store = ws->row_store,
                                   .node = n,
                                   .lo = range->lo,
                                   .hi = range->hi,
                                   .row_bytes = row_bytes,
                                   .refs = 1,
                                   .mem = mem,
                                   .data = y.data};
    *out = publish(ws->row_store, r);
    return STENO_OK;
}

steno_status steno_table_rows_take(struct workspace *ws, const struct steno_infer *ic,
                                   const struct steno_node *n, const struct steno_row_range *want,
                                   struct steno_table_part *t, struct steno_table_rows **out,
                                   steno_err *err)
{
    const struct steno_shape *y = &ic->known[n->out[0]].shape;
    const size_t row_bytes = (size_t)y->dim[y->rank - 1] * sizeof(float);
    struct steno_row_range range = *want;
    *out = NULL;
    if (ws->max_bytes && (size_t)(want->hi - want->lo) > ws->max_bytes / row_bytes)
        return STENO_OK;
    *out = take_rows(ws->row_store, n, row_bytes, &range);
    return *out || range.hi == range.lo ? STENO_OK
                                        : compute_rows(ws, ic, n, &range, row_bytes, t, out, err);
}
