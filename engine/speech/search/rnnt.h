/* Search over a transducer (Graves, "Sequence Transduction with Recurrent Neural Networks", 2012):
 * the algorithms of ESPnet's BeamSearchTransducer
 * (espnet2/asr/transducer/beam_search_transducer.py), with the networks behind function pointers.
 * Confined. docs/decoder.md describes the algorithms. */
#ifndef STENO_SEARCH_RNNT_H
#define STENO_SEARCH_RNNT_H

#include "speech/search/ctc.h"
#include "speech/search/rules.h"

#define STENO_TRANSDUCER_ROW_BYTES ((size_t)4 << 20)

typedef struct steno_transducer steno_transducer;

enum steno_transducer_search {
    STENO_TRANSDUCER_GREEDY,  /* at most one token per frame */
    STENO_TRANSDUCER_DEFAULT, /* Graves' beam search */
    STENO_TRANSDUCER_TSD,     /* time-synchronous (Saon et al. 2020) */
    STENO_TRANSDUCER_ALSD,    /* alignment-length-synchronous (the same paper) */
    STENO_TRANSDUCER_NSC,     /* n-step constrained (Kim et al. 2020) */
    STENO_TRANSDUCER_MAES     /* modified adaptive expansion (Kim et al. 2020) */
};

struct steno_transducer_nets {
    void *self;
    size_t state, width; /* floats of the prediction network's state, and of its output row */
    size_t lm_state;
    /* Read token i after state[i] (NULL: at the beginning). Returns the state after it, and its
     * output row. */
    steno_status (*predict)(void *self, const float *const *state, const int32_t *token, size_t n,
                            float *const *next, float *const *row, steno_err *err);
    /* Logits [n, vocab] of encoder frame enc[i] with prediction row[i]. */
    steno_status (*join)(void *self, const float *const *enc, const float *const *row, size_t n,
                         float *out, steno_err *err);
    /* Language model or NULL: like predict; rows are log-probabilities [vocab]. */
    steno_status (*lm)(void *self, const float *const *state, const int32_t *token, size_t n,
                       float *const *next, float *const *row, steno_err *err);
};

struct steno_transducer_options {
    enum steno_transducer_search search;
    int32_t vocab, sos; /* the blank is token 0 */
    size_t beam;        /* 1..vocab - 1 */
    bool score_norm;    /* the n-best list is sorted by score per token; the first blank counts */
    double lm_weight;
    size_t max_sym_exp;          /* TSD: tokens per frame, plus one */
    size_t u_max;                /* ALSD: maximum of tokens */
    size_t n_step, prefix_alpha; /* NSC, MAES */
    size_t expansion_beta;       /* MAES */
    double expansion_gamma;      /* MAES */
    /* STENO_RULES_ESPNET_ONNX: NSC and MAES score every token of a prefix search with the shorter
     * hypothesis' row; MAES keeps duplicate sequences; the LM reads a blank first. */
    enum steno_search_rules rules;
    /* Bytes of the networks' rows and states that are kept for sequences that may occur again; 0:
     * STENO_TRANSDUCER_ROW_BYTES. Those of the current frame are always kept. */
    size_t row_bytes;
};

struct steno_transducer_hyp {
    const int32_t *tokens; /* the blank first, as in ESPnet's yseq */
    size_t n;
    const struct steno_span *spans; /* [n - 1]: the frames in which the tokens were emitted */
    double score;
};

/* Open a search. STENO_ERR_INVAL: beam out of range. */
STENO_MUST steno_status steno_transducer_open(steno_transducer **out,
                                              const struct steno_transducer_options *opt,
                                              steno_err *err);
void steno_transducer_close(steno_transducer *t);
/* Search one utterance. enc: [frames, dim]. STENO_ERR_NOMEM, errors of the networks,
 * STENO_ERR_FORMAT: a score is not a number. */
STENO_MUST steno_status steno_transducer_run(steno_transducer *t,
                                             const struct steno_transducer_nets *nets,
                                             const float *enc, size_t frames, size_t dim,
                                             steno_err *err);
/* The same in parts, with the same results: start, then frames as they come, then finish. nets:
 * borrowed for the call; the next call may have another instance of the same networks. Errors as of
 * run; after an error only start is allowed. ALSD keeps the frames after its slowest hypothesis
 * (one of u tokens is u frames behind) and takes its last steps in finish. The other searches keep
 * no frames and take no steps there. */
STENO_MUST steno_status steno_transducer_start(steno_transducer *t, steno_err *err);
STENO_MUST steno_status steno_transducer_push(steno_transducer *t,
                                              const struct steno_transducer_nets *nets,
                                              const float *enc, size_t frames, size_t dim,
                                              steno_err *err);
STENO_MUST steno_status steno_transducer_finish(steno_transducer *t,
                                                const struct steno_transducer_nets *nets,
                                                steno_err *err);
/* The best hypothesis so far, also before finish; count must not be 0. */
STENO_MUST steno_status steno_transducer_best(steno_transducer *t,
                                              struct steno_transducer_hyp *out);
/* Hypotheses, best first. Valid until the next run or get. STENO_ERR_NOMEM. */
size_t steno_transducer_count(const steno_transducer *t);
STENO_MUST steno_status steno_transducer_get(steno_transducer *t, size_t i,
                                             struct steno_transducer_hyp *out);

#endif
