/* Lists of a byte-level BPE: lines of a piece in base64 and its number, "IQ== 0", as openai-whisper
 * (gpt2.tiktoken) and sherpa-onnx's tokens.txt of Whisper have them. */
#ifndef STENO_TEXT_BPE_LIST_H
#define STENO_TEXT_BPE_LIST_H

#include "base/lines.h"
#include "base/status.h"

struct steno_bpe_line {
    const char *text; /* base64 [n]; "=" alone: the number is not used */
    size_t n, id;
};

/* Read the next line that is not empty. False: the end. line->n is 0 if the line is no piece and a
 * number below `ids`. */
STENO_MUST bool steno_bpe_list_next(struct steno_lines *l, size_t ids, struct steno_bpe_line *line);

#endif
