/* A model in one ggml or GGUF file: its keys, its vocabulary, and its tensors by the names that a
 * builder of networks asks for (nn/build). Frozen once a family has read it. */
#ifndef STENO_FAMILIES_COMMON_GGML_FILE_H
#define STENO_FAMILIES_COMMON_GGML_FILE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/little_endian.h"
#include "formats/ggml_type.h"
#include "formats/gguf.h"
#include "nn/build/make.h"

#define STENO_GGML_MAX_TENSORS 16384
#define STENO_GGML_MAX_TOKENS ((size_t)16 << 20) /* bytes of the vocabulary */

struct steno_ggml_tensor {
    struct steno_torch_tensor t; /* as the builder sees it */
    const struct steno_ggml_type *type;
    const unsigned char *data; /* NULL: zeros */
    bool ifog;                 /* gates of an LSTM in this order, where PyTorch has i, f, g, o */
};

struct steno_ggml_file {
    struct steno_map map; /* n 0: the bytes belong to the caller */
    const unsigned char *bytes;
    size_t size; /* of them */
    steno_arena *mem;
    const char *name;                 /* for messages */
    steno_gguf *gguf;                 /* NULL: no GGUF file */
    struct steno_ggml_tensor *tensor; /* sorted by name once all are there */
    size_t n, cap;
    struct steno_buf tokens;           /* lines "piece id" */
    int64_t pieces;                    /* of them */
    struct steno_make_weights weights; /* for builders */
};

/* Map the file at `path`, and read what a GGUF file says of itself; or take bytes [n], which must
 * outlive the object, and use `path` in messages alone. Close also after a failure. STENO_ERR_IO,
 * STENO_ERR_NOMEM, errors of steno_gguf_parse. */
STENO_MUST steno_status steno_ggml_file_open(struct steno_ggml_file *f, const char *path,
                                             const void *bytes, size_t n, steno_err *err);
void steno_ggml_file_close(struct steno_ggml_file *f);

/* ---- tensors ---- */

/* Add one; t->t.dim [t->t.rank] in PyTorch's order. STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ggml_file_add(struct steno_ggml_file *f, const char *name,
                                            const struct steno_ggml_tensor *t, steno_err *err);
/* All are there. STENO_ERR_FORMAT: a name twice, an LSTM without four gates. */
STENO_MUST steno_status steno_ggml_file_sort(struct steno_ggml_file *f, steno_err *err);
/* NULL: there is none. Before and after sorting. */
const struct steno_ggml_tensor *steno_ggml_file_find(const struct steno_ggml_file *f,
                                                     const char *name);
/* Extent of an axis, for what a file does not say; 0: there is no such tensor or axis. */
int64_t steno_ggml_file_extent(const struct steno_ggml_file *f, const char *name, int axis);
/* Is the matrix rounded to 8 bits or fewer? */
bool steno_ggml_file_in_blocks(const struct steno_ggml_file *f, const char *name);

/* A name that begins with `from` in the file begins with `to` for the builder; '#' stands for a
 * number of up to four digits. */
struct steno_ggml_rename {
    const char *from, *to;
};
/* Behind the begin that fits first, `parts` are renamed in the same way. */
struct steno_ggml_names {
    const struct steno_ggml_rename *begins;
    size_t n_begins;
    const struct steno_ggml_rename *parts;
    size_t n_parts;
};
/* Add the tensors of a GGUF file that have a name for the builder. STENO_ERR_UNSUPPORTED: an
 * element type. */
STENO_MUST steno_status steno_ggml_file_tensors(struct steno_ggml_file *f,
                                                const struct steno_ggml_names *names,
                                                steno_err *err);

/* ---- keys of a GGUF file ---- */

struct steno_ggml_wanted {
    const char *key;
    int64_t min, max, *to;
    int64_t fallback; /* min - 1: the key is needed */
};
/* Read n keys. STENO_ERR_FORMAT names the first that is missing or out of its range. */
STENO_MUST steno_status steno_ggml_file_numbers(const struct steno_ggml_file *f,
                                                const struct steno_ggml_wanted *w, size_t n,
                                                steno_err *err);
/* One of the words in `known`; `fallback` where there is no such key, NULL: it is needed.
 * STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_ggml_file_word(const struct steno_ggml_file *f, const char *key,
                                             const char *known, const char *fallback,
                                             const char **out, steno_err *err);
bool steno_ggml_file_has_number(const struct steno_ggml_file *f, const char *key);
/* Codes of the languages at general.languages with blanks between them, without regions, as many as
 * fit; "": not said. */
void steno_ggml_file_languages(const struct steno_ggml_file *f, char *out, size_t size);

/* ---- vocabulary ---- */

/* Add the next piece. STENO_ERR_FORMAT: it is empty or has a line break; STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_ggml_file_piece(struct steno_ggml_file *f, const char *piece,
                                              size_t n, steno_err *err);
/* Add all but the last `without` of the list tokenizer.ggml.tokens, or of that at `key`.
 * STENO_ERR_FORMAT: there is no such list of texts. */
STENO_MUST steno_status steno_ggml_file_pieces(struct steno_ggml_file *f, const char *key,
                                               size_t without, steno_err *err);

/* ---- tensors of a ggml file of whisper.cpp's project ---- */

#define STENO_GGML_MAGIC 0x67676d6cu
#define STENO_GGML_QUANT_VERSION 2 /* of blocks; ftype / 1000, 0 in files without any */
#define STENO_GGML_NAME 80         /* bytes of a name, its end included; ggml has 64 */

/* {i32 axes, name length, type; i32 ne[axes]; name; elements}, ne from the last axis on */
struct steno_ggml_record {
    char name[STENO_GGML_NAME];
    const struct steno_ggml_type *type;
    int rank;                  /* at most 4 */
    int64_t dim[4];            /* PyTorch's order, none is 0 */
    const unsigned char *data; /* in the file, at any address */
};
/* Read the one at c, and go behind it. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED: an element type. */
STENO_MUST steno_status steno_ggml_record_read(struct steno_cursor *c, struct steno_ggml_record *r,
                                               const char *file, steno_err *err);

#endif
