/* The configuration of a directory that espnet_onnx 0.2.x wrote: config.yaml or config.json, the
 * files by their roles, the vocabulary. docs/espnet.md lists every key that is read. */
#ifndef STENO_FAMILIES_ESPNET_CONF_H
#define STENO_FAMILIES_ESPNET_CONF_H

#include "base/arena.h"
#include "base/status.h"
#include "speech/text/sentencepiece.h"

/* The files of one network; each path exists or is NULL. */
struct steno_espnet_file {
    const char *full, *quantized;
};

enum steno_espnet_decoder {
    STENO_ESPNET_NO_DECODER, /* CTC alone */
    STENO_ESPNET_XFORMER,
    STENO_ESPNET_RNN,
    STENO_ESPNET_TRANSDUCER
};
enum steno_espnet_lm { STENO_ESPNET_NO_LM, STENO_ESPNET_LM_XFORMER, STENO_ESPNET_LM_RNN };
enum steno_espnet_norm {
    STENO_ESPNET_NO_NORM,
    STENO_ESPNET_GLOBAL_MVN,
    STENO_ESPNET_UTTERANCE_MVN
};

#define STENO_ESPNET_MAX_ENCS 4 /* attentions of an RNN decoder */

struct steno_espnet_conf {
    steno_arena *mem; /* of all strings */
    const char *dir;  /* that config.yaml is in */
    const char *path; /* of the configuration */
    /* networks */
    struct steno_espnet_file encoder, decoder, ctc, lm, joint;
    struct steno_espnet_file predecoder[STENO_ESPNET_MAX_ENCS];
    const char *att_type[STENO_ESPNET_MAX_ENCS];
    int n_predecoders;
    bool streaming; /* the encoder works on blocks */
    bool vggrnn;
    enum steno_espnet_decoder decoder_kind;
    enum steno_espnet_lm lm_kind;
    long decoder_layers, decoder_dim; /* transducer: of the prediction network */
    long rnn_layers, rnn_units, rnn_length;
    bool rnn_lstm; /* RNN decoder, transducer: LSTM, else GRU */
    long lm_layers, lm_dim;
    bool lm_lstm;
    const char *ngram;  /* an ARPA file or KenLM binary; NULL: none, or weight 0 */
    bool ngram_partial; /* it scores only the tokens that CTC scores */
    /* contextual blocks */
    const char *pe;
    long encoder_layers, subsample, block, hop, look_ahead;
    /* front end */
    long rate, n_fft, win_length, hop_length, bins;
    double fmin, fmax, log_base; /* log_base 0: natural */
    bool center, htk;
    enum steno_espnet_norm norm;
    bool norm_means, norm_vars;
    double norm_eps;
    const char *stats;
    /* vocabulary */
    const char **tokens;
    int32_t vocab, sos, eos, blank;
    const char *token_type;             /* "char", "bpe", "word", "phn" */
    const char *bpe_model;              /* path; NULL: none */
    steno_sentencepiece *sentencepiece; /* the open BPE model; NULL: none */
    int32_t not_in_sentencepiece;       /* tokens that it lacks: marks, noises */
    bool tokens_from_sentencepiece;     /* the configuration has no token.list */
    /* search */
    double weight_decoder, weight_ctc, weight_lm, weight_length, weight_ngram;
    long beam;
    double pre_beam_ratio, max_len_ratio, min_len_ratio;
    bool pre_beam;      /* a pre-beam key is set */
    bool pre_beam_full; /* it is "full", else "decoder" */
    bool no_repetition; /* block by block: a repeated token does not stop the search */
    const char *search; /* transducer: greedy, default, alsd, tsd, nsc, maes */
    bool score_norm;    /* transducer */
    long max_sym_exp, n_step, expansion_beta, prefix_alpha;
    double expansion_gamma, u_max;
};

/* Whether dir has such a model, or a tag_config.yaml that points to one. */
bool steno_espnet_is_dir(const char *dir);
/* Read the configuration of dir and find its files. STENO_ERR_IO: no configuration, or a network is
 * missing; STENO_ERR_FORMAT names file, line and key; STENO_ERR_UNSUPPORTED names the key and the
 * value; STENO_ERR_NOMEM, STENO_ERR_LIMIT. Close *c in any case. */
STENO_MUST steno_status steno_espnet_conf_open(struct steno_espnet_conf *c, const char *dir,
                                               steno_err *err);
void steno_espnet_conf_close(struct steno_espnet_conf *c);

#endif
