/* The lists that connections are in: those with a socket, those that wait without one, and the
 * ready list. Only the ready list is for other threads. */
#include "server/live/ws_internal.h"

void steno_ws_conn_link(struct steno_ws_conn **list, struct steno_ws_conn *c)
{
    c->back = list;
    c->next = *list;
    if (c->next)
        c->next->back = &c->next;
    *list = c;
}

void steno_ws_conn_unlink(struct steno_ws_conn *c)
{
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
}

void steno_ws_conn_wake(void *conn)
{
    struct steno_ws_conn *c = conn;
    steno_ws *ws = c->ws;
    bool first;
    pthread_mutex_lock(&ws->mx);
    first = !ws->ready;
    if (!c->in_ready) {
        c->in_ready = true;
        c->next_ready = ws->ready;
        ws->ready = c;
    }
    pthread_mutex_unlock(&ws->mx);
    if (first)
        lws_cancel_service(ws->ctx);
}

void steno_ws_conn_unlink_ready(struct steno_ws_conn *c)
{
    pthread_mutex_lock(&c->ws->mx);
    for (struct steno_ws_conn **p = &c->ws->ready; *p; p = &(*p)->next_ready)
        if (*p == c) {
            *p = c->next_ready;
            break;
        }
    c->in_ready = false;
    pthread_mutex_unlock(&c->ws->mx);
}

struct steno_ws_conn *steno_ws_next_ready(steno_ws *ws)
{
    struct steno_ws_conn *c;
    pthread_mutex_lock(&ws->mx);
    c = ws->ready;
    if (c) {
        ws->ready = c->next_ready;
        c->in_ready = false;
    }
    pthread_mutex_unlock(&ws->mx);
    return c;
}
