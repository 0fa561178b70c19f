/* ldflags: -Wl,--wrap=steno_whisper_encode,--wrap=steno_session_run,--wrap=steno_session_get */
/* Whole recordings against faster-whisper 1.2.1 in float32 at temperature 0 (../shared/zoo/whisper:
 * README.md there says how they were made): the same pieces in every window, the same segment
 * times, word times within 0.04 s. STENO_WHISPER_ALL=1: every recording, else the short ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "formats/json.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/whisper_memo.h"
#include "tests/support/whisper_models.h"
#include "tests/support/whisper_run.h"
#include "speech/text/language.h"

/* What is compared, as it comes. */
struct check {
    const char *what; /* for messages */
    const struct steno_json_node *window, *segment;
    size_t n_windows, n_segments;
    bool timed;  /* words have times, and windows are those of the recording without */
    double said; /* end of the last word */
    int wrong;
    double worst_word, worst_sum;
};

#define WRONG(c, ...)                                                                              \
    ((c)->wrong++,                                                                                 \
     print_message("# %s, window %zu, segment %zu: ", (c)->what, (c)->n_windows, (c)->n_segments), \
     print_message(__VA_ARGS__), print_message("\n"))

static double number(const struct steno_json_node *n)
{
    return n && n->text ? strtod(n->text, NULL) : (double)NAN;
}

static bool same_ids(const struct steno_json_node *list, const int32_t *ids, size_t n)
{
    const struct steno_json_node *e = list->first;
    for (size_t i = 0; i < n && e; i++, e = e->next)
        if (atoll(e->text) != ids[i])
            return false;
    return list->n == n;
}

static void check_window(void *arg, const int32_t *prompt, size_t n,
                         const struct steno_whisper_decoded *d)
{
    struct check *c = arg;
    double sum;
    c->n_windows++;
    if (!c->window) {
        WRONG(c, "one window more than recorded");
        return;
    }
    if (!same_ids(steno_json_get(c->window, "prompt"), prompt, n))
        WRONG(c, "another prompt, of %zu pieces", n);
    if (!same_ids(steno_json_get(c->window, "tokens"), d->ids, d->n))
        WRONG(c, "other pieces, %zu, log-probability %.4f, recorded %s", d->n, d->sum,
              steno_json_get(c->window, "sum_logprob")->text);
    sum = fabs(d->sum - number(steno_json_get(c->window, "sum_logprob")));
    c->worst_sum = sum > c->worst_sum ? sum : c->worst_sum;
    if (fabs((double)d->no_speech - number(steno_json_get(c->window, "no_speech_prob"))) > 1e-3)
        WRONG(c, "no speech %.5f, recorded %s", (double)d->no_speech,
              steno_json_get(c->window, "no_speech_prob")->text);
    if (fabs((double)d->compression - number(steno_json_get(c->window, "compression_ratio"))) >
        1e-3)
        WRONG(c, "compression %.4f, recorded %s", (double)d->compression,
              steno_json_get(c->window, "compression_ratio")->text);
    c->window = c->window->next;
}

static void check_words(struct check *c, const struct steno_whisper_segment *s)
{
    const struct steno_json_node *list = steno_json_get(c->segment, "words"), *w;
    size_t i = 0;
    if (!list)
        return;
    if (list->n != s->n_words) {
        WRONG(c, "%zu words, %zu recorded", s->n_words, list->n);
        return;
    }
    for (w = list->first; w; w = w->next, i++) {
        const struct steno_json_node *v = w->first;
        const double from = fabs(s->words[i].start - number(v->next));
        const double to = fabs(s->words[i].end - number(v->next->next));
        const double p = fabs((double)s->words[i].probability - number(v->next->next->next));
        if (strcmp(v->text, s->words[i].text))
            WRONG(c, "word '%s', recorded '%s'", s->words[i].text, v->text);
        if (from > 0.04 || to > 0.04 || p > 5e-3)
            WRONG(c, "'%s' %.2f to %.2f, p %.4f, recorded %s, %s, %s", v->text, s->words[i].start,
                  s->words[i].end, (double)s->words[i].probability, v->next->text,
                  v->next->next->text, v->next->next->next->text);
        c->worst_word = fmax(c->worst_word, fmax(from, to));
    }
}

/* Words follow each other, from one window to the next, too, and each takes a column: of
 * faster-whisper's, some take no time. Segments have the times of their words. */
static void check_order(struct check *c, const struct steno_whisper_segment *s)
{
    if (s->n_words && (s->start < s->words[0].start || s->end < s->start ||
                       s->end > s->words[s->n_words - 1].end))
        WRONG(c, "%.2f to %.2f is not that of its words", s->start, s->end);
    for (size_t i = 0; i < s->n_words; i++) {
        const struct steno_whisper_word *w = &s->words[i];
        if (w->start < c->said || w->end - w->start < 0.0199)
            WRONG(c, "'%s' %.2f to %.2f, the word before it to %.2f", w->text, w->start, w->end,
                  c->said);
        c->said = w->end;
    }
}

static void check_times(struct check *c, const struct steno_whisper_segment *s)
{
    if (fabs(s->start - number(steno_json_get(c->segment, "start"))) > 1e-3 ||
        fabs(s->end - number(steno_json_get(c->segment, "end"))) > 1e-3)
        WRONG(c, "%.3f to %.3f, recorded %s to %s", s->start, s->end,
              steno_json_get(c->segment, "start")->text, steno_json_get(c->segment, "end")->text);
}

static void check_segment(void *arg, const struct steno_whisper_segment *s)
{
    struct check *c = arg;
    c->n_segments++;
    if (!c->segment) {
        WRONG(c, "one segment more than recorded: '%s'", s->text);
        return;
    }
    if (strcmp(s->text, steno_json_get(c->segment, "text")->text))
        WRONG(c, "'%s', recorded '%s'", s->text, steno_json_get(c->segment, "text")->text);
    if (c->timed)
        check_order(c, s);
    else
        check_times(c, s);
    if (s->seek != (size_t)number(steno_json_get(c->segment, "seek")))
        WRONG(c, "seek %zu, recorded %s", s->seek, steno_json_get(c->segment, "seek")->text);
    check_words(c, s);
    c->segment = c->segment->next;
}

/* timed: the options that the server has. Words have times, and move no window. */
static int check_recording(steno_whisper_runner *r, const struct steno_json_node *root,
                           const char *variant, bool timed, const char *what, const float *pcm,
                           size_t n)
{
    const struct steno_json_node *v = steno_json_get(root, variant);
    struct steno_whisper_recording_options o =
        steno_whisper_recording_default(steno_whisper_runner_model(r));
    struct check c = {.what = what, .timed = timed};
    const struct whisper_sink sink = {check_segment, check_window, &c};
    int language = -1;
    float probability = 0;
    steno_err err = {0};
    o.decode.n_temperatures = 1;
    o.decode.search.beam = variant[4] == '5' ? 5 : 1;
    o.times = !strstr(variant, "nots");
    o.words = timed || strstr(variant, "words") != NULL;
    o.words_move = !timed;
    c.window = steno_json_get(v, "windows")->first;
    c.segment = steno_json_get(v, "segments")->first;
    if (whisper_run(r, pcm, n, 0, &o, &sink, &language, &probability, &err))
        WRONG(&c, "%s", err.msg);
    if (c.window || c.segment)
        WRONG(&c, "recorded windows or segments that did not come");
    if (strcmp(steno_language_code_at(language), steno_json_get(v, "language")->text))
        WRONG(&c, "language %s", steno_language_code_at(language));
    if (getenv("STENO_WHISPER_ALL"))
        print_message("# %s: %zu windows, log-probability within %.4f, words within %.2f s%s\n",
                      what, c.n_windows, c.worst_sum, c.worst_word, c.wrong ? " DIFFERENT" : "");
    return c.wrong > 0;
}

static int check_languages(const struct steno_json_node *root, steno_whisper_runner *r,
                           const float *pcm, size_t n)
{
    const struct steno_json_node *list = steno_json_get(root, "language_probs");
    struct steno_whisper_recording_options o =
        steno_whisper_recording_default(steno_whisper_runner_model(r));
    struct check c = {.what = "language"};
    const struct whisper_sink sink = {check_segment, NULL, &c};
    int language = -1;
    float probability = 0;
    if (!list)
        return 0;
    o.decode.n_temperatures = 1;
    o.decode.search.beam = 1;
    o.decode.search.max_new = 1;
    assert_int_equal(whisper_run(r, pcm, n, 0, &o, &sink, &language, &probability, NULL), STENO_OK);
    /* its detection sees one frame more than the window has, unless two languages are close */
    if (fabs((double)probability - number(list->first->first->next)) < 3e-3)
        return 0;
    print_message("# language probability %.5f, recorded %s\n", (double)probability,
                  list->first->first->next->text);
    return 1;
}

static int check_file(steno_whisper_runner *r, const char *which, const struct whisper_zoo *z,
                      int *done)
{
    static const char *const variants[] = {"beam1",      "beam5",       "beam1_nots",
                                           "beam5_nots", "beam1_words", "beam5_words"};
    char rel[100], what[200];
    steno_json *j;
    size_t n, bytes;
    void *json;
    float *pcm;
    int wrong = 0;
    snprintf(rel, sizeof rel, "zoo/whisper/%s/%s.json", which, z->name);
    json = steno_test_shared(rel, &bytes);
    pcm = json ? whisper_recording(z->file, &n) : NULL;
    if (!pcm) {
        free(json);
        return 0;
    }
    assert_int_equal(steno_json_parse(&j, json, bytes, rel, NULL), STENO_OK);
    for (size_t v = 0; v < 6; v++) {
        snprintf(what, sizeof what, "%s %s %s", which, z->name, variants[v]);
        wrong += check_recording(r, steno_json_root(j), variants[v], false, what, pcm, n);
        ++*done;
    }
    for (size_t v = 0; v < 2; v++) {
        snprintf(what, sizeof what, "%s %s %s with words", which, z->name, variants[v]);
        wrong += check_recording(r, steno_json_root(j), variants[v], true, what, pcm, n);
        ++*done;
    }
    wrong += check_languages(steno_json_root(j), r, pcm, n);
    steno_json_close(j);
    free(json);
    free(pcm);
    return wrong;
}

static void check_model(const char *which)
{
    const char *dir = whisper_model(which);
    struct whisper_net net;
    int wrong = 0, done = 0;
    if (!dir)
        skip();
    whisper_net_open(&net, dir, STENO_FP32);
    for (const struct whisper_zoo *z = whisper_zoo; z->name; z++)
        if (whisper_zoo_wanted(z, which))
            wrong += check_file(net.r, which, z, &done);
    whisper_net_close(&net);
    print_message("# %s: %d of %d differ\n", which, wrong, done);
    if (!done)
        skip();
    assert_int_equal(wrong, 0);
}

static void tiny_en_writes_what_faster_whisper_writes(void **state)
{
    (void)state;
    check_model("tiny.en");
}

static void base_writes_what_faster_whisper_writes(void **state)
{
    (void)state;
    check_model("base");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_en_writes_what_faster_whisper_writes),
        cmocka_unit_test(base_writes_what_faster_whisper_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
