/* A recording to segments of text, window after window, as its samples come (faster-whisper 1.2.1,
 * transcribe.py, generate_segments: in f32 and with the whole recording there from the beginning
 * the results are the same).
 *
 * Use: open; as samples come, push, and while ready, step and read all with next; at the end, end,
 * and again while ready, step and next; close.
 *
 * A step is one run of the decoder, of many recordings at once. Confined. */
#ifndef STENO_FAMILIES_WHISPER_RECORDING_H
#define STENO_FAMILIES_WHISPER_RECORDING_H

#include "speech/families/whisper/decode.h"

typedef struct steno_whisper_recording steno_whisper_recording;

#define STENO_WHISPER_CONTEXT 223 /* pieces of what was before, at most */
#define STENO_WHISPER_BATCH 32    /* recordings of a step, at most */

/* A set of languages: bit i % 64 of word i / 64 for number i of tokens.h. */
struct steno_whisper_languages {
    uint64_t bits[2];
};

struct steno_whisper_recording_options {
    struct steno_whisper_decode_options decode;
    int language;                         /* number of tokens.h; -1: detected in the first window */
    struct steno_whisper_languages among; /* that may be detected; none: all */
    bool translate; /* to English; STENO_ERR_UNSUPPORTED of a model for English alone */
    bool times;     /* segments by timestamps; false: one for each window */
    bool words;     /* times of words */
    bool few_words; /* ... only where they show whether the timestamp that ends a window is right */
    bool words_move; /* ... and the next window begins behind the last one */
    size_t batched;  /* windows at once, of batched.h; this one is done with one after the other */
    /* A window without timestamps may end before what is said ends: where seconds of speech follow
     * its last word, they get a window of their own. Needs words. */
    bool recover;
    /* Seconds; > 0: silence around text that the words' times and probabilities show to be made up
     * is skipped if it is longer. Needs words and words_move. */
    double hallucination_silence;
    bool each_language; /* the language is detected in every window */
    /* The text so far goes before each window, until one was decoded at a higher temperature */
    bool condition;
    float condition_reset;
    bool every_guess;     /* partials show words that may go on, too */
    bool carry;           /* of streams: the text of an utterance goes before the next one, too */
    const char *prompt;   /* text that goes before the first window, or NULL */
    const char *prefix;   /* text that the first window begins with, or NULL */
    const char *hotwords; /* text that goes before every window, or NULL */
};

/* decode's defaults; times, condition, reset at 0.5; language detected. */
struct steno_whisper_recording_options
steno_whisper_recording_default(const struct steno_whisper *m);

struct steno_whisper_word {
    const char *text;  /* with the blank before it */
    size_t n_ids;      /* pieces of the segment's text */
    double start, end; /* seconds */
    float probability;
};

struct steno_whisper_segment {
    size_t seek;       /* mel frame where its window begins */
    int language;      /* of its window */
    double start, end; /* seconds */
    const char *text;
    const int32_t *ids;     /* timestamps among them */
    const float *log_probs; /* of each */
    size_t n_ids;
    const struct steno_whisper_word *words;
    size_t n_words;
};

/* STENO_ERR_INVAL, STENO_ERR_UNSUPPORTED: an option that does not fit the model. Texts of o are
 * borrowed for the call. */
STENO_MUST steno_status
steno_whisper_recording_open(steno_whisper_recording **out, const struct steno_whisper *m,
                             const struct steno_whisper_recording_options *o, steno_err *err);
void steno_whisper_recording_close(steno_whisper_recording *r);
/* Begin another recording with the same options, but for its language (-1: detected); memory is
 * kept. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_recording_restart(steno_whisper_recording *r, int language,
                                                        steno_err *err);
/* The text that goes before the next window: pieces [*n], at most STENO_WHISPER_CONTEXT; none after
 * a window at a high temperature. Valid until the next step. */
const int32_t *steno_whisper_recording_context(const steno_whisper_recording *r, size_t *n);
/* Before the first window: the recording follows one whose context was ids [n], instead of
 * o.prompt. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_recording_follow(steno_whisper_recording *r,
                                                       const int32_t *ids, size_t n,
                                                       steno_err *err);
/* The language, a number of tokens.h, of the last text of the recording or of the utterance before
 * it; -1: none. Before the first window it can be set: detection then keeps to it unless another
 * language is much likelier. */
int steno_whisper_recording_spoken(const steno_whisper_recording *r);
void steno_whisper_recording_set_spoken(steno_whisper_recording *r, int language);
/* Append samples at 16 kHz; any number. */
STENO_MUST steno_status steno_whisper_recording_push(steno_whisper_recording *r, const float *pcm,
                                                     size_t n, steno_err *err);
/* No more of them: what is left is a window, however short. */
STENO_MUST steno_status steno_whisper_recording_end(steno_whisper_recording *r, steno_err *err);
/* The same, but samples may follow after all: resume takes back the end, and whatever steps have
 * done since. Then the recording goes on as if there had been no end. */
STENO_MUST steno_status steno_whisper_recording_end_early(steno_whisper_recording *r,
                                                          steno_err *err);
void steno_whisper_recording_resume(steno_whisper_recording *r);
/* There is work for a step: a window of 30 s is full, or the rest of the recording is there. */
bool steno_whisper_recording_ready(const steno_whisper_recording *r);
/* The part of a run of the decoder that its next step takes, so that the recordings of a run
 * together take at most 1. More of them gain little: a run then reads as many bytes of their keys
 * and values as of weights, and only the weights are read once for all. At least 1: the step
 * encodes a window or aligns a text, or the recording is not ready. Such a step is not to be
 * shared: the others would wait for it. */
double steno_whisper_recording_share(const steno_whisper_recording *r);
/* One step of n <= STENO_WHISPER_BATCH recordings of the runner's model, all ready: runs of the
 * decoder that they share by their parts. Before them at most one window of 30 s is encoded, of the
 * first recording that is to begin one, so that a step takes no longer than a window; the others'
 * turn comes in later steps. st [n], err [n] or NULL: how it went; a recording that failed is to be
 * closed. Segments of a window that were not read are gone. */
void steno_whisper_recordings_step(steno_whisper_runner *net, steno_whisper_recording *const *r,
                                   size_t n, steno_status *st, steno_err *err);
/* The next segment of the window that was finished last; valid until the next step.
 * STENO_NEED_MORE: there is none. STENO_ERR_NOMEM, STENO_ERR_LIMIT: the same one comes again. */
STENO_MUST steno_status steno_whisper_recording_next(steno_whisper_recording *r,
                                                     struct steno_whisper_segment *out);

/* Begin a partial of the audio behind the windows that are finished, unless a window is due: the
 * recording is ready until it has ended. No samples may be pushed in between; the end of the
 * recording drops it. glance: a partial on which nothing that follows depends; none where the
 * language is not known yet. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_recording_partial(steno_whisper_recording *r, bool glance,
                                                        steno_err *err);
/* What the last partial of the growing window says: pieces ids [n], timestamps among them, of which
 * the first `agreed` will not change: the window's result will begin with their text. Valid until
 * the next step. n is 0 if there is no partial. */
struct steno_whisper_partial {
    const int32_t *ids;
    const float *log_probs;
    size_t n, agreed;
    double start, end; /* s: of the window so far */
};
struct steno_whisper_partial steno_whisper_recording_hypothesis(const steno_whisper_recording *r);

/* What the last finished window was decoded to; its prompt [*n], unless prompt is NULL. Valid until
 * the next step. */
const struct steno_whisper_decoded *
steno_whisper_recording_window(const steno_whisper_recording *r, const int32_t **prompt, size_t *n);
/* Where that window begins, and where the next one does: seconds. */
void steno_whisper_recording_span(const steno_whisper_recording *r, double *start, double *end);
/* Texts that the beam found for that window [n], at most max, the best first; valid until the next
 * step. Returns n: 0 if there is no such list. */
size_t steno_whisper_recording_texts(const steno_whisper_recording *r,
                                     struct steno_whisper_text *out, size_t max);
/* Number of the language of the first window, -1 while it is not known; *probability: 1 where it
 * was given. */
int steno_whisper_recording_language(const steno_whisper_recording *r, float *probability);

#endif
