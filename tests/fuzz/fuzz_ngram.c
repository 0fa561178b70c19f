/* ARPA files and KenLM binaries. Any bytes are parsed or refused. Scores of an accepted model
 * are numbers, and all tokens at once score as one by one. */
/* covers: engine/speech/search/lm/ngram.c engine/speech/search/lm/kenlm.c */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/lm/ngram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const words[] = {"a", "b", "</s>", "<unk>", "zz"};
    char *text = malloc(n + 1); /* terminated by a zero byte, as a file's content is */
    steno_ngram *m = NULL;
    steno_ngram_map *p = NULL;
    if (!text)
        return 0;
    memcpy(text, data, n);
    text[n] = 0;
    if (!steno_ngram_parse(&m, text, n, "fuzz", NULL)) {
        if (steno_ngram_map_open(&p, m, words, 5, NULL))
            abort();
        for (int32_t i = 0; i < 125; i++) {
            int32_t history[3] = {i / 25, i / 5 % 5, i % 5}, context[4];
            float out[5];
            context[0] = steno_ngram_word(m, "<s>");
            for (int k = 0; k < 3; k++)
                context[k + 1] = steno_ngram_word(m, words[history[k]]);
            steno_ngram_map_score(p, history, 3, out);
            for (int k = 0; k < 5; k++) {
                double want = steno_ngram_score(m, context, 4, steno_ngram_word(m, words[k]));
                if (!isfinite(out[k]) || fabs(want - (double)out[k]) > 1e-4 * (1 + fabs(want)))
                    abort();
            }
        }
        steno_ngram_map_close(p);
        steno_ngram_close(m);
    }
    free(text);
    return 0;
}
