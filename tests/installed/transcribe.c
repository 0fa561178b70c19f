/* A user's program, compiled as C11 and as C++ with only the files that `make install` installed.
 * transcribe MODEL FILE prints each final of a WAV file (16 bits, 8 kHz, mono, 44 bytes of header)
 * and the number of its tokens. */
#include <stdio.h>
#include <steno/steno.h>

static int fail(const steno_err *err)
{
    fprintf(stderr, "%s\n", err->msg);
    return 1;
}

static void print_events(steno_stream *s)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            printf("%s (%d tokens)\n", ev.text, (int)ev.n_tokens);
}

static steno_status transcribe(steno_stream *s, FILE *f, steno_err *err)
{
    int16_t pcm[800];
    size_t n;
    steno_status st = STENO_OK;
    if (fseek(f, 44, SEEK_SET))
        return steno_fail(err, STENO_ERR_IO, "the file is too short");
    while (!st && (n = fread(pcm, sizeof *pcm, 800, f)) > 0) {
        st = steno_stream_push_s16(s, pcm, n, err);
        print_events(s);
    }
    if (!st)
        st = steno_stream_end(s, err);
    print_events(s);
    return st;
}

int main(int argc, char **argv)
{
    steno_err err = {STENO_OK, ""};
    struct steno_model_options model = steno_model_options_default();
    struct steno_stream_options stream = steno_stream_options_default();
    steno_model *m = NULL;
    steno_stream *s = NULL;
    FILE *f = argc > 2 ? fopen(argv[2], "rb") : NULL;
    steno_status st;
    if (!f || steno_abi_version() != STENO_ABI_VERSION)
        return 2;
    model.precision = STENO_AUTO_WEIGHTS;
    stream.sample_rate = 8000;
    if (steno_model_open(&m, argv[1], &model, &err))
        return fail(&err);
    st = steno_stream_open(&s, m, &stream, &err);
    if (!st)
        st = transcribe(s, f, &err);
    steno_stream_close(s);
    steno_model_close(m);
    fclose(f);
    return st ? fail(&err) : 0;
}
