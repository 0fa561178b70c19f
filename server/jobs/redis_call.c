#include "server/jobs/redis_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD 3 /* words before the arguments: EVAL, the script, no keys */

void steno_redis_call_begin(struct steno_redis_call *c, const char *script)
{
    *c = (struct steno_redis_call){.script = script};
    steno_buf_init(&c->bytes, 64u << 20);
    steno_buf_init(&c->ends, 4u << 20);
}

void steno_redis_call_bytes(struct steno_redis_call *c, const void *p, size_t n)
{
    size_t end;
    c->failed |= n && steno_buf_add(&c->bytes, p, n);
    end = c->bytes.len;
    c->failed |= steno_buf_add(&c->ends, &end, sizeof end) != STENO_OK;
}

void steno_redis_call_text(struct steno_redis_call *c, const char *p)
{
    steno_redis_call_bytes(c, p, p ? strlen(p) : 0);
}

void steno_redis_call_int(struct steno_redis_call *c, int64_t v)
{
    char t[24];
    snprintf(t, sizeof t, "%lld", (long long)v);
    steno_redis_call_text(c, t);
}

bool steno_redis_call_words(struct steno_redis_call *c, struct steno_redis_words *out)
{
    const size_t n = c->ends.len / sizeof(size_t);
    size_t at = 0;
    c->v = calloc(n + HEAD, sizeof *c->v);
    c->len = calloc(n + HEAD, sizeof *c->len);
    if (c->failed || !c->v || !c->len)
        return false;
    c->v[0] = "EVAL";
    c->v[1] = c->script;
    c->v[2] = "0";
    for (size_t i = 0; i < HEAD; i++)
        c->len[i] = strlen(c->v[i]);
    for (size_t i = 0; i < n; i++) {
        size_t end;
        memcpy(&end, c->ends.data + i * sizeof end, sizeof end);
        c->v[i + HEAD] = c->bytes.data ? c->bytes.data + at : "";
        c->len[i + HEAD] = end - at;
        at = end;
    }
    *out = (struct steno_redis_words){(int)(n + HEAD), c->v, c->len};
    return true;
}

void steno_redis_call_free(struct steno_redis_call *c)
{
    steno_buf_free(&c->bytes);
    steno_buf_free(&c->ends);
    free(c->v);
    free(c->len);
}
