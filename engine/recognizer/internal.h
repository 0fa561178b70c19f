/* What model.c, stream.c and stepper.c share. */
#ifndef STENO_RECOGNIZER_INTERNAL_H
#define STENO_RECOGNIZER_INTERNAL_H

#include "search/ctc.h"
#include "text/tokens.h"
#include "features/fbank.h"
#include "families/ctc/conf.h"
#include "families/ctc/network.h"
#include "families/espnet/net.h"
#include "recognizer/stream.h"
#include "steno.h"

/* Frozen after open. */
struct steno_model {
    char *dir;
    struct steno_model_conf conf;
    steno_tokens *tokens;
    int32_t blank;
    steno_network *net;
    struct steno_ctc_network ctc;
    steno_fbank *front; /* whose tables every stream shares; NULL in family espnet */
    int threads;
    size_t hop;                  /* samples per feature frame, model rate */
    size_t stream_bytes;         /* measured by the trial step at load */
    struct steno_espnet *espnet; /* family espnet: its networks; NULL in other families */
};

/* Before the step: the stream's full window goes to x [window, bins]; returns its states. */
struct steno_ctc_state *steno_stream_fill_input(steno_stream *s, float *x);
/* After it: how it went (st, with the message in err already) and the scores [rows, vocab] of this
 * stream. The window slides, the scores are decoded. */
STENO_MUST steno_status steno_stream_consume_output(steno_stream *s, steno_status st,
                                                    const float *scores, steno_err *err);
/* The last act of opening a model: steps on noise, alone and side by side. What only a run can tell
 * is told at load, not to the first caller; a network that does not keep the streams of a batch
 * apart is not given any (m->ctc.batches). Fills in m->stream_bytes. */
STENO_MUST steno_status steno_stepper_try(steno_model *m, steno_err *err);
/* Family espnet (espnet_model.c). The model is to be closed in any case. */
STENO_MUST steno_status steno_espnet_model_open(steno_model *m,
                                                const struct steno_model_options *opt,
                                                steno_err *err);
void steno_espnet_model_close(steno_model *m);
void steno_espnet_describe(const steno_model *m, FILE *out);

/* "precision" of the options, which may be NULL. conf: what "auto" may take, the narrower first,
 * where the CPU multiplies such numbers; NULL: nothing. STENO_ERR_INVAL for a name that is none. */
STENO_MUST steno_status steno_model_precision(const struct steno_model_options *opt,
                                              const struct steno_model_conf *conf,
                                              enum steno_precision *out, steno_err *err);

#endif
