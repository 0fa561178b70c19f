/* Recordings and models beside the repository (../shared or $STENO_SHARED). */
#ifndef STENO_TESTS_SHARED_H
#define STENO_TESTS_SHARED_H

#include <stddef.h>

/* The whole file in malloc'd memory, which the caller frees. NULL after printing the reason on
 * standard error; the caller then calls skip(). rel: such as "audio/formats/english.wav". */
void *steno_test_shared(const char *rel, size_t *n);
/* The same for any path; NULL (with errno) when it cannot be read. */
void *steno_test_slurp(const char *path, size_t *n);

#endif
