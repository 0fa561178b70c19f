/* The words of a script's call (EVAL), collected one by one. Confined. */
#ifndef STENO_SERVER_JOBS_REDIS_CALL_H
#define STENO_SERVER_JOBS_REDIS_CALL_H

#include "base/buf.h"
#include "server/jobs/redis.h"

/* The first failure sticks. */
struct steno_redis_call {
    const char *script;     /* borrowed */
    struct steno_buf bytes; /* of all arguments, one after the other */
    struct steno_buf ends;  /* size_t: where each ends */
    const char **v;         /* of steno_redis_call_words */
    size_t *len;
    bool failed;
};

/* Begin a call without arguments, which steno_redis_call_free frees. */
void steno_redis_call_begin(struct steno_redis_call *c, const char *script);
/* Append an argument: n bytes, a text (NULL = ""), or a number. */
void steno_redis_call_bytes(struct steno_redis_call *c, const void *p, size_t n);
void steno_redis_call_text(struct steno_redis_call *c, const char *p);
void steno_redis_call_int(struct steno_redis_call *c, int64_t v);
/* The command, once all arguments are there; it is valid until c is freed. False: out of memory. */
bool steno_redis_call_words(struct steno_redis_call *c, struct steno_redis_words *out);
void steno_redis_call_free(struct steno_redis_call *c);

#endif
