/* A model family, as the recognizer sees it: a table of functions on three opaque things. A model
 * is an open directory, frozen after open and shared. A state is what one stream carries from step
 * to step; it is confined to the holder of the stream. A worker is what one thread needs to run
 * steps.
 *
 * The recognizer owns the stream: it resamples, cuts the audio into windows or segments, runs
 * steps, applies endpoint rules, and makes words, times and events of hypotheses. The family owns
 * the rest: features of segments, networks, search. docs/add-a-family.md walks through one.
 */
#ifndef STENO_FAMILIES_FAMILY_H
#define STENO_FAMILIES_FAMILY_H

#include "base/clock.h"
#include "speech/features/fbank.h"
#include "speech/search/ctc.h"
#include "steno.h"
#include "speech/text/tokens.h"

struct steno_alignment;
struct steno_family;
struct steno_observer;
struct steno_shell;

#define STENO_BATCH_MAX 32 /* maximum of streams in one step */

enum steno_feeding {
    STENO_FEED_WINDOWS, /* feature frames in windows of fixed length, one window per step; the
                         * search follows each step, and its frames decide endpoints */
    STENO_FEED_SEGMENTS /* samples of one utterance, found by an energy rule; a step whenever a
                         * partial or the final is due */
};

/* What a family says about an open model. Strings and pointers belong to the model and are not
 * NULL, unless stated. */
struct steno_family_info {
    const char *name, *version, *language, *license, *network, *results_of; /* steno_model_info */
    const steno_tokens *tokens;
    int sample_rate; /* Hz */
    size_t hop;      /* samples between feature frames */
    int feature_bins;
    size_t frame_samples; /* samples per frame of scores, the unit of spans */
    double chunk_seconds, lookahead_seconds;
    size_t weight_bytes, stream_bytes;
    struct steno_endpoint_rules endpoint;
    double limit;                   /* s: maximum length of an utterance; 0: none */
    double word_before, word_after; /* s: how far a word extends around its frames */
    bool batches;                   /* one step may take several streams */
    /* struct steno_model_info; languages NULL: `language` alone */
    const char *languages;
    bool detects_language, translates, takes_prompt, takes_hotwords;
    bool takes_prefix; /* beside a prompt */
    bool closed;  /* the vocabulary is a set of words, such as commands: they stay as they are */
    bool writes;  /* it writes numbers, marks and capitals as people do */
    bool untimed; /* steps also run networks that a trial does not time, such as a search's */
    enum steno_feeding feeding;
    struct steno_windows_info {
        const steno_fbank *front; /* all streams share its tables */
        size_t frames, shift;     /* feature frames of a window, and of its move per step */
        size_t left_padding;      /* feature frames of silence before a recording */
        size_t zeros;             /* feature frames whose values are 0 before these */
        size_t right_padding;     /* feature frames of silence after it, for the last word */
        size_t rows;              /* frames of scores per step */
    } windows;
    struct steno_segments_info {
        bool whole;       /* a recording is one segment, with its silence */
        bool incremental; /* the family accepts samples as they arrive (accept); a step is due when
                           * it has enough of them */
        bool no_partials; /* the family has no result before the end */
        bool cuts;        /* hypotheses have sections */
        double partial_every; /* incremental: s of audio with speech until a partial is due, beside
                               * the steps that accept asks for; 0: none is */
        bool early;           /* incremental: a final may be begun before the segment has ended */
    } segments;
};

/* Arguments of open. */
struct steno_family_open {
    const struct steno_family *family; /* whose open is called */
    const char *dir;
    const char *cpu; /* dispatch level; NULL: all that the CPU has */
    int threads;     /* >= 1 */
    bool plain;      /* no graph passes */
    enum steno_precision precision;
    const struct steno_option *options; /* of the family, checked; borrowed for the call */
    size_t n_options;
    const struct steno_observer *observer; /* sees the networks' inputs; NULL: none */
};

/* Tells speech from silence, for families that cut recordings where nobody speaks. */
struct steno_speech_source {
    const void *vad;
    /* rate: of the samples, Hz. vad must outlive the state. */
    steno_status (*open)(void **state, const void *vad, int rate, steno_err *err);
    void (*close)(void *state);
    /* Take samples until one frame is classified; *used <= n of pcm [n] are taken. STENO_NEED_MORE:
     * all samples are taken, and the frame is not complete. */
    steno_status (*push)(void *state, const float *pcm, size_t n, size_t *used, bool *speech,
                         steno_err *err);
    int64_t (*classified)(const void *state); /* samples since open, or reset */
};

/* Arguments of state_new. */
struct steno_family_stream {
    int beam;         /* 0: the model's own; on return the beam in use */
    int n_best;       /* likewise */
    bool beam_yields; /* nobody asked for this beam: hints.hotwords may have a larger one */
    bool whole;       /* segments: one segment for all audio between two finalizes */
    bool cuts;        /* on return: the family cuts such a segment into utterances, and wants one */
    bool no_word_times;
    /* Checked against info; language: a code of info.languages, or NULL. Borrowed for the call. */
    struct steno_hints hints;
    const char *asked; /* the language as the request has it, such as "en-GB", or NULL. Borrowed */
    /* More hotwords, of whoever runs the program, or NULL. Borrowed. Never an error: left out where
     * the model takes none or the search is greedy. */
    const char *vocabulary;
    const struct steno_option *options; /* of the family, checked; borrowed for the call */
    size_t n_options;
    const struct steno_speech_source
        *speech; /* borrowed for the call; its vad outlives the state */
    /* Families with CTC give it their scores instead of searching them (alignment.h); outlives the
     * state. NULL: none. */
    struct steno_alignment *alignment;
};

/* One hypothesis; lists have the best one first. Pointers belong to the state and are valid until
 * its next step or reset. */
struct steno_hypothesis {
    const struct steno_span *spans; /* [n] tokens and their frames of scores */
    size_t n;
    double score;       /* log-probability */
    const char *text;   /* NULL: the text that the tokens spell */
    const int32_t *ids; /* [n_ids] the search's sequence with its marks; NULL: the spans have it */
    size_t n_ids;
    /* [n_sections] of the best hypothesis; times and seek in seconds of the segment, tokens are
     * spans, words are not filled in. */
    const struct steno_section *sections;
    size_t n_sections;
    const char *language; /* code; NULL: not known. Static */
    float language_probability;
    struct steno_labels labels; /* the model's, or static */
};

enum steno_step_goal {
    STENO_STEP_ADVANCE, /* segments: process accepted samples; nobody reads hypotheses */
    STENO_STEP_PARTIAL, /* segments: give the best hypothesis so far; windows: more may follow */
    STENO_STEP_GLANCE,  /* segments with an interval: a partial on which no later result depends */
    STENO_STEP_FINAL,   /* segments: give all hypotheses of the finished segment; windows: the last
                         * window before a new recording */
    STENO_STEP_EARLY    /* segments with early: as FINAL of a segment that probably ends here. The
                         * same n with FINAL keeps the result; STENO_RESET_RESUMED drops it. Tokens
                         * that were stable before it stay so, no others are. */
};

/* The part of one stream in a step. */
struct steno_step_item {
    void *state;
    const float *window; /* windows: [frames, bins], aligned; borrowed */
    /* segments: samples [dropped, n) of the segment at the model's rate; earlier ones were accepted
     * and are gone */
    const float *pcm;
    size_t dropped, n;
    enum steno_step_goal goal;
    /* results */
    bool more;     /* segments: not complete; the recognizer calls step again with the same item */
    bool deferred; /* segments: the step did nothing for this item, because those before it fill it;
                    * the recognizer calls step again. Never of the first item */
    size_t
        finals; /* segments: utterances inside the segment that are complete. The recognizer takes
                 * the hypotheses of each as final, and resets with STENO_RESET_TAKEN after it. */
    steno_status st;
    steno_err *err; /* or NULL */
};

/* The time of networks on one thread. */
struct steno_network_time {
    int64_t ns, cpu_ns;
    bool timed; /* measure cpu_ns too, with a system call at both ends of each run */
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

enum steno_reset {
    STENO_RESET_TAKEN,     /* segments: the hypotheses of a complete utterance have been taken */
    STENO_RESET_RESUMED,   /* segments: the segment goes on, as if no EARLY step had been */
    STENO_RESET_UTTERANCE, /* another utterance of the same recording begins */
    STENO_RESET_PAUSE,     /* the next utterance begins after a long silence; nothing of it came */
    STENO_RESET_RECORDING  /* another recording begins: the same as a new state */
};

/* What a model says by itself of where an utterance ends, with a token that is not written. */
enum steno_ending {
    STENO_ENDING_NONE,
    STENO_ENDING_TURN,       /* the speaker has finished: <EOU> */
    STENO_ENDING_BACKCHANNEL /* the speaker only showed that he listens: <EOB> */
};

struct steno_family {
    const char *name;
    const struct steno_option_info *options; /* [n_options] */
    size_t n_options;
    const struct steno_shell *shell; /* families/common/shell.h; NULL: all functions are its own */

    /* Whether dir is of this family. Looks at names of files and loads nothing. */
    bool (*probe)(const char *dir);
    /* Check whether dir has what model options ask for, without loading. NULL: it always has.
     * STENO_ERR_INVAL. */
    steno_status (*check)(const char *dir, const struct steno_option *options, size_t n,
                          steno_err *err);
    /* As steno_model_languages, of a directory that probe found to be of the family. NULL: they are
     * not known before open. */
    bool (*languages)(const char *dir, struct steno_model_languages *out);
    steno_status (*open)(void **model, const struct steno_family_open *o, steno_err *err);
    void (*close)(void *model);
    void (*info)(const void *model, struct steno_family_info *out);
    /* Print the model for people, one "key  value" per line. of: the recognizer's information. */
    void (*describe)(const void *model, const struct steno_model_info *of, FILE *out);

    steno_status (*state_new)(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err);
    void (*state_free)(void *state);
    steno_status (*reset)(void *state, enum steno_reset what, steno_err *err);

    /* max: maximum of streams in one step; 1 unless info.batches. */
    steno_status (*worker_open)(void **worker, void *model, int max, steno_err *err);
    void (*worker_close)(void *worker);
    /* Run a step of each of n streams of one model, n <= max. Networks run as a batch of `size` >=
     * n. Every item has its own status. The results of a stream do not depend on the others. *spent
     * grows by the time of the networks that a trial times, and by nothing if there is no trial:
     * the pool knows the cost of that time from the trial alone, and counts the rest per stream. */
    void (*step)(void *worker, struct steno_step_item *items, size_t n, int size,
                 struct steno_network_time *spent);
    /* The part of a step that the state's next one takes: streams share a step up to a sum of 1.
     * With 1 it takes the step alone, and others would wait for it. For families whose steps
     * differ, and which no trial times. NULL: any streams share steps, of the sizes that pay by the
     * trial. */
    double (*share)(const void *state);
    /* Write the best hypotheses so far to out, at most `max`. *stable: number of tokens at the head
     * of the first that will not change; more than it has: its last word will not change either.
     * STENO_ERR_NOMEM. */
    steno_status (*hypotheses)(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable);

    /* Trials are steps on noise, for timing. *trial NULL: a trial cannot time steps of this model.
     */
    steno_status (*trial_open)(void **trial, void *worker, steno_err *err);
    steno_status (*trial_run)(void *trial, int size, steno_err *err);
    void (*trial_close)(void *trial);

    /* Feeding by windows only. */
    /* Let the search consume one or more frames of scores of the last step. *left: false if there
     * were none. */
    steno_status (*consume)(void *state, bool *left);
    /* Called instead of a step if nobody speaks in the window. */
    steno_status (*skip)(void *state);
    /* An utterance ends: called before its final hypotheses are asked for, which it may order anew.
     * NULL: nothing is to be done. */
    steno_status (*finish)(void *state, steno_err *err);
    int64_t (*frames)(const void *state);     /* frames of scores that the search has consumed */
    int64_t (*last_sound)(const void *state); /* the last of them with sound; -1: none */
    size_t (*n_tokens)(const void *state);    /* of the best hypothesis, approximately */
    /* Of the best hypothesis. The token counts in n_tokens. NULL: no model of the family says it.
     */
    enum steno_ending (*ending)(const void *state);

    /* Incremental segments only. */
    /* Accept samples [accepted, end) of the segment, until a step is due or all are accepted. pcm
     * begins at sample `dropped`. */
    steno_status (*accept)(void *state, const float *pcm, size_t dropped, size_t end, bool *due);
    size_t (*accepted)(const void *state); /* accepted samples of the segment */
    size_t (*missing)(const void *state);  /* samples until a step is due, approximately */
};

#endif
