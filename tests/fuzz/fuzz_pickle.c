/* Pickles, whatever they name: the tree of an accepted one can be walked. */
/* covers: engine/formats/pickle.c */
#include "formats/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool all(const char *global)
{
    return global[0] != '\0';
}

static size_t walk(const struct steno_pickle_node *v, int depth, size_t *left)
{
    size_t sum = (size_t)v->kind;
    if (v->text)
        for (size_t i = 0; i < v->n; i++)
            sum += (unsigned char)v->text[i];
    for (size_t i = 0; v->item && i < v->n && depth < 16 && *left; i++) {
        --*left;
        sum += walk(v->item[i], depth + 1, left);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_pickle *p = NULL;
    size_t left = 10000;
    volatile size_t sum;
    if (steno_pickle_parse(&p, data, n, "fuzz", all, NULL, NULL))
        return 0;
    sum = walk(steno_pickle_root(p), 0, &left);
    (void)sum;
    steno_pickle_close(p);
    return 0;
}
