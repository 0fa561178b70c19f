#include "server/live/handshake.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 6455, 4.2.2: hashed with the client's key */
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_CHARS 24 /* 16 bytes in base64 (4.2.1) */

static char *trim(char *s)
{
    char *end;
    s += strspn(s, " \t");
    end = s + strlen(s);
    while (end > s && strchr(" \t\r", end[-1]))
        *--end = '\0';
    return s;
}

static void take_header(struct steno_handshake *h, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **at;
        bool last;
    } wanted[] = {{"Sec-WebSocket-Key", &h->key, false},
                  {"Sec-WebSocket-Version", &h->version, false},
                  {"Sec-WebSocket-Protocol", &h->protocols, false},
                  {"Authorization", &h->authorization, false},
                  {"X-API-Key", &h->api_key, false},
                  {"api-key", &h->api_key, false}, /* Azure's */
                  {"X-Request-Id", &h->request_id, false},
                  {"OpenAI-Beta", &h->beta, false},
                  {"Origin", &h->origin, false},
                  {"Host", &h->host, false},
                  {"Sec-Fetch-Site", &h->fetch_site, false},
                  {"traceparent", &h->traceparent, false},
                  {"X-Forwarded-For", &h->forwarded_for, true},
                  {"X-Forwarded-Prefix", &h->forwarded_prefix, true},
                  {"X-Forwarded-Host", &h->forwarded_host, true}};
    for (size_t i = 0; i < 4 && !strcasecmp(name, "tracestate"); i++)
        if (!*h->tracestate[i]) {
            h->tracestate[i] = value;
            break;
        }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strcasecmp(name, wanted[i].name) && (wanted[i].last || !**wanted[i].at))
            *wanted[i].at = value;
}

steno_status steno_handshake_parse(struct steno_handshake *h, const char *head, size_t len,
                                   steno_err *err)
{
    char *line, *next, *end;
    memset(h, 0, sizeof *h);
    if (memchr(head, '\0', len))
        return steno_fail(err, STENO_ERR_FORMAT, "the request head holds a NUL byte");
    h->memory = malloc(len + 1);
    if (!h->memory)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    memcpy(h->memory, head, len);
    h->memory[len] = '\0';
    h->key = h->version = h->protocols = h->authorization = h->api_key = h->request_id = h->beta =
        h->origin = h->host = h->fetch_site = h->traceparent = h->forwarded_for =
            h->forwarded_prefix = h->forwarded_host = h->memory + len;
    for (size_t i = 0; i < 4; i++)
        h->tracestate[i] = h->memory + len;
    line = h->memory;
    next = strchr(line, '\n');
    h->target = strchr(line, ' ');
    end = h->target ? strchr(h->target + 1, ' ') : NULL;
    if (!next || !end || end > next) {
        steno_handshake_free(h);
        return steno_fail(err, STENO_ERR_FORMAT, "the request line is damaged");
    }
    h->target++;
    *end = '\0';
    for (line = next + 1; (next = strchr(line, '\n')); line = next + 1) {
        char *colon;
        *next = '\0';
        colon = strchr(line, ':');
        if (!colon)
            continue;
        *colon = '\0';
        take_header(h, line, trim(colon + 1));
    }
    return STENO_OK;
}

void steno_handshake_free(struct steno_handshake *h)
{
    free(h->memory);
    free(h->model);
    h->memory = h->model = NULL;
}

const char *steno_handshake_check(const struct steno_handshake *h, int *status)
{
    *status = 426;
    if (strcmp(h->version, "13"))
        return "Sec-WebSocket-Version must be 13 (RFC 6455)";
    *status = 400;
    return strlen(h->key) == KEY_CHARS ? NULL : "Sec-WebSocket-Key must be 24 characters";
}

steno_status steno_handshake_accept(const struct steno_handshake *h, const char *protocol,
                                    const char *extra, struct steno_buf *out)
{
    char text[KEY_CHARS + sizeof GUID], accept[64];
    unsigned char hash[20];
    int n = snprintf(text, sizeof text, "%.24s%s", h->key, GUID);
    lws_SHA1((unsigned char *)text, (size_t)n, hash);
    lws_b64_encode_string((const char *)hash, sizeof hash, accept, sizeof accept);
    return steno_buf_printf(out,
                            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s%s%s%s\r\n",
                            accept, *protocol ? "Sec-WebSocket-Protocol: " : "", protocol,
                            *protocol ? "\r\n" : "", extra);
}
