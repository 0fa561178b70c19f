#include "formats/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define END_SIZE 22   /* end of central directory record without its comment */
#define ENTRY_SIZE 46 /* central directory header */
#define LOCAL_SIZE 30 /* local file header */
#define MAX_COMMENT 65535
#define MAX_MEMBERS 4096

static unsigned get16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static steno_status bad(steno_err *err, const char *name, const char *what)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s", name, what);
}

/* The end record is at the end of the file; only a comment may follow it. */
static const uint8_t *find_end(const uint8_t *p, size_t n)
{
    size_t first = n > END_SIZE + MAX_COMMENT ? n - END_SIZE - MAX_COMMENT : 0;
    if (n < END_SIZE)
        return NULL;
    for (size_t at = n - END_SIZE + 1; at-- > first;)
        if (get32(p + at) == 0x06054b50u && at + END_SIZE + get16(p + at + 20) <= n)
            return p + at;
    return NULL;
}

/* Find the data of entry e: they follow its local header, whose name and extra field have lengths
 * of their own. */
static steno_status locate(const uint8_t *p, size_t n, const char *name, size_t local,
                           struct steno_zip_member *m, steno_err *err)
{
    if (local > n || n - local < LOCAL_SIZE || get32(p + local) != 0x04034b50u)
        return bad(err, name, "damaged archive: a member's header is not where it should be");
    m->at = local + LOCAL_SIZE + get16(p + local + 26) + get16(p + local + 28);
    if (m->at > n || n - m->at < m->packed)
        return bad(err, name, "damaged archive: a member reaches past the end");
    return STENO_OK;
}

steno_status steno_zip_member(const void *bytes, size_t n, const char *name, size_t i,
                              struct steno_zip_member *out, steno_err *err)
{
    const uint8_t *p = bytes, *end = find_end(p, n);
    struct steno_zip_member m;
    size_t at, count, local;
    steno_status st;
    if (!end)
        return bad(err, name, "not a ZIP archive");
    count = get16(end + 10);
    at = get32(end + 16);
    if (count > MAX_MEMBERS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu members, the limit is %d", name, count,
                          MAX_MEMBERS);
    if (i >= count)
        return STENO_NEED_MORE;
    for (;; i--) { /* entries have no fixed length: start from the first */
        size_t rest = at <= n ? n - at : 0, length;
        if (rest < ENTRY_SIZE || get32(p + at) != 0x02014b50u)
            return bad(err, name, "damaged archive: bad central directory");
        length = ENTRY_SIZE + (size_t)get16(p + at + 28) + get16(p + at + 30) + get16(p + at + 32);
        if (rest < length)
            return bad(err, name, "damaged archive: central directory cut short");
        if (i == 0)
            break;
        at += length;
    }
    m = (struct steno_zip_member){.name = (const char *)p + at + ENTRY_SIZE,
                                  .name_len = get16(p + at + 28),
                                  .size = get32(p + at + 24),
                                  .packed = get32(p + at + 20),
                                  .method = get16(p + at + 10),
                                  .crc = get32(p + at + 16)};
    local = get32(p + at + 42);
    if (get16(p + at + 8) & 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %.*s is encrypted", name,
                          (int)m.name_len, m.name);
    if (m.size == UINT32_MAX || m.packed == UINT32_MAX || local == UINT32_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %.*s needs ZIP64", name, (int)m.name_len,
                          m.name);
    st = locate(p, n, name, local, &m, err);
    if (!st)
        *out = m;
    return st;
}

/* Inflate raw deflate data into room for exactly `size` bytes, so that a bomb stops there. */
static bool inflate_all(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    z_stream z = {0};
    void *unwritten; /* zlib's interface has no const */
    int rc;
    memcpy(&unwritten, &in, sizeof unwritten);
    z.next_in = unwritten;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = (unsigned)size;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return false;
    rc = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0;
}

static steno_status unpack(const uint8_t *p, const char *name, const struct steno_zip_member *m,
                           uint8_t *buf, steno_err *err)
{
    bool ok;
    switch (m->method) {
    case 0:
        ok = m->packed == m->size;
        if (ok && m->size)
            memcpy(buf, p + m->at, m->size);
        break;
    case 8:
        ok = inflate_all(p + m->at, m->packed, buf, m->size);
        break;
    default:
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: %.*s is packed by method %u; stored and deflated can be read", name,
                          (int)m->name_len, m->name, m->method);
    }
    if (ok && crc32_z(0, buf, m->size) != m->crc)
        ok = false;
    return ok ? STENO_OK
              : steno_fail(err, STENO_ERR_FORMAT, "%s: %.*s is damaged", name, (int)m->name_len,
                           m->name);
}

steno_status steno_zip_read(const void *bytes, size_t n, const char *name,
                            const struct steno_zip_member *m, size_t max_bytes, void **out,
                            steno_err *err)
{
    uint8_t *buf;
    steno_status st;
    if (m->at > n || n - m->at < m->packed)
        return bad(err, name, "damaged archive: a member reaches past the end");
    if (m->size > max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %.*s has %zu bytes, the limit is %zu", name,
                          (int)m->name_len, m->name, m->size, max_bytes);
    buf = malloc(m->size + 1);
    if (!buf)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = unpack(bytes, name, m, buf, err);
    if (st)
        free(buf);
    else
        *out = buf;
    return st;
}
