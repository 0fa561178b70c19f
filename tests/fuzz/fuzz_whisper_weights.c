/* Whisper's weights as CTranslate2, ggml, GGUF and safetensors: every row of an accepted file can
 * be read. */
/* covers: engine/speech/families/whisper/read_ctranslate2.c */
/* covers: engine/speech/families/whisper/read_ggml.c */
/* covers: engine/speech/families/whisper/read_gguf.c */
/* covers: engine/speech/families/whisper/read_openai.c */
/* covers: engine/speech/families/whisper/read_huggingface.c */
/* covers: engine/speech/families/whisper/weights.c */
#include "tests/fuzz/whisper_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_whisper_weights *w = NULL;
    if (steno_whisper_weights_parse(&w, data, n, "fuzz", NULL))
        return 0;
    whisper_rows_read(w, n);
    return 0;
}
