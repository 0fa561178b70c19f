/* A model of unknown origin, optimized and written: what the writer accepts, the loader must read
 * back with as many nodes, inputs and outputs. */
/* covers: engine/onnx/write.c engine/onnx/write_value.c engine/onnx/write_function.c engine/onnx/body.c engine/onnx/opset.c */
#include "exec/save.h"
#include "exec/session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static steno_network *open_bytes(const void *data, size_t size, int level)
{
    struct steno_network_options opt = {
        .opt_level = level, .max_bytes = (size_t)16 << 20, .rewrite_only = true};
    steno_network *n = NULL;
    return steno_network_open_memory(&n, data, size, "fuzz", &opt, NULL) ? NULL : n;
}

static void same(const steno_network *a, const steno_network *b)
{
    if (steno_graph_count_nodes(steno_network_graph(a)) != steno_network_nodes_in_file(b) ||
        steno_network_n_inputs(a) != steno_network_n_inputs(b) ||
        steno_network_n_outputs(a) != steno_network_n_outputs(b))
        abort();
    for (int i = 0; i < steno_network_n_inputs(a); i++)
        if (strcmp(steno_network_input(a, i)->name, steno_network_input(b, i)->name))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_save_options opt = {0};
    struct steno_buf once;
    steno_network *n, *again;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    n = open_bytes(data, size, (int)(sum & 3));
    if (!n)
        return 0;
    opt.opset = (sum >> 2 & 1) ? 0 : 13 + (int)(sum >> 3 & 7);
    opt.contrib = sum >> 6 & 1;
    opt.microsoft = sum >> 7 & 1;
    steno_buf_init(&once, (size_t)64 << 20);
    if (!steno_network_serialize(n, &opt, &once, NULL)) {
        /* opt-level 1: fused functions are taken as nodes */
        again = open_bytes(once.data, once.len, 1);
        if (!again)
            abort();
        same(n, again);
        steno_network_close(again);
    }
    steno_buf_free(&once);
    steno_network_close(n);
    return 0;
}
