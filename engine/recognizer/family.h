/* What a model family does behind steno_stream_*: one table of functions per family. A family's
 * stream is a struct of its own whose first member is the head; family.c sends the calls on. */
#ifndef STENO_RECOGNIZER_FAMILY_H
#define STENO_RECOGNIZER_FAMILY_H

#include "base/clock.h"
#include "recognizer/stream.h"

/* What networks have taken of a thread so far. */
struct steno_network_time {
    int64_t ns, cpu_ns;
    bool timed; /* processor time is wanted, too: a call of the system at both ends of each run */
    int64_t began_ns, began_cpu_ns;
};

static inline void steno_network_time_begin(struct steno_network_time *t)
{
    t->began_ns = steno_now_ns();
    t->began_cpu_ns = t->timed ? steno_thread_ns() : 0;
}

static inline void steno_network_time_end(struct steno_network_time *t)
{
    t->cpu_ns += t->timed ? steno_thread_ns() - t->began_cpu_ns : 0;
    t->ns += steno_now_ns() - t->began_ns;
}

/* Each as the steno_stream_ function of its name (steno.h, recognizer/stream.h); never with NULL.
 * flush may be missing: then finalize and end do it at one go. step is for a family whose streams
 * the stepper does not run itself: 1 to STENO_BATCH_MAX of them, spent grows by what their networks
 * took if they are to be told from the rest; else it may be missing. */
struct steno_stream_ops {
    void (*close)(steno_stream *s);
    steno_status (*feed)(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err);
    bool (*ready)(const steno_stream *s);
    size_t (*missing)(const steno_stream *s);
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    void (*step)(steno_stream *const *s, size_t n, steno_status *st, steno_err *err,
                 struct steno_network_time *spent);
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
