/* Words and their times from an alignment, without a model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/whisper/recording_internal.h"
#include "speech/families/whisper/words.h"
#include "tests/support/test.h"

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

/* A sentence with its timestamps, which follow each other, in steps of 0.02 s. */
static void write_sentence(steno_whisper_recording *j, int32_t id, int32_t from, int32_t to)
{
    const int32_t ids[] = {j->m->special.first_time + from, id, j->m->special.first_time + to};
    memcpy(j->decoded.ids + j->decoded.n, ids, sizeof ids);
    j->decoded.n += 3;
}

/* What base in int8 makes of ../shared/speakers/recordings/phone.flac: its timestamps end at 21 s,
 * though it has written all 30 s. The words of its last sentences are pressed together before 21 s,
 * and the next window heard them again. */
static void dense_segments_go_to_the_next_window(void **state)
{
    static const struct steno_bpe_piece pieces[] = {
        P(" Oh, I'm originally from Chicago also."),
        P(" I'm in New Jersey now, though."),
        P(" Well, there's not much difference."),
        P(" At least, you know, they all call me a Yankee down here, so we'll come through."),
        P(" Oh, I don't hear that in New Jersey now."),
        P(" Yes."),
        P("<|endoftext|>")};
    static const struct {
        int32_t sentence[3];
        double start[3], end; /* of its words, s */
        size_t kept, next;
    } cases[] = {
        {{0, 1, 2}, {18.08, 20.14, 20.38}, 20.48, 1, 2014},
        {{0, 3, 4}, {18.08, 20.48, 20.8}, 20.98, 1, 2048},
        {{0, 3, 5}, {18.08, 20.48, 20.98}, 21, 1, 2048}, /* "Yes." alone could be said */
        {{0, 1, 5}, {18.08, 20.0, 20.98}, 21, 3, 2100},
        {{5, 5, 5}, {20.94, 20.96, 20.98}, 21, 3, 2100},
        {{3, 4, 3}, {0, 0.1, 0.2}, 0.3, 1, 10}, /* the first one stays, so that windows go on */
    };
    struct steno_whisper m = {.special = {.eot = 6, .first_time = 7}};
    steno_bpe *bpe = NULL;
    (void)state;
    assert_int_equal(steno_bpe_new(&bpe, pieces, sizeof pieces / sizeof *pieces, "t", NULL),
                     STENO_OK);
    m.bpe = bpe;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_whisper_recording *j = calloc(1, sizeof *j);
        size_t next;
        assert_non_null(j);
        j->m = &m;
        j->at.size = 3000;
        for (int32_t k = 0; k < 3; k++)
            write_sentence(j, cases[i].sentence[k], 350 * k, 350 * (k + 1));
        j->decoded.ids[j->decoded.n] = j->decoded.ids[j->decoded.n - 1]; /* nothing is single */
        j->decoded.n++;
        next = steno_whisper_segments_cut(j);
        assert_int_equal(next, 2100);
        assert_int_equal(j->n_cuts, 3);
        for (size_t k = 0; k < 3; k++) {
            j->cut[k].start = cases[i].start[k];
            j->cut[k].end = k < 2 ? cases[i].start[k + 1] : cases[i].end;
        }
        next = steno_whisper_segments_seek(j, next);
        if (j->n_cuts != cases[i].kept || next != cases[i].next)
            fail_msg("case %zu: %zu segments, next window at %zu", i, j->n_cuts, next);
        free(j);
    }
    steno_bpe_close(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_follow_each_other),
        cmocka_unit_test(words_in_order_stay),
        cmocka_unit_test(scripts_without_blanks_part_words),
        cmocka_unit_test(dense_segments_go_to_the_next_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
