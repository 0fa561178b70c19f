#include "speech/families/common/language_marks.h"

#include <stdio.h>
#include <string.h>

#include "speech/text/language.h"

int32_t steno_language_mark(const steno_tokens *tokens, const char *code)
{
    char mark[32];
    snprintf(mark, sizeof mark, "<|%s|>", code);
    return steno_tokens_find(tokens, mark);
}

void steno_language_marks(const steno_tokens *tokens, char *out, size_t size)
{
    size_t n = 0;
    for (int32_t i = 0; i < steno_tokens_count(tokens); i++) {
        const char *piece = steno_tokens_piece(tokens, i);
        char code[3] = "";
        if (strlen(piece) != 6 || strncmp(piece, "<|", 2) != 0 || strcmp(piece + 4, "|>") != 0)
            continue;
        memcpy(code, piece + 2, 2);
        if (steno_language_find(code) >= 0 && n + 4 < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", code);
    }
}
