/* Whisper's weights as CTranslate2, ggml and safetensors: every row of an accepted file can be
 * read. */
/* covers: engine/families/whisper/read_ctranslate2.c engine/families/whisper/read_ggml.c */
/* covers: engine/families/whisper/read_huggingface.c engine/families/whisper/weights.c */
#include <stdlib.h>

#include "families/whisper/weights_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_whisper_weights *w = NULL;
    if (steno_whisper_weights_parse(&w, data, n, "fuzz", NULL))
        return 0;
    for (size_t i = 0; i < w->n; i++) {
        const size_t length = steno_whisper_row_length(&w->tensor[i]);
        float *row = length <= n ? malloc((length + 1) * sizeof *row) : NULL;
        for (size_t r = 0; row && r < steno_whisper_row_count(&w->tensor[i]); r++)
            steno_whisper_rows(&w->tensor[i], r, 1, row);
        free(row);
    }
    steno_whisper_weights_close(w);
    return 0;
}
