#include "nn/network/internal.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/pages.h"
#include "nn/network/cache.h"
#include "nn/network/cache_key.h"
#include "nn/ops/body.h"
#include "nn/passes/free_batch.h"
#include "nn/passes/incremental.h"
#include "nn/passes/last_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operators ---- */

static bool native(const char *domain, const char *type, int opset)
{
    return steno_op_find(domain, type, opset ? opset : 1) != NULL;
}

static bool fused(const char *type, const char **domain, int *opset)
{
    const struct steno_body_row *r = steno_body_find(type);
    if (!r)
        return false;
    *domain = r->domain;
    *opset = r->opset;
    return true;
}

enum { MAX_LIST = 1 << 20 }; /* bytes of the list of missing operators */

struct missing {
    struct steno_buf list;
    int n;
    bool rare;       /* an operator of nn/rare_ops was found */
    steno_status st; /* status of the first node that lacks a required input or output */
    steno_err *err;
};

static int resolve_body(struct steno_graph *g, void *arg);

/* True if the list, separated by ", ", has the entry. */
static bool in_list(const char *list, const char *entry)
{
    size_t n = strlen(entry);
    for (const char *p = list; (p = strstr(p, entry)); p += n)
        if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ','))
            return true;
    return false;
}

static void report(struct missing *m, const struct steno_node *n)
{
    char entry[192];
    snprintf(entry, sizeof entry, "%.40s%s%.80s@%d%s", n->domain, *n->domain ? ":" : "", n->op_type,
             n->opset,
             !n->op && steno_op_is_rare(n->domain, n->op_type) ? " ('steno run' has it)" : "");
    if (m->list.data && in_list(m->list.data, entry))
        return;
    m->n++;
    if (steno_buf_printf(&m->list, "%s%s", m->list.len ? ", " : "", entry) && !m->st)
        m->st = STENO_ERR_NOMEM;
}

/* Give a Split the outputs that its file leaves out at the end: their number decides the lengths.
 */
static steno_status complete_split(struct steno_graph *g, struct steno_node *n, steno_err *err)
{
    const struct steno_value *v = n->n_in > 1 && n->in[1] >= 0 ? &g->values[n->in[1]] : NULL;
    int64_t parts = n->opset >= 18 ? steno_node_int(n, "num_outputs", 0) : 0;
    steno_value_id *out;
    size_t count;
    (void)steno_node_ints(n, "split", &count);
    if (v && v->constant)
        count = steno_numel(v->constant);
    if (v || count)
        parts = count < INT16_MAX ? (int64_t)count : 0;
    if (parts <= n->n_out || parts > INT16_MAX)
        return STENO_OK;
    out = steno_graph_alloc(g, (size_t)parts, sizeof *out, err);
    if (!out)
        return STENO_ERR_NOMEM;
    for (int64_t k = 0; k < parts; k++)
        out[k] = k < n->n_out ? n->out[k] : STENO_NONE;
    n->out = out;
    n->n_out = (int)parts;
    return STENO_OK;
}

static void resolve(struct steno_graph *g, struct missing *m)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        n->op = steno_op_find(n->domain, n->op_type, n->opset);
        if (!m->st && !*n->domain && !strcmp(n->op_type, "Split"))
            m->st = complete_split(g, n, m->err);
        m->rare |= n->op && steno_op_is_rare(n->domain, n->op_type);
        if (!n->op || !n->op->run)
            report(m, n);
        else if (!m->st)
            m->st = steno_op_check_arity(n, m->err);
        steno_node_each_graph(n, resolve_body, m);
    }
}

static int resolve_body(struct steno_graph *g, void *arg)
{
    resolve(g, arg);
    return 0;
}

/* keep: operators that the engine lacks may stay. *rare: the graph has one of nn/rare_ops. */
static steno_status resolve_all(struct steno_graph *g, bool keep, bool *rare, steno_err *err)
{
    struct missing m = {.err = err};
    steno_status st;
    steno_buf_init(&m.list, MAX_LIST);
    resolve(g, &m);
    st = m.st;
    *rare = m.rare;
    if (m.n && !keep)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%d operator%s not supported: %s", m.n,
                        m.n > 1 ? "s are" : " is", m.list.data ? m.list.data : "(out of memory)");
    steno_buf_free(&m.list);
    return st;
}

/* ---- make constants that bodies capture constants of the bodies ---- */

static int push_constants(struct steno_graph *body, void *arg)
{
    (void)arg;
    for (int32_t i = 0; i < body->n_values; i++) {
        struct steno_value *v = &body->values[i];
        const struct steno_value *o;
        if (v->captured_from == STENO_NONE)
            continue;
        o = &body->parent->values[v->captured_from];
        if (!o->constant)
            continue;
        steno_graph_share_const(body, i, o->constant);
        v->captured_from = STENO_NONE;
    }
    for (int32_t i = 0; i < body->n_nodes; i++)
        steno_node_each_graph(&body->nodes[i], push_constants, NULL);
    return 0;
}

/* ---- passes: functions of the executor that they need ---- */

static steno_status pass_infer(void *arg, struct steno_graph *g, steno_err *err)
{
    (void)arg;
    for (int32_t i = 0; i < g->n_nodes; i++)
        steno_node_each_graph(&g->nodes[i], push_constants, NULL);
    steno_graph_recount(g);
    return steno_infer_graph(g, err);
}

static steno_status pass_eval(void *arg, struct steno_graph *g, struct steno_node *n,
                              const struct steno_tensor **in, struct steno_tensor *out,
                              const bool *wanted, steno_arena *mem, steno_err *err)
{
    struct workspace *ws = arg;
    struct steno_packed_store store = {0};
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < n->n_in; i++)
        st = steno_graph_fetch(g, n->in[i], err);
    if (!st)
        st = steno_prepare_one(g, n, ws->k, &store, err);
    if (!st)
        st = steno_eval_node(ws, n, in, out, wanted, mem, err);
    if (n->priv && n->op->release)
        n->op->release(n->priv);
    n->priv = NULL;
    steno_packed_store_free(&store);
    return st;
}

/* Opset of ai.onnx in the model; 0: none. */
static int model_opset(const steno_network *n)
{
    const struct steno_onnx_info *info = &n->facts->info;
    for (int i = 0; i < info->n_opset; i++)
        if (!strcmp(info->opset[i].domain, "ai.onnx") && info->opset[i].version > 0 &&
            info->opset[i].version < 1000)
            return (int)info->opset[i].version;
    return 0;
}

steno_status steno_network_rewrite(steno_network *n, const struct steno_network_options *opt,
                                   steno_err *err)
{
    struct workspace ws;
    struct steno_pass_env env = {.arg = &ws,
                                 .infer = pass_infer,
                                 .eval = pass_eval,
                                 .refused = opt->refused,
                                 .refused_arg = opt->refused_arg,
                                 .cut_after = opt->part != STENO_PART_ALL,
                                 .to_run = !opt->rewrite_only && opt->part == STENO_PART_ALL,
                                 .to_write = opt->rewrite_only,
                                 .opset = opt->write_opset ? opt->write_opset : model_opset(n),
                                 .rows_in_8_bits =
                                     opt->precision != STENO_FP32 && !opt->rewrite_only,
                                 .num_heads = opt->num_heads,
                                 .hidden_size = opt->hidden_size};
    int level = opt->opt_level < 0 ? 3 : opt->opt_level, changed = 0;
    steno_status st = steno_workspace_init(&ws, &n->k, 1, err);
    if (!st)
        st = steno_passes_run(n->g, level, opt->disable_passes, opt->only_passes, &env,
                              &n->facts->counts, err);
    if (!st && opt->part != STENO_PART_ALL)
        st = steno_part_cut(n->g, opt->part, &env, err);
    if (!st && opt->any_length)
        st = steno_any_length(n->g, &env, &changed, err);
    if (!st && opt->free_batch)
        st = steno_free_batch(n->g, opt->free_batch, &env, err);
    if (!st && opt->last_row)
        st = steno_last_row(n->g, &env, err);
    steno_workspace_free(&ws);
    return st;
}

static int missing_in(struct steno_graph *g, void *arg)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (!g->nodes[i].dead && !g->nodes[i].op)
            report(arg, &g->nodes[i]);
        steno_node_each_graph(&g->nodes[i], missing_in, arg);
    }
    return 0;
}

steno_status steno_network_missing(const steno_network *n, struct steno_buf *list, int *count)
{
    struct missing m = {.n = 0};
    steno_status st;
    steno_buf_init(&m.list, MAX_LIST);
    missing_in(n->g, &m);
    st = m.st;
    if (!st && m.n)
        st = steno_buf_printf(list, "%s", m.list.data);
    *count = m.n;
    steno_buf_free(&m.list);
    return st;
}

steno_status steno_network_resolve(struct steno_graph *g, steno_err *err)
{
    bool rare;
    steno_status st = resolve_all(g, true, &rare, err);
    return st ? st : pass_infer(NULL, g, err);
}

/* ---- network ---- */

static int has_bytes(struct steno_graph *g, void *arg)
{
    static const char types[] = "MatMulInteger ConvInteger QLinearMatMul QLinearConv "
                                "MatMulIntegerToFloat DynamicQuantizeMatMul IntLinear";
    int found = 0;
    for (int32_t i = 0; !found && i < g->n_nodes; i++) {
        found = steno_op_type_in(g->nodes[i].op_type, types);
        if (!found)
            found = steno_node_each_graph(&g->nodes[i], has_bytes, arg);
    }
    return found;
}

/* Resolve the precision of the weights. The graph has not been rewritten yet. A quantizer leaves
 * some products in f32 for the sake of accuracy (mostly the second convolution of a subsampling).
 * These stay in f32 here: in 8 bits they would bring the results further from f32 than ONNX
 * Runtime's (docs/log/2026-11-22.md). */
static void resolve_precision(steno_network *n, enum steno_precision asked)
{
    struct steno_precision_report *r = &n->precision;
    r->bytes = has_bytes(n->g, NULL) != 0;
    r->kept = asked;
    if (asked == STENO_AUTO_WEIGHTS || (asked == STENO_INT8_WEIGHTS && r->bytes))
        r->kept = r->bytes && n->cpu & STENO_CPU_BF16 ? STENO_BF16_WEIGHTS : STENO_FP32;
}

/* Read or build the graph, and open the network. data NULL: read from the file. */
static steno_status build(steno_network *n, const char *path, const void *data, size_t size,
                          const struct steno_network_options *opt, steno_err *err)
{
    struct steno_onnx_options lo = {.max_bytes = opt->max_bytes,
                                    .native = native,
                                    /* parts are cut out of the exporter's nodes, not out of fused
                                     * ones */
                                    .fused = opt->opt_level && opt->part == STENO_PART_ALL ? fused
                                                                                           : NULL,
                                    .body = steno_body_text,
                                    .borrow_from = opt->borrow_from,
                                    .keep_unknown = opt->rewrite_only,
                                    .overridable = opt->overridable,
                                    .overridable_arg = opt->overridable_arg};
    struct steno_cache_id id;
    const bool refusable = opt->part != STENO_PART_ALL || opt->free_batch;
    bool caching;
    steno_status st = steno_cpu_choose(opt->cpu, &n->cpu, err);
    if (st)
        return st;
    steno_kernels_init(&n->k, n->cpu);
    caching = opt->cache_dir && !data && !opt->rewrite_only;
    if (caching && steno_cache_load(n, path, opt, &id))
        return STENO_OK;
    if (caching && refusable && steno_cache_refused(&id, err))
        return steno_fail_in(err, STENO_ERR_UNSUPPORTED, "%s", path);
    if (opt->source)
        st = opt->source->make(opt->source->arg, &n->g, err);
    else if (!data)
        st = steno_onnx_load(&n->g, path, &lo, &n->facts->info, err);
    else if ((st = steno_onnx_parse(&n->g, data, size, NULL, &lo, &n->facts->info, err)))
        st = steno_fail_in(err, st, "%s", path);
    if (st)
        return st;
    n->g->lenient = opt->rewrite_only;
    n->facts->nodes_in_file = steno_graph_count_nodes(n->g);
    if (opt->loaded)
        opt->loaded(opt->loaded_arg, n->g);
    st = resolve_all(n->g, opt->rewrite_only, &n->facts->rare, err);
    if (st)
        return steno_fail_in(err, st, "%s", path);
    resolve_precision(n, opt->precision);
    st = steno_network_rewrite(n, opt, err);
    if (st == STENO_ERR_UNSUPPORTED && caching && refusable && err)
        steno_cache_refuse(n, path, opt, &id, err);
    n->rewrite_only = opt->rewrite_only;
    n->store.keep = caching;
    /* free the memory that reading and rewriting left, before weights are packed */
    steno_pages_trim();
    if (!st && !n->rewrite_only)
        st = steno_prepare_graph(n->g, &n->k, n->precision.kept, &n->precision, &n->store,
                                 &n->packed_bytes, err);
    steno_packed_store_shrink(&n->store);
    if (steno_map_changed(&n->g->map))
        st = steno_map_check(&n->g->map, path, err); /* the reason, if it failed */
    if (!st && caching) {
        steno_cache_store(n, path, opt, &id);
        steno_prepare_drop(n->g);
    }
    if (!st && !n->rewrite_only)
        st = steno_graph_unmap(n->g, err);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}

static steno_status open_network(steno_network **out, const char *path, const void *data,
                                 size_t size, const struct steno_network_options *opt,
                                 steno_err *err)
{
    static const struct steno_network_options defaults = {.opt_level = -1};
    steno_network *n = calloc(1, sizeof *n);
    steno_status st;
    if (!n)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    n->facts = calloc(1, sizeof *n->facts);
    st = n->facts ? steno_row_store_init(&n->row_store, err)
                  : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (st) {
        free(n->facts);
        free(n);
        return st;
    }
    st = build(n, path, data, size, opt ? opt : &defaults, err);
    if (!st && opt && opt->observer && !(n->path = strdup(path)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!st && opt)
        n->observer = opt->observer;
    if (st) {
        steno_network_close(n);
        return st;
    }
    steno_pages_trim();
    *out = n;
    return STENO_OK;
}

steno_status steno_network_open(steno_network **out, const char *path,
                                const struct steno_network_options *opt, steno_err *err)
{
    return open_network(out, path, NULL, 0, opt, err);
}

steno_status steno_network_open_memory(steno_network **out, const void *data, size_t size,
                                       const char *name, const struct steno_network_options *opt,
                                       steno_err *err)
{
    return open_network(out, name, data ? data : "", size, opt, err);
}

void steno_network_close(steno_network *n)
{
    if (!n)
        return;
    if (n->g)
        steno_release_graph(n->g);
    steno_packed_store_free(&n->store);
    steno_graph_free(n->g);
    steno_cache_unmap(n->cache);
    steno_row_store_free(&n->row_store);
    free(n->path);
    free(n->facts);
    free(n);
}

int steno_network_n_inputs(const steno_network *n)
{
    return n->g->n_inputs;
}

int steno_network_n_outputs(const steno_network *n)
{
    return n->g->n_outputs;
}

const struct steno_value *steno_network_input(const steno_network *n, int i)
{
    return i >= 0 && i < n->g->n_inputs ? &n->g->values[n->g->inputs[i]] : NULL;
}

const struct steno_value *steno_network_output(const steno_network *n, int i)
{
    return i >= 0 && i < n->g->n_outputs ? &n->g->values[n->g->outputs[i]] : NULL;
}

int steno_network_find_input(const steno_network *n, const char *name)
{
    for (int i = 0; i < n->g->n_inputs; i++)
        if (!strcmp(steno_network_input(n, i)->name, name))
            return i;
    return -1;
}

int steno_network_find_output(const steno_network *n, const char *name)
{
    for (int i = 0; i < n->g->n_outputs; i++)
        if (!strcmp(steno_network_output(n, i)->name, name))
            return i;
    return -1;
}

const char *steno_network_meta(const steno_network *n, const char *key)
{
    for (int i = 0; i < n->g->n_meta; i++)
        if (!strcmp(n->g->meta_keys[i], key))
            return n->g->meta_values[i];
    return NULL;
}

const struct steno_graph *steno_network_graph(const steno_network *n)
{
    return n->g;
}

size_t steno_network_weight_bytes(const steno_network *n)
{
    return steno_graph_const_bytes(n->g) + n->packed_bytes;
}

const struct steno_onnx_info *steno_network_info(const steno_network *n)
{
    return &n->facts->info;
}

bool steno_network_is_mapped(const steno_network *n)
{
    return n->cache != NULL;
}

size_t steno_network_nodes_in_file(const steno_network *n)
{
    return n->facts->nodes_in_file;
}

const struct steno_pass_counts *steno_network_passes(const steno_network *n)
{
    return &n->facts->counts;
}

const steno_kernels *steno_network_kv_bf16(const steno_network *n)
{
    const bool fast = n->k.attend_rounded_as == STENO_ATTEND_BF16;
    return fast && steno_precision_rounds_attention(n->precision.kept) ? &n->k : NULL;
}

const struct steno_kernels *steno_network_kv_i8(const steno_network *n)
{
    return n->precision.kept == STENO_INT8_WEIGHTS ? &n->k : NULL;
}

const struct steno_precision_report *steno_network_precision(const steno_network *n)
{
    return &n->precision;
}
