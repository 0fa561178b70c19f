#include "base/utf8.h"

#include <utf8proc.h>

size_t steno_utf8_next(const char *p, size_t n, int32_t *c)
{
    const utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, c);
    if (k > 0)
        return (size_t)k;
    *c = -1;
    return 1;
}

bool steno_utf8_valid(const char *p, size_t n)
{
    int32_t c = 0;
    for (size_t k; n && c >= 0; p += k, n -= k)
        k = steno_utf8_next(p, n, &c);
    return c >= 0;
}

/* The longest prefix of the bytes at p that some character begins with, at least 1 byte. (Unicode
 * 15, table 3-7) */
static size_t broken_part(const unsigned char *p, size_t n)
{
    size_t want = *p >= 0xF0 && *p <= 0xF4 ? 4 : *p >= 0xE0 ? 3 : *p >= 0xC2 ? 2 : 1, at = 1;
    unsigned char low = *p == 0xE0 ? 0xA0 : *p == 0xF0 ? 0x90 : 0x80;
    unsigned char high = *p == 0xED ? 0x9F : *p == 0xF4 ? 0x8F : 0xBF;
    if (*p > 0xF4)
        return 1;
    for (; at < want && at < n && p[at] >= low && p[at] <= high; at++) {
        low = 0x80;
        high = 0xBF;
    }
    return at;
}

steno_status steno_utf8_repair(const char *p, size_t n, struct steno_buf *out)
{
    steno_status st = STENO_OK;
    for (size_t at = 0, good = 0; !st && at < n; good = at) {
        int32_t c = 0;
        for (size_t k; at < n && c >= 0; at += c >= 0 ? k : 0)
            k = steno_utf8_next(p + at, n - at, &c);
        st = steno_buf_add(out, p + good, at - good);
        if (!st && at < n) {
            st = steno_buf_puts(out, "\xEF\xBF\xBD");
            at += broken_part((const unsigned char *)p + at, n - at);
        }
    }
    return st;
}
