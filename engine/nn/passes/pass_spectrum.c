/* Before: c = Conv(x [B, 1, S], w, a windowed Fourier transform), re and im its halves of channels,
 *         y = Pow(re, 2) + Pow(im, 2) (or products) [, Sqrt]
 * After:  y = ai.steno:PowerSpectrum(x, w; hop, root)      (nn/ops/op_fused_spectrum.c)
 * silero-vad and others export their frontend this way. */
#include "nn/passes/passes.h"

#include "nn/ops/spectrum.h"

#include <string.h>

/* Slice of a Conv's channels [from, to). */
static bool cuts(const struct steno_graph *g, const struct steno_node *n, int64_t from, int64_t to,
                 int64_t all)
{
    struct steno_pass_cut c;
    return steno_pass_cut_of(g, n, &c) && (c.axis == 1 || c.axis == -2) &&
           c.start == (double)from && (to == all ? c.end >= (double)all : c.end == (double)to);
}

/* Return the Slice whose square is v. */
static struct steno_node *squared(struct steno_graph *g, steno_value_id v,
                                  struct steno_node **square)
{
    struct steno_node *s = steno_pass_only_use(g, v, "Pow"), *cut;
    double two;
    if (s && (!steno_pass_scalar(g, s->in[1], &two) || two != 2))
        return NULL;
    if (!s && (!(s = steno_pass_only_use(g, v, "Mul")) || s->in[0] != s->in[1]))
        return NULL;
    cut = steno_pass_producer(g, s->in[0]);
    *square = s;
    return steno_pass_is(cut, "Slice") && !g->values[s->in[0]].is_output &&
                   g->values[s->in[0]].uses == (steno_pass_is(s, "Mul") ? 2 : 1)
               ? cut
               : NULL;
}

static bool spectrum_plain(const struct steno_node *conv, int64_t *hop)
{
    size_t n;
    const int64_t *v = steno_node_ints(conv, "strides", &n);
    *hop = v && n == 1 ? v[0] : 1;
    for (int i = 0; i < 2; i++) {
        v = steno_node_ints(conv, i ? "pads" : "dilations", &n);
        for (size_t k = 0; v && k < n; k++)
            if (v[k] != !i)
                return false;
    }
    return !strcmp(steno_node_str(conv, "auto_pad", "NOTSET"), "NOTSET") && *hop > 0 &&
           steno_node_int(conv, "group", 1) == 1 && (conv->n_in < 3 || conv->in[2] == STENO_NONE);
}

/* Return the Conv under a sum of squares. gone: the nodes in between. */
static struct steno_node *match_spectrum(struct steno_graph *g, const struct steno_node *add,
                                         struct steno_node **gone, int64_t *hop)
{
    struct steno_node *re = squared(g, add->in[0], &gone[0]);
    struct steno_node *im = squared(g, add->in[1], &gone[1]), *conv;
    int64_t bins, all;
    if (!re || !im || re->in[0] != im->in[0] || g->values[re->in[0]].uses != 2 ||
        g->values[re->in[0]].is_output)
        return NULL;
    conv = steno_pass_producer(g, re->in[0]);
    if (!steno_pass_is(conv, "Conv") || !spectrum_plain(conv, hop) ||
        steno_graph_fetch(g, conv->in[1], NULL) ||
        !steno_ops_is_dft(g->values[conv->in[1]].constant))
        return NULL;
    all = g->values[conv->in[1]].shape.dim[0];
    bins = all / 2;
    gone[2] = re;
    gone[3] = im;
    if (cuts(g, re, 0, bins, all) ? cuts(g, im, bins, all, all)
                                  : cuts(g, im, 0, bins, all) && cuts(g, re, bins, all, all))
        return conv;
    return NULL;
}

steno_status steno_pass_spectrum(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *gone[4] = {NULL}, *conv, *root;
    int64_t hop = 1;
    (void)env;
    if (!steno_pass_is(n, "Add") || n->n_in != 2 || !(conv = match_spectrum(g, n, gone, &hop)))
        return STENO_OK;
    root = steno_pass_only_reader(g, n->out[0]);
    root = steno_pass_is(root, "Sqrt") ? root : NULL;
    conv->dead = n->dead = true;
    for (int k = 0; k < 4; k++)
        gone[k]->dead = true;
    if (root)
        root->dead = true;
    ++*changed;
    return steno_pass_put(g, conv->name,
                          STENO_NODE("ai.steno", "PowerSpectrum", 1,
                                     .in = STENO_VALUES(conv->in[0], conv->in[1]),
                                     .out = STENO_VALUES((root ? root : n)->out[0]),
                                     .attr = STENO_ATTRS(STENO_INT_ATTR("hop", hop),
                                                         STENO_INT_ATTR("root", root != NULL))),
                          err);
}
