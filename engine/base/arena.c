#include "base/arena.h"

#include "base/pages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64 * 1024)
#define LARGE_FROM                                                                                 \
    (2 * STENO_PAGE_LARGE) /* blocks from this size on get large pages of their own */

struct block {
    struct block *next;
    size_t size, used;
    unsigned char *data;
};

struct steno_arena {
    struct block *head; /* the block that is being filled; older ones follow it */
    size_t used, max;
    bool over; /* the last NULL was because of max */
};

void *steno_aligned_alloc(size_t n)
{
    size_t total, whole, align;
    void *p;
    if (!steno_add_size(n, STENO_OVERREAD + STENO_ALIGN - 1, &total))
        return NULL;
    align = total >= LARGE_FROM ? STENO_PAGE_LARGE : STENO_ALIGN;
    if (!steno_add_size(total, align - STENO_ALIGN, &whole))
        return NULL;
    whole &= ~(align - 1);
    p = aligned_alloc(align, whole ? whole : STENO_ALIGN);
    if (!p)
        return NULL;
    if (align > STENO_ALIGN) /* not the last part, which would be resident as a whole large page */
        steno_pages_enlarge(p, total & ~(align - 1));
    memset((char *)p + n, 0, (total & ~(size_t)(STENO_ALIGN - 1)) - n);
    return p;
}

void *steno_aligned_zeroed(size_t n)
{
    void *p = steno_aligned_alloc(n);
    return p ? memset(p, 0, n) : NULL;
}

void steno_aligned_free(void *p)
{
    free(p);
}

static struct block *block_new(size_t size)
{
    struct block *b = malloc(sizeof *b);
    if (!b)
        return NULL;
    b->data = steno_aligned_zeroed(size);
    if (!b->data) {
        free(b);
        return NULL;
    }
    b->next = NULL;
    b->size = size;
    b->used = 0;
    return b;
}

static void block_free(struct block *b)
{
    steno_aligned_free(b->data);
    free(b);
}

steno_arena *steno_arena_new(size_t max_bytes)
{
    steno_arena *a = calloc(1, sizeof *a);
    if (a)
        a->max = max_bytes;
    return a;
}

void steno_arena_free(steno_arena *a)
{
    if (!a)
        return;
    while (a->head) {
        struct block *next = a->head->next;
        block_free(a->head);
        a->head = next;
    }
    free(a);
}

void steno_arena_reset(steno_arena *a)
{
    while (a->head && a->head->next) {
        struct block *next = a->head->next;
        block_free(a->head);
        a->head = next;
    }
    if (a->head) {
        memset(a->head->data, 0, a->head->used);
        a->head->used = 0;
    }
    a->used = 0;
}

steno_arena *steno_arena_renew(steno_arena **a)
{
    if (*a)
        steno_arena_reset(*a);
    else
        *a = steno_arena_new(0);
    return *a;
}

static void *take_from_block(steno_arena *a, size_t n, size_t align)
{
    struct block *b = a->head;
    size_t at, need, total;
    if (!n)
        n = 1;
    if (!steno_add_size(a->used, n, &total) || (a->max && total > a->max)) {
        a->over = true;
        return NULL;
    }
    at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (!b || at > b->size || n > b->size - at) {
        if (!steno_add_size(n, align, &need))
            return NULL;
        b = block_new(need > BLOCK_BYTES ? need : BLOCK_BYTES);
        if (!b) {
            a->over = false;
            return NULL;
        }
        if (need > BLOCK_BYTES &&
            a->head) { /* a big block goes behind the head, which keeps its room */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
        at = 0;
    }
    b->used = at + n;
    a->used = total;
    return b->data + at;
}

void *steno_arena_alloc(steno_arena *a, size_t n)
{
    return take_from_block(a, n, 16);
}

void *steno_arena_calloc(steno_arena *a, size_t n, size_t size)
{
    size_t total;
    return steno_mul_size(n, size, &total) ? take_from_block(a, total, 16) : NULL;
}

void *steno_arena_alloc_tensor(steno_arena *a, size_t n)
{
    size_t total;
    return steno_add_size(n, STENO_OVERREAD, &total) ? take_from_block(a, total, STENO_ALIGN)
                                                     : NULL;
}

char *steno_arena_strndup(steno_arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? take_from_block(a, n + 1, 1) : NULL;
    if (p) {
        if (n)
            memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

char *steno_arena_strdup(steno_arena *a, const char *s)
{
    return steno_arena_strndup(a, s, strlen(s));
}

char *steno_arena_printf(steno_arena *a, const char *fmt, ...)
{
    va_list args, again;
    char *out = NULL;
    int n;
    va_start(args, fmt);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0)
        out = steno_arena_alloc(a, (size_t)n + 1);
    if (out)
        (void)vsnprintf(out, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return out;
}

steno_status steno_arena_failure(const steno_arena *a)
{
    return a->over ? STENO_ERR_LIMIT : STENO_ERR_NOMEM;
}

size_t steno_arena_used(const steno_arena *a)
{
    return a->used;
}
