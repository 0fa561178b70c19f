/* Whisper's weights in exported networks: every row of an accepted pair can be read. The input is
 * the length of the encoder in 3 bytes, the encoder, the decoder. */
/* covers: engine/families/whisper/read_onnx.c engine/families/whisper/onnx_nodes.c */
/* covers: engine/families/whisper/onnx_constants.c */
#include <stdlib.h>

#include "families/whisper/weights_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_whisper_weights *w = NULL;
    const size_t first = n < 3 ? n : data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
    if (n < 3 || n - 3 < first)
        return 0;
    if (steno_whisper_parse_onnx(&w, (const void *[]){data + 3, data + 3 + first},
                                 (size_t[]){first, n - 3 - first}, "fuzz", NULL))
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
