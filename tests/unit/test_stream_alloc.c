/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc */
/* ldflags: -Wl,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=steno_mel_open */
/* In the steady state nothing allocates between audio in and result out: after the first few,
 * 1000 network steps with words, partials and finals call no allocator. Opening a stream does
 * not compute again what its model already holds: a server opens a thousand per second. */
#include <math.h>
#include <stdlib.h>

#include "speech/features/mel.h"
#include "steno.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

static size_t filters_made;
steno_status __real_steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                                   size_t fft_size, size_t bins, double low, double high,
                                   steno_err *err);
steno_status __wrap_steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                                   size_t fft_size, size_t bins, double low, double high,
                                   steno_err *err);

steno_status __wrap_steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                                   size_t fft_size, size_t bins, double low, double high,
                                   steno_err *err)
{
    filters_made++;
    return __real_steno_mel_open(out, kind, sample_rate, fft_size, bins, low, high, err);
}

/* 0.1 s pieces: words of 0.2 s with gaps, and sometimes a pause long enough for an endpoint. */
static void fill(float *pcm, size_t n, int rate, int piece)
{
    int hz = piece % 25 > 16 ? 0 : piece % 4 < 2 ? (piece & 8 ? 500 : 1000) : 0;
    for (size_t i = 0; i < n; i++)
        pcm[i] = hz ? 0.3f * (float)sin(6.283185307179586 * hz * (double)i / rate) : 0.0f;
}

struct tally {
    size_t partials, finals, words;
};

static void play(steno_stream *s, int rate, int from, int to, struct tally *t)
{
    static float pcm[4800];
    struct steno_event ev;
    for (int i = from; i < to; i++) {
        fill(pcm, (size_t)rate / 10, rate, i);
        assert_int_equal(steno_stream_push(s, pcm, (size_t)rate / 10, NULL), STENO_OK);
        while (steno_stream_next(s, &ev)) {
            t->partials += ev.kind == STENO_PARTIAL;
            t->finals += ev.kind == STENO_FINAL;
            t->words += ev.kind == STENO_FINAL ? ev.n_words : 0;
        }
    }
}

static void check(int rate, int beam)
{
    steno_model *m = NULL;
    steno_stream *s = NULL;
    steno_err err = {0};
    struct tally t = {0};
    size_t before;
    if (steno_model_open(&m, "tests/data/models/tones", NULL, &err) ||
        steno_stream_open(&s, m, &(struct steno_stream_options){.sample_rate = rate, .beam = beam},
                          &err))
        fail_msg("%s", err.msg);
    play(s, rate, 0, 50, &t);
    before = allocations;
    assert_true(before > 0);    /* the counter works */
    play(s, rate, 50, 850, &t); /* 80 s: 1000 steps of 0.08 s */
    assert_int_equal(allocations - before, 0);
    assert_true(t.finals >= 30 && t.words > 100 && t.partials > t.finals);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    steno_stream_close(s);
    steno_model_close(m);
}

static void a_thousand_chunks_allocate_nothing(void **state)
{
    (void)state;
    check(8000, 1);
}

static void nothing_is_allocated_with_resampling_and_a_beam(void **state)
{
    (void)state;
    check(48000, 8);
}

static void streams_share_the_tables_of_their_model(void **state)
{
    steno_model *m = NULL;
    steno_stream *s = NULL;
    (void)state;
    filters_made = 0;
    assert_int_equal(steno_model_open(&m, "tests/data/models/tones", NULL, NULL), STENO_OK);
    assert_int_equal(filters_made, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(steno_stream_open(&s, m, NULL, NULL), STENO_OK);
        steno_stream_close(s);
    }
    assert_int_equal(filters_made, 1);
    steno_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_chunks_allocate_nothing),
        cmocka_unit_test(nothing_is_allocated_with_resampling_and_a_beam),
        cmocka_unit_test(streams_share_the_tables_of_their_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
