/* The networks, run. A runner has the sessions and scratch of one thread at a time; a state has the
 * keys and values of one window's audio and of the texts that are being written for it. A step may
 * serve the states of several recordings at once: the weights are then read once for all. */
#ifndef STENO_FAMILIES_WHISPER_NET_H
#define STENO_FAMILIES_WHISPER_NET_H

#include "speech/families/whisper/model.h"

typedef struct steno_whisper_runner steno_whisper_runner; /* confined */
typedef struct steno_whisper_state steno_whisper_state;   /* confined; of one model */

STENO_MUST steno_status steno_whisper_runner_open(steno_whisper_runner **out,
                                                  const struct steno_whisper *m, steno_err *err);
void steno_whisper_runner_close(steno_whisper_runner *r);
const struct steno_whisper *steno_whisper_runner_model(const steno_whisper_runner *r);

STENO_MUST steno_status steno_whisper_state_open(steno_whisper_state **out,
                                                 const struct steno_whisper *m, steno_err *err);
void steno_whisper_state_close(steno_whisper_state *s);
/* Windows encoded from now on are to be aligned: the keys of heads that follow time are kept in
 * f32, whatever the network's precision. */
void steno_whisper_state_keep_keys(steno_whisper_state *s);

/* A window: n frames of mel [n, mels], logarithms to base 10, which are raised to the floor and
 * scaled, (x + 4) / 4, then frames of 0 up to 2 * rows; rows <= audio_ctx. Afterwards s has the
 * window's keys and values, and no text. */
struct steno_whisper_window {
    const float *mel;
    size_t n, rows;
    float floor;
};
STENO_MUST steno_status steno_whisper_encode(steno_whisper_runner *r, steno_whisper_state *s,
                                             const struct steno_whisper_window *w, steno_err *err);
/* The encoder frames of the last window that the runner encoded, [rows, audio_state]; valid until
 * its next one. */
const float *steno_whisper_encoded(const steno_whisper_runner *r, size_t *rows);

/* One state's part of a step. Either a text from the beginning, all tokens at once, which forgets
 * what the state had written (parent NULL), or the next token of each of n hypotheses, which go on
 * from hypothesis parent[i] of the step before (number 0 after a text). */
struct steno_whisper_ask {
    steno_whisper_state *state;
    const int32_t *token; /* [n] */
    const size_t *parent; /* [n], or NULL */
    size_t n;             /* n plus what was before: at most text_ctx */
    const size_t *pick;   /* a text: [n_pick] tokens whose scores are wanted, in order */
    size_t n_pick;
    bool later;          /* a text: scores come from steno_whisper_scores, not with the step */
    size_t entry;        /* result: its first entry of the run */
    const float *logits; /* result: [n_pick or n, vocab]; the runner's, until its next run of scores
                            or its next step */
};
/* STENO_ERR_LIMIT: no room for so many tokens. Then, and where memory runs out, states are without
 * text. */
STENO_MUST steno_status steno_whisper_step(steno_whisper_runner *r, struct steno_whisper_ask *ask,
                                           size_t n, steno_err *err);
/* Scores of picks [from, from + n) of `a`, a text of the last step: *logits [n, vocab], the
 * runner's until its next run of scores or its next step. A few at a time need little memory. */
STENO_MUST steno_status steno_whisper_scores(steno_whisper_runner *r,
                                             const struct steno_whisper_ask *a, size_t from,
                                             size_t n, const float **logits, steno_err *err);
/* Forget what the state's only hypothesis has behind its first n tokens. */
void steno_whisper_state_cut(steno_whisper_state *s, size_t n);

/* Cross attention of the last step, in which `a` was a text: scores before the softmax of head
 * `number` of the model's heads that follow time, with key rows 0 .. keys. a->state keeps keys. out
 * [a->n, keys]. */
void steno_whisper_cross_scores(const steno_whisper_runner *r, const struct steno_whisper_ask *a,
                                size_t number, size_t keys, float *out);

#endif
