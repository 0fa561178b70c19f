/* Mel-frequency cepstra: the cosine transform of log mel energies (Davis and Mermelstein 1980), as
 * Kaldi's feature-mfcc.cc computes it without the energy of a frame. */
#ifndef STENO_FEATURES_CEPSTRUM_H
#define STENO_FEATURES_CEPSTRUM_H

#include <stddef.h>

#define STENO_CEPSTRUM_MAX 128 /* bins */

/* Fill the matrix [ceps, bins] of the orthonormal transform, each row k times the lifter's
 * 1 + lifter / 2 sin(pi k / lifter) (0: no lifter). ceps <= bins <= STENO_CEPSTRUM_MAX. */
void steno_cepstrum_fill(float *matrix, size_t ceps, size_t bins, double lifter);
/* Transform frames x [n, bins] -> y [n, ceps]; y may be x. */
void steno_cepstrum_apply(const float *matrix, size_t ceps, size_t bins, const float *x, size_t n,
                          float *y);

#endif
