/* The stream functions of steno.h and recognizer/stream.h: each goes to the stream's family. */
#include "recognizer/family.h"

#include "recognizer/internal.h"

static const struct steno_stream_ops *ops_of(const steno_stream *s)
{
    return ((const struct steno_stream_head *)s)->ops;
}

steno_status steno_stream_open(steno_stream **out, steno_model *m,
                               const struct steno_stream_options *opt, steno_err *err)
{
    return m->espnet ? steno_espnet_stream_open(out, m, opt, err)
                     : steno_ctc_stream_open(out, m, opt, err);
}

void steno_stream_close(steno_stream *s)
{
    if (s)
        ops_of(s)->close(s);
}

steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                               steno_err *err)
{
    return ops_of(s)->feed(s, pcm, n, used, err);
}

bool steno_stream_ready(const steno_stream *s)
{
    return ops_of(s)->ready(s);
}

size_t steno_stream_missing(const steno_stream *s)
{
    return ops_of(s)->missing(s);
}

steno_status steno_stream_flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    const struct steno_stream_ops *ops = ops_of(s);
    if (ops->flush)
        return ops->flush(s, end, done, err);
    *done = true;
    return end ? ops->end(s, err) : ops->finalize(s, err);
}

steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n, steno_err *err)
{
    return ops_of(s)->push(s, pcm, n, err);
}

steno_status steno_stream_finalize(steno_stream *s, steno_err *err)
{
    return ops_of(s)->finalize(s, err);
}

steno_status steno_stream_end(steno_stream *s, steno_err *err)
{
    return ops_of(s)->end(s, err);
}

bool steno_stream_next(steno_stream *s, struct steno_event *ev)
{
    return ops_of(s)->next(s, ev);
}

int64_t steno_stream_samples(const steno_stream *s)
{
    return ops_of(s)->samples(s);
}

double steno_stream_skipped(const steno_stream *s)
{
    const struct steno_stream_ops *ops = ops_of(s);
    return ops->skipped ? ops->skipped(s) : 0;
}
