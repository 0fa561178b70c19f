/* Noise for trials of networks: the same numbers on every machine. */
#ifndef STENO_FAMILIES_COMMON_NOISE_H
#define STENO_FAMILIES_COMMON_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* x [n]: uniform in [-4, 4), about the range of normalised features. A linear congruential
 * generator (Numerical Recipes, 3rd ed., 7.1.1). */
void steno_noise_fill(float *x, size_t n, uint32_t seed);

#endif
