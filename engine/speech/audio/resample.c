/* libsoxr with a shorter filter than that of its recipes. Measured at 20-bit precision (HQ), the
 * greatest delay of the output behind the input:
 *
 *   rates          HQ recipe   here
 *   16000 -> 8000   115 ms     27 ms
 *   48000 -> 8000   157 ms     16 ms
 *   44100 -> 16000   40 ms      9 ms
 *
 * Two settings make the difference. DFT blocks are no longer than the filter needs
 * (log2_large_dft_size 8; this doubles the time, to 0.2 ms per second of audio). The transition
 * band is 0.9 to 1.1 of the lower Nyquist frequency. Aliases then lie above 0.9 of Nyquist, where
 * speech features have their last bin or none. For a higher output rate, images would add sound, so
 * there the band ends at 1.0.
 *
 * The result of libsoxr itself does not depend on how the input is cut (test_resample checks
 * it). */
#include "speech/audio/resample.h"

#include "speech/audio/pcm.h"

#include <math.h>
#include <soxr.h>
#include <stdlib.h>
#include <string.h>

/* Input per call of libsoxr: bounds its queues, whatever is pushed. */
#define BLOCK 1024

struct steno_resampler {
    soxr_t soxr; /* NULL when the rates are equal */
    int in_rate, out_rate;
    int64_t taken, made;
    bool flushing;
};

static steno_status check_rate(int rate, const char *which, steno_err *err)
{
    if (rate >= STENO_RATE_MIN && rate <= STENO_RATE_MAX)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "%s sample rate %d Hz is outside %d to %d", which, rate,
                      STENO_RATE_MIN, STENO_RATE_MAX);
}

static steno_status create(steno_resampler *r, steno_err *err)
{
    soxr_quality_spec_t q = soxr_quality_spec(SOXR_HQ, 0);
    soxr_runtime_spec_t run = soxr_runtime_spec(1);
    soxr_error_t e = NULL;
    bool down = r->out_rate < r->in_rate;
    q.passband_end = down ? 0.9 : 0.85;
    q.stopband_begin = down ? 1.1 : 1.0;
    run.log2_min_dft_size = run.log2_large_dft_size = 8;
    r->soxr = soxr_create(r->in_rate, r->out_rate, 1, &e, NULL, &q, &run);
    if (!r->soxr || e)
        return steno_fail(err, STENO_ERR_NOMEM, "resampler %d to %d Hz: %s", r->in_rate,
                          r->out_rate, e ? e : "out of memory");
    return STENO_OK;
}

steno_status steno_resampler_open(steno_resampler **out, int in_rate, int out_rate, steno_err *err)
{
    steno_resampler *r;
    steno_status st = check_rate(in_rate, "input", err);
    if (!st)
        st = check_rate(out_rate, "output", err);
    if (st)
        return st;
    r = calloc(1, sizeof *r);
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "resampler: out of memory");
    r->in_rate = in_rate;
    r->out_rate = out_rate;
    if (in_rate != out_rate) {
        st = create(r, err);
        if (st) {
            steno_resampler_close(r);
            return st;
        }
    }
    *out = r;
    return STENO_OK;
}

void steno_resampler_close(steno_resampler *r)
{
    if (!r)
        return;
    if (r->soxr)
        soxr_delete(r->soxr);
    free(r);
}

static steno_status run_resampler(steno_resampler *r, const float *in, size_t n, size_t *used,
                                  float *out, size_t max, size_t *made, steno_err *err)
{
    soxr_error_t e = soxr_process(r->soxr, in, n, used, out, max, made);
    if (e)
        return steno_fail(err, STENO_ERR_NOMEM, "resampler %d to %d Hz: %s", r->in_rate,
                          r->out_rate, e);
    r->taken += (int64_t)*used;
    r->made += (int64_t)*made;
    return STENO_OK;
}

steno_status steno_resampler_push(steno_resampler *r, const float *in, size_t n, size_t *used,
                                  float *out, size_t max, size_t *made, steno_err *err)
{
    size_t at = 0, got = 0, u, m;
    steno_status st;
    if (r->flushing)
        return steno_fail(err, STENO_ERR_INVAL, "resampler: push after flush");
    if (!r->soxr) {
        at = got = n < max ? n : max;
        if (got && in != out)
            memmove(out, in, got * sizeof *out);
        r->taken += (int64_t)got;
        r->made += (int64_t)got;
    }
    while (at < n && got < max) {
        st = run_resampler(r, in + at, n - at < BLOCK ? n - at : BLOCK, &u, out + got, max - got,
                           &m, err);
        if (st)
            return st;
        at += u;
        got += m;
        if (!u && !m)
            break;
    }
    *used = at;
    *made = got;
    return got || at < n ? STENO_OK : STENO_NEED_MORE;
}

steno_status steno_resampler_flush(steno_resampler *r, float *out, size_t max, size_t *made,
                                   steno_err *err)
{
    size_t used, got = 0;
    steno_status st = STENO_OK;
    r->flushing = true;
    if (r->soxr && r->taken && max)
        st = run_resampler(r, NULL, 0, &used, out, max, &got, err);
    if (!st)
        *made = got;
    return st;
}

steno_status steno_resampler_pass(steno_resampler *r, const float *in, size_t n,
                                  steno_resampler_take *take, void *ctx, steno_err *err)
{
    float out[STENO_RESAMPLER_PART];
    steno_status st = STENO_OK;
    for (size_t used = 0, made = 1; !st && (in ? n > 0 : made > 0); n -= used) {
        if (in)
            st = steno_resampler_push(r, in, n, &used, out, STENO_RESAMPLER_PART, &made, err);
        else
            st = steno_resampler_flush(r, out, STENO_RESAMPLER_PART, &made, err);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
        if (!st && made)
            st = take(ctx, out, made, err);
        in += in ? used : 0;
    }
    return st;
}

steno_status steno_resampler_reset(steno_resampler *r, steno_err *err)
{
    r->taken = r->made = 0;
    r->flushing = false;
    if (!r->soxr)
        return STENO_OK;
    soxr_delete(r->soxr); /* soxr_clear (0.1.3) keeps the first block of the old signal */
    r->soxr = NULL;
    return create(r, err);
}

size_t steno_resampler_max_out(const steno_resampler *r, size_t n)
{
    double expected = ceil((double)n * r->out_rate / r->in_rate);
    double held = r->soxr ? steno_resampler_delay(r) : 0;
    return (size_t)(expected + (held > 0 ? held : 0)) + 2;
}

double steno_resampler_delay(const steno_resampler *r)
{
    return (double)r->taken * r->out_rate / r->in_rate - (double)r->made;
}
