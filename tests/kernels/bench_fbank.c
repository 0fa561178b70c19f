/* kcheck --bench fbank: log-mel frames, by level: 24 frames of a signal in one call, and one per
 * call. */
#include "tests/kernels/kcheck.h"

#include "base/cpu.h"
#include "nn/kernels/fbank.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 24, ROOM = 4096 };

static const struct {
    size_t length, fft, shift, bins;
} fronts[] = {{200, 256, 80, 40}, {400, 512, 160, 80}};

struct run {
    const steno_kernels *k;
    struct steno_fbank_tables t;
    size_t at_once;
    const float *x;
    float *out;
};

static void call(const void *arg)
{
    const struct run *r = arg;
    for (size_t i = 0; i < FRAMES; i += r->at_once)
        r->k->fbank_f32(&r->t, r->x + i * r->t.shift, r->at_once, r->out + i * r->t.bins);
}

int bench_fbank(void)
{
    static float x[FRAMES * 160 + 512], out[FRAMES * 80], window[512], weights[ROOM], room[ROOM];
    struct steno_mel_quad quad[20];
    fill_uniform(x, sizeof x / sizeof *x);
    fill_uniform(window, sizeof window / sizeof *window);
    for (size_t i = 0; i < ROOM; i++)
        weights[i] = 0.5f;
    printf("| frames, samples of points, bins | level | ns one by one | %d at once |\n"
           "|---|---|---|---|\n",
           FRAMES);
    for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        static const char *const levels[] = {"scalar", "native"};
        const size_t length = fronts[i].length, fft = fronts[i].fft, bins = fronts[i].bins;
        struct run r = {.x = x, .out = out};
        r.t = (struct steno_fbank_tables){.length = length,
                                          .shift = fronts[i].shift,
                                          .remove_dc = true,
                                          .preemph = 0.97f,
                                          .window = window,
                                          .bins = bins,
                                          .quad = quad,
                                          .weights = weights,
                                          .floor = FLT_EPSILON,
                                          .log = true,
                                          .log_scale = 1};
        for (size_t q = 0; q < bins / 4; q++) /* the average width of mel filters */
            quad[q] = (struct steno_mel_quad){.vectors = 2, .at = 32 * q};
        if (steno_fft_room(fft) > ROOM)
            return 1;
        steno_fft_fill(&r.t.fft, fft, room);
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            steno_kernels k;
            unsigned mask;
            double ns[2];
            if (steno_cpu_level(levels[l], steno_cpu_detect(), &mask, NULL))
                return 1;
            steno_kernels_init(&k, mask);
            r.k = &k;
            for (int j = 0; j < 2; j++) {
                r.at_once = j ? FRAMES : 1;
                ns[j] = bench_time(call, &r) / FRAMES;
            }
            printf("| %zu of %zu, %zu | %s | %.0f | %.0f |\n", length, fft, bins, k.level, ns[0],
                   ns[1]);
        }
    }
    return 0;
}
