/* Which tokens may be sampled, and searches over hand-written scores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "speech/families/whisper/decode.h"
#include "tests/support/test.h"

#define V 51864
#define NO (-INFINITY)

static struct steno_whisper m;
static float x[V];
static int32_t EOT, TIME;

static int setup(void **state)
{
    static const struct steno_bpe_piece pieces[] = {{"a", 1}, {"b", 1}, {" ", 1}, {" dog", 4}};
    steno_bpe *b = NULL;
    (void)state;
    assert_int_equal(
        steno_whisper_specials(V, &(struct steno_whisper_marks){0}, "test", &m.special, NULL),
        STENO_OK);
    assert_int_equal(steno_bpe_new(&b, pieces, 4, "test", NULL), STENO_OK);
    steno_kernels_init(&m.kernels, 0);
    m.dims.vocab = V;
    m.dims.text_ctx = 448;
    m.bpe = b;
    m.not_first[0] = m.special.eot;
    m.not_first[1] = 2; /* a blank */
    m.n_not_first = 2;
    EOT = m.special.eot;
    TIME = m.special.first_time;
    return 0;
}

static int teardown(void **state)
{
    steno_bpe *b;
    (void)state;
    memcpy(&b, &m.bpe, sizeof b);
    steno_bpe_close(b);
    return 0;
}

/* ---- rules --------------------------------------------------------------------------------- */

static struct steno_whisper_rules rules(bool times)
{
    struct steno_whisper_rules r = steno_whisper_rules_default(&m);
    r.times = times;
    return r;
}

static void apply(const struct steno_whisper_rules *r, const int32_t *seq, size_t n)
{
    for (int i = 0; i < V; i++)
        x[i] = i < TIME ? 0 : -20; /* so that timestamps are not preferred */
    steno_whisper_rules_apply(&m, r, seq, n, x);
}

static bool open_range(int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        if (x[i] == NO)
            return false;
    return true;
}

static bool closed(int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        if (x[i] != NO)
            return false;
    return true;
}

static void the_first_piece_is_a_timestamp_of_the_first_second(void **state)
{
    const struct steno_whisper_rules r = rules(true);
    (void)state;
    apply(&r, NULL, 0);
    assert_true(closed(0, TIME) && open_range(TIME, TIME + 51) && closed(TIME + 51, V));
}

static void without_timestamps_it_is_neither_blank_nor_the_end(void **state)
{
    const struct steno_whisper_rules r = rules(false);
    (void)state;
    apply(&r, NULL, 0);
    assert_true(x[EOT] == NO && x[2] == NO && x[0] != NO);
    apply(&r, (int32_t[]){0}, 1);
    assert_true(x[EOT] != NO && x[2] != NO);
}

static void timestamps_come_in_pairs(void **state)
{
    const struct steno_whisper_rules r = rules(true);
    (void)state;
    apply(&r, (int32_t[]){TIME}, 1); /* text, but no later time: the pair is at the start */
    assert_true(open_range(0, EOT) && closed(TIME, V));
    apply(&r, (int32_t[]){TIME, 0}, 2); /* text, the end, or a later time */
    assert_true(open_range(0, EOT + 1) && closed(TIME, TIME + 1) && open_range(TIME + 1, V));
    /* the same time again, a later time, or the end */
    apply(&r, (int32_t[]){TIME, 0, TIME + 9}, 3);
    assert_true(closed(0, EOT) && x[EOT] != NO && closed(TIME, TIME + 9) &&
                open_range(TIME + 9, V));
    apply(&r, (int32_t[]){TIME, 0, TIME + 9, TIME + 9}, 4);
    assert_true(open_range(0, EOT) && closed(TIME, V));
    assert_true(x[m.special.no_times] == NO);
}

static void many_unlikely_timestamps_together_count(void **state)
{
    const struct steno_whisper_rules r = rules(true);
    const int32_t seq[] = {TIME, 0};
    (void)state;
    for (int i = 0; i < V; i++)
        x[i] = i < TIME ? -30 : -5; /* each less likely than piece 1, all together more */
    x[1] = 0;
    steno_whisper_rules_apply(&m, &r, seq, 2, x);
    assert_true(closed(0, TIME));
    for (int i = 0; i < V; i++)
        x[i] = i < TIME ? -30 : -8; /* 1500 e^-8 < 1 */
    x[1] = 0;
    steno_whisper_rules_apply(&m, &r, seq, 2, x);
    assert_true(x[1] == 0);
}

static void repetition_is_made_less_likely(void **state)
{
    struct steno_whisper_rules r = rules(false);
    (void)state;
    r.repetition_penalty = 2;
    r.no_repeat_ngram = 2;
    for (int i = 0; i < V; i++)
        x[i] = i ? -1 : 4;
    steno_whisper_rules_apply(&m, &r, (int32_t[]){0, 1, 3, 1, 0}, 5, x);
    assert_true(x[0] == 2 && x[3] == -2); /* positive scores are divided, once */
    assert_true(x[1] == NO);              /* 0 1 was there */
}

/* ---- searches ------------------------------------------------------------------------------ */

/* Scores of a text: `next` writes the pieces that are likely after it. */
typedef void (*next_fn)(const int32_t *text, size_t n, float *scores);

static void quiet(float *s)
{
    for (int i = 0; i < V; i++)
        s[i] = -40;
}

static float *logits;
static int32_t texts[STENO_WHISPER_MAX_BEAM][256];

/* Takes the place of a network's step. */
static void answer(struct steno_whisper_ask *a, size_t *length, next_fn next)
{
    static int32_t before[STENO_WHISPER_MAX_BEAM][256];
    memcpy(before, texts, sizeof texts);
    *length = a->parent ? *length + 1 : 0;
    for (size_t i = 0; a->parent && i < a->n; i++) {
        memcpy(texts[i], before[a->parent[i]], sizeof texts[i]);
        texts[i][*length - 1] = a->token[i];
    }
    for (size_t i = 0; i < (a->parent ? a->n : a->n_pick); i++) {
        quiet(logits + i * V);
        next(texts[a->parent ? i : 0], *length, logits + i * V);
    }
    a->logits = logits;
}

static struct steno_whisper_search_options search_options(size_t beam)
{
    struct steno_whisper_search_options o = {
        .beam = beam, .best_of = 1, .patience = 1, .length_penalty = 1, .rules = rules(false)};
    o.rules.no_blank = false;
    return o;
}

static struct steno_whisper_text search(const struct steno_whisper_search_options *o, next_fn next,
                                        steno_whisper_search **s)
{
    const int32_t prompt[] = {m.special.sot, m.special.no_times};
    struct steno_whisper_ask a;
    size_t length = 0;
    logits = malloc((size_t)STENO_WHISPER_MAX_BEAM * V * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(steno_whisper_search_open(s, &m, NULL), STENO_OK);
    assert_int_equal(steno_whisper_search_start(*s, o, NULL, prompt, 2, NULL), STENO_OK);
    while (steno_whisper_search_ask(*s, &a)) {
        answer(&a, &length, next);
        steno_whisper_search_take(*s, &a);
    }
    free(logits);
    return steno_whisper_search_best(*s);
}

/* "a" looks better than "b" at first, but nothing good follows it. */
static void garden_path(const int32_t *text, size_t n, float *s)
{
    if (!n) {
        s[0] = 0.2f;
        s[1] = 0;
    } else if (n == 1 && text[0] == 0) {
        for (int i = 0; i < 100; i++)
            s[i] = 0; /* nothing is likely */
    } else {
        s[n == 1 ? 3 : EOT] = 0;
    }
    s[m.special.no_speech] = n ? -40 : -1;
}

static void a_beam_sees_past_the_first_piece(void **state)
{
    struct steno_whisper_search_options o = search_options(1);
    steno_whisper_search *s;
    struct steno_whisper_text t = search(&o, garden_path, &s);
    (void)state;
    assert_int_equal(t.ids[0], 0);
    steno_whisper_search_close(s);
    o = search_options(2);
    t = search(&o, garden_path, &s);
    assert_int_equal(t.n, 2);
    assert_true(t.ids[0] == 1 && t.ids[1] == 3 && t.ended);
    /* log-probabilities of "b" against "a" and no speech, of " dog", and of the end */
    assert_true(fabs(t.sum + log(1 + exp(0.2) + exp(-1))) < 1e-4);
    assert_true(fabs((double)t.no_speech - exp(-1) / (1 + exp(0.2) + exp(-1))) < 1e-4);
    steno_whisper_search_close(s);
}

static void endless(const int32_t *text, size_t n, float *s)
{
    (void)text;
    (void)n;
    s[0] = 0;
    s[1] = -3;
}

static void a_text_ends_at_the_limit(void **state)
{
    struct steno_whisper_search_options o = search_options(3);
    steno_whisper_search *s;
    struct steno_whisper_text t;
    (void)state;
    o.max_new = 7;
    t = search(&o, endless, &s);
    assert_true(t.n == 7 && !t.ended && t.ids[6] == 0);
    assert_true(fabs(t.sum + 7 * log(1 + exp(-3))) < 1e-4);
    steno_whisper_search_close(s);
    o = search_options(1);
    t = search(&o, endless, &s);
    assert_int_equal(t.n, 224);
    steno_whisper_search_close(s);
}

static void samples_follow_the_seed(void **state)
{
    struct steno_whisper_search_options o = search_options(1);
    steno_whisper_search *s, *t;
    struct steno_whisper_text a, b;
    int ones = 0;
    (void)state;
    o.temperature = 1;
    o.best_of = 3;
    o.max_new = 50;
    a = search(&o, endless, &s);
    b = search(&o, endless, &t);
    assert_true(a.n == 50 && b.n == 50 && !memcmp(a.ids, b.ids, 50 * sizeof *a.ids));
    for (int i = 0; i < 50; i++)
        ones += a.ids[i];
    assert_in_range(ones, 0, 10); /* one in 21 */
    steno_whisper_search_close(s);
    steno_whisper_search_close(t);
}

/* Weights of unknown origin may give any scores. */
static void nothing(const int32_t *text, size_t n, float *s)
{
    (void)text;
    for (int i = 0; i < V; i++)
        s[i] = n < 2 ? NAN : NO;
}

static void scores_that_are_no_numbers_end_a_search(void **state)
{
    struct steno_whisper_search_options o = search_options(5);
    steno_whisper_search *s;
    struct steno_whisper_text t = search(&o, nothing, &s);
    (void)state;
    assert_true(t.n == 0 && !t.ended && t.sum == (double)NO);
    steno_whisper_search_close(s);
    o = search_options(1);
    o.temperature = 1;
    o.max_new = 4;
    t = search(&o, nothing, &s);
    assert_true(t.n <= 4);
    steno_whisper_search_close(s);
}

static void options_out_of_range_are_named(void **state)
{
    struct steno_whisper_search_options o = search_options(33);
    const int32_t prompt[] = {m.special.sot};
    steno_whisper_search *s;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_whisper_search_open(&s, &m, NULL), STENO_OK);
    assert_int_equal(steno_whisper_search_start(s, &o, NULL, prompt, 1, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "33 hypotheses, 1 to 32 expected");
    o = search_options(1);
    assert_int_equal(steno_whisper_search_start(s, &o, NULL, (int32_t[]){0}, 1, &err),
                     STENO_ERR_INVAL);
    assert_string_equal(err.msg, "a prompt without the start of the transcript");
    steno_whisper_search_close(s);
}

/* ---- temperatures -------------------------------------------------------------------------- */

/* "aaaa..." at temperature 0; a sampled text ends after a few tokens. */
static void loop(const int32_t *text, size_t n, float *s)
{
    (void)text;
    (void)n;
    s[0] = 3;
    s[1] = 2;
    s[EOT] = 2.5f;
    s[m.special.no_speech] = -40;
}

static struct steno_whisper_decoded decode(const struct steno_whisper_decode_options *o,
                                           next_fn next)
{
    const int32_t prompt[] = {m.special.sot, m.special.no_times};
    struct steno_whisper_decoded d;
    steno_whisper_decoder *w;
    struct steno_whisper_ask a;
    size_t length = 0;
    logits = malloc((size_t)STENO_WHISPER_MAX_BEAM * V * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(steno_whisper_decoder_open(&w, &m, NULL), STENO_OK);
    assert_int_equal(steno_whisper_decoder_start(w, o, NULL, prompt, 2, NULL), STENO_OK);
    while (steno_whisper_decoder_ask(w, &a)) {
        answer(&a, &length, next);
        assert_int_equal(steno_whisper_decoder_take(w, &a, NULL), STENO_OK);
    }
    d = *steno_whisper_decoder_result(w);
    steno_whisper_decoder_close(w);
    free(logits);
    return d;
}

static void a_loop_is_tried_at_the_next_temperature(void **state)
{
    struct steno_whisper_decode_options o = steno_whisper_decode_default(&m);
    struct steno_whisper_decoded d;
    (void)state;
    o.search = search_options(1);
    o.temperatures[1] = 1;
    o.n_temperatures = 1;
    d = decode(&o, loop);
    assert_true(d.n == 224 && d.compression > 2.4f && d.temperature == 0);
    o.n_temperatures = 2;
    d = decode(&o, loop);
    assert_true(d.n < 30 && d.compression <= 2.4f && d.temperature == 1);
}

static void nobody_speaks(const int32_t *text, size_t n, float *s)
{
    loop(text, n, s);
    s[m.special.no_speech] = n ? -40 : 9;
}

static void loops_where_nobody_speaks_are_silence(void **state)
{
    struct steno_whisper_decode_options o = steno_whisper_decode_default(&m);
    struct steno_whisper_decoded d;
    (void)state;
    o.search = search_options(1);
    o.search.rules.suppress = &m.special.no_speech;
    o.search.rules.n_suppress = 1;
    d = decode(&o, nobody_speaks);
    assert_true(d.temperature > 0 || !steno_whisper_decoded_silent(&o, &d));
    o.loops_are_silence = true;
    d = decode(&o, nobody_speaks);
    assert_true(d.temperature == 0 && d.no_speech > 0.9f && steno_whisper_decoded_silent(&o, &d));
}

/* Python: text.strip(). */
static void white_space_is_stripped(void **state)
{
    size_t n;
    const char *p;
    (void)state;
    p = steno_whisper_strip(" \t a b\xE3\x80\x80\n", 10, &n);
    assert_true(n == 3 && !memcmp(p, "a b", 3));
    (void)steno_whisper_strip("  ", 2, &n);
    assert_int_equal(n, 0);
    (void)steno_whisper_strip("", 0, &n);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_piece_is_a_timestamp_of_the_first_second),
        cmocka_unit_test(without_timestamps_it_is_neither_blank_nor_the_end),
        cmocka_unit_test(timestamps_come_in_pairs),
        cmocka_unit_test(many_unlikely_timestamps_together_count),
        cmocka_unit_test(repetition_is_made_less_likely),
        cmocka_unit_test(a_beam_sees_past_the_first_piece),
        cmocka_unit_test(a_text_ends_at_the_limit),
        cmocka_unit_test(samples_follow_the_seed),
        cmocka_unit_test(scores_that_are_no_numbers_end_a_search),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(a_loop_is_tried_at_the_next_temperature),
        cmocka_unit_test(loops_where_nobody_speaks_are_silence),
        cmocka_unit_test(white_space_is_stripped),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
