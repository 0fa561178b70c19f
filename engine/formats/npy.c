#include "formats/npy.h"

#include "base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_HEADER 65536

static steno_status bad_npy(steno_err *err, const char *path, const char *what)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s", path, what);
}

/* The value after 'key': in the header, which is a Python dictionary literal. */
static const char *header_value(const char *header, const char *key)
{
    char quoted[40];
    const char *p;
    snprintf(quoted, sizeof quoted, "'%s':", key);
    p = strstr(header, quoted);
    if (!p)
        return NULL;
    p += strlen(quoted);
    while (*p == ' ')
        p++;
    return p;
}

static bool parse_shape(const char *p, struct steno_npy *a)
{
    if (*p++ != '(')
        return false;
    a->rank = 0;
    for (;;) {
        char *end;
        while (*p == ' ' || *p == ',')
            p++;
        if (*p == ')')
            return true;
        if (a->rank == STENO_NPY_MAX_RANK || *p < '0' || *p > '9')
            return false;
        errno = 0;
        a->dim[a->rank++] = strtoll(p, &end, 10);
        if (errno)
            return false;
        p = *end == 'L' ? end + 1 : end; /* written by Python 2 */
    }
}

static steno_status parse_header(const char *path, const char *h, struct steno_npy *a,
                                 bool *fortran, steno_err *err)
{
    const char *descr = header_value(h, "descr"), *order = header_value(h, "fortran_order");
    const char *shape = header_value(h, "shape");
    size_t n = 1;
    if (!descr || !order || !shape || descr[0] != '\'' || strlen(descr) < 5)
        return bad_npy(err, path, "not a NumPy array: header lacks descr, fortran_order or shape");
    a->kind = descr[2];
    a->item = descr[3] - '0';
    if (!(descr[1] == '<' || descr[1] == '|' || (descr[1] == '=')) || descr[4] != '\'' ||
        !strchr("fiub", a->kind) || !(a->item == 1 || a->item == 2 || a->item == 4 || a->item == 8))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: element type %.8s is not supported",
                          path, descr);
    if (!parse_shape(shape, a))
        return bad_npy(err, path, "bad shape in its header");
    for (int i = 0; i < a->rank; i++)
        if (!steno_mul_size(n, (size_t)a->dim[i], &n))
            return steno_fail(err, STENO_ERR_LIMIT, "%s: its shape overflows", path);
    if (!steno_mul_size(n, (size_t)a->item, &a->bytes))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: its shape overflows", path);
    *fortran = *order == 'T';
    return STENO_OK;
}

/* Fortran order: element (i0, i1, ...) at i0 + d0 * (i1 + d1 * ...). */
static void *to_c_order(const struct steno_npy *a)
{
    size_t n = a->bytes / (size_t)a->item, item = (size_t)a->item;
    size_t idx[STENO_NPY_MAX_RANK] = {0};
    char *dst = steno_aligned_alloc(a->bytes);
    if (!dst)
        return NULL;
    for (size_t k = 0; k < n; k++) {
        size_t at = 0;
        for (int i = a->rank - 1; i >= 0; i--)
            at = at * (size_t)a->dim[i] + idx[i];
        memcpy(dst + k * item, (const char *)a->data + at * item, item);
        for (int i = a->rank - 1; i >= 0 && ++idx[i] == (size_t)a->dim[i]; i--)
            idx[i] = 0;
    }
    return dst;
}

static steno_status read_body(FILE *f, const char *path, size_t max_bytes, struct steno_npy *a,
                              bool fortran, steno_err *err)
{
    struct stat sb;
    long at = ftell(f);
    if (a->bytes > max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu bytes, the limit is %zu", path, a->bytes,
                          max_bytes);
    if (at >= 0 && fileno(f) >= 0 && !fstat(fileno(f), &sb) && S_ISREG(sb.st_mode) &&
        a->bytes > (size_t)(sb.st_size - at))
        return bad_npy(err, path, "cut short: less data than its header says");
    a->data = steno_aligned_alloc(a->bytes);
    if (!a->data)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (fread(a->data, 1, a->bytes, f) != a->bytes) {
        steno_aligned_free(a->data);
        return bad_npy(err, path, "cut short: less data than its header says");
    }
    if (fortran && a->rank > 1 && a->bytes) {
        void *c = to_c_order(a);
        steno_aligned_free(a->data);
        a->data = c;
        if (!c)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    }
    return STENO_OK;
}

static steno_status read_file(FILE *f, const char *path, size_t max_bytes, struct steno_npy *a,
                              steno_err *err)
{
    unsigned char pre[12];
    char *header;
    size_t n, skip;
    bool fortran = false;
    steno_status st;
    if (fread(pre, 1, 10, f) != 10 || memcmp(pre, "\x93NUMPY", 6) || !pre[6] || pre[6] > 3)
        return bad_npy(err, path, "not a NumPy array file");
    n = pre[8] | (size_t)pre[9] << 8;
    skip = pre[6] == 1 ? 0 : 2;
    if (skip) {
        if (fread(pre + 10, 1, 2, f) != 2)
            return bad_npy(err, path, "cut short in its header");
        n |= (size_t)pre[10] << 16 | (size_t)pre[11] << 24;
    }
    if (n > MAX_HEADER)
        return bad_npy(err, path, "its header is too long");
    header = calloc(1, n + 1);
    if (!header)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    st = fread(header, 1, n, f) == n ? parse_header(path, header, a, &fortran, err)
                                     : bad_npy(err, path, "cut short in its header");
    free(header);
    return st ? st : read_body(f, path, max_bytes, a, fortran, err);
}

steno_status steno_npy_read(const char *path, size_t max_bytes, struct steno_npy *out,
                            steno_err *err)
{
    struct steno_npy a = {0};
    FILE *f = fopen(path, "rbe");
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = read_file(f, path, max_bytes, &a, err);
    fclose(f);
    if (!st)
        *out = a;
    return st;
}

steno_status steno_npy_parse(const void *bytes, size_t n, const char *name, size_t max_bytes,
                             struct steno_npy *out, steno_err *err)
{
    struct steno_npy a = {0};
    void *unwritten; /* fmemopen takes a non-const pointer; mode "r" does not write */
    FILE *f;
    steno_status st;
    memcpy(&unwritten, &bytes, sizeof unwritten);
    f = n ? fmemopen(unwritten, n, "r") : NULL;
    if (!f)
        return n ? steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name)
                 : bad_npy(err, name, "not a NumPy array file");
    st = read_file(f, name, max_bytes < n ? max_bytes : n, &a, err);
    fclose(f);
    if (!st)
        *out = a;
    return st;
}

steno_status steno_npy_write(const char *path, const struct steno_npy *a, steno_err *err)
{
    char shape[STENO_NPY_MAX_RANK * 22 + 4] = "(", header[512];
    unsigned char pre[10] = "\x93NUMPY\x01";
    size_t at = 1;
    int n;
    FILE *f;
    bool ok;
    for (int i = 0; i < a->rank; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? ", " : "",
                               (long long)a->dim[i]);
    snprintf(shape + at, sizeof shape - at, "%s)", a->rank == 1 ? "," : "");
    n = snprintf(header, sizeof header,
                 "{'descr': '%c%c%d', 'fortran_order': False, 'shape': %s, }",
                 a->item == 1 ? '|' : '<', a->kind, a->item, shape);
    while ((n + 11) % 64) /* the format requires data aligned to 64 */
        header[n++] = ' ';
    header[n++] = '\n';
    pre[8] = (unsigned char)(n & 0xff);
    pre[9] = (unsigned char)(n >> 8);
    f = fopen(path, "wbe");
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    ok = fwrite(pre, 1, 10, f) == 10 && fwrite(header, 1, (size_t)n, f) == (size_t)n &&
         (!a->bytes || fwrite(a->data, 1, a->bytes, f) == a->bytes);
    if (fclose(f) || !ok)
        return steno_fail(err, STENO_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return STENO_OK;
}
