/* Sessions that outlive their connection. A session whose client asked for this (`resumable`) waits
 * on ws->waiting for websocket.resume, with everything it holds: its places, its stream of the
 * pool, and the unread answers. A handshake that names the session (`session_id`, known only to its
 * client, and the same API key) resumes it. This also works while the old connection still exists:
 * the client knows better than the server which one is dead. A session that has ended and has sent
 * its last message keeps only its answers, because the server cannot know that the client has read
 * them.
 *
 * A telephone call that was hung up waits here too, until its last messages are posted.
 *
 * Everything runs on the service thread. The connection's struct stays with the session, because
 * the recogniser's notes have its address; the socket moves. ws_move.c has sessions of other
 * machines. */
#include "server/live/ws_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "protocol/query.h"
#include "server/base/log.h"
#include "server/core/credentials.h"

typedef struct steno_ws_conn conn;

/* ---- waiting ------------------------------------------------------------------------------- */

static void forget_waiting(conn *c)
{
    if (c->entered)
        steno_metric_add(c->ws->srv->stats->ws_waiting, -1);
    steno_ws_conn_finish(c);
    steno_ws_conn_unlink(c);
    free(c);
}

/* Keep at most as many ended sessions as there may be running ones. */
static void limit_ended(steno_ws *ws)
{
    conn *oldest = NULL;
    int n = 0;
    for (conn *c = ws->waiting; c; c = c->next)
        if (!c->entered) {
            oldest = c;
            n++;
        }
    if (n > ws->srv->conf->sessions)
        forget_waiting(oldest);
}

bool steno_ws_conn_wait(conn *c)
{
    steno_ws *ws = c->ws;
    bool call;
    if (!c->session || !c->established || atomic_load_explicit(&ws->stop, memory_order_acquire))
        return false;
    call = !c->told && steno_ws_session_hang_up(c->session);
    if (!call && !steno_ws_session_resumable(c->session))
        return false;
    lws_set_opaque_user_data(c->wsi, NULL); /* further events of the socket are ignored */
    c->wsi = NULL;
    c->waiting_ns = steno_now_ns();
    steno_handshake_free(&c->hs);
    free(c->unread);
    c->unread = NULL;
    c->n_unread = 0;
    if (!call)
        steno_ws_session_detach(c->session);
    steno_metric_add(ws->srv->stats->ws_connections, -1);
    if (c->told)
        steno_ws_conn_end_session(c);
    else
        steno_metric_add(ws->srv->stats->ws_waiting, 1);
    ws->owner->closed(ws->user, &c->peer);
    steno_ws_conn_unlink(c);
    steno_ws_conn_link(&ws->waiting, c);
    limit_ended(ws);
    return true;
}

void steno_ws_send_off(conn *c, int close_code)
{
    steno_session_store_count_moved(c->ws->sessions, false);
    steno_log(LOG_DEBUG, "stream %s goes on on another machine", c->id);
    steno_ws_session_move(c->session, close_code);
    if (c->wsi)
        lws_callback_on_writable(c->wsi);
    else
        forget_waiting(c);
}

bool steno_ws_conn_refresh(conn *c)
{
    bool ours;
    if (!c->session || !steno_ws_session_place(c->session))
        return true;
    ours = steno_ws_session_refresh(c->session, steno_now_ns());
    steno_session_store_count_unstored(c->ws->sessions, steno_ws_session_take_unstored(c->session));
    if (!ours)
        steno_ws_send_off(c, STENO_WS_TAKEN_OVER);
    return ours;
}

bool steno_ws_conn_hand_over(conn *c)
{
    if (!c->established || !c->session || !steno_ws_session_hand_over(c->session))
        return false;
    steno_ws_send_off(c, 1012);
    return true;
}

#define CALL_SECONDS 60 /* for the rest of a call that was hung up */

static bool waited_enough(const conn *c, int64_t now)
{
    const double waited = (double)(now - c->waiting_ns) * 1e-9;
    struct steno_ws_session_state st;
    if (!steno_ws_session_posted(c->session))
        return waited > c->ws->srv->conf->ws_resume;
    steno_ws_session_get_state(c->session, &st);
    return st.close || waited > CALL_SECONDS;
}

void steno_ws_waiting_sweep(steno_ws *ws, int64_t now)
{
    for (conn *c = ws->waiting, *next; c; c = next) {
        next = c->next;
        if (now != INT64_MAX && !steno_ws_conn_refresh(c))
            continue;
        if (now == INT64_MAX || waited_enough(c, now))
            forget_waiting(c);
    }
}

/* ---- resuming ------------------------------------------------------------------------------ */

static steno_status on_parameter(void *user, const char *name, const char *value, steno_err *err)
{
    if (steno_credentials_parameter(name))
        return STENO_OK;
    return steno_native_resume_query(name, value, user, err);
}

/* The time does not depend on how much of it is right. */
static bool same_id(const char *a, const char *b)
{
    unsigned char differ = strlen(a) != strlen(b);
    for (size_t i = 0; a[i] && b[i]; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return !differ;
}

static conn *find_in(conn *list, const steno_key *key, const char *id)
{
    for (conn *c = list; c; c = c->next)
        if (c->session && same_id(c->id, id) &&
            !strcmp(steno_key_name(c->key), steno_key_name(key)) &&
            steno_ws_session_resumable(c->session))
            return c;
    return NULL;
}

conn *steno_ws_find_session(steno_ws *ws, const steno_key *key, const char *id)
{
    conn *c = find_in(ws->conns, key, id);
    return c ? c : find_in(ws->waiting, key, id);
}

bool steno_ws_read_resume(const char *target, struct steno_native_resume *out)
{
    steno_native_resume_init(out);
    return !steno_query_each(target, on_parameter, out, NULL);
}

/* Find the session that a handshake names and read what it asks for. NULL: *no has the status, the
 * code and the message. */
static conn *find_session(steno_ws *ws, const char *target, const steno_key *key,
                          struct steno_native_resume *ask, struct steno_ws_refusal *no)
{
    conn *session;
    steno_err err;
    steno_native_resume_init(ask);
    if (steno_query_each(target, on_parameter, ask, &err)) {
        steno_ws_refuse(no, 400, "invalid_argument", err.msg, 0);
        return NULL;
    }
    session = steno_ws_find_session(ws, key, ask->session_id);
    if (!session)
        steno_ws_refuse(no, 404, "session_not_found",
                        "session_id: no such session: it was not resumable, or its time is over",
                        0);
    return session;
}

static void refuse_attach(struct steno_ws_refusal *no, const steno_err *err)
{
    if (err->code == STENO_ERR_LIMIT)
        steno_ws_refuse(no, 410, "messages_lost", err->msg, 0);
    else
        steno_ws_refuse(no, err->code == STENO_ERR_NOMEM ? 503 : 409,
                        steno_status_info(err->code)->name, err->msg, 0);
}

static bool can_resume(steno_ws *ws, const struct steno_ws_handshake *g,
                       struct steno_ws_refusal *no)
{
    struct steno_native_resume ask;
    steno_err err;
    conn *session = find_session(ws, g->hs.target, g->key, &ask, no);
    if (session && !steno_ws_session_can_attach(session->session, &ask, &err))
        return true;
    if (session)
        refuse_attach(no, &err);
    memcpy(no->request_id, g->request_id, sizeof no->request_id);
    return false;
}

void steno_ws_answer_question(steno_ws *ws, struct steno_ws_question *q)
{
    struct steno_ws_refusal no = {0};
    const int64_t began = steno_now_ns();
    const bool good = can_resume(ws, q->handshake, &no);
    if (!good)
        steno_ws_trace_refusal(ws->srv, q->handshake, began, NULL, &no);
    q->answer(q, good ? NULL : &no);
}

/* The old connection still exists: its socket goes to c, which has nothing else, and its client
 * gets the reason. */
static void take_over(conn *session, conn *c)
{
    struct lws *old = session->wsi;
    struct steno_peer peer = session->peer;
    session->wsi = c->wsi;
    session->peer = c->peer;
    c->wsi = old;
    c->peer = peer;
    lws_set_opaque_user_data(session->wsi, session);
    lws_set_opaque_user_data(old, c);
    steno_metric_add(c->ws->srv->stats->ws_connections, -1);
    steno_handshake_free(&session->hs);
    session->hs = c->hs;
    c->hs = (struct steno_handshake){0};
    c->opened_ns = steno_now_ns();
    steno_ws_conn_close(c, STENO_WS_TAKEN_OVER, "resumed on another connection");
}

/* The session waits: it gets the socket, and c is freed. */
static void give_back(conn *session, conn *c)
{
    if (session->entered)
        steno_metric_add(c->ws->srv->stats->ws_waiting, -1);
    session->wsi = c->wsi;
    session->peer = c->peer;
    session->hs = c->hs;
    session->waiting_ns = 0;
    lws_set_opaque_user_data(session->wsi, session);
    steno_ws_conn_unlink(c);
    steno_ws_conn_unlink(session);
    steno_ws_conn_link(&session->ws->conns, session);
    free(c->extra);
    free(c);
}

static void move(conn *session, conn *c)
{
    char *early = c->unread;
    size_t n_early = c->n_unread;
    c->unread = NULL;
    c->n_unread = 0;
    if (session->wsi)
        take_over(session, c);
    else
        give_back(session, c);
    free(session->unread);
    session->unread = early;
    session->n_unread = n_early;
    session->pong = 0;
    session->rx_off = session->discarding = session->ping = session->told = false;
    steno_metric_add(session->ws->srv->stats->ws_resumed, 1);
    steno_log(LOG_DEBUG, "stream %s continues on another connection", session->id);
    steno_ws_conn_connected(session);
    if (n_early && steno_ws_conn_refresh(session))
        steno_ws_conn_attend(session);
}

void steno_ws_conn_resume_here(conn *c)
{
    struct steno_ws_refusal no = {0};
    struct steno_native_resume ask;
    steno_err err;
    conn *session = find_session(c->ws, c->hs.target, c->key, &ask, &no);
    if (session && !steno_ws_session_attach(session->session, &ask, &err)) {
        move(session, c);
        return;
    }
    if (session)
        refuse_attach(&no, &err);
    steno_ws_conn_refuse(c, no.status, no.code, no.message);
}
