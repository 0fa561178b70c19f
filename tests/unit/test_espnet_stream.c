/* Streams over directories of espnet_onnx: blocks against recorded ones, the results of
 * espnet_onnx's own streaming, and the promises of every family (events do not depend on pushes,
 * nothing is lost). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "speech/audio/file.h"
#include "base/buf.h"
#include "formats/npy.h"
#include "formats/zip.h"
#include "speech/families/espnet/stream.h"
#include "speech/recognizer/stream_internal.h"
#include "steno.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define TOLERANCE 1e-3
#define ROUNDING 0.2 /* int8: a few activations per utterance round the other way */
#define OFFLINE "zoo/tiny/espnet-conformer-op13"
#define STREAMING "zoo/tiny/espnet-stream-conformer-op13"

static char *shared_path(char *out, size_t size, const char *rel)
{
    const char *root = getenv("STENO_SHARED");
    snprintf(out, size, "%s/%s", root ? root : "../shared", rel);
    return out;
}

static float *read_audio(const char *wav, size_t *n)
{
    char rel[128];
    size_t size, k = 1;
    void *bytes;
    steno_audio *a = NULL;
    float *pcm = calloc(200000, sizeof *pcm);
    snprintf(rel, sizeof rel, "audio/librispeech/%s", wav);
    bytes = steno_test_shared(rel, &size);
    if (!bytes) {
        free(pcm);
        return NULL;
    }
    assert_int_equal(steno_audio_open_mem(&a, bytes, size, NULL, NULL), 0);
    for (*n = 0; k; *n += k)
        assert_int_equal(steno_audio_read(a, pcm + *n, 200000 - *n, &k, NULL), 0);
    steno_audio_close(a);
    free(bytes);
    return pcm;
}

static bool open_as(struct steno_espnet *e, const char *rel, const struct steno_espnet_options *o)
{
    char path[512], config[256];
    steno_err err;
    size_t n;
    void *there;
    snprintf(config, sizeof config, "%s/config.yaml", rel);
    there = steno_test_shared(config, &n);
    free(there);
    if (!there)
        return false;
    if (steno_espnet_open(e, shared_path(path, sizeof path, rel), o, &err))
        fail_msg("%s", err.msg);
    return true;
}

static bool open_espnet(struct steno_espnet *e, const char *rel, bool quantized)
{
    return open_as(e, rel,
                   &(struct steno_espnet_options){
                       .threads = 1, .quantized = quantized, .as_espnet_onnx = true});
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void load(const char *zip, size_t n, const char *name, struct steno_npy *a)
{
    struct steno_zip_member m;
    for (size_t i = 0; steno_zip_member(zip, n, "zip", i, &m, NULL) == STENO_OK; i++) {
        void *bytes;
        if (m.name_len != strlen(name) || memcmp(m.name, name, m.name_len) != 0)
            continue;
        assert_int_equal(steno_zip_read(zip, n, "zip", &m, 1 << 24, &bytes, NULL), 0);
        assert_int_equal(steno_npy_parse(bytes, m.size, name, 1 << 24, a, NULL), 0);
        free(bytes);
        return;
    }
    fail_msg("%s is not in the archive", name);
}

enum { RECORDED = 4 }; /* blocks */

struct recording {
    struct steno_npy x[RECORDED], y[RECORDED];
};

static bool load_recording(struct recording *rec)
{
    size_t n_in, n_ref;
    char *in = steno_test_shared("zoo/tiny/espnet-inputs.npz", &n_in);
    char *ref = steno_test_shared(STREAMING "/ref.npz", &n_ref);
    for (int i = 0; in && ref && i < RECORDED; i++) {
        char name[64];
        snprintf(name, sizeof name, "stream.block%d/xs_pad.npy", i);
        load(in, n_in, name, &rec->x[i]);
        snprintf(name, sizeof name, "stream.block%d/full/ys_pad.npy", i);
        load(ref, n_ref, name, &rec->y[i]);
    }
    free(in);
    free(ref);
    return in && ref;
}

static void free_recording(struct recording *rec)
{
    for (int i = 0; i < RECORDED; i++) {
        steno_aligned_free(rec->x[i].data);
        steno_aligned_free(rec->y[i].data);
    }
}

/* One block of each of several streams at the same position. The state tells which recorded
 * block it is. */
static void run_blocks(steno_espnet_runner *r, struct steno_espnet_state *const *s, size_t n,
                       const struct recording *rec)
{
    const float *feats[RECORDED] = {NULL}, *rows;
    int64_t at[RECORDED] = {0};
    size_t each;
    for (size_t i = 0; i < n; i++) {
        at[i] = s[i]->block;
        feats[i] = rec->x[at[i]].data;
    }
    assert_int_equal(
        steno_espnet_block(r, s, feats, n, (size_t)rec->x[at[0]].dim[1], &rows, &each, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        const struct steno_npy *y = &rec->y[at[i]];
        size_t size = each * (size_t)y->dim[2];
        assert_int_equal(s[i]->block, at[i] + 1);
        assert_int_equal(each, y->dim[1]);
        for (size_t k = 0; k < size; k++)
            assert_true(fabsf(rows[i * size + k] - ((const float *)y->data)[k]) < 1e-4F);
    }
}

static void blocks_are_as_recorded(void **state)
{
    struct steno_espnet e;
    struct steno_espnet_state s = {0};
    struct recording rec = {0};
    steno_espnet_runner *r = NULL;
    (void)state;
    if (!load_recording(&rec) || !open_espnet(&e, STREAMING, false))
        skip();
    assert_int_equal(steno_espnet_acquire(&e, &r, NULL), 0);
    assert_int_equal(steno_espnet_state_reset(&s, &e, NULL), 0);
    for (int i = 0; i < RECORDED; i++)
        run_blocks(r, &(struct steno_espnet_state *){&s}, 1, &rec);
    steno_espnet_state_free(&s);
    steno_espnet_release(&e, r);
    steno_espnet_close(&e);
    free_recording(&rec);
}

/* Stream i starts one block after stream i - 1. From then on it steps together with those before
 * it. */
static void blocks_of_several_streams_are_as_recorded(void **state)
{
    struct steno_espnet e;
    struct steno_espnet_state s[3] = {{.block = 0}}, *behind[3];
    struct recording rec = {0};
    steno_espnet_runner *r = NULL;
    (void)state;
    if (!load_recording(&rec) ||
        !open_as(&e, STREAMING, &(struct steno_espnet_options){.threads = 1}))
        skip();
    assert_true(e.batches);
    assert_int_equal(steno_espnet_acquire(&e, &r, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(steno_espnet_state_reset(&s[i], &e, NULL), 0);
    for (int turn = 0; turn < RECORDED + 2; turn++) {
        size_t n = 0;
        for (int i = 0; i < 3; i++)
            if (s[i].block > 0 && s[i].block < RECORDED)
                behind[n++] = &s[i];
        for (size_t i = 1; i < n; i++)
            assert_true(steno_espnet_same_form(behind[0], behind[i]));
        if (n)
            run_blocks(r, behind, n, &rec);
        if (turn < 3) {
            assert_true(!n || !steno_espnet_same_form(&s[turn], behind[0]));
            run_blocks(r, &(struct steno_espnet_state *){&s[turn]}, 1, &rec);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s[i].block, RECORDED);
        steno_espnet_state_free(&s[i]);
    }
    steno_espnet_release(&e, r);
    steno_espnet_close(&e);
    free_recording(&rec);
}

/* ---- espnet_onnx's own streaming ----------------------------------------------------------- */

static double number(json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static void compare(json_t *row, json_t *block, const steno_joint *got)
{
    json_t *hyp;
    size_t i, k;
    char about[160];
    snprintf(about, sizeof about, "%s ctc %g lm %g beam %g, %g rows",
             json_string_value(json_object_get(row, "wav")), number(row, "ctc_weight"),
             number(row, "lm_weight"), number(row, "beam_size"), number(block, "encoder_frames"));
    json_array_foreach (json_object_get(block, "best"), i, hyp) {
        json_t *yseq = json_object_get(hyp, "yseq"), *id;
        struct steno_joint_hyp h = steno_joint_get(got, i);
        if (fabs(h.score - number(hyp, "score")) > TOLERANCE)
            fail_msg("%s: %zu has score %.6f, recorded %.6f", about, i, h.score,
                     number(hyp, "score"));
        if (h.n != json_array_size(yseq))
            fail_msg("%s: %zu has %zu tokens, recorded %zu", about, i, h.n, json_array_size(yseq));
        json_array_foreach (yseq, k, id)
            if (h.tokens[k] != json_integer_value(id))
                fail_msg("%s: %zu differs at token %zu", about, i, k);
    }
}

/* Each call of espnet_onnx searches again over all encoder frames so far. So the search gets
 * every prefix of the frames. */
static size_t compare_row(struct steno_espnet *e, json_t *row)
{
    struct steno_espnet_search s = steno_espnet_defaults(e);
    bool quantized = json_is_true(json_object_get(row, "quantized"));
    steno_espnet_runner *r = NULL;
    const steno_joint *got;
    const float *ctc;
    float *rows, *pcm;
    size_t n, n_rows, i, done = 0;
    json_t *block = NULL;
    steno_err err;
    s.beam = (size_t)number(row, "beam_size");
    s.ctc_weight = number(row, "ctc_weight");
    s.lm_weight = number(row, "lm_weight");
    s.length_bonus = number(row, "penalty");
    s.max_len_ratio = number(row, "maxlenratio");
    pcm = read_audio(json_string_value(json_object_get(row, "wav")), &n);
    assert_non_null(pcm);
    if (steno_espnet_acquire(e, &r, &err) ||
        steno_espnet_onnx_rows(r, pcm, n, &rows, &n_rows, &err) ||
        steno_espnet_ctc(r, rows, n_rows, &ctc, &err))
        fail_msg("%s", err.msg);
    json_array_foreach (json_object_get(row, "blocks"), i, block) {
        size_t k = (size_t)number(block, "encoder_frames");
        assert_true(k <= n_rows);
        if (steno_espnet_decode(r, &s, rows, k, ctc, &got, &err))
            fail_msg("%s", err.msg);
        /* In int8 an activation that rounds the other way affects the following blocks too, and
         * the hypotheses of random weights have no margin for it. Here the search only has to
         * succeed. */
        if (!quantized)
            compare(row, block, got);
        done++;
    }
    assert_int_equal((size_t)number(block, "encoder_frames"), n_rows);
    steno_espnet_release(e, r);
    steno_aligned_free(rows);
    free(pcm);
    return done;
}

static void recorded_streaming_rows_decode_as_recorded(void **state)
{
    struct steno_espnet e[2];
    json_t *rows, *row;
    size_t n, i, blocks = 0;
    char *text = steno_test_shared(STREAMING "/decode.json", &n);
    (void)state;
    if (!text || !open_espnet(&e[0], STREAMING, false) || !open_espnet(&e[1], STREAMING, true))
        skip();
    rows = json_loadb(text, n, 0, NULL);
    json_array_foreach (rows, i, row)
        blocks += compare_row(&e[json_is_true(json_object_get(row, "quantized"))], row);
    assert_true(blocks >= 96);
    json_decref(rows);
    free(text);
    steno_espnet_close(&e[0]);
    steno_espnet_close(&e[1]);
}

/* ---- streams ------------------------------------------------------------------------------- */

static void log_events(steno_stream *s, struct steno_buf *log)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        assert_int_equal(steno_buf_printf(log, "%d %lld %.6f %.6f %.6f '%s' %zu %.5f\n",
                                          (int)ev.kind, (long long)ev.segment, ev.time, ev.start,
                                          ev.end, ev.text, ev.n_words, (double)ev.confidence),
                         0);
        for (size_t i = 0; i < ev.n_words; i++) {
            assert_true(ev.words[i].start <= ev.words[i].end && ev.words[i].start >= 0);
            assert_int_equal(steno_buf_printf(log, "  %s %.5f %.5f\n", ev.words[i].text,
                                              ev.words[i].start, ev.words[i].end),
                             0);
        }
    }
}

/* All events of the stream as text. pcm comes in pieces of `piece`, with a finalize in the
 * middle. */
static char *run(steno_model *m, const float *pcm, size_t n, size_t piece, int rate)
{
    struct steno_stream_options o = {.sample_rate = rate, .n_best = 2, .beam = 4};
    steno_stream *s = NULL;
    struct steno_buf log;
    steno_err err;
    steno_buf_init(&log, 1 << 22);
    if (steno_stream_open(&s, m, &o, &err))
        fail_msg("%s", err.msg);
    for (size_t half = 0; half < 2; half++) {
        size_t at = half ? n / 2 : 0, end = half ? n : n / 2;
        while (at < end) {
            size_t k = piece < end - at ? piece : end - at;
            if (steno_stream_push(s, pcm + at, k, &err))
                fail_msg("%s", err.msg);
            at += k;
        }
        if (half ? steno_stream_end(s, &err) : steno_stream_finalize(s, &err))
            fail_msg("%s", err.msg);
    }
    log_events(s, &log);
    steno_stream_close(s);
    return steno_buf_take(&log, NULL);
}

static steno_model *open_model(const char *rel)
{
    char path[512];
    steno_model *m = NULL;
    steno_err err;
    if (steno_model_open(&m, shared_path(path, sizeof path, rel), NULL, &err))
        fail_msg("%s", err.msg);
    return m;
}

static void events_do_not_depend_on_pushes(void **state)
{
    static const char *const dirs[] = {OFFLINE, STREAMING};
    static const size_t pieces[] = {160, 777, 16000};
    size_t n, quiet = 24000;
    float *pcm = read_audio("61-70968-0002.flac", &n), *two;
    (void)state;
    if (!pcm)
        skip();
    /* speech, silence long enough for an endpoint, speech */
    two = calloc(2 * n + quiet, sizeof *two);
    memcpy(two, pcm, n * sizeof *two);
    memcpy(two + n + quiet, pcm, n * sizeof *two);
    for (size_t d = 0; d < 2; d++) {
        steno_model *m = open_model(dirs[d]);
        for (int rate = 16000; rate >= 8000; rate -= 8000) {
            char *whole = run(m, two, 2 * n + quiet, 2 * n + quiet, rate);
            assert_non_null(strstr(whole, "2 0 "));
            for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
                char *got = run(m, two, 2 * n + quiet, pieces[i], rate);
                assert_string_equal(got, whole);
                free(got);
            }
            free(whole);
        }
        steno_model_close(m);
    }
    free(two);
    free(pcm);
}

/* Feed samples until a step is due or the audio ends. False when the stream is over. */
static bool advance(steno_stream *s, const float *pcm, size_t n, size_t *at, bool *over)
{
    while (!*over && !steno_stream_ready(s)) {
        size_t used = 0;
        if (*at < n)
            assert_int_equal(steno_stream_feed(s, pcm + *at, n - *at, &used, NULL), 0);
        else
            assert_int_equal(steno_stream_flush(s, true, over, NULL), 0);
        *at += used;
    }
    return !*over;
}

/* Three streams whose blocks form batches. The state of the middle one becomes NaN on the way. */
static void a_stream_that_fails_fails_alone(void **state)
{
    struct steno_stream_options o = {.sample_rate = 16000, .n_best = 2, .beam = 4};
    size_t n, at[4] = {0};
    float *pcm = read_audio("61-70968-0002.flac", &n);
    steno_batcher *p = NULL;
    steno_stream *s[4] = {NULL}; /* the last one runs alone */
    bool over[4] = {false}, failed = false;
    struct steno_buf said[4];
    steno_model *m;
    (void)state;
    if (!pcm)
        skip();
    m = open_model(STREAMING);
    assert_true(m->info.batches);
    assert_int_equal(steno_batcher_open(&p, m, 8, NULL), 0);
    for (int i = 0; i < 4; i++) {
        steno_buf_init(&said[i], 1 << 22);
        assert_int_equal(steno_stream_open(&s[i], m, &o, NULL), 0);
    }
    while (!(over[0] && over[2] && over[3])) {
        struct steno_espnet_stream *poor = s[1]->state;
        steno_stream *ready[4];
        steno_status st[4];
        size_t k = 0;
        int which[4];
        if (poor->state.block == 3)
            poor->state.part[1][0] = NAN;
        for (int i = 0; i < 4; i++)
            if (!(i == 1 && failed) && advance(s[i], pcm, n, &at[i], &over[i])) {
                which[k] = i;
                ready[k++] = s[i];
            }
        if (k && which[k - 1] == 3)
            steno_streams_step(p, &ready[--k], 1, &st[3], NULL);
        steno_streams_step(p, ready, k, st, NULL);
        for (size_t i = 0; i < k; i++) {
            failed = failed || (which[i] == 1 && st[i]);
            assert_true(!st[i] || which[i] == 1);
        }
        for (int i = 0; i < 4; i++)
            log_events(s[i], &said[i]);
    }
    assert_true(failed);
    assert_non_null(strstr(said[3].data, "2 0 "));
    assert_string_equal(said[0].data, said[3].data);
    assert_string_equal(said[2].data, said[3].data);
    for (int i = 0; i < 4; i++) {
        steno_stream_close(s[i]);
        steno_buf_free(&said[i]);
    }
    steno_batcher_close(p);
    steno_model_close(m);
    free(pcm);
}

/* How a pool sees an upload: a step is one segment, which ends in a silence. So other streams
 * run between the steps. */
static void a_recording_is_cut_at_its_silences(void **state)
{
    enum { PARTS = 3 };
    size_t n, quiet = 24000, at = 0, steps = 0, part, all;
    float *pcm = read_audio("61-70968-0002.flac", &n), *rec;
    steno_batcher *batcher = NULL;
    steno_stream *s = NULL;
    steno_model *m;
    bool done = false;
    (void)state;
    if (!pcm)
        skip();
    part = n + quiet;
    all = PARTS * part;
    rec = calloc(all, sizeof *rec);
    for (size_t i = 0; i < PARTS; i++)
        memcpy(rec + i * part, pcm, n * sizeof *rec);
    m = open_model(OFFLINE);
    assert_int_equal(steno_batcher_open(&batcher, m, 1, NULL), 0);
    assert_int_equal(
        steno_stream_open(&s, m, &(struct steno_stream_options){.no_partials = true}, NULL), 0);
    while (!done) {
        struct steno_event ev;
        size_t used = 0;
        if (steno_stream_ready(s)) {
            steno_status st;
            steno_err err;
            steno_streams_step(batcher, &s, 1, &st, &err);
            assert_int_equal(st, 0);
            steps++;
            while (steno_stream_next(s, &ev))
                if (ev.kind == STENO_FINAL) /* reported before the next part is fed */
                    assert_true(at <= ((size_t)(ev.end * 16000) / part + 1) * part);
        } else if (at < all) {
            size_t k = all - at < 1600 ? all - at : 1600;
            assert_int_equal(steno_stream_feed(s, rec + at, k, &used, NULL), 0);
            at += used;
        } else {
            assert_int_equal(steno_stream_flush(s, true, &done, NULL), 0);
        }
    }
    assert_true(steps >= PARTS);
    steno_stream_close(s);
    steno_batcher_close(batcher);
    steno_model_close(m);
    free(rec);
    free(pcm);
}

/* The encoder frames of a streamed recording reach its end; espnet_onnx stops up to 1.7 s before
 * it. */
static void the_end_is_not_lost(void **state)
{
    struct steno_stream_options o = {.no_endpointing = true};
    steno_stream *s = NULL;
    struct steno_event ev;
    steno_model *m;
    size_t n;
    double end = 0;
    float *pcm = read_audio("61-70968-0002.flac", &n);
    (void)state;
    if (!pcm)
        skip();
    m = open_model(STREAMING);
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), 0);
    assert_int_equal(steno_stream_push(s, pcm, n, NULL), 0);
    assert_int_equal(steno_stream_end(s, NULL), 0);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            end = ev.end;
    assert_true(end > (double)n / 16000 - 0.25);
    steno_stream_close(s);
    steno_model_close(m);
    free(pcm);
}

/* An encoder of whole utterances processes a segment again when it has grown by a third. So in
 * total it processes at most four times the segment; in 19 s that is a dozen times. */
static void partials_of_whole_utterances_have_a_work_limit(void **state)
{
    struct steno_stream_options o = {.no_endpointing = true};
    const size_t want = 19 * 16000;
    size_t n, fed = 0, heard = 0, steps = 0, last = 0;
    float *pcm = read_audio("61-70968-0002.flac", &n);
    steno_batcher *p = NULL;
    steno_stream *s = NULL;
    steno_model *m;
    steno_status st = STENO_OK;
    (void)state;
    if (!pcm)
        skip();
    m = open_model(OFFLINE);
    assert_int_equal(steno_batcher_open(&p, m, 1, NULL), 0);
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), 0);
    while (fed < want) {
        size_t used, k = n - fed % n < 1600 ? n - fed % n : 1600;
        assert_int_equal(steno_stream_feed(s, pcm + fed % n, k, &used, NULL), 0);
        fed += used;
        if (!steno_stream_ready(s))
            continue;
        assert_true(3 * fed + 4096 >= 4 * last); /* grown by a third; less than a block waits */
        steno_streams_step(p, &s, 1, &st, NULL);
        assert_int_equal(st, STENO_OK);
        last = fed;
        heard += fed;
        steps++;
    }
    assert_true(steps >= 8 && steps <= 13 && heard <= 4 * want);
    assert_int_equal(steno_stream_end(s, NULL), 0);
    steno_stream_close(s);
    steno_batcher_close(p);
    steno_model_close(m);
    free(pcm);
}

/* A partial follows every block in which the best text changes. The first final is the same with
 * partials, where the search runs block by block, and without. */
static void partials_come_with_blocks(void **state)
{
    size_t n, partials = 0;
    float *pcm = read_audio("61-70968-0000.flac", &n);
    char final[2][4096];
    double last = 0;
    steno_model *m;
    (void)state;
    if (!pcm)
        skip();
    m = open_model(STREAMING);
    for (int quiet = 0; quiet < 2; quiet++) {
        struct steno_stream_options o = {
            .no_endpointing = true, .no_partials = quiet == 1, .beam = 4};
        steno_stream *s = NULL;
        struct steno_event ev;
        assert_int_equal(steno_stream_open(&s, m, &o, NULL), 0);
        assert_int_equal(steno_stream_push(s, pcm, n, NULL), 0);
        assert_int_equal(steno_stream_end(s, NULL), 0);
        while (steno_stream_next(s, &ev)) {
            if (ev.kind == STENO_FINAL)
                snprintf(final[quiet], sizeof final[quiet], "%s", ev.text);
            if (ev.kind != STENO_PARTIAL)
                continue;
            assert_true(!quiet && ev.time > last && ev.n_words > 0);
            assert_true(partials || ev.time >= 1.68);        /* the first block */
            assert_true(!partials || ev.time - last > 0.63); /* the following blocks */
            last = ev.time;
            partials++;
        }
        steno_stream_close(s);
    }
    assert_true(partials >= 3);
    assert_string_equal(final[0], final[1]);
    steno_model_close(m);
    free(pcm);
}

/* `text` gets the last final. The stream stays open. */
static steno_stream *say(steno_model *m, const float *pcm, size_t n, int beam, double ctc_weight,
                         char *text, size_t size)
{
    char weight[32];
    const struct steno_option search[] = {
        {"ctc_weight", weight}, {"lm_weight", "0"}, {"penalty", "0"}};
    struct steno_stream_options o = {
        .no_endpointing = true, .beam = beam, .options = search, .n_options = 3};
    struct steno_event ev;
    steno_stream *s = NULL;
    snprintf(weight, sizeof weight, "%g", ctc_weight);
    text[0] = '\0';
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), 0);
    assert_int_equal(steno_stream_push(s, pcm, n, NULL), 0);
    assert_int_equal(steno_stream_end(s, NULL), 0);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            snprintf(text, size, "%s", ev.text);
    return s;
}

/* With CTC alone a stream processes each block once and keeps none of its scores. Its text is
 * the one that its search finds in all scores at once; these come from a joint search of the
 * same audio, which keeps them. */
static void ctc_alone_takes_each_block_once(void **state)
{
    size_t n, frames, rows;
    float *pcm = read_audio("61-70968-0002.flac", &n);
    steno_model *m;
    (void)state;
    if (!pcm)
        skip();
    m = open_model(STREAMING);
    frames = n / m->info.hop + 1;
    rows = ((frames - 1) / 2 - 1) / 2; /* two convolutions of width 3 and stride 2 */
    for (int beam = 1; beam <= 4; beam += 3) {
        char text[4096], other[4096];
        steno_stream *alone = say(m, pcm, n, beam, 1, text, sizeof text);
        steno_stream *joint = say(m, pcm, n, 2, 0.3, other, sizeof other);
        const struct steno_espnet_stream *a = alone->state;
        const struct steno_espnet_stream *j = joint->state;
        struct steno_hyp best = {0};
        struct steno_words w;
        size_t count = 1;
        assert_int_equal(a->cap_rows, 0);
        assert_true(j->cap_rows >= rows && strlen(text) > 8);
        if (a->beam) {
            assert_int_equal(steno_ctc_beam_push(a->beam, j->ctc, rows), 0);
            assert_int_equal(steno_ctc_beam_nbest(a->beam, &best, 1, &count), 0);
        } else {
            assert_int_equal(steno_ctc_greedy_push(a->greedy, j->ctc, rows), 0);
            best = steno_ctc_greedy_best(a->greedy);
        }
        steno_words_init(&w);
        assert_int_equal(steno_words_build(&w, m->info.tokens, best.spans, best.n, 0), 0);
        assert_string_equal(text, steno_words_line(&w));
        steno_words_free(&w);
        steno_stream_close(alone);
        steno_stream_close(joint);
    }
    steno_model_close(m);
    free(pcm);
}

static void silence_and_very_short_audio_give_no_text(void **state)
{
    static const char *const dirs[] = {OFFLINE, STREAMING};
    static float zeros[16000];
    size_t n;
    void *there = steno_test_shared(OFFLINE "/config.yaml", &n);
    (void)state;
    free(there);
    if (!there)
        skip();
    for (size_t d = 0; d < 2; d++) {
        steno_model *m = open_model(dirs[d]);
        static const size_t lengths[] = {0, 1, 320, 16000 * 300};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            steno_stream *s = NULL;
            struct steno_event ev;
            assert_int_equal(steno_stream_open(&s, m, NULL, NULL), 0);
            for (size_t left = lengths[i]; left;) {
                size_t k = left < 16000 ? left : 16000;
                assert_int_equal(steno_stream_push(s, zeros, k, NULL), 0);
                left -= k;
            }
            assert_int_equal(steno_stream_end(s, NULL), 0);
            assert_false(steno_stream_next(s, &ev));
            steno_stream_close(s);
        }
        steno_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_as_recorded),
        cmocka_unit_test(blocks_of_several_streams_are_as_recorded),
        cmocka_unit_test(recorded_streaming_rows_decode_as_recorded),
        cmocka_unit_test(events_do_not_depend_on_pushes),
        cmocka_unit_test(a_stream_that_fails_fails_alone),
        cmocka_unit_test(a_recording_is_cut_at_its_silences),
        cmocka_unit_test(the_end_is_not_lost),
        cmocka_unit_test(partials_of_whole_utterances_have_a_work_limit),
        cmocka_unit_test(partials_come_with_blocks),
        cmocka_unit_test(ctc_alone_takes_each_block_once),
        cmocka_unit_test(silence_and_very_short_audio_give_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
