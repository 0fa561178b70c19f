#include "tools/convert/icefall_arch.h"

#include "tools/convert/icefall_reader.h"

#include <stdio.h>

/* The defaults of icefall's train.py for what no shape says. */
#define QUERY 32
#define VALUE 12
#define POS 4
#define MAX_POSITION_COLUMNS 4096
/* The defaults of its export scripts. */
#define CHUNK 16
#define LEFT 128

/* ---- stacks -------------------------------------------------------------------------------- */

/* Where the layers of a stack are. */
static void layers_at(const struct steno_zipformer_stack *s, int64_t i, char out[64])
{
    snprintf(out, 64, "encoder.encoders.%d.%slayers", (int)i,
             s->downsampling == 1 ? "" : "encoder.");
}

static void read_stack(struct steno_icefall_reader *r, int64_t i)
{
    struct steno_zipformer_stack *s = &r->a->stack[i];
    char at[64];
    s->downsampling = 1;
    if (steno_icefall_has(r, "encoder.encoders.%d.downsample.bias", (int)i))
        s->downsampling = steno_icefall_extent(r, 0, "encoder.encoders.%d.downsample.bias", (int)i);
    layers_at(s, i, at);
    while (steno_icefall_has(r, "%s.%d.norm.bias", at, (int)s->layers))
        s->layers++;
    if (s->layers > STENO_ZIPFORMER_LAYERS)
        r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: a stack of more than %d layers",
                           r->w->file, STENO_ZIPFORMER_LAYERS);
    s->d = steno_icefall_extent(r, 0, "%s.0.norm.bias", at);
    for (int k = 0; k < 3; k++)
        s->ff[k] = steno_icefall_extent(r, 0, "%s.0.feed_forward%d.in_proj.weight", at, k + 1);
    s->kernel = steno_icefall_extent(r, 2, "%s.0.conv_module1.depthwise_conv%s.weight", at,
                                     r->a->causal ? ".chunkwise_conv" : "");
    steno_icefall_at_most(r, "columns", s->d, STENO_ICEFALL_MAX_COLUMNS);
    steno_icefall_at_most(r, "taps of a convolution", s->kernel, STENO_ICEFALL_MAX_KERNEL);
    if (!r->st && s->kernel % 2 == 0)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT, "%s: a convolution of %lld taps, not odd",
                           r->w->file, (long long)s->kernel);
}

static void read_stacks(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    char at[64];
    a->causal = steno_icefall_has(
        r, "encoder.encoders.0.layers.0.conv_module1.depthwise_conv.causal_conv.weight");
    while (
        !r->st &&
        (steno_icefall_has(r, "encoder.encoders.%d.layers.0.norm.bias", (int)a->stacks) ||
         steno_icefall_has(r, "encoder.encoders.%d.encoder.layers.0.norm.bias", (int)a->stacks))) {
        if (a->stacks == STENO_ZIPFORMER_STACKS)
            r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: more than %d stacks of layers",
                               r->w->file, STENO_ZIPFORMER_STACKS);
        else
            read_stack(r, a->stacks++);
    }
    if (!r->st && !a->stacks)
        r->st =
            steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                       "%s: '%sencoder.encoders.0.layers.0.norm.bias' is missing, so this is no "
                       "Zipformer of icefall; other architectures are not known",
                       r->w->file, r->w->root);
    for (int64_t i = 0; i < a->stacks; i++)
        if (a->stack[i].d > a->out)
            a->out = a->stack[i].d;
    layers_at(&a->stack[0], 0, at);
    a->pos_dim = steno_icefall_extent(r, 1, "%s.0.self_attn_weights.linear_pos.weight", at);
    steno_icefall_at_most(r, "columns of positions", a->pos_dim, MAX_POSITION_COLUMNS);
}

/* ---- heads --------------------------------------------------------------------------------- */

/* Columns of all heads of a stack. */
struct columns {
    int64_t query, value, pos;
};

static struct columns columns_of(struct steno_icefall_reader *r, int64_t i)
{
    struct columns c;
    char at[64];
    layers_at(&r->a->stack[i], i, at);
    c.pos = steno_icefall_extent(r, 0, "%s.0.self_attn_weights.linear_pos.weight", at);
    c.query = (steno_icefall_extent(r, 0, "%s.0.self_attn_weights.in_proj.weight", at) - c.pos) / 2;
    c.value = steno_icefall_extent(r, 0, "%s.0.self_attn1.in_proj.weight", at);
    return c;
}

/* No shape says into how many heads columns are divided. One of four options does; without them, it
 * is told by the default sizes of a head, if all three lead to the same number. */
static void divide(struct steno_icefall_reader *r, int64_t i, const struct columns *c,
                   const bool given[4], int64_t option[4][STENO_ZIPFORMER_STACKS])
{
    struct steno_zipformer_stack *s = &r->a->stack[i];
    const int64_t all[] = {c->query, c->value, c->pos};
    int64_t heads = 0;
    if (given[0])
        heads = option[0][i];
    for (int k = 0; k < 3 && !heads; k++)
        if (given[k + 1])
            heads = all[k] / option[k + 1][i];
    if (!heads && c->query % QUERY == 0 && c->query / QUERY == c->value / VALUE &&
        c->value % VALUE == 0 && c->pos % POS == 0 && c->pos / POS == c->query / QUERY)
        heads = c->query / QUERY;
    if (c->query < 1)
        r->st =
            steno_fail(r->err, STENO_ERR_FORMAT,
                       "%s: stack %d: no columns of 'self_attn_weights.in_proj.weight' are left "
                       "for queries beside %lld of positions",
                       r->w->file, (int)i + 1, (long long)c->pos);
    else if (heads < 1 || heads > 1024)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "%s: no shape tells the number of heads of stack %d: give --num-heads, "
                           "as in the training",
                           r->w->file, (int)i + 1);
    else if (c->query % heads || c->value % heads || c->pos % heads)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "%s: stack %d: %lld heads do not divide its %lld columns of queries, "
                           "%lld of values and %lld of positions",
                           r->w->file, (int)i + 1, (long long)heads, (long long)c->query,
                           (long long)c->value, (long long)c->pos);
    if (r->st)
        return;
    s->heads = heads;
    s->query = c->query / heads;
    s->value = c->value / heads;
    s->pos = c->pos / heads;
}

static void read_stack_heads(struct steno_icefall_reader *r)
{
    static const char *const names[] = {"num-heads", "query-head-dim", "value-head-dim",
                                        "pos-head-dim"};
    int64_t option[4][STENO_ZIPFORMER_STACKS];
    bool given[4];
    for (int k = 0; k < 4; k++)
        given[k] = steno_icefall_per_stack(r, names[k], option[k]);
    for (int64_t i = 0; i < r->a->stacks && !r->st; i++) {
        const struct steno_zipformer_stack *s = &r->a->stack[i];
        const struct columns c = columns_of(r, i);
        if (!r->st)
            divide(r, i, &c, given, option);
        for (int k = 0; k < 4; k++) {
            const int64_t is[] = {s->heads, s->query, s->value, s->pos};
            if (given[k])
                steno_icefall_agree(r, names[k], i, option[k][i], is[k]);
        }
    }
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void read_embedding(struct steno_icefall_reader *r)
{
    static const int at[] = {0, 4, 7};
    for (int i = 0; i < 3; i++)
        r->a->conv[i] = steno_icefall_extent(r, 0, "encoder_embed.conv.%d.weight", at[i]);
    r->a->hidden = steno_icefall_extent(r, 0, "encoder_embed.convnext.pointwise_conv1.weight");
}

/* Chunks must fit the rate of every stack. */
static void check_chunks(struct steno_icefall_reader *r)
{
    const struct steno_icefall_arch *a = r->a;
    for (int64_t i = 0; i < a->stacks && !r->st; i++) {
        const struct steno_zipformer_stack *s = &a->stack[i];
        if (a->chunk % s->downsampling || a->left % s->downsampling || a->chunk % 2)
            r->st = steno_fail(r->err, STENO_ERR_INVAL,
                               "--chunk-size %lld, --left-context-frames %lld: not multiples of "
                               "stack %d's downsampling, %lld, and of 2",
                               (long long)a->chunk, (long long)a->left, (int)i + 1,
                               (long long)s->downsampling);
    }
}

static void read_chunks(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    bool causal = a->causal;
    const int64_t chunk = steno_icefall_one_number(r, "chunk-size", a->causal ? CHUNK : -1);
    const int64_t left = steno_icefall_one_number(r, "left-context-frames", LEFT);
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "causal", &causal, r->err);
    if (r->st)
        return;
    if (causal != a->causal)
        r->st =
            steno_fail(r->err, STENO_ERR_INVAL, "--causal %d: the convolutions in %s are %scausal",
                       causal, r->w->file, a->causal ? "" : "not ");
    else if (!a->causal && chunk > 0)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--chunk-size %lld: the convolutions in %s are not causal, so it takes "
                           "whole recordings",
                           (long long)chunk, r->w->file);
    else if (!chunk || (chunk > 0 && left < 1) || chunk > 4096 || left > 1 << 16)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--chunk-size %lld, --left-context-frames %lld: expected 2 to 4096 (or "
                           "-1: whole recordings) and 1 to 65536",
                           (long long)chunk, (long long)left);
    if (r->st || chunk < 0)
        return;
    a->chunk = chunk;
    a->left = left;
    check_chunks(r);
}

steno_status steno_icefall_read_arch(const struct steno_make_weights *w,
                                     const struct steno_convert_options *o,
                                     struct steno_icefall_arch *out, steno_err *err)
{
    struct steno_icefall_reader r = {.w = w, .o = o, .a = out, .err = err};
    *out = (struct steno_icefall_arch){0};
    out->at = "";
    out->ctc_layer = "ctc_output.1";
    if (steno_icefall_has(&r, "encoder.encoder.layers.0.self_attn.pos_bias_u"))
        out->at = "encoder.";
    out->conformer = steno_icefall_has(&r, "%sencoder.layers.0.self_attn.pos_bias_u", out->at);
    if (out->conformer)
        return steno_icefall_read_conformer(&r);
    if (steno_icefall_has(&r, "encoder.encoder.layers.0.lstm.weight_ih_l0"))
        return steno_icefall_read_lstm(&r);
    if (steno_icefall_has(&r, "encoder.encoder_embed.conv.0.weight"))
        return steno_icefall_read_zipformer1(&r);
    read_stacks(&r);
    if (!r.st)
        steno_icefall_compare_stacks(&r);
    if (!r.st)
        read_stack_heads(&r);
    if (!r.st)
        steno_icefall_compare(&r, "pos-dim", out->pos_dim);
    if (!r.st)
        read_embedding(&r);
    if (!r.st)
        steno_icefall_read_outputs(&r);
    if (!r.st)
        read_chunks(&r);
    return r.st;
}
