/* FireRedASR's attention decoder in ../shared/zoo/tiny against sherpa-onnx's results. The network
 * of random weights repeats one token, so they show the features, the first token and the limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steno.h"
#include "tests/support/nemo_zoo.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/zoo.h"

static void rows_are_as_recorded(void **state)
{
    struct zoo_run r = {.dir = "fire-red-asr-aed", .set = "fp32 greedy"};
    struct zoo_count c = zoo_check(&r);
    (void)state;
    assert_int_equal(c.equal, c.rows);
    r.piece = 3000;
    c = zoo_check(&r);
    assert_int_equal(c.equal, c.rows);
}

static void rows_in_8_bits_are_as_recorded(void **state)
{
    const struct set files = {.dir = "fire-red-asr-aed", .part = "", .int8 = true};
    const char *link = nemo_link(&files);
    const struct zoo_count c =
        zoo_check(&(struct zoo_run){.dir = link, .of = "fire-red-asr-aed", .set = "int8 greedy"});
    (void)state;
    nemo_unlink(link);
    assert_int_equal(c.equal, c.rows);
}

/* ---- models that are wrong ------------------------------------------------------------------- */

static void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[256];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_encoder(const char *dir)
{
    static char text[][2][24] = {{"model_type", "fire-red-asr"},
                                 {"num_decoder_layers", "256"},
                                 {"num_head", "1024"},
                                 {"head_dim", "4096"},
                                 {"sos", "1"},
                                 {"eos", "2"},
                                 {"max_len", "100"},
                                 {"cmvn_mean", ""},
                                 {"cmvn_inv_stddev", ""}};
    enum { N = sizeof text / sizeof *text };
    static char numbers[2 * 80];
    Onnx__StringStringEntry e[N], *entries[N];
    struct mk_graph *g = mk_new(13);
    uint8_t *bytes;
    size_t n;
    for (size_t i = 0; i < 80; i++)
        memcpy(numbers + 2 * i, i + 1 < 80 ? "1," : "1", 2);
    for (size_t i = 0; i < N; i++) {
        onnx__string_string_entry__init(&e[i]);
        e[i].key = text[i][0];
        e[i].value = *text[i][1] ? text[i][1] : numbers;
        entries[i] = &e[i];
    }
    mk_input(g, "x", STENO_F32, "N,T,80");
    mk_input(g, "x_lens", STENO_I64, "N");
    pc_graph(g, "Identity x k; Identity x v");
    mk_output(g, "k", STENO_F32, "N,T,80");
    mk_output(g, "v", STENO_F32, "N,T,80");
    mk_message(g)->metadata_props = entries;
    mk_message(g)->n_metadata_props = N;
    bytes = mk_bytes(g, &n);
    write_file(dir, "encoder.onnx", bytes, n);
    free(bytes);
    mk_message(g)->metadata_props = NULL;
    mk_message(g)->n_metadata_props = 0;
    mk_free(g);
}

static void write_decoder(const char *dir, const char *cache)
{
    static const char *const in[] = {"in_n_layer_self_k_cache", "in_n_layer_self_v_cache",
                                     "n_layer_cross_k", "n_layer_cross_v"};
    static const char *const out[] = {"logits", "k", "v"};
    struct mk_graph *g = mk_new(13);
    uint8_t *bytes;
    size_t n;
    mk_input(g, "tokens", STENO_I64, "1,1");
    for (size_t i = 0; i < 4; i++)
        mk_input(g, in[i], STENO_F32, i < 2 ? cache : "256,1,T,4");
    mk_input(g, "offset", STENO_I64, "1");
    for (size_t i = 0; i < 3; i++) {
        mk_node(g, "Identity", in[i], out[i]);
        mk_output(g, out[i], STENO_F32, "a,b,c,d,e");
    }
    bytes = mk_bytes(g, &n);
    write_file(dir, "decoder.onnx", bytes, n);
    free(bytes);
    mk_free(g);
}

/* The product of the extents has more than 64 bits. */
static void caches_of_no_end_are_refused(void **state)
{
    static const char tokens[] = "<pad> 0\n<sos> 1\n<eos> 2\n";
    static const char *const files[] = {"encoder.onnx", "decoder.onnx", "tokens.txt"};
    char dir[] = "/tmp/steno-fire-red-XXXXXX", path[256];
    steno_model *m = NULL;
    steno_err err;
    (void)state;
    assert_non_null(mkdtemp(dir));
    write_encoder(dir);
    write_decoder(dir, "256,1,1099511627776,1024,4096");
    write_file(dir, "tokens.txt", tokens, strlen(tokens));
    assert_int_equal(steno_model_open(&m, dir, NULL, &err), STENO_ERR_FORMAT);
    if (!strstr(err.msg, "decoder.onnx: caches of 1099511627776 positions, at most 65536"))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_recorded),
        cmocka_unit_test(rows_in_8_bits_are_as_recorded),
        cmocka_unit_test(caches_of_no_end_are_refused),
    };
    return cmocka_run_group_tests_name("fire_red", tests, NULL, NULL);
}
