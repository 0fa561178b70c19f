/* Parts of telling speakers apart, on small inputs made by hand: classes of a segmentation network,
 * clusters, turns, and their forms as text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/rttm.h"
#include "speech/speakers/cluster.h"
#include "speech/speakers/group.h"
#include "speech/speakers/powerset.h"
#include "speech/speakers/turns.h"
#include "tests/support/test.h"

/* ---- powerset -------------------------------------------------------------------------------- */

/* pyannote's segmentation-3.0: none, three alone, three pairs. */
static void powerset_of_three_has_seven_classes_by_size(void **state)
{
    static const uint8_t want[] = {0, 1, 2, 4, 3, 5, 6};
    uint8_t sets[STENO_POWERSET_CLASSES];
    (void)state;
    assert_int_equal(steno_powerset(sets, 3, 2), 7);
    assert_memory_equal(sets, want, sizeof want);
    assert_int_equal(steno_powerset(sets, 4, 3), 1 + 4 + 6 + 4);
    assert_int_equal(steno_powerset(sets, 8, 8), STENO_POWERSET_CLASSES);
}

static void decode_takes_the_first_of_equals_and_no_nan(void **state)
{
    const float scores[] = {-1, -2, -1, -3, 0, 0, NAN, 5, 4, NAN, NAN, NAN};
    const uint8_t sets[] = {0, 1, 2};
    uint8_t out[4];
    (void)state;
    steno_powerset_decode(sets, 3, scores, 4, out);
    assert_int_equal(out[0], 0); /* -1 twice */
    assert_int_equal(out[1], 1);
    assert_int_equal(out[2], 1);
    assert_int_equal(out[3], 2); /* no score at all: any class, within the array */
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* Points 0, 1, 3, 7 on a line: 0-1 at 1, {01}-3 at 2.5, then 5.67. */
static void merges_have_the_mean_distance_of_all_pairs(void **state)
{
    static const float line[] = {0, 1, 3, 7};
    static const double want[] = {1, 2.5, 17.0 / 3};
    float d[6];
    struct steno_merge m[3];
    uint32_t label[4];
    size_t k = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = i + 1; j < 4; j++)
            d[k++] = line[j] - line[i];
    assert_int_equal(steno_cluster_merges(d, 4, NULL, m, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        assert_float_equal(m[i].height, want[i], 1e-6);
    assert_int_equal(steno_cluster_cut(m, 2, 4, label), 2);
    assert_int_equal(label[0], 0);
    assert_int_equal(label[1], 0);
    assert_int_equal(label[2], 0);
    assert_int_equal(label[3], 1);
}

/* One of weight 3 at 0 and one of weight 1 at 1 are, from 2, as far as their mean, 1.75. */
static void a_mean_counts_items_by_weight(void **state)
{
    float d[] = {1, 2, 1.2f};
    const float weight[] = {3, 1, 1};
    struct steno_merge m[2];
    (void)state;
    assert_int_equal(steno_cluster_merges(d, 3, weight, m, NULL), 0);
    assert_float_equal(m[1].height, (3 * 2 + 1.2) / 4, 1e-6);
}

/* The slow way: merge the nearest two, again and again. */
static void brute(const float *d, size_t n, float *height)
{
    float full[40][40], size[40];
    bool gone[40] = {false};
    for (size_t i = 0, k = 0; i < n; i++) {
        size[i] = 1;
        for (size_t j = i + 1; j < n; j++)
            full[i][j] = full[j][i] = d[k++];
    }
    for (size_t step = 0; step + 1 < n; step++) {
        size_t a = 0, b = 0;
        float least = INFINITY;
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++)
                if (!gone[i] && !gone[j] && full[i][j] < least) {
                    least = full[i][j];
                    a = i;
                    b = j;
                }
        height[step] = least;
        gone[b] = true;
        for (size_t j = 0; j < n; j++) {
            const float x = full[a][j], y = full[b][j];
            full[a][j] = full[j][a] = (size[a] * x + size[b] * y) / (size[a] + size[b]);
        }
        size[a] += size[b];
    }
}

static void chains_of_neighbours_merge_as_the_slow_way_does(void **state)
{
    uint32_t seed = 1;
    (void)state;
    for (size_t n = 2; n <= 40; n++) {
        float d[780], want[39];
        struct steno_merge m[39];
        for (size_t i = 0; i < n * (n - 1) / 2; i++) {
            seed = seed * 1664525u + 1013904223u;
            d[i] = (float)(seed >> 8) * 0x1p-24f;
        }
        brute(d, n, want);
        assert_int_equal(steno_cluster_merges(d, n, NULL, m, NULL), 0);
        for (size_t i = 0; i + 1 < n; i++)
            assert_float_equal(m[i].height, want[i], 1e-5);
    }
}

static void distance_of_vectors_is_one_minus_cosine(void **state)
{
    float x[] = {2, 0, 0, 3, -1, 0, 0, 0}, d[6];
    (void)state;
    steno_cluster_unit(x, 4, 2);
    assert_float_equal(x[0], 1, 0);
    steno_cluster_distances(x, 4, 2, d);
    assert_float_equal(d[0], 1, 1e-6); /* right angle */
    assert_float_equal(d[1], 2, 1e-6); /* opposite */
    assert_float_equal(d[2], 1, 1e-6); /* of zeros */
}

/* ---- groups ---------------------------------------------------------------------------------- */

#define DIM 4
static const struct steno_group_rules group_rules = {.threshold = 0.5, .share = 0.5};

/* An item near axis k, or near its opposite; noise of up to 0.2 in each direction. */
static void put(struct steno_group_items *g, uint32_t window, int k, float seconds)
{
    static uint32_t seed = 5;
    float *x = g->vector + g->n * DIM;
    for (int d = 0; d < DIM; d++) {
        seed = seed * 1664525u + 1013904223u;
        x[d] = (float)(int32_t)seed * 0x1p-31f * 0.2f + (d == k ? 3 : 0);
    }
    g->item[g->n++] =
        (struct steno_group_item){.window = window, .seconds = seconds, .speaker = (uint8_t)k};
}

static struct steno_group_items items(size_t most)
{
    return (struct steno_group_items){.item = calloc(most, sizeof(struct steno_group_item)),
                                      .vector = calloc(most * DIM, sizeof(float)),
                                      .dim = DIM};
}

static void free_items(struct steno_group_items *g)
{
    free(g->item);
    free(g->vector);
}

/* 9000 items do not fit the last stage: blocks come first. */
static void many_items_are_grouped_in_two_stages(void **state)
{
    struct steno_group_items g = items(9000);
    int clusters, first[3];
    (void)state;
    for (uint32_t i = 0; i < 9000; i++)
        put(&g, i, (int)(i % 3), 5);
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 3);
    for (int k = 0; k < 3; k++)
        first[k] = g.item[k].cluster;
    assert_true(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    for (size_t i = 0; i < g.n; i++)
        assert_int_equal(g.item[i].cluster, first[i % 3]);
    free_items(&g);
}

#define VOICES 100
#define WIDE 64

/* Ten hours in windows 2.5 s apart, each of which has two of a hundred voices. */
static void ten_hours_of_a_hundred_voices_are_grouped(void **state)
{
    const size_t most = 2 * 14400;
    struct steno_group_items g = {.item = calloc(most, sizeof *g.item),
                                  .vector = calloc(most * WIDE, sizeof *g.vector),
                                  .dim = WIDE};
    float voice[VOICES][WIDE];
    int clusters, cluster[VOICES];
    uint32_t seed = 9;
    (void)state;
    for (size_t i = 0; i < VOICES * WIDE; i++) {
        seed = seed * 1664525u + 1013904223u;
        voice[i / WIDE][i % WIDE] = (float)(int32_t)seed * 0x1p-31f;
    }
    for (; g.n < most; g.n++) {
        const size_t window = g.n / 2, k = (window / 9 + (g.n & 1) * 37) % VOICES;
        for (size_t d = 0; d < WIDE; d++) {
            seed = seed * 1664525u + 1013904223u;
            g.vector[g.n * WIDE + d] = voice[k][d] + (float)(int32_t)seed * 0x1p-31f * 0.3f;
        }
        g.item[g.n] = (struct steno_group_item){
            .window = (uint32_t)window, .seconds = 4, .speaker = (uint8_t)(g.n & 1)};
    }
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, VOICES);
    for (size_t i = 0; i < VOICES; i++)
        cluster[i] = -1;
    for (size_t i = 0; i < g.n; i++) {
        const size_t k = (i / 2 / 9 + (i & 1) * 37) % VOICES;
        if (cluster[k] < 0)
            cluster[k] = g.item[i].cluster;
        assert_int_equal(g.item[i].cluster, cluster[k]);
    }
    free_items(&g);
}

/* The second item of window 3 sounds like the first one, but somebody else must have said it. */
static void speakers_of_a_window_are_different_people(void **state)
{
    struct steno_group_items g = items(10);
    int clusters;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        put(&g, i, 0, 5);
        put(&g, i, 1, 5);
    }
    put(&g, 3, 0, 5);
    put(&g, 3, 0, 0.5f);
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 2);
    assert_int_not_equal(g.item[6].cluster, g.item[7].cluster);
    free_items(&g);
}

/* Two voices of which each window has both, too alike to be told apart by the threshold alone. */
static void two_of_one_window_are_clustered_apart(void **state)
{
    struct steno_group_items g = items(20);
    int clusters;
    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        for (int k = 0; k < 2; k++) {
            put(&g, i, 0, 5);
            g.vector[(g.n - 1) * DIM + 1] = k ? 1.5f : -1.5f; /* their cosine is 0.6 */
        }
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 2);
    for (size_t i = 0; i < g.n; i++)
        assert_int_equal(g.item[i].cluster, g.item[i % 2].cluster);
    for (size_t i = 0; i < g.n; i++) /* in windows of their own they are one */
        g.item[i].window = (uint32_t)i;
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 1);
    free_items(&g);
}

/* A cough is nobody, if there is other speech; alone it is somebody. */
static void short_items_make_no_cluster(void **state)
{
    struct steno_group_items g = items(10);
    int clusters;
    (void)state;
    put(&g, 0, 2, 0.4f);
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 1);
    for (uint32_t i = 1; i < 4; i++) {
        put(&g, i, 0, 5);
        put(&g, i, 1, 5);
    }
    assert_int_equal(steno_group(&g, &group_rules, &clusters, NULL), STENO_OK);
    assert_int_equal(clusters, 2);
    free_items(&g);
}

static int found(const struct steno_group_rules *r)
{
    struct steno_group_items g = items(40);
    int clusters;
    for (uint32_t i = 0; i < 12; i++)
        put(&g, i, (int)(i % 3), 5);
    put(&g, 12, 3, 1.5f); /* 0.75 s of the recording */
    assert_int_equal(steno_group(&g, r, &clusters, NULL), STENO_OK);
    for (size_t i = 0; i < g.n; i++)
        assert_in_range(g.item[i].cluster, 0, clusters - 1);
    free_items(&g);
    return clusters;
}

/* Four voices, one of which talks for less than a second. */
static void a_known_number_keeps_those_who_talk_most(void **state)
{
    struct steno_group_rules r = group_rules;
    (void)state;
    assert_int_equal(found(&r), 4);
    r.speakers = 3;
    assert_int_equal(found(&r), 3);
    r.speakers = 1;
    assert_int_equal(found(&r), 1);
    r.speakers = 9; /* their voices are not nine */
    assert_int_equal(found(&r), 4);
    r.speakers = 0;
    r.max_speakers = 2;
    assert_int_equal(found(&r), 2);
    r.max_speakers = 0;
    r.min_speakers = 2;
    assert_int_equal(found(&r), 4);
    r.threshold = 2; /* one, if not for the bound */
    assert_int_equal(found(&r), 2);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Windows of ten frames of one second, five seconds apart. */
static const struct steno_windows windows = {.n = 2,
                                             .frames = 10,
                                             .speakers = 2,
                                             .clusters = 2,
                                             .window = 10,
                                             .hop = 5,
                                             .shift = 1,
                                             .field = 0,
                                             .samples = 15,
                                             .rate = 1};

static size_t make(const struct steno_windows *w, const struct steno_turn_rules *r,
                   struct steno_turn **t)
{
    size_t n;
    assert_int_equal(steno_turns_make(w, r, t, &n, NULL), STENO_OK);
    return n;
}

static void check_turn(const struct steno_turn *t, double start, double end, int speaker)
{
    assert_float_equal(t->start, start, 1e-9);
    assert_float_equal(t->end, end, 1e-9);
    assert_int_equal(t->speaker, speaker);
}

/* The second window calls the same people by other numbers. */
static void speakers_of_windows_are_joined_by_their_clusters(void **state)
{
    static const uint8_t sets[] = {1, 1, 1, 1, 1, 0, 2, 2, 2, 2,  /* 0: A 0-5, B 6-10 */
                                   0, 1, 1, 1, 1, 1, 2, 2, 2, 0}; /* 5: B 6-11, A 11-14 */
    static const int32_t cluster[] = {0, 1, 1, 0};
    struct steno_windows w = windows;
    struct steno_turn *t;
    (void)state;
    w.sets = sets;
    w.cluster = cluster;
    assert_int_equal(make(&w, &(struct steno_turn_rules){0}, &t), 3);
    check_turn(&t[0], 0, 5, 0);
    check_turn(&t[1], 6, 11, 1);
    check_turn(&t[2], 11, 14, 0);
    free(t);
}

static void overlap_gives_both_and_exclusive_turns_one(void **state)
{
    static const uint8_t sets[] = {1, 1, 1, 3, 3, 2, 2, 2, 2, 2};
    static const int32_t cluster[] = {0, 1};
    struct steno_windows w = windows;
    struct steno_turn *t;
    (void)state;
    w.n = 1;
    w.samples = 20; /* the end is not the last frame */
    w.sets = sets;
    w.cluster = cluster;
    assert_int_equal(make(&w, &(struct steno_turn_rules){0}, &t), 2);
    check_turn(&t[0], 0, 5, 0);
    check_turn(&t[1], 3, 9, 1); /* up to the last frame, as sherpa-onnx has it */
    free(t);
    assert_int_equal(make(&w, &(struct steno_turn_rules){.exclusive = true}, &t), 2);
    check_turn(&t[0], 0, 5, 0);
    check_turn(&t[1], 5, 9, 1);
    free(t);
}

static void short_turns_go_and_short_gaps_close(void **state)
{
    static const uint8_t sets[] = {1, 1, 0, 1, 1, 0, 0, 0, 1, 0};
    static const int32_t cluster[] = {0, 1};
    struct steno_windows w = windows;
    struct steno_turn *t;
    (void)state;
    w.n = 1;
    w.samples = 10;
    w.sets = sets;
    w.cluster = cluster;
    assert_int_equal(make(&w, &(struct steno_turn_rules){.closest = 1, .least = 1}, &t), 1);
    check_turn(&t[0], 0, 5, 0);
    free(t);
}

static void zeros_after_a_recording_have_no_turns(void **state)
{
    static const uint8_t sets[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t cluster[] = {0, 1};
    struct steno_windows w = windows;
    struct steno_turn *t;
    (void)state;
    w.n = 1;
    w.samples = 4;
    w.sets = sets;
    w.cluster = cluster;
    assert_int_equal(make(&w, &(struct steno_turn_rules){0}, &t), 1);
    check_turn(&t[0], 0, 4, 0);
    free(t);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void rttm_has_a_line_for_each_turn(void **state)
{
    static const struct steno_turn t[] = {{0.5, 2, 0}, {1.25, 3.0004, 11}};
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1000);
    assert_int_equal(steno_rttm_write(&b, "a b\n", t, 2, NULL), STENO_OK);
    assert_string_equal(b.data, "SPEAKER a_b_ 1 0.500 1.500 <NA> <NA> SPEAKER_00 <NA> <NA>\n"
                                "SPEAKER a_b_ 1 1.250 1.750 <NA> <NA> SPEAKER_11 <NA> <NA>\n");
    steno_buf_reset(&b);
    assert_int_equal(steno_turns_json_write(&b, "x\"y", 4, 2, t, 2, NULL), STENO_OK);
    assert_string_equal(b.data, "{\"file\":\"x\\\"y\",\"duration\":4.000,\"speakers\":2,\"turns\":["
                                "{\"start\":0.500,\"end\":2.000,\"speaker\":1},"
                                "{\"start\":1.250,\"end\":3.000,\"speaker\":12}]}\n");
    steno_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powerset_of_three_has_seven_classes_by_size),
        cmocka_unit_test(decode_takes_the_first_of_equals_and_no_nan),
        cmocka_unit_test(merges_have_the_mean_distance_of_all_pairs),
        cmocka_unit_test(a_mean_counts_items_by_weight),
        cmocka_unit_test(chains_of_neighbours_merge_as_the_slow_way_does),
        cmocka_unit_test(distance_of_vectors_is_one_minus_cosine),
        cmocka_unit_test(many_items_are_grouped_in_two_stages),
        cmocka_unit_test(ten_hours_of_a_hundred_voices_are_grouped),
        cmocka_unit_test(speakers_of_a_window_are_different_people),
        cmocka_unit_test(two_of_one_window_are_clustered_apart),
        cmocka_unit_test(short_items_make_no_cluster),
        cmocka_unit_test(a_known_number_keeps_those_who_talk_most),
        cmocka_unit_test(speakers_of_windows_are_joined_by_their_clusters),
        cmocka_unit_test(overlap_gives_both_and_exclusive_turns_one),
        cmocka_unit_test(short_turns_go_and_short_gaps_close),
        cmocka_unit_test(zeros_after_a_recording_have_no_turns),
        cmocka_unit_test(rttm_has_a_line_for_each_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
