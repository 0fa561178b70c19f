/* Alignment of a text: the reference is brute force over every way of giving the frames of a small
 * score array to the tokens, by the definitions of docs/align.md; and words and characters of
 * texts, by small vocabularies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"
#include "speech/search/align.h"
#include "tests/support/test.h"

#define VOCAB 5
#define DELIMITER 4
#define ANY STENO_ALIGN_ANY
#define MOST 12 /* frames */

static void random_scores(float *s, size_t frames, uint32_t seed)
{
    for (size_t t = 0; t < frames; t++) {
        float sum = 0;
        for (int v = 0; v < VOCAB; v++) {
            seed = seed * 1664525u + 1013904223u;
            s[t * VOCAB + (size_t)v] = expf((float)(seed >> 8) / 2097152.0f);
            sum += s[t * VOCAB + (size_t)v];
        }
        for (int v = 0; v < VOCAB; v++)
            s[t * VOCAB + (size_t)v] = logf(s[t * VOCAB + (size_t)v] / sum);
    }
}

/* ---- brute force ----------------------------------------------------------------------------- */

struct brute {
    const struct steno_align_options *o;
    const float *x;
    size_t frames;
    int owner[MOST]; /* 2 i: gap before token i, 2 i + 1: token i */
    double best;
    int best_owner[MOST];
};

static double other(const struct brute *b, size_t t)
{
    double best = -INFINITY;
    for (int v = 0; v < VOCAB; v++)
        if (v != b->o->blank && v != b->o->delimiter)
            best = fmax(best, (double)b->x[t * VOCAB + (size_t)v]);
    return best;
}

/* The log-probability of a whole assignment, state by state. */
static double score_assignment(const struct brute *b, const int *owner)
{
    const struct steno_align_options *o = b->o;
    double sum = 0;
    for (size_t t = 0; t < b->frames; t++) {
        const float *x = b->x + t * VOCAB;
        const size_t i = (size_t)owner[t] / 2;
        const bool ends = i == 0 || i == o->n;
        double gap = (double)x[o->blank];
        if (owner[t] % 2) {
            const bool goes_on = t && owner[t - 1] == owner[t];
            if (o->tokens[i] != ANY)
                sum += (double)x[o->tokens[i]];
            else
                sum += goes_on ? fmax(other(b, t), (double)x[o->blank]) : other(b, t);
            continue;
        }
        if (o->delimiter >= 0 && o->begins && (ends || o->begins[i]))
            gap = fmax(gap, (double)x[o->delimiter]);
        sum += ends && o->open_ends ? fmax(gap, other(b, t) - STENO_ALIGN_UNSPOKEN) : gap;
    }
    return sum;
}

/* Whether two tokens in a row need a gap between them. */
static bool need_gap(const struct steno_align_options *o, size_t i)
{
    return o->tokens[i] == o->tokens[i - 1] && o->tokens[i] != ANY;
}

static void assign(struct brute *b, size_t t)
{
    const struct steno_align_options *o = b->o;
    const int last = (int)(2 * o->n), from = t ? b->owner[t - 1] : 0;
    if (t == b->frames) {
        double score;
        if (from < last - 1)
            return;
        score = score_assignment(b, b->owner);
        if (score > b->best) {
            b->best = score;
            memcpy(b->best_owner, b->owner, sizeof b->owner);
        }
        return;
    }
    for (int s = t ? from : 0; s <= (t ? from + 2 : 1) && s <= last; s++) {
        if (s == from + 2 && (s % 2 == 0 || need_gap(o, (size_t)s / 2)))
            continue;
        b->owner[t] = s;
        assign(b, t + 1);
    }
}

/* The owners that spans say. */
static void owners_of(const struct steno_span *spans, size_t n, size_t frames, int *owner)
{
    size_t i = 0;
    for (size_t t = 0; t < frames; t++) {
        while (i < n && spans[i].last < (int64_t)t)
            i++;
        owner[t] = i < n && spans[i].first <= (int64_t)t ? (int)(2 * i + 1) : (int)(2 * i);
    }
}

static void compare(const struct steno_align_options *o, const float *x, size_t frames)
{
    struct brute b = {.o = o, .x = x, .frames = frames, .best = -INFINITY};
    struct steno_align a = {0};
    const struct steno_span *spans;
    int owner[MOST];
    assign(&b, 0);
    assert_true(isfinite(b.best));
    assert_int_equal(steno_align_begin(&a, o), STENO_OK);
    for (size_t t = 0; t < frames; t++) /* frame by frame is the same as at once */
        assert_int_equal(steno_align_push(&a, x + t * VOCAB, 1), STENO_OK);
    spans = steno_align_end(&a);
    owners_of(spans, o->n, frames, owner);
    assert_true(fabs(score_assignment(&b, owner) - b.best) < 1e-6);
    for (size_t i = 0; i < o->n; i++) {
        double peak = -INFINITY;
        for (int64_t t = spans[i].first; t <= spans[i].last; t++)
            peak = fmax(peak, o->tokens[i] == ANY ? other(&b, (size_t)t)
                                                  : (double)x[t * VOCAB + o->tokens[i]]);
        assert_true(fabs(peak - (double)spans[i].peak) < 1e-5);
    }
    steno_align_free(&a);
}

static void finds_the_best_of_all_paths(void **state)
{
    static const int32_t texts[][4] = {
        {1, 2, 3, 1}, {1, 1, 2, 2}, {ANY, 1, ANY, ANY}, {2, ANY, 2, 3}, {1, ANY, ANY, 1}};
    static const bool begins[] = {true, false, true, true};
    float x[MOST * VOCAB];
    (void)state;
    for (uint32_t seed = 1; seed <= 240; seed++) {
        const size_t n = 1 + seed % 4, frames = 8 + seed % 3;
        const struct steno_align_options o = {.vocab = VOCAB,
                                              .delimiter = seed % 3 ? DELIMITER : -1,
                                              .tokens = texts[seed % 5],
                                              .begins = seed % 7 ? begins : NULL,
                                              .n = n,
                                              .open_ends = seed % 2};
        random_scores(x, frames, seed * 977u);
        compare(&o, x, frames);
    }
}

/* ---- long recordings ------------------------------------------------------------------------- */

#define LONG 6000

/* Scores in which token 1 + i % 3 sounds in frame 10 i, and blanks else. */
static float *clear_speech(void)
{
    float *x = malloc(LONG * VOCAB * sizeof *x);
    assert_non_null(x);
    for (size_t t = 0; t < LONG; t++)
        for (size_t v = 0; v < VOCAB; v++) {
            const size_t heard = t % 10 ? 0 : 1 + t / 10 % 3;
            x[t * VOCAB + v] = v == heard ? logf(0.98f) : logf(0.005f);
        }
    return x;
}

static void bounded_memory_finds_the_same(void **state)
{
    float *x = clear_speech();
    int32_t tokens[LONG / 10];
    struct steno_align_options o = {
        .vocab = VOCAB, .delimiter = -1, .tokens = tokens, .n = LONG / 10, .open_ends = true};
    (void)state;
    for (size_t i = 0; i < o.n; i++)
        tokens[i] = (int32_t)(1 + i % 3);
    for (size_t bytes = 4096; bytes <= 65536; bytes *= 4) {
        struct steno_align a = {0};
        const struct steno_span *s;
        o.beam = 60;
        o.record_bytes = bytes;
        assert_int_equal(steno_align_begin(&a, &o), STENO_OK);
        assert_int_equal(steno_align_push(&a, x, LONG), STENO_OK);
        assert_true(a.cap_cells * sizeof *a.cells <= 2 * bytes);
        s = steno_align_end(&a);
        for (size_t i = 0; i < o.n; i++) {
            assert_int_equal(s[i].first, 10 * i);
            assert_int_equal(s[i].last, 10 * i);
        }
        steno_align_free(&a);
    }
    free(x);
}

static void unspoken_ends_belong_to_no_token(void **state)
{
    float *x = clear_speech();
    static const int32_t tokens[] = {3, ANY, 2}; /* 3 1 2 of 1 2 3 1 2 3 1 2 3 */
    const struct steno_align_options o = {
        .vocab = VOCAB, .delimiter = -1, .tokens = tokens, .n = 3, .open_ends = true, .first = 100};
    struct steno_align a = {0};
    const struct steno_span *s;
    (void)state;
    assert_int_equal(steno_align_begin(&a, &o), STENO_OK);
    assert_int_equal(steno_align_push(&a, x, 55), STENO_OK);
    s = steno_align_end(&a);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(s[i].first, 100 + 20 + 10 * (int)i);
        assert_int_equal(s[i].last, s[i].first);
    }
    steno_align_free(&a);
    free(x);
}

static void tokens_that_the_audio_ends_before_are_not_found(void **state)
{
    static const int32_t tokens[] = {1, 2, 3, 1, 2, 3};
    const struct steno_align_options o = {
        .vocab = VOCAB, .delimiter = -1, .tokens = tokens, .n = 6, .open_ends = true};
    float *x = clear_speech();
    struct steno_align a = {0};
    const struct steno_span *s;
    (void)state;
    assert_int_equal(steno_align_begin(&a, &o), STENO_OK);
    assert_int_equal(steno_align_push(&a, x, 3), STENO_OK);
    s = steno_align_end(&a);
    assert_int_equal(s[0].first, 0);
    assert_int_equal(s[5].first, -1);
    assert_int_equal(steno_align_begin(&a, &o), STENO_OK); /* no frames at all */
    assert_int_equal(steno_align_end(&a)[0].first, -1);
    steno_align_free(&a);
    free(x);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Each word of a line as "text:units", where a unit is a token's piece or "*", with its bytes. */
static void spell(const char *tokens_txt, const char *delimiter, const char *line, char *out,
                  size_t size)
{
    const struct steno_line lines[] = {{.text = line}};
    const struct steno_aligned_word *w;
    const struct steno_aligned_unit *u;
    struct steno_phrases v;
    steno_tokens *t = NULL;
    steno_alignment *a = NULL;
    size_t n, k, at = 0;
    assert_int_equal(steno_tokens_parse(&t, tokens_txt, strlen(tokens_txt), "t", NULL), STENO_OK);
    if (delimiter)
        steno_tokens_set_delimiter(t, steno_tokens_find(t, delimiter));
    assert_int_equal(steno_phrases_open(&v, t, NULL), STENO_OK);
    assert_int_equal(steno_alignment_open(&a, lines, 1, NULL), STENO_OK);
    assert_int_equal(steno_phrases_spell_lines(&v, a, NULL), STENO_OK);
    w = steno_alignment_words(a, &n);
    u = steno_alignment_units(a, &k);
    *out = '\0';
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%.*s:", i ? " " : "",
                               (int)(w[i].to - w[i].from), line + w[i].from);
        for (size_t j = w[i].unit; j < w[i].unit + w[i].n_units; j++)
            at +=
                (size_t)snprintf(out + at, size - at, "[%s=%.*s]",
                                 u[j].span.token < 0 ? "*" : steno_tokens_piece(t, u[j].span.token),
                                 (int)(u[j].to - u[j].from), line + u[j].from);
    }
    steno_alignment_close(a);
    steno_phrases_close(&v);
    steno_tokens_close(t);
}

static void words_become_letters(void **state)
{
    static const char letters[] = "<pad> 0\n| 1\nA 2\nB 3\nC 4\nE 5\n' 6\nD 7\n";
    static const char *const cases[][2] = {
        {"Bad cab", "Bad:[B=B][A=a][D=d] cab:[C=c][A=a][B=b]"},
        {"  A\xC2\xA0"
         "b\t",
         "A:[A=A] b:[B=b]"},
        {"c\xC3\xA9", "c\xC3\xA9:[C=c][E=\xC3\xA9]"}, /* an accent goes */
        {"e\xCC\x81", "e\xCC\x81:[E=e]"},             /* so does a loose one */
        {"b'e 'b'", "b'e:[B=b]['='][E=e] 'b':[B=b]"}, /* an apostrophe within */
        {"b\xE2\x80\x99"
         "d",
         "b\xE2\x80\x99"
         "d:[B=b]['=\xE2\x80\x99][D=d]"},
        {"$20, a", "$20,:[*=$20] a:[A=a]"}, /* one wildcard for a run */
        {"a2z!", "a2z!:[A=a][*=2z]"},
        {"b - \xE2\x80\x94", "b:[B=b] -: \xE2\x80\x94:"}, /* marks have no tokens */
        {"\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82",
         "\xE4\xBD\xA0:[*=\xE4\xBD\xA0] \xE5\xA5\xBD\xE3\x80\x82:[*=\xE5\xA5\xBD]"},
        {"", ""},
    };
    char got[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spell(letters, "|", cases[i][0], got, sizeof got);
        assert_string_equal(got, cases[i][1]);
    }
}

static void words_become_pieces(void **state)
{
#define M "\xE2\x96\x81"
    static const char pieces[] =
        "<blk> 0\n" M "he 1\nllo 2\n" M "one 3\n\xE4\xBD\xA0 4\n" M "don't 5\n";
    static const char *const cases[][2] = {
        {"Hello, ONE!", "Hello,:[" M "he=He][llo=llo] ONE!:[" M "one=ONE]"},
        {"12 one", "12:[*=12] one:[" M "one=one]"},
        {"\xE2\x80\x9Cone\xE2\x80\x9D", "\xE2\x80\x9Cone\xE2\x80\x9D:[" M "one=one]"},
        {"don't don\xE2\x80\x99t",
         "don't:[" M "don't=don't] don\xE2\x80\x99t:[" M "don't=don\xE2\x80\x99t]"},
        {"one\xE4\xBD\xA0", "one:[" M "one=one] \xE4\xBD\xA0:[\xE4\xBD\xA0=\xE4\xBD\xA0]"},
        {"...", "...:"},
    };
    char got[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spell(pieces, NULL, cases[i][0], got, sizeof got);
        assert_string_equal(got, cases[i][1]);
    }
}

static void hostile_lines_are_refused(void **state)
{
    steno_alignment *a = NULL;
    steno_err err;
    char *much = malloc(STENO_ALIGNMENT_TEXT + 2);
    (void)state;
    assert_non_null(much);
    assert_int_equal(
        steno_alignment_open(&a, (struct steno_line[]){{"ok", 0, 0}, {"a\xFF", 0, 0}}, 2, &err),
        STENO_ERR_INVAL);
    assert_string_equal(err.msg, "text: line 2: byte 2 is not UTF-8");
    assert_int_equal(
        steno_alignment_open(&a, (struct steno_line[]){{"a", 2, 3}, {"b", 1, 2}}, 2, &err),
        STENO_ERR_INVAL);
    assert_int_equal(steno_alignment_open(&a, (struct steno_line[]){{"a", 0, NAN}}, 1, &err),
                     STENO_ERR_INVAL);
    memset(much, 'a', STENO_ALIGNMENT_TEXT + 1);
    much[STENO_ALIGNMENT_TEXT + 1] = '\0';
    assert_int_equal(steno_alignment_open(&a, (struct steno_line[]){{much, 0, 0}}, 1, &err),
                     STENO_ERR_LIMIT);
    free(much);
}

/* Lines with times are looked for there alone: the first of two equal words, then the second. */
static void times_say_where_to_look(void **state)
{
    static const char letters[] = "<pad> 0\nA 1\nB 2\nC 3\n| 4\n";
    const struct steno_line lines[] = {{"b", 4.0, 6.0}, {"a", 6.5, 9.5}, {"c", 20, 21}};
    float *x = clear_speech();
    const struct steno_aligned_unit *u;
    struct steno_phrases v;
    steno_tokens *t = NULL;
    steno_alignment *a = NULL;
    size_t n;
    (void)state;
    assert_int_equal(steno_tokens_parse(&t, letters, strlen(letters), "t", NULL), STENO_OK);
    steno_tokens_set_delimiter(t, 4);
    assert_int_equal(steno_phrases_open(&v, t, NULL), STENO_OK);
    assert_int_equal(steno_alignment_open(&a, lines, 3, NULL), STENO_OK);
    assert_int_equal(steno_phrases_spell_lines(&v, a, NULL), STENO_OK);
    steno_alignment_attach(a, VOCAB, 0);
    steno_alignment_set_clock(a, 0, 10); /* token k mod 3 at k s */
    assert_int_equal(steno_alignment_push_at(a, 0, x, 30), STENO_OK);
    assert_int_equal(steno_alignment_push_at(a, 20, x + 20 * VOCAB, 60), STENO_OK); /* overlaps */
    assert_int_equal(steno_alignment_push(a, x + 80 * VOCAB, 70), STENO_OK);
    assert_int_equal(steno_alignment_frames(a), 150);
    assert_int_equal(steno_alignment_push_at(a, 160, x + 160 * VOCAB, 30), STENO_OK); /* a hole */
    steno_alignment_end(a);
    u = steno_alignment_units(a, &n);
    assert_int_equal(n, 3);
    assert_int_equal(u[0].span.first, 40); /* not 10 */
    assert_int_equal(u[1].span.first, 90); /* not 60, which is before its time */
    assert_int_equal(u[2].span.first, -1); /* the audio ends before */
    steno_alignment_close(a);
    steno_phrases_close(&v);
    steno_tokens_close(t);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_best_of_all_paths),
        cmocka_unit_test(bounded_memory_finds_the_same),
        cmocka_unit_test(unspoken_ends_belong_to_no_token),
        cmocka_unit_test(tokens_that_the_audio_ends_before_are_not_found),
        cmocka_unit_test(words_become_letters),
        cmocka_unit_test(words_become_pieces),
        cmocka_unit_test(hostile_lines_are_refused),
        cmocka_unit_test(times_say_where_to_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
