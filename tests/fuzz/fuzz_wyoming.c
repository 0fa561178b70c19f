/* Wyoming framing: any bytes, in different splits, give the same events and payloads and the same
 * error. Events are JSON objects with a type; nothing is longer than its limit. */
/* covers: protocol/wyoming_frame.c */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wyoming_frame.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_TEXT 200
#define MAX_PAYLOAD 1000

struct sum { /* over all items, the same for every split */
    uint64_t hash, events, payloads;
    steno_status status;
};

static void mix(struct sum *s, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ ((const unsigned char *)p)[i]) * UINT64_C(1099511628211);
}

static void take(struct sum *s, const struct steno_wyoming_item *it, uint64_t *length)
{
    if (it->is_event) {
        json_t *event = json_loadb(it->data, it->n, 0, NULL);
        REQUIRE(json_string_length(json_object_get(event, "type")));
        REQUIRE(json_is_object(json_object_get(event, "data")));
        json_decref(event);
        s->events++;
    } else {
        *length = (it->first ? 0 : *length) + it->n;
        REQUIRE(it->n && *length <= MAX_PAYLOAD);
        s->payloads += it->last;
    }
    mix(s, it->data, it->n);
}

static struct sum run(const uint8_t *data, size_t n, size_t cut)
{
    struct sum s = {.hash = 1};
    struct steno_wyoming_reader r;
    uint64_t length = 0;
    steno_err err;
    steno_wyoming_reader_init(&r, MAX_TEXT, MAX_PAYLOAD);
    for (size_t at = 0; at < n && !s.status; at += cut) {
        size_t k = n - at < cut ? n - at : cut, done = 0;
        char *piece = malloc(k);
        if (!piece)
            abort();
        memcpy(piece, data + at, k);
        while (!s.status) {
            struct steno_wyoming_item it;
            size_t used = 0;
            steno_status st =
                steno_wyoming_reader_next(&r, piece + done, k - done, &used, &it, &err);
            REQUIRE(used <= k - done);
            done += used;
            if (!st)
                take(&s, &it, &length);
            else if (st != STENO_NEED_MORE)
                s.status = st;
            else
                break;
        }
        REQUIRE(s.status || done == k);
        free(piece);
    }
    steno_wyoming_reader_free(&r);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sum whole = run(data, n, n ? n : 1), bytes = run(data, n, 1), threes = run(data, n, 3);
    REQUIRE(whole.status == bytes.status && whole.status == threes.status);
    REQUIRE(whole.events == bytes.events && whole.events == threes.events);
    REQUIRE(whole.payloads == bytes.payloads && whole.payloads == threes.payloads);
    REQUIRE(whole.hash == bytes.hash && whole.hash == threes.hash);
    return 0;
}
