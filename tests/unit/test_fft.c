#include "speech/features/fft.h"
#include "speech/features/mel.h"
#include "nn/kernels/vec4.h"
#include "speech/features/internal.h"
#include "speech/features/window.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N 8192

/* The definition in double precision: |sum x[i] exp(-2 pi j i k / n)|^2. */
static double power_at(const float *x, size_t n, size_t k)
{
    double re = 0, im = 0;
    for (size_t i = 0; i < n; i++) {
        double a = 2 * 3.14159265358979323846 * (double)(i * k % n) / (double)n;
        re += (double)x[i] * cos(a);
        im -= (double)x[i] * sin(a);
    }
    return re * re + im * im;
}

/* For our own transform and for kissfft. The error of a float FFT grows with log n, relative to
 * the root mean square of the spectrum (Higham, Accuracy and Stability, section 24.1). */
static void power_spectrum_matches_the_definition(void **state)
{
    static const size_t sizes[] = {2,   4,   6,   8,   10,  16,   32,   64,   128, 200,
                                   256, 320, 400, 512, 640, 1024, 2048, 4096, 8192};
    static float x[MAX_N], power[MAX_N / 2 + 1];
    (void)state;
    srand(11);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t n = sizes[s], step = n > 512 ? 37 : 1;
        double energy = 0;
        steno_fft *f;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
            energy += (double)x[i] * (double)x[i];
        }
        assert_int_equal(steno_fft_open(&f, n, NULL), STENO_OK);
        steno_fft_power(f, x, power);
        if (n >= 64 && !(n & (n - 1))) { /* with the caller's scratch: the same bits */
            static float again[MAX_N / 2 + 1], scratch[2 * MAX_N];
            steno_fft_power_in(f, x, again, scratch);
            assert_memory_equal(power, again, (n / 2 + 1) * sizeof *power);
        }
        for (size_t k = 0; k <= n / 2; k += k + step > n / 2 && k < n / 2 ? n / 2 - k : step) {
            double want = power_at(x, n, k);
            double bound = 4 * log2((double)n) * 1.2e-7 * (sqrt(want * energy) + energy) * sqrt(2);
            if (fabs((double)power[k] - want) > bound + 1e-12)
                fail_msg("n %zu, k %zu: %g, expected %g", n, k, (double)power[k], want);
        }
        steno_fft_close(f);
    }
}

/* Parseval: the signal and the spectrum have the same energy. So bins that the test above skips
 * are right too. */
static void energy_is_preserved(void **state)
{
    static float x[MAX_N], power[MAX_N / 2 + 1];
    (void)state;
    srand(12);
    for (size_t n = 64; n <= MAX_N; n *= 2) {
        double time = 0, spectrum = 0;
        steno_fft *f;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
            time += (double)x[i] * (double)x[i];
        }
        assert_int_equal(steno_fft_open(&f, n, NULL), STENO_OK);
        steno_fft_power(f, x, power);
        for (size_t k = 0; k <= n / 2; k++)
            spectrum += (k == 0 || k == n / 2 ? 1 : 2) * (double)power[k];
        assert_true(fabs(spectrum / (double)n / time - 1) < 1e-5);
        steno_fft_close(f);
    }
}

static void tone_lands_in_its_bin_alone(void **state)
{
    float x[256], power[129];
    steno_fft *f;
    (void)state;
    assert_int_equal(steno_fft_open(&f, 256, NULL), STENO_OK);
    for (size_t bin = 0; bin <= 128; bin++) {
        double peak = bin == 0 || bin == 128 ? 256.0 * 256 : 128.0 * 128;
        for (size_t i = 0; i < 256; i++)
            x[i] = (float)cos(2 * 3.14159265358979323846 * (double)(i * bin % 256) / 256);
        steno_fft_power(f, x, power);
        for (size_t k = 0; k <= 128; k++)
            assert_true(fabs((double)power[k] - (k == bin ? peak : 0)) < 1e-5 * peak);
    }
    steno_fft_close(f);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 255, 65538, SIZE_MAX};
    steno_fft *f = NULL;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(steno_fft_open(&f, sizes[i], &err), STENO_ERR_INVAL);
    assert_null(f);
    steno_fft_close(NULL);
}

/* power [fft_size/2 + 1 + STENO_MEL_PAD] -> out [bins] */
static void apply(const steno_mel *m, const float *power, float *out)
{
    struct steno_fbank_tables t;
    steno_mel_tables(m, &t);
    steno_fbank_filter(&t, power, out);
}

/* In Kaldi's construction neighbouring filters add up to 1 between the centres of the first and
 * the last one. A flat spectrum shows the sum of each filter's weights. */
static void neighbouring_kaldi_filters_add_up_to_one(void **state)
{
    float power[257 + STENO_MEL_PAD], out[80];
    steno_mel *m;
    double low = 1127 * log(1 + 20.0 / 700), high = 1127 * log(1 + 8000.0 / 700);
    double step = (high - low) / 81;
    (void)state;
    assert_int_equal(steno_mel_open(&m, STENO_MEL_KALDI, 16000, 512, 80, 20, 0, NULL), STENO_OK);
    for (size_t k = 0; k < 256; k++) {
        double mel = 1127 * log(1 + 31.25 * (double)k / 700), sum = 0;
        memset(power, 0, sizeof power);
        power[k] = 1;
        apply(m, power, out);
        for (size_t b = 0; b < 80; b++)
            sum += (double)out[b];
        if (mel > low + step && mel < high - step)
            assert_true(fabs(sum - 1) < 1e-4);
    }
    steno_mel_close(m);
}

/* Area normalisation: each triangle has area 1 over Hz (librosa, norm="slaney"). Wide filters
 * have enough samples to show it. */
static void slaney_filters_have_unit_area(void **state)
{
    static float power[2049 + STENO_MEL_PAD], out[40];
    steno_mel *m;
    (void)state;
    for (size_t k = 0; k <= 2048; k++)
        power[k] = 16000.0f / 4096;
    assert_int_equal(steno_mel_open(&m, STENO_MEL_SLANEY, 16000, 4096, 40, 0, 0, NULL), STENO_OK);
    apply(m, power, out);
    for (size_t b = 0; b < 40; b++)
        assert_true(fabsf(out[b] - 1) < 0.01f);
    steno_mel_close(m);
}

/* One filter over the whole spectrum. Here whole vectors read past the end of the spectrum, by
 * up to STENO_MEL_PAD. */
static void single_filter_spans_the_whole_spectrum(void **state)
{
    float *power = calloc(17 + STENO_MEL_PAD, sizeof *power), out[2];
    steno_mel *m;
    (void)state;
    assert_non_null(power); /* a separate block, so that the sanitizer sees reads past it */
    for (size_t k = 0; k < 17 + STENO_MEL_PAD; k++)
        power[k] = 1;
    assert_int_equal(steno_mel_open(&m, STENO_MEL_SLANEY, 16000, 32, 1, 0, 0, NULL), STENO_OK);
    apply(m, power, out);
    assert_true(fabsf(out[0] * 500 - 1) < 0.05f);
    steno_mel_close(m);
    free(power);
}

/* Every 1009th float from the smallest normal one up (about two million), and all floats around
 * 1, where the result is smallest. */
static void vector_logarithm_is_within_2_ulp(void **state)
{
    double worst = 0;
    (void)state;
    for (uint32_t bits = 0x00800000;
         bits<0x7F800000; bits += bits> 0x3F7F0000 && bits < 0x3F810000 ? 7 : 1009) {
        uint32_t lanes[4] = {bits, bits + 1, bits + 2, bits + 3};
        float x[4], y[4];
        memcpy(x, lanes, sizeof x);
        v4_store(y, v4_log(v4_load(x)));
        for (int l = 0; l < 4 && lanes[l] < 0x7F800000; l++) {
            double want = log((double)x[l]), ulp;
            int e;
            frexp(want, &e);
            ulp = ldexp(1, e - 24);
            worst = fmax(worst, fabs((double)y[l] - want) / (ulp > 0 ? ulp : 1));
        }
    }
    if (worst > 2)
        fail_msg("off by %g ulp", worst);
}

/* Values at the ends and in the middle against the definitions in window.h. */
static void windows_follow_their_definitions(void **state)
{
    static const struct {
        enum steno_window w;
        const char *name;
        double first, quarter, middle; /* of 401 points: indices 0, 100, 200 */
    } rows[] = {
        {STENO_WINDOW_POVEY, "povey", 0, 0.554784736, 1}, /* 0.5^0.85 */
        {STENO_WINDOW_HANN, "hanning", 0, 0.5, 1},
        {STENO_WINDOW_HAMMING, "hamming", 0.08, 0.54, 1},
        {STENO_WINDOW_BLACKMAN, "blackman", 0, 0.34, 1},
        {STENO_WINDOW_RECTANGULAR, "rectangular", 1, 1, 1},
    };
    float out[401];
    enum steno_window w;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        steno_window_fill(rows[i].w, 401, out);
        assert_true(fabs((double)out[0] - rows[i].first) < 1e-6);
        assert_true(fabs((double)out[400] - rows[i].first) < 1e-6);
        assert_true(fabs((double)out[100] - rows[i].quarter) < 1e-6);
        assert_true(fabs((double)out[200] - rows[i].middle) < 1e-6);
        assert_int_equal(steno_window_parse(rows[i].name, &w, &err), STENO_OK);
        assert_int_equal(w, rows[i].w);
    }
    steno_window_fill(STENO_WINDOW_HANN_PERIODIC, 400, out);
    assert_true(out[0] == 0 && fabsf(out[100] - 0.5f) < 1e-6f && fabsf(out[200] - 1) < 1e-6f);
    steno_window_fill(STENO_WINDOW_POVEY, 1, out);
    assert_true(out[0] == 1);
    assert_int_equal(steno_window_parse("kaiser", &w, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "kaiser"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_spectrum_matches_the_definition),
        cmocka_unit_test(energy_is_preserved),
        cmocka_unit_test(tone_lands_in_its_bin_alone),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(neighbouring_kaldi_filters_add_up_to_one),
        cmocka_unit_test(slaney_filters_have_unit_area),
        cmocka_unit_test(single_filter_spans_the_whole_spectrum),
        cmocka_unit_test(vector_logarithm_is_within_2_ulp),
        cmocka_unit_test(windows_follow_their_definitions),
    };
    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
