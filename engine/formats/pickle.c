/* A stack machine that builds a tree. Its own rules: values are never changed once another value
 * can hold them, except lists and dictionaries, which pickles fill after they have put them into
 * the memo; attributes that BUILD would set on an object are dropped, but those of an
 * argparse.Namespace are the items of its dictionary. */
#include "formats/pickle.h"

#include "base/arena.h"
#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct steno_pickle_node node;

struct steno_pickle {
    steno_arena *mem;
    const node *root;
};

struct machine {
    const uint8_t *start, *p, *end;
    const char *name;
    steno_arena *mem;
    bool (*allowed)(const char *global);
    node **stack;
    size_t n, cap;
    node **memo;
    size_t n_memo;
    size_t nodes, memoized;
    node *root;
    steno_err *err;
};

static steno_status bad_pickle(const struct machine *m, const char *what)
{
    return steno_fail(m->err, STENO_ERR_FORMAT, "%s: byte %zu of the pickle: %s", m->name,
                      (size_t)(m->p - m->start), what);
}

static steno_status no_memory_for_pickle(const struct machine *m)
{
    return steno_fail(m->err, STENO_ERR_NOMEM, "%s: out of memory", m->name);
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* The next n bytes; NULL: cut short. */
static const uint8_t *next_bytes(struct machine *m, uint64_t n)
{
    const uint8_t *at = m->p;
    if (n > (uint64_t)(m->end - m->p))
        return NULL;
    m->p += n;
    return at;
}

/* A little-endian number of `size` bytes. */
static bool next_number(struct machine *m, size_t size, uint64_t *out)
{
    const uint8_t *p = next_bytes(m, size);
    if (!p)
        return false;
    *out = 0;
    for (size_t i = size; i-- > 0;)
        *out = *out << 8 | p[i];
    return true;
}

/* ---- the stack ----------------------------------------------------------------------------- */

static node *fresh(struct machine *m, enum steno_pickle_kind kind)
{
    node *v = m->nodes < STENO_PICKLE_MAX_NODES ? steno_arena_alloc(m->mem, sizeof *v) : NULL;
    m->nodes++;
    if (v)
        v->kind = kind;
    return v;
}

static steno_status no_node(const struct machine *m)
{
    return m->nodes > STENO_PICKLE_MAX_NODES
               ? steno_fail(m->err, STENO_ERR_LIMIT, "%s: more than %zu values in a pickle",
                            m->name, STENO_PICKLE_MAX_NODES)
               : no_memory_for_pickle(m);
}

static steno_status push_node(struct machine *m, node *v)
{
    if (!v)
        return no_node(m);
    if (m->n == 2 * STENO_PICKLE_MAX_NODES || STENO_RESERVE(&m->stack, &m->cap, m->n + 1))
        return no_memory_for_pickle(m);
    m->stack[m->n++] = v;
    return STENO_OK;
}

/* The value on top, which stays; NULL: there is none above the last mark. */
static node *top(const struct machine *m)
{
    return m->n && m->stack[m->n - 1]->kind != STENO_PICKLE_MARK ? m->stack[m->n - 1] : NULL;
}

static node *pop(struct machine *m)
{
    node *v = top(m);
    if (v)
        m->n--;
    return v;
}

/* Place of the last mark; false: there is none. */
static bool find_mark(const struct machine *m, size_t *at)
{
    for (size_t i = m->n; i-- > 0;)
        if (m->stack[i]->kind == STENO_PICKLE_MARK) {
            *at = i;
            return true;
        }
    return false;
}

/* Append k values to v's items. */
static steno_status append_items(struct machine *m, node *v, node *const *from, size_t k)
{
    if (v->n + k > v->cap) {
        size_t cap = 2 * v->cap > v->n + k ? 2 * v->cap : v->n + k;
        const node **more = steno_arena_calloc(m->mem, cap, sizeof *more);
        if (!more)
            return no_memory_for_pickle(m);
        if (v->n)
            memcpy(more, v->item, v->n * sizeof *more);
        v->item = more;
        v->cap = cap;
    }
    for (size_t i = 0; i < k; i++)
        v->item[v->n++] = from[i];
    return STENO_OK;
}

/* Push a new value with the top k values as its items. */
static steno_status collect_items(struct machine *m, enum steno_pickle_kind kind, size_t k)
{
    node *v;
    steno_status st;
    if (k > m->n)
        return bad_pickle(m, "too few values on the stack");
    for (size_t i = m->n - k; i < m->n; i++)
        if (m->stack[i]->kind == STENO_PICKLE_MARK)
            return bad_pickle(m, "too few values on the stack");
    if (kind == STENO_PICKLE_DICT && k % 2)
        return bad_pickle(m, "a key without a value");
    v = fresh(m, kind);
    if (!v)
        return no_node(m);
    st = append_items(m, v, m->stack + m->n - k, k);
    if (st)
        return st;
    m->n -= k;
    return push_node(m, v);
}

/* The same with all values above the last mark, which goes too. */
static steno_status collect_to_mark(struct machine *m, enum steno_pickle_kind kind)
{
    size_t at;
    node *v;
    steno_status st;
    if (!find_mark(m, &at))
        return bad_pickle(m, "no mark on the stack");
    st = collect_items(m, kind, m->n - at - 1);
    if (st)
        return st;
    v = pop(m);
    m->n--; /* the mark */
    return push_node(m, v);
}

/* Append the values from place `at` on to the container below them; `gap`: there is a mark between
 * them. */
static steno_status fill_container(struct machine *m, size_t at, size_t gap,
                                   enum steno_pickle_kind kind)
{
    node *to = at >= gap + 1 ? m->stack[at - gap - 1] : NULL;
    steno_status st;
    if (!to || to->kind != kind)
        return bad_pickle(m, kind == STENO_PICKLE_DICT ? "items for something that is no dictionary"
                                                       : "items for something that is no list");
    if (kind == STENO_PICKLE_DICT && (m->n - at) % 2)
        return bad_pickle(m, "a key without a value");
    st = append_items(m, to, m->stack + at, m->n - at);
    m->n = at - gap;
    return st;
}

static steno_status fill_one(struct machine *m, size_t k, enum steno_pickle_kind kind)
{
    if (m->n < k + 1)
        return bad_pickle(m, "too few values on the stack");
    for (size_t i = m->n - k; i < m->n; i++)
        if (m->stack[i]->kind == STENO_PICKLE_MARK)
            return bad_pickle(m, "too few values on the stack");
    return fill_container(m, m->n - k, 0, kind);
}

static steno_status fill_to_mark(struct machine *m, enum steno_pickle_kind kind)
{
    size_t at;
    if (!find_mark(m, &at))
        return bad_pickle(m, "no mark on the stack");
    return fill_container(m, at + 1, 1, kind);
}

/* ---- plain values -------------------------------------------------------------------------- */

static steno_status push_text(struct machine *m, enum steno_pickle_kind kind, size_t length_size)
{
    uint64_t n;
    const uint8_t *p;
    node *v;
    if (!next_number(m, length_size, &n) || !(p = next_bytes(m, n)))
        return bad_pickle(m, "cut short");
    v = fresh(m, kind);
    if (!v)
        return no_node(m);
    v->n = (size_t)n;
    v->text = steno_arena_strndup(m->mem, (const char *)p, v->n);
    return v->text ? push_node(m, v) : no_memory_for_pickle(m);
}

static steno_status push_int(struct machine *m, int64_t i)
{
    node *v = fresh(m, STENO_PICKLE_INT);
    if (v)
        v->i = i;
    return push_node(m, v);
}

static steno_status push_unsigned(struct machine *m, size_t size)
{
    uint64_t v;
    return next_number(m, size, &v) ? push_int(m, (int64_t)v) : bad_pickle(m, "cut short");
}

static steno_status push_int32(struct machine *m)
{
    uint64_t v;
    return next_number(m, 4, &v) ? push_int(m, (int32_t)(uint32_t)v) : bad_pickle(m, "cut short");
}

static steno_status push_long(struct machine *m, size_t length_size)
{
    const uint8_t *from = m->p, *p;
    uint64_t n, v = 0;
    if (!next_number(m, length_size, &n) || !(p = next_bytes(m, n)))
        return bad_pickle(m, "cut short");
    if (n > 8) {
        m->p = from;
        return push_text(m, STENO_PICKLE_BIG, length_size);
    }
    for (size_t i = 8; i-- > 0;)
        v = v << 8 | (i < n ? p[i] : n && p[n - 1] & 0x80 ? 0xff : 0);
    return push_int(m, (int64_t)v);
}

static steno_status push_float(struct machine *m)
{
    const uint8_t *p = next_bytes(m, 8);
    uint64_t bits = 0;
    node *v;
    if (!p)
        return bad_pickle(m, "cut short");
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    v = fresh(m, STENO_PICKLE_FLOAT);
    if (v)
        memcpy(&v->f, &bits, sizeof v->f);
    return push_node(m, v);
}

static steno_status push_bool(struct machine *m, bool b)
{
    node *v = fresh(m, STENO_PICKLE_BOOL);
    if (v)
        v->b = b;
    return push_node(m, v);
}

/* ---- memo ---------------------------------------------------------------------------------- */

static steno_status put_memo(struct machine *m, uint64_t at)
{
    node *v = top(m);
    if (!v)
        return bad_pickle(m, "nothing to remember");
    if (at >= STENO_PICKLE_MAX_NODES)
        return steno_fail(m->err, STENO_ERR_LIMIT, "%s: entry %llu of the pickle's memo", m->name,
                          (unsigned long long)at);
    if (at >= m->n_memo) {
        size_t n = 2 * m->n_memo > at ? 2 * m->n_memo : (size_t)at + 256;
        node **more = realloc(m->memo, n * sizeof *more);
        if (!more)
            return no_memory_for_pickle(m);
        memset(more + m->n_memo, 0, (n - m->n_memo) * sizeof *more);
        m->memo = more;
        m->n_memo = n;
    }
    m->memo[at] = v;
    m->memoized++;
    return STENO_OK;
}

static steno_status put_at(struct machine *m, size_t size)
{
    uint64_t at;
    return next_number(m, size, &at) ? put_memo(m, at) : bad_pickle(m, "cut short");
}

static steno_status get_at(struct machine *m, size_t size)
{
    uint64_t at;
    if (!next_number(m, size, &at))
        return bad_pickle(m, "cut short");
    if (at >= m->n_memo || !m->memo[at])
        return bad_pickle(m, "a memo entry that was not written");
    return push_node(m, m->memo[at]);
}

/* ---- globals and calls --------------------------------------------------------------------- */

static bool is_ordered_dict(const char *global)
{
    return !strcmp(global, "collections.OrderedDict");
}

/* A dictionary whose items come as attributes: options of a program, or what a pyannote network was
 * trained for. Such a node has `b` set. */
static bool is_namespace(const char *global)
{
    return !strcmp(global, "argparse.Namespace") ||
           !strcmp(global, "pyannote.audio.core.task.Specifications");
}

static steno_status push_global(struct machine *m, const char *module, size_t n_module,
                                const char *name, size_t n_name)
{
    node *v = fresh(m, STENO_PICKLE_GLOBAL);
    char *text;
    if (!v)
        return no_node(m);
    v->n = n_module + 1 + n_name;
    v->text = text = steno_arena_alloc(m->mem, v->n + 1);
    if (!text)
        return no_memory_for_pickle(m);
    memcpy(text, module, n_module);
    text[n_module] = '.';
    memcpy(text + n_module + 1, name, n_name);
    if (!is_ordered_dict(text) && !is_namespace(text) && !(m->allowed && m->allowed(text)))
        return steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                          "%s: the pickle names %.200s, which is neither a tensor nor plain data: "
                          "refused, nothing of it is run",
                          m->name, text);
    return push_node(m, v);
}

/* Two lines: module, name. */
static steno_status global_lines(struct machine *m)
{
    const uint8_t *at = m->p, *first = memchr(at, '\n', (size_t)(m->end - at)), *second;
    if (!first)
        return bad_pickle(m, "cut short");
    second = memchr(first + 1, '\n', (size_t)(m->end - first - 1));
    if (!second)
        return bad_pickle(m, "cut short");
    m->p = second + 1;
    return push_global(m, (const char *)at, (size_t)(first - at), (const char *)first + 1,
                       (size_t)(second - first - 1));
}

static steno_status global_of_stack(struct machine *m)
{
    const node *name = pop(m), *module = pop(m);
    if (!name || !module || name->kind != STENO_PICKLE_STRING ||
        module->kind != STENO_PICKLE_STRING)
        return bad_pickle(m, "a global without names");
    return push_global(m, module->text, module->n, name->text, name->n);
}

/* OrderedDict(), or of a list of pairs. */
static steno_status make_dict(struct machine *m, const node *args)
{
    const node *pairs = args->n ? args->item[0] : NULL;
    node *d = fresh(m, STENO_PICKLE_DICT);
    steno_status st = STENO_OK;
    if (!d)
        return no_node(m);
    if (args->n > 1 || (pairs && pairs->kind != STENO_PICKLE_LIST))
        return bad_pickle(m, "an OrderedDict of something else than pairs");
    for (size_t i = 0; pairs && i < pairs->n && !st; i++) {
        const node *pair = pairs->item[i];
        node *both[2];
        if ((pair->kind != STENO_PICKLE_TUPLE && pair->kind != STENO_PICKLE_LIST) || pair->n != 2)
            return bad_pickle(m, "an OrderedDict of something else than pairs");
        memcpy(both, pair->item, sizeof both);
        st = append_items(m, d, both, 2);
    }
    return st ? st : push_node(m, d);
}

static steno_status make_namespace(struct machine *m, const node *args)
{
    node *d = fresh(m, STENO_PICKLE_DICT);
    if (!d)
        return no_node(m);
    if (args->n)
        return bad_pickle(m, "an object of values without names");
    d->b = true;
    return push_node(m, d);
}

static steno_status call(struct machine *m)
{
    node *args = pop(m), *fn = pop(m), *v;
    node *both[2] = {fn, args};
    steno_status st;
    if (!args || !fn || fn->kind != STENO_PICKLE_GLOBAL || args->kind != STENO_PICKLE_TUPLE)
        return bad_pickle(m, "a call of something that is no function's name");
    if (is_ordered_dict(fn->text))
        return make_dict(m, args);
    if (is_namespace(fn->text))
        return make_namespace(m, args);
    v = fresh(m, STENO_PICKLE_CALL);
    if (!v)
        return no_node(m);
    st = append_items(m, v, both, 2);
    return st ? st : push_node(m, v);
}

/* ---- opcodes ------------------------------------------------------------------------------- */

static steno_status protocol(struct machine *m)
{
    const uint8_t *p = next_bytes(m, 1);
    if (!p)
        return bad_pickle(m, "cut short");
    return *p >= 2 && *p <= 5
               ? STENO_OK
               : steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                            "%s: pickle protocol %u; 2 to 5 can be read", m->name, *p);
}

static steno_status pop_mark(struct machine *m)
{
    size_t at;
    if (!find_mark(m, &at))
        return bad_pickle(m, "no mark on the stack");
    m->n = at;
    return STENO_OK;
}

static steno_status drop(struct machine *m)
{
    if (!m->n)
        return bad_pickle(m, "too few values on the stack");
    m->n--;
    return STENO_OK;
}

static steno_status again(struct machine *m)
{
    node *v = top(m);
    return v ? push_node(m, v) : bad_pickle(m, "too few values on the stack");
}

/* Attributes for the object below them. */
static steno_status build_object(struct machine *m)
{
    node *state = pop(m), *object = top(m);
    steno_status st = STENO_OK;
    if (!state || !object)
        return bad_pickle(m, "attributes without an object");
    if (object->kind != STENO_PICKLE_DICT || !object->b)
        return STENO_OK; /* dropped */
    if (state->kind != STENO_PICKLE_DICT || state == object)
        return bad_pickle(m, "attributes that are no dictionary");
    m->nodes += state->n; /* two that fill each other grow quickly */
    if (m->nodes > STENO_PICKLE_MAX_NODES)
        return no_node(m);
    for (size_t i = 0, n = state->n; i + 2 <= n && !st; i += 2) {
        node *both[2];
        memcpy(both, state->item + i, sizeof both);
        st = append_items(m, object, both, 2);
    }
    return st;
}

static steno_status stop(struct machine *m)
{
    m->root = pop(m);
    return m->root && !m->n ? STENO_OK
                            : bad_pickle(m, "the end with another number of values than one");
}

static steno_status step_pickle(struct machine *m, uint8_t op)
{
    switch (op) {
    case 0x80:
        return protocol(m);
    case 0x95:
        return next_bytes(m, 8) ? STENO_OK : bad_pickle(m, "cut short"); /* FRAME */
    case '(':
        return push_node(m, fresh(m, STENO_PICKLE_MARK));
    case '0':
        return drop(m);
    case '1':
        return pop_mark(m);
    case '2':
        return again(m);
    case 'N':
        return push_node(m, fresh(m, STENO_PICKLE_NONE));
    case 0x88:
        return push_bool(m, true);
    case 0x89:
        return push_bool(m, false);
    case 'J':
        return push_int32(m);
    case 'K':
        return push_unsigned(m, 1);
    case 'M':
        return push_unsigned(m, 2);
    case 0x8a:
        return push_long(m, 1);
    case 0x8b:
        return push_long(m, 4);
    case 'G':
        return push_float(m);
    case 'X':
        return push_text(m, STENO_PICKLE_STRING, 4);
    case 0x8c:
        return push_text(m, STENO_PICKLE_STRING, 1);
    case 0x8d:
        return push_text(m, STENO_PICKLE_STRING, 8);
    case 'T':
        return push_text(m, STENO_PICKLE_STRING, 4); /* Python 2's str */
    case 'U':
        return push_text(m, STENO_PICKLE_STRING, 1);
    case 'B':
        return push_text(m, STENO_PICKLE_BYTES, 4);
    case 'C':
        return push_text(m, STENO_PICKLE_BYTES, 1);
    case 0x8e:
        return push_text(m, STENO_PICKLE_BYTES, 8);
    case 0x96:
        return push_text(m, STENO_PICKLE_BYTES, 8);
    case ']':
        return push_node(m, fresh(m, STENO_PICKLE_LIST));
    case 'a':
        return fill_one(m, 1, STENO_PICKLE_LIST);
    case 'e':
        return fill_to_mark(m, STENO_PICKLE_LIST);
    case 'l':
        return collect_to_mark(m, STENO_PICKLE_LIST);
    case 0x8f:
        return push_node(m, fresh(m, STENO_PICKLE_LIST)); /* EMPTY_SET */
    case 0x90:
        return fill_to_mark(m, STENO_PICKLE_LIST); /* ADDITEMS */
    case 0x91:
        return collect_to_mark(m, STENO_PICKLE_LIST);
    case ')':
        return push_node(m, fresh(m, STENO_PICKLE_TUPLE));
    case 't':
        return collect_to_mark(m, STENO_PICKLE_TUPLE);
    case 0x85:
        return collect_items(m, STENO_PICKLE_TUPLE, 1);
    case 0x86:
        return collect_items(m, STENO_PICKLE_TUPLE, 2);
    case 0x87:
        return collect_items(m, STENO_PICKLE_TUPLE, 3);
    case '}':
        return push_node(m, fresh(m, STENO_PICKLE_DICT));
    case 's':
        return fill_one(m, 2, STENO_PICKLE_DICT);
    case 'u':
        return fill_to_mark(m, STENO_PICKLE_DICT);
    case 'd':
        return collect_to_mark(m, STENO_PICKLE_DICT);
    case 'h':
        return get_at(m, 1);
    case 'j':
        return get_at(m, 4);
    case 'q':
        return put_at(m, 1);
    case 'r':
        return put_at(m, 4);
    case 0x94:
        return put_memo(m, m->memoized); /* MEMOIZE */
    case 'c':
        return global_lines(m);
    case 0x93:
        return global_of_stack(m);
    case 'R':
        return call(m);
    case 0x81:
        return call(m); /* NEWOBJ */
    case 'b':
        return build_object(m);
    case 'Q':
        return collect_items(m, STENO_PICKLE_PERSISTENT, 1);
    default:
        return steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                          "%s: byte %zu of the pickle: opcode 0x%02x is not one of plain data",
                          m->name, (size_t)(m->p - m->start) - 1, op);
    }
}

static steno_status run_pickle(struct machine *m)
{
    steno_status st = STENO_OK;
    while (!st && !m->root) {
        const uint8_t *op = next_bytes(m, 1);
        if (!op)
            return bad_pickle(m, "cut short");
        st = *op == '.' ? stop(m) : step_pickle(m, *op);
    }
    return st;
}

steno_status steno_pickle_parse(steno_pickle **out, const void *bytes, size_t n, const char *name,
                                bool (*allowed)(const char *global), size_t *used, steno_err *err)
{
    struct machine m = {.start = bytes,
                        .p = bytes,
                        .end = (const uint8_t *)bytes + n,
                        .name = name,
                        .allowed = allowed,
                        .err = err};
    steno_pickle *p;
    steno_status st;
    if (n > STENO_PICKLE_MAX_BYTES) /* a checkpoint's weights follow an old pickle */
        m.end = m.start + STENO_PICKLE_MAX_BYTES;
    if (!n || m.start[0] != 0x80)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: not a pickle of protocol 2 or newer", name);
    p = calloc(1, sizeof *p);
    if (p)
        m.mem = p->mem = steno_arena_new(0);
    if (!p || !p->mem) {
        free(p);
        return no_memory_for_pickle(&m);
    }
    st = run_pickle(&m);
    free(m.stack);
    free(m.memo);
    p->root = m.root;
    if (used)
        *used = (size_t)(m.p - m.start);
    if (st)
        steno_pickle_close(p);
    else
        *out = p;
    return st;
}

void steno_pickle_close(steno_pickle *p)
{
    if (!p)
        return;
    steno_arena_free(p->mem);
    free(p);
}

const node *steno_pickle_root(const steno_pickle *p)
{
    return p->root;
}

const node *steno_pickle_get(const node *d, const char *key)
{
    const size_t n = strlen(key);
    if (!d || d->kind != STENO_PICKLE_DICT)
        return NULL;
    for (size_t i = d->n; i >= 2; i -= 2) {
        const node *k = d->item[i - 2];
        if (k->kind == STENO_PICKLE_STRING && k->n == n && !memcmp(k->text, key, n))
            return d->item[i - 1];
    }
    return NULL;
}
