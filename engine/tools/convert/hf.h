/* Checkpoints of Hugging Face's transformers: config.json, weights (hf_weights.h), vocabulary.
 * config.json's model_type says which network it is. */
#ifndef STENO_CONVERT_HF_H
#define STENO_CONVERT_HF_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"
#include "tools/convert/hf_weights.h"
#include "formats/json.h"

/* A config.json. The first failure sticks (st), later calls do nothing. Keys that are missing or
 * null leave *out as it is. */
struct steno_hf_conf {
    const struct steno_json_node *root;
    const char *file; /* for messages */
    steno_status st;
    steno_err *err;
};

void steno_hf_int(struct steno_hf_conf *c, const char *key, int64_t min, int64_t max, int64_t *out);
/* A list of at most `max_n` whole numbers. */
void steno_hf_ints(struct steno_hf_conf *c, const char *key, int64_t min, int64_t max, int max_n,
                   int64_t *out, int *n);
void steno_hf_flag(struct steno_hf_conf *c, const char *key, bool *out);
void steno_hf_text(struct steno_hf_conf *c, const char *key, const char **out);
void steno_hf_number(struct steno_hf_conf *c, const char *key, double min, double max, double *out);
/* STENO_ERR_UNSUPPORTED: the key has a value other than `only` ("false", "null", a text). */
void steno_hf_only(struct steno_hf_conf *c, const char *key, const char *only);
/* STENO_ERR_UNSUPPORTED, with the value and the known ones. */
void steno_hf_refuse(struct steno_hf_conf *c, const char *key, const char *value,
                     const char *known);

/* A conversion. */
struct steno_hf_job {
    const struct steno_bundle *b;
    const char *out; /* exists */
    struct steno_hf_conf *conf;
    steno_hf_weights *weights;
    steno_err *err;
};

/* The model types. Each writes its networks and files. */
STENO_MUST steno_status steno_hf_convert_ctc(struct steno_hf_job *j);
STENO_MUST steno_status steno_hf_convert_moonshine(struct steno_hf_job *j);

/* Write a file of the directory. */
STENO_MUST steno_status steno_hf_write(const struct steno_hf_job *j, const char *name,
                                       const void *p, size_t n);
/* Copy a file of the checkpoint as it is. needed: STENO_ERR_IO if it is missing. */
STENO_MUST steno_status steno_hf_copy(struct steno_hf_job *j, const char *name, bool needed);

#endif
