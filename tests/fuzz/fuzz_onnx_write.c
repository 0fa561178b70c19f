/* A model of unknown origin, optimized and written. What the writer accepts, the loader must
 * read back with the same inputs, outputs and number of nodes (more if it converts them to another
 * opset); and, with weights in a file of their own, with the same constants. */
/* covers: engine/tools/optimize/write.c engine/tools/optimize/write_function.c */
/* covers: engine/tools/optimize/opset.c */
/* covers: engine/nn/onnx/write.c engine/nn/onnx/write_value.c engine/nn/onnx/function_body.c */
#include "tools/optimize/opset.h"
#include "tools/optimize/save.h"
#include "nn/network/network.h"
#include "nn/rare_ops/rare_ops.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct steno_network_options options(int level)
{
    return (struct steno_network_options){
        .opt_level = level, .max_bytes = (size_t)16 << 20, .rewrite_only = true};
}

static void same(const steno_network *a, const steno_network *b)
{
    if (steno_network_n_inputs(a) != steno_network_n_inputs(b) ||
        steno_network_n_outputs(a) != steno_network_n_outputs(b))
        abort();
    for (int i = 0; i < steno_network_n_inputs(a); i++)
        if (strcmp(steno_network_input(a, i)->name, steno_network_input(b, i)->name))
            abort();
}

struct most {
    int opset; /* of the file */
    size_t nodes;
};

static void count_most(const struct steno_graph *g, struct most *m);

static int most_of_body(struct steno_graph *g, void *arg)
{
    count_most(g, arg);
    return 0;
}

static void count_most(const struct steno_graph *g, struct most *m)
{
    enum { ADDED = 3 }; /* nodes around a converted one, at most: softmax_up of opset_rules.c */
    m->nodes += (size_t)g->n_outputs;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        bool converted = !*n->domain && steno_opset_version(n->op_type, n->opset) !=
                                            steno_opset_version(n->op_type, m->opset);
        m->nodes += !n->dead && converted ? ADDED : 0;
        (void)steno_node_each_graph(n, most_of_body, m);
    }
}

/* An output that a file cannot express directly, such as one value as two outputs, becomes an
 * Identity in the file. An operator of another opset may become several. */
static void as_many_nodes(const steno_network *a, const steno_network *b)
{
    const struct steno_graph *g = steno_network_graph(a);
    size_t n = steno_graph_count_nodes(g), written = steno_network_nodes_in_file(b);
    struct most m = {steno_network_opset(b), n};
    count_most(g, &m);
    if (written < n || written > m.nodes)
        abort();
}

static bool same_constant(const struct steno_value *a, const struct steno_value *b)
{
    size_t bytes;
    if (!a->constant || !b->constant)
        return a->constant == b->constant;
    if (a->dtype != b->dtype || !steno_shape_equal(&a->shape, &b->shape) ||
        steno_shape_bytes(&a->shape, a->dtype, &bytes))
        return false;
    return !bytes ||
           !memcmp(steno_constant_bytes(a->constant), steno_constant_bytes(b->constant), bytes);
}

/* Write the network again as two files. They must read back like `again`, which was read from
 * one file. */
static void write_files(const steno_network *n, struct steno_save_options opt,
                        const steno_network *again)
{
    struct steno_network_options as_is = options(1);
    const struct steno_graph *a = steno_network_graph(again), *b;
    steno_network *apart = NULL;
    char path[128];
    folder_make();
    opt.external = STENO_EXTERNAL_ALWAYS;
    as_is.borrow_from =
        SIZE_MAX; /* from files everything is copied too, so that passes see the same */
    if (steno_network_save(n, folder_path(path, "saved.onnx"), &opt, NULL, NULL) ||
        steno_network_open(&apart, path, &as_is, NULL))
        abort();
    same(again, apart);
    b = steno_network_graph(apart);
    if (a->n_values != b->n_values)
        abort();
    for (int32_t i = 0; i < a->n_values; i++)
        if (!same_constant(&a->values[i], &b->values[i]))
            abort();
    steno_network_close(apart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_network_options as_given, as_is = options(1); /* level 1: functions become nodes */
    struct steno_save_options opt = {0};
    struct steno_buf once;
    steno_network *n, *again = NULL;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    steno_rare_ops_add();
    as_given = options((int)(sum & 3));
    n = folder_open(data, size, &as_given);
    if (!n)
        return 0;
    opt.opset = (sum >> 2 & 1) ? 0 : 13 + (int)(sum >> 3 & 7);
    opt.contrib = sum >> 6 & 1;
    opt.microsoft = sum >> 7 & 1;
    steno_buf_init(&once, (size_t)64 << 20);
    if (!steno_network_serialize(n, &opt, &once, NULL)) {
        if (steno_network_open_memory(&again, once.data, once.len, "fuzz", &as_is, NULL))
            abort();
        as_many_nodes(n, again);
        same(n, again);
        if (sum >> 8 & 1)
            write_files(n, opt, again);
        steno_network_close(again);
    }
    steno_buf_free(&once);
    steno_network_close(n);
    return 0;
}
