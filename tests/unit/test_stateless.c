/* The search over a transducer with a stateless prediction network, on a joiner made of a formula.
 * References are a greedy loop, and a beam search written with plain arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/stateless.h"
#include "tests/support/test.h"

enum { VOCAB = 6, FRAMES = 12, BLANK = 0, UNK = 2, CONTEXT = 2 };

/* Logits of frame t after tokens a, b. */
static void join(int t, int32_t a, int32_t b, float *row)
{
    for (int v = 0; v < VOCAB; v++)
        row[v] = (float)(2.5 * sin(1.3 * t + 2.1 * v + 0.7 * a + 1.9 * b) + (v ? 0 : 0.8));
}

/* A bigram model. */
static double score_one(const void *self, const int32_t *tokens, size_t n, int32_t token)
{
    (void)self;
    return -0.3 * (double)((token + (n ? tokens[n - 1] : 3)) % 4);
}

static void score_all(const void *self, const int32_t *tokens, size_t n, float *out)
{
    for (int32_t v = 0; v < VOCAB; v++)
        out[v] = (float)score_one(self, tokens, n, v);
}

static steno_stateless *open_fused(int beam, float penalty, double lm_weight,
                                   const steno_hotwords *hotwords)
{
    struct steno_stateless_options o = {.vocab = VOCAB,
                                        .blank = BLANK,
                                        .unknown = UNK,
                                        .context = CONTEXT,
                                        .beam = beam,
                                        .blank_penalty = penalty,
                                        .hotwords = hotwords};
    steno_stateless *s = NULL;
    if (lm_weight > 0)
        o.lm = (struct steno_token_lm){
            .all = score_all, .one = score_one, .history = 1, .weight = lm_weight};
    assert_int_equal(steno_stateless_open(&s, &o, NULL), STENO_OK);
    return s;
}

static steno_stateless *open_search(int beam, float penalty)
{
    return open_fused(beam, penalty, 0, NULL);
}

static void push_frame(steno_stateless *s, int t)
{
    float logits[STENO_STATELESS_BEAM * VOCAB];
    for (size_t i = 0; i < steno_stateless_width(s); i++) {
        const int32_t *c = steno_stateless_context(s, i);
        join(t, c[0], c[1], logits + i * VOCAB);
    }
    assert_int_equal(steno_stateless_push(s, logits), STENO_OK);
}

static struct steno_hyp best(steno_stateless *s)
{
    struct steno_hyp h;
    size_t n;
    assert_int_equal(steno_stateless_nbest(s, &h, 1, &n), STENO_OK);
    assert_int_equal(n, 1);
    return h;
}

/* ---- references ------------------------------------------------------------------------------ */

struct path {
    int32_t y[CONTEXT + FRAMES];
    int64_t at[FRAMES];
    int n; /* of y, the context included */
    double score;
    int32_t match; /* state of the hotwords */
};

static const struct path start = {.y = {-1, BLANK}, .n = CONTEXT};

static void log_softmax(float *row)
{
    double sum = 0;
    for (int v = 0; v < VOCAB; v++)
        sum += exp((double)row[v]);
    for (int v = 0; v < VOCAB; v++)
        row[v] -= (float)log(sum);
}

static bool same(const struct path *a, const struct path *b)
{
    return a->n == b->n && !memcmp(a->y, b->y, (size_t)a->n * sizeof *a->y);
}

/* One frame: all pairs of a path and a token, best first, of which `beam` are kept and merged. */
static int advance(struct path *p, int n, int t, int beam, float penalty, double lm_weight,
                   const steno_hotwords *hotwords)
{
    static struct path all[16 * VOCAB], kept[16];
    int m = 0, k = 0;
    for (int i = 0; i < n; i++) {
        float row[VOCAB];
        join(t, p[i].y[p[i].n - 2], p[i].y[p[i].n - 1], row);
        row[BLANK] -= penalty;
        log_softmax(row);
        for (int v = 0; v < VOCAB; v++) {
            struct path *q = &all[m++];
            *q = p[i];
            q->score += (double)row[v];
            if (v != BLANK && v != UNK) {
                size_t before = (size_t)(q->n - CONTEXT);
                q->score += lm_weight * score_one(NULL, q->y + CONTEXT, before, v);
                q->at[before] = t;
                q->y[q->n++] = v;
            }
        }
    }
    for (int i = 0; i < beam; i++) {
        struct path chosen;
        int top = 0;
        bool merged = false;
        for (int j = 1; j < m; j++)
            if (all[j].score > all[top].score)
                top = j;
        chosen = all[top];
        if (hotwords && chosen.y[chosen.n - 1] != BLANK && chosen.at[chosen.n - 1 - CONTEXT] == t) {
            float hot = 0; /* it counts after the choice */
            chosen.match =
                steno_hotwords_step(hotwords, chosen.match, chosen.y[chosen.n - 1], &hot);
            chosen.score += (double)hot;
        }
        for (int j = 0; j < k && !merged; j++)
            if (same(&kept[j], &chosen)) {
                kept[j].score = log(exp(kept[j].score) + exp(chosen.score));
                merged = true;
            }
        if (!merged)
            kept[k++] = chosen;
        all[top].score = -INFINITY;
    }
    memcpy(p, kept, (size_t)k * sizeof *p);
    return k;
}

static void check(const struct steno_hyp *h, const struct path *want)
{
    assert_int_equal(h->n, want->n - CONTEXT);
    for (size_t i = 0; i < h->n; i++) {
        assert_int_equal(h->spans[i].token, want->y[CONTEXT + i]);
        assert_int_equal(h->spans[i].first, want->at[i]);
        assert_int_equal(h->spans[i].last, want->at[i]);
    }
    assert_true(fabs(h->score - want->score) < 1e-4);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_frame_equals_the_reference(void **state)
{
    static const float penalties[] = {0, 1.5f};
    (void)state;
    for (int beam = 1; beam <= 8; beam *= 2)
        for (size_t k = 0; k < 2; k++) {
            steno_stateless *s = open_search(beam, penalties[k]);
            struct path p[16] = {start};
            int n = 1;
            for (int t = 0; t < FRAMES; t++) {
                const struct path *top = p;
                struct steno_hyp h;
                push_frame(s, t);
                n = advance(p, n, t, beam, penalties[k], 0, NULL);
                for (int i = 1; i < n; i++)
                    if (p[i].score / p[i].n > top->score / top->n)
                        top = &p[i];
                assert_int_equal(steno_stateless_width(s), n);
                h = best(s);
                check(&h, top);
                assert_int_equal(steno_stateless_frames(s), t + 1);
                assert_int_equal(steno_stateless_n_tokens(s), h.n);
                assert_int_equal(steno_stateless_last_sound(s), h.n ? h.spans[h.n - 1].first : -1);
            }
            steno_stateless_close(s);
        }
}

static void hotwords_and_a_language_model_count_as_in_the_reference(void **state)
{
    steno_hotwords *hot = NULL;
    (void)state;
    assert_int_equal(steno_hotwords_open(&hot, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_add(hot, (int32_t[]){3, 1}, 2, 1.5f, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_add(hot, (int32_t[]){4, 5, 1}, 3, 1, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_build(hot, NULL), STENO_OK);
    for (int beam = 2; beam <= 8; beam *= 2)
        for (int fused = 1; fused < 4; fused++) {
            const steno_hotwords *h = fused & 1 ? hot : NULL;
            double weight = fused & 2 ? 0.8 : 0;
            steno_stateless *s = open_fused(beam, 1, weight, h);
            struct path p[16] = {start};
            int n = 1;
            for (int t = 0; t < FRAMES; t++) {
                const struct path *top = p;
                struct steno_hyp is;
                push_frame(s, t);
                n = advance(p, n, t, beam, 1, weight, h);
                for (int i = 1; i < n; i++)
                    if (p[i].score / p[i].n > top->score / top->n)
                        top = &p[i];
                assert_int_equal(steno_stateless_width(s), n);
                is = best(s);
                check(&is, top);
            }
            steno_stateless_close(s);
        }
    steno_hotwords_close(hot);
}

static void the_list_is_sorted_and_shares_its_stable_head(void **state)
{
    steno_stateless *s = open_search(4, 1);
    struct steno_hyp h[4];
    size_t n, stable;
    (void)state;
    for (int t = 0; t < FRAMES; t++) {
        push_frame(s, t);
        assert_int_equal(steno_stateless_nbest(s, h, 4, &n), STENO_OK);
        assert_int_equal(n, steno_stateless_width(s));
        stable = steno_stateless_stable(s);
        for (size_t i = 1; i < n; i++) {
            assert_true(h[i].score / (double)(h[i].n + CONTEXT) <=
                        h[i - 1].score / (double)(h[i - 1].n + CONTEXT));
            assert_true(stable <= h[i].n);
            for (size_t k = 0; k < stable; k++)
                assert_int_equal(h[i].spans[k].token, h[0].spans[k].token);
        }
    }
    steno_stateless_close(s);
}

static void a_reset_keeps_the_context_and_a_restart_does_not(void **state)
{
    steno_stateless *s = open_search(1, 4);
    const int32_t *c;
    int32_t last[CONTEXT];
    struct steno_hyp h;
    (void)state;
    for (int t = 0; t < 6; t++)
        push_frame(s, t);
    h = best(s);
    assert_true(h.n >= CONTEXT);
    for (int i = 0; i < CONTEXT; i++)
        last[i] = h.spans[h.n - CONTEXT + (size_t)i].token;
    assert_int_equal(steno_stateless_reset(s), STENO_OK);
    assert_int_equal(best(s).n, 0);
    assert_int_equal(steno_stateless_frames(s), 6);
    assert_int_equal(steno_stateless_last_sound(s), 5);
    c = steno_stateless_context(s, 0);
    assert_memory_equal(c, last, sizeof last);
    /* silence, and again an end: the network sees the old tokens until the first new one */
    steno_stateless_skip(s, 10);
    assert_int_equal(steno_stateless_frames(s), 16);
    assert_int_equal(steno_stateless_reset(s), STENO_OK);
    assert_memory_equal(steno_stateless_context(s, 0), last, sizeof last);
    for (int t = 6; best(s).n == 0; t++)
        push_frame(s, t);
    c = steno_stateless_context(s, 0);
    assert_int_equal(c[0], BLANK);
    assert_int_equal(steno_stateless_restart(s, 3), STENO_OK);
    c = steno_stateless_context(s, 0);
    assert_int_equal(c[0], -1);
    assert_int_equal(c[1], BLANK);
    assert_int_equal(steno_stateless_frames(s), 3);
    steno_stateless_close(s);
}

static void a_reset_of_a_beam_begins_one_without_a_past(void **state)
{
    steno_stateless *s = open_search(4, 4);
    size_t n, fresh = 0;
    struct steno_hyp h[5];
    (void)state;
    for (int t = 0; t < 6; t++)
        push_frame(s, t);
    assert_int_equal(steno_stateless_reset(s), STENO_OK);
    assert_true(steno_stateless_width(s) > 1);
    for (size_t i = 0; i < steno_stateless_width(s); i++)
        fresh += steno_stateless_context(s, i)[0] == -1;
    assert_int_equal(fresh, 1);
    assert_int_equal(steno_stateless_nbest(s, h, 4, &n), STENO_OK);
    assert_true(h[0].score == 0); /* the one without a past */
    for (int t = 6; t < FRAMES; t++)
        push_frame(s, t);
    assert_true(steno_stateless_width(s) <= 4);
    steno_stateless_close(s);
}

static void a_score_that_is_no_number_is_an_error(void **state)
{
    steno_stateless *s = open_search(4, 0);
    float logits[4 * VOCAB] = {0};
    (void)state;
    logits[3] = NAN;
    assert_int_equal(steno_stateless_push(s, logits), STENO_ERR_FORMAT);
    steno_stateless_close(s);
    s = open_search(4, 0);
    for (int v = 0; v < VOCAB; v++)
        logits[v] = -INFINITY;
    assert_int_equal(steno_stateless_push(s, logits), STENO_ERR_FORMAT);
    steno_stateless_close(s);
    s = open_search(4, 0);
    logits[1] = 0; /* one token is possible */
    assert_int_equal(steno_stateless_push(s, logits), STENO_OK);
    assert_int_equal(steno_stateless_width(s), 1);
    assert_int_equal(best(s).n, 1);
    steno_stateless_close(s);
}

static void wrong_options_are_named(void **state)
{
    static const struct steno_stateless_options wrong[] = {
        {.vocab = 1, .context = 2, .beam = 1},  {.vocab = 5, .blank = 5, .context = 2, .beam = 1},
        {.vocab = 5, .context = 0, .beam = 1},  {.vocab = 5, .context = 9, .beam = 1},
        {.vocab = 5, .context = 2, .beam = 65},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        steno_stateless *s = NULL;
        steno_err err = {0};
        assert_int_equal(steno_stateless_open(&s, &wrong[i], &err), STENO_ERR_INVAL);
        assert_true(*err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_equals_the_reference),
        cmocka_unit_test(hotwords_and_a_language_model_count_as_in_the_reference),
        cmocka_unit_test(the_list_is_sorted_and_shares_its_stable_head),
        cmocka_unit_test(a_reset_keeps_the_context_and_a_restart_does_not),
        cmocka_unit_test(a_reset_of_a_beam_begins_one_without_a_past),
        cmocka_unit_test(a_score_that_is_no_number_is_an_error),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
