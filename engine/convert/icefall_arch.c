#include "convert/icefall_arch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The defaults of icefall's train.py for what no shape says. */
#define QUERY 32
#define VALUE 12
#define POS 4
/* Larger than any model; they bound what is computed here. */
#define MAX_EXTENT (1 << 20)
#define MAX_COLUMNS 16384
#define MAX_KERNEL 1023
#define MAX_POSITION_COLUMNS 4096
/* The defaults of its export scripts. */
#define CHUNK 16
#define LEFT 128

struct reader {
    const struct steno_make_weights *w;
    const struct steno_convert_options *o;
    struct steno_icefall_arch *a;
    steno_err *err;
    steno_status st; /* the first failure */
};

/* ---- weights ------------------------------------------------------------------------------- */

static const struct steno_torch_tensor *find(const struct reader *r, const char *fmt, va_list ap)
{
    char name[256];
    const int n = snprintf(name, sizeof name, "%s", r->w->root);
    vsnprintf(name + n, sizeof name - (size_t)n, fmt, ap);
    return r->w->find ? r->w->find(r->w->of, name) : steno_torch_find(r->w->torch, name);
}

static bool STENO_PRINTF(2, 3) has(const struct reader *r, const char *fmt, ...)
{
    const struct steno_torch_tensor *t;
    va_list ap;
    va_start(ap, fmt);
    t = find(r, fmt, ap);
    va_end(ap);
    return t != NULL;
}

/* Extent `axis` of a weight, which must be there and have it. */
static int64_t STENO_PRINTF(3, 4) extent(struct reader *r, int axis, const char *fmt, ...)
{
    const struct steno_torch_tensor *t;
    char name[200];
    va_list ap;
    if (r->st)
        return 1;
    va_start(ap, fmt);
    t = find(r, fmt, ap);
    va_end(ap);
    if (t && axis < t->rank && t->dim[axis] > 0 && t->dim[axis] <= MAX_EXTENT)
        return t->dim[axis];
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    r->st =
        t ? steno_fail(r->err, STENO_ERR_FORMAT, "%s: '%s%s' has another shape than in Zipformer",
                       r->w->file, r->w->root, name)
          : steno_fail(r->err, STENO_ERR_FORMAT, "%s: '%s%s' is missing: every Zipformer has it",
                       r->w->file, r->w->root, name);
    return 1;
}

/* A limit of our own. */
static void at_most(struct reader *r, const char *what, int64_t is, int64_t most)
{
    if (!r->st && is > most)
        r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: %lld %s, at most %lld are read",
                           r->w->file, (long long)is, what, (long long)most);
}

/* ---- options ------------------------------------------------------------------------------- */

steno_status steno_icefall_flag(const struct steno_convert_options *o, const char *name, bool *out,
                                steno_err *err)
{
    static const char *const yes[] = {"1", "true", "yes", "t", "y"}, *const no[] = {"0", "false",
                                                                                    "no", "f", "n"};
    const char *v = steno_convert_flag(o, name);
    for (size_t i = 0; v && i < sizeof yes / sizeof *yes; i++)
        if (!strcasecmp(v, yes[i]) || !strcasecmp(v, no[i])) {
            *out = !strcasecmp(v, yes[i]);
            return STENO_OK;
        }
    return v ? steno_fail(err, STENO_ERR_INVAL, "--%s: '%.40s' is neither 1 nor 0", name, v)
             : STENO_OK;
}

/* The numbers of an option, "2,2,3"; 0: it is not given. */
static int64_t numbers(struct reader *r, const char *name, int64_t min,
                       int64_t out[STENO_ZIPFORMER_STACKS])
{
    const char *text = steno_convert_flag(r->o, name), *p = text;
    int64_t n = 0;
    while (p && !r->st) {
        char *end;
        errno = 0;
        const long long v = strtoll(p, &end, 10);
        if (errno || end == p || v < min || v > MAX_EXTENT || n == STENO_ZIPFORMER_STACKS ||
            (*end && *end != ','))
            r->st = steno_fail(r->err, STENO_ERR_INVAL,
                               "--%s: '%.80s' is not a list of 1 to %d numbers of at least %d",
                               name, text, STENO_ZIPFORMER_STACKS, (int)min);
        else
            out[n++] = v;
        p = *end == ',' ? end + 1 : NULL;
    }
    return r->st ? 0 : n;
}

/* A number of each stack, which the option may give once for all; false: it is not given. */
static bool per_stack(struct reader *r, const char *name, int64_t out[STENO_ZIPFORMER_STACKS])
{
    const int64_t n = numbers(r, name, 1, out);
    if (!n)
        return false;
    for (int64_t i = n; n == 1 && i < r->a->stacks; i++)
        out[i] = out[0];
    if (n != 1 && n != r->a->stacks)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--%s: %lld numbers, but %s has %lld stacks of layers", name,
                           (long long)n, r->w->file, (long long)r->a->stacks);
    return !r->st;
}

/* An option must say what the weights say. */
static void agree(struct reader *r, const char *name, int64_t stack, int64_t said, int64_t is)
{
    if (r->st || said == is)
        return;
    if (stack < 0)
        r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: %lld, but %s has %lld", name,
                           (long long)said, r->w->file, (long long)is);
    else
        r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: stack %lld: %lld, but %s has %lld", name,
                           (long long)stack + 1, (long long)said, r->w->file, (long long)is);
}

/* ---- stacks -------------------------------------------------------------------------------- */

/* Where the layers of a stack are. */
static void layers_at(const struct steno_zipformer_stack *s, int64_t i, char out[64])
{
    snprintf(out, 64, "encoder.encoders.%d.%slayers", (int)i,
             s->downsampling == 1 ? "" : "encoder.");
}

static void read_stack(struct reader *r, int64_t i)
{
    struct steno_zipformer_stack *s = &r->a->stack[i];
    char at[64];
    s->downsampling = 1;
    if (has(r, "encoder.encoders.%d.downsample.bias", (int)i))
        s->downsampling = extent(r, 0, "encoder.encoders.%d.downsample.bias", (int)i);
    layers_at(s, i, at);
    while (has(r, "%s.%d.norm.bias", at, (int)s->layers))
        s->layers++;
    if (s->layers > STENO_ZIPFORMER_LAYERS)
        r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: a stack of more than %d layers",
                           r->w->file, STENO_ZIPFORMER_LAYERS);
    s->d = extent(r, 0, "%s.0.norm.bias", at);
    for (int k = 0; k < 3; k++)
        s->ff[k] = extent(r, 0, "%s.0.feed_forward%d.in_proj.weight", at, k + 1);
    s->kernel = extent(r, 2, "%s.0.conv_module1.depthwise_conv%s.weight", at,
                       r->a->causal ? ".chunkwise_conv" : "");
    at_most(r, "columns", s->d, MAX_COLUMNS);
    at_most(r, "taps of a convolution", s->kernel, MAX_KERNEL);
    if (!r->st && s->kernel % 2 == 0)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT, "%s: a convolution of %lld taps, not odd",
                           r->w->file, (long long)s->kernel);
}

static void read_stacks(struct reader *r)
{
    struct steno_icefall_arch *a = r->a;
    char at[64];
    a->causal =
        has(r, "encoder.encoders.0.layers.0.conv_module1.depthwise_conv.causal_conv.weight");
    while (!r->st && (has(r, "encoder.encoders.%d.layers.0.norm.bias", (int)a->stacks) ||
                      has(r, "encoder.encoders.%d.encoder.layers.0.norm.bias", (int)a->stacks))) {
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
    a->pos_dim = extent(r, 1, "%s.0.self_attn_weights.linear_pos.weight", at);
    at_most(r, "columns of positions", a->pos_dim, MAX_POSITION_COLUMNS);
}

/* ---- heads --------------------------------------------------------------------------------- */

/* Columns of all heads of a stack. */
struct columns {
    int64_t query, value, pos;
};

static struct columns columns_of(struct reader *r, int64_t i)
{
    struct columns c;
    char at[64];
    layers_at(&r->a->stack[i], i, at);
    c.pos = extent(r, 0, "%s.0.self_attn_weights.linear_pos.weight", at);
    c.query = (extent(r, 0, "%s.0.self_attn_weights.in_proj.weight", at) - c.pos) / 2;
    c.value = extent(r, 0, "%s.0.self_attn1.in_proj.weight", at);
    return c;
}

/* No shape says into how many heads columns are divided. One of four options does; without them, it
 * is told by the default sizes of a head, if all three lead to the same number. */
static void divide(struct reader *r, int64_t i, const struct columns *c, const bool given[4],
                   int64_t option[4][STENO_ZIPFORMER_STACKS])
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

static void read_heads(struct reader *r)
{
    static const char *const names[] = {"num-heads", "query-head-dim", "value-head-dim",
                                        "pos-head-dim"};
    int64_t option[4][STENO_ZIPFORMER_STACKS];
    bool given[4];
    for (int k = 0; k < 4; k++)
        given[k] = per_stack(r, names[k], option[k]);
    for (int64_t i = 0; i < r->a->stacks && !r->st; i++) {
        const struct steno_zipformer_stack *s = &r->a->stack[i];
        const struct columns c = columns_of(r, i);
        if (!r->st)
            divide(r, i, &c, given, option);
        for (int k = 0; k < 4; k++) {
            const int64_t is[] = {s->heads, s->query, s->value, s->pos};
            if (given[k])
                agree(r, names[k], i, option[k][i], is[k]);
        }
    }
}

/* Options that repeat what the weights say: a wrong one tells of a wrong checkpoint. */
static void compare_stacks(struct reader *r)
{
    static const char *const names[] = {"num-encoder-layers", "downsampling-factor", "encoder-dim",
                                        "feedforward-dim", "cnn-module-kernel"};
    int64_t option[STENO_ZIPFORMER_STACKS];
    for (int k = 0; k < 5; k++) {
        if (!per_stack(r, names[k], option))
            continue;
        for (int64_t i = 0; i < r->a->stacks; i++) {
            const struct steno_zipformer_stack *s = &r->a->stack[i];
            const int64_t is[] = {s->layers, s->downsampling, s->d, s->ff[1], s->kernel};
            agree(r, names[k], i, option[i], is[k]);
        }
    }
}

static void compare(struct reader *r, const char *name, int64_t is)
{
    int64_t v[STENO_ZIPFORMER_STACKS];
    if (numbers(r, name, 1, v))
        agree(r, name, -1, v[0], is);
}

/* ---- Conformer ----------------------------------------------------------------------------- */

/* The channels of the embedding's convolutions. */
static void read_conformer_embedding(struct reader *r)
{
    static const int scaled[] = {0, 3, 6}, plain[] = {0, 0, 2};
    for (int i = r->a->plain; i < 3; i++)
        r->a->conv[i] = extent(r, 0, "%sencoder_embed.conv.%d.weight", r->a->at,
                               r->a->plain ? plain[i] : scaled[i]);
}

/* All is in shapes, the heads too. */
static void read_conformer(struct reader *r)
{
    struct steno_zipformer_stack *s = &r->a->stack[0];
    const char *norm;
    char first[40];
    snprintf(first, sizeof first, "%sencoder.layers.0", r->a->at);
    r->a->stacks = 1;
    s->downsampling = 1;
    r->a->plain = has(r, "%s.norm_ff.weight", first);
    norm = r->a->plain ? "weight" : "eps";
    while (has(r, "%sencoder.layers.%d.norm_final.%s", r->a->at, (int)s->layers, norm))
        s->layers++;
    if (!s->layers)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: '%s%s.norm_final.%s' is missing: every Conformer has it",
                           r->w->file, r->w->root, first, norm);
    at_most(r, "layers", s->layers, STENO_ZIPFORMER_LAYERS);
    read_conformer_embedding(r);
    s->d = r->a->out = extent(r, 0, "%s.self_attn.out_proj.weight", first);
    s->ff[0] = s->ff[1] = extent(r, 0, "%s.feed_forward.0.weight", first);
    s->kernel = extent(r, 2, "%s.conv_module.depthwise_conv.weight", first);
    s->heads = extent(r, 0, "%s.self_attn.pos_bias_u", first);
    s->query = extent(r, 1, "%s.self_attn.pos_bias_u", first);
    at_most(r, "columns", s->d, MAX_COLUMNS);
    at_most(r, "taps of a convolution", s->kernel, MAX_KERNEL);
    if (!r->st && (s->heads * s->query != s->d || s->kernel % 2 == 0 || s->d % 2))
        r->st =
            steno_fail(r->err, STENO_ERR_FORMAT,
                       "%s: %lld heads of %lld columns, %lld columns, convolutions of %lld taps "
                       "do not fit together",
                       r->w->file, (long long)s->heads, (long long)s->query, (long long)s->d,
                       (long long)s->kernel);
}

/* What only conformer_ctc may have. */
static void read_plain(struct reader *r)
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
    a->feat_norm = has(r, "feat_batchnorm.weight");
    a->norm_after = !has(r, "after_norm.weight");
    /* with norms behind the parts it is there, and not used */
    for (int64_t i = 0; a->norm_after && i < a->stack[0].layers; i++)
        if (!has(r, "encoder.layers.%d.norm_final.bias", (int)i))
            break;
}

/* Options of these recipes; the others are Zipformer's. */
static void compare_conformer(struct reader *r)
{
    static const char *const known[] = {
        "num-encoder-layers", "encoder-dim",        "num-heads",    "feedforward-dim",
        "decoder-dim",        "joiner-dim",         "context-size", "tokens",
        "use-averaged-model", "causal-convolution", "left-context", "right-context",
        "decode-chunk-size"};
    const struct steno_zipformer_stack *s = &r->a->stack[0];
    for (int i = 0; i < r->o->n_flags && !r->st; i++) {
        bool is_known = !r->o->flag[i].value;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            is_known |= !strcmp(r->o->flag[i].name, known[k]);
        if (!is_known)
            r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: %s is a Conformer, which has none",
                               r->o->flag[i].name, r->w->file);
    }
    compare(r, known[0], s->layers);
    compare(r, known[1], s->d);
    compare(r, known[2], s->heads);
    compare(r, known[3], s->ff[0]);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void read_embedding(struct reader *r)
{
    static const int at[] = {0, 4, 7};
    for (int i = 0; i < 3; i++)
        r->a->conv[i] = extent(r, 0, "encoder_embed.conv.%d.weight", at[i]);
    r->a->hidden = extent(r, 0, "encoder_embed.convnext.pointwise_conv1.weight");
}

static void read_transducer(struct reader *r)
{
    struct steno_icefall_arch *a = r->a;
    int64_t group;
    a->vocab = extent(r, 0, "decoder.embedding.weight");
    a->decoder = extent(r, 1, "decoder.embedding.weight");
    a->joiner = extent(r, 0, "joiner.encoder_proj.weight");
    a->context = a->group = 1;
    if (has(r, "decoder.conv.weight")) {
        a->context = extent(r, 2, "decoder.conv.weight");
        group = extent(r, 1, "decoder.conv.weight");
        if (!r->st && a->decoder % group)
            r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                               "%s: '%sdecoder.conv.weight': groups of %lld of %lld columns",
                               r->w->file, r->w->root, (long long)group, (long long)a->decoder);
        a->group = group;
    }
    compare(r, "decoder-dim", a->decoder);
    compare(r, "joiner-dim", a->joiner);
    compare(r, "context-size", a->context);
}

/* A checkpoint may have both. */
static void read_outputs(struct reader *r)
{
    struct steno_icefall_arch *a = r->a;
    const bool transducer =
        has(r, "joiner.output_linear.weight") || has(r, "decoder.embedding.weight");
    bool use_transducer = transducer, use_ctc = !transducer;
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "use-transducer", &use_transducer, r->err);
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "use-ctc", &use_ctc, r->err);
    if (!r->st && !use_transducer && !use_ctc)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--use-transducer 0 without --use-ctc 1: there is nothing to write");
    a->ctc = !use_transducer;
    if (a->ctc)
        a->vocab = extent(r, 0, "ctc_output.1.weight");
    else
        read_transducer(r);
}

/* Chunks must fit the rate of every stack. */
static void check_chunks(struct reader *r)
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

/* One number of an option that lists several for the training; -1: the whole recording. */
static int64_t one_number(struct reader *r, const char *name, int64_t otherwise)
{
    int64_t v[STENO_ZIPFORMER_STACKS];
    const int64_t n = numbers(r, name, -1, v);
    if (n > 1)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--%s: give one number, that of the model to write", name);
    return n ? v[0] : otherwise;
}

static void read_chunks(struct reader *r)
{
    struct steno_icefall_arch *a = r->a;
    bool causal = a->causal;
    const int64_t chunk = one_number(r, "chunk-size", a->causal ? CHUNK : -1);
    const int64_t left = one_number(r, "left-context-frames", LEFT);
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

/* No shape says whether the convolutions of a Conformer are causal. */
static void read_conformer_chunks(struct reader *r)
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
    chunk = one_number(r, names[0], a->causal && !a->ctc ? CHUNK : -1);
    left = one_number(r, names[1], LEFT / 2);
    right = one_number(r, names[2], 0);
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

static steno_status read_conformer_arch(struct reader *r)
{
    struct steno_icefall_arch *a = r->a;
    read_conformer(r);
    if (!r->st && a->plain)
        read_plain(r);
    if (!r->st)
        compare_conformer(r);
    a->ctc_layer = *a->at ? "ctc_output_module.1" : "encoder_output_layer.1";
    a->ctc = !*a->at || has(r, "%s.weight", a->ctc_layer);
    if (!r->st && a->ctc)
        a->vocab = extent(r, 0, "%s.weight", a->ctc_layer);
    else if (!r->st)
        read_transducer(r);
    if (!r->st)
        read_conformer_chunks(r);
    return r->st;
}

steno_status steno_icefall_read_arch(const struct steno_make_weights *w,
                                     const struct steno_convert_options *o,
                                     struct steno_icefall_arch *out, steno_err *err)
{
    struct reader r = {.w = w, .o = o, .a = out, .err = err};
    *out = (struct steno_icefall_arch){0};
    out->at = "";
    out->ctc_layer = "ctc_output.1";
    if (has(&r, "encoder.encoder.layers.0.self_attn.pos_bias_u"))
        out->at = "encoder.";
    out->conformer = has(&r, "%sencoder.layers.0.self_attn.pos_bias_u", out->at);
    if (out->conformer)
        return read_conformer_arch(&r);
    read_stacks(&r);
    if (!r.st)
        compare_stacks(&r);
    if (!r.st)
        read_heads(&r);
    if (!r.st)
        compare(&r, "pos-dim", out->pos_dim);
    if (!r.st)
        read_embedding(&r);
    if (!r.st)
        read_outputs(&r);
    if (!r.st)
        read_chunks(&r);
    return r.st;
}
