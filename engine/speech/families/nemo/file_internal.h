/* For the readers of one file: read_gguf.c, read_crispasr.c, read_gigaam.c, read_canary.c,
 * read_parakeet_cpp.c, read_ggml.c. */
#ifndef STENO_FAMILIES_NEMO_FILE_INTERNAL_H
#define STENO_FAMILIES_NEMO_FILE_INTERNAL_H

#include "speech/families/common/ggml_file.h"
#include "speech/families/nemo/file.h"

#define STENO_NEMO_MAX_CONTEXTS 16
#define STENO_NEMO_MAX_PROMPTS ((size_t)64 << 10) /* bytes of the prompts' names */

struct steno_nemo_file {
    struct steno_ggml_file base;
    struct steno_nemo_file_info info;
    bool one_bias; /* of an LSTM, the sum of its two */
    char languages[512];
    struct steno_buf prompts;                    /* JSON */
    int64_t context[STENO_NEMO_MAX_CONTEXTS][2]; /* encoder frames before and behind, to choose */
    size_t n_contexts;
};

/* ---- GGUF: gguf_parts.c ---- */

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
/* The same of transcribe.cpp's files, whose list has the blank as its last entry. */
STENO_MUST steno_status steno_nemo_gguf_all_pieces(steno_nemo_file *f, steno_err *err);

/* ---- formats ---- */

/* Names of tensors of transcribe.cpp and of CrispASR. */
extern const struct steno_ggml_names steno_nemo_transcribe_names, steno_nemo_crispasr_names;
/* Is the file of GigaAM? Read it into f, as the next ones do. */
bool steno_nemo_is_gigaam(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_gigaam(steno_nemo_file *f, steno_err *err);
bool steno_nemo_is_canary(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_canary(steno_nemo_file *f, steno_err *err);
/* Check and read the features of both programs; prefix: of CrispASR's keys. */
STENO_MUST steno_status steno_nemo_transcribe_features(steno_nemo_file *f, steno_err *err);
STENO_MUST steno_status steno_nemo_crispasr_features(steno_nemo_file *f, const char *prefix,
                                                     steno_err *err);
/* Has f->gguf the keys of CrispASR, of parakeet.cpp? Read them into f, as the next two do. */
bool steno_nemo_is_crispasr(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_crispasr(steno_nemo_file *f, steno_err *err);
bool steno_nemo_is_parakeet_cpp(const steno_nemo_file *f);
STENO_MUST steno_status steno_nemo_read_parakeet_cpp(steno_nemo_file *f, steno_err *err);
/* Each fills f, but for the blank behind the pieces. */
STENO_MUST steno_status steno_nemo_read_gguf(steno_nemo_file *f, steno_err *err);
STENO_MUST steno_status steno_nemo_read_ggml(steno_nemo_file *f, steno_err *err);

#endif
