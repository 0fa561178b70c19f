/* The vocabulary of Qwen3-ASR: byte-level BPE, and marks that the tokenizer adds to it. */
#ifndef STENO_FAMILIES_QWEN_ASR_VOCABULARY_H
#define STENO_FAMILIES_QWEN_ASR_VOCABULARY_H

#include "formats/json.h"
#include "speech/text/bpe.h"
#include "speech/text/tokens.h"

enum steno_qwen_mark {
    STENO_QWEN_BEGIN, /* of a turn: <|im_start|> */
    STENO_QWEN_END,   /* <|im_end|> */
    STENO_QWEN_AUDIO_BEGIN,
    STENO_QWEN_AUDIO_END,
    STENO_QWEN_AUDIO, /* stands for a row of the encoder */
    STENO_QWEN_TEXT,  /* <asr_text>, between the language and the text */
    STENO_QWEN_MARKS
};

/* Frozen after open. */
struct steno_qwen_vocabulary {
    steno_bpe *bpe;       /* cuts texts */
    steno_tokens *tokens; /* all pieces; the added ones are hidden */
    int32_t mark[STENO_QWEN_MARKS];
};

/* Read vocab.json and the added_tokens_decoder of tokenizer_config.json in dir/tokenizer. Merges
 * need no file: pieces are numbered in their order. STENO_ERR_FORMAT: a mark is missing, or a
 * number is wrong; errors of steno_bpe_open, steno_json_open, steno_tokens_of_bytes. Close also
 * after a failure. */
STENO_MUST steno_status steno_qwen_vocabulary_open(struct steno_qwen_vocabulary *v, const char *dir,
                                                   steno_err *err);
/* The second half of it: v->bpe is open, config is the file `path`, for messages. */
STENO_MUST steno_status steno_qwen_vocabulary_add(struct steno_qwen_vocabulary *v,
                                                  const steno_json *config, const char *path,
                                                  steno_err *err);
void steno_qwen_vocabulary_close(struct steno_qwen_vocabulary *v);

#endif
