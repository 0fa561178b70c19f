/* Hugging Face's safetensors files, mapped: names, types, shapes and places of the elements.
 *
 *     u64 header bytes | header: JSON {name: {dtype, shape, data_offsets: [from, to)}, ...} | data
 *
 * Offsets count from the end of the header (https://huggingface.co/docs/safetensors, "Format").
 * Every claim of the header is checked against the file before it is used. Frozen. */
#ifndef STENO_FORMATS_SAFETENSORS_H
#define STENO_FORMATS_SAFETENSORS_H

#include "base/map.h"

typedef struct steno_safetensors steno_safetensors;

#define STENO_SAFETENSORS_MAX_RANK 8
#define STENO_SAFETENSORS_MAX_HEADER ((size_t)64 << 20)

struct steno_safetensor {
    const char *name;
    const char *dtype; /* as spelled in the file: "F32", "F16", "BF16", "I8", ... */
    size_t item;       /* bytes per element */
    int rank;
    int64_t dim[STENO_SAFETENSORS_MAX_RANK];
    size_t count;     /* elements */
    const void *data; /* count * item bytes, without alignment; valid while the file is open */
};

/* Map a file. STENO_ERR_IO: the reason. STENO_ERR_FORMAT names the file, the tensor, the fault and
 * what was expected: a header longer than the file, offsets outside the data or in conflict with
 * shape and type, an unknown type, a duplicate name. */
STENO_MUST steno_status steno_safetensors_open(steno_safetensors **out, const char *path,
                                               steno_err *err);
/* The same from memory, which must outlive the object; name replaces the path in messages. */
STENO_MUST steno_status steno_safetensors_parse(steno_safetensors **out, const void *bytes,
                                                size_t n, const char *name, steno_err *err);
void steno_safetensors_close(steno_safetensors *s);
/* Release the resident pages of a mapped file; they are read again when needed. */
void steno_safetensors_rest(const steno_safetensors *s);
/* The mapped file; n 0: the bytes are the caller's. */
const struct steno_map *steno_safetensors_map(const steno_safetensors *s);

size_t steno_safetensors_count(const steno_safetensors *s);
const struct steno_safetensor *steno_safetensors_get(const steno_safetensors *s, size_t i);

#endif
