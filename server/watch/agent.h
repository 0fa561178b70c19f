/* The agent-check port of HAProxy (configuration manual, "agent-check"): to every connection one
 * line that tells how much of the machine is free, then the end. One thread; a client has 1 s. */
#ifndef STENO_SERVER_WATCH_AGENT_H
#define STENO_SERVER_WATCH_AGENT_H

#include "server/core/server.h"
#include "server/watch/health.h"

typedef struct steno_agent steno_agent;

#define STENO_AGENT_LINE 64

/* What an operator has said (the administrator's socket; SIGUSR1 is drain). Values of
 * steno_server.leaving. */
enum steno_leaving { STENO_STAYS, STENO_DRAINS, STENO_MAINTAINED };

/* What the line depends on. */
struct steno_agent_state {
    bool draining; /* the process ends */
    enum steno_leaving leaving;
    bool ready;            /* recognition works */
    int streams, sessions; /* running ones; limits.sessions */
    double load;           /* sum over the models: streams / capacity */
};

/* Write the line to out, STENO_AGENT_LINE bytes: "ready up 73%", "drain", "maint" or
 * "down #recognition does not answer". The weight is at least 1 %: a full machine refuses with
 * Retry-After itself, while weight 0 would mean drain. Returns out. Pure. */
char *steno_agent_write(const struct steno_agent_state *s, char *out);

/* Listen on conf->agent_listen. *out is NULL when that is "". STENO_ERR_IO names the address. */
STENO_MUST steno_status steno_agent_open(steno_agent **out, struct steno_server *srv,
                                         steno_health *health, steno_err *err);
void steno_agent_close(steno_agent *a); /* joins the thread; accepts NULL */

#endif
