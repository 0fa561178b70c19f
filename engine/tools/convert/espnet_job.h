/* One conversion of an ESPnet2 checkpoint, and how its configuration is read. Confined. */
#ifndef STENO_CONVERT_ESPNET_JOB_H
#define STENO_CONVERT_ESPNET_JOB_H

#include "base/buf.h"
#include "tools/convert/bundle.h"
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/conf.h"

#define STENO_ESPNET_MAX_YAML ((size_t)64 << 20)
#define STENO_ESPNET_MAX_NAME 600

struct steno_espnet_job {
    const struct steno_bundle *b;
    const char *out;
    char asr_conf[STENO_ESPNET_MAX_NAME], asr_file[STENO_ESPNET_MAX_NAME],
        lm_conf[STENO_ESPNET_MAX_NAME], lm_file[STENO_ESPNET_MAX_NAME];
    steno_yaml *y, *lm;
    char *token_text;   /* of a file; NULL: the tokens are in y */
    const char **token; /* [a.vocab] */
    const char *root;   /* of the weights that are being written */
    struct steno_espnet_arch a;
    const char *token_type;
    long fs, n_fft, win, hop, mels;
    double fmin, fmax;
    bool has_lm, has_ctc, gmvn, umvn, norm_means, norm_vars, bpe;
    steno_err *err;
};

/* ---- sections ---- */
/* After front end and tokens. Sets all of j->a but the vocabulary. */
STENO_MUST steno_status steno_espnet_read_encoder(struct steno_espnet_job *j);
STENO_MUST steno_status steno_espnet_read_decoder(struct steno_espnet_job *j);
STENO_MUST steno_status steno_espnet_read_lm(struct steno_espnet_job *j);

/* ---- sections of the configuration that is written ---- */
/* ngram, weights, beam_search, transducer: ESPnet's defaults. */
STENO_MUST steno_status steno_espnet_add_search(const struct steno_espnet_job *j,
                                                struct steno_buf *b);
STENO_MUST steno_status steno_espnet_add_decoder(const struct steno_espnet_job *j,
                                                 struct steno_buf *b);
STENO_MUST steno_status steno_espnet_add_lm(const struct steno_espnet_job *j, struct steno_buf *b);

#endif
