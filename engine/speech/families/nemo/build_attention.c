/* nemo/collections/asr/parts/submodules/multi_head_attention.py of NeMo 3.0.0.
 *
 * Local attention (rel_pos_local_attn; Beltagy et al., Longformer, 2020): frame i sees frames
 * i - left to i + right. A block of max(left, right) frames takes its keys from one window, so that
 * work and memory grow with the length and not with its square. */
#include "speech/families/nemo/build_parts.h"

#include <math.h>
#include <stdlib.h>

#define HIDDEN -10000.0f

/* ---- attention ----------------------------------------------------------------------------- */

static steno_value_id project_heads(struct steno_make *m, steno_value_id x, const char *name,
                                    const struct steno_nemo_arch *a)
{
    return steno_make_split(m, steno_make_linear(m, x, name, a->d, a->d, a->bias), a->heads, a->d);
}

static steno_value_id heads_to_front(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 1, 3});
}

static steno_value_id key_columns(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 4, (int64_t[]){0, 2, 3, 1});
}

/* The weighted values; scores and f->hidden have the last axis of keys, v [..,keys,d / heads]. */
static steno_value_id weigh_hidden(struct steno_make *m, steno_value_id scores, steno_value_id v,
                                   const struct steno_nemo_frame *f)
{
    scores = steno_make_root(m, scores, f->a->d / f->a->heads);
    scores = steno_make_softmax(m, "Softmax", steno_make_hide(m, f->hidden, HIDDEN, scores), -1);
    return heads_to_front(m,
                          steno_make_2(m, "MatMul", steno_make_hide(m, f->hidden, 0, scores), v));
}

/* Products of q [..,heads,d / heads] with the positions: [..,heads,rows,positions]. */
static steno_value_id to_positions(struct steno_make *m, steno_value_id q,
                                   const struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id p =
        steno_make_linear(m, f->positions, "self_attn.linear_pos", a->d, a->d, false);
    p = steno_make_split(m, p, a->heads, a->d);
    return steno_make_2(m, "MatMul",
                        steno_make_biased(m, q, "self_attn", "pos_bias_v", a->heads, a->d),
                        key_columns(m, p));
}

/* Frames x [B,T,d] rotated by their positions: each column of the first half of a head's, and that
 * of the second half, are one number. */
static steno_value_id rotated(struct steno_make *m, steno_value_id x,
                              const struct steno_nemo_frame *f)
{
    const int64_t d = f->a->d, half = d / f->a->heads / 2;
    steno_value_id heads = steno_make_split(m, x, f->a->heads, d), y;
    y = steno_make_1(m, "Neg", steno_make_slice(m, heads, 3, half, INT64_MAX));
    y = steno_make_concat(m, 3, y, steno_make_slice(m, heads, 3, 0, half));
    y = steno_make_add(m, steno_make_2(m, "Mul", heads, f->cosine),
                       steno_make_2(m, "Mul", y, f->sine));
    return steno_make_reshape(m, y, 3, (int64_t[]){0, -1, d});
}

static steno_value_id attend_all(struct steno_make *m, steno_value_id x, struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id at = a->rotary ? rotated(m, x, f) : x, all = at, scores, v, y;
    steno_value_id q = project_heads(m, at, "self_attn.linear_q", a);
    if (a->streaming) {
        all = steno_make_concat(m, 1, f->channel, x);
        f->channel = steno_make_slice(m, all, 1, -a->left, INT64_MAX);
    }
    y = key_columns(m, project_heads(m, all, "self_attn.linear_k", a));
    v = heads_to_front(m, project_heads(m, a->rotary ? x : all, "self_attn.linear_v", a));
    if (a->rel) {
        scores = to_positions(m, q, f);
        y = steno_make_2(m, "MatMul",
                         steno_make_biased(m, q, "self_attn", "pos_bias_u", a->heads, a->d), y);
        scores = steno_make_add(m, y, steno_make_shift(m, scores, true));
    } else {
        scores = steno_make_2(m, "MatMul", heads_to_front(m, q), y);
    }
    return steno_make_reshape(m, weigh_hidden(m, scores, v, f), 3, (int64_t[]){0, -1, a->d});
}

/* ---- local attention ----------------------------------------------------------------------- */

static int64_t block_of(const struct steno_nemo_arch *a)
{
    return a->left > a->right ? a->left : a->right;
}

static int64_t window_of(const struct steno_nemo_arch *a)
{
    return a->left + block_of(a) + a->right;
}

/* Row i of x [B,h,block,left + 1 + right], the scores of its own positions, moves i places to the
 * right: [B,h,block,window]. */
static steno_value_id skew(struct steno_make *m, steno_value_id x, const struct steno_nemo_arch *a)
{
    const int64_t block = block_of(a), window = window_of(a);
    const int64_t pads[] = {0, 0, 0, 0, 0, 0, 0, block};
    x = steno_make_2(m, "Pad", x, steno_make_ints(m, 8, pads));
    x = steno_make_reshape(m, x, 3, (int64_t[]){0, 0, block * (window + 1)});
    x = steno_make_slice(m, x, 2, 0, block * window);
    return steno_make_reshape(m, x, 4, (int64_t[]){0, 0, block, window});
}

/* NAME of x for the frames of all windows: [B blocks,window,heads,d / heads]. */
static steno_value_id project_windows(struct steno_make *m, steno_value_id x, const char *name,
                                      const struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    x = steno_make_linear(m, x, name, a->d, a->d, a->bias);
    x = steno_make_node(m, "Gather", 2, (steno_value_id[]){x, f->windows}, 1, &axis);
    return steno_make_reshape(m, x, 4, (int64_t[]){-1, window_of(a), a->heads, a->d / a->heads});
}

static steno_value_id attend_locally(struct steno_make *m, steno_value_id x,
                                     struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id n = steno_make_extent_of(m, x, 1), q, k, v, scores, y;
    q = steno_make_linear(m, x, "self_attn.linear_q", a->d, a->d, a->bias);
    q = steno_nemo_pad(m, q, steno_make_2(m, "Sub", f->rows, n));
    q = steno_make_reshape(m, q, 4, (int64_t[]){-1, block_of(a), a->heads, a->d / a->heads});
    k = key_columns(m, project_windows(m, x, "self_attn.linear_k", f));
    v = heads_to_front(m, project_windows(m, x, "self_attn.linear_v", f));
    scores = skew(m, to_positions(m, q, f), a);
    y = steno_make_2(m, "MatMul",
                     steno_make_biased(m, q, "self_attn", "pos_bias_u", a->heads, a->d), k);
    y = weigh_hidden(m, steno_make_add(m, y, scores), v, f);
    k = steno_make_concat(m, 0, steno_make_ints(m, 1, (int64_t[]){-1}), f->rows);
    k = steno_make_concat(m, 0, k, steno_make_ints(m, 1, &a->d));
    y = steno_make_2(m, "Reshape", y, k);
    return steno_make_cut(m, y, 1, steno_nemo_zero(m), n);
}

steno_value_id steno_nemo_attend(struct steno_make *m, steno_value_id x, struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    x = a->local ? attend_locally(m, x, f) : attend_all(m, x, f);
    return steno_make_linear(m, x, "self_attn.linear_out", a->d, a->d, a->bias);
}

/* ---- what frames see ----------------------------------------------------------------------- */

/* [1,1,n,n] bool: frame i does not see frame j. */
static steno_value_id out_of_sight(struct steno_make *m, steno_value_id n,
                                   const struct steno_nemo_arch *a)
{
    int64_t left = a->left, right = a->right;
    steno_value_id i = steno_make_range(m, n), by, far = STENO_NONE, y;
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

static steno_value_id at_axis(struct steno_make *m, steno_value_id x, int n, const int64_t *axes)
{
    return steno_make_2(m, "Unsqueeze", x, steno_make_ints(m, n, axes));
}

/* Set f->windows, f->rows and f->hidden [B blocks,1,block,window]. */
static void see_locally(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id n,
                        steno_value_id length)
{
    const struct steno_nemo_arch *a = f->a;
    const int64_t block = block_of(a), window = window_of(a), before = block - 1, one = 1;
    const steno_value_id by = steno_make_ints(m, 1, &block), width = steno_make_ints(m, 1, &window);
    steno_value_id blocks, at, y, far;
    blocks = steno_make_2(m, "Div", steno_make_add(m, n, steno_make_ints(m, 1, &before)), by);
    f->rows = steno_make_2(m, "Mul", blocks, by);
    at = steno_make_2(m, "Mul", steno_make_range(m, blocks), by);
    at = steno_make_2(m, "Sub", at, steno_make_ints(m, 1, &a->left));
    at = steno_make_add(m, steno_make_unsqueeze(m, at, 1), steno_make_range(m, width));
    f->windows = steno_make_2(m, "Max", at, steno_nemo_zero(m));
    f->windows =
        steno_make_2(m, "Min", f->windows, steno_make_2(m, "Sub", n, steno_make_ints(m, 1, &one)));
    /* before the beginning, behind the end */
    y = steno_make_2(m, "Less", at, at_axis(m, length, 2, (int64_t[]){1, 2}));
    y = steno_make_2(m, "And", y, steno_make_2(m, "GreaterOrEqual", at, steno_nemo_zero(m)));
    y = steno_make_1(m, "Not", y);
    y = steno_make_reshape(m, y, 4, (int64_t[]){-1, 1, 1, window});
    /* not within the reach of row i: keys i to i + left + right of the window */
    far = steno_make_2(m, "Sub", steno_make_range(m, width),
                       steno_make_unsqueeze(m, steno_make_range(m, by), 1));
    far = steno_make_2(m, "Or", steno_make_2(m, "Less", far, steno_nemo_zero(m)),
                       steno_make_2(m, "Greater", far, steno_make_int(m, a->left + a->right)));
    f->hidden = steno_make_2(m, "Or", y, far);
}

void steno_nemo_see(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id x,
                    steno_value_id length, steno_value_id filled)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id n = steno_make_extent_of(m, x, 1), beyond, y;
    beyond = steno_make_1(m, "Not", steno_make_present(m, n, length));
    f->padding = steno_make_unsqueeze(m, beyond, 1);
    if (a->local) {
        see_locally(m, f, n, length);
        return;
    }
    if (!a->streaming) {
        f->hidden = steno_make_unsqueeze(m, f->padding, 1);
        if (a->left >= 0 || a->right >= 0)
            f->hidden = steno_make_2(m, "Or", f->hidden, out_of_sight(m, n, a));
        return;
    }
    /* the filled frames of the cache are its last ones; a chunk sees all of them, and itself */
    y = steno_make_2(m, "Sub", steno_make_ints(m, 1, &a->left), filled);
    y = steno_make_present(m, steno_make_ints(m, 1, &a->left), y);
    y = steno_make_concat(m, 1, y, beyond);
    f->hidden = steno_make_unsqueeze(m, steno_make_unsqueeze(m, y, 1), 1);
}

/* Rows for keys `left` before to `right` behind. Where left and right differ, NeMo adds the scores
 * of positions to those of other keys than it means, and to some keys none; here as there, since
 * the model was trained so. */
static steno_value_id local_positions(struct steno_make *m, const struct steno_nemo_arch *a)
{
    const int64_t n = a->left + 1 + a->right, block = block_of(a), late = block - a->right;
    float *x = m->st ? NULL : calloc((size_t)(n * a->d), sizeof *x);
    steno_value_id v;
    for (int64_t by = -a->left; x && by <= a->right; by++) {
        float *row = x + (by + a->left) * a->d;
        if (by < 0 && block + by < a->left)
            steno_make_sinusoid_table(row, 1, a->d, (double)(a->left - block - by), 0);
        if (by >= late)
            steno_make_sinusoid_table(row, 1, a->d, (double)(late - by), 0);
    }
    v = steno_make_floats(m, "pe", 3, (int64_t[]){1, n, a->d}, x);
    free(x);
    return v;
}

/* Set f->cosine and f->sine for n frames. */
static void rotate(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id n)
{
    const struct steno_nemo_arch *a = f->a;
    const int64_t half = a->d / a->heads / 2;
    float *turn = malloc((size_t)half * sizeof *turn);
    steno_value_id at;
    for (int64_t i = 0; turn && i < half; i++)
        turn[i] = (float)pow((double)a->positions, -(double)i / (double)half);
    at = steno_make_unsqueeze(m, steno_make_cast(m, steno_make_range(m, n), STENO_MAKE_FLOAT), 1);
    at = steno_make_2(m, "Mul", at, steno_make_floats(m, "pe", 1, &half, turn));
    free(turn);
    at = steno_make_unsqueeze(m, steno_make_concat(m, 1, at, at), 1);
    f->cosine = steno_make_1(m, "Cos", at);
    f->sine = steno_make_1(m, "Sin", at);
}

steno_value_id steno_nemo_place(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id x)
{
    const struct steno_nemo_arch *a = f->a;
    steno_value_id n = steno_make_extent_of(m, x, 1);
    if (a->xscale)
        x = steno_make_scale(m, x, sqrtf((float)a->d));
    if (a->streaming)
        n = steno_make_add(m, n, steno_make_ints(m, 1, &a->left));
    if (a->rotary)
        rotate(m, f, n);
    else if (a->local)
        f->positions = local_positions(m, a);
    else if (a->rel)
        f->positions = steno_make_relative(m, "pe", a->positions, a->d, n);
    else
        x = steno_make_add(m, x,
                           steno_make_cut(m,
                                          steno_make_sinusoids(m, "pe", a->positions, a->d, 0, 1),
                                          1, steno_nemo_zero(m), n));
    return x;
}
