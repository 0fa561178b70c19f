/* Attention at every CPU level, and in networks opened in 16 or 8 bits, against the scalar level
 * in f32: numbers of rows and keys around the tile sizes, masks of every form, positions,
 * batches. The number of threads does not change the bits. */

#include "base/cpu.h"
#include "nn/network/network.h"
#include "nn/ops/weights.h"
#include "tests/support/onnx_make.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 3, SIZE = 20, VALUE = 12, BATCH = 2 };
enum mask { NONE, KEYS, WINDOW, HOLES, ADDED, MASKS };
enum positions { WITHOUT, SHIFTED, BY_KEY, POSITIONS };

struct form {
    size_t batch, rows, keys;
    enum mask mask;
    enum positions positions;
};

static float number(size_t i) /* in [-1,1], without a period that could match a rounding step */
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

static float *numbers(size_t n, size_t from)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = number(i + from) * 1.5f;
    return x;
}

/* Whether the mask hides key j from row i of batch entry b. */
static bool hidden(const struct form *f, size_t b, size_t i, size_t j)
{
    if (f->mask == KEYS)
        return j >= f->keys - b * 5 % f->keys;
    if (f->mask == WINDOW) /* all keys of the last row are hidden */
        return i + 1 == f->rows || j + 40 < i || j > i + 3;
    return (i * 31 + j * 7 + b) % 3 == 0;
}

static void *mask_of(const struct form *f, struct steno_tensor *t)
{
    const size_t rows = f->mask == KEYS ? 1 : f->rows, n = f->batch * rows * f->keys;
    uint8_t *m;
    *t = (struct steno_tensor){
        STENO_BOOL,
        {.rank = 4, .dim = {(int64_t)f->batch, 1, (int64_t)rows, (int64_t)f->keys}},
        NULL};
    if (f->mask == ADDED) {
        t->dtype = STENO_F32;
        t->shape.dim[0] = 1;
        t->shape.dim[1] = HEADS;
        return t->data = numbers(HEADS * rows * f->keys, 11);
    }
    m = malloc(n);
    assert_non_null(m);
    for (size_t i = 0; i < n; i++)
        m[i] = hidden(f, i / f->keys / rows, i / f->keys % rows, i % f->keys);
    return t->data = m;
}

static size_t places(const struct form *f)
{
    return f->positions == BY_KEY ? f->keys : f->rows + f->keys - 1;
}

static steno_network *attention(const struct form *f, enum steno_precision p, const char *cpu)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p, .cpu = cpu};
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    mk_import(g, "ai.steno", 1);
    mk_input(g, "q", STENO_F32, "b,t,60");
    mk_input(g, "k", STENO_F32, "b,s,60");
    mk_input(g, "v", STENO_F32, "b,s,36");
    if (f->mask)
        mk_input(g, "m", f->mask == ADDED ? STENO_F32 : STENO_BOOL, "c,d,e,s");
    if (f->positions) {
        mk_input(g, "p", STENO_F32, "1,l,60");
        mk_input(g, "u", STENO_F32, "60");
        mk_input(g, "w", STENO_F32, "60");
    }
    mk_node(g, "ai.steno:Attention",
            f->positions ? (f->mask ? "q,k,v,m,p,u,w" : "q,k,v,,p,u,w")
            : f->mask    ? "q,k,v,m"
                         : "q,k,v",
            "y");
    mk_attr_int(g, "heads", HEADS);
    mk_attr_int(g, "size", SIZE);
    mk_attr_int(g, "v_size", VALUE);
    mk_attr_int(g, "shift", f->positions != BY_KEY);
    mk_attr_float(g, "scale", 0.25f);
    mk_output(g, "y", STENO_F32, "b,t,36");
    file = mk_bytes(g, &size);
    mk_free(g);
    if (steno_network_open_memory(&n, file, size, "attention", &opt, &err))
        fail_msg("%s", err.msg);
    free(file);
    return n;
}

static void attend(const struct form *f, enum steno_precision p, const char *cpu, int threads,
                   float *y)
{
    const int64_t b = (int64_t)f->batch, t = (int64_t)f->rows, s = (int64_t)f->keys,
                  l = (int64_t)places(f);
    struct steno_session_options so = {.threads = threads};
    steno_network *n = attention(f, p, cpu);
    steno_session *run = NULL;
    steno_err err = {0};
    struct steno_tensor in[7] = {{STENO_F32, {.rank = 3, .dim = {b, t, HEADS * SIZE}}, NULL},
                                 {STENO_F32, {.rank = 3, .dim = {b, s, HEADS * SIZE}}, NULL},
                                 {STENO_F32, {.rank = 3, .dim = {b, s, HEADS * VALUE}}, NULL}};
    int count = 3;
    for (int i = 0; i < 3; i++)
        in[i].data = numbers((size_t)(in[i].shape.dim[0] * in[i].shape.dim[1] * in[i].shape.dim[2]),
                             (size_t)i * 31);
    if (f->mask)
        mask_of(f, &in[count++]);
    if (f->positions) {
        in[count++] = (struct steno_tensor){STENO_F32,
                                            {.rank = 3, .dim = {1, l, HEADS * SIZE}},
                                            numbers((size_t)l * HEADS * SIZE, 5)};
        for (int i = 0; i < 2; i++)
            in[count++] = (struct steno_tensor){STENO_F32,
                                                {.rank = 1, .dim = {HEADS * SIZE}},
                                                numbers(HEADS * SIZE, 77 + (size_t)i * 13)};
    }
    if (steno_session_open(&run, n, &so, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < count; i++)
        if (steno_session_set(run, i, &in[i], &err))
            fail_msg("%s", err.msg);
    if (steno_session_run(run, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(run, 0)->data, f->batch * f->rows * HEADS * VALUE * sizeof *y);
    steno_session_close(run);
    steno_network_close(n);
    for (int i = 0; i < count; i++)
        free(in[i].data);
}

/* Largest difference divided by the largest magnitude of b; NaN where only one of both is NaN. */
static double apart(const float *a, const float *b, size_t n)
{
    double most = 0, range = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) != isnan(b[i]))
            return (double)NAN;
        if (isnan(a[i]))
            continue;
        range = fmax(range, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return range > 0 ? most / range : most;
}

static void check(const struct form *f)
{
    static const struct {
        enum steno_precision p;
        const char *level;
        double most;
    } ways[] = {{STENO_FP32, "native", 2e-5}, /* scores of 20 and more have an error of 2^-19 */
                {STENO_FP32, "avx512", 2e-5},         {STENO_FP32, "avx2", 2e-5},
                {STENO_BF16_WEIGHTS, "native", 3e-2}, {STENO_BF16_WEIGHTS, "bf16", 3e-2},
                {STENO_INT8_WEIGHTS, "avx2", 1e-2},   {STENO_INT8_WEIGHTS, "avxvnni", 1e-2},
                {STENO_INT8_WEIGHTS, "vnni", 1e-2}};
    static float want[BATCH * 150 * HEADS * VALUE], y[BATCH * 150 * HEADS * VALUE],
        again[BATCH * 150 * HEADS * VALUE];
    const size_t n = f->batch * f->rows * HEADS * VALUE;
    attend(f, STENO_FP32, "scalar", 1, want);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        unsigned mask;
        double off;
        if (steno_cpu_level(ways[w].level, steno_cpu_detect(), &mask, NULL))
            continue;
        attend(f, ways[w].p, ways[w].level, 1, y);
        off = apart(y, want, n);
        if (!(off <= ways[w].most))
            fail_msg("%s, precision %d: %zu batches, %zu rows, %zu keys, mask %d, positions %d: "
                     "off by %g",
                     ways[w].level, (int)ways[w].p, f->batch, f->rows, f->keys, (int)f->mask,
                     (int)f->positions, off);
        attend(f, ways[w].p, ways[w].level, 2, again);
        assert_memory_equal(y, again, n * sizeof *y);
    }
}

static void every_form_is_close_to_scalar_f32(void **state)
{
    static const size_t sizes[][2] = {{1, 9},   {8, 8},   {24, 24},  {31, 33},   {32, 32},
                                      {42, 42}, {64, 64}, {65, 150}, {150, 150}, {40, 520}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int m = NONE; m < MASKS; m++)
            for (int p = WITHOUT; p < POSITIONS; p++)
                check(&(struct form){1 + i % 2, sizes[i][0], sizes[i][1], (enum mask)m,
                                     (enum positions)p});
}

static void an_int8_network_attends_in_the_same_way(void **state)
{
    const struct form f = {1, 42, 42, NONE, SHIFTED};
    static float bf16[42 * HEADS * VALUE], i8[42 * HEADS * VALUE];
    (void)state;
    attend(&f, STENO_BF16_WEIGHTS, "native", 1, bf16);
    attend(&f, STENO_INT8_WEIGHTS, "native", 1, i8);
    assert_memory_equal(bf16, i8, sizeof i8);
}

/* Levels with attention in 16-bit integers use it where all rows see all keys: hidden keys would
 * change the units of the others. */
static void integers_serve_rows_that_see_all_keys(void **state)
{
    static const char *const levels[] = {"avx2", "avxvnni", "vnni"};
    static const struct form forms[] = {{2, 42, 42, NONE, WITHOUT},
                                        {2, 42, 42, NONE, SHIFTED},
                                        {2, 42, 42, ADDED, WITHOUT},
                                        {2, 42, 2050, NONE, WITHOUT}};
    static float f32[2 * 42 * HEADS * VALUE], i8[2 * 42 * HEADS * VALUE];
    (void)state;
    if (!(steno_cpu_detect() & STENO_CPU_AVX2))
        skip();
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            attend(&forms[i], STENO_FP32, levels[l], 1, f32);
            attend(&forms[i], STENO_INT8_WEIGHTS, levels[l], 1, i8);
            assert_true(apart(i8, f32, sizeof f32 / sizeof *f32) < 1e-2);
            assert_int_equal(memcmp(f32, i8, sizeof f32) == 0, i > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_close_to_scalar_f32),
        cmocka_unit_test(an_int8_network_attends_in_the_same_way),
        cmocka_unit_test(integers_serve_rows_that_see_all_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
