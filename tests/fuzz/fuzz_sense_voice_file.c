/* SenseVoice in one GGUF file: the network is made out of whatever is accepted; and am.mvn. */
/* covers: engine/speech/families/funasr/file.c */
/* covers: engine/speech/families/funasr/build.c */
/* covers: engine/speech/families/common/ggml_file.c */
#include "formats/gguf.h"
#include "speech/families/funasr/file.h"

#define NUMBERS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    float mean[NUMBERS], deviation[NUMBERS];
    steno_sense_voice_file *f = NULL;
    struct steno_graph *g = NULL;
    if (!steno_gguf_probe(data, n)) {
        (void)!steno_funasr_mvn_parse((const char *)data, n, "fuzz", mean, deviation, NUMBERS,
                                      NULL);
        return 0;
    }
    if (steno_sense_voice_file_open(&f, "fuzz", data, n, NULL))
        return 0;
    if (!steno_sense_voice_file_build(f, &g, NULL)) {
        for (int32_t i = 0; i < g->n_values; i++)
            (void)!steno_graph_fetch(g, i, NULL);
        steno_graph_free(g);
    }
    steno_sense_voice_file_close(f);
    return 0;
}
