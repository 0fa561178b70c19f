/* Recurrent networks of an espnet_onnx directory: the language model and the transducer's
 * prediction network, which read a token a time, and the decoder with attention, as scorers of the
 * joint search. Confined. */
#ifndef STENO_FAMILIES_ESPNET_RNN_H
#define STENO_FAMILIES_ESPNET_RNN_H

#include "nn/network/network.h"
#include "families/common/beam_states.h"

typedef struct steno_espnet_rnn steno_espnet_rnn;

struct steno_espnet_rnn_options {
    int threads;
    const char *token, *out, *state[2],
        *next[2]; /* names in the graph; the second may be missing */
    int layers;
    int64_t units;
    int64_t width; /* of the output's rows; -1 = whatever they are */
};

/* The names that espnet_onnx gives: SequentialRNNLM, and the prediction network. */
struct steno_espnet_rnn_options steno_espnet_rnn_lm(int threads, int layers, int64_t units,
                                                    int64_t vocab);
struct steno_espnet_rnn_options steno_espnet_rnn_prediction(int threads, int layers, int64_t units);

/* A graph of token i64 [B,1] and states f32 [layers, B, units] each. STENO_ERR_FORMAT names what is
 * missing. name: for messages. */
STENO_MUST steno_status steno_espnet_rnn_open(steno_espnet_rnn **out, steno_network *net,
                                              const struct steno_espnet_rnn_options *opt,
                                              const char *name, steno_err *err);
void steno_espnet_rnn_close(steno_espnet_rnn *r);
size_t steno_espnet_rnn_state_size(const steno_espnet_rnn *r); /* floats of one state */
/* One token for each of n prefixes. state[i]: [state_size], NULL = zeros; next[i] receives the
 * state after the token, and may be state[i]. *out: [n, *width], valid until the next step. */
STENO_MUST steno_status steno_espnet_rnn_step(steno_espnet_rnn *r, const float *const *state,
                                              const int32_t *token, size_t n, float *const *next,
                                              const float **out, size_t *width, steno_err *err);
/* Of a language model: struct steno_joint_scorer's score and rewind, with states of its own, or
 * after use with those (a search's that goes block by block; NULL: its own again). */
void steno_espnet_rnn_use(steno_espnet_rnn *r, struct steno_beam_states *states);
void steno_espnet_rnn_rewind(void *self, int calls);
STENO_MUST steno_status steno_espnet_rnn_score(void *self, const int32_t *const *prefix,
                                               size_t length, const int32_t *parent, size_t n,
                                               float *out, steno_err *err);
size_t steno_espnet_rnn_bytes(const steno_espnet_rnn *r);

typedef struct steno_espnet_rnn_decoder steno_espnet_rnn_decoder;

struct steno_espnet_rnn_decoder_options {
    int threads, layers;
    int64_t units;
    int32_t vocab;
};

/* decoder: espnet_onnx's rnn_decoder, one hypothesis at a time; before: its predecoder_0, what the
 * attention makes of the encoder's rows once, NULL for no attention. */
STENO_MUST steno_status steno_espnet_rnn_decoder_open(
    steno_espnet_rnn_decoder **out, steno_network *decoder, steno_network *predecoder,
    const struct steno_espnet_rnn_decoder_options *opt, const char *name, steno_err *err);
void steno_espnet_rnn_decoder_close(steno_espnet_rnn_decoder *d);
/* What one search keeps from step to step: states of the hypotheses, and what the attention makes
 * of the rows. new: NULL when out of memory. use: what start, extend, score and rewind are about
 * from now on, NULL: the state that d came with. */
typedef struct steno_espnet_rnn_decoder_state steno_espnet_rnn_decoder_state;
steno_espnet_rnn_decoder_state *steno_espnet_rnn_decoder_state_new(void);
void steno_espnet_rnn_decoder_state_free(steno_espnet_rnn_decoder_state *k);
size_t steno_espnet_rnn_decoder_state_bytes(const steno_espnet_rnn_decoder_state *k);
void steno_espnet_rnn_decoder_use(steno_espnet_rnn_decoder *d, steno_espnet_rnn_decoder_state *k);
/* Before an utterance; then its rows [n, dim] so far, borrowed until the next call. Rows that come
 * later had no weight in the attention of the steps before. */
void steno_espnet_rnn_decoder_start(steno_espnet_rnn_decoder *d);
STENO_MUST steno_status steno_espnet_rnn_decoder_extend(steno_espnet_rnn_decoder *d,
                                                        const float *rows, size_t n, int64_t dim,
                                                        steno_err *err);
/* struct steno_joint_scorer's score and rewind. */
void steno_espnet_rnn_decoder_rewind(void *self, int calls);
STENO_MUST steno_status steno_espnet_rnn_decoder_score(void *self, const int32_t *const *prefix,
                                                       size_t length, const int32_t *parent,
                                                       size_t n, float *out, steno_err *err);
size_t steno_espnet_rnn_decoder_bytes(const steno_espnet_rnn_decoder *d);

#endif
