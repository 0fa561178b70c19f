/* The commands with which machines share live sessions in Redis, and the answer to a claim. Each
 * command is an EVAL of a script, so that it happens as a whole. Pure. */
#ifndef STENO_SERVER_LIVE_SESSION_COMMANDS_H
#define STENO_SERVER_LIVE_SESSION_COMMANDS_H

#include "server/jobs/redis_call.h"
#include "server/live/session_store.h"

/* Stands for the session's id in a stored message; JSON has no such byte. */
#define STENO_SESSION_MASK '\1'

/* What a machine stores of its session. Redis answers "ok"; "taken": another machine has it;
 * "gone": it is not there, and was not to be stored as a whole. */
struct steno_session_put {
    const char *hash, *token, *owner;
    int64_t life_ms;
    bool all; /* everything of it, instead of what is there */
    const char *head;
    uint64_t lost;                   /* messages below it are dropped; 0 = none */
    const struct steno_buf *records; /* further messages, as of steno_record_next */
};

/* Each begins a call, which the caller frees. */
void steno_session_put(struct steno_redis_call *c, const struct steno_session_put *p);
/* Let it live for life_ms. The answers are those of a put. */
void steno_session_touch(struct steno_redis_call *c, const char *hash, const char *token,
                         int64_t life_ms);
/* Its client ended it: leave only the token, so that an earlier holder learns of its loss. */
void steno_session_erase(struct steno_redis_call *c, const char *hash, const char *token,
                         int64_t life_ms);
/* Give it to the token of claim, unless another key owns it or claim->local holds it. */
void steno_session_put_claim(struct steno_redis_call *c, const char *hash,
                             const struct steno_session_claim *claim, int64_t life_ms);

/* Set the result of c, and head and messages (together at most 4 * bytes) if it is TAKEN. An answer
 * that is not whole leaves the result as it was. */
void steno_session_read_claim(struct steno_session_claim *c, const redisReply *r, size_t bytes);

#endif
