/* A Whisper model, open: networks, tokenizer, what follows from the files. Frozen. */
#ifndef STENO_FAMILIES_WHISPER_MODEL_H
#define STENO_FAMILIES_WHISPER_MODEL_H

#include "speech/families/whisper/tokens.h"
#include "nn/kernels/kernels.h"
#include "nn/network/network.h"

#define STENO_WHISPER_RATE 16000                               /* Hz of the samples */
#define STENO_WHISPER_WINDOW ((size_t)30 * STENO_WHISPER_RATE) /* samples of a window */
#define STENO_WHISPER_HOP 160 /* samples from mel frame to mel frame: 10 ms */

struct steno_whisper_options {
    const char *cpu; /* level name or NULL */
    enum steno_precision precision;
    int threads;           /* of a runner; 0 = 1 */
    bool plain;            /* networks run as they are built, without passes */
    const char *cache_dir; /* of packed weights, or NULL */
};

/* How keys and values of a window are kept, by heads: in KV pages (nn/kernels/kernels.h) or, where
 * the networks' precision has none, in f32 as struct steno_kv_layer says. */
struct steno_whisper_pages {
    const steno_kernels *kernels; /* NULL: no pages */
    bool is_i8;                   /* pages of 8 bits, else of bf16 */
    size_t rows, bytes;           /* of a page; without pages, of a panel of the f32 products */
};

struct steno_whisper {
    struct steno_whisper_options opt;
    steno_whisper_weights *weights;
    struct steno_whisper_dims dims;
    struct steno_whisper_specials special;
    const steno_bpe *bpe;
    steno_network *encoder, *cross, *step, *scores;
    steno_kernels kernels;
    float *audio_positions, *text_positions; /* [audio_ctx, d], [text_ctx, d'] */
    int32_t *suppressed;                     /* pieces that are not sampled */
    size_t n_suppressed;
    const struct steno_whisper_head *heads; /* that follow time */
    size_t n_heads;
    struct steno_whisper_head *all_heads;       /* ... of a model nobody knows; or NULL */
    int32_t not_first[STENO_WHISPER_NOT_FIRST]; /* pieces that do not begin a text */
    size_t n_not_first;
};

/* Open a directory or file as steno_whisper_weights_open takes it. The vocabulary has to fit the
 * decoder (STENO_ERR_FORMAT). */
STENO_MUST steno_status steno_whisper_open(struct steno_whisper **out, const char *path,
                                           const struct steno_whisper_options *opt, steno_err *err);
void steno_whisper_close(struct steno_whisper *m);
/* How m's states keep keys and values of a window. */
struct steno_whisper_pages steno_whisper_pages_of(const struct steno_whisper *m);
/* Bytes of weights, as the networks hold them. */
size_t steno_whisper_weight_bytes(const struct steno_whisper *m);
/* Bytes that a step of the decoder reads: the weights, once for all states of the step; for each
 * state the keys and values of a window of `rows` rows; those of one layer. */
size_t steno_whisper_step_bytes(const struct steno_whisper *m);
size_t steno_whisper_window_bytes(const struct steno_whisper *m, size_t rows);
size_t steno_whisper_layer_bytes(const struct steno_whisper *m, size_t rows);

#endif
