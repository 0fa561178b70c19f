#include "features/fft.h"

#include <kiss_fftr.h>
#include <stdlib.h>

struct steno_fft {
    kiss_fftr_cfg plan;
    size_t n;
    kiss_fft_cpx *spec; /* [n/2 + 1] */
};

steno_status steno_fft_open(steno_fft **out, size_t n, steno_err *err)
{
    steno_fft *f;
    if (n < 2 || n > 65536 || n % 2)
        return steno_fail(err, STENO_ERR_INVAL, "FFT size %zu: even, 2 to 65536 expected", n);
    f = calloc(1, sizeof *f);
    if (f) {
        f->n = n;
        f->plan = kiss_fftr_alloc((int)n, 0, NULL, NULL);
        f->spec = calloc(n / 2 + 1, sizeof *f->spec);
    }
    if (!f || !f->plan || !f->spec) {
        steno_fft_close(f);
        return steno_fail(err, STENO_ERR_NOMEM, "FFT of %zu points: out of memory", n);
    }
    *out = f;
    return STENO_OK;
}

void steno_fft_close(steno_fft *f)
{
    if (!f)
        return;
    free(f->plan); /* one block of malloc: kiss_fftr_free is free() */
    free(f->spec);
    free(f);
}

void steno_fft_power(steno_fft *f, const float *x, float *power)
{
    kiss_fftr(f->plan, x, f->spec);
    for (size_t k = 0; k <= f->n / 2; k++)
        power[k] = f->spec[k].r * f->spec[k].r + f->spec[k].i * f->spec[k].i;
}

void steno_fft_real(steno_fft *f, const float *x, float *spec)
{
    kiss_fftr(f->plan, x, f->spec);
    for (size_t k = 0; k <= f->n / 2; k++) {
        spec[2 * k] = f->spec[k].r;
        spec[2 * k + 1] = f->spec[k].i;
    }
}
