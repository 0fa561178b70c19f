/* One conversion of a checkpoint of NeMo: its configuration and its tokens. Confined. */
#ifndef STENO_CONVERT_NEMO_JOB_H
#define STENO_CONVERT_NEMO_JOB_H

#include "base/buf.h"
#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"
#include "tools/convert/nemo_graphs.h"
#include "formats/yaml.h"

#define STENO_NEMO_MAX_TEXT ((size_t)64 << 20)

struct steno_nemo_job {
    const struct steno_bundle *b;
    const struct steno_convert_options *o;
    steno_yaml *y; /* model_config.yaml */
    struct steno_nemo_arch a;
    const char *ctc; /* root of the CTC decoder's weights; NULL: a transducer is written */
    struct steno_buf tokens, bpe; /* tokens.txt; bpe.vocab, empty if the pieces have no scores */
    steno_err *err;
};

/* Fill j->a and j->ctc from j->y and the flags; a.vocab stays. STENO_ERR_UNSUPPORTED: a key or
 * value that is not known, with the list of known ones. STENO_ERR_FORMAT: values that contradict
 * each other. STENO_ERR_INVAL: a flag does not fit. */
STENO_MUST steno_status steno_nemo_read_conf(struct steno_nemo_job *j);
/* Fill j->tokens, j->bpe and j->a.vocab from the tokenizer's files or the vocabulary in j->y. */
STENO_MUST steno_status steno_nemo_read_tokens(struct steno_nemo_job *j);

#endif
