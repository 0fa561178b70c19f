/* GGUF files, version 3: settings by key, and tensors by name (ggml-org/ggml, docs/gguf.md).
 *
 *     "GGUF" | u32 version | u64 tensors | u64 keys | keys: string, u32 type, value
 *     | tensors: string, u32 axes, u64 sizes from the last axis to the first, u32 type, u64 offset
 *     | zeros up to a multiple of general.alignment (32) | data
 *
 * Little endian; a string is u64 bytes and the bytes. Every claim is checked against the file
 * before it is used. What keys and names mean belongs to the user. Frozen. */
#ifndef STENO_FORMATS_GGUF_H
#define STENO_FORMATS_GGUF_H

#include "base/map.h"
#include "formats/ggml_type.h"

typedef struct steno_gguf steno_gguf;

#define STENO_GGUF_MAX_RANK 4
#define STENO_GGUF_MAX_NAME 256    /* bytes of a key or of a tensor's name */
#define STENO_GGUF_MAX_ITEMS 65536 /* keys, and tensors */

struct steno_gguf_tensor {
    const char *name;
    const struct steno_ggml_type *type; /* NULL: one that is not read, of that number */
    uint32_t number;
    int rank;
    int64_t dim[STENO_GGUF_MAX_RANK]; /* from the first axis to the last, as in PyTorch */
    size_t count;                     /* elements */
    const unsigned char *data;        /* at any address; NULL without a type */
};

/* Map a file. STENO_ERR_IO: the reason. STENO_ERR_FORMAT names file, key or tensor and the fault: a
 * file that is cut short, a value of no known type, a list of lists, elements outside the data, a
 * name given twice. STENO_ERR_UNSUPPORTED: another version or byte order. STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_gguf_open(steno_gguf **out, const char *path, steno_err *err);
/* The same from memory, which must outlive the object; name replaces the path in messages. */
STENO_MUST steno_status steno_gguf_parse(steno_gguf **out, const void *bytes, size_t n,
                                         const char *name, steno_err *err);
/* Do the first n bytes look like such a file? */
bool steno_gguf_probe(const void *bytes, size_t n);
void steno_gguf_close(steno_gguf *g);
/* The mapped file; n 0: the bytes are the caller's. */
const struct steno_map *steno_gguf_map(const steno_gguf *g);

/* ---- settings ---- */
/* A whole number within [min, max]. False: there is no such key, or no such value. */
bool steno_gguf_int(const steno_gguf *g, const char *key, int64_t min, int64_t max, int64_t *out);
/* A number, whole or not; true and false are 1 and 0. */
bool steno_gguf_number(const steno_gguf *g, const char *key, double *out);
/* A text; NULL: there is no such key, or it is no text. */
const char *steno_gguf_text(const steno_gguf *g, const char *key);

/* A list, walked from its first entry to the last. */
struct steno_gguf_list {
    const unsigned char *at;
    uint32_t type; /* of the entries, as in the file */
    size_t left;   /* entries */
};
/* False: there is no such key, or it is no list. */
bool steno_gguf_list(const steno_gguf *g, const char *key, struct steno_gguf_list *out);
/* The next entry, [n] bytes that are not terminated; false: the list is over, or has no texts. */
bool steno_gguf_next_text(struct steno_gguf_list *l, const char **p, size_t *n);
/* The next entry; false: the list is over, or has no whole numbers. */
bool steno_gguf_next_int(struct steno_gguf_list *l, int64_t *out);

/* ---- tensors, sorted by name ---- */
size_t steno_gguf_count(const steno_gguf *g);
const struct steno_gguf_tensor *steno_gguf_get(const steno_gguf *g, size_t i);
const struct steno_gguf_tensor *steno_gguf_find(const steno_gguf *g, const char *name);

#endif
