/* Our side of sherpa.py: processor time of streams that are decoded together, without loading the
 * model.
 *
 *     stream_speed MODEL PRECISION BEAM STREAMS SECONDS FILE
 *
 * Every stream gets the first SECONDS of FILE, 0.1 s at a time, and steps of all that are ready run
 * as one batch. Prints seconds of loading and processor seconds per second of audio of a stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/file.h"
#include "base/clock.h"
#include "speech/recognizer/stream.h"

#define PIECE 0.1 /* s */

static void die(const char *why)
{
    fprintf(stderr, "stream_speed: %s\n", why);
    exit(1);
}

struct audio {
    float *pcm;
    size_t n;
    int rate;
};

static struct audio read_audio(const char *path, double seconds)
{
    struct audio a = {0};
    struct steno_audio_info info;
    steno_audio *file = NULL;
    steno_err err = {0};
    FILE *f = fopen(path, "rb");
    size_t got, want;
    if (!f || steno_audio_open_fd(&file, fileno(f), NULL, &err))
        die(f ? err.msg : "cannot read the recording");
    steno_audio_get_info(file, &info);
    a.rate = info.sample_rate;
    want = (size_t)(seconds * a.rate);
    a.pcm = calloc(want + 1, sizeof *a.pcm);
    if (!a.pcm)
        die("out of memory");
    do {
        if (steno_audio_read(file, a.pcm + a.n, want - a.n, &got, &err))
            die(err.msg);
        a.n += got;
    } while (got && a.n < want);
    steno_audio_close(file);
    fclose(f);
    return a;
}

/* Feed a stream samples [*at, to), or its end, until a step is due. False: there is nothing left.
 */
static bool feed(steno_stream *s, const struct audio *a, size_t *at, size_t to, bool *done)
{
    size_t used = 0;
    if (*at < to && steno_stream_feed(s, a->pcm + *at, to - *at, &used, NULL))
        die("a stream failed");
    *at += used;
    if (*at == a->n && !*done && !steno_stream_ready(s) && steno_stream_flush(s, true, done, NULL))
        die("a stream failed");
    return steno_stream_ready(s);
}

static void run(steno_batcher *b, steno_stream *const *s, int n, const struct audio *a)
{
    size_t at[STENO_BATCH_MAX] = {0}, piece = (size_t)(PIECE * a->rate);
    bool done[STENO_BATCH_MAX] = {false};
    for (size_t to = piece; !done[n - 1]; to = to + piece < a->n ? to + piece : a->n) {
        size_t k;
        do {
            steno_stream *ready[STENO_BATCH_MAX];
            steno_status st[STENO_BATCH_MAX];
            k = 0;
            for (int i = 0; i < n; i++)
                if (feed(s[i], a, &at[i], to, &done[i]))
                    ready[k++] = s[i];
            steno_streams_step(b, ready, k, st, NULL);
        } while (k);
    }
}

int main(int argc, char **argv)
{
    struct steno_model_options mo = steno_model_options_default();
    struct steno_stream_options so = steno_stream_options_default();
    steno_stream *s[STENO_BATCH_MAX];
    steno_batcher *b = NULL;
    steno_model *m = NULL;
    steno_err err = {0};
    struct audio a;
    int64_t began = steno_thread_ns(), loaded;
    int n = argc == 7 ? atoi(argv[4]) : 0;
    if (n < 1 || n > STENO_BATCH_MAX || !steno_precision_find(argv[2], &mo.precision))
        die("usage: stream_speed MODEL PRECISION BEAM STREAMS SECONDS FILE");
    if (steno_model_open(&m, argv[1], &mo, &err))
        die(err.msg);
    loaded = steno_thread_ns();
    a = read_audio(argv[6], atof(argv[5]));
    so.sample_rate = a.rate;
    so.beam = atoi(argv[3]);
    for (int i = 0; i < n; i++)
        if (steno_stream_open(&s[i], m, &so, &err))
            die(err.msg);
    if (steno_batcher_open(&b, m, n, &err))
        die(err.msg);
    printf("%.4f ", (double)(loaded - began) * 1e-9);
    began = steno_thread_ns();
    run(b, s, n, &a);
    printf("%.6f\n", (double)(steno_thread_ns() - began) * 1e-9 * a.rate / ((double)a.n * n));
    for (int i = 0; i < n; i++)
        steno_stream_close(s[i]);
    steno_batcher_close(b);
    steno_model_close(m);
    free(a.pcm);
    return 0;
}
