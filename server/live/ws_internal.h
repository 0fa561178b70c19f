/* Shared by ws.c (the loop: sockets, time), ws_move.c and ws_resume.c (sessions that leave their
 * connection), ws_conn.c (one connection: handshake, frames, its session, its end), ws_engine.c
 * (what recognizes its audio) and ws_lists.c. Confined to the service thread unless a comment says
 * otherwise. */
#ifndef STENO_SERVER_LIVE_WS_INTERNAL_H
#define STENO_SERVER_LIVE_WS_INTERNAL_H

#include "protocol/ws_frame.h"
#include "protocol/wyoming_frame.h"
#include "server/http/waker.h"
#include "server/live/call_hooks.h"
#include "server/live/channels.h"
#include "server/live/diarizer.h"
#include "server/live/live_words.h"
#include "server/live/session_store.h"
#include "server/live/ws.h"
#include "server/live/ws_admission.h"
#include "server/live/ws_session.h"

#include <libwebsockets.h>
#include <pthread.h>
#include <stdatomic.h>

#define STENO_WS_RX_BYTES 8192 /* read and passed to the session at a time, per connection */

/* What few sessions have. */
struct steno_ws_extra {
    char request_id[STENO_REQUEST_ID]; /* "": that of the session */
    struct steno_trace trace;
};

struct steno_ws_conn {
    steno_ws *ws;
    struct lws *wsi;
    struct steno_peer peer;
    char id[STENO_ID_SIZE];
    struct steno_ws_extra *extra;       /* NULL: none, as for most sessions */
    struct steno_ws_conn *next, **back; /* ws->conns or ws->waiting */
    struct steno_ws_conn *next_ready;   /* ws->ready; locked by ws->mx */
    bool in_ready;                      /* likewise */
    const struct steno_dialect *dialect;
    enum steno_session_api api;
    struct steno_handshake hs; /* freed once it is answered */
    steno_key *key;            /* NULL: no key */
    char *preset;              /* settings that came with an ephemeral key; NULL = none */
    bool late_key;             /* it is due with the first message */
    bool entered;              /* holds a place of the limits */
    bool established, rx_off;
    bool told;          /* the session's last message and its close frame are written */
    int64_t waiting_ns; /* time when the connection was lost (wsi NULL); 0 = there is one */
    bool discarding;    /* further input is discarded: framing broke, or a close frame was sent */
    steno_ws_session *session;
    steno_channels *stream;
    steno_live_words *words;             /* NULL: words have the times of the model */
    struct steno_served *aligner;        /* chosen for it, which is not open yet */
    steno_diarizer *diarizer;            /* NULL: nobody asked who speaks */
    steno_call_hook *call;               /* where messages are posted; NULL: nowhere, or not yet */
    unsigned channels;                   /* of it */
    struct steno_served *served;         /* its model, once it is chosen */
    struct steno_pool_stream_stats past; /* of its earlier streams */
    struct steno_ws_conn **asked; /* where the answer of the storage finds it; NULL: none comes */
    steno_waker_id decoding;      /* the watch of the process that decodes its audio */
    struct steno_ws_reader reader;
    struct steno_wyoming_reader events; /* instead, where the dialect is Wyoming */
    char *unread; /* [n_unread] bytes that came while the session was paused, or with its request */
    size_t n_unread;
    unsigned pong; /* bytes of pong_data to send + 1; 0 = no pong is due */
    char pong_data[STENO_WS_CONTROL_BYTES];
    bool ping;
    struct steno_buf refusal;           /* an HTTP answer instead of 101 */
    int64_t opened_ns, last_message_ns; /* audio or text */
    int64_t last_rx_ns, last_ping_ns, last_tx_ns;
    int64_t stopped_ns;          /* stopped for silence; 0 = not stopped */
    int rate;                    /* of the stream's audio */
    double quota_wait;           /* s until its key's audio quota has room; 0 = it has */
    atomic_llong first_audio_ns; /* relaxed: the pool's lock orders it before every note */
    bool had_partial;            /* of the stream's worker */
};

struct steno_ws {
    struct steno_server *srv;
    const struct steno_ws_owner *owner;
    void *user;
    struct lws_context *ctx;
    struct ev_loop *loop; /* NULL: libwebsockets polls */
    struct lws_vhost *vhost;
    struct lws_protocols protocols[2];
    lws_sorted_usec_list_t sweep;
    int64_t swept_ns; /* the last sweep, or the start */
    pthread_t thread;
    bool running;
    atomic_bool stop, drain; /* release/acquire with lws_cancel_service's wake-up */
    struct steno_ws_conn *conns;
    struct steno_ws_conn *waiting; /* sessions without a connection, the latest first */
    struct steno_buf tx;
    bool drained;
    unsigned lingering; /* sockets that linger after their connection */
    struct steno_ws_admission admission;
    /* locked by mx */
    pthread_mutex_t mx;
    struct steno_ws_adoption *adoptions, **last_adoption;
    struct steno_ws_question *questions;
    struct steno_ws_conn *ready;
    struct steno_ws_move *moves;   /* answers of the storage */
    steno_diarizers *diarizers;    /* frozen; NULL: no networks for speakers */
    steno_call_hooks *calls;       /* frozen */
    steno_session_store *sessions; /* frozen; NULL: live sessions are in this process alone */
};

/* The id of its request. */
static inline const char *steno_ws_conn_request_id(const struct steno_ws_conn *c)
{
    return c->extra && *c->extra->request_id ? c->extra->request_id : c->id;
}

/* The files call each other downwards only: ws.c, ws_move.c, ws_resume.c, ws_conn.c, ws_engine.c,
 * ws_lists.c. */

/* ---- ws_lists.c ---- */

/* Add to, and remove from, a list of connections. */
void steno_ws_conn_link(struct steno_ws_conn **list, struct steno_ws_conn *c);
void steno_ws_conn_unlink(struct steno_ws_conn *c);
/* Put a struct steno_ws_conn on the ready list, so that the service thread attends to it. Any
 * thread. */
void steno_ws_conn_wake(void *conn);
/* Remove c from the ready list. */
void steno_ws_conn_unlink_ready(struct steno_ws_conn *c);
/* Take a connection off the ready list; NULL: it is empty. */
struct steno_ws_conn *steno_ws_next_ready(steno_ws *ws);

/* ---- ws_engine.c ---- */

/* How sessions reach recognition; its context is a struct steno_ws_conn. */
extern const struct steno_ws_engine steno_ws_engine;
/* Close the stream and what finds times of words; their statistics are then in c->past. No note of
 * them comes after it. Nothing is open: nothing happens. */
void steno_ws_close_stream(struct steno_ws_conn *c);

/* ---- ws_conn.c ---- */

/* Answer the handshake of an adopted socket that holds its own places, and begin its session. */
void steno_ws_conn_begin(struct steno_ws_conn *c);
/* Answer the upgrade request with an error status and close. */
void steno_ws_conn_refuse(struct steno_ws_conn *c, int status, const char *code,
                          const char *message);
/* Write a close frame and close: there is no session. */
void steno_ws_conn_close(struct steno_ws_conn *c, int close_code, const char *reason);
/* Make c->session. False: out of memory. */
bool steno_ws_conn_new_session(struct steno_ws_conn *c);
/* The session has a socket now, and its 101 is due. */
void steno_ws_conn_connected(struct steno_ws_conn *c);
/* Process p [n <= STENO_WS_RX_BYTES], bytes of the client, which are unmasked in place. */
void steno_ws_conn_receive(struct steno_ws_conn *c, char *p, size_t n);
/* Write to a socket that can take data. -1: the connection is over. *all_sent is set when nothing
 * follows: the socket is to be released. */
int steno_ws_conn_write(struct steno_ws_conn *c, bool *all_sent);
/* Attend to an established connection that was woken, or has input. */
void steno_ws_conn_attend(struct steno_ws_conn *c);
/* Check a connection, once a second. False: the peer is gone or reads nothing, and the connection
 * must be killed. queued: its unread bytes are added. */
bool steno_ws_conn_sweep(struct steno_ws_conn *c, int64_t now, size_t *queued);
void steno_ws_conn_drain(struct steno_ws_conn *c);
/* Count the session and give its places back. A second call does nothing. The session itself stays.
 */
void steno_ws_conn_end_session(struct steno_ws_conn *c);
/* Release everything except the struct. A second call does nothing. */
void steno_ws_conn_finish(struct steno_ws_conn *c);

/* ---- ws_resume.c ---- */

#define STENO_WS_TAKEN_OVER 4001 /* close code of the old connection (RFC 6455, 7.4.2: private) */

/* The connection is lost. True when the session stays and waits without it. */
bool steno_ws_conn_wait(struct steno_ws_conn *c);
/* Once a second: end sessions that have waited long enough. now INT64_MAX: all. */
void steno_ws_waiting_sweep(steno_ws *ws, int64_t now);
/* Read what a target asks to resume. False: it cannot be read. */
bool steno_ws_read_resume(const char *target, struct steno_native_resume *out);
/* A session of this key that can be resumed here; NULL: there is none. */
struct steno_ws_conn *steno_ws_find_session(steno_ws *ws, const steno_key *key, const char *id);
/* Resume a session of this process. c may be gone afterwards. */
void steno_ws_conn_resume_here(struct steno_ws_conn *c);
/* Answer a question by the sessions of this process. */
void steno_ws_answer_question(steno_ws *ws, struct steno_ws_question *q);
/* The session of c goes on elsewhere. A waiting one is gone after this. */
void steno_ws_send_off(struct steno_ws_conn *c, int close_code);
/* Something may have changed in the storage. False: another machine has the session, and c may be
 * gone. */
bool steno_ws_conn_refresh(struct steno_ws_conn *c);
/* The server shuts down. True: another machine can go on with the session, and c may be gone. */
bool steno_ws_conn_hand_over(struct steno_ws_conn *c);

/* ---- ws_move.c ---- */

/* Ask the storage who has the session that the handshake of c names. False:
 * steno_ws_conn_resume_here is next; otherwise it or a refusal follows. */
bool steno_ws_ask_storage(struct steno_ws_conn *c);
/* Likewise for a question. False: steno_ws_answer_question is next. */
bool steno_ws_ask_storage_for(steno_ws *ws, struct steno_ws_question *q);
/* Act on the answers that came. */
void steno_ws_take_moves(steno_ws *ws);

#endif
