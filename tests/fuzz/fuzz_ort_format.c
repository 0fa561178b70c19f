/* ONNX Runtime's own format: any bytes are rewritten as ONNX or refused with a message. */
/* covers: engine/nn/onnx/ort_format.c */
#include <stdlib.h>

#include "nn/onnx/ort_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_buf out;
    steno_err err = {0};
    steno_buf_init(&out, 16 * n + 65536);
    if (steno_ort_format_to_onnx(data, n, &out, &err) && !err.msg[0])
        abort();
    steno_buf_free(&out);
    return 0;
}
