#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void steno_buf_init(struct steno_buf *b, size_t max)
{
    b->data = NULL;
    b->len = b->cap = 0;
    b->max = max;
}

void steno_buf_free(struct steno_buf *b)
{
    free(b->data);
    steno_buf_init(b, b->max);
}

void steno_buf_reset(struct steno_buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

steno_status steno_buf_reserve(struct steno_buf *b, size_t more)
{
    size_t need, cap;
    char *p;
    if (!steno_add_size(b->len, more, &need) || need > b->max)
        return STENO_ERR_LIMIT;
    if (need < b->cap)
        return STENO_OK;
    cap = b->cap ? b->cap : 64;
    while (cap <= need)
        cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
    if (cap > b->max && need < b->max)
        cap = b->max + 1;
    p = realloc(b->data, cap);
    if (!p)
        return STENO_ERR_NOMEM;
    b->data = p;
    b->cap = cap;
    return STENO_OK;
}

steno_status steno_buf_add(struct steno_buf *b, const void *p, size_t n)
{
    steno_status st = steno_buf_reserve(b, n);
    if (st)
        return st;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return STENO_OK;
}

steno_status steno_buf_puts(struct steno_buf *b, const char *s)
{
    return steno_buf_add(b, s, strlen(s));
}

steno_status steno_buf_printf(struct steno_buf *b, const char *fmt, ...)
{
    va_list ap;
    steno_status st;
    int n;
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return STENO_ERR_INTERNAL;
    st = steno_buf_reserve(b, (size_t)n);
    if (st)
        return st;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return STENO_OK;
}

void steno_buf_drop(struct steno_buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

void steno_buf_cut(struct steno_buf *b, size_t len)
{
    if (len < b->len)
        b->data[b->len = len] = '\0';
}

char *steno_buf_take(struct steno_buf *b, size_t *len)
{
    char *p = b->data;
    if (len)
        *len = b->len;
    steno_buf_init(b, b->max);
    return p;
}
