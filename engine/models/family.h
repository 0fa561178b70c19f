/* What a model family does behind steno_stream_*: one table of functions per family. A family's
 * stream is a struct of its own whose first member is the head; family.c sends the calls on. */
#ifndef STENO_MODELS_FAMILY_H
#define STENO_MODELS_FAMILY_H

#include "models/stream.h"

/* Each as the steno_stream_ function of its name (steno.h, models/stream.h); never with NULL. flush
 * may be missing: then finalize and end do it at one go. step is for streams that are not batched,
 * by what they have themselves. */
struct steno_stream_ops {
    void (*close)(steno_stream *s);
    steno_status (*feed)(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err);
    bool (*ready)(const steno_stream *s);
    size_t (*missing)(const steno_stream *s);
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    void (*step)(steno_stream *const *s, size_t n, steno_status *st, steno_err *err);
    steno_status (*push)(steno_stream *s, const float *pcm, size_t n, steno_err *err);
    steno_status (*finalize)(steno_stream *s, steno_err *err);
    steno_status (*end)(steno_stream *s, steno_err *err);
    bool (*next)(steno_stream *s, struct steno_event *ev);
    int64_t (*samples)(const steno_stream *s);
    double (*skipped)(const steno_stream *s); /* may be missing: none ever is */
};

struct steno_stream_head {
    const struct steno_stream_ops *ops;
};

/* Family ctc_streaming (stream.c). */
STENO_MUST steno_status steno_ctc_stream_open(steno_stream **out, steno_model *m,
                                              const struct steno_stream_options *opt,
                                              steno_err *err);
/* Family espnet, encoders of whole utterances (espnet_stream.c). */
STENO_MUST steno_status steno_espnet_stream_open(steno_stream **out, steno_model *m,
                                                 const struct steno_stream_options *opt,
                                                 steno_err *err);

#endif
