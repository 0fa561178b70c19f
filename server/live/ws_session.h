/* One live session of any dialect, without its socket: what a client's messages and the
 * recogniser's notes do, the order of the answers, and when and with which code the session ends.
 * It has no clock and no thread. server/live/ws.c drives it with a WebSocket,
 * tests/fuzz/fuzz_ws_sequence.c with bytes.
 *
 * States: OPEN (no format yet) -> RUNNING (start or first audio) -> ENDING (end, error, drain: the
 * audio received so far is still recognised) -> OVER (last message queued, close code known).
 *
 * An error never loses audio that came before it: the stream is ended first, then its finals are
 * sent, then the error, then the close.
 *
 * Threads: the network's thread calls everything except steno_ws_session_note, which any one thread
 * at a time may call concurrently. Locked: one mutex protects the outbox, seq and the way the
 * session ends. While it is held, only the dialect is called, and through it each_model and check,
 * which take the lock of the models. Everything else is confined to the network's thread. */
#ifndef STENO_SERVER_LIVE_WS_SESSION_H
#define STENO_SERVER_LIVE_WS_SESSION_H

#include "speech/audio/feed.h"
#include "speech/pool/pool.h"
#include "protocol/dialect.h"

typedef struct steno_ws_session steno_ws_session;

struct steno_ws_storage_state {
    bool up;         /* the storage can be reached */
    bool stale;      /* it lacks something: put all */
    bool taken;      /* another machine has the session */
    uint64_t stored; /* messages below it are stored */
};

/* Where a session is stored outside of this process, so that another one can go on with it. All
 * functions may be called with the session's lock held, and return at once. */
struct steno_ws_storage {
    /* Store a head (protocol/session_head.h) and messages [records, as of steno_record_next] up to
     * seq `last`; those below `lost` are no longer needed. all: nothing of before is to stay.
     * False: not possible now; `stale` is set. */
    bool (*put)(void *place, const char *head, const struct steno_buf *records, uint64_t last,
                uint64_t lost, bool all);
    void (*get_state)(void *place, struct steno_ws_storage_state *out);
    /* The session is without a connection, or has one again. */
    void (*set_waiting)(void *place, bool waiting);
    /* The session is over here; place is no longer valid. erase: nobody may go on with it. */
    void (*leave)(void *place, bool erase);
};

/* How a session reaches recognition. */
struct steno_ws_engine {
    /* Check start.model and put the full name there, with what else is known of the model.
     * STENO_ERR_INVAL for an unknown model. */
    steno_status (*resolve)(void *ctx, struct steno_dialect_session *d, steno_err *err);
    /* Open a stream for audio at `rate` Hz, or with s->multichannel one for each of
     * s->audio.channels; called once, and again after close. STENO_ERR_BUSY when
     * there is no place. */
    steno_status (*open)(void *ctx, const struct steno_native_start *s, int rate, steno_err *err);
    /* As steno_pool_stream_room and _add; with multichannel the room is [*room, channels]. add: pcm
     * is the room that was reserved. STENO_ERR_BUSY: no more audio is allowed; what was added
     * stays. */
    steno_status (*room)(void *ctx, size_t least, size_t most, float **to, size_t *room,
                         steno_err *err);
    steno_status (*add)(void *ctx, const float *pcm, size_t n, steno_err *err);
    steno_status (*finalize)(void *ctx, steno_err *err);
    /* A DONE note follows. */
    void (*end)(void *ctx);
    /* s until a client that one of these refused (STENO_ERR_BUSY, out of memory) should come back.
     * NULL: unknown. */
    double (*come_back)(void *ctx);
    /* steno_dialect_session's; NULL: there are none. */
    steno_status (*each_model)(void *ctx,
                               steno_status (*see)(void *user, const struct steno_dialect_model *m),
                               void *user);
    /* As steno_dialect_session's; NULL: not known. */
    steno_status (*check)(void *ctx, const struct steno_native_start *s, char *model,
                          steno_err *err);
    /* Like end, but what is in no final yet is discarded, and the note may say CANCELLED. The next
     * two are needed by dialects with CHANGE and CLEAR only. */
    void (*cancel)(void *ctx);
    /* Release the stream after its DONE note, and its model. resolve and open follow. */
    void (*close)(void *ctx);
    /* Open a feed for a container that another process decodes, and call steno_ws_session_decoded
     * when its descriptors are ready. NULL: containers are refused. */
    steno_status (*decode)(void *ctx, const struct steno_container_options *o, unsigned channel,
                           steno_feed **out, steno_err *err);
    /* A place in a storage for this session, which leaves it at its end. NULL, or returning NULL:
     * there is none. */
    const struct steno_ws_storage *(*store)(void *ctx, void **place);
};

struct steno_ws_session_limits {
    size_t message_bytes; /* of a binary message; of a text message where it is the smaller limit */
    size_t send_bytes;    /* of unread answers */
    double audio_seconds; /* 0 = no limit */
    size_t resume_bytes;  /* of answers kept for a client that resumes; 0 = no resumption */
    int64_t now;          /* s since 1970, for dialects that tell when a session began */
    bool tells_speakers;  /* the server has networks for that */
    const char *profanity; /* words that can be masked, borrowed; NULL: none */
};

/* Make a session. id: copied. dialect, engine and ctx outlive the session. NULL when out of memory.
 */
steno_ws_session *steno_ws_session_new(const struct steno_dialect *dialect,
                                       const struct steno_ws_engine *engine, void *ctx,
                                       const char *id,
                                       const struct steno_ws_session_limits *limits);
/* Free a session. No note may come any more. Accepts NULL. */
void steno_ws_session_free(steno_ws_session *s);

/* ---- the client -------------------------------------------------------------------------- */

/* Take one decoded parameter of the handshake's query string. */
void steno_ws_session_query(steno_ws_session *s, const char *name, const char *value);
/* The connection is established, and every query parameter was passed in. */
void steno_ws_session_opened(steno_ws_session *s);
/* Take a part of a text or binary message; first and last mark its ends. Only while readable. */
void steno_ws_session_text(steno_ws_session *s, const char *p, size_t n, bool last);
void steno_ws_session_binary(steno_ws_session *s, const void *p, size_t n, bool first, bool last);
/* False while the recogniser's buffer is full: then nothing may be passed in until resume made it
 * true again. */
bool steno_ws_session_readable(steno_ws_session *s);
/* The process that decodes for this session has samples, or room for bytes: resume is due. Any
 * thread. */
void steno_ws_session_decoded(steno_ws_session *s);
/* Continue after a ROOM note or steno_ws_session_decoded. */
void steno_ws_session_resume(steno_ws_session *s);

/* ---- a lost connection and the return of the client ----------------------------------------- */

/* Whether the session may continue without a connection: its client asked for that, its audio can
 * be resumed, and the client did not close the connection. */
bool steno_ws_session_resumable(steno_ws_session *s);
/* The connection is lost. The rest of an unfinished message is dropped. From now on answers are
 * kept until attach; beyond limits.resume_bytes the oldest are dropped. */
void steno_ws_session_detach(steno_ws_session *s);
/* A new connection replaces the earlier one, whether that was detached or not. Every answer from
 * ask->next on that is not a partial can be taken again, then `resumed`. STENO_ERR_LIMIT: some of
 * them are no longer kept. STENO_ERR_INVAL: audio up to ask->sample has not come. On an error
 * nothing changes. */
struct steno_native_resume;
STENO_MUST steno_status steno_ws_session_attach(steno_ws_session *s,
                                                const struct steno_native_resume *ask,
                                                steno_err *err);
/* The same errors but STENO_ERR_NOMEM, and nothing changes in any case. */
STENO_MUST steno_status steno_ws_session_can_attach(steno_ws_session *s,
                                                    const struct steno_native_resume *ask,
                                                    steno_err *err);

/* ---- a session that another machine can go on with ------------------------------------------ */

struct steno_session_head;
/* Make a session go on that was another machine's, before any other call: its audio from the end of
 * the last stored final on is due again. messages: as of steno_record_next. next: as of
 * steno_native_resume; the session then waits for steno_ws_session_attach. storage, place: its own
 * from now on, also on failure. Errors of resolve and open, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ws_session_restore(steno_ws_session *s,
                                                 const struct steno_session_head *h,
                                                 const struct steno_buf *messages, uint64_t next,
                                                 const struct steno_ws_storage *storage,
                                                 void *place, steno_err *err);
/* Deliver messages that are stored by now, or cannot be, and store what the storage lacks. To be
 * called after each wake-up of the storage, and now and then. False: another machine has the
 * session. */
bool steno_ws_session_refresh(steno_ws_session *s, int64_t now_ns);
/* The session goes on elsewhere: the connection is closed with this code, and nothing more is
 * delivered but what is stored. */
void steno_ws_session_move(steno_ws_session *s, int close_code);
/* The same because the server shuts down, if another machine can go on with it; false: none can. */
bool steno_ws_session_hand_over(steno_ws_session *s);
/* Its storage and its place there; NULL: it has none. */
void *steno_ws_session_place(steno_ws_session *s);
/* Messages that were delivered without being stored, since the last call. */
uint64_t steno_ws_session_take_unstored(steno_ws_session *s);

/* ---- the server -------------------------------------------------------------------------- */

/* Whether its messages are posted (steno_dialect_session): steno_ws_session_take gives them for
 * that, and the connection gets none. */
bool steno_ws_session_posted(const steno_ws_session *s);
/* The connection of a session whose messages are posted is lost, or the client closes it: the audio
 * so far is still recognised. False: nothing is to be kept. */
bool steno_ws_session_hang_up(steno_ws_session *s);
/* The server shuts down: last final, `end` with reason "draining", close 1012. */
void steno_ws_session_drain(steno_ws_session *s);
/* Deliver the results so far, then the error and the close. code: its stable name. */
void steno_ws_session_stop(steno_ws_session *s, const char *code, int close_code,
                           const char *message);

/* The client broke a rule of a layer below this module: deliver the results so far, then the error
 * and the close. close_code 0 and code NULL: as the table of statuses says. */
void steno_ws_session_reject(steno_ws_session *s, steno_status st, int close_code, const char *code,
                             const char *message);
/* The client closes: only the close frame that answers the client's is sent. */
void steno_ws_session_leave(steno_ws_session *s, int close_code);
/* The client has read nothing for too long: the session ends without a message (STENO_WS_SLOW). */
void steno_ws_session_give_up(steno_ws_session *s);

/* ---- the recogniser ---------------------------------------------------------------------- */

/* Make messages of a channel's note. voices: of a final, who says what; NULL: not known. True when
 * the network's thread has something to do. */
bool steno_ws_session_note(steno_ws_session *s, unsigned channel,
                           const struct steno_pool_note *note,
                           const struct steno_live_voices *voices);

/* What the client is to be told with its last message, where the dialect has a place for that; the
 * first one stays. Any thread. */
void steno_ws_session_warn(steno_ws_session *s, const char *text);

/* ---- answers ----------------------------------------------------------------------------- */

/* Append the next message to out; STENO_NEED_MORE when there is none now. */
STENO_MUST steno_status steno_ws_session_take(steno_ws_session *s, struct steno_buf *out);

enum steno_ws_ending {
    STENO_WS_RUNNING,
    STENO_WS_ENDED, /* by the client's end message */
    STENO_WS_DRAINED,
    STENO_WS_MOVED,   /* another machine goes on with it */
    STENO_WS_BAD,     /* the client's fault */
    STENO_WS_STOPPED, /* steno_ws_session_stop */
    STENO_WS_SLOW,    /* the client did not read */
    STENO_WS_BUSY,    /* no place in the pool */
    STENO_WS_FAILED   /* the server's fault */
};

struct steno_ws_session_state {
    bool started;       /* audio format agreed */
    bool room_wanted;   /* a ROOM note came: call resume */
    bool loading;       /* its model is: call resume now and then */
    bool takes_no_more; /* it ends or has ended; what the client sends is discarded */
    bool close;         /* every message was taken: close with this code and reason */
    int close_code;
    const char *reason; /* at most 123 bytes (RFC 6455, 5.5) */
    const char *error;  /* its stable name; "" = none */
    enum steno_ws_ending ending;
    bool ended_by_close; /* STENO_WS_RUNNING, and the client closed as its protocol ends sessions */
    steno_status failure; /* of STENO_WS_BAD and STENO_WS_FAILED */
    bool failed_in_audio; /* the audio could not be decoded */
    size_t queued;        /* bytes of unread answers */
    uint64_t messages, finals;
    uint64_t partials_dropped;                /* replaced by a newer one before it was read */
    uint64_t partials_revised;                /* did not begin with the one before */
    double audio_seconds;                     /* accepted */
    unsigned mixed;                           /* channels that were mixed; 0 = none */
    double received_seconds, dropped_seconds; /* decoded; not added */
};
void steno_ws_session_get_state(steno_ws_session *s, struct steno_ws_session_state *st);

#endif
