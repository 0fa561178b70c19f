/* Whisper from GGUF: the tiny model of ../shared/zoo/tiny/whisper-gguf against what transformers
 * and transcribe.cpp made of it (decode.json there). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "speech/text/language.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/whisper_run.h"
#include "tests/support/zoo.h"

#define DIR "zoo/tiny/whisper-gguf/"
#define MOST 40     /* tokens that transformers wrote */
#define PIECES 1871 /* of the vocabulary; those from no_times on are never written there */
#define MOST_TEXT 4096
#define SECONDS 30

static steno_json *recorded;

static int setup(void **state)
{
    size_t n;
    char *bytes = steno_test_shared(DIR "decode.json", &n);
    (void)state;
    if (bytes)
        assert_int_equal(steno_json_parse(&recorded, bytes, n, "decode.json", NULL), STENO_OK);
    free(bytes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    steno_json_close(recorded);
    return 0;
}

static const char *path_of(const char *kind)
{
    static char path[4096];
    const char *shared = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/" DIR "whisper-tiny-random-%s.gguf",
             shared ? shared : "../shared", kind);
    return path;
}

static void keep_window(void *arg, const int32_t *prompt, size_t n,
                        const struct steno_whisper_decoded *d)
{
    (void)prompt;
    (void)n;
    *(struct steno_whisper_decoded *)arg = *d;
}

static void ignore_segment(void *arg, const struct steno_whisper_segment *s)
{
    (void)arg;
    (void)s;
}

/* Greedy, without times and without other temperatures; never: pieces that are not written. */
static void decode(const struct whisper_net *net, const char *name, size_t most,
                   const int32_t *never, size_t n_never, struct steno_whisper_decoded *out)
{
    const struct whisper_sink sink = {ignore_segment, keep_window, out};
    struct steno_whisper_recording_options o = steno_whisper_recording_default(net->m);
    float probability, *pcm;
    steno_err err = {0};
    int language;
    size_t n;
    pcm = zoo_recording(name, 0, SECONDS, &n); /* they fill the window with silence */
    assert_non_null(pcm);
    n = SECONDS * STENO_WHISPER_RATE;
    o.language = steno_language_find("en");
    o.times = o.words = false;
    o.decode.n_temperatures = 1;
    o.decode.search.beam = 1;
    o.decode.search.max_new = most;
    o.decode.search.rules.suppress = never;
    o.decode.search.rules.n_suppress = n_never;
    out->n = 0;
    if (whisper_run(net->r, pcm, n, 0, &o, &sink, &language, &probability, &err))
        fail_msg("%s", err.msg);
    free(pcm);
}

static void f16_writes_what_transformers_does(void **state)
{
    static struct steno_whisper_decoded d;
    int32_t never[PIECES];
    size_t n_never = 0, rows = 0;
    struct whisper_net net;
    (void)state;
    if (!recorded)
        skip();
    whisper_net_open(&net, path_of("F16"), STENO_FP32);
    assert_int_equal(net.m->special.sot, 264);
    assert_int_equal(net.m->special.no_times, 369);
    assert_int_equal(net.m->special.n_languages, 99);
    assert_int_equal(net.m->n_not_first, 1); /* the end alone, as the file says */
    assert_int_equal(net.m->not_first[0], 263);
    for (; n_never < net.m->n_suppressed; n_never++)
        never[n_never] = net.m->suppressed[n_never];
    for (int32_t id = net.m->special.no_times; id < PIECES; id++)
        never[n_never++] = id;
    for (const struct steno_json_node *row =
             steno_json_get(steno_json_root(recorded), "own")->first;
         row; row = row->next, rows++) {
        const struct steno_json_node *id = steno_json_get(row, "ids")->first;
        size_t same = 0;
        decode(&net, row->key, MOST, never, n_never, &d);
        for (; id && same < d.n && strtol(id->text, NULL, 10) == d.ids[same]; id = id->next)
            same++;
        if (same < MOST)
            fail_msg("%s: %zu of %d ids are those of transformers", row->key, same, MOST);
    }
    assert_int_equal(rows, 3);
    whisper_net_close(&net);
}

/* Edits between want [n] and the begin of `text` that is nearest to it. */
static size_t edits(const char *want, size_t n, const char *text, size_t k)
{
    size_t *row = calloc(k + 1, sizeof *row), least;
    assert_non_null(row);
    for (size_t j = 0; j <= k; j++)
        row[j] = j;
    for (size_t i = 0; i < n; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < k; j++) {
            const size_t above = row[j + 1], change = corner + (want[i] != text[j]);
            const size_t gap = (above < row[j] ? above : row[j]) + 1;
            row[j + 1] = change < gap ? change : gap;
            corner = above;
        }
    }
    least = row[0];
    for (size_t j = 0; j <= k; j++)
        least = row[j] < least ? row[j] : least;
    free(row);
    return least;
}

/* As far as it goes on, where a piece of time ends its text. ggml rounds activations to 8 bits,
 * too: where weights have blocks, a random network soon writes another text. */
static void text_is_near_that_of_transcribe_cpp(void **state)
{
    static const struct {
        const char *kind;
        size_t most; /* edits in a hundred bytes */
    } files[] = {{"F16", 0}, {"Q8_0", 30}, {"Q4_K_M", 40}};
    static struct steno_whisper_decoded d;
    (void)state;
    if (!recorded)
        skip();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const struct steno_json_node *sets =
            steno_json_get(steno_json_root(recorded), "transcribe.cpp, no fallback");
        struct whisper_net net;
        size_t all = 0, wrong = 0;
        whisper_net_open(&net, path_of(files[i].kind), STENO_FP32);
        for (const struct steno_json_node *row = steno_json_get(sets, files[i].kind)->first; row;
             row = row->next) {
            const char *want = steno_json_get(row, "raw_text")->text;
            struct steno_buf text;
            decode(&net, row->key, 0, net.m->suppressed, net.m->n_suppressed, &d);
            steno_buf_init(&text, MOST_TEXT);
            assert_int_equal(steno_bpe_text(net.m->bpe, d.ids, d.n, &text), STENO_OK);
            wrong += edits(want, strlen(want), text.data, text.len);
            all += strlen(want);
            steno_buf_free(&text);
        }
        whisper_net_close(&net);
        if (!all || wrong * 100 > files[i].most * all)
            fail_msg("%s: %zu edits in %zu bytes", files[i].kind, wrong, all);
    }
}

/* The 8 bits of --precision int8, too. */
static void every_precision_opens(void **state)
{
    static struct steno_whisper_decoded d;
    struct whisper_net net;
    (void)state;
    if (!recorded)
        skip();
    whisper_net_open(&net, path_of("Q8_0"), STENO_INT8_WEIGHTS);
    decode(&net, "61-70968-0000", MOST, net.m->suppressed, net.m->n_suppressed, &d);
    assert_true(d.n > 0);
    whisper_net_close(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_writes_what_transformers_does),
        cmocka_unit_test(text_is_near_that_of_transcribe_cpp),
        cmocka_unit_test(every_precision_opens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
