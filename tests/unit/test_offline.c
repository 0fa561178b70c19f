/* Streams of models that recognize a piece of audio at once, with a model that reads the words off
 * the samples: no word is lost or doubled at a cut, and the pieces in which samples arrive do not
 * matter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/join.h"
#include "speech/families/common/offline.h"
#include "tests/support/test.h"

#define RATE 16000
#define FRAME 960
#define WORD ((size_t)6 * FRAME) /* samples of a word */
#define IDS 40
#define GARBLED IDS /* what the model makes of a part of a word */

/* ---- the model ------------------------------------------------------------------------------- */

/* Sample i of a word: its id, and how far into the word it is. */
static float sample_of(size_t id, size_t i)
{
    return 0.2f + (float)id / 100 + (float)i / (float)WORD / 200;
}

static size_t id_of(float x)
{
    return (size_t)((x - 0.2f) * 100 + 1e-4f);
}

static steno_status recognize_one(size_t *longest, struct steno_offline_piece *p)
{
    size_t n = 0;
    struct steno_span spans[512];
    for (size_t i = 0; i < p->n && n < 512;) {
        size_t len = 1;
        if (p->pcm[i] < 0.1f) {
            i++;
            continue;
        }
        while (i + len < p->n && p->pcm[i + len] > 0.1f &&
               id_of(p->pcm[i + len]) == id_of(p->pcm[i]) && p->pcm[i + len] > p->pcm[i + len - 1])
            len++;
        spans[n++] = (struct steno_span){
            .token = len == WORD ? (int32_t)id_of(p->pcm[i]) : GARBLED,
            .first = (int64_t)(i / FRAME),
            .last = (int64_t)((i + len - 1) / FRAME),
        };
        i += len;
    }
    for (size_t i = 0; p->partial && i < n; i++)
        if (i % 3 != 1) /* what a partial says must not stay */
            spans[i].token = GARBLED;
    p->labels.sound = "speech";
    p->language = "en";
    p->language_probability = 0.5f;
    if (p->n > *longest)
        *longest = p->n;
    return steno_hypothesis_list_add(p->out, spans, n, NULL, 0, -1);
}

/* worker: the longest piece, and the number of pieces of the last call. */
static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    size_t *longest = worker;
    for (size_t i = 0; i < n; i++)
        p[i].st = recognize_one(longest, &p[i]);
    longest[1] = n;
}

static void free_settings(void *settings)
{
    (void)settings;
}

/* ---- who speaks ------------------------------------------------------------------------------ */

struct detector {
    int64_t n;
    size_t in_frame;
    bool loud;
};

static steno_status open_detector(void **state, const void *vad, int rate, steno_err *err)
{
    (void)vad;
    (void)rate;
    (void)err;
    *state = calloc(1, sizeof(struct detector));
    return *state ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status push_detector(void *state, const float *pcm, size_t n, size_t *used,
                                  bool *speech, steno_err *err)
{
    struct detector *d = state;
    (void)err;
    for (*used = 0; *used < n;) {
        d->loud |= pcm[(*used)++] > 0.1f;
        if (++d->in_frame < 160)
            continue;
        *speech = d->loud;
        d->n += 160;
        d->in_frame = 0;
        d->loud = false;
        return STENO_OK;
    }
    return STENO_NEED_MORE;
}

static int64_t classified(const void *state)
{
    return ((const struct detector *)state)->n;
}

static const struct steno_speech_source speech = {
    .open = open_detector, .close = free, .push = push_detector, .classified = classified};

/* ---- recordings ------------------------------------------------------------------------------ */

struct recording {
    float *pcm;
    size_t n;
    size_t words;
};

/* Words without pauses; a silence of `pause` samples after every `every`. */
static struct recording make(size_t words, size_t every, size_t pause)
{
    struct recording r = {calloc(words * (WORD + pause) + 1, sizeof(float)), 0, words};
    uint32_t seed = 1;
    assert_non_null(r.pcm);
    for (size_t w = 0; w < words; w++) {
        seed = seed * 1664525 + 1013904223;
        for (size_t i = 0; i < WORD; i++)
            r.pcm[r.n++] = sample_of((seed >> 8) % IDS, i);
        if (every && w % every == every - 1)
            r.n += pause;
    }
    return r;
}

static steno_tokens *make_tokens(void)
{
    char text[1024];
    size_t n = 0;
    steno_tokens *t;
    for (int i = 0; i <= IDS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "\xE2\x96\x81w%d %d\n", i, i);
    assert_int_equal(steno_tokens_parse(&t, text, n, "words", NULL), STENO_OK);
    return t;
}

struct got {
    struct steno_span spans[512];
    size_t n, sections, partials, longest, pieces;
    char text[4096];
};

static void take_partial(void *state, struct got *g)
{
    struct steno_hypothesis h;
    size_t n, stable;
    assert_int_equal(steno_offline_hypotheses(state, &h, 1, &n, &stable), STENO_OK);
    g->partials += n;
}

/* The recording as one segment, `step` samples at a time. */
static void run(const struct recording *r, size_t step, bool partials, struct got *g)
{
    steno_tokens *t = make_tokens();
    const struct steno_offline_family f = {.cuts = steno_offline_cuts(RATE, 20, FRAME),
                                           .frame_samples = FRAME,
                                           .slack = 3,
                                           .tokens = t,
                                           .recognize = recognize,
                                           .settings_free = free_settings};
    struct steno_family_stream o = {.whole = true, .speech = &speech};
    struct steno_step_item item = {.pcm = r->pcm};
    struct steno_network_time spent = {0};
    struct steno_hypothesis h;
    size_t n, stable;
    memset(g, 0, sizeof *g);
    assert_int_equal(steno_offline_new(&item.state, &f, NULL, &o, NULL), STENO_OK);
    assert_true(o.cuts);
    for (size_t end = 0; end < r->n;) {
        bool due;
        end = end + step < r->n ? end + step : r->n;
        assert_int_equal(steno_offline_accept(item.state, r->pcm, 0, end, &due), STENO_OK);
        item.goal = partials ? STENO_STEP_PARTIAL : STENO_STEP_ADVANCE;
        item.n = end;
        if (!due)
            continue;
        steno_offline_step(&g->longest, &item, 1, 1, &spent);
        assert_int_equal(item.st, STENO_OK);
        take_partial(item.state, g);
    }
    item.goal = STENO_STEP_FINAL;
    item.n = r->n;
    do {
        steno_offline_step(&g->longest, &item, 1, 1, &spent);
        assert_int_equal(item.st, STENO_OK);
    } while (item.more);
    assert_int_equal(steno_offline_hypotheses(item.state, &h, 1, &n, &stable), STENO_OK);
    assert_int_equal(n, 1);
    assert_true(h.n <= 512);
    memcpy(g->spans, h.spans, h.n * sizeof *h.spans);
    g->n = h.n;
    g->sections = h.n_sections;
    assert_string_equal(h.labels.sound, "speech");
    assert_string_equal(h.language, "en");
    for (size_t i = 0; i < h.n_sections; i++)
        strcat(g->text, h.sections[i].text);
    steno_offline_free(item.state);
    steno_tokens_close(t);
}

/* Every word of the recording once, in its frames. */
static void check(const struct recording *r, const struct got *g)
{
    size_t k = 0;
    assert_int_equal(g->n, r->words);
    for (size_t i = 0; i < r->n; k++) {
        while (i < r->n && r->pcm[i] < 0.1f)
            i++;
        if (i == r->n)
            break;
        assert_int_equal(g->spans[k].token, id_of(r->pcm[i]));
        assert_in_range(g->spans[k].first * FRAME, i > FRAME ? i - FRAME : 0, i + FRAME);
        i += WORD;
    }
    assert_int_equal(k, r->words);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void no_word_is_lost_or_doubled_at_a_cut(void **state)
{
    const struct recording r[] = {make(200, 0, 0), make(200, 7, 4 * FRAME),
                                  make(150, 60, 21 * RATE), make(20, 0, 0)};
    struct got g;
    (void)state;
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
        run(&r[i], 160, false, &g);
        check(&r[i], &g);
        assert_true(g.longest <= 20 * RATE);
        assert_true(i == 3 ? g.sections == 0 : g.sections > 2);
        free(r[i].pcm);
    }
}

static void the_pieces_in_which_samples_come_do_not_matter(void **state)
{
    static const size_t steps[] = {160, 1600, 40000, 10000000};
    const struct recording r = make(200, 31, 6 * FRAME);
    struct got first, g;
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        run(&r, steps[i], i % 2, &g);
        check(&r, &g);
        if (!i)
            first = g;
        assert_memory_equal(g.spans, first.spans, g.n * sizeof *g.spans);
        assert_string_equal(g.text, first.text);
    }
    free(r.pcm);
}

/* Six streams whose pieces have 3.6 s each: two fit into a step. */
static void a_step_defers_pieces_that_do_not_fit(void **state)
{
    enum { N = 6 };
    const struct recording r = make(10, 0, 0);
    steno_tokens *t = make_tokens();
    const struct steno_offline_family f = {.cuts = steno_offline_cuts(RATE, 20, FRAME),
                                           .frame_samples = FRAME,
                                           .slack = 3,
                                           .tokens = t,
                                           .recognize = recognize,
                                           .settings_free = free_settings};
    struct steno_step_item items[N];
    struct steno_network_time spent = {0};
    size_t worker[2], left = N, steps = 0;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        struct steno_family_stream o = {.whole = true, .speech = &speech};
        bool due;
        items[i] = (struct steno_step_item){.pcm = r.pcm, .n = r.n, .goal = STENO_STEP_FINAL};
        assert_int_equal(steno_offline_new(&items[i].state, &f, NULL, &o, NULL), STENO_OK);
        assert_int_equal(steno_offline_accept(items[i].state, r.pcm, 0, r.n, &due), STENO_OK);
    }
    for (; left; steps++) {
        size_t at = N - left, k = 0;
        steno_offline_step(worker, items + at, left, (int)left, &spent);
        assert_int_equal(worker[1], left < 2 ? left : 2);
        assert_false(items[at].deferred);
        for (size_t i = at; i < N; i++) {
            assert_int_equal(items[i].st, STENO_OK);
            assert_int_equal(items[i].deferred, i >= at + worker[1]);
            k += !items[i].deferred;
        }
        left -= k;
    }
    assert_int_equal(steps, 3);
    for (size_t i = 0; i < N; i++) {
        struct steno_hypothesis h;
        size_t n, stable;
        assert_int_equal(steno_offline_hypotheses(items[i].state, &h, 1, &n, &stable), STENO_OK);
        assert_int_equal(n, 1);
        assert_int_equal(h.n, r.words);
        steno_offline_free(items[i].state);
    }
    free(r.pcm);
    steno_tokens_close(t);
}

static void sections_spell_the_whole(void **state)
{
    const struct recording r = make(130, 0, 0);
    struct got g;
    char want[4096] = "";
    (void)state;
    run(&r, 1600, true, &g);
    check(&r, &g);
    for (size_t i = 0; i < g.n; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), "%sw%d", i ? " " : "",
                 (int)g.spans[i].token);
    assert_string_equal(g.text, want);
    assert_true(g.partials > 10);
    free(r.pcm);
}

static void chunks_are_joined_where_they_agree(void **state)
{
    static const struct steno_span a[] = {
        {1, 0, 0, 1}, {2, 0, 10, 11}, {3, 0, 20, 21}, {4, 0, 25, 26}, {9, 0, 30, 30}};
    static const struct steno_span b[] = {
        {8, 0, 18, 18}, {3, 0, 21, 22}, {4, 0, 26, 27}, {5, 0, 40, 41}};
    static const struct steno_span other[] = {{7, 0, 16, 17}, {6, 0, 23, 24}};
    size_t keep, skip;
    (void)state;
    steno_join_spans(a, 5, b, 4, 24, 8, 2, &keep, &skip);
    assert_int_equal(keep, 3); /* 1 2 3 | 4 5 */
    assert_int_equal(skip, 2);
    steno_join_spans(a, 5, other, 2, 22, 8, 2, &keep, &skip);
    assert_int_equal(keep, 3); /* nothing in common: by the cut */
    assert_int_equal(skip, 1);
    steno_join_spans(a, 5, NULL, 0, 100, 8, 2, &keep, &skip);
    assert_int_equal(keep, 5);
    assert_int_equal(skip, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_word_is_lost_or_doubled_at_a_cut),
        cmocka_unit_test(the_pieces_in_which_samples_come_do_not_matter),
        cmocka_unit_test(a_step_defers_pieces_that_do_not_fit),
        cmocka_unit_test(sections_spell_the_whole),
        cmocka_unit_test(chunks_are_joined_where_they_agree),
    };
    return cmocka_run_group_tests_name("offline", tests, NULL, NULL);
}
