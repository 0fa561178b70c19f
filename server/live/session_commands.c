/* Keys in Redis, all with the prefix "steno:live:" and the SHA-256 of the session's id in
 * hexadecimal, because who knows an id may take its session: hashes with the fields
 *
 *     token      of the machine that has the session
 *     owner      name of the API key
 *     head       protocol/session_head.h
 *     closed     its client ended it: nothing else is left of it but the token
 *     0, 1, ...  messages by seq, with STENO_SESSION_MASK instead of the session's id */
#include "server/live/session_commands.h"

#include "server/live/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scripts --------------------------------------------------------------------------------- */

/* hash, token, owner, ms to live, all or not, head, lost or "", then seq and text of messages */
static const char script_put[] =
    "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
    "local t=redis.call('HGET',k,'token')\n"
    "if t and t~=a[2] then return 'taken' end\n"
    "if a[5]=='1' then redis.call('DEL',k) elseif not t then return 'gone' end\n"
    "redis.call('HSET',k,'token',a[2],'owner',a[3],'head',a[6])\n"
    "if a[7]~='' then local lost=tonumber(a[7])\n"
    "  for _,f in ipairs(redis.call('HKEYS',k)) do local n=tonumber(f)\n"
    "    if n and n<lost then redis.call('HDEL',k,f) end end end\n"
    "for i=8,#a,2 do redis.call('HSET',k,a[i],a[i+1]) end\n"
    "redis.call('PEXPIRE',k,a[4])\n"
    "return 'ok'\n";

/* hash, token, ms to live */
static const char script_touch[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "local t=redis.call('HGET',k,'token')\n"
                                   "if not t then return 'gone' end\n"
                                   "if t~=a[2] then return 'taken' end\n"
                                   "redis.call('PEXPIRE',k,a[3])\n"
                                   "return 'ok'\n";

/* hash, token, ms to live. The token stays, so that an earlier holder learns of its loss. */
static const char script_erase[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "if redis.call('HGET',k,'token')~=a[2] then return 'taken' end\n"
                                   "redis.call('DEL',k)\n"
                                   "redis.call('HSET',k,'token',a[2],'closed',1)\n"
                                   "redis.call('PEXPIRE',k,a[3])\n"
                                   "return 'ok'\n";

/* hash, new token, owner, token of the one that is here or "", ms to live */
static const char script_claim[] = "local a,k=ARGV,'steno:live:'..ARGV[1]\n"
                                   "local t=redis.call('HMGET',k,'token','owner','closed')\n"
                                   "if not t[1] then return {'none'} end\n"
                                   "if t[3] then return {'closed'} end\n"
                                   "if t[2]~=a[3] then return {'none'} end\n"
                                   "redis.call('PEXPIRE',k,a[5])\n"
                                   "if t[1]==a[4] then return {'yours'} end\n"
                                   "redis.call('HSET',k,'token',a[2])\n"
                                   "return {'taken',redis.call('HGETALL',k)}\n";

/* ---- calls ----------------------------------------------------------------------------------- */

void steno_session_put(struct steno_redis_call *c, const struct steno_session_put *p)
{
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    steno_redis_call_begin(c, script_put);
    steno_redis_call_text(c, p->hash);
    steno_redis_call_text(c, p->token);
    steno_redis_call_text(c, p->owner);
    steno_redis_call_int(c, p->life_ms);
    steno_redis_call_text(c, p->all ? "1" : "0");
    steno_redis_call_text(c, p->head);
    if (p->lost)
        steno_redis_call_int(c, (int64_t)p->lost);
    else
        steno_redis_call_text(c, "");
    while (steno_record_next(p->records, &at, &seq, &text, &n)) {
        steno_redis_call_int(c, (int64_t)seq);
        steno_redis_call_bytes(c, text, n);
    }
}

static void put_short(struct steno_redis_call *c, const char *script, const char *hash,
                      const char *token, int64_t life_ms)
{
    steno_redis_call_begin(c, script);
    steno_redis_call_text(c, hash);
    steno_redis_call_text(c, token);
    steno_redis_call_int(c, life_ms);
}

void steno_session_touch(struct steno_redis_call *c, const char *hash, const char *token,
                         int64_t life_ms)
{
    put_short(c, script_touch, hash, token, life_ms);
}

void steno_session_erase(struct steno_redis_call *c, const char *hash, const char *token,
                         int64_t life_ms)
{
    put_short(c, script_erase, hash, token, life_ms);
}

void steno_session_put_claim(struct steno_redis_call *c, const char *hash,
                             const struct steno_session_claim *claim, int64_t life_ms)
{
    steno_redis_call_begin(c, script_claim);
    steno_redis_call_text(c, hash);
    steno_redis_call_text(c, claim->token);
    steno_redis_call_text(c, claim->owner);
    steno_redis_call_text(c, claim->local);
    steno_redis_call_int(c, life_ms);
}

/* ---- the answer to a claim ------------------------------------------------------------------- */

static steno_status unmask(const char *text, size_t n, const char *id, uint64_t seq,
                           struct steno_buf *out)
{
    const char *mask = memchr(text, STENO_SESSION_MASK, n);
    const size_t before = mask ? (size_t)(mask - text) : n;
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, n + strlen(id));
    st = steno_buf_add(&b, text, before);
    if (!st && mask)
        st = steno_buf_puts(&b, id);
    if (!st && mask)
        st = steno_buf_add(&b, mask + 1, n - before - 1);
    if (!st)
        st = steno_record_add(out, seq, b.data, b.len);
    steno_buf_free(&b);
    return st;
}

struct found {
    uint64_t seq;
    const redisReply *text;
};

static int by_seq(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Read the fields of a hash. False: it is not whole, or out of memory. */
static bool read_fields(struct steno_session_claim *c, const redisReply *r, size_t bytes)
{
    struct found *found = calloc(r->elements / 2 + 1, sizeof *found);
    size_t n = 0;
    bool good = found;
    steno_buf_init(&c->messages, 4 * bytes);
    for (size_t i = 0; good && i + 1 < r->elements; i += 2) {
        const redisReply *name = r->element[i], *value = r->element[i + 1];
        if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
            good = false;
        else if (name->str[0] >= '0' && name->str[0] <= '9')
            found[n++] = (struct found){strtoull(name->str, NULL, 10), value};
        else if (!strcmp(name->str, "head"))
            c->head = strdup(value->str);
    }
    if (good)
        qsort(found, n, sizeof *found, by_seq);
    for (size_t i = 0; good && i < n; i++)
        good = !unmask(found[i].text->str, found[i].text->len, c->id, found[i].seq, &c->messages);
    free(found);
    return good && c->head;
}

void steno_session_read_claim(struct steno_session_claim *c, const redisReply *r, size_t bytes)
{
    const char *word =
        r->type == REDIS_REPLY_ARRAY && r->elements && r->element[0]->type == REDIS_REPLY_STRING
            ? r->element[0]->str
            : "";
    if (!strcmp(word, "none"))
        c->result = STENO_CLAIM_NONE;
    else if (!strcmp(word, "closed"))
        c->result = STENO_CLAIM_CLOSED;
    else if (!strcmp(word, "yours"))
        c->result = STENO_CLAIM_YOURS;
    else if (!strcmp(word, "taken") && r->elements == 2 &&
             r->element[1]->type == REDIS_REPLY_ARRAY && read_fields(c, r->element[1], bytes))
        c->result = STENO_CLAIM_TAKEN;
    if (c->result != STENO_CLAIM_TAKEN) {
        free(c->head);
        c->head = NULL;
        steno_buf_free(&c->messages);
    }
}
