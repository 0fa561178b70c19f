/* Tensor messages -> dense tensors, from all places where ONNX may keep the elements. */
#include "nn/onnx/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct steno_external_file {
    struct steno_external_file *next;
    char *location;
    int fd;
    int64_t size;
};

void steno_onnx_source_close(struct steno_onnx_source *s)
{
    while (s->files) {
        struct steno_external_file *f = s->files;
        s->files = f->next;
        close(f->fd);
        free(f->location);
        free(f);
    }
}

/* Resolve a name within the model's folder: relative, no "..", and still below the folder after
 * links are followed. */
static steno_status confined_path(const struct steno_onnx_source *s, const char *location,
                                  char *out, size_t size, steno_err *err)
{
    char dir[PATH_MAX], joined[PATH_MAX], real[PATH_MAX];
    size_t n;
    if (!s->dir)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "external data '%s': the model was not read "
                          "from a file",
                          location);
    if (snprintf(joined, sizeof joined, "%s/%s", s->dir, location) >= (int)sizeof joined)
        return steno_fail(err, STENO_ERR_FORMAT, "external data: name is too long");
    if (!*location || location[0] == '/' || !strncmp(location, "../", 3) ||
        strstr(location, "/../") || !strcmp(location, ".."))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "external data '%s' points outside the model's "
                          "folder",
                          location);
    if (!realpath(s->dir, dir) || !realpath(joined, real))
        return steno_fail(err, STENO_ERR_IO, "external data '%s': %s", location, strerror(errno));
    n = strlen(dir);
    if (strncmp(real, dir, n) || (n > 1 && real[n] != '/'))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "external data '%s' is a link to outside the "
                          "model's folder",
                          location);
    if (strlen(real) >= size)
        return steno_fail(err, STENO_ERR_FORMAT, "external data: name is too long");
    memcpy(out, real, strlen(real) + 1);
    return STENO_OK;
}

static steno_status open_external(struct steno_onnx_source *s, const char *location,
                                  struct steno_external_file **out, steno_err *err)
{
    char path[PATH_MAX];
    struct steno_external_file *f;
    struct stat sb;
    steno_status st;
    for (f = s->files; f; f = f->next)
        if (!strcmp(f->location, location)) {
            *out = f;
            return STENO_OK;
        }
    st = confined_path(s, location, path, sizeof path, err);
    if (st)
        return st;
    f = calloc(1, sizeof *f);
    if (!f || !(f->location = strdup(location))) {
        free(f);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &sb) || !S_ISREG(sb.st_mode)) {
        st = steno_fail(err, STENO_ERR_IO, "external data '%s': %s", location,
                        f->fd < 0 ? strerror(errno) : "not a regular file");
        if (f->fd >= 0)
            close(f->fd);
        free(f->location);
        free(f);
        return st;
    }
    f->size = sb.st_size;
    if (s->info) {
        if (s->info->n_external < 4)
            snprintf(s->info->external[s->info->n_external], sizeof s->info->external[0], "%.255s",
                     location);
        s->info->n_external++;
    }
    f->next = s->files;
    s->files = f;
    *out = f;
    return STENO_OK;
}

steno_status steno_onnx_external(struct steno_onnx_source *s, const char *location, int64_t offset,
                                 size_t n, void *dst, steno_err *err)
{
    struct steno_external_file *f;
    size_t got = 0;
    steno_status st = open_external(s, location, &f, err);
    if (st)
        return st;
    if (offset < 0 || offset > f->size || n > (uint64_t)(f->size - offset))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "external data '%s': %zu bytes at %lld do not lie "
                          "in a file of %lld",
                          location, n, (long long)offset, (long long)f->size);
    while (dst && got < n) {
        ssize_t r = pread(f->fd, (char *)dst + got, n - got, offset + (int64_t)got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return steno_fail(err, STENO_ERR_IO, "external data '%s': %s", location,
                              r < 0 ? strerror(errno) : "cut short while it was read");
        got += (size_t)r;
    }
    return STENO_OK;
}

/* ---- one tensor ---- */

static bool parse_int(const char *s, int64_t *out)
{
    char *end;
    long long v;
    errno = 0;
    v = strtoll(s, &end, 10);
    if (errno || end == s || *end)
        return false;
    *out = v;
    return true;
}

static steno_status read_external(struct steno_onnx_source *s, const Onnx__Tensor *m, void *dst,
                                  size_t bytes, steno_err *err)
{
    const char *location = NULL;
    int64_t offset = 0, length = (int64_t)bytes;
    for (size_t i = 0; i < m->n_external_data; i++) {
        const Onnx__StringStringEntry *e = m->external_data[i];
        bool ok = true;
        if (!strcmp(e->key, "location"))
            location = e->value;
        else if (!strcmp(e->key, "offset"))
            ok = parse_int(e->value, &offset);
        else if (!strcmp(e->key, "length"))
            ok = parse_int(e->value, &length);
        if (!ok)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "tensor '%s': external %s '%.40s' is not a "
                              "number",
                              m->name, e->key, e->value);
    }
    if (!location)
        return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': external data without location",
                          m->name);
    if (length != (int64_t)bytes)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "tensor '%s': external length %lld, its shape "
                          "needs %zu",
                          m->name, (long long)length, bytes);
    return steno_onnx_external(s, location, offset, bytes, dst, err);
}

static int64_t external_number(const Onnx__Tensor *m, const char *key, int64_t fallback)
{
    int64_t v;
    for (size_t i = 0; i < m->n_external_data; i++)
        if (!strcmp(m->external_data[i]->key, key) && parse_int(m->external_data[i]->value, &v))
            return v;
    return fallback;
}

static const char *location_of(const Onnx__Tensor *m)
{
    for (size_t i = 0; i < m->n_external_data; i++)
        if (!strcmp(m->external_data[i]->key, "location"))
            return m->external_data[i]->value;
    return "";
}

/* Copy elements from the typed field to dst; false if the field's count is not `count`. Small types
 * are in the low bytes of wider ones. */
static bool from_typed(const Onnx__Tensor *m, steno_dtype t, size_t count, void *dst)
{
    const size_t size = steno_dtype_size(t);
    const char *from = (const char *)m->int32_data;
    size_t n = m->n_int32_data, width = sizeof(int32_t);
    if (t == STENO_F32) {
        from = (const char *)m->float_data;
        n = m->n_float_data;
    } else if (t == STENO_F64) {
        from = (const char *)m->double_data;
        n = m->n_double_data;
        width = sizeof(double);
    } else if (t == STENO_I64) {
        from = (const char *)m->int64_data;
        n = m->n_int64_data;
        width = sizeof(int64_t);
    } else if (t == STENO_U64 || t == STENO_U32) {
        from = (const char *)m->uint64_data;
        n = m->n_uint64_data;
        width = sizeof(uint64_t);
    }
    if (n != count || !steno_dtype_is_element(t))
        return false;
    for (size_t i = 0; i < n; i++)
        memcpy((char *)dst + i * size, from + i * width, size);
    return true;
}

static steno_status shape_of_dims(const char *name, const int64_t *dims, size_t rank,
                                  struct steno_shape *s, steno_err *err)
{
    if (rank > STENO_MAX_RANK)
        return steno_fail(err, STENO_ERR_LIMIT, "tensor '%s': rank %zu, at most %d is supported",
                          name, rank, STENO_MAX_RANK);
    s->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': dimension %zu is %lld", name, i,
                              (long long)dims[i]);
        s->dim[i] = dims[i];
    }
    return STENO_OK;
}

/* ---- elements that stay in the file ---- */

static bool in_place(const Onnx__Tensor *m)
{
    return (int)m->data_location == STENO_ONNX_IN_PLACE;
}

static steno_status find_place(const struct steno_onnx_source *s, const Onnx__Tensor *m,
                               size_t bytes, const void **out, steno_err *err)
{
    uint64_t place[2];
    if (!s->map || m->raw_data.len != sizeof place)
        return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': data_location is %d", m->name,
                          (int)m->data_location);
    memcpy(place, m->raw_data.data, sizeof place);
    if (place[1] != bytes || place[0] > s->n_map || bytes > s->n_map - place[0])
        return steno_fail(err, STENO_ERR_FORMAT,
                          "tensor '%s': %llu bytes of data, its shape and type need %zu", m->name,
                          (unsigned long long)place[1], bytes);
    *out = s->map + place[0];
    return STENO_OK;
}

steno_status steno_onnx_raw(struct steno_onnx_source *s, const Onnx__Tensor *m, const void **bytes,
                            size_t *n, void **owned, steno_err *err)
{
    struct steno_external_file *f;
    uint64_t place[2];
    int64_t offset, length;
    steno_status st;
    *bytes = *owned = NULL;
    if (in_place(m)) {
        if (m->raw_data.len != sizeof place)
            return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': data_location is %d", m->name,
                              (int)m->data_location);
        memcpy(place, m->raw_data.data, sizeof place);
        *n = (size_t)place[1];
        return find_place(s, m, *n, bytes, err);
    }
    if (m->data_location != ONNX__TENSOR__DATA_LOCATION__EXTERNAL)
        return STENO_OK;
    if ((st = open_external(s, location_of(m), &f, err)))
        return st;
    offset = external_number(m, "offset", 0);
    length = external_number(m, "length", f->size - offset);
    if (length < 0 || (uint64_t)length > s->max_bytes)
        return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': external length %lld", m->name,
                          (long long)length);
    *n = (size_t)length;
    if (!(*owned = malloc(*n + 1)))
        return steno_fail(err, STENO_ERR_NOMEM, "tensor '%s': out of memory", m->name);
    *bytes = *owned;
    st = steno_onnx_external(s, location_of(m), offset, *n, *owned, err);
    if (st) {
        free(*owned);
        *owned = NULL;
    }
    return st;
}

/* True for a matrix and the like. Single rows or columns, and integers for shapes, are small and
 * read by many. */
static bool worth_leaving(const struct steno_tensor *t, size_t count)
{
    uint64_t longest = 0;
    for (int i = 0; i < t->shape.rank; i++)
        longest = (uint64_t)t->shape.dim[i] > longest ? (uint64_t)t->shape.dim[i] : longest;
    return t->shape.rank >= 2 && longest < count &&
           (t->dtype == STENO_F32 || t->dtype == STENO_F16 || t->dtype == STENO_BF16 ||
            t->dtype == STENO_I8 || t->dtype == STENO_U8);
}

static steno_status fill_tensor(struct steno_onnx_source *s, Onnx__Tensor *m,
                                struct steno_tensor *t, size_t count, size_t bytes, steno_err *err)
{
    bool typed = m->n_float_data || m->n_int32_data || m->n_int64_data || m->n_double_data ||
                 m->n_uint64_data;
    const void *place;
    if (m->data_location == ONNX__TENSOR__DATA_LOCATION__EXTERNAL)
        return read_external(s, m, t->data, bytes, err);
    if (in_place(m)) {
        steno_status st = find_place(s, m, bytes, &place, err);
        if (!st)
            memcpy(t->data, place, bytes);
        return st;
    }
    if (m->raw_data.len || !typed) {
        if (m->raw_data.len != bytes)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "tensor '%s': %zu bytes of data, its shape "
                              "and type need %zu",
                              m->name, m->raw_data.len, bytes);
        if (bytes)
            memcpy(t->data, m->raw_data.data, bytes);
        return STENO_OK;
    }
    if (!from_typed(m, t->dtype, count, t->data))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "tensor '%s': number of %s elements is not the "
                          "%zu of its shape",
                          m->name, steno_dtype_name(t->dtype), count);
    return STENO_OK;
}

static bool may_steal(const Onnx__Tensor *m, size_t bytes)
{
    return m->data_location != ONNX__TENSOR__DATA_LOCATION__EXTERNAL && !in_place(m) &&
           m->raw_data.len == bytes && steno_onnx_is_block(bytes);
}

static size_t elements_there(const Onnx__Tensor *m)
{
    return m->n_float_data + m->n_int32_data + m->n_int64_data + m->n_double_data +
           m->n_uint64_data;
}

/* Read the elements into an aligned block. */
static steno_status read_elements(struct steno_onnx_source *s, Onnx__Tensor *m,
                                  struct steno_tensor *t, size_t count, size_t bytes,
                                  steno_err *err)
{
    bool external = m->data_location == ONNX__TENSOR__DATA_LOCATION__EXTERNAL;
    steno_status st = STENO_OK;
    const void *place;
    /* a wrong size must not cost memory: check that the elements exist first */
    if (external)
        st = read_external(s, m, NULL, bytes, err);
    else if (in_place(m))
        st = find_place(s, m, bytes, &place, err);
    else if (m->raw_data.len < bytes && elements_there(m) < count)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "tensor '%s': its data is shorter than its shape (%zu elements)", m->name,
                        count);
    if (st)
        return st;
    t->data = steno_aligned_alloc(bytes);
    if (!t->data)
        return steno_fail(err, STENO_ERR_NOMEM, "tensor '%s': out of memory", m->name);
    st = fill_tensor(s, m, t, count, bytes, err);
    if (st)
        steno_aligned_free(t->data);
    return st;
}

/* ---- integers of 2 and 4 bits, held as bytes ---- */

/* Bits of an element: 4 for UINT4 and INT4, 2 for UINT2 and INT2, 0 for other types. */
static unsigned narrow_bits(int type, bool *is_signed)
{
    enum { UINT4 = 21, INT4 = 22, UINT2 = 25, INT2 = 26 }; /* onnx.TensorProto.DataType */
    *is_signed = type == INT4 || type == INT2;
    return type == UINT4 || type == INT4 ? 4 : type == UINT2 || type == INT2 ? 2 : 0;
}

/* Read elements of `bits` bits, the first one in the low bits of the first byte. */
static steno_status read_narrow(struct steno_onnx_source *s, Onnx__Tensor *m, unsigned bits,
                                bool is_signed, struct steno_tensor *t, steno_err *err)
{
    struct steno_tensor packed = {.dtype = STENO_U8};
    const unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    size_t count, bytes, total;
    const uint8_t *from;
    uint8_t *to;
    steno_status st;
    if (steno_shape_count(&t->shape, &count) || count > SIZE_MAX / 8 ||
        !steno_add_size(s->bytes, count, &total) || total > s->max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "tensor '%s': size over the limit of %zu bytes for all weights", m->name,
                          s->max_bytes);
    bytes = (count * bits + 7) / 8;
    st = read_elements(s, m, &packed, bytes, bytes, err);
    if (st)
        return st;
    t->dtype = is_signed ? STENO_I8 : STENO_U8;
    t->data = to = steno_aligned_alloc(count);
    from = packed.data;
    for (size_t i = 0; to && i < count; i++) {
        const unsigned v = (unsigned)from[i * bits / 8] >> (i * bits % 8) & mask;
        to[i] = (uint8_t)(is_signed ? (v ^ sign) - sign : v);
    }
    steno_aligned_free(packed.data);
    if (!to)
        return steno_fail(err, STENO_ERR_NOMEM, "tensor '%s': out of memory", m->name);
    s->bytes = total;
    return STENO_OK;
}

steno_status steno_onnx_tensor(struct steno_onnx_source *s, Onnx__Tensor *m, struct steno_tensor *t,
                               bool *mapped, steno_err *err)
{
    struct steno_tensor r = {.dtype = (steno_dtype)m->data_type};
    size_t count, bytes, total;
    bool is_signed;
    const unsigned bits = narrow_bits(m->data_type, &is_signed);
    steno_status st = shape_of_dims(m->name, m->dims, m->n_dims, &r.shape, err);
    if (!st && bits) {
        st = read_narrow(s, m, bits, is_signed, &r, err);
        if (!st)
            *t = r;
        return st;
    }
    if (st)
        return st;
    if (!steno_dtype_is_element(r.dtype))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "tensor '%s': element type %s (%d) is not "
                          "supported",
                          m->name, steno_dtype_name(r.dtype), m->data_type);
    if (steno_shape_count(&r.shape, &count) || steno_shape_bytes(&r.shape, r.dtype, &bytes) ||
        !steno_add_size(s->bytes, bytes, &total) || total > s->max_bytes)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "tensor '%s': size over the limit of %zu bytes for "
                          "all weights",
                          m->name, s->max_bytes);
    if (mapped && in_place(m) && worth_leaving(&r, count)) {
        const void *place;
        st = find_place(s, m, bytes, &place, err);
        if (!st)
            memcpy(&r.data, &place, sizeof r.data);
        *mapped = !st;
    } else if (may_steal(m, bytes)) {
        r.data = m->raw_data.data;
        m->raw_data.data = NULL;
        m->raw_data.len = 0;
    } else {
        st = read_elements(s, m, &r, count, bytes, err);
    }
    if (st)
        return st;
    if (r.dtype == STENO_BOOL)
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)r.data)[i] = ((uint8_t *)r.data)[i] != 0;
    s->bytes = total;
    *t = r;
    return STENO_OK;
}

/* ---- sparse tensors: made dense ---- */

static bool linear_index(const struct steno_shape *s, const int64_t *idx, int n, size_t *out)
{
    size_t at = 0;
    if (n == 1 && s->rank != 1) { /* already linear */
        *out = (size_t)idx[0];
        return idx[0] >= 0;
    }
    for (int i = 0; i < n; i++) {
        if (idx[i] < 0 || idx[i] >= s->dim[i])
            return false;
        at = at * (size_t)s->dim[i] + (size_t)idx[i];
    }
    *out = at;
    return true;
}

static steno_status scatter_sparse(const struct steno_tensor *v, const struct steno_tensor *idx,
                                   struct steno_tensor *t, size_t count, const char *name,
                                   steno_err *err)
{
    size_t nnz = steno_numel(v), size = steno_dtype_size(v->dtype);
    int per = idx->shape.rank == 2 ? t->shape.rank : 1;
    if (v->shape.rank != 1 || idx->dtype != STENO_I64 || steno_numel(idx) != nnz * (size_t)per)
        return steno_fail(err, STENO_ERR_FORMAT, "sparse tensor '%s': indices do not fit", name);
    for (size_t i = 0; i < nnz; i++) {
        size_t at;
        if (!linear_index(&t->shape, (const int64_t *)idx->data + i * (size_t)per, per, &at) ||
            at >= count)
            return steno_fail(err, STENO_ERR_FORMAT, "sparse tensor '%s': index out of range",
                              name);
        memcpy((char *)t->data + at * size, (const char *)v->data + i * size, size);
    }
    return STENO_OK;
}

steno_status steno_onnx_sparse(struct steno_onnx_source *s, Onnx__SparseTensor *m,
                               struct steno_tensor *t, steno_err *err)
{
    struct steno_tensor v = {0}, idx = {0}, r = {0};
    size_t count, bytes;
    const char *name = m->values ? m->values->name : "";
    steno_status st;
    if (!m->values || !m->indices)
        return steno_fail(err, STENO_ERR_FORMAT, "sparse tensor '%s' lacks values or indices",
                          name);
    st = shape_of_dims(name, m->dims, m->n_dims, &r.shape, err);
    if (!st)
        st = steno_onnx_tensor(s, m->values, &v, NULL, err);
    if (!st)
        st = steno_onnx_tensor(s, m->indices, &idx, NULL, err);
    if (st)
        goto out;
    r.dtype = v.dtype;
    if (steno_shape_count(&r.shape, &count) || steno_shape_bytes(&r.shape, r.dtype, &bytes) ||
        bytes > s->max_bytes - s->bytes) {
        st = steno_fail(err, STENO_ERR_LIMIT, "sparse tensor '%s': too large", name);
        goto out;
    }
    r.data = steno_aligned_alloc(bytes);
    if (!r.data) {
        st = steno_fail(err, STENO_ERR_NOMEM, "sparse tensor '%s': out of memory", name);
        goto out;
    }
    st = scatter_sparse(&v, &idx, &r, count, name, err);
    if (st)
        goto out;
    s->bytes += bytes;
    *t = r;
    r.data = NULL;
out:
    steno_aligned_free(r.data);
    steno_aligned_free(v.data);
    steno_aligned_free(idx.data);
    return st;
}

steno_status steno_onnx_stored(const struct steno_onnx_options *opt, const Onnx__Tensor *m,
                               struct steno_tensor *t, bool *stored, steno_err *err)
{
    int64_t offset;
    size_t bytes;
    steno_status st;
    *stored = m->data_location == ONNX__TENSOR__DATA_LOCATION__EXTERNAL;
    if (!*stored)
        return STENO_OK;
    t->dtype = (steno_dtype)m->data_type;
    st = shape_of_dims(m->name, m->dims, m->n_dims, &t->shape, err);
    if (st)
        return st;
    if (m->n_external_data != 1 || !parse_int(m->external_data[0]->value, &offset) ||
        steno_shape_bytes(&t->shape, t->dtype, &bytes) || offset < -1 ||
        (offset >= 0 && ((uint64_t)offset > opt->n_stored ||
                         bytes + STENO_OVERREAD > opt->n_stored - (size_t)offset)))
        return steno_fail(err, STENO_ERR_FORMAT, "tensor '%s': stored elements are out of bounds",
                          m->name);
    t->data = NULL;
    if (offset >= 0)
        memcpy(&t->data, &(const void *){(const char *)opt->stored + offset}, sizeof t->data);
    return STENO_OK;
}
