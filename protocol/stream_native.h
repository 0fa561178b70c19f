/* The native WebSocket dialect of GET /v1/stream, "steno.v1": text messages to and from plain
 * structs. docs/protocol.md describes the messages; asyncapi.yaml has the schemas. Pure: no
 * sockets, clocks or threads. Numbers in messages always have a decimal point, because the daemon
 * stays in the "C" locale. */
#ifndef STENO_PROTOCOL_STREAM_NATIVE_H
#define STENO_PROTOCOL_STREAM_NATIVE_H

#include "base/buf.h"
#include "protocol/hints.h"
#include "protocol/options.h"
#include "protocol/vad.h"
#include "protocol/turn_choice.h"
#include "protocol/voices.h"
#include "protocol/word_times.h"
#include "steno.h"
#include "steno_audio.h"

#define STENO_NATIVE_PROTOCOL "steno.v1"
#define STENO_NATIVE_MAX_TEXT 16384 /* bytes of one client text message */
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
    char model[STENO_NATIVE_MODEL_BYTES]; /* "" = the server's default */
    struct steno_audio_format audio;
    bool interim;     /* partials wanted */
    bool no_tail;     /* only what needs no work of its own; not a field of `start` */
    bool words;       /* word lists in partials and finals */
    bool aligned;     /* finals have times of the model of align.model; else end has a warning */
    bool endpointing; /* false: finals only by finalize and end */
    enum steno_vad_choice vad;
    bool multichannel;     /* each channel has its own transcript; audio.channel is 0 */
    bool diarize;          /* finals say who says what */
    int max_speakers;      /* of them; 0 = not known */
    bool resumable;        /* the session outlives its connection for a while */
    double resume_seconds; /* how long, as the server says; 0 = not at all */
    int alternatives;      /* in finals, 1..STENO_NATIVE_MAX_ALTERNATIVES */
    int beam;              /* 0 = the model's own; else 1..STENO_MAX_BEAM, at least alternatives */
    struct steno_endpoint_rules endpoint; /* s; 0 = the model's own */
    struct steno_turn_choice turn;        /* its wait is not a field of `start` */
    double utterance_end; /* s, as in struct steno_stream_options; not a field of `start` */
    bool needs_hotwords;  /* a model that takes none is an error in all dialects; not of `start` */
    bool progress;        /* the dialect's `progress` is to be called; not a field of `start` */
    /* Options of the model's family; those not set are the server's. From `ready` on, those of
     * models have the values in force. */
    struct steno_options options;
    /* Where hints go, the session's; NULL: they are unknown fields. */
    struct steno_hint_store *hints;
};

/* Set the defaults: s16le at 16 kHz, mono, partials, words, endpoints, one alternative. */
void steno_native_start_init(struct steno_native_start *s);

struct steno_native_message {
    enum steno_native_type type;
    struct steno_native_start start; /* of STENO_NATIVE_START */
};

/* Parse text [n], which need not be NUL-terminated. defaults: values of the fields that a `start`
 * leaves out. STENO_ERR_LIMIT: too long or too deeply nested; STENO_ERR_FORMAT: not JSON, or not an
 * object (line and column named); STENO_ERR_INVAL: unknown type or field, wrong type or range
 * (field named); STENO_ERR_UNSUPPORTED: unknown encoding. */
STENO_MUST steno_status steno_native_parse(const char *text, size_t n,
                                           const struct steno_native_start *defaults,
                                           struct steno_native_message *out, steno_err *err);
/* Apply one decoded parameter of the query string. Names and values are those of `start` ("true",
 * "1", "false", "0" for booleans). Same errors; an unknown name is STENO_ERR_INVAL. */
STENO_MUST steno_status steno_native_query(const char *name, const char *value,
                                           struct steno_native_start *io, steno_err *err);

/* Whether the name is `beam`, an option of a model family, or a hint other than the language, which
 * other dialects have themselves. The queries of other dialects accept these too, because no name
 * of theirs equals one. */
bool steno_native_is_option(const char *name);

/* Whether steno_native_query knows the name. */
bool steno_native_is_setting(const char *name);

/* Append every setting in force that is not the default of steno_native_start_init, hints included,
 * as "&NAME=VALUE", percent-encoded, so that steno_native_query of each makes the same settings.
 * resume_seconds, utterance_end and the two after it are left out. */
STENO_MUST steno_status steno_native_write_query(struct steno_buf *out,
                                                 const struct steno_native_start *s);

/* Fill in what follows from other fields (the encoding's own rate, a beam that is wide enough) and
 * check the fields against each other. parse does this for a `start`. */
STENO_MUST steno_status steno_native_start_complete(struct steno_native_start *s, steno_err *err);

/* What a client that comes back to a session asks for: the query
 * `session_id=...&seq=...&sample=...` of a new handshake. */
struct steno_native_resume {
    char session_id[48]; /* "" = no session is asked for */
    uint64_t next;       /* seq of the first unseen message: seq + 1, 0 without seq */
    int64_t sample;      /* first one it will send; -1 = the one that `resumed` names */
};
void steno_native_resume_init(struct steno_native_resume *r);
/* Apply one decoded parameter. STENO_ERR_INVAL: an unknown name, or not a number. */
STENO_MUST steno_status steno_native_resume_query(const char *name, const char *value,
                                                  struct steno_native_resume *io, steno_err *err);

/* First members of every server message. */
struct steno_native_head {
    const char *session_id;
    uint64_t seq;                           /* counts the session's messages from 0 */
    int64_t audio_ms;                       /* audio processed so far */
    unsigned channel;                       /* of an event, from 1; 0 = not told */
    double offset;                          /* s: where times of events count from */
    int64_t segment;                        /* where their segments count from */
    const struct steno_live_voices *voices; /* of a final; NULL: not told */
};

/* Append one JSON object to out, also the functions below. STENO_ERR_LIMIT or STENO_ERR_NOMEM from
 * the buffer. */
STENO_MUST steno_status steno_native_write_ready(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const struct steno_native_start *s);
/* The session continues on another connection. samples: accepted so far; the next one is due.
 * ended: the client's `end` has come, or the session is over for another reason. */
STENO_MUST steno_status steno_native_write_resumed(struct steno_buf *out,
                                                   const struct steno_native_head *h,
                                                   int64_t samples, bool ended);
/* Append speech_start, partial or final, with what `s` asked for. */
STENO_MUST steno_status steno_native_write_event(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const struct steno_native_start *s,
                                                 const struct steno_event *ev);
/* Append a key of a telephone that was pressed: "0" to "9", "*", "#", "A" to "D". */
STENO_MUST steno_status steno_native_write_digit(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const char *digit);
/* Append an error. code: its stable name, steno_status_info()->name or one of docs/protocol.md.
 * retry_after: s until the client should come back, written in whole seconds; 0 = left out. */
STENO_MUST steno_status steno_native_write_error(struct steno_buf *out,
                                                 const struct steno_native_head *h,
                                                 const char *code, const char *message,
                                                 double retry_after);
/* Append the end. reason: "end" or "draining"; finals: their number in the session; warning: about
 * the audio, or "". */
STENO_MUST steno_status steno_native_write_end(struct steno_buf *out,
                                               const struct steno_native_head *h,
                                               const char *reason, uint64_t finals,
                                               const char *warning);

#endif
