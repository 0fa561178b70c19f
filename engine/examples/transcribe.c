/* Transcribe a recording: transcribe MODEL FILE prints a line per word, "start end word".
 *     cc transcribe.c $(pkg-config --cflags --libs steno) -o transcribe */
#include <stdio.h>
#include <steno/steno.h>

static void print_events(steno_stream *s)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev))
        for (size_t i = 0; ev.kind == STENO_FINAL && i < ev.n_words; i++)
            printf("%.2f %.2f %s\n", ev.words[i].start, ev.words[i].end, ev.words[i].text);
}

static steno_status transcribe(steno_recording *r, steno_stream *s, steno_err *err)
{
    float pcm[4096];
    size_t n = 1;
    steno_status st = STENO_OK;
    while (!st && n) {
        st = steno_recording_read(r, pcm, sizeof pcm / sizeof *pcm, &n, err);
        if (!st)
            st = n ? steno_stream_push(s, pcm, n, err) : steno_stream_end(s, err);
        if (!st)
            print_events(s);
    }
    return st;
}

int main(int argc, char **argv)
{
    steno_err err = {STENO_OK, ""};
    struct steno_model_options model = steno_model_options_default();
    struct steno_stream_options stream = steno_stream_options_default();
    struct steno_recording_info info;
    struct steno_model_info about;
    steno_recording *r = NULL;
    steno_model *m = NULL;
    steno_stream *s = NULL;
    steno_status st;
    if (argc != 3) {
        fprintf(stderr, "Usage: %s MODEL FILE\n", argv[0]);
        return 2;
    }
    model.precision = STENO_AUTO_WEIGHTS;
    st = steno_model_open(&m, argv[1], &model, &err);
    if (!st)
        st = steno_recording_open(&r, argv[2], 0, &err);
    if (!st) {
        steno_recording_get_info(r, &info);
        steno_model_get_info(m, &about);
        stream.sample_rate = info.sample_rate;
        stream.no_partials = true;
        stream.no_endpointing = about.cuts;
        st = steno_stream_open(&s, m, &stream, &err);
    }
    if (!st)
        st = transcribe(r, s, &err);
    if (st)
        fprintf(stderr, "%s: %s\n", steno_status_name(st), err.msg);
    steno_stream_close(s);
    steno_recording_close(r);
    steno_model_close(m);
    return st ? 1 : 0;
}
