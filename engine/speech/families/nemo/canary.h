/* The attention decoder of Canary, greedy. sherpa-onnx's export:
 *
 *     decoder_input_ids i32 [1,2] = (token, position), decoder_mems_list_i [1,n,H] (any number of
 *     them), enc_states [1,T,D], enc_mask bool [1,T]
 *     -> logits [1,1,vocab], next memories [1,n+1,H]
 *
 * onnx-asr's (its models/nemo.py):
 *
 *     input_ids i64 [1,1], decoder_mems [layers,1,n,H], encoder_embeddings [1,T,D],
 *     encoder_mask i64 [1,T] -> logits [1,1,vocab], decoder_hidden_states [layers,1,n+1,H]
 *
 * A prompt of marks says what is wanted: language spoken, language of the text, punctuation. It is
 * read one mark at a time, like the tokens after it. Sources: NeMo, EncDecMultiTaskModel and its
 * prompt format canary2; sherpa-onnx 2.0.1 for the number of tokens. */
#ifndef STENO_FAMILIES_NEMO_CANARY_H
#define STENO_FAMILIES_NEMO_CANARY_H

#include "nn/network/network.h"
#include "speech/families/common/greedy_text.h"
#include "speech/families/common/language_marks.h"
#include "nn/network/run.h"
#include "speech/text/tokens.h"

#define STENO_CANARY_MEMORIES 64
#define STENO_CANARY_LANGUAGES 128 /* bytes of the list of codes */

/* Frozen. */
struct steno_canary {
    steno_network *net; /* borrowed, as the name */
    const char *name;
    int ids, states, mask, memory[STENO_CANARY_MEMORIES]; /* inputs */
    int n_memories;
    bool stacked;           /* onnx-asr's: one input for the memories of all layers */
    int64_t layers, hidden; /* of the memories */
    int64_t width;          /* of an encoder frame; -1: the network does not say */
    int32_t vocab, end;
    int32_t lead;                           /* an empty word before the prompt, of models with one
                                             * SentencePiece vocabulary; -1: none */
    int32_t begin[3], after[4];             /* marks of the prompt around the languages */
    char languages[STENO_CANARY_LANGUAGES]; /* codes, "en es de fr" */
};

/* Match network and vocabulary. memories, hidden: as the metadata says, 0: not said.
 * STENO_ERR_FORMAT names what is missing. */
STENO_MUST steno_status steno_canary_bind(struct steno_canary *c, steno_network *net,
                                          const char *name, const steno_tokens *tokens,
                                          int64_t memories, int64_t hidden, steno_err *err);

/* The prompt begins with an empty word, as NeMo writes the empty slot of a context. */
void steno_canary_lead(struct steno_canary *c, const steno_tokens *tokens);

/* A session and the tokens of the last run. Confined. */
typedef struct steno_canary_decoder steno_canary_decoder;
STENO_MUST steno_status steno_canary_decoder_open(steno_canary_decoder **out,
                                                  const struct steno_canary *c, int threads,
                                                  steno_err *err);
void steno_canary_decoder_close(steno_canary_decoder *d);
/* Decode encoder frames [frames, width] of p, languages as marks, into p's hypothesis of at most
 * `most` tokens. The model gives no times, so the tokens share the frames evenly. The score is the
 * sum of their log-probabilities and that of the end. */
STENO_MUST steno_status steno_canary_decode(steno_canary_decoder *d, const float *states,
                                            size_t frames, size_t width, int32_t source,
                                            int32_t target, size_t most,
                                            const struct steno_offline_piece *p);

#endif
