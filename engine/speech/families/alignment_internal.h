/* Shared by alignment.c (lines, frames, results) and alignment_spell.c (words and their tokens). */
#ifndef STENO_FAMILIES_ALIGNMENT_INTERNAL_H
#define STENO_FAMILIES_ALIGNMENT_INTERNAL_H

#include "speech/families/alignment.h"
#include "speech/search/align.h"

/* Lines that are looked for together: one with times, or neighbours without. */
struct steno_alignment_group {
    size_t unit, n_units;
    double from, to;    /* s; to <= from: anywhere */
    int64_t first, end; /* frames; end: INT64_MAX */
    enum { GROUP_WAITS, GROUP_RUNS, GROUP_DONE } state;
    struct steno_align search;
};

struct steno_alignment {
    char *text; /* of all lines, each terminated */
    struct steno_aligned_line *lines;
    struct steno_aligned_word *words;
    struct steno_aligned_unit *units;
    int32_t *tokens; /* [n_units] */
    bool *begins;    /* [n_units] */
    struct steno_alignment_group *groups;
    size_t n_lines, n_words, n_units, n_groups;
    size_t open; /* the first group that is not done */
    int32_t vocab, blank, delimiter;
    bool attached;
    double zero, per_second;
    int64_t frames;
};

/* Count a line's words, and list them in out unless it is NULL. */
size_t steno_alignment_cut_words(const char *text, struct steno_aligned_word *out);

#endif
