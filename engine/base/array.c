#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define FEWEST 16 /* elements that an array has room for at first */

struct steno_block {
    struct steno_block *older;
    _Alignas(max_align_t) unsigned char bytes[];
};

steno_status steno_array_grow(void *array, size_t *cap, size_t n, size_t size)
{
    const size_t twice = *cap < SIZE_MAX / 2 ? 2 * *cap : SIZE_MAX, least = *cap ? twice : FEWEST;
    const size_t more = n > least ? n : least;
    size_t bytes;
    void *p;
    memcpy(&p, array, sizeof p); /* a pointer of any type */
    if (!steno_mul_size(more, size, &bytes) || !(p = realloc(p, bytes)))
        return STENO_ERR_NOMEM;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return STENO_OK;
}

void *steno_blocks_add(struct steno_blocks *b, size_t n, size_t size)
{
    size_t bytes, total;
    struct steno_block *block = NULL;
    if (steno_mul_size(n, size, &bytes) && steno_add_size(bytes, sizeof *block, &total))
        block = calloc(1, total);
    b->failed |= !block;
    if (!block)
        return NULL;
    block->older = b->newest;
    b->newest = block;
    return block->bytes;
}

void steno_blocks_free(struct steno_blocks *b)
{
    for (struct steno_block *block = b->newest, *older; block; block = older) {
        older = block->older;
        free(block);
    }
    *b = (struct steno_blocks){0};
}
