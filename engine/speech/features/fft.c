#include "speech/features/internal.h"

#include <assert.h>
#include <stdlib.h>

static steno_status plan_own(steno_fft *f, size_t room)
{
    f->block = calloc(room + 2 * f->n, sizeof *f->block);
    if (!f->block)
        return STENO_ERR_NOMEM;
    f->scratch = f->block + room;
    steno_fft_fill(&f->own, f->n, f->block);
    return STENO_OK;
}

static steno_status plan_kiss(steno_fft *f)
{
    f->plan = kiss_fftr_alloc((int)f->n, 0, NULL, NULL);
    f->spec = calloc(f->n / 2 + 1, sizeof *f->spec);
    return f->plan && f->spec ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_fft_open(steno_fft **out, size_t n, steno_err *err)
{
    steno_fft *f;
    steno_status st = STENO_ERR_NOMEM;
    if (n < 2 || n > 65536 || n % 2)
        return steno_fail(err, STENO_ERR_INVAL, "FFT size %zu: even, 2 to 65536 expected", n);
    f = calloc(1, sizeof *f);
    if (f) {
        f->n = n;
        st = steno_fft_room(n) ? plan_own(f, steno_fft_room(n)) : plan_kiss(f);
    }
    if (st) {
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
    free(f->plan); /* one malloc block: kiss_fftr_free is free() */
    free(f->spec);
    free(f->block);
    free(f);
}

void steno_fft_power_in(const steno_fft *f, const float *x, float *power, float *scratch)
{
    assert(f->block);
    steno_fft_spectrum(&f->own, x, power, scratch);
}

void steno_fft_power(steno_fft *f, const float *x, float *power)
{
    if (f->block) {
        steno_fft_spectrum(&f->own, x, power, f->scratch);
        return;
    }
    kiss_fftr(f->plan, x, f->spec);
    for (size_t k = 0; k <= f->n / 2; k++)
        power[k] = f->spec[k].r * f->spec[k].r + f->spec[k].i * f->spec[k].i;
}
