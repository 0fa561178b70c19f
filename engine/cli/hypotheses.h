/* What two models hear in the same recordings. */
#ifndef STENO_CLI_HYPOTHESES_H
#define STENO_CLI_HYPOTHESES_H

#include "cli/options.h"

#include <stdio.h>

struct hypotheses {
    const char *dir[2];
    const struct cli_list *audio; /* files, and folders of files */
    const char *cpu;
    int threads;
    bool plain; /* the first model's network runs without passes */
    /* results */
    int files, differing; /* recordings, and those with another text */
    long words, edits;    /* of the first model's texts; changes to get to the second's */
};

/* A line per recording that differs and the sum (or one JSON object) on out. */
STENO_MUST steno_status hypotheses_compare(struct hypotheses *h, FILE *out, bool json,
                                           steno_err *err);

#endif
