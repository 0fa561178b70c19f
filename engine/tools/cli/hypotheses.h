/* Comparison of the texts that two models recognise in the same recordings. */
#ifndef STENO_CLI_HYPOTHESES_H
#define STENO_CLI_HYPOTHESES_H

#include "tools/cli/options.h"

#include <stdio.h>

struct hypotheses {
    const char *dir[2];
    const struct cli_list *audio; /* files, and folders of files */
    const char *cpu;
    int threads;
    bool plain; /* the first model's network runs without passes */
    /* results */
    int files, differing; /* recordings, and those with different texts */
    long words, edits;    /* words of the first model's texts; edits to the second's */
};

/* Compare. Prints a line per recording that differs and the sum (or one JSON object) on out. */
STENO_MUST steno_status hypotheses_compare(struct hypotheses *h, FILE *out, bool json,
                                           steno_err *err);

#endif
