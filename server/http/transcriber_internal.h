/* Shared by transcriber.c (the life of a transcription), transcription_audio.c (its recording) and
 * transcription_voices.c (who speaks in it). */
#ifndef STENO_SERVER_HTTP_TRANSCRIBER_INTERNAL_H
#define STENO_SERVER_HTTP_TRANSCRIBER_INTERNAL_H

#include "protocol/text_lines.h"
#include "server/http/transcriber.h"
#include "server/http/waker.h"

#include <pthread.h>
#include <stdatomic.h>

#define STENO_TRANSCRIPTION_BLOCK 8192 /* samples decoded at a time, at most */

enum steno_transcription_state { OPENING, FEEDING, FLUSHING, TELLING, OVER };
/* The words of a channel: their times are the model's, are being found, are there. */
enum steno_transcription_words { WORDS_PLAIN, WORDS_RUNNING, WORDS_DONE };

struct steno_transcription {
    steno_transcriber *transcriber;
    struct steno_transcription_request req;
    struct steno_transcription_result result;

    /* of the iteration */
    enum steno_transcription_state state;
    steno_audio *audio;
    steno_waker_id watch;     /* of a decoding process */
    void (*wake)(void *work); /* any thread */
    steno_pool_stream *stream;
    enum steno_transcription_words words;
    struct steno_text_lines lines; /* while WORDS_RUNNING */
    struct steno_served *aligner;  /* likewise */
    steno_diarization *voices;
    int rate;
    int64_t decoded; /* samples */
    int64_t before;  /* of them, of the channels before this one */
    /* ms, for steno_transcription_progress. Relaxed: they order nothing */
    _Atomic int64_t position, length;
    unsigned channel; /* with multichannel: the one that is transcribed, from 0 */
    steno_transcript *transcripts[STENO_TRANSCRIPTION_CHANNELS]; /* of those before it */

    /* under transcriber->lock */
    steno_transcription *next;          /* in the queue */
    steno_transcription *older, *newer; /* in the list of transcriptions that have not ended */
    bool queued, running, again, cancelled, pool_done;
    bool placed; /* it is one of TELLING_MAX */
    steno_status pool_status;
    steno_err pool_err;
};

/* Transcriptions that wait for one of its threads. */
struct steno_transcription_queue {
    steno_transcriber *transcriber;
    pthread_cond_t work;
    steno_transcription *first, *last;
    pthread_t *threads;
    int n_threads;
};

struct steno_transcriber {
    const struct steno_server *srv;
    pthread_mutex_t lock; /* guards the queues, and the fields of every transcription named above */
    pthread_cond_t none;
    struct steno_transcription_queue feeding, telling;
    steno_transcription *newest;
    int alive;  /* transcriptions whose done has not returned */
    int placed; /* of TELLING_MAX */
    bool stop, cancelled;
};

/* ---- transcription_audio.c: of the iteration ---- */

/* Open the recording. STENO_NEED_MORE: its format is not known yet; the waker wakes the
 * transcription. */
STENO_MUST steno_status steno_transcription_open_audio(steno_transcription *work,
                                                       struct steno_audio_info *info,
                                                       steno_err *err);
void steno_transcription_close_audio(steno_transcription *work);
/* Samples that are to be decoded next, at most STENO_TRANSCRIPTION_BLOCK; 0: no more are wanted. */
size_t steno_transcription_wanted(const steno_transcription *work);
/* Decode to `to` [max]; *n = 0: the recording is over, or max is 0. STENO_NEED_MORE as above. */
STENO_MUST steno_status steno_transcription_decode(steno_transcription *work, float *to, size_t max,
                                                   size_t *n, steno_err *err);
/* Add to the result's warning. */
void steno_transcription_warn(steno_transcription *work, const char *message);

/* ---- transcription_words.c ---- */

/* Whether times of words are to be found before the transcription goes on. */
bool steno_transcription_wants_words(const steno_transcription *work);
/* The text is there: find a model for its words. False: there is none, and the result warns. */
bool steno_transcription_begin_words(steno_transcription *work);
/* Open the stream that finds them in the recording, which is open. */
STENO_MUST steno_status steno_transcription_open_words(steno_transcription *work, steno_pool_fn fn,
                                                       steno_err *err);
/* It is over with st: a failure becomes a warning. */
void steno_transcription_end_words(steno_transcription *work, steno_status st,
                                   const steno_err *err);
/* Free what it needed. */
void steno_transcription_drop_words(steno_transcription *work);

/* ---- transcription_voices.c ---- */

/* Go on until the speakers are told, or the iteration has done its share, and count the processor
 * time. *told, *again: the former, the latter; neither: the waker wakes the transcription. */
STENO_MUST steno_status steno_transcription_tell(steno_transcription *work, bool *told, bool *again,
                                                 steno_err *err);

#endif
