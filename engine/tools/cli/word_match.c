#include "tools/cli/word_match.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum step { KEEP, REPLACE, DROP, ADD };

static unsigned char cheapest(uint16_t diagonal, uint16_t above, uint16_t left, bool same,
                              uint16_t *cost)
{
    const uint16_t through = (uint16_t)(diagonal + !same);
    *cost = through;
    if (above + 1 < *cost)
        *cost = (uint16_t)(above + 1);
    if (left + 1 < *cost)
        *cost = (uint16_t)(left + 1);
    return (unsigned char)(*cost == through     ? (same ? KEEP : REPLACE)
                           : *cost == above + 1 ? DROP
                                                : ADD);
}

static void follow_back(const unsigned char *steps, size_t n, size_t m, bool *hit)
{
    for (size_t i = n, k = m; i || k;) {
        const enum step s = !i ? ADD : !k ? DROP : (enum step)steps[(i - 1) * m + k - 1];
        if (s != ADD)
            hit[--i] = s == KEEP;
        if (s != DROP)
            k--;
    }
}

long word_match(char *const *a, size_t n, char *const *b, size_t m, bool *hit)
{
    uint16_t *row = calloc(m + 1, sizeof *row);
    unsigned char *steps = malloc(n * m + 1);
    long edits = -1;
    for (size_t k = 0; row && k <= m; k++)
        row[k] = (uint16_t)k;
    for (size_t i = 0; row && steps && i < n; i++) {
        uint16_t diagonal = row[0];
        row[0] = (uint16_t)(i + 1);
        for (size_t k = 0; k < m; k++) {
            const uint16_t above = row[k + 1];
            steps[i * m + k] = cheapest(diagonal, above, row[k], !strcmp(a[i], b[k]), &row[k + 1]);
            diagonal = above;
        }
    }
    if (row && steps) {
        edits = row[m];
        if (hit)
            follow_back(steps, n, m, hit);
    }
    free(row);
    free(steps);
    return edits;
}
