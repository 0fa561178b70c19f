/* What the WebSocket dialects of live recognition have in common. A dialect turns a client's
 * messages into a few acts, and the recogniser's events into its own messages; the session
 * (server/live/ws_session.h) does the rest. Pure: no sockets, clocks, threads. Confined to the
 * session, which calls every function under its lock.
 *
 * The dialects: native, deepgram, flux, vosk, sherpa, realtime, wenet, twilio, asterisk,
 * freeswitch, any, wyoming. The path selects the dialect, `any` at / by the first message;
 * docs/dialects.md describes each. */
#ifndef STENO_PROTOCOL_DIALECT_H
#define STENO_PROTOCOL_DIALECT_H

#include "protocol/stream_native.h"

/* What a client's message asks for. */
enum steno_dialect_act {
    STENO_ACT_NOTHING,
    STENO_ACT_START,    /* settings are in d->asked; only before audio */
    STENO_ACT_SETTINGS, /* the same, but ignored after audio */
    STENO_ACT_AUDIO,    /* bytes are in d->audio */
    STENO_ACT_FINALIZE, /* close the segment */
    STENO_ACT_CHANGE,   /* d->start has changed: it holds from the next segment on */
    STENO_ACT_CLEAR,    /* discard audio that is in no final yet */
    STENO_ACT_END       /* no audio follows; what is in d->audio comes before the end */
};

#define STENO_DIALECT_BYTES_TEXT 4096

struct steno_dialect;

/* A model that the server offers, for dialects that list them. Strings are not NULL. */
struct steno_dialect_model {
    const char *name, *family, *version, *license;
    const char *languages; /* codes, "en de fr"; "" = not known before it is loaded */
};

/* A session as its dialect sees it. */
struct steno_dialect_session {
    const struct steno_dialect *dialect;
    char id[48];                              /* "sess_" and 32 hexadecimal digits */
    struct steno_native_start start;          /* settings in force */
    struct steno_native_start asked;          /* settings of an act */
    struct steno_hint_store hints;            /* of start */
    struct steno_hint_store asked_hints;      /* of asked, between ask and take */
    struct steno_buf audio;                   /* audio of an act */
    const char *model_version, *model_family; /* "" until the model is known */
    bool judges_turns; /* the server has a network for STENO_TURN_IF_THERE; with the model */
    const char *model_language; /* its only one; "" = it has several, or not known */
    const char
        *sha256; /* of all audio in hexadecimal digits, once a dialect that sums ends; or "" */
    unsigned channel, channels; /* of an event: from 0; their number with multichannel, else 0 */
    bool tells_speakers;        /* the server has networks that tell speakers apart */
    const struct steno_live_voices
        *voices;          /* of a final, while `event` is called; NULL: not told */
    unsigned mixed;       /* channels that became one, known with the first audio; 0 = none */
    char *warning;        /* of what was recognized; NULL: none */
    uint64_t seq;         /* messages made so far */
    int64_t audio_ms;     /* audio processed so far */
    double audio_seconds; /* accepted so far */
    double offset;        /* s: where times of events count from, after CHANGE and CLEAR, or
                           * in a session of another server */
    int64_t segments[STENO_AUDIO_MAX_CHANNELS]; /* finals of each channel before its stream */
    uint64_t finals;
    int64_t created;    /* s since 1970: when the session began */
    double retry_after; /* s, for an error: when to come back; 0 = unknown */
    /* Of telephone calls (telephony.h), in the dialect's state. */
    bool posted;          /* messages go to a URL, not to the connection */
    const char *callback; /* that URL; "" = the operator's */
    char *secret;         /* with late_key: the API key that came; "" = none */
    void *state;          /* [dialect->state_bytes], zero at first */
    /* Call see for each model of the server; stops at the first error and returns it. */
    steno_status (*each_model)(struct steno_dialect_session *d,
                               steno_status (*see)(void *user, const struct steno_dialect_model *m),
                               void *user);
    /* Check that the server can serve s, and write the name of its model into model
     * [STENO_NATIVE_MODEL_BYTES]. STENO_ERR_INVAL as of the start of a session; STENO_ERR_BUSY: the
     * model is being loaded. NULL: not known. */
    steno_status (*check)(struct steno_dialect_session *d, const struct steno_native_start *s,
                          char *model, steno_err *err);
    /* Output: write a message into begin's buffer, then commit it with the status of the writing.
     * replaceable: a later replaceable message may replace it while it is unread. */
    struct steno_buf *(*begin)(struct steno_dialect_session *d);
    void (*commit)(struct steno_dialect_session *d, steno_status st, bool replaceable);
    void *owner;
};

#define STENO_MIX_WARNING 96
#define STENO_WARNINGS 320
/* Write all that the client is to be told: of the next function, and d->warning. "": nothing.
 * Returns out. */
const char *steno_dialect_warnings(const struct steno_dialect_session *d, char out[STENO_WARNINGS]);
/* Write what a client is told whose n channels were mixed: words that are spoken at the same time
 * are lost. Empty for n of 0 and 1. Returns out. */
const char *steno_mix_warning(char out[STENO_MIX_WARNING], unsigned n);

struct steno_dialect {
    const char *name;        /* "stream", "deepgram": in metrics and logs */
    const char *subprotocol; /* the one a client may ask for; NULL = none */
    size_t state_bytes;
    size_t max_text;    /* bytes of one text message, beside what text_part takes out */
    bool waits;         /* its clients wait for a model that is being loaded */
    bool sums;          /* it wants d->sha256; all its binary messages are audio */
    bool diarizes;      /* its finals say who speaks */
    bool ends_by_close; /* no message ends a session: a client closes when no segment is open */
    bool late_key;      /* its clients can send an API key in a message alone: d->secret */
    /* Defaults beyond steno_native_start_init; may be NULL. */
    void (*init)(struct steno_dialect_session *d);
    void (*free_state)(struct steno_dialect_session *d); /* may be NULL */
    /* Apply one decoded parameter of the URL to d->start. NULL: there is no URL. */
    steno_status (*query)(struct steno_dialect_session *d, const char *name, const char *value,
                          steno_err *err);
    /* The connection is established; may be NULL. */
    void (*opened)(struct steno_dialect_session *d);
    /* Take a part of a text message whose audio is not to be kept: append what audio is in it to
     * d->audio, and everything else to rest, which `text` gets when the message is whole. NULL:
     * text messages carry no audio. */
    steno_status (*text_part)(struct steno_dialect_session *d, const char *p, size_t n,
                              struct steno_buf *rest, steno_err *err);
    /* Act on a whole text message, valid UTF-8. */
    steno_status (*text)(struct steno_dialect_session *d, const char *p, size_t n,
                         enum steno_dialect_act *act, steno_err *err);
    /* Of "/": the dialect that a first message, or its first part, is of. NULL: the dialect is
     * known. replay then applies the parameters in the old state to d, which has the new one. */
    const struct steno_dialect *(*choose)(const char *p, size_t n, bool is_text);
    steno_status (*replay)(struct steno_dialect_session *d, const struct steno_buf *old,
                           steno_err *err);
    /* Binary messages are not audio alone: of p [n > 0], *skip bytes are not, *take after them are,
     * and then *act follows. *skip + *take is 1 to n. May change d->start before the first audio.
     * NULL: all bytes are audio. */
    steno_status (*split)(struct steno_dialect_session *d, const char *p, size_t n, size_t *skip,
                          size_t *take, enum steno_dialect_act *act, steno_err *err);
    /* The first bytes of audio, before the format is fixed; may change d->start. May be NULL. */
    steno_status (*first_audio)(struct steno_dialect_session *d, const char *p, size_t n,
                                steno_err *err);
    /* True if a whole binary message is a command in bytes: it then goes to `text`. NULL: never.
     * Called only for messages of at most STENO_DIALECT_BYTES_TEXT bytes that begin with '{'. */
    bool (*binary_text)(const char *p, size_t n);
    /* A binary message of so many bytes has ended; may be NULL. */
    enum steno_dialect_act (*binary_end)(struct steno_dialect_session *d, uint64_t bytes);
    void (*ready)(struct steno_dialect_session *d); /* the format is fixed; may be NULL */
    /* The session continues on another connection. NULL: its sessions end with their connection. */
    void (*resumed)(struct steno_dialect_session *d, int64_t samples, bool ended);
    void (*event)(struct steno_dialect_session *d, const struct steno_event *ev);
    /* With start.progress: so many seconds of the session's audio are recognized. May be NULL. */
    void (*progress)(struct steno_dialect_session *d, double heard);
    /* Whether a segment is open, so that CHANGE must wait; NULL: never. */
    bool (*is_busy)(const struct steno_dialect_session *d);
    /* The connection is over, and nobody has asked to end the session whose messages are posted:
     * what follows. NULL: its messages are never posted. */
    enum steno_dialect_act (*hung_up)(struct steno_dialect_session *d);
    /* All results of a FINALIZE were delivered; may be NULL. */
    void (*finalized)(struct steno_dialect_session *d);
    /* Write the last message: an error, or the normal end. */
    void (*error)(struct steno_dialect_session *d, const char *code, const char *message);
    void (*end)(struct steno_dialect_session *d, bool draining);
    /* The dialect's own close code and reason for an error; may be NULL. */
    void (*close)(const char *code, int *close_code, const char **reason);
};

extern const struct steno_dialect steno_dialect_native;
extern const struct steno_dialect steno_dialect_deepgram;
extern const struct steno_dialect steno_dialect_flux; /* Deepgram's /v2/listen */
extern const struct steno_dialect steno_dialect_vosk;
extern const struct steno_dialect steno_dialect_sherpa;
extern const struct steno_dialect steno_dialect_realtime;
extern const struct steno_dialect steno_dialect_wenet;
extern const struct steno_dialect steno_dialect_twilio;
extern const struct steno_dialect steno_dialect_asterisk;
extern const struct steno_dialect steno_dialect_freeswitch;
extern const struct steno_dialect steno_dialect_any;
extern const struct steno_dialect steno_dialect_wyoming; /* of its own port, not a WebSocket's */

/* The dialect of a path (without its query); NULL when there is none. root: the dialect of "/",
 * NULL = none. */
const struct steno_dialect *steno_dialect_find(const char *path, size_t len,
                                               const struct steno_dialect *root);
/* The dialect of "/" by the name of the setting: "auto" (the first message tells), "vosk",
 * "sherpa", "wenet"; NULL for other names. */
const struct steno_dialect *steno_dialect_of_root(const char *name);

/* Whether binary p [n] begins with the header of sherpa-onnx's offline protocol: rate and number of
 * bytes, as int32, little-endian. As floats they would be denormal. */
bool steno_sherpa_is_header(const char *p, size_t n);

/* Begin a change of settings: d->asked becomes a copy of d->start with hints of its own. take puts
 * it into force; without it nothing has changed. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_dialect_ask(struct steno_dialect_session *d, steno_err *err);
void steno_dialect_take(struct steno_dialect_session *d);
/* Let s have the model of this name. One that the server does not have is the name of another
 * server's model: then s keeps the one that it has, which is the default if none was set. */
void steno_dialect_set_model(struct steno_dialect_session *d, struct steno_native_start *s,
                             const char *name);
/* The first members of a native message now. */
struct steno_native_head steno_dialect_head(const struct steno_dialect_session *d);
/* A session's id without its prefix "sess_". */
const char *steno_dialect_bare_id(const char *id);
/* Write a session's id in the form of a UUID. out: 37 bytes. */
void steno_dialect_uuid(const char *id, char *out);

/* For the tables of dialects without their own: all parameters are the native dialect's, but for
 * multichannel and resumable, which a dialect that resumes alone has; an error is {"error": code,
 * "message"}. */
steno_status steno_dialect_query(struct steno_dialect_session *d, const char *name,
                                 const char *value, steno_err *err);
void steno_dialect_error(struct steno_dialect_session *d, const char *code, const char *message);

#endif
