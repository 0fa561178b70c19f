/* A stream as a sequence of calls: tones, noise, silence, broken samples and finalize, in pieces
 * of any size, over the tone network of tests/data/models. For any input the events stay in
 * order. */
/* covers: engine/speech/recognizer/stream.c engine/speech/recognizer/stream_events.c */
/* covers: engine/speech/recognizer/events.c engine/speech/recognizer/endpoint.c */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "steno.h"

#define MOST 4000 /* samples of one push */
#define TOTAL 60000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct watch { /* what the events so far imply */
    int64_t segment;
    double time;
    char stable[4096];
    bool started;
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_words(const struct steno_event *e)
{
    for (size_t i = 0; i < e->n_words; i++) {
        const struct steno_word *w = &e->words[i];
        require(w->text[0] && w->start <= w->end && w->confidence >= 0 && w->confidence <= 1);
        require(i == 0 || w[-1].end <= w->start + 1e-9);
    }
}

static void check(steno_stream *s, struct watch *w)
{
    struct steno_event e;
    while (steno_stream_next(s, &e)) {
        require(e.segment == w->segment && e.time >= w->time && e.stable_bytes <= strlen(e.text));
        require(strncmp(e.text, w->stable, strlen(w->stable)) == 0 || e.kind == STENO_SPEECH_START);
        w->time = e.time;
        check_words(&e);
        if (e.kind == STENO_SPEECH_START) {
            require(!w->started);
            w->started = true;
        } else if (e.kind == STENO_PARTIAL) {
            require(w->started && e.stable_bytes >= strlen(w->stable));
            if (e.stable_bytes < sizeof w->stable) {
                memcpy(w->stable, e.text, e.stable_bytes);
                w->stable[e.stable_bytes] = '\0';
            }
        } else {
            require(w->started || e.reason == STENO_FINAL_REQUEST);
            w->segment++;
            w->stable[0] = '\0';
            w->started = false;
        }
    }
}

static void fill(float *pcm, size_t n, unsigned what, uint32_t *seed)
{
    static const float hz[8] = {0, 500, 1000, 1700, 2800, 0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        pcm[i] = hz[what] > 0 ? 0.3f * sinf(6.2831853f * hz[what] * (float)i / 8000) : 0;
        if (what == 5)
            pcm[i] = (float)(int32_t)*seed / 2147483648.0f;
        if (what == 6)
            memcpy(&pcm[i], seed, sizeof *seed); /* any bits: NaN, infinities, huge values */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static steno_model *model;
    static float pcm[MOST];
    struct steno_stream_options o = {0};
    struct watch w = {0};
    steno_stream *s = NULL;
    uint32_t seed = 1;
    size_t total = 0;
    if (!model && steno_model_open(&model, "tests/data/models/tones", NULL, NULL))
        abort();
    if (n < 2)
        return 0;
    o.beam = data[0] & 7;
    o.sample_rate = data[0] & 8 ? 11025 : 8000;
    o.endpoint.silence_after = (data[1] & 15) * 0.1;
    o.endpoint.longest = data[1] >> 4;
    o.no_endpointing = data[0] & 16;
    require(!steno_stream_open(&s, model, &o, NULL));
    for (size_t i = 2; i + 1 < n && total < TOTAL; i += 2) {
        unsigned what = data[i] & 7;
        size_t k = (size_t)(data[i] >> 3) * 128 + data[i + 1];
        k = k < MOST ? k : MOST;
        if (what == 7) {
            require(!steno_stream_finalize(s, NULL));
        } else {
            fill(pcm, k, what, &seed);
            require(!steno_stream_push(s, pcm, k, NULL));
            total += k;
        }
        if (data[i + 1] & 1)
            check(s, &w);
    }
    require(!steno_stream_end(s, NULL));
    check(s, &w);
    steno_stream_close(s);
    return 0;
}
