/* Whisper's weights in exported networks: every row of an accepted pair can be read. The input is
 * the length of the encoder in 3 bytes, the encoder, the decoder. */
/* covers: engine/speech/families/whisper/read_onnx.c engine/speech/families/whisper/onnx_nodes.c */
/* covers: engine/speech/families/whisper/onnx_constants.c */
#include "tests/fuzz/whisper_rows.h"

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
    whisper_rows_read(w, n);
    return 0;
}
