/* Cuts of a recording into chunks: every sample that somebody speaks in is in one chunk, and has
 * its place in time. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/cutter.h"
#include "tests/support/test.h"

#define RATE 16000
#define FRAME 160

static const struct steno_cutter_options whisper = {
    .rate = RATE, .full = 30, .late = 22, .earliest = 10, .quiet_from = 20};
/* Chunks of at most 10 s that begin at multiples of 960 samples. */
static const struct steno_cutter_options whole = {.rate = RATE,
                                                  .full = 10,
                                                  .late = 6,
                                                  .earliest = 2,
                                                  .quiet_from = 5,
                                                  .keep_silence = true,
                                                  .overlap = 1,
                                                  .grain = 960};

/* A stretch of a recording. */
struct stretch {
    double seconds;
    bool speech;
};

/* What the chunks of a recording have, sample for sample of the recording. */
struct seen {
    unsigned char *times; /* [n] how often each sample is in a chunk */
    size_t n, chunks, longest;
    struct steno_cutter_chunk first[16]; /* lengths and overlaps of the chunks */
    int64_t from[16];
};

static void take_chunks(steno_cutter *c, struct seen *s)
{
    struct steno_cutter_chunk k;
    while (steno_cutter_peek(c, &k)) {
        s->chunks++;
        s->longest = k.n > s->longest ? k.n : s->longest;
        assert_true(k.spoken <= k.n);
        s->first[s->chunks - 1] = k;
        s->from[s->chunks - 1] = k.pieces[0].from;
        assert_int_equal(k.pieces[0].at, 0);
        for (size_t i = 0; i < k.n; i++) {
            const int64_t at = steno_cutter_time(k.pieces, k.n_pieces, i, false);
            assert_in_range(at, 0, s->n - 1);
            assert_true(k.pcm[i] == (float)at); /* samples are numbered */
            s->times[at]++;
        }
        steno_cutter_drop(c);
    }
}

static struct seen cut(const struct steno_cutter_options *o, const struct stretch *r, size_t n)
{
    struct seen s = {0};
    steno_cutter *c;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        s.n += (size_t)(r[i].seconds * RATE);
    s.times = calloc(s.n, 1);
    assert_non_null(s.times);
    assert_int_equal(steno_cutter_open(&c, o, NULL), STENO_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t left = (size_t)(r[i].seconds * RATE); left;) {
            float pcm[FRAME];
            size_t k = left < FRAME ? left : FRAME;
            for (size_t j = 0; j < k; j++)
                pcm[j] = (float)(at + j);
            assert_int_equal(steno_cutter_push(c, pcm, k, r[i].speech, &k), STENO_OK);
            at += k;
            left -= k;
            take_chunks(c, &s);
        }
    steno_cutter_end(c);
    take_chunks(c, &s);
    steno_cutter_close(c);
    return s;
}

/* Speech, and the 0.4 s around it, once; no sample twice. */
static void check(const struct stretch *r, size_t n, size_t chunks)
{
    struct seen s = cut(&whisper, r, n);
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
    struct seen s = cut(&whisper, r, 3);
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
    steno_cutter *c;
    struct steno_cutter_chunk k;
    float pcm[FRAME] = {0};
    (void)state;
    assert_int_equal(steno_cutter_open(&c, &whisper, NULL), STENO_OK);
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 0; n < (size_t)(r[i].seconds * RATE); n += FRAME) {
            size_t used;
            assert_int_equal(steno_cutter_push(c, pcm, FRAME, r[i].speech, &used), STENO_OK);
            if (used < FRAME)
                break;
        }
    assert_true(steno_cutter_peek(c, &k));
    assert_int_equal(k.n, (size_t)(23.2 * RATE));
    assert_int_equal(k.spoken, (size_t)23 * RATE);
    steno_cutter_close(c);
}

static void a_recording_of_one_chunk_stays_as_it_is(void **state)
{
    static const struct stretch quiet[] = {{9, false}};
    static const struct stretch some[] = {{4, false}, {0.5, true}, {5, false}};
    struct seen s = cut(&whole, quiet, 1);
    (void)state;
    assert_int_equal(s.chunks, 1);
    assert_int_equal(s.first[0].n, 9 * RATE);
    free(s.times);
    s = cut(&whole, some, 3);
    assert_int_equal(s.chunks, 1);
    assert_int_equal(s.first[0].n, (size_t)(9.5 * RATE));
    free(s.times);
}

static void a_cut_in_a_pause_needs_no_overlap(void **state)
{
    static const struct stretch r[] = {{7, true}, {0.4, false}, {6, true}};
    struct seen s = cut(&whole, r, 3);
    (void)state;
    assert_int_equal(s.chunks, 2);
    assert_int_equal(s.first[0].after, 0);
    assert_int_equal(s.first[1].before, 0);
    assert_in_range(s.from[1], 7 * RATE, (size_t)(7.4 * RATE));
    assert_int_equal(s.from[1] % 960, 0);
    for (size_t i = 0; i < s.n; i++)
        assert_int_equal(s.times[i], 1);
    free(s.times);
}

static void chunks_without_a_pause_overlap(void **state)
{
    static const struct stretch r[] = {{24, true}};
    struct seen s = cut(&whole, r, 1);
    (void)state;
    assert_true(s.chunks > 2 && s.chunks < 10);
    assert_int_equal(s.first[0].before, 0);
    for (size_t i = 0; i + 1 < s.chunks; i++) {
        const size_t end = (size_t)s.from[i] + s.first[i].n, next = (size_t)s.from[i + 1];
        assert_true(s.first[i].after > 0 && s.first[i].n <= (size_t)10 * RATE);
        assert_int_equal(s.first[i].after, s.first[i + 1].before);
        assert_int_equal(end - next, 2 * s.first[i].after);
        assert_int_equal(next % 960, 0);
    }
    for (size_t i = 0; i < s.n; i++)
        assert_in_range(s.times[i], 1, 2);
    assert_int_equal(s.first[s.chunks - 1].after, 0);
    free(s.times);
}

static void full_chunks_of_silence_are_dropped(void **state)
{
    static const struct stretch r[] = {{35, false}, {3, true}, {45, false}};
    struct seen s = cut(&whole, r, 3);
    size_t at = 35 * RATE;
    (void)state;
    assert_in_range(s.chunks, 1, 2);
    for (size_t k = 0; k < 3 * RATE; k++)
        assert_int_equal(s.times[at + k], 1);
    assert_int_equal(s.from[0] % 960, 0);
    free(s.times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spoken_sample_is_in_one_chunk),
        cmocka_unit_test(silence_is_shortened_and_times_jump_over_it),
        cmocka_unit_test(a_full_chunk_ends_in_its_longest_late_pause),
        cmocka_unit_test(a_recording_of_one_chunk_stays_as_it_is),
        cmocka_unit_test(a_cut_in_a_pause_needs_no_overlap),
        cmocka_unit_test(chunks_without_a_pause_overlap),
        cmocka_unit_test(full_chunks_of_silence_are_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
