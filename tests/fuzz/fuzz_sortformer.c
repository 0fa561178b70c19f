/* What a hostile Sortformer says of its frames, in any number and of any value: what is remembered
 * stays within its bounds, and turns lie within the recording, those of one speaker apart. */
/* covers: engine/speech/speakers/arrival.c engine/speech/speakers/activity.c */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/activity.h"
#include "speech/speakers/arrival.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HEAD 10
#define ROWS 512

/* Numbers of the input, over and over. */
struct numbers {
    const uint8_t *data;
    size_t n, at;
};

static float next_number(struct numbers *x)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -1, 1e30f, -0.0f, 1, 0.5f};
    const uint8_t c = x->data[x->at++ % x->n];
    return c < 8 ? odd[c] : (float)c / 255;
}

static void remember(struct steno_arrival *a, const struct steno_arrival_rules *r, size_t chunk,
                     struct numbers *x, float *told)
{
    static float all[ROWS * STENO_ARRIVAL_SPEAKERS], embeddings[64 * 4];
    const size_t rows = a->n_cache + a->n_queue;
    REQUIRE(rows <= ROWS && chunk <= 64);
    for (size_t i = 0; i < rows * r->speakers; i++)
        all[i] = next_number(x);
    for (size_t i = 0; i < chunk * r->dim; i++)
        embeddings[i] = next_number(x);
    for (size_t i = 0; i < chunk * r->speakers; i++)
        told[i] = next_number(x);
    steno_arrival_take(a, all, embeddings, told, chunk);
    REQUIRE(a->n_cache <= r->cache && a->n_queue <= r->queue);
    for (size_t i = 0; i < a->n_cache * r->speakers; i++)
        REQUIRE(isfinite(a->cache_probs[i]));
}

static void check_turns(float *p, size_t frames, size_t speakers, uint8_t how)
{
    const struct steno_activity_rules r = {.begin_p = (float)(how % 16) / 16,
                                           .end_p = (float)(how / 16) / 16,
                                           .pad_before = how % 5 * 0.1,
                                           .pad_after = how % 7 * 0.1,
                                           .least_turn = how % 3 * 0.1,
                                           .least_pause = how % 4 * 0.2};
    const struct steno_activity a = {.p = p,
                                     .frames = frames,
                                     .speakers = speakers,
                                     .frame = 0.08,
                                     .length = (double)frames * 0.07};
    struct steno_turn *t;
    size_t n;
    REQUIRE(!steno_activity_turns(&a, &r, &t, &n, NULL));
    for (size_t i = 0; i < n; i++) {
        REQUIRE(t[i].start >= 0 && t[i].start < t[i].end && t[i].end <= a.length);
        REQUIRE(t[i].speaker >= 0 && (size_t)t[i].speaker < speakers);
        for (size_t k = 0; k < i; k++)
            REQUIRE(t[k].speaker != t[i].speaker || t[k].end <= t[i].start);
    }
    free(t);
    steno_activity_exclude(p, frames, speakers);
    for (size_t f = 0; f < frames; f++) {
        size_t talk = 0;
        for (size_t s = 0; s < speakers; s++)
            talk += p[f * speakers + s] > 0;
        REQUIRE(talk <= 1);
    }
}

/* Head: speakers, cache, queue, chunk, period, rests, dimension, rules of turns, kept speakers;
 * then the numbers, of as many chunks as there are for a while. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static float told[64 * 64 * STENO_ARRIVAL_SPEAKERS];
    bool keep[STENO_ARRIVAL_SPEAKERS];
    struct steno_arrival a;
    if (n <= HEAD)
        return 0;
    const struct steno_arrival_rules r = {.speakers = data[0] % 10,
                                          .cache = data[1],
                                          .queue = data[2] % 128,
                                          .chunk = data[3] % 65,
                                          .period = data[4],
                                          .rests = data[5] % 5,
                                          .dim = data[6] % 5};
    struct numbers x = {data + HEAD, n - HEAD, 0};
    steno_err err = {0};
    size_t frames = 0;
    if (steno_arrival_init(&a, &r, &err)) {
        REQUIRE(*err.msg);
        return 0;
    }
    for (size_t k = 0; k < 1 + n / 8 && k < 64; k++) {
        const size_t chunk = 1 + x.data[k % x.n] % r.chunk;
        remember(&a, &r, chunk, &x, told + frames * r.speakers);
        frames += chunk;
    }
    steno_arrival_free(&a);
    for (size_t s = 0; s < r.speakers; s++)
        keep[s] = data[8] >> s & 1;
    if (data[9] & 1)
        steno_activity_fold(told, frames, r.speakers, keep);
    check_turns(told, frames, r.speakers, data[7]);
    return 0;
}
