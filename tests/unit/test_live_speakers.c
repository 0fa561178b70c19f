/* Speakers told while the audio comes, with the real networks of ../shared/speakers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "speech/speakers/live.h"
#include "tests/support/test.h"

#define RATE 16000
#ifdef STENO_SANITIZE /* a window takes some 2 s there */
#define SECONDS 15
#define PLAIN false /* labels are the plain build's to judge */
#else
#define SECONDS 30
#define PLAIN true
#endif
#define SAMPLES (SECONDS * RATE)
#define STEPS (100 * SECONDS) /* of 10 ms */

static steno_speakers *speakers;
static steno_live_networks *networks;
static char root[3000];
static float pcm[SAMPLES];
static size_t n_samples; /* of a call of two people */

static const char *path_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/speakers/%s", root, name);
    return path;
}

static int begin(void **state)
{
    const char *env = getenv("STENO_SHARED");
    struct stat sb;
    steno_recording *r;
    steno_err err;
    size_t k = 1;
    (void)state;
    snprintf(root, sizeof root, "%s", env ? env : "../shared");
    if (stat(path_of("models"), &sb)) {
        fprintf(stderr, "# skipped: %s is not there\n", path_of("models"));
        return 0;
    }
    if (steno_speakers_open(&speakers, path_of("models"), 1, &err) ||
        steno_live_networks_open(&networks, speakers, &err) ||
        steno_recording_open(&r, path_of("recordings/phone.flac"), 0, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    while (k && !steno_recording_read(r, pcm + n_samples, SAMPLES - n_samples, &k, NULL))
        n_samples += k;
    steno_recording_close(r);
    return 0;
}

static int end(void **state)
{
    (void)state;
    steno_live_networks_close(networks);
    steno_speakers_close(speakers);
    return 0;
}

static steno_live_speakers *open_live(int max, const struct steno_live_rules *rules)
{
    steno_live_speakers *l;
    assert_int_equal(steno_live_speakers_open_rules(&l, speakers, RATE, max,
                                                    rules ? rules : &steno_live_own, NULL),
                     STENO_OK);
    return l;
}

static double time_of(size_t step)
{
    return ((double)step + 0.5) / 100;
}

/* Push the call, `step` samples at a time. first [STEPS]: the speakers when they are first known.
 * Returns how many are. */
static size_t listen(steno_live_speakers *l, size_t step, int *first)
{
    size_t n = 0;
    for (size_t at = 0; at < n_samples; at += step) {
        const size_t k = n_samples - at < step ? n_samples - at : step;
        assert_int_equal(steno_live_speakers_push(l, networks, pcm + at, k, NULL), STENO_OK);
        for (; n < STEPS && time_of(n) < steno_live_speakers_known(l) - 0.5; n++)
            first[n] = steno_live_speakers_at(l, time_of(n), 0.5);
    }
    assert_int_equal(steno_live_speakers_end(l, networks, NULL), STENO_OK);
    for (; n < STEPS && time_of(n) < steno_live_speakers_known(l); n++)
        first[n] = steno_live_speakers_at(l, time_of(n), 0.5);
    return n;
}

static void how_the_samples_are_divided_does_not_matter(void **state)
{
    static const size_t steps[] = {SAMPLES, 777, 40000};
    int labels[3][STEPS] = {{0}};
    size_t n[3];
    (void)state;
    if (!speakers)
        skip();
    for (size_t i = 0; i < (PLAIN ? 3 : 2); i++) {
        steno_live_speakers *l = open_live(0, NULL);
        n[i] = listen(l, steps[i], labels[i]);
        for (size_t k = 0; k < n[i]; k++) /* merges change what is asked late */
            labels[i][k] = steno_live_speakers_at(l, time_of(k), 0.5);
        steno_live_speakers_close(l);
        assert_int_equal(n[i], n[0]);
        assert_memory_equal(labels[i], labels[0], n[0] * sizeof labels[0][0]);
    }
    assert_true(n[0] > STEPS - 20);
}

static void a_label_that_was_told_changes_by_told_merges_alone(void **state)
{
    int first[STEPS], is[STENO_LIVE_SPEAKERS];
    struct steno_live_merge m;
    size_t n, told = 0;
    steno_live_speakers *l;
    (void)state;
    if (!speakers)
        skip();
    l = open_live(0, NULL);
    n = listen(l, 8000, first);
    for (int k = 0; k < STENO_LIVE_SPEAKERS; k++)
        is[k] = k;
    for (; steno_live_speakers_merge(l, &m);) {
        assert_true(m.is < m.speaker);
        assert_int_equal(is[m.speaker], m.speaker); /* once each */
        is[m.speaker] = m.is;
    }
    for (size_t k = 0; k < n; k++) {
        int label = first[k];
        while (label >= 0 && is[label] != label)
            label = is[label];
        assert_int_equal(steno_live_speakers_at(l, time_of(k), 0.5), label);
        told += label >= 0;
    }
    assert_true(told > STEPS / 2);
    steno_live_speakers_close(l);
}

/* Push the call with a flush at these times. first: as of listen. */
static void listen_with_flushes(steno_live_speakers *l, int *first)
{
    static const double flushes[] = {0.01, 3, 7.4, 11.1, 11.105, 14.9};
    size_t at = 0, n = 0;
    for (size_t i = 0; i < sizeof flushes / sizeof flushes[0]; i++) {
        const size_t to = (size_t)(flushes[i] * RATE);
        assert_int_equal(steno_live_speakers_push(l, networks, pcm + at, to - at, NULL), STENO_OK);
        assert_int_equal(steno_live_speakers_flush(l, networks, NULL), STENO_OK);
        assert_true(steno_live_speakers_known(l) <= flushes[i]);
        assert_true(steno_live_speakers_known(l) > flushes[i] - 0.1);
        for (; time_of(n) < steno_live_speakers_known(l); n++)
            first[n] = steno_live_speakers_at(l, time_of(n), 0);
        at = to;
    }
    assert_int_equal(steno_live_speakers_push(l, networks, pcm + at, n_samples - at, NULL),
                     STENO_OK);
    assert_int_equal(steno_live_speakers_end(l, networks, NULL), STENO_OK);
    for (; n < STEPS && time_of(n) < steno_live_speakers_known(l); n++)
        first[n] = steno_live_speakers_at(l, time_of(n), 0);
}

static void a_flush_tells_who_spoke_up_to_now(void **state)
{
    int flushed[STEPS] = {0}, whole[STEPS] = {0};
    size_t both[2][2] = {{0}}, spoken = 0, alike;
    steno_live_speakers *l;
    (void)state;
    if (!speakers)
        skip();
    l = open_live(0, NULL);
    listen_with_flushes(l, flushed);
    for (size_t k = 0; k < 1490; k++) /* no merges here: what was told stays */
        if (flushed[k] >= 0)
            assert_int_equal(steno_live_speakers_at(l, time_of(k), 0), flushed[k]);
    steno_live_speakers_close(l);
    if (!PLAIN)
        return;
    l = open_live(0, NULL);
    (void)listen(l, 8000, whole);
    for (size_t k = 0; k < 1490; k++) {
        whole[k] = steno_live_speakers_at(l, time_of(k), 0);
        spoken += whole[k] >= 0;
        if (whole[k] >= 0 && flushed[k] >= 0 && whole[k] < 2 && flushed[k] < 2)
            both[whole[k]][flushed[k]]++;
    }
    steno_live_speakers_close(l);
    alike = both[0][0] + both[1][1];
    if (alike < both[0][1] + both[1][0]) /* who comes first may differ */
        alike = both[0][1] + both[1][0];
    assert_true(spoken > 500);
    assert_true((double)alike > 0.75 * (double)spoken);
}

/* Three prints: of the second voice, of nobody, of the first voice. */
static void known_voices_are_found_and_stay(void **state)
{
    size_t floats;
    float *prints;
    int first[STEPS];
    steno_live_speakers *l;
    (void)state;
    if (!speakers || SECONDS < 30)
        skip();
    floats = steno_speaker_print_floats(speakers);
    prints = calloc(3 * floats, sizeof *prints);
    assert_non_null(prints);
    assert_int_equal(steno_speaker_print_make(speakers, RATE, pcm + 22 * RATE, 55 * RATE / 10,
                                              prints, NULL, NULL),
                     STENO_OK);
    assert_int_equal(steno_speaker_print_make(speakers, RATE, pcm + 112 * RATE / 10, 32 * RATE / 10,
                                              prints + 2 * floats, NULL, NULL),
                     STENO_OK);
    l = open_live(0, NULL);
    steno_live_speakers_know(l, prints, 3);
    assert_int_equal(steno_live_speakers_person(l, 0), -1); /* nobody spoke yet */
    (void)listen(l, 8000, first);
    assert_int_equal(steno_live_speakers_person(l, steno_live_speakers_at(l, 24, 0)), 0);
    assert_int_equal(steno_live_speakers_person(l, steno_live_speakers_at(l, 12.5, 0)), 2);
    assert_int_equal(steno_live_speakers_person(l, -1), -1);
    assert_int_equal(steno_live_speakers_person(l, STENO_LIVE_SPEAKERS), -1);
    steno_live_speakers_close(l);
    free(prints);
}

static void there_are_no_more_speakers_than_allowed(void **state)
{
    const struct steno_live_rules rules = {.hop = 2.5, .labels = {.threshold = 0.1}};
    int first[STEPS];
    size_t n;
    steno_live_speakers *l;
    (void)state;
    if (!speakers)
        skip();
    assert_int_equal(steno_live_speakers_open(&l, speakers, RATE, STENO_LIVE_SPEAKERS + 1, NULL),
                     STENO_ERR_INVAL);
    l = open_live(2, &rules);
    n = listen(l, 8000, first);
    for (size_t k = 0; k < n; k++)
        assert_true(first[k] < 2);
    steno_live_speakers_close(l);
}

static void only_the_last_minutes_are_kept(void **state)
{
    static const float silence[RATE];
    int first[STEPS];
    size_t n, k = 0;
    steno_live_speakers *l;
    (void)state;
    if (!speakers)
        skip();
    l = open_live(0, NULL);
    assert_int_equal(steno_live_speakers_push(l, networks, pcm, n_samples, NULL), STENO_OK);
    while (k < STEPS && steno_live_speakers_at(l, time_of(k), 0.5) < 0)
        k++;
    assert_true(k < STEPS);
    for (int s = 0; s < 600; s++)
        assert_int_equal(steno_live_speakers_push(l, networks, silence, RATE, NULL), STENO_OK);
    assert_int_equal(steno_live_speakers_at(l, time_of(k), 0.5), -1);
    assert_true(steno_live_speakers_known(l) > 600);
    n = listen(l, 8000, first); /* whose times begin after the silence */
    assert_true(n > 0);
    k = 0;
    while (k < STEPS && steno_live_speakers_at(l, 600 + SECONDS + time_of(k), 0.5) < 0)
        k++;
    assert_true(k < STEPS);
    assert_int_equal(steno_live_speakers_push(l, networks, pcm, 1, NULL), STENO_ERR_INVAL);
    steno_live_speakers_close(l);
}

static void every_length_has_an_answer(void **state)
{
    static const size_t lengths[] = {0, 1, 269, 270, 1000, 39000, 40160, 40161, 80100};
    (void)state;
    if (!speakers)
        skip();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        steno_live_speakers *l = open_live(0, NULL);
        assert_int_equal(steno_live_speakers_push(l, networks, pcm, lengths[i], NULL), STENO_OK);
        assert_int_equal(steno_live_speakers_end(l, networks, NULL), STENO_OK);
        assert_true(steno_live_speakers_known(l) <= (double)lengths[i] / RATE);
        assert_true(steno_live_speakers_known(l) > (double)lengths[i] / RATE - 0.1);
        assert_int_equal(steno_live_speakers_at(l, 1e9, 0.5), -1);
        assert_int_equal(steno_live_speakers_at(l, -1, 0.5), -1);
        steno_live_speakers_close(l);
    }
}

/* ---- labels of toy voices -------------------------------------------------------------------- */

/* A window with one voice, whose vector points to so many degrees. Returns its label. */
static int hear(struct steno_stable *l, double degrees)
{
    struct steno_stable_voice v = {.seconds = 2, .fresh = 10, .label = -1};
    const size_t first = l->items.n++;
    static uint32_t window;
    l->items.vector[2 * first] = (float)cos(degrees * 3.14159265358979 / 180);
    l->items.vector[2 * first + 1] = (float)sin(degrees * 3.14159265358979 / 180);
    l->items.item[first] = (struct steno_group_item){.window = ++window, .seconds = 2};
    assert_int_equal(steno_stable_take(l, &v, first, NULL), STENO_OK);
    assert_true(l->items.n <= STENO_STABLE_ITEMS);
    return v.label;
}

static const struct steno_stable_rules toys = {.threshold = 0.5,
                                               .apart = 0.5,
                                               .first = 1,
                                               .merge_after = 5,
                                               .share = 0.25,
                                               .max_speakers = STENO_LIVE_SPEAKERS};

static void two_labels_whose_voices_grow_together_are_merged(void **state)
{
    struct steno_stable l = {0};
    (void)state;
    assert_int_equal(steno_stable_init(&l, 2, &toys, NULL), STENO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hear(&l, 0), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear(&l, 65), 1);
    assert_int_equal(l.n_merges, 0);
    for (int i = 0; i < 8; i++)
        assert_in_range(hear(&l, 30), 0, 1);
    assert_int_equal(l.n_merges, 1);
    assert_int_equal(l.merges[0].speaker, 1);
    assert_int_equal(l.merges[0].is, 0);
    assert_int_equal(steno_stable_resolve(&l, 1), 0);
    assert_int_equal(hear(&l, 65), 0);
    assert_int_equal(hear(&l, 180), 2); /* a label is not used again */
    steno_stable_free(&l);
}

static void a_voice_of_hours_ago_keeps_its_label(void **state)
{
    struct steno_stable l = {0};
    (void)state;
    assert_int_equal(steno_stable_init(&l, 2, &toys, NULL), STENO_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear(&l, 90), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear(&l, -90), 1);
    for (int i = 0; i < 3 * STENO_STABLE_ITEMS; i++)
        assert_int_equal(hear(&l, 90 + i % 5), 0);
    assert_int_equal(hear(&l, -90), 1);
    steno_stable_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_labels_whose_voices_grow_together_are_merged),
        cmocka_unit_test(a_voice_of_hours_ago_keeps_its_label),
        cmocka_unit_test(how_the_samples_are_divided_does_not_matter),
        cmocka_unit_test(a_label_that_was_told_changes_by_told_merges_alone),
        cmocka_unit_test(a_flush_tells_who_spoke_up_to_now),
        cmocka_unit_test(known_voices_are_found_and_stay),
        cmocka_unit_test(there_are_no_more_speakers_than_allowed),
        cmocka_unit_test(only_the_last_minutes_are_kept),
        cmocka_unit_test(every_length_has_an_answer),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
