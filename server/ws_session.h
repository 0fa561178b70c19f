/* One live session of any dialect without its socket: what a client's messages and the recogniser's
 * notes do, in which order answers leave, when and with which code it is over. No clock, no thread:
 * server/ws.c drives it with a WebSocket, tests/fuzz/fuzz_ws_sequence.c with bytes.
 *
 * States: OPEN (nothing asked yet) -> RUNNING (start or first audio) -> ENDING (end, error, drain:
 * what was said is still recognised) -> OVER (last message queued, close code known).
 *
 * An error never loses audio that came before it: the stream is ended first, its finals leave, then
 * the error, then the close.
 *
 * Threads: the network's thread calls everything but steno_ws_session_note, which any one thread at
 * a time may call beside it. Locked: one mutex (a leaf: nothing is called while it is held) for the
 * outbox, seq and the way it ends; all else is confined to the network's thread. */
#ifndef STENO_SERVER_WS_SESSION_H
#define STENO_SERVER_WS_SESSION_H

#include "pool/pool.h"
#include "protocol/dialect.h"

typedef struct steno_ws_session steno_ws_session;

/* How a session reaches recognition. */
struct steno_ws_engine {
    /* Check start.model and put the full name there, with what else is known of the model.
     * STENO_ERR_INVAL for an unknown one. */
    steno_status (*resolve)(void *ctx, struct steno_dialect_session *d, steno_err *err);
    /* Take a place for audio at `rate` Hz; at most once. STENO_ERR_BUSY when there is none. */
    steno_status (*open)(void *ctx, const struct steno_native_start *s, int rate, steno_err *err);
    /* As steno_pool_stream_push: taken < n means that a ROOM note follows. */
    steno_status (*push)(void *ctx, const float *pcm, size_t n, size_t *taken, steno_err *err);
    steno_status (*finalize)(void *ctx, steno_err *err);
    /* A DONE note follows. */
    void (*end)(void *ctx);
    /* s after which a client that one of these refused, STENO_ERR_BUSY or out of memory, should
     * come back. NULL: that is not known. */
    double (*come_back)(void *ctx);
};

struct steno_ws_session_limits {
    size_t
        message_bytes; /* of one Opus packet, or of one text message if that is the smaller limit */
    size_t send_bytes; /* unread answers */
    double audio_seconds; /* 0 = no limit */
    size_t resume_bytes;  /* answers kept for a client that comes back; 0 = none does */
};

/* id: copied. NULL when out of memory. dialect, engine and ctx outlive the session. */
steno_ws_session *steno_ws_session_new(const struct steno_dialect *dialect,
                                       const struct steno_ws_engine *engine, void *ctx,
                                       const char *id,
                                       const struct steno_ws_session_limits *limits);
/* No note may come any more. Accepts NULL. */
void steno_ws_session_free(steno_ws_session *s);

/* ---- the client -------------------------------------------------------------------------- */

/* One decoded parameter of the handshake's query string. */
void steno_ws_session_query(steno_ws_session *s, const char *name, const char *value);
/* The connection stands and every parameter was handed in. */
void steno_ws_session_opened(steno_ws_session *s);
/* A piece of a text or binary message; first and last mark its ends. Only while readable. */
void steno_ws_session_text(steno_ws_session *s, const char *p, size_t n, bool last);
void steno_ws_session_binary(steno_ws_session *s, const void *p, size_t n, bool first, bool last);
/* False while the recogniser's buffer is full: nothing may be handed in until resume made it true.
 */
bool steno_ws_session_readable(const steno_ws_session *s);
/* Go on after a ROOM note. */
void steno_ws_session_resume(steno_ws_session *s);

/* ---- a connection is lost, and the client comes back ---------------------------------------- */

/* Whether the session may go on without a connection: its client asked for that, its audio can be
 * taken up again, and it was not the client who closed. */
bool steno_ws_session_resumable(steno_ws_session *s);
/* The connection is gone: what is left of an unfinished message is forgotten; from now on answers
 * are kept, the oldest dropped beyond limits.resume_bytes, until attach. */
void steno_ws_session_detach(steno_ws_session *s);
/* Another connection takes the place of the one before, whether that was detached or not. Every
 * answer from ask->next on that is no partial is there again to be taken, then `resumed`.
 * STENO_ERR_LIMIT: some of them are no longer kept. STENO_ERR_INVAL: ask->sample has not come.
 * Nothing is changed then. */
struct steno_native_resume;
STENO_MUST steno_status steno_ws_session_attach(steno_ws_session *s,
                                                const struct steno_native_resume *ask,
                                                steno_err *err);

/* ---- the server -------------------------------------------------------------------------- */

/* The server shuts down: last final, `end` with reason "draining", close 1012. */
void steno_ws_session_drain(steno_ws_session *s);
/* Deliver what was said, then the error and close. code: its stable name. */
void steno_ws_session_stop(steno_ws_session *s, const char *code, int close_code,
                           const char *message);

/* The client broke a rule below this module's sight: deliver what was said, then the error and
 * close. close_code 0 and code NULL: by the table of statuses. */
void steno_ws_session_reject(steno_ws_session *s, steno_status st, int close_code, const char *code,
                             const char *message);
/* The client closes: nothing more is said but the close frame that answers its one. */
void steno_ws_session_leave(steno_ws_session *s, int close_code);
/* The client has read nothing for too long: the session ends without a word (STENO_WS_SLOW). */
void steno_ws_session_give_up(steno_ws_session *s);

/* ---- the recogniser ---------------------------------------------------------------------- */

/* Turn a note into messages. True when the network's thread has something to do. */
bool steno_ws_session_note(steno_ws_session *s, const struct steno_pool_note *note);

/* ---- answers ----------------------------------------------------------------------------- */

/* Append the next message to out: STENO_NEED_MORE when there is none now. */
STENO_MUST steno_status steno_ws_session_take(steno_ws_session *s, struct steno_buf *out);

enum steno_ws_ending {
    STENO_WS_RUNNING,
    STENO_WS_ENDED, /* the client's end */
    STENO_WS_DRAINED,
    STENO_WS_BAD,     /* the client's fault */
    STENO_WS_STOPPED, /* steno_ws_session_stop */
    STENO_WS_SLOW,    /* the client did not read */
    STENO_WS_BUSY,    /* no place in the pool */
    STENO_WS_FAILED   /* ours */
};

struct steno_ws_session_state {
    bool started;     /* audio format agreed */
    bool room_wanted; /* a ROOM note came: call resume */
    bool close;       /* every message was taken: close with this code and reason */
    int close_code;
    const char *reason; /* at most 123 bytes (RFC 6455, 5.5) */
    const char *error;  /* its stable name; "" = none */
    enum steno_ws_ending ending;
    steno_status failure; /* of STENO_WS_BAD and STENO_WS_FAILED */
    bool failed_in_audio; /* it was the audio that could not be decoded */
    size_t queued;        /* bytes of unread answers */
    uint64_t messages, finals;
    uint64_t partials_dropped;                /* replaced unread by a newer one */
    uint64_t partials_revised;                /* which did not begin with the one before */
    double audio_seconds;                     /* taken in */
    double received_seconds, dropped_seconds; /* that came decoded, and that `push` never took */
};
void steno_ws_session_get_state(steno_ws_session *s, struct steno_ws_session_state *st);

#endif
