/* What a model family is to the recognizer: a table of functions over things that the recognizer
 * does not look into. A model is frozen after open and shared. A state is what one stream carries
 * from step to step; it is confined to whoever holds the stream. A worker is what one thread needs
 * to run steps.
 *
 * The recognizer owns the stream: it resamples, cuts the audio into windows or segments, asks for
 * steps, applies endpoint rules, and makes words, times and events of hypotheses. The family owns
 * everything from there: features of segments, networks, search. docs/add-a-family.md walks through
 * the smallest. */
#ifndef STENO_FAMILIES_FAMILY_H
#define STENO_FAMILIES_FAMILY_H

#include "base/clock.h"
#include "features/fbank.h"
#include "search/ctc.h"
#include "steno.h"
#include "text/tokens.h"

struct steno_observer;

#define STENO_BATCH_MAX 32 /* streams that one step takes, at most */

enum steno_feeding {
    STENO_FEED_WINDOWS, /* features in windows of fixed length, one window a step; the search
                         * follows at once, so that endpoints are told by its frames */
    STENO_FEED_SEGMENTS /* the samples of one utterance, found by an energy rule; a step whenever a
                         * partial or the final is due */
};

/* What a family says of an open model. Strings and pointers are the model's; never NULL unless
 * said. */
struct steno_family_info {
    const char *name, *version, *language, *license, *network, *results_of; /* steno_model_info */
    const steno_tokens *tokens;
    int sample_rate; /* Hz */
    size_t hop;      /* samples between feature frames */
    int feature_bins;
    size_t frame_samples; /* samples a frame of scores stands for: the grain of spans */
    double chunk_seconds, lookahead_seconds;
    size_t weight_bytes, stream_bytes;
    struct steno_endpoint_rules endpoint;
    double limit;                   /* s: no utterance can be longer; 0 = no limit */
    double word_before, word_after; /* s: how far a word reaches around its frames */
    bool batches;                   /* one step may take several streams */
    bool untimed; /* steps run networks whose time a trial does not tell, such as a search's */
    enum steno_feeding feeding;
    struct steno_windows_info {
        const steno_fbank *front; /* whose tables every stream shares */
        size_t frames, shift;     /* frames of a window, and by how many it moves */
        size_t left_padding;      /* frames of silence in front of a recording */
        size_t right_padding;     /* ... of silence that bring out the last word */
        size_t rows;              /* frames of scores that a step gives */
    } windows;
    struct steno_segments_info {
        bool whole;       /* a recording is one segment, silence and all */
        bool incremental; /* the family takes samples as they come (accept), and a step when it has
                           * enough of them */
        bool no_partials; /* nothing can be said before the end */
    } segments;
};

/* How a model is opened. */
struct steno_family_open {
    const char *dir;
    const char *cpu; /* NULL = all the CPU has */
    int threads;     /* >= 1 */
    bool plain;
    enum steno_precision precision;
    const struct steno_option *options; /* of the family, checked; borrowed for the call */
    size_t n_options;
    const struct steno_observer *observer; /* sees what the networks are given; NULL = nobody */
};

/* How a stream is opened. */
struct steno_family_stream {
    int beam;   /* 0 = the model's own; on return the one in use */
    int n_best; /* likewise */
    bool whole; /* segments: one for all that is said between two finalizes */
    const struct steno_option *options; /* of the family, checked; borrowed for the call */
    size_t n_options;
};

/* Best token sequences come first. All pointers are the state's, valid until its next step or
 * reset. */
struct steno_hypothesis {
    const struct steno_span *spans; /* [n] tokens and the frames of scores they were heard in */
    size_t n;
    double score;       /* log-probability */
    const char *text;   /* NULL: what the model's tokens spell */
    const int32_t *ids; /* the search's own sequence, marks included; NULL: none but spans */
    size_t n_ids;
};

enum steno_step_goal {
    STENO_STEP_ADVANCE, /* segments: take in what has been accepted; nobody asks for hypotheses */
    STENO_STEP_PARTIAL, /* segments: the best hypothesis so far; windows: always this */
    STENO_STEP_FINAL    /* segments: all hypotheses of the finished segment */
};

/* One stream's part of a step. */
struct steno_step_item {
    void *state;
    const float *window; /* windows: [frames, bins], aligned; borrowed */
    /* segments: samples [dropped, n) of the segment at the model's rate; those before `dropped` had
     * been accepted and are gone */
    const float *pcm;
    size_t dropped, n;
    enum steno_step_goal goal;
    /* results */
    bool more; /* FINAL: part of the work is done; the same item comes again */
    steno_status st;
    steno_err *err; /* or NULL */
};

/* What networks took of a thread. */
struct steno_network_time {
    int64_t ns, cpu_ns;
    bool timed; /* cpu_ns is wanted too: a system call at both ends of each run */
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
    STENO_RESET_UTTERANCE, /* another utterance begins; audio goes on */
    STENO_RESET_RECORDING  /* another recording begins: everything as in a new state */
};

struct steno_family {
    const char *name;
    const char *layout; /* what marks a directory of it, for messages: "model.conf" */
    const struct steno_option_info *options; /* [n_options] */
    size_t n_options;

    /* Is dir of this family, by what is in it? Loads nothing. */
    bool (*probe)(const char *dir);
    /* Has dir what these options ask for? NULL: whatever they ask. STENO_ERR_INVAL. */
    steno_status (*check)(const char *dir, const struct steno_option *options, size_t n,
                          steno_err *err);
    steno_status (*open)(void **model, const struct steno_family_open *o, steno_err *err);
    void (*close)(void *model);
    void (*info)(const void *model, struct steno_family_info *out);
    /* For people, one "key  value" per line; of: what the recognizer says of the model. */
    void (*describe)(const void *model, const struct steno_model_info *of, FILE *out);

    steno_status (*state_new)(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err);
    void (*state_free)(void *state);
    steno_status (*reset)(void *state, enum steno_reset what, steno_err *err);

    /* max: streams of one step, at most; 1 unless info.batches. */
    steno_status (*worker_open)(void **worker, void *model, int max, steno_err *err);
    void (*worker_close)(void *worker);
    /* A step of each of n streams of one model, n <= max; the network runs as a batch of `size` >=
     * n. Every item has its own status; what a stream gets does not depend on the others. spent
     * grows by what the networks took that a trial would time. */
    void (*step)(void *worker, struct steno_step_item *items, size_t n, int size,
                 struct steno_network_time *spent);
    /* The best hypotheses so far, at most `max`, into out; *stable: tokens at the head of the first
     * that will not change. STENO_ERR_NOMEM. */
    steno_status (*hypotheses)(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                               size_t *stable);

    /* Trials: steps on noise, to be timed. *trial NULL: there is nothing that a trial could time.
     */
    steno_status (*trial_open)(void **trial, void *worker, steno_err *err);
    steno_status (*trial_run)(void *trial, int size, steno_err *err);
    void (*trial_close)(void *trial);

    /* Windows alone. */
    /* Let the search take frames of scores that the last step left, one or more; *left: false when
     * there were none. */
    steno_status (*consume)(void *state, bool *left);
    /* Instead of a step: nobody speaks in the window. */
    steno_status (*skip)(void *state);
    int64_t (*frames)(const void *state);     /* of scores that the search has taken */
    int64_t (*last_sound)(const void *state); /* the last of them that was not silent; -1: none */
    size_t (*n_tokens)(const void *state);    /* of the best hypothesis, about */

    /* Segments that are incremental alone. */
    /* Samples [accepted, end) of the segment, pcm holding those from `dropped` on, until a step is
     * due or all are accepted. */
    steno_status (*accept)(void *state, const float *pcm, size_t dropped, size_t end, bool *due);
    size_t (*accepted)(const void *state); /* samples of the segment so far */
    size_t (*missing)(const void *state);  /* samples until a step is due, about */
};

#endif
