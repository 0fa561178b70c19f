/* What the dialects of telephone calls have in common (twilio.c, call_audio.c): what is known of a
 * call, the parameters that come with it, and the messages, which are the native dialect's
 * (stream_native.h) in an envelope. A call's messages are posted to a URL, because the other side
 * of its connection expects none: {"call":{...},"message":{...}}. FreeSWITCH without a URL gets
 * them on the connection: {"type":"transcription","data":{...}}. Pure. */
#ifndef STENO_PROTOCOL_TELEPHONY_H
#define STENO_PROTOCOL_TELEPHONY_H

#include "protocol/dialect.h"

#define STENO_CALL_NAME 128 /* bytes of an id with its NUL; longer ones are cut */
#define STENO_CALL_URL 2048
#define STENO_CALL_SECRET 512

/* The beginning of the state of these dialects. */
struct steno_call {
    char call_id[STENO_CALL_NAME], stream_id[STENO_CALL_NAME];
    char callback[STENO_CALL_URL];  /* "" = none was named */
    char secret[STENO_CALL_SECRET]; /* an API key that came in a message; "" = none */
    unsigned tracks;                /* of Twilio, each of which is a channel; 0 = not told */
    bool outbound;                  /* the only track is the outbound one */
    struct steno_buf parameters;    /* the client's own: members of a JSON object */
};

void steno_call_init(struct steno_dialect_session *d);
void steno_call_free(struct steno_dialect_session *d);
/* Apply a parameter of the URL to d->start. */
steno_status steno_call_query(struct steno_dialect_session *d, const char *name, const char *value,
                              steno_err *err);
/* Apply a parameter that came in a message: callback, call_id, token and api_key, a setting of
 * `start`, or else one of the client's own, which messages repeat. io: where settings go.
 * fixed_format: names of the audio's format are the client's own too. Errors of
 * steno_native_query; STENO_ERR_LIMIT: too many. */
STENO_MUST steno_status steno_call_parameter(struct steno_dialect_session *d,
                                             struct steno_native_start *io, bool fixed_format,
                                             const char *name, const char *value, steno_err *err);
/* Keep what a client says of the call as a parameter of its own: as text, or JSON [n] as it is. Of
 * two with one name the first counts. STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_call_keep_text(struct steno_call *c, const char *name,
                                             const char *value, steno_err *err);
STENO_MUST steno_status steno_call_keep(struct steno_call *c, const char *name, const char *json,
                                        size_t n, steno_err *err);
/* A key of the telephone was pressed. */
void steno_call_digit(struct steno_dialect_session *d, const char *digit);
void steno_call_ready(struct steno_dialect_session *d);
void steno_call_event(struct steno_dialect_session *d, const struct steno_event *ev);
void steno_call_error(struct steno_dialect_session *d, const char *code, const char *message);
void steno_call_end(struct steno_dialect_session *d, bool draining);

#endif
