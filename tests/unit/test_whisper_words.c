/* Words and their times from an alignment, without a model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "families/whisper/model.h"
#include "families/whisper/words.h"

static uint32_t seed = 1;

static unsigned dice(unsigned n)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 16) % n;
}

/* Any words: they follow each other, each has a column if there is room for all, and those that had
 * time and were in order keep it. */
static void words_follow_each_other(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct steno_whisper_timed w[60];
        const size_t n = 1 + dice(60);
        double at = 0, from = dice(4) ? 0 : dice(100) * 0.02, before = from, last = from;
        for (size_t i = 0; i < n; i++) {
            at += dice(3) ? 0 : dice(30) * 0.02;
            w[i] = (struct steno_whisper_timed){.start = at, .end = at + dice(4) * 0.02};
            last = fmax(last, w[i].end);
            at = dice(5) ? w[i].end : at; /* some overlap */
        }
        steno_whisper_words_order(w, n, from);
        for (size_t i = 0; i < n; before = w[i++].end) {
            if (w[i].start < before || w[i].end < w[i].start)
                fail_msg("round %d, word %zu of %zu: %.2f to %.2f behind %.2f", round, i, n,
                         w[i].start, w[i].end, before);
            if (last - from > 0.02 * (double)n && w[i].end - w[i].start < 0.0199)
                fail_msg("round %d, word %zu of %zu takes %.4f s", round, i, n,
                         w[i].end - w[i].start);
        }
        assert_true(w[n - 1].end <= fmax(last, from) + 1e-9);
    }
}

static void words_in_order_stay(void **state)
{
    struct steno_whisper_timed w[] = {{.start = 0.5, .end = 0.5}, /* takes a column of the next */
                                      {.start = 0.5, .end = 0.8},
                                      {.start = 0.9, .end = 0.92},
                                      {.start = 1.5, .end = 2},
                                      {.start = 2, .end = 2}}; /* ... of the one before */
    (void)state;
    steno_whisper_words_order(w, 5, 0.4);
    static const double want[][2] = {{0.5, 0.52}, {0.52, 0.8}, {0.9, 0.92}, {1.5, 1.98}, {1.98, 2}};
    for (size_t i = 0; i < 5; i++) {
        assert_true(fabs(w[i].start - want[i][0]) < 1e-9);
        assert_true(fabs(w[i].end - want[i][1]) < 1e-9);
    }
}

#define P(text)                                                                                    \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

/* English that goes on in Chinese behind a pause: faster-whisper has one word "today?今天" there,
 * over the pause. */
static void scripts_without_blanks_part_words(void **state)
{
    static const struct steno_bpe_piece pieces[] = {P(" How"), P(" today"), P("?"),
                                                    P("今天"), P("天"),     P("\xE6\xA8"),
                                                    P("\xA3"), P("ok"),     P("<|endoftext|>")};
    static const int32_t ids[] = {0, 1, 2, 3, 4, 2, 5, 6, 7, 2};
    int32_t jump[] = {0, 10, 30, 130, 140, 150, 155, 160, 180, 185, 190};
    float probability[10] = {0};
    static const struct {
        const char *text;
        double start, end;
    } want[] = {{" How", 0, 0.2},  {" today?", 0.2, 0.6}, {"今天", 2.6, 2.8},
                {"天?", 2.8, 3.0}, {"樣", 3.2, 3.6},      {"ok?", 3.6, 3.7}};
    const struct steno_whisper_alignment a = {10, jump, probability};
    struct steno_whisper m = {0};
    struct steno_whisper_words w;
    steno_bpe *bpe = NULL;
    size_t k = 0;
    (void)state;
    assert_int_equal(steno_bpe_new(&bpe, pieces, sizeof pieces / sizeof *pieces, "t", NULL),
                     STENO_OK);
    m.bpe = bpe;
    assert_int_equal(steno_whisper_words_make(&m, &a, ids, false, &w, NULL), STENO_OK);
    for (size_t i = 0; i < w.n; i++) {
        const struct steno_whisper_timed *t = &w.word[i];
        if (!t->bytes)
            continue;
        assert_true(k < sizeof want / sizeof *want);
        assert_int_equal(t->bytes, strlen(want[k].text));
        assert_memory_equal(w.text.data + t->text, want[k].text, t->bytes);
        if (fabs(t->start - want[k].start) > 1e-6 || fabs(t->end - want[k].end) > 1e-6)
            fail_msg("'%s' %.2f to %.2f", want[k].text, t->start, t->end);
        k++;
    }
    assert_int_equal(k, sizeof want / sizeof *want);
    steno_whisper_words_free(&w);
    steno_bpe_close(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_follow_each_other),
        cmocka_unit_test(words_in_order_stay),
        cmocka_unit_test(scripts_without_blanks_part_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
