/* steno optimize --model-type, --num-heads, --hidden-size: compares what the caller says of the
 * model with what the passes found in it. */
#include "tools/cli/optimize.h"
#include "nn/passes/passes.h"

#include <stdio.h>
#include <string.h>

const char optimize_types[] = "auto|conformer|transformer|zipformer|bert|gpt2";
enum { TYPE_AUTO, TYPE_CONFORMER, TYPE_TRANSFORMER, TYPE_ZIPFORMER, TYPE_BERT, TYPE_GPT2 };

/* What distinguishes the families. */
struct marks {
    int conformer, encoder, decoder; /* layers */
    int zipformer;                   /* its activations, norms, bypasses, windows of positions */
    int convs;                       /* depthwise convolutions along time */
    int embed;                       /* embeddings, summed and normalized: BERT */
    int attention;
};

static bool is_type(const struct steno_node *n, const char *type)
{
    return !n->dead && !strcmp(n->op_type, type);
}

static void count_marks(const struct steno_graph *g, struct marks *m)
{
    for (int32_t r = 0; r < g->n_regions; r++) {
        const char *type = g->regions[r].type;
        m->conformer += !strcmp(type, "ConformerEncoderLayer");
        m->encoder += !strcmp(type, "TransformerEncoderLayer");
        m->decoder += !strcmp(type, "TransformerDecoderLayer");
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        m->zipformer += is_type(n, "Swoosh") || is_type(n, "BiasNorm") || is_type(n, "Bypass") ||
                        is_type(n, "RelativeWindow") || is_type(n, "ChunkConv");
        m->convs += is_type(n, "DepthwiseConv1d");
        m->embed += is_type(n, "EmbedLayerNormalization");
        m->attention += is_type(n, "Attention") || is_type(n, "AbsorbedAttention") ||
                        is_type(n, "LocalAttention") || is_type(n, "MultiHeadAttention");
    }
}

static bool type_fits(int type, const struct marks *m)
{
    bool plain = (m->encoder || m->decoder) && !m->conformer && !m->zipformer;
    switch (type) {
    case TYPE_CONFORMER:
        return m->conformer > 0 || (m->attention && m->convs && !m->zipformer);
    case TYPE_TRANSFORMER:
        return plain;
    case TYPE_ZIPFORMER:
        return m->zipformer > 0;
    case TYPE_BERT:
        return plain && m->embed;
    case TYPE_GPT2:
        return plain && !m->embed && !m->decoder;
    default:
        return true;
    }
}

static steno_status check_type(struct optimize *o, const struct steno_graph *g, const char *in,
                               steno_err *err)
{
    struct marks m = {0};
    char name[32];
    const char *s = optimize_types;
    count_marks(g, &m);
    if (o->n.net.opt_level < 3 || o->n.net.disable_passes || o->n.net.only_passes ||
        type_fits(o->type, &m))
        o->fitting++; /* without all passes there is nothing to compare with */
    if (o->fitting || o->directory)
        return STENO_OK;
    for (int i = 0; i < o->type; i++)
        s += strcspn(s, "|") + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "|"), s);
    return steno_fail(
        err, STENO_ERR_INVAL,
        "%s: --model-type %s, found: %d ConformerEncoderLayer, %d "
        "TransformerEncoderLayer, %d TransformerDecoderLayer, %d nodes of Zipformer, %d "
        "EmbedLayerNormalization, %d attention, %d DepthwiseConv1d",
        in, name, m.conformer, m.encoder, m.decoder, m.zipformer, m.embed, m.attention, m.convs);
}

/* The heads of an attention node, and the columns of all of them; false for other nodes. */
static bool heads_of(const struct steno_graph *g, const struct steno_node *n, int64_t *heads,
                     int64_t *hidden)
{
    *heads = *hidden = 0;
    if (n->dead)
        return false;
    if (!strcmp(n->domain, "ai.steno") &&
        (!strcmp(n->op_type, "Attention") || !strcmp(n->op_type, "AbsorbedAttention") ||
         !strcmp(n->op_type, "LocalAttention"))) {
        *heads = steno_node_int(n, "heads", 0);
        *hidden = *heads * steno_node_int(n, "size", 0);
    } else if (!strcmp(n->domain, "com.microsoft") &&
               (!strcmp(n->op_type, "Attention") || !strcmp(n->op_type, "QAttention") ||
                !strcmp(n->op_type, "MultiHeadAttention"))) {
        const struct steno_shape *y = &g->values[n->out[0]].shape;
        *heads = steno_node_int(n, "num_heads", 0);
        *hidden = y->rank == 3 && y->dim[2] > 0 ? y->dim[2] : 0;
    }
    return *heads > 0;
}

static steno_status check_heads(const struct optimize *o, const struct steno_graph *g,
                                const char *in, steno_err *err)
{
    int found = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int64_t heads, hidden;
        if (!heads_of(g, &g->nodes[i], &heads, &hidden))
            continue;
        found++;
        if ((o->heads && heads != o->heads) || (o->hidden && hidden && hidden != o->hidden))
            return steno_fail(err, STENO_ERR_INVAL,
                              "%s: node '%s' has %lld heads and hidden size %lld, not --num-heads "
                              "%ld --hidden-size %ld",
                              in, g->nodes[i].name, (long long)heads, (long long)hidden, o->heads,
                              o->hidden);
    }
    if (!found && o->n.net.opt_level >= 2)
        return steno_fail(err, STENO_ERR_INVAL,
                          "%s: --num-heads and --hidden-size: the network has no attention", in);
    return STENO_OK;
}

steno_status optimize_check_type(struct optimize *o, const steno_network *n, const char *in,
                                 steno_err *err)
{
    const struct steno_graph *g = steno_network_graph(n);
    steno_status st = check_type(o, g, in, err);
    return !st && (o->heads || o->hidden) ? check_heads(o, g, in, err) : st;
}
