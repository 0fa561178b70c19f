/* Two texts word by word: Levenshtein's alignment. Pure. */
#ifndef STENO_CLI_WORD_MATCH_H
#define STENO_CLI_WORD_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#define WORD_MATCH_MOST 4000 /* words of one text */

/* Number of insertions, deletions and substitutions that make words b [m] of a [n], each at most
 * WORD_MATCH_MOST; -1: out of memory. hit [n]: whether a word of a stands for an equal one of b, in
 * one of the cheapest alignments; NULL: not wanted. */
long word_match(char *const *a, size_t n, char *const *b, size_t m, bool *hit);

#endif
