/* What the parts of the daemon share. Frozen once the threads run; the parts have their own locks.
 */
#ifndef STENO_SERVER_CORE_SERVER_H
#define STENO_SERVER_CORE_SERVER_H

#include "speech/audio/container.h"
#include "protocol/vad.h"
#include "server/base/stats.h"
#include "server/core/config.h"
#include "server/core/keys.h"
#include "server/core/limits.h"
#include "server/core/models.h"
#include "server/port/origin.h"
#include "server/port/proxy.h"
#include "steno.h"

#include <stdatomic.h>

struct steno_server {
    const struct steno_config *conf;
    struct steno_networks trusted; /* proxies */
    steno_models *models;
    steno_limits *limits;
    steno_keys *keys;
    struct steno_stats *stats;
    steno_vad *vad_rule, *vad_net;  /* speech detectors; vad_net NULL: no silero-vad */
    steno_speakers *speakers;       /* tell speakers apart; NULL: no networks */
    steno_turn_detector *turn;      /* judges turns of live sessions; NULL: no network */
    char *profanity;                /* words that can be masked, one per line; NULL: none */
    steno_decoders *decoders;       /* processes of steno-decode */
    struct steno_waker *waker;      /* for their pipes */
    struct steno_tracer *tracer;    /* NULL: no traces */
    struct steno_usage_file *usage; /* NULL: not kept */
    int64_t started;                /* s since 1970 */
    atomic_int leaving;             /* enum steno_leaving; relaxed: it orders nothing */
};

/* Open the detectors: the rule, and the network that vad.model names or that was fetched. Errors of
 * steno_vad_find and steno_vad_open; STENO_ERR_INVAL: vad.mode needs a network. */
STENO_MUST steno_status steno_server_open_vad(struct steno_server *srv, steno_err *err);
/* Open the networks that speakers.model names or that were fetched, if there are any. Errors of
 * steno_speakers_find and steno_speakers_open. */
STENO_MUST steno_status steno_server_open_speakers(struct steno_server *srv, steno_err *err);
/* The directory with the voice prints of a key, or, with NULL, of a server without keys: dir
 * [PATH_MAX]. STENO_ERR_INVAL: the path is too long. */
STENO_MUST steno_status steno_server_enrolled_dir(const struct steno_server *srv,
                                                  const steno_key *key, char *dir, steno_err *err);
/* Read the voice prints of a key. *out stays NULL where none are kept, or there are no networks.
 * Errors of steno_enrolled_open. */
STENO_MUST steno_status steno_server_enrolled(const struct steno_server *srv, const steno_key *key,
                                              steno_enrolled **out, steno_err *err);
/* Open the network that turn.model names or that was fetched, if there is one. Errors of
 * steno_turn_detector_find and steno_turn_detector_open. */
STENO_MUST steno_status steno_server_open_turn(struct steno_server *srv, steno_err *err);
/* Read the words of text.profanity. STENO_ERR_INVAL: not UTF-8, no word, or too many; errors of
 * steno_file_read. */
STENO_MUST steno_status steno_server_read_profanity(struct steno_server *srv, steno_err *err);
/* The detector for a stream that asks for `ask`; NULL for off. STENO_ERR_INVAL: silero, and there
 * is none. */
STENO_MUST steno_status steno_server_vad(const struct steno_server *srv, enum steno_vad_choice ask,
                                         const steno_vad **out, steno_err *err);

/* Find the client of a connection from peer by forwarded, the value of X-Forwarded-For; NULL: it
 * is absent. False: peer is not a trusted proxy, or does not tell a usable address. */
bool steno_server_client(const struct steno_server *srv, const struct sockaddr_storage *peer,
                         const char *forwarded, struct sockaddr_storage *client);
/* Bytes to skip of a path [len]: server.path_prefix, or what a trusted proxy tells in forwarded
 * [n], the value of X-Forwarded-Prefix. */
size_t steno_server_skip_prefix(const struct steno_server *srv, const struct sockaddr_storage *peer,
                                const char *path, size_t len, const char *forwarded, size_t n);

/* Say why a request from peer with these headers is to be refused with 403; NULL: it is not.
 * acts: it is no GET that only reads. Without keys every page that a browser shows could use the
 * server: then the host must be the server's, on loopback addresses and wherever server.hosts is
 * set, and pages of others may only read. With keys a page would need one; server.cors_origins
 * restricts it further. A trusted proxy knows the names that it serves. */
const char *steno_server_distrusts(const struct steno_server *srv,
                                   const struct sockaddr_storage *peer,
                                   const struct steno_origin_headers *headers, bool acts);

#define STENO_ID_SIZE 40
/* Make a new random name: prefix, '_', 128 random bits in hexadecimal ("req_9f..."). out:
 * STENO_ID_SIZE bytes; prefix: up to 6 letters. Returns out. */
char *steno_id_new(char *out, const char *prefix);
/* Make a new name of a session that can be resumed: "sess_NODE." and as much of 128 random bits as
 * fits 32 characters with it; NODE "": as steno_id_new. out: STENO_ID_SIZE bytes. Returns out. */
char *steno_id_of_node(char *out, const char *node);

#endif
