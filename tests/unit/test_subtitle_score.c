/* Subtitles of 11 minutes of real speech, scored by the rules of subtitlers: 42 columns, two lines,
 * 17 characters a second, 1 to 7 s, never across a pause of a second, breaks where the language has
 * them. The words are tests/data/subtitles.txt. The scores are printed; docs/subtitles.md has them
 * beside those of other programs. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cues.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define COLUMNS 42
#define LINES 2
#define LONGEST 7.0
#define PAUSE 1.0
#define MAX_WORDS 4096

static const struct steno_subtitle_options options = {.line_chars = COLUMNS,
                                                      .lines = LINES,
                                                      .max_seconds = LONGEST,
                                                      .speed = 17,
                                                      .pause_seconds = PAUSE};

/* Words of all recordings; each begins at first[i]. */
static struct steno_cue_word words[MAX_WORDS];
static size_t n_words, first[32], n_recordings;

static int read_words(void **state)
{
    size_t n;
    char *text = steno_test_slurp("tests/data/subtitles.txt", &n), *rest = NULL;
    (void)state;
    if (!text)
        return -1;
    text = realloc(text, n + 1);
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *end;
        if (*line == '#') {
            if (!n_recordings || first[n_recordings - 1] != n_words)
                n_recordings++;
            first[n_recordings - 1] = n_words;
        } else if (*line == '-' && !line[1]) {
            words[n_words - 1].ends_segment = true;
        } else if (n_words < MAX_WORDS) {
            struct steno_cue_word *w = &words[n_words++];
            w->start = strtod(line, &end);
            w->end = strtod(end, &end);
            w->text = strdup(end + 1);
            w->spaced = true;
        }
    }
    first[n_recordings] = n_words;
    free(text);
    return n_words ? 0 : -1;
}

static int free_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_words; i++)
        free((void *)(uintptr_t)words[i].text);
    return 0;
}

/* ---- the rules ------------------------------------------------------------------------------- */

/* The word in small letters, without marks around it. */
static void bare(const char *word, char out[64])
{
    size_t n = 0;
    for (; *word && n < 63; word++)
        if (isalnum((unsigned char)*word) || *word == '\'')
            out[n++] = (char)tolower((unsigned char)*word);
    out[n] = '\0';
}

/* After these no line should end: articles, prepositions, conjunctions, possessives. */
static bool is_weak(const char *word)
{
    static const char *const weak[] = {"a",    "an",   "the",  "of",   "to",    "in",  "on",  "at",
                                       "for",  "by",   "with", "from", "and",   "or",  "but", "my",
                                       "your", "his",  "her",  "our",  "their", "its", "as",  "if",
                                       "that", "than", "into", "i",    "very",  "no"};
    char b[64];
    const size_t n = strlen(word);
    bare(word, b);
    if (!n || strchr(".,;:?!", word[n - 1]))
        return false;
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++)
        if (!strcmp(b, weak[i]))
            return true;
    return false;
}

/* Two capitals in a row that no mark divides, a title with its name, or "5 000". */
static bool is_joined(const char *a, const char *b)
{
    const size_t n = strlen(a);
    if (!n || strchr(".,;:?!", a[n - 1]))
        return !strcmp(a, "Mr.") || !strcmp(a, "Mrs.") || !strcmp(a, "Dr.");
    return (isupper((unsigned char)*a) && isupper((unsigned char)*b) && strcmp(a, "I") != 0 &&
            strncmp(a, "I'", 2) != 0 && strcmp(b, "I") != 0 && strncmp(b, "I'", 2) != 0) ||
           (isdigit((unsigned char)*a) && strspn(b, "0123456789") == 3);
}

struct score {
    int cues, lines, wide, high, late, pauses, fast, faster, brief, breaks, weak, joined;
};

static void score_lines(struct score *s, size_t i, size_t end)
{
    int lines = 1, columns = 0;
    for (size_t k = i; k < end; k++) {
        columns += (k > i && words[k - 1].after == STENO_CUE_GOES_ON) + (int)strlen(words[k].text);
        if (k + 1 == end || words[k].after == STENO_CUE_LINE_ENDS) {
            s->lines++;
            s->wide += columns > COLUMNS;
            columns = 0;
        }
        if (k + 1 < end && words[k].after == STENO_CUE_LINE_ENDS) {
            lines++;
            s->breaks++;
            s->weak += is_weak(words[k].text);
            s->joined += is_joined(words[k].text, words[k + 1].text);
        }
    }
    s->high += lines > LINES;
}

static void score_cue(struct score *s, size_t i, size_t end, size_t n, struct steno_cue_times t)
{
    size_t characters = end - i - 1;
    double speed;
    for (size_t k = i; k < end; k++) {
        characters += strlen(words[k].text);
        s->pauses += k > i && words[k].start - words[k - 1].end >= PAUSE;
    }
    speed = (double)characters / (t.end - t.start);
    s->cues++;
    s->late += t.end - t.start > LONGEST + 1e-6;
    s->fast += speed > 17 + 1e-6;
    s->faster += speed > 20;
    s->brief += t.end - t.start < 1 - 1e-6;
    score_lines(s, i, end);
    if (end < n && words[end].start - words[end - 1].end < PAUSE) {
        s->breaks++;
        s->weak += is_weak(words[end - 1].text);
        s->joined += is_joined(words[end - 1].text, words[end].text);
    }
}

static void subtitles_follow_the_rules(void **state)
{
    struct score s = {0};
    (void)state;
    for (size_t r = 0; r < n_recordings; r++) {
        const size_t begin = first[r], n = first[r + 1] - begin;
        double from = 0;
        assert_int_equal(steno_cues_make(words + begin, n, &options), STENO_OK);
        for (size_t i = 0, end; i < n; i = end) {
            struct steno_cue_times t;
            end = steno_cue_end(words + begin, i);
            t = steno_cue_times(words + begin, i, end, n, from, &options);
            assert_true(t.start >= from && t.end > t.start);
            from = t.end;
            score_cue(&s, begin + i, begin + end, first[r + 1], t);
        }
    }
    print_message(
        "# %zu words, %d cues, %d lines: %d wide, %d high, %d over 7 s, %d across a pause, "
        "%d over 17 and %d over 20 characters a second, %d under 1 s; of %d breaks %d after a "
        "weak word, %d in a name or number\n",
        n_words, s.cues, s.lines, s.wide, s.high, s.late, s.pauses, s.fast, s.faster, s.brief,
        s.breaks, s.weak, s.joined);
    assert_int_equal(s.wide + s.high + s.late + s.pauses + s.brief, 0);
    /* what is left was spoken that fast, without a pause behind it */
    assert_true(10 * s.fast <= s.cues && 30 * s.faster <= s.cues);
    assert_int_equal(s.weak + s.joined, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(subtitles_follow_the_rules)};
    return cmocka_run_group_tests(tests, read_words, free_words);
}
