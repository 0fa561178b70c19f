/* Operator of domain ai.steno.run, made by pass rowtile, which no file contains: two consecutive
 * convolutions of channels-last images. Only a row tile of the first result is in memory at a time.
 *
 * ConvRowTiles   X [N, H, W, C], W0 [C', C / group, kernel...], bias [C']?,
 *                W1 [O, C' / group, kernel...], bias [O]?, weights constant;
 *                Y [N, H'', W'', O] = f1(conv(f0(conv(X, W0) + b0), W1) + b1).
 *                Attributes are lists for both: strides [2 * 2], dilations [2 * 2], pads [2 * 4],
 *                group [2], act [2] (enum steno_activation), act_min [2], act_max [2].
 *
 * Y has the same bits as the two convolutions one after the other: row tiles begin at multiples of
 * three rows, where the Winograd units begin. */
#include "nn/ops/nhwc.h"

#include "base/cpu.h"

#include <stdlib.h>

enum {
    STAGES = 2,
    ROWS = 3, /* a row tile has a multiple of this many rows */
    /* Pixels of Y in a row tile. Weights are read once per row tile, and L2 holds the row tile
     * where possible (docs/log/2026-11-25.md). */
    PIXELS = 128,
    AMX_PIXELS = 171
};

struct row_tiles {
    struct steno_nhwc conv[STAGES];
    struct steno_window win[STAGES];
    struct steno_gemm_epilogue ep[STAGES];
};

static void release_row_tiles(void *priv)
{
    struct row_tiles *c = priv;
    for (int i = 0; c && i < STAGES; i++)
        steno_nhwc_release(&c->conv[i]);
    free(c);
}

/* Entry i of a list with `per` entries for each stage; NULL: absent or of another length. */
static const int64_t *stage_ints(const struct steno_node *n, const char *name, size_t per, int i)
{
    size_t count;
    const int64_t *v = steno_node_ints(n, name, &count);
    return v && count == per * STAGES ? v + per * (size_t)i : NULL;
}

static float stage_float(const struct steno_node *n, const char *name, int i)
{
    const struct steno_attr *a = steno_node_attr(n, name);
    return a && a->kind == STENO_ATTR_FLOATS && a->n == STAGES ? a->floats[i] : 0;
}

static steno_status geometry(const struct steno_node *n, int i, const struct steno_shape *w,
                             struct steno_conv *s, struct steno_window *win, steno_err *err)
{
    const int64_t *strides = stage_ints(n, "strides", 2, i), *pads = stage_ints(n, "pads", 4, i);
    const int64_t *dilations = stage_ints(n, "dilations", 2, i);
    const int64_t *group = stage_ints(n, "group", 1, i);
    struct steno_attr a[] = {
        {.name = "strides", .kind = STENO_ATTR_INTS, .n = 2, .ints = strides},
        {.name = "pads", .kind = STENO_ATTR_INTS, .n = 4, .ints = pads},
        {.name = "dilations", .kind = STENO_ATTR_INTS, .n = 2, .ints = dilations},
        {.name = "group", .kind = STENO_ATTR_INT, .i = group ? *group : 0}};
    const struct steno_node one = {.name = n->name, .attr = a, .n_attr = 4};
    if (!strides || !pads || !dilations || !group || w->rank != 4)
        return steno_fail(err, STENO_ERR_FORMAT, "two convolutions of two axes are expected");
    return steno_ops_conv_geometry(&one, w, s, win, err);
}

static steno_status infer_row_tiles(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), y = x;
    steno_status st = STENO_OK;
    for (int i = 0; i < STAGES && !st; i++) {
        const struct steno_shape w = steno_infer_shape(ic, 1 + 2 * i);
        struct steno_window win;
        struct steno_conv s;
        st = geometry(steno_infer_node(ic), i, &w, &s, &win, err);
        if (!st)
            st = steno_infer_nhwc(ic, &x, &s, &win, &y, err);
        x = y;
    }
    if (!st)
        steno_infer_set(ic, 0, STENO_F32, &y);
    return st;
}

static steno_status prepare_stage(struct steno_prepare *pc, struct row_tiles *c, int i,
                                  steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_shape w = steno_prepare_shape(pc, 1 + 2 * i);
    const int64_t *act = stage_ints(n, "act", 1, i);
    struct steno_conv s;
    steno_status st = geometry(n, i, &w, &s, &c->win[i], err);
    if (st)
        return st;
    if (i && s.c_in != c->conv[0].s.c_out)
        return steno_fail(err, STENO_ERR_FORMAT, "W1 takes %zu channels, but W0 makes %zu", s.c_in,
                          c->conv[0].s.c_out);
    c->ep[i] =
        (struct steno_gemm_epilogue){.alpha = 1,
                                     .ldr = s.c_out,
                                     .act = act ? (enum steno_activation) * act : STENO_ACT_NONE,
                                     .act_min = stage_float(n, "act_min", i),
                                     .act_max = stage_float(n, "act_max", i)};
    return steno_prepare_nhwc(pc, 1 + 2 * i, &s, &c->win[i], &c->conv[i], err);
}

static steno_status prepare_row_tiles(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct row_tiles *c = calloc(1, sizeof *c);
    steno_status st =
        c ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    for (int i = 0; i < STAGES && !st; i++)
        st = prepare_stage(pc, c, i, err);
    if (st) {
        release_row_tiles(c);
        return st;
    }
    *priv = c;
    return STENO_OK;
}

/* ---- run ---- */

/* One image. */
struct job {
    const steno_kernels *k;
    const struct row_tiles *c;
    struct steno_conv s[STAGES];
    struct steno_gemm_epilogue ep[STAGES];
    const float *x;
    float *y;
    size_t parts;      /* number of parts, over all threads */
    size_t held;       /* rows of the first result that a row tile may need */
    size_t work_bytes; /* for each set of parts that work on one row tile */
    float *rows;       /* [parts or 1][held][out1][c_out] */
    char *work;        /* [parts or 1][work_bytes] */
    /* each part has row tiles of its own; otherwise all parts share each row tile */
    bool apart;
};

/* The row tile in progress; rows [from, to) of the first result are in memory. */
struct row_tile {
    const struct job *j;
    struct steno_conv s[STAGES];
    struct steno_nhwc_image m[STAGES];
    float *rows;
    size_t from, to;
};

/* Input rows [*from, *to) that output rows [o0, o1) of s read, cut to the image. */
static void rows_seen(const struct steno_conv *s, size_t o0, size_t o1, size_t *from, size_t *to)
{
    const size_t first = o0 * s->stride[0];
    const size_t last = (o1 - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dilation[0] + 1;
    *from = first > s->pad[0] ? first - s->pad[0] : 0;
    *to = last > s->pad[0] ? last - s->pad[0] : 0;
    *to = *to < s->in[0] ? *to : s->in[0];
    *from = *from < *to ? *from : *to;
}

/* The part of the image that output rows [o0, o1) read, as a convolution of its own. It begins at
 * row *from of s's image. */
static struct steno_conv part_of(const struct steno_conv *s, size_t o0, size_t o1, size_t *from)
{
    const size_t first = o0 * s->stride[0];
    struct steno_conv p = *s;
    size_t to;
    rows_seen(s, o0, o1, from, &to);
    p.in[0] = to - *from;
    p.out[0] = o1 - o0;
    p.pad[0] = *from + s->pad[0] - first;
    return p;
}

/* Set up both convolutions for rows [o0, o1) of Y: the missing rows of the first, and the
 * second. */
static void begin_conv_row_tiles(struct row_tile *t, size_t o0, size_t o1)
{
    const struct job *j = t->j;
    const size_t line = j->s[0].out[1] * j->s[0].c_out;
    size_t from, to, x_from;
    rows_seen(&j->s[1], o0, o1, &from, &to);
    if (t->to > from)
        memmove(t->rows, t->rows + (from - t->from) * line,
                (t->to - from) * line * sizeof *t->rows);
    else
        t->to = from;
    t->from = from;
    t->m[0].y = t->rows + (t->to - from) * line;
    t->m[1].x = t->rows;
    t->m[1].y = j->y + o0 * j->s[1].out[1] * j->s[1].c_out;
    t->s[1] = part_of(&j->s[1], o0, o1, &from);
    t->s[0] = (struct steno_conv){0};
    if (to > t->to) {
        t->s[0] = part_of(&j->s[0], t->to, to, &x_from);
        t->m[0].x = j->x + x_from * j->s[0].in[1] * j->s[0].c_in;
        t->to = to;
    }
}

static void start(struct row_tile *t, const struct job *j, size_t set)
{
    *t = (struct row_tile){.j = j};
    t->rows = j->rows + set * j->held * j->s[0].out[1] * j->s[0].c_out;
    for (int i = 0; i < STAGES; i++)
        t->m[i] = (struct steno_nhwc_image){.c = &j->c->conv[i],
                                            .s = &t->s[i],
                                            .ep = &j->ep[i],
                                            .work = j->work + set * j->work_bytes};
}

static size_t units(const struct job *j)
{
    return (j->s[1].out[0] + ROWS - 1) / ROWS;
}

/* Largest number of units in a row tile. */
static size_t most(const struct job *j)
{
    const bool amx = j->k->cpu & STENO_CPU_AMX && j->k->cpu & STENO_CPU_BF16;
    const size_t n = (amx ? AMX_PIXELS : PIXELS) / (ROWS * j->s[1].out[1]);
    return n ? n : 1;
}

/* Number of row tiles for n units; their sizes are as equal as possible. */
static size_t row_tiles_of(const struct job *j, size_t n)
{
    return (n + most(j) - 1) / most(j);
}

static size_t row_of(const struct job *j, size_t unit)
{
    return unit * ROWS < j->s[1].out[0] ? unit * ROWS : j->s[1].out[0];
}

/* Compute consecutive row tiles on one thread. */
static void own_row_tiles(void *arg, int part)
{
    const struct job *j = arg;
    const size_t u0 = units(j) * (size_t)part / j->parts;
    const size_t n = units(j) * ((size_t)part + 1) / j->parts - u0;
    const size_t row_tiles = row_tiles_of(j, n);
    struct row_tile t;
    start(&t, j, (size_t)part);
    for (size_t i = 0; i < row_tiles; i++) {
        begin_conv_row_tiles(&t, row_of(j, u0 + n * i / row_tiles),
                             row_of(j, u0 + n * (i + 1) / row_tiles));
        for (int k = 0; k < STAGES; k++)
            if (t.s[k].out[0])
                steno_nhwc_part(j->k, &t.m[k], 0, 1);
    }
}

struct shared {
    const struct row_tile *t;
    int stage;
};

static void shared_part(void *arg, int part)
{
    const struct shared *s = arg;
    steno_nhwc_part(s->t->j->k, &s->t->m[s->stage], (size_t)part, s->t->j->parts);
}

/* With few row tiles, every thread computes a part of each. */
static void shared_row_tiles(struct steno_op_ctx *ctx, const struct job *j)
{
    const size_t n = units(j), row_tiles = row_tiles_of(j, n);
    struct row_tile t;
    start(&t, j, 0);
    for (size_t i = 0; i < row_tiles; i++) {
        begin_conv_row_tiles(&t, row_of(j, n * i / row_tiles), row_of(j, n * (i + 1) / row_tiles));
        for (int k = 0; k < STAGES; k++)
            if (t.s[k].out[0])
                steno_op_parallel(ctx, (int)j->parts, shared_part, &(struct shared){&t, k});
    }
}

/* Allocate memory for the row tiles of j's threads. False: out of memory. */
static bool make_room(struct steno_op_ctx *ctx, struct job *j)
{
    struct steno_conv s[STAGES] = {j->s[0], j->s[1]};
    size_t sets, rows, n, bytes = 0;
    j->parts = (size_t)steno_ops_conv_parts(ctx, &j->s[1]);
    j->apart = units(j) >= j->parts * most(j);
    sets = j->apart ? j->parts : 1;
    n = row_tiles_of(j, units(j));
    rows = ROWS * (sets > 1 ? most(j) : (units(j) + n - 1) / n);
    s[1].out[0] = rows < s[1].out[0] ? rows : s[1].out[0];
    j->held = (s[1].out[0] - 1) * s[1].stride[0] + (s[1].kernel[0] - 1) * s[1].dilation[0] + 1;
    j->held = j->held < s[1].in[0] ? j->held : s[1].in[0];
    s[1].in[0] = s[0].out[0] = j->held;
    for (int i = 0; i < STAGES; i++) {
        n = steno_nhwc_work(&j->c->conv[i], &s[i], j->apart ? 1 : j->parts);
        bytes = n > bytes ? n : bytes;
    }
    j->work_bytes = steno_aligned(bytes);
    if (!steno_mul_size(sets * j->held, s[0].out[1], &n) ||
        !steno_mul_size(n, s[0].c_out * sizeof *j->rows, &n))
        return false;
    j->rows = steno_op_scratch(ctx, n);
    j->work = steno_op_scratch(ctx, sets * j->work_bytes + 1);
    return j->rows && j->work;
}

static steno_status resolve_shapes(struct steno_op_ctx *ctx, struct job *j, struct steno_shape *y,
                                   steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_shape shape = x ? x->shape : (struct steno_shape){.rank = -1};
    steno_status st = STENO_OK;
    if (!x || x->dtype != STENO_F32 || shape.rank != 4 ||
        (size_t)shape.dim[3] != j->c->conv[0].s.c_in)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "X does not fit weights of %zu channels",
                             j->c->conv[0].s.c_in);
    for (int i = 0; i < STAGES && !st; i++) {
        const struct steno_tensor *bias = steno_op_in(ctx, 2 + 2 * i);
        struct steno_window win = j->c->win[i];
        j->s[i] = j->c->conv[i].s;
        j->ep[i] = j->c->ep[i];
        st = steno_nhwc_extents(&shape, &win, &j->s[i], y, err);
        if (!st && bias && (bias->dtype != STENO_F32 || steno_numel(bias) != j->s[i].c_out))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias does not fit the result");
        j->ep[i].bias = bias ? bias->data : NULL;
        shape = *y;
    }
    return st;
}

static steno_status run_row_tiles(struct steno_op_ctx *ctx, steno_err *err)
{
    struct job j = {.k = steno_op_kernels(ctx), .c = steno_op_priv(ctx)};
    struct steno_shape ys;
    struct steno_tensor *y;
    steno_status st = resolve_shapes(ctx, &j, &ys, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_F32, &ys, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (!make_room(ctx, &j))
        return steno_ops_nomem(ctx, err);
    j.x = steno_op_in(ctx, 0)->data;
    j.y = y->data;
    for (int64_t i = 0; i < ys.dim[0]; i++) {
        if (j.apart)
            steno_op_parallel(ctx, (int)j.parts, own_row_tiles, &j);
        else
            shared_row_tiles(ctx, &j);
        j.x += j.s[0].in[0] * j.s[0].in[1] * j.s[0].c_in;
        j.y += j.s[1].out[0] * j.s[1].out[1] * j.s[1].c_out;
    }
    return STENO_OK;
}

const struct steno_op steno_ops_conv_row_tiles[] = {
    {"ai.steno.run", "ConvRowTiles", 1, 0, 0, infer_row_tiles, prepare_row_tiles, release_row_tiles,
     run_row_tiles},
    {0},
};
