/* Recurrent networks of an espnet_onnx directory: the language model and the prediction network of
 * a transducer, which read one token per step, and the decoder with attention. Language model and
 * decoder are scorers of the joint search. Confined. */
#ifndef STENO_FAMILIES_ESPNET_RNN_H
#define STENO_FAMILIES_ESPNET_RNN_H

#include "nn/network/network.h"
#include "speech/families/common/beam_states.h"

typedef struct steno_espnet_rnn steno_espnet_rnn;

struct steno_espnet_rnn_options {
    int threads;
    const char *token, *out, *state[2],
        *next[2]; /* names in the graph; the graph may lack the second state */
    int layers;
    int64_t units;
    int64_t width; /* of an output row; -1: any */
};

/* Options with the names that espnet_onnx gives in SequentialRNNLM and in the prediction network.
 */
struct steno_espnet_rnn_options steno_espnet_rnn_lm(int threads, int layers, int64_t units,
                                                    int64_t vocab);
struct steno_espnet_rnn_options steno_espnet_rnn_prediction(int threads, int layers, int64_t units);

/* Open a network with a token i64 [B,1] and one or two states f32 [layers, B, units]. net is
 * borrowed. name: for messages, borrowed. STENO_ERR_FORMAT names what is missing. */
STENO_MUST steno_status steno_espnet_rnn_open(steno_espnet_rnn **out, steno_network *net,
                                              const struct steno_espnet_rnn_options *opt,
                                              const char *name, steno_err *err);
void steno_espnet_rnn_close(steno_espnet_rnn *r);
size_t
steno_espnet_rnn_state_size(const steno_espnet_rnn *r); /* floats of the states of one prefix */
/* Read one token of each of n prefixes. state[i]: [state_size], NULL: zeros. next[i] receives the
 * states after the token and may be state[i]. *out: [n, *width], valid until the next step. */
STENO_MUST steno_status steno_espnet_rnn_step(steno_espnet_rnn *r, const float *const *state,
                                              const int32_t *token, size_t n, float *const *next,
                                              const float **out, size_t *width, steno_err *err);
/* A language model as a scorer: score and rewind of struct steno_joint_scorer. They use the model's
 * own states, or those that steno_espnet_rnn_use sets (a search block by block has its own; NULL:
 * the model's again). */
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

/* decoder: espnet_onnx's rnn_decoder, which takes one hypothesis per run. predecoder: its
 * predecoder_0, the part of the attention that depends on encoder frames alone; NULL: no attention.
 * Both are borrowed. STENO_ERR_FORMAT names what is missing. */
STENO_MUST steno_status steno_espnet_rnn_decoder_open(
    steno_espnet_rnn_decoder **out, steno_network *decoder, steno_network *predecoder,
    const struct steno_espnet_rnn_decoder_options *opt, const char *name, steno_err *err);
void steno_espnet_rnn_decoder_close(steno_espnet_rnn_decoder *d);
/* The state of one search: states of its hypotheses, and the predecoder's output for the encoder
 * frames. new returns NULL when out of memory. use selects the state on which start, extend, score
 * and rewind work; NULL: the state that d opened with. */
typedef struct steno_espnet_rnn_decoder_state steno_espnet_rnn_decoder_state;
steno_espnet_rnn_decoder_state *steno_espnet_rnn_decoder_state_new(void);
void steno_espnet_rnn_decoder_state_free(steno_espnet_rnn_decoder_state *k);
size_t steno_espnet_rnn_decoder_state_bytes(const steno_espnet_rnn_decoder_state *k);
void steno_espnet_rnn_decoder_use(steno_espnet_rnn_decoder *d, steno_espnet_rnn_decoder_state *k);
/* start begins an utterance. extend sets its encoder frames so far, rows [n, dim], borrowed until
 * the next call. Frames that come later had no weight in the attention of earlier steps. */
void steno_espnet_rnn_decoder_start(steno_espnet_rnn_decoder *d);
STENO_MUST steno_status steno_espnet_rnn_decoder_extend(steno_espnet_rnn_decoder *d,
                                                        const float *rows, size_t n, int64_t dim,
                                                        steno_err *err);
/* score and rewind of struct steno_joint_scorer. */
void steno_espnet_rnn_decoder_rewind(void *self, int calls);
STENO_MUST steno_status steno_espnet_rnn_decoder_score(void *self, const int32_t *const *prefix,
                                                       size_t length, const int32_t *parent,
                                                       size_t n, float *out, steno_err *err);
size_t steno_espnet_rnn_decoder_bytes(const steno_espnet_rnn_decoder *d);

#endif
