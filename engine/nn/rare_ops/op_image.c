/* Operators of image networks: GridSample, DepthToSpace, SpaceToDepth, NonMaxSuppression. */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#include <math.h>
#include <stdlib.h>

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a, b);
}

/* ---- GridSample ---- */

enum { MAX_SPACE = 4 }; /* spatial axes */

struct grid {
    int d; /* spatial axes */
    int64_t dim[MAX_SPACE];
    bool corners;
    char mode, padding; /* first letters */
};

static double reflect(double x, double low, double high)
{
    double range = high - low, over, rest, turns;
    if (range <= 0)
        return low;
    if (x >= low && x <= high)
        return x;
    over = x < low ? low - x : x - high;
    turns = floor(over / range);
    rest = over - turns * range;
    return (fmod(turns, 2) == 0) == (x < low) ? low + rest : high - rest;
}

/* The element that tap `at` of axis a reads, or -1 for a zero. */
static int64_t tap_place(const struct grid *g, int a, double at)
{
    int64_t dim = g->dim[a];
    double low = g->corners ? 0 : -0.5, high = g->corners ? (double)dim - 1 : (double)dim - 0.5;
    if (at >= 0 && at < (double)dim)
        return (int64_t)at;
    if (g->padding == 'z')
        return -1;
    at = g->padding == 'b' ? at : trunc(reflect(at, low, high));
    return at < 0 ? 0 : at > (double)(dim - 1) ? dim - 1 : (int64_t)at;
}

/* Inputs and weights of coordinate v in [-1, 1] on axis a; returns their number. */
static int grid_taps(const struct grid *g, int a, double v, int64_t place[4], double weight[4])
{
    double dim = (double)g->dim[a], low = g->corners ? 0 : -0.5;
    double high = g->corners ? dim - 1 : dim - 0.5, x, t;
    int n = g->mode == 'n' ? 1 : g->mode == 'l' ? 2 : 4;
    x = (double)(float)(g->corners ? (v + 1) / 2 * (dim - 1) : ((v + 1) * dim - 1) / 2);
    x = x < -1e9 ? -1e9 : x > 1e9 ? 1e9 : x == x ? x : -1e9;
    if (n == 1)
        x = rint(x);
    if (x < low || x > high)
        x = g->padding == 'b'   ? (x < 0         ? 0
                                   : x > dim - 1 ? dim - 1
                                                 : x)
            : g->padding == 'r' ? (double)(float)reflect(x, low, high)
                                : x;
    if (n == 1) {
        weight[0] = 1;
        place[0] = tap_place(g, a, trunc(x));
        return 1;
    }
    t = x - floor(x);
    for (int k = 0; k < n; k++) {
        double at = floor(x) + k - (n == 4);
        weight[k] = n == 2 ? (k ? t : 1 - t) : steno_ops_cubic_weight(t + 1 - k, -0.75);
        place[k] = tap_place(g, a, at);
    }
    return n;
}

/* One output point of one image, for all channels: y has a step between channels. */
static void sample(const struct grid *g, const double *at, const double *x, size_t channels,
                   size_t plane, double *y, size_t step)
{
    int64_t place[MAX_SPACE][4];
    double weight[MAX_SPACE][4];
    int n = 1, idx[MAX_SPACE] = {0}, taps = 1;
    for (int a = 0; a < g->d; a++) {
        n = grid_taps(g, a, at[g->d - 1 - a], place[a], weight[a]);
        taps *= n;
    }
    for (size_t c = 0; c < channels; c++)
        y[c * step] = 0;
    for (int t = 0; t < taps; t++) {
        int64_t from = 0;
        double w = 1;
        for (int a = 0; a < g->d; a++) {
            w *= weight[a][idx[a]];
            from = from < 0 || place[a][idx[a]] < 0 ? -1 : from * g->dim[a] + place[a][idx[a]];
        }
        for (size_t c = 0; from >= 0 && c < channels; c++)
            y[c * step] += w * x[c * plane + (size_t)from];
        for (int a = g->d - 1; a >= 0 && ++idx[a] == n; a--)
            idx[a] = 0;
    }
}

static const char *grid_check(const struct steno_node *n, const struct steno_shape *x,
                              const struct steno_shape *at, struct grid *g)
{
    const char *mode = steno_node_str(n, "mode", n->opset < 20 ? "bilinear" : "linear");
    const char *padding = steno_node_str(n, "padding_mode", "zeros");
    memset(g, 0, sizeof *g);
    if (x->rank < 3 || x->rank > MAX_SPACE + 2 || at->rank != x->rank ||
        (at->dim[at->rank - 1] >= 0 && at->dim[at->rank - 1] != x->rank - 2))
        return "the grid does not fit the input";
    if (x->dim[0] >= 0 && at->dim[0] >= 0 && x->dim[0] != at->dim[0])
        return "input and grid have different batches";
    g->d = x->rank - 2;
    g->mode = same_text(mode, "nearest")                                 ? 'n'
              : same_text(mode, "linear") || same_text(mode, "bilinear") ? 'l'
              : same_text(mode, "cubic") || same_text(mode, "bicubic")   ? 'c'
                                                                         : '?';
    g->padding = *padding;
    g->corners = steno_node_int(n, "align_corners", 0) != 0;
    for (int a = 0; a < g->d; a++)
        g->dim[a] = x->dim[a + 2];
    return g->mode == '?' || !strchr("zbr", g->padding) || !g->padding ? "the mode is not known"
                                                                       : NULL;
}

static void grid_shape(const struct steno_shape *x, const struct steno_shape *at,
                       struct steno_shape *y)
{
    *y = *x;
    for (int a = 1; a < x->rank - 1; a++)
        y->dim[a + 1] = at->dim[a];
}

static steno_status infer_grid(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), at = steno_infer_shape(ic, 1), y;
    struct grid g;
    const char *wrong;
    if (x.rank < 0 || at.rank < 0) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    wrong = grid_check(steno_infer_node(ic), &x, &at, &g);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    grid_shape(&x, &at, &y);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &y);
    return STENO_OK;
}

static steno_status run_grid(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *at = steno_op_in(ctx, 1);
    const double *px, *pat;
    double *py;
    struct steno_shape s;
    struct steno_tensor *y;
    struct grid g;
    const char *wrong;
    size_t plane, points, channels;
    steno_status st;
    wrong = grid_check(steno_op_node(ctx), &x->shape, &at->shape, &g);
    if (!wrong && !steno_ops_is_float(at->dtype))
        wrong = "the grid is not of floats";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    grid_shape(&x->shape, &at->shape, &s);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    plane = steno_ops_prod(&x->shape, 2, x->shape.rank);
    points = steno_ops_prod(&s, 2, s.rank);
    channels = (size_t)s.dim[1];
    if (!plane)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the input is empty");
    px = steno_ops_as_f64(ctx, x);
    pat = steno_ops_as_f64(ctx, at);
    py = steno_ops_out_f64(ctx, y);
    if (!px || !pat || !py)
        return steno_ops_nomem(ctx, err);
    for (size_t b = 0; b < (size_t)s.dim[0]; b++)
        for (size_t p = 0; p < points; p++)
            sample(&g, pat + (b * points + p) * (size_t)g.d, px + b * channels * plane, channels,
                   plane, py + b * channels * points + p, points);
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

/* ---- DepthToSpace, SpaceToDepth: a transposition of the blocks ---- */

static const char *block_shape(const struct steno_node *n, const struct steno_shape *x,
                               struct steno_shape *y)
{
    int64_t b = steno_node_int(n, "blocksize", 0);
    bool deep = same_text(n->op_type, "DepthToSpace");
    if (x->rank != 4 || b < 1 || b > 32767)
        return "the input must have rank 4, and blocksize be positive";
    *y = *x;
    for (int i = 1; i < 4; i++) {
        bool divides = (i == 1) == deep;
        int64_t by = i == 1 ? b * b : b;
        if (x->dim[i] < 0)
            y->dim[i] = STENO_DIM_ANY;
        else if (divides && x->dim[i] % by)
            return "a dimension is not a multiple of the block";
        else if (!divides && x->dim[i] > INT64_MAX / by)
            return "the output is too large";
        else
            y->dim[i] = divides ? x->dim[i] / by : x->dim[i] * by;
    }
    return NULL;
}

static steno_status infer_blocks(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), y;
    const char *wrong;
    if (x.rank < 0) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    wrong = block_shape(steno_infer_node(ic), &x, &y);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    for (int i = 1; i < 4; i++)
        y.dim[i] = y.dim[i] < 0 ? steno_infer_new_dim(ic) : y.dim[i];
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &y);
    return STENO_OK;
}

static steno_status run_blocks(struct steno_op_ctx *ctx, steno_err *err)
{
    static const int columns[6] = {0, 3, 4, 1, 5, 2}, depths[6] = {0, 1, 4, 2, 5, 3};
    static const int to_depth[6] = {0, 3, 5, 1, 2, 4}, to_columns[6] = {0, 1, 3, 5, 2, 4};
    const struct steno_node *n = steno_op_node(ctx);
    int64_t b = steno_node_int(n, "blocksize", 0);
    bool deep = same_text(n->op_type, "DepthToSpace");
    bool crd = same_text(steno_node_str(n, "mode", "DCR"), "CRD");
    const int *perm = deep ? (crd ? depths : columns) : crd ? to_columns : to_depth;
    struct steno_shape s, split = {.rank = 6};
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    const char *wrong;
    steno_status st;
    wrong = block_shape(n, &x->shape, &s);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    split.dim[0] = s.dim[0];
    if (deep) {
        split.dim[1] = crd ? s.dim[1] : b;
        split.dim[2] = b;
        split.dim[3] = crd ? b : s.dim[1];
        split.dim[4] = x->shape.dim[2];
        split.dim[5] = x->shape.dim[3];
    } else {
        split.dim[1] = x->shape.dim[1];
        split.dim[2] = s.dim[2];
        split.dim[3] = b;
        split.dim[4] = s.dim[3];
        split.dim[5] = b;
    }
    steno_ops_transpose(&split, perm, steno_dtype_size(x->dtype), y->data, x->data);
    return STENO_OK;
}

/* ---- NonMaxSuppression ---- */

struct box {
    float score;
    int64_t at;
};

static int by_score(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Corners [y1, x1, y2, x2] in order. */
static void corners_of(const float *box, bool center, float c[4])
{
    for (int i = 0; i < 2; i++) {
        float a = center ? box[1 - i] - box[3 - i] / 2 : box[i];
        float b = center ? box[1 - i] + box[3 - i] / 2 : box[i + 2];
        c[i] = center || a < b ? a : b;
        c[i + 2] = center || a < b ? b : a;
    }
}

static bool overlaps(const float *box1, const float *box2, bool center, float threshold)
{
    float a[4], b[4], h, w, both, area1, area2, all;
    corners_of(box1, center, a);
    corners_of(box2, center, b);
    h = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
    w = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
    if (!(h > 0) || !(w > 0))
        return false;
    both = h * w;
    area1 = (a[2] - a[0]) * (a[3] - a[1]);
    area2 = (b[2] - b[0]) * (b[3] - b[1]);
    all = area1 + area2 - both;
    return both > 0 && area1 > 0 && area2 > 0 && all > 0 && both / all > threshold;
}

/* Select boxes of one class; returns their number, in order of score. */
static size_t select_boxes(const float *boxes, const float *scores, size_t n, size_t most,
                           bool center, float overlap, const float *least, struct box *list,
                           int64_t *chosen)
{
    size_t found = 0, m = 0;
    for (size_t i = 0; i < n; i++)
        if (scores[i] == scores[i] && (!least || scores[i] > *least))
            list[m++] = (struct box){scores[i], (int64_t)i};
    qsort(list, m, sizeof *list, by_score);
    for (size_t i = 0; i < m && found < most; i++) {
        const float *box = boxes + 4 * (size_t)list[i].at;
        bool free = true;
        for (size_t k = 0; free && k < found; k++)
            free = !overlaps(box, boxes + 4 * (size_t)chosen[k], center, overlap);
        if (free)
            chosen[found++] = list[i].at;
    }
    return found;
}

static steno_status infer_nms(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape y = {.rank = 2, .dim = {STENO_DIM_ANY, 3}};
    (void)err;
    y.dim[0] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_I64, &y);
    return STENO_OK;
}

static const struct steno_tensor *optional_input(struct steno_op_ctx *ctx, int k)
{
    const struct steno_tensor *t = steno_op_in(ctx, k);
    return t && steno_numel(t) ? t : NULL;
}

static steno_status run_nms(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *boxes = steno_op_in(ctx, 0), *scores = steno_op_in(ctx, 1), *most,
                              *overlap, *least;
    const float *pb, *ps;
    bool center = steno_node_int(steno_op_node(ctx), "center_point_box", 0) != 0;
    float threshold, lowest = 0;
    struct steno_shape s = {.rank = 2, .dim = {0, 3}};
    struct steno_tensor *y;
    struct box *list;
    int64_t limit, *chosen, *found;
    size_t batches, classes, n, cap, count = 0;
    steno_status st;
    most = optional_input(ctx, 2);
    overlap = optional_input(ctx, 3);
    least = optional_input(ctx, 4);
    if (boxes->shape.rank != 3 || scores->shape.rank != 3 || boxes->shape.dim[2] != 4 ||
        boxes->shape.dim[0] != scores->shape.dim[0] ||
        boxes->shape.dim[1] != scores->shape.dim[2] || boxes->dtype != STENO_F32 ||
        scores->dtype != STENO_F32)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "boxes and scores do not fit");
    batches = (size_t)boxes->shape.dim[0];
    n = (size_t)boxes->shape.dim[1];
    classes = (size_t)scores->shape.dim[1];
    limit = most ? steno_ops_get_i64(most, 0) : 0;
    limit = limit < 0 ? 0 : limit > (int64_t)n ? (int64_t)n : limit;
    threshold = overlap ? (float)steno_ops_get_f64(overlap, 0) : 0;
    lowest = least ? (float)steno_ops_get_f64(least, 0) : 0;
    if (!steno_mul_size(batches * classes, (size_t)limit, &cap) ||
        !steno_mul_size(cap + 1, 3 * sizeof *found, &cap))
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "too many boxes");
    found = steno_op_scratch(ctx, cap);
    list = steno_op_scratch(ctx, (n + 1) * sizeof *list);
    chosen = steno_op_scratch(ctx, (n + 1) * sizeof *chosen);
    if (!found || !list || !chosen)
        return steno_ops_nomem(ctx, err);
    pb = boxes->data;
    ps = scores->data;
    for (size_t b = 0; b < batches; b++)
        for (size_t c = 0; c < classes; c++) {
            size_t m = select_boxes(pb + b * n * 4, ps + (b * classes + c) * n, n, (size_t)limit,
                                    center, threshold, least ? &lowest : NULL, list, chosen);
            for (size_t k = 0; k < m; k++, count++) {
                found[3 * count] = (int64_t)b;
                found[3 * count + 1] = (int64_t)c;
                found[3 * count + 2] = chosen[k];
            }
        }
    s.dim[0] = (int64_t)count;
    st = steno_op_out(ctx, 0, STENO_I64, &s, &y, err);
    if (!st && count)
        memcpy(y->data, found, count * 3 * sizeof *found);
    return st;
}

const struct steno_op steno_ops_image[] = {
    {"", "GridSample", 16, 0, 0, infer_grid, NULL, NULL, run_grid},
    {"", "DepthToSpace", 1, 0, 0, infer_blocks, NULL, NULL, run_blocks},
    {"", "SpaceToDepth", 1, 0, 0, infer_blocks, NULL, NULL, run_blocks},
    {"", "NonMaxSuppression", 10, 0, STENO_OP_DYNAMIC, infer_nms, NULL, NULL, run_nms},
    {0},
};
