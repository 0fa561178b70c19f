/* Dimensions that are computed from others at load. The same computation on the same dimensions
 * gives the same symbol: past + length is one dimension wherever a graph computes it, and (past +
 * length) - past is length. A term is a number (0 or more) or a symbol (negative, never
 * STENO_DIM_ANY). All terms and results are dimensions, so they are at least 0. The table is
 * bounded; when it is full, results are new symbols of which nothing else is known. */
#include "nn/exec/infer.h"

#include <string.h>

#define MAX_EXPRS 4096
#define BUCKETS 512

struct expr {
    char op; /* + * / and m, the minimum of a and b */
    int64_t a, b, r;
    int16_t by_terms, by_result; /* next in the bucket: index + 1 */
};

struct steno_expressions {
    struct expr e[MAX_EXPRS];
    int n;
    int16_t terms[BUCKETS], results[BUCKETS];
};

struct steno_expressions *steno_expressions_new(steno_arena *mem)
{
    return steno_arena_calloc(mem, 1, sizeof(struct steno_expressions));
}

static unsigned bucket(char op, int64_t a, int64_t b)
{
    uint64_t h = ((uint64_t)a * 31 + (uint64_t)b) * 31 + (unsigned char)op;
    return (unsigned)((h * 11400714819323198485u) >>
                      55); /* Fibonacci hashing (Knuth, vol. 3, 6.4) */
}

/* The expression that symbol r stands for, or NULL. */
static const struct expr *meaning(const struct steno_infer *ic, int64_t r)
{
    int i = ic->exprs && r < 0 ? ic->exprs->results[bucket(0, r, 0)] : 0;
    while (i && ic->exprs->e[i - 1].r != r)
        i = ic->exprs->e[i - 1].by_result;
    return i ? &ic->exprs->e[i - 1] : NULL;
}

int64_t steno_infer_expr(struct steno_infer *ic, char op, int64_t a, int64_t b)
{
    struct steno_expressions *t = ic->exprs;
    struct expr *e;
    unsigned at;
    if (!t || a == STENO_DIM_ANY || b == STENO_DIM_ANY)
        return steno_infer_new_dim(ic);
    if (op != '/' && a > b) {
        int64_t s = a;
        a = b;
        b = s;
    }
    at = bucket(op, a, b);
    for (int i = t->terms[at]; i; i = t->e[i - 1].by_terms)
        if (t->e[i - 1].op == op && t->e[i - 1].a == a && t->e[i - 1].b == b)
            return t->e[i - 1].r;
    if (t->n == MAX_EXPRS)
        return steno_infer_new_dim(ic);
    e = &t->e[t->n++];
    *e = (struct expr){op, a, b, steno_infer_new_dim(ic), t->terms[at], 0};
    t->terms[at] = (int16_t)t->n;
    at = bucket(0, e->r, 0);
    e->by_result = t->results[at];
    t->results[at] = (int16_t)t->n;
    return e->r;
}

bool steno_infer_minus(const struct steno_infer *ic, int64_t a, int64_t b, int64_t *out)
{
    const struct expr *e = meaning(ic, a);
    if (a == STENO_DIM_ANY || b == STENO_DIM_ANY)
        return false;
    if (b == 0 || a == b)
        *out = b == 0 ? a : 0;
    else if (a >= b && b > 0)
        *out = a - b;
    else if (e && e->op == '+' && (e->a == b || e->b == b))
        *out = e->a == b ? e->b : e->a;
    else
        return false;
    return true;
}

int64_t steno_infer_meet(const struct steno_infer *ic, int64_t a, int64_t b)
{
    for (int k = 0; k < 2; k++) {
        const struct expr *e = meaning(ic, k ? b : a);
        int64_t other = k ? a : b;
        /* the minimum of a dimension and a number above 1 broadcasts with that dimension only if it
         * is equal */
        if (e && e->op == 'm' && e->a == other && e->b > 1)
            return other;
    }
    return STENO_DIM_ANY;
}
