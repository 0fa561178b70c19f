/* API keys and what each may use. A request names its key by `Authorization: Bearer KEY` (or `Token
 * KEY`, as Deepgram's clients do), `X-API-Key: KEY`, or, from browsers, whose WebSockets cannot
 * send headers, `Sec-WebSocket-Protocol: token, KEY` or the query parameter api_key.
 *
 * The file, of the form of steno.conf: one section per key, named as logs and metrics shall call
 * it. [call-centre] key = a secret of at least 16 characters sessions = 20             streams and
 * uploads at once audio_per_minute = 1800s  of audio requests_per_minute = 600 0, the default, is
 * no limit. Without a file everybody may use everything.
 *
 * Rates are token buckets that hold a minute's worth (a burst of it is possible at once, on the
 * average it is held). Time comes in as an argument. Locked: one mutex; keys are never forgotten
 * while the process runs, so that a session can give back what it took after a reload. */
#ifndef STENO_SERVER_KEYS_H
#define STENO_SERVER_KEYS_H

#include "base/status.h"

typedef struct steno_keys steno_keys;
typedef struct steno_key steno_key;

#define STENO_KEY_MIN 16 /* characters of a key */
#define STENO_KEY_MAX 256
#define STENO_KEY_NAME 48 /* bytes of a name with its NUL */
#define STENO_KEYS_MAX 10000

/* path NULL or "": no keys are asked for. Errors as of steno_config_read_file. */
STENO_MUST steno_status steno_keys_open(steno_keys **out, const char *path, steno_err *err);
void steno_keys_close(steno_keys *k); /* accepts NULL */
/* Read the file again. On an error the old keys stay as they are. */
STENO_MUST steno_status steno_keys_reload(steno_keys *k, const char *path, steno_err *err);
/* The same from memory; name stands for the file in messages. */
STENO_MUST steno_status steno_keys_read_text(steno_keys *k, const char *name, const char *text,
                                             size_t len, steno_err *err);

/* What a request brought as its key; NULL when it brought none. Compared in a time that does not
 * depend on how much of it is right. *out is NULL when no keys are asked for.
 * STENO_ERR_INVAL: missing or unknown, to be answered 401. */
STENO_MUST steno_status steno_keys_find(steno_keys *k, const char *secret, steno_key **out,
                                        steno_err *err);
/* The secret in an Authorization header ("Bearer KEY", "Token KEY"); NULL when it is none. */
const char *steno_key_of_authorization(const char *value);

/* Each takes key NULL: everything is allowed, nothing counted. */
const char *steno_key_name(const steno_key *key); /* "" for NULL */
/* A stable number per key for fair turns; 0 for NULL. */
uint64_t steno_key_owner(const steno_key *key);
/* One more session and request. STENO_ERR_BUSY, to be answered 429, with *retry_after in s: when
 * there is something to be had again, or later where many of this key are told to come then
 * (retry_spreader.h). */
STENO_MUST steno_status steno_key_enter(steno_keys *k, steno_key *key, int64_t now_ns,
                                        double *retry_after, steno_err *err);
void steno_key_leave(steno_keys *k, steno_key *key);
/* So much audio came. STENO_ERR_BUSY when the key has used up its share: the session must end, with
 * *retry_after as above (may be NULL). */
STENO_MUST steno_status steno_key_audio(steno_keys *k, steno_key *key, int64_t now_ns,
                                        double seconds, double *retry_after, steno_err *err);

struct steno_key_use {
    const char *name;
    int sessions;
    uint64_t requests, refused;
    double audio_seconds;
};
/* Of key i in the order of the file; false past the last. */
bool steno_keys_use(steno_keys *k, size_t i, struct steno_key_use *out);

#endif
