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

#include <stdio.h>

#include "base/status.h"

typedef struct steno_model steno_model;
typedef struct steno_stream steno_stream;
struct steno_observer;

struct steno_model_options {
    const char *cpu; /* CPU level, NULL = best */
    int threads;     /* threads one stream may use; 0 = 1 */
    bool plain;      /* networks run as they are in the file, without graph passes: the reference
                      * that `steno verify` holds the others against */
    bool quantized;  /* espnet_onnx directories: the networks of quantize/ */
    /* How weights of products are kept: NULL or "fp32", "bf16", "fp16" (half the memory, sums in
     * f32), "int8" (a quarter; activations are rounded as they come); "auto": int8 or bf16
     * where the directory allows it and the CPU multiplies such numbers, else fp32. In networks
     * that a quantizer has made, all but "fp32" round activations of 8-bit products over the range
     * of each row, and "auto" and "int8" keep what is not in 8 bits in bf16 where the CPU
     * multiplies such numbers, else in f32. With compat "auto" is "fp32". */
    const char *precision;
    const char *compat; /* NULL; "espnet-onnx": results of espnet_onnx 0.2.1 (docs/espnet.md) */
    bool without_lm;    /* espnet_onnx directories: no search will ask the language model */
    const struct steno_observer
        *observer; /* nn/exec/session.h: hears what the networks are given; NULL = no one */
};

struct steno_model_info {
    const char *dir, *name, *version, *family, *language, *license; /* the model's; never NULL */
    const char *network; /* file name of the (first) network */
    int sample_rate;     /* Hz that the network was trained at */
    int feature_bins;
    double frame_seconds;     /* one row of scores: the grain of word times */
    double chunk_seconds;     /* audio per network step */
    double lookahead_seconds; /* audio past a chunk that its scores wait for */
    size_t weight_bytes;      /* packed, shared by all streams */
    size_t stream_bytes;      /* states and window of one stream */
    size_t vocab_size;
    struct steno_endpoint_rules { /* seconds; in stream options a value <= 0 = the model's own */
        double silence_alone;     /* trailing silence, no speech yet */
        double silence_after;     /* trailing silence after speech */
        double longest;           /* length of an utterance */
    } endpoint;
};

/* Which model directory to open: `given` if not NULL or empty; else the environment's STENO_MODEL;
 * else the model that ships, conf/models/digits-en, in the source tree the program was built in
 * (when it runs from there), then as installed. *out is the caller's to free(). STENO_ERR_IO lists
 * the places without one; a given name is not looked at. */
STENO_API STENO_MUST steno_status steno_model_find(char **out, const char *given, steno_err *err);
/* Load a model directory: model.conf, networks, tokens. opt may be NULL. With a folder in
 * STENO_CACHE (or systemd's CACHE_DIRECTORY) packed weights are left there by the first load and
 * mapped by later ones. The message names the file and place. STENO_ERR_IO for what is missing or
 * unreadable, STENO_ERR_FORMAT for what is wrong. */
STENO_API STENO_MUST steno_status steno_model_open(steno_model **out, const char *dir,
                                                   const struct steno_model_options *opt,
                                                   steno_err *err);
STENO_API void steno_model_close(steno_model *m); /* after every stream of it is closed */
/* Strings stay the model's. */
STENO_API void steno_model_get_info(const steno_model *m, struct steno_model_info *info);
/* The same for people, one "key  value" per line (what `steno model info` prints). */
STENO_API void steno_model_describe(const steno_model *m, FILE *out);

/* Joint CTC/attention search of espnet_onnx directories; other families have none of it. Only what
 * `set` names counts, the rest is the model's own. */
enum {
    STENO_SEARCH_CTC_WEIGHT = 1,
    STENO_SEARCH_LM_WEIGHT = 2,
    STENO_SEARCH_PENALTY = 4,
    STENO_SEARCH_MAX_LEN = 8,
    STENO_SEARCH_MIN_LEN = 16,
    STENO_SEARCH_PRE_BEAM = 32
};
struct steno_search_options {
    unsigned set;
    double ctc_weight;     /* 0..1, the decoder has the rest; 1 without lm_weight: CTC alone */
    double lm_weight;      /* >= 0 */
    double penalty;        /* bonus for each token */
    double max_len_ratio;  /* 0: end detection; > 0: of the frames; < 0: tokens */
    double min_len_ratio;  /* the same; 0 = none */
    double pre_beam_ratio; /* tokens that CTC looks at, of the beam */
};

/* Tells speech from silence, for streams that pass silence over (struct steno_stream_options). dir
 * NULL: a rule on energy. Else a directory with silero-vad's silero_vad_16k_op15.onnx or
 * silero_vad.onnx. STENO_ERR_IO, STENO_ERR_FORMAT. Any number of streams of any thread may use one;
 * close it after them. */
typedef struct steno_vad steno_vad;
STENO_API STENO_MUST steno_status steno_vad_open(steno_vad **out, const char *dir, steno_err *err);
STENO_API void steno_vad_close(steno_vad *v);

struct steno_stream_options {
    int sample_rate;     /* Hz of the pushed audio, 8000..192000; 0 = the model's */
    bool no_endpointing; /* one final at the end; the segment then grows with the recording */
    bool no_partials;
    int beam;   /* 0 = the model's own, at least n_best; 1 = greedy; up to STENO_MAX_BEAM =
                 * CTC prefix beam search */
    int n_best; /* alternatives in finals, 1..beam; 0 = 1 */
    struct steno_endpoint_rules endpoint; /* zero-initialised = the model's own */
    struct steno_search_options search;
    /* Windows in which nobody speaks do not go through the network: nothing is heard there.
     * Borrowed until close; NULL: all do. Family ctc_streaming; others pass it over. */
    const steno_vad *vad;
};
#define STENO_MAX_BEAM 64

struct steno_word {
    const char *text;
    double start, end; /* s */
    float confidence;  /* 0..1: docs/decoder.md says how it is computed */
};

struct steno_alternative {
    const char *text;
    float confidence;
    double score; /* log-probability of the text under the model; greedy: of its best path */
    size_t n_words;
    const struct steno_word *words;
    size_t n_tokens; /* token ids of a joint search, sos and eos included; else none */
    const int32_t *tokens;
};

enum steno_event_kind { STENO_SPEECH_START, STENO_PARTIAL, STENO_FINAL };
enum steno_final_reason {
    STENO_FINAL_ENDPOINT, /* silence */
    STENO_FINAL_LENGTH,   /* the longest utterance was reached */
    STENO_FINAL_REQUEST,  /* steno_stream_finalize */
    STENO_FINAL_END       /* steno_stream_end */
};

/* Strings and arrays are the stream's, valid until the next push, finalize, end or next.
 * Order within a segment: at most one SPEECH_START, any number of PARTIAL, one FINAL. A segment in
 * which nothing was heard has no events, unless its end was requested (FINAL_REQUEST: the final may
 * be empty). The events do not depend on how the audio was cut into pushes. */
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
    size_t n_alternatives; /* finals: includes the best one, which is words/text above */
    const struct steno_alternative *alternatives;
    enum steno_final_reason reason;
};

/* opt may be NULL. STENO_ERR_INVAL for a rate or beam out of range. */
STENO_API STENO_MUST steno_status steno_stream_open(steno_stream **out, steno_model *m,
                                                    const struct steno_stream_options *opt,
                                                    steno_err *err);
STENO_API void steno_stream_close(steno_stream *s);
/* pcm: [n] f32 in [-1,1] at the stream's sample rate (NaN and Inf count as 0); borrowed for the
 * call. Any n, 0 included. Events of one push wait for steno_stream_next; of partials that nobody
 * reads only the newest are kept, finals all. */
STENO_API STENO_MUST steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n,
                                                    steno_err *err);
/* Close the current segment now: everything said so far becomes final (silence is put behind it, so
 * that the networks' lookahead is passed); the stream goes on from this sample, networks fresh. */
STENO_API STENO_MUST steno_status steno_stream_finalize(steno_stream *s, steno_err *err);
/* No more audio: flush through the networks' lookahead, last final. */
STENO_API STENO_MUST steno_status steno_stream_end(steno_stream *s, steno_err *err);
/* Next event in order; false when there is none yet. */
STENO_API bool steno_stream_next(steno_stream *s, struct steno_event *ev);
/* Audio taken in so far, samples at the input rate. */
STENO_API int64_t steno_stream_samples(const steno_stream *s);
/* Seconds of audio so far that no network heard, by the options' vad. */
STENO_API double steno_stream_skipped(const steno_stream *s);

STENO_API const char *steno_version(void);

#endif
