#include "tests/support/gguf_make.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32
#define MOST ((size_t)64 << 20)

static void must(steno_status st)
{
    if (st)
        abort();
}

static void put(struct steno_buf *b, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++, v >>= 8)
        must(steno_buf_add(b, &(char){(char)(v & 255)}, 1));
}

static void put_string(struct steno_buf *b, const char *s)
{
    put(b, strlen(s), 8);
    must(steno_buf_puts(b, s));
}

static void align(struct steno_buf *b)
{
    while (b->len % ALIGNMENT)
        put(b, 0, 1);
}

void gguf_make_begin(struct gguf_make *g)
{
    memset(g, 0, sizeof *g);
    steno_buf_init(&g->keys, MOST);
    steno_buf_init(&g->infos, MOST);
    steno_buf_init(&g->data, MOST);
}

static void put_key(struct gguf_make *g, const char *key, uint32_t type)
{
    g->n_keys++;
    put_string(&g->keys, key);
    put(&g->keys, type, 4);
}

void gguf_make_text(struct gguf_make *g, const char *key, const char *value)
{
    put_key(g, key, 8);
    put_string(&g->keys, value);
}

void gguf_make_u32(struct gguf_make *g, const char *key, uint32_t value)
{
    put_key(g, key, 4);
    put(&g->keys, value, 4);
}

void gguf_make_i32(struct gguf_make *g, const char *key, int32_t value)
{
    put_key(g, key, 5);
    put(&g->keys, (uint32_t)value, 4);
}

void gguf_make_f32(struct gguf_make *g, const char *key, float value)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    put_key(g, key, 6);
    put(&g->keys, u, 4);
}

void gguf_make_flag(struct gguf_make *g, const char *key, bool value)
{
    put_key(g, key, 7);
    put(&g->keys, value, 1);
}

void gguf_make_texts(struct gguf_make *g, const char *key, size_t n, const char *const *value)
{
    put_key(g, key, 9);
    put(&g->keys, 8, 4);
    put(&g->keys, n, 8);
    for (size_t i = 0; i < n; i++)
        put_string(&g->keys, value[i]);
}

void gguf_make_ints(struct gguf_make *g, const char *key, size_t n, const int32_t *value)
{
    put_key(g, key, 9);
    put(&g->keys, 5, 4);
    put(&g->keys, n, 8);
    for (size_t i = 0; i < n; i++)
        put(&g->keys, (uint32_t)value[i], 4);
}

void gguf_make_tensor(struct gguf_make *g, const char *name, uint32_t type, int rank,
                      const int64_t *dim, const void *data, size_t bytes)
{
    g->n_tensors++;
    align(&g->data);
    put_string(&g->infos, name);
    put(&g->infos, (uint64_t)rank, 4);
    for (int i = rank; i-- > 0;)
        put(&g->infos, (uint64_t)dim[i], 8);
    put(&g->infos, type, 4);
    put(&g->infos, g->data.len, 8);
    must(steno_buf_add(&g->data, data, bytes));
}

void gguf_make_end(struct gguf_make *g, struct steno_buf *out)
{
    const size_t from = out->len;
    must(steno_buf_puts(out, "GGUF"));
    put(out, 3, 4);
    put(out, g->n_tensors, 8);
    put(out, g->n_keys, 8);
    must(steno_buf_add(out, g->keys.data, g->keys.len));
    must(steno_buf_add(out, g->infos.data, g->infos.len));
    while ((out->len - from) % ALIGNMENT)
        put(out, 0, 1);
    must(steno_buf_add(out, g->data.data, g->data.len));
    steno_buf_free(&g->keys);
    steno_buf_free(&g->infos);
    steno_buf_free(&g->data);
}
