/* Sessions that go from one machine to another, through the storage of live sessions. A handshake
 * that names a session asks the storage first, unless the session is here and is stored nowhere.
 * The storage's thread gives the answer, and the service thread takes it. Either the session is
 * still this machine's, or it becomes one that waits here, as if its connection had been lost here.
 * Then ws_resume.c goes on as it does without a storage. When the storage is away, only this
 * machine's sessions can be resumed.
 *
 * Everything but on_claimed runs on the service thread. */
#include "server/live/ws_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "protocol/session_head.h"
#include "server/base/log.h"
#include "server/live/session_store.h"

typedef struct steno_ws_conn conn;

struct steno_ws_move {
    struct steno_session_claim claim; /* the first: on_claimed gets its address */
    struct steno_ws_move *next;       /* ws->moves */
    steno_ws *ws;
    conn *c;                     /* waits for the answer; NULL: it is gone, or q waits */
    struct steno_ws_question *q; /* waits instead of c; NULL: none does, or it is gone */
    steno_key *key;
    uint64_t next_seq;
    int64_t began;
};

/* ---- asking ---------------------------------------------------------------------------------- */

/* Runs on the storage's thread. */
static void on_claimed(struct steno_session_claim *claim)
{
    struct steno_ws_move *m = (struct steno_ws_move *)claim;
    steno_ws *ws = m->ws;
    pthread_mutex_lock(&ws->mx);
    m->next = ws->moves;
    ws->moves = m;
    pthread_mutex_unlock(&ws->mx);
    lws_cancel_service(ws->ctx);
}

/* Ask the storage for the session that a target names. False: it is not to be asked, or out of
 * memory. */
static bool ask_owner(steno_ws *ws, const char *target, steno_key *key, conn *c,
                      struct steno_ws_question *q)
{
    struct steno_native_resume want;
    struct steno_ws_move *m;
    conn *here;
    if (!ws->sessions || !steno_session_store_up(ws->sessions) ||
        !steno_ws_read_resume(target, &want) || !*want.session_id)
        return false;
    here = steno_ws_find_session(ws, key, want.session_id);
    if (here && !steno_ws_session_place(here->session))
        return false;
    m = calloc(1, sizeof *m);
    if (!m)
        return false;
    m->ws = ws;
    m->c = c;
    m->q = q;
    m->key = key;
    m->next_seq = want.next;
    m->began = steno_now_ns();
    m->claim.done = on_claimed;
    snprintf(m->claim.id, sizeof m->claim.id, "%s", want.session_id);
    snprintf(m->claim.owner, sizeof m->claim.owner, "%s", steno_key_name(key));
    if (here)
        steno_stored_session_token(steno_ws_session_place(here->session), m->claim.local);
    if (c) {
        c->asked = &m->c;
        lws_rx_flow_control(c->wsi, 0); /* nothing is read before there is a session */
    }
    steno_session_store_claim(ws->sessions, &m->claim);
    return true;
}

bool steno_ws_ask_storage(conn *c)
{
    return !c->hs.answered && ask_owner(c->ws, c->hs.target, c->key, c, NULL);
}

bool steno_ws_ask_storage_for(steno_ws *ws, struct steno_ws_question *q)
{
    return ask_owner(ws, q->handshake->hs.target, q->handshake->key, NULL, q);
}

/* ---- arriving -------------------------------------------------------------------------------- */

/* Take the places of a session that begins here. */
static bool take_places(conn *x, struct steno_ws_refusal *no)
{
    struct steno_server *srv = x->ws->srv;
    const int64_t now = steno_now_ns();
    double after = 1;
    steno_err err;
    no->retry_after = steno_limits_come_back(srv->limits, now);
    if (steno_limits_enter(srv->limits, x->api, &err))
        return steno_ws_refuse(no, 503, steno_limits_draining(srv->limits) ? "draining" : "busy",
                               err.msg, no->retry_after);
    if (steno_key_enter(srv->keys, x->key, now, &after, &err)) {
        steno_limits_refund(srv->limits, x->api, STENO_REJECT_QUOTA);
        return steno_ws_refuse(no, 429, "quota_exceeded", err.msg, after);
    }
    steno_limits_started(srv->limits, x->api);
    x->entered = true;
    return true;
}

static conn *new_waiting(const struct steno_ws_move *m)
{
    conn *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->ws = m->ws;
    x->dialect = &steno_dialect_native;
    x->api = STENO_SESSION_STREAM;
    x->key = m->key;
    memcpy(x->id, m->claim.id,
           sizeof x->id < sizeof m->claim.id ? sizeof x->id : sizeof m->claim.id);
    x->id[sizeof x->id - 1] = '\0';
    x->waiting_ns = x->opened_ns = x->last_message_ns = x->last_rx_ns = x->last_tx_ns =
        steno_now_ns();
    x->established = true;
    if (m->c) { /* it has the trace of this handshake */
        x->extra = m->c->extra;
        m->c->extra = NULL;
    }
    return x;
}

static bool restore(conn *x, const struct steno_ws_move *m, const struct steno_session_head *h,
                    struct steno_ws_refusal *no)
{
    steno_stored_session *place = NULL;
    steno_err err;
    steno_status st;
    if (steno_ws_conn_new_session(x))
        place = steno_stored_session_adopt(x->ws->sessions, &m->claim, steno_ws_conn_wake, x);
    if (!place)
        return steno_ws_refuse(no, 503, "out_of_memory", "out of memory", no->retry_after);
    st = steno_ws_session_restore(x->session, h, &m->claim.messages, m->next_seq,
                                  &steno_session_storage, place, &err);
    if (!st)
        return true;
    return steno_ws_refuse(no, st == STENO_ERR_BUSY || st == STENO_ERR_NOMEM ? 503 : 409,
                           steno_status_info(st)->name, err.msg, no->retry_after);
}

/* Free a session that could not go on here. Its place in the storage stays: another machine may
 * take it. */
static void discard(conn *x)
{
    const bool had = x->session;
    if (x->entered && !had) {
        x->entered = false;
        steno_key_leave(x->ws->srv->keys, x->key);
        steno_limits_leave(x->ws->srv->limits, x->api, STENO_SESSION_REFUSED);
    }
    steno_ws_conn_finish(x);
    free(x);
}

/* Make the session of a claim wait here. False: *no says why not. */
static bool arrive(struct steno_ws_move *m, struct steno_ws_refusal *no)
{
    struct steno_session_head h;
    steno_err err;
    conn *x;
    if (steno_session_head_read(m->claim.head, &h, &err)) {
        steno_log(LOG_WARNING, "%s", err.msg);
        return steno_ws_refuse(no, 404, "session_not_found",
                               "session_id: its stored state cannot be used", 0);
    }
    x = new_waiting(m);
    if (!x)
        steno_ws_refuse(no, 503, "out_of_memory", "out of memory", 0);
    if (x && ((!h.over && !take_places(x, no)) || !restore(x, m, &h, no))) {
        discard(x);
        x = NULL;
    }
    if (x) {
        x->told = h.over;
        steno_ws_conn_link(&m->ws->waiting, x);
        if (x->entered)
            steno_metric_add(m->ws->srv->stats->ws_waiting, 1);
        steno_session_store_count_moved(m->ws->sessions, true);
        steno_log(LOG_DEBUG, "stream %s goes on here", x->id);
    }
    steno_session_head_free(&h);
    return x;
}

/* Act on the answer. False: the session cannot be had here, and *no says why. */
static bool act_on_claim(struct steno_ws_move *m, struct steno_ws_refusal *no)
{
    conn *here = steno_ws_find_session(m->ws, m->key, m->claim.id);
    switch (m->claim.result) {
    case STENO_CLAIM_TAKEN:
        if (here)
            steno_ws_send_off(here, STENO_WS_TAKEN_OVER);
        return arrive(m, no);
    case STENO_CLAIM_CLOSED:
        if (here && steno_ws_session_place(here->session))
            steno_ws_send_off(here, STENO_WS_TAKEN_OVER);
        break;
    case STENO_CLAIM_NONE:
        if (here && steno_ws_session_place(here->session))
            steno_stored_session_expire(steno_ws_session_place(here->session));
        break;
    case STENO_CLAIM_AWAY:
    case STENO_CLAIM_YOURS:
        break;
    }
    return true;
}

static void answer_one(struct steno_ws_move *m)
{
    struct steno_ws_refusal no = {0};
    const bool wanted = m->c || m->q;
    const bool good = !wanted || act_on_claim(m, &no);
    conn *c = m->c;
    if (c) {
        c->asked = NULL;
        lws_rx_flow_control(c->wsi, 1);
        if (good)
            steno_ws_conn_resume_here(c);
        else
            steno_ws_conn_refuse(c, no.status, no.code, no.message);
    }
    if (m->q && good)
        steno_ws_answer_question(m->ws, m->q);
    else if (m->q) {
        memcpy(no.request_id, m->q->handshake->request_id, sizeof no.request_id);
        steno_ws_trace_refusal(m->ws->srv, m->q->handshake, m->began, NULL, &no);
        m->q->answer(m->q, &no);
    }
    free(m->claim.head);
    steno_buf_free(&m->claim.messages);
    free(m);
}

void steno_ws_take_moves(steno_ws *ws)
{
    struct steno_ws_move *m, *next;
    pthread_mutex_lock(&ws->mx);
    m = ws->moves;
    ws->moves = NULL;
    pthread_mutex_unlock(&ws->mx);
    for (; m; m = next) {
        next = m->next;
        answer_one(m);
    }
}
