#include "tools/cli/confidence_fit.h"

#include <math.h>
#include <stdlib.h>

#define BINS 10
#define STEPS (STENO_CONFIDENCE_KNOTS / 2) /* each has a knot at both ends */
#define STEP_WORDS 20

/* Neighbouring words with one value. */
struct block {
    double n, right;   /* words, and those that are right */
    float first, last; /* confidences */
};

static int by_confidence(const void *a, const void *b)
{
    const float x = ((const struct confidence_sample *)a)->confidence;
    const float y = ((const struct confidence_sample *)b)->confidence;
    return (x > y) - (x < y);
}

void confidence_sort(struct confidence_sample *s, size_t n)
{
    qsort(s, n, sizeof *s, by_confidence);
}

/* ---- measures -------------------------------------------------------------------------------- */

double confidence_error(const struct confidence_sample *s, size_t n,
                        const struct steno_confidence_map *map)
{
    double over[BINS] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double c = (double)steno_confidence_map_of(map, s[i].confidence);
        const int bin = (int)fmin(c * BINS, BINS - 1);
        over[bin] += c - s[i].right;
    }
    for (int i = 0; i < BINS; i++)
        sum += fabs(over[i]);
    return n ? sum / (double)n : 0;
}

double confidence_area(const struct confidence_sample *s, size_t n)
{
    double wrong = 0, right = 0, pairs = 0;
    for (size_t i = 0, end; i < n; i = end) {
        double same_right = 0;
        for (end = i; end < n && !(s[end].confidence > s[i].confidence); end++)
            same_right += s[end].right;
        const double same_wrong = (double)(end - i) - same_right;
        pairs += same_right * (wrong + same_wrong / 2);
        right += same_right;
        wrong += same_wrong;
    }
    return pairs / (right * wrong);
}

/* ---- the fit --------------------------------------------------------------------------------- */

static double share(const struct block *b)
{
    return b->right / b->n;
}

static void join(struct block *io, const struct block *next)
{
    io->n += next->n;
    io->right += next->right;
    io->last = next->last;
}

/* The steps of the regression, into b [n]; their number. */
static size_t pool_violators(const struct confidence_sample *s, size_t n, struct block *b)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const struct block one = {1, s[i].right, s[i].confidence, s[i].confidence};
        if (i && !(s[i].confidence > s[i - 1].confidence))
            join(&b[k - 1], &one);
        else
            b[k++] = one;
        if (i + 1 < n && !(s[i + 1].confidence > s[i].confidence))
            continue; /* equal confidences first come together */
        for (; k > 1 && share(&b[k - 2]) >= share(&b[k - 1]); k--)
            join(&b[k - 2], &b[k - 1]);
    }
    return k;
}

bool confidence_isotonic(const struct confidence_sample *s, size_t n, double *fit)
{
    struct block *b = calloc(n + 1, sizeof *b);
    const bool ok = b;
    const size_t k = ok ? pool_violators(s, n, b) : 0;
    for (size_t i = 0, at = 0; i < k; i++)
        for (size_t left = (size_t)b[i].n; left; left--)
            fit[at++] = share(&b[i]);
    free(b);
    return ok;
}

/* What it costs to join blocks i and i + 1: the squared error that it adds, and nothing where one
 * of them may not stay alone. */
static double cost_of_join(const struct block *b, size_t i)
{
    const struct block *x = &b[i], *y = &b[i + 1];
    const double d = share(x) - share(y);
    const bool must = x->n < STEP_WORDS || y->n < STEP_WORDS;
    return d * d * x->n * y->n / (x->n + y->n) - (must ? 1e9 : 0);
}

/* Join neighbours until there are few enough; their number. */
static size_t join_steps(struct block *b, size_t k)
{
    while (k > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < k; i++)
            if (cost_of_join(b, i) < cost_of_join(b, best))
                best = i;
        if (k <= STEPS && cost_of_join(b, best) >= 0)
            break;
        join(&b[best], &b[best + 1]);
        for (size_t i = best + 1; i + 1 < k; i++)
            b[i] = b[i + 1];
        k--;
    }
    return k;
}

steno_status confidence_fit(const struct confidence_sample *s, size_t n,
                            struct steno_confidence_map *out, steno_err *err)
{
    const double least = 1 / (2 * (double)n); /* no share is nothing or all of them */
    struct block *b;
    *out = (struct steno_confidence_map){0};
    if (n < 2 * (size_t)STEP_WORDS)
        return steno_fail(err, STENO_ERR_FORMAT, "%zu words are too few for a map: it needs %d", n,
                          2 * STEP_WORDS);
    b = calloc(n, sizeof *b);
    if (!b)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0, k = join_steps(b, pool_violators(s, n, b)); i < k; i++) {
        const float to =
            fmaxf((float)fmin(fmax(share(&b[i]), least), 1 - least), STENO_CONFIDENCE_LEAST);
        out->knot[out->n++] = (struct steno_confidence_knot){b[i].first, to};
        if (b[i].last > b[i].first)
            out->knot[out->n++] = (struct steno_confidence_knot){b[i].last, to};
    }
    free(b);
    return STENO_OK;
}
