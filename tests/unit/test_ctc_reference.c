/* Greedy decoding of recorded scores against the result of sherpa-onnx 2.0.1 for the same
 * recording (tests/data/README.md names the sources): tokens, the frame in which each begins,
 * text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/ctc.h"
#include "speech/text/words.h"
#include "tests/support/test.h"

#define V 59

struct expected {
    char text[4096];
    size_t n;
    struct {
        int frame;
        char piece[64];
    } tok[128];
};

static void load_expected(const char *path, struct expected *e)
{
    FILE *f = fopen(path, "r");
    char line[256];
    assert_non_null(f);
    assert_non_null(fgets(e->text, sizeof e->text, f));
    e->text[strcspn(e->text, "\n")] = '\0';
    for (e->n = 0; fgets(line, sizeof line, f); e->n++) {
        char *rest;
        line[strcspn(line, "\n")] = '\0';
        e->tok[e->n].frame = (int)strtol(line, &rest, 10);
        snprintf(e->tok[e->n].piece, 64, "%s", rest + 1);
    }
    fclose(f);
}

static size_t load_scores(const char *path, float *out, size_t max)
{
    FILE *f = fopen(path, "rb");
    size_t n;
    assert_non_null(f);
    n = fread(out, sizeof *out * V, max, f);
    fclose(f);
    return n;
}

/* The reference writes a space for the word mark. */
static void check_piece(const steno_tokens *t, int32_t id, const char *want)
{
    char got[80];
    size_t n;
    const char *s = steno_tokens_text(t, id, &n);
    snprintf(got, sizeof got, "%s%.*s", steno_tokens_flags(t, id) & STENO_TOKEN_WORD ? " " : "",
             (int)n, s);
    assert_string_equal(got, want);
}

static void check_model(const char *name)
{
    static float scores[96 * V];
    static struct expected e;
    char path[128];
    steno_tokens *t = NULL;
    steno_ctc_greedy *g = NULL;
    struct steno_words w;
    struct steno_hyp h;
    size_t frames;
    snprintf(path, sizeof path, "tests/data/ctc/%s.tokens.txt", name);
    assert_int_equal(steno_tokens_open(&t, path, NULL), STENO_OK);
    snprintf(path, sizeof path, "tests/data/ctc/%s.expected.txt", name);
    load_expected(path, &e);
    snprintf(path, sizeof path, "tests/data/ctc/%s.f32", name);
    frames = load_scores(path, scores, 96);
    assert_true(frames >= 48 && e.n > 10);
    assert_int_equal(steno_ctc_greedy_open(&g, &(struct steno_ctc_options){.vocab = V}, NULL),
                     STENO_OK);
    assert_int_equal(steno_ctc_greedy_push(g, scores, frames), STENO_OK);
    h = steno_ctc_greedy_best(g);
    assert_int_equal(h.n, e.n);
    for (size_t i = 0; i < e.n; i++) {
        assert_int_equal(h.spans[i].first, e.tok[i].frame);
        check_piece(t, h.spans[i].token, e.tok[i].piece);
    }
    steno_words_init(&w);
    assert_int_equal(steno_words_build(&w, t, h.spans, h.n, h.n), STENO_OK);
    assert_true(w.line.len > 10);
    assert_memory_equal(w.line.data, e.text + strspn(e.text, " "), w.line.len);
    steno_words_free(&w);
    steno_ctc_greedy_close(g);
    steno_tokens_close(t);
}

static void wenet_scores_give_the_recorded_tokens(void **state)
{
    (void)state;
    check_model("wenet");
}

static void zipformer_scores_give_the_recorded_tokens(void **state)
{
    (void)state;
    check_model("zipformer2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wenet_scores_give_the_recorded_tokens),
        cmocka_unit_test(zipformer_scores_give_the_recorded_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
