/* For the readers of one file: read_gguf.c, read_crispasr.c,
 * read_parakeet_cpp.c, read_ggml.c. */
#ifndef STENO_FAMILIES_NEMO_FILE_INTERNAL_H
#define STENO_FAMILIES_NEMO_FILE_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "formats/gguf.h"
#include "speech/families/nemo/file.h"

#define STENO_NEMO_MAX_TENSORS 16384
#define STENO_NEMO_MAX_CONTEXTS 16
#define STENO_NEMO_MAX_PROMPTS ((size_t)64 << 10) /* bytes of the prompts' names */
#define STENO_NEMO_MAX_TOKENS ((size_t)16 << 20)  /* bytes of the vocabulary */

/* A tensor by NeMo's name. */
struct steno_nemo_tensor {
    struct steno_torch_tensor t; /* as the builder sees it */
    const struct steno_ggml_type *type;
    const unsigned char *data; /* NULL: zeros */
    bool both;                 /* biases of an LSTM are in the file; else their sum */
    bool ifog;                 /* gates of an LSTM in this order, where PyTorch has i, f, g, o */
};

struct steno_nemo_file {
    struct steno_map map; /* n 0: the bytes belong to the caller */
    steno_arena *mem;
    const char *name;
    steno_gguf *gguf;                 /* or NULL */
    struct steno_nemo_tensor *tensor; /* sorted by name once all are there */
    size_t n, cap;
    struct steno_buf tokens;
    struct steno_nemo_file_info info;
    char languages[512];
    struct steno_buf prompts;                    /* JSON */
    int64_t context[STENO_NEMO_MAX_CONTEXTS][2]; /* encoder frames before and behind, to choose */
    size_t n_contexts;
    struct steno_make_weights weights;
};

/* Add a tensor; dim [rank] in PyTorch's order. The bias of an LSTM, bias_ih_lN, gets a bias_hh_lN
 * of zeros beside it, unless the file has both. STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_nemo_file_add(steno_nemo_file *f, const char *name,
                                            const struct steno_nemo_tensor *t, steno_err *err);
/* Add the next piece of the vocabulary. STENO_ERR_FORMAT, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_nemo_file_piece(steno_nemo_file *f, const char *piece, size_t n,
                                              steno_err *err);
/* First extent of a tensor, for what a file does not say; 0: there is none. */
int64_t steno_nemo_file_extent(const steno_nemo_file *f, const char *name);

/* ---- GGUF: gguf_parts.c ---- */

/* A name that begins with `from` in the file, and with `to` in NeMo. */
struct steno_nemo_rename {
    const char *from, *to;
};
/* Those of a layer stand behind "LAYERS" and its number, those of an LSTM behind "LSTM" and its. */
struct steno_nemo_names {
    const char *layers, *lstm;
    const struct steno_nemo_rename *of_model;
    size_t n_model;
    const struct steno_nemo_rename *of_layer;
    size_t n_layer;
    const struct steno_nemo_rename *of_lstm;
    size_t n_lstm;
    bool both; /* biases of an LSTM */
};
/* Add the tensors that have a name in NeMo. STENO_ERR_UNSUPPORTED: an element type. */
STENO_MUST steno_status steno_nemo_gguf_tensors(steno_nemo_file *f,
                                                const struct steno_nemo_names *names,
                                                steno_err *err);
struct steno_nemo_wanted {
    const char *key;
    int64_t min, max, *to;
    int64_t fallback; /* min - 1: the key is needed */
};
/* Read n keys. STENO_ERR_FORMAT names the first that is missing or out of its range. */
STENO_MUST steno_status steno_nemo_gguf_numbers(const steno_nemo_file *f,
                                                const struct steno_nemo_wanted *w, size_t n,
                                                steno_err *err);
/* Check the list of durations at `key`, which arch.durations counts. STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_nemo_gguf_durations(const steno_nemo_file *f, const char *key,
                                                  steno_err *err);

/* Check the chunks in f->context, and take the first. STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_nemo_gguf_contexts(steno_nemo_file *f, steno_err *err);
/* Two lists, languages and numbers below arch.prompts: a JSON object, as the metadata of ONNX files
 * have it. STENO_ERR_FORMAT, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_nemo_gguf_dictionary(steno_nemo_file *f, const char *locales,
                                                   const char *indices, steno_err *err);

/* The pieces of the list at `key`, behind which the blank is. STENO_ERR_FORMAT, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_nemo_gguf_pieces(steno_nemo_file *f, const char *key,
                                               const char *blank_key, steno_err *err);

/* ---- formats ---- */

/* Has f->gguf the keys of CrispASR, of parakeet.cpp? Read them into f, as the next two do. */
bool steno_nemo_is_crispasr(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_crispasr(steno_nemo_file *f, steno_err *err);
bool steno_nemo_is_parakeet_cpp(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_parakeet_cpp(steno_nemo_file *f, steno_err *err);
/* Each fills f from bytes, which outlive it, but for the blank behind the pieces. */
STENO_MUST steno_status steno_nemo_read_gguf(steno_nemo_file *f, const void *bytes, size_t n,
                                             steno_err *err);
STENO_MUST steno_status steno_nemo_read_ggml(steno_nemo_file *f, const void *bytes, size_t n,
                                             steno_err *err);

#endif
