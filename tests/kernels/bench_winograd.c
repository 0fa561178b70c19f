/* kcheck --bench winograd: 3x3 convolutions of stride 2, with all multiplications and with fewer,
 * from the nine and the twenty-five matrices of the same weights. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/winograd.h"

#include <stdio.h>
#include <string.h>

static const struct {
    size_t channels, in[2];
} images[] = {{512, {5, 39}},  {512, {7, 39}},   {512, {13, 39}}, {512, {35, 39}},
              {512, {49, 39}}, {512, {499, 39}}, {256, {49, 39}}, {256, {499, 39}},
              {128, {13, 39}}, {128, {49, 39}}};

struct run {
    const steno_kernels *k;
    bool bf16, few;
    struct steno_conv s;
    const float *x;
    float *y;
    const void *packed;
};

static void call(const void *arg)
{
    const struct run *r = arg;
    if (r->bf16)
        (r->few ? r->k->gemm_bf16.conv_winograd : r->k->gemm_bf16.conv)(&r->s, r->x, r->packed,
                                                                        r->y, NULL, 0, 1);
    else
        (r->few ? r->k->conv_winograd_f32 : r->k->conv_nhwc_f32)(&r->s, r->x, r->packed, r->y, NULL,
                                                                 0, 1);
}

/* Nanoseconds, or a negative number when out of memory. rows: weights with any values. */
static double time_of(struct run *r, const float *rows)
{
    const size_t k = (r->few ? STENO_WINOGRAD_SLOTS : 9) * r->s.c_in, n = r->s.c_out;
    void *packed = steno_aligned_alloc(r->bf16 ? r->k->gemm_bf16.packed_bytes(k, n)
                                               : r->k->gemm_f32_packed_bytes(k, n));
    double ns;
    if (!packed)
        return -1;
    (r->bf16 ? r->k->gemm_bf16.pack : r->k->gemm_f32_pack)(packed, rows, k, true, k, n);
    r->packed = packed;
    ns = bench_time(call, r);
    steno_aligned_free(packed);
    return ns;
}

int bench_winograd(void)
{
    const size_t most_x = 499 * 39 * 512, most_y = 249 * 19 * 512;
    const size_t most_w = STENO_WINOGRAD_SLOTS * 512 * 512;
    float *x = steno_aligned_alloc(most_x * sizeof *x),
          *y = steno_aligned_alloc(most_y * sizeof *y);
    float *w = steno_aligned_alloc(most_w * sizeof *w);
    steno_kernels k = {0};
    if (!x || !y || !w)
        return 1;
    steno_kernels_init(&k, steno_cpu_detect());
    fill_uniform(x, most_x);
    fill_uniform(w, most_w);
    printf("| channels, image, %s | f32 us | fewer | ratio | bf16 us | fewer | ratio |\n"
           "|---|---|---|---|---|---|---|\n",
           k.level);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        const size_t c = images[i].channels;
        struct run r = {.k = &k,
                        .x = x,
                        .y = y,
                        .s = {c,
                              c,
                              1,
                              {images[i].in[0], images[i].in[1]},
                              {(images[i].in[0] - 1) / 2, (images[i].in[1] - 1) / 2},
                              {3, 3},
                              {2, 2},
                              {1, 1},
                              {0, 0}}};
        double ns[4];
        for (int j = 0; j < 4; j++) {
            r.bf16 = j / 2;
            r.few = j % 2;
            ns[j] = r.bf16 && r.few && !k.gemm_bf16.conv_winograd ? 0 : time_of(&r, w);
        }
        printf("| %zu, %zux%zu | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f |\n", c, r.s.in[0],
               r.s.in[1], ns[0] / 1e3, ns[1] / 1e3, ns[0] / ns[1], ns[2] / 1e3, ns[3] / 1e3,
               ns[2] / ns[3]);
        fflush(stdout);
    }
    steno_aligned_free(x);
    steno_aligned_free(y);
    steno_aligned_free(w);
    return 0;
}
