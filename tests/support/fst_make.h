/* OpenFst files for tests. */
#ifndef STENO_TESTS_FST_MAKE_H
#define STENO_TESTS_FST_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FST_MAKE_STATES 256
#define FST_MAKE_ARCS 512

struct fst_make_arc {
    int32_t from, in, out;
    float weight;
    int32_t to;
};

/* State 0 is the first. final: infinite for states that are not. */
struct fst_make {
    float final[FST_MAKE_STATES];
    struct fst_make_arc arc[FST_MAKE_ARCS]; /* those of a state in the order of this list */
    size_t n_states, n_arcs;
};

enum fst_make_form { FST_MAKE_VECTOR, FST_MAKE_CONST, FST_MAKE_SYMBOLS, FST_MAKE_ALIGNED };

void fst_make_start(struct fst_make *m);
/* A new state; its number. */
int32_t fst_make_state(struct fst_make *m, float final);
void fst_make_add(struct fst_make *m, int32_t from, int in, int out, float weight, int32_t to);
/* States and arcs that read `in` and write `out`, byte by byte, from one state to another. */
void fst_make_path(struct fst_make *m, int32_t from, const char *in, const char *out, float weight,
                   int32_t to);
/* One that writes "ab" as "x", at a weight of 1.25, and "a" as "y", at 2.25. */
void fst_make_small(struct fst_make *m);
/* The file in malloc'd memory. SYMBOLS: a vector file with two tables of symbols. ALIGNED: a const
 * file of version 1. */
unsigned char *fst_make_bytes(const struct fst_make *m, enum fst_make_form form, size_t *n);
/* An archive of files. */
unsigned char *fst_make_archive(unsigned char *const *file, const size_t *size, size_t count,
                                size_t *n);

#endif
