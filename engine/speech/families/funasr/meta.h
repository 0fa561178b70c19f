/* What sherpa-onnx's exporters write into the metadata of FunASR's models: the front end, and the
 * numbers of languages. */
#ifndef STENO_FAMILIES_FUNASR_META_H
#define STENO_FAMILIES_FUNASR_META_H

#include "base/status.h"
#include "speech/features/cmvn.h"
#include "speech/features/lfr.h"

#define STENO_FUNASR_MAX_VOCAB (1 << 20)

/* Where metadata comes from: the value of a key, or NULL. */
struct steno_funasr_source {
    const char *(*get)(const void *arg, const char *key);
    const void *arg;
    const char *file; /* for messages */
};

/* A whole number of [low, high]. STENO_ERR_FORMAT: it is missing, or out of range. */
STENO_MUST steno_status steno_funasr_number(const struct steno_funasr_source *s, const char *key,
                                            int low, int high, int *out, steno_err *err);
/* The same of a key that may be missing: then *out stays. */
STENO_MUST steno_status steno_funasr_optional(const struct steno_funasr_source *s, const char *key,
                                              int low, int high, int *out, steno_err *err);
/* The low frame rate: lfr_window_size and lfr_window_shift. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_funasr_lfr_meta(const struct steno_funasr_source *s,
                                              struct steno_lfr *lfr, steno_err *err);
/* The front end behind the filter bank: lfr_window_size, lfr_window_shift, neg_mean and inv_stddev,
 * each of bins * window numbers. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_funasr_front_meta(const struct steno_funasr_source *s, size_t bins,
                                                struct steno_lfr *lfr, steno_cmvn **cmvn,
                                                steno_err *err);

/* Languages and text norms of SenseVoice: number i of the languages is steno_funasr_languages[i].
 * A language that the file lacks has number -1. */
#define STENO_FUNASR_LANGUAGES 5
extern const char *const steno_funasr_languages[STENO_FUNASR_LANGUAGES]; /* codes */
struct steno_sense_voice_meta {
    int vocab;
    int any; /* the model detects the language */
    int language[STENO_FUNASR_LANGUAGES];
    int with_itn, without_itn;
};
STENO_MUST steno_status steno_sense_voice_meta_read(const struct steno_funasr_source *s,
                                                    struct steno_sense_voice_meta *out,
                                                    steno_err *err);

#endif
