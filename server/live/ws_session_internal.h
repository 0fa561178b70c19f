/* Shared by the files of one session, which call each other downwards only: ws_session.c (its life,
 * the recogniser's notes, going on), ws_session_input.c (the client's messages), ws_session_swap.c
 * (a new stream for changed settings, finalizes), ws_session_store.c (its place in a storage),
 * ws_session_audio.c (audio on its way to the recogniser), ws_session_resume.c (the loss of a
 * connection and its replacement) and ws_session_end.c. All functions below are of the network's
 * thread, with mx not held, unless a comment says otherwise. */
#ifndef STENO_SERVER_LIVE_WS_SESSION_INTERNAL_H
#define STENO_SERVER_LIVE_WS_SESSION_INTERNAL_H

#include "server/live/ws_session.h"

#include <pthread.h>

#include "speech/audio/feed.h"
#include "base/sha256.h"
#include "server/live/history.h"
#include "server/live/outbox.h"

#define STENO_WS_NOT_HELD UINT64_MAX

/* What a session has whose results are stored outside. Its results are delivered once they are
 * stored, so that no other machine makes them again: the messages from `held` on wait in the
 * history. Locked by mx, but for the first two, which do not change. */
struct stored {
    const struct steno_ws_storage *storage;
    void *place;
    uint64_t held;     /* seq of the first message that is not delivered; STENO_WS_NOT_HELD */
    uint64_t last;     /* seq of the last message that was put */
    int64_t held_ns;   /* since when, as of refresh; 0: not known yet */
    bool keep;         /* the message that is being made is to be stored */
    uint64_t unstored; /* messages delivered without that */
    int64_t packet;    /* samples of each Opus packet; 0: none came; -1: they differ */
    int64_t samples[STENO_AUDIO_MAX_CHANNELS];  /* in the finals of each channel */
    int64_t segments[STENO_AUDIO_MAX_CHANNELS]; /* finals of each channel */
    bool apart; /* channels have samples of different finals: they are silent until then */
};

enum state { OPEN, RUNNING, ENDING, OVER };

/* ---- of the network's thread ---- */

/* OPEN: the model is awaited. */
struct loading {
    bool waits; /* nothing is read until then */
    bool ends;  /* the client's end came before */
    unsigned tries;
};

/* OPEN and RUNNING: the message that the client sends. */
struct incoming {
    struct steno_buf text, packet;
    size_t bytes;    /* of the current binary message so far */
    bool any;        /* one has begun */
    bool maybe_text; /* the current binary message may be a command: its bytes are in text */
    bool skip;       /* skip the rest of a refused message */
};

struct sum {
    struct steno_sha256 of;
    char text[STENO_SHA256_HEX];
};

/* From the first audio on: bytes become samples. rate, width and samples are written before the
 * stream is open or with mx held, because a worker that ends the session reads them. */
struct sound {
    steno_feed *feed;
    int rate;
    unsigned width; /* samples of a frame: with multichannel the channels, else 1 */
    int64_t samples, received, lost;            /* added; decoded; dropped */
    int64_t restored[STENO_AUDIO_MAX_CHANNELS]; /* samples that are in finals of before */
    int64_t skip;          /* next samples to skip: they came before the connection was lost */
    const char *container; /* its format for people, by its first bytes; NULL: not known */
    size_t silent_bytes; /* of a container: how many more may come without sound; 0: it has some */
    bool whole_packets;  /* Opus without Ogg: a message is a packet */
    bool last_byte;      /* the client's end came; samples of a container are yet to come */
    bool late;           /* and audio after it */
    bool failed;         /* it could not be decoded */
    struct sum *sum;     /* of its bytes; NULL: the dialect wants none */
};

/* While the recogniser's buffer is full. */
struct held {
    struct steno_buf bytes; /* arrived, not decoded */
    bool full;              /* they wait for room, which a ROOM note tells */
};

/* A change of settings or a clear replaces the stream by a new one. */
enum swap {
    SWAP_NONE,
    SWAP_WANTED, /* waits for the end of the open segment and of finalizes */
    SWAP_RUNNING /* the old stream ends; its DONE note follows */
};

/* RUNNING and ENDING: what is wanted of the engine's stream. */
struct stream {
    bool opened;              /* engine->open succeeded: exactly one DONE comes */
    bool end_wanted;          /* call engine->end once nothing is held back */
    unsigned finalize_wanted; /* pending finalizes: 0 or 1 */
    enum swap swap;
    bool clears;    /* the swap discards the audio of the old stream */
    bool committed; /* a finalize ends the old stream's last segment: audio waits for the swap */
    bool by_client; /* opened without endpoints: a segment lasts until the next finalize */
    bool fed;       /* audio came since the last finalize */
};

/* ---- locked by mx ---- */

/* Messages on their way to the client: the dialect writes them, the network's thread takes them. */
struct answers {
    struct steno_outbox out;
    struct steno_history history; /* of a resumable session */
    bool detached;                /* no connection: messages go to the history alone */
};

/* What the recogniser's worker has told. */
struct notes {
    bool room;           /* the network's thread has something to do */
    bool swap_waits;     /* a final or a FINALIZED note may let the swap begin */
    bool swapping;       /* the next DONE note is not the session's end */
    bool swapped;        /* it came */
    bool mute;           /* events of the old stream are ignored */
    unsigned finalizing; /* finalizes whose FINALIZED note has not come */
    struct steno_buf last_partial;
    uint64_t dropped, revised; /* partials */
};

/* Either thread ends the session; the first reason stays. */
struct ending {
    enum steno_ws_ending how;
    int close_code;
    steno_status failure;
    char code[40];   /* of the error message; "" = no error */
    char *message;   /* likewise; allocated, because it is rare and may be long. NULL = "" */
    bool left;       /* the client closed the connection */
    bool by_close;   /* that is how sessions of its dialect end */
    bool concluding; /* its last message is made */
    bool over;
};

struct steno_ws_session {
    const struct steno_ws_engine *engine;
    void *ctx;
    struct steno_ws_session_limits limits;
    const struct steno_dialect *dialect; /* the network's thread may replace it, with mx held */

    /* of the network's thread */
    enum state state;
    struct loading loading;
    struct incoming in;
    struct sound audio;
    struct held held;
    struct stream stream;

    /* locked by mx */
    pthread_mutex_t mx;
    struct answers answers;
    struct stored *stored; /* NULL: it is in this process alone */
    struct notes notes;
    struct ending ending;
    struct steno_dialect_session d;
};

/* Longest Opus packet: 48 frames of 1275 bytes and their lengths (RFC 6716, 3.2.5). */
#define STENO_WS_OPUS_PACKET 65536
#define STENO_WS_LATE_AUDIO "audio: came after end, and was not transcribed"

/* ---- ws_session_end.c ---- */

/* How the session will end. mx is held. code "": no error. */
void steno_ws_session_set_ending(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                                 steno_status failure, const char *code, const char *message);
/* No further message can reach the client, because of st; nothing more is sent. mx is held. */
void steno_ws_session_unreachable(steno_ws_session *s, steno_status st);
/* Send the last message, `end` or `error`, as s->ending says. mx is held. */
void steno_ws_session_conclude(steno_ws_session *s);
/* Deliver the results so far, then conclude as set_ending says. Further calls change nothing: the
 * first reason stays. */
void steno_ws_session_end_as(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                             steno_status failure, const char *code, const char *message);
/* The same because of an error. */
void steno_ws_session_fail(steno_ws_session *s, steno_status st, const char *message);
/* If a worker has concluded the session, it is over here too: its stream may be closed by now. */
void steno_ws_session_check_end(steno_ws_session *s);
/* Whether messages of the client have to wait. */
bool steno_ws_session_paused(const steno_ws_session *s);

/* ---- ws_session_audio.c ---- */

/* Check whether the session can outlive its connection. container: the format's name if its bytes
 * cannot be resumed; NULL otherwise. */
STENO_MUST steno_status steno_ws_session_check_resumable(const steno_ws_session *s,
                                                         const char *container, steno_err *err);
/* Open the decoder of a format that d.start describes, and the stream. */
STENO_MUST steno_status steno_ws_session_open_raw(steno_ws_session *s, steno_err *err);
/* Open the decoder that p [n > 0], the first bytes, need, and the stream if they tell its rate. */
STENO_MUST steno_status steno_ws_session_open_feed(steno_ws_session *s, const char *p, size_t n,
                                                   steno_err *err);
/* Decode p [n] and push the samples. When the recogniser's buffer is full, the rest of the bytes is
 * held back. */
STENO_MUST steno_status steno_ws_session_feed(steno_ws_session *s, const char *p, size_t n,
                                              steno_err *err);
/* Feed the bytes that are held back. */
STENO_MUST steno_status steno_ws_session_feed_held(steno_ws_session *s, steno_err *err);
/* Make held.bytes an empty buffer. What it had is not freed. */
void steno_ws_session_init_held(steno_ws_session *s);
/* Feed p [n]; a failure ends the session. */
void steno_ws_session_take_audio(steno_ws_session *s, const char *p, size_t n);
/* The client has ended a container: end its input once every byte is given, and the session once
 * every sample came. */
void steno_ws_session_end_container(steno_ws_session *s);

/* ---- ws_session_store.c ---- */

/* Ask the engine for a place in its storage, if the session can be resumed. */
void steno_ws_session_begin_storing(steno_ws_session *s);
/* mx held: the next message is to be stored. */
static inline void steno_ws_session_keep_next(steno_ws_session *s)
{
    if (s->stored)
        s->stored->keep = true;
}
/* mx held: a final was made. Its message is to be stored. */
void steno_ws_session_note_final(steno_ws_session *s, const struct steno_event *ev);
/* mx held: the message in answers.out.spare, which is in the history too, was made. Store it if it
 * is to be. False: it must not be delivered yet. */
bool steno_ws_session_store_message(steno_ws_session *s, bool partial);
/* mx held: deliver all messages from `held` on, stored or not, which makes room for n bytes. */
void steno_ws_session_make_room(steno_ws_session *s, size_t n);
void steno_ws_session_end_storing(steno_ws_session *s);

/* ---- ws_session_swap.c ---- */

/* Settings have changed, or (clears) audio is to be discarded: replace the stream as soon as
 * nothing of it must be awaited. Before the first sample there is nothing to do. */
void steno_ws_session_want_swap(steno_ws_session *s, bool clears);
/* Begin the swap that is wanted, if nothing of the old stream must be awaited. */
void steno_ws_session_try_swap(steno_ws_session *s);
/* Open the new stream if the old one is done. STENO_NEED_MORE: it is not. Another status: there is
 * no stream, and the session must end. */
STENO_MUST steno_status steno_ws_session_finish_swap(steno_ws_session *s, steno_err *err);
/* End the utterance now, or as soon as the pool has room for that. */
void steno_ws_session_finalize(steno_ws_session *s);

/* ---- ws_session_input.c ---- */

/* Maximum bytes of one text message. */
size_t steno_ws_session_max_text(const steno_ws_session *s);
/* Begin if the model is loaded by now. */
void steno_ws_session_begin_loaded(steno_ws_session *s);

#endif
