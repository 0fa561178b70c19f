/* Parakeet, Canary and GigaAM in one file: networks are made out of whatever is accepted. */
/* covers: engine/speech/families/nemo/file.c */
/* covers: engine/speech/families/nemo/gguf_parts.c */
/* covers: engine/speech/families/nemo/read_crispasr.c */
/* covers: engine/speech/families/nemo/read_canary.c */
/* covers: engine/speech/families/nemo/read_gigaam.c */
/* covers: engine/speech/families/nemo/read_parakeet_cpp.c */
/* covers: engine/speech/families/nemo/read_ggml.c */
/* covers: engine/speech/families/nemo/read_gguf.c */
/* covers: engine/speech/families/common/ggml_kind.c */
#include "speech/families/common/ggml_kind.h"
#include "speech/families/nemo/file.h"

#define MOST_POSITIONS (1 << 16) /* times columns: a table of sines takes most of the time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct steno_nemo_arch *a;
    steno_nemo_file *f = NULL;
    (void)steno_ggml_kind_of(data, n);
    if (steno_nemo_file_open(&f, "fuzz", data, n, NULL))
        return 0;
    a = &steno_nemo_file_info(f)->arch;
    for (int part = STENO_NEMO_ENCODER;
         part <= STENO_NEMO_JOINER && a->positions * a->d <= MOST_POSITIONS; part++) {
        struct steno_graph *g = NULL;
        if (steno_nemo_file_build(f, (enum steno_nemo_part)part, &g, NULL))
            continue;
        for (int32_t i = 0; i < g->n_values; i++)
            (void)!steno_graph_fetch(g, i, NULL);
        steno_graph_free(g);
    }
    steno_nemo_file_close(f);
    return 0;
}
