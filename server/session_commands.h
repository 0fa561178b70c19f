/* The commands with which machines share live sessions in Redis, and the answer to a claim. Each
 * command is an EVAL of a script, so that it happens as a whole. Pure. */
#ifndef STENO_SERVER_SESSION_COMMANDS_H
#define STENO_SERVER_SESSION_COMMANDS_H

#include "server/redis.h"
#include "server/session_store.h"

/* Stands for the session's id in a stored message; JSON has no such byte. */
#define STENO_SESSION_MASK '\1'

/* The words of one command. The first failure sticks. */
struct steno_session_words {
    struct steno_buf bytes, ends; /* ends: size_t */
    const char **v;
    size_t *len;
    bool failed;
};

/* What a machine stores of its session. Redis answers "ok"; "taken": another machine has it;
 * "gone": it is not there, and was not to be stored as a whole. */
struct steno_session_put {
    const char *hash, *token, *owner;
    uint64_t life_ms;
    bool all; /* everything of it, instead of what is there */
    const char *head;
    uint64_t lost;                   /* messages below it are dropped; 0 = none */
    const struct steno_buf *records; /* further messages, as of steno_record_next */
};

/* Each begins the words w, which steno_session_words_free frees. */
void steno_session_put(struct steno_session_words *w, const struct steno_session_put *p);
/* Let it live for life_ms. The answers are those of a put. */
void steno_session_touch(struct steno_session_words *w, const char *hash, const char *token,
                         uint64_t life_ms);
/* Its client ended it: leave only the token, so that an earlier holder learns of its loss. */
void steno_session_erase(struct steno_session_words *w, const char *hash, const char *token,
                         uint64_t life_ms);
/* Give it to the token of c, unless another key owns it or c->local holds it. */
void steno_session_claim_words(struct steno_session_words *w, const char *hash,
                               const struct steno_session_claim *c, uint64_t life_ms);

/* The words as Redis takes them; they are valid until w is freed. False: out of memory. */
bool steno_session_words_finish(struct steno_session_words *w, struct steno_redis_words *out);
void steno_session_words_free(struct steno_session_words *w);

/* Set the result of c, and head and messages (together at most 4 * bytes) if it is TAKEN. An answer
 * that is not whole leaves the result as it was. */
void steno_session_read_claim(struct steno_session_claim *c, const redisReply *r, size_t bytes);

#endif
