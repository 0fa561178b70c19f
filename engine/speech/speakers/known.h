/* Voices that are compared with known ones. Pure. */
#ifndef STENO_SPEAKERS_KNOWN_H
#define STENO_SPEAKERS_KNOWN_H

#include <stddef.h>

#define STENO_KNOWN_SECONDS 1.0f /* of clear speech that make a voice */
#define STENO_KNOWN_COSINE 0.55  /* from which two voices are one: docs/speakers.md */

/* The cosine of vectors [dim] of unit length. */
double steno_known_cosine(const float *a, const float *b, size_t dim);
/* Give the most alike of those that are free to each other, until none is alike enough: the index
 * of a known voice to who[speaker]. like: [n, speakers] cosines, overwritten; -2 = may not be. */
void steno_known_match(double *like, size_t n, size_t speakers, double least, int *who);

#endif
