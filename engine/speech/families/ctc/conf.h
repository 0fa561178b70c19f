/* model.conf, the configuration of a model directory. It is an INI file (inih); docs/models.md
 * documents the keys. Unknown sections and keys, values out of range and missing keys are errors
 * that name the line. */
#ifndef STENO_FAMILIES_CTC_CONF_H
#define STENO_FAMILIES_CTC_CONF_H

#include "base/status.h"

struct steno_model_conf {
    /* [model] */
    char name[64], version[32], family[32], language[32], license[64];
    /* [features] */
    char feature_type[32];
    int sample_rate, mel_bins;
    double low_freq, high_freq;
    bool snip_edges;
    double sample_scale; /* samples in training were in [-scale, scale]: 1 or 32768 */
    /* [network] */
    char network[128]; /* files are relative to the directory and inside it */
    int window_frames, shift_frames, subsampling, lead_frames, tail_frames;
    bool bf16, int8; /* precision "auto" may select it if the CPU has the instructions */
    /* [decoder] */
    char tokens[128], blank[64], drop[256];
    double blank_penalty;
    double word_before, word_after; /* s: how far a word extends around its frames */
    int beam;                       /* of streams that do not set one; 1: greedy */
    /* [endpoint], seconds */
    double rule1_silence, rule2_silence, rule3_length;
};

/* Parse the text of a model.conf. name: of the file, for messages. STENO_ERR_FORMAT names line and
 * key; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_model_conf_parse(struct steno_model_conf *out, const char *text,
                                               const char *name, steno_err *err);
/* Read and parse the file at path. STENO_ERR_IO: it cannot be read; errors of
 * steno_model_conf_parse. */
STENO_MUST steno_status steno_model_conf_open(struct steno_model_conf *out, const char *path,
                                              steno_err *err);

#endif
