/* Words of a transcript as numbers, without and with money, dates and times, and as said marks and
 * units. Checks: the words keep their order and their times, the new text has the new words one
 * after the other. */
/* covers: protocol/numerals.c protocol/smart_format.c protocol/dictated.c protocol/word.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/dictated.h"
#include "protocol/numerals.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST 512

static void check(const struct steno_alternative *in, const struct steno_alternative *out)
{
    const char *at = out->text;
    double end = 0;
    REQUIRE(out->n_words <= in->n_words);
    for (size_t i = 0; i < out->n_words; i++) {
        const struct steno_word *w = &out->words[i];
        at = strstr(at, w->text);
        REQUIRE(at);
        at += strlen(w->text);
        REQUIRE(!strchr(w->text, ' '));
        REQUIRE(w->start >= end && w->end > w->start);
        REQUIRE(w->confidence > 0 && w->confidence <= 1);
        end = w->end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct steno_word words[MOST];
    struct steno_alternative in = {.words = words}, out;
    steno_arena *arena = steno_arena_new(0);
    char *text = malloc(n + 1), *copy = malloc(n + 1), *save = NULL;
    REQUIRE(arena && text && copy);
    memcpy(text, data, n);
    text[n] = '\0';
    memcpy(copy, text, n + 1);
    in.text = text;
    for (char *w = strtok_r(copy, " ", &save); w && in.n_words < MOST;
         w = strtok_r(NULL, " ", &save)) {
        words[in.n_words] =
            (struct steno_word){w, (double)in.n_words, (double)in.n_words + 1, 0.5f};
        in.n_words++;
    }
    for (int smart = 0; smart < 2; smart++) {
        REQUIRE(steno_numerals_write(&in, smart, arena, &out, NULL) == STENO_OK);
        check(&in, &out);
        REQUIRE(!in.n_words || out.words[out.n_words - 1].end == in.words[in.n_words - 1].end);
    }
    for (int what = 1; what < 4; what++) {
        REQUIRE(steno_dictated_write(&in, what & 1, what & 2, arena, &out) == STENO_OK);
        check(&in, &out);
    }
    steno_arena_free(arena);
    free(text);
    free(copy);
    return 0;
}
