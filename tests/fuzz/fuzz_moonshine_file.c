/* Moonshine in one GGUF file: networks are made out of whatever is accepted. */
/* covers: engine/speech/families/moonshine/file.c */
/* covers: engine/speech/families/moonshine/build.c */
#include "speech/families/moonshine/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_moonshine_file *f = NULL;
    steno_tokens *t = NULL;
    if (steno_moonshine_file_open(&f, "fuzz/fuzz", data, n, NULL))
        return 0;
    for (int decoder = 0; decoder < 2; decoder++) {
        struct steno_graph *g = NULL;
        if (steno_moonshine_file_build(f, decoder, &g, NULL))
            continue;
        for (int32_t i = 0; i < g->n_values; i++)
            (void)!steno_graph_fetch(g, i, NULL);
        steno_graph_free(g);
    }
    if (!steno_moonshine_file_tokens(f, &t, NULL))
        steno_tokens_close(t);
    steno_moonshine_file_close(f);
    return 0;
}
