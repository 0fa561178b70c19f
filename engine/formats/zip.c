#include "formats/zip.h"

#include "base/little_endian.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define END_SIZE 22   /* end of central directory record without its comment */
#define ENTRY_SIZE 46 /* central directory header */
#define LOCAL_SIZE 30 /* local file header */
#define MAX_COMMENT 65535
#define MAX_MEMBERS 65535
#define MAX_WALKED 4096 /* members where each one is found by a walk from the first */
#define LOCATOR64_SIZE 20
#define END64_SIZE 56

static steno_status bad_zip(steno_err *err, const char *name, const char *what)
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
        if (steno_le32(p + at) == 0x06054b50u && at + END_SIZE + steno_le16(p + at + 20) <= n)
            return p + at;
    return NULL;
}

/* Find the data of entry e: they follow its local header, whose name and extra field have lengths
 * of their own. */
static steno_status locate(const uint8_t *p, size_t n, const char *name, size_t local,
                           struct steno_zip_member *m, steno_err *err)
{
    if (local > n || n - local < LOCAL_SIZE || steno_le32(p + local) != 0x04034b50u)
        return bad_zip(err, name, "damaged archive: a member's header is not where it should be");
    m->at = local + LOCAL_SIZE + steno_le16(p + local + 26) + steno_le16(p + local + 28);
    if (m->at > n || n - m->at < m->packed)
        return bad_zip(err, name, "damaged archive: a member reaches past the end");
    return STENO_OK;
}

/* Where the central directory is and how many entries it has. */
struct directory {
    size_t at, count;
};

/* ZIP64's end record, which the locator before the ordinary one names. */
static steno_status read_end64(const uint8_t *p, size_t n, const char *name, const uint8_t *end,
                               struct directory *d, steno_err *err)
{
    uint64_t at;
    if (end - p < LOCATOR64_SIZE || steno_le32(end - LOCATOR64_SIZE) != 0x07064b50u)
        return STENO_OK; /* 0xffff entries, but no ZIP64 */
    at = steno_le64(end - LOCATOR64_SIZE + 8);
    if (at > n || n - at < END64_SIZE || steno_le32(p + at) != 0x06064b50u)
        return bad_zip(err, name,
                       "damaged archive: its ZIP64 end record is not where it should be");
    if (steno_le64(p + at + 32) > MAX_MEMBERS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %llu members, the limit is %d", name,
                          (unsigned long long)steno_le64(p + at + 32), MAX_MEMBERS);
    if (steno_le64(p + at + 48) > n)
        return bad_zip(err, name, "damaged archive: bad central directory");
    d->count = (size_t)steno_le64(p + at + 32);
    d->at = (size_t)steno_le64(p + at + 48);
    return STENO_OK;
}

static steno_status read_end(const uint8_t *p, size_t n, const char *name, struct directory *d,
                             steno_err *err)
{
    const uint8_t *end = find_end(p, n);
    steno_status st = STENO_OK;
    if (!end)
        return bad_zip(err, name, "not a ZIP archive");
    d->count = steno_le16(end + 10);
    d->at = steno_le32(end + 16);
    if (d->count == UINT16_MAX || d->at == UINT32_MAX)
        st = read_end64(p, n, name, end, d, err);
    if (!st && d->count > MAX_MEMBERS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu members, the limit is %d", name, d->count,
                          MAX_MEMBERS);
    return st;
}

/* The wide sizes of an entry, in ZIP64's extra field; each stands for a narrow one of all ones.
 * False: one is missing. */
static bool read_extra64(const uint8_t *extra, size_t n, struct steno_zip_member *m, size_t *local)
{
    size_t *const wide[] = {&m->size, &m->packed, local};
    while (n >= 4) {
        size_t length = steno_le16(extra + 2);
        const uint8_t *p = extra + 4;
        if (length > n - 4)
            return false;
        extra += 4 + length;
        n -= 4 + length;
        if (steno_le16(p - 4) != 1)
            continue;
        for (int i = 0; i < 3; i++) {
            if (*wide[i] != UINT32_MAX)
                continue;
            if (length < 8)
                return false;
            *wide[i] = (size_t)steno_le64(p);
            p += 8;
            length -= 8;
        }
        return true;
    }
    return false;
}

/* The entry at *at, which moves on to the next one. */
static steno_status read_entry(const uint8_t *p, size_t n, const char *name, size_t *at,
                               struct steno_zip_member *m, size_t *local, steno_err *err)
{
    const size_t rest = *at <= n ? n - *at : 0;
    const uint8_t *e = p + *at;
    size_t length;
    if (rest < ENTRY_SIZE || steno_le32(e) != 0x02014b50u)
        return bad_zip(err, name, "damaged archive: bad central directory");
    length = ENTRY_SIZE + (size_t)steno_le16(e + 28) + steno_le16(e + 30) + steno_le16(e + 32);
    if (rest < length)
        return bad_zip(err, name, "damaged archive: central directory cut short");
    *at += length;
    *m = (struct steno_zip_member){.name = (const char *)e + ENTRY_SIZE,
                                   .name_len = steno_le16(e + 28),
                                   .size = steno_le32(e + 24),
                                   .packed = steno_le32(e + 20),
                                   .method = steno_le16(e + 10),
                                   .crc = steno_le32(e + 16)};
    *local = steno_le32(e + 42);
    if (steno_le16(e + 8) & 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %.*s is encrypted", name,
                          (int)m->name_len, m->name);
    if ((m->size == UINT32_MAX || m->packed == UINT32_MAX || *local == UINT32_MAX) &&
        !read_extra64(e + ENTRY_SIZE + m->name_len, steno_le16(e + 30), m, local))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %.*s has no ZIP64 sizes", name,
                          (int)m->name_len, m->name);
    return STENO_OK;
}

steno_status steno_zip_member(const void *bytes, size_t n, const char *name, size_t i,
                              struct steno_zip_member *out, steno_err *err)
{
    struct directory d;
    struct steno_zip_member m;
    size_t local = 0;
    steno_status st = read_end(bytes, n, name, &d, err);
    if (st)
        return st;
    if (d.count > MAX_WALKED)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu members, the limit is %d", name, d.count,
                          MAX_WALKED);
    if (i >= d.count)
        return STENO_NEED_MORE;
    for (size_t k = 0; k <= i && !st; k++) /* entries have no fixed length: start from the first */
        st = read_entry(bytes, n, name, &d.at, &m, &local, err);
    if (!st)
        st = locate(bytes, n, name, local, &m, err);
    if (!st)
        *out = m;
    return st;
}

static int compare_names(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int c = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static int entries_by_name(const void *a, const void *b)
{
    const struct steno_zip_member *x = a, *y = b;
    return compare_names(x->name, x->name_len, y->name, y->name_len);
}

static steno_status read_members(const uint8_t *p, size_t n, const char *name, struct directory d,
                                 struct steno_zip_member *all, steno_err *err)
{
    for (size_t i = 0; i < d.count; i++) {
        size_t local;
        steno_status st = read_entry(p, n, name, &d.at, &all[i], &local, err);
        if (!st)
            st = locate(p, n, name, local, &all[i], err);
        if (st)
            return st;
    }
    if (d.count)
        qsort(all, d.count, sizeof *all, entries_by_name);
    for (size_t i = 1; i < d.count; i++)
        if (!entries_by_name(&all[i - 1], &all[i]))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: %.*s is in the archive twice", name,
                              (int)all[i].name_len, all[i].name);
    return STENO_OK;
}

steno_status steno_zip_list(const void *bytes, size_t n, const char *name,
                            struct steno_zip_member **out, size_t *count, steno_err *err)
{
    struct directory d;
    struct steno_zip_member *all;
    steno_status st = read_end(bytes, n, name, &d, err);
    if (st)
        return st;
    all = calloc(d.count + 1, sizeof *all);
    if (!all)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = read_members(bytes, n, name, d, all, err);
    if (st) {
        free(all);
        return st;
    }
    *out = all;
    *count = d.count;
    return STENO_OK;
}

const struct steno_zip_member *steno_zip_find(const struct steno_zip_member *members, size_t count,
                                              const char *name)
{
    const struct steno_zip_member key = {.name = name, .name_len = strlen(name)};
    return count ? bsearch(&key, members, count, sizeof key, entries_by_name) : NULL;
}

const void *steno_zip_stored(const void *bytes, const struct steno_zip_member *m)
{
    return m->method == 0 && m->packed == m->size ? (const uint8_t *)bytes + m->at : NULL;
}

/* Inflate raw deflate data into room for exactly `size` bytes, so that a bomb stops there. */
static bool inflate_all(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    z_stream z = {0};
    void *unwritten; /* zlib's interface has no const */
    int rc;
    if (n > UINT32_MAX || size > UINT32_MAX) /* the counters of zlib's interface */
        return false;
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

static steno_status unpack_member(const uint8_t *p, const char *name,
                                  const struct steno_zip_member *m, uint8_t *buf, steno_err *err)
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
        return bad_zip(err, name, "damaged archive: a member reaches past the end");
    if (m->size > max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %.*s has %zu bytes, the limit is %zu", name,
                          (int)m->name_len, m->name, m->size, max_bytes);
    buf = malloc(m->size + 1);
    if (!buf)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = unpack_member(bytes, name, m, buf, err);
    if (st)
        free(buf);
    else
        *out = buf;
    return st;
}
