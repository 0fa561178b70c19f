/* A model of unknown origin: load it with every pass, then run it once on small inputs, under
 * limits. */
/* covers: engine/nn/onnx/load.c engine/nn/onnx/attribute.c engine/nn/onnx/tensor.c */
/* covers: engine/nn/onnx/function.c engine/nn/onnx/wire.c engine/nn/onnx/slim.c */
#include "base/arena.h"
#include "nn/network/network.h"
#include "nn/rare_ops/rare_ops.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Zeros and ones; free dimensions are 2. */
static void *set_input(steno_session *s, int i, const struct steno_value *v)
{
    struct steno_tensor t = {.dtype = v->dtype, .shape = v->shape};
    size_t bytes;
    if (t.shape.rank < 0)
        t.shape.rank = 0;
    for (int d = 0; d < t.shape.rank; d++)
        if (t.shape.dim[d] < 0)
            t.shape.dim[d] = 2;
    if (!t.dtype)
        t.dtype = STENO_F32;
    if (steno_shape_bytes(&t.shape, t.dtype, &bytes) || bytes > INPUT_BYTES)
        return NULL;
    t.data = steno_aligned_alloc(bytes);
    if (!t.data)
        return NULL;
    for (size_t k = 0; k < bytes; k += 3)
        ((uint8_t *)t.data)[k] = 1;
    if (steno_session_set(s, i, &t, NULL)) {
        steno_aligned_free(t.data);
        return NULL;
    }
    return t.data;
}

static void run(steno_network *n)
{
    struct steno_session_options opt = {.max_bytes = (size_t)64 << 20, .max_steps = 5000};
    steno_session *s = NULL;
    int inputs = steno_network_n_inputs(n), set = 0;
    void **mem = calloc((size_t)inputs + 1, sizeof *mem);
    if (mem && !steno_session_open(&s, n, &opt, NULL)) {
        while (set < inputs && (mem[set] = set_input(s, set, steno_network_input(n, set))))
            set++;
        if (set == inputs)
            for (int round = 0; round < 2; round++)
                if (steno_session_run(s, NULL))
                    break;
    }
    steno_session_close(s);
    for (int i = 0; mem && i < set; i++)
        steno_aligned_free(mem[i]);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* the input's bytes select one level and one precision, so that all of them occur */
    static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};
    static const enum steno_precision kept[] = {STENO_FP32, STENO_FP16_WEIGHTS, STENO_BF16_WEIGHTS,
                                                STENO_INT8_WEIGHTS};
    struct steno_network_options opt = {.max_bytes = (size_t)16 << 20};
    steno_network *n;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    steno_rare_ops_add();
    opt.cpu = levels[sum & 3];
    opt.opt_level = (int)(sum >> 2 & 3);
    opt.borrow_from = sum >> 4 & 1; /* every matrix stays in the file, or none */
    opt.precision = kept[sum >> 5 & 3];
    n = folder_open(data, size, &opt);
    if (n)
        run(n);
    steno_network_close(n);
    return 0;
}
