/* Whisper's weights as they lie in a file, whatever the format: one view, name to tensor. Names are
 * those of OpenAI's checkpoints (openai/whisper, whisper/model.py); fused matrices of a file are
 * shown in parts. Nothing is copied: elements stay in the mapped file until somebody asks for them
 * as f32. Frozen after open. */
#ifndef STENO_FAMILIES_WHISPER_WEIGHTS_H
#define STENO_FAMILIES_WHISPER_WEIGHTS_H

#include "formats/ggml_type.h"
#include "speech/text/bpe.h"

enum steno_whisper_type {
    STENO_WHISPER_F32,
    STENO_WHISPER_F16,
    STENO_WHISPER_BF16,
    STENO_WHISPER_I8,
    STENO_WHISPER_I16,
    STENO_WHISPER_U8,
    STENO_WHISPER_U4,  /* two in a byte, the first in its low bits */
    STENO_WHISPER_GGML /* of the tensor's own type */
};

#define STENO_WHISPER_MAX_RANK 4
#define STENO_WHISPER_NAME 80 /* bytes of a name, its end included */

struct steno_whisper_tensor {
    char name[STENO_WHISPER_NAME];
    const char *file; /* for messages */
    enum steno_whisper_type type;
    const struct steno_ggml_type *ggml; /* of STENO_WHISPER_GGML; blocks are along a row */
    int rank;
    int64_t dim[STENO_WHISPER_MAX_RANK]; /* PyTorch's order */
    const unsigned char *data;           /* at any address, whole rows */
    bool transposed;                     /* data is [columns, rows]; not for blocks */
    /* Integers q, at any address: w = q / scale, or w = (q - zero) * scale if `factors`. */
    const unsigned char *scale; /* f32; NULL: 1 */
    const unsigned char *zero;  /* of the type of data, U4 too in a byte each; NULL: 0 */
    size_t n_scale;             /* one for each row, or 1 */
    bool factors;
    int64_t block; /* 0, or elements of a row that share a scale; every row has whole blocks */
};

/* What the tensors say of the model. */
struct steno_whisper_dims {
    int64_t mels, audio_ctx, audio_state, audio_heads, audio_layers;
    int64_t vocab, text_ctx, text_state, text_heads, text_layers;
};

struct steno_whisper_head {
    int layer, head;
};

/* Pieces by number; id NULL: the file does not say. The view's. */
struct steno_whisper_ids {
    const int32_t *id;
    size_t n;
};

/* What a file says of its vocabulary; 0: it does not. */
struct steno_whisper_marks {
    int64_t eot, sot, translate;        /* special pieces */
    struct steno_whisper_ids never;     /* not sampled */
    struct steno_whisper_ids not_first; /* .. at the beginning of a text */
};

typedef struct steno_whisper_weights steno_whisper_weights;

/* Open a model: the directory of a CTranslate2, Hugging Face or ONNX model, or a file of one of the
 * formats (model.bin, *.safetensors, ggml's *.bin, *.gguf, OpenAI's *.pt, an encoder's *.onnx,
 * whose decoder lies beside it); the format is told by content. Every tensor that the model needs
 * is there, in the right shape, afterwards. STENO_ERR_IO; STENO_ERR_FORMAT names file, tensor, what
 * was expected and what was found; STENO_ERR_UNSUPPORTED: a newer format, a type that is not known.
 */
STENO_MUST steno_status steno_whisper_weights_open(steno_whisper_weights **out, const char *path,
                                                   steno_err *err);
/* Is there a Whisper model in a format of ours at this path? Looks at the first bytes of the
 * weights, and of safetensors at the config.json beside them. */
bool steno_whisper_weights_probe(const char *path);
void steno_whisper_weights_close(steno_whisper_weights *w);

/* STENO_ERR_IO: a file of the weights was overwritten since it was opened (base/map.h). */
STENO_MUST steno_status steno_whisper_weights_check(const steno_whisper_weights *w, steno_err *err);
/* "ctranslate2", "huggingface", "ggml", "gguf", "openai" or "onnx". */
const char *steno_whisper_weights_format(const steno_whisper_weights *w);
/* The file with the weights (the first of several). */
const char *steno_whisper_weights_file(const steno_whisper_weights *w);
/* What else than that file the weights depend on, for the key of a cache; "": nothing. */
const char *steno_whisper_weights_variant(const steno_whisper_weights *w);
struct steno_whisper_dims steno_whisper_weights_dims(const steno_whisper_weights *w);
/* Pieces of text by number; the weights' until they are closed. */
const steno_bpe *steno_whisper_weights_bpe(const steno_whisper_weights *w);
/* Heads of the decoder whose cross attention follows time; *n 0: the files do not say. */
const struct steno_whisper_head *steno_whisper_weights_heads(const steno_whisper_weights *w,
                                                             size_t *n);
const struct steno_whisper_marks *steno_whisper_weights_marks(const steno_whisper_weights *w);
/* Tensor of that name; NULL: there is none. */
const struct steno_whisper_tensor *steno_whisper_weights_find(const steno_whisper_weights *w,
                                                              const char *name);

size_t steno_whisper_row_count(const struct steno_whisper_tensor *t); /* dim 0; 1 for rank 1 */
size_t steno_whisper_row_length(const struct steno_whisper_tensor *t);
/* n rows from number `from` on as f32 [n, row length]. */
void steno_whisper_rows(const struct steno_whisper_tensor *t, size_t from, size_t n, float *out);
/* Release the resident pages of mapped files; they are read again when needed. */
void steno_whisper_weights_rest(const steno_whisper_weights *w);

#endif
