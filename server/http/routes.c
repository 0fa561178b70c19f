/* The table of routes, and the routes that answer at once. Uploads are in upload.c. */
#include "protocol/openai_rest.h"
#include "protocol/query.h"
#include "server/http/api_text.h"
#include "server/http/enrolled.h"
#include "server/http/page.h"
#include "server/http/request.h"
#include "server/http/secrets.h"
#include "server/watch/gauges.h"

#include <string.h>
#include <strings.h>

#define MAX_MODELS 64         /* in the list */
#define ANSWER_MAX (4u << 20) /* bytes of one answer; the metrics are the largest */

static enum MHD_Result get_page(struct steno_request *rq)
{
    const char *upgrade = steno_request_header(rq, "Upgrade");
    if (upgrade && !strcasecmp(upgrade, "websocket")) /* websocket.root is none */
        return steno_respond_error(rq, 404, "not_found", NULL,
                                   "no WebSocket endpoint at /; /v1/stream is one");
    struct steno_buf policy, body;
    enum MHD_Result ok = MHD_NO;
    steno_buf_init(&policy, 4096);
    steno_buf_init(&body, strlen(steno_page));
    if (!steno_page_policy(&policy) && !steno_buf_puts(&body, steno_page)) {
        const struct steno_header headers[] = {{"Content-Security-Policy", policy.data},
                                               {"X-Frame-Options", "DENY"},
                                               {"Referrer-Policy", "no-referrer"},
                                               {NULL, NULL}};
        ok = steno_respond(rq, 200, "text/html; charset=utf-8", &body, headers);
    }
    steno_buf_free(&policy);
    steno_buf_free(&body);
    return ok;
}

static enum MHD_Result get_openapi(struct steno_request *rq)
{
    return steno_respond_static(rq, 200, "application/yaml; charset=utf-8", steno_openapi);
}

static enum MHD_Result get_asyncapi(struct steno_request *rq)
{
    return steno_respond_static(rq, 200, "application/yaml; charset=utf-8", steno_asyncapi);
}

static enum MHD_Result get_metrics(struct steno_request *rq)
{
    const struct steno_header vary[] = {{"Vary", "Accept"}, {NULL, NULL}};
    const bool open = steno_metrics_open_wanted(steno_request_header(rq, "Accept"));
    struct steno_buf body;
    steno_status st;
    steno_buf_init(&body, ANSWER_MAX);
    st = steno_gauges_write(rq->sv->srv, open, &body);
    if (!st)
        return steno_respond(rq, 200,
                             open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                  : "text/plain; version=0.0.4; charset=utf-8",
                             &body, vary);
    steno_buf_free(&body);
    return steno_respond_error(rq, 500, "internal_error", NULL, "the metrics are too large");
}

static enum MHD_Result respond_health(struct steno_request *rq,
                                      bool (*check)(steno_health *h, struct steno_buf *out))
{
    struct steno_buf body;
    bool good;
    steno_buf_init(&body, ANSWER_MAX);
    good = check(rq->sv->health, &body);
    return steno_respond(rq, good ? 200 : 503, "application/json", &body, NULL);
}

static enum MHD_Result get_healthz(struct steno_request *rq)
{
    return respond_health(rq, steno_health_live);
}

static enum MHD_Result get_readyz(struct steno_request *rq)
{
    return respond_health(rq, steno_health_ready);
}

static struct steno_openai_model describe_model(const struct steno_server *srv,
                                                const struct steno_model_view *v)
{
    return (struct steno_openai_model){.id = v->name,
                                       .created = srv->started,
                                       .family = v->family,
                                       .language = v->language,
                                       .languages = v->languages,
                                       .translates = v->translates,
                                       .license = v->license,
                                       .version = v->version};
}

static enum MHD_Result respond_json(struct steno_request *rq, steno_status st,
                                    struct steno_buf *body)
{
    if (!st)
        return steno_respond(rq, 200, "application/json", body, NULL);
    steno_buf_free(body);
    return steno_respond_error(rq, 500, "internal_error", NULL, "the answer is too large");
}

/* The use of the caller's own key. */
static enum MHD_Result get_usage(struct steno_request *rq)
{
    struct steno_key_use u;
    struct steno_buf body;
    steno_key *key;
    steno_err err;
    if (steno_request_key(rq, &key, &err))
        return steno_respond_wrong_key(rq, &err);
    if (!key)
        return steno_respond_error(rq, 404, "not_found", NULL,
                                   "this server has no API keys: nobody's use is counted");
    steno_key_get_use(key, &u);
    steno_buf_init(&body, 1024);
    return respond_json(
        rq,
        steno_buf_printf(&body,
                         "{\"object\":\"usage\",\"key\":\"%s\",\"since\":%lld,\"sessions\":%d,"
                         "\"requests\":%llu,\"refused\":%llu,\"audio_seconds\":%.3f,"
                         "\"quota\":{\"sessions\":%d,\"requests_per_minute\":%.15g,"
                         "\"audio_per_minute\":%.15g}}",
                         u.name, (long long)u.since, u.sessions, (unsigned long long)u.requests,
                         (unsigned long long)u.refused, u.audio_seconds, u.max_sessions,
                         u.requests_per_minute, u.audio_per_minute),
        &body);
}

/* Clients of OpenAI's whole API ask for speech too. */
static enum MHD_Result no_speech(struct steno_request *rq)
{
    return steno_respond_error(rq, 404, "not_found", NULL,
                               "this server recognises speech; it does not make any");
}

/* whisper.cpp's server changes its only model for everybody: here requests choose among the models
 * that the administrator has loaded. */
static enum MHD_Result post_load(struct steno_request *rq)
{
    steno_key *key;
    steno_err err;
    if (steno_request_key(rq, &key, &err))
        return steno_respond_wrong_key(rq, &err);
    return steno_respond_error(rq, 400, "unsupported", NULL,
                               "requests choose the model here: the field 'model' of /inference "
                               "takes a name of GET /v1/models, and the administrator decides "
                               "which models there are (model.dir)");
}

static enum MHD_Result get_models(struct steno_request *rq)
{
    const struct steno_server *srv = rq->sv->srv;
    struct steno_model_view views[MAX_MODELS];
    struct steno_openai_model models[MAX_MODELS];
    struct steno_model_slot *slot;
    struct steno_buf body;
    steno_key *key;
    steno_err err;
    size_t n = 0;
    if (steno_request_key(rq, &key, &err)) /* clients list models to check their key */
        return steno_respond_wrong_key(rq, &err);
    for (size_t i = 0; n < MAX_MODELS && (slot = steno_models_slot(srv->models, i)); i++) {
        steno_model_slot_view(slot, &views[n]);
        if (views[n].is_variant)
            continue;
        models[n] = describe_model(srv, &views[n]);
        n++;
    }
    steno_buf_init(&body, ANSWER_MAX);
    return respond_json(rq, steno_openai_write_models(&body, models, n), &body);
}

static enum MHD_Result get_model(struct steno_request *rq)
{
    size_t prefix = strlen(rq->route->path), len = steno_query_path_len(rq->target);
    struct steno_model_slot *slot = NULL;
    struct steno_model_view view;
    struct steno_openai_model model;
    struct steno_buf body;
    char name[STENO_OPENAI_NAME] = "";
    steno_key *key;
    steno_err err;
    if (steno_request_key(rq, &key, &err))
        return steno_respond_wrong_key(rq, &err);
    if (!steno_query_decode_path(rq->target + prefix, len - prefix, name, sizeof name, &err))
        slot = *name ? steno_models_named(rq->sv->srv->models, name) : NULL;
    else
        *name = '\0';
    if (slot) {
        steno_model_slot_view(slot, &view);
        model = describe_model(rq->sv->srv, &view);
        steno_buf_init(&body, ANSWER_MAX);
        return respond_json(rq, steno_openai_write_model(&body, &model), &body);
    }
    if (!*name || !steno_models_check(rq->sv->srv->models, name, &err))
        (void)steno_fail(&err, STENO_ERR_INVAL, "a model's name is missing");
    return steno_respond_error(rq, 404, "model_not_found", "model", "%s", err.msg);
}

/* Upgrade requests are answered before they come here (acceptor.c, upgrade.c), unless something of
 * the upgrade is missing. */
static enum MHD_Result get_stream(struct steno_request *rq)
{
    const struct steno_header headers[] = {
        {"Upgrade", "websocket"}, {"Connection", "close"}, {NULL, NULL}};
    return steno_respond_refusal(rq, 426, "upgrade_required",
                                 "this is a WebSocket endpoint: GET with HTTP/1.1, Upgrade: "
                                 "websocket and Connection: Upgrade, without a body",
                                 headers);
}

static enum MHD_Result get_jobs(struct steno_request *rq)
{
    return rq->sv->job_calls->get_list(rq);
}

static enum MHD_Result get_job(struct steno_request *rq)
{
    return rq->sv->job_calls->get(rq);
}

static enum MHD_Result post_to_job(struct steno_request *rq)
{
    return rq->sv->job_calls->post(rq);
}

static enum MHD_Result remove_job(struct steno_request *rq)
{
    return rq->sv->job_calls->remove(rq);
}

/* Rows of paths that have one method, and are their own labels. */
#define GETS(route, answer, form)                                                                  \
    {                                                                                              \
        .path = (route), .label = (route), .methods = STENO_ROUTE_GET, .get = (answer),            \
        .errors = STENO_ERRORS_##form                                                              \
    }
#define POSTS(route, answer, form)                                                                 \
    {                                                                                              \
        .path = (route), .label = (route), .methods = STENO_ROUTE_POST, .post = (answer),          \
        .errors = STENO_ERRORS_##form                                                              \
    }
/* POSTs that are answered the same whatever their body is. */
#define REFUSES(route, answer, form)                                                               \
    {                                                                                              \
        .path = (route), .label = (route), .methods = STENO_ROUTE_POST, .post = (answer),          \
        .no_body = true, .errors = STENO_ERRORS_##form                                             \
    }
#define TAKES_UPLOADS(route, session, form)                                                        \
    {                                                                                              \
        .path = (route), .label = (route), .methods = STENO_ROUTE_UPLOAD,                          \
        .api = STENO_SESSION_##session, .errors = STENO_ERRORS_##form                              \
    }

const struct steno_route steno_routes[] = {
    GETS("/", get_page, OPENAI),
    GETS("/metrics", get_metrics, OPENAI),
    GETS("/healthz", get_healthz, OPENAI),
    GETS("/readyz", get_readyz, OPENAI),
    GETS("/openapi.yaml", get_openapi, OPENAI),
    GETS("/asyncapi.yaml", get_asyncapi, OPENAI),
    GETS("/v1/models", get_models, OPENAI),
    {.path = "/v1/models/",
     .label = "/v1/models/{id}",
     .methods = STENO_ROUTE_GET,
     .get = get_model},
    GETS("/v1/usage", get_usage, OPENAI),
    GETS("/v1/stream", get_stream, OPENAI),
    GETS("/v2/listen", get_stream, DEEPGRAM),
    GETS("/v1/realtime", get_stream, OPENAI),
    GETS("/vosk", get_stream, OPENAI),
    GETS("/wenet", get_stream, OPENAI),
    GETS("/sherpa", get_stream, OPENAI),
    GETS("/twilio", get_stream, OPENAI),
    GETS("/asterisk", get_stream, OPENAI),
    GETS("/freeswitch", get_stream, OPENAI),
    {.path = "/v1/listen",
     .label = "/v1/listen",
     .methods = STENO_ROUTE_GET | STENO_ROUTE_UPLOAD,
     .get = get_stream,
     .api = STENO_SESSION_LISTEN,
     .errors = STENO_ERRORS_DEEPGRAM},
    TAKES_UPLOADS("/v1/audio/transcriptions", OPENAI, OPENAI),
    {.path = "/v1/audio/translations",
     .label = "/v1/audio/translations",
     .methods = STENO_ROUTE_UPLOAD,
     .api = STENO_SESSION_OPENAI,
     .translate = true},
    REFUSES("/v1/audio/speech", no_speech, OPENAI),
    POSTS("/v1/realtime/client_secrets", steno_secret_post, OPENAI),
    POSTS("/v1/realtime/transcription_sessions", steno_secret_post, OPENAI),
    POSTS("/v1/auth/grant", steno_secret_grant, DEEPGRAM),
    TAKES_UPLOADS("/v1/transcribe", TRANSCRIBE, OPENAI),
    TAKES_UPLOADS("/v1/align", ALIGN, OPENAI),
    {.path = "/v1/jobs",
     .label = "/v1/jobs",
     .methods = STENO_ROUTE_GET | STENO_ROUTE_UPLOAD,
     .get = get_jobs,
     .api = STENO_SESSION_JOB},
    {.path = "/v1/jobs/",
     .label = "/v1/jobs/{id}",
     .methods = STENO_ROUTE_GET | STENO_ROUTE_DELETE | STENO_ROUTE_POST,
     .get = get_job,
     .post = post_to_job,
     .remove = remove_job},
    {.path = "/v1/speakers",
     .label = "/v1/speakers",
     .methods = STENO_ROUTE_GET | STENO_ROUTE_UPLOAD,
     .get = steno_enrolled_get,
     .api = STENO_SESSION_ENROLL},
    {.path = "/v1/speakers/",
     .label = "/v1/speakers/{name}",
     .methods = STENO_ROUTE_DELETE,
     .private_path = true,
     .remove = steno_enrolled_remove},
    TAKES_UPLOADS("/inference", WHISPER_CPP, WHISPER_CPP),
    REFUSES("/load", post_load, WHISPER_CPP),
    GETS("/health", get_readyz, WHISPER_CPP),
    TAKES_UPLOADS("/asr", WHISPER_ASR, WHISPER_ASR),
    TAKES_UPLOADS("/detect-language", DETECT, WHISPER_ASR),
    {.label = "other"},
};

const struct steno_route *steno_route_find(const char *path, size_t len)
{
    const struct steno_route *r = steno_routes;
    for (; r->path; r++) {
        size_t n = strlen(r->path);
        bool prefix = n > 1 && r->path[n - 1] == '/';
        if (len >= n && !memcmp(path, r->path, n) && (len == n || prefix))
            break;
    }
    return r;
}
