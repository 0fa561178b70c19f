#include "speech/families/common/join.h"

#include <stdbool.h>
#include <stdlib.h>

/* Twice the middle of a token, to compare with twice the cut. */
static int64_t middle(const struct steno_span *s)
{
    return s->first + s->last + 1;
}

static bool is_same(const struct steno_span *a, const struct steno_span *b, int64_t slack)
{
    return a->token == b->token && llabs((long long)(a->first - b->first)) <= slack;
}

/* Number of tokens before frame `at`, by their middles. */
static size_t before(const struct steno_span *s, size_t n, int64_t at)
{
    size_t i = 0;
    while (i < n && middle(&s[i]) < 2 * at)
        i++;
    return i;
}

static size_t run_join(const struct steno_span *a, size_t na, const struct steno_span *b, size_t nb,
                       int64_t slack)
{
    size_t n = 0;
    while (n < na && n < nb && is_same(&a[n], &b[n], slack))
        n++;
    return n;
}

void steno_join_spans(const struct steno_span *a, size_t na, const struct steno_span *b, size_t nb,
                      int64_t cut, int64_t overlap, int64_t slack, size_t *keep, size_t *skip)
{
    const size_t from = before(a, na, cut - overlap), to = before(b, nb, cut + overlap);
    size_t longest = 0;
    int64_t best = 0; /* distance of the run from the cut, twice */
    *keep = before(a, na, cut);
    *skip = before(b, nb, cut);
    for (size_t i = from; i < na; i++)
        for (size_t k = 0; k < to; k++) {
            const size_t n = run_join(a + i, na - i, b + k, to - k, slack);
            const int64_t far = n ? llabs((long long)(middle(&a[i + n / 2]) - 2 * cut)) : 0;
            if (!n || n < longest || (n == longest && far >= best))
                continue;
            longest = n;
            best = far;
            *keep = i + n / 2;
            *skip = k + n / 2;
        }
}
