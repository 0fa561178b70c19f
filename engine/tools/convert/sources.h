/* The kinds of checkpoint that become model directories. */
#ifndef STENO_CONVERT_SOURCES_H
#define STENO_CONVERT_SOURCES_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

struct steno_convert_source {
    const char *name;
    /* Whether the files are such a checkpoint. A file that is no ZIP archive comes as a bundle
     * without members: b->path says where it is. */
    bool (*probe)(const struct steno_bundle *b);
    bool (*takes)(const char *flag); /* NULL: no flag */
    /* Write directory `out`, which is made if need be; other files in it stay. STENO_ERR_INVAL: a
     * flag that does not fit the weights. STENO_ERR_UNSUPPORTED names what is not known, and what
     * is. STENO_ERR_FORMAT names the weight, key or file that is missing or contradicts.
     * STENO_ERR_IO. On failure, files that were written stay; the one that makes the directory a
     * model comes last. */
    steno_status (*convert)(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err);
    const char *known; /* for the message that lists them */
};

extern const struct steno_convert_source
    steno_source_espnet,   /* a directory as espnet_onnx writes it (docs/espnet.md) */
    steno_source_hf,       /* config.json's model_type says which network it is */
    steno_source_wenet,    /* of sherpa-onnx's or of WeNet's own runtime (docs/wenet.md) */
    steno_source_whisper,  /* Hugging Face's directory, with the vocabulary beside the checkpoint */
    steno_source_speakers, /* ONNX with the metadata of sherpa-onnx (docs/speakers.md) */
    steno_source_icefall,  /* a directory that sherpa-onnx loads too (docs/icefall.md) */
    steno_source_nemo;     /* as sherpa-onnx's scripts write it (docs/nemo.md) */

#endif
