#include "formats/tar.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"

#define BLOCK 512
#define MAX_MEMBERS 65535
#define MAX_NAMES ((size_t)64 << 20)
#define MAX_SHOWN 100 /* characters of a name in messages */

/* Fields of a header: first byte and length. */
enum { NAME = 0, NAME_LEN = 100, SIZE = 124, SIZE_LEN = 12, SUM = 148, SUM_LEN = 8, TYPE = 156 };
enum { MAGIC = 257, PREFIX = 345, PREFIX_LEN = 155 };

struct walk {
    const uint8_t *p;
    size_t n, at;
    const char *name;
    steno_err *err;
    struct steno_buf names;
    struct steno_tar_member *member; /* while walking, size_t name_at takes the place of name */
    size_t *name_at;
    size_t count, cap;
    /* what extended headers say about the next member */
    const char *long_name;
    size_t long_len;
    uint64_t long_size;
    bool has_size, sparse;
};

static steno_status bad_tar(const struct walk *w, const char *what)
{
    return steno_fail(w->err, STENO_ERR_FORMAT, "%s: at byte %zu: %s", w->name, w->at, what);
}

/* Octal digits that blanks surround, or, with the first bit set, a binary number. False: neither,
 * or more than 64 bits. */
static bool read_octal(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if (p[0] & 0x80) {
        v = p[0] & 0x3f; /* 0x40 is the sign: no number of ours is negative */
        for (i = 1; i < n && !(v >> 56); i++)
            v = v << 8 | p[i];
        *out = v;
        return i == n && !(p[0] & 0x40);
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v >> 61)
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    *out = v;
    return i == n || p[i] == ' ' || !p[i];
}

/* The sum of all bytes, those of the checksum itself counted as blanks. */
static bool right_sum(const uint8_t *h)
{
    uint64_t want, sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= SUM && i < SUM + SUM_LEN ? ' ' : h[i];
    return read_octal(h + SUM, SUM_LEN, &want) && want == sum;
}

bool steno_tar_probe(const void *bytes, size_t n)
{
    const uint8_t *h = bytes;
    return n >= BLOCK && h[NAME] && right_sum(h);
}

static bool all_zero(const uint8_t *h)
{
    for (int i = 0; i < BLOCK; i++)
        if (h[i])
            return false;
    return true;
}

/* ---- extended headers ---------------------------------------------------------------------- */

static bool is_key(const char *key, size_t n, const char *want)
{
    return n == strlen(want) && !memcmp(key, want, n);
}

static steno_status take_record(struct walk *w, const char *key, size_t n_key, const char *value,
                                size_t n_value)
{
    if (is_key(key, n_key, "path")) {
        w->long_name = value;
        w->long_len = n_value;
    } else if (is_key(key, n_key, "size")) {
        w->long_size = 0;
        for (size_t i = 0; i < n_value; i++) {
            if (value[i] < '0' || value[i] > '9' || w->long_size > UINT64_MAX / 16)
                return bad_tar(w, "damaged archive: a size is no number");
            w->long_size = w->long_size * 10 + (uint64_t)(value[i] - '0');
        }
        w->has_size = true;
    } else if (n_key > 11 && !memcmp(key, "GNU.sparse.", 11)) {
        w->sparse = true;
    }
    return STENO_OK;
}

/* Records "LENGTH KEY=VALUE\n", each as long as it says. */
static steno_status read_pax(struct walk *w, const char *p, size_t n)
{
    steno_status st = STENO_OK;
    while (n && !st) {
        size_t length = 0, i = 0;
        const char *key, *equal;
        for (; i < n && i < 10 && p[i] >= '0' && p[i] <= '9'; i++)
            length = length * 10 + (size_t)(p[i] - '0');
        if (!i || i == n || p[i] != ' ' || length > n || length < i + 3 || p[length - 1] != '\n')
            return bad_tar(w, "damaged archive: bad extended header");
        key = p + i + 1;
        equal = memchr(key, '=', length - i - 2);
        if (!equal)
            return bad_tar(w, "damaged archive: bad extended header");
        st = take_record(w, key, (size_t)(equal - key), equal + 1,
                         (size_t)(p + length - 1 - (equal + 1)));
        p += length;
        n -= length;
    }
    return st;
}

/* ---- members ------------------------------------------------------------------------------- */

static size_t field_length(const uint8_t *p, size_t max)
{
    const uint8_t *end = memchr(p, 0, max);
    return end ? (size_t)(end - p) : max;
}

/* Append the name of the present member. */
static steno_status add_name(struct walk *w, const uint8_t *h)
{
    const size_t from = w->names.len, prefix = field_length(h + PREFIX, PREFIX_LEN);
    const char *name = w->long_name ? w->long_name : (const char *)h + NAME;
    size_t n = w->long_name ? w->long_len : field_length(h + NAME, NAME_LEN), skip = 0;
    steno_status st = STENO_OK;
    if (!w->long_name && prefix && !memcmp(h + MAGIC, "ustar\0", 6)) {
        st = steno_buf_add(&w->names, h + PREFIX, prefix);
        if (!st)
            st = steno_buf_add(&w->names, "/", 1);
    }
    if (!st)
        st = steno_buf_add(&w->names, name, n);
    if (st)
        return steno_fail(w->err, st, "%s: names of members are too long", w->name);
    name = w->names.data + from;
    n = w->names.len - from;
    while (n - skip >= 2 && name[skip] == '.' && name[skip + 1] == '/')
        for (skip += 2; skip < n && name[skip] == '/'; skip++)
            ;
    w->name_at[w->count] = from + skip;
    w->member[w->count].name_len = n - skip;
    return STENO_OK;
}

static steno_status reserve_member(struct walk *w)
{
    size_t cap = w->cap;
    if (w->count == MAX_MEMBERS)
        return steno_fail(w->err, STENO_ERR_LIMIT, "%s: more than %d members", w->name,
                          MAX_MEMBERS);
    if (STENO_RESERVE(&w->member, &cap, w->count + 1) ||
        STENO_RESERVE(&w->name_at, &w->cap, w->count + 1))
        return steno_fail(w->err, STENO_ERR_NOMEM, "%s: out of memory", w->name);
    return STENO_OK;
}

static steno_status add_file(struct walk *w, const uint8_t *h, size_t size)
{
    steno_status st = reserve_member(w);
    if (!st)
        st = add_name(w, h);
    if (st)
        return st;
    if (w->sparse || h[TYPE] == 'S')
        return steno_fail(w->err, STENO_ERR_UNSUPPORTED, "%s: %.*s is a sparse file", w->name,
                          (int)(w->member[w->count].name_len < MAX_SHOWN
                                    ? w->member[w->count].name_len
                                    : MAX_SHOWN),
                          w->names.data + w->name_at[w->count]);
    w->member[w->count].at = w->at;
    w->member[w->count].size = size;
    /* a name of nothing but "./" is the top folder, one that ends so is an old form of a folder */
    if (w->member[w->count].name_len && w->names.data[w->names.len - 1] != '/')
        w->count++;
    return STENO_OK;
}

/* A header's type decides what its bytes are: those of a file, of an extended header, or nothing we
 * need. w->at is the first of them. */
static steno_status take_member(struct walk *w, const uint8_t *h, size_t size)
{
    const char *data = (const char *)w->p + w->at;
    steno_status st = STENO_OK;
    switch (h[TYPE]) {
    case 'x':
    case 'X':
        return read_pax(w, data, size);
    case 'L':
        w->long_name = data;
        w->long_len = field_length((const uint8_t *)data, size);
        return STENO_OK;
    case 'K':
    case 'g':
        return STENO_OK;
    case '0':
    case '7':
    case 'S':
    case '\0':
        st = add_file(w, h, size);
        break;
    default:
        break;
    }
    w->long_name = NULL;
    w->has_size = w->sparse = false;
    return st;
}

static bool has_no_data(uint8_t type)
{
    return type >= '1' && type <= '6'; /* links, devices, folders */
}

static steno_status walk_records(struct walk *w)
{
    while (w->n - w->at >= BLOCK) {
        const uint8_t *h = w->p + w->at;
        const bool extended = memchr("xXgLK", h[TYPE], 5) != NULL;
        uint64_t size;
        size_t padded;
        steno_status st;
        if (all_zero(h))
            return w->at ? STENO_OK : bad_tar(w, "not a tar archive");
        if (!right_sum(h))
            return bad_tar(w, w->at ? "damaged archive: a header's checksum is wrong"
                                    : "not a tar archive");
        if (!read_octal(h + SIZE, SIZE_LEN, &size))
            return bad_tar(w, "damaged archive: a size is no number");
        if (w->has_size && !extended)
            size = w->long_size;
        if (has_no_data(h[TYPE]))
            size = 0;
        if (size > w->n - w->at - BLOCK)
            return bad_tar(w, "cut short: a member reaches past the end");
        w->at += BLOCK;
        st = take_member(w, h, (size_t)size);
        if (st)
            return st;
        padded = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
        if (padded > w->n - w->at)
            break;
        w->at += padded;
    }
    return bad_tar(w, "cut short: the archive has no end");
}

/* ---- the list ------------------------------------------------------------------------------ */

static int members_by_name(const void *a, const void *b)
{
    const struct steno_tar_member *x = a, *y = b;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int c = memcmp(x->name, y->name, n);
    return c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static steno_status sort_members(struct walk *w)
{
    for (size_t i = 0; i < w->count; i++)
        w->member[i].name = w->names.data + w->name_at[i];
    if (w->count)
        qsort(w->member, w->count, sizeof *w->member, members_by_name);
    for (size_t i = 1; i < w->count; i++)
        if (!members_by_name(&w->member[i - 1], &w->member[i]))
            return steno_fail(
                w->err, STENO_ERR_FORMAT, "%s: %.*s is in the archive twice", w->name,
                (int)(w->member[i].name_len < MAX_SHOWN ? w->member[i].name_len : MAX_SHOWN),
                w->member[i].name);
    return STENO_OK;
}

steno_status steno_tar_list(const void *bytes, size_t n, const char *name, struct steno_tar *out,
                            steno_err *err)
{
    struct walk w = {.p = bytes, .n = n, .name = name, .err = err};
    size_t length;
    steno_status st;
    steno_buf_init(&w.names, MAX_NAMES);
    st = walk_records(&w);
    if (!st)
        st = sort_members(&w);
    free(w.name_at);
    if (st) {
        free(w.member);
        steno_buf_free(&w.names);
        return st;
    }
    *out = (struct steno_tar){.member = w.member, .n = w.count};
    out->names = steno_buf_take(&w.names, &length);
    return STENO_OK;
}

void steno_tar_close(struct steno_tar *t)
{
    free(t->member);
    free(t->names);
    *t = (struct steno_tar){0};
}
