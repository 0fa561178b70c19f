/* The first line of the input is the Content-Type, the rest is the body. The body is parsed
 * whole, and cut in two places that the input selects: the result is the same. */
/* covers: protocol/multipart.c */
#include "base/buf.h"
#include "protocol/multipart.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static steno_status on_part(void *user, const char *name, const char *filename, steno_err *err)
{
    (void)err;
    return steno_buf_printf(user, "\n[%s|%s]", name, filename ? filename : "-");
}

static steno_status on_data(void *user, const char *data, size_t n, steno_err *err)
{
    (void)err;
    return steno_buf_add(user, data, n);
}

static steno_status on_end(void *user, steno_err *err)
{
    (void)err;
    return steno_buf_puts(user, "$");
}

static steno_status parse(const char *type, const char *body, size_t n, size_t a, size_t b,
                          struct steno_buf *out)
{
    const struct steno_multipart_events on = {out, on_part, on_data, on_end};
    steno_multipart *mp = NULL;
    steno_err err;
    steno_status st = steno_multipart_open(&mp, type, &on, &err);
    if (!st)
        st = steno_multipart_push(mp, body, a, &err);
    if (!st)
        st = steno_multipart_push(mp, body + a, b - a, &err);
    if (!st)
        st = steno_multipart_push(mp, body + b, n - b, &err);
    if (!st)
        st = steno_multipart_end(mp, &err);
    steno_multipart_close(mp);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *eol = memchr(data, '\n', size);
    char type[256];
    struct steno_buf whole, cut;
    size_t n, a, b;
    const char *body;
    steno_status one, three;
    if (!eol || (size_t)(eol - data) >= sizeof type)
        return 0;
    memcpy(type, data, (size_t)(eol - data));
    type[eol - data] = '\0';
    body = (const char *)eol + 1;
    n = size - (size_t)(eol - data) - 1;
    a = n ? data[0] * n / 256 : 0;
    b = n ? a + data[size - 1] * (n - a) / 256 : 0;
    steno_buf_init(&whole, 1 << 20);
    steno_buf_init(&cut, 1 << 20);
    one = parse(type, body, n, 0, 0, &whole);
    three = parse(type, body, n, a, b, &cut);
    if (one != three)
        abort();
    /* data before an error may have been delivered further in one run than in the other */
    if (!one && (whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, whole.len))))
        abort();
    steno_buf_free(&whole);
    steno_buf_free(&cut);
    return 0;
}
