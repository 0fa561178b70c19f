/* The names and metadata of an ONNX file: any bytes are read or refused. */
/* covers: engine/formats/onnx_head.c */
#include <stdlib.h>

#include "formats/onnx_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_onnx_head *h = NULL;
    if (steno_onnx_head_parse(&h, data, n, "fuzz", NULL))
        return 0;
    for (size_t i = 0; i < steno_onnx_head_n_inputs(h); i++)
        if (!steno_onnx_head_has_input(h, steno_onnx_head_input(h, i)))
            abort();
    if (steno_onnx_head_input(h, steno_onnx_head_n_inputs(h)) ||
        steno_onnx_head_output(h, steno_onnx_head_n_outputs(h)))
        abort();
    (void)steno_onnx_head_meta(h, "model_type");
    (void)steno_onnx_head_quantized(h);
    steno_onnx_head_close(h);
    return 0;
}
