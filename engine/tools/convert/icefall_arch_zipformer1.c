#include "tools/convert/icefall_reader.h"

#include <stdio.h>

#define POS 4 /* columns of positions of a head, which no training option changes */
/* The defaults of pruned_transducer_stateless7_streaming, in feature frames and in chunks. */
#define CHUNK 32
#define LEFT_CHUNKS 4

/* ---- stacks -------------------------------------------------------------------------------- */

static void layers_at(const struct steno_zipformer_stack *s, int64_t i, char out[64])
{
    snprintf(out, 64, "encoder.encoders.%d.%slayers", (int)i,
             s->downsampling == 1 ? "" : "encoder.");
}

/* The columns of queries, keys, values and of queries for positions stand side by side. */
static void read_zipformer1_heads(struct steno_icefall_reader *r, int64_t i, const char *at)
{
    struct steno_zipformer_stack *s = &r->a->stack[i];
    const int64_t half = steno_icefall_extent(r, 0, "%s.0.self_attn.in_proj2.weight", at);
    const int64_t pos = steno_icefall_extent(r, 0, "%s.0.self_attn.linear_pos.weight", at);
    int64_t said[STENO_ZIPFORMER_STACKS];
    s->heads = pos / POS;
    if (steno_icefall_per_stack(r, "num-heads", said))
        s->heads = said[i];
    if (!r->st && (!s->heads || pos % s->heads || half % s->heads)) {
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "%s: stack %d: %lld heads do not divide its %lld columns of values and "
                           "%lld of positions; give --num-heads, as in the training",
                           r->w->file, (int)i + 1, (long long)s->heads, (long long)half,
                           (long long)pos);
        return;
    }
    if (r->st)
        return;
    s->value = half / s->heads;
    s->query = 2 * s->value;
    s->pos = pos / s->heads;
}

static void read_stack(struct steno_icefall_reader *r, int64_t i)
{
    struct steno_zipformer_stack *s = &r->a->stack[i];
    char at[64];
    s->downsampling = 1;
    if (steno_icefall_has(r, "encoder.encoders.%d.upsample.bias", (int)i))
        s->downsampling = steno_icefall_extent(r, 0, "encoder.encoders.%d.upsample.bias", (int)i);
    layers_at(s, i, at);
    while (steno_icefall_has(r, "%s.%d.norm_final.eps", at, (int)s->layers))
        s->layers++;
    steno_icefall_at_most(r, "layers of a stack", s->layers, STENO_ZIPFORMER_LAYERS);
    s->d = steno_icefall_extent(r, 1, "%s.0.feed_forward1.in_proj.weight", at);
    for (int k = 0; k < 3; k++)
        s->ff[k] = steno_icefall_extent(r, 0, "%s.0.feed_forward%d.in_proj.weight", at, k + 1);
    s->kernel = steno_icefall_extent(r, 2, "%s.0.conv_module1.depthwise_conv.weight", at);
    steno_icefall_at_most(r, "columns", s->d, STENO_ICEFALL_MAX_COLUMNS);
    steno_icefall_at_most(r, "taps of a convolution", s->kernel, STENO_ICEFALL_MAX_KERNEL);
    steno_icefall_at_most(r, "frames of one downsampled frame", s->downsampling, 4096);
    if (!r->st && (s->kernel % 2 == 0 || s->d % 2))
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: stack %d: %lld taps of a convolution are not odd, or %lld columns "
                           "not even",
                           r->w->file, (int)i + 1, (long long)s->kernel, (long long)s->d);
    read_zipformer1_heads(r, i, at);
}

/* A stack begins with as many columns as the one before it has; one that is downsampled may have
 * more itself. */
static void check_widths(struct steno_icefall_reader *r)
{
    const struct steno_icefall_arch *a = r->a;
    for (int64_t i = 1; i < a->stacks && !r->st; i++) {
        const struct steno_zipformer_stack *s = &a->stack[i], *before = s - 1;
        if (s->downsampling == 1 ? s->d != before->d : s->d < before->d)
            r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                               "%s: stack %d has %lld columns, the one before it %lld", r->w->file,
                               (int)i + 1, (long long)s->d, (long long)before->d);
    }
}

static bool is_stack(const struct steno_icefall_reader *r, int64_t i)
{
    return steno_icefall_has(r, "encoder.encoders.%d.layers.0.norm_final.eps", (int)i) ||
           steno_icefall_has(r, "encoder.encoders.%d.encoder.layers.0.norm_final.eps", (int)i);
}

static void read_stacks(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    int64_t n = 0;
    while (n <= STENO_ZIPFORMER_STACKS && is_stack(r, n))
        n++;
    steno_icefall_at_most(r, "stacks of layers", n, STENO_ZIPFORMER_STACKS);
    if (!r->st && !n)
        r->st = steno_fail(
            r->err, STENO_ERR_UNSUPPORTED,
            "%s: '%sencoder.encoders.0.layers.0.norm_final.eps' is missing, so this is no "
            "Zipformer of pruned_transducer_stateless7, and it is no Conformer of icefall that is "
            "known",
            r->w->file, r->w->root);
    a->stacks = r->st ? 0 : n;
    for (int64_t i = 0; i < a->stacks && !r->st; i++)
        read_stack(r, i);
    check_widths(r);
    if (!r->st)
        a->out = a->stack[n - 1].d;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static void check_chunks(struct steno_icefall_reader *r, int64_t frames)
{
    const struct steno_icefall_arch *a = r->a;
    int64_t by = 2;
    for (int64_t i = 0; i < a->stacks; i++)
        if (frames / 2 % a->stack[i].downsampling)
            by = a->stack[i].downsampling;
    if (frames % 4 || frames / 2 % by)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--decode-chunk-len %lld: half of it is no multiple of the "
                           "downsampling, %lld",
                           (long long)frames, (long long)by);
}

/* No shape says whether the convolutions are causal. */
static void read_chunks(struct steno_icefall_reader *r)
{
    static const char *const names[] = {"decode-chunk-len", "num-left-chunks"};
    struct steno_icefall_arch *a = r->a;
    int64_t frames, left;
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "causal-convolution", &a->causal, r->err);
    for (int i = 0; i < 2 && !r->st && !a->causal; i++)
        if (steno_convert_flag(r->o, names[i]))
            r->st = steno_fail(r->err, STENO_ERR_INVAL,
                               "--%s: only with --causal-convolution 1, for a training of "
                               "pruned_transducer_stateless7_streaming, which no shape tells",
                               names[i]);
    if (!r->st && a->causal && a->ctc)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--causal-convolution 1: there is no layout for chunks of the first "
                           "Zipformer with CTC");
    if (r->st || !a->causal)
        return;
    frames = steno_icefall_one_number(r, names[0], CHUNK);
    left = steno_icefall_one_number(r, names[1], LEFT_CHUNKS);
    if (!r->st && (frames < 4 || frames > 8192 || left < 1 || left > 1024))
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--decode-chunk-len %lld, --num-left-chunks %lld: expected 4 to 8192 "
                           "and 1 to 1024",
                           (long long)frames, (long long)left);
    if (!r->st)
        check_chunks(r, frames);
    a->chunk = frames / 2;
    a->left = a->chunk * left;
}

/* ---- the whole ----------------------------------------------------------------------------- */

steno_status steno_icefall_read_zipformer1(struct steno_icefall_reader *r)
{
    static const char known[] =
        "num-encoder-layers, downsampling-factor, encoder-dim, feedforward-dim, "
        "cnn-module-kernel, num-heads, decoder-dim, joiner-dim, context-size, tokens, "
        "use-averaged-model, use-transducer, use-ctc, causal-convolution, decode-chunk-len, "
        "num-left-chunks";
    static const int at[] = {0, 3, 6};
    r->a->first = true;
    r->a->at = "encoder.";
    read_stacks(r);
    if (!r->st)
        steno_icefall_only(r, known, "a Zipformer of pruned_transducer_stateless7");
    if (!r->st)
        steno_icefall_compare_stacks(r);
    for (int i = 0; i < 3; i++)
        r->a->conv[i] = steno_icefall_extent(r, 0, "encoder.encoder_embed.conv.%d.weight", at[i]);
    if (!r->st)
        steno_icefall_read_outputs(r);
    if (!r->st)
        read_chunks(r);
    return r->st;
}
