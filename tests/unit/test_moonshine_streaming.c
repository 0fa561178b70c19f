/* Moonshine's streaming networks of ../shared/zoo/tiny against the recorded loop over ONNX Runtime:
 * every update of a chunk that grows, and the streams of the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/families/entries.h"
#include "speech/families/moonshine/live.h"
#include "speech/families/moonshine/vocabulary.h"
#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/zoo.h"

static const char *directory(void)
{
    static char path[1024];
    const char *base = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/zoo/tiny/moonshine-streaming", base ? base : "../shared");
    return path;
}

static steno_json *open_rows(const struct steno_json_node **rows)
{
    char path[1100];
    steno_json *j = NULL;
    snprintf(path, sizeof path, "%s/decode.json", directory());
    assert_int_equal(steno_json_open(&j, path, NULL), STENO_OK);
    *rows = steno_json_get(steno_json_get(steno_json_root(j), "sets"), "fp32 greedy");
    assert_non_null(*rows);
    return j;
}

static int64_t number(const struct steno_json_node *n, const char *key)
{
    int64_t v = -1;
    assert_true(steno_json_int(steno_json_get(n, key), 0, INT64_MAX, &v));
    return v;
}

/* ---- updates --------------------------------------------------------------------------------- */

static void expect_text(const struct steno_greedy_text *t, const struct steno_json_node *ids)
{
    size_t n = 0;
    for (const struct steno_json_node *e = ids->first; e; e = e->next, n++) {
        assert_true(n < t->n);
        assert_int_equal(t->spans[n].token, atoi(e->text));
    }
    assert_int_equal(n, t->n);
}

/* Each update computes what is new, and its text is that of the loop. */
static void check_updates(struct steno_shell_worker *w, const struct steno_json_node *row,
                          struct steno_greedy_text *t)
{
    struct steno_moonshine_live live = {.fed = 0};
    size_t n;
    float *pcm = zoo_recording(row->key, 0, 0, &n);
    assert_non_null(pcm);
    for (const struct steno_json_node *u = steno_json_get(row, "updates")->first; u; u = u->next) {
        const size_t samples = (size_t)number(u, "samples");
        assert_int_equal(steno_moonshine_live_feed(w, &live, pcm, samples, false, NULL), STENO_OK);
        assert_int_equal(live.n_memory, number(u, "memory"));
        assert_int_equal(steno_moonshine_live_decode(w, &live, t, NULL), STENO_OK);
        expect_text(t, steno_json_get(u, "ids"));
    }
    assert_int_equal(steno_moonshine_live_feed(w, &live, pcm, n, true, NULL), STENO_OK);
    assert_int_equal(steno_moonshine_live_decode(w, &live, t, NULL), STENO_OK);
    assert_int_equal(live.n_memory, number(row, "frames"));
    expect_text(t, steno_json_get(row, "ids"));
    steno_moonshine_live_free(&live);
    free(pcm);
}

static void updates_are_as_recorded(void **state)
{
    const struct steno_family *f = &steno_family_moonshine_streaming;
    struct steno_family_open o = {
        .family = f, .dir = directory(), .threads = 1, .precision = STENO_FP32};
    const struct steno_json_node *rows;
    struct steno_greedy_text text = {.n = 0};
    void *model, *w;
    steno_json *j;
    (void)state;
    if (access(directory(), R_OK))
        skip();
    j = open_rows(&rows);
    assert_int_equal(f->open(&model, &o, NULL), STENO_OK);
    assert_int_equal(f->worker_open(&w, model, 1, NULL), STENO_OK);
    assert_int_equal(
        steno_greedy_text_open(
            &text, (int)((const struct steno_moonshine_live_model *)model)->conf.vocab, NULL),
        STENO_OK);
    for (const struct steno_json_node *row = rows->first; row; row = row->next)
        check_updates(w, row, &text);
    steno_greedy_text_close(&text);
    f->worker_close(w);
    f->close(model);
    steno_json_close(j);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A recording in pieces of `piece` samples; the same stream twice, the first time cut off. */
static void check_stream(steno_model *m, const struct steno_json_node *row, const float *pcm,
                         size_t n, size_t piece)
{
    const struct steno_stream_options o = {.no_endpointing = true};
    struct steno_event ev;
    steno_stream *s;
    bool done = false;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, n < 20000 ? n : 20000, NULL), STENO_OK);
    assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev))
        ;
    for (size_t at = 0; at < n; at += piece)
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, NULL),
                         STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL) {
            assert_string_equal(ev.text, steno_json_get(row, "text")->text +
                                             (*steno_json_get(row, "text")->text == ' '));
            done = true;
        }
    assert_true(done);
    steno_stream_close(s);
}

static void check_streams(const char *dir)
{
    static const size_t pieces[] = {1 << 20, 333, 1600, 16000};
    const struct steno_model_options o = {.threads = 1, .precision = STENO_FP32};
    const struct steno_json_node *rows;
    steno_json *j = open_rows(&rows);
    steno_model *m = NULL;
    steno_err err;
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    for (const struct steno_json_node *row = rows->first; row; row = row->next) {
        size_t n;
        float *pcm = zoo_recording(row->key, 0, 0, &n);
        assert_non_null(pcm);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
            check_stream(m, row, pcm, n, pieces[i]);
        free(pcm);
    }
    steno_model_close(m);
    steno_json_close(j);
}

static void streams_are_as_recorded_in_any_pieces(void **state)
{
    (void)state;
    if (access(directory(), R_OK))
        skip();
    check_streams(directory());
}

/* As they are downloaded: .ort, and tokenizer.bin. */
static void files_as_downloaded_are_as_recorded(void **state)
{
    static const char *const files[] = {"frontend.ort",         "encoder.ort",    "adapter.ort",
                                        "cross_kv.ort",         "decoder_kv.ort", "tokenizer.bin",
                                        "streaming_config.json"};
    char dir[] = "/tmp/steno-moonshine-XXXXXX", from[1100], to[1100];
    (void)state;
    if (access(directory(), R_OK))
        skip();
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *real;
        snprintf(from, sizeof from, "%s/%s", directory(), files[i]);
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        real = realpath(from, NULL);
        assert_non_null(real);
        assert_int_equal(symlink(real, to), 0);
        free(real);
    }
    check_streams(dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        assert_int_equal(unlink(to), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* ---- vocabulary and configuration ------------------------------------------------------------ */

static void tokenizer_bin_is_read(void **state)
{
    static char bytes[3 + 2 + 200 + 1 + 8 + 5];
    char *p = bytes;
    steno_tokens *t;
    steno_err err;
    (void)state;
    *p++ = 2;
    memcpy(p, "ab", 2);
    p += 2;
    *p++ = (char)(128 + 200 % 128); /* 200 = 1 * 128 + 72 */
    *p++ = 1;
    memset(p, 'x', 200);
    p += 200;
    *p++ = 0; /* no text */
    *p++ = 7;
    memcpy(p, "<<ST_0>", 7); /* a mark */
    p += 7;
    *p++ = 4;
    memcpy(p, "\xE2\x96\x81y", 4);
    assert_int_equal(steno_moonshine_tokenizer_parse(&t, bytes, sizeof bytes, "t", NULL), STENO_OK);
    assert_int_equal(steno_tokens_count(t), 5);
    assert_string_equal(steno_tokens_piece(t, 0), "ab");
    assert_int_equal(strlen(steno_tokens_piece(t, 1)), 200);
    assert_true(steno_tokens_flags(t, 2) & STENO_TOKEN_DROP);
    assert_true(steno_tokens_flags(t, 3) & STENO_TOKEN_DROP);
    assert_true(steno_tokens_flags(t, 4) & STENO_TOKEN_WORD);
    steno_tokens_close(t);
    assert_int_equal(steno_moonshine_tokenizer_parse(&t, bytes, 100, "t", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "t: the file ends in token 1");
}

static void the_configuration_is_checked(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "c: depth is 'missing', expected 1 to 256"},
        {"{\"depth\": 2}", "c: vocab_size is 'missing', expected 2 to 1048576"},
        {"{\"depth\": 2, \"vocab_size\": 9, \"total_lookahead\": -1}",
         "c: total_lookahead is '-1', expected 0 to 4096"},
        {"{\"depth\": 2, \"vocab_size\": 9, \"eos_id\": 9}",
         "c: bos_id 1 and eos_id 9 of a vocabulary of 9"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_moonshine_live_conf c;
        steno_json *j;
        steno_err err;
        assert_int_equal(steno_json_parse(&j, cases[i].text, strlen(cases[i].text), "c", NULL),
                         STENO_OK);
        assert_int_equal(steno_moonshine_live_conf_read(&c, steno_json_root(j), "c", &err),
                         STENO_ERR_FORMAT);
        assert_string_equal(err.msg, cases[i].message);
        steno_json_close(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_as_recorded),
        cmocka_unit_test(streams_are_as_recorded_in_any_pieces),
        cmocka_unit_test(files_as_downloaded_are_as_recorded),
        cmocka_unit_test(tokenizer_bin_is_read),
        cmocka_unit_test(the_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("moonshine_streaming", tests, NULL, NULL);
}
