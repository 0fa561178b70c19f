/* Checks of one key, or of how keys go together. */
#include "server/core/config.h"
#include "server/core/aligners.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "protocol/dialect.h"
#include "protocol/vad.h"
#include "server/base/log.h"
#include "server/port/address.h"
#include "server/port/proxy.h"

static steno_status check_list(const char *list, const char *key, steno_err *err)
{
    struct steno_address addresses[STENO_MAX_ADDRESSES];
    size_t n;
    steno_status st = steno_address_parse_list(list, addresses, &n, err);
    return st ? steno_fail_in(err, st, "%s", key) : STENO_OK;
}

static steno_status check_listen(const struct steno_config *c, steno_err *err)
{
    return check_list(c->listen, "server.listen", err);
}

static steno_status check_wyoming(const struct steno_config *c, steno_err *err)
{
    if (*c->wyoming_advertise && !*c->wyoming_listen)
        return steno_fail(err, STENO_ERR_INVAL, "wyoming.advertise: needs wyoming.listen");
    if (*c->wyoming_listen && *c->keys && !*c->wyoming_key)
        return steno_fail(err, STENO_ERR_INVAL,
                          "wyoming.key: auth.keys is set, and clients of wyoming.listen send no "
                          "key; name the key that they count as");
    return *c->wyoming_listen ? check_list(c->wyoming_listen, "wyoming.listen", err) : STENO_OK;
}

static steno_status check_proxies(const struct steno_config *c, steno_err *err)
{
    struct steno_networks trusted;
    steno_status st = steno_networks_parse(c->trusted_proxies, &trusted, err);
    if (st)
        return steno_fail_in(err, st, "server.trusted_proxies");
    if (c->proxy_protocol && !*c->trusted_proxies)
        return steno_fail(err, STENO_ERR_INVAL,
                          "server.proxy_protocol: needs server.trusted_proxies");
    if (*c->path_prefix &&
        (*c->path_prefix != '/' || c->path_prefix[strlen(c->path_prefix) - 1] == '/'))
        return steno_fail(err, STENO_ERR_INVAL,
                          "server.path_prefix: '%.60s' must begin with / and not end with it",
                          c->path_prefix);
    return STENO_OK;
}

static steno_status check_tls(const struct steno_config *c, steno_err *err)
{
    if (!*c->tls_certificate != !*c->tls_key)
        return steno_fail(err, STENO_ERR_INVAL, "tls.%s: needs tls.%s",
                          *c->tls_key ? "key" : "certificate", *c->tls_key ? "certificate" : "key");
    if (c->tls_required && !*c->tls_certificate)
        return steno_fail(err, STENO_ERR_INVAL, "tls.required: needs tls.certificate");
    return STENO_OK;
}

static steno_status check_search(const struct steno_config *c, steno_err *err)
{
    return steno_config_search(c, NULL, &(struct steno_options){0},
                               &(struct steno_stream_options){0}, err);
}

static steno_status check_precision(const struct steno_config *c, steno_err *err)
{
    enum steno_precision precision;
    if (steno_precision_find(c->precision, &precision))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL,
                      "model.precision: '%.40s' is not auto, fp32, bf16, fp16 or int8",
                      c->precision);
}

static steno_status check_vad(const struct steno_config *c, steno_err *err)
{
    enum steno_vad_choice vad;
    steno_status st = steno_vad_choice_parse(c->vad_mode, &vad, err);
    return st ? steno_fail_in(err, st, "vad.mode") : STENO_OK;
}

static steno_status check_align(const struct steno_config *c, steno_err *err)
{
    steno_status st = steno_aligners_check(c->align_model, err);
    return st ? steno_fail_in(err, st, "align.model") : STENO_OK;
}

static steno_status check_node(const struct steno_config *c, steno_err *err)
{
    struct steno_address addresses[STENO_MAX_ADDRESSES];
    size_t n = strlen(c->node);
    if (n > 8 ||
        strspn(c->node, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != n)
        return steno_fail(err, STENO_ERR_INVAL,
                          "server.node: '%.40s' is not 1 to 8 letters and digits", c->node);
    if (*c->agent_listen && steno_address_parse_list(c->agent_listen, addresses, &n, err))
        return steno_fail_in(err, STENO_ERR_INVAL, "server.agent_listen");
    return STENO_OK;
}

static steno_status check_log(const struct steno_config *c, steno_err *err)
{
    int level;
    steno_status st = steno_log_level(c->log_level, &level, err);
    if (st)
        return steno_fail_in(err, st, "log.level");
    if (strcmp(c->log_format, "text") && strcmp(c->log_format, "json"))
        return steno_fail(err, STENO_ERR_INVAL, "log.format: '%.40s' is neither text nor json",
                          c->log_format);
    return STENO_OK;
}

static steno_status check_root(const struct steno_config *c, steno_err *err)
{
    if (strcmp(c->ws_root, "none") && !steno_dialect_of_root(c->ws_root))
        return steno_fail(err, STENO_ERR_INVAL,
                          "websocket.root: '%.40s' is not auto, none, vosk, sherpa or wenet",
                          c->ws_root);
    return STENO_OK;
}

static steno_status check_bodies(const struct steno_config *c, steno_err *err)
{
    if (c->body_bytes > c->upload_bytes)
        return steno_fail(
            err, STENO_ERR_INVAL,
            "limits.body (%zu) is larger than limits.upload_memory (%zu): the largest "
            "body could never be taken",
            c->body_bytes, c->upload_bytes);
    return STENO_OK;
}

static steno_status check_pings(const struct steno_config *c, steno_err *err)
{
    if (c->ws_ping_interval > c->ws_idle_timeout)
        return steno_fail(err, STENO_ERR_INVAL,
                          "websocket.ping_interval (%g s) is longer than websocket.idle_timeout "
                          "(%g s): a silent client would never be pinged",
                          c->ws_ping_interval, c->ws_idle_timeout);
    return STENO_OK;
}

/* Whether an item of a list can equal a host as requests name it: without port, IPv6 in brackets.
 */
static bool is_host(struct steno_list_item it, bool below)
{
    size_t skip = below && it.n > 2 && !memcmp(it.p, "*.", 2) ? 2 : 0;
    if (steno_list_is(it, "*"))
        return true;
    for (size_t i = skip; i < it.n; i++)
        if (it.p[i] == '/' || it.p[i] == '*' || (it.p[i] == ':' && *it.p != '['))
            return false;
    return *it.p != '[' || it.p[it.n - 1] == ']';
}

/* Items are compared with names of hosts as they are. below: *.NAME is known. */
static steno_status check_names(const char *list, bool below, const char *key, steno_err *err)
{
    struct steno_list_item it = steno_list_next(list);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (!is_host(it, below))
            return steno_fail(err, STENO_ERR_INVAL,
                              "%s: '%.*s' is not the name of a host without port%s, and not *", key,
                              it.n > 60 ? 60 : (int)it.n, it.p, below ? ", *.NAME" : "");
    return STENO_OK;
}

static steno_status check_hosts(const struct steno_config *c, steno_err *err)
{
    steno_status st = check_names(c->hosts, false, "server.hosts", err);
    if (!st)
        st = check_names(c->fetch_hosts, true, "fetch.hosts", err);
    return st ? st : check_names(c->callback_hosts, true, "jobs.callback_hosts", err);
}

/* Items are compared with what browsers send: "https://host", "null" for pages without an origin.
 */
static steno_status check_origins(const struct steno_config *c, steno_err *err)
{
    struct steno_list_item it = steno_list_next(c->cors_origins);
    for (; it.n; it = steno_list_next(it.p + it.n)) {
        char origin[256];
        const char *scheme;
        snprintf(origin, sizeof origin, "%.*s", (int)it.n, it.p);
        scheme = strstr(origin, "://");
        if (strcmp(origin, "*") != 0 && strcmp(origin, "null") != 0 &&
            (!scheme || strchr(scheme + 3, '/')))
            return steno_fail(err, STENO_ERR_INVAL,
                              "server.cors_origins: '%.60s' is no origin such as "
                              "https://app.example.org, and not *",
                              origin);
    }
    return STENO_OK;
}

/* What answers and libmicrohttpd have in whole seconds. */
static steno_status check_whole_seconds(const struct steno_config *c, steno_err *err)
{
    const struct {
        const char *key;
        double value;
    } whole[] = {{"limits.idle_timeout", c->idle_timeout}, {"limits.retry_after", c->retry_after}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (floor(whole[i].value) != whole[i].value)
            return steno_fail(err, STENO_ERR_INVAL, "%s: %g s are not whole seconds", whole[i].key,
                              whole[i].value);
    return STENO_OK;
}

static void put_before(steno_err *err, const char *place)
{
    char msg[sizeof err->msg];
    memcpy(msg, err->msg, sizeof msg);
    (void)steno_fail(err, err->code, "%s%s", place, msg);
}

static steno_status check_calls(const struct steno_config *c, steno_err *err)
{
    const char *url = c->calls_callback;
    const size_t scheme = !strncmp(url, "https://", 8) ? 8 : !strncmp(url, "http://", 7) ? 7 : 0;
    if (!*url || (scheme && strcspn(url + scheme, "/?#")))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "calls.callback: '%.60s' is no http or https URL", url);
}

static steno_status check_jobs(const struct steno_config *c, steno_err *err)
{
    if (*c->jobs_queue && !*c->jobs_dir)
        return steno_fail(err, STENO_ERR_INVAL,
                          "jobs.queue: needs jobs.dir, for recordings on their way");
    if (*c->jobs_password && !*c->jobs_queue)
        return steno_fail(err, STENO_ERR_INVAL, "jobs.queue_password: needs jobs.queue");
    return STENO_OK;
}

steno_status steno_config_check(const struct steno_config *c, steno_err *err)
{
    static steno_status (*const checks[])(const struct steno_config *, steno_err *) = {
        check_listen,    check_wyoming, check_proxies,      check_tls,   check_search,
        check_precision, check_node,    check_vad,          check_align, check_log,
        check_root,      check_bodies,  check_pings,        check_jobs,  check_calls,
        check_hosts,     check_origins, check_whole_seconds};
    steno_status first = STENO_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        steno_err local;
        char place[sizeof local.msg];
        if (!checks[i](c, &local))
            continue;
        (void)steno_config_place(c, local.msg, place, sizeof place);
        put_before(&local, place);
        if (!steno_config_note_error(c, &local, &first, err))
            break;
    }
    return first;
}
