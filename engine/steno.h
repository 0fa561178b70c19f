/* libsteno: audio in, text out.
 *
 *     steno_model *m; steno_stream *s; struct steno_event ev;
 *     steno_model_open(&m, "conf/models/digits-en", NULL, &err);
 *     steno_stream_open(&s, m, &(struct steno_stream_options){.sample_rate = 16000}, &err);
 *     steno_stream_push(s, pcm, n, &err);          as often as there is audio
 *     while (steno_stream_next(s, &ev)) ...        partials and finals so far
 *     steno_stream_end(s, &err);                   flush: the last word comes now
 *     while (steno_stream_next(s, &ev)) ...
 *
 * A model is frozen after open and shared; a stream is confined to one thread at a time. All times
 * are seconds on one clock: samples since the stream began, at the input rate. */
#ifndef STENO_H
#define STENO_H

#include "base/status.h"

typedef struct steno_model steno_model;
typedef struct steno_stream steno_stream;

struct steno_model_options {
    const char *cpu; /* CPU level, NULL = best */
    int threads;     /* threads one stream may use; 0 = 1 */
};

struct steno_model_info {
    const char *dir, *name, *version, *family, *language, *license;
    int sample_rate;         /* Hz that the network was trained at */
    double chunk_seconds;    /* audio per network step */
    size_t weight_bytes;     /* packed, shared by all streams */
    size_t stream_bytes;     /* arena and states of one stream, about */
    size_t vocab_size;
};

/* Load a model directory: model.conf, networks, tokens. The message names the file and place. */
STENO_API STENO_MUST steno_status steno_model_open(steno_model **out, const char *dir,
                                         const struct steno_model_options *opt, steno_err *err);
STENO_API void steno_model_close(steno_model *m); /* after every stream of it is closed */
STENO_API void steno_model_get_info(const steno_model *m, struct steno_model_info *info);

struct steno_endpoint_rules { /* seconds; a negative value = the model's own */
    double silence_alone;     /* trailing silence, nothing decoded yet */
    double silence_after;     /* trailing silence after something was decoded */
    double longest;           /* length of an utterance */
};

struct steno_stream_options {
    int sample_rate;     /* Hz of the pushed audio, 8000..192000; 0 = the model's */
    bool no_endpointing; /* one final at the end (recordings may still want segments: leave false) */
    bool no_partials;
    int beam;            /* 0, 1 = greedy; more = CTC prefix beam search */
    int n_best;          /* alternatives in finals, 1..beam */
    struct steno_endpoint_rules endpoint; /* zero-initialised = model's own */
};

struct steno_word {
    const char *text;
    double start, end;  /* s */
    float confidence;   /* 0..1: docs/decoder.md says how it is computed */
};

struct steno_alternative {
    const char *text;
    float confidence;
    double score; /* log-probability */
    size_t n_words;
    const struct steno_word *words;
};

enum steno_event_kind { STENO_SPEECH_START, STENO_PARTIAL, STENO_FINAL };
enum steno_final_reason { STENO_FINAL_ENDPOINT, STENO_FINAL_LENGTH, STENO_FINAL_REQUEST, STENO_FINAL_END };

/* Strings and arrays are the stream's, valid until the next push, finalize, end or next. */
struct steno_event {
    enum steno_event_kind kind;
    int64_t segment;        /* counts finals from 0 */
    double time;            /* s: audio processed when the event was made */
    double start, end;      /* s: of the speech in the segment */
    const char *text;       /* whole hypothesis of the segment */
    size_t stable_bytes;    /* partial: text[0, stable_bytes) will not change any more */
    float confidence;
    size_t n_words;
    const struct steno_word *words;
    size_t n_alternatives;  /* finals: includes the best one, which is words/text above */
    const struct steno_alternative *alternatives;
    enum steno_final_reason reason;
};

STENO_API STENO_MUST steno_status steno_stream_open(steno_stream **out, steno_model *m,
                                          const struct steno_stream_options *opt, steno_err *err);
STENO_API void steno_stream_close(steno_stream *s);
/* pcm: [n] f32 in [-1,1] at the stream's sample rate (NaN and Inf count as 0); borrowed for the
 * call. Any n, 0 included. */
STENO_API STENO_MUST steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n,
                                          steno_err *err);
/* Close the current segment now: everything said so far becomes final; the stream goes on. */
STENO_API STENO_MUST steno_status steno_stream_finalize(steno_stream *s, steno_err *err);
/* No more audio: flush through the networks' lookahead, last final. */
STENO_API STENO_MUST steno_status steno_stream_end(steno_stream *s, steno_err *err);
/* Next event in order; false when there is none yet. */
STENO_API bool steno_stream_next(steno_stream *s, struct steno_event *ev);
/* Audio taken in so far, samples at the input rate. */
STENO_API int64_t steno_stream_samples(const steno_stream *s);

STENO_API const char *steno_version(void);

#endif
