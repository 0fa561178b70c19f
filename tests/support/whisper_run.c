#include "tests/support/test.h"
#include "tests/support/whisper_run.h"

void whisper_net_open(struct whisper_net *net, const char *path, enum steno_precision precision)
{
    const struct steno_whisper_options o = {.precision = precision};
    steno_err err = {0};
    *net = (struct whisper_net){NULL, NULL};
    if (steno_whisper_open(&net->m, path, &o, &err) ||
        steno_whisper_runner_open(&net->r, net->m, &err))
        fail_msg("%s", err.msg);
}

void whisper_net_close(struct whisper_net *net)
{
    steno_whisper_runner_close(net->r);
    steno_whisper_close(net->m);
}

static steno_status work(steno_whisper_runner *net, steno_whisper_recording *r,
                         const struct whisper_sink *sink, steno_err *err)
{
    while (steno_whisper_recording_ready(r)) {
        double start, before, end; /* a finished window moves the beginning of the next one */
        struct steno_whisper_segment s;
        const int32_t *prompt;
        size_t n;
        steno_status st;
        steno_whisper_recording_span(r, &start, &before);
        steno_whisper_recordings_step(net, &r, 1, &st, err);
        if (st)
            return st;
        steno_whisper_recording_span(r, &start, &end);
        if (end > before && sink->window) {
            const struct steno_whisper_decoded *d = steno_whisper_recording_window(r, &prompt, &n);
            sink->window(sink->arg, prompt, n, d);
        }
        while (!(st = steno_whisper_recording_next(r, &s)))
            sink->segment(sink->arg, &s);
        if (st != STENO_NEED_MORE)
            return st;
    }
    return STENO_OK;
}

steno_status whisper_run(steno_whisper_runner *r, const float *pcm, size_t n, size_t piece,
                         const struct steno_whisper_recording_options *o,
                         const struct whisper_sink *sink, int *language, float *probability,
                         steno_err *err)
{
    steno_whisper_recording *rec = NULL;
    steno_status st = steno_whisper_recording_open(&rec, steno_whisper_runner_model(r), o, err);
    for (size_t at = 0, k; at < n && !st; at += k) {
        k = piece && n - at > piece ? piece : n - at;
        st = steno_whisper_recording_push(rec, pcm + at, k, err);
        if (!st && piece)
            st = work(r, rec, sink, err);
    }
    if (!st)
        st = steno_whisper_recording_end(rec, err);
    if (!st)
        st = work(r, rec, sink, err);
    if (!st)
        *language = steno_whisper_recording_language(rec, probability);
    steno_whisper_recording_close(rec);
    return st;
}
