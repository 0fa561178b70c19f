/* attend_f32, attend_bf16 and attend_i16 against sums in double, for bf16 over the same rounded
 * factors. The remaining errors are those of f32 sums, of rounding weights to bf16, and, for
 * attend_i16, those of steps (kernels.h). */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "nn/kernels/half.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum positions { NONE, SHIFTED, BY_KEY };
/* Of attend_i16, for numbers of up to 1. */
#define STEP_OF_KEYS (1.0 / 2047)
#define STEP_OF_QUERIES (1.0 / 4095)
#define STEP_OF_VALUES (1.0 / 1023)
#define STEP_OF_WEIGHTS (1.0 / 16383)

enum seen { ALL, RANGES, MASKS };
enum kind { F32, BF16, I16 };
static const char *const kind_names[] = {"attend_f32", "attend_bf16", "attend_i16"};

struct attend_case {
    size_t m, keys, size, v_size, call; /* call: keys per call */
    enum positions positions;
    enum seen seen;
    bool bias;
    enum kind kind;
};

/* Factors of all keys, and the keys that rows see. */
struct factors {
    float *q, *k, *v, *p, *q_bias, *p_bias, *mask;
    size_t ldq, ldk, ldv, ldp, places; /* places: number of positions */
    struct steno_attend_seen seen[STENO_ATTEND_ROWS];
};

static float *uniform(size_t n)
{
    float *x = guard_new(n);
    fill_uniform(x, n);
    return x;
}

static void make(struct factors *f, const struct attend_case *c)
{
    f->ldq = c->size + 3;
    f->ldk = f->ldp = c->size + 1;
    f->ldv = c->v_size + 2;
    f->places = (c->keys + 31) / 32 * 32 + (c->positions == SHIFTED ? STENO_ATTEND_ROWS : 0);
    f->q = uniform((c->m - 1) * f->ldq + c->size);
    f->k = uniform((c->keys - 1) * f->ldk + c->size);
    f->v = uniform((c->keys - 1) * f->ldv + c->v_size);
    f->p = uniform((f->places - 1) * f->ldp + c->size);
    f->q_bias = uniform(c->size);
    f->p_bias = uniform(c->size);
    f->mask = uniform(c->m * c->keys);
    for (size_t i = 0; i < c->m; i++) {
        struct steno_attend_seen *s = &f->seen[i];
        *s = (struct steno_attend_seen){0, c->keys, NULL};
        if (c->seen != ALL) {
            s->from = random_below(c->keys);
            s->to = s->from + random_below(c->keys - s->from + 1);
        }
        if (c->seen == MASKS && i % 4)
            s->mask = f->mask + i * c->keys;
        for (size_t j = 0; j < c->keys; j++)
            if (random_below(3) == 0)
                f->mask[i * c->keys + j] = -INFINITY;
    }
}

static void drop(struct factors *f)
{
    float *all[] = {f->q, f->k, f->v, f->p, f->q_bias, f->p_bias, f->mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guard_free(all[i]);
}

static double factor(const struct attend_case *c, float x)
{
    return (double)(c->kind == BF16 ? half_from_bf16(half_to_bf16(x)) : x);
}

static double score(const struct factors *f, const struct attend_case *c, size_t i, size_t j)
{
    const float *q = f->q + i * f->ldq;
    const size_t place = c->positions == SHIFTED ? j + STENO_ATTEND_ROWS - 1 - i : j;
    double t = 0;
    for (size_t x = 0; x < c->size; x++) {
        t += factor(c, q[x] + (c->bias ? f->q_bias[x] : 0)) * factor(c, f->k[j * f->ldk + x]);
        if (c->positions != NONE)
            t += factor(c, q[x] + (c->bias ? f->p_bias[x] : 0)) *
                 factor(c, f->p[place * f->ldp + x]);
    }
    return t;
}

/* attend_i16: by how much half a step of each factor changes the scores of row i at most. */
static double score_error(const struct factors *f, const struct attend_case *c, size_t i)
{
    double keys = 0, top = 0;
    for (size_t x = 0; x < c->size; x++) {
        const double q = (double)(f->q[i * f->ldq + x] + (c->bias ? f->q_bias[x] : 0));
        const double product = fabs(q) * largest_magnitude(f->k + x, f->ldk, c->keys);
        keys += product;
        top = fmax(top, product);
    }
    return 1.01 * (keys * STEP_OF_KEYS + (double)c->size * top * STEP_OF_QUERIES) / 2;
}

/* What column x of row i may differ by: size is the sum of the magnitudes of its products with
 * weights whose sum is 1, all the sum of the weights before, e: what its scores differ by. */
static double allowed(const struct factors *f, const struct attend_case *c, size_t x, double size,
                      double all, double e)
{
    const double v = largest_magnitude(f->v + x, f->ldv, c->keys);
    if (c->kind != I16)
        return size * (c->kind == BF16 ? 0x1p-8 + 1e-4 : 2e-5);
    return size * (2e-5 + expm1(2 * e)) +
           v * (STEP_OF_VALUES + (double)c->keys / all * STEP_OF_WEIGHTS) / 2;
}

/* Row i of o / sum against the exact one; NaN if the row sees no key. */
static void row_is_right(const struct factors *f, const struct attend_case *c, float scale,
                         size_t i, const float *o, float max, float sum)
{
    const struct steno_attend_seen *s = &f->seen[i];
    const double e = c->kind == I16 ? fabs((double)scale) * score_error(f, c, i) : 0;
    double *t = malloc((c->keys + 1) * sizeof *t), top = -HUGE_VAL, all = 0;
    if (!t)
        abort();
    for (size_t j = s->from; j < s->to; j++) {
        t[j] = (double)scale * score(f, c, i, j) + (s->mask ? (double)s->mask[j] : 0);
        top = t[j] > top ? t[j] : top;
    }
    for (size_t j = s->from; j < s->to; j++)
        all += t[j] = exp(t[j] - top);
    if ((top <= -HUGE_VAL) != (max <= -INFINITY))
        test_fail("m %zu keys %zu: row %zu: largest score %g", c->m, c->keys, i, (double)max);
    for (size_t x = 0; top > -HUGE_VAL && x < c->v_size; x++) {
        double want = 0, size = 0;
        for (size_t j = s->from; j < s->to; j++) {
            want += t[j] / all * factor(c, f->v[j * f->ldv + x]);
            size += t[j] / all * fabs(factor(c, f->v[j * f->ldv + x]));
        }
        if (!close_to(o[x] / sum, want, allowed(f, c, x, size, all, e)))
            test_fail("%s: m %zu keys %zu of %zu size %zu, %zu positions %d seen %d: row %zu "
                      "column %zu is %a, exact %a",
                      kind_names[c->kind], c->m, c->call, c->keys, c->size, c->v_size,
                      (int)c->positions, (int)c->seen, i, x, (double)(o[x] / sum), want);
    }
    free(t);
}

static const struct steno_attend_kernel *slots_of(const steno_kernels *k, enum kind kind)
{
    return kind == I16 ? &k->attend_i16 : kind == BF16 ? &k->attend_bf16 : &k->attend_f32;
}

static void *packed(const struct steno_attend_kernel *s, const float *b, size_t ldb, bool trans,
                    size_t rows, size_t cols)
{
    void *to = steno_aligned_alloc(s->packed_bytes(rows, cols));
    if (!to)
        abort();
    s->pack(to, b, ldb, trans, rows, cols);
    return to;
}

static void attend_one(const steno_kernels *k, const struct attend_case *c, float scale)
{
    const struct steno_attend_kernel *s = slots_of(k, c->kind);
    struct factors f;
    float max[STENO_ATTEND_ROWS], sum[STENO_ATTEND_ROWS];
    const size_t ldo = steno_attend_ldo(c->v_size), panel = s->packed_bytes(c->size, 32);
    struct steno_attend a = {.m = c->m,
                             .keys = c->keys,
                             .size = c->size,
                             .v_size = c->v_size,
                             .shifted = c->positions == SHIFTED,
                             .scale = scale,
                             .first = true,
                             .max = max,
                             .sum = sum};
    struct steno_attend_seen seen[STENO_ATTEND_ROWS];
    void *kp, *vp, *pp;
    make(&f, c);
    kp = packed(s, f.k, f.ldk, true, c->size, c->keys);
    vp = packed(s, f.v, f.ldv, false, c->keys, c->v_size);
    pp = c->positions == NONE ? NULL : packed(s, f.p, f.ldp, true, c->size, f.places);
    a.o = steno_aligned_alloc(STENO_ATTEND_ROWS * ldo * sizeof *a.o);
    if (!a.o)
        abort();
    a.cold = c->m % 2;
    a.q = f.q;
    a.ldq = f.ldq;
    a.k = kp;
    a.v = vp;
    a.q_bias = c->bias ? f.q_bias : NULL;
    a.p_bias = c->bias ? f.p_bias : NULL;
    a.seen = c->seen == ALL ? NULL : seen;
    for (size_t i = 0; i < c->m; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (; a.from < c->keys; a.from = a.to, a.first = false) {
        a.to = c->keys - a.from < c->call ? c->keys : a.from + c->call;
        a.p = c->positions == NONE ? NULL : (const char *)pp + a.from / 32 * panel;
        for (size_t i = 0; i < c->m; i++) {
            seen[i] = f.seen[i];
            seen[i].mask = seen[i].mask ? seen[i].mask + a.from : NULL;
        }
        s->attend(&a);
    }
    for (size_t i = 0; i < c->m; i++)
        row_is_right(&f, c, scale, i, a.o + i * ldo, max[i], sum[i]);
    drop(&f);
    steno_aligned_free(kp);
    steno_aligned_free(vp);
    steno_aligned_free(pp);
    steno_aligned_free(a.o);
}

static void shapes(const steno_kernels *k, enum kind kind)
{
    static const size_t rows[] = {1, 7, 15, 16, 17, 31, 32},
                        keys[] = {1, 31, 32, 33, 64, 65, 97, 127, 128, 129, 200, 300};
    static const size_t sizes[] = {1, 5, 32, 33, 64, 80, STENO_ATTEND_SIZE},
                        values[] = {1, 16, 32, 33, 64, 100};
    size_t turn = 0;
    for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n += 1 + KCHECK_FEW)
            for (int p = NONE; p <= (kind == I16 ? NONE : BY_KEY); p++)
                for (int s = ALL; s <= MASKS; s++, turn++)
                    attend_one(
                        k,
                        &(struct attend_case){rows[m], keys[n], sizes[turn % 7], values[turn % 6],
                                              turn % 2 ? 1000 : 32 * (1 + turn % 5),
                                              (enum positions)p, (enum seen)s, turn % 3 == 0, kind},
                        turn % 11 ? 0.25f : -0.5f);
}

/* Keys and values that are appended one after the other have the layout of packing all at once. */
static void appended_equals_packed(const steno_kernels *k, size_t size, size_t v_size)
{
    enum { N = STENO_KV_PAGE_KEYS };
    const size_t at_v = steno_kv_page_key_bytes(k, size),
                 bytes = steno_kv_page_bytes(k, size, v_size);
    float *x = steno_aligned_zeroed(N * (size + v_size) * sizeof *x);
    char *want = steno_aligned_zeroed(bytes), *got = steno_aligned_zeroed(bytes);
    if (!x || !want || !got)
        abort();
    for (size_t at = 0, n; at < N; at += n) {
        n = 1 + random_below(20);
        n = n < N - at ? n : N - at;
        fill_uniform(x + at * (size + v_size), n * (size + v_size));
        k->kv_append_bf16(got, size, v_size, at, n, x + at * (size + v_size), size + v_size,
                          x + at * (size + v_size) + size, size + v_size);
        k->attend_bf16.pack(want, x, size + v_size, true, size, N);
        k->attend_bf16.pack(want + at_v, x + size, size + v_size, false, N, v_size);
        if (memcmp(want, got, bytes) != 0)
            test_fail("keys and values [%zu, %zu) of %zu and %zu numbers lie otherwise than packed",
                      at, at + n, size, v_size);
    }
    steno_aligned_free(x);
    steno_aligned_free(want);
    steno_aligned_free(got);
}

/* One row, 40 keys of one number each: the effect of NaN and infinities. */
static void nonfinite_numbers(const steno_kernels *k, enum kind kind)
{
    enum { KEYS = 40 };
    const struct steno_attend_kernel *s = slots_of(k, kind);
    static const float nonfinite[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float q[1] = {1}, kk[KEYS], v[KEYS], max[1] = {-INFINITY}, sum[1] = {0};
        alignas(64) float o[STENO_ATTEND_ROWS * 32];
        struct steno_attend a = {.m = 1,
                                 .keys = KEYS,
                                 .size = 1,
                                 .v_size = 1,
                                 .q = q,
                                 .ldq = 1,
                                 .to = KEYS,
                                 .scale = 1,
                                 .first = true,
                                 .max = max,
                                 .sum = sum,
                                 .o = o};
        void *kp, *vp;
        for (int j = 0; j < KEYS; j++) {
            kk[j] = (float)j;
            v[j] = 1;
        }
        kk[7] = nonfinite[i];
        kp = packed(s, kk, 1, true, 1, KEYS);
        vp = packed(s, v, 1, false, KEYS, 1);
        a.k = kp;
        a.v = vp;
        s->attend(&a);
        if (i < 2 || kind == I16 ? !isnan(o[0] / sum[0]) : !close_to(o[0] / sum[0], 1, 0.01))
            test_fail("a score of %g gives %g", (double)nonfinite[i], (double)(o[0] / sum[0]));
        steno_aligned_free(kp);
        steno_aligned_free(vp);
    }
}

/* Scores of 2^40 and more: the row is the value of the largest, and no weight overflows. */
static void huge_scores(const steno_kernels *k, enum kind kind)
{
    enum { KEYS = 256 };
    const struct steno_attend_kernel *s = slots_of(k, kind);
    for (int i = 0; i < 8; i++) {
        float q[1] = {0x1p20f}, kk[KEYS], v[KEYS], max[1] = {-INFINITY}, sum[1] = {0};
        alignas(64) float o[STENO_ATTEND_ROWS * 32];
        const int best = i < 2 ? KEYS - 1 : 37 * i % KEYS;
        struct steno_attend a = {.m = 1,
                                 .keys = KEYS,
                                 .size = 1,
                                 .v_size = 1,
                                 .q = q,
                                 .ldq = 1,
                                 .to = KEYS,
                                 .scale = 1 / sqrtf(3 + (float)i),
                                 .first = true,
                                 .max = max,
                                 .sum = sum,
                                 .o = o};
        void *kp, *vp;
        for (int j = 0; j < KEYS; j++) {
            kk[j] = 0x1p20f * (float)(j == best ? 2 : 1) * (i % 2 ? -1 : 1);
            v[j] = (float)(j == best);
        }
        kp = packed(s, kk, 1, true, 1, KEYS);
        vp = packed(s, v, 1, false, KEYS, 1);
        a.k = kp;
        a.v = vp;
        s->attend(&a);
        if (!close_to(o[0] / sum[0], i % 2 ? 0 : 1, 0.01))
            test_fail("huge scores, the largest at %d, give %g", best, (double)(o[0] / sum[0]));
        steno_aligned_free(kp);
        steno_aligned_free(vp);
    }
}

void check_attend(const steno_kernels *k)
{
    for (enum kind i = F32; i <= I16; i++)
        if (test_begin(k, kind_names[i])) {
            shapes(k, i);
            nonfinite_numbers(k, i);
            huge_scores(k, i);
            test_end();
        }
    if (test_begin(k, "kv_append_bf16")) {
        for (size_t size = 1; size <= 160; size += 13)
            appended_equals_packed(k, size, 161 - size);
        appended_equals_packed(k, 64, 64);
        test_end();
    }
}
