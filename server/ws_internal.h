/* Shared by ws.c (the loop: which connections there are, who woke it, time) and ws_conn.c (one
 * connection: handshake, frames, its session, its end). All of it is confined to the service
 * thread, but for what says otherwise. */
#ifndef STENO_SERVER_WS_INTERNAL_H
#define STENO_SERVER_WS_INTERNAL_H

#include "protocol/ws_frame.h"
#include "server/ws.h"
#include "server/ws_admission.h"
#include "server/ws_session.h"

#include <libwebsockets.h>
#include <pthread.h>
#include <stdatomic.h>

#define STENO_WS_RX_BYTES 8192 /* read and handed to the session at a time, per connection */

struct steno_ws_conn {
    steno_ws *ws;
    struct lws *wsi;
    struct steno_peer peer;
    char id[STENO_ID_SIZE], request_id[STENO_REQUEST_ID];
    struct steno_ws_conn *next, **back; /* ws->conns or ws->waiting */
    struct steno_ws_conn *next_ready;   /* ws->news, locked by ws->mx */
    bool in_ready;                      /* likewise */
    const struct steno_dialect *dialect;
    enum steno_session_api api;
    struct steno_handshake hs; /* until it is answered */
    steno_key *key;            /* NULL: nobody's */
    bool entered;              /* holds a place of the limits */
    bool established, rx_off;
    bool told;          /* the session's last message and its close frame are written */
    int64_t waiting_ns; /* since when there is no connection (wsi NULL); 0 = there is one */
    bool deaf; /* what still comes is thrown away: framing broke, or a close frame was sent */
    steno_ws_session *session;
    steno_pool_stream *stream;
    struct steno_served *served; /* its model, once that is settled */
    struct steno_ws_reader reader;
    char *unread; /* [n_unread] bytes that came while the session was paused, or NULL */
    size_t n_unread;
    unsigned pong; /* bytes of pong_data to send + 1; 0 = none */
    char pong_data[STENO_WS_CONTROL_BYTES];
    bool ping;
    struct steno_buf refusal;           /* an HTTP answer instead of 101 */
    int64_t opened_ns, last_message_ns; /* audio or text */
    int64_t last_rx_ns, last_ping_ns, last_tx_ns;
    int64_t stopped_ns;          /* for its silence; 0 = not yet */
    int rate;                    /* of the stream's audio */
    double quota_wait;           /* s until its key has audio again; 0 = it has */
    atomic_llong first_audio_ns; /* relaxed: the pool's lock orders it before every note */
    bool had_partial;            /* the stream's worker */
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
    pthread_t thread;
    bool running;
    atomic_bool stop, drain; /* release/acquire with lws_cancel_service's wake-up */
    struct steno_ws_conn *conns;
    struct steno_ws_conn *waiting; /* whose connection was lost, the latest first */
    struct steno_buf tx;
    bool drained;
    unsigned lingering;                  /* sockets whose connection has gone ahead */
    struct steno_ws_admission admission; /* the acceptor's thread */
    /* locked by mx */
    pthread_mutex_t mx;
    struct steno_ws_adoption *adoptions, **last_adoption;
    struct steno_ws_conn *ready;
};

/* Ask the service thread to attend to c. Any thread. */
void steno_ws_conn_wake(struct steno_ws_conn *c);
/* Not among the news any more. */
void steno_ws_conn_unlink_ready(struct steno_ws_conn *c);

#define STENO_WS_LINGER_MAX 1024 /* sockets that linger at once; more are closed right away */
/* Nothing more is said on wsi, nor heard: it stays until the client is done, at most 2 s. -1: it
 * must be closed at once. */
int steno_ws_linger(steno_ws *ws, struct lws *wsi);
/* Out of its list, and all of it freed; its socket is no longer its own. */
void steno_ws_conn_free(struct steno_ws_conn *c);

/* The socket is adopted: answer the handshake. resumes: it names a session; else its places are
 * taken. */
void steno_ws_conn_begin(struct steno_ws_conn *c, bool resumes);
/* p: [n <= STENO_WS_RX_BYTES] bytes of the client, which are unmasked in place. */
void steno_ws_conn_receive(struct steno_ws_conn *c, char *p, size_t n);
/* The socket can be written to. -1: the connection is over. */
int steno_ws_conn_write(struct steno_ws_conn *c);
/* A worker had news. */
void steno_ws_conn_attend(struct steno_ws_conn *c);
/* Once a second. False: the peer is gone, or reads nothing; the connection must be killed. queued:
 * its unread bytes are added. */
bool steno_ws_conn_sweep(struct steno_ws_conn *c, int64_t now, size_t *queued);
void steno_ws_conn_drain(struct steno_ws_conn *c);
/* Release all but the struct; again: nothing. */
void steno_ws_conn_finish(struct steno_ws_conn *c);
/* Count the session, give its places back; again: nothing. The session itself stays. */
void steno_ws_conn_end_session(struct steno_ws_conn *c);
/* Into, and out of, a list of connections. */
void steno_ws_conn_link(struct steno_ws_conn **list, struct steno_ws_conn *c);
void steno_ws_conn_unlink(struct steno_ws_conn *c);
/* Answer the upgrade request with an error status and close. */
void steno_ws_conn_refuse(struct steno_ws_conn *c, int status, const char *code,
                          const char *message);
/* The session has a socket now, whose 101 is due. */
void steno_ws_conn_connected(struct steno_ws_conn *c);

/* ws_resume.c */
/* The connection is lost: true when the session stays, waiting, without it. */
bool steno_ws_conn_wait(struct steno_ws_conn *c);
/* The handshake of c asks to go on with a session: answer it, one way or the other. c may be gone
 * then. */
void steno_ws_conn_resume(struct steno_ws_conn *c);
/* Once a second: forget those who have waited long enough; now INT64_MAX: all. */
void steno_ws_waiting_sweep(steno_ws *ws, int64_t now);

#endif
