/* A whole recording to segments of text, window after window (faster-whisper 1.2.1, transcribe.py,
 * generate_segments: results are the same in f32). */
#ifndef STENO_FAMILIES_WHISPER_TRANSCRIBE_H
#define STENO_FAMILIES_WHISPER_TRANSCRIBE_H

#include "families/whisper/decode.h"

struct steno_whisper_transcribe_options {
    struct steno_whisper_decode_options decode;
    int language;   /* number of tokens.h; -1: detected in the first window */
    bool translate; /* to English; STENO_ERR_UNSUPPORTED of a model for English alone */
    bool times;     /* segments by timestamps; false: one for each window */
    bool words;     /* times of words */
    /* The text so far goes before each window, until a window was decoded at a higher temperature
     */
    bool condition;
    float condition_reset;
    const char *prompt;   /* text that goes before the first window, or NULL */
    const char *prefix;   /* text that the first window begins with, or NULL */
    const char *hotwords; /* text that goes before every window, or NULL */
};

/* decode's defaults; times, condition, reset at 0.5; language detected. */
struct steno_whisper_transcribe_options
steno_whisper_transcribe_default(const struct steno_whisper *m);

struct steno_whisper_word {
    const char *text;  /* with the blank before it */
    double start, end; /* seconds */
    float probability;
};

struct steno_whisper_segment {
    size_t seek;       /* mel frame where its window begins */
    double start, end; /* seconds */
    const char *text;
    const int32_t *ids; /* timestamps among them */
    size_t n_ids;
    const struct steno_whisper_word *words;
    size_t n_words;
    const struct steno_whisper_decoded *window; /* what its window was decoded to */
};

/* Called with each segment in its order, borrowed for the call. Not STENO_OK: no more of them, and
 * that is the result. */
typedef steno_status (*steno_whisper_segment_fn)(void *arg, const struct steno_whisper_segment *s);
/* Called before each window's text is cut into segments, or dropped as silence; may be NULL. */
typedef void (*steno_whisper_window_fn)(void *arg, const int32_t *prompt, size_t n,
                                        const struct steno_whisper_decoded *d);

struct steno_whisper_sink {
    steno_whisper_segment_fn segment;
    steno_whisper_window_fn window; /* or NULL */
    void *arg;
};

/* What is known of the recording afterwards. */
struct steno_whisper_summary {
    int language;
    float language_probability; /* 1 where it was given */
    double seconds;
};

/* pcm [n] at 16 kHz. STENO_ERR_INVAL names an option that does not fit the model. */
STENO_MUST steno_status steno_whisper_transcribe(steno_whisper_runner *r, const float *pcm,
                                                 size_t n,
                                                 const struct steno_whisper_transcribe_options *o,
                                                 const struct steno_whisper_sink *sink,
                                                 struct steno_whisper_summary *out, steno_err *err);

#endif
