/* Cuts of a recording into chunks: every sample that somebody speaks in is in one chunk, and has
 * its place in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "families/whisper/cutter.h"

#define RATE 16000
#define FRAME 160

/* A stretch of a recording. */
struct stretch {
    double seconds;
    bool speech;
};

/* What the chunks of a recording have, sample for sample of the recording. */
struct seen {
    unsigned char *times; /* [n] how often each sample is in a chunk */
    size_t n, chunks, longest;
};

static void take_chunks(steno_whisper_cutter *c, struct seen *s)
{
    struct steno_whisper_chunk k;
    while (steno_whisper_cutter_peek(c, &k)) {
        s->chunks++;
        s->longest = k.n > s->longest ? k.n : s->longest;
        assert_true(k.spoken > 0 && k.spoken <= k.n);
        assert_int_equal(k.pieces[0].at, 0);
        for (size_t i = 0; i < k.n; i++) {
            const int64_t at = steno_whisper_piece_time(k.pieces, k.n_pieces, i, false);
            assert_in_range(at, 0, s->n - 1);
            assert_true(k.pcm[i] == (float)at); /* samples are numbered */
            s->times[at]++;
        }
        steno_whisper_cutter_drop(c);
    }
}

static struct seen cut(const struct stretch *r, size_t n)
{
    struct seen s = {0};
    steno_whisper_cutter *c;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        s.n += (size_t)(r[i].seconds * RATE);
    s.times = calloc(s.n, 1);
    assert_non_null(s.times);
    assert_int_equal(steno_whisper_cutter_open(&c, NULL), STENO_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t left = (size_t)(r[i].seconds * RATE); left;) {
            float pcm[FRAME];
            size_t k = left < FRAME ? left : FRAME;
            for (size_t j = 0; j < k; j++)
                pcm[j] = (float)(at + j);
            k = steno_whisper_cutter_push(c, pcm, k, r[i].speech);
            at += k;
            left -= k;
            take_chunks(c, &s);
        }
    steno_whisper_cutter_end(c);
    take_chunks(c, &s);
    steno_whisper_cutter_close(c);
    return s;
}

/* Speech, and the 0.4 s around it, once; no sample twice. */
static void check(const struct stretch *r, size_t n, size_t chunks)
{
    struct seen s = cut(r, n);
    size_t at = 0;
    assert_int_equal(s.chunks, chunks);
    assert_true(s.longest <= (size_t)30 * RATE);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < (size_t)(r[i].seconds * RATE); k++, at++) {
            assert_true(s.times[at] <= 1);
            if (r[i].speech)
                assert_int_equal(s.times[at], 1);
        }
    free(s.times);
}

static void every_spoken_sample_is_in_one_chunk(void **state)
{
    static const struct stretch pauses[] = {{2, false},   {9, true},   {0.3, false}, {14, true},
                                            {0.5, false}, {9, true},   {4, false},   {3, true},
                                            {20, false},  {0.5, true}, {3, false}};
    static const struct stretch speech[] = {{100, true}};
    static const struct stretch silence[] = {{100, false}};
    (void)state;
    check(pauses, sizeof pauses / sizeof *pauses, 2);
    check(speech, 1, 5); /* samples grow: it is quietest after 20 s */
    check(silence, 1, 0);
}

static void silence_is_shortened_and_times_jump_over_it(void **state)
{
    static const struct stretch r[] = {{1, true}, {10, false}, {1, true}};
    struct seen s = cut(r, 3);
    size_t kept = 0;
    (void)state;
    for (size_t i = 0; i < s.n; i++)
        kept += s.times[i];
    assert_int_equal(s.chunks, 1);
    assert_int_equal(kept, (size_t)(2.8 * RATE));
    free(s.times);
}

static void a_full_chunk_ends_in_its_longest_late_pause(void **state)
{
    static const struct stretch r[] = {
        {23, true}, {0.4, false}, {3, true}, {0.2, false}, {5, true}};
    steno_whisper_cutter *c;
    struct steno_whisper_chunk k;
    float pcm[FRAME] = {0};
    (void)state;
    assert_int_equal(steno_whisper_cutter_open(&c, NULL), STENO_OK);
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 0; n < (size_t)(r[i].seconds * RATE); n += FRAME)
            if (steno_whisper_cutter_push(c, pcm, FRAME, r[i].speech) < FRAME)
                break;
    assert_true(steno_whisper_cutter_peek(c, &k));
    assert_int_equal(k.n, (size_t)(23.2 * RATE));
    assert_int_equal(k.spoken, (size_t)23 * RATE);
    steno_whisper_cutter_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spoken_sample_is_in_one_chunk),
        cmocka_unit_test(silence_is_shortened_and_times_jump_over_it),
        cmocka_unit_test(a_full_chunk_ends_in_its_longest_late_pause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
