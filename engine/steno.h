/* libsteno: audio in, text out.
 *
 *     steno_model *m; steno_stream *s; struct steno_event ev;
 *     steno_model_open(&m, "conf/models/digits-en", NULL, &err);
 *     steno_stream_open(&s, m, NULL, &err);
 *     steno_stream_push(s, pcm, n, &err);          as often as there is audio
 *     while (steno_stream_next(s, &ev)) ...        partials and finals so far
 *     steno_stream_end(s, &err);                   flush: the last word comes now
 *     while (steno_stream_next(s, &ev)) ...
 *
 * A model is frozen after open and shared by any number of streams and threads. A stream is
 * confined: one thread at a time. All times are seconds on one clock: samples since the stream
 * began, at the input rate. Functions that can fail return a steno_status and fill err (may be
 * NULL); outputs stay untouched on failure. Serves C11 and C++. */
#ifndef STENO_H
#define STENO_H

#include <stdio.h>

#include "base/precision.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STENO_ABI_VERSION 1 /* of this header */
/* The version that the library was built with. A library of another version lays out its structs
 * otherwise: compare with STENO_ABI_VERSION before the first call. */
STENO_API int steno_abi_version(void);
/* "0.1.0". Never NULL. */
STENO_API const char *steno_version(void);

typedef struct steno_model steno_model;
typedef struct steno_stream steno_stream;

/* ---- options of model families --------------------------------------------------------------- */

/* What only some model families know travels as name and value, as in "ctc_weight" and "0.3". Each
 * family declares its own in a table, which command line, configuration, requests and documentation
 * are made from. */
struct steno_option {
    const char *name, *value;
};

enum steno_option_kind {
    STENO_OPTION_FLAG,   /* "yes", "true", "on", "1" or "no", "false", "off", "0" */
    STENO_OPTION_NUMBER, /* decimal, min..max */
    STENO_OPTION_CHOICE, /* one of the words in `choices` */
    STENO_OPTION_LIST    /* whole numbers min..max, with commas or blanks between; "": none */
};

enum steno_option_scope {
    STENO_OPTION_OF_MODEL, /* decides what is loaded: a model with another value is another model */
    STENO_OPTION_OF_STREAM /* every stream may have its own; given to a model: its streams' default
                            */
};

struct steno_option_info {
    const char *family; /* that declares it */
    const char *name;
    enum steno_option_kind kind;
    enum steno_option_scope scope;
    double min, max;      /* NUMBER, LIST */
    const char *choices;  /* CHOICE: "espnet-onnx|none"; else NULL */
    const char *fallback; /* what holds when nobody sets it; "" = the model's own value */
    const char *help;     /* one line, for people */
};

/* Row i of the options of all families, sorted by family; NULL past the last. Two families that
 * have an option of one name mean the same kind, scope and range. */
STENO_API const struct steno_option_info *steno_option_at(size_t i);
/* The first of this name; NULL: no family has it. */
STENO_API const struct steno_option_info *steno_option_find(const char *name);
/* STENO_ERR_INVAL: no family has such an option (the message lists those there are), or the value
 * is not of its kind or out of its range. */
STENO_API STENO_MUST steno_status steno_option_check(const char *name, const char *value,
                                                     steno_err *err);

/* ---- languages ------------------------------------------------------------------------------- */

/* The code ("en", "yue": ISO 639, with Whisper's "jw" for Javanese) of a language given by code, by
 * English name ("english") or as a tag of BCP 47 ("en-US"), in any case. NULL: not known here.
 * Static. */
STENO_API const char *steno_language_code(const char *language);
/* The English name of a code, in lower case. NULL: not known here. Static. */
STENO_API const char *steno_language_name(const char *code);

/* What a request says of its recording, for models that can use it. Texts are UTF-8 of at most
 * STENO_HINT_BYTES; NULL and "" = not given. */
#define STENO_HINT_BYTES 8192
struct steno_hints {
    const char *language; /* as steno_language_code takes it; "auto", "multi", "detect" = "" */
    bool translate;       /* the text is to be in English */
    const char *prompt;   /* text that came before: its names and spellings become likelier */
    const char *prefix;   /* text that the recording begins with */
    const char *hotwords; /* words that are likely in all of it */
};

/* ---- models ---------------------------------------------------------------------------------- */

struct steno_model_options {
    const char *cpu; /* use no more than this CPU level; NULL = all the CPU has */
    int threads;     /* threads one stream may use; 0 = 1 */
    bool plain;      /* networks run as they are in the file, without graph passes: the reference
                      * that `steno verify` holds the others against */
    /* STENO_AUTO_WEIGHTS: int8 or bf16 where the model allows it and the CPU multiplies such
     * numbers. In networks that a quantizer has made, all but STENO_FP32 round activations of 8-bit
     * products over the range of each row; AUTO and INT8 keep what is not in 8 bits in bf16 where
     * the CPU multiplies such numbers. */
    enum steno_precision precision;
    const struct steno_option *options; /* [n_options] of the family; borrowed for the call */
    size_t n_options;
};
/* All defaults: what NULL stands for. */
STENO_API struct steno_model_options steno_model_options_default(void);

struct steno_endpoint_rules { /* seconds; in stream options a value <= 0 = the model's own */
    double silence_alone;     /* trailing silence, no speech yet */
    double silence_after;     /* trailing silence after speech */
    double longest;           /* length of an utterance */
};

/* Strings are the model's, never NULL. */
struct steno_model_info {
    const char *dir, *name, *version, *family, *language, *license;
    const char *network; /* file name of the (first) network */
    const char
        *results_of; /* name of the program whose results, faults included, it gives; "" = none */
    int sample_rate; /* Hz that the network was trained at */
    int feature_bins;
    double frame_seconds;     /* one frame of scores: the grain of word times */
    double chunk_seconds;     /* audio per network step */
    double lookahead_seconds; /* audio past a chunk that its scores wait for */
    size_t weight_bytes;      /* packed, shared by all streams */
    size_t stream_bytes;      /* of one stream, about: states and audio */
    size_t vocab_size;
    struct steno_endpoint_rules endpoint;
    /* What the model takes of struct steno_hints. */
    const char *languages; /* codes, "en de fr": what hints may name; "" = not known */
    bool detects_language; /* where none is named */
    bool translates, takes_prompt, takes_hotwords; /* takes_prompt: prompt and prefix */
    /* The model cuts a recording itself: finals have sections, and a recording needs no endpoints.
     */
    bool cuts;
};

/* Which model directory to open: `given` if not NULL or empty; else the environment's STENO_MODEL;
 * else the first model of the catalogue that was fetched (steno model fetch); else the model that
 * ships, conf/models/digits-en, in the source tree the program was built in (when it runs from
 * there), then as installed. A given value that is no path may be a name of the catalogue. *out is
 * the caller's to free(). STENO_ERR_IO: there is none, or the named one was not fetched. */
STENO_API STENO_MUST steno_status steno_model_find(char **out, const char *given, steno_err *err);
/* Load a model directory. Its family is told by what is in it. opt may be NULL. With a folder in
 * STENO_CACHE (or systemd's CACHE_DIRECTORY) packed weights are left there by the first load and
 * mapped by later ones. The message names file and place. STENO_ERR_IO for what is missing or
 * unreadable, STENO_ERR_FORMAT for what is wrong, STENO_ERR_INVAL for an option that the family
 * does not have. */
STENO_API STENO_MUST steno_status steno_model_open(steno_model **out, const char *dir,
                                                   const struct steno_model_options *opt,
                                                   steno_err *err);
STENO_API void steno_model_close(steno_model *m); /* after every stream of it is closed; NULL too */
/* Name of the family that a directory is of; NULL: of none. Looks at what is there, loads nothing.
 */
STENO_API const char *steno_model_family(const char *dir);
/* Whether the family of the directory has these options, and the directory what they ask for. Loads
 * nothing. STENO_ERR_INVAL names the option; STENO_ERR_IO: no model's directory. */
STENO_API STENO_MUST steno_status steno_model_check(const char *dir,
                                                    const struct steno_option *options, size_t n,
                                                    steno_err *err);
STENO_API void steno_model_get_info(const steno_model *m, struct steno_model_info *info);
/* Whether a model can use these hints. STENO_ERR_INVAL: the message begins with the field's name,
 * "language: ". */
STENO_API STENO_MUST steno_status steno_hints_check(const struct steno_model_info *info,
                                                    const struct steno_hints *hints,
                                                    steno_err *err);
/* The same for people, one "key  value" per line (what `steno model info` prints). */
STENO_API void steno_model_describe(const steno_model *m, FILE *out);

/* ---- voice activity -------------------------------------------------------------------------- */

/* Tells speech from silence, for streams that pass silence over or end utterances (struct
 * steno_stream_options). dir
 * NULL: a rule on energy. Else a directory with silero-vad's silero_vad_16k_op15.onnx or
 * silero_vad.onnx. STENO_ERR_IO, STENO_ERR_FORMAT. Frozen: any number of streams of any thread may
 * use one; close it after them. */
typedef struct steno_vad steno_vad;
STENO_API STENO_MUST steno_status steno_vad_open(steno_vad **out, const char *dir, steno_err *err);
STENO_API void steno_vad_close(steno_vad *v);

/* ---- streams --------------------------------------------------------------------------------- */

#define STENO_MAX_BEAM 64

struct steno_stream_options {
    int sample_rate;     /* Hz of the pushed audio, 8000..192000; 0 = the model's */
    bool no_endpointing; /* one final at the end; the segment then grows with the recording */
    bool no_partials;
    bool no_tail; /* partials only of what is complete, where a model would decode the rest for them
                   */
    int beam;   /* hypotheses of the search, 1..STENO_MAX_BEAM; 1 = greedy; 0 = the model's own, at
                 * least n_best */
    int n_best; /* alternatives in finals, 1..beam; 0 = 1 */
    struct steno_endpoint_rules endpoint; /* zero-initialised = the model's own */
    double utterance_end; /* s after a last word until UTTERANCE_END, endpoint or not; 0 = none */
    /* Windows in which nobody speaks do not go through the network. Borrowed until close; NULL: all
     * do. Families that cut recordings ask it where nobody speaks. */
    const steno_vad *vad;
    /* Tells when the speaker is silent, for endpoint rules. Borrowed until close; NULL: a rule on
     * energy. */
    const steno_vad *turn_vad;
    struct steno_hints hints; /* borrowed for the call */
    /* Nobody reads the times of words: models that run a network for them leave it out, and give
     * estimates. */
    bool no_word_times;
    const struct steno_option *options; /* [n_options] of the family; borrowed for the call */
    size_t n_options;
};
/* All defaults: what NULL stands for. */
STENO_API struct steno_stream_options steno_stream_options_default(void);

struct steno_word {
    const char *text;
    double start, end; /* s */
    float confidence;  /* 0..1: docs/decoder.md says how it is computed */
};

struct steno_token {
    int32_t id;        /* in the model's vocabulary */
    float confidence;  /* highest posterior in its frames */
    double start, end; /* s: its frames of scores */
};

struct steno_alternative {
    const char *text;
    float confidence;
    double score; /* log-probability of the text under the model; greedy: of its best path */
    size_t n_words;
    const struct steno_word *words;
    size_t n_tokens;
    const struct steno_token *tokens;
    size_t n_ids; /* attention decoders: the hypothesis as the search has it, marks of beginning and
                   * end included; else none */
    const int32_t *ids;
};

/* What a model says of the recording beside its words, of a segment or section; NULL = nothing.
 * Lower case. */
struct steno_labels {
    const char *emotion; /* of the voice: "neutral", "happy", "sad", "angry", ... */
    const char *sound;   /* what is heard: "speech", "bgm", "applause", "laughter", ... */
};

/* A part of a segment, as the model itself has cut it (a segment of Whisper's). */
struct steno_section {
    double start, end;            /* s */
    const char *text;             /* with the blank before it, if the model has written one */
    size_t first_word, n_words;   /* of the event's words */
    size_t first_token, n_tokens; /* of its tokens */
    size_t n_ids;
    const int32_t *ids; /* tokens as decoded, those of times among them */
    double score;       /* sum of their log-probabilities */
    /* Of the piece of audio that it was decoded from: */
    double seek;             /* s: where it begins */
    float temperature;       /* of the sampling; 0 = none */
    double avg_log_prob;     /* of a token */
    float compression_ratio; /* of the text: the larger, the more it repeats itself; 0 = none of
                              * these four is known */
    float no_speech;         /* probability that nobody speaks */
    struct steno_labels labels;
};

enum steno_event_kind {
    STENO_SPEECH_START,
    STENO_PARTIAL,
    STENO_FINAL,
    STENO_UTTERANCE_END /* no new word for options.utterance_end; `end`: the last word's */
};
enum steno_final_reason {
    STENO_FINAL_ENDPOINT, /* silence */
    STENO_FINAL_LENGTH,   /* the longest utterance was reached */
    STENO_FINAL_REQUEST,  /* steno_stream_finalize */
    STENO_FINAL_END       /* steno_stream_end */
};

/* Strings and arrays are the stream's, valid until the next push, finalize, end or next.
 * Order within a segment: at most one SPEECH_START, any number of PARTIAL, one FINAL. A segment
 * without speech has no events, unless its end was requested (FINAL_REQUEST: the final may
 * be empty). An UTTERANCE_END comes once per pause, within a segment or after it. The events do
 * not depend on how the audio was cut into pushes. */
struct steno_event {
    enum steno_event_kind kind;
    int64_t segment;     /* counts finals from 0 */
    double time;         /* s: audio that the networks had seen when the event was made */
    double start, end;   /* s: first word's start, last word's end; SPEECH_START: start only */
    const char *text;    /* whole hypothesis of the segment, "" if none; never NULL */
    size_t stable_bytes; /* partial: text[0, stable_bytes) will not change any more */
    size_t stable_words; /* the same in whole words */
    float confidence;
    size_t n_words;
    const struct steno_word *words;
    size_t n_tokens;
    const struct steno_token *tokens; /* of the text */
    size_t n_alternatives; /* finals: includes the best one, which is words and text above */
    const struct steno_alternative *alternatives;
    enum steno_final_reason reason;
    size_t n_sections; /* 0: the model does not cut; partials: of the text that is complete */
    const struct steno_section *sections;
    const char *language;       /* code of what is spoken, detected or given; "" = not known */
    float language_probability; /* 1 where it was given; 0 = not known */
    struct steno_labels labels; /* finals */
};

/* opt may be NULL. STENO_ERR_INVAL: a rate or beam out of range, an option that the model's family
 * does not have. */
STENO_API STENO_MUST steno_status steno_stream_open(steno_stream **out, steno_model *m,
                                                    const struct steno_stream_options *opt,
                                                    steno_err *err);
STENO_API void steno_stream_close(steno_stream *s); /* NULL too */
/* pcm: [n] f32 in [-1,1] at the stream's sample rate (NaN and Inf count as 0); borrowed for the
 * call. Any n, 0 included. Events of one push wait for steno_stream_next; of partials that nobody
 * reads only the newest are kept, finals all. */
STENO_API STENO_MUST steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n,
                                                    steno_err *err);
/* The same for pcm [n] in signed 16 bits, native byte order. */
STENO_API STENO_MUST steno_status steno_stream_push_s16(steno_stream *s, const int16_t *pcm,
                                                        size_t n, steno_err *err);
/* Close the current segment now: everything said so far becomes final (silence is put behind it, so
 * that the networks' look-ahead is passed); the stream goes on from this sample with new states. */
STENO_API STENO_MUST steno_status steno_stream_finalize(steno_stream *s, steno_err *err);
/* No more audio: flush through the networks' look-ahead, last final. */
STENO_API STENO_MUST steno_status steno_stream_end(steno_stream *s, steno_err *err);
/* Next event in order; false when there is none yet. */
STENO_API bool steno_stream_next(steno_stream *s, struct steno_event *ev);
/* Audio taken in so far, samples at the input rate. */
STENO_API int64_t steno_stream_samples(const steno_stream *s);
/* Seconds of audio so far that went through no network, by the options' vad. */
STENO_API double steno_stream_skipped(const steno_stream *s);

#ifdef __cplusplus
}
#endif

#endif
