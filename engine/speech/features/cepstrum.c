#include "speech/features/cepstrum.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

void steno_cepstrum_fill(float *matrix, size_t ceps, size_t bins, double lifter)
{
    const double n = (double)bins;
    for (size_t k = 0; k < ceps; k++) {
        const double factor = sqrt((k ? 2 : 1) / n) *
                              (lifter > 0 ? 1 + lifter / 2 * sin(PI * (double)k / lifter) : 1);
        for (size_t i = 0; i < bins; i++)
            matrix[k * bins + i] = (float)(factor * cos(PI / n * ((double)i + 0.5) * (double)k));
    }
}

void steno_cepstrum_apply(const float *matrix, size_t ceps, size_t bins, const float *x, size_t n,
                          float *y)
{
    float frame[STENO_CEPSTRUM_MAX];
    for (size_t t = 0; t < n; t++) {
        memcpy(frame, x + t * bins, bins * sizeof *frame);
        for (size_t k = 0; k < ceps; k++) {
            float sum = 0;
            for (size_t i = 0; i < bins; i++)
                sum += matrix[k * bins + i] * frame[i];
            y[t * ceps + k] = sum;
        }
    }
}
