/* Before: y = Einsum(a, b; "bqnd,bknd->bnqk"), or another batch of matrix products
 * After:  y = MatMul(a, b), with a Transpose where the order of letters needs one
 * Before: y = Einsum(a, W; "btnd,ndo->bto"), W constant: a Linear whose columns or rows are spread
 *         over several axes
 * After:  y = MatMul(a, W'), with Reshapes of a and y
 * An inner letter must have one extent: Einsum broadcasts an extent of 1, MatMul does not. Other
 * equations stay; the operator runs them as products, too, but does not pack W. */
#include "nn/passes/passes.h"

#include <string.h>

/* The letters of the three terms; the axes of an ellipsis are digits, the last one is 0. */
struct form {
    char a[STENO_MAX_RANK + 1], b[STENO_MAX_RANK + 1], y[STENO_MAX_RANK + 1];
};

static size_t add_ellipsis(size_t axes, size_t n, char *out)
{
    while (axes && n < STENO_MAX_RANK)
        out[n++] = (char)('0' + --axes);
    return n;
}

/* Read the term up to `end`; false for too many letters and repetitions. rank: of the value; -1:
 * the result. dots: gets the number of axes of the ellipsis; of the result, has it. */
static bool term(const char *p, const char *end, int rank, size_t *dots, char *out)
{
    size_t n = 0, letters = 0;
    for (const char *q = p; q < end; q++)
        letters += *q >= 'A';
    if (rank >= 0 && (size_t)rank >= letters)
        *dots = (size_t)rank - letters;
    for (; p < end; p++) {
        if (*p == ' ')
            continue;
        if (p + 2 < end && !memcmp(p, "...", 3)) {
            n = add_ellipsis(*dots, n, out);
            p += 2;
            continue;
        }
        if (n == STENO_MAX_RANK || *p < 'A' || memchr(out, *p, n))
            return false;
        out[n++] = *p;
    }
    out[n] = '\0';
    return rank < 0 || n == (size_t)rank;
}

static bool parse(const struct steno_graph *g, const struct steno_node *n, struct form *f)
{
    const char *p = steno_node_str(n, "equation", ""), *comma = strchr(p, ','),
               *arrow = strstr(p, "->");
    size_t dots[2] = {0};
    return comma && arrow && comma < arrow &&
           term(p, comma, g->values[n->in[0]].shape.rank, &dots[0], f->a) &&
           term(comma + 1, arrow, g->values[n->in[1]].shape.rank, &dots[1], f->b) &&
           term(arrow + 2, arrow + strlen(arrow), -1, dots[0] > dots[1] ? &dots[0] : &dots[1],
                f->y);
}

static int64_t extent(const struct steno_graph *g, steno_value_id v, const char *letters, char c)
{
    return g->values[v].shape.dim[strchr(letters, c) - letters];
}

/* True if inner letters have one extent, and each letter is in two terms. */
static bool einsum_fits(const struct steno_graph *g, const struct steno_node *n,
                        const struct form *f)
{
    for (const char *c = f->a; *c; c++) {
        int64_t x = extent(g, n->in[0], f->a, *c);
        if (!strchr(f->y, *c) &&
            (!strchr(f->b, *c) || x == STENO_DIM_ANY || x != extent(g, n->in[1], f->b, *c)))
            return false;
    }
    for (const char *c = f->b; *c; c++)
        if (!strchr(f->a, *c) && !strchr(f->y, *c))
            return false;
    for (const char *c = f->y; *c; c++)
        if (!strchr(f->a, *c) && !strchr(f->b, *c))
            return false;
    return true;
}

/* The letters of `of` that are in `with` (or are not, where `without`), in their order. */
static int choose_einsum(const char *of, const char *with, const char *without, char *out)
{
    int n = 0;
    for (; *of; of++)
        if ((!with || strchr(with, *of)) && (!without || !strchr(without, *of)))
            out[n++] = *of;
    out[n] = '\0';
    return n;
}

/* *v becomes its Transpose from letters `have` to `want`; the same letters: nothing. out: the value
 * to write, or STENO_NONE. */
static void transpose_einsum(struct steno_pass_writer *w, steno_value_id *v, const char *have,
                             const char *want, steno_value_id out)
{
    size_t rank = strlen(have);
    int64_t *perm;
    if (!strcmp(have, want))
        return;
    perm = steno_graph_alloc(w->g, rank, sizeof *perm, w->err);
    if (!perm) {
        w->st = STENO_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < rank; i++)
        perm[i] = strchr(have, want[i]) - have;
    out = out == STENO_NONE ? steno_pass_new_value(w) : out;
    steno_pass_write(w, STENO_NODE("", "Transpose", 13, .in = STENO_VALUES(*v),
                                   .out = STENO_VALUES(out),
                                   .attr = STENO_ATTRS(STENO_INTS_ATTR("perm", rank, perm))));
    *v = out;
}

static void reshape(struct steno_pass_writer *w, steno_value_id *v, const int64_t *dim, int rank,
                    steno_value_id out)
{
    const steno_value_id target = steno_pass_new_ints(w, "target", rank, dim);
    out = out == STENO_NONE ? steno_pass_new_value(w) : out;
    steno_pass_write(
        w, STENO_NODE("", "Reshape", 13, .in = STENO_VALUES(*v, target), .out = STENO_VALUES(out)));
    *v = out;
}

/* A batch of matrices: a [batch, m, k], b [batch, k, n]. */
struct batch {
    steno_value_id a, b;
    const char *has_a, *has_b;
    char want_a[STENO_MAX_RANK + 4], want_b[STENO_MAX_RANK + 4], y[STENO_MAX_RANK + 4];
};

static bool is_batch(const struct steno_node *n, const struct form *f, struct batch *p)
{
    char shared[STENO_MAX_RANK + 1], last = *f->y ? f->y[strlen(f->y) - 1] : '\0';
    char m[STENO_MAX_RANK + 1], k[STENO_MAX_RANK + 1], c[STENO_MAX_RANK + 1];
    bool swap = last && strchr(f->a, last);
    int lead;
    *p = (struct batch){n->in[swap], n->in[!swap], swap ? f->b : f->a, swap ? f->a : f->b, "", "",
                        ""};
    (void)choose_einsum(f->y, p->has_a, NULL, shared);
    lead = choose_einsum(shared, p->has_b, NULL, shared);
    if (choose_einsum(p->has_a, NULL, p->has_b, m) != 1 ||
        choose_einsum(p->has_b, NULL, p->has_a, c) != 1 ||
        choose_einsum(p->has_a, p->has_b, f->y, k) != 1 || *c != last ||
        (size_t)lead + 2 != strlen(f->y))
        return false;
    memcpy(p->want_a, shared, (size_t)lead);
    memcpy(p->want_b, shared, (size_t)lead);
    memcpy(p->y, shared, (size_t)lead);
    p->want_a[lead] = p->y[lead] = *m;
    p->want_a[lead + 1] = p->want_b[lead] = *k;
    p->want_b[lead + 1] = p->y[lead + 1] = *c;
    return true;
}

static void make_batch(struct steno_pass_writer *w, const struct form *f, struct batch *p,
                       steno_value_id out)
{
    steno_value_id y = strcmp(p->y, f->y) ? steno_pass_new_value(w) : out;
    transpose_einsum(w, &p->a, p->has_a, p->want_a, STENO_NONE);
    transpose_einsum(w, &p->b, p->has_b, p->want_b, STENO_NONE);
    steno_pass_write_product(w, p->a, p->b, STENO_NONE, y);
    transpose_einsum(w, &y, p->y, f->y, out);
}

/* A Linear: a [rows..., inner...], W of inner and cols in any order, y [rows..., cols...]. */
struct linear {
    char rows[STENO_MAX_RANK + 1], inner[STENO_MAX_RANK + 1], cols[STENO_MAX_RANK + 1];
    int n_rows, n_inner, n_cols;
};

static bool is_linear(const struct steno_graph *g, const struct steno_node *n, const struct form *f,
                      struct linear *p)
{
    size_t rows;
    for (size_t i = 0; i < strlen(f->b); i++)
        if (!g->values[n->in[1]].shape.dim[i]) /* a Reshape takes 0 as another dimension */
            return false;
    p->n_rows = choose_einsum(f->a, f->y, NULL, p->rows);
    p->n_inner = choose_einsum(f->a, NULL, f->y, p->inner);
    p->n_cols = choose_einsum(f->b, f->y, NULL, p->cols);
    (void)choose_einsum(f->y, f->b, NULL, p->cols); /* in the order of y */
    rows = (size_t)p->n_rows;
    return rows && p->n_inner && p->n_cols && strlen(p->cols) == (size_t)p->n_cols &&
           (g->values[n->in[1]].constant || (p->n_inner == 1 && p->n_cols == 1)) &&
           strlen(f->b) == (size_t)(p->n_inner + p->n_cols) && !memcmp(f->a, p->rows, rows) &&
           !memcmp(f->y, p->rows, rows) && !strcmp(f->y + rows, p->cols);
}

static void make_linear(struct steno_pass_writer *p, const struct steno_node *n,
                        const struct form *f, const struct linear *l)
{
    const bool plain = l->n_inner == 1 && l->n_cols == 1;
    steno_value_id a = n->in[0], w = n->in[1], out = n->out[0], y = out;
    int64_t dim[STENO_MAX_RANK] = {0}, matrix[2] = {1, 1};
    char want[2 * STENO_MAX_RANK + 1];
    for (int i = 0; i < l->n_inner && !plain; i++)
        matrix[0] *= extent(p->g, w, f->b, l->inner[i]);
    for (int i = 0; i < l->n_cols && !plain; i++) {
        dim[l->n_rows + i] = extent(p->g, w, f->b, l->cols[i]);
        matrix[1] *= dim[l->n_rows + i];
    }
    memcpy(want, l->inner, (size_t)l->n_inner);
    memcpy(want + l->n_inner, l->cols, (size_t)l->n_cols + 1);
    transpose_einsum(p, &w, f->b, want, STENO_NONE);
    if (!plain)
        reshape(p, &w, matrix, 2, STENO_NONE);
    if (l->n_cols > 1)
        y = steno_pass_new_value(p);
    if (l->n_inner > 1) {
        int64_t flat[STENO_MAX_RANK] = {0};
        flat[l->n_rows] = matrix[0];
        reshape(p, &a, flat, l->n_rows + 1, STENO_NONE);
    }
    steno_pass_write_product(p, a, w, STENO_NONE, y);
    if (l->n_cols > 1)
        reshape(p, &y, dim, l->n_rows + l->n_cols, out);
}

steno_status steno_pass_einsum(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    struct form f = {"", "", ""};
    struct batch b;
    struct linear l;
    const struct steno_node old = *n; /* the array may move */
    bool batch;
    (void)env;
    if (!steno_pass_is(n, "Einsum") || n->n_in != 2 || g->values[n->in[0]].dtype != STENO_F32 ||
        g->values[n->in[0]].shape.rank < 0 || g->values[n->in[1]].shape.rank < 0 ||
        !parse(g, n, &f) || !einsum_fits(g, n, &f))
        return STENO_OK;
    batch = is_batch(n, &f, &b);
    if (!batch && !is_linear(g, n, &f, &l))
        return STENO_OK;
    n->dead = true;
    ++*changed;
    if (batch)
        make_batch(&w, &f, &b, old.out[0]);
    else
        make_linear(&w, &old, &f, &l);
    return w.st;
}
