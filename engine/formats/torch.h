/* PyTorch's checkpoints (torch.save), mapped: names, types, shapes and elements of the tensors, and
 * the plain numbers and texts beside them.
 *
 *     zip:      NAME/data.pkl (a pickle), NAME/data/KEY (the elements of a storage), since 1.6
 *     older:    pickles of magic number, version, system, object and storage keys; then storages
 *
 * (torch/serialization.py). The pickle is read by formats/pickle: no code of it is run, and a
 * callable other than those that rebuild tensors is refused by name. Dictionaries and lists are
 * flattened: {"model": {"a.weight": T}} gives "model.a.weight", list entries are numbered. Stored
 * members are not copied; packed ones are unpacked on open, within a limit. Every size is checked
 * against the file. Frozen. */
#ifndef STENO_FORMATS_TORCH_H
#define STENO_FORMATS_TORCH_H

#include "base/status.h"

typedef struct steno_torch steno_torch;

#define STENO_TORCH_MAX_RANK 8
#define STENO_TORCH_MAX_UNPACKED ((size_t)16 << 30) /* of packed members, by default */

enum steno_torch_type {
    STENO_TORCH_F32,
    STENO_TORCH_F16,
    STENO_TORCH_BF16,
    STENO_TORCH_F64,
    STENO_TORCH_I64,
    STENO_TORCH_I32,
    STENO_TORCH_I16,
    STENO_TORCH_I8,
    STENO_TORCH_U8,
    STENO_TORCH_BOOL
};

struct steno_torch_tensor {
    const char *name;
    enum steno_torch_type type;
    int rank;
    int64_t dim[STENO_TORCH_MAX_RANK], stride[STENO_TORCH_MAX_RANK]; /* in elements; >= 0 */
    size_t count;
    const unsigned char *data; /* the first element, at any address; valid while the file is open */
    bool contiguous;           /* count elements lie side by side in C order */
};

/* Map a file. STENO_ERR_IO: the reason. STENO_ERR_FORMAT names file, tensor, fault: not a
 * checkpoint, cut short, a storage that is missing or shorter than its tensor, two tensors of one
 * name. STENO_ERR_UNSUPPORTED: a callable or a type that is not known (named), another byte order.
 * STENO_ERR_LIMIT: more than 2^18 values, more unpacked bytes than STENO_TORCH_MAX_UNPACKED. */
STENO_MUST steno_status steno_torch_open(steno_torch **out, const char *path, steno_err *err);
/* The same from memory, which must outlive the object; name replaces the path in messages.
 * max_unpacked: bytes that packed members may take. */
STENO_MUST steno_status steno_torch_parse(steno_torch **out, const void *bytes, size_t n,
                                          const char *name, size_t max_unpacked, steno_err *err);
/* Do the first n bytes look like such a file? A ZIP archive (of whatever) does. */
bool steno_torch_probe(const void *bytes, size_t n);
void steno_torch_close(steno_torch *t);
/* Release the resident pages of a mapped file; they are read again when needed. */
void steno_torch_rest(const steno_torch *t);

/* Tensors are sorted by name. */
size_t steno_torch_count(const steno_torch *t);
const struct steno_torch_tensor *steno_torch_get(const steno_torch *t, size_t i);
const struct steno_torch_tensor *steno_torch_find(const steno_torch *t, const char *name);
/* The number or boolean of that name, within [min, max]. False: it is not there, or no such. */
bool steno_torch_int(const steno_torch *t, const char *name, int64_t min, int64_t max,
                     int64_t *out);
/* The same of a number, whole or not. */
bool steno_torch_number(const steno_torch *t, const char *name, double min, double max,
                        double *out);
/* The text of that name; NULL: it is not there, or no text. */
const char *steno_torch_str(const steno_torch *t, const char *name);

size_t steno_torch_item(enum steno_torch_type t);           /* bytes per element */
const char *steno_torch_type_name(enum steno_torch_type t); /* "f32", ... */
/* Elements from..from+n in C order as f32, whatever the strides. */
void steno_torch_read(const struct steno_torch_tensor *t, size_t from, size_t n, float *out);

#endif
