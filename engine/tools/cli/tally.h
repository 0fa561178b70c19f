/* Counts nodes of a graph and its bodies by operator, before and after passes. */
#ifndef STENO_CLI_TALLY_H
#define STENO_CLI_TALLY_H

#include "nn/graph/graph.h"

#define TALLY_MAX 256 /* operator types; more are not counted */

struct tally_row {
    const char *domain, *type; /* borrowed from the graphs */
    int n[2];                  /* [0] before, [1] after */
};
struct tally {
    struct tally_row row[TALLY_MAX];
    int n_rows;
    size_t nodes[2];  /* a layer counts as one */
    size_t steps[2];  /* a layer counts with its nodes */
    size_t params[2]; /* elements of constants, each tensor once */
};

/* Add g to column `which`. */
void tally_graph(struct tally *t, const struct steno_graph *g, int which);
/* Sort rows by the number before, then after, then by name. */
void tally_sort(struct tally *t);

#endif
