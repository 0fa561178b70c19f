/* Before: y = x + f(LayerNormalization(x)), or y = LayerNormalization(x + f(x)) as in BERT;
 *         f is two products, attention, or a convolution module
 * After:  the same nodes, in a region FeedForward, SelfAttention, CrossAttention or ConvModule
 * Regions in the order of a layer get a region around them:
 *     [FeedForward] SelfAttention [ConvModule] FeedForward     ConformerEncoderLayer,
 *                                                              TransformerEncoderLayer
 *     SelfAttention CrossAttention FeedForward                 TransformerDecoderLayer
 * The chain of convolutions before them becomes a region Subsampling. What shapes alone decide
 * (masks, positions, targets of Reshape) becomes a region Shapes, which is computed with the plan.
 * Zipformer's blocks have no normalisation, and several of them share attention weights; all
 * between x and Bypass(x, BiasNorm(.)) is a ZipformerEncoderLayer.
 * A region is one node to readers of the graph and does not exist for execution (nn/graph/graph.h).
 * f32 and 8-bit graphs give the same regions if earlier passes found the parts.
 *
 * A block is everything on a path from x to the addition that x skips to, so it is convex. A layer
 * also takes the nodes on the paths to the next layer (normalisation, caches), those computed for
 * it alone (keys and values of a memory, positions), and those that only move its results. */
#include "nn/passes/passes.h"

#include "nn/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET 512 /* nodes of a block, or between two blocks */

enum kind { NO_BLOCK, FEED_FORWARD, SELF_ATTENTION, CROSS_ATTENTION, CONV_MODULE, NONLIN_MODULE };

struct block {
    enum kind kind;
    int32_t end;    /* the node that adds */
    int32_t region; /* of the block */
    steno_value_id base, out;
};

struct walk {
    struct steno_graph *g;
    /* By node: the stamp of the walk that met it last, + 1 if it reaches the base. */
    int32_t *seen;
    int32_t stamp, first, left;
    steno_value_id base;
    struct block *blocks;
    int n_blocks;
};

static bool has_body(const struct steno_node *n)
{
    for (int k = 0; k < n->n_attr; k++)
        if (n->attr[k].kind == STENO_ATTR_GRAPH)
            return true;
    return false;
}

static bool is_product(const struct steno_node *n)
{
    return steno_pass_is_ours(n, "Linear") || steno_pass_is_ours(n, "IntLinear");
}

/* True if a path leads from the base to node i. Marks all nodes on such paths. */
static bool reaches(struct walk *w, int32_t i)
{
    const struct steno_node *n = &w->g->nodes[i];
    bool in = false;
    if (w->seen[i] >= w->stamp)
        return w->seen[i] > w->stamp;
    w->seen[i] = w->stamp;
    if (i <= w->first || w->left-- <= 0)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        steno_value_id v = n->in[k];
        if (v == STENO_NONE)
            continue;
        if (v == w->base)
            in = true;
        else if (w->g->values[v].producer != STENO_NONE)
            in = reaches(w, w->g->values[v].producer) || in;
    }
    w->seen[i] = w->stamp + in;
    return in;
}

/* Mark the nodes between value `base` and node `end`. False if there are none or too many. */
static bool walk_from(struct walk *w, steno_value_id base, int32_t end)
{
    w->stamp += 2;
    w->base = base;
    w->first = w->g->values[base].producer;
    w->left = BUDGET;
    return reaches(w, end) && w->left > 0;
}

static bool inside(const struct walk *w, int32_t i)
{
    return w->seen[i] == w->stamp + 1;
}

static bool is_swoosh(const struct steno_node *n)
{
    return steno_pass_is_ours(n, "Swoosh") ||
           (is_product(n) && steno_node_int(n, "act", 0) == STENO_ACT_SWOOSH);
}

/* The kind of a Zipformer block, which has no normalisation. */
static enum kind zipformer_kind(const struct steno_node *n)
{
    return steno_pass_is_ours(n, "WeightedValues")    ? SELF_ATTENTION
           : steno_pass_is_ours(n, "NonlinAttention") ? NONLIN_MODULE
           : steno_pass_is_ours(n, "ChunkConv")       ? CONV_MODULE
                                                      : NO_BLOCK;
}

static enum kind layers_kind_of(const struct walk *w, int32_t end)
{
    int products = 0, norms = 0, swoosh = 0, bare = 0;
    enum kind kind = NO_BLOCK;
    for (int32_t i = w->first + 1; i <= end; i++) {
        const struct steno_node *n = &w->g->nodes[i];
        if (n->dead || !inside(w, i))
            continue;
        if (n->region != STENO_NONE)
            return NO_BLOCK;
        if (zipformer_kind(n)) {
            kind = zipformer_kind(n);
            bare++;
        }
        if (steno_pass_is_ours(n, "AttentionWeights"))
            return NO_BLOCK;
        swoosh += is_swoosh(n);
        products += is_product(n);
        norms += steno_pass_is(n, "LayerNormalization");
        if (steno_pass_is_ours(n, "Attention") || steno_pass_is_ours(n, "AbsorbedAttention") ||
            steno_pass_is_ours(n, "LocalAttention")) {
            int32_t k = w->g->values[n->in[1]].producer;
            if (kind)
                return NO_BLOCK;
            kind = k > w->first && inside(w, k) ? SELF_ATTENTION : CROSS_ATTENTION;
        } else if (steno_pass_is_ours(n, "DepthwiseConv1d") ||
                   (steno_pass_is(n, "Conv") && steno_node_int(n, "group", 1) > 1)) {
            if (kind)
                return NO_BLOCK;
            kind = CONV_MODULE;
        }
    }
    if (!norms && (bare || swoosh))
        return bare == 1 && products == 2        ? kind
               : !bare && !kind && products == 2 ? FEED_FORWARD
                                                 : NO_BLOCK;
    /* a ConvModule has a second normalisation after the convolution */
    if (norms < 1 || norms > 1 + (kind == CONV_MODULE) || bare)
        return NO_BLOCK;
    return kind ? kind : products == 2 ? FEED_FORWARD : NO_BLOCK;
}

static const char *const type_of[] = {
    NULL, "FeedForward", "SelfAttention", "CrossAttention", "ConvModule", "NonlinModule"};

static steno_status try_block(struct walk *w, int32_t end, steno_value_id base, bool *took,
                              steno_err *err)
{
    struct block b = {.end = end, .base = base};
    steno_status st;
    *took = false;
    if (base == STENO_NONE || w->g->values[base].constant || !walk_from(w, base, end))
        return STENO_OK;
    b.kind = layers_kind_of(w, end);
    if (b.kind == NO_BLOCK)
        return STENO_OK;
    st = steno_graph_add_region(w->g, type_of[b.kind], w->g->nodes[end].name, STENO_NONE, &b.region,
                                err);
    if (st)
        return st;
    for (int32_t i = w->first + 1; i <= end; i++)
        if (inside(w, i))
            w->g->nodes[i].region = b.region;
    b.out = w->g->nodes[end].out[0];
    w->blocks[w->n_blocks++] = b;
    *took = true;
    return STENO_OK;
}

/* Node `end` may add the skipped value: its residual, or either term of a sum. Or it normalises
 * such a sum. A decoder step skips with the last row of x only; then x is the base. */
static steno_status find_block(struct walk *w, int32_t end, steno_err *err)
{
    const struct steno_node *n = &w->g->nodes[end];
    steno_value_id terms[2] = {STENO_NONE, STENO_NONE};
    bool took = false;
    steno_status st = STENO_OK;
    if (steno_pass_is(n, "LayerNormalization") && w->g->values[n->in[0]].uses == 1)
        n = steno_pass_producer(w->g, n->in[0]);
    if (steno_pass_is_ours(n, "Linear") && n->n_in > 3)
        terms[0] = n->in[3];
    else if (steno_pass_is_ours(n, "IntLinear") && n->n_in > 7)
        terms[0] = n->in[7];
    else if (steno_pass_is(n, "Add"))
        memcpy(terms, n->in, sizeof terms);
    for (int k = 0; !st && !took && k < 2; k++) {
        const struct steno_node *cut;
        if (terms[k] == STENO_NONE || w->g->values[terms[k]].constant)
            continue;
        st = try_block(w, end, terms[k], &took, err);
        cut = steno_pass_producer(w->g, terms[k]);
        if (!st && !took && steno_pass_is(cut, "Slice"))
            st = try_block(w, end, cut->in[0], &took, err);
    }
    return st;
}

/* ---- layers ---- */

struct pattern {
    const char *type;
    enum kind kinds[5];
};

static const struct pattern patterns[] = {
    {"ConformerEncoderLayer", {FEED_FORWARD, SELF_ATTENTION, CONV_MODULE, FEED_FORWARD}},
    {"ConformerEncoderLayer", {SELF_ATTENTION, CONV_MODULE, FEED_FORWARD}},
    {"TransformerDecoderLayer", {SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD}},
    {"TransformerEncoderLayer", {SELF_ATTENTION, FEED_FORWARD}},
};

/* Return the number of blocks from block i on that make pattern p, or 0. */
static int layers_matches(const struct walk *w, int i, const struct pattern *p)
{
    int n = 0;
    for (; p->kinds[n]; n++) {
        const struct block *b = &w->blocks[i + n];
        if (i + n >= w->n_blocks || b->kind != p->kinds[n] || (n && b->base != b[-1].out) ||
            w->g->regions[b->region].parent != STENO_NONE)
            return 0;
    }
    return n;
}

/* Put the nodes between value `from` and node `to` that are in no region into r. */
static void take_path(struct walk *w, steno_value_id from, int32_t to, int32_t r)
{
    if (to == STENO_NONE || !walk_from(w, from, to))
        return;
    for (int32_t i = w->first + 1; i <= to; i++)
        if (inside(w, i) && w->g->nodes[i].region != STENO_NONE)
            return; /* another region is between */
    for (int32_t i = w->first + 1; i <= to; i++)
        if (inside(w, i))
            w->g->nodes[i].region = r;
}

struct layer {
    int first, n; /* blocks */
    int32_t region;
    bool conformer;
};

static steno_status make_layer(struct walk *w, int i, struct layer *l, steno_err *err)
{
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        steno_status st;
        int n = layers_matches(w, i, &patterns[p]);
        if (!n)
            continue;
        st = steno_graph_add_region(w->g, patterns[p].type, w->g->nodes[w->blocks[i].end].name,
                                    STENO_NONE, &l->region, err);
        for (int k = 0; !st && k < n; k++)
            w->g->regions[w->blocks[i + k].region].parent = l->region;
        l->first = i;
        l->n = n;
        l->conformer = patterns[p].kinds[0] == FEED_FORWARD;
        return st;
    }
    l->n = 0;
    return STENO_OK;
}

/* `end` is Bypass(x, BiasNorm(.)): make a layer of all between x and it. */
static steno_status zipformer_layer(struct walk *w, int32_t end, int *changed, steno_err *err)
{
    const struct steno_node *n = &w->g->nodes[end];
    int weights = 0;
    int32_t r;
    steno_status st;
    if (!steno_pass_is_ours(n, "Bypass") ||
        !steno_pass_is_ours(steno_pass_producer(w->g, n->in[1]), "BiasNorm") ||
        !walk_from(w, n->in[0], end))
        return STENO_OK;
    for (int32_t i = w->first + 1; i <= end; i++)
        weights += inside(w, i) && steno_pass_is_ours(&w->g->nodes[i], "AttentionWeights");
    if (weights != 1)
        return STENO_OK;
    st = steno_graph_add_region(w->g, "ZipformerEncoderLayer", n->name, STENO_NONE, &r, err);
    if (st)
        return st;
    for (int i = 0; i < w->n_blocks; i++)
        if (w->blocks[i].end > w->first && w->blocks[i].end <= end && inside(w, w->blocks[i].end))
            w->g->regions[w->blocks[i].region].parent = r;
    for (int32_t i = w->first + 1; i <= end; i++)
        if (inside(w, i) && w->g->nodes[i].region == STENO_NONE)
            w->g->nodes[i].region = r;
    ++*changed;
    return STENO_OK;
}

static steno_status make_layers(struct walk *w, int *changed, steno_err *err)
{
    struct layer last = {.n = 0}, l;
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < w->n_blocks;) {
        st = make_layer(w, i, &l, err);
        if (st || !l.n) {
            i++;
            continue;
        }
        if (last.n)
            take_path(w, w->blocks[last.first + last.n - 1].out,
                      w->g->values[w->blocks[i].base].producer, last.region);
        last = l;
        i += l.n;
        ++*changed;
    }
    /* a conformer layer ends with a normalisation */
    if (!st && last.n && last.conformer) {
        struct steno_node *n = steno_pass_only_reader(w->g, w->blocks[last.first + last.n - 1].out);
        if (steno_pass_is(n, "LayerNormalization") && n->region == STENO_NONE)
            n->region = last.region;
    }
    return st;
}

/* ---- nodes that belong to one layer only ---- */

static bool is_base(const struct walk *w, steno_value_id v)
{
    for (int i = 0; i < w->n_blocks; i++)
        if (w->blocks[i].base == v)
            return true;
    return false;
}

enum { UNREAD = -2, MIXED = -3 };

/* Move nodes whose readers are all in one region into it, from the last node to the first. */
static bool take_producers(struct walk *w)
{
    struct steno_graph *g = w->g;
    int32_t *reader = malloc(((size_t)g->n_values + 1) * sizeof *reader);
    if (!reader)
        return false;
    for (int32_t v = 0; v < g->n_values; v++)
        reader[v] = g->values[v].is_output ? MIXED : UNREAD;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        struct steno_node *n = &g->nodes[i];
        int32_t r = UNREAD, top;
        if (n->dead)
            continue;
        for (int k = 0; k < n->n_out && n->region == STENO_NONE; k++) {
            steno_value_id v = n->out[k];
            if (v == STENO_NONE || reader[v] == UNREAD)
                continue;
            r = is_base(w, v) || (r != UNREAD && r != reader[v]) ? MIXED : reader[v];
            if (r == MIXED)
                break;
        }
        /* a node with a body stays alone */
        if (n->region == STENO_NONE && r >= 0 && n->n_in && !has_body(n))
            n->region = r;
        top = n->region == STENO_NONE ? MIXED : steno_node_top_region(g, n);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE)
                reader[n->in[k]] =
                    reader[n->in[k]] == UNREAD || reader[n->in[k]] == top ? top : MIXED;
    }
    free(reader);
    return true;
}

static bool only_moves(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Reshape Transpose Slice Gather Concat ScatterND Squeeze Unsqueeze "
                                "Identity");
}

/* Move nodes that only move a region's results into it, if they join them with nothing that comes
 * after its first node. */
static bool take_movers(struct walk *w)
{
    struct steno_graph *g = w->g;
    int32_t *first = malloc(((size_t)g->n_regions + 1) * sizeof *first);
    if (!first)
        return false;
    for (int32_t r = 0; r < g->n_regions; r++)
        first[r] = g->n_nodes;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--)
        if (!g->nodes[i].dead && g->nodes[i].region != STENO_NONE)
            first[steno_node_top_region(g, &g->nodes[i])] = i;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        int32_t r = STENO_NONE;
        if (n->dead || n->region != STENO_NONE || !only_moves(n))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            const struct steno_node *p = steno_pass_producer(g, n->in[k]);
            int32_t top = p ? steno_node_top_region(g, p) : STENO_NONE;
            if (top != STENO_NONE && (r == STENO_NONE || first[top] > first[r]))
                r = top;
        }
        for (int k = 0; r != STENO_NONE && k < n->n_in; k++) {
            const struct steno_node *p = steno_pass_producer(g, n->in[k]);
            if (p && steno_node_top_region(g, p) != r && p - g->nodes > first[r])
                r = STENO_NONE;
        }
        n->region = r;
    }
    free(first);
    return true;
}

/* ---- Subsampling: [Unsqueeze] Conv... Transpose Reshape product ---- */

static bool shape_only(const struct steno_graph *g, steno_value_id v)
{
    uint32_t n = g->values[v].uses;
    for (int32_t i = 0; n && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_pass_is(&g->nodes[i], "Shape") && g->nodes[i].in[0] == v)
            n--;
    return !n && !g->values[v].is_output;
}

/* Count the reads of v, without those of its shape or of its transpose's shape. */
static uint32_t data_readers(const struct steno_graph *g, steno_value_id v)
{
    uint32_t n = g->values[v].uses;
    for (int32_t i = 0; n && g->values[v].uses > 1 && i < g->n_nodes; i++) {
        const struct steno_node *r = &g->nodes[i];
        if (r->dead || r->n_in < 1 || r->in[0] != v)
            continue;
        if (steno_pass_is(r, "Shape") ||
            (steno_pass_is(r, "Transpose") && shape_only(g, r->out[0])))
            n--;
    }
    return n;
}

static steno_status subsampling(struct steno_graph *g, int32_t at, int *changed, steno_err *err)
{
    int32_t chain[8], n = 0, convs = 0, r;
    steno_value_id v = g->nodes[at].in[0];
    steno_status st;
    chain[n++] = at;
    while (n < 8) {
        const struct steno_node *p = steno_pass_producer(g, v);
        bool conv = steno_pass_is(p, "Conv") || (p && !strcmp(p->op_type, "FusedConv")) ||
                    steno_pass_is_ours(p, "ConvNhwc");
        if (!p || data_readers(g, v) != 1 || g->values[v].is_output || p->region != STENO_NONE ||
            !(conv ||
              steno_pass_is_any(p, "Reshape Transpose Unsqueeze Relu DynamicQuantizeLinear")))
            break;
        convs += conv;
        chain[n++] = (int32_t)(p - g->nodes);
        v = p->in[0];
    }
    if (convs < 2)
        return STENO_OK;
    st = steno_graph_add_region(g, "Subsampling", g->nodes[at].name, STENO_NONE, &r, err);
    for (int32_t i = 0; !st && i < n; i++)
        g->nodes[chain[i]].region = r;
    *changed += !st;
    return st;
}

/* ---- Shapes: nodes that read constants and shapes only ---- */

/* Return the level of node n, or 0 if it reads data. The level is one more than that of any Shapes
 * region on the way to a value whose shape n reads, so that regions of one level are convex. from:
 * by value, the level on the way. */
static int32_t shape_level(const struct steno_graph *g, const struct steno_node *n,
                           const int32_t *from, const bool *member)
{
    int32_t level = 1;
    if (n->dead || n->region != STENO_NONE || has_body(n) || !n->op ||
        (n->op->flags & STENO_OP_IMPURE))
        return 0;
    for (int k = 0; k < n->n_in; k++) {
        steno_value_id v = n->in[k];
        if (v == STENO_NONE || g->values[v].constant || member[v]) {
            if (v != STENO_NONE && member[v] && from[v] > level)
                level = from[v];
            continue;
        }
        if (k || !(n->op->flags & STENO_OP_SHAPE_ONLY))
            return 0;
        level = from[v] + 1 > level ? from[v] + 1 : level;
    }
    return level;
}

#define LEVELS 8

static steno_status add_shapes(struct steno_graph *g, int32_t *level, int *changed, steno_err *err)
{
    for (int32_t l = 1; l <= LEVELS; l++) {
        int32_t count = 0, first = STENO_NONE, r;
        steno_status st;
        for (int32_t i = g->n_nodes - 1; i >= 0; i--)
            if (level[i] == l) {
                count++;
                first = i;
            }
        if (count < 2)
            continue;
        st = steno_graph_add_region(g, "Shapes", g->nodes[first].name, STENO_NONE, &r, err);
        if (st)
            return st;
        for (int32_t i = 0; i < g->n_nodes; i++)
            if (level[i] == l)
                g->nodes[i].region = r;
        ++*changed;
    }
    return STENO_OK;
}

static steno_status shapes(struct steno_graph *g, int *changed, steno_err *err)
{
    int32_t *from = calloc((size_t)g->n_values + 1, sizeof *from);
    int32_t *level = calloc((size_t)g->n_nodes + 1, sizeof *level);
    bool *member = calloc((size_t)g->n_values + 1, sizeof *member);
    steno_status st = STENO_OK;
    if (!from || !level || !member)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int32_t i = 0; !st && i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        int32_t way = 0;
        level[i] = shape_level(g, n, from, member);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE && from[n->in[k]] > way)
                way = from[n->in[k]];
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != STENO_NONE) {
                member[n->out[k]] = level[i] > 0;
                from[n->out[k]] = level[i] > 0 ? level[i] : way;
            }
    }
    if (!st)
        st = add_shapes(g, level, changed, err);
    free(from);
    free(level);
    free(member);
    return st;
}

/* Remove all regions; they are made once, from scratch. */
static void forget(struct steno_graph *g)
{
    g->n_regions = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        g->nodes[i].region = STENO_NONE;
}

steno_status steno_pass_layers(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    struct walk w = {.g = g, .stamp = 0};
    steno_status st = STENO_OK;
    (void)env;
    if (g->n_regions)
        return STENO_OK;
    w.seen = calloc((size_t)g->n_nodes + 1, sizeof *w.seen);
    w.blocks = calloc((size_t)g->n_nodes + 5, sizeof *w.blocks);
    if (!w.seen || !w.blocks)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int32_t i = 0; !st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && g->nodes[i].region == STENO_NONE)
            st = find_block(&w, i, err);
    *changed += w.n_blocks;
    for (int32_t i = 0; !st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && g->nodes[i].region == STENO_NONE)
            st = zipformer_layer(&w, i, changed, err);
    if (!st)
        st = make_layers(&w, changed, err);
    for (int32_t i = 0; !st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && is_product(&g->nodes[i]) && g->nodes[i].region == STENO_NONE)
            st = subsampling(g, i, changed, err);
    if (!st)
        st = shapes(g, changed, err);
    if (!st && !(take_producers(&w) && take_movers(&w)))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (st)
        forget(g);
    free(w.seen);
    free(w.blocks);
    return st;
}
