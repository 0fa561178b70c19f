/* The parts of a stream, for the pool, which runs steps of many streams together. steno_stream_push
 * is a loop of feed and step. steno_stream_finalize and steno_stream_end are loops of flush and
 * step. */
#ifndef STENO_RECOGNIZER_STREAM_H
#define STENO_RECOGNIZER_STREAM_H

#include "speech/recognizer/batcher.h"
#include "speech/recognizer/turn_watch.h"

/* What a stream knows beside its hints. Borrowed for the call. */
struct steno_stream_known {
    /* More hotwords: likely words of whoever runs the program, as in hints; NULL: none. They are
     * left out where the model takes none or the search is greedy. */
    const char *vocabulary;
    const struct steno_line *lines; /* [n_lines] as of steno_stream_open_lines; NULL: none */
    size_t n_lines;
};
/* As steno_stream_open; known may be NULL. */
STENO_MUST steno_status steno_stream_open_knowing(steno_stream **out, steno_model *m,
                                                  const struct steno_stream_options *opt,
                                                  const struct steno_stream_known *known,
                                                  steno_err *err);

/* Take samples until a step is due that must come before more of them, or all are taken; *used <= n
 * of them. The steps of a final that is begun early (steno_stream_slack) need not: sound drops it,
 * and then no step of it is due any more. So less than n are taken only where afterwards
 * steno_stream_ready without slack; the feed behind that step takes more. *used may be 0: samples
 * from before made the step due. STENO_ERR_INVAL: the stream failed or ended before. Confined. */
STENO_MUST steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                          steno_err *err);
/* Tell how much audio waits to be fed, in samples at the input rate: with more than a quarter of a
 * second no partial is due beside those that come with other work, so a stream that is late catches
 * up first. Until then nothing waits. */
void steno_stream_set_waiting(steno_stream *s, size_t samples);
/* Tell for how many seconds its work has waited for a worker since it was opened. The longer the
 * work of a partial waited, the later the next one is due: with many streams partials become rarer,
 * not late. Until then 0. */
void steno_stream_set_queued(steno_stream *s, double seconds);
/* Whether a step is due. If so, it must come before the next feed, unless it has slack. */
bool steno_stream_ready(const steno_stream *s);
/* Input samples until a step is due, approximately: with fewer samples no step comes. 0 if one is
 * due, else at least 1. */
size_t steno_stream_missing(const steno_stream *s);
/* Seconds of audio that were recognized so far: the time of an event that came now. */
double steno_stream_heard(const steno_stream *s);
/* The part of a step that the stream's next one takes: streams share a step up to a sum of 1.
 * 0: any number of them share one. */
double steno_stream_share(const steno_stream *s);
/* Seconds until the result of the step that is due is needed: until the endpoint, if a final is
 * begun early (steno_stream_set_early); else 0. */
double steno_stream_slack(const steno_stream *s);
/* Whether the step that is due is an answer of the network that judges turns, not of the model. */
bool steno_stream_turn_due(const steno_stream *s);
/* What the network that judges turns has answered so far; zeros without one. */
struct steno_turn_stats steno_stream_turn_stats(const steno_stream *s);
/* The stream goes on no more, as after a failure: what it knows of the open utterance becomes a
 * final with reason END, if there are words. Only next and close may follow. */
void steno_stream_rescue(steno_stream *s);
/* Continue a steno_stream_finalize or, with `end`, a steno_stream_end. *done = false: a step is
 * due; run it, then call again with the same `end`. *done = true: it is complete. No feed in
 * between. It may be called between the steps of a final that is begun early, which is due then. */
STENO_MUST steno_status steno_stream_flush(steno_stream *s, bool end, bool *done, steno_err *err);

#endif
