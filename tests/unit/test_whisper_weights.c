/* Readers of Whisper's weights: one toy model in every format, and damaged files. ggml blocks
 * are compared with numbers computed by hand from ggml-quants.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "speech/families/whisper/weights_internal.h"
#include "tests/support/test.h"
#include "tests/support/whisper_toy.h"

static struct steno_buf toy(enum whisper_toy_format f)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 22);
    whisper_toy_write(f, &b);
    return b;
}

static void check_values(const steno_whisper_weights *w, const char *name, float tolerance)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(w, name);
    float row[256];
    size_t n;
    assert_non_null(t);
    n = steno_whisper_row_length(t);
    assert_true(n <= 256);
    for (size_t r = 0; r < steno_whisper_row_count(t); r++) {
        steno_whisper_rows(t, r, 1, row);
        for (size_t i = 0; i < n; i++)
            if (fabsf(row[i] - whisper_toy_element(name, r * n + i)) > tolerance)
                fail_msg("%s[%zu, %zu] is %g, expected %g", name, r, i, (double)row[i],
                         (double)whisper_toy_element(name, r * n + i));
    }
}

static bool is_rounded(int f)
{
    return f == WHISPER_TOY_CT2_I8 || f == WHISPER_TOY_GGML_Q8_0 || f == WHISPER_TOY_GGUF_Q8_0;
}

static void every_format_gives_the_same_view(void **state)
{
    static const char *const names[] = {"encoder.conv1.weight",
                                        "encoder.conv2.bias",
                                        "encoder.positional_embedding",
                                        "encoder.blocks.0.attn.query.weight",
                                        "encoder.blocks.0.attn.key.weight",
                                        "encoder.blocks.0.attn.value.bias",
                                        "decoder.token_embedding.weight",
                                        "decoder.blocks.0.cross_attn.key.weight",
                                        "decoder.blocks.0.cross_attn.value.weight",
                                        "decoder.blocks.0.cross_attn.value.bias",
                                        "decoder.blocks.0.mlp.2.weight",
                                        "decoder.ln.weight"};
    (void)state;
    for (int f = 0; f < WHISPER_TOY_FORMATS; f++) {
        struct steno_buf b = toy((enum whisper_toy_format)f);
        steno_whisper_weights *w = NULL;
        steno_err err = {0};
        if (steno_whisper_weights_parse(&w, b.data, b.len, "toy", &err))
            fail_msg("format %d: %s", f, err.msg);
        whisper_toy_check_dims(w);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            check_values(w, names[i], is_rounded(f) ? 0.5f / 254 : 0);
        steno_whisper_weights_close(w);
        steno_buf_free(&b);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (int f = 0; f < WHISPER_TOY_FORMATS; f++) {
        struct steno_buf b = toy((enum whisper_toy_format)f);
        for (size_t n = 0; n < b.len; n += n < 4096 ? 1 : 97) {
            void *copy = malloc(n + 1); /* an exact block, so that AddressSanitizer sees its end */
            steno_whisper_weights *w = NULL;
            steno_err err = {0};
            assert_non_null(copy);
            memcpy(copy, b.data, n);
            assert_int_not_equal(steno_whisper_weights_parse(&w, copy, n, "cut", &err), STENO_OK);
            assert_non_null(strstr(err.msg, "cut"));
            free(copy);
        }
        steno_buf_free(&b);
    }
}

/* Replace the n bytes `from` by `to` in the toy. The model must be refused with a message that
 * contains `text`. */
static void check_refused(enum whisper_toy_format f, const char *from, const char *to, size_t n,
                          const char *text)
{
    struct steno_buf b = toy(f);
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    char *at = NULL;
    for (size_t i = 0; i + n <= b.len && !at; i++)
        if (!memcmp(b.data + i, from, n))
            at = b.data + i;
    assert_non_null(at);
    memcpy(at, to, n);
    assert_int_not_equal(steno_whisper_weights_parse(&w, b.data, b.len, "bad", &err), STENO_OK);
    if (!strstr(err.msg, text))
        fail_msg("'%s' does not say '%s'", err.msg, text);
    steno_buf_free(&b);
}

static void every_fault_is_named(void **state)
{
    (void)state;
    check_refused(WHISPER_TOY_CT2_F32, "WhisperSpec", "WhisqerSpec", 11, "neither CTranslate2's");
    check_refused(WHISPER_TOY_CT2_F32, "\6\0\0\0", "\7\0\0\0", 4,
                  "format version 7, 4 to 6 are read");
    check_refused(WHISPER_TOY_CT2_F32, "ffn/linear_1/bias", "ffn/linear_9/bias", 17,
                  "tensor 'encoder.blocks.0.mlp.2.bias' is missing");
    check_refused(WHISPER_TOY_CT2_I8, "conv1/weight_scale", "conv1/weight_skale", 18,
                  "variable 'encoder/conv1/weight' is of integers without scales");
    check_refused(WHISPER_TOY_HF_F32, "\"shape\":[9,32]", "\"shape\":[32,9]", 14,
                  "tensor 'decoder.positional_embedding' has the shape [8, 32], expected [8, 9]");
    check_refused(WHISPER_TOY_HF_F32, "[32,2,3]", "[32,2,4]", 8,
                  "its shape and dtype F32 take 1024");
    check_refused(WHISPER_TOY_HF_F32, "F32", "I32", 3, "is of I32, expected F32, F16 or BF16");
    check_refused(WHISPER_TOY_GGUF_F16, "whisper", "walrus.", 7,
                  "a GGUF file of architecture 'walrus.'; known: whisper, ");
    check_refused(WHISPER_TOY_GGUF_F16, "n_fft\4\0\0\0\x90\1", "n_fft\4\0\0\0\0\2", 11,
                  "key 'stt.frontend.n_fft' is missing or not 400");
    check_refused(WHISPER_TOY_GGUF_F16, "sot_token_id", "sat_token_id", 12,
                  "key 'stt.whisper.sot_token_id' is missing or not a number above 0");
    check_refused(WHISPER_TOY_GGUF_F16, "gpt2", "bert", 4,
                  "no list tokenizer.ggml.tokens of a tokenizer.ggml.model gpt2");
    check_refused(WHISPER_TOY_GGUF_F16, "dec.final_norm.bias", "dec.final_norm.baas", 19,
                  "tensor 'decoder.ln.bias' is missing");
    check_refused(WHISPER_TOY_GGML_Q8_0, "encoder.ln_post.bias", "encoder.ln_past.bias", 20,
                  "tensor 'encoder.ln_post.bias' is missing");
}

/* One block of 32: the scale, the rest of the block's header, then the quantized bytes. */
static void check_block(uint32_t type, const unsigned char *bytes, const float *want)
{
    const struct steno_whisper_tensor t = {.type = STENO_WHISPER_GGML,
                                           .ggml = steno_ggml_type(type),
                                           .rank = 1,
                                           .dim = {32},
                                           .data = bytes};
    float out[32];
    steno_whisper_rows(&t, 0, 1, out);
    for (int i = 0; i < 32; i++)
        if (out[i] != want[i])
            fail_msg("type %u, element %d: %g, expected %g", (unsigned)type, i, (double)out[i],
                     (double)want[i]);
}

static void blocks_of_ggml(void **state)
{
    /* d = 0.5 (0x3800), m = -2 (0xC000); byte j is 0x5A + j: the low nibble is 10 + j, the high
     * one 5 plus the carry */
    unsigned char q4_0[18] = {0, 0x38}, q4_1[20] = {0, 0x38, 0, 0xC0};
    unsigned char q5_0[22] = {0, 0x38, 1, 0, 0, 0x80}, q5_1[24] = {0, 0x38, 0, 0xC0, 1, 0, 0, 0x80};
    unsigned char q8_0[34] = {0, 0x38};
    float low[32], w[32];
    (void)state;
    for (int j = 0; j < 16; j++) {
        unsigned char v = (unsigned char)(0x5A + j);
        q4_0[2 + j] = q4_1[4 + j] = q5_0[6 + j] = q5_1[8 + j] = v;
        low[j] = (float)(v & 15);
        low[j + 16] = (float)(v >> 4);
    }
    for (int i = 0; i < 32; i++)
        w[i] = 0.5f * (low[i] - 8);
    check_block(2, q4_0, w);
    for (int i = 0; i < 32; i++)
        w[i] = 0.5f * low[i] - 2;
    check_block(3, q4_1, w);
    low[0] += 16; /* the fifth bits of elements 0 and 31 */
    low[31] += 16;
    for (int i = 0; i < 32; i++)
        w[i] = 0.5f * (low[i] - 16);
    check_block(6, q5_0, w);
    for (int i = 0; i < 32; i++)
        w[i] = 0.5f * low[i] - 2;
    check_block(7, q5_1, w);
    for (int i = 0; i < 32; i++) {
        q8_0[2 + i] = (unsigned char)(i - 16);
        w[i] = 0.5f * (float)(i - 16);
    }
    check_block(8, q8_0, w);
}

static void halves_are_widened_exactly(void **state)
{
    static const uint16_t h[8] = {0x3C00, 0xC000, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7BFF, 0x8000};
    const float want[8] = {1, -2, 0x1p-24f, -1023 * 0x1p-24f, INFINITY, -INFINITY, 65504, -0.0f};
    struct steno_whisper_tensor t = {.type = STENO_WHISPER_F16, .rank = 1, .dim = {8}};
    unsigned char bytes[17];
    float out[8];
    (void)state;
    memcpy(bytes + 1, h, sizeof h); /* at an odd address, as in files */
    t.data = bytes + 1;
    steno_whisper_rows(&t, 0, 1, out);
    assert_memory_equal(out, want, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_same_view),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(blocks_of_ggml),
        cmocka_unit_test(halves_are_widened_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
