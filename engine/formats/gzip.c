#include "formats/gzip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PIECE ((size_t)1 << 20) /* input of one call; zlib's counters are of 32 bits */
#define FIRST ((size_t)1 << 20)

bool steno_gzip_probe(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    return n > 18 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

struct unpacking {
    const uint8_t *in;
    size_t n; /* left of in */
    uint8_t *out;
    size_t size, cap, max;
    const char *name;
    steno_err *err;
};

/* Large blocks grow in place: the C library moves their pages, not their bytes. */
static steno_status reserve_block(struct unpacking *u)
{
    size_t cap = u->cap ? u->cap + u->cap / 2 : FIRST;
    uint8_t *p;
    if (u->size < u->cap)
        return STENO_OK;
    if (u->size >= u->max)
        return steno_fail(u->err, STENO_ERR_LIMIT, "%s: more than %zu bytes when unpacked", u->name,
                          u->max);
    cap = cap < u->max ? cap : u->max;
    p = realloc(u->out, cap);
    if (!p)
        return steno_fail(u->err, STENO_ERR_NOMEM, "%s: out of memory", u->name);
    u->out = p;
    u->cap = cap;
    return STENO_OK;
}

/* Run zlib once. *rc is its answer. */
static steno_status inflate_once(struct unpacking *u, z_stream *z, int *rc)
{
    void *unwritten; /* zlib's interface has no const */
    const size_t in = u->n < PIECE ? u->n : PIECE;
    size_t room;
    steno_status st = reserve_block(u);
    if (st)
        return st;
    room = u->cap - u->size < PIECE ? u->cap - u->size : PIECE;
    memcpy(&unwritten, &u->in, sizeof unwritten);
    z->next_in = unwritten;
    z->avail_in = (unsigned)in;
    z->next_out = u->out + u->size;
    z->avail_out = (unsigned)room;
    *rc = inflate(z, Z_NO_FLUSH);
    u->in += in - z->avail_in;
    u->n -= in - z->avail_in;
    u->size += room - z->avail_out;
    if (*rc == Z_STREAM_END || *rc == Z_OK || (*rc == Z_BUF_ERROR && u->n && !z->avail_out))
        return STENO_OK;
    return steno_fail(u->err, *rc == Z_MEM_ERROR ? STENO_ERR_NOMEM : STENO_ERR_FORMAT, "%s: %s",
                      u->name, *rc == Z_BUF_ERROR ? "cut short" : "damaged: cannot be unpacked");
}

/* Zeros may follow the last member: gzip writes and ignores them. */
static bool only_zeros(const struct unpacking *u)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->in[i])
            return false;
    return true;
}

static steno_status unpack_gzip(struct unpacking *u, z_stream *z)
{
    int rc = Z_OK;
    steno_status st = STENO_OK;
    while (!st && (rc != Z_STREAM_END || !only_zeros(u))) {
        if (rc == Z_STREAM_END && inflateReset(z) != Z_OK)
            return steno_fail(u->err, STENO_ERR_FORMAT, "%s: damaged", u->name);
        st = inflate_once(u, z, &rc);
    }
    return st;
}

steno_status steno_gzip_unpack(const void *bytes, size_t n, const char *name, size_t max,
                               void **out, size_t *size, steno_err *err)
{
    struct unpacking u = {.in = bytes, .n = n, .max = max, .name = name, .err = err};
    z_stream z = {0};
    steno_status st;
    if (inflateInit2(&z, MAX_WBITS + 16) != Z_OK) /* + 16: gzip's header and checksum */
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = unpack_gzip(&u, &z);
    inflateEnd(&z);
    if (st) {
        free(u.out);
        return st;
    }
    *out = u.out;
    *size = u.size;
    return STENO_OK;
}
