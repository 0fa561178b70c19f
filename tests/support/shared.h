/* Recordings and models beside the repository (../shared or $STENO_SHARED). */
#ifndef STENO_TESTS_SHARED_H
#define STENO_TESTS_SHARED_H

#include <stddef.h>

/* Whole file into malloc'd memory (free it), or NULL after printing on standard error why: the
 * caller then calls skip(). rel: "audio/formats/english.wav". */
void *steno_test_shared(const char *rel, size_t *n);
/* The same for any path; NULL (with errno) when it cannot be read. */
void *steno_test_slurp(const char *path, size_t *n);

#endif
