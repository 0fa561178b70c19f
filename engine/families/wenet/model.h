/* A directory with a CTC network of WeNet, as sherpa-onnx's exporter writes it: model[.int8].onnx
 * or model-streaming[.int8].onnx, tokens.txt or units.txt. Shared by both families. */
#ifndef STENO_FAMILIES_WENET_MODEL_H
#define STENO_FAMILIES_WENET_MODEL_H

#include "families/common/ctc_search.h"
#include "families/common/fusion.h"
#include "families/common/part.h"
#include "families/common/phrases.h"
#include "formats/onnx_head.h"

#define STENO_WENET_RATE 16000 /* Hz */
#define STENO_WENET_HOP 160    /* samples */
#define STENO_WENET_BINS 80

/* Metadata. */
struct steno_wenet_meta {
    int64_t vocab, subsampling;
    /* streaming */
    int64_t head, blocks, width, kernel; /* of the encoder */
    int64_t right_context;               /* feature frames beside those of a chunk */
    int64_t chunk, left;                 /* frames of a chunk; chunks that attention looks back */
};

/* Frozen after open. */
struct steno_wenet_model {
    char *dir;
    char name[128];
    int threads;
    bool sherpa; /* features as sherpa-onnx computes them */
    struct steno_wenet_settings {
        double blank_penalty, hotwords_score, lm_weight;
    } defaults; /* what options of streams say */
    struct steno_part_file net;
    struct steno_wenet_meta meta;
    steno_tokens *tokens;
    int32_t blank;
    struct steno_phrases phrases;
    struct steno_fusion lm;
    steno_fbank *front;
};

/* Whether dir has such a network, and whether it streams. Reads heads of files. */
bool steno_wenet_probe(const char *dir, bool *streaming);
/* Read the metadata. file: for messages. STENO_ERR_FORMAT names the key and what was expected. */
STENO_MUST steno_status steno_wenet_meta_read(struct steno_wenet_meta *out,
                                              const steno_onnx_head *h, bool streaming,
                                              const char *file, steno_err *err);
/* Open what both families have. Close also after a failure. */
STENO_MUST steno_status steno_wenet_open(struct steno_wenet_model *m,
                                         const struct steno_family_open *o, bool streaming,
                                         steno_err *err);
void steno_wenet_close(struct steno_wenet_model *m);
/* The fields of info that do not depend on the feeding. */
struct steno_family_info steno_wenet_info(const struct steno_wenet_model *m);
void steno_wenet_describe(const struct steno_wenet_model *m, const struct steno_model_info *i,
                          FILE *out);
/* Open the search of a stream; s is zero. */
STENO_MUST steno_status steno_wenet_search(struct steno_ctc_search *s,
                                           const struct steno_wenet_model *m,
                                           struct steno_family_stream *o, steno_err *err);

/* Options of both families. */
#define STENO_WENET_OPTIONS 4
extern const struct steno_option_info steno_wenet_options[STENO_WENET_OPTIONS],
    steno_wenet_streaming_options[STENO_WENET_OPTIONS];

#endif
