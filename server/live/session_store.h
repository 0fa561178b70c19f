/* Live sessions in Redis, so that any machine can go on with one (docs/scale.md has the design).
 * A session is stored as a head (protocol/session_head.h) and the messages that its client may have
 * missed. Who has a session holds its token; a claim replaces the token, and from then on nothing
 * of the earlier holder is stored.
 *
 * One thread does all that waits for Redis. What is to be stored is handed to it in memory, at most
 * once per session beside what it is storing, and at most STENO_SESSION_STORE_BYTES together. While
 * Redis is away nothing is stored; the thread tries to reach it once a second.
 *
 * Locked: steno_session_store.lock, any thread. */
#ifndef STENO_SERVER_LIVE_SESSION_STORE_H
#define STENO_SERVER_LIVE_SESSION_STORE_H

#include "server/base/metrics.h"
#include "server/jobs/redis.h"
#include "server/live/ws_session.h"

#define STENO_SESSION_STORE_BYTES (64u << 20)

typedef struct steno_session_store steno_session_store;
typedef struct steno_stored_session steno_stored_session;

/* Start the thread. resume: s for which a session waits for its client; bytes: of the messages of
 * one session. redis outlives the store. */
STENO_MUST steno_status steno_session_store_open(steno_session_store **out,
                                                 struct steno_redis *redis, double resume,
                                                 size_t bytes, steno_metrics *registry,
                                                 steno_err *err);
/* Store what is due, unless Redis is away, answer every claim and join the thread. Sessions that
 * are left later keep what is stored of them. Accepts NULL. */
void steno_session_store_stop(steno_session_store *s);
/* Every session was left before. Accepts NULL. */
void steno_session_store_close(steno_session_store *s);

/* A session that begins here. owner: name of its key. wake: called with the store's lock when
 * something was stored or the session was taken; any thread. NULL: out of memory. */
steno_stored_session *steno_stored_session_new(steno_session_store *s, const char *id,
                                               const char *owner, void (*wake)(void *user),
                                               void *user);
/* What a session of ws_session.h does with its place, a steno_stored_session. */
extern const struct steno_ws_storage steno_session_storage;

enum steno_claim_result {
    STENO_CLAIM_AWAY,   /* Redis does not answer */
    STENO_CLAIM_NONE,   /* there is no such session of this owner */
    STENO_CLAIM_CLOSED, /* it was ended by its client */
    STENO_CLAIM_YOURS,  /* `local` still holds it */
    STENO_CLAIM_TAKEN   /* it was another one's and is the caller's now */
};

struct steno_session_claim {
    struct steno_session_claim *next;
    char id[48], owner[48];
    char local[40]; /* token of the session that is here; "" = there is none */
    /* Called once, by the store's thread. */
    void (*done)(struct steno_session_claim *c);
    enum steno_claim_result result;
    char token[40]; /* of TAKEN, like the rest, which the receiver frees */
    char *head;
    struct steno_buf messages; /* as of steno_record_next, by seq */
};

/* Whether a claim has a chance. */
bool steno_session_store_up(steno_session_store *s);
/* Claim a session: one machine gets it, whoever asks at the same time. c lives until done. */
void steno_session_store_claim(steno_session_store *s, struct steno_session_claim *c);
/* Copy the token of a session to out [40]. */
void steno_stored_session_token(steno_stored_session *x, char *out);
/* The store has nothing of it: all is to be stored again. */
void steno_stored_session_expire(steno_stored_session *x);
/* A session that was taken by a claim, with the same id and owner. NULL: out of memory. */
steno_stored_session *steno_stored_session_adopt(steno_session_store *s,
                                                 const struct steno_session_claim *c,
                                                 void (*wake)(void *user), void *user);
/* Count results that were delivered without being stored. */
void steno_session_store_count_unstored(steno_session_store *s, uint64_t n);
/* Count a session that goes on here, or elsewhere. */
void steno_session_store_count_moved(steno_session_store *s, bool here);

#endif
