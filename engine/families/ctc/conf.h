/* model.conf: what a model directory says about itself. INI form (inih); the keys are documented in
 * docs/models.md. Unknown sections and keys, values out of range and missing keys are errors that
 * name the line. */
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
    double sample_scale; /* the network was trained on samples in [-scale, scale]: 1 or 32768 */
    /* [network] */
    char network[128]; /* file names are relative to the directory and stay inside it */
    int window_frames, shift_frames, subsampling, lead_frames, tail_frames;
    bool bf16, int8; /* what precision "auto" may take where the CPU multiplies such numbers */
    /* [decoder] */
    char tokens[128], blank[64], drop[256];
    double blank_penalty;
    double word_before, word_after; /* s: how far a word reaches around its frames of scores */
    int beam;                       /* what a stream gets that asks for no other; 1 = greedy */
    /* [endpoint], seconds */
    double rule1_silence, rule2_silence, rule3_length;
};

/* name: for messages. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_model_conf_parse(struct steno_model_conf *out, const char *text,
                                               const char *name, steno_err *err);
/* STENO_ERR_IO when the file cannot be read. */
STENO_MUST steno_status steno_model_conf_open(struct steno_model_conf *out, const char *path,
                                              steno_err *err);

#endif
