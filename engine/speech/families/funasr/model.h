/* What the models of this folder share: files, vocabulary, front end, and what `steno model info`
 * says. */
#ifndef STENO_FAMILIES_FUNASR_MODEL_H
#define STENO_FAMILIES_FUNASR_MODEL_H

#include "speech/families/common/part.h"
#include "speech/families/common/shell.h"
#include "speech/families/funasr/front.h"

/* Frozen; base.part[0] is the (first) network. */
struct steno_funasr_model {
    struct steno_shell_model base;
    bool quantized; /* the option */
    struct steno_funasr_front front;
};

/* Open the network of `stem` and the front end that its metadata describes. Close also after a
 * failure. */
STENO_MUST steno_status steno_funasr_model_open(struct steno_funasr_model *m,
                                                const struct steno_family_open *o, const char *stem,
                                                steno_err *err);
void steno_funasr_model_close(void *model);
/* Open the filter bank of these models as base.front. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_funasr_fbank_open(struct steno_shell_model *m, steno_err *err);
/* Open tokens.txt, which must have `vocab` pieces. */
STENO_MUST steno_status steno_funasr_tokens_open(struct steno_funasr_model *m, int vocab,
                                                 steno_err *err);
/* The metadata of a network. */
struct steno_funasr_source steno_funasr_source_of(const struct steno_part_file *p);
/* The lines "model", "directory", "network" and "features" of a description. */
void steno_funasr_describe(const struct steno_funasr_model *m, const struct steno_model_info *i,
                           FILE *out);
/* The last of them. */
void steno_funasr_describe_front(const struct steno_funasr_front *f,
                                 const struct steno_model_info *i, FILE *out);

/* f32 [1, n, width], the only output of this width of a run. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_funasr_check_output(const struct steno_part_file *p,
                                                  const struct steno_tensor *y, int64_t width,
                                                  steno_err *err);

#endif
