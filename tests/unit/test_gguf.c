/* GGUF files: what is in them, and every kind of damage. Blocks of ggml's types. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"
#include "tests/support/gguf_make.h"
#include "tests/support/test.h"

static void make(struct steno_buf *b)
{
    static const float matrix[] = {1, 2, 3, 4, 5, 6};
    static const uint16_t halves[] = {0x3C00, 0xC000};
    struct gguf_make g;
    gguf_make_begin(&g);
    gguf_make_text(&g, "general.architecture", "toy");
    gguf_make_u32(&g, "toy.layers", 4000000000u);
    gguf_make_i32(&g, "toy.left", -1);
    gguf_make_f32(&g, "toy.epsilon", 0.5f);
    gguf_make_flag(&g, "toy.bias", true);
    gguf_make_texts(&g, "toy.pieces", 3, (const char *const[]){"a", "", "bc"});
    gguf_make_ints(&g, "toy.durations", 2, (const int32_t[]){0, -7});
    gguf_make_tensor(&g, "weight", 0, 2, (const int64_t[]){2, 3}, matrix, sizeof matrix);
    gguf_make_tensor(&g, "bias", 1, 1, (const int64_t[]){2}, halves, sizeof halves);
    gguf_make_tensor(&g, "other", 24, 1, (const int64_t[]){2}, halves, 2); /* i8 */
    steno_buf_init(b, 1 << 20);
    gguf_make_end(&g, b);
}

static void keys_and_tensors_are_found(void **state)
{
    const struct steno_gguf_tensor *t;
    struct steno_gguf_list l;
    struct steno_buf b;
    steno_gguf *g = NULL;
    const char *p;
    float x[6];
    double v;
    int64_t i;
    size_t n;
    (void)state;
    make(&b);
    assert_true(steno_gguf_probe(b.data, b.len));
    assert_int_equal(steno_gguf_parse(&g, b.data, b.len, "toy", NULL), STENO_OK);
    assert_string_equal(steno_gguf_text(g, "general.architecture"), "toy");
    assert_null(steno_gguf_text(g, "toy.layers"));
    assert_true(steno_gguf_int(g, "toy.layers", 0, INT64_MAX, &i));
    assert_true(i == 4000000000);
    assert_false(steno_gguf_int(g, "toy.layers", 0, 3, &i));
    assert_true(steno_gguf_int(g, "toy.left", -1, 3, &i));
    assert_int_equal(i, -1);
    assert_true(steno_gguf_int(g, "toy.bias", 0, 1, &i));
    assert_int_equal(i, 1);
    assert_false(steno_gguf_int(g, "toy.epsilon", 0, 1, &i));
    assert_true(steno_gguf_number(g, "toy.epsilon", &v));
    assert_true(v == 0.5);
    assert_false(steno_gguf_number(g, "toy.absent", &v));
    assert_true(steno_gguf_list(g, "toy.pieces", &l));
    assert_false(steno_gguf_next_int(&l, &i));
    for (int k = 0; k < 3; k++) {
        assert_true(steno_gguf_next_text(&l, &p, &n));
        assert_int_equal(n, (size_t)k == 1 ? 0 : k ? 2 : 1);
    }
    assert_memory_equal(p, "bc", 2);
    assert_false(steno_gguf_next_text(&l, &p, &n));
    assert_true(steno_gguf_list(g, "toy.durations", &l));
    assert_true(steno_gguf_next_int(&l, &i) && !i && steno_gguf_next_int(&l, &i));
    assert_int_equal(i, -7);
    assert_false(steno_gguf_next_int(&l, &i));
    assert_false(steno_gguf_list(g, "toy.left", &l));
    assert_int_equal(steno_gguf_count(g), 3);
    t = steno_gguf_find(g, "weight");
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dim[0], 2);
    assert_int_equal(t->dim[1], 3);
    t->type->read(t->data, t->count, x);
    for (int k = 0; k < 6; k++)
        assert_true(x[k] == (float)(k + 1));
    t = steno_gguf_find(g, "bias");
    t->type->read(t->data, t->count, x);
    assert_true(x[0] == 1 && x[1] == -2);
    t = steno_gguf_find(g, "other");
    assert_null(t->type);
    assert_null(t->data);
    assert_int_equal(t->number, 24);
    assert_null(steno_gguf_find(g, "absent"));
    steno_gguf_close(g);
    steno_buf_free(&b);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    struct steno_buf b;
    (void)state;
    make(&b);
    for (size_t n = 0; n + 2 < b.len; n++) { /* the last bytes are of the type that is not read */
        void *copy = malloc(n + 1); /* an exact block, so that AddressSanitizer sees its end */
        steno_gguf *g = NULL;
        steno_err err = {0};
        assert_non_null(copy);
        memcpy(copy, b.data, n);
        if (!steno_gguf_parse(&g, copy, n, "cut", &err) && n < b.len - 32)
            fail_msg("%zu of %zu bytes are taken", n, b.len);
        if (!g)
            assert_non_null(strstr(err.msg, "cut"));
        steno_gguf_close(g);
        free(copy);
    }
    steno_buf_free(&b);
}

/* Replace the n bytes `from` by `to` in the toy, which must be refused with `text`. */
static void check_refused(const void *from, const void *to, size_t n, const char *text)
{
    struct steno_buf b;
    steno_gguf *g = NULL;
    steno_err err = {0};
    char *at = NULL;
    make(&b);
    for (size_t i = 0; i + n <= b.len && !at; i++)
        if (!memcmp(b.data + i, from, n))
            at = b.data + i;
    assert_non_null(at);
    memcpy(at, to, n);
    assert_int_not_equal(steno_gguf_parse(&g, b.data, b.len, "bad", &err), STENO_OK);
    if (!strstr(err.msg, text))
        fail_msg("'%s' does not say '%s'", err.msg, text);
    steno_buf_free(&b);
}

static void every_fault_is_named(void **state)
{
    static const char huge[] = "\0\0\0\0\0\0\0\x7f";
    (void)state;
    check_refused("GGUF\3", "GGUF\2", 5, "GGUF version 2");
    check_refused("GGUF\3\0\0\0", "GGUF\0\0\0\3", 8, "GGUF version 50331648");
    check_refused("GGUF\3\0\0\0\3\0\0\0\0\0\0\0", "GGUF\3\0\0\0\0\0\0\0\0\0\0\x70", 16,
                  "the file ends in its keys or tensors");
    check_refused("toy.left", "toy.bias", 8, "key 'toy.bias': given twice");
    check_refused("toy.left", "toy\0left", 8, "a key holds NUL");
    check_refused("toy.left\5", "toy.left\x11", 9, "key 'toy.left': a value of an unknown type");
    check_refused("toy.durations\t\0\0\0\5", "toy.durations\t\0\0\0\t", 18, "a list of lists");
    check_refused("toy.durations\t\0\0\0\5\0\0\0\2\0", "toy.durations\t\0\0\0\5\0\0\0\2\x7f", 23,
                  "more entries than the file");
    check_refused("weight\2", "weight\5", 7, "tensor 'weight': more than 4 axes");
    check_refused("weight\2\0\0\0\3", "weight\2\0\0\0\0", 11, "cut short, 0 or too large");
    check_refused("weight\2\0\0\0\3\0\0\0\0\0\0\0", "weight\2\0\0\0\0\0\0\0\0\0\0\x7f", 18,
                  "tensor 'weight': ");
    check_refused("weight\2\0\0\0\3\0", "weight\2\0\0\0\3\1", 12, "the data has");
    check_refused("weight\2\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0",
                  "weight\2\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\2", 27, "no whole blocks");
    check_refused("\6\0\0\0\0\0\0\0weight", "\6\0\0\0\0\0\0\x7fweight", 14,
                  "the file ends in a tensor's name");
    check_refused("\xa\0\0\0\0\0\0\0toy.layers", huge, 8, "the file ends in a key");
}

/* Bytes by a rule, with 0.013 and -0.37 as the scales; what they stand for is computed by ggml's
 * own Python package (gguf 0.19.0, quants.dequantize): eight elements, and the sum of all, each
 * times its number from 1. */
static void blocks_are_those_of_ggml(void **state)
{
    static const struct {
        uint32_t type;
        int scale, least; /* where they stand; -1: there is none */
        float want[8];
        double sum;
    } all[] = {
        {2,
         0,
         -1,
         {-0x1.74cp-4f, 0x1.0a4p-4f, 0x1.aap-7f, -0x1.aap-7f, -0x1.aap-7f, -0x1.aap-7f,
          -0x1.3f8p-5f, 0x1.aap-6f},
         -1.57305908203125},
        {3,
         0,
         2,
         {-0x1.66ap-3f, -0x1.531p-2f, -0x1.1ddp-2f, -0x1.2b2p-2f, -0x1.9bep-3f, -0x1.6dbp-2f,
          -0x1.9bep-3f, -0x1.ebcp-3f},
         -138.15472412109375},
        {6,
         0,
         -1,
         {0x1.5a2p-3f, 0x1.df4p-4f, 0x1.0a4p-4f, 0x1.aap-5f, 0x1.3f8p-5f, -0x1.24ep-3f, 0x1.0a4p-4f,
          0x1.0a4p-3f},
         18.68170166015625},
        {7,
         0,
         2,
         {-0x1.f84p-4f, -0x1.1ddp-2f, 0x1.46p-6f, -0x1.ebcp-3f, -0x1.7bp-2f, 0x1.c4p-8f, 0x1.46p-6f,
          -0x1.45cp-2f},
         -64.96197509765625},
        {8,
         0,
         -1,
         {0x1.0d94p+0f, -0x1.5378p-1f, 0x1.4cdp-2f, -0x1.10e8p-1f, -0x1.323p+0f, -0x1.6e18p-1f,
          0x1.aap-4f, -0x1.995cp+0f},
         3.01611328125},
        {10,
         80,
         82,
         {0x1.24ep-2f, 0x1.e068p+0f, 0x1.7bp+1f, 0x1.2711p+2f, 0x1.df4p-4f, 0x1.463ep+2f,
          0x1.acecp+0f, 0x1.3f96p+2f},
         97680.443664550781},
        {11,
         108,
         -1,
         {-0x1.5378p-1f, -0x1.df4p-4f, 0x1.aap-3f, -0x1.3f8p-1f, 0x1.0a4p-3f, 0x1.24ep-3f, 0,
          0x1.24ep+0f},
         1470.8232421875},
        {12,
         0,
         2,
         {0x1.59b28p+4f, 0x1.7e17p+2f, 0x1.79378p+3f, 0x1.59fd8p+3f, 0x1.9af7p+3f, 0x1.21e98p+3f,
          0x1.1e43p+3f, 0x1.7ab5p+4f},
         440808.16528320312},
        {13,
         0,
         2,
         {0x1.40bc8p+4f, 0x1.5be2p+3f, 0x1.43228p+3f, 0x1.3fc8p+3f, 0x1.ab308p+3f, 0x1.626b8p+4f,
          0x1.cea7p+3f, 0x1.7083cp+4f},
         559883.32958984375},
        {14,
         208,
         -1,
         {0x1.372ep+1f, 0x1.0a4p+0f, -0x1.3305p+3f, 0x1.2bf28p+3f, 0x1.f18ep+1f, 0x1.cc1dp+3f,
          -0x1.0a4p+4f, 0x1.02588p+4f},
         19060.808898925781},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct steno_ggml_type *t = steno_ggml_type(all[i].type);
        unsigned char bytes[256];
        float x[256];
        double sum = 0;
        for (unsigned k = 0; k < t->bytes; k++)
            bytes[k] = (unsigned char)(((k * 37 + 11) & 255) ^ (k * k % 251));
        memcpy(bytes + all[i].scale, "\xa8\x22", 2);
        if (all[i].least >= 0)
            memcpy(bytes + all[i].least, "\xec\xb5", 2);
        t->read(bytes, 1, x);
        for (size_t k = 0; k < t->per; k++)
            sum += (double)x[k] * (double)(k + 1);
        for (size_t k = 0; k < 8; k++)
            if (x[k * (t->per - 1) / 7] != all[i].want[k])
                fail_msg("%s, element %zu: %a, expected %a", t->name, k * (t->per - 1) / 7,
                         (double)x[k * (t->per - 1) / 7], (double)all[i].want[k]);
        if (fabs(sum - all[i].sum) > 1e-9 * fabs(all[i].sum))
            fail_msg("%s: the sum is %.17g, expected %.17g", t->name, sum, all[i].sum);
    }
}

static void types_have_sizes(void **state)
{
    size_t n = 0;
    (void)state;
    assert_null(steno_ggml_type(4));
    assert_null(steno_ggml_type(UINT32_MAX));
    assert_true(steno_ggml_bytes(steno_ggml_type(12), 512, 1024, &n));
    assert_int_equal(n, 4 * 144);
    assert_false(steno_ggml_bytes(steno_ggml_type(12), 128, 1024, &n));
    assert_false(steno_ggml_bytes(steno_ggml_type(8), 32, SIZE_MAX - 31, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_tensors_are_found),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(blocks_are_those_of_ggml),
        cmocka_unit_test(types_have_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
