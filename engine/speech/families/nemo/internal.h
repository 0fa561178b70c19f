/* Structs and functions that the files of the families nemo and nemo_streaming share: model.c (a
 * directory, its networks), search.c (searches of one stream), offline.c and streaming.c (the two
 * families), encoder.c (a streaming encoder for several streams). */
#ifndef STENO_FAMILIES_NEMO_INTERNAL_H
#define STENO_FAMILIES_NEMO_INTERNAL_H

#include "speech/families/common/search_options.h"
#include "speech/families/common/shell.h"
#include "speech/families/family.h"
#include "speech/families/nemo/canary.h"
#include "speech/families/nemo/conf.h"
#include "speech/families/nemo/prompts.h"
#include "speech/families/nemo/transducer.h"
#include "speech/features/cmvn.h"

#define STENO_NEMO_ENDINGS 2

/* Frozen after open. */
struct steno_nemo_model {
    struct steno_shell_model base;
    struct steno_nemo_conf conf;
    steno_nemo_file *file; /* that the networks are made from; NULL: they have files */
    bool sherpa;           /* features as sherpa-onnx computes them */
    bool modified;         /* the option: one hypothesis by the rules of the beam */
    int32_t unknown;       /* -1: there is none */
    int32_t endings[STENO_NEMO_ENDINGS]; /* <EOU>, <EOB>: ends of turns and of backchannels; -1 */
    steno_network *encoder, *decoder, *joiner; /* base.part's */
    int audio, length, prompt;                 /* inputs of the encoder; prompt -1: there is none */
    struct steno_nemo_prompts prompts;         /* if it has a prompt */
    int scores, lengths;                       /* its outputs; lengths -1: there is none */
    struct steno_canary canary;                /* if it is one */
    char target[16];                           /* its option: code of the text, "" as spoken */
    struct steno_nemo_transducer transducer;   /* if it is one */
    size_t dim;                                /* of an encoder frame */
    bool alone; /* streams of a batch would change each other's scores */
    struct steno_utterance_norm norm;
    double limit;       /* s of a segment that the encoder's positions allow */
    size_t cache_bytes; /* streaming: of one stream */
};

/* Open the directory of o. streaming: the family that opens it. Close also after a failure. Errors
 * of steno_nemo_conf_open and steno_network_open; STENO_ERR_FORMAT: files contradict each other. */
STENO_MUST steno_status steno_nemo_open(struct steno_nemo_model *m,
                                        const struct steno_family_open *o, bool streaming,
                                        steno_err *err);
void steno_nemo_close(void *model);
/* Fill the fields of info that do not depend on the feeding. */
bool steno_nemo_languages(const char *dir, struct steno_model_languages *out);
void steno_nemo_info(const void *model, struct steno_family_info *out);
void steno_nemo_describe(const void *model, const struct steno_model_info *i, FILE *out);
/* Samples that one frame of scores covers. */
static inline size_t steno_nemo_frame(const struct steno_nemo_model *m)
{
    return (size_t)(STENO_NEMO_HOP * m->conf.subsampling);
}
static inline bool steno_nemo_is_transducer(const struct steno_nemo_model *m)
{
    return m->conf.kind == STENO_NEMO_TRANSDUCER;
}

/* Options of both families. */
/* clang-format off */
#define STENO_NEMO_OPTIONS(family) \
    STENO_FRONTEND_OPTION(family), STENO_SEARCH_OPTIONS(family), \
    {family, "modified_beam", STENO_OPTION_FLAG, STENO_OPTION_OF_STREAM, 0, 0, NULL, "no", \
     "transducers with a beam of 1: sherpa-onnx's beam search with one path"}
/* clang-format on */

/* ---- search.c -------------------------------------------------------------------------------- */

/* Begins the streams of both families. Confined. */
struct steno_nemo_stream {
    struct steno_shell_stream base;
    int32_t source, target; /* Canary, which has no search: marks of languages */
    int64_t prompt;         /* of an encoder that takes one */
    const char *language;   /* code of the text; static */
};

/* `stream_open` of the shell. */
STENO_MUST steno_status steno_nemo_stream_open(void *stream, const void *model,
                                               struct steno_family_stream *o, steno_err *err);

/* ---- workers of both families: model.c --------------------------------------------------------
 */

/* Begins their workers. Confined. */
struct steno_nemo_worker {
    struct steno_shell_worker base;
    steno_nemo_joint *joint; /* of a transducer, with the next */
    steno_tdt_work *work;
};

/* Of the shell. */
STENO_MUST steno_status steno_nemo_worker_open(void *worker, const void *model, int max,
                                               steno_err *err);
void steno_nemo_worker_close(void *worker);

/* ---- encoder.c ------------------------------------------------------------------------------- */

/* The caches of one stream between steps. Confined. The first step allocates the memory. */
struct steno_nemo_caches {
    char *data;     /* [cache_bytes] */
    bool fresh;     /* a recording begins: all count as zero */
    int64_t past;   /* of windows that overlap: frames of the recording before the next chunk, no
                     * more than one window has */
    int64_t prompt; /* of an encoder that takes one */
};

/* A session of a streaming encoder, and the inputs of a batch. Confined. */
typedef struct steno_nemo_encoder steno_nemo_encoder;

/* max: streams of one step, 1 if m->alone. */
STENO_MUST steno_status steno_nemo_encoder_open(steno_nemo_encoder **out,
                                                const struct steno_nemo_model *m, int max,
                                                steno_err *err);
void steno_nemo_encoder_close(steno_nemo_encoder *e);
/* Put the window [window, bins] of stream i of the next step. */
void steno_nemo_encoder_put(steno_nemo_encoder *e, int i, const float *window);
/* Run a step on the first n windows as a batch of `size` >= n. c: [n] caches; a step that fails
 * leaves them as they were. *rows: [n, shift / subsampling, dim] encoder frames, or scores of CTC;
 * valid until the next step. STENO_ERR_FORMAT: an output has another shape. */
STENO_MUST steno_status steno_nemo_encoder_step(steno_nemo_encoder *e,
                                                struct steno_nemo_caches *const *c, int n, int size,
                                                const float **rows, steno_err *err);
/* A step without a run: of a window without speech. */
void steno_nemo_encoder_pass(const struct steno_nemo_model *m, struct steno_nemo_caches *c);
/* Check caches and outputs of the network with steps on noise; sets m->cache_bytes, and m->alone
 * where the streams of a batch change each other's frames. */
STENO_MUST steno_status steno_nemo_encoder_try(struct steno_nemo_model *m, steno_err *err);

#endif
