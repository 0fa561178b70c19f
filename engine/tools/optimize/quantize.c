/* Selects the products that are quantized. */
#include "tools/optimize/quantize_forms.h"

#include "nn/passes/passes.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_WEIGHTS 256 /* elements; smaller products gain nothing */
#define MAX_TAPS (INT32_MAX / (255 * 255))

static bool listed(const char *list, const char *name)
{
    char pattern[256];
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(p, ","), p);
        if (!fnmatch(pattern, name, 0))
            return true;
    }
    return false;
}

static bool excluded(const struct steno_quantize_options *opt, const struct steno_node *n)
{
    return listed(opt->exclude, n->name) || listed(opt->exclude_ops, n->op_type);
}

static bool is_operator(const struct steno_node *n, const char *type)
{
    return !n->dead && !*n->domain && !strcmp(n->op_type, type);
}

/* True for a node of this type that a pass made; some of its inputs are weights of a MatMul. */
static bool ours(const struct steno_node *n, const char *type)
{
    return !n->dead && steno_pass_is_ours(n, type);
}

static bool sixteen_bits(const struct steno_quantize_options *opt)
{
    return opt->kind == STENO_QUANTIZE_F16 || opt->kind == STENO_QUANTIZE_BF16;
}

/* ---- Gemm ---- */

static const struct steno_tensor *gemm_weights(const struct steno_graph *g,
                                               const struct steno_node *n)
{
    const struct steno_tensor *w = steno_pass_const(g, n, 1);
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 2 &&
                   !steno_node_int(n, "transA", 0) && steno_node_float(n, "alpha", 1) == 1 &&
                   steno_node_float(n, "beta", 1) == 1
               ? w
               : NULL;
}

/* Replace a Gemm with a constant factor by MatMul and Add, unless it scales or transposes
 * activations. */
static steno_status split_gemm(struct steno_quantize_job *j, int32_t at)
{
    const struct steno_node gemm = j->g->nodes[at];
    const steno_value_id bias = steno_node_in(&gemm, 2);
    struct steno_pass_writer to = {j->g, gemm.name, j->err, STENO_OK};
    steno_value_id b = steno_node_in(&gemm, 1), y = gemm.out[0];
    if (!gemm_weights(j->g, &gemm))
        return STENO_OK;
    j->g->nodes[at].dead = true;
    if (steno_node_int(&gemm, "transB", 0))
        to.st = steno_graph_transpose_const(j->g, gemm.in[1], &b, j->err);
    steno_pass_write_product(&to, gemm.in[0], b, bias, y);
    return to.st;
}

static void describe_product(const struct steno_graph *g, const struct steno_node *n,
                             const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const bool conv = !strcmp(n->op_type, "Conv");
    const int64_t columns = w->shape.dim[conv ? 0 : 1];
    *p = (struct steno_quantize_product){.node = n->name,
                                         .op_type = n->op_type,
                                         .rows = columns ? (int64_t)steno_numel(w) / columns : 0,
                                         .columns = columns,
                                         .x = n->in[0],
                                         .y = n->out[0],
                                         .error = -1,
                                         .in_body = g->parent != NULL};
}

static void tell_of_product(const struct steno_quantize_options *opt,
                            const struct steno_quantize_product *p)
{
    if (opt->report)
        opt->report(opt->report_arg, p);
}

struct walk {
    const struct steno_quantize_options *opt;
    int *changed;
    steno_err *err;
    steno_status (*visit)(struct steno_quantize_job *j);
    steno_status st;
};

static int visit_body(struct steno_graph *g, void *arg)
{
    struct walk *w = arg;
    struct steno_quantize_job j = {w->opt, g, w->changed, w->err};
    for (int32_t i = 0; !w->st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            steno_node_each_graph(&g->nodes[i], visit_body, w);
    if (!w->st)
        w->st = w->visit(&j);
    return w->st != STENO_OK;
}

static steno_status split_all(struct steno_quantize_job *j)
{
    for (int32_t i = 0, count = j->g->n_nodes; i < count; i++) {
        const struct steno_node *n = &j->g->nodes[i];
        const struct steno_tensor *w = is_operator(n, "Gemm") ? gemm_weights(j->g, n) : NULL;
        steno_status st;
        if (w && excluded(j->opt, n)) {
            struct steno_quantize_product p;
            describe_product(j->g, n, w, &p);
            p.kept = "excluded";
            tell_of_product(j->opt, &p);
        } else if (w && (st = split_gemm(j, i))) {
            return st;
        }
    }
    return STENO_OK;
}

steno_status steno_quantize_split(struct steno_graph *g, const struct steno_quantize_options *opt,
                                  steno_err *err)
{
    struct walk w = {.opt = opt, .err = err, .visit = split_all};
    (void)visit_body(g, &w);
    return w.st;
}

/* ---- finding products ---- */

/* Weights at input `in` of node n, or NULL; *p says what to do with them. */
static const struct steno_tensor *weights_of(const struct steno_quantize_job *j,
                                             const struct steno_node *n, int in,
                                             struct steno_quantize_product *p)
{
    const struct steno_tensor *w =
        in >= n->n_in || n->in[in] == STENO_NONE ? NULL : j->g->values[n->in[in]].constant;
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 2)
        return NULL; /* a product of activations, or of a batch: not handled */
    describe_product(j->g, n, w, p);
    if (steno_numel(w) < MIN_WEIGHTS)
        p->kept = "too small";
    else if (excluded(j->opt, n))
        p->kept = "excluded";
    else if (j->g->values[n->in[0]].dtype != STENO_F32)
        p->kept = "its input is not f32";
    return w;
}

/* Weights of a convolution. */
static const struct steno_tensor *convolution_weights(const struct steno_quantize_job *j,
                                                      const struct steno_node *n,
                                                      struct steno_quantize_product *p)
{
    const struct steno_graph *g = j->g;
    const struct steno_tensor *w =
        n->n_in < 2 || n->in[1] == STENO_NONE ? NULL : g->values[n->in[1]].constant;
    const struct steno_tensor *b =
        n->n_in < 3 || n->in[2] == STENO_NONE ? NULL : g->values[n->in[2]].constant;
    if (!j->opt->convolutions || j->opt->kind == STENO_QUANTIZE_BLOCKS || sixteen_bits(j->opt) ||
        !w || !w->data || w->dtype != STENO_F32 || w->shape.rank < 3)
        return NULL;
    describe_product(g, n, w, p);
    if (steno_numel(w) < MIN_WEIGHTS)
        p->kept = "too small";
    else if (excluded(j->opt, n))
        p->kept = "excluded";
    else if (g->values[n->in[0]].dtype != STENO_F32)
        p->kept = "its input is not f32";
    else if (steno_node_int(n, "group", 1) != 1)
        p->kept = "it has groups";
    else if (w->shape.rank > 4)
        p->kept = "it has more than two axes";
    else if (n->n_in > 2 && n->in[2] != STENO_NONE &&
             (!b || !b->data || b->dtype != STENO_F32 || b->shape.rank != 1 ||
              b->shape.dim[0] != w->shape.dim[0]))
        p->kept = "its bias is no constant";
    else if (p->rows > MAX_TAPS)
        p->kept = "its sums may leave 32 bits";
    return w;
}

static steno_status rewrite_product(struct steno_quantize_job *j, int32_t at, int in,
                                    const struct steno_tensor *w, struct steno_quantize_product *p)
{
    switch (j->opt->kind) {
    case STENO_QUANTIZE_DYNAMIC:
        return steno_quantize_dynamic(j, at, w, p);
    case STENO_QUANTIZE_STATIC:
        return steno_quantize_static(j, at, w, p);
    case STENO_QUANTIZE_BLOCKS:
        return steno_quantize_blocks(j, at, w, p);
    case STENO_QUANTIZE_F16:
    case STENO_QUANTIZE_BF16:
        break;
    }
    return steno_quantize_sixteen(j, at, in, w, p);
}

static steno_status quantize_product(struct steno_quantize_job *j, int32_t at, int in)
{
    struct steno_quantize_product p;
    const struct steno_node *n = &j->g->nodes[at];
    const struct steno_tensor *w =
        is_operator(n, "Conv") ? convolution_weights(j, n, &p) : weights_of(j, n, in, &p);
    steno_status st;
    if (!w)
        return STENO_OK;
    if (!p.kept && j->opt->kind == STENO_QUANTIZE_STATIC &&
        (p.in_body || !j->opt->range(j->opt->range_arg, p.x, &p.lo, &p.hi)))
        p.kept = p.in_body ? "in the body of a node" : "calibration did not reach it";
    if (!p.kept) {
        st = steno_constant_fetch(w, j->err);
        if (st)
            return st;
        p.kept = steno_quantize_count(j->opt->kind, w, &p.counts);
    }
    if (!p.kept) {
        st = rewrite_product(j, at, in, w, &p);
        if (st)
            return st;
        if (!sixteen_bits(j->opt))
            j->g->nodes[at].dead = true;
        ++*j->changed;
    }
    tell_of_product(j->opt, &p);
    return STENO_OK;
}

static steno_status all_products(struct steno_quantize_job *j)
{
    bool half = sixteen_bits(j->opt);
    for (int32_t i = 0, count = j->g->n_nodes; i < count; i++) {
        const struct steno_node *n = &j->g->nodes[i];
        bool absorbed =
            half && ours(n, "AbsorbedAttention"); /* its projections of keys and values */
        steno_status st = STENO_OK;
        if (absorbed)
            st = quantize_product(j, i, 2);
        if (!st && absorbed)
            st = quantize_product(j, i, 4);
        if (is_operator(n, "MatMul") || is_operator(n, "Conv") ||
            (half && (ours(n, "Linear") || is_operator(n, "Gemm"))))
            st = quantize_product(j, i, 1);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status check_quantization(const struct steno_quantize_options *opt, steno_err *err)
{
    if (opt->kind == STENO_QUANTIZE_BLOCKS &&
        ((opt->bits != 4 && opt->bits != 8) || opt->block < 16 || opt->block > 65536 ||
         (opt->block & (opt->block - 1))))
        return steno_fail(
            err, STENO_ERR_INVAL,
            "blocks of %d bits and %d rows: bits are 4 or 8, rows a power of two from "
            "16 on",
            opt->bits, opt->block);
    if (opt->kind == STENO_QUANTIZE_STATIC && !opt->range)
        return steno_fail(err, STENO_ERR_INVAL, "static quantization needs ranges");
    return STENO_OK;
}

steno_status steno_quantize(struct steno_graph *g, const struct steno_quantize_options *opt,
                            int *changed, steno_err *err)
{
    struct walk w = {.opt = opt, .changed = changed, .err = err, .visit = all_products};
    *changed = 0;
    w.st = check_quantization(opt, err);
    if (!w.st)
        (void)visit_body(g, &w);
    return w.st;
}

/* ---- listing ---- */

struct list {
    struct steno_quantize_product *p;
    int n;
    bool full;
};

static void note(struct list *l, const struct steno_quantize_product *p)
{
    struct steno_quantize_product *more =
        l->n % 64 ? l->p : realloc(l->p, (size_t)(l->n + 64) * sizeof *more);
    if (!more) {
        l->full = true;
        return;
    }
    l->p = more;
    more[l->n++] = *p;
}

steno_status steno_quantize_list(struct steno_graph *g, const struct steno_quantize_options *opt,
                                 struct steno_quantize_product **out, int *n, steno_err *err)
{
    struct steno_quantize_job j = {opt, g, NULL, err};
    struct list l = {NULL, 0, false};
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *node = &g->nodes[i];
        struct steno_quantize_product p;
        const bool found = is_operator(node, "MatMul")
                               ? weights_of(&j, node, 1, &p) != NULL
                               : is_operator(node, "Conv") && convolution_weights(&j, node, &p);
        if (found && !p.kept)
            note(&l, &p);
    }
    if (l.full) {
        free(l.p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    *out = l.p;
    *n = l.n;
    return STENO_OK;
}
