/* The native WebSocket dialect of GET /v1/stream, "steno.v1": text messages <-> plain structs.
 * What each message means is written in docs/protocol.md; asyncapi.yaml holds the schemas. Pure: no
 * sockets, clocks or threads; numbers on the wire have a point whatever the locale (the daemon
 * stays in the "C" locale). */
#ifndef STENO_PROTOCOL_STREAM_NATIVE_H
#define STENO_PROTOCOL_STREAM_NATIVE_H

#include "base/buf.h"
#include "protocol/options.h"
#include "protocol/vad.h"
#include "steno.h"
#include "steno_audio.h"

#define STENO_NATIVE_PROTOCOL "steno.v1"
#define STENO_NATIVE_MAX_TEXT 16384 /* bytes of one client text message */
#define STENO_NATIVE_MAX_DEPTH 16   /* of nested JSON objects and arrays */
#define STENO_NATIVE_MAX_ALTERNATIVES 10
#define STENO_NATIVE_MODEL_BYTES 64

enum steno_native_type {
    STENO_NATIVE_START,
    STENO_NATIVE_FINALIZE,
    STENO_NATIVE_END,
    STENO_NATIVE_KEEPALIVE
};

/* What a client may ask for, by `start` or in the query string. */
struct steno_native_start {
    char model[STENO_NATIVE_MODEL_BYTES]; /* "" = the server's first */
    struct steno_audio_format audio;
    bool interim;     /* partials wanted */
    bool words;       /* word lists in partials and finals */
    bool endpointing; /* false: finals only by finalize and end */
    enum steno_vad_choice vad;
    bool resumable;        /* the session outlives its connection for a while */
    double resume_seconds; /* how long: the server's word, 0 = not at all */
    int alternatives;      /* in finals, 1..STENO_NATIVE_MAX_ALTERNATIVES */
    int beam;              /* 0 = the model's own; else 1..STENO_MAX_BEAM, raised to alternatives */
    struct steno_endpoint_rules endpoint; /* s; 0 = the model's own */
    /* Of the model's family; what is not set is the server's. From `ready` on those of models are
     * what holds. */
    struct steno_options options;
};

/* s16le at 16 kHz, mono, partials, words, endpoints, one alternative. */
void steno_native_start_init(struct steno_native_start *s);

struct steno_native_message {
    enum steno_native_type type;
    struct steno_native_start start; /* of STENO_NATIVE_START */
};

/* text: [n] bytes, need not be terminated. defaults: what a `start` that leaves a field out means.
 * STENO_ERR_LIMIT: too long or too deeply nested; STENO_ERR_FORMAT: not JSON, no object (line and
 * column named); STENO_ERR_INVAL: unknown type or field, wrong type or range (field named);
 * STENO_ERR_UNSUPPORTED: unknown encoding. */
STENO_MUST steno_status steno_native_parse(const char *text, size_t n,
                                           const struct steno_native_start *defaults,
                                           struct steno_native_message *out, steno_err *err);
/* One decoded parameter of the query string: the names and values of `start` ("true", "1", "false",
 * "0" for booleans). Same errors; an unknown name is STENO_ERR_INVAL. */
STENO_MUST steno_status steno_native_query(const char *name, const char *value,
                                           struct steno_native_start *io, steno_err *err);

/* Whether it is `beam` or an option of a model family: what other dialects' queries take as well,
 * being no name of theirs. */
bool steno_native_is_option(const char *name);

/* Fill in what follows from the rest (the encoding's own rate, a beam wide enough) and check the
 * fields against each other; parse does it for a `start`. */
STENO_MUST steno_status steno_native_start_complete(struct steno_native_start *s, steno_err *err);

/* What a client asks for that comes back to a session: the query
 * `session_id=...&seq=...&sample=...` of a new handshake. */
struct steno_native_resume {
    char session_id[48]; /* "" = none is asked for */
    uint64_t next;       /* seq of the first message that it has not seen: seq + 1, 0 without seq */
    int64_t sample;      /* from which it sends its audio; -1 = from the one that `resumed` names */
};
void steno_native_resume_init(struct steno_native_resume *r);
/* One decoded parameter. STENO_ERR_INVAL: not one of these, or no number. */
STENO_MUST steno_status steno_native_resume_query(const char *name, const char *value,
                                                  struct steno_native_resume *io, steno_err *err);

/* First members of every server message. */
struct steno_native_head {
    const char *session_id;
    uint64_t seq;     /* counts the session's messages from 0 */
    int64_t audio_ms; /* audio processed so far */
};

/* Each appends one JSON object to out; STENO_ERR_LIMIT or STENO_ERR_NOMEM from the buffer. */
STENO_MUST steno_status steno_native_write_ready(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const struct steno_native_start *s);
/* The session goes on, on another connection. samples: taken in so far, the next one is due; ended:
 * the client's `end` has come, or the session is over for another reason. */
STENO_MUST steno_status steno_native_write_resumed(struct steno_buf *out,
                                                   const struct steno_native_head *h,
                                                   int64_t samples, bool ended);
/* speech_start, partial or final, with what `s` asked for. */
STENO_MUST steno_status steno_native_write_event(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const struct steno_native_start *s,
                                                 const struct steno_event *ev);
/* code: stable name, steno_status_info()->name or one of docs/protocol.md. retry_after: s until the
 * client should come back, told in whole ones; 0 = not told. */
STENO_MUST steno_status steno_native_write_error(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const char *code, const char *message,
                                                 double retry_after);
/* reason: "end" or "draining"; finals: how many the session had. */
STENO_MUST steno_status steno_native_write_end(struct steno_buf *out,
                                               const struct steno_native_head *h,
                                               const char *reason, uint64_t finals);

#endif
