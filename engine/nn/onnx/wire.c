/* First check of untrusted bytes, and the memory limit of the parsed messages. */
#include "base/hash.h"
#include "base/pages.h"
#include "base/protobuf.h"
#include "nn/onnx/internal.h"

#include <stdlib.h>
#include <string.h>

/* Model, graph, node, attribute, graph, ...: three levels per body graph. */
#define MAX_LEVELS (3 * STENO_MAX_GRAPH_DEPTH + 8)
/* In the file. Unpacked, ten million nodes of 14 bytes would take 3.4 GB. Some may be in functions
 * that are not called, so this does not limit the graph. */
#define MAX_FILE_NODES (2 * STENO_ONNX_MAX_NODES)
#define MAX_MESSAGES ((size_t)16 << 20)

struct walk {
    const uint8_t *base;
    size_t nodes, messages;
    struct steno_onnx_large *large;
    steno_err *err;
};

const ProtobufCMessageDescriptor *steno_onnx_submessage(const ProtobufCMessageDescriptor *d,
                                                        uint64_t number)
{
    const ProtobufCFieldDescriptor *f =
        number <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(d, (unsigned)number) : NULL;
    return f && f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
}

static steno_status count_fields(struct walk *w, const ProtobufCMessageDescriptor *d, int level)
{
    if (level > MAX_LEVELS)
        return steno_fail(w->err, STENO_ERR_LIMIT,
                          "more than %d levels of nesting (body graphs in "
                          "body graphs)",
                          STENO_MAX_GRAPH_DEPTH);
    if (++w->messages > MAX_MESSAGES)
        return steno_fail(w->err, STENO_ERR_LIMIT, "more than %zu messages in the file",
                          MAX_MESSAGES);
    if (d == &onnx__node__descriptor && ++w->nodes > MAX_FILE_NODES)
        return steno_fail(w->err, STENO_ERR_LIMIT, "more than %u nodes in the file",
                          MAX_FILE_NODES);
    return STENO_OK;
}

/* Note a large byte string: [p, p + n) of field `key` of d. */
static void note_large(struct walk *w, const ProtobufCMessageDescriptor *d, uint64_t key,
                       const uint8_t *p, uint64_t n)
{
    if (key != (STENO_ONNX_RAW_DATA << 3 | 2) || d != &onnx__tensor__descriptor ||
        !w->large->from || n < w->large->from)
        return;
    w->large->sum += n;
    if (w->large->mapped) /* a fault may have mapped 2 MiB around it */
        steno_pages_rest(w->base, (size_t)(p - w->base));
}

static steno_status walk(struct walk *w, const uint8_t *p, const uint8_t *end,
                         const ProtobufCMessageDescriptor *d, int level)
{
    steno_status st = count_fields(w, d, level);
    if (st)
        return st;
    while (p < end) {
        const uint8_t *at = p;
        uint64_t key, n;
        const ProtobufCMessageDescriptor *sub;
        if (!steno_protobuf_field(&p, end, &key, &n))
            return steno_fail(w->err, STENO_ERR_FORMAT,
                              "not an ONNX model, or cut short: bad %s "
                              "field at byte %zu",
                              d->short_name, (size_t)(at - w->base));
        note_large(w, d, key, p, n);
        sub = (key & 7) == 2 ? steno_onnx_submessage(d, key >> 3) : NULL;
        if (sub && (st = walk(w, p, p + n, sub, level + 1)))
            return st;
        p += n;
    }
    return STENO_OK;
}

steno_status steno_onnx_check_wire(const uint8_t *p, size_t n, struct steno_onnx_large *large,
                                   steno_err *err)
{
    struct walk w = {.base = p, .large = large, .err = err};
    large->sum = 0;
    return walk(&w, p, p + n, &onnx__model__descriptor, 1);
}

/* ---- memory of the unpacked messages ---- */

#define BLOCK_MIN 4096

bool steno_onnx_is_block(size_t n)
{
    return n >= BLOCK_MIN;
}

static void *heap_alloc(void *data, size_t n)
{
    struct steno_onnx_heap *h = data;
    size_t total;
    if (!steno_add_size(h->used, n, &total) || total > h->max)
        return NULL;
    h->used = total;
    return steno_onnx_is_block(n) ? steno_aligned_alloc(n) : malloc(n);
}

static void heap_free(void *data, void *p)
{
    (void)data;
    free(p); /* free() also takes steno_aligned_alloc blocks: base/arena.h */
}

void steno_onnx_heap_init(struct steno_onnx_heap *h, size_t max)
{
    h->alloc.alloc = heap_alloc;
    h->alloc.free = heap_free;
    h->alloc.allocator_data = h;
    h->used = 0;
    h->max = max;
}

/* ---- names ---- */

static size_t hash(const char *s)
{
    const uint64_t h = steno_hash_text(STENO_HASH, s);
    return (size_t)(h ^ h >> 32);
}

void steno_names_free(struct steno_names *t)
{
    free(t->slot);
    memset(t, 0, sizeof *t);
}

static size_t find_slot(const struct steno_names *t, const char *name)
{
    size_t i = hash(name) & (t->cap - 1);
    while (t->slot[i].name && strcmp(t->slot[i].name, name))
        i = (i + 1) & (t->cap - 1);
    return i;
}

steno_value_id steno_names_find(const struct steno_names *t, const char *name)
{
    size_t i = t->cap ? find_slot(t, name) : 0;
    return t->cap && t->slot[i].name ? t->slot[i].v : STENO_NONE;
}

steno_status steno_names_put(struct steno_names *t, const char *name, steno_value_id v)
{
    size_t i;
    if (2 * (t->n + 1) > t->cap) {
        struct steno_names big = {.cap = t->cap ? 2 * t->cap : 64};
        big.slot = calloc(big.cap, sizeof *big.slot);
        if (!big.slot)
            return STENO_ERR_NOMEM;
        for (size_t k = 0; k < t->cap; k++)
            if (t->slot[k].name)
                big.slot[find_slot(&big, t->slot[k].name)] = t->slot[k];
        big.n = t->n;
        free(t->slot);
        *t = big;
    }
    i = find_slot(t, name);
    if (!t->slot[i].name)
        t->n++;
    t->slot[i].name = name;
    t->slot[i].v = v;
    return STENO_OK;
}
