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
static steno_status transpose_einsum(struct steno_graph *g, steno_value_id *v, const char *have,
                                     const char *want, steno_value_id out, steno_err *err)
{
    size_t rank = strlen(have);
    int64_t *perm;
    struct steno_node *t;
    if (!strcmp(have, want))
        return STENO_OK;
    perm = steno_graph_alloc(g, rank, sizeof *perm, err);
    if (!perm || (out == STENO_NONE && steno_graph_add_value(g, "", &out, err)))
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < rank; i++)
        perm[i] = strchr(have, want[i]) - have;
    t = steno_pass_add_node(g, "", "Transpose", 13, "einsum", 1, 1, 1, err);
    if (!t)
        return STENO_ERR_NOMEM;
    t->attr[0] =
        (struct steno_attr){.name = "perm", .kind = STENO_ATTR_INTS, .n = rank, .ints = perm};
    t->in[0] = *v;
    t->out[0] = *v = out;
    return STENO_OK;
}

static steno_status reshape(struct steno_graph *g, steno_value_id *v, const int64_t *dim, int rank,
                            steno_value_id out, steno_err *err)
{
    int64_t copy[STENO_MAX_RANK];
    const struct steno_tensor t = {
        .dtype = STENO_I64, .shape = {.rank = 1, .dim = {rank}}, .data = copy};
    steno_value_id target;
    struct steno_node *r;
    memcpy(copy, dim, (size_t)rank * sizeof *dim);
    if (steno_graph_add_const(g, "", &t, false, &target, err) ||
        (out == STENO_NONE && steno_graph_add_value(g, "", &out, err)))
        return STENO_ERR_NOMEM;
    r = steno_pass_add_node(g, "", "Reshape", 13, "einsum", 2, 1, 0, err);
    if (!r)
        return STENO_ERR_NOMEM;
    r->in[0] = *v;
    r->in[1] = target;
    r->out[0] = *v = out;
    return STENO_OK;
}

static steno_status multiply_einsum(struct steno_graph *g, const char *name, steno_value_id a,
                                    steno_value_id b, steno_value_id y, steno_err *err)
{
    struct steno_node *n = steno_pass_add_node(g, "", "MatMul", 13, name, 2, 1, 0, err);
    if (!n)
        return STENO_ERR_NOMEM;
    n->in[0] = a;
    n->in[1] = b;
    n->out[0] = y;
    return STENO_OK;
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

static steno_status make_batch(struct steno_graph *g, const struct steno_node *n,
                               const struct form *f, struct batch *p, steno_err *err)
{
    const char *name = n->name;
    steno_value_id out = n->out[0], y = out;
    if (strcmp(p->y, f->y) && steno_graph_add_value(g, "", &y, err))
        return STENO_ERR_NOMEM;
    if (transpose_einsum(g, &p->a, p->has_a, p->want_a, STENO_NONE, err) ||
        transpose_einsum(g, &p->b, p->has_b, p->want_b, STENO_NONE, err) ||
        multiply_einsum(g, name, p->a, p->b, y, err))
        return STENO_ERR_NOMEM;
    return transpose_einsum(g, &y, p->y, f->y, out, err);
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

static steno_status make_linear(struct steno_graph *g, const struct steno_node *n,
                                const struct form *f, const struct linear *p, steno_err *err)
{
    const char *name = n->name;
    steno_value_id a = n->in[0], w = n->in[1], out = n->out[0], y = out;
    int64_t dim[STENO_MAX_RANK] = {0}, matrix[2] = {1, 1};
    char want[2 * STENO_MAX_RANK + 1];
    for (int i = 0; i < p->n_inner && (p->n_inner > 1 || p->n_cols > 1); i++)
        matrix[0] *= extent(g, w, f->b, p->inner[i]);
    for (int i = 0; i < p->n_cols && (p->n_inner > 1 || p->n_cols > 1); i++) {
        dim[p->n_rows + i] = extent(g, w, f->b, p->cols[i]);
        matrix[1] *= dim[p->n_rows + i];
    }
    memcpy(want, p->inner, (size_t)p->n_inner);
    memcpy(want + p->n_inner, p->cols, (size_t)p->n_cols + 1);
    if (transpose_einsum(g, &w, f->b, want, STENO_NONE, err) ||
        ((p->n_inner > 1 || p->n_cols > 1) && reshape(g, &w, matrix, 2, STENO_NONE, err)) ||
        (p->n_cols > 1 && steno_graph_add_value(g, "", &y, err)))
        return STENO_ERR_NOMEM;
    if (p->n_inner > 1) {
        int64_t flat[STENO_MAX_RANK] = {0};
        flat[p->n_rows] = matrix[0];
        if (reshape(g, &a, flat, p->n_rows + 1, STENO_NONE, err))
            return STENO_ERR_NOMEM;
    }
    if (multiply_einsum(g, name, a, w, y, err))
        return STENO_ERR_NOMEM;
    return p->n_cols > 1 ? reshape(g, &y, dim, p->n_rows + p->n_cols, out, err) : STENO_OK;
}

steno_status steno_pass_einsum(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        const struct steno_node n = g->nodes[i];
        struct form f = {"", "", ""};
        struct batch b;
        struct linear l;
        bool batch;
        if (n.dead || !steno_pass_is(&n, "Einsum") || n.n_in != 2 ||
            g->values[n.in[0]].dtype != STENO_F32 || g->values[n.in[0]].shape.rank < 0 ||
            g->values[n.in[1]].shape.rank < 0 || !parse(g, &n, &f) || !einsum_fits(g, &n, &f))
            continue;
        batch = is_batch(&n, &f, &b);
        if (!batch && !is_linear(g, &n, &f, &l))
            continue;
        g->nodes[i].dead = true;
        if (batch ? make_batch(g, &n, &f, &b, err) : make_linear(g, &n, &f, &l, err))
            return STENO_ERR_NOMEM;
        ++*changed;
    }
    return STENO_OK;
}
