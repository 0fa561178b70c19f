/* Processor time of Whisper's parts on one thread: one window through the encoder, with the keys
 * and values of the decoder's cross attention; and a token of the decoder with its search, greedy
 * and with a beam of 5. Prints "encoder MS", "greedy MS", "beam5 MS": the smallest of some rounds.
 *
 * whisper_speed MODEL fp32|bf16|int8 [CPU [ROUNDS [FILE]]]
 *
 * FILE gets f32: the encoder's frames [1500, state] of the window, then the log-mel [200, mels] of
 * two seconds of the same noise, before floor and scale. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/precision.h"
#include "speech/families/whisper/mel.h"
#include "speech/families/whisper/search.h"

#define TOKENS 48

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * 0x1p-24f;
}

/* Milliseconds for each token of a text without an end. */
static double decode(steno_whisper_search *s, const struct steno_whisper *m,
                     steno_whisper_runner *r, steno_whisper_state *state, size_t beam)
{
    const int32_t sot[4] = {m->special.sot, m->special.first_language, m->special.transcribe,
                            m->special.no_times};
    const int32_t english[2] = {m->special.sot, m->special.no_times};
    struct steno_whisper_search_options o = {.beam = beam,
                                             .patience = 1,
                                             .length_penalty = 1,
                                             .max_new = TOKENS,
                                             .best_of = 1,
                                             .rules = steno_whisper_rules_default(m)};
    struct steno_whisper_ask ask;
    int64_t began;
    o.rules.times = false;
    o.rules.suppress = &m->special.eot;
    o.rules.n_suppress = 1;
    began = steno_thread_ns();
    if (m->special.multilingual ? steno_whisper_search_start(s, &o, state, sot, 4, NULL)
                                : steno_whisper_search_start(s, &o, state, english, 2, NULL))
        exit(1);
    while (steno_whisper_search_ask(s, &ask)) {
        if (steno_whisper_step(r, &ask, 1, NULL))
            exit(1);
        steno_whisper_search_take(s, &ask);
    }
    return (double)(steno_thread_ns() - began) * 1e-6 / TOKENS;
}

static bool write_all(FILE *f, const float *x, size_t n)
{
    return fwrite(x, sizeof *x, n, f) == n;
}

static bool dump(const char *path, const struct steno_whisper *m, const steno_whisper_runner *r)
{
    FILE *f = fopen(path, "wb");
    steno_whisper_mel *mel = NULL;
    float *pcm = malloc(32000 * sizeof *pcm);
    uint32_t seed = 1;
    size_t rows, n;
    const float *x = steno_whisper_encoded(r, &rows);
    bool ok = f && pcm && x && write_all(f, x, rows * (size_t)m->dims.audio_state) &&
              !steno_whisper_mel_open(&mel, (size_t)m->dims.mels, NULL);
    for (size_t i = 0; ok && i < 32000; i++)
        pcm[i] = noise(&seed) - 0.5f;
    ok = ok && !steno_whisper_mel_push(mel, pcm, 32000, NULL) &&
         !steno_whisper_mel_end(mel, NULL) &&
         write_all(f, steno_whisper_mel_at(mel, 0, &n), 200 * (size_t)m->dims.mels);
    steno_whisper_mel_close(mel);
    free(pcm);
    return f && !fclose(f) && ok;
}

static void lower(double *best, double ms)
{
    *best = ms < *best ? ms : *best;
}

int main(int argc, char **argv)
{
    struct steno_whisper_options o = {.threads = 1};
    struct steno_whisper *m;
    steno_whisper_runner *r;
    steno_whisper_state *state;
    steno_whisper_search *s;
    struct steno_whisper_window w = {.n = 3000, .floor = -4};
    const int rounds = argc > 4 ? atoi(argv[4]) : 5;
    double encoder = 1e9, greedy = 1e9, beam = 1e9;
    uint32_t seed = 1;
    steno_err err = {0};
    float *mel;
    if (argc < 3 || !steno_precision_find(argv[2], &o.precision)) {
        fprintf(stderr, "usage: whisper_speed MODEL fp32|bf16|int8 [CPU [ROUNDS]]\n");
        return 2;
    }
    o.cpu = argc > 3 && *argv[3] ? argv[3] : NULL;
    if (steno_whisper_open(&m, argv[1], &o, &err) || steno_whisper_runner_open(&r, m, &err) ||
        steno_whisper_state_open(&state, m, &err) || steno_whisper_search_open(&s, m, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    mel = malloc((size_t)(3000 * m->dims.mels) * sizeof *mel);
    for (size_t i = 0; mel && i < (size_t)(3000 * m->dims.mels); i++)
        mel[i] = -4 + 3 * noise(&seed);
    w.mel = mel;
    w.rows = (size_t)m->dims.audio_ctx;
    for (int i = 0; mel && i < rounds; i++) {
        const int64_t began = steno_thread_ns();
        if (steno_whisper_encode(r, state, &w, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        lower(&encoder, (double)(steno_thread_ns() - began) * 1e-6);
        lower(&greedy, decode(s, m, r, state, 1));
        lower(&beam, decode(s, m, r, state, 5));
    }
    printf("encoder %.2f\ngreedy %.3f\nbeam5 %.3f\n", encoder, greedy, beam);
    if (argc > 5 && !dump(argv[5], m, r)) {
        fprintf(stderr, "%s: cannot write\n", argv[5]);
        return 1;
    }
    free(mel);
    steno_whisper_search_close(s);
    steno_whisper_state_close(state);
    steno_whisper_runner_close(r);
    steno_whisper_close(m);
    return 0;
}
