/* wenet/transformer/{encoder,encoder_layer,attention,convolution,subsampling,embedding}.py of WeNet
 * at 01546996 (December 2025). Two forms of the encoder:
 *
 *     whole:  x [N,T,in], lengths [N]; every frame sees all frames of its utterance
 *     chunk:  x [1,T,in], position of the chunk, caches of the chunks before it, and a mask of the
 *             places in them (forward_chunk)
 *
 * WeNet's relative attention does not shift rows: a query of any position multiplies the table of
 * the keys' positions. The causal convolution pads and caches the input of its first, pointwise
 * layer, so that frames before the beginning are not zero behind it. */
#include "tools/convert/wenet_graphs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The encoder while it is built. */
struct encoder {
    const struct steno_wenet_arch *a;
    bool whole;
    steno_value_id mask;                   /* of keys; STENO_NONE: all count */
    steno_value_id positions;              /* [1,S,d] */
    steno_value_id present;                /* whole: [N,1,T] bool: not padding */
    steno_value_id lengths;                /* whole: [N] frames of the output */
    steno_value_id attention, convolution; /* chunk: the caches */
    int n_attention, n_convolution;        /* the new ones, by layer */
    steno_value_id next_attention[STENO_WENET_MAX_BLOCKS];
    steno_value_id next_convolution[STENO_WENET_MAX_BLOCKS];
};

/* ---- shared parts -------------------------------------------------------------------------- */

static steno_value_id heads_first(struct steno_make *m, steno_value_id x)
{
    static const int64_t rows[] = {0, 2, 1, 3};
    return steno_make_transpose(m, x, 4, rows);
}

steno_value_id steno_wenet_products(struct steno_make *m, steno_value_id q, steno_value_id k)
{
    static const int64_t turn[] = {0, 1, 3, 2};
    return steno_make_2(m, "MatMul", q, steno_make_transpose(m, k, 4, turn));
}

steno_value_id steno_wenet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                 steno_value_id mask, steno_value_id v, int64_t heads, int64_t d)
{
    steno_value_id y = steno_make_root(m, scores, d / heads);
    if (mask != STENO_NONE)
        y = steno_make_node(m, "Where", 3,
                            (steno_value_id[]){mask, y, steno_make_number(m, -INFINITY)}, 0, NULL);
    return steno_make_linear_of(m, steno_make_weigh(m, y, v, d), name, "linear_out", d, d, true);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Put the cached keys and values of layer i before those of the chunk. */
static void join_cache(struct steno_make *m, struct encoder *e, int i, steno_value_id *k,
                       steno_value_id *v)
{
    const int64_t n = e->a->d / e->a->heads;
    steno_value_id old = steno_make_slice(m, e->attention, 0, i, i + 1);
    *k = steno_make_concat(m, 2, steno_make_slice(m, old, 3, 0, n), *k);
    *v = steno_make_concat(m, 2, steno_make_slice(m, old, 3, n, 2 * n), *v);
    e->next_attention[e->n_attention++] = steno_make_concat(m, 3, *k, *v);
}

static steno_value_id encoder_attention(struct steno_make *m, struct encoder *e, int i,
                                        steno_value_id x)
{
    static const char name[] = "self_attn";
    const struct steno_wenet_arch *a = e->a;
    const int64_t h = a->heads, d = a->d;
    steno_value_id q = steno_make_split(
                       m, steno_make_linear_of(m, x, name, "linear_q", d, d, a->query_bias), h, d),
                   k = steno_make_heads_of(m, x, name, "linear_k", h, d, false, a->key_bias),
                   v = steno_make_heads_of(m, x, name, "linear_v", h, d, false, a->value_bias),
                   scores, p;
    if (!e->whole)
        join_cache(m, e, i, &k, &v);
    if (a->position != STENO_WENET_REL)
        return steno_wenet_weigh(m, name, steno_wenet_products(m, heads_first(m, q), k), e->mask, v,
                                 h, d);
    p = steno_make_heads_of(m, e->positions, name, "linear_pos", h, d, false, false);
    scores = steno_make_add(
        m, steno_wenet_products(m, steno_make_biased(m, q, name, "pos_bias_u", h, d), k),
        steno_wenet_products(m, steno_make_biased(m, q, name, "pos_bias_v", h, d), p));
    return steno_wenet_weigh(m, name, scores, e->mask, v, h, d);
}

/* ---- convolution --------------------------------------------------------------------------- */

/* The frames before x [N,d,T]: of the cache, or zeros. */
static steno_value_id join_past(struct steno_make *m, struct encoder *e, int i, steno_value_id x)
{
    const int64_t past = steno_wenet_conv_cache(e->a);
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 0};
    steno_value_id old;
    if (!past)
        return x;
    if (e->whole)
        return steno_make_2(m, "Pad", x, steno_make_ints(m, 6, (int64_t[]){0, 0, past, 0, 0, 0}));
    old = steno_make_node(m, "Gather", 2, (steno_value_id[]){e->convolution, steno_make_int(m, i)},
                          1, &axis);
    x = steno_make_concat(m, 2, old, x);
    e->next_convolution[e->n_convolution++] = steno_make_slice(m, x, 2, -past, INT64_MAX);
    return x;
}

static steno_value_id wenet_convolution(struct steno_make *m, struct encoder *e, int i,
                                        steno_value_id x)
{
    const struct steno_wenet_arch *a = e->a;
    const int64_t pad = a->causal ? 0 : (a->kernel - 1) / 2;
    const struct steno_make_conv_module c = {.name = "conv_module",
                                             .d = a->d,
                                             .kernel = a->kernel,
                                             .pads = {pad, pad},
                                             .bias = a->conv_bias,
                                             .batch_norm =
                                                 a->conv_layer_norm ? NULL : "conv_module.norm"};
    x = steno_make_conv_gate(m, join_past(m, e, i, steno_make_turn(m, x)), &c);
    if (e->whole && !a->causal) /* as beyond the end of an utterance by itself */
        x = steno_make_node(m, "Where", 3,
                            (steno_value_id[]){e->present, x, steno_make_number(m, 0)}, 0, NULL);
    x = steno_make_conv_depthwise(m, x, &c);
    if (a->conv_layer_norm)
        x = steno_make_norm(m, steno_make_turn(m, x), "conv_module.norm", a->d, 1e-5f);
    x = steno_make_activation(m, x, a->activation);
    if (a->conv_layer_norm)
        x = steno_make_turn(m, x);
    return steno_make_conv_out(m, x, &c);
}

/* ---- layers -------------------------------------------------------------------------------- */

static steno_value_id conformer_layer(struct steno_make *m, struct encoder *e, int i,
                                      steno_value_id x)
{
    const struct steno_wenet_arch *a = e->a;
    const int64_t d = a->d;
    const float by = a->macaron ? 0.5f : 1, eps = a->epsilon;
    if (a->macaron)
        STENO_MAKE_RESIDUAL(
            m, x, "norm_ff_macaron", d, a->before, eps, by,
            steno_make_feed_forward(m, y, "feed_forward_macaron", d, a->ff, a->activation));
    STENO_MAKE_RESIDUAL(m, x, "norm_mha", d, a->before, eps, 1, encoder_attention(m, e, i, y));
    if (a->conv)
        STENO_MAKE_RESIDUAL(m, x, "norm_conv", d, a->before, eps, 1, wenet_convolution(m, e, i, y));
    STENO_MAKE_RESIDUAL(m, x, "norm_ff", d, a->before, eps, by,
                        steno_make_feed_forward(m, y, "feed_forward", d, a->ff, a->activation));
    return a->conv ? steno_make_norm(m, x, "norm_final", d, eps) : x;
}

static steno_value_id transformer_layer(struct steno_make *m, struct encoder *e, int i,
                                        steno_value_id x)
{
    const struct steno_wenet_arch *a = e->a;
    STENO_MAKE_RESIDUAL(m, x, "norm1", a->d, a->before, a->epsilon, 1,
                        encoder_attention(m, e, i, y));
    STENO_MAKE_RESIDUAL(m, x, "norm2", a->d, a->before, a->epsilon, 1,
                        steno_make_feed_forward(m, y, "feed_forward", a->d, a->ff, a->activation));
    return x;
}

/* ---- subsampling, positions ---------------------------------------------------------------- */

/* Those of the input layer "linear" are none. */
static const struct steno_make_subsampling *subsampling_of(const struct steno_wenet_arch *a)
{
    static const struct steno_make_subsampling none = {0};
    const struct steno_make_subsampling *s = steno_make_subsampling(a->input_layer);
    return s ? s : &none;
}

int64_t steno_wenet_subsampling(const struct steno_wenet_arch *a)
{
    const struct steno_make_subsampling *s = subsampling_of(a);
    int64_t by = 1;
    for (int i = 0; i < s->n; i++)
        by *= s->stride[i];
    return by;
}

int64_t steno_wenet_right_context(const struct steno_wenet_arch *a)
{
    const struct steno_make_subsampling *s = subsampling_of(a);
    int64_t by = 1, sum = 0;
    for (int i = 0; i < s->n; i++) {
        sum += (s->kernel[i] - 1) * by;
        by *= s->stride[i];
    }
    return sum;
}

int64_t steno_wenet_conv_cache(const struct steno_wenet_arch *a)
{
    return a->conv && a->causal ? a->kernel - 1 : 0;
}

static steno_value_id normalize_features(struct steno_make *m, steno_value_id x,
                                         const struct steno_wenet_arch *a)
{
    if (!a->mean)
        return x;
    x = steno_make_2(m, "Sub", x, steno_make_floats(m, "global_cmvn.mean", 1, &a->in, a->mean));
    return steno_make_2(m, "Mul", x, steno_make_floats(m, "global_cmvn.istd", 1, &a->in, a->istd));
}

static steno_value_id subsample(struct steno_make *m, steno_value_id x,
                                const struct steno_wenet_arch *a)
{
    const struct steno_make_subsampling *s = steno_make_subsampling(a->input_layer);
    steno_make_at(m, "encoder.embed.");
    if (s)
        return steno_make_subsample(m, x, s, 0, a->in, a->d,
                                    strcmp(s->name, "conv2d") ? "linear" : "out.0");
    x = steno_make_linear(m, x, "out.0", a->in, a->d, true);
    return steno_make_norm(m, x, "out.1", a->d, 1e-5f);
}

static steno_value_id table(struct steno_make *m, int64_t d)
{
    return steno_make_sinusoids(m, "pe", STENO_WENET_POSITIONS, d, 0, 1);
}

static steno_value_id minus(struct steno_make *m, steno_value_id x, int64_t by)
{
    return by ? steno_make_2(m, "Sub", x, steno_make_ints(m, 1, &by)) : x;
}

/* Frames of the output for as many of the input: (n - kernel) / stride + 1 for each convolution. */
static steno_value_id subsampled_frames(struct steno_make *m, steno_value_id n,
                                        const struct steno_wenet_arch *a)
{
    const struct steno_make_subsampling *s = subsampling_of(a);
    for (int i = 0; i < s->n; i++)
        n = steno_make_2(m, "Div", minus(m, n, s->kernel[i] - s->stride[i]),
                         steno_make_ints(m, 1, &s->stride[i]));
    return n;
}

/* Which of n frames [N,n] are before the end of their utterance. */
static steno_value_id before_end(struct steno_make *m, steno_value_id n, steno_value_id lengths)
{
    const steno_value_id range[] = {steno_make_int(m, 0), n, steno_make_int(m, 1)};
    return steno_make_2(m, "Less", steno_make_node(m, "Range", 3, range, 0, NULL),
                        steno_make_unsqueeze(m, lengths, 1));
}

static void whole_masks(struct steno_make *m, struct encoder *e, steno_value_id x,
                        steno_value_id lengths)
{
    static const int64_t heads_and_rows[] = {1, 2};
    steno_value_id n = steno_make_2(m, "Gather", steno_make_1(m, "Shape", x), steno_make_int(m, 1));
    e->lengths = subsampled_frames(m, lengths, e->a);
    n = before_end(m, n, e->lengths);
    e->mask = steno_make_2(m, "Unsqueeze", n, steno_make_ints(m, 2, heads_and_rows));
    if (e->a->conv && !e->a->causal)
        e->present = steno_make_unsqueeze(m, n, 1);
}

/* The mask [1,1,cache + chunk] as one of keys. A last chunk may be shorter than its mask. */
static void chunk_mask(struct steno_make *m, struct encoder *e, steno_value_id mask,
                       steno_value_id keys)
{
    static const int64_t zero = 0;
    mask = steno_make_cut(m, mask, 2, steno_make_ints(m, 1, &zero), keys);
    e->mask = steno_make_unsqueeze(m, mask, 1);
}

/* Rows [from, from + n) of the table, or 0 to n. */
static steno_value_id position_rows(struct steno_make *m, steno_value_id pe, steno_value_id from,
                                    steno_value_id n)
{
    static const int64_t zero = 0;
    if (from == STENO_NONE)
        return steno_make_cut(m, pe, 1, steno_make_ints(m, 1, &zero), n);
    return steno_make_cut(m, pe, 1, from, steno_make_add(m, from, n));
}

/* offset [1]: the position of the chunk behind its cache; STENO_NONE: 0. */
static steno_value_id positions(struct steno_make *m, struct encoder *e, steno_value_id x,
                                steno_value_id offset, steno_value_id cached, steno_value_id keys)
{
    const struct steno_wenet_arch *a = e->a;
    if (a->position == STENO_WENET_NONE)
        return x;
    x = steno_make_scale(m, x, sqrtf((float)a->d));
    if (a->position == STENO_WENET_ABS)
        return steno_make_add(
            m, x, position_rows(m, table(m, a->d), offset, steno_make_extent_of(m, x, 1)));
    if (!e->whole)
        offset = steno_make_2(m, "Sub", offset, cached);
    e->positions = position_rows(m, table(m, a->d), offset, keys);
    return x;
}

/* ---- the encoder --------------------------------------------------------------------------- */

static steno_value_id layers(struct steno_make *m, struct encoder *e, steno_value_id x)
{
    const struct steno_wenet_arch *a = e->a;
    for (int i = 0; i < a->blocks && !m->st; i++) {
        steno_make_at(m, "encoder.encoders.%d.", i);
        x = a->conformer ? conformer_layer(m, e, i, x) : transformer_layer(m, e, i, x);
    }
    steno_make_at(m, "encoder.");
    return a->before ? steno_make_norm(m, x, "after_norm", a->d, a->epsilon) : x;
}

static void finish_ctc(struct steno_make *m, steno_value_id x, const struct steno_wenet_arch *a,
                       const char *name, int64_t batch, int64_t frames)
{
    m->asked = "units.txt";
    steno_make_at(m, "ctc.");
    x = steno_make_linear(m, x, "ctc_lo", a->d, a->vocab, true);
    x = steno_make_softmax(m, "LogSoftmax", x, -1);
    steno_make_output(m, x, name, STENO_F32, 3, (int64_t[]){batch, frames, a->vocab});
}

static void refuse_more(struct steno_make *m, const struct steno_wenet_arch *a)
{
    char name[80];
    snprintf(name, sizeof name, "encoder.encoders.%d.self_attn.linear_q.weight", (int)a->blocks);
    steno_make_at(m, "%s", "");
    if (!m->st && steno_make_has(m, name))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: '%s' is there: more than the %d blocks of encoder_conf.num_blocks",
                           m->w.file, name, (int)a->blocks);
}

/* Names of the ends of a chunk. */
struct chunk_names {
    const char *x, *attention, *convolution, *mask, *next_attention, *next_convolution;
    int rank; /* of the offset and of the size of the cache: WeNet's are scalars */
};

struct chunk_ends {
    steno_value_id x, offset, required, mask;
    int64_t frames;
};

static int64_t cache_columns(const struct steno_wenet_arch *a)
{
    return a->kernel - 1;
}

static void chunk_inputs(struct steno_make *m, struct encoder *e, const struct chunk_names *n,
                         bool bounded, struct chunk_ends *in)
{
    const struct steno_wenet_arch *a = e->a;
    const int64_t one = 1, cache = steno_make_symbol(m, "T_CACHE");
    in->frames = steno_make_symbol(m, "T");
    in->x = steno_make_input(m, n->x, STENO_F32, 3, (int64_t[]){1, in->frames, a->in});
    in->offset = steno_make_input(m, "offset", STENO_I64, n->rank, &one);
    in->required =
        bounded ? steno_make_input(m, "required_cache_size", STENO_I64, n->rank, &one) : STENO_NONE;
    e->attention = steno_make_input(m, n->attention, STENO_F32, 4,
                                    (int64_t[]){a->blocks, a->heads, cache, 2 * a->d / a->heads});
    e->convolution = steno_make_input(m, n->convolution, STENO_F32, 4,
                                      (int64_t[]){a->blocks, 1, a->d, cache_columns(a)});
    in->mask = bounded ? steno_make_input(m, n->mask, STENO_BOOL, 3,
                                          (int64_t[]){1, 1, steno_make_symbol(m, "T_ADD_T_CACHE")})
                       : STENO_NONE;
}

/* A number as a value [1]. */
static steno_value_id as_list(struct steno_make *m, steno_value_id x, int rank)
{
    return rank ? x : steno_make_reshape(m, x, 1, (int64_t[]){1});
}

static void next_caches(struct steno_make *m, struct encoder *e, const struct chunk_names *n,
                        steno_value_id from)
{
    static const int64_t end = INT64_MAX;
    const struct steno_wenet_arch *a = e->a;
    const int64_t rows = steno_make_symbol(m, "T_CACHE_NEXT");
    steno_value_id y = steno_make_join(m, 0, e->n_attention, e->next_attention);
    if (from != STENO_NONE)
        y = steno_make_cut(m, y, 2, from, steno_make_ints(m, 1, &end));
    steno_make_output(m, y, n->next_attention, STENO_F32, 4,
                      (int64_t[]){a->blocks, a->heads, rows, 2 * a->d / a->heads});
    y = e->n_convolution ? steno_make_unsqueeze(
                               m, steno_make_join(m, 0, e->n_convolution, e->next_convolution), 1)
                         : steno_make_1(m, "Identity", e->convolution);
    steno_make_output(m, y, n->next_convolution, STENO_F32, 4,
                      (int64_t[]){a->blocks, 1, a->d, cache_columns(a)});
}

/* The first of the keys that the next chunk needs: all but the last `required`. */
static steno_value_id next_start(struct steno_make *m, const struct steno_wenet_arch *a,
                                 steno_value_id keys, steno_value_id required)
{
    const int64_t zero = 0;
    if (required != STENO_NONE)
        return steno_make_2(m, "Max", steno_make_2(m, "Sub", keys, required),
                            steno_make_ints(m, 1, &zero));
    return a->left ? STENO_NONE : keys;
}

/* bounded: the network reads the size of its cache and a mask. */
static steno_status write_chunk(const struct steno_wenet_arch *a,
                                const struct steno_make_weights *w, const struct chunk_names *names,
                                bool bounded, bool ctc, const char *path, steno_err *err)
{
    struct encoder e = {.a = a, .mask = STENO_NONE, .positions = STENO_NONE};
    struct chunk_ends in;
    struct steno_make m;
    steno_value_id x, offset, cached, keys, from;
    int64_t rows;
    if (steno_make_begin(&m, w, 6, err))
        return m.st;
    m.asked = "encoder_conf";
    refuse_more(&m, a);
    rows = steno_make_symbol(&m, "T_OUT");
    chunk_inputs(&m, &e, names, bounded, &in);
    x = subsample(&m, normalize_features(&m, in.x, a), a);
    offset = as_list(&m, in.offset, names->rank);
    cached = steno_make_extent_of(&m, e.attention, 2);
    keys = steno_make_add(&m, cached, steno_make_extent_of(&m, x, 1));
    if (bounded)
        chunk_mask(&m, &e, in.mask, keys);
    x = layers(&m, &e, positions(&m, &e, x, offset, cached, keys));
    from = next_start(&m, a, keys, bounded ? as_list(&m, in.required, names->rank) : STENO_NONE);
    if (ctc)
        finish_ctc(&m, x, a, "log_probs", 1, rows);
    else
        steno_make_output(&m, x, "output", STENO_F32, 3, (int64_t[]){1, rows, a->d});
    next_caches(&m, &e, names, from);
    if (ctc)
        steno_wenet_sherpa_meta(&m, a, true);
    else
        steno_wenet_runtime_meta(&m, a);
    return steno_make_write(&m, path, NULL);
}

/* ---- sherpa-onnx's networks ---------------------------------------------------------------- */

steno_status steno_wenet_write_streaming(const struct steno_wenet_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err)
{
    static const struct chunk_names names = {
        "x", "attn_cache", "conv_cache", "attn_mask", "next_att_cache", "next_conv_cache", 1};
    return write_chunk(a, w, &names, true, true, path, err);
}

steno_status steno_wenet_write_offline(const struct steno_wenet_arch *a,
                                       const struct steno_make_weights *w, const char *path,
                                       steno_err *err)
{
    struct encoder e = {.a = a, .whole = true, .mask = STENO_NONE, .positions = STENO_NONE};
    struct steno_make m;
    steno_value_id x, lengths, y;
    int64_t batch, rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "encoder_conf";
    refuse_more(&m, a);
    batch = steno_make_symbol(&m, "N");
    rows = steno_make_symbol(&m, "T_OUT");
    x = steno_make_input(&m, "x", STENO_F32, 3,
                         (int64_t[]){batch, steno_make_symbol(&m, "T"), a->in});
    lengths = steno_make_input(&m, "x_lens", STENO_I64, 1, &batch);
    y = subsample(&m, normalize_features(&m, x, a), a);
    whole_masks(&m, &e, y, lengths);
    y = layers(&m, &e,
               positions(&m, &e, y, STENO_NONE, STENO_NONE, steno_make_extent_of(&m, y, 1)));
    finish_ctc(&m, y, a, "log_probs", batch, rows);
    y = e.lengths == lengths ? steno_make_1(&m, "Identity", lengths) : e.lengths;
    steno_make_output(&m, y, "log_probs_lens", STENO_I64, 1, &batch);
    steno_wenet_sherpa_meta(&m, a, false);
    return steno_make_write(&m, path, NULL);
}

/* ---- those of WeNet's runtime -------------------------------------------------------------- */

steno_status steno_wenet_write_encoder(const struct steno_wenet_arch *a,
                                       const struct steno_make_weights *w, const char *path,
                                       steno_err *err)
{
    static const struct chunk_names names = {
        "chunk", "att_cache", "cnn_cache", "att_mask", "r_att_cache", "r_cnn_cache", 0};
    return write_chunk(a, w, &names, a->left > 0, false, path, err);
}

steno_status steno_wenet_write_ctc(const struct steno_wenet_arch *a,
                                   const struct steno_make_weights *w, const char *path,
                                   steno_err *err)
{
    struct steno_make m;
    int64_t rows;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    rows = steno_make_symbol(&m, "T");
    finish_ctc(&m, steno_make_input(&m, "hidden", STENO_F32, 3, (int64_t[]){1, rows, a->d}), a,
               "probs", 1, rows);
    steno_wenet_runtime_meta(&m, a);
    return steno_make_write(&m, path, NULL);
}
