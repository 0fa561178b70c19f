/* Uploads: recordings in memory become transcripts on the pool. A few feeder threads decode the
 * files and push the samples. A transcription holds a thread only while it can work: when its
 * stream's buffer is full, the transcription sleeps until the pool reports room. This module knows
 * nothing of HTTP.
 *
 * Channels of a recording that have a transcript each are decoded and recognised one after the
 * other: a transcription has one stream at a time.
 *
 * Where words are to be aligned, the recording goes through a second model when its text is there.
 *
 * Where speakers are wanted, the recording is decoded once more when its text is there, on threads
 * for this alone: networks that take a tenth of its length keep no other upload waiting.
 *
 * Locked: any thread may start, cancel and free transcriptions. Callbacks run without a lock of
 * this module.
 */
#ifndef STENO_SERVER_HTTP_TRANSCRIBER_H
#define STENO_SERVER_HTTP_TRANSCRIBER_H

#include "speech/audio/file.h"
#include "protocol/options.h"
#include "protocol/transcript.h"
#include "protocol/voices.h"
#include "server/core/server.h"

typedef struct steno_transcriber steno_transcriber;
typedef struct steno_transcription steno_transcription;

/* Channels of a recording that is transcribed channel by channel. */
#define STENO_TRANSCRIPTION_CHANNELS 20

struct steno_known_voices;
struct steno_openai_speakers;
struct steno_transcription_request {
    enum steno_session_api api;
    struct steno_served *served; /* the model; in use until done */
    uint64_t owner;              /* for round robin between owners; 0 = no owner */
    const steno_key *key;        /* whose enrolled speakers are known; NULL: those of no key */
    bool print_only;             /* make a voice print of one person's recording: served is NULL */
    char *audio; /* [len], from malloc; the transcription owns it once start succeeds */
    size_t len;
    struct steno_raw_audio raw; /* sample_rate 0: the recording has a header */
    int fd;                     /* audio NULL: a file with the recording, borrowed until done */
    bool background;            /* nobody waits for the answer: uploads go first */
    unsigned channel;           /* 0 = mean of all, k = the k-th one */
    bool multichannel;          /* each channel has a transcript of its own; channel is 0 */
    int beam, n_best;           /* 0 = the model's default */
    double seconds;             /* of the recording, from its beginning; 0 = all */
    enum steno_vad_choice vad;
    struct steno_options options; /* options not set here: the server's */
    struct steno_hints hints;     /* borrowed until done, like the next */
    struct steno_filter_options filters;
    /* Find the words of these instead of recognizing; borrowed until done. NULL: recognize */
    const struct steno_line *lines; /* [n_lines] */
    size_t n_lines;
    const char *vocabulary; /* likely words of the operator's; NULL: none */
    bool no_word_times;
    bool aligned; /* times of words by the model of align.model; else the result has a warning */
    struct steno_voices_wants voices; /* who speaks; without networks the result has a warning */
    const struct steno_known_voices
        *known; /* of them, with its names; borrowed until done, or NULL */
    const struct steno_openai_speakers *known_names;
    bool voices_of_mono; /* where the recording has several channels, not */
    bool partials;       /* deliver partials to `event` as well */
    bool no_endpointing; /* never wanted of a model that cuts recordings itself */
    /* Receives every event in order, on a worker thread; NULL = not wanted. channel: with
     * multichannel the event's, from 1, in this order; else 0. */
    void (*event)(void *user, unsigned channel, const struct steno_event *ev);
    /* Called once at the end, on the worker thread that took the last step or on a feeder. No event
     * comes after it. */
    void (*done)(void *user, steno_transcription *work);
    /* Called before done, when the recording's memory has been freed; NULL = not wanted. */
    void (*released)(void *user, size_t bytes);
    void *user;
};

struct steno_transcription_result {
    steno_status status;
    steno_err err;
    /* Owned by the transcription. With multichannel: of channels; NULL when memory was short. */
    steno_transcript *transcript;
    unsigned channels; /* of the recording */
    double duration;   /* s of audio */
    double received;   /* s of decoded audio */
    struct steno_pool_stream_stats stats;
    float *print; /* with print_only: [steno_speaker_print_floats]; owned by the transcription */
    double print_seconds; /* of clear speech that made it */
    char format[32];      /* "wav/s16le"; "" when it was not recognised */
    char warning[256];    /* about the recording; "" = none */
};

/* threads: feeders; speakers_threads: those that tell speakers apart. */
STENO_MUST steno_status steno_transcriber_open(steno_transcriber **out,
                                               const struct steno_server *srv, int threads,
                                               int speakers_threads, steno_err *err);
/* Close. Every transcription must have been freed before. Accepts NULL. */
void steno_transcriber_close(steno_transcriber *transcriber);

/* Start a transcription. STENO_ERR_CANCELLED after steno_transcriber_cancel_all. */
STENO_MUST steno_status steno_transcription_start(steno_transcription **out,
                                                  steno_transcriber *transcriber,
                                                  const struct steno_transcription_request *request,
                                                  steno_err *err);
/* Make a transcription end soon with STENO_ERR_CANCELLED. Its done is still called. */
void steno_transcription_cancel(steno_transcription *work);
/* Cancel every transcription and refuse new ones. Returns when all have ended. */
void steno_transcriber_cancel_all(steno_transcriber *transcriber);
/* How much of the recording was passed on to its stream, and how long it is, in s; 0: not known.
 * Any thread, until free. */
void steno_transcription_progress(const steno_transcription *work, double *position,
                                  double *duration);
/* The result; valid from done until free. */
const struct steno_transcription_result *
steno_transcription_get_result(const steno_transcription *work);
/* Free a transcription. Only after done was called; within done at the earliest. Accepts NULL. */
void steno_transcription_free(steno_transcription *work);

#endif
