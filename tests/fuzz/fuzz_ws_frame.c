/* WebSocket framing: any bytes, in two different splits, give the same messages and the same
 * error. No piece is longer than the input, no message longer than its limit, and text is UTF-8. */
/* covers: protocol/ws_frame.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ws_frame.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct sum { /* over all messages, the same for every split */
    uint64_t hash, messages, controls;
    steno_status status;
};

static void mix(struct sum *s, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ ((const unsigned char *)p)[i]) * UINT64_C(1099511628211);
}

static void take(struct sum *s, const struct steno_ws_item *it, uint64_t *length)
{
    bool text = it->kind == STENO_WS_TEXT;
    if (it->kind >= STENO_WS_CLOSE) {
        REQUIRE(it->n <= STENO_WS_CONTROL_BYTES);
        s->controls += (uint64_t)it->kind * 31 + it->n + (uint64_t)it->close_code;
        return;
    }
    *length = (it->first ? 0 : *length) + it->n;
    REQUIRE(*length <= (text ? 100U : 1000U));
    if (it->n)
        mix(s, it->data, it->n);
    if (it->last) {
        s->messages++;
        mix(s, text ? "T" : "B", 1);
    }
}

static struct sum run(const uint8_t *data, size_t n, size_t cut)
{
    struct sum s = {.hash = 1};
    struct steno_ws_reader r;
    uint64_t length = 0;
    steno_err err;
    steno_ws_reader_init(&r, 100, 1000);
    for (size_t at = 0; at < n && !s.status; at += cut) {
        size_t k = n - at < cut ? n - at : cut, done = 0;
        char *piece = malloc(k);
        if (!piece)
            abort();
        memcpy(piece, data + at, k);
        while (done < k && !s.status) {
            struct steno_ws_item it;
            size_t used = 0;
            steno_status st = steno_ws_reader_next(&r, piece + done, k - done, &used, &it, &err);
            REQUIRE(used <= k - done && (used || st != STENO_OK || st));
            done += used;
            if (st == STENO_OK)
                take(&s, &it, &length);
            else if (st != STENO_NEED_MORE)
                s.status = st;
            else
                REQUIRE(done == k);
        }
        free(piece);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sum whole = run(data, n, n ? n : 1), bytes = run(data, n, 1), threes = run(data, n, 3);
    REQUIRE(whole.status == bytes.status && whole.status == threes.status);
    REQUIRE(whole.messages == bytes.messages && whole.messages == threes.messages);
    REQUIRE(whole.controls == bytes.controls && whole.controls == threes.controls);
    if (!whole.status) { /* an error may occur in the middle of a piece */
        REQUIRE(whole.hash == bytes.hash && whole.hash == threes.hash);
    }
    return 0;
}
