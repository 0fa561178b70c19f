/* A decoder that is a large language model, as sherpa-onnx or the exporters behind transformers.js
 * write it. It reads a prompt in which rows of audio stand, and writes the likeliest text, a token
 * at a time. Keys and values of all positions are kept; a run computes those of its own.
 *
 *     ids i64 [1,n], rows of audio f32 [1,a,D], mask i64 [1,n]     the network knows a mark's place
 *     or embeddings f32 [1,n,D], mask i64 [1, those before and n]  with a network of its own for
 *                                                                  those of ids [1,n] -> [1,n,D]
 *     then positions i64 [n], and keys and values of each layer in turn [1,C,heads,width]
 *     -> logits [1,n,V], and the keys and values [1,n,heads,width] of the new positions
 *
 * or, by names, inputs_embeds, attention_mask [1, those before and n], position_ids [1,n],
 * num_logits_to_keep (the last two if it has them), past_key_values.i.key and .value
 * [1,heads,P,width] -> logits, present.i.key and .value, the same and n positions more */
#ifndef STENO_FAMILIES_LLM_DECODER_H
#define STENO_FAMILIES_LLM_DECODER_H

#include "speech/families/common/greedy_text.h"
#include "speech/families/common/part.h"
#include "speech/families/common/shell.h"
#include "speech/families/llm/prompt.h"

#define STENO_LLM_POSITIONS_MIN 64
#define STENO_LLM_LAYERS_MAX 256
#define STENO_LLM_TOKENS_A_SECOND 8
#define STENO_LLM_TOKENS_BESIDE 16 /* beside those of the seconds: a language, an end */
#define STENO_LLM_CONTEXT_SHARE 8  /* of the positions, a request's context has one in so many */

/* Frozen after open. */
struct steno_llm {
    struct steno_part_file decoder, embedding; /* embedding.net NULL: the decoder takes ids */
    const char *dir;                           /* borrowed */
    int32_t audio;                             /* with ids: the mark that stands for a row */
    int vocab;                                 /* tokens that may be written */
    bool whole;                                /* caches come back with all positions */
    int embeds, mask, numbers, keep;           /* inputs; -1: it has none */
    int in[2 * STENO_LLM_LAYERS_MAX], out[2 * STENO_LLM_LAYERS_MAX]; /* of the caches */
    int layers;
    int64_t positions, heads, width; /* of a cache */
    int64_t row;                     /* D; 0: the file leaves it open */
    steno_dtype cache_type;
};

/* Open the file of `stem`, of 8 bits if int8 is wanted, and, unless it is NULL, that of the stem
 * `embedding`. The metadata max_total_len tells the positions where the inputs leave them open.
 * STENO_ERR_FORMAT, STENO_ERR_LIMIT: it is no such decoder; errors of steno_part_file_open. Close
 * also after a failure. */
STENO_MUST steno_status steno_llm_open(struct steno_llm *m, const struct steno_family_open *o,
                                       const char *stem, const char *embedding, bool int8,
                                       steno_err *err);
/* What a file may leave open. */
struct steno_llm_sizes {
    int64_t positions;    /* that are used, at most */
    int64_t heads, width; /* 0: the file must say it */
};
/* The same of a decoder whose inputs and outputs have the names above. */
STENO_MUST steno_status steno_llm_open_named(struct steno_llm *m, const struct steno_family_open *o,
                                             const char *stem, const char *embedding,
                                             const struct steno_llm_sizes *sizes, bool int8,
                                             steno_err *err);
void steno_llm_close(struct steno_llm *m);
/* Seconds of the longest recording for which the positions have room, beside a context and `beside`
 * more: each has `rows` rows and `tokens` tokens. */
double steno_llm_seconds(const struct steno_llm *m, double rows, double tokens, double beside);
size_t steno_llm_weight_bytes(const struct steno_llm *m);
/* The lines of a description that tell the decoder, and the memory of its caches. */
void steno_llm_describe(const struct steno_llm *m, const struct steno_model_info *i, FILE *out);
void steno_llm_describe_caches(const struct steno_llm *m, FILE *out);

/* Confined: one for each worker. */
struct steno_llm_run {
    const struct steno_llm *m;
    steno_session *decoder, *embedding;
    struct steno_greedy_text text;
    /* [2 * layers, positions, heads, width], keys and values in turn; whole caches stay in the
     * session */
    unsigned char *cache;
    int64_t *ids;     /* [positions] of the prompt */
    int64_t *numbers; /* [positions] 0, 1, ... */
    float *rows;      /* [cap_rows] embeddings of the prompt */
    size_t cap_rows;
    struct steno_ones mask;
    float *first; /* [vocab] scores of the first token, without the ends */
};

/* Close also after a failure, and before the session that has the rows. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_llm_run_open(struct steno_llm_run *r, const struct steno_llm *m,
                                           const struct steno_shell_model *shell, steno_err *err);
void steno_llm_run_close(struct steno_llm_run *r);

/* What ends a text. */
struct steno_llm_limits {
    double seconds; /* of audio: a text has at most so many tokens for each (see above) */
    int32_t end[2];
    int n_ends;
    bool speaks; /* the first token is no end */
};

/* Write r->text: read the prompt with `rows` rows, the first of y [1,a,D], then a token at a time.
 * What is repeated at the end of a text that has no end (repetition.h) is written once. y: f32,
 * valid until the text is written. STENO_ERR_LIMIT: the positions have no room for the prompt;
 * STENO_ERR_FORMAT: the networks' outputs are wrong. */
STENO_MUST steno_status steno_llm_write(struct steno_llm_run *r, const struct steno_llm_prompt *p,
                                        const struct steno_tensor *y, size_t rows,
                                        const struct steno_llm_limits *limits, steno_err *err);
#endif
