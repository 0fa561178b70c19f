/* Pass attention on attention as exporters write it, against the graph without passes: lengths
 * on both sides of every tile and block, with and without relative positions and masks, at every
 * CPU level. Near misses stay unchanged. */

#include "nn/network/network.h"
#include "nn/passes/passes.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADS 2
#define SIZE 8
#define V_SIZE 4
#define FULL (HEADS * SIZE)

enum mask { NO_MASK, TAIL, HOLES, ROW_GONE, CAUSAL, WINDOW, ADDED, ADDED_ROWS };
enum shift { NO_SHIFT, LATEST, LEGACY, PADDED, BY_KEY, BY_KEY_CUT };
enum miss { HIT, FILL, AXIS, READ_TWICE, SCALE_VECTOR };

struct shape {
    int64_t batch, rows, keys, positions;
};

static float numbers[1 << 17], bias[2][FULL];

static void fill(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        x = x * 1664525u + 1013904223u;
        numbers[i] = (float)(x >> 8) / (1 << 23) - 1;
    }
    for (size_t i = 0; i < 2 * FULL; i++)
        bias[i / FULL][i % FULL] = numbers[i + 77];
}

/* ---- graphs ---- */

/* x [b, n, heads * size] as [b, n, heads, size]. */
static void split_heads(struct mk_graph *m, const char *x, const char *to, int64_t heads,
                        int64_t size)
{
    int64_t target[4] = {0, -1, heads, size};
    char name[32], in[64];
    snprintf(name, sizeof name, "target_%s", to);
    snprintf(in, sizeof in, "%s,%s", x, name);
    mk_i64(m, name, "4", target, 4);
    mk_node(m, "Reshape", in, to);
}

static void transpose(struct mk_graph *m, const char *x, const char *to, bool last)
{
    static const int64_t front[4] = {0, 2, 1, 3}, back[4] = {0, 2, 3, 1};
    mk_node(m, "Transpose", x, to);
    mk_attr_ints(m, "perm", last ? back : front, 4);
}

static void add_numbers(struct mk_graph *m)
{
    static const int64_t far[1] = {INT64_MAX}, n[4] = {0, 1, 2, 3}, last[1] = {-1};
    mk_i64(m, "last", "1", last, 1);
    mk_i64(m, "n0", "1", n, 1);
    mk_i64(m, "n1", "1", n + 1, 1);
    mk_i64(m, "n2", "1", n + 2, 1);
    mk_i64(m, "n3", "1", n + 3, 1);
    mk_i64(m, "far", "1", far, 1);
}

static void add_shift(struct mk_graph *m, enum shift shift)
{
    static const int64_t pads[8] = {0, 0, 0, 1, 0, 0, 0, 0};
    bool half = shift == LATEST;
    pc_graph(m, "Shape bd bd_shape; Gather bd_shape,n0 bd_b; Gather bd_shape,n1 bd_h; "
                "Gather bd_shape,n2 bd_t; Gather bd_shape,n3 bd_l; "
                "Concat bd_b,bd_h,bd_t,n1 zeros_shape axis=0; ConstantOfShape zeros_shape zeros");
    mk_i64(m, "pads", "8", pads, 8);
    if (shift == PADDED) {
        mk_node(m, "Pad", "bd,pads", "padded");
    } else {
        mk_node(m, "Concat", "zeros,bd", "padded");
        mk_attr_int(m, "axis", -1);
    }
    pc_graph(m, "Add bd_l,n1 bd_l1; Concat bd_b,bd_h,bd_l1,bd_t folded_shape axis=0; "
                "Reshape padded,folded_shape folded; Slice folded,n1,far,n2,n1 cut");
    mk_node(m, "Reshape", "cut,bd_shape", shift == LEGACY ? "shifted" : "back");
    if (shift == PADDED) { /* keep as many columns as there are keys */
        pc_graph(m, "Shape k k_shape; Gather k_shape,n1 keys; Slice back,n0,keys,n3,n1 shifted");
    }
    if (half) {
        pc_graph(m, "Div bd_l,n2 bd_l2; Add bd_l2,n1 width; Slice back,n0,width,n3,n1 shifted");
    }
}

/* Rows of positions as a constant of the file; 0: an input. */
static int64_t constant_positions;

static void add_positions(struct mk_graph *m)
{
    static float p[64 * HEADS * SIZE];
    char dims[32];
    if (!constant_positions) {
        mk_input(m, "p", STENO_F32, "1,l,16");
        return;
    }
    for (int64_t i = 0; i < constant_positions * HEADS * SIZE; i++)
        p[i] = (float)(i * 31 % 23) / 14 - 0.7f;
    snprintf(dims, sizeof dims, "1,%lld,16", (long long)constant_positions);
    mk_f32(m, "p", dims, p, (size_t)constant_positions * HEADS * SIZE);
}

static const char *add_scores(struct mk_graph *m, enum shift shift)
{
    split_heads(m, "q", "q4", HEADS, SIZE);
    split_heads(m, "k", "k4", HEADS, SIZE);
    transpose(m, "k4", "kt", true);
    if (shift == NO_SHIFT) {
        transpose(m, "q4", "qt", false);
        mk_node(m, "MatMul", "qt,kt", "s");
        return "s";
    }
    add_positions(m);
    mk_f32(m, "u", "2,8", bias[0], FULL);
    mk_f32(m, "w", "2,8", bias[1], FULL);
    pc_graph(m, "Add q4,u qu4; Add q4,w qv4");
    transpose(m, "qu4", "qu", false);
    transpose(m, "qv4", "qv", false);
    split_heads(m, "p", "p4", HEADS, SIZE);
    transpose(m, "p4", "pt", true);
    pc_graph(m, "MatMul qu,kt ac; MatMul qv,pt bd");
    add_numbers(m);
    if (shift < BY_KEY)
        add_shift(m, shift);
    mk_node(m, "Add", shift < BY_KEY ? "ac,shifted" : "ac,bd", "s");
    return "s";
}

/* WeNet's mask is longer than the keys. It is cut to the number of keys, which is read from the
 * scores. */
static void cut_mask(struct mk_graph *m)
{
    pc_graph(m, "Shape scaled scaled_shape; Slice scaled_shape,last,far,n0 width; "
                "Slice all,n0,width,n3,n1 mask");
}

static void add_softmax(struct mk_graph *m, enum mask mask, enum miss miss)
{
    static const float zero = 0, low = -3.4028235e38f, mild = -3;
    bool hides = mask != NO_MASK && mask < ADDED;
    const char *from = "scaled";
    if (hides) {
        mk_f32(m, "zero", "", &zero, 1);
        mk_f32(m, "fill", "", miss == FILL ? &mild : &low, 1);
        mk_node(m, "Where", "mask,fill,scaled", "filled");
        from = "filled";
    } else if (mask != NO_MASK) {
        mk_node(m, "Add", "mask,scaled", "filled");
        from = "filled";
    }
    mk_node(m, "Softmax", from, hides ? "soft" : "weights");
    mk_attr_int(m, "axis", miss == AXIS ? 2 : -1);
    if (hides)
        mk_node(m, "Where", "mask,zero,soft", "weights");
}

static struct mk_graph *attention(enum shift shift, enum mask mask, bool join, enum miss miss)
{
    static const float scale = 2.5f, scales[2] = {2, 3};
    static const int64_t wide[3] = {0, -1, HEADS * V_SIZE};
    struct mk_graph *m = mk_new(13);
    const char *s;
    mk_input(m, "q", STENO_F32, "b,t,16");
    mk_input(m, "k", STENO_F32, "b,s,16");
    mk_input(m, "v", STENO_F32, "b,s,8");
    if (mask == ADDED)
        mk_input(m, "mask", STENO_F32, "b,1,1,s");
    else if (mask == ADDED_ROWS)
        mk_input(m, "mask", STENO_F32, "1,2,t,s");
    else if (mask != NO_MASK)
        mk_input(m, shift == BY_KEY_CUT ? "all" : "mask", STENO_BOOL,
                 mask == CAUSAL || mask == WINDOW ? "1,1,t,s" : "b,1,1,s");
    s = add_scores(m, shift);
    if (miss == SCALE_VECTOR)
        mk_f32(m, "scale", "2,1,1", scales, 2);
    else
        mk_f32(m, "scale", "", &scale, 1);
    mk_node(m, "Div", strcmp(s, "s") ? "ac,scale" : "s,scale", "scaled");
    if (shift == BY_KEY_CUT)
        cut_mask(m);
    add_softmax(m, mask, miss);
    split_heads(m, "v", "v4", HEADS, V_SIZE);
    transpose(m, "v4", "vt", false);
    mk_node(m, "MatMul", "weights,vt", "y4");
    if (join) {
        transpose(m, "y4", "yt", false);
        mk_i64(m, "wide", "3", wide, 3);
        mk_node(m, "Reshape", "yt,wide", "y");
    } else {
        mk_node(m, "Neg", "y4", "y");
    }
    mk_output(m, "y", STENO_F32, NULL);
    if (miss == READ_TWICE)
        mk_output(m, "weights", STENO_F32, NULL);
    return m;
}

/* ---- running ---- */

static steno_network *open_with(const uint8_t *file, size_t size, int level, const char *cpu,
                                const char *disabled)
{
    struct steno_network_options opt = {
        .borrow_from = 1, .opt_level = level, .cpu = cpu, .disable_passes = disabled};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

static int64_t extent(char symbol, const struct shape *s)
{
    return symbol == 'b'   ? s->batch
           : symbol == 't' ? s->rows
           : symbol == 's' ? s->keys
                           : s->positions;
}

static void fill_mask(uint8_t *m, enum mask mask, const struct shape *s)
{
    if (mask == CAUSAL) {
        for (int64_t i = 0; i < s->rows * s->keys; i++)
            m[i] = i % s->keys > i / s->keys;
        return;
    }
    if (mask == WINDOW) { /* plus a row that sees no key */
        for (int64_t i = 0; i < s->rows * s->keys; i++)
            m[i] = i / s->keys == 3 || llabs(i % s->keys - i / s->keys - 20) > 30;
        return;
    }
    for (int64_t i = 0; i < s->batch * s->keys; i++) {
        int64_t b = i / s->keys, j = i % s->keys;
        m[i] = mask == TAIL    ? j >= s->keys - 1 - b * 3
               : mask == HOLES ? j * 7 % 5 == 1 || j == s->keys - 1
                               : b == 0 || j == 0;
    }
}

static void *input_data(const steno_network *n, int i, enum mask mask, const struct shape *s,
                        struct steno_tensor *t)
{
    const struct steno_value *v = steno_network_input(n, i);
    const struct steno_graph *g = steno_network_graph(n);
    size_t count;
    void *mem;
    t->dtype = v->dtype;
    t->shape = v->shape;
    for (int d = 0; d < t->shape.rank; d++)
        if (t->shape.dim[d] < 0)
            t->shape.dim[d] = extent(g->symbols[-2 - t->shape.dim[d]].name[0], s);
    count = steno_numel(t);
    mem = malloc(count * sizeof(float) + 1);
    assert_non_null(mem);
    if (v->dtype == STENO_BOOL)
        fill_mask(mem, mask, s);
    else
        for (size_t k = 0; k < count; k++)
            ((float *)mem)[k] =
                numbers[(k * 31 + (size_t)i * 7919) % (sizeof numbers / sizeof numbers[0])] * 2;
    t->data = mem;
    return mem;
}

static steno_session *run(steno_network *n, enum mask mask, const struct shape *s)
{
    struct steno_session_options opt = {.threads = 2};
    steno_session *session = NULL;
    void *mem[8] = {0};
    steno_err err = {0};
    if (steno_session_open(&session, n, &opt, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < steno_network_n_inputs(n); i++) {
        struct steno_tensor t;
        mem[i] = input_data(n, i, mask, s, &t);
        if (steno_session_set(session, i, &t, &err))
            fail_msg("%s", err.msg);
    }
    if (steno_session_run(session, &err))
        fail_msg("%lld rows, %lld keys: %s", (long long)s->rows, (long long)s->keys, err.msg);
    for (size_t i = 0; i < 8; i++)
        free(mem[i]);
    assert_int_equal(steno_session_misplans(session), 0);
    return session;
}

static int found(const steno_network *n)
{
    for (int i = 0; steno_passes[i].name; i++)
        if (!strcmp(steno_passes[i].name, "attention"))
            return steno_network_passes(n)->changed[i];
    fail();
    return 0;
}

static void same(steno_network *a, steno_network *b, enum mask mask, const struct shape *s)
{
    steno_session *sa = run(a, mask, s), *sb = run(b, mask, s);
    const struct steno_tensor *p = steno_session_get(sa, 0), *q = steno_session_get(sb, 0);
    assert_true(steno_shape_equal(&p->shape, &q->shape));
    for (size_t k = 0; k < steno_numel(p); k++) {
        float x = ((float *)p->data)[k], y = ((float *)q->data)[k];
        if (!(fabsf(x - y) <= 2e-5f) && !(isnan(x) && isnan(y)))
            fail_msg("%lld rows, %lld keys, mask %d: element %zu is %g, was %g", (long long)s->rows,
                     (long long)s->keys, mask, k, (double)y, (double)x);
    }
    steno_session_close(sa);
    steno_session_close(sb);
}

static const char *const levels[] = {"scalar", "avx2", "avx512"};

static void check(enum shift shift, enum mask mask, bool join, const struct shape *shapes, size_t n)
{
    struct mk_graph *m = attention(shift, mask, join, HIT);
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *plain = open_with(file, size, 0, NULL, NULL);
    steno_network *without = open_with(file, size, 3, NULL, "attention");
    mk_free(m);
    assert_int_equal(found(without), 0);
    for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
        steno_network *all = open_with(file, size, 3, levels[l], NULL);
        assert_int_equal(found(all), 1);
        if (shift != BY_KEY_CUT)
            assert_int_equal(steno_graph_count_nodes(steno_network_graph(all)), join ? 1 : 2);
        for (size_t i = 0; i < n; i++)
            same(plain, all, mask, &shapes[i]);
        steno_network_close(all);
    }
    same(plain, without, mask, &shapes[0]);
    steno_network_close(plain);
    steno_network_close(without);
    free(file);
}

static void products_of_any_length(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 0},    {2, 1, 40, 0}, {1, 4, 600, 0},  {1, 5, 7, 0},      {2, 24, 24, 0},
        {1, 64, 513, 0}, {1, 65, 9, 0}, {2, 65, 512, 0}, {1, 130, 1100, 0}, {1, 128, 64, 0}};
    (void)state;
    check(NO_SHIFT, NO_MASK, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(NO_SHIFT, NO_MASK, false, shapes, 5);
}

static void masks_of_every_form(void **state)
{
    static const struct shape shapes[] = {
        {2, 3, 8, 0}, {3, 24, 30, 0}, {2, 70, 9, 0}, {2, 66, 530, 0}, {2, 4, 1030, 0}};
    (void)state;
    for (int mask = TAIL; mask <= ADDED_ROWS; mask++)
        check(NO_SHIFT, (enum mask)mask, true, shapes, sizeof shapes / sizeof shapes[0]);
}

static void relative_positions_of_the_latest_form(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 1},     {1, 5, 5, 9},       {2, 24, 24, 47},    {1, 64, 64, 127},
        {1, 65, 65, 129}, {1, 100, 100, 199}, {1, 128, 128, 255}, {1, 530, 530, 1059}};
    (void)state;
    check(LATEST, NO_MASK, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(LATEST, TAIL, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(LATEST, HOLES, false, shapes, 6);
}

static void relative_positions_of_the_legacy_form(void **state)
{
    static const struct shape shapes[] = {{1, 1, 1, 1},    {1, 5, 5, 5},       {2, 24, 24, 24},
                                          {1, 65, 65, 65}, {1, 200, 200, 200}, {1, 530, 530, 530}};
    (void)state;
    check(LEGACY, NO_MASK, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(LEGACY, TAIL, true, shapes, sizeof shapes / sizeof shapes[0]);
}

static void a_window_of_keys(void **state)
{
    static const struct shape shapes[] = {
        {1, 5, 9, 9}, {2, 130, 600, 0}, {1, 400, 400, 799}, {1, 300, 300, 300}};
    (void)state;
    check(NO_SHIFT, WINDOW, true, shapes, 3);
    check(LATEST, WINDOW, true, shapes + 2, 1);
    check(LEGACY, WINDOW, false, shapes + 3, 1);
}

static void relative_positions_after_a_cache(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 1}, {1, 3, 9, 11}, {2, 24, 40, 63}, {1, 65, 90, 154}, {1, 70, 600, 669}};
    (void)state;
    check(PADDED, NO_MASK, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(PADDED, HOLES, true, shapes, sizeof shapes / sizeof shapes[0]);
}

/* NeMo's streaming encoders: what makes them depends on lengths that are constants of the file. */
static void positions_that_are_constant(void **state)
{
    static const struct shape latest[] = {{1, 24, 24, 47}, {2, 24, 24, 47}};
    static const struct shape padded[] = {{1, 4, 60, 63}, {3, 4, 60, 63}};
    (void)state;
    constant_positions = 47;
    check(LATEST, TAIL, true, latest, 2);
    constant_positions = 63;
    check(PADDED, HOLES, true, padded, 2);
    check(PADDED, NO_MASK, false, padded, 2);
    constant_positions = 0;
}

static void positions_by_key(void **state)
{
    static const struct shape shapes[] = {
        {2, 1, 40, 40}, {1, 3, 9, 9}, {1, 24, 24, 24}, {1, 65, 90, 90}, {1, 130, 600, 600}};
    (void)state;
    check(BY_KEY, NO_MASK, true, shapes, sizeof shapes / sizeof shapes[0]);
    check(BY_KEY, ADDED, false, shapes, sizeof shapes / sizeof shapes[0]);
    check(BY_KEY_CUT, TAIL, true, shapes, sizeof shapes / sizeof shapes[0]);
}

static void near_misses_stay(void **state)
{
    static const struct shape s = {2, 6, 6, 11};
    (void)state;
    for (int miss = FILL; miss <= SCALE_VECTOR; miss++) {
        enum mask mask = miss == FILL ? TAIL : NO_MASK;
        struct mk_graph *m = attention(NO_SHIFT, mask, true, (enum miss)miss);
        size_t size;
        uint8_t *file = mk_bytes(m, &size);
        steno_network *plain = open_with(file, size, 0, NULL, NULL);
        steno_network *all = open_with(file, size, 3, NULL, NULL);
        mk_free(m);
        assert_int_equal(found(all), 0);
        same(plain, all, mask, &s);
        steno_network_close(plain);
        steno_network_close(all);
        free(file);
    }
}

static int setup(void **state)
{
    (void)state;
    fill();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_any_length),
        cmocka_unit_test(masks_of_every_form),
        cmocka_unit_test(relative_positions_of_the_latest_form),
        cmocka_unit_test(relative_positions_of_the_legacy_form),
        cmocka_unit_test(a_window_of_keys),
        cmocka_unit_test(relative_positions_after_a_cache),
        cmocka_unit_test(positions_that_are_constant),
        cmocka_unit_test(positions_by_key),
        cmocka_unit_test(near_misses_stay),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
