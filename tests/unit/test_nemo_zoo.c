/* The small networks of NeMo's and WeNet's kinds in ../shared/zoo/tiny against what
 * sherpa-onnx 2.0.1 and onnx-asr 0.12.0 decoded with them (decode.json;
 * ../shared/reference/families.md says how). The weights are random, so the texts mean nothing, and
 * a wrong feature, state or rule changes them at once.
 * Segments, pieces and batches are in test_nemo_zoo_segments.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/nemo_zoo.h"
#include "tests/support/test.h"

#define INT8_ERRORS 0.05 /* edit distance per token: sums in 8 bits round otherwise */

/* ---- sets ------------------------------------------------------------------------------------ */

/* Frames of scores that sherpa-onnx computes of a streaming recording: a window is ready when there
 * is more audio than it needs. It has n/160 frames, rounded to the nearest. */
static double sherpa_end(const struct steno_model_info *info, size_t n)
{
    const long window = lround((info->chunk_seconds + info->lookahead_seconds) * 100),
               shift = lround(info->chunk_seconds * 100), frames = ((long)n + 80) / 160;
    long at = 0;
    while (at + window < frames)
        at += shift;
    return (double)at / 100;
}

/* Leave out tokens after `end` s: the recording program stopped there. */
static void cut(const steno_tokens *t, struct result *r, double end)
{
    size_t n = 0;
    while (n < r->n && r->t[n].start < end - 1e-6)
        n++;
    if (n == r->n)
        return;
    r->n = n;
    nemo_spell_text(t, r);
}

/* Run every row of the set. */
static bool run_set(const struct set *s, struct count *c)
{
    const char *dir;
    static struct result r;
    const struct steno_json_node *rows;
    struct steno_model_info info;
    steno_json *j;
    steno_tokens *t;
    steno_model *m;
    *c = (struct count){0};
    if (!nemo_open_rows(s, &j, &t, &rows))
        return false;
    dir = nemo_link(s);
    m = nemo_open_model(s, dir);
    steno_model_get_info(m, &info);
    for (const struct steno_json_node *row = rows->first; row; row = row->next) {
        struct audio a = nemo_audio(row->key, s->seconds, s->streaming ? SILENCE : 0);
        assert_non_null(a.pcm);
        nemo_decode(m, s, &a, 0, &r);
        if (s->streaming)
            cut(t, &r, sherpa_end(&info, a.n));
        nemo_compare(s, t, &r, row, (double)a.n / RATE, c);
        free(a.pcm);
    }
    print_message(
        "# %s, %s: %zu of %zu rows equal, %zu more as on this CPU, %zu edits in %zu tokens\n",
        s->dir, s->name, c->equal, c->rows, c->own, c->edits, c->tokens);
    steno_model_close(m);
    nemo_unlink(dir);
    steno_tokens_close(t);
    steno_json_close(j);
    return true;
}

static void expect_set(const struct set *s)
{
    struct count c;
    if (!run_set(s, &c))
        skip();
    if (!s->int8)
        assert_true(c.equal + s->ties >= c.rows && c.edits <= s->ties);
    else if (!s->wild)
        assert_true((double)c.edits <= INT8_ERRORS * (double)c.tokens);
}

/* ---- Parakeet TDT ---------------------------------------------------------------------------- */

static const struct set tdt = {.dir = "nemo-parakeet-tdt", .part = "", .sherpa = true};

static void check_tdt(const char *name, int beam, const char *penalty, bool int8)
{
    struct set s = tdt;
    s.name = name;
    s.beam = beam;
    s.penalty = penalty;
    s.int8 = int8;
    expect_set(&s);
}

static void tdt_greedy_is_as_recorded(void **state)
{
    (void)state;
    check_tdt("fp32 greedy_search", 1, NULL, false);
}

static void tdt_blank_penalty_is_as_recorded(void **state)
{
    (void)state;
    check_tdt("fp32 greedy_search blank_penalty=1", 1, "1", false);
}

static void tdt_beam_is_as_recorded(void **state)
{
    (void)state;
    check_tdt("fp32 modified_beam_search max_active_paths=4", 4, NULL, false);
}

static void tdt_beam_of_one_path_is_as_recorded(void **state)
{
    struct set s = tdt;
    (void)state;
    s.name = "fp32 modified_beam_search max_active_paths=1";
    s.beam = 1;
    s.modified = true;
    expect_set(&s);
}

static void tdt_hotwords_are_as_recorded(void **state)
{
    struct set s = tdt;
    (void)state;
    s.name = "fp32 modified_beam_search max_active_paths=4 hotwords_score=2 "
             "hotwords='with these/the ring/all nations' modeling_unit=bpe";
    s.hotwords = "with these/the ring/all nations";
    s.hotwords_score = "2"; /* the beam is 4 where there are hot words */
    expect_set(&s);
}

static void tdt_in_8_bits_is_near_what_is_recorded(void **state)
{
    (void)state;
    check_tdt("int8 greedy_search", 1, NULL, true);
    check_tdt("int8 modified_beam_search max_active_paths=4", 4, NULL, true);
}

/* onnx-asr computes the features of the training. Its tokens have no mark of words, so ids are
 * compared. */
static void check_onnx_asr(const char *name, bool int8)
{
    struct set s = {.dir = "nemo-parakeet-tdt",
                    .part = "onnx-asr",
                    .name = name,
                    .int8 = int8,
                    .ids = true,
                    .beam = 1};
    expect_set(&s);
}

static void onnx_asr_layout_is_as_recorded(void **state)
{
    (void)state;
    check_onnx_asr("onnx-asr 0.12.0 fp32 (nemo128 front end, max 10 tokens per frame)", false);
}

static void onnx_asr_layout_in_8_bits_is_near_what_is_recorded(void **state)
{
    (void)state;
    check_onnx_asr("onnx-asr 0.12.0 int8 (nemo128 front end, max 10 tokens per frame)", true);
}

/* One folder has files of several programs; those of onnx-asr are taken. */
static void a_folder_of_many_formats_is_as_recorded(void **state)
{
    const struct set s = {.dir = "parakeet-files",
                          .part = "",
                          .name = "ONNX onnx_asr",
                          .writes_unknown = true,
                          .beam = 1};
    (void)state;
    expect_set(&s);
}

/* ---- GigaAM -------------------------------------------------------------------------------- */

/* sherpa-onnx computes the features of every version in one way, which is none of the training's;
 * onnx-asr computes those of the training. */
static void check_gigaam(const char *dir, const char *name, bool sherpa, bool int8)
{
    struct set s = {.dir = dir,
                    .part = "",
                    .name = name,
                    .int8 = int8,
                    .sherpa = sherpa,
                    .frame = 0.04,
                    .beam = 1};
    expect_set(&s);
}

static void gigaam_ctc_is_as_recorded(void **state)
{
    (void)state;
    check_gigaam("giga-am-v2-ctc", "fp32 sherpa greedy_search", true, false);
    check_gigaam("giga-am-v2-ctc", "fp32 onnx_asr", false, false);
    check_gigaam("giga-am-v2-ctc", "int8 sherpa greedy_search", true, true);
}

static void gigaam_rnnt_is_as_recorded(void **state)
{
    (void)state;
    check_gigaam("giga-am-v3-rnnt", "fp32 sherpa greedy_search", true, false);
    check_gigaam("giga-am-v3-rnnt", "int8 sherpa greedy_search", true, true);
}

static void gigaam_in_the_layout_of_onnx_asr_is_as_recorded(void **state)
{
    const struct set ctc = {.dir = "giga-am-v2-ctc",
                            .part = "onnx-asr",
                            .above = {{"model.onnx", "v2_ctc.onnx"}},
                            .name = "fp32 onnx_asr",
                            .frame = 0.04,
                            .beam = 1},
                     rnnt = {.dir = "giga-am-v3-rnnt",
                             .part = "onnx-asr",
                             .above = {{"encoder.onnx", "v3_rnnt_encoder.onnx"},
                                       {"joiner.onnx", "v3_rnnt_joint.onnx"}},
                             .name = "fp32 onnx_asr",
                             .frame = 0.04,
                             .beam = 1};
    (void)state;
    expect_set(&ctc);
    expect_set(&rnnt);
}

/* ---- Canary ---------------------------------------------------------------------------------- */

/* The recorded tokens of 61-70968-0002 from English to English part from those of ONNX Runtime too,
 * at a near tie late in a loop. In 8 bits ONNX Runtime itself parts from what is recorded within a
 * few tokens on another CPU: of three rows, recording, ONNX Runtime and we have the same two by
 * two.
 */
static void check_canary(const char *name, const char *source, const char *target, bool int8)
{
    struct set s = {.ties = !int8 && strcmp(name, "fp32 src=en tgt=en pnc=1") == 0,
                    .wild = true,
                    .dir = "nemo-canary",
                    .part = "",
                    .name = name,
                    .int8 = int8,
                    .sherpa = true,
                    .beam = 1,
                    .source = source,
                    .target = target};
    expect_set(&s);
}

static void canary_is_as_recorded(void **state)
{
    (void)state;
    check_canary("fp32 src=en tgt=en pnc=1", "en", "en", false);
    check_canary("fp32 src=de tgt=en pnc=1", "de", "en", false);
    check_canary("fp32 src=en tgt=fr pnc=1", "en", "fr", false);
}

static void canary_in_8_bits_decodes(void **state)
{
    (void)state;
    check_canary("int8 src=en tgt=en pnc=1", "en", "en", true);
    check_canary("int8 src=en tgt=fr pnc=1", "en", "fr", true);
}

/* ---- streaming ------------------------------------------------------------------------------- */

static void check_rnnt(const char *name, const char *penalty, bool int8)
{
    struct set s = {.dir = "nemo-rnnt-streaming",
                    .part = "",
                    .name = name,
                    .penalty = penalty,
                    .int8 = int8,
                    .sherpa = true,
                    .beam = 1,
                    .streaming = true};
    expect_set(&s);
}

static void streaming_rnnt_is_as_recorded(void **state)
{
    (void)state;
    check_rnnt("fp32 greedy_search", NULL, false);
    check_rnnt("fp32 greedy_search blank_penalty=1.5", "1.5", false);
}

/* Re-derived rows have the numbers with the marks of languages. */
static void expect_ids(const struct steno_json_node *ids, const struct result *r)
{
    size_t n = 0;
    for (const struct steno_json_node *e = ids->first; e; e = e->next, n++) {
        assert_true(n < r->n);
        assert_int_equal(r->t[n].id, atoi(e->text));
    }
    assert_int_equal(n, r->n);
}

/* Leave marks of languages out, as sherpa-onnx does, with their times. */
static void leave_marks_out(const steno_tokens *t, struct result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (steno_tokens_piece(t, r->t[i].id)[0] != '<')
            r->t[n++] = r->t[i];
    r->n = n;
}

/* "61-70968-0000|<fr-FR>" -> the recording, and the language as a request names it; *language NULL:
 * none. */
static void split_key(const char *key, char recording[32], char buffer[16], const char **language)
{
    const size_t n = strcspn(key, "|");
    snprintf(recording, 32, "%.*s", (int)n, key);
    snprintf(buffer, 16, "%s", key + n + 1 + (key[n + 1] == '<'));
    buffer[strcspn(buffer, ">")] = '\0';
    *language = strcmp(buffer, "None") == 0 ? NULL : buffer;
}

static void check_prompts(const char *name, bool int8)
{
    struct set s = {.dir = "nemotron-3.5-streaming",
                    .part = "",
                    .name = name,
                    .int8 = int8,
                    .sherpa = true,
                    .beam = 1,
                    .streaming = true};
    const struct steno_json_node *rows;
    const char *dir;
    struct count c = {0};
    struct steno_model_info info;
    steno_json *j;
    steno_tokens *t;
    steno_model *m;
    if (!nemo_open_rows(&s, &j, &t, &rows))
        skip();
    dir = nemo_link(&s);
    m = nemo_open_model(&s, dir);
    steno_model_get_info(m, &info);
    for (const struct steno_json_node *row = rows->first; row; row = row->next) {
        static struct result r;
        char recording[32], language[16];
        struct audio a;
        split_key(row->key, recording, language, &s.source);
        if (strcmp(language, "xx-YY") == 0) { /* sherpa-onnx takes it as none */
            const struct steno_stream_options o = {.hints.language = language};
            steno_stream *none = NULL;
            assert_int_equal(steno_stream_open(&none, m, &o, NULL), STENO_ERR_INVAL);
            continue;
        }
        a = nemo_audio(recording, 0, SILENCE);
        assert_non_null(a.pcm);
        nemo_decode(m, &s, &a, 0, &r);
        cut(t, &r, sherpa_end(&info, a.n));
        if (!int8 && steno_json_get(row, "ids"))
            expect_ids(steno_json_get(row, "ids"), &r);
        leave_marks_out(t, &r);
        nemo_compare(&s, t, &r, row, (double)a.n / RATE, &c);
        free(a.pcm);
    }
    print_message("# %s, %s: %zu of %zu rows equal, %zu edits in %zu tokens\n", s.dir, name,
                  c.equal, c.rows, c.edits, c.tokens);
    steno_model_close(m);
    nemo_unlink(dir);
    steno_tokens_close(t);
    steno_json_close(j);
    if (!int8)
        assert_int_equal(c.equal, c.rows);
}

/* Languages are prompts of the encoder; without one the model finds it. */
static void streaming_rnnt_with_prompts_is_as_recorded(void **state)
{
    (void)state;
    check_prompts("fp32 greedy_search (file|language)", false);
    check_prompts("int8 greedy_search (file|language)", true);
}

static void streaming_rnnt_in_8_bits_is_near_what_is_recorded(void **state)
{
    (void)state;
    check_rnnt("int8 greedy_search", NULL, true);
}

/* sherpa-onnx counts 0.04 s for each frame of scores of a streaming CTC model; this one has a
 * subsampling factor of 8, and its frames are 0.08 s apart. Our times are those. */
static void check_ctc(const char *group, bool int8)
{
    struct set s = {.dir = "nemo-fastconformer-ctc-streaming",
                    .part = "",
                    .group = group,
                    .name = "greedy_search",
                    .int8 = int8,
                    .sherpa = true,
                    .beam = 1,
                    .seconds = 15,
                    .step = 0.04,
                    .streaming = true};
    expect_set(&s);
}

static void streaming_ctc_is_as_recorded_with_true_times(void **state)
{
    (void)state;
    check_ctc("fp32", false);
}

static void streaming_ctc_in_8_bits_is_near_what_is_recorded(void **state)
{
    (void)state;
    check_ctc("int8", true);
}

static void check_wenet(const char *group, bool int8)
{
    struct set s = {.dir = "wenet-ctc-streaming",
                    .part = "",
                    .group = group,
                    .name = "greedy_search",
                    .int8 = int8,
                    .sherpa = true,
                    .beam = 1,
                    .seconds = 15,
                    .frame = 0.04,
                    .calm = true,
                    .writes_unknown = true,
                    .streaming = true};
    expect_set(&s);
}

static void streaming_wenet_is_as_recorded(void **state)
{
    (void)state;
    check_wenet("fp32", false);
}

static void streaming_wenet_in_8_bits_is_near_what_is_recorded(void **state)
{
    (void)state;
    check_wenet("int8", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tdt_greedy_is_as_recorded),
        cmocka_unit_test(tdt_blank_penalty_is_as_recorded),
        cmocka_unit_test(tdt_beam_is_as_recorded),
        cmocka_unit_test(tdt_beam_of_one_path_is_as_recorded),
        cmocka_unit_test(tdt_hotwords_are_as_recorded),
        cmocka_unit_test(tdt_in_8_bits_is_near_what_is_recorded),
        cmocka_unit_test(onnx_asr_layout_is_as_recorded),
        cmocka_unit_test(onnx_asr_layout_in_8_bits_is_near_what_is_recorded),
        cmocka_unit_test(a_folder_of_many_formats_is_as_recorded),
        cmocka_unit_test(gigaam_ctc_is_as_recorded),
        cmocka_unit_test(gigaam_rnnt_is_as_recorded),
        cmocka_unit_test(gigaam_in_the_layout_of_onnx_asr_is_as_recorded),
        cmocka_unit_test(canary_is_as_recorded),
        cmocka_unit_test(canary_in_8_bits_decodes),
        cmocka_unit_test(streaming_rnnt_is_as_recorded),
        cmocka_unit_test(streaming_rnnt_with_prompts_is_as_recorded),
        cmocka_unit_test(streaming_rnnt_in_8_bits_is_near_what_is_recorded),
        cmocka_unit_test(streaming_ctc_is_as_recorded_with_true_times),
        cmocka_unit_test(streaming_ctc_in_8_bits_is_near_what_is_recorded),
        cmocka_unit_test(streaming_wenet_is_as_recorded),
        cmocka_unit_test(streaming_wenet_in_8_bits_is_near_what_is_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
