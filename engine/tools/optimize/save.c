/* Saves a network's graph, after the passes, to a file. */
#include "tools/optimize/save.h"

#include "nn/kernels/half.h"
#include "nn/network/internal.h"
#include "nn/ops/body.h"
#include "nn/ops/registry.h"
#include "tools/optimize/quantize_forms.h"

#include <stdlib.h>
#include <string.h>

/* Operators of domains in the input file are kept. Operators that passes made are written as
 * functions, except those of com.microsoft if these are wanted. */
struct kept {
    const struct steno_onnx_info *info;
    bool microsoft;
};

static bool keep_domain(void *arg, const char *domain)
{
    const struct kept *k = arg;
    if (k->microsoft && !strcmp(domain, "com.microsoft"))
        return true;
    for (int i = 0; i < k->info->n_opset; i++)
        if (!strcmp(k->info->opset[i].domain, domain))
            return true;
    return false;
}

int steno_network_opset(const steno_network *n)
{
    for (int i = 0; i < n->facts->info.n_opset; i++)
        if (!strcmp(n->facts->info.opset[i].domain, "ai.onnx"))
            return n->facts->info.opset[i].version > 0 && n->facts->info.opset[i].version < 1000
                       ? (int)n->facts->info.opset[i].version
                       : 0;
    return 0;
}

/* Change 64-bit integer input i to 32 bits, and widen it. */
static steno_status input_to_int32(struct steno_graph *g, int i, steno_err *err)
{
    steno_value_id wide = g->inputs[i], v;
    steno_status st = steno_graph_add_value(g, g->values[wide].name, &v, err);
    if (!st)
        st = steno_pass_put_cast(g, g->values[wide].name, v, wide, STENO_I64, err);
    if (st)
        return st;
    g->values[v].dtype = STENO_I32;
    g->values[v].shape = g->values[wide].shape;
    g->values[v].is_input = true;
    g->values[wide].is_input = false;
    g->values[wide].name = "";
    g->inputs[i] = v;
    return STENO_OK;
}

steno_status steno_network_int32_inputs(steno_network *n, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < n->g->n_inputs; i++)
        if (n->g->values[n->g->inputs[i]].dtype == STENO_I64)
            st = input_to_int32(n->g, i, err);
    return st ? st : steno_graph_sort(n->g, err);
}

/* ---- 16 bits again ---- */

/* Round all elements of f32 w to 16 bits in `to`; false if one is not exact. */
static bool exact_halves(const struct steno_tensor *w, steno_dtype t, uint16_t *to)
{
    const float *x = w->data;
    for (size_t i = 0; i < steno_numel(w); i++) {
        float back;
        to[i] = t == STENO_F16 ? half_to_f16(x[i]) : half_to_bf16(x[i]);
        back = t == STENO_F16 ? half_from_f16(to[i]) : half_from_bf16(to[i]);
        if (memcmp(&back, &x[i], sizeof back))
            return false;
    }
    return true;
}

/* True if v is read only by operators whose body in a written file does not look at its constant.
 */
static bool may_be_cast(const struct steno_graph *g, steno_value_id v)
{
    static const char *const types[] = {"MatMul", "Gemm", "Gather", "Conv"};
    uint32_t reads = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        bool fits = steno_pass_is_ours(n, "Linear");
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            fits = fits || steno_pass_is(n, types[k]);
        for (int k = 0; !n->dead && fits && k < n->n_in; k++)
            reads += n->in[k] == v;
    }
    return reads == g->values[v].uses;
}

/* Replace constant v by one in 16 bits and a Cast, if that is exact. */
static steno_status narrow(struct steno_graph *g, steno_value_id v, steno_dtype to, steno_err *err)
{
    struct steno_tensor t = *g->values[v].constant;
    steno_value_id half, wide;
    steno_status st = steno_constant_fetch(g->values[v].constant, err);
    if (st)
        return st;
    t.dtype = to;
    t.data = steno_aligned_alloc(steno_numel(&t) * sizeof(uint16_t));
    if (!t.data)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a constant");
    if (!exact_halves(g->values[v].constant, to, t.data)) {
        steno_aligned_free(t.data);
        return STENO_OK;
    }
    st = steno_graph_take_const(g, g->values[v].name, &t, &half, err);
    if (st) {
        steno_aligned_free(t.data);
        return st;
    }
    st = steno_graph_add_value(g, "", &wide, err);
    if (!st)
        st = steno_pass_put_cast(g, g->values[v].name, half, wide, STENO_F32, err);
    if (st)
        return st;
    g->values[wide].dtype = STENO_F32;
    g->values[wide].shape = g->values[v].shape;
    steno_graph_replace_uses(g, v, wide);
    return STENO_OK;
}

struct narrowing {
    steno_dtype to;
    steno_err *err;
    steno_status st;
};

static int narrow_graph(struct steno_graph *g, void *arg)
{
    enum { LEAST = 256 }; /* elements; a Cast of fewer gains nothing */
    struct narrowing *w = arg;
    for (int32_t i = 0; !w->st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            steno_node_each_graph(&g->nodes[i], narrow_graph, w);
    for (steno_value_id v = 0, count = g->n_values; !w->st && v < count; v++) {
        const struct steno_value *c = &g->values[v];
        if (c->constant && c->dtype == STENO_F32 && c->uses && !c->is_output &&
            c->captured_from == STENO_NONE && steno_numel(c->constant) >= LEAST &&
            may_be_cast(g, v))
            w->st = narrow(g, v, w->to, w->err);
    }
    steno_graph_apply_replacements(g);
    return w->st != STENO_OK;
}

steno_status steno_network_narrow(steno_network *n, steno_err *err)
{
    struct narrowing w = {n->g->halves, err, STENO_OK};
    if (!w.to)
        return STENO_OK;
    (void)narrow_graph(n->g, &w);
    if (!w.st)
        w.st = steno_graph_sort(n->g, err);
    return w.st ? w.st : steno_network_resolve(n->g, err);
}

steno_status steno_network_quantize(steno_network *n, const struct steno_quantize_options *opt,
                                    int *changed, steno_err *err)
{
    steno_status st = steno_quantize(n->g, opt, changed, err);
    if (!st)
        st = steno_graph_sort(n->g, err);
    return st ? st : steno_network_resolve(n->g, err);
}

steno_status steno_network_split(steno_network *n, const struct steno_quantize_options *opt,
                                 steno_err *err)
{
    steno_status st = steno_quantize_split(n->g, opt, err);
    if (!st)
        st = steno_graph_sort(n->g, err);
    return st ? st : steno_network_resolve(n->g, err);
}

steno_status steno_network_products(steno_network *n, const struct steno_quantize_options *opt,
                                    struct steno_quantize_product **out, int *count, steno_err *err)
{
    return steno_quantize_list(n->g, opt, out, count, err);
}

steno_status steno_network_passes_again(steno_network *n, const struct steno_network_options *opt,
                                        steno_err *err)
{
    return steno_network_rewrite(n, opt, err);
}

static steno_status options(const steno_network *n, const struct steno_save_options *opt,
                            struct kept *k, struct steno_onnx_write_options *wo, steno_err *err)
{
    int opset = opt->opset ? opt->opset : steno_network_opset(n);
    if (!opt->opset && opset > 0 && opset < STENO_OLDEST_WRITTEN)
        opset = STENO_OLDEST_WRITTEN;
    *k = (struct kept){&n->facts->info, opt->contrib || opt->microsoft};
    *wo = (struct steno_onnx_write_options){.opset = opset,
                                            .ir_version = n->facts->info.ir_version,
                                            .body = steno_body_text,
                                            .keep = keep_domain,
                                            .arg = k,
                                            .contrib = opt->contrib,
                                            .external = opt->external,
                                            .producer_version = STENO_VERSION};
    if (!n->rewrite_only)
        return steno_fail(err, STENO_ERR_INVAL,
                          "the network was opened for running: its weights "
                          "are packed");
    return STENO_OK;
}

steno_status steno_network_save(const steno_network *n, const char *path,
                                const struct steno_save_options *opt,
                                struct steno_onnx_written *written, steno_err *err)
{
    struct steno_onnx_write_options wo;
    struct kept k;
    steno_status st = options(n, opt, &k, &wo, err);
    return st ? steno_fail_in(err, st, "%s", path)
              : steno_onnx_write(n->g, path, &wo, written, err);
}

steno_status steno_network_serialize(const steno_network *n, const struct steno_save_options *opt,
                                     struct steno_buf *out, steno_err *err)
{
    struct steno_onnx_write_options wo;
    struct kept k;
    steno_status st = options(n, opt, &k, &wo, err);
    return st ? st : steno_onnx_serialize(n->g, out, &wo, err);
}

/* ---- values as outputs ---- */

static int output_of(const steno_value_id *outputs, int n, steno_value_id v)
{
    for (int i = 0; i < n; i++)
        if (outputs[i] == v)
            return i;
    return -1;
}

steno_status steno_network_expose(steno_network *n, const steno_value_id *values, int count,
                                  const struct steno_network_options *opt, int *place,
                                  steno_network **out, steno_err *err)
{
    struct steno_save_options as_is = {.microsoft = true};
    struct steno_graph *g = n->g;
    steno_value_id *own = g->outputs;
    const char **names = calloc((size_t)count + 1, sizeof *names);
    int n_own = g->n_outputs, n_out = n_own;
    struct steno_buf bytes;
    steno_status st = STENO_OK;
    g->outputs = calloc((size_t)(n_own + count) + 1, sizeof *g->outputs);
    steno_buf_init(&bytes, (size_t)INT32_MAX);
    if (!g->outputs || !names)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && n_own)
        memcpy(g->outputs, own, (size_t)n_own * sizeof *own);
    for (int i = 0; !st && i < count; i++) {
        place[i] = output_of(g->outputs, n_out, values[i]);
        if (place[i] < 0) {
            place[i] = n_out;
            g->outputs[n_out++] = values[i];
            if (g->values[values[i]].is_input)
                continue;
            names[i] = g->values[values[i]].name;
            /* the writer makes up a name, because names may repeat */
            g->values[values[i]].name = "";
        }
    }
    if (!st) {
        g->n_outputs = n_out;
        st = steno_network_serialize(n, &as_is, &bytes, err);
    }
    for (int i = 0; names && i < count; i++)
        if (names[i])
            g->values[values[i]].name = names[i];
    free(names);
    free(g->outputs);
    g->outputs = own;
    g->n_outputs = n_own;
    if (!st)
        st = steno_network_open_memory(out, bytes.data, bytes.len, "the network with its values",
                                       opt, err);
    steno_buf_free(&bytes);
    return st;
}

steno_status steno_graph_save(struct steno_graph *g, const char *path, int opset,
                              struct steno_onnx_written *written, steno_err *err)
{
    const struct steno_onnx_write_options opt = {.opset = opset,
                                                 .body = steno_body_text,
                                                 .external = STENO_EXTERNAL_AUTO,
                                                 .producer_version = STENO_VERSION};
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i].domain, "ai.steno"))
            g->nodes[i].op = steno_op_find("ai.steno", g->nodes[i].op_type, g->nodes[i].opset);
    return steno_onnx_write(g, path, &opt, written, err);
}
