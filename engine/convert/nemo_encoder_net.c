/* nemo/collections/asr/modules/conformer_encoder.py of NeMo 3.0.0: FastConformer and Conformer, for
 * padded batches of whole utterances or, with caches, for one chunk of each stream.
 *
 * Frames behind an utterance's length are hidden as in NeMo: the subsampling multiplies them by
 * zero, attention gives them -10000 before the softmax and zero behind it, and the depthwise
 * convolutions see zeros. Their own outputs are not NeMo's, since nothing reads them. */
#include "convert/nemo_graphs.h"

#include <math.h>
#include <stdio.h>

#define EPSILON 1e-5f
#define HIDDEN -10000.0f
#define MAX_LAYERS 256

/* What all layers share. */
struct frame {
    const struct steno_nemo_arch *a;
    steno_value_id hidden;    /* [B,1,T or 1,keys] bool: not to be seen by attention */
    steno_value_id padding;   /* [B,1,T] bool: behind the end */
    steno_value_id positions; /* [1,2 keys - 1,d] */
    steno_value_id channel,
        time; /* caches [B,left,d], [B,d,before] of a layer, then its next ones */
};

int64_t steno_nemo_shift(const struct steno_nemo_arch *a)
{
    return a->factor * (a->right + 1);
}

/* Before the chunk come the frames that its first convolutions need. */
int64_t steno_nemo_window(const struct steno_nemo_arch *a)
{
    return steno_nemo_shift(a) + a->factor + 1;
}

/* ---- values -------------------------------------------------------------------------------- */

static steno_value_id zero(struct steno_make *m)
{
    return steno_make_ints(m, 1, (int64_t[]){0});
}

static steno_value_id to_scalar(struct steno_make *m, steno_value_id x)
{
    return steno_make_2(m, "Squeeze", x, zero(m));
}

static steno_value_id cast(struct steno_make *m, steno_value_id x, int64_t to)
{
    const struct steno_attr a = {.name = "to", .kind = STENO_ATTR_INT, .i = to};
    return steno_make_node(m, "Cast", 1, &x, 1, &a);
}

/* 0, 1, .. n - 1; n [1]. */
static steno_value_id range(struct steno_make *m, steno_value_id n)
{
    const steno_value_id in[] = {steno_make_int(m, 0), to_scalar(m, n), steno_make_int(m, 1)};
    return steno_make_node(m, "Range", 3, in, 0, NULL);
}

static steno_value_id where(struct steno_make *m, steno_value_id condition, float x,
                            steno_value_id y)
{
    const steno_value_id in[] = {condition, steno_make_number(m, x), y};
    return steno_make_node(m, "Where", 3, in, 0, NULL);
}

/* [B,n] bool: frame i is before length [B]. */
static steno_value_id present(struct steno_make *m, steno_value_id n, steno_value_id length)
{
    return steno_make_2(m, "Less", range(m, n), steno_make_unsqueeze(m, length, 1));
}

/* ---- subsampling --------------------------------------------------------------------------- */

enum { ONNX_FLOAT = 1 };

static steno_value_id pad_frames(struct steno_make *m, steno_value_id x, steno_value_id n)
{
    /* [0, 0, 0, 0, n, 0]: n frames at the end of [B,T,F] */
    steno_value_id pads =
        steno_make_concat(m, 0, steno_make_ints(m, 4, (int64_t[]){0, 0, 0, 0}), n);
    return steno_make_2(m, "Pad", x, steno_make_concat(m, 0, pads, zero(m)));
}

static steno_value_id stack(struct steno_make *m, steno_value_id x, steno_value_id *length,
                            const struct steno_nemo_arch *a)
{
    steno_value_id by = steno_make_ints(m, 1, &a->factor), n;
    n = steno_make_2(m, "Mod", steno_make_1(m, "Neg", steno_make_extent_of(m, x, 1)), by);
    x = pad_frames(m, x, n);
    if (a->subsampling == STENO_NEMO_STACKING_NORM)
        x = steno_make_norm(m, x, "pre_norm", a->in, EPSILON);
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, -1, a->factor * a->in});
    *length = steno_make_2(m, "Div", steno_make_add(m, *length, n), by);
    return steno_make_linear(m, x, "proj_out", a->factor * a->in, a->d, true);
}

/* One convolution of stride 2 over [B,C,T,F], whose padding frames become zeros first. */
static steno_value_id halve(struct steno_make *m, steno_value_id x, const char *name,
                            steno_value_id *length, int64_t in, int64_t groups,
                            const struct steno_nemo_arch *a)
{
    static const int64_t causal[] = {2, 2, 1, 1}, even[] = {1, 1, 1, 1};
    const struct steno_make_conv c = {.rank = 2,
                                      .in = in,
                                      .out = a->channels,
                                      .kernel = 3,
                                      .stride = 2,
                                      .pads = a->causal ? causal : even,
                                      .groups = groups,
                                      .bias = true};
    const int64_t two = 2;
    steno_value_id mask = present(m, steno_make_extent_of(m, x, 2), *length);
    mask = cast(m, steno_make_unsqueeze(m, steno_make_unsqueeze(m, mask, 1), 3), ONNX_FLOAT);
    x = steno_make_convolve(m, steno_make_2(m, "Mul", x, mask), name, &c);
    /* (n + pads - 3) / 2 + 1 */
    *length = steno_make_add(m, *length, steno_make_ints(m, 1, (int64_t[]){a->causal ? 2 : 1}));
    *length = steno_make_2(m, "Div", *length, steno_make_ints(m, 1, &two));
    return x;
}

static steno_value_id convolve(struct steno_make *m, steno_value_id x, steno_value_id *length,
                               const struct steno_nemo_arch *a)
{
    const bool depthwise = a->subsampling == STENO_NEMO_DW_STRIDING;
    const struct steno_make_conv point = {
        .rank = 2, .in = a->channels, .out = a->channels, .kernel = 1, .stride = 1, .bias = true};
    int64_t bands = a->in, c = a->channels;
    int at = 0;
    char name[32];
    x = steno_make_unsqueeze(m, x, 1);
    for (int64_t factor = a->factor; factor > 1; factor /= 2) {
        const bool first = factor == a->factor;
        snprintf(name, sizeof name, "conv.%d", at++);
        x = halve(m, x, name, length, first ? 1 : c, first || !depthwise ? 1 : c, a);
        if (!first && depthwise) {
            snprintf(name, sizeof name, "conv.%d", at++);
            x = steno_make_convolve(m, x, name, &point);
        }
        x = steno_make_1(m, "Relu", x);
        at++;
        bands = (bands + (a->causal ? 2 : 1)) / 2;
    }
    x = steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 1, 3});
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, -1, c * bands});
    return steno_make_linear(m, x, "out", c * bands, a->d, true);
}

/* [B,bands,T] -> [B,T',d]; *length follows. */
static steno_value_id subsample(struct steno_make *m, steno_value_id x, steno_value_id *length,
                                const struct steno_nemo_arch *a)
{
    x = steno_make_transpose(m, x, 3, (int64_t[]){0, 2, 1});
    if (a->subsampling == STENO_NEMO_LINEAR) {
        steno_make_at(m, "encoder.");
        return steno_make_linear(m, x, "pre_encode", a->in, a->d, true);
    }
    steno_make_at(m, "encoder.pre_encode.");
    if (a->subsampling == STENO_NEMO_STACKING || a->subsampling == STENO_NEMO_STACKING_NORM)
        return stack(m, x, length, a);
    return convolve(m, x, length, a);
}

/* ---- attention ----------------------------------------------------------------------------- */

static steno_value_id project(struct steno_make *m, steno_value_id x, const char *name,
                              const struct steno_nemo_arch *a)
{
    x = steno_make_linear(m, x, name, a->d, a->d, a->bias);
    return steno_make_reshape(m, x, 4, (int64_t[]){0, -1, a->heads, a->d / a->heads});
}

static steno_value_id rows(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 1, 3});
}

static steno_value_id columns(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 3, 1});
}

static steno_value_id with_bias(struct steno_make *m, steno_value_id q, const char *bias,
                                const struct steno_nemo_arch *a)
{
    steno_value_id b = steno_make_param(m, bias, 2, (int64_t[]){a->heads, a->d / a->heads});
    return rows(m, steno_make_add(m, q, b));
}

static steno_value_id attend(struct steno_make *m, steno_value_id x, struct frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id q = project(m, x, "self_attn.linear_q", a), all = x, scores, v, y;
    if (a->streaming) {
        all = steno_make_concat(m, 1, f->channel, x);
        f->channel = steno_make_slice(m, all, 1, -a->left, INT64_MAX);
    }
    y = columns(m, project(m, all, "self_attn.linear_k", a));
    v = rows(m, project(m, all, "self_attn.linear_v", a));
    if (a->rel) {
        steno_value_id p =
            steno_make_linear(m, f->positions, "self_attn.linear_pos", a->d, a->d, false);
        p = steno_make_reshape(m, p, 4, (int64_t[]){0, -1, a->heads, a->d / a->heads});
        p = steno_make_2(m, "MatMul", with_bias(m, q, "self_attn.pos_bias_v", a), columns(m, p));
        y = steno_make_2(m, "MatMul", with_bias(m, q, "self_attn.pos_bias_u", a), y);
        scores = steno_make_add(m, y, steno_make_shift(m, p, true));
    } else {
        scores = steno_make_2(m, "MatMul", rows(m, q), y);
    }
    scores = steno_make_2(m, "Div", scores, steno_make_number(m, sqrtf((float)(a->d / a->heads))));
    scores = steno_make_softmax(m, "Softmax", where(m, f->hidden, HIDDEN, scores), -1);
    y = steno_make_2(m, "MatMul", where(m, f->hidden, 0, scores), v);
    y = steno_make_reshape(m, rows(m, y), 3, (int64_t[]){0, -1, a->d});
    return steno_make_linear(m, y, "self_attn.linear_out", a->d, a->d, a->bias);
}

/* ---- layers -------------------------------------------------------------------------------- */

static steno_value_id feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                   const struct steno_nemo_arch *a)
{
    char part[48];
    snprintf(part, sizeof part, "%s.linear1", name);
    x = steno_make_activation(m, steno_make_linear(m, x, part, a->d, a->ff, a->bias), "swish");
    snprintf(part, sizeof part, "%s.linear2", name);
    return steno_make_linear(m, x, part, a->ff, a->d, a->bias);
}

static steno_value_id turn(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 3, (int64_t[]){0, 2, 1});
}

static steno_value_id depthwise(struct steno_make *m, steno_value_id x, struct frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    const int64_t pads[] = {a->streaming ? 0 : a->before, a->kernel - 1 - a->before};
    const struct steno_make_conv c = {.rank = 1,
                                      .in = a->d,
                                      .out = a->d,
                                      .kernel = a->kernel,
                                      .stride = 1,
                                      .pads = pads,
                                      .groups = a->d,
                                      .bias = a->bias,
                                      .batch_norm = a->layer_norm ? NULL : "conv.batch_norm"};
    if (a->streaming) {
        x = steno_make_concat(m, 2, f->time, x);
        f->time = steno_make_slice(m, x, 2, -a->before, INT64_MAX);
    }
    x = steno_make_convolve(m, x, "conv.depthwise_conv", &c);
    if (a->layer_norm)
        x = turn(m, steno_make_norm(m, turn(m, x), "conv.batch_norm", a->d, EPSILON));
    return steno_make_activation(m, x, "swish");
}

static steno_value_id convolution(struct steno_make *m, steno_value_id x, struct frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    struct steno_make_conv c = {
        .rank = 1, .in = a->d, .out = 2 * a->d, .kernel = 1, .stride = 1, .bias = a->bias};
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    steno_value_id half[2];
    x = steno_make_convolve(m, turn(m, x), "conv.pointwise_conv1", &c);
    steno_make_outputs(m, "Split", 1, &x, 2, half, 1, &axis);
    x = steno_make_2(m, "Mul", half[0], steno_make_1(m, "Sigmoid", half[1]));
    x = depthwise(m, where(m, f->padding, 0, x), f);
    c.out = a->d;
    return turn(m, steno_make_convolve(m, x, "conv.pointwise_conv2", &c));
}

static steno_value_id norm(struct steno_make *m, steno_value_id x, const char *name,
                           const struct frame *f)
{
    return steno_make_norm(m, x, name, f->a->d, EPSILON);
}

static steno_value_id layer(struct steno_make *m, steno_value_id x, struct frame *f)
{
    steno_value_id y = feed_forward(m, norm(m, x, "norm_feed_forward1", f), "feed_forward1", f->a);
    x = steno_make_add(m, x, steno_make_scale(m, y, 0.5f));
    x = steno_make_add(m, x, attend(m, norm(m, x, "norm_self_att", f), f));
    x = steno_make_add(m, x, convolution(m, norm(m, x, "norm_conv", f), f));
    y = feed_forward(m, norm(m, x, "norm_feed_forward2", f), "feed_forward2", f->a);
    x = steno_make_add(m, x, steno_make_scale(m, y, 0.5f));
    return norm(m, x, "norm_out", f);
}

/* ---- what frames see ----------------------------------------------------------------------- */

/* [1,1,n,n] bool: frame i does not see frame j. */
static steno_value_id out_of_sight(struct steno_make *m, steno_value_id n,
                                   const struct steno_nemo_arch *a)
{
    int64_t left = a->left, right = a->right;
    steno_value_id i = range(m, n), by, far = STENO_NONE, y;
    const bool chunked = a->chunked && right >= 0;
    if (chunked) {
        const int64_t chunk = right + 1;
        i = steno_make_2(m, "Div", i, steno_make_int(m, chunk));
        left = left < 0 ? left : left / chunk;
        right = 0;
    }
    by = steno_make_2(m, "Sub", steno_make_unsqueeze(m, i, 1), steno_make_unsqueeze(m, i, 0));
    if (left >= 0)
        far = steno_make_2(m, "Greater", by, steno_make_int(m, left));
    if (right >= 0) {
        y = steno_make_2(m, "Less", by, steno_make_int(m, -right));
        far = far == STENO_NONE ? y : steno_make_2(m, "Or", far, y);
    }
    return steno_make_unsqueeze(m, steno_make_unsqueeze(m, far, 0), 0);
}

/* Set f->hidden and f->padding for x [B,T,d] with `length` frames; filled: the frames of the cache
 * that are there, [B], if there is one. */
static void see(struct steno_make *m, struct frame *f, steno_value_id x, steno_value_id length,
                steno_value_id filled)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id n = steno_make_extent_of(m, x, 1), beyond, y;
    beyond = steno_make_1(m, "Not", present(m, n, length));
    f->padding = steno_make_unsqueeze(m, beyond, 1);
    if (!a->streaming) {
        f->hidden = steno_make_unsqueeze(m, f->padding, 1);
        if (a->left >= 0 || a->right >= 0)
            f->hidden = steno_make_2(m, "Or", f->hidden, out_of_sight(m, n, a));
        return;
    }
    /* the filled frames of the cache are its last ones; a chunk sees all of them, and itself */
    y = steno_make_2(m, "Sub", steno_make_ints(m, 1, &a->left), filled);
    y = present(m, steno_make_ints(m, 1, &a->left), y);
    y = steno_make_concat(m, 1, y, beyond);
    f->hidden = steno_make_unsqueeze(m, steno_make_unsqueeze(m, y, 1), 1);
}

/* Rows of the relative positions keys - 1 down to 1 - keys, keys [1]. */
static steno_value_id positions(struct steno_make *m, steno_value_id keys,
                                const struct steno_nemo_arch *a)
{
    const int64_t center = a->positions - 1, one = center + 1;
    steno_value_id table =
        steno_make_sinusoids(m, "pe", 2 * a->positions - 1, a->d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), keys),
                          steno_make_add(m, steno_make_ints(m, 1, &center), keys));
}

static steno_value_id place(struct steno_make *m, struct frame *f, steno_value_id x)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id n = steno_make_extent_of(m, x, 1);
    if (a->xscale)
        x = steno_make_scale(m, x, sqrtf((float)a->d));
    if (a->streaming)
        n = steno_make_add(m, n, steno_make_ints(m, 1, &a->left));
    if (a->rel)
        f->positions = positions(m, n, a);
    else
        x = steno_make_add(m, x,
                           steno_make_cut(m,
                                          steno_make_sinusoids(m, "pe", a->positions, a->d, 0, 1),
                                          1, zero(m), n));
    return x;
}

/* ---- caches -------------------------------------------------------------------------------- */

struct caches {
    steno_value_id channel, time, length; /* [B,layers,left,d], [B,layers,d,before], [B] */
    steno_value_id next_channel, next_time;
    int64_t channel_dim[4], time_dim[4], batch;
};

static void take_caches(struct steno_make *m, struct caches *c, int64_t batch,
                        const struct steno_nemo_arch *a)
{
    *c = (struct caches){.channel_dim = {batch, a->layers, a->left, a->d},
                         .time_dim = {batch, a->layers, a->d, a->before},
                         .batch = batch,
                         .next_channel = STENO_NONE,
                         .next_time = STENO_NONE};
    c->channel = steno_make_input(m, "cache_last_channel", STENO_F32, 4, c->channel_dim);
    c->time = steno_make_input(m, "cache_last_time", STENO_F32, 4, c->time_dim);
    c->length = steno_make_input(m, "cache_last_channel_len", STENO_I64, 1, &batch);
}

static steno_value_id of_layer(struct steno_make *m, steno_value_id cache, int64_t i)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    return steno_make_node(m, "Gather", 2, (steno_value_id[]){cache, steno_make_int(m, i)}, 1,
                           &axis);
}

static void give_caches(struct steno_make *m, const struct caches *c, int64_t frames,
                        const struct steno_nemo_arch *a)
{
    steno_value_id n = steno_make_add(m, c->length, steno_make_ints(m, 1, &frames));
    n = steno_make_2(m, "Min", n, steno_make_ints(m, 1, &a->left));
    steno_make_output(m, c->next_channel, "cache_last_channel_next", STENO_F32, 4, c->channel_dim);
    steno_make_output(m, c->next_time, "cache_last_time_next", STENO_F32, 4, c->time_dim);
    steno_make_output(m, n, "cache_last_channel_next_len", STENO_I64, 1, &c->batch);
}

static steno_value_id stacked(struct steno_make *m, steno_value_id all, steno_value_id x)
{
    x = steno_make_unsqueeze(m, x, 1);
    return all == STENO_NONE ? x : steno_make_concat(m, 1, all, x);
}

static void streaming_layer(struct steno_make *m, steno_value_id *x, struct frame *f,
                            struct caches *c, int64_t i)
{
    f->channel = of_layer(m, c->channel, i);
    f->time = of_layer(m, c->time, i);
    *x = layer(m, *x, f);
    c->next_channel = stacked(m, c->next_channel, f->channel);
    c->next_time = stacked(m, c->next_time, f->time);
}

/* ---- the network --------------------------------------------------------------------------- */

static void metadata(struct steno_make *m, const struct steno_nemo_arch *a, const char *head)
{
    steno_make_meta(m, "vocab_size", "%lld", (long long)a->vocab);
    if (a->streaming) {
        steno_make_meta(m, "window_size", "%lld", (long long)steno_nemo_window(a));
        steno_make_meta(m, "chunk_size_ms", "%lld", (long long)(10 * steno_nemo_shift(a)));
        steno_make_meta(m, "chunk_shift", "%lld", (long long)steno_nemo_shift(a));
    }
    steno_make_meta(m, "normalize_type", "%s", a->normalize);
    if (a->streaming) {
        steno_make_meta(m, "cache_last_channel_dim1", "%lld", (long long)a->layers);
        steno_make_meta(m, "cache_last_channel_dim2", "%lld", (long long)a->left);
        steno_make_meta(m, "cache_last_channel_dim3", "%lld", (long long)a->d);
        steno_make_meta(m, "cache_last_time_dim1", "%lld", (long long)a->layers);
        steno_make_meta(m, "cache_last_time_dim2", "%lld", (long long)a->d);
        steno_make_meta(m, "cache_last_time_dim3", "%lld", (long long)a->before);
    }
    if (!head) {
        steno_make_meta(m, "pred_rnn_layers", "%lld", (long long)a->pred_layers);
        steno_make_meta(m, "pred_hidden", "%lld", (long long)a->pred);
    }
    steno_make_meta(m, "subsampling_factor", "%lld", (long long)a->factor);
    steno_make_meta(m, "feat_dim", "%lld", (long long)a->in);
    steno_make_meta(m, "model_type", "%s", a->model_type);
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "model_author", "NeMo");
    steno_make_meta(m, "url", "%s", a->url);
    steno_make_meta(m, "comment", "Only the %s branch is here", head ? "CTC" : "transducer");
}

/* [B,d,T] -> log-probabilities [B,T,vocab + 1]. */
static steno_value_id ctc(struct steno_make *m, steno_value_id x, const char *head,
                          const struct steno_nemo_arch *a)
{
    const struct steno_make_conv c = {
        .rank = 1, .in = a->out, .out = a->vocab + 1, .kernel = 1, .stride = 1, .bias = true};
    steno_make_at(m, "%s", head);
    m->asked = "the vocabulary";
    x = steno_make_convolve(m, x, "decoder_layers.0", &c);
    return steno_make_softmax(m, "LogSoftmax", turn(m, x), -1);
}

static void check_layers(struct steno_make *m, const struct steno_nemo_arch *a)
{
    steno_make_at(m, "encoder.layers.%d.", (int)a->layers);
    if (!m->st && steno_make_has(m, "norm_out.weight"))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: more than the %lld layers of encoder.n_layers", m->w.file,
                           (long long)a->layers);
}

steno_status steno_nemo_write_encoder(const struct steno_nemo_arch *a,
                                      const struct steno_make_weights *w, const char *head,
                                      const char *path, steno_err *err)
{
    struct frame f = {.a = a};
    struct caches c;
    struct steno_make m;
    steno_value_id x, length;
    int64_t batch, frames;
    if (a->layers > MAX_LAYERS)
        return steno_fail(err, STENO_ERR_LIMIT, "encoder.n_layers: more than %d", MAX_LAYERS);
    if (steno_make_begin(&m, w, 5, err))
        return m.st;
    m.asked = "encoder";
    batch = steno_make_symbol(&m, "batch");
    /* with a fixed window, runtimes compute the products with positions once, at load */
    frames = a->streaming ? steno_nemo_window(a) : steno_make_symbol(&m, "feature_frames");
    x = steno_make_input(&m, "audio_signal", STENO_F32, 3, (int64_t[]){batch, a->in, frames});
    length = steno_make_input(&m, "length", STENO_I64, 1, &batch);
    if (a->streaming)
        take_caches(&m, &c, batch, a);
    x = subsample(&m, x, &length, a);
    frames = a->streaming ? a->right + 1 : steno_make_symbol(&m, "frames");
    if (a->streaming) { /* the first ones are of the frames before the chunk */
        const int64_t drop = 2;
        x = steno_make_slice(&m, x, 1, drop, INT64_MAX);
        length = steno_make_2(&m, "Sub", length, steno_make_ints(&m, 1, &drop));
    }
    x = place(&m, &f, x);
    see(&m, &f, x, length, a->streaming ? c.length : STENO_NONE);
    for (int64_t i = 0; i < a->layers && !m.st; i++) {
        steno_make_at(&m, "encoder.layers.%d.", (int)i);
        if (a->streaming)
            streaming_layer(&m, &x, &f, &c, i);
        else
            x = layer(&m, x, &f);
    }
    check_layers(&m, a);
    steno_make_at(&m, "encoder.");
    if (a->out != a->d)
        x = steno_make_linear(&m, x, "out_proj", a->d, a->out, true);
    x = turn(&m, x);
    if (head)
        x = ctc(&m, x, head, a);
    steno_make_output(&m, x, head ? "logprobs" : "outputs", STENO_F32, 3,
                      head ? (int64_t[]){batch, frames, a->vocab + 1}
                           : (int64_t[]){batch, a->out, frames});
    if (!head || a->streaming)
        steno_make_output(&m, length, "encoded_lengths", STENO_I64, 1, &batch);
    if (a->streaming)
        give_caches(&m, &c, frames, a);
    metadata(&m, a, head);
    return steno_make_write(&m, path, NULL);
}
