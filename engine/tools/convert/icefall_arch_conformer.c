#include "tools/convert/icefall_reader.h"

#include <stdio.h>

/* The defaults of export-onnx-streaming.py. */
#define CHUNK 16
#define LEFT 64

/* The channels of the embedding's convolutions. */
static void read_conformer_embedding(struct steno_icefall_reader *r)
{
    static const int scaled[] = {0, 3, 6}, plain[] = {0, 0, 2};
    for (int i = r->a->plain; i < 3; i++)
        r->a->conv[i] = steno_icefall_extent(r, 0, "%sencoder_embed.conv.%d.weight", r->a->at,
                                             r->a->plain ? plain[i] : scaled[i]);
}

/* All is in shapes, the heads too. */
static void read_conformer(struct steno_icefall_reader *r)
{
    struct steno_zipformer_stack *s = &r->a->stack[0];
    const char *norm;
    char first[40];
    snprintf(first, sizeof first, "%sencoder.layers.0", r->a->at);
    r->a->stacks = 1;
    s->downsampling = 1;
    r->a->plain = steno_icefall_has(r, "%s.norm_ff.weight", first);
    norm = r->a->plain ? "weight" : "eps";
    while (
        steno_icefall_has(r, "%sencoder.layers.%d.norm_final.%s", r->a->at, (int)s->layers, norm))
        s->layers++;
    if (!s->layers)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: '%s%s.norm_final.%s' is missing: every Conformer has it",
                           r->w->file, r->w->root, first, norm);
    steno_icefall_at_most(r, "layers", s->layers, STENO_ZIPFORMER_LAYERS);
    read_conformer_embedding(r);
    s->d = r->a->out = steno_icefall_extent(r, 0, "%s.self_attn.out_proj.weight", first);
    s->ff[0] = s->ff[1] = steno_icefall_extent(r, 0, "%s.feed_forward.0.weight", first);
    s->kernel = steno_icefall_extent(r, 2, "%s.conv_module.depthwise_conv.weight", first);
    s->heads = steno_icefall_extent(r, 0, "%s.self_attn.pos_bias_u", first);
    s->query = steno_icefall_extent(r, 1, "%s.self_attn.pos_bias_u", first);
    steno_icefall_at_most(r, "columns", s->d, STENO_ICEFALL_MAX_COLUMNS);
    steno_icefall_at_most(r, "taps of a convolution", s->kernel, STENO_ICEFALL_MAX_KERNEL);
    if (!r->st && (s->heads * s->query != s->d || s->kernel % 2 == 0 || s->d % 2))
        r->st =
            steno_fail(r->err, STENO_ERR_FORMAT,
                       "%s: %lld heads of %lld columns, %lld columns, convolutions of %lld taps "
                       "do not fit together",
                       r->w->file, (long long)s->heads, (long long)s->query, (long long)s->d,
                       (long long)s->kernel);
}

/* What only conformer_ctc may have. */
static void read_plain(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    if (*a->at) {
        r->st = steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                           "%s: a Conformer transducer without scaled weights "
                           "(transducer_stateless, pruned_transducer_stateless); those of "
                           "pruned_transducer_stateless2 to 5 can be converted",
                           r->w->file);
        return;
    }
    a->feat_norm = steno_icefall_has(r, "feat_batchnorm.weight");
    a->norm_after = !steno_icefall_has(r, "after_norm.weight");
    /* with norms behind the parts it is there, and not used */
    for (int64_t i = 0; a->norm_after && i < a->stack[0].layers; i++)
        if (!steno_icefall_has(r, "encoder.layers.%d.norm_final.bias", (int)i))
            break;
}

/* Options of these recipes; the others are Zipformer's. */
static void compare_conformer(struct steno_icefall_reader *r)
{
    static const char known[] =
        "num-encoder-layers, encoder-dim, num-heads, feedforward-dim, decoder-dim, joiner-dim, "
        "context-size, tokens, use-averaged-model, causal-convolution, left-context, "
        "right-context, decode-chunk-size";
    const struct steno_zipformer_stack *s = &r->a->stack[0];
    steno_icefall_only(r, known, "a Conformer");
    steno_icefall_compare(r, "num-encoder-layers", s->layers);
    steno_icefall_compare(r, "encoder-dim", s->d);
    steno_icefall_compare(r, "num-heads", s->heads);
    steno_icefall_compare(r, "feedforward-dim", s->ff[0]);
}

/* No shape says whether the convolutions of a Conformer are causal. */
static void read_conformer_chunks(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    static const char *const names[] = {"decode-chunk-size", "left-context", "right-context"};
    int64_t chunk, left, right;
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "causal-convolution", &a->causal, r->err);
    if (!r->st && a->plain && a->causal)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--causal-convolution 1: Conformers with batch normalization, as in "
                           "%s, have none",
                           r->w->file);
    for (int i = 0; i < 3 && !r->st && (!a->causal || a->ctc); i++)
        if (steno_convert_flag(r->o, names[i]))
            r->st = steno_fail(r->err, STENO_ERR_INVAL,
                               a->ctc ? "--%s: there is no layout for chunks of a Conformer with "
                                        "CTC; it takes whole recordings"
                                      : "--%s: only with --causal-convolution 1, which no shape "
                                        "tells, and which the training must have had",
                               names[i]);
    chunk = steno_icefall_one_number(r, names[0], a->causal && !a->ctc ? CHUNK : -1);
    left = steno_icefall_one_number(r, names[1], LEFT);
    right = steno_icefall_one_number(r, names[2], 0);
    if (!r->st && (!chunk || (chunk > 0 && (left < 1 || right < 0)) || chunk > 4096 ||
                   right > 4096 || left > 1 << 16))
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--decode-chunk-size %lld, --left-context %lld, --right-context %lld: "
                           "expected 1 to 4096 (or -1: whole recordings), 1 to 65536, and 0 to "
                           "4096",
                           (long long)chunk, (long long)left, (long long)right);
    if (r->st || chunk < 0)
        return;
    a->chunk = chunk;
    a->left = left;
    a->right = right;
}

steno_status steno_icefall_read_conformer(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    read_conformer(r);
    if (!r->st && a->plain)
        read_plain(r);
    if (!r->st)
        compare_conformer(r);
    a->ctc_layer = *a->at ? "ctc_output_module.1" : "encoder_output_layer.1";
    a->ctc = !*a->at || steno_icefall_has(r, "%s.weight", a->ctc_layer);
    if (!r->st && a->ctc)
        a->vocab = steno_icefall_extent(r, 0, "%s.weight", a->ctc_layer);
    else if (!r->st)
        steno_icefall_read_transducer(r);
    if (!r->st)
        read_conformer_chunks(r);
    return r->st;
}
