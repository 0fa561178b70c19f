/* link: server/port/head.c server/port/address.c server/live/handshake.c server/port/origin.c */
/* link: server/core/credentials.c server/core/keys.c server/port/retry_spreader.c */
/* link: server/core/word_list.c */
/* covers: server/port/head.c server/port/address.c server/live/handshake.c */
/* covers: server/core/credentials.c */
/* covers: server/port/origin.c */
#include "base/list.h"
#include "server/core/credentials.h"
#include "server/live/handshake.h"
#include "server/port/address.h"
#include "server/port/head.h"
#include "server/port/origin.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A list of addresses. Each must be the same host as its printed form. */
static void addresses(const uint8_t *data, size_t size)
{
    struct steno_address list[STENO_MAX_ADDRESSES], again;
    char text[STENO_ADDRESS_TEXT];
    size_t n = 0;
    char *copy = malloc(size + 1);
    if (!copy)
        return;
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    if (!steno_address_parse_list(copy, list, &n, NULL) && (n < 1 || n > STENO_MAX_ADDRESSES))
        abort();
    for (size_t i = 0; i < n; i++) {
        steno_address_print(&list[i].addr, text);
        if (steno_address_parse(text, strlen(text), &again, NULL) ||
            !steno_address_same_host(&list[i].addr, &again.addr))
            abort();
    }
    free(copy);
}

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* The origin of a head, of which any part may have come: the lines that answer it are whole, and
 * there are two more where it is allowed. */
static void origin(const char *text, size_t size)
{
    static const char *const lists[] = {"", "*", "https://a.example, http://b:3000"};
    char out[STENO_ORIGIN_LINES];
    size_t len = 0;
    const char *value = steno_request_head_value(text, size, "Origin", &len);
    require(!value || (value >= text && value + len <= text + size));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t lines = 0;
        steno_origin_lines(lists[i], value, len, out);
        for (const char *p = out; *p; p++) {
            require(*p != '\n' || (p > out && p[-1] == '\r'));
            lines += *p == '\n';
        }
        require(lines == 0 || lines == 1 || lines == 3);
        require(!*out || out[strlen(out) - 1] == '\n');
        require((lines > 0) == (*lists[i] != '\0'));
    }
}

/* The headers of a WebSocket handshake, and our answer: a complete head without unintended
 * lines. No header value is in it except as a hash. */
static void handshake(const char *text, size_t size)
{
    struct steno_handshake h;
    struct steno_buf out;
    char secret[STENO_SECRET];
    int status = 0;
    steno_err err = {STENO_OK, ""};
    if (steno_handshake_parse(&h, text, size, &err)) {
        require(err.msg[0] && !h.memory);
        return;
    }
    const char *const said[] = {h.target,        h.key,     h.version,    h.protocols,
                                h.authorization, h.api_key, h.request_id, h.beta};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        require(said[i] >= h.memory && said[i] + strlen(said[i]) <= h.memory + size &&
                !strchr(said[i], '\n'));
    (void)steno_list_holds(h.protocols, "realtime");
    if (steno_credentials_secret(&(struct steno_credentials){.protocols = h.protocols}, secret))
        require(*secret && strlen(secret) < sizeof secret && !strpbrk(secret, ", "));
    else
        require(!steno_credentials_protocol(h.protocols));
    if (steno_handshake_check(&h, &status)) {
        require(status == 426 || status == 400);
    } else {
        steno_buf_init(&out, 4096);
        require(!steno_handshake_accept(&h, "realtime", "", &out));
        require(steno_request_head_length(out.data, out.len) == out.len);
        steno_buf_free(&out);
    }
    steno_handshake_free(&h);
}

/* What the acceptor reads of an unknown client: the head; and the addresses in settings. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_request_head h;
    struct steno_address a;
    steno_err err = {STENO_OK, ""};
    const char *text = (const char *)data;
    if (steno_request_head_length(text, size) > size)
        abort();
    if (steno_request_head_parse(text, size, &h) &&
        (h.path < text || h.path + h.path_len > text + size))
        abort();
    if (size)
        (void)steno_request_head_framing(text, size);
    if (steno_address_parse(text, size, &a, &err) && !err.msg[0])
        abort();
    addresses(data, size);
    origin(text, size);
    if (size)
        handshake(text, size);
    return 0;
}
