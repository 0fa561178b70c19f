/* GGUF: every value and every element of an accepted file can be read. */
/* covers: engine/formats/gguf.c */
/* covers: engine/formats/ggml_type.c */
#include <stdlib.h>

#include "formats/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_tensor(const struct steno_gguf_tensor *t)
{
    float x[256];
    const unsigned char *p = t->data;
    for (size_t at = 0; t->type && at < t->count; at += t->type->per, p += t->type->bytes)
        t->type->read(p, 1, x);
}

/* Keys that the families ask for; inputs have them. */
static void read_key(const steno_gguf *g, const char *key)
{
    struct steno_gguf_list l;
    const char *p;
    volatile char last;
    int64_t i;
    double x;
    size_t n;
    (void)steno_gguf_int(g, key, INT64_MIN, INT64_MAX, &i);
    (void)steno_gguf_number(g, key, &x);
    (void)steno_gguf_text(g, key);
    if (!steno_gguf_list(g, key, &l))
        return;
    while (steno_gguf_next_text(&l, &p, &n))
        if (n)
            last = p[n - 1];
    while (steno_gguf_next_int(&l, &i))
        continue;
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const keys[] = {"general.architecture", "general.alignment", "a", "b", "c"};
    steno_gguf *g = NULL;
    if (steno_gguf_parse(&g, data, n, "fuzz", NULL))
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        read_key(g, keys[i]);
    for (size_t i = 0; i < steno_gguf_count(g); i++) {
        const struct steno_gguf_tensor *t = steno_gguf_get(g, i);
        if (steno_gguf_find(g, t->name) != t)
            abort();
        read_tensor(t);
    }
    steno_gguf_close(g);
    return 0;
}
