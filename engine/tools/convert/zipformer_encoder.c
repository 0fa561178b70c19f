/* zipformer/subsampling.py and zipformer.py of icefall: embedding, positions, masks, stacks. */
#include "tools/convert/zipformer.h"

#include <math.h>
#include <stdlib.h>

static const int64_t swap_times[] = {1, 0, 2};

/* ---- embedding ----------------------------------------------------------------------------- */

struct kernel {
    int64_t in, out, size, groups;
    int64_t stride[2], pads[4]; /* of time and bands */
};

static steno_value_id convolve_embedded(struct steno_make *m, steno_value_id x, const char *name,
                                        const struct kernel *k)
{
    const struct steno_make_conv c = {.rank = 2,
                                      .in = k->in,
                                      .out = k->out,
                                      .kernel = k->size,
                                      .strides = k->stride,
                                      .pads = k->pads,
                                      .groups = k->groups,
                                      .bias = true};
    return steno_make_convolve(m, x, name, &c);
}

/* ConvNeXt over time and bands. In chunks, its last frames only serve the frames before them. */
static steno_value_id convnext(struct steno_zipformer *e, steno_value_id x, steno_value_id *state)
{
    struct steno_make *m = e->m;
    const int64_t c = e->a->conv[2], chunk = e->a->chunk;
    const struct kernel depth = {c, c, 7, c, {1, 1}, {chunk ? 0 : 3, 3, chunk ? 0 : 3, 3}},
                        in = {c, e->a->hidden, 1, 1, {1, 1}, {0}},
                        out = {e->a->hidden, c, 1, 1, {1, 1}, {0}};
    steno_value_id y = x;
    if (chunk) {
        y = steno_make_concat(m, 2, *state, x);
        *state = steno_make_slice(m, y, 2, chunk, chunk + STENO_ZIPFORMER_EMBED_STATE);
        x = steno_make_slice(m, x, 2, 0, chunk);
    }
    y = convolve_embedded(m, y, "convnext.depthwise_conv", &depth);
    y = steno_zipformer_swoosh(m, convolve_embedded(m, y, "convnext.pointwise_conv1", &in), true);
    return steno_make_add(m, x, convolve_embedded(m, y, "convnext.pointwise_conv2", &out));
}

steno_value_id steno_zipformer_embed(struct steno_zipformer *e, steno_value_id x,
                                     steno_value_id *state)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    struct steno_make *m = e->m;
    const int64_t *c = e->a->conv, d = e->a->stack[0].d;
    const int64_t bands = STENO_ZIPFORMER_BANDS;
    const struct kernel k[] = {{1, c[0], 3, 1, {1, 1}, {0, 1, 0, 1}},
                               {c[0], c[1], 3, 1, {2, 2}, {0}},
                               {c[1], c[2], 3, 1, {1, 2}, {0}}};
    static const char *const names[] = {"conv.0", "conv.4", "conv.7"};
    steno_make_at(m, "encoder_embed.");
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < 3; i++)
        x = steno_zipformer_swoosh(m, convolve_embedded(m, x, names[i], &k[i]), false);
    x = steno_make_transpose(m, convnext(e, x, state), 4, turn);
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, 0, bands * c[2]});
    x = steno_make_linear(m, x, "out", bands * c[2], d, true);
    return steno_zipformer_norm(m, x, "out_norm", d);
}

/* ---- positions ----------------------------------------------------------------------------- */

/* The table's frequency of column k, and what its cosine and sine are multiplied by: cosines at
 * even columns, sines at odd ones, and 1 in the last. */
static void column(int64_t k, int64_t dim, float *frequency, float *cosine, float *sine)
{
    const bool last = k == dim - 1;
    *frequency = last ? 0 : (float)(k / 2 + 1);
    *cosine = last || k % 2 == 0;
    *sine = !*cosine;
}

/* Positions from..to-1, a constant [1, to - from, dim]. */
static steno_value_id position_rows(struct steno_make *m, int64_t from, int64_t to, int64_t dim)
{
    const float length = sqrtf((float)dim), scale = (float)((double)dim / (2 * M_PI));
    float *x = malloc((size_t)((to - from) * dim) * sizeof *x);
    steno_value_id v;
    for (int64_t r = from; x && r < to; r++) {
        const float log_ratio = logf(fabsf((float)r) + length) - logf(length);
        const float angle = atanf(length * (r < 0 ? -log_ratio : log_ratio) / scale);
        for (int64_t k = 0; k < dim; k++) {
            float frequency, cosine, sine;
            column(k, dim, &frequency, &cosine, &sine);
            x[(r - from) * dim + k] =
                cosine * cosf(angle * frequency) + sine * sinf(angle * frequency);
        }
    }
    v = steno_make_floats(m, "positions", 3, (int64_t[]){1, to - from, dim}, x);
    free(x);
    return v;
}

static steno_value_id scalar(struct steno_make *m, steno_value_id x)
{
    return steno_make_squeeze(m, x, 0);
}

steno_value_id steno_zipformer_count(struct steno_make *m, steno_value_id from, steno_value_id to)
{
    const steno_value_id in[] = {scalar(m, from), scalar(m, to), steno_make_int(m, 1)};
    return steno_make_node(m, "Range", 3, in, 0, NULL);
}

static const struct steno_attr to_float = {.name = "to", .kind = STENO_ATTR_INT, .i = 1};

steno_value_id steno_zipformer_positions(struct steno_make *m, steno_value_id frames, int64_t dim)
{
    const float length = sqrtf((float)dim), scale = (float)((double)dim / (2 * M_PI));
    const int64_t one = 1;
    steno_value_id from, x, angle, cosines, sines, row[3];
    float *part = malloc((size_t)(3 * dim) * sizeof *part);
    for (int64_t k = 0; part && k < dim; k++)
        column(k, dim, part + k, part + dim + k, part + 2 * dim + k);
    for (int i = 0; i < 3; i++)
        row[i] = steno_make_floats(m, "", 2, (int64_t[]){1, dim}, part ? part + i * dim : NULL);
    free(part);
    from = steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), frames);
    x = steno_zipformer_count(m, from, frames);
    x = steno_make_node(m, "Cast", 1, &x, 1, &to_float);
    angle = steno_make_add(m, steno_make_1(m, "Abs", x), steno_make_number(m, length));
    angle =
        steno_make_2(m, "Sub", steno_make_1(m, "Log", angle), steno_make_number(m, logf(length)));
    angle = steno_make_scale(m, steno_make_2(m, "Mul", angle, steno_make_1(m, "Sign", x)), length);
    angle = steno_make_2(m, "Div", angle, steno_make_number(m, scale));
    angle = steno_make_unsqueeze(m, steno_make_1(m, "Atan", angle), 1);
    angle = steno_make_2(m, "Mul", angle, row[0]);
    cosines = steno_make_2(m, "Mul", steno_make_1(m, "Cos", angle), row[1]);
    sines = steno_make_2(m, "Mul", steno_make_1(m, "Sin", angle), row[2]);
    return steno_make_add(m, cosines, sines);
}

/* ---- masks, windows ------------------------------------------------------------------------ */

/* Chunks, at the rate of a stack: the left context that has not been filled yet, [N, 1, left + T].
 */
static steno_value_id chunk_mask(struct steno_zipformer *e, int64_t by)
{
    const int64_t left = e->a->left, all = (left + e->a->chunk) / by;
    int64_t *last = malloc((size_t)all * sizeof *last);
    struct steno_make *m = e->m;
    steno_value_id lengths, rows;
    for (int64_t i = 0; last && i < all; i++)
        last[i] = i * by < left ? left - 1 - i * by : -1;
    lengths = steno_make_2(m, "Unsqueeze", e->lengths, steno_make_ints(m, 2, (int64_t[]){1, 2}));
    rows = steno_make_ints(m, (int)all, last);
    free(last);
    return steno_make_2(m, "LessOrEqual", lengths, rows);
}

/* GatherElements' indices for keys_of_chunk: [heads N T, left + T]. */
static steno_value_id chunk_window(struct steno_zipformer *e, const struct steno_zipformer_env *env)
{
    const int64_t t = env->chunk, all = t + env->left;
    int64_t *row = malloc((size_t)(t + all) * sizeof *row);
    struct steno_make *m = e->m;
    steno_value_id down, up, n;
    for (int64_t i = 0; row && i < t; i++)
        row[i] = t - 1 - i;
    for (int64_t i = 0; row && i < all; i++)
        row[t + i] = i;
    down = steno_make_ints(m, (int)t, row);
    up = steno_make_ints(m, (int)all, row ? row + t : NULL);
    free(row);
    n = steno_make_2(m, "Mul", e->batch, steno_make_ints(m, 1, &env->s->heads));
    down = steno_make_2(m, "Tile", down, n);
    return steno_make_add(m, steno_make_unsqueeze(m, down, 1), up);
}

static steno_value_id every(struct steno_make *m, steno_value_id x, int64_t axis, int64_t step)
{
    const int64_t zero = 0, end = INT64_MAX;
    const steno_value_id in[] = {x, steno_make_ints(m, 1, &zero), steno_make_ints(m, 1, &end),
                                 steno_make_ints(m, 1, &axis), steno_make_ints(m, 1, &step)};
    return steno_make_node(m, "Slice", 5, in, 0, NULL);
}

/* ---- stacks -------------------------------------------------------------------------------- */

/* Frames of a stack: as many as fit, the last one may be partly padding. */
static steno_value_id frames_at(struct steno_zipformer *e, int64_t by)
{
    struct steno_make *m = e->m;
    const int64_t more = by - 1;
    steno_value_id n;
    if (by == 1)
        return e->frames;
    n = steno_make_add(m, e->frames, steno_make_ints(m, 1, &more));
    return steno_make_2(m, "Div", n, steno_make_ints(m, 1, &by));
}

/* NAME.bias [by]: weights of `by` neighbouring frames, by softmax. */
static steno_value_id frame_weights(struct steno_make *m, const char *name, int64_t by)
{
    float *w = steno_make_read(m, name, 1, &by);
    steno_value_id v;
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; w && i < by; i++)
        most = fmax(most, (double)w[i]);
    for (int64_t i = 0; w && i < by; i++)
        sum += exp((double)w[i] - most);
    for (int64_t i = 0; w && i < by; i++)
        w[i] = (float)(exp((double)w[i] - most) / sum);
    v = steno_make_floats(m, name, 3, (int64_t[]){by, 1, 1}, w);
    free(w);
    return v;
}

/* [T, N, d] -> [ceil(T / by), N, d]; the last frame is repeated as padding. */
static steno_value_id downsample(struct steno_zipformer *e, steno_value_id x, const char *name,
                                 int64_t by, int64_t d)
{
    const struct steno_attr keep = {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 0};
    const int64_t one = 1, zero = 0;
    struct steno_make *m = e->m;
    steno_value_id t, shape;
    if (e->a->chunk) {
        x = steno_make_reshape(m, x, 4, (int64_t[]){e->a->chunk / by, by, -1, d});
    } else {
        t = frames_at(e, by);
        shape = steno_make_2(m, "Mul", t, steno_make_ints(m, 1, &by));
        shape = steno_zipformer_count(m, steno_make_ints(m, 1, &zero), shape);
        shape = steno_make_2(m, "Min", shape,
                             steno_make_2(m, "Sub", e->frames, steno_make_ints(m, 1, &one)));
        x = steno_make_2(m, "Gather", x, shape);
        shape = steno_make_concat(m, 0, steno_make_ints(m, 2, (int64_t[]){-1, by}),
                                  steno_make_concat(m, 0, e->batch, steno_make_ints(m, 1, &d)));
        x = steno_make_2(m, "Reshape", x, shape);
    }
    x = steno_make_2(m, "Mul", x, frame_weights(m, name, by));
    return steno_make_node(m, "ReduceSum", 2, (steno_value_id[]){x, steno_make_ints(m, 1, &one)}, 1,
                           &keep);
}

/* The other way round: every frame `by` times, as far as there are frames. */
static steno_value_id upsample(struct steno_zipformer *e, steno_value_id x, int64_t by)
{
    const int64_t zero = 0;
    struct steno_make *m = e->m;
    steno_value_id at;
    if (e->a->chunk) {
        int64_t *i = malloc((size_t)e->a->chunk * sizeof *i);
        for (int64_t k = 0; i && k < e->a->chunk; k++)
            i[k] = k / by;
        at = steno_make_ints(m, (int)e->a->chunk, i);
        free(i);
    } else {
        at = steno_zipformer_count(m, steno_make_ints(m, 1, &zero), e->frames);
        at = steno_make_2(m, "Div", at, steno_make_ints(m, 1, &by));
    }
    return steno_make_2(m, "Gather", x, at);
}

/* More columns are zeros. */
static steno_value_id widen_columns(struct steno_make *m, steno_value_id x, int64_t from,
                                    int64_t to)
{
    if (from > to)
        return steno_make_slice(m, x, 2, 0, to);
    if (from == to)
        return x;
    return steno_make_2(m, "Pad", x, steno_make_ints(m, 6, (int64_t[]){0, 0, 0, 0, 0, to - from}));
}

static void set_env(struct steno_zipformer *e, const struct steno_zipformer_stack *s,
                    struct steno_zipformer_env *env)
{
    struct steno_make *m = e->m;
    const int64_t by = s->downsampling, one = 1, dim = e->a->pos_dim;
    steno_value_id from;
    *env = (struct steno_zipformer_env){.s = s,
                                        .pos_dim = dim,
                                        .causal = e->a->causal,
                                        .chunk = e->a->chunk / by,
                                        .left = e->a->left / by,
                                        .batch = e->batch};
    if (env->chunk) {
        env->positions = position_rows(m, 1 - env->chunk - env->left, env->chunk, dim);
        env->mask = chunk_mask(e, by);
        env->window = chunk_window(e, env);
        return;
    }
    env->frames = frames_at(e, by);
    from = steno_make_2(m, "Sub", e->frames, env->frames);
    env->positions = steno_make_unsqueeze(m, e->positions, 0);
    if (by != 1) {
        steno_value_id to = steno_make_add(m, e->frames, env->frames);
        to = steno_make_2(m, "Sub", to, steno_make_ints(m, 1, &one));
        env->positions = steno_make_cut(m, env->positions, 1, from, to);
    }
    env->mask = by == 1 ? e->mask : every(m, e->mask, 2, by);
}

static steno_value_id run_stack(struct steno_zipformer *e, int i, steno_value_id x)
{
    const struct steno_zipformer_stack *s = &e->a->stack[i];
    struct steno_make *m = e->m;
    struct steno_zipformer_env env;
    steno_value_id before = x;
    set_env(e, s, &env);
    steno_make_at(m, "encoder.encoders.%d.", i);
    if (s->downsampling != 1)
        x = downsample(e, x, "downsample.bias", s->downsampling, s->d);
    for (int k = 0; k < s->layers && !m->st; k++) {
        steno_make_at(m, "encoder.encoders.%d.%slayers.%d.", i,
                      s->downsampling == 1 ? "" : "encoder.", k);
        x = steno_zipformer_layer(m, &env, x, e->state + e->next);
        e->next += STENO_ZIPFORMER_STATES;
    }
    if (s->downsampling == 1)
        return x;
    steno_make_at(m, "encoder.encoders.%d.", i);
    x = upsample(e, x, s->downsampling);
    return steno_zipformer_bypass(m, before, x, "out_combiner.bypass_scale", s->d);
}

/* The last stack's columns, and behind them those of earlier stacks that are wider. */
static steno_value_id widest(struct steno_zipformer *e, const steno_value_id *out)
{
    const struct steno_icefall_arch *a = e->a;
    steno_value_id x = out[a->stacks - 1];
    int64_t d = a->stack[a->stacks - 1].d;
    for (int64_t i = a->stacks - 2; i >= 0; i--)
        if (a->stack[i].d > d) {
            x = steno_make_concat(e->m, 2, x, steno_make_slice(e->m, out[i], 2, d, a->stack[i].d));
            d = a->stack[i].d;
        }
    return x;
}

steno_value_id steno_zipformer_stacks(struct steno_zipformer *e, steno_value_id x)
{
    const struct steno_icefall_arch *a = e->a;
    steno_value_id out[STENO_ZIPFORMER_STACKS];
    int64_t d = a->stack[0].d;
    x = steno_make_transpose(e->m, x, 3, swap_times);
    for (int i = 0; i < a->stacks; i++) {
        x = out[i] = run_stack(e, i, widen_columns(e->m, x, d, a->stack[i].d));
        d = a->stack[i].d;
    }
    steno_make_at(e->m, "encoder.");
    x = downsample(e, widest(e, out), "downsample_output.bias", 2, a->out);
    return steno_make_transpose(e->m, x, 3, swap_times);
}
