/* What a segmentation network said of windows, as turns and as RTTM and JSON. Checks: turns lie
 * within the recording, those of one speaker do not overlap, exclusive ones of nobody, RTTM has as
 * many lines as there are turns, with ten fields each. */
/* covers: engine/speech/speakers/turns.c protocol/rttm.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/rttm.h"
#include "speech/speakers/turns.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HEAD 8
#define MOST 64 /* windows */

static void check_text(const struct steno_turn *t, size_t n, const char *name)
{
    struct steno_buf b;
    size_t lines = 0, blanks = 0;
    steno_buf_init(&b, 1 << 24);
    REQUIRE(steno_rttm_write(&b, name, t, n, NULL) == STENO_OK);
    for (size_t i = 0; i < b.len; i++) {
        lines += b.data[i] == '\n';
        blanks += b.data[i] == ' ';
    }
    REQUIRE(lines == n && blanks == 9 * n);
    steno_buf_reset(&b);
    REQUIRE(steno_turns_json_write(&b, name, 1, 1, t, n, NULL) == STENO_OK);
    steno_buf_free(&b);
}

static void check(const struct steno_windows *w, const struct steno_turn_rules *r, const char *name)
{
    struct steno_turn *t = NULL;
    size_t n = 0;
    REQUIRE(steno_turns_make(w, r, &t, &n, NULL) == STENO_OK);
    for (size_t i = 0; i < n; i++) {
        REQUIRE(t[i].speaker >= 0 && t[i].speaker < w->clusters);
        REQUIRE(t[i].start < t[i].end && t[i].end - t[i].start > r->least);
        REQUIRE(t[i].end <= (double)w->samples / w->rate);
        for (size_t k = 0; k < i; k++)
            if (r->exclusive || t[k].speaker == t[i].speaker)
                REQUIRE(t[k].end <= t[i].start || t[i].end <= t[k].start);
    }
    check_text(t, n, name);
    free(t);
}

/* Head: frames, speakers, clusters, hop, shift, window, gap, length; then for each window its
 * clusters and sets. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_windows w = {.rate = 100, .field = 3};
    static int32_t cluster[MOST * 8];
    static uint8_t sets[MOST * 32];
    const uint8_t *p = data + HEAD;
    char name[16];
    size_t each;
    if (n < HEAD)
        return 0;
    w.frames = 1 + data[0] % 32;
    w.speakers = 1 + data[1] % 8;
    w.clusters = 1 + data[2] % 20;
    w.shift = 1 + data[4] % 16;
    w.window = w.frames * w.shift + data[5] % 16;
    w.hop = 1 + data[3] % w.window;
    each = (size_t)w.speakers + w.frames;
    w.n = (n - HEAD) / each;
    w.n = w.n < MOST ? w.n : MOST;
    if (!w.n)
        return 0;
    for (size_t i = 0; i < w.n; i++, p += each) {
        for (int s = 0; s < w.speakers; s++)
            cluster[i * (size_t)w.speakers + (size_t)s] = p[s] % (w.clusters + 1) - 1;
        memcpy(sets + i * w.frames, p + w.speakers, w.frames);
    }
    w.sets = sets;
    w.cluster = cluster;
    w.samples = (int64_t)(w.window + (w.n - 1) * w.hop) - data[7] % (int64_t)w.window;
    snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), (const char *)data);
    check(&w, &(struct steno_turn_rules){0}, name);
    check(&w, &(struct steno_turn_rules){.exclusive = true}, name);
    check(&w,
          &(struct steno_turn_rules){.least = data[6] % 8 * 0.01, .closest = data[6] / 8 * 0.01},
          name);
    return 0;
}
