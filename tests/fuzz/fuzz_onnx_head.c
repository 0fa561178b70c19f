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
    if (steno_onnx_head_has_input(h, "x") && !steno_onnx_head_n_inputs(h))
        abort();
    if (steno_onnx_head_has_output(h, "y") && !steno_onnx_head_n_outputs(h))
        abort();
    (void)steno_onnx_head_meta(h, "model_type");
    (void)steno_onnx_head_quantized(h);
    steno_onnx_head_close(h);
    return 0;
}
