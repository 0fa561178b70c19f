/* train.yaml and the global normalization of WeNet. */
#ifndef STENO_CONVERT_WENET_CONF_H
#define STENO_CONVERT_WENET_CONF_H

#include "tools/convert/wenet_graphs.h"
#include "formats/yaml.h"

/* What the configuration says beside the networks. Texts are borrowed from it. */
struct steno_wenet_conf {
    const char *tokens, *bpe, *cmvn; /* files; NULL: not named */
    bool normalized;                 /* there is a global normalization */
    bool chunks;                     /* trained with chunks, and nothing sees to the right */
    int64_t static_chunk;            /* frames; 0: chunks of any length */
    int64_t blank;
};

/* Read the whole configuration. a->vocab is the number of tokens, or 0 if the file does not say.
 * STENO_ERR_UNSUPPORTED names key and value, and what is known. STENO_ERR_FORMAT: a wrong type, or
 * numbers that do not fit together. */
STENO_MUST steno_status steno_wenet_conf_read(const steno_yaml *y, struct steno_wenet_arch *a,
                                              struct steno_wenet_conf *c, steno_err *err);

/* Read global_cmvn: JSON with mean_stat, var_stat and frame_num, or the text of Kaldi's statistics.
 * mean, istd: [bands] mean, and inverse of the deviation. STENO_ERR_FORMAT names the fault. */
STENO_MUST steno_status steno_wenet_cmvn_parse(const void *bytes, size_t n, const char *name,
                                               size_t bands, float *mean, float *istd,
                                               steno_err *err);

#endif
