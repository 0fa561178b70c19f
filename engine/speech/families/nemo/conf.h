/* What a directory with a model of NeMo says about it, before any network is loaded: which files it
 * has, what kind of model they are, and how its audio becomes features. Two layouts are known.
 *
 *     sherpa-onnx   encoder[.int8].onnx, decoder, joiner (transducer), decoder alone (Canary), or
 *                   model[.int8].onnx (CTC); tokens.txt; metadata in the first of these networks
 *     onnx-asr      encoder-model[.int8].onnx, decoder_joint-model or decoder-model, or model;
 *                   vocab.txt; config.json
 *     onnx-asr, GigaAM   v2_ctc[.int8].onnx; or v3_rnnt_encoder, v3_rnnt_decoder, v3_rnnt_joint;
 *                   v2_vocab.txt; config.json with the version and kind
 *
 * A model may be one file, too (file.h).
 */
#ifndef STENO_FAMILIES_NEMO_CONF_H
#define STENO_FAMILIES_NEMO_CONF_H

#include "formats/onnx_head.h"
#include "speech/families/nemo/file.h"

#define STENO_NEMO_RATE 16000 /* Hz, of all these models */
#define STENO_NEMO_HOP 160    /* samples */

enum steno_nemo_kind { STENO_NEMO_CTC, STENO_NEMO_TRANSDUCER, STENO_NEMO_CANARY };

struct steno_nemo_conf {
    char *dir;
    enum steno_nemo_kind kind;
    bool streaming;                         /* the encoder has caches, or buffered: */
    bool buffered;                          /* .. no caches, and windows that overlap */
    bool onnx_asr;                          /* layout */
    char *encoder, *decoder, *joiner;       /* files; joiner NULL: part of the decoder, or none */
    char *tokens;                           /* file */
    bool quantized;                         /* the encoder is */
    bool gigaam;                            /* a model of GigaAM: other features */
    char stem[24];                          /* of its files in onnx-asr's layout, "v3_e2e_ctc" */
    bool version_3;                         /* of GigaAM, or a later one */
    bool exact;                             /* .. whose window and filters are not in 16 bits */
    bool per_feature;                       /* normalisation by the statistics of the segment */
    int64_t vocab;                          /* without the blank; 0: not said */
    int64_t bins, subsampling;              /* bins 0: not said */
    int64_t window, shift;                  /* streaming: feature frames of a step */
    int64_t past;                           /* buffered: those of a window before its chunk */
    int64_t channel[3], time[3];            /* streaming: caches of one stream */
    int64_t max_tokens;                     /* transducer: of a frame; 0: not said */
    int64_t decoder_layers, decoder_hidden; /* Canary */
    bool leads;                             /* Canary: see struct steno_canary */
    char language[16];                      /* code; "": not known */
    const char *format;                     /* of one file: "GGUF" or "ggml"; NULL: a directory */
};

/* The head of the network that has the metadata, to be closed by the caller; NULL: there is none.
 */
steno_onnx_head *steno_nemo_conf_head(const char *dir);
/* Whether dir has a model of NeMo, and whether it streams. Reads names of files and heads of
 * networks. */
bool steno_nemo_conf_probe(const char *dir, bool *streaming);
/* Read what dir says. int8: prefer quantized networks. STENO_ERR_IO, STENO_ERR_FORMAT: a file or a
 * key is missing or contradicts another; STENO_ERR_UNSUPPORTED. Free after success. */
STENO_MUST steno_status steno_nemo_conf_open(struct steno_nemo_conf *c, const char *dir, bool int8,
                                             steno_err *err);
/* The same of the one file at `path`, whose networks have names for messages alone. */
STENO_MUST steno_status steno_nemo_conf_of_file(struct steno_nemo_conf *c, const char *path,
                                                const struct steno_nemo_file_info *i,
                                                steno_err *err);
void steno_nemo_conf_free(struct steno_nemo_conf *c);
/* Read config.json of onnx-asr from memory; name is used in messages. Sets kind, bins, subsampling,
 * max_tokens. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED: another model_type. */
STENO_MUST steno_status steno_nemo_conf_parse(struct steno_nemo_conf *c, const void *bytes,
                                              size_t n, const char *name, steno_err *err);

/* Read the metadata of the first network; file is used in messages. c->kind, streaming and onnx_asr
 * say which keys are needed. STENO_ERR_FORMAT names the key and what was expected;
 * STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_nemo_conf_metadata(struct steno_nemo_conf *c,
                                                 const steno_onnx_head *h, const char *file,
                                                 steno_err *err);

#endif
