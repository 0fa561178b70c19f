/* Where a request carries its API key: in one of two headers, in a subprotocol of a WebSocket
 * handshake, or in the URL. Browsers cannot send headers with a WebSocket, so they use the last
 * two. No function here, and no caller, writes a secret into a log line or an answer. Pure. */
#ifndef STENO_SERVER_CORE_CREDENTIALS_H
#define STENO_SERVER_CORE_CREDENTIALS_H

#include <stdbool.h>

#include "server/core/keys.h"

/* Bytes of a secret as it was sent, with the NUL. A longer one is cut to one byte more than a key
 * can have, so that it matches no key. */
#define STENO_SECRET (STENO_KEY_MAX + 2)

/* The subprotocol by which browsers ask for OpenAI's beta schema. */
#define STENO_OPENAI_BETA "openai-beta.realtime-v1"

/* Any of the strings may be NULL or "". */
struct steno_credentials {
    const char *authorization; /* Authorization: "Bearer KEY" or "Token KEY" */
    const char *api_key;       /* X-API-Key */
    const char *protocols;     /* Sec-WebSocket-Protocol */
    const char *target;        /* path and query, undecoded */
};

/* Copy the secret of the first place that has one, in the order of the struct. False: no place has
 * one. */
bool steno_credentials_secret(const struct steno_credentials *c, char out[STENO_SECRET]);
/* Whether a parameter of the URL holds a key: api_key and token. */
bool steno_credentials_parameter(const char *name);
/* The subprotocol that answers a list which holds a key: "token" or "bearer" for "token, KEY" and
 * "bearer, KEY" (Deepgram), "openai-beta.realtime-v1" or "" for "openai-insecure-api-key.KEY".
 * NULL when the list holds no key. Never the key. Static. */
const char *steno_credentials_protocol(const char *protocols);

#endif
