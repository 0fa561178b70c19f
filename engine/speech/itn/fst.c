#include "speech/itn/fst.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/little_endian.h"

#define FST_MAGIC 2125659606
#define SYMBOLS_MAGIC 2125658996
#define ARCHIVE_MAGIC 2125656924
#define MAX_NAME 4096 /* of types, symbols and entries */
#define FLAG_INPUT_SYMBOLS 1
#define FLAG_OUTPUT_SYMBOLS 2
#define FLAG_ALIGNED 4
#define ALIGNMENT 16
#define ARC_BYTES 16
#define VECTOR_STATE_BYTES 12
#define CONST_STATE_BYTES 20

/* A walk over a file. Reading past its end sets `short_of`. */
struct reader {
    const unsigned char *p;
    size_t n, at;
    bool short_of, archive;
    const char *name;
};

struct header {
    bool is_const, aligned;
    int64_t start, states, arcs;
};

static steno_status fail_file(const struct reader *r, steno_err *err, const char *what)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s", r->name, what);
}

/* ---- numbers and names ----------------------------------------------------------------------- */

static bool has_bytes(struct reader *r, uint64_t n)
{
    if (n > r->n - r->at)
        r->short_of = true;
    return !r->short_of;
}

static uint64_t read_number(struct reader *r, size_t size)
{
    if (!has_bytes(r, size))
        return 0;
    r->at += size;
    return steno_le_number(r->p + r->at - size, size);
}

static uint32_t read_u32(struct reader *r)
{
    return (uint32_t)read_number(r, 4);
}

static int64_t read_i64(struct reader *r)
{
    return (int64_t)read_number(r, 8);
}

static float read_weight(struct reader *r)
{
    const uint32_t bits = read_u32(r);
    float w;
    memcpy(&w, &bits, sizeof w);
    return w;
}

/* A string with its length before it. */
static bool read_name(struct reader *r, const char **text, size_t *n)
{
    const uint32_t len = read_u32(r);
    if (r->short_of || len > MAX_NAME || !has_bytes(r, len))
        return false;
    *text = (const char *)r->p + r->at;
    *n = len;
    r->at += len;
    return true;
}

static bool is_name_fst(const char *text, size_t n, const char *name)
{
    return n == strlen(name) && !memcmp(text, name, n);
}

static void align_reader(struct reader *r)
{
    const size_t past = r->at % ALIGNMENT;
    if (past && has_bytes(r, ALIGNMENT - past))
        r->at += ALIGNMENT - past;
}

/* ---- header ---------------------------------------------------------------------------------- */

static steno_status skip_symbols(struct reader *r, steno_err *err)
{
    const char *text;
    size_t n;
    int64_t count;
    if (read_u32(r) != SYMBOLS_MAGIC || !read_name(r, &text, &n))
        return fail_file(r, err, "its table of symbols is damaged");
    (void)read_i64(r); /* the next free number */
    count = read_i64(r);
    for (int64_t i = 0; i < count && !r->short_of; i++) {
        if (!read_name(r, &text, &n))
            return fail_file(r, err, "its table of symbols is damaged");
        (void)read_i64(r);
    }
    return r->short_of || count < 0 ? fail_file(r, err, "cut short in its table of symbols")
                                    : STENO_OK;
}

static steno_status check_counts(const struct reader *r, const struct header *h, steno_err *err)
{
    const size_t left = r->n - r->at;
    const bool open = h->states == -1 && !h->is_const && !r->archive;
    const size_t state = h->is_const ? CONST_STATE_BYTES : VECTOR_STATE_BYTES;
    if (r->short_of)
        return fail_file(r, err, "cut short in its header");
    if ((h->states < 1 && !open) || (h->states > 0 && (uint64_t)h->states > left / state))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %" PRId64 " states in %zu bytes", r->name,
                          h->states, left);
    if (h->states > STENO_FST_MAX_STATES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %" PRId64 " states, the limit is %u", r->name,
                          h->states, STENO_FST_MAX_STATES);
    if (h->start < 0 || (!open && h->start >= h->states))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: its first state is %" PRId64 " of %" PRId64,
                          r->name, h->start, h->states);
    if (h->is_const && (h->arcs < 0 || (uint64_t)h->arcs > left / ARC_BYTES))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %" PRId64 " arcs in %zu bytes", r->name,
                          h->arcs, left);
    return STENO_OK;
}

static steno_status read_types(struct reader *r, struct header *h, steno_err *err)
{
    const char *type, *arcs;
    size_t n, n_arcs;
    if (read_u32(r) != FST_MAGIC)
        return fail_file(r, err, "not an OpenFst file");
    if (!read_name(r, &type, &n) || !read_name(r, &arcs, &n_arcs))
        return fail_file(r, err, "cut short in its header");
    h->is_const = is_name_fst(type, n, "const");
    if (!h->is_const && !is_name_fst(type, n, "vector"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: its type is \"%.*s\"; vector and const are read", r->name,
                          n < 32 ? (int)n : 32, type);
    if (!is_name_fst(arcs, n_arcs, "standard"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: its arcs are \"%.*s\"; standard ones are read", r->name,
                          n_arcs < 32 ? (int)n_arcs : 32, arcs);
    return STENO_OK;
}

static steno_status read_header(struct reader *r, struct header *h, steno_err *err)
{
    steno_status st = read_types(r, h, err);
    uint32_t version, flags;
    if (st)
        return st;
    version = read_u32(r);
    flags = read_u32(r);
    (void)read_i64(r); /* properties */
    h->start = read_i64(r);
    h->states = read_i64(r);
    h->arcs = read_i64(r);
    if (!r->short_of && version != 2 && !(version == 1 && h->is_const))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: version %" PRIu32 " of its type",
                          r->name, version);
    h->aligned = h->is_const && (version == 1 || flags & FLAG_ALIGNED);
    if (flags & FLAG_INPUT_SYMBOLS)
        st = skip_symbols(r, err);
    if (!st && flags & FLAG_OUTPUT_SYMBOLS)
        st = skip_symbols(r, err);
    return st ? st : check_counts(r, h, err);
}

/* ---- states and arcs ------------------------------------------------------------------------- */

static void free_fst(struct steno_fst *f)
{
    free(f->final);
    free(f->first);
    free(f->in);
    free(f->arc);
    free(f->ahead);
    free(f->set);
    free(f->chain);
}

/* Room for what the rest of the file may hold. */
static steno_status reserve_fst(struct steno_fst *f, const struct reader *r, size_t states,
                                steno_err *err)
{
    const size_t arcs = (r->n - r->at) / ARC_BYTES + 1;
    f->final = malloc((states + 1) * sizeof *f->final);
    f->first = calloc(states + 2, sizeof *f->first);
    f->in = malloc(arcs);
    f->arc = malloc(arcs * sizeof *f->arc);
    if (f->final && f->first && f->in && f->arc)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
}

/* Give back what the file did not need. */
static void shrink_fst(struct steno_fst *f)
{
    const size_t arcs = f->n_arcs + 1, states = f->n_states + (size_t)1;
    void *p = realloc(f->in, arcs);
    f->in = p ? p : f->in;
    p = realloc(f->arc, arcs * sizeof *f->arc);
    f->arc = p ? p : f->arc;
    p = realloc(f->final, states * sizeof *f->final);
    f->final = p ? p : f->final;
    p = realloc(f->first, states * sizeof *f->first);
    f->first = p ? p : f->first;
    p = realloc(f->set, f->n_sets * sizeof *f->set);
    f->set = p ? p : f->set;
}

static steno_status read_final(struct reader *r, struct steno_fst *f, uint32_t s, steno_err *err)
{
    const float w = read_weight(r);
    if (r->short_of)
        return fail_file(r, err, "cut short in its states");
    if (isnan(w) || w == -INFINITY)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: state %" PRIu32 ": its weight is no number",
                          r->name, s);
    f->final[s] = w;
    return STENO_OK;
}

/* An arc of state s. One that reads what no byte is can never be taken, nor one of infinite
 * weight. */
static steno_status read_arc(struct reader *r, struct steno_fst *f, uint32_t s, steno_err *err)
{
    const uint32_t in = read_u32(r), out = read_u32(r);
    const float weight = read_weight(r);
    const uint32_t next = read_u32(r);
    if (r->short_of)
        return fail_file(r, err, "cut short in its arcs");
    if (next >= STENO_FST_MAX_STATES || isnan(weight) || weight == -INFINITY)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: state %" PRIu32 ": an arc is damaged",
                          r->name, s);
    if (in > 255 || weight == INFINITY)
        return STENO_OK;
    if (out > 255)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: state %" PRIu32 " writes label %" PRIu32 ", which is not a byte",
                          r->name, s, out);
    f->in[f->n_arcs] = (uint8_t)in;
    f->arc[f->n_arcs++] = (struct steno_fst_arc){.weight = weight, .next = next, .out = out & 255};
    return STENO_OK;
}

static steno_status read_arcs(struct reader *r, struct steno_fst *f, uint32_t s, uint64_t n,
                              steno_err *err)
{
    steno_status st = r->short_of ? fail_file(r, err, "cut short in its states") : STENO_OK;
    if (!st && n > (r->n - r->at) / ARC_BYTES)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: state %" PRIu32 ": %" PRIu64 " arcs, more than the file holds",
                          r->name, s, n);
    for (uint64_t i = 0; !st && i < n; i++)
        st = read_arc(r, f, s, err);
    f->first[s + 1] = f->n_arcs;
    return st;
}

static steno_status read_vector(struct reader *r, struct steno_fst *f, const struct header *h,
                                steno_err *err)
{
    size_t most = h->states > 0 ? (size_t)h->states : (r->n - r->at) / VECTOR_STATE_BYTES;
    steno_status st;
    most = most < STENO_FST_MAX_STATES ? most : STENO_FST_MAX_STATES;
    st = reserve_fst(f, r, most, err);
    for (uint32_t s = 0; !st && (h->states > 0 ? s < most : r->at < r->n); s++) {
        if (s == most)
            return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %zu states", r->name, most);
        st = read_final(r, f, s, err);
        if (!st)
            st = read_arcs(r, f, s, read_number(r, 8), err);
        f->n_states = s + 1;
    }
    return st;
}

static steno_status read_const(struct reader *r, struct steno_fst *f, const struct header *h,
                               steno_err *err)
{
    struct reader arcs = *r;
    steno_status st = reserve_fst(f, r, (size_t)h->states, err);
    if (st)
        return st;
    if (h->aligned)
        align_reader(r);
    arcs.at = r->at;
    if (!has_bytes(&arcs, (uint64_t)h->states * CONST_STATE_BYTES))
        return fail_file(r, err, "cut short in its states");
    arcs.at += (size_t)h->states * CONST_STATE_BYTES;
    if (h->aligned)
        align_reader(&arcs);
    for (uint32_t s = 0, at = 0; !st && s < (uint32_t)h->states; s++) {
        uint32_t first, n;
        st = read_final(r, f, s, err);
        first = read_u32(r);
        n = read_u32(r);
        (void)read_i64(r); /* counts of arcs without labels */
        if (!st && n && first != at)
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: state %" PRIu32 ": its arcs lie elsewhere",
                            r->name, s);
        if (!st)
            st = read_arcs(&arcs, f, s, n, err);
        at += n;
        f->n_states = s + 1;
    }
    r->at = arcs.at;
    return st;
}

/* ---- order and checks ------------------------------------------------------------------------ */

static bool is_sorted(const uint8_t *in, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (in[i] < in[i - 1])
            return false;
    return true;
}

/* Order the arcs of a state by input label; equal ones stay as they are. */
static void sort_arcs(struct steno_fst *f, uint32_t s, uint8_t *in, struct steno_fst_arc *arc)
{
    const size_t first = f->first[s], n = f->first[s + 1] - first;
    size_t place[257] = {0};
    memcpy(in, f->in + first, n);
    memcpy(arc, f->arc + first, n * sizeof *arc);
    for (size_t i = 0; i < n; i++)
        place[in[i] + 1]++;
    for (size_t i = 1; i < 257; i++)
        place[i] += place[i - 1];
    for (size_t i = 0; i < n; i++) {
        const size_t to = first + place[in[i]]++;
        f->in[to] = in[i];
        f->arc[to] = arc[i];
    }
}

static steno_status sort_states(struct steno_fst *f, const char *name, steno_err *err)
{
    uint8_t *in = malloc(f->n_arcs + (size_t)1);
    struct steno_fst_arc *arc = malloc((f->n_arcs + (size_t)1) * sizeof *arc);
    const bool ok = in && arc;
    for (uint32_t s = 0; ok && s < f->n_states; s++)
        if (!is_sorted(f->in + f->first[s], f->first[s + 1] - f->first[s]))
            sort_arcs(f, s, in, arc);
    free(in);
    free(arc);
    return ok ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
}

/* Order states so that arcs that read nothing lead from earlier ones to later ones. False: they
 * make a cycle. into, list: a number for each state; into is zero. */
static bool order_states(const struct steno_fst *f, uint32_t *into, uint32_t *list)
{
    size_t n = 0;
    for (uint32_t s = 0; s < f->n_states; s++)
        for (uint32_t a = f->first[s]; a < f->first[s + 1] && !f->in[a]; a++)
            into[f->arc[a].next]++;
    for (uint32_t s = 0; s < f->n_states; s++)
        if (!into[s])
            list[n++] = s;
    for (size_t i = 0; i < n; i++)
        for (uint32_t a = f->first[list[i]]; a < f->first[list[i] + 1] && !f->in[a]; a++)
            if (!--into[f->arc[a].next])
                list[n++] = f->arc[a].next;
    return n == f->n_states;
}

static steno_status check_places(const struct steno_fst *f, const char *name, steno_err *err)
{
    for (uint32_t a = 0; a < f->n_arcs; a++)
        if (f->arc[a].next >= f->n_states)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: an arc leads to state %u of %" PRIu32,
                              name, f->arc[a].next, f->n_states);
    if (f->start < f->n_states)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: its first state is %" PRIu32 " of %" PRIu32, name,
                      f->start, f->n_states);
}

/* ---- what can be read next ------------------------------------------------------------------- */

/* The sets of a transducer's states, each once. */
struct sets {
    uint32_t *slot; /* by hash: number of the set + 1 */
    size_t mask;
};

static struct steno_fst_set set_of(const struct steno_fst *f, uint32_t s)
{
    struct steno_fst_set v = {{f->final[s] < INFINITY}};
    for (uint32_t a = f->first[s]; a < f->first[s + 1]; a++) {
        const struct steno_fst_set *next = &f->set[f->ahead[f->arc[a].next]];
        for (int i = 0; !f->in[a] && i < 4; i++)
            v.bits[i] |= next->bits[i];
        if (f->in[a])
            v.bits[f->in[a] / 64] |= (uint64_t)1 << f->in[a] % 64;
    }
    return v;
}

/* The number of a set, perhaps a new one. */
static uint32_t find_set(struct steno_fst *f, const struct sets *sets,
                         const struct steno_fst_set *v)
{
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++)
        hash = (hash ^ v->bits[i]) * 0x9E3779B97F4A7C15u;
    for (size_t i = hash >> 32 & sets->mask;; i = (i + 1) & sets->mask) {
        if (!sets->slot[i]) {
            f->set[f->n_sets] = *v;
            sets->slot[i] = ++f->n_sets;
        }
        if (!memcmp(&f->set[sets->slot[i] - 1], v, sizeof *v))
            return sets->slot[i] - 1;
    }
}

/* Sets of all states; list: the states in order, see order_states. */
static bool make_sets(struct steno_fst *f, const uint32_t *list)
{
    struct sets sets = {.mask = 1};
    while (sets.mask < 2 * (size_t)f->n_states)
        sets.mask *= 2;
    sets.slot = calloc(sets.mask--, sizeof *sets.slot);
    f->ahead = calloc(f->n_states, sizeof *f->ahead);
    f->set = calloc(f->n_states, sizeof *f->set);
    for (uint32_t i = f->n_states; sets.slot && f->ahead && f->set && i-- > 0;) {
        const struct steno_fst_set v = set_of(f, list[i]);
        f->ahead[list[i]] = find_set(f, &sets, &v);
    }
    free(sets.slot);
    return f->n_sets > 0;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Count arcs into states, up to 2. */
static void count_into(const struct steno_fst *f, uint32_t *into)
{
    memset(into, 0, f->n_states * sizeof *into);
    for (uint32_t a = 0; a < f->n_arcs; a++)
        into[f->arc[a].next] += into[f->arc[a].next] < 2;
}

static bool make_chains(struct steno_fst *f, uint32_t *into, const uint32_t *list)
{
    f->chain = malloc(f->n_states * sizeof *f->chain);
    if (!f->chain)
        return false;
    count_into(f, into);
    for (uint32_t i = f->n_states; i-- > 0;) {
        const uint32_t s = list[i], a = f->first[s];
        struct steno_fst_chain *c = &f->chain[s], *next;
        *c = (struct steno_fst_chain){s, 0};
        if (f->first[s + 1] != a + 1 || f->in[a] || into[s] > 1 || f->final[s] < INFINITY)
            continue;
        *c = (struct steno_fst_chain){f->arc[a].next, f->arc[a].weight};
        next = &f->chain[c->end];
        if (next->weight == 0 || c->weight == 0) { /* sums are made one by one */
            c->weight += next->weight;
            c->end = next->end;
        }
    }
    return true;
}

static steno_status finish_fst(struct steno_fst *f, const char *name, steno_err *err)
{
    uint32_t *into = calloc(f->n_states, sizeof *into);
    uint32_t *list = malloc(f->n_states * sizeof *list);
    steno_status st = check_places(f, name, err);
    if (!st && into && list && !order_states(f, into, list))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: it has a cycle of arcs that read nothing",
                        name);
    else if (!st && (!into || !list || !make_sets(f, list) || !make_chains(f, into, list)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    free(into);
    free(list);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

static steno_status read_fst(struct reader *r, struct steno_fst *f, steno_err *err)
{
    struct header h = {0};
    steno_status st = read_header(r, &h, err);
    if (st)
        return st;
    f->start = h.start < STENO_FST_MAX_STATES ? (uint32_t)h.start : STENO_FST_MAX_STATES;
    st = (h.is_const ? read_const : read_vector)(r, f, &h, err);
    if (!st && !f->n_states)
        st = fail_file(r, err, "it has no states");
    if (!st)
        st = sort_states(f, r->name, err);
    if (!st)
        st = finish_fst(f, r->name, err);
    return st;
}

static steno_status add_fst(struct steno_fst_list *l, struct reader *r, steno_err *err)
{
    struct steno_fst f = {0};
    struct steno_fst *grown;
    steno_status st = read_fst(r, &f, err);
    grown = st ? NULL : realloc(l->fst, (l->n + 1) * sizeof *grown);
    if (!st && !grown)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
    if (st) {
        free_fst(&f);
        return st;
    }
    shrink_fst(&f);
    grown[l->n++] = f;
    l->fst = grown;
    return STENO_OK;
}

/* Entries one after the other, each with its key; at the end their places and their number. */
static steno_status read_archive(struct steno_fst_list *l, struct reader *r, steno_err *err)
{
    struct reader end = *r;
    steno_status st = STENO_OK;
    int64_t n;
    if (read_u32(r) != ARCHIVE_MAGIC || read_u32(r) != 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: another version of archive", r->name);
    end.at = r->n < 16 ? r->n : r->n - 8;
    n = read_i64(&end);
    if (end.short_of || n < 1)
        return fail_file(r, err, "an archive without entries");
    if (n > STENO_FST_MAX_ENTRIES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %" PRId64 " entries, the limit is %d", r->name,
                          n, STENO_FST_MAX_ENTRIES);
    for (int64_t i = 0; !st && i < n; i++) {
        const char *key;
        size_t len;
        if (!read_name(r, &key, &len))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: cut short in entry %" PRId64, r->name,
                              i + 1);
        st = add_fst(l, r, err);
        if (st)
            (void)steno_fail_in(err, st, "entry \"%.*s\"", len < 64 ? (int)len : 64, key);
    }
    return st;
}

steno_status steno_fst_parse(struct steno_fst_list *l, const void *bytes, size_t n,
                             const char *name, steno_err *err)
{
    struct reader r = {.p = bytes, .n = n, .name = name}, magic = r;
    r.archive = read_u32(&magic) == ARCHIVE_MAGIC;
    return r.archive ? read_archive(l, &r, err) : add_fst(l, &r, err);
}

steno_status steno_fst_read(struct steno_fst_list *l, const char *path, steno_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    steno_status st = steno_file_read(path, STENO_FST_MAX_FILE, &bytes, &n, err);
    if (!st)
        st = steno_fst_parse(l, bytes, n, path, err);
    free(bytes);
    return st;
}

void steno_fst_list_free(struct steno_fst_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free_fst(&l->fst[i]);
    free(l->fst);
    *l = (struct steno_fst_list){0};
}
