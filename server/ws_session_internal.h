/* Shared by ws_session.c (what comes and what goes) and ws_session_resume.c (a connection is lost,
 * another one takes its place). */
#ifndef STENO_SERVER_WS_SESSION_INTERNAL_H
#define STENO_SERVER_WS_SESSION_INTERNAL_H

#include "server/ws_session.h"

#include <pthread.h>

#include "audio/feed.h"
#include "server/history.h"
#include "server/outbox.h"

enum state { OPEN, RUNNING, ENDING, OVER };

struct ending {
    enum steno_ws_ending how;
    int close_code;
    steno_status failure;
    char code[40]; /* of the error message; "" = none, the session ends well */
    char message[sizeof(((steno_err *)0)->msg)]; /* likewise */
};

struct steno_ws_session {
    const struct steno_ws_engine *engine;
    void *ctx;
    struct steno_ws_session_limits limits;
    const struct steno_dialect *dialect;

    /* the network's thread */
    enum state state;
    steno_feed *feed;
    bool opened;              /* engine->open succeeded: exactly one DONE comes */
    bool end_wanted;          /* engine->end once nothing is held back */
    unsigned finalize_wanted; /* of them: 0 or 1 */
    int64_t samples; /* written here, with mx held: a worker that ends the session reads them */
    int64_t received, lost; /* samples: decoded; and let go of before `push` took them */
    int64_t skip_samples;   /* of what comes next: they came before the connection was lost */
    int rate;
    size_t message_bytes; /* of the current binary message so far */
    bool whole_packets;   /* Opus without Ogg: a message is a packet */
    bool skip;            /* the rest of a refused message */
    bool failed_in_audio;
    struct steno_buf text, packet;
    struct steno_buf held_bytes; /* arrived but not decoded, */
    float *held;                 /* decoded but not taken */
    size_t n_held;

    /* locked by mx */
    pthread_mutex_t mx;
    struct steno_outbox out;
    struct steno_history history; /* of a resumable one */
    bool detached;                /* there is no connection: messages go into the history alone */
    bool left;                    /* the client closed it */
    struct ending ending;
    struct steno_buf last_partial;
    struct steno_dialect_session d;
    bool over, room;
    uint64_t dropped, revised;
};

#endif
