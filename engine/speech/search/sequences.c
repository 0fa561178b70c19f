#include "speech/search/sequences.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"

#define NONE STENO_NO_SEQUENCE

void steno_sequences_free(struct steno_sequences *s)
{
    free(s->node);
    *s = (struct steno_sequences){0};
}

void steno_sequences_reset(struct steno_sequences *s)
{
    s->used = s->unused = 0;
}

steno_status steno_sequences_reserve(struct steno_sequences *s, size_t n)
{
    if (n > (size_t)(INT32_MAX - s->used))
        return STENO_ERR_NOMEM;
    return STENO_RESERVE(&s->node, &s->cap, (size_t)s->used + n);
}

int32_t steno_sequence_extend(struct steno_sequences *s, int32_t before,
                              const struct steno_span *token)
{
    const int32_t i = s->unused ? s->unused - 1 : s->used;
    const struct steno_sequence none = {.hash = STENO_HASH}; /* over tokens */
    struct steno_sequence up;
    if (!s->unused && steno_sequences_reserve(s, 1))
        return NONE;
    if (s->unused)
        s->unused = s->node[i].before;
    else
        s->used++;
    steno_sequence_keep(s, before);
    up = before == NONE ? none : s->node[before];
    s->node[i] = (struct steno_sequence){
        .span = *token,
        .hash = steno_hash_add(up.hash, (uint64_t)(uint32_t)token->token + 1),
        .before = before,
        .users = 1,
        .length = up.length + 1};
    return i;
}

void steno_sequence_keep(struct steno_sequences *s, int32_t i)
{
    if (i != NONE)
        s->node[i].users++;
}

void steno_sequence_drop(struct steno_sequences *s, int32_t i)
{
    while (i != NONE && !--s->node[i].users) {
        const int32_t before = s->node[i].before;
        s->node[i].before = s->unused;
        s->unused = i + 1;
        i = before;
    }
}

size_t steno_sequence_length(const struct steno_sequences *s, int32_t i)
{
    return i == NONE ? 0 : s->node[i].length;
}

bool steno_sequence_same(const struct steno_sequences *s, int32_t a, int32_t b)
{
    if (steno_sequence_length(s, a) != steno_sequence_length(s, b) ||
        (a != b && s->node[a].hash != s->node[b].hash))
        return false;
    for (; a != b; a = s->node[a].before, b = s->node[b].before)
        if (s->node[a].span.token != s->node[b].span.token)
            return false;
    return true;
}

int32_t steno_sequence_common(const struct steno_sequences *s, int32_t a, int32_t b)
{
    while (a != b) {
        int32_t *longer = steno_sequence_length(s, a) < steno_sequence_length(s, b) ? &b : &a;
        *longer = s->node[*longer].before;
    }
    return a;
}

size_t steno_sequence_tokens(const struct steno_sequences *s, int32_t i, int32_t *out, size_t most)
{
    const size_t length = steno_sequence_length(s, i), n = length < most ? length : most;
    for (size_t k = n; k > 0; i = s->node[i].before)
        out[--k] = s->node[i].span.token;
    return n;
}

void steno_sequence_spans(const struct steno_sequences *s, int32_t i, struct steno_span *out,
                          size_t n)
{
    for (; n > 0; i = s->node[i].before)
        out[--n] = s->node[i].span;
}
