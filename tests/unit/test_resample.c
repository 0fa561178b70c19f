#include "speech/audio/resample.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int rates[][2] = {{16000, 8000},  {48000, 8000},  {44100, 8000},  {11025, 8000},
                               {44100, 16000}, {48000, 16000}, {22050, 16000}, {8000, 16000},
                               {192000, 8000}, {8000, 192000}, {16001, 16000}, {16000, 16000}};
#define N_RATES (sizeof rates / sizeof rates[0])

/* Convert in chunks of `chunk` samples (0: random sizes, and random room for output). Returns
 * the number of samples written. */
static size_t convert(int in_rate, int out_rate, const float *x, size_t n, size_t chunk, float *out,
                      size_t max, double *worst_delay)
{
    steno_resampler *r;
    size_t at = 0, total = 0, used, made, room;
    assert_int_equal(steno_resampler_open(&r, in_rate, out_rate, NULL), STENO_OK);
    while (at < n) {
        size_t k = chunk ? chunk : 1 + (size_t)rand() % 3000;
        k = k < n - at ? k : n - at;
        room = chunk ? steno_resampler_max_out(r, k) : (size_t)rand() % 2000;
        room = room < max - total ? room : max - total;
        assert_in_range(steno_resampler_push(r, x + at, k, &used, out + total, room, &made, NULL),
                        STENO_OK, STENO_NEED_MORE);
        assert_true(used == k || made == room);
        at += used;
        total += made;
        if (worst_delay && steno_resampler_delay(r) > *worst_delay)
            *worst_delay = steno_resampler_delay(r);
    }
    do {
        room = chunk ? max - total : 1 + (size_t)rand() % 500;
        room = room < max - total ? room : max - total;
        assert_int_equal(steno_resampler_flush(r, out + total, room, &made, NULL), STENO_OK);
        total += made;
    } while (made);
    assert_int_equal(steno_resampler_push(r, x, 1, &used, out, 1, &made, NULL), STENO_ERR_INVAL);
    steno_resampler_close(r);
    return total;
}

static size_t expected(int in_rate, int out_rate, size_t n)
{
    return (size_t)llround((double)n * out_rate / in_rate);
}

static void any_chunking_gives_the_same_bits(void **state)
{
    (void)state;
    srand(5);
    for (size_t i = 0; i < N_RATES; i++) {
        size_t n = (size_t)rates[i][0], max = (size_t)rates[i][1] + 10000;
        float *x = malloc(n * sizeof *x), *a = malloc(max * sizeof *a),
              *b = malloc(max * sizeof *b);
        size_t got;
        assert_true(x && a && b);
        for (size_t k = 0; k < n; k++)
            x[k] = (float)rand() / (float)RAND_MAX - 0.5f;
        got = convert(rates[i][0], rates[i][1], x, n, n, a, max, NULL);
        assert_int_equal(got, expected(rates[i][0], rates[i][1], n));
        for (int round = 0; round < 4; round++) {
            assert_int_equal(convert(rates[i][0], rates[i][1], x, n, round ? 0 : 80, b, max, NULL),
                             got);
            assert_memory_equal(a, b, got * sizeof *a);
        }
        free(x);
        free(a);
        free(b);
    }
}

static void length_is_rounded_for_every_input_length(void **state)
{
    static float x[3000], out[7000];
    (void)state;
    for (size_t n = 0; n < 3000; n += n < 20 ? 1 : 331) {
        assert_int_equal(convert(16000, 8000, x, n, 500, out, 7000, NULL),
                         expected(16000, 8000, n));
        assert_int_equal(convert(44100, 16000, x, n, 500, out, 7000, NULL),
                         expected(44100, 16000, n));
        assert_int_equal(convert(8000, 16000, x, n, 500, out, 7000, NULL),
                         expected(8000, 16000, n));
    }
}

/* A tone in the pass band keeps its amplitude and is not delayed: compare with the tone computed
 * at the output rate. A tone above the output's band disappears. */
static void tones_keep_time_and_amplitude_or_vanish(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RATES; i++) {
        int in = rates[i][0], out_rate = rates[i][1];
        double low = in < out_rate ? in : out_rate, pi = 3.14159265358979323846;
        size_t n = (size_t)in / 2, max = (size_t)out_rate, got;
        float *x = malloc(n * sizeof *x), *y = malloc(max * sizeof *y);
        assert_true(x && y);
        for (int pass = 0; pass < 2; pass++) {
            double hz = pass ? 0.62 * low : 0.11 * low, worst = 0;
            if (pass && (in <= out_rate || hz >= in / 2.0))
                continue;
            for (size_t k = 0; k < n; k++)
                x[k] = (float)(0.5 * sin(2 * pi * hz * (double)k / in));
            got = convert(in, out_rate, x, n, 160, y, max, NULL);
            for (size_t k = got / 10; k < got * 9 / 10; k++) {
                double want = pass ? 0 : 0.5 * sin(2 * pi * hz * (double)k / out_rate);
                worst = fmax(worst, fabs((double)y[k] - want));
            }
            if (worst > 1e-4)
                fail_msg("%d to %d Hz, tone of %g Hz: off by %g", in, out_rate, hz, worst);
        }
        free(x);
        free(y);
    }
}

/* The delay of a live stream; resample.c and docs/audio.md have the figures. */
static void delay_stays_under_30_milliseconds(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RATES; i++) {
        size_t n = (size_t)rates[i][0] * 2, max = (size_t)rates[i][1] * 3, chunk = n / 200;
        float *x = calloc(n, sizeof *x), *y = malloc(max * sizeof *y);
        double worst = 0;
        assert_true(x && y);
        convert(rates[i][0], rates[i][1], x, n, chunk, y, max, &worst);
        if (worst / rates[i][1] > 0.03)
            fail_msg("%d to %d Hz: %g ms behind", rates[i][0], rates[i][1],
                     worst / rates[i][1] * 1000);
        if (rates[i][0] == rates[i][1])
            assert_true(worst == 0);
        free(x);
        free(y);
    }
}

static void reset_starts_a_new_signal(void **state)
{
    static float x[4000], a[4000], b[4000];
    steno_resampler *r;
    size_t used, n = 0, m = 0, made;
    (void)state;
    for (size_t i = 0; i < 4000; i++)
        x[i] = (float)(i % 97) / 97 - 0.5f;
    assert_int_equal(steno_resampler_open(&r, 16000, 8000, NULL), STENO_OK);
    for (int pass = 0; pass < 2; pass++) {
        size_t *count = pass ? &m : &n;
        float *out = pass ? b : a;
        assert_in_range(steno_resampler_push(r, x, 4000, &used, out, 4000, count, NULL), 0, 1);
        do {
            assert_int_equal(steno_resampler_flush(r, out + *count, 4000 - *count, &made, NULL), 0);
            *count += made;
        } while (made);
        assert_int_equal(steno_resampler_reset(r, NULL), STENO_OK);
        assert_true(steno_resampler_delay(r) == 0);
    }
    assert_int_equal(n, 2000);
    assert_int_equal(m, n);
    assert_memory_equal(a, b, n * sizeof *a);
    steno_resampler_close(r);
    steno_resampler_close(NULL);
}

struct taken {
    float x[40000];
    size_t n, parts;
};

static steno_status take(void *ctx, const float *x, size_t n, steno_err *err)
{
    struct taken *t = ctx;
    (void)err;
    assert_in_range(n, 1, STENO_RESAMPLER_PART);
    if (++t->parts == 7)
        return STENO_ERR_LIMIT;
    memcpy(t->x + t->n, x, n * sizeof *x);
    t->n += n;
    return STENO_OK;
}

static void all_of_a_signal_passes_in_parts(void **state)
{
    static float x[9000], whole[40000];
    static struct taken t;
    steno_resampler *r;
    size_t n;
    (void)state;
    for (size_t i = 0; i < 9000; i++)
        x[i] = (float)(i % 89) / 89 - 0.5f;
    n = convert(16000, 32000, x, 9000, 9000, whole, 40000, NULL);
    assert_int_equal(steno_resampler_open(&r, 16000, 32000, NULL), STENO_OK);
    assert_int_equal(steno_resampler_pass(r, x, 0, take, &t, NULL), STENO_OK);
    assert_int_equal(t.parts, 0);
    assert_int_equal(steno_resampler_pass(r, x, 9000, take, &t, NULL), STENO_OK);
    assert_int_equal(steno_resampler_pass(r, NULL, 0, take, &t, NULL), STENO_OK);
    assert_int_equal(t.n, n);
    assert_memory_equal(t.x, whole, n * sizeof *whole);
    assert_int_equal(steno_resampler_reset(r, NULL), STENO_OK);
    assert_int_equal(steno_resampler_pass(r, x, 9000, take, &t, NULL), STENO_ERR_LIMIT);
    assert_int_equal(t.parts, 7);
    steno_resampler_close(r);
}

static void rates_out_of_range_are_refused_with_the_value(void **state)
{
    steno_resampler *r = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(steno_resampler_open(&r, 1, 16000, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "input sample rate 1 Hz"));
    assert_int_equal(steno_resampler_open(&r, 16000, 10000000, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "output sample rate 10000000 Hz"));
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chunking_gives_the_same_bits),
        cmocka_unit_test(length_is_rounded_for_every_input_length),
        cmocka_unit_test(tones_keep_time_and_amplitude_or_vanish),
        cmocka_unit_test(delay_stays_under_30_milliseconds),
        cmocka_unit_test(reset_starts_a_new_signal),
        cmocka_unit_test(all_of_a_signal_passes_in_parts),
        cmocka_unit_test(rates_out_of_range_are_refused_with_the_value),
    };
    return cmocka_run_group_tests_name("resample", tests, NULL, NULL);
}
