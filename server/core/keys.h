/* API keys and what each may use. A request carries its key as `Authorization: Bearer KEY` (or
 * `Token KEY`, as Deepgram's clients do) or in one of the other places of credentials.h.
 *
 * The file has the form of steno.conf. Each key has a section, whose name appears in logs and
 * metrics:
 *
 *     [call-centre]
 *     key = a secret of at least 16 characters
 *     sessions = 20               streams and uploads at once
 *     audio_per_minute = 1800s    of audio
 *     requests_per_minute = 600
 *     vocabulary = FILE           words that are likely in its recordings
 *
 * 0, the default, means no limit. Without a file everybody may use everything.
 *
 * Rates are token buckets that hold the amount of one minute: a burst of that size is possible at
 * once, and the average rate holds. The caller passes the time. Locked: one mutex. Keys stay in
 * memory while the process runs, so that after a reload a session can still give back what it took.
 */
#ifndef STENO_SERVER_CORE_KEYS_H
#define STENO_SERVER_CORE_KEYS_H

#include "base/buf.h"

typedef struct steno_keys steno_keys;
typedef struct steno_key steno_key;

#define STENO_KEY_MIN 16 /* characters of a key */
#define STENO_KEY_MAX 256
#define STENO_KEY_NAME 48 /* bytes of a name with its NUL */
#define STENO_KEYS_MAX 10000

/* Read the file, and those of vocabularies that it names. path NULL or "": no key is required.
 * Errors as of steno_config_read_file and steno_word_list_read. */
STENO_MUST steno_status steno_keys_open(steno_keys **out, const char *path, steno_err *err);
void steno_keys_close(steno_keys *k); /* accepts NULL */
/* Read the file again. On an error the old keys stay in force. */
STENO_MUST steno_status steno_keys_reload(steno_keys *k, const char *path, steno_err *err);
/* Read the same from memory, without files that it names. Messages use name as the file's name. */
STENO_MUST steno_status steno_keys_read_text(steno_keys *k, const char *name, const char *text,
                                             size_t len, steno_err *err);

/* Read the file of words that are likely in the recordings of all keys, and of a server without
 * keys; "": there is none. On an error the old words stay. Errors of steno_word_list_read. */
STENO_MUST steno_status steno_keys_read_vocabulary(steno_keys *k, const char *path, steno_err *err);
/* Copy the words that are likely in a key's recordings, its own before those of all. *out is
 * malloc'd, or NULL: there are none. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_keys_vocabulary(steno_keys *k, const steno_key *key, char **out,
                                              steno_err *err);

bool steno_keys_required(steno_keys *k);
/* Find the key of a request's secret (NULL: it had none). The time of the comparison does not
 * depend on how much of the secret is right. *out is NULL when no key is required. STENO_ERR_INVAL:
 * missing or unknown key, to be answered 401. */
STENO_MUST steno_status steno_keys_find(steno_keys *k, const char *secret, steno_key **out,
                                        steno_err *err);
/* Find a key by its name, for clients that cannot send one. *out is NULL when no key is required.
 * STENO_ERR_INVAL: there is no key of this name. */
STENO_MUST steno_status steno_keys_named(steno_keys *k, const char *name, steno_key **out,
                                         steno_err *err);
/* Make `secret` an ephemeral key with the rights of key (NULL: of a server without keys), until
 * `until_ns` of steno_now_ns or until key has another secret. session: text that
 * steno_keys_session returns for it; copied. At most STENO_EPHEMERAL_KEYS are kept; then the one
 * that ends first, of the keys that have most of them, gives its place to a new one.
 * STENO_ERR_NOMEM. */
#define STENO_EPHEMERAL_KEYS 1024
STENO_MUST steno_status steno_keys_add_ephemeral(steno_keys *k, steno_key *key, const char *secret,
                                                 int64_t until_ns, const char *session);
/* The session of an ephemeral key, malloc'd; NULL: it is none, has ended, or out of memory. */
char *steno_keys_session(steno_keys *k, const char *secret);
/* The secret in an Authorization header ("Bearer KEY", "Token KEY"); NULL when there is none. */
const char *steno_key_of_authorization(const char *value);

/* All functions below accept key NULL: then everything is allowed and nothing is counted. */
const char *steno_key_name(const steno_key *key); /* "" for NULL */
/* A stable number per key for round robin; 0 for NULL. */
uint64_t steno_key_owner(const steno_key *key);
/* Count one more session and request. STENO_ERR_BUSY, to be answered 429, with *retry_after in s:
 * the time until the quota has room again, or later where many clients of this key are already told
 * to come then (retry_spreader.h). */
STENO_MUST steno_status steno_key_enter(steno_keys *k, steno_key *key, int64_t now_ns,
                                        double *retry_after, steno_err *err);
void steno_key_leave(steno_keys *k, steno_key *key);
/* Count one more request that takes no place. Errors as above. */
STENO_MUST steno_status steno_key_request(steno_keys *k, steno_key *key, int64_t now_ns,
                                          double *retry_after, steno_err *err);
/* Count seconds of received audio. STENO_ERR_BUSY when the key has used up its quota: the session
 * must end, with *retry_after (may be NULL) as above. */
STENO_MUST steno_status steno_key_audio(steno_keys *k, steno_key *key, int64_t now_ns,
                                        double seconds, double *retry_after, steno_err *err);

struct steno_key_use {
    const char *name;
    int sessions;
    uint64_t requests, refused; /* since `since`, s of 1970 */
    double audio_seconds;
    int64_t since;
    int max_sessions; /* quotas; 0 = no limit, also below */
    double requests_per_minute, audio_per_minute;
};
/* Report the use of one key; not NULL. Keys that are no longer in the file too. */
void steno_key_get_use(steno_key *key, struct steno_key_use *out);
/* The next key that was read since the last call, for metrics; NULL: none. */
steno_key *steno_keys_next_new(steno_keys *k);
/* Append what steno_keys_read_usage reads: a head line, and a line for each key that was used. */
STENO_MUST steno_status steno_keys_write_usage(steno_keys *k, struct steno_buf *out);
/* Add the counts in text [len] to those of the keys. Keys that are not in the file are kept, so
 * that they have their counts when they come back. STENO_ERR_FORMAT names the line; then nothing is
 * added. name: of the file, for messages. */
STENO_MUST steno_status steno_keys_read_usage(steno_keys *k, const char *name, const char *text,
                                              size_t len, steno_err *err);

#endif
