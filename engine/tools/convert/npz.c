#include "tools/convert/npz.h"

#include "base/buf.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define MAX_BYTES ((size_t)16 << 20)

static steno_status put_little_endian(struct steno_buf *b, uint64_t v, int bytes)
{
    unsigned char p[8];
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
    return steno_buf_add(b, p, (size_t)bytes);
}

/* NPY 1.0: magic, a header of 118 bytes, the elements. */
static steno_status put_array(struct steno_buf *b, const struct steno_npz_array *a)
{
    char shape[32] = "()", header[128];
    const size_t count = a->n ? a->n : 1;
    steno_status st;
    if (a->n)
        snprintf(shape, sizeof shape, "(%zu,)", a->n);
    snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }",
             shape);
    st = steno_buf_add(b, "\x93NUMPY\1\0\x76\0", 10);
    if (!st)
        st = steno_buf_printf(b, "%-117s\n", header);
    return st ? st : steno_buf_add(b, a->x, count * sizeof *a->x);
}

/* The fields that a local header and an entry of the directory share. */
static steno_status put_fields(struct steno_buf *b, const char *name, uint32_t crc, size_t size)
{
    steno_status st = put_little_endian(b, 20, 2); /* version */
    for (int i = 0; i < 3 && !st; i++)
        st = put_little_endian(b, 0, 2); /* flags, stored, time */
    if (!st)
        st = put_little_endian(b, 0x21, 2); /* 1980-01-01 */
    if (!st)
        st = put_little_endian(b, crc, 4);
    if (!st)
        st = put_little_endian(b, size, 4);
    if (!st)
        st = put_little_endian(b, size, 4);
    if (!st)
        st = put_little_endian(b, strlen(name) + 4, 2);
    return st ? st : put_little_endian(b, 0, 2);
}

static steno_status put_member(struct steno_buf *file, struct steno_buf *directory,
                               const struct steno_npz_array *a)
{
    const size_t at = file->len;
    struct steno_buf data;
    uint32_t crc;
    steno_status st;
    steno_buf_init(&data, MAX_BYTES);
    st = put_array(&data, a);
    crc = (uint32_t)crc32_z(0, (const unsigned char *)data.data, data.len);
    if (!st)
        st = put_little_endian(file, 0x04034b50u, 4);
    if (!st)
        st = put_fields(file, a->name, crc, data.len);
    if (!st)
        st = steno_buf_printf(file, "%s.npy", a->name);
    if (!st)
        st = steno_buf_add(file, data.data, data.len);
    if (!st)
        st = put_little_endian(directory, 0x02014b50u, 4);
    if (!st)
        st = put_little_endian(directory, 20, 2);
    if (!st)
        st = put_fields(directory, a->name, crc, data.len);
    for (int i = 0; i < 5 && !st; i++) /* comment, disk, attributes */
        st = put_little_endian(directory, 0, 2);
    if (!st)
        st = put_little_endian(directory, at, 4);
    if (!st)
        st = steno_buf_printf(directory, "%s.npy", a->name);
    steno_buf_free(&data);
    return st;
}

static steno_status put_end(struct steno_buf *file, const struct steno_buf *directory, int n)
{
    const size_t at = file->len;
    steno_status st = steno_buf_add(file, directory->data, directory->len);
    if (!st)
        st = put_little_endian(file, 0x06054b50u, 4);
    if (!st)
        st = put_little_endian(file, 0, 4);
    if (!st)
        st = put_little_endian(file, (uint64_t)n, 2);
    if (!st)
        st = put_little_endian(file, (uint64_t)n, 2);
    if (!st)
        st = put_little_endian(file, directory->len, 4);
    if (!st)
        st = put_little_endian(file, at, 4);
    return st ? st : put_little_endian(file, 0, 2);
}

steno_status steno_npz_write(const char *path, const struct steno_npz_array *a, int n,
                             steno_err *err)
{
    struct steno_buf file, directory;
    steno_status st = STENO_OK;
    FILE *f;
    steno_buf_init(&file, MAX_BYTES);
    steno_buf_init(&directory, MAX_BYTES);
    for (int i = 0; i < n && !st; i++)
        st = put_member(&file, &directory, &a[i]);
    if (!st)
        st = put_end(&file, &directory, n);
    if (st)
        st = steno_fail(err, st, "%s: the arrays are too large", path);
    f = st ? NULL : fopen(path, "wbe");
    if (!st && (!f || fwrite(file.data, 1, file.len, f) != file.len))
        st = steno_fail(err, STENO_ERR_IO, "%s: cannot be written", path);
    if (f && fclose(f) && !st)
        st = steno_fail(err, STENO_ERR_IO, "%s: cannot be written", path);
    steno_buf_free(&file);
    steno_buf_free(&directory);
    return st;
}
