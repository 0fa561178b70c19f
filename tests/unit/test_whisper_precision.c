/* Weights in 16 and 8 bits, and in the formats that quantize them: how many words differ from what
 * faster-whisper writes in float32 with a beam of 5 (../shared/zoo/whisper). Its own int8 differs
 * in 0.5 % of the words with tiny.en, 2.9 % with base (../shared/reference/whisper.md, 6.5). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"
#include "tests/support/whisper_run.h"

#define MAX_WORDS 400

struct words {
    char text[8192];
    const char *word[MAX_WORDS];
    size_t n;
};

/* Lower case, without punctuation; what is not ASCII as it is. */
static void add_words(struct words *w, const char *text)
{
    size_t at = w->n ? strlen(w->word[w->n - 1]) + (size_t)(w->word[w->n - 1] - w->text) + 1 : 0;
    bool inside = false;
    for (; *text && at + 2 < sizeof w->text; text++) {
        const char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
        const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c < 0 || c == '\'';
        if (letter && !inside && w->n < MAX_WORDS)
            w->word[w->n++] = w->text + at;
        if (letter)
            w->text[at++] = c;
        else if (inside)
            w->text[at++] = '\0';
        inside = letter;
    }
    w->text[at] = '\0';
}

/* Levenshtein distance. */
static size_t distance(const struct words *a, const struct words *b)
{
    size_t row[MAX_WORDS + 1];
    for (size_t j = 0; j <= b->n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a->n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b->n; j++) {
            const size_t change = diagonal + (strcmp(a->word[i - 1], b->word[j - 1]) != 0);
            const size_t step = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < step ? change : step;
        }
    }
    return row[b->n];
}

static void take(void *arg, const struct steno_whisper_segment *s)
{
    add_words(arg, s->text);
}

static bool read_recorded(const char *which, const char *name, struct words *w)
{
    char rel[100];
    size_t bytes;
    void *json;
    steno_json *j;
    snprintf(rel, sizeof rel, "zoo/whisper/%s/%s.json", which, name);
    json = steno_test_shared(rel, &bytes);
    if (!json)
        return false;
    assert_int_equal(steno_json_parse(&j, json, bytes, rel, NULL), STENO_OK);
    free(json);
    for (const struct steno_json_node *s =
             steno_json_get(steno_json_get(steno_json_root(j), "beam5"), "segments")->first;
         s; s = s->next)
        add_words(w, steno_json_get(s, "text")->text);
    steno_json_close(j);
    return true;
}

static void check_one(steno_whisper_runner *r, const char *which, const struct whisper_zoo *z,
                      size_t *wrong, size_t *all)
{
    struct steno_whisper_recording_options o =
        steno_whisper_recording_default(steno_whisper_runner_model(r));
    struct words *want = calloc(2, sizeof *want), *have = want + 1;
    const struct whisper_sink sink = {take, NULL, have};
    int language;
    float probability;
    size_t n, d;
    float *pcm;
    assert_non_null(want);
    o.decode.n_temperatures = 1;
    if (read_recorded(which, z->name, want) && (pcm = whisper_recording(z->file, &n))) {
        assert_int_equal(whisper_run(r, pcm, n, 0, &o, &sink, &language, &probability, NULL),
                         STENO_OK);
        d = distance(want, have);
        if (d && getenv("STENO_WHISPER_ALL"))
            print_message("# %s %s: %zu of %zu words\n", which, z->name, d, want->n);
        *wrong += d;
        *all += want->n;
        free(pcm);
    }
    free(want);
}

static void check(const char *which, enum steno_precision p, double most)
{
    const char *dir = whisper_model(which);
    struct whisper_net net;
    size_t wrong = 0, all = 0;
    if (!dir)
        skip();
    whisper_net_open(&net, dir, p);
    for (const struct whisper_zoo *z = whisper_zoo; z->name; z++)
        if (whisper_zoo_wanted(z, which) && strcmp(z->name, "silence10") &&
            strcmp(z->name, "noise10"))
            check_one(net.r, which, z, &wrong, &all);
    whisper_net_close(&net);
    if (!all)
        skip();
    print_message("# %s, %s: %zu of %zu words differ\n", which, steno_precision_name(p), wrong,
                  all);
    /* with the few recordings of a short run a near tie is more than the share */
    assert_true(wrong <= 2 || (double)wrong <= most * (double)all);
}

static void tiny_en_in_16_bits(void **state)
{
    (void)state;
    check("tiny.en", STENO_BF16_WEIGHTS, 0.01);
}

static void tiny_en_in_8_bits(void **state)
{
    (void)state;
    check("tiny.en", STENO_INT8_WEIGHTS, 0.01);
}

static void base_in_16_bits(void **state)
{
    (void)state;
    check("base", STENO_BF16_WEIGHTS, 0.01);
}

static void base_in_8_bits(void **state)
{
    (void)state;
    check("base", STENO_INT8_WEIGHTS, 0.029);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_en_in_16_bits),
        cmocka_unit_test(tiny_en_in_8_bits),
        cmocka_unit_test(base_in_16_bits),
        cmocka_unit_test(base_in_8_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
