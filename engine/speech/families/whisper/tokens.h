/* Whisper's special pieces, and what is never to be sampled; text/language.h has its languages.
 * Frozen. */
#ifndef STENO_FAMILIES_WHISPER_TOKENS_H
#define STENO_FAMILIES_WHISPER_TOKENS_H

#include "speech/families/whisper/weights.h"

#define STENO_WHISPER_TIMES 1501 /* <|0.00|> to <|30.00|>, 0.02 s apart */

/* Numbers of special pieces (whisper.tokenizer): they follow from how many pieces there are. */
struct steno_whisper_specials {
    bool multilingual;
    int32_t eot, sot, first_language, n_languages, translate, transcribe, sot_lm, sot_prev,
        no_speech, no_times, first_time;
};

/* vocab: pieces the decoder has scores for. said: of a file that names its special pieces. Without
 * them, fine-tunes with added pieces count as multilingual ones of 99 languages. STENO_ERR_FORMAT:
 * fewer than 51,864, or special pieces in another order (file: for the message). */
STENO_MUST steno_status steno_whisper_specials(int64_t vocab,
                                               const struct steno_whisper_marks *said,
                                               const char *file, struct steno_whisper_specials *out,
                                               steno_err *err);

#define STENO_WHISPER_UNWRITTEN 6
/* The special pieces that never are part of a text. */
void steno_whisper_unwritten(const struct steno_whisper_specials *s,
                             int32_t out[STENO_WHISPER_UNWRITTEN]);
/* The pieces of `never`, or else those for sounds, notes and brackets, and the special ones above:
 * what suppress_tokens=-1 stands for in openai/whisper and faster-whisper. *ids: sorted, malloc'd,
 * the caller's to free. */
STENO_MUST steno_status steno_whisper_suppressed(const steno_bpe *b,
                                                 const struct steno_whisper_ids *never,
                                                 const struct steno_whisper_specials *s,
                                                 int32_t **ids, size_t *n, steno_err *err);

#define STENO_WHISPER_NOT_FIRST 16
/* Pieces that do not begin a text: those of `said`, or the end and a blank. *n: how many, in ids.
 * STENO_ERR_LIMIT: more than there is room for. */
STENO_MUST steno_status steno_whisper_not_first(const steno_bpe *b,
                                                const struct steno_whisper_ids *said,
                                                const struct steno_whisper_specials *s,
                                                int32_t ids[STENO_WHISPER_NOT_FIRST], size_t *n,
                                                steno_err *err);

/* Heads whose cross attention follows time, of a model of these dimensions as OpenAI published it
 * (whisper/__init__.py, _ALIGNMENT_HEADS). *n 0: not one of them, then all heads of the upper half
 * of the decoder serve. Dimensions do not tell large-v1 from large-v2, v2 is taken. */
const struct steno_whisper_head *steno_whisper_known_heads(const struct steno_whisper_dims *d,
                                                           size_t *n);

#endif
