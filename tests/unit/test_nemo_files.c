/* Parakeet from one file: GGUF and whisper.cpp's ggml files. The tiny network of
 * ../shared/zoo/tiny/parakeet-files, of which every format holds the weights, against its ONNX
 * networks (decode.json there); toys in memory against each other, and every kind of damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "speech/families/nemo/file.h"
#include "tests/support/nemo_toy.h"
#include "tests/support/nemo_zoo.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define DIR "zoo/tiny/parakeet-files/"
#define FRAME 0.08 /* s */

/* ---- the zoo ------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[4096];
    const char *shared = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/" DIR "%s", shared ? shared : "../shared", name);
    return path;
}

/* Rows of the ONNX networks; the caller closes *j. NULL: ../shared is not there. */
static const struct steno_json_node *open_rows(steno_json **j)
{
    size_t n;
    char *bytes = steno_test_shared(DIR "decode.json", &n);
    if (!bytes)
        return NULL;
    assert_int_equal(steno_json_parse(j, bytes, n, "decode.json", NULL), STENO_OK);
    free(bytes);
    return steno_json_get(steno_json_get(steno_json_root(*j), "sets"), "ONNX own")->first;
}

struct wanted {
    int32_t id[MAX_TOKENS];
    long frame[MAX_TOKENS];
    size_t n;
};

static void read_row(const struct steno_json_node *row, struct wanted *w)
{
    w->n = 0;
    for (const struct steno_json_node *t = steno_json_get(row, "tokens")->first; t; t = t->next) {
        w->id[w->n] = (int32_t)strtol(t->first->text, NULL, 10);
        w->frame[w->n++] = strtol(t->first->next->text, NULL, 10);
    }
}

static size_t edits(const struct result *r, const struct wanted *w)
{
    size_t row[MAX_TOKENS + 1];
    for (size_t j = 0; j <= w->n; j++)
        row[j] = j;
    for (size_t i = 0; i < r->n; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < w->n; j++) {
            const size_t above = row[j + 1], change = corner + (r->t[i].id != w->id[j]);
            const size_t gap = (above < row[j] ? above : row[j]) + 1;
            row[j + 1] = change < gap ? change : gap;
            corner = above;
        }
    }
    return row[w->n];
}

/* Decode all rows with a file. *edited: tokens that differ; *moved: frames of equal ones. */
static void decode_rows(const char *name, const struct set *set, const struct steno_json_node *row,
                        size_t *tokens, size_t *edited, size_t *moved)
{
    static struct result r;
    static struct wanted w;
    steno_model *m = nemo_open_model(set, path_of(name));
    *tokens = *edited = *moved = 0;
    for (; row; row = row->next) {
        struct audio a = nemo_audio(row->key, 0, 0);
        assert_non_null(a.pcm);
        nemo_decode(m, set, &a, 0, &r);
        read_row(row, &w);
        *tokens += w.n;
        *edited += edits(&r, &w);
        for (size_t i = 0; i < r.n && i < w.n; i++)
            *moved += (long)(r.t[i].start / FRAME + 0.5) != w.frame[i];
        free(a.pcm);
    }
    steno_model_close(m);
}

static void exact_files_give_the_tokens_of_the_networks(void **state)
{
    static const char *const names[] = {"parakeet-tiny-F32.gguf", "parakeet-tiny-F16.gguf",
                                        "ggml-parakeet-tiny-f32.bin", "ggml-parakeet-tiny-f16.bin"};
    const struct set set = {.transducer = true};
    size_t tokens, edited, moved;
    steno_json *j = NULL;
    const struct steno_json_node *rows = open_rows(&j);
    (void)state;
    if (!rows)
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        decode_rows(names[i], &set, rows, &tokens, &edited, &moved);
        assert_int_equal(tokens, 42);
        if (edited || moved)
            fail_msg("%s: %zu tokens and %zu frames of %zu differ", names[i], edited, moved,
                     tokens);
    }
    steno_json_close(j);
}

/* A random network has near ties everywhere, and rounded weights turn them. */
static void rounded_files_are_near(void **state)
{
    static const struct {
        const char *name;
        size_t most; /* edits in a hundred tokens */
    } files[] = {{"parakeet-tiny-BF16.gguf", 25},   {"parakeet-tiny-Q8_0.gguf", 35},
                 {"parakeet-tiny-Q6_K.gguf", 35},   {"parakeet-tiny-Q5_K_M.gguf", 50},
                 {"parakeet-tiny-Q4_K_M.gguf", 65}, {"ggml-parakeet-tiny-q8_0.bin", 45}};
    const struct set set = {.transducer = true};
    size_t tokens, edited, moved;
    steno_json *j = NULL;
    const struct steno_json_node *rows = open_rows(&j);
    (void)state;
    if (!rows)
        skip();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        decode_rows(files[i].name, &set, rows, &tokens, &edited, &moved);
        if (edited * 100 > files[i].most * tokens)
            fail_msg("%s: %zu edits of %zu tokens", files[i].name, edited, tokens);
    }
    steno_json_close(j);
}

static size_t weight_bytes(const char *name, bool automatic)
{
    const struct set set = {.transducer = true, .automatic = automatic};
    steno_model *m = nemo_open_model(&set, path_of(name));
    struct steno_model_info i;
    steno_model_get_info(m, &i);
    steno_model_close(m);
    return i.weight_bytes;
}

/* Precision auto: files of blocks run in fewer bits where the CPU multiplies bytes; others as they
 * are. */
static void blocks_may_be_rounded_again(void **state)
{
    unsigned cpu;
    size_t plain;
    steno_json *j = NULL;
    (void)state;
    if (!open_rows(&j))
        skip();
    steno_json_close(j);
    assert_int_equal(steno_cpu_choose(NULL, &cpu, NULL), STENO_OK);
    plain = weight_bytes("parakeet-tiny-F16.gguf", false);
    assert_int_equal(weight_bytes("parakeet-tiny-F16.gguf", true), plain);
    assert_int_equal(weight_bytes("parakeet-tiny-Q8_0.gguf", false), plain);
    if (cpu & (STENO_CPU_AVX2 | STENO_CPU_DOTPROD))
        assert_true(weight_bytes("parakeet-tiny-Q8_0.gguf", true) < plain);
}

static void a_file_says_its_languages(void **state)
{
    struct steno_model_languages l = {0};
    steno_json *j = NULL;
    (void)state;
    if (!open_rows(&j))
        skip();
    steno_json_close(j);
    assert_true(steno_model_languages(path_of("parakeet-tiny-Q8_0.gguf"), &l));
    assert_string_equal(l.languages, "en");
    assert_false(steno_model_languages(path_of("ggml-parakeet-tiny-q8_0.bin"), &l));
}

/* ---- toys ---------------------------------------------------------------------------------- */

static struct steno_buf toy(enum nemo_toy_format f)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    nemo_toy_write(f, &b);
    return b;
}

static steno_nemo_file *parse_toy(enum nemo_toy_format f, struct steno_buf *b)
{
    steno_nemo_file *file = NULL;
    steno_err err = {0};
    *b = toy(f);
    if (steno_nemo_file_open(&file, "toy", b->data, b->len, &err))
        fail_msg("%s", err.msg);
    return file;
}

/* Constants of both graphs, in the order in which they were made. */
static void compare_graphs(struct steno_graph *x, struct steno_graph *y)
{
    assert_int_equal(x->n_values, y->n_values);
    for (int32_t i = 0; i < x->n_values; i++) {
        const struct steno_tensor *a = x->values[i].constant, *b = y->values[i].constant;
        assert_int_equal(!a, !b);
        if (!a)
            continue;
        assert_string_equal(x->values[i].name, y->values[i].name);
        assert_true(steno_shape_equal(&a->shape, &b->shape));
        assert_int_equal(steno_graph_fetch(x, i, NULL), STENO_OK);
        assert_int_equal(steno_graph_fetch(y, i, NULL), STENO_OK);
        if (memcmp(a->data, b->data, steno_numel(a) * steno_dtype_size(a->dtype)))
            fail_msg("%s differs", x->values[i].name);
    }
}

/* The format against transcribe.cpp's GGUF, with the same weights. */
static void compare_format(enum nemo_toy_format format)
{
    struct steno_buf b[2];
    steno_nemo_file *f[2] = {parse_toy(NEMO_TOY_GGUF, &b[0]), parse_toy(format, &b[1])};
    const struct steno_nemo_file_info *i = steno_nemo_file_info(f[0]);
    assert_string_equal(i->tokens, "<unk> 0\n\xE2\x96\x81"
                                   "a 1\nb 2\n<blk> 3\n");
    assert_string_equal(steno_nemo_file_info(f[1])->tokens, i->tokens);
    assert_int_equal(steno_nemo_file_info(f[1])->arch.joint, i->arch.joint);
    assert_int_equal(steno_nemo_file_info(f[1])->arch.durations, 2);
    for (int part = STENO_NEMO_ENCODER; part <= STENO_NEMO_JOINER; part++) {
        struct steno_graph *g[2] = {NULL, NULL};
        steno_err err = {0};
        for (int k = 0; k < 2; k++)
            if (steno_nemo_file_build(f[k], (enum steno_nemo_part)part, &g[k], &err))
                fail_msg("%s", err.msg);
        compare_graphs(g[0], g[1]);
        steno_graph_free(g[0]);
        steno_graph_free(g[1]);
    }
    for (int k = 0; k < 2; k++) {
        steno_nemo_file_close(f[k]);
        steno_buf_free(&b[k]);
    }
}

static void formats_give_the_same_networks(void **state)
{
    struct steno_buf b;
    steno_nemo_file *f = parse_toy(NEMO_TOY_GGUF, &b), *ggml;
    const struct steno_nemo_file_info *i = steno_nemo_file_info(f);
    (void)state;
    assert_string_equal(i->languages, "en de");
    assert_int_equal(i->arch.vocab, 3);
    assert_int_equal(i->max_tokens, 10);
    steno_nemo_file_close(f);
    steno_buf_free(&b);
    ggml = parse_toy(NEMO_TOY_GGML, &b);
    assert_int_equal(steno_nemo_file_info(ggml)->max_tokens, 10);
    steno_nemo_file_close(ggml);
    steno_buf_free(&b);
    compare_format(NEMO_TOY_GGML);
    compare_format(NEMO_TOY_CRISPASR);
}

static void scores_of_ctc_are_in_the_encoder(void **state)
{
    struct steno_buf b;
    steno_nemo_file *f = parse_toy(NEMO_TOY_GGUF_CTC, &b);
    struct steno_graph *g = NULL;
    const struct steno_value *y;
    steno_err err = {0};
    (void)state;
    assert_true(steno_nemo_file_info(f)->ctc);
    if (steno_nemo_file_build(f, STENO_NEMO_ENCODER, &g, &err))
        fail_msg("%s", err.msg);
    y = &g->values[g->outputs[0]];
    assert_string_equal(y->name, "logprobs");
    assert_int_equal(y->shape.dim[2], 4);
    steno_graph_free(g);
    g = NULL;
    assert_int_equal(steno_nemo_file_build(f, STENO_NEMO_DECODER, &g, &err), STENO_ERR_INVAL);
    steno_nemo_file_close(f);
    steno_buf_free(&b);
}

static void a_transducer_needs_no_durations(void **state)
{
    struct steno_buf b;
    steno_nemo_file *f = parse_toy(NEMO_TOY_GGUF_RNNT, &b);
    struct steno_graph *g = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_nemo_file_info(f)->arch.durations, 0);
    if (steno_nemo_file_build(f, STENO_NEMO_JOINER, &g, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(g->values[g->outputs[0]].shape.dim[3], 4);
    steno_graph_free(g);
    steno_nemo_file_close(f);
    steno_buf_free(&b);
}

static void write_toy(const char *path, enum nemo_toy_format format)
{
    struct steno_buf b = toy(format);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    steno_buf_free(&b);
}

static void check_directory(const char *dir)
{
    steno_model *m;
    steno_err err;
    assert_string_equal(steno_model_family(dir), "nemo");
    assert_int_equal(steno_model_check(dir, NULL, 0, &err), STENO_OK);
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s", err.msg);
    steno_model_close(m);
}

/* A file that is called .bin and is none of ggml's does not count. */
static void a_directory_with_one_file_is_the_model_too(void **state)
{
    char dir[] = "/tmp/steno-gguf-XXXXXX", one[64], two[64], other[64];
    struct steno_model_languages l;
    steno_model *m;
    steno_err err;
    FILE *f;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(one, sizeof one, "%s/a.gguf", dir);
    snprintf(two, sizeof two, "%s/ggml-parakeet.bin", dir);
    snprintf(other, sizeof other, "%s/other.bin", dir);
    f = fopen(other, "wb");
    assert_non_null(f);
    assert_true(fputs("not a model", f) >= 0);
    assert_int_equal(fclose(f), 0);
    write_toy(one, NEMO_TOY_GGUF);
    check_directory(dir);
    assert_true(steno_model_languages(dir, &l));
    write_toy(two, NEMO_TOY_GGML);
    assert_null(steno_model_family(dir));
    assert_int_equal(steno_model_open(&m, dir, NULL, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "there are 2 GGUF and ggml files"));
    remove(one);
    check_directory(dir);
    remove(two), remove(other), remove(dir);
}

/* From the path to a stream, in every precision. */
static void a_file_is_a_model(void **state)
{
    (void)state;
    for (int f = 0; f < NEMO_TOY_FORMATS; f++) {
        char path[] = "/tmp/steno-nemo-XXXXXX";
        const int fd = mkstemp(path);
        struct steno_buf b = toy((enum nemo_toy_format)f);
        struct audio a = {.n = RATE};
        assert_true(fd >= 0 && write(fd, b.data, b.len) == (ssize_t)b.len);
        close(fd);
        a.pcm = calloc(a.n, sizeof *a.pcm);
        assert_non_null(a.pcm);
        for (int automatic = 0; automatic < 2; automatic++) {
            const struct set set = {.transducer = true, .automatic = automatic};
            static struct result r;
            steno_model *m = nemo_open_model(&set, path);
            nemo_decode(m, &set, &a, 1000, &r);
            steno_model_close(m);
        }
        unlink(path);
        free(a.pcm);
        steno_buf_free(&b);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (int f = 0; f < NEMO_TOY_FORMATS; f++) {
        struct steno_buf b = toy((enum nemo_toy_format)f);
        for (size_t n = 0; n < b.len; n++) {
            void *copy = malloc(n + 1); /* an exact block, for AddressSanitizer */
            steno_nemo_file *file = NULL;
            struct steno_graph *g = NULL;
            steno_err err = {0};
            bool whole = true;
            assert_non_null(copy);
            memcpy(copy, b.data, n);
            if (!steno_nemo_file_open(&file, "cut", copy, n, &err))
                for (int part = 0; part < (f == NEMO_TOY_GGUF_CTC ? 1 : 3); part++) {
                    whole =
                        !steno_nemo_file_build(file, (enum steno_nemo_part)part, &g, &err) && whole;
                    steno_graph_free(g);
                    g = NULL;
                }
            if (file && whole)
                fail_msg("format %d: %zu of %zu bytes are taken", f, n, b.len);
            assert_non_null(strstr(err.msg, "cut"));
            steno_nemo_file_close(file);
            free(copy);
        }
        steno_buf_free(&b);
    }
}

/* Replace the n bytes `from` by `to` in the toy, which must be refused with `text`. */
static void check_refused(enum nemo_toy_format f, const char *from, const char *to, size_t n,
                          const char *text)
{
    struct steno_buf b = toy(f);
    steno_nemo_file *file = NULL;
    struct steno_graph *g = NULL;
    steno_err err = {0};
    char *at = NULL;
    for (size_t i = 0; i + n <= b.len && !at; i++)
        if (!memcmp(b.data + i, from, n))
            at = b.data + i;
    assert_non_null(at);
    memcpy(at, to, n);
    if (!steno_nemo_file_open(&file, "bad", b.data, b.len, &err))
        for (int part = 0; part < 3 && !*err.msg; part++) {
            (void)!steno_nemo_file_build(file, (enum steno_nemo_part)part, &g, &err);
            steno_graph_free(g);
            g = NULL;
        }
    if (!strstr(err.msg, text))
        fail_msg("'%s' does not say '%s'", err.msg, text);
    steno_nemo_file_close(file);
    steno_buf_free(&b);
}

static void every_fault_is_named(void **state)
{
    const enum nemo_toy_format gguf = NEMO_TOY_GGUF, ggml = NEMO_TOY_GGML;
    (void)state;
    check_refused(gguf, "parakeet\x11", "perroquet", 8,
                  "'general.architecture' is 'perroque', known: parakeet");
    check_refused(gguf, "att_context_style\x8\0\0\0\7\0\0\0\0\0\0\0regular",
                  "att_context_style\x8\0\0\0\7\0\0\0\0\0\0\0chunked", 36,
                  "known: regular, chunked_limited, chunked_limited_with_rc");
    check_refused(gguf, "predictor.n_layers", "prompt.num_prompts", 18,
                  "key 'stt.parakeet.prompt.hidden' is missing");
    check_refused(gguf, "batch_norm", "group_norm", 10, "known: batch_norm, layer_norm");
    check_refused(gguf, "n_fft\4\0\0\0\0\2", "n_fft\4\0\0\0\0\4", 11,
                  "'stt.frontend.n_fft' is 'missing or another number', known: 512");
    check_refused(gguf, "per_feature", "per_segment", 11, "known: per_feature, none, NA");
    check_refused(gguf, "encoder.n_heads\4\0\0\0\2", "encoder.n_heads\4\0\0\0\3", 20,
                  "4 columns in 3 heads");
    check_refused(gguf, "encoder.n_layers", "encoder.m_layers", 16,
                  "key 'stt.parakeet.encoder.n_layers' is missing");
    check_refused(gguf, "\0\0\0\0\1\0\0\0\x1c\0\0\0\0\0\0\0stt.parakeet.tdt.max",
                  "\0\0\0\0\2\0\0\0\x1c\0\0\0\0\0\0\0stt.parakeet.tdt.max", 36,
                  "known: 0, 1, 2, .. in this order");
    check_refused(gguf, "blank_token_id\4\0\0\0\3", "blank_token_id\4\0\0\0\2", 19,
                  "is not that of the last of 4 pieces");
    check_refused(gguf, "tdt\x1f", "aed\x1f", 3, "known: tdt, rnnt, ctc");
    check_refused(gguf, "joint.out.bias", "joint.oot.bias", 14,
                  "'joint.joint_net.2.bias' is missing");
    check_refused(ggml, "\0\2\0\0\2\0\0\0\2", "\0\4\0\0\2\0\0\0\2", 9,
                  "1024 samples of an FFT in the header of a Parakeet, expected 512 to 512");
    check_refused(ggml, "encoder.layers.0.norm_out.bias", "encoder.layers.0.norm_aut.bias", 30,
                  "norm_out.bias' is missing");
    check_refused(ggml, "encoder.layers.0.norm_out.bias", "encoder.layers.0.norm_out.weig", 30,
                  "norm_out.bias' is missing");
}

static void every_fault_of_a_streaming_encoder_is_named(void **state)
{
    const enum nemo_toy_format live = NEMO_TOY_GGUF_LIVE;
    (void)state;
    check_refused(live, "conv_context_left\5\0\0\0\2", "conv_context_left\5\0\0\0\1", 22,
                  "causal convolutions (conv_context_left 2, here 1)");
    check_refused(live, "drop_extra_pre_encoded\5\0\0\0\2", "drop_extra_pre_encoded\5\0\0\0\3", 27,
                  "2 encoder frames are dropped (here 3, 3)");
    check_refused(live, "normalize\x8\0\0\0\4\0\0\0\0\0\0\0none",
                  "normalise\x8\0\0\0\4\0\0\0\0\0\0\0none", 25, "no normalisation");
    check_refused(live, "\6\0\0\0\2\0\0\0\6\0\0\0\0", "\6\0\0\0\3\0\0\0\6\0\0\0\0", 13,
                  "in whole chunks");
    check_refused(live, "en-US", "en\"US", 5, "a name that is no language");
    check_refused(live, "indices\x9\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\1",
                  "indices\x9\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\3", 28,
                  "a number that is none of 3 prompts");
    check_refused(live, "prompt.mlp.2.bias", "prompt.mlp.3.bias", 17,
                  "'prompt_kernel.2.bias' is missing");
}

static void every_fault_of_crispasr_is_named(void **state)
{
    const enum nemo_toy_format crispasr = NEMO_TOY_CRISPASR;
    (void)state;
    check_refused(crispasr, "parakeet.xscaling", "parakeet.xscalinG", 17,
                  "key 'parakeet.xscaling' is missing");
    check_refused(crispasr, "n_fft\4\0\0\0\0\2", "n_fft\4\0\0\0\0\4", 11,
                  "key 'parakeet.n_fft' is missing or no number from 512 to 512");
    check_refused(crispasr, "blank_id\4\0\0\0\3", "blank_id\4\0\0\0\2", 13,
                  "blank_id is not 3, the pieces");
    check_refused(crispasr, "n_tdt_durations\4\0\0\0\2", "n_tdt_durations\4\0\0\0\1", 20,
                  "key 'parakeet.tdt_durations': known: 0, 1, 2");
    check_refused(crispasr, "decoder.lstm.0.b_hh", "decoder.lstm.1.b_hh", 19,
                  "bias_hh_l0' is missing");
}

/* The chunk is one of those of the training. */
static void a_chunk_can_be_chosen(void **state)
{
    struct steno_buf b;
    steno_nemo_file *f = parse_toy(NEMO_TOY_GGUF_LIVE, &b);
    steno_err err = {0};
    (void)state;
    assert_true(steno_nemo_file_info(f)->arch.streaming);
    assert_string_equal(steno_nemo_file_info(f)->prompts, "{\"en-US\":0,\"de\":1}");
    assert_int_equal(steno_nemo_window(&steno_nemo_file_info(f)->arch), 9);
    assert_int_equal(steno_nemo_file_look(f, 0, &err), STENO_OK);
    assert_int_equal(steno_nemo_window(&steno_nemo_file_info(f)->arch), 5);
    assert_int_equal(steno_nemo_file_look(f, 1, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "lookahead 1: the file has 2, 0"));
    steno_nemo_file_close(f);
    steno_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_files_give_the_tokens_of_the_networks),
        cmocka_unit_test(rounded_files_are_near),
        cmocka_unit_test(blocks_may_be_rounded_again),
        cmocka_unit_test(a_file_says_its_languages),
        cmocka_unit_test(formats_give_the_same_networks),
        cmocka_unit_test(scores_of_ctc_are_in_the_encoder),
        cmocka_unit_test(a_transducer_needs_no_durations),
        cmocka_unit_test(a_file_is_a_model),
        cmocka_unit_test(a_directory_with_one_file_is_the_model_too),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(every_fault_of_a_streaming_encoder_is_named),
        cmocka_unit_test(every_fault_of_crispasr_is_named),
        cmocka_unit_test(a_chunk_can_be_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
