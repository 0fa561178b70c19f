/* The kinds of models of this family: what their exporters write into the metadata, and how samples
 * become frames. */
#ifndef STENO_FAMILIES_CTC_OFFLINE_KINDS_H
#define STENO_FAMILIES_CTC_OFFLINE_KINDS_H

#include "formats/onnx_head.h"
#include "speech/features/cmvn.h"
#include "speech/features/fbank.h"

#define STENO_CTC_OFFLINE_RATE 16000 /* Hz */

struct steno_ctc_offline_kind {
    const char *type;      /* the metadata's model_type, or how it begins */
    const char *title;     /* for `steno model info` */
    const char *languages; /* codes; "": not known */
    /* sherpa: as sherpa-onnx computes them, where the training's are known and differ */
    struct steno_fbank_options (*front)(bool sherpa);
    bool trained;              /* the training's features are known */
    double lifter;             /* cepstra of the filters instead of these; 0: the filters */
    const char *mean, *factor; /* keys: y = (x - mean) * factor; NULL: no normalisation */
    bool frames_first;         /* scores [T, 1, vocab] of one piece, whose length is not given */
};

/* The metadata of a network of this family. */
struct steno_ctc_offline_meta {
    const struct steno_ctc_offline_kind *kind;
    int64_t vocab; /* 0: not said */
    int64_t subsampling;
    steno_cmvn *cmvn; /* NULL: none */
};

/* The kind of a network; NULL: none of this family. */
const struct steno_ctc_offline_kind *steno_ctc_offline_kind_of(const steno_onnx_head *h);
/* Read the metadata of a network of this family. file: for messages. STENO_ERR_FORMAT names the key
 * and what was expected. The caller closes cmvn. */
STENO_MUST steno_status steno_ctc_offline_meta_read(struct steno_ctc_offline_meta *out,
                                                    const steno_onnx_head *h, const char *file,
                                                    steno_err *err);

#endif
