/* Speakers of recordings against what sherpa-onnx 2.0.1 and ONNX Runtime gave
 * (../shared/speakers/refs). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "formats/json.h"
#include "formats/npy.h"
#include "formats/zip.h"
#include "speech/speakers/cluster.h"
#include "speech/speakers/diarize.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define RATE 16000
#define MAX_SAMPLES (200 * RATE)
/* With sanitizers a second of audio takes a second. integration/test_speakers has toy networks. */
#ifdef STENO_SANITIZE
#define SANITIZED true
#else
#define SANITIZED false
#endif

static steno_speakers *speakers;
static char root[3000];
static float pcm[MAX_SAMPLES];

/* A file of ../shared/speakers: before, name, after. Valid until the next call. */
static const char *path_of(const char *before, const char *name, const char *after)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/speakers/%s%s%s", root, before, name, after);
    return path;
}

static size_t read_recording(const char *name)
{
    steno_recording *r;
    size_t n = 0, k = 1;
    assert_int_equal(steno_recording_open(&r, path_of("recordings/", name, ".flac"), 0, NULL),
                     STENO_OK);
    while (k) {
        assert_int_equal(steno_recording_read(r, pcm + n, MAX_SAMPLES - n, &k, NULL), STENO_OK);
        n += k;
    }
    steno_recording_close(r);
    return n;
}

static int begin(void **state)
{
    const char *env = getenv("STENO_SHARED");
    struct stat sb;
    steno_err err;
    (void)state;
    snprintf(root, sizeof root, "%s", env ? env : "../shared");
    if (stat(path_of("models", "", ""), &sb)) {
        fprintf(stderr, "# skipped: %s is not there\n", path_of("models", "", ""));
        return 0;
    }
    if (steno_speakers_open(&speakers, path_of("models", "", ""), 1, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    steno_speakers_close(speakers);
    return 0;
}

/* ---- segments -------------------------------------------------------------------------------- */

static double number(const struct steno_json_node *n)
{
    assert_non_null(n);
    return strtod(n->text, NULL);
}

/* Rename speakers by their first turn. */
static void name_by_turn(int *speaker, size_t n)
{
    int names[64], next = 0;
    for (size_t i = 0; i < n; i++) {
        int k = 0;
        while (k < next && names[k] != speaker[i])
            k++;
        assert_in_range(k, 0, 63);
        names[k] = speaker[i];
        next += k == next;
        speaker[i] = k;
    }
}

/* Compare turns with a list of [start, end, speaker]. True: equal to 2 ms. */
static bool same(const struct steno_json_node *list, const struct steno_turn *t, size_t n,
                 double length)
{
    int *ours = malloc((n + 1) * sizeof *ours), *theirs = malloc((n + 1) * sizeof *theirs);
    bool equal = list->n == n;
    const struct steno_json_node *s = list->first;
    assert_true(ours && theirs);
    for (size_t i = 0; equal && i < n; i++, s = s->next) {
        const double start = number(s->first), stop = number(s->first->next);
        ours[i] = t[i].speaker;
        theirs[i] = (int)number(s->first->next->next);
        equal = fabs(t[i].start - start) < 2e-3 && fabs(t[i].end - fmin(stop, length)) < 2e-3;
    }
    if (equal) {
        name_by_turn(ours, n);
        name_by_turn(theirs, n);
        equal = !memcmp(ours, theirs, n * sizeof *ours);
    }
    free(ours);
    free(theirs);
    return equal;
}

/* ---- sherpa-onnx's way, with our networks and turns -------------------------------------------
 */

#define HOP RATE /* samples between windows */
#define MOST_ITEMS 1000
#define CLEAN_FRAMES 10 /* fewer give no vector */

static struct {
    size_t windows, n; /* items */
    uint8_t sets[200][589];
    struct {
        size_t window;
        int speaker;
        uint32_t cluster;
    } item[MOST_ITEMS];
    float vector[MOST_ITEMS][192];
    float distance[MOST_ITEMS][MOST_ITEMS];
} way;

/* Copy the samples in which speaker s alone talks. A run up to the last frame ends at its begin. */
static size_t clean_speech(const float *x, const uint8_t *sets, int s, size_t samples, float *out)
{
    const struct steno_segmentation *g = &speakers->segmentation;
    size_t n = 0;
    for (size_t f = 0, to; f < g->frames; f = to) {
        for (to = f; to < g->frames && sets[to] == 1u << s;)
            to++;
        if (to == f) {
            to++;
            continue;
        }
        const size_t last = to < g->frames ? to : g->frames - 1, a = f * g->window / g->frames;
        const size_t end = last * g->window / g->frames, b = end < samples ? end : samples;
        for (size_t i = a; i < b; i++)
            out[n++] = x[i];
    }
    return n;
}

/* Run the networks on the window at sample `at`, of which so many samples are real. */
static void take_window(steno_session *s, steno_embedder *m, size_t at, size_t samples)
{
    const struct steno_segmentation *g = &speakers->segmentation;
    static float window[10 * RATE], clean[10 * RATE];
    uint8_t *sets = way.sets[way.windows];
    assert_true(way.windows < 200 && g->window == 10 * RATE && g->frames == 589);
    memset(window, 0, sizeof window);
    memcpy(window, pcm + at, samples * sizeof *pcm);
    assert_int_equal(steno_segmentation_run(g, s, window, sets, NULL), STENO_OK);
    for (int k = 0; k < g->speakers; k++) {
        size_t frames = 0;
        for (size_t f = 0; f < g->frames; f++)
            frames += sets[f] == 1u << k;
        if (frames < CLEAN_FRAMES)
            continue;
        assert_true(way.n < MOST_ITEMS);
        if (steno_embedder_run(m, clean, clean_speech(window, sets, k, samples, clean),
                               way.vector[way.n], NULL))
            continue;
        way.item[way.n].window = way.windows;
        way.item[way.n++].speaker = k;
    }
    way.windows++;
}

static void run_networks(size_t n)
{
    steno_session *s;
    steno_embedder *m;
    size_t at = 0;
    way.windows = way.n = 0;
    assert_int_equal(steno_session_open(&s, speakers->segmentation.net, NULL, NULL), STENO_OK);
    assert_int_equal(steno_embedder_open(&m, &speakers->embedding, 1, NULL), STENO_OK);
    for (; at + 10 * RATE <= n; at += HOP)
        take_window(s, m, at, 10 * RATE);
    if (!at || at - HOP + 10 * RATE < n)
        take_window(s, m, at, n - at);
    steno_session_close(s);
    steno_embedder_close(m);
    steno_cluster_unit(way.vector[0], way.n, 192);
}

/* Complete linkage, the slow way: up to `given` clusters, or up to a distance of 0.5. */
static int group_items(int given)
{
    size_t left = way.n;
    int names[MOST_ITEMS];
    for (size_t i = 0; i < way.n; i++)
        for (size_t j = 0; j < way.n; j++) {
            float sum = 0;
            for (size_t k = 0; k < 192; k++)
                sum += way.vector[i][k] * way.vector[j][k];
            way.distance[i][j] = fmaxf(0, 1 - sum);
        }
    for (size_t i = 0; i < way.n; i++)
        way.item[i].cluster = (uint32_t)i;
    while (left > 1 && left != (size_t)given) {
        size_t a = 0, b = 0;
        float least = given ? INFINITY : 0.5f;
        for (size_t i = 0; i < way.n; i++)
            for (size_t j = i + 1; way.item[i].cluster == i && j < way.n; j++)
                if (way.item[j].cluster == j && way.distance[i][j] < least) {
                    least = way.distance[i][j];
                    a = i;
                    b = j;
                }
        if (a == b)
            break;
        left--;
        for (size_t j = 0; j < way.n; j++) {
            way.distance[a][j] = way.distance[j][a] = fmaxf(way.distance[a][j], way.distance[b][j]);
            way.item[j].cluster = way.item[j].cluster == b ? (uint32_t)a : way.item[j].cluster;
        }
    }
    for (size_t i = 0; i < way.n; i++)
        names[i] = (int)way.item[i].cluster;
    for (size_t i = 0, next = 0; i < way.n; i++) /* a cluster has the number of its first item */
        way.item[i].cluster = (size_t)names[i] == i ? (uint32_t)next++ : way.item[names[i]].cluster;
    return (int)left;
}

/* The turns, by `given` speakers or by the threshold; the caller frees them. */
static struct steno_turn *make_turns(size_t samples, int given, size_t *n)
{
    const struct steno_segmentation *g = &speakers->segmentation;
    const struct steno_turn_rules rules = {.least = 0.3, .closest = 0.5};
    static int32_t cluster[200 * 8];
    struct steno_windows w = {.n = way.windows,
                              .frames = g->frames,
                              .speakers = g->speakers,
                              .sets = way.sets[0],
                              .cluster = cluster,
                              .window = g->window,
                              .hop = HOP,
                              .shift = g->shift,
                              .field = g->field,
                              .samples = (int64_t)samples,
                              .rate = g->rate};
    struct steno_turn *turns;
    for (size_t i = 0; i < way.windows * (size_t)g->speakers; i++)
        cluster[i] = way.windows == 1 ? (int32_t)i : STENO_NO_CLUSTER;
    w.clusters = way.windows == 1 ? g->speakers : group_items(given);
    for (size_t i = 0; i < way.n && way.windows > 1; i++)
        cluster[way.item[i].window * (size_t)g->speakers + (size_t)way.item[i].speaker] =
            (int32_t)way.item[i].cluster;
    assert_int_equal(steno_turns_make(&w, &rules, &turns, n, NULL), STENO_OK);
    return turns;
}

/* Whether the turns are those recorded with this key, or nothing is recorded. */
static bool met(const struct steno_json_node *recorded, const char *key, const char *name,
                size_t samples, int given)
{
    const struct steno_json_node *list = steno_json_get(steno_json_get(recorded, key), "segments");
    struct steno_turn *t;
    size_t n;
    bool equal;
    if (!list)
        return true;
    t = make_turns(samples, given, &n);
    equal = same(list, t, n, (double)samples / RATE);
    if (!equal)
        fprintf(stderr, "# %s, %s: %zu turns are not the %zu recorded ones\n", name, key, n,
                list->n);
    free(t);
    return equal;
}

static void check_recorded(const char *name, int count, bool threshold_ties)
{
    steno_json *j;
    const struct steno_json_node *of;
    const size_t n = read_recording(name);
    assert_int_equal(steno_json_open(&j, path_of("refs/sherpa-diarization.json", "", ""), NULL),
                     STENO_OK);
    of = steno_json_get(steno_json_root(j), name);
    assert_non_null(of);
    run_networks(n);
    assert_true(met(of, "num_clusters", name, n, count));
    assert_true(threshold_ties || met(of, "threshold_0.5", name, n, 0));
    steno_json_close(j);
}

/* ---- our own way ------------------------------------------------------------------------------
 */

/* The number of speakers in samples [from, from + n) that are in pcm. */
static int count_speakers(size_t from, size_t n, int given)
{
    const struct steno_speaker_options o = {.speakers = given};
    steno_diarization *d;
    int count;
    assert_int_equal(steno_diarization_open(&d, speakers, RATE, &o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += 7777)
        assert_int_equal(
            steno_diarization_push(d, pcm + from + at, n - at < 7777 ? n - at : 7777, NULL),
            STENO_OK);
    assert_int_equal(steno_diarization_end(d, NULL), STENO_OK);
    count = steno_diarization_speakers(d);
    steno_diarization_close(d);
    return count;
}

static void segments_are_those_of_sherpa_onnx(void **state)
{
    /* ami-trn08: with the threshold two clusters have equal counts, and sherpa-onnx's partial sort
     * does not say which of them wins */
    static const struct {
        const char *name;
        int speakers;
        bool ties, slow;
    } rows[] = {
        {"phone", 2, false, false},     {"ami-dev00", 2, false, false},
        {"ami-trn06", 3, false, false}, {"ami-trn03", 2, false, true},
        {"ami-trn05", 4, false, true},  {"ami-trn08", 4, true, true},
        {"two", 2, false, true},        {"three", 3, false, true},
        {"four", 4, false, true},
    };
    const char *slow = getenv("STENO_TEST_SLOW");
    (void)state;
    if (!speakers || SANITIZED)
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!rows[i].slow || (slow && *slow == '1'))
            check_recorded(rows[i].name, rows[i].speakers, rows[i].ties);
}

static void two_are_found_in_a_call(void **state)
{
    (void)state;
    if (!speakers || SANITIZED)
        skip();
    assert_int_equal(count_speakers(0, read_recording("phone"), 0), 2);
}

/* Two windows are enough to go all ways: with sanitizers the whole recordings are left out. */
static void a_short_recording_has_as_many_as_are_asked_for(void **state)
{
    const size_t from = 7 * RATE, n = 25 * RATE / 2; /* somebody talks at once */
    (void)state;
    if (!speakers)
        skip();
    assert_true(read_recording("phone") > from + n);
    for (int given = 0; given <= 2; given++)
        assert_in_range(count_speakers(from, n, given), 1, given ? given : 3);
}

/* ---- networks -------------------------------------------------------------------------------- */

static void read_array(const char *file, const char *member, struct steno_npy *out)
{
    size_t n, count;
    struct steno_zip_member *list;
    const struct steno_zip_member *m;
    void *npy, *zip = steno_test_slurp(path_of("refs/", file, ""), &n);
    assert_non_null(zip);
    assert_int_equal(steno_zip_list(zip, n, file, &list, &count, NULL), STENO_OK);
    m = steno_zip_find(list, count, member);
    assert_non_null(m);
    assert_int_equal(steno_zip_read(zip, n, file, m, 1 << 24, &npy, NULL), STENO_OK);
    assert_int_equal(steno_npy_parse(npy, m->size, member, 1 << 24, out, NULL), STENO_OK);
    free(npy);
    free(list);
    free(zip);
}

/* One of them has a hundred frames and one 25, far below the 200 that the network's pooling
 * wants. */
static void vectors_are_those_of_onnxruntime(void **state)
{
    steno_json *j;
    steno_embedder *m;
    struct steno_npy want;
    size_t row = 0;
    static float piece[MAX_SAMPLES];
    float got[192];
    if (!speakers)
        skip();
    (void)state;
    assert_int_equal(speakers->embedding.dim, 192);
    read_array("embeddings.npz", "embeddings.npy", &want);
    assert_int_equal(steno_json_open(&j, path_of("refs/embeddings.json", "", ""), NULL), STENO_OK);
    assert_int_equal(steno_embedder_open(&m, &speakers->embedding, 1, NULL), STENO_OK);
    for (const struct steno_json_node *p = steno_json_root(j)->first; p; p = p->next, row++) {
        size_t n = 0;
        float worst = 0;
        if (SANITIZED && row && row < 9) /* the two that are a second or less */
            continue;
        (void)read_recording(steno_json_get(p, "recording")->text);
        for (const struct steno_json_node *r = steno_json_get(p, "ranges")->first; r; r = r->next) {
            const size_t a = (size_t)number(r->first), b = (size_t)number(r->first->next);
            memcpy(piece + n, pcm + a, (b - a) * sizeof *pcm);
            n += b - a;
        }
        assert_int_equal(steno_embedder_run(m, piece, n, got, NULL), STENO_OK);
        for (size_t i = 0; i < 192; i++)
            worst = fmaxf(worst, fabsf(got[i] - ((const float *)want.data)[row * 192 + i]));
        assert_true(worst < 2e-4f); /* values up to 2 */
    }
    assert_int_equal(row, 10);
    steno_embedder_close(m);
    steno_json_close(j);
    steno_aligned_free(want.data);
}

static void sets_of_speakers_are_those_of_onnxruntime(void **state)
{
    static const struct {
        const char *name, *member;
        size_t at;
    } rows[] = {{"phone", "phone_0.npy", 0},
                {"phone", "phone_160000.npy", 160000},
                {"two", "two_480000.npy", 480000}};
    steno_session *s;
    (void)state;
    if (!speakers)
        skip();
    assert_int_equal(speakers->segmentation.frames, 589);
    assert_int_equal(steno_session_open(&s, speakers->segmentation.net, NULL, NULL), STENO_OK);
    for (size_t i = 0; i < (SANITIZED ? 1 : 3); i++) {
        uint8_t got[589], want[589];
        struct steno_npy scores;
        (void)read_recording(rows[i].name);
        read_array("segmentation.npz", rows[i].member, &scores);
        steno_powerset_decode(speakers->segmentation.sets, 7, scores.data, 589, want);
        assert_int_equal(
            steno_segmentation_run(&speakers->segmentation, s, pcm + rows[i].at, got, NULL), 0);
        assert_memory_equal(got, want, 589);
        steno_aligned_free(scores.data);
    }
    steno_session_close(s);
}

/* ---- odd recordings -------------------------------------------------------------------------- */

static size_t turns_of(size_t n, int rate, size_t step)
{
    steno_diarization *d;
    size_t turns, exclusive;
    const struct steno_turn *t;
    assert_int_equal(steno_diarization_open(&d, speakers, rate, NULL, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += step)
        assert_int_equal(steno_diarization_push(d, pcm + at, n - at < step ? n - at : step, NULL),
                         STENO_OK);
    assert_int_equal(steno_diarization_end(d, NULL), STENO_OK);
    t = steno_diarization_turns(d, &turns);
    (void)steno_diarization_exclusive(d, &exclusive);
    for (size_t i = 0; i < turns; i++) {
        assert_true(t[i].start < t[i].end && t[i].end <= (double)n / rate + 1e-9);
        assert_in_range(t[i].speaker, 0, steno_diarization_speakers(d) - 1);
    }
    steno_diarization_close(d);
    return turns;
}

static void silence_and_every_length_about_a_window_have_an_answer(void **state)
{
    static const size_t lengths[] = {0, 1, 160, 159999, 160000, 160001, 175999, 176000, 176001};
    size_t n;
    (void)state;
    if (!speakers)
        skip();
    memset(pcm, 0, sizeof pcm);
    for (size_t i = 0; i < (SANITIZED ? 2 : sizeof lengths / sizeof lengths[0]); i++)
        assert_int_equal(turns_of(lengths[i], RATE, 1 << 20), 0);
    n = read_recording("phone");
    assert_true(n > 176001);
    memmove(pcm, pcm + 7 * RATE, (n - 7 * RATE) * sizeof *pcm); /* somebody talks at once */
    for (size_t i = SANITIZED ? 9 : 3; i < sizeof lengths / sizeof lengths[0]; i++)
        assert_true(turns_of(lengths[i], RATE, 1 << 20) > 0);
    assert_int_equal(turns_of(1, RATE, 1), 0);
    /* faster than it was, at another rate */
    assert_true(turns_of(SANITIZED ? 44100 : 176000, 22050, 1000) > 0);
}

/* Which known voice talks at a time. */
static int voice_at(const steno_diarization *d, const int *who, double seconds)
{
    size_t n;
    const struct steno_turn *t = steno_diarization_exclusive(d, &n);
    for (size_t i = 0; i < n; i++)
        if (t[i].start <= seconds && seconds < t[i].end)
            return who[t[i].speaker];
    return -1;
}

static void known_voices_are_found_again(void **state)
{
    static float prints[2048];
    const size_t floats = speakers ? steno_speaker_print_floats(speakers) : 0;
    steno_diarization *d;
    steno_err err = {0};
    int who[8];
    size_t n;
    (void)state;
    if (!speakers || SANITIZED)
        skip();
    n = read_recording("phone");
    assert_true(4 * floats <= sizeof prints / sizeof prints[0]);
    /* one of them from 22 to 27.5 s, the other from 11.2 to 14.4 s, and a voice of elsewhere */
    assert_int_equal(steno_speaker_print_make(speakers, RATE, pcm + 22 * RATE, 55 * RATE / 10,
                                              prints, NULL, &err),
                     STENO_OK);
    assert_int_equal(steno_speaker_print_make(speakers, RATE, pcm + 112 * RATE / 10, 32 * RATE / 10,
                                              prints + floats, NULL, &err),
                     STENO_OK);
    assert_int_equal(
        steno_speaker_print_make(speakers, RATE, pcm, RATE / 2, prints + 3 * floats, NULL, &err),
        STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "clear speech"));
    assert_int_equal(steno_diarization_open(&d, speakers, RATE, NULL, &err), STENO_OK);
    assert_int_equal(steno_diarization_push(d, pcm, n, &err), STENO_OK);
    assert_int_equal(steno_diarization_end(d, &err), STENO_OK);
    (void)read_recording("three");
    assert_int_equal(
        steno_speaker_print_make(speakers, RATE, pcm, 8 * RATE, prints + 2 * floats, NULL, &err),
        STENO_OK);
    assert_in_range(steno_diarization_speakers(d), 2, 8);
    assert_int_equal(steno_diarization_identify(d, speakers, prints, 3, 0, who, &err), STENO_OK);
    assert_int_equal(voice_at(d, who, 24), 0);
    assert_int_equal(voice_at(d, who, 13), 1);
    assert_int_equal(steno_diarization_identify(d, speakers, prints, 3, 0.999, who, &err),
                     STENO_OK); /* nobody is that alike */
    assert_int_equal(voice_at(d, who, 24), -1);
    assert_int_equal(steno_diarization_identify(d, speakers, prints, 0, 0, who, &err), STENO_OK);
    assert_int_equal(voice_at(d, who, 13), -1);
    steno_diarization_close(d);
}

/* What is not speech, or hardly: an answer, and few speakers. */
static void hostile_recordings_have_an_answer(void **state)
{
    const size_t n = 15 * RATE;
    uint32_t seed = 3;
    (void)state;
    if (!speakers || SANITIZED)
        skip();
    for (int kind = 0; kind < 6; kind++) {
        steno_diarization *d;
        size_t turns;
        (void)read_recording("phone");
        memmove(pcm, pcm + 7 * RATE, n * sizeof *pcm);
        for (size_t i = 0; i < n; i++) {
            const double t = (double)i / RATE;
            seed = seed * 1664525u + 1013904223u;
            if (kind == 0) /* clipped */
                pcm[i] = pcm[i] * 1000 > 1 ? 1 : pcm[i] * 1000 < -1 ? -1 : pcm[i] * 1000;
            else if (kind == 1) /* noise */
                pcm[i] = (float)(int32_t)seed * 0x1p-31f;
            else if (kind == 2) /* a chord that swells */
                pcm[i] = (float)((sin(1382 * t) + sin(1741 * t) + sin(2073 * t)) * sin(t) / 3);
            else if (kind == 3) /* one word */
                pcm[i] = i < RATE / 2 ? pcm[i] : 0;
            else if (kind == 4) /* a wire that is not plugged in */
                pcm[i] = i % 2 ? NAN : INFINITY;
            else /* a voice that talks with itself */
                pcm[i] = pcm[i % (3 * RATE)] + pcm[(i + RATE) % (3 * RATE)];
        }
        assert_int_equal(steno_diarization_open(&d, speakers, RATE, NULL, NULL), STENO_OK);
        assert_int_equal(steno_diarization_push(d, pcm, n, NULL), STENO_OK);
        assert_int_equal(steno_diarization_end(d, NULL), STENO_OK);
        (void)steno_diarization_turns(d, &turns);
        assert_in_range(steno_diarization_speakers(d), 0, 4);
        assert_true(turns < 100 && (turns > 0) == (steno_diarization_speakers(d) > 0));
        steno_diarization_close(d);
    }
}

static void options_out_of_range_are_named(void **state)
{
    static const struct steno_speaker_options bad[] = {{.speakers = -1},
                                                       {.speakers = 1001},
                                                       {.min_speakers = 3, .max_speakers = 2},
                                                       {.threshold = -0.1},
                                                       {.threshold = NAN}};
    (void)state;
    if (!speakers)
        skip();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        steno_diarization *d;
        steno_err err = {0};
        assert_int_equal(steno_diarization_open(&d, speakers, RATE, &bad[i], &err),
                         STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, "speakers: "));
    }
}

static void a_directory_without_the_networks_is_an_error(void **state)
{
    steno_speakers *s;
    steno_err err = {0};
    (void)state;
    assert_false(steno_speakers_is_dir("conf/models/digits-en"));
    assert_int_equal(steno_speakers_open(&s, "conf/models/digits-en", 1, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "no segmentation network"));
    if (!speakers)
        return;
    assert_true(steno_speakers_is_dir(path_of("models", "", "")));
    assert_int_equal(
        steno_speakers_open(&s, path_of("models/", "pyannote-segmentation-3.0", ""), 1, &err),
        STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "no embedding network"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_of_speakers_are_those_of_onnxruntime),
        cmocka_unit_test(vectors_are_those_of_onnxruntime),
        cmocka_unit_test(segments_are_those_of_sherpa_onnx),
        cmocka_unit_test(two_are_found_in_a_call),
        cmocka_unit_test(a_short_recording_has_as_many_as_are_asked_for),
        cmocka_unit_test(silence_and_every_length_about_a_window_have_an_answer),
        cmocka_unit_test(known_voices_are_found_again),
        cmocka_unit_test(hostile_recordings_have_an_answer),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(a_directory_without_the_networks_is_an_error),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
