/* The fields of OpenAI's transcription form. */
#include "protocol/openai_rest.h"

#include "protocol/query.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *media;
} formats[] = {
    [STENO_OPENAI_JSON] = {"json", "application/json"},
    [STENO_OPENAI_TEXT] = {"text", "text/plain; charset=utf-8"},
    [STENO_OPENAI_SRT] = {"srt", "application/x-subrip"},
    [STENO_OPENAI_VERBOSE_JSON] = {"verbose_json", "application/json"},
    [STENO_OPENAI_VTT] = {"vtt", "text/vtt; charset=utf-8"},
    [STENO_OPENAI_DIARIZED_JSON] = {"diarized_json", "application/json"},
    [STENO_OPENAI_LRC] = {"lrc", "text/plain; charset=utf-8"},
    [STENO_OPENAI_TSV] = {"tsv", "text/tab-separated-values; charset=utf-8"},
    [STENO_OPENAI_WHISPERX] = {"whisperx", "application/json"},
};
#define FORMATS (sizeof formats / sizeof *formats)

const char *steno_openai_media_type(enum steno_openai_format f)
{
    return formats[f].media;
}

static steno_status set_name(char out[STENO_OPENAI_NAME], const char *field, const char *value,
                             steno_err *err)
{
    if (strlen(value) >= STENO_OPENAI_NAME)
        return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", field,
                          STENO_OPENAI_NAME - 1);
    memcpy(out, value, strlen(value) + 1);
    return STENO_OK;
}

static steno_status set_response_format(struct steno_openai_request *r, const char *value,
                                        steno_err *err)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (!strcmp(value, formats[i].name)) {
            r->format = (enum steno_openai_format)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL,
                      "response_format: '%.40s' is not one of json, text, srt, verbose_json, vtt, "
                      "diarized_json, lrc, tsv, whisperx",
                      value);
}

/* One of them, or several with commas between. */
static steno_status set_granularity(struct steno_openai_request *r, const char *value,
                                    steno_err *err)
{
    for (const char *p = value + strspn(value, ", "); *p; p += strspn(p, ", ")) {
        const size_t n = strcspn(p, ", ");
        if (n == 4 && !strncmp(p, "word", n))
            r->words = true;
        else if (n == 7 && !strncmp(p, "segment", n))
            r->segments = true;
        else
            return steno_fail(err, STENO_ERR_INVAL,
                              "timestamp_granularities[]: '%.40s' is neither word nor segment", p);
        p += n;
    }
    return STENO_OK;
}

static steno_status set_temperature(struct steno_openai_request *r, const char *value,
                                    steno_err *err)
{
    return steno_query_double("temperature", value, 0, 1, &r->temperature, err);
}

static steno_status set_stream(struct steno_openai_request *r, const char *value, steno_err *err)
{
    if (!strcmp(value, "null") || !*value) {
        r->stream = false;
        return STENO_OK;
    }
    return steno_query_bool("stream", value, &r->stream, err);
}

static steno_status set_model(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return set_name(r->model, "model", value, err);
}

static steno_status add_keyword(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return steno_hint_add(&r->hints, "hotwords", value, err);
}

/* As in faster-whisper's servers. */
static steno_status set_task(struct steno_openai_request *r, const char *value, steno_err *err)
{
    if (!strcmp(value, "transcribe"))
        return STENO_OK; /* of /v1/audio/translations, too: the path decides */
    if (!strcmp(value, "translate"))
        return steno_hint_set(&r->hints, "translate", "true", err);
    return steno_fail(err, STENO_ERR_INVAL, "task: '%.40s' is neither transcribe nor translate",
                      value);
}

/* Several of them: one is detected. */
static steno_status add_language(struct steno_openai_request *r, const char *value, steno_err *err)
{
    char all[STENO_LANGUAGE_BYTES + STENO_OPENAI_FIELD];
    snprintf(all, sizeof all, "%s%s%s", r->hints.language, *r->hints.language ? "," : "", value);
    return steno_hint_set(&r->hints, "language", all, err);
}

static steno_status set_vad_filter(struct steno_openai_request *r, const char *value,
                                   steno_err *err)
{
    return steno_query_bool("vad_filter", value, &r->vad_filter, err);
}

static steno_status set_channel(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return steno_query_int("channel", value, 0, STENO_OPENAI_CHANNELS, &r->channel, err);
}

static steno_status set_include(struct steno_openai_request *r, const char *value, steno_err *err)
{
    (void)err;
    r->logprobs |= !strcmp(value, "logprobs");
    return STENO_OK;
}

/* The names are those of the channels, in the order of the form. */
static steno_status add_speaker(struct steno_openai_request *r, const char *value, steno_err *err)
{
    if (r->speakers.n == STENO_OPENAI_SPEAKERS)
        return steno_fail(err, STENO_ERR_INVAL, "known_speaker_names[]: more than %d",
                          STENO_OPENAI_SPEAKERS);
    return set_name(r->speakers.names[r->speakers.n++], "known_speaker_names[]", value, err);
}

static const struct field {
    const char *name;
    /* NULL: a hint of this name. */
    steno_status (*set)(struct steno_openai_request *r, const char *value, steno_err *err);
} fields[] = {
    {"model", set_model},
    {"language", NULL},
    {"languages", add_language},
    {"task", set_task},
    {"prompt", NULL},
    {"hotwords", NULL},
    {"replace", NULL},
    {"redact", NULL},
    {"prefix", NULL},
    {"keywords", add_keyword},
    {"vad_filter", set_vad_filter},
    {"response_format", set_response_format},
    {"temperature", set_temperature},
    {"timestamp_granularities", set_granularity},
    {"stream", set_stream},
    {"channel", set_channel},
    {"include", set_include},
    {"known_speaker_names", add_speaker},
};

steno_status steno_openai_field(struct steno_openai_request *r, const char *name, const char *value,
                                size_t len, const char **param, steno_err *err)
{
    char text[STENO_OPENAI_FIELD + 1];
    size_t n = strlen(name);
    if (n > 2 && !strcmp(name + n - 2, "[]"))
        n -= 2;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != n || strncmp(fields[i].name, name, n))
            continue;
        *param = fields[i].name;
        if (!len) /* forms of pages send the fields that nobody filled in */
            return STENO_OK;
        if (len > STENO_OPENAI_FIELD)
            return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", fields[i].name,
                              STENO_OPENAI_FIELD);
        if (memchr(value, '\0', len))
            return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL", fields[i].name);
        memcpy(text, value, len);
        text[len] = '\0';
        return fields[i].set ? fields[i].set(r, text, err)
                             : steno_hint_set(&r->hints, fields[i].name, text, err);
    }
    return STENO_OK;
}

/* Events have text, and with diarized_json who speaks. */
static steno_status check_stream(const struct steno_openai_request *r, const char **param,
                                 steno_err *err)
{
    *param = "timestamp_granularities";
    if (r->words || r->segments)
        return steno_fail(err, STENO_ERR_INVAL,
                          "timestamp_granularities[]: not with stream, whose events have no times");
    *param = "response_format";
    switch (r->format) {
    case STENO_OPENAI_JSON:
    case STENO_OPENAI_TEXT:
    case STENO_OPENAI_VERBOSE_JSON:
    case STENO_OPENAI_DIARIZED_JSON:
        return STENO_OK;
    default:
        return steno_fail(err, STENO_ERR_INVAL, "response_format: %s is not possible with stream",
                          formats[r->format].name);
    }
}

steno_status steno_openai_check(const struct steno_openai_request *r, const char **param,
                                steno_err *err)
{
    if (!r->has_file) {
        *param = "file";
        return steno_fail(err, STENO_ERR_INVAL, "file: the form has no file");
    }
    if ((r->words || r->segments) && r->format != STENO_OPENAI_VERBOSE_JSON) {
        *param = "timestamp_granularities";
        return steno_fail(err, STENO_ERR_INVAL,
                          "timestamp_granularities[]: needs response_format verbose_json");
    }
    return r->stream ? check_stream(r, param, err) : STENO_OK;
}

#define DEPLOYMENTS "/openai/deployments/"
#define AUDIO "/audio/"

void steno_openai_make_path(char *target)
{
    const size_t path = steno_query_path_len(target);
    char *id = target + strlen(DEPLOYMENTS), *audio;
    size_t n_id, n_route;
    struct steno_buf made;
    if (!strncmp(target, "/openai/v1/", strlen("/openai/v1/"))) {
        memmove(target, target + strlen("/openai"), strlen(target + strlen("/openai")) + 1);
        return;
    }
    if (strncmp(target, DEPLOYMENTS, strlen(DEPLOYMENTS)))
        return;
    n_id = strcspn(id, "/?");
    audio = id + n_id;
    if (!n_id || strncmp(audio, AUDIO, strlen(AUDIO)))
        return;
    n_route = (size_t)(target + path - audio);
    steno_buf_init(&made, strlen(target) + 1); /* it gets shorter: "/v1" and "?model=" have 10 */
    if (!steno_buf_printf(&made, "/v1%.*s?model=%.*s%s%s", (int)n_route, audio, (int)n_id, id,
                          target[path] ? "&" : "", target[path] ? target + path + 1 : ""))
        memcpy(target, made.data, made.len + 1);
    steno_buf_free(&made);
}
