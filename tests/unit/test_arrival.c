/* What a Sortformer remembers, on embeddings that say which frame they are of: whose frames stay,
 * in which order, and what silence is; turns of probabilities. The whole loop is compared with an
 * own one in tests/integration/test_sortformer.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/activity.h"
#include "speech/speakers/arrival.h"
#include "tests/support/test.h"

#define SPEAKERS 2
#define CACHE 20 /* 10 for each: 7 of speech, 3 of silence */
#define ALL (CACHE + 8 + 4)

static const struct steno_arrival_rules rules = {.cache = CACHE,
                                                 .queue = 8,
                                                 .chunk = 4,
                                                 .period = 6,
                                                 .speakers = SPEAKERS,
                                                 .dim = 2,
                                                 .rests = 3};

/* Frame number `n` with these probabilities is heard; the network says of every frame what it said
 * at first, which `said` [frames, SPEAKERS] holds. */
static void hear(struct steno_arrival *a, float *said, int *n, float first, float second)
{
    float all[ALL * SPEAKERS], x[2] = {(float)*n, 1};
    float *p = said + *n * SPEAKERS;
    p[0] = first;
    p[1] = second;
    for (size_t i = 0; i < a->n_cache + a->n_queue; i++) {
        const float *e = i < a->n_cache ? a->cache + 2 * i : a->queue + 2 * (i - a->n_cache);
        for (int s = 0; s < SPEAKERS; s++)
            all[i * SPEAKERS + (size_t)s] =
                e[1] == 1 ? said[(size_t)e[0] * SPEAKERS + (size_t)s] : 0; /* else: silence */
    }
    steno_arrival_take(a, all, x, p, 1);
    ++*n;
}

static void frames_stay_by_speaker_in_order_of_arrival(void **state)
{
    struct steno_arrival a;
    float said[400 * SPEAKERS];
    int n = 0, zeros = 0, ones = 0;
    (void)state;
    assert_int_equal(steno_arrival_init(&a, &rules, NULL), STENO_OK);
    for (int k = 0; k < 12; k++)
        hear(&a, said, &n, 0.9f + 0.001f * (float)k, 0.02f);
    for (int k = 0; k < 300; k++)
        hear(&a, said, &n, 0.03f, 0.9f + 0.0001f * (float)(k % 7));
    assert_true(a.compressed && a.n_cache == CACHE && a.n_queue <= rules.queue);
    for (size_t i = 0; i < CACHE; i++) {
        const float frame = a.cache[2 * i], p = a.cache_probs[i * SPEAKERS];
        if (a.cache[2 * i + 1] == 0) /* nobody was silent: zeros */
            assert_true(frame == 0 && p == 0);
        else if (p > 0.5f) {
            assert_true(!ones && frame < 12 && (!zeros || frame > a.cache[2 * i - 2]));
            zeros++;
        } else {
            assert_true(frame >= 12 && (!ones || frame >= a.cache[2 * i - 2]));
            ones++;
        }
    }
    assert_true(zeros >= 5); /* three quarters of its part, though it was silent for long */
    assert_true(ones >= 5 && zeros + ones + 2 * 3 == CACHE);
    for (size_t i = 0; i < 3; i++)
        assert_true(a.cache[2 * (CACHE - 1 - i) + 1] == 0); /* silence ends a part */
    steno_arrival_free(&a);
}

static void silence_is_the_mean_of_silent_frames(void **state)
{
    struct steno_arrival_rules learned = rules;
    const float rest[2] = {-7, -8};
    struct steno_arrival a;
    float said[400 * SPEAKERS];
    (void)state;
    for (int round = 0; round < 2; round++) {
        double sum = 0;
        size_t silent = 0;
        int n = 0;
        learned.silence = round ? rest : NULL;
        assert_int_equal(steno_arrival_init(&a, &learned, NULL), STENO_OK);
        for (int k = 0; k < 90; k++)
            hear(&a, said, &n, k % 3 ? 0.95f : 0.05f, 0.1f);
        for (int k = 0; k < 90 - (int)a.n_queue; k++)
            if (k % 3 == 0) {
                sum += k;
                silent++;
            }
        assert_true(round ? a.n_silence == 0 : a.n_silence == silent);
        const float want = round ? rest[0] : (float)(sum / (double)silent);
        assert_float_equal(a.silence[0], want, 1e-3);
        assert_float_equal(a.cache[2 * (CACHE - 1)], want, 20);
        assert_float_equal(a.cache_probs[SPEAKERS * CACHE - 1], 0, 0);
        steno_arrival_free(&a);
    }
}

static void numbers_that_are_none_are_nobodys(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, -1e30f, 1e30f};
    struct steno_arrival a;
    float said[400 * SPEAKERS];
    int n = 0;
    (void)state;
    assert_int_equal(steno_arrival_init(&a, &rules, NULL), STENO_OK);
    for (int k = 0; k < 200; k++)
        hear(&a, said, &n, bad[k % 5], bad[k % 3]);
    for (size_t i = 0; i < a.n_cache * SPEAKERS; i++)
        assert_true(isfinite(a.cache_probs[i]));
    steno_arrival_free(&a);
}

static void rules_that_cannot_be_are_named(void **state)
{
    struct steno_arrival_rules r = rules;
    struct steno_arrival a;
    steno_err err;
    (void)state;
    r.speakers = STENO_ARRIVAL_SPEAKERS + 1;
    assert_int_equal(steno_arrival_init(&a, &r, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "9 speakers"));
    r = rules;
    r.cache = 7;
    assert_int_equal(steno_arrival_init(&a, &r, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "7 frames, expected 8"));
    r = rules;
    r.period = 0;
    assert_int_equal(steno_arrival_init(&a, &r, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "update period of 0"));
    r = rules;
    r.dim = 0;
    assert_int_equal(steno_arrival_init(&a, &r, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "embeddings of 0"));
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void check(const struct steno_activity *a, const struct steno_activity_rules *r,
                  const struct steno_turn *want, size_t n_want)
{
    struct steno_turn *t;
    size_t n;
    assert_int_equal(steno_activity_turns(a, r, &t, &n, NULL), STENO_OK);
    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++) {
        assert_float_equal(t[i].start, want[i].start, 1e-9);
        assert_float_equal(t[i].end, want[i].end, 1e-9);
        assert_int_equal(t[i].speaker, want[i].speaker);
    }
    free(t);
}

static void turns_are_those_of_the_rules(void **state)
{
    /* two speakers, frames of a second */
    const float p[] = {0, .6f, .7f, .6f, .45f, 0, .2f, NAN, .8f, .2f, .2f, .9f, 0, .9f, .9f, .9f};
    const struct steno_activity a = {.p = p, .frames = 8, .speakers = 2, .frame = 1, .length = 7.5};
    (void)state;
    check(&a, &steno_activity_nemo,
          (const struct steno_turn[]){{0, 2, 1}, {1, 2, 0}, {4, 5, 0}, {5, 7.5, 1}, {7, 7.5, 0}},
          5);
    check(&a, &(struct steno_activity_rules){.begin_p = 0.65f, .end_p = 0.4f},
          (const struct steno_turn[]){{1, 3, 0}, {4, 5, 0}, {5, 7.5, 1}, {7, 7.5, 0}}, 4);
    /* what is added may join two turns, pauses that are short are filled, short turns dropped */
    check(&a,
          &(struct steno_activity_rules){
              .begin_p = 0.5f, .end_p = 0.5f, .pad_before = 1, .pad_after = 1},
          (const struct steno_turn[]){{0, 7.5, 0}, {0, 3, 1}, {4, 7.5, 1}}, 3);
    check(&a, &(struct steno_activity_rules){.begin_p = 0.5f, .end_p = 0.5f, .least_pause = 2.5},
          (const struct steno_turn[]){{0, 2, 1}, {1, 7.5, 0}, {5, 7.5, 1}}, 3);
    check(&a, &(struct steno_activity_rules){.begin_p = 0.5f, .end_p = 0.5f, .least_turn = 1.5},
          (const struct steno_turn[]){{0, 2, 1}, {5, 7.5, 1}}, 2);
    check(&(const struct steno_activity){.speakers = 2, .frame = 1}, &steno_activity_nemo, NULL, 0);
}

static void speech_of_others_goes_to_the_nearest(void **state)
{
    float p[] = {.2f, .9f, .3f, .7f, .1f, .1f, NAN, .9f, .8f};
    const float folded[] = {.2f, 0, .9f, .7f, 0, .1f}, alone[] = {0, 0, .9f, .7f, 0, 0};
    (void)state;
    steno_activity_fold(p, 3, 3, (const bool[]){true, false, true});
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(p[i], folded[i], 0);
    assert_float_equal(p[8], 0.9f, 0);
    steno_activity_exclude(p, 3, 3);
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(p[i], alone[i], 0);
    assert_true(p[6] == 0 && p[8] == 0.9f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_stay_by_speaker_in_order_of_arrival),
                                       cmocka_unit_test(silence_is_the_mean_of_silent_frames),
                                       cmocka_unit_test(numbers_that_are_none_are_nobodys),
                                       cmocka_unit_test(rules_that_cannot_be_are_named),
                                       cmocka_unit_test(turns_are_those_of_the_rules),
                                       cmocka_unit_test(speech_of_others_goes_to_the_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
