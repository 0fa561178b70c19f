/* A directory with networks of WeNet, shared by both families. Two layouts:
 *
 *     sherpa-onnx's exporter:  model[.int8].onnx or model-streaming[.int8].onnx, with CTC
 *     WeNet's own runtime:     encoder.onnx, ctc.onnx, and decoder.onnx for attention rescoring
 *
 * and tokens.txt or units.txt. */
#ifndef STENO_FAMILIES_WENET_MODEL_H
#define STENO_FAMILIES_WENET_MODEL_H

#include "formats/onnx_head.h"
#include "speech/families/common/shell.h"
#include "speech/families/wenet/rescoring.h"

#define STENO_WENET_RATE 16000 /* Hz */
#define STENO_WENET_HOP 160    /* samples */
#define STENO_WENET_BINS 80

/* Metadata. */
struct steno_wenet_meta {
    int64_t vocab, subsampling;
    /* streaming */
    int64_t head, blocks, width, kernel; /* of the encoder */
    int64_t right_context;               /* feature frames beside those of a chunk */
    /* frames of a chunk; chunks that attention looks back. WeNet's runtime: chunk -1: whole
     * utterances; left 0: none, -1: all */
    int64_t chunk, left;
    /* WeNet's runtime */
    int64_t sos, eos, both; /* of the decoder */
    double reverse;         /* weight of its scores from right to left; 0: it has none */
};

/* Frozen after open. */
struct steno_wenet_model {
    struct steno_shell_model base;
    bool sherpa;                        /* features as sherpa-onnx computes them */
    struct steno_wenet_weights weights; /* the options of streams */
    bool runtime;                       /* the layout of WeNet's own runtime */
    const struct steno_part_file *net;  /* base.part[0], with CTC; runtime: the encoder */
    const struct steno_part_file *ctc;  /* base.part[1]; runtime */
    steno_wenet_rescorer *rescorer;     /* runtime; NULL: there is no decoder */
    struct steno_wenet_meta meta;
};

/* Whether dir has such a network, and whether it streams. Reads heads of files. */
bool steno_wenet_probe(const char *dir, bool *streaming);
/* Read the metadata. file: for messages. STENO_ERR_FORMAT names the key and what was expected. */
STENO_MUST steno_status steno_wenet_meta_read(struct steno_wenet_meta *out,
                                              const steno_onnx_head *h, bool streaming,
                                              const char *file, steno_err *err);
/* The same of encoder.onnx in the layout of WeNet's runtime. */
STENO_MUST steno_status steno_wenet_runtime_meta_read(struct steno_wenet_meta *out,
                                                      const steno_onnx_head *h, const char *file,
                                                      steno_err *err);
/* Open what both families have. Close also after a failure. */
STENO_MUST steno_status steno_wenet_open(struct steno_wenet_model *m,
                                         const struct steno_family_open *o, bool streaming,
                                         steno_err *err);
void steno_wenet_close(void *model);
/* The fields of info that do not depend on the feeding. */
void steno_wenet_info(const struct steno_wenet_model *m, struct steno_family_info *out);
void steno_wenet_describe(const struct steno_wenet_model *m, const struct steno_model_info *i,
                          FILE *out);
/* Begins the streams of both families. */
struct steno_wenet_stream {
    struct steno_shell_stream base;
    struct steno_wenet_finals finals;
};

/* Of struct steno_shell. */
STENO_MUST steno_status steno_wenet_stream_open(void *stream, const void *model,
                                                struct steno_family_stream *o, steno_err *err);
void steno_wenet_stream_close(void *stream);
/* The utterance is complete: order the hypotheses of the search by the decoder (finals.n > 0), if
 * there is one. ahead: rows of finals that the search has not read. */
STENO_MUST steno_status steno_wenet_rescore(struct steno_wenet_stream *s, size_t ahead,
                                            steno_err *err);

/* Options of both families. */
#define STENO_WENET_OPTIONS 7
extern const struct steno_option_info steno_wenet_options[STENO_WENET_OPTIONS],
    steno_wenet_streaming_options[STENO_WENET_OPTIONS];

#endif
