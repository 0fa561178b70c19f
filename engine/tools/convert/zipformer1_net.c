/* The network of the first Zipformer: embedding, stacks and what combines them, in the layouts of
 * pruned_transducer_stateless7/export-onnx.py and pruned_transducer_stateless7_streaming's. */
#include "tools/convert/icefall_parts.h"
#include "tools/convert/zipformer.h"
#include "tools/convert/zipformer1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBED_FRAMES 7 /* feature frames that the embedding takes beyond two per output */

struct encoder {
    struct steno_make *m;
    const struct steno_icefall_arch *a;
    int64_t batch_symbol;
    steno_value_id batch;  /* N as a value [1] */
    steno_value_id frames; /* whole recordings: frames at 50 Hz, T, as a value [1] */
    steno_value_id mask;   /* the same: [N, 1, T] bool, padding */
    steno_value_id table;  /* the same: positions for table_d columns */
    int64_t table_d;
    steno_value_id state[STENO_ZIPFORMER1_STATES][STENO_ZIPFORMER_STACKS];
};

static const int64_t swap_times[] = {1, 0, 2};

/* ---- embedding ----------------------------------------------------------------------------- */

/* [N, 2 T + 7, bins] -> [T, N, d]. */
static steno_value_id embed_frames(struct encoder *e, steno_value_id x)
{
    static const int64_t turn[] = {0, 2, 1, 3}, strides[3][2] = {{1, 1}, {2, 2}, {1, 2}};
    static const int64_t pads[3][4] = {{0, 1, 0, 1}};
    const int64_t *conv = e->a->conv, wide = STENO_ZIPFORMER_BANDS * conv[2];
    struct steno_make *m = e->m;
    steno_make_at(m, "encoder.encoder_embed.");
    x = steno_make_unsqueeze(m, x, 1);
    for (int i = 0; i < 3; i++) {
        const struct steno_make_conv c = {.rank = 2,
                                          .in = i ? conv[i - 1] : 1,
                                          .out = conv[i],
                                          .kernel = 3,
                                          .strides = strides[i],
                                          .pads = pads[i],
                                          .bias = true};
        char name[16];
        snprintf(name, sizeof name, "conv.%d", 3 * i);
        x = steno_icefall_double_swish(m, steno_make_convolve(m, x, name, &c));
    }
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3, (int64_t[]){0, 0, wide});
    x = steno_make_linear(m, x, "out", wide, e->a->stack[0].d, true);
    return steno_make_transpose(m, x, 3, swap_times);
}

/* ---- between stacks ------------------------------------------------------------------------ */

/* a w + b (1 - w), NAME = w; more columns of a are zeros. */
static steno_value_id combine(struct steno_make *m, steno_value_id a, int64_t from,
                              steno_value_id b, int64_t to, const char *name)
{
    float *w = steno_make_read(m, name, 0, NULL);
    const float weight = w ? *w : 0;
    free(w);
    a = steno_make_scale(m, a, weight);
    if (from < to)
        a = steno_make_2(m, "Pad", a, steno_make_ints(m, 6, (int64_t[]){0, 0, 0, 0, 0, to - from}));
    return steno_make_add(m, a, steno_make_scale(m, b, 1 - weight));
}

/* Frames of a stack: as many as fit, the last one may be partly padding. */
static steno_value_id frames_at(struct encoder *e, int64_t by)
{
    const int64_t more = by - 1;
    steno_value_id n = steno_make_add(e->m, e->frames, steno_make_ints(e->m, 1, &more));
    return by == 1 ? e->frames : steno_make_2(e->m, "Div", n, steno_make_ints(e->m, 1, &by));
}

/* [T, N, d] -> [T / by, by, N, d]; the last frame is repeated as padding. */
static steno_value_id grouped(struct encoder *e, steno_value_id x, int64_t by, int64_t d)
{
    const int64_t one = 1, zero = 0;
    struct steno_make *m = e->m;
    steno_value_id at, shape;
    if (e->a->chunk)
        return steno_make_reshape(m, x, 4, (int64_t[]){e->a->chunk / by, by, -1, d});
    at = steno_make_2(m, "Mul", frames_at(e, by), steno_make_ints(m, 1, &by));
    at = steno_zipformer_count(m, steno_make_ints(m, 1, &zero), at);
    at = steno_make_2(m, "Min", at, steno_make_2(m, "Sub", e->frames, steno_make_ints(m, 1, &one)));
    shape = steno_make_concat(m, 0, steno_make_ints(m, 2, (int64_t[]){-1, by}),
                              steno_make_concat(m, 0, e->batch, steno_make_ints(m, 1, &d)));
    return steno_make_2(m, "Reshape", steno_make_2(m, "Gather", x, at), shape);
}

/* [T, N, from] -> [T / by, N, to]: an average of `by` frames by weights that depend on them, and
 * other columns out of all of them. */
static steno_value_id downsample(struct encoder *e, steno_value_id x, const char *name, int64_t by,
                                 int64_t from, int64_t to)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    const struct steno_attr keep = {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 0};
    const int64_t one = 1;
    struct steno_make *m = e->m;
    steno_value_id query, weights, y;
    char part[40];
    float *q;
    snprintf(part, sizeof part, "%s.query", name);
    q = steno_make_read(m, part, 1, &from);
    query = steno_make_floats(m, part, 2, (int64_t[]){from, 1}, q);
    free(q);
    x = grouped(e, x, by, from);
    weights = steno_make_softmax(m, "Softmax", steno_make_2(m, "MatMul", x, query), 1);
    y = steno_make_2(m, "Mul", x, weights);
    y = steno_make_node(m, "ReduceSum", 2, (steno_value_id[]){y, steno_make_ints(m, 1, &one)}, 1,
                        &keep);
    if (from == to)
        return y;
    x = steno_make_reshape(m, steno_make_transpose(m, x, 4, turn), 3, (int64_t[]){0, 0, by * from});
    snprintf(part, sizeof part, "%s.extra_proj", name);
    x = steno_make_linear(m, x, part, by * from, to - from, false);
    return steno_make_concat(m, 2, y, x);
}

/* The other way round: every frame `by` times, as far as there are frames, plus biases. */
static steno_value_id upsample(struct encoder *e, steno_value_id x, int64_t by, int64_t d)
{
    const int64_t zero = 0;
    struct steno_make *m = e->m;
    float *b = steno_make_read(m, "upsample.bias", 2, (int64_t[]){by, d});
    steno_value_id bias = steno_make_floats(m, "upsample.bias", 3, (int64_t[]){by, 1, d}, b), shape;
    free(b);
    x = steno_make_add(m, steno_make_unsqueeze(m, x, 1), bias);
    if (e->a->chunk)
        return steno_make_reshape(m, x, 3, (int64_t[]){e->a->chunk, -1, d});
    shape = steno_make_concat(m, 0, steno_make_ints(m, 1, (int64_t[]){-1}),
                              steno_make_concat(m, 0, e->batch, steno_make_ints(m, 1, &d)));
    x = steno_make_2(m, "Reshape", x, shape);
    return steno_make_cut(m, x, 0, steno_make_ints(m, 1, &zero), e->frames);
}

/* ---- stacks -------------------------------------------------------------------------------- */

static steno_value_id every(struct steno_make *m, steno_value_id x, int64_t axis, int64_t step)
{
    const int64_t zero = 0, end = INT64_MAX;
    const steno_value_id in[] = {x, steno_make_ints(m, 1, &zero), steno_make_ints(m, 1, &end),
                                 steno_make_ints(m, 1, &axis), steno_make_ints(m, 1, &step)};
    return step == 1 ? x : steno_make_node(m, "Slice", 5, in, 0, NULL);
}

/* What a frame counts in the average of all that are no padding, [T, N, 1]. */
static steno_value_id share(struct steno_make *m, steno_value_id mask)
{
    static const int64_t turn[] = {2, 0, 1};
    const struct steno_attr to_float = {.name = "to", .kind = STENO_ATTR_INT, .i = 1};
    const struct steno_attr keep = {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1};
    const int64_t zero = 0;
    steno_value_id x = steno_make_1(m, "Not", mask), sum;
    x = steno_make_transpose(m, steno_make_node(m, "Cast", 1, &x, 1, &to_float), 3, turn);
    sum = steno_make_node(m, "ReduceSum", 2, (steno_value_id[]){x, steno_make_ints(m, 1, &zero)}, 1,
                          &keep);
    return steno_make_2(m, "Div", x, sum);
}

static void set_env(struct encoder *e, const struct steno_zipformer_stack *s,
                    struct steno_zipformer1_env *env)
{
    struct steno_make *m = e->m;
    const int64_t by = s->downsampling, chunk = e->a->chunk / by, left = e->a->left / by;
    *env = (struct steno_zipformer1_env){.s = s, .chunk = chunk, .left = left};
    if (chunk) {
        env->positions = steno_make_sinusoids(m, "positions", left + 2 * chunk - 1, s->d,
                                              (double)(left + chunk - 1), -1);
        return;
    }
    if (e->table_d != s->d)
        e->table = STENO_NONE;
    e->table_d = s->d;
    env->positions = steno_icefall_positions(m, &e->table, frames_at(e, by), s->d);
    env->mask = every(m, e->mask, 2, by);
    env->share = share(m, env->mask);
}

/* Chunks: layer k of the states of stack i. */
static void take_states(struct encoder *e, int i, int k, steno_value_id *state)
{
    for (int s = 0; s < STENO_ZIPFORMER1_STATES && e->a->chunk; s++)
        state[s] = steno_icefall_layer_of(e->m, e->state[s][i], k);
}

static void join_states(struct encoder *e, int i, steno_value_id state[][STENO_ZIPFORMER1_STATES])
{
    const int64_t n = e->a->stack[i].layers;
    steno_value_id of_layer[STENO_ZIPFORMER_LAYERS];
    for (int s = 0; s < STENO_ZIPFORMER1_STATES && e->a->chunk; s++) {
        for (int64_t k = 0; k < n; k++)
            of_layer[k] = state[k][s];
        e->state[s][i] = steno_icefall_state_of(e->m, n, of_layer);
    }
}

/* from: columns of x. */
static steno_value_id run_stack(struct encoder *e, int i, steno_value_id x, int64_t from)
{
    const struct steno_zipformer_stack *s = &e->a->stack[i];
    steno_value_id state[STENO_ZIPFORMER_LAYERS][STENO_ZIPFORMER1_STATES] = {{0}};
    const int64_t by = s->downsampling;
    struct steno_zipformer1_env env;
    struct steno_make *m = e->m;
    const steno_value_id before = x;
    set_env(e, s, &env);
    steno_make_at(m, "encoder.encoders.%d.", i);
    if (by != 1)
        x = downsample(e, x, "downsample", by, from, s->d);
    for (int k = 0; k < s->layers && !m->st; k++) {
        steno_make_at(m, "encoder.encoders.%d.%slayers.%d.", i, by == 1 ? "" : "encoder.", k);
        take_states(e, i, k, state[k]);
        x = steno_zipformer1_layer(m, &env, x, state[k]);
    }
    join_states(e, i, state);
    if (by == 1)
        return x;
    steno_make_at(m, "encoder.encoders.%d.", i);
    return combine(m, before, from, upsample(e, x, by, s->d), s->d, "out_combiner.weight1");
}

/* The stack whose output goes into stack i besides that of the one before it; -1: none. */
static int64_t skipped_to(const struct steno_icefall_arch *a, int64_t i)
{
    const int64_t by = a->stack[i].downsampling;
    int64_t j = i - 2;
    if (i < 2 || a->stack[i - 1].downsampling <= by)
        return -1;
    while (j > 0 && a->stack[j].downsampling > by)
        j--;
    return j;
}

static steno_value_id stacks(struct encoder *e, steno_value_id x)
{
    const struct steno_icefall_arch *a = e->a;
    steno_value_id out[STENO_ZIPFORMER_STACKS];
    for (int i = 0; i < a->stacks; i++) {
        const int64_t j = skipped_to(a, i), d = a->stack[i ? i - 1 : 0].d;
        char name[32];
        snprintf(name, sizeof name, "skip_modules.%d.weight1", i);
        steno_make_at(e->m, "encoder.");
        if (j >= 0)
            x = combine(e->m, out[j], a->stack[j].d, x, d, name);
        x = out[i] = run_stack(e, i, x, d);
    }
    steno_make_at(e->m, "encoder.");
    x = downsample(e, x, "downsample_output", 2, a->out, a->out);
    return steno_make_transpose(e->m, x, 3, swap_times);
}

/* ---- whole recordings ---------------------------------------------------------------------- */

static steno_value_id whole_zipformer1(struct encoder *e, steno_value_id *lengths)
{
    const int64_t frames = steno_make_symbol(e->m, "T"), zero = 0;
    struct steno_make *m = e->m;
    steno_value_id x, at;
    x = steno_make_input(m, "x", STENO_F32, 3,
                         (int64_t[]){e->batch_symbol, frames, STENO_ICEFALL_BINS});
    *lengths = steno_make_input(m, "x_lens", STENO_I64, 1, &e->batch_symbol);
    e->batch = steno_make_extent_of(m, x, 0);
    x = embed_frames(e, x);
    e->frames = steno_make_extent_of(m, x, 0);
    *lengths = steno_icefall_half(m, *lengths, EMBED_FRAMES);
    at = steno_zipformer_count(m, steno_make_ints(m, 1, &zero), e->frames);
    e->mask = steno_make_2(
        m, "GreaterOrEqual", at,
        steno_make_2(m, "Unsqueeze", *lengths, steno_make_ints(m, 2, (int64_t[]){1, 2})));
    *lengths = steno_icefall_half(m, *lengths, -1);
    return stacks(e, x);
}

/* ---- chunks -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int rank;
} states[STENO_ZIPFORMER1_STATES] = {
    [STENO_ZIPFORMER1_LEN] = {"cached_len", 2},     [STENO_ZIPFORMER1_AVG] = {"cached_avg", 3},
    [STENO_ZIPFORMER1_KEY] = {"cached_key", 4},     [STENO_ZIPFORMER1_VAL] = {"cached_val", 4},
    [STENO_ZIPFORMER1_VAL2] = {"cached_val2", 4},   [STENO_ZIPFORMER1_CONV1] = {"cached_conv1", 4},
    [STENO_ZIPFORMER1_CONV2] = {"cached_conv2", 4},
};

static void state_shape(const struct encoder *e, const struct steno_zipformer_stack *s, int kind,
                        int64_t dim[4])
{
    const int64_t left = e->a->left / s->downsampling, n = e->batch_symbol, l = s->layers;
    const int64_t values = s->heads * s->value;
    const int64_t shapes[STENO_ZIPFORMER1_STATES][4] = {
        [STENO_ZIPFORMER1_LEN] = {l, n},
        [STENO_ZIPFORMER1_AVG] = {l, n, s->d},
        [STENO_ZIPFORMER1_KEY] = {l, left, n, s->heads * s->query},
        [STENO_ZIPFORMER1_VAL] = {l, left, n, values},
        [STENO_ZIPFORMER1_VAL2] = {l, left, n, values},
        [STENO_ZIPFORMER1_CONV1] = {l, n, s->d, s->kernel - 1},
        [STENO_ZIPFORMER1_CONV2] = {l, n, s->d, s->kernel - 1},
    };
    memcpy(dim, shapes[kind], sizeof shapes[kind]);
}

/* Make the inputs (first) or the outputs of all states. */
static void each_state(struct encoder *e, bool outputs)
{
    for (int s = 0; s < STENO_ZIPFORMER1_STATES; s++)
        for (int i = 0; i < e->a->stacks; i++) {
            const steno_dtype type = s == STENO_ZIPFORMER1_LEN ? STENO_I64 : STENO_F32;
            char name[32];
            int64_t dim[4];
            state_shape(e, &e->a->stack[i], s, dim);
            snprintf(name, sizeof name, "%s%s_%d", outputs ? "new_" : "", states[s].name, i);
            if (outputs)
                steno_make_output(e->m, e->state[s][i], name, type, states[s].rank, dim);
            else
                e->state[s][i] = steno_make_input(e->m, name, type, states[s].rank, dim);
        }
}

static steno_value_id chunks(struct encoder *e)
{
    const int64_t dim[] = {e->batch_symbol, 2 * e->a->chunk + EMBED_FRAMES, STENO_ICEFALL_BINS};
    steno_value_id x = steno_make_input(e->m, "x", STENO_F32, 3, dim);
    each_state(e, false);
    return stacks(e, embed_frames(e, x));
}

/* ---- the network --------------------------------------------------------------------------- */

static void describe_zipformer1(struct steno_make *m, const struct steno_icefall_arch *a)
{
    int64_t attention[STENO_ZIPFORMER_STACKS];
    /* the type under which sherpa-onnx has CTC on icefall's features */
    steno_icefall_about(m, a->ctc ? "zipformer2_ctc" : "zipformer");
    steno_make_meta(m, "comment", "%sstreaming zipformer%s", a->chunk ? "" : "non-",
                    a->ctc ? " CTC" : "");
    if (!a->chunk)
        return;
    for (int64_t i = 0; i < a->stacks; i++)
        attention[i] = a->stack[i].heads * a->stack[i].query;
    steno_icefall_about_chunks(m, a, EMBED_FRAMES);
    steno_icefall_list(m, "attention_dims", a->stacks, attention);
}

steno_status steno_icefall_write_zipformer1(const struct steno_icefall_arch *a,
                                            const struct steno_make_weights *w, const char *path,
                                            steno_err *err)
{
    const int ends = STENO_ZIPFORMER1_STATES * (int)a->stacks + 2;
    struct steno_make m;
    struct encoder e = {.m = &m, .a = a, .table = STENO_NONE};
    steno_value_id x, lengths = STENO_NONE;
    if (steno_make_begin(&m, w, ends, err))
        return m.st;
    m.asked = "the architecture";
    e.batch_symbol = steno_make_symbol(&m, "N");
    x = a->chunk ? chunks(&e) : whole_zipformer1(&e, &lengths);
    steno_icefall_end(&m, a, x, e.batch_symbol, a->chunk / 2);
    if (a->chunk)
        each_state(&e, true);
    else
        steno_icefall_end_lengths(&m, a, lengths, e.batch_symbol);
    describe_zipformer1(&m, a);
    return steno_make_write(&m, path, NULL);
}
