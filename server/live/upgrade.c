/* The request head is written again from what libmicrohttpd has read, so that the acceptor's parser
 * and admission decide about it, as about a first request. Their answer is a complete text; its
 * lines become the headers of libmicrohttpd's response.
 *
 * After its 101 libmicrohttpd (0.9.75) keeps the descriptor and the memory of the connection until
 * it is told to close them. So the WebSocket side gets a duplicate of the descriptor at once, and
 * libmicrohttpd closes its own without shutting the socket down. No other descriptor of the socket
 * may live: libev would not forget it when libwebsockets closes its own. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "server/live/upgrade.h"

#include "server/live/ws.h"
#include "server/live/ws_admission.h"
#include "server/port/refusal.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* A handshake that names a session. Only the WebSocket side knows whether it can be resumed, so the
 * connection is suspended until that has answered. */
struct steno_resumption {
    struct steno_ws_question question;
    struct MHD_Connection *conn;
    bool refused;
    struct steno_ws_refusal no;
    atomic_bool answered; /* release/acquire: the two fields before are set */
};

/* Give the header lines of a complete answer to libmicrohttpd, which writes Connection and
 * Content-Length itself. text is overwritten. */
static void add_headers(struct MHD_Response *rs, char *text)
{
    char *line = strstr(text, "\r\n") + 2, *end;
    for (; (end = strstr(line, "\r\n")) != line; line = end + 2) {
        char *value = strstr(line, ": ");
        *end = *value = '\0';
        if (strcasecmp(line, "Connection") && strcasecmp(line, "Content-Length"))
            (void)MHD_add_response_header(rs, line, value + 2);
    }
}

static enum MHD_Result queue(struct steno_request *rq, int status, struct MHD_Response *rs)
{
    enum MHD_Result ok = MHD_queue_response(rq->conn, (unsigned)status, rs);
    MHD_destroy_response(rs);
    if (ok == MHD_YES)
        rq->code = status;
    return ok;
}

static void on_upgraded(void *cls, struct MHD_Connection *conn, void *con_cls, const char *early,
                        size_t n_early, MHD_socket sock, struct MHD_UpgradeResponseHandle *urh)
{
    struct steno_request *rq = cls;
    int fd = fcntl(sock, F_DUPFD_CLOEXEC, 0), one = 1;
    (void)conn, (void)con_cls;
    if (fd >= 0) {
        /* libmicrohttpd has switched it off */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        atomic_store_explicit(rq->moved, true, memory_order_relaxed);
        steno_ws_adopt_answered(rq->sv->ws, fd, rq->peer, rq->handshake, early, n_early);
        free(rq->handshake);
        rq->handshake = NULL;
    }
    (void)MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

static enum MHD_Result accept_it(struct steno_request *rq)
{
    const struct steno_ws_handshake *g = rq->handshake;
    struct MHD_Response *rs;
    struct steno_buf text;
    enum MHD_Result ok = MHD_NO;
    steno_buf_init(&text, STENO_REQUEST_ID + STENO_TRACESTATE_SIZE + 1024);
    rs = MHD_create_response_for_upgrade(on_upgraded, rq);
    if (rs && !steno_ws_write_accept(&text, &g->hs, g->dialect, g->id, g->request_id, &g->trace) &&
        !steno_buf_add(&text, "", 1)) {
        add_headers(rs, text.data);
        ok = queue(rq, 101, rs);
    } else if (rs) {
        MHD_destroy_response(rs);
    }
    steno_buf_free(&text);
    return ok;
}

static enum MHD_Result refuse_upgrade(struct steno_request *rq, const struct steno_ws_refusal *no)
{
    struct MHD_Response *rs;
    struct steno_buf text;
    char *body;
    steno_buf_init(&text, 2 * STENO_REFUSAL_BYTES);
    if (steno_ws_write_refusal(&text, rq->sv->srv, steno_request_header(rq, "Origin"), no) ||
        steno_buf_add(&text, "", 1)) {
        steno_buf_free(&text);
        return MHD_NO;
    }
    body = strstr(text.data, "\r\n\r\n") + 4;
    rs = MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_COPY);
    if (rs)
        add_headers(rs, text.data);
    steno_buf_free(&text);
    return rs ? queue(rq, no->status, rs) : MHD_NO;
}

/* Runs on the WebSocket side's thread. */
static void on_answer(struct steno_ws_question *q, const struct steno_ws_refusal *no)
{
    struct steno_resumption *r = (struct steno_resumption *)q; /* its first member */
    struct MHD_Connection *conn = r->conn;
    r->refused = no;
    if (no)
        r->no = *no;
    atomic_store_explicit(&r->answered, true, memory_order_release);
    MHD_resume_connection(conn); /* r may be gone from here on */
}

static enum MHD_Result ask_to_resume(struct steno_request *rq)
{
    struct steno_resumption *r = calloc(1, sizeof *r);
    if (!r)
        return MHD_NO;
    r->question = (struct steno_ws_question){.handshake = rq->handshake, .answer = on_answer};
    r->conn = rq->conn;
    rq->resumption = r;
    MHD_suspend_connection(rq->conn);
    steno_ws_ask(rq->sv->ws, &r->question);
    return MHD_YES;
}

static enum MHD_Result decide(struct steno_request *rq, const struct steno_buf *head)
{
    struct steno_ws_handshake *g = malloc(sizeof *g);
    struct steno_ws_refusal no;
    if (!g)
        return MHD_NO;
    if (steno_ws_decide(steno_ws_admission(rq->sv->ws), rq->peer, head->data, head->len, g, &no)) {
        rq->handshake = g;
        return g->resumes ? ask_to_resume(rq) : accept_it(rq);
    }
    free(g);
    return refuse_upgrade(rq, &no);
}

static bool take_upgrade(struct steno_request *rq, enum MHD_Result *result)
{
    const struct steno_resumption *r = rq->resumption;
    struct steno_buf head;
    bool asked;
    if (r) {
        if (atomic_load_explicit(&r->answered, memory_order_acquire) && !rq->code)
            *result = r->refused ? refuse_upgrade(rq, &r->no) : accept_it(rq);
        else
            *result = MHD_YES;
        return true;
    }
    if (!rq->http11 || strcmp(rq->method, "GET") || !steno_request_header(rq, "Upgrade"))
        return false;
    steno_buf_init(&head, STENO_REQUEST_HEAD);
    asked = !steno_request_write_head(rq, &head) &&
            steno_ws_asked(rq->sv->srv, rq->peer, head.data, head.len);
    if (asked)
        *result = decide(rq, &head);
    steno_buf_free(&head);
    return asked;
}

static void end_upgrade(struct steno_request *rq)
{
    free(rq->resumption);
    rq->resumption = NULL;
    if (!rq->handshake)
        return;
    steno_ws_handshake_release(rq->sv->srv, rq->handshake);
    free(rq->handshake);
    rq->handshake = NULL;
}

const struct steno_live_calls steno_upgrade_calls = {take_upgrade, end_upgrade};
