/* The small networks of NeMo's and WeNet's kinds in ../shared/zoo/tiny: the segments between
 * sherpa-onnx's endpoints against what it recorded (decode.json), and recordings in any pieces and
 * in common steps with others against the same recordings whole. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/direct.h"
#include "tests/support/nemo_zoo.h"
#include "tests/support/test.h"

/* ---- endpoints ------------------------------------------------------------------------------- */

#define FLOAT_40 41 /* 40 frames of 0.01f s are less than 0.4f s */

/* sherpa-onnx's rules, in feature frames: silence before anything is said, silence after, length.
 * It looks at them after each step, begins the search and the caches anew, and counts time from
 * there.
 */
struct rules {
    int64_t alone, after, longest;
    int64_t blank; /* feature frames that it counts for a blank */
};

/* The tokens since `begin`. *last: the last frame with one; *in_last: their number in it. */
static void segment_of(struct direct *d, int64_t begin, struct result *r, int64_t *last,
                       size_t *in_last)
{
    const double frame = (double)d->info.frame_samples / RATE;
    struct steno_hypothesis h = {0};
    size_t n, stable;
    memset(r, 0, sizeof *r);
    assert_int_equal(d->family->hypotheses(d->state, &h, 1, &n, &stable), STENO_OK);
    *last = begin - 1;
    *in_last = 0;
    for (size_t i = 0; i < h.n && r->n < MAX_TOKENS; i++) {
        r->t[r->n++] = (struct token){.id = h.spans[i].token,
                                      .start = (double)(h.spans[i].first - begin) * frame};
        *in_last = h.spans[i].first == *last ? *in_last + 1 : 1;
        *last = h.spans[i].last;
    }
}

/* A transducer's blank ends a frame with fewer than 10 tokens, and counts too. */
static int64_t blanks_of(const struct set *s, int64_t frames, int64_t last, size_t in_last)
{
    return frames - last - 1 + (s->transducer && in_last > 0 && in_last < 10);
}

static bool is_endpoint(const struct rules *r, int64_t frames, int64_t silence)
{
    return silence >= r->alone || (frames > silence && silence >= r->after) || frames >= r->longest;
}

/* Compare the segments of one recording. */
static void compare_segments(const struct set *s, struct direct *d, const struct rules *rules,
                             const steno_tokens *t, const struct steno_json_node *want,
                             struct count *c)
{
    static struct result r;
    const size_t bins = (size_t)d->info.feature_bins, shift = d->info.windows.shift;
    struct audio a = nemo_audio(want->key, s->seconds, SILENCE);
    float *feats;
    const struct steno_json_node *row = want->first;
    int64_t begin = 0, from = 0, last;
    size_t n, in_last;
    assert_non_null(a.pcm);
    feats = direct_begin(d, a.pcm, a.n, &n);
    free(a.pcm);
    for (size_t at = 0; row; at += shift) {
        const bool ended = at + d->info.windows.frames >= n;
        int64_t frames, blanks;
        if (!ended)
            direct_step(d, feats + at * bins);
        segment_of(d, begin, &r, &last, &in_last);
        frames = (int64_t)(at + (ended ? 0 : shift)) - from;
        blanks = blanks_of(s, d->family->frames(d->state), last, in_last);
        if (!ended && !is_endpoint(rules, frames, blanks * rules->blank))
            continue;
        nemo_spell_text(t, &r);
        nemo_compare(s, t, &r, row, 1e9, c);
        row = ended ? NULL : row->next;
        assert_int_equal(d->family->reset(d->state, STENO_RESET_UTTERANCE, NULL), STENO_OK);
        begin = d->family->frames(d->state);
        from = (int64_t)(at + shift);
    }
    free(feats);
}

static void check_endpoints(const struct set *s, const struct rules *rules)
{
    const struct steno_json_node *rows;
    struct steno_family_stream how = {.beam = 1, .n_best = 1, .hints.language = s->source};
    struct steno_family_open o = {.threads = 1, .precision = STENO_FP32};
    struct count c = {0};
    struct direct d;
    steno_json *j;
    steno_tokens *t;
    const char *dir;
    size_t want = 0;
    if (!nemo_open_rows(s, &j, &t, &rows))
        skip();
    dir = nemo_link(s);
    o.dir = dir;
    o.options = nemo_options(s, &o.n_options);
    direct_open(&d, &o, &how);
    for (const struct steno_json_node *e = rows->first; e; e = e->next) {
        compare_segments(s, &d, rules, t, e, &c);
        want += e->n;
    }
    print_message("# %s, %s: %zu of %zu segments equal\n", s->dir, s->name, c.equal, want);
    direct_close(&d);
    nemo_unlink(dir);
    steno_tokens_close(t);
    steno_json_close(j);
    if (!s->int8)
        assert_int_equal(c.equal, want);
}

static void segments_between_endpoints_are_as_recorded(void **state)
{
    static const char *const groups[] = {"fp32", "int8"};
    const struct rules rnnt = {.alone = 100, .after = FLOAT_40, .longest = 300, .blank = 8};
    const struct rules ctc = {.alone = 100, .after = 24, .longest = 600, .blank = 4};
    struct set s = {
        .dir = "nemo-rnnt-streaming",
        .part = "",
        .name = "fp32 greedy_search endpoints rule1=1.0 rule2=0.4 rule3=3.0 (reset after each)",
        .sherpa = true,
        .transducer = true};
    (void)state;
    check_endpoints(&s, &rnnt);
    s.dir = "nemotron-3.5-streaming";
    s.name = "fp32 greedy_search language=de endpoints rule1=1.0 rule2=0.4 rule3=3.0 (reset after "
             "each)";
    s.source = "de";
    check_endpoints(&s, &rnnt);
    for (size_t i = 0; i < 2; i++) {
        s = (struct set){.dir = "nemo-fastconformer-ctc-streaming",
                         .part = "",
                         .group = groups[i],
                         .name = "greedy_search:endpoint(1.0,0.24,6)",
                         .int8 = i,
                         .sherpa = true,
                         .step = 0.04,
                         .seconds = 15};
        check_endpoints(&s, &ctc);
        s.dir = "wenet-ctc-streaming";
        s.frame = s.step;
        s.writes_unknown = true;
        check_endpoints(&s, &ctc);
    }
}

/* ---- pieces and batches ---------------------------------------------------------------------- */

static void expect_same(const struct result *a, const struct result *b)
{
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(a->t[i].id, b->t[i].id);
        assert_true(fabs(a->t[i].start - b->t[i].start) < 1e-9);
    }
}

#define COMPANY 5 /* streams at once */

/* All of one recording each, in pieces of other lengths, in common steps. sources: a language for
 * each stream; NULL: the set's. */
static void decode_together(steno_model *m, const struct set *set, const char *const *sources,
                            const struct audio *a, struct result *r)
{
    struct set own = *set;
    steno_stream *s[COMPANY], *ready[COMPANY];
    size_t at[COMPANY] = {0}, left = COMPANY;
    bool done[COMPANY] = {false};
    steno_batcher *b;
    assert_int_equal(steno_batcher_open(&b, m, 4, NULL), STENO_OK);
    for (size_t i = 0; i < COMPANY; i++) {
        own.source = sources ? sources[i] : set->source;
        s[i] = nemo_open_stream(m, &own);
    }
    while (left) {
        steno_status st[COMPANY];
        size_t n = 0, used;
        for (size_t i = 0; i < COMPANY; i++) {
            const size_t piece = 700 + 900 * i, rest = a->n - at[i];
            if (rest) {
                assert_int_equal(steno_stream_feed(s[i], a->pcm + at[i],
                                                   rest < piece ? rest : piece, &used, NULL),
                                 STENO_OK);
                at[i] += used;
            } else if (!done[i] && !steno_stream_ready(s[i])) {
                assert_int_equal(steno_stream_flush(s[i], true, &done[i], NULL), STENO_OK);
                left -= done[i];
            }
            if (steno_stream_ready(s[i]))
                ready[n++] = s[i];
        }
        steno_streams_step(b, ready, n, st, NULL);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(st[i], STENO_OK);
    }
    for (size_t i = 0; i < COMPANY; i++) {
        memset(&r[i], 0, sizeof r[i]);
        nemo_take_finals(s[i], &r[i]);
        steno_stream_close(s[i]);
    }
    steno_batcher_close(b);
}

static void check_pieces_and_batches(const struct set *s)
{
    static const size_t pieces[] = {160, 592, 5120};
    static struct result whole, r, many[COMPANY];
    struct audio a = nemo_audio("61-70968-0001", 0, 0);
    const char *dir;
    steno_model *m;
    if (!a.pcm)
        skip();
    dir = nemo_link(s);
    m = nemo_open_model(s, dir);
    nemo_decode(m, s, &a, 0, &whole);
    assert_true(whole.n > 3);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        nemo_decode(m, s, &a, pieces[i], &r);
        expect_same(&whole, &r);
    }
    decode_together(m, s, NULL, &a, many);
    for (size_t i = 0; i < COMPANY; i++)
        expect_same(&whole, &many[i]);
    steno_model_close(m);
    nemo_unlink(dir);
    free(a.pcm);
}

static void any_pieces_and_any_company_give_the_same(void **state)
{
    static const char *const dirs[] = {"nemo-parakeet-tdt", "nemo-rnnt-streaming",
                                       "nemo-fastconformer-ctc-streaming", "wenet-ctc-streaming",
                                       "nemotron-3.5-streaming"};
    static const char *const sources[] = {NULL, NULL, NULL, NULL, "es"};
    (void)state;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        for (int kind = 0; kind < 8; kind++) {
            const struct set s = {.dir = dirs[i],
                                  .part = "",
                                  .int8 = kind & 1,
                                  .beam = kind & 2 ? 4 : 1,
                                  .source = sources[i],
                                  .automatic = kind & 4};
            check_pieces_and_batches(&s);
        }
}

/* Streams of a step have prompts of their own. */
static void languages_of_a_batch_do_not_mix(void **state)
{
    static const char *const sources[COMPANY] = {"de", "es", "en-GB", NULL, "ja"};
    static struct result alone, many[COMPANY];
    struct set s = {.dir = "nemotron-3.5-streaming", .part = "", .beam = 1};
    struct audio a = nemo_audio("61-70968-0001", 0, 0);
    const char *dir;
    steno_model *m;
    size_t tokens = 0;
    (void)state;
    if (!a.pcm)
        skip();
    dir = nemo_link(&s);
    m = nemo_open_model(&s, dir);
    decode_together(m, &s, sources, &a, many);
    for (size_t i = 0; i < COMPANY; i++) {
        s.source = sources[i];
        nemo_decode(m, &s, &a, 0, &alone);
        expect_same(&alone, &many[i]);
        tokens += alone.n;
    }
    assert_true(tokens > 100);
    steno_model_close(m);
    nemo_unlink(dir);
    free(a.pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_between_endpoints_are_as_recorded),
        cmocka_unit_test(any_pieces_and_any_company_give_the_same),
        cmocka_unit_test(languages_of_a_batch_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
