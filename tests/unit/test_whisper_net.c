/* The decoder's step on the toy of tests/support: however a text is put together, its scores are
 * the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "base/arena.h"
#include "speech/families/whisper/build.h"
#include "speech/families/whisper/net.h"
#include "speech/families/whisper/weights_internal.h"
#include "tests/support/test.h"
#include "tests/support/whisper_toy.h"

#define V WHISPER_TOY_VOCAB

static struct toy {
    struct steno_buf file;
    struct steno_whisper m;
    steno_whisper_runner *r;
    float mel[2 * WHISPER_TOY_CTX * WHISPER_TOY_MELS];
} toy;

static void open_network(steno_network **out,
                         steno_status (*make)(void *, struct steno_graph **, steno_err *))
{
    const struct steno_graph_source s = {make, toy.m.weights, "toy"};
    const struct steno_network_options o = {.source = &s, .opt_level = -1};
    steno_err err = {0};
    if (steno_network_open(out, "toy", &o, &err))
        fail_msg("%s", err.msg);
}

static float *positions(const char *name)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(toy.m.weights, name);
    const size_t rows = steno_whisper_row_count(t);
    float *p = steno_aligned_alloc(rows * WHISPER_TOY_STATE * sizeof *p);
    assert_non_null(p);
    steno_whisper_rows(t, 0, rows, p);
    return p;
}

static int setup(void **state)
{
    steno_err err = {0};
    (void)state;
    steno_buf_init(&toy.file, 1 << 22);
    whisper_toy_write(WHISPER_TOY_HF_F32, &toy.file);
    if (steno_whisper_weights_parse(&toy.m.weights, toy.file.data, toy.file.len, "toy", &err))
        fail_msg("%s", err.msg);
    toy.m.dims = steno_whisper_weights_dims(toy.m.weights);
    steno_kernels_init(&toy.m.kernels, 0);
    toy.m.audio_positions = positions("encoder.positional_embedding");
    toy.m.text_positions = positions("decoder.positional_embedding");
    open_network(&toy.m.encoder, steno_whisper_build_encoder);
    open_network(&toy.m.cross, steno_whisper_build_cross);
    open_network(&toy.m.step, steno_whisper_build_step);
    open_network(&toy.m.scores, steno_whisper_build_scores);
    if (steno_whisper_runner_open(&toy.r, &toy.m, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof toy.mel / sizeof *toy.mel; i++)
        toy.mel[i] = (float)sin((double)i);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    steno_whisper_runner_close(toy.r);
    steno_network_close(toy.m.encoder);
    steno_network_close(toy.m.cross);
    steno_network_close(toy.m.step);
    steno_network_close(toy.m.scores);
    steno_whisper_weights_close(toy.m.weights);
    steno_aligned_free(toy.m.audio_positions);
    steno_aligned_free(toy.m.text_positions);
    steno_buf_free(&toy.file);
    return 0;
}

/* A state with a window of n frames. */
static steno_whisper_state *listen(size_t n)
{
    const struct steno_whisper_window w = {
        .mel = toy.mel, .n = n, .rows = WHISPER_TOY_CTX, .floor = -100};
    steno_whisper_state *s;
    assert_int_equal(steno_whisper_state_open(&s, &toy.m, NULL), STENO_OK);
    assert_int_equal(steno_whisper_encode(toy.r, s, &w, NULL), STENO_OK);
    return s;
}

static void step(struct steno_whisper_ask *a, size_t n)
{
    steno_err err = {0};
    if (steno_whisper_step(toy.r, a, n, &err))
        fail_msg("%s", err.msg);
}

/* Scores behind the last of n tokens, all at once. */
static void whole(steno_whisper_state *s, const int32_t *token, size_t n, float *out)
{
    const size_t last = n - 1;
    struct steno_whisper_ask a = {.state = s, .token = token, .n = n, .pick = &last, .n_pick = 1};
    step(&a, 1);
    memcpy(out, a.logits, V * sizeof *out);
}

static void assert_same(const float *a, const float *b)
{
    for (int i = 0; i < V; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i]))))
            fail_msg("score %d: %g, expected %g", i, (double)a[i], (double)b[i]);
}

static const int32_t text[] = {3, 1, 4, 1, 5, 2, 6};

static void a_text_at_once_is_the_text_token_by_token(void **state)
{
    static const size_t zero = 0;
    steno_whisper_state *s = listen(12), *t = listen(12);
    float want[7][V];
    (void)state;
    for (size_t i = 0; i < 7; i++)
        whole(s, text, i + 1, want[i]);
    for (size_t first = 1; first < 7; first++) {
        step(&(struct steno_whisper_ask){.state = t, .token = text, .n = first}, 1);
        for (size_t i = first; i < 7; i++) {
            struct steno_whisper_ask a = {.state = t, .token = &text[i], .parent = &zero, .n = 1};
            step(&a, 1);
            assert_same(a.logits, want[i]);
        }
    }
    steno_whisper_state_close(s);
    steno_whisper_state_close(t);
}

/* Hypotheses trade places, two go on from one: each has the past that its parents say. */
static void hypotheses_have_their_own_past(void **state)
{
    static const int32_t second[] = {1, 2, 7}, third[] = {4, 5, 0};
    static const size_t from_one[] = {0, 0, 0}, swapped[] = {2, 0, 2};
    static const int32_t texts[3][4] = {{3, 1, 7, 4}, {3, 1, 1, 5}, {3, 1, 7, 0}};
    steno_whisper_state *s = listen(12), *t = listen(12);
    struct steno_whisper_ask a = {.state = t, .token = text, .n = 2};
    float have[3][V], want[V];
    (void)state;
    step(&a, 1);
    a = (struct steno_whisper_ask){.state = t, .token = second, .parent = from_one, .n = 3};
    step(&a, 1);
    a = (struct steno_whisper_ask){.state = t, .token = third, .parent = swapped, .n = 3};
    step(&a, 1);
    memcpy(have, a.logits, sizeof have);
    for (int i = 0; i < 3; i++) {
        whole(s, texts[i], 4, want);
        assert_same(have[i], want);
    }
    steno_whisper_state_close(s);
    steno_whisper_state_close(t);
}

/* A text and hypotheses of another recording in one run: each as alone. */
static void recordings_share_a_run(void **state)
{
    static const int32_t two[] = {2, 6};
    static const size_t zeros[] = {0, 0}, last = 4;
    steno_whisper_state *a = listen(12), *b = listen(5), *c = listen(5);
    struct steno_whisper_ask ask[2];
    float want[3][V];
    (void)state;
    whole(a, text, 5, want[0]);
    for (int i = 0; i < 2; i++)
        whole(c, (int32_t[]){3, 1, two[i]}, 3, want[1 + i]);
    step(&(struct steno_whisper_ask){.state = b, .token = text, .n = 2}, 1);
    ask[0] =
        (struct steno_whisper_ask){.state = a, .token = text, .n = 5, .pick = &last, .n_pick = 1};
    ask[1] = (struct steno_whisper_ask){.state = b, .token = two, .parent = zeros, .n = 2};
    step(ask, 2);
    assert_same(ask[0].logits, want[0]);
    assert_same(ask[1].logits, want[1]);
    assert_same(ask[1].logits + V, want[2]);
    steno_whisper_state_close(a);
    steno_whisper_state_close(b);
    steno_whisper_state_close(c);
}

static void scores_of_a_text_come_in_parts(void **state)
{
    static const size_t pick[] = {0, 2, 3, 6}, last = 1;
    steno_whisper_state *s = listen(12), *t = listen(12);
    struct steno_whisper_ask ask[2];
    float want[4][V], other[V];
    const float *x;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        whole(s, text, pick[i] + 1, want[i]);
    whole(s, text, 2, other);
    ask[0] = (struct steno_whisper_ask){
        .state = s, .token = text, .n = 7, .pick = pick, .n_pick = 4, .later = true};
    ask[1] =
        (struct steno_whisper_ask){.state = t, .token = text, .n = 2, .pick = &last, .n_pick = 1};
    step(ask, 2);
    assert_same(ask[1].logits, other);
    for (size_t from = 0; from < 4; from += 3) {
        const size_t n = from ? 1 : 3;
        assert_int_equal(steno_whisper_scores(toy.r, &ask[0], from, n, &x, NULL), STENO_OK);
        for (size_t i = 0; i < n; i++)
            assert_same(x + i * V, want[from + i]);
    }
    steno_whisper_state_close(s);
    steno_whisper_state_close(t);
}

static void more_tokens_than_positions_are_refused(void **state)
{
    static const int32_t nine[9] = {0};
    static const size_t zero = 0;
    steno_whisper_state *s = listen(12);
    struct steno_whisper_ask a = {.state = s, .token = nine, .n = 9};
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_whisper_step(toy.r, &a, 1, &err), STENO_ERR_LIMIT);
    assert_string_equal(err.msg, "9 tokens behind 0, the decoder has 8 positions");
    a.n = 8;
    step(&a, 1);
    a = (struct steno_whisper_ask){.state = s, .token = nine, .parent = &zero, .n = 1};
    assert_int_equal(steno_whisper_step(toy.r, &a, 1, NULL), STENO_ERR_LIMIT);
    steno_whisper_state_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_at_once_is_the_text_token_by_token),
        cmocka_unit_test(hypotheses_have_their_own_past),
        cmocka_unit_test(recordings_share_a_run),
        cmocka_unit_test(scores_of_a_text_come_in_parts),
        cmocka_unit_test(more_tokens_than_positions_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
