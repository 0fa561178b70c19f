#include "server/core/server.h"
#include "server/core/word_list.h"
#include "server/port/address.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PROFANITY_MAX (1u << 20) /* bytes of the file */

char *steno_id_new(char *out, const char *prefix)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[16] = {0};
    size_t n = (size_t)snprintf(out, STENO_ID_SIZE, "%.6s_", prefix);
    (void)!getrandom(bits, sizeof bits, 0); /* up to 256 bytes never fail once seeded: random(7) */
    for (size_t i = 0; i < sizeof bits; i++, n += 2) {
        out[n] = hex[bits[i] >> 4];
        out[n + 1] = hex[bits[i] & 15];
    }
    out[n] = '\0';
    return out;
}

char *steno_id_of_node(char *out, const char *node)
{
    char id[STENO_ID_SIZE];
    const int digits = 31 - (int)strlen(node);
    steno_id_new(id, "sess");
    if (*node)
        snprintf(out, STENO_ID_SIZE, "sess_%.8s.%.*s", node, digits, id + 5);
    else
        memcpy(out, id, sizeof id);
    return out;
}

/* *out stays NULL if nothing is configured and none was fetched. */
/* Where the network of a setting lies: *dir, which steno_free frees. NULL: there is none, because
 * the setting says so, or says nothing and none was fetched. */
static steno_status
find_network(char **dir, const char *setting,
             steno_status (*find)(char **out, const char *given, steno_err *err), steno_err *err)
{
    *dir = NULL;
    if (!strcmp(setting, "none"))
        return STENO_OK;
    if (*setting)
        return find(dir, setting, err);
    if (find(dir, NULL, err))
        *dir = NULL;
    return STENO_OK;
}

static steno_status open_vad_net(const char *model, steno_vad **out, steno_err *err)
{
    char *dir;
    steno_status st = find_network(&dir, model, steno_vad_find, err);
    if (!st && dir)
        st = steno_vad_open(out, dir, err);
    steno_free(dir);
    return st ? steno_fail_in(err, st, "vad.model") : STENO_OK;
}

steno_status steno_server_open_vad(struct steno_server *srv, steno_err *err)
{
    const steno_vad *chosen;
    steno_status st = steno_vad_open(&srv->vad_rule, NULL, err);
    if (!st)
        st = open_vad_net(srv->conf->vad_model, &srv->vad_net, err);
    if (!st && steno_server_vad(srv, STENO_VAD_UNSET, &chosen, err))
        st = steno_fail_in(err, STENO_ERR_INVAL, "vad.mode");
    return st;
}

/* Whoever may read the directory has the voices. */
static steno_status check_store(const struct steno_server *srv, steno_err *err)
{
    steno_enrolled *nobody;
    steno_status st = STENO_OK;
    if (*srv->conf->speakers_store)
        st = steno_enrolled_open(&nobody, srv->conf->speakers_store, NULL, err);
    if (st)
        return steno_fail_in(err, st, "speakers.store");
    if (*srv->conf->speakers_store)
        steno_enrolled_close(nobody);
    return STENO_OK;
}

static steno_status set_latency(const struct steno_server *srv, steno_err *err)
{
    if (srv->conf->speakers_latency <= 0)
        return STENO_OK;
    return srv->speakers
               ? steno_speakers_set_latency(srv->speakers, srv->conf->speakers_latency, err)
               : steno_fail(err, STENO_ERR_INVAL, "needs a Sortformer (speakers.model)");
}

steno_status steno_server_open_speakers(struct steno_server *srv, steno_err *err)
{
    char *dir;
    steno_status st = find_network(&dir, srv->conf->speakers_model, steno_speakers_find, err);
    if (!st && dir)
        st = steno_speakers_open(&srv->speakers, dir, 1, err);
    steno_free(dir);
    if (st)
        return steno_fail_in(err, st, "speakers.model");
    st = set_latency(srv, err);
    return st ? steno_fail_in(err, st, "speakers.latency") : check_store(srv, err);
}

steno_status steno_server_enrolled_dir(const struct steno_server *srv, const steno_key *key,
                                       char *dir, steno_err *err)
{
    const int n = snprintf(dir, PATH_MAX, "%s/%s%s", srv->conf->speakers_store,
                           key ? "key-" : "open", steno_key_name(key));
    return n < PATH_MAX ? STENO_OK
                        : steno_fail(err, STENO_ERR_INVAL, "speakers.store: the path is too long");
}

steno_status steno_server_enrolled(const struct steno_server *srv, const steno_key *key,
                                   steno_enrolled **out, steno_err *err)
{
    char dir[PATH_MAX];
    steno_status st;
    *out = NULL;
    if (!*srv->conf->speakers_store || !srv->speakers)
        return STENO_OK;
    st = steno_server_enrolled_dir(srv, key, dir, err);
    return st ? st : steno_enrolled_open(out, dir, srv->speakers, err);
}

steno_status steno_server_open_turn(struct steno_server *srv, steno_err *err)
{
    char *path;
    steno_status st = find_network(&path, srv->conf->turn_model, steno_turn_detector_find, err);
    if (!st && path)
        st = steno_turn_detector_open(&srv->turn, path, err);
    steno_free(path);
    return st ? steno_fail_in(err, st, "turn.model") : STENO_OK;
}

steno_status steno_server_read_profanity(struct steno_server *srv, steno_err *err)
{
    struct steno_filter_options filter;
    steno_status st;
    if (!*srv->conf->profanity)
        return STENO_OK;
    st = steno_word_list_read(&srv->profanity, srv->conf->profanity, PROFANITY_MAX, err);
    filter = (struct steno_filter_options){.mask = srv->profanity};
    if (!st)
        st = steno_filters_check(&filter, err);
    return st ? steno_fail_in(err, st, "text.profanity") : STENO_OK;
}

steno_status steno_server_vad(const struct steno_server *srv, enum steno_vad_choice ask,
                              const steno_vad **out, steno_err *err)
{
    if (ask == STENO_VAD_UNSET && steno_vad_choice_parse(srv->conf->vad_mode, &ask, err))
        return STENO_ERR_INVAL;
    if (ask == STENO_VAD_SILERO && !srv->vad_net)
        return steno_fail(err, STENO_ERR_INVAL,
                          "vad: the server has no silero-vad (steno model fetch silero-vad, or "
                          "vad.model)");
    *out = ask == STENO_VAD_SILERO ? srv->vad_net : ask == STENO_VAD_ENERGY ? srv->vad_rule : NULL;
    return STENO_OK;
}

bool steno_server_client(const struct steno_server *srv, const struct sockaddr_storage *peer,
                         const char *forwarded, struct sockaddr_storage *client)
{
    return forwarded && steno_networks_hold(&srv->trusted, peer) &&
           steno_forwarded_client(forwarded, &srv->trusted, client);
}

const char *steno_server_distrusts(const struct steno_server *srv,
                                   const struct sockaddr_storage *peer,
                                   const struct steno_origin_headers *headers, bool acts)
{
    const struct steno_config *conf = srv->conf;
    const bool open = !steno_keys_required(srv->keys);
    const bool proxied = steno_networks_hold(&srv->trusted, peer);
    struct steno_origin_headers h = *headers;
    if (open && !proxied && h.host && (*conf->hosts || steno_address_is_loopback(peer)) &&
        !steno_origin_good_host(h.host, conf->hosts))
        return "the request's Host is no name of this server (server.hosts lists its names)";
    if (!proxied)
        h.forwarded_host = NULL;
    if (acts && (open || *conf->cors_origins) && steno_origin_is_foreign(&h, conf->hosts) &&
        !steno_origin_allowed(conf->cors_origins, h.origin ? h.origin : ""))
        return "pages of this origin may not use the server (server.cors_origins lists those that "
               "may)";
    return NULL;
}

size_t steno_server_skip_prefix(const struct steno_server *srv, const struct sockaddr_storage *peer,
                                const char *path, size_t len, const char *forwarded, size_t n)
{
    const char *own = srv->conf->path_prefix;
    size_t skip = steno_path_skip(path, len, own, strlen(own));
    if (!skip && n && steno_networks_hold(&srv->trusted, peer))
        skip = steno_path_skip(path, len, forwarded, n);
    return skip;
}
