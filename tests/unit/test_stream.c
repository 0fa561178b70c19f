/* Streams over the tone network (tests/data/models/tones): 500 Hz is "one", 1000 Hz "two", 1700
 * Hz the piece "ty", 2800 Hz a token without text. It has one frame of scores per 40 ms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "steno.h"
#include "tests/support/test.h"

#define TONES "tests/data/models/tones"
enum { SILENCE = 0, ONE = 500, TWO = 1000, TY = 1700, UNK = 2800 };

struct part {
    int hz;
    double seconds;
};

struct audio {
    float *pcm;
    size_t n;
    int rate;
};

static steno_model *model;

static int open_model(void **state)
{
    steno_err err = {0};
    (void)state;
    if (steno_model_open(&model, TONES, NULL, &err)) {
        print_error("%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    steno_model_close(model);
    return 0;
}

static struct audio make(int rate, const struct part *p, size_t n)
{
    struct audio a = {.rate = rate};
    for (size_t i = 0; i < n; i++)
        a.n += (size_t)lround(p[i].seconds * rate);
    a.pcm = calloc(a.n + 1, sizeof *a.pcm);
    assert_non_null(a.pcm);
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t k = (size_t)lround(p[i].seconds * rate);
        for (size_t t = 0; t < k; t++)
            a.pcm[at + t] =
                p[i].hz ? 0.3f * (float)sin(6.283185307179586 * p[i].hz * (double)t / rate) : 0.0f;
        at += k;
    }
    return a;
}
#define MAKE(rate, ...)                                                                            \
    make(rate, (const struct part[]){__VA_ARGS__},                                                 \
         sizeof((const struct part[]){__VA_ARGS__}) / sizeof(struct part))

static steno_stream *stream(const struct steno_stream_options *o)
{
    steno_stream *s = NULL;
    steno_err err = {0};
    if (steno_stream_open(&s, model, o, &err))
        fail_msg("%s", err.msg);
    return s;
}

/* Every event as one line with all its numbers. */
static void log_events(steno_stream *s, struct steno_buf *b)
{
    struct steno_event e;
    while (steno_stream_next(s, &e)) {
        static const char *const kinds[] = {"start", "partial", "final"};
        assert_int_equal(steno_buf_printf(b, "%s %lld %.4f %.3f %.3f %d [%s] %zu %zu %.6f",
                                          kinds[e.kind], (long long)e.segment, e.time, e.start,
                                          e.end, e.kind == STENO_FINAL ? (int)e.reason : 0, e.text,
                                          e.stable_bytes, e.stable_words, (double)e.confidence),
                         STENO_OK);
        for (size_t i = 0; i < e.n_words; i++)
            assert_int_equal(steno_buf_printf(b, " %s:%.3f-%.3f:%.6f", e.words[i].text,
                                              e.words[i].start, e.words[i].end,
                                              (double)e.words[i].confidence),
                             STENO_OK);
        for (size_t i = 0; i < e.n_alternatives; i++)
            assert_int_equal(
                steno_buf_printf(b, " |%s %.6f", e.alternatives[i].text, e.alternatives[i].score),
                STENO_OK);
        assert_int_equal(steno_buf_puts(b, "\n"), STENO_OK);
    }
}

static char *run(const struct audio *a, const struct steno_stream_options *opt, size_t piece,
                 size_t finalize_at)
{
    struct steno_stream_options o = {0};
    struct steno_buf b;
    steno_stream *s;
    if (opt)
        o = *opt;
    o.sample_rate = a->rate;
    s = stream(&o);
    steno_buf_init(&b, 1 << 24);
    for (size_t at = 0; at < a->n;) {
        size_t n = a->n - at < piece ? a->n - at : piece;
        if (finalize_at > at && finalize_at < at + n)
            n = finalize_at - at;
        assert_int_equal(steno_stream_push(s, a->pcm + at, n, NULL), STENO_OK);
        log_events(s, &b);
        at += n;
        if (at == finalize_at) {
            assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
            log_events(s, &b);
        }
    }
    assert_int_equal(steno_stream_samples(s), a->n);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    log_events(s, &b);
    steno_stream_close(s);
    return b.data ? b.data : strdup("");
}

/* The finals, one per line. */
struct finals {
    size_t n;
    struct {
        char text[128];
        double start, end, words[8][2];
        size_t n_words;
        enum steno_final_reason reason;
        float confidence;
        int64_t segment;
    } f[16];
    size_t starts, partials;
};

static struct finals finals_of(const struct audio *a, const struct steno_stream_options *opt)
{
    struct steno_stream_options o = {0};
    struct finals r = {0};
    struct steno_event e;
    steno_stream *s;
    if (opt)
        o = *opt;
    o.sample_rate = a->rate;
    s = stream(&o);
    assert_int_equal(steno_stream_push(s, a->pcm, a->n, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e)) {
        r.starts += e.kind == STENO_SPEECH_START;
        r.partials += e.kind == STENO_PARTIAL;
        if (e.kind != STENO_FINAL)
            continue;
        assert_true(r.n < 16);
        snprintf(r.f[r.n].text, sizeof r.f[r.n].text, "%s", e.text);
        r.f[r.n].start = e.start;
        r.f[r.n].end = e.end;
        r.f[r.n].n_words = e.n_words;
        for (size_t i = 0; i < e.n_words && i < 8; i++) {
            r.f[r.n].words[i][0] = e.words[i].start;
            r.f[r.n].words[i][1] = e.words[i].end;
        }
        r.f[r.n].reason = e.reason;
        r.f[r.n].confidence = e.confidence;
        r.f[r.n++].segment = e.segment;
    }
    steno_stream_close(s);
    return r;
}

static void near(double got, double want, double tolerance)
{
    if (fabs(got - want) > tolerance)
        fail_msg("%g, expected %g +- %g", got, want, tolerance);
}

#define PHRASE                                                                                     \
    {SILENCE, 0.5}, {ONE, 0.3}, {SILENCE, 0.2}, {TWO, 0.3}, {TY, 0.2}, {SILENCE, 0.2}, {ONE, 0.2}, \
        {SILENCE, 1.5}, {UNK, 0.3}, {TWO, 0.4}, {SILENCE, 0.15},                                   \
    {                                                                                              \
        TWO, 0.2                                                                                   \
    }

static void tones_become_words_with_their_times(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, PHRASE);
    struct finals r = finals_of(&a, NULL);
    assert_int_equal(r.n, 2);
    assert_string_equal(r.f[0].text, "one twoty one");
    assert_string_equal(r.f[1].text, "two two");
    assert_int_equal(r.f[0].reason, STENO_FINAL_ENDPOINT);
    assert_int_equal(r.f[1].reason, STENO_FINAL_END);
    assert_int_equal(r.f[0].segment, 0);
    assert_int_equal(r.f[1].segment, 1);
    assert_int_equal(r.starts, 2);
    assert_true(r.partials >= 4);
    /* a frame is 40 ms and depends on the frame before it: tolerance of two frames */
    near(r.f[0].words[0][0], 0.5, 0.09);
    near(r.f[0].words[0][1], 0.8, 0.09);
    near(r.f[0].words[1][0], 1.0, 0.09);
    near(r.f[0].words[1][1], 1.5, 0.09);
    near(r.f[0].words[2][0], 1.7, 0.09);
    near(r.f[1].words[0][0], 3.7, 0.09);
    near(r.f[1].end, 4.45, 0.09);
    assert_true(r.f[0].confidence > 0.9f);
    free(a.pcm);
}

static void check_chunkings(const struct steno_stream_options *o, int rate, size_t finalize_at)
{
    static const size_t pieces[] = {1, 7, 80, 641, 8000};
    struct audio a = MAKE(rate, PHRASE);
    char *whole = run(&a, o, a.n, finalize_at);
    assert_non_null(strstr(whole, "[one twoty one]"));
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char *cut = run(&a, o, pieces[i], finalize_at);
        assert_string_equal(cut, whole);
        free(cut);
    }
    free(whole);
    free(a.pcm);
}

static void any_chunking_gives_the_same_events(void **state)
{
    (void)state;
    check_chunkings(NULL, 8000, 0);
    check_chunkings(NULL, 16000, 0);
    check_chunkings(NULL, 44100, 0);
    check_chunkings(&(struct steno_stream_options){.beam = 4, .n_best = 3}, 8000, 0);
}

static void finalize_gives_the_same_wherever_pushes_are_cut(void **state)
{
    (void)state;
    struct steno_stream_options o = {0};
    check_chunkings(&o, 8000, 8 * 3300);
    check_chunkings(&o, 16000, 16 * 3300 + 5);
}

static void finalize_cuts_at_the_sample_and_keeps_the_clock(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, {SILENCE, 0.5}, {ONE, 0.3}, {TWO, 0.4}, {SILENCE, 0.5});
    steno_stream *s = stream(NULL);
    struct steno_event e;
    size_t n = 0, at = (size_t)(0.8 * 8000); /* the start of "two" */
    assert_int_equal(steno_stream_push(s, a.pcm, at, NULL), STENO_OK);
    assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e))
        if (e.kind == STENO_FINAL) {
            assert_string_equal(e.text, "one");
            assert_int_equal(e.reason, STENO_FINAL_REQUEST);
            assert_true(e.end <= 0.8);
            n++;
        }
    /* nothing new, but still answered */
    assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e)) {
        assert_int_equal(e.kind, STENO_FINAL);
        assert_string_equal(e.text, "");
        n++;
    }
    assert_int_equal(steno_stream_push(s, a.pcm + at, a.n - at, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e))
        if (e.kind == STENO_FINAL) {
            assert_string_equal(e.text, "two");
            assert_int_equal(e.segment, 2);
            near(e.words[0].start, 0.8, 0.09);
            near(e.words[0].end, 1.2, 0.09);
            n++;
        }
    assert_int_equal(n, 3);
    steno_stream_close(s);
    free(a.pcm);
}

static void the_last_word_is_not_lost_at_the_end(void **state)
{
    (void)state;
    for (int ms = 300; ms < 460; ms += 7) {
        struct audio a = MAKE(8000, {ONE, 0.2}, {SILENCE, 0.1 + ms / 1e3}, {TWO, 0.1});
        struct finals r = finals_of(&a, NULL);
        assert_int_equal(r.n, 1);
        assert_string_equal(r.f[0].text, "one two");
        assert_true(r.f[0].end <= (double)a.n / 8000);
        free(a.pcm);
    }
}

static void silence_alone_makes_no_events(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, {SILENCE, 30});
    struct finals r = finals_of(&a, NULL);
    assert_int_equal(r.n + r.starts + r.partials, 0);
    free(a.pcm);
    a = MAKE(8000, {SILENCE, 0});
    r = finals_of(&a, NULL);
    assert_int_equal(r.n + r.starts + r.partials, 0);
    free(a.pcm);
}

static void unwritten_sound_starts_a_segment_and_ends_it_empty(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, {SILENCE, 0.5}, {UNK, 0.5}, {SILENCE, 2}, {ONE, 0.3});
    struct finals r = finals_of(&a, NULL);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.starts, 2);
    assert_string_equal(r.f[0].text, "");
    assert_int_equal(r.f[0].reason, STENO_FINAL_ENDPOINT);
    near(r.f[0].start, 0.5, 0.09);
    assert_string_equal(r.f[1].text, "one");
    free(a.pcm);
}

static void endpoint_rules_can_be_set(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, {ONE, 0.3}, {SILENCE, 0.4}, {TWO, 0.3}, {SILENCE, 0.4}, {ONE, 0.3});
    struct steno_stream_options o = {.endpoint = {.silence_after = 0.25}};
    struct finals r = finals_of(&a, NULL);
    assert_int_equal(r.n, 1);
    r = finals_of(&a, &o);
    assert_int_equal(r.n, 3);
    o.no_endpointing = true;
    r = finals_of(&a, &o);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.f[0].text, "one two one");
    free(a.pcm);
}

/* The limit is 4 s (model.conf). The cut waits for a silent frame, for at most a second. */
static void the_longest_utterance_is_cut_between_words(void **state)
{
    (void)state;
    struct part p[40];
    for (int i = 0; i < 40; i++)
        p[i] = i & 1 ? (struct part){SILENCE, 0.12} : (struct part){i & 2 ? ONE : TWO, 0.25};
    struct audio a = make(8000, p, 40);
    struct finals r = finals_of(&a, NULL);
    size_t words = 0;
    assert_int_equal(r.n, 2);
    assert_int_equal(r.f[0].reason, STENO_FINAL_LENGTH);
    for (size_t i = 0; i < r.n; i++)
        words += r.f[i].n_words;
    assert_int_equal(words, 20);
    free(a.pcm);
    a = MAKE(8000, {ONE, 12}); /* one tone without end: cut nevertheless, and recognized once */
    r = finals_of(&a, NULL);
    assert_true(r.n >= 2);
    assert_string_equal(r.f[0].text, "one");
    assert_true(r.f[0].end - r.f[0].start < 5.1);
    for (size_t i = 1; i < r.n; i++)
        assert_string_equal(r.f[i].text, "");
    free(a.pcm);
}

static void partials_keep_their_stable_head(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, PHRASE);
    struct steno_stream_options opts[] = {{.beam = 1}, {.beam = 8}};
    for (size_t k = 0; k < 2; k++) {
        steno_stream *s = stream(&opts[k]);
        char stable[128] = "";
        struct steno_event e;
        bool grew = false;
        for (size_t at = 0; at < a.n; at += 160) {
            size_t n = a.n - at < 160 ? a.n - at : 160;
            assert_int_equal(steno_stream_push(s, a.pcm + at, n, NULL), STENO_OK);
            while (steno_stream_next(s, &e)) {
                assert_memory_equal(e.text, stable, strlen(stable));
                if (e.kind == STENO_PARTIAL) {
                    assert_true(e.stable_bytes >= strlen(stable));
                    snprintf(stable, sizeof stable, "%.*s", (int)e.stable_bytes, e.text);
                    grew |= e.stable_bytes > 0;
                }
                if (e.kind == STENO_FINAL)
                    stable[0] = '\0';
            }
        }
        assert_true(grew);
        steno_stream_close(s);
    }
    free(a.pcm);
}

static void no_partials_leaves_finals_as_they_are(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, PHRASE);
    struct steno_stream_options o = {.no_partials = true};
    struct finals x = finals_of(&a, NULL), y = finals_of(&a, &o);
    assert_int_equal(y.partials, 0);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++)
        assert_string_equal(x.f[i].text, y.f[i].text);
    free(a.pcm);
}

static void broken_samples_count_as_silence(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, PHRASE), b = MAKE(8000, PHRASE);
    char *x, *y;
    for (size_t i = 0; i < 1000; i++) {
        a.pcm[100 + i] = 0;
        b.pcm[100 + i] = i % 3 ? NAN : i & 1 ? INFINITY : -INFINITY;
    }
    x = run(&a, NULL, 500, 0);
    y = run(&b, NULL, 500, 0);
    assert_string_equal(x, y);
    free(x);
    free(y);
    free(a.pcm);
    free(b.pcm);
}

static void beam_gives_alternatives_best_first(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, {SILENCE, 0.3}, {ONE, 0.3}, {SILENCE, 0.2}, {TWO, 0.06});
    struct steno_stream_options o = {.beam = 8, .n_best = 4};
    steno_stream *s = stream(&o);
    struct steno_event e;
    size_t finals = 0;
    assert_int_equal(steno_stream_push(s, a.pcm, a.n, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e)) {
        if (e.kind != STENO_FINAL)
            continue;
        finals++;
        assert_true(e.n_alternatives >= 2 && e.n_alternatives <= 4);
        assert_string_equal(e.alternatives[0].text, e.text);
        for (size_t i = 1; i < e.n_alternatives; i++) {
            assert_true(e.alternatives[i - 1].score >= e.alternatives[i].score);
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(e.alternatives[k].text, e.alternatives[i].text);
        }
    }
    assert_int_equal(finals, 1);
    steno_stream_close(s);
    free(a.pcm);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    steno_stream *s = NULL;
    steno_err err = {0};
    float x[10] = {0};
    const struct steno_stream_options bad[] = {
        {.sample_rate = 7999}, {.sample_rate = 192001},  {.sample_rate = -1}, {.beam = 65},
        {.beam = -65},         {.beam = 4, .n_best = 5}, {.n_best = 65},      {.n_best = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        steno_status st = steno_stream_open(&s, model, &bad[i], &err);
        if (st != STENO_ERR_INVAL)
            fail_msg("case %zu: status %d", i, (int)st);
        assert_null(s);
        assert_true(err.msg[0]);
    }
    s = stream(NULL);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, x, 10, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "stream has ended");
    assert_int_equal(steno_stream_end(s, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_stream_finalize(s, NULL), STENO_ERR_INVAL);
    steno_stream_close(s);
}

/* The model of a copy of the directory, with more lines in a section of model.conf. */
static steno_model *model_with(const char *section, const char *line)
{
    char dir[] = "/tmp/steno-test-XXXXXX", path[64], here[512], target[640], text[2048];
    steno_model *m = NULL;
    steno_err err = {0};
    FILE *f = fopen(TONES "/model.conf", "r");
    size_t n = fread(text, 1, sizeof text - 1, f);
    char *at;
    fclose(f);
    text[n] = '\0';
    at = strstr(text, section);
    assert_non_null(at);
    at += strlen(section);
    assert_non_null(mkdtemp(dir));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s/model.conf", dir);
    f = fopen(path, "w");
    fprintf(f, "%.*s\n%s%s", (int)(at - text), text, line, at);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "tokens.txt" : "encoder.onnx";
        snprintf(path, sizeof path, "%s/%s", dir, name);
        snprintf(target, sizeof target, "%s/" TONES "/%s", here, name);
        assert_int_equal(symlink(target, path), 0);
    }
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"model.conf", "tokens.txt", "encoder.onnx"};
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
    return m;
}

static void words_reach_as_far_as_the_model_says_and_do_not_overlap(void **state)
{
    (void)state;
    struct audio a =
        MAKE(8000, {SILENCE, 0.3}, {ONE, 0.2}, {SILENCE, 0.2}, {TWO, 0.2}, {SILENCE, 0.8});
    struct finals plain = finals_of(&a, NULL), wide;
    steno_model *old = model;
    double gap, middle;
    model = model_with("[decoder]", "word_before = 0.1\nword_after = 0.3");
    wide = finals_of(&a, NULL);
    steno_model_close(model);
    model = old;
    assert_int_equal(plain.n, 1);
    assert_int_equal(wide.n, 1);
    near(wide.f[0].words[0][0], plain.f[0].words[0][0] - 0.1, 1e-9);
    near(wide.f[0].words[1][1], plain.f[0].words[1][1] + 0.3, 1e-9);
    gap = plain.f[0].words[1][0] - plain.f[0].words[0][1]; /* less than 0.1 + 0.3: divided 1 : 3 */
    middle = plain.f[0].words[1][0] - gap / 4;
    near(wide.f[0].words[0][1], middle, 1e-9);
    near(wide.f[0].words[1][0], middle, 1e-9);
    free(a.pcm);
}

static void a_model_may_ask_for_a_beam(void **state)
{
    (void)state;
    struct audio a = MAKE(8000, PHRASE);
    struct finals r;
    steno_model *old = model;
    model = model_with("[decoder]", "beam = 4");
    r = finals_of(&a, NULL);
    steno_model_close(model);
    model = old;
    assert_string_equal(r.f[0].text, "one twoty one");
    free(a.pcm);
}

/* Silent padding before the signal does not shift times, neither at the start nor after a
 * finalize. */
static void left_padding_shifts_no_times(void **state)
{
    (void)state;
    static const int leads[] = {1, 4, 24, 100};
    struct audio a = MAKE(8000, {ONE, 0.3}, {SILENCE, 0.3}, {TWO, 0.3}, {SILENCE, 1});
    steno_model *old = model;
    char *plain = run(&a, NULL, 300, 2400);
    assert_non_null(strstr(plain, "[one]"));
    for (int i = 0; i < 4; i++) {
        char line[32], *small, *large;
        struct finals r;
        snprintf(line, sizeof line, "lead_frames = %d", leads[i]);
        model = model_with("[network]", line);
        r = finals_of(&a, NULL);
        assert_int_equal(r.n, 1);
        assert_string_equal(r.f[0].text, "one two");
        near(r.f[0].words[0][0], 0, 0.05);
        near(r.f[0].words[0][1], 0.3, 0.09);
        near(r.f[0].words[1][0], 0.6, 0.09);
        small = run(&a, NULL, 7, 2400);
        large = run(&a, NULL, a.n, 2400);
        assert_string_equal(small, large);
        free(small);
        free(large);
        steno_model_close(model);
    }
    model = old;
    free(plain);
    free(a.pcm);
    a = MAKE(8000, {SILENCE, 0});
    assert_int_equal(finals_of(&a, NULL).n, 0);
    free(a.pcm);
}

static void info_has_the_directorys_values(void **state)
{
    (void)state;
    struct steno_model_info i;
    steno_model_get_info(model, &i);
    assert_string_equal(i.name, "tones");
    assert_string_equal(i.version, "0");
    assert_int_equal(i.sample_rate, 8000);
    assert_int_equal(i.vocab_size, 5);
    near(i.chunk_seconds, 0.08, 1e-9);
    near(i.frame_seconds, 0.04, 1e-9);
    near(i.lookahead_seconds, 0.03, 1e-9);
    near(i.endpoint.longest, 4, 0);
    assert_true(i.weight_bytes > 0 && i.stream_bytes > 0);
}

static size_t weight_bytes(enum steno_precision precision, const char *level)
{
    const struct steno_model_options o = {.precision = precision};
    struct steno_model_info i;
    steno_model *m = NULL;
    setenv("STENO_CPU", level, 1);
    if (steno_model_open(&m, "conf/models/digits-en", &o, NULL))
        fail();
    steno_model_get_info(m, &i);
    steno_model_close(m);
    unsetenv("STENO_CPU");
    return i.weight_bytes;
}

/* The shipped model allows int8 and bf16. */
static void auto_takes_the_fastest_precision_that_the_model_allows(void **state)
{
    static const struct {
        const char *level;
        enum steno_precision precision;
        unsigned needs;
    } rows[] = {{"scalar", STENO_FP32, 0},
                {"avx2", STENO_INT8_WEIGHTS, STENO_CPU_AVX2},
                {"avx512", STENO_INT8_WEIGHTS, STENO_CPU_AVX512},
                {"vnni", STENO_INT8_WEIGHTS, STENO_CPU_VNNI},
                {"bf16", STENO_INT8_WEIGHTS, STENO_CPU_BF16}};
    unsigned have = steno_cpu_detect();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((have & rows[i].needs) == rows[i].needs) {
            const size_t narrow = weight_bytes(rows[i].precision, rows[i].level);
            assert_int_equal(weight_bytes(STENO_AUTO_WEIGHTS, rows[i].level), narrow);
            assert_true(rows[i].precision == STENO_FP32 ||
                        narrow < weight_bytes(STENO_FP32, rows[i].level));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tones_become_words_with_their_times),
        cmocka_unit_test(any_chunking_gives_the_same_events),
        cmocka_unit_test(finalize_gives_the_same_wherever_pushes_are_cut),
        cmocka_unit_test(finalize_cuts_at_the_sample_and_keeps_the_clock),
        cmocka_unit_test(the_last_word_is_not_lost_at_the_end),
        cmocka_unit_test(silence_alone_makes_no_events),
        cmocka_unit_test(unwritten_sound_starts_a_segment_and_ends_it_empty),
        cmocka_unit_test(endpoint_rules_can_be_set),
        cmocka_unit_test(the_longest_utterance_is_cut_between_words),
        cmocka_unit_test(partials_keep_their_stable_head),
        cmocka_unit_test(no_partials_leaves_finals_as_they_are),
        cmocka_unit_test(broken_samples_count_as_silence),
        cmocka_unit_test(beam_gives_alternatives_best_first),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(words_reach_as_far_as_the_model_says_and_do_not_overlap),
        cmocka_unit_test(a_model_may_ask_for_a_beam),
        cmocka_unit_test(left_padding_shifts_no_times),
        cmocka_unit_test(auto_takes_the_fastest_precision_that_the_model_allows),
        cmocka_unit_test(info_has_the_directorys_values),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
