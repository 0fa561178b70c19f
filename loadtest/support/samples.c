#include "loadtest/support/samples.h"

#include <math.h>
#include <stdlib.h>

void samples_add(struct samples *s, double v)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        double *p = realloc(s->v, cap * sizeof *p);
        if (!p)
            return;
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = v;
    s->sorted = false;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_quantile(struct samples *s, double q)
{
    size_t i;
    if (!s->n)
        return 0;
    if (!s->sorted)
        qsort(s->v, s->n, sizeof *s->v, ascending);
    s->sorted = true;
    i = (size_t)ceil(q * (double)s->n);
    return s->v[i ? i - 1 : 0];
}

void samples_free(struct samples *s)
{
    free(s->v);
    *s = (struct samples){0};
}
