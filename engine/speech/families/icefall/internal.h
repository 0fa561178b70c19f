/* Structs and functions that the files of family icefall share: model.c (a directory), search.c
 * (the search of one stream), streaming.c and offline.c (the two families). */
#ifndef STENO_FAMILIES_ICEFALL_INTERNAL_H
#define STENO_FAMILIES_ICEFALL_INTERNAL_H

#include "speech/families/common/search_options.h"
#include "speech/families/common/shell.h"
#include "speech/families/family.h"
#include "speech/families/icefall/files.h"
#include "speech/families/icefall/nets.h"

#define STENO_ICEFALL_RATE 16000
#define STENO_ICEFALL_SUBSAMPLING 4 /* feature frames of a frame of scores, in all recipes */

/* Frozen after open. */
struct steno_icefall_model {
    struct steno_shell_model base;
    char network[128], type[32]; /* encoder's file, metadata model_type */
    struct steno_icefall_files files;
    bool streaming, ctc;
    int32_t unknown, vocab;         /* unknown: -1 where there is none */
    struct steno_icefall_nets nets; /* transducer */
    int64_t bins, width;            /* of a feature frame; of a frame of the encoder's output */
    size_t hop;                     /* samples per feature frame */
    int64_t shift;                  /* streaming: feature frames that a window moves per step */
};

/* Networks, in base.part; the last two have files for a transducer alone. */
enum { STENO_ICEFALL_ENCODER_PART, STENO_ICEFALL_DECODER_PART, STENO_ICEFALL_JOINER_PART };
static inline steno_network *steno_icefall_encoder(const struct steno_icefall_model *m)
{
    return m->base.part[STENO_ICEFALL_ENCODER_PART].net;
}

/* Confined. */
struct steno_icefall_worker {
    struct steno_shell_worker base;
    steno_icefall_scorer *scorer; /* transducer */
};

/* model.c */
/* Open what both families have. Close also after a failure. */
STENO_MUST steno_status steno_icefall_open(struct steno_icefall_model *m,
                                           const struct steno_family_open *o, steno_err *err);
void steno_icefall_close(void *model);
/* The part of the information that both families share. */
void steno_icefall_info(const void *model, struct steno_family_info *out);
void steno_icefall_describe(const void *model, const struct steno_model_info *i, FILE *out);

STENO_MUST steno_status steno_icefall_worker_open(void *worker, const void *model, int max,
                                                  steno_err *err);
void steno_icefall_worker_close(void *worker);

/* Read a positive number of the encoder's metadata. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_icefall_meta(const struct steno_icefall_model *m, const char *key,
                                           int64_t *out, steno_err *err);

/* search.c */
/* Open the search of a stream, zero; resolves o->beam and o->n_best. Close it also after a failure.
 */
STENO_MUST steno_status steno_icefall_search_open(struct steno_token_search *s,
                                                  const struct steno_icefall_model *m,
                                                  struct steno_family_stream *o, steno_err *err);
/* One frame for n searches of transducers: the joiner runs once for all their hypotheses. frame[i]:
 * [width]. st[i]: searches whose status is not OK are passed over. */
void steno_icefall_search_frame(const struct steno_icefall_model *m, steno_icefall_scorer *scorer,
                                struct steno_token_search *const *s, const float *const *frame,
                                size_t n, steno_status *st, steno_err *const *err);

#endif
