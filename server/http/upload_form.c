#include "server/http/upload_internal.h"

#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/stream_native.h"
#include "server/core/credentials.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RESERVE_STEP (1u << 20) /* memory of a body of unknown length is reserved in such steps */

/* ---- parameters ------------------------------------------------------------------------------ */

/* Take a pair of /v1/transcribe's query. This form is the project's own, so an unknown name is a
 * mistake and an error. */
static steno_status on_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    char meant[STENO_OPTIONS_MEANT];
    bool flag;
    steno_status st;
    if (!strcmp(name, "format"))
        return steno_upload_set_format(up, value, err);
    if (!strcmp(name, "model"))
        return steno_upload_set_model(up, value, err);
    if (!strcmp(name, "channel"))
        return steno_query_int(name, value, 0, STENO_OPENAI_CHANNELS, &up->want.ask.channel, err);
    if (!strcmp(name, "multichannel"))
        return steno_query_bool(name, value, &up->want.multichannel, err);
    if (!strcmp(name, "beam"))
        return steno_query_int(name, value, 0, STENO_MAX_BEAM, &up->want.beam, err);
    if (!strcmp(name, "vad"))
        return steno_vad_choice_parse(value, &up->want.vad, err);
    if (!strcmp(name, "n_best"))
        return steno_query_int(name, value, 0, STENO_MAX_BEAM, &up->want.n_best, err);
    if (!strcmp(name, STENO_WORD_TIMES))
        return steno_word_times_parse(value, &up->want.aligned, err);
    if (steno_voices_known(name))
        return steno_voices_set(&up->want.ask.voices, name, value, err);
    if (steno_hint_known(name))
        return steno_hint_set(&up->want.ask.hints, name, value, err);
    if (steno_options_known(name))
        return steno_options_set(&up->want.options, name, value, err);
    if (steno_subtitle_option_known(name))
        return steno_subtitle_option_set(&up->want.subtitle, name, value, err);
    if (strcmp(name, "words") && strcmp(name, "segments"))
        return steno_fail(
            err, STENO_ERR_INVAL, "query: '%.40s' is unknown%s; /openapi.yaml has all", name,
            steno_options_meant("format, model, channel, multichannel, beam, n_best, vad, words, "
                                "word_times, segments, " STENO_SUBTITLE_NAMES
                                ", " STENO_VOICES_NAMES ", " STENO_HINT_NAMES,
                                name, meant));
    st = steno_query_bool(name, value, &flag, err);
    if (!st && !strcmp(name, "words"))
        up->want.no_words = !flag;
    else if (!st)
        up->want.no_endpointing = !flag;
    return st;
}

/* Whether a name is an extension of OpenAI's form by this project. */
static bool is_extension(const char *name)
{
    return !strcmp(name, "n_best") || !strcmp(name, "vad") || !strcmp(name, STENO_WORD_TIMES) ||
           !strcmp(name, "multichannel") || steno_voices_known(name) ||
           steno_subtitle_option_known(name) || steno_native_is_option(name);
}

/* A field of OpenAI's form that is an extension. Its own `temperature` is an option of families
 * too, but it is sent to all models. */
static bool is_extended_field(const char *name)
{
    return is_extension(name) && strcmp(name, "temperature") != 0;
}

/* OpenAI's form has no query. `model`, `channel` and this project's extensions may be in the query
 * as well as in a field. Other names belong to others (api-version, for example) and are ignored.
 */
static steno_status on_openai_query(void *user, const char *name, const char *value, steno_err *err)
{
    return strcmp(name, "model") && strcmp(name, "channel") && !is_extension(name)
               ? STENO_OK
               : on_query(user, name, value, err);
}

/* "NAME[]" is one item of a list: OpenAI's clients send arrays so. Whether it is one to append to
 * an option; its name loses the brackets, as do those of filters, whose values add up anyway. */
static bool is_item(char *name)
{
    const struct steno_option_info *o;
    const size_t n = strlen(name);
    if (n < 2 || strcmp(name + n - 2, "[]") != 0)
        return false;
    name[n - 2] = '\0';
    o = steno_option_find(name);
    if (o && o->kind == STENO_OPTION_LIST)
        return true;
    if (strcmp(name, "redact") != 0 && strcmp(name, "replace") != 0)
        name[n - 2] = '[';
    return false;
}

/* Append an item to the list that the items before it made. */
static steno_status add_item(struct steno_upload *up, const char *value, steno_err *err)
{
    char number[STENO_OPTION_TEXT];
    const char *before = steno_options_get(&up->want.options, up->in.field_name, number);
    struct steno_buf all;
    steno_status st;
    steno_buf_init(&all, 2 * STENO_OPENAI_FIELD);
    st = steno_buf_printf(&all, "%s%s%s", before ? before : "", before ? "," : "", value);
    st = st ? steno_fail(err, st, "%s: longer than %d bytes", up->in.field_name, STENO_OPENAI_FIELD)
            : on_query(up, up->in.field_name, all.data, err);
    steno_buf_free(&all);
    return st;
}

/* Set a field of the form that is an extension; *param gets its name. */
static steno_status set_extension(struct steno_upload *up, bool item, steno_err *err)
{
    steno_status st;
    if (!up->in.field.len) /* as steno_openai_field */
        return STENO_OK;
    st = steno_buf_add(&up->in.field, "", 1);
    if (st || memchr(up->in.field.data, '\0', up->in.field.len - 1))
        return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL, or is too long",
                          up->in.field_name);
    up->fault.param = up->in.field_name;
    return item ? add_item(up, up->in.field.data, err)
                : on_query(up, up->in.field_name, up->in.field.data, err);
}

/* Keep a field of a job's form; *param gets its name. */
static steno_status set_stored(struct steno_upload *up, steno_err *err)
{
    steno_status st = steno_buf_add(&up->in.field, "", 1);
    if (st || memchr(up->in.field.data, '\0', up->in.field.len - 1))
        return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL, or is too long",
                          up->in.field_name);
    up->fault.param = up->in.field_name;
    return steno_upload_storing_of(up)->take_pair(up, up->in.field_name, up->in.field.data, err);
}

size_t steno_upload_max(const struct steno_upload *up)
{
    const struct steno_config *conf = up->sv->srv->conf;
    if (up->json)
        return STENO_JSON_MAX_BYTES;
    return up->stored ? conf->jobs_bytes : conf->body_bytes;
}

steno_status steno_upload_too_large(const struct steno_upload *up, steno_err *err)
{
    size_t max = steno_upload_max(up);
    /* OpenAI's wording, which clients may look for */
    return steno_fail(err, STENO_ERR_LIMIT,
                      "Maximum content size limit (%zu) exceeded (%zu bytes read)", max,
                      up->in.content_length > max ? up->in.content_length : max + 1);
}

steno_status steno_upload_keep_memory(struct steno_upload *up, const char *data, size_t n,
                                      steno_err *err)
{
    steno_status st;
    size_t need;
    if (!steno_add_size(up->in.body.len, n, &need) || need > up->in.body.max)
        return steno_upload_too_large(up, err);
    while (up->in.reserved < need) {
        size_t step = need - up->in.reserved > RESERVE_STEP ? need - up->in.reserved : RESERVE_STEP;
        st = steno_limits_reserve(up->sv->srv->limits, step, err);
        if (st)
            return st;
        up->in.reserved += step;
    }
    if (up->form == STENO_UPLOAD_DEEPGRAM)
        steno_sha256_add(&up->in.sum, data, n);
    st = steno_buf_add(&up->in.body, data, n);
    return st ? steno_fail(err, st, "out of memory for the upload") : STENO_OK;
}

static steno_status keep_data(struct steno_upload *up, const char *data, size_t n, steno_err *err)
{
    return up->stored ? steno_upload_storing_of(up)->keep(up, data, n, err)
                      : steno_upload_keep_memory(up, data, n, err);
}

/* The encoding of samples without a header. Other recordings tell their own. */
static steno_status set_encoding(struct steno_upload *up, const char *value, steno_err *err)
{
    enum steno_encoding encoding;
    steno_status st = steno_deepgram_encoding(value, &encoding, err);
    if (!st && !strcmp(value, "opus"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "encoding: packets of opus have no bounds in a body; Ogg has");
    if (st || encoding == STENO_ENCODING_CONTAINER || encoding == STENO_ENCODING_OPUS)
        return st;
    up->want.raw_named = true;
    return steno_pcm_parse(steno_encoding_name(encoding), &up->want.raw.format, err);
}

static steno_status set_channels(struct steno_upload *up, const char *value, steno_err *err)
{
    int n = 0;
    steno_status st = steno_query_int("channels", value, 1, STENO_CHANNELS_MAX, &n, err);
    up->want.raw.channels = (unsigned)n;
    return st;
}

/* The query is read: whether it describes samples without a header. */
static steno_status check_raw(struct steno_upload *up, steno_err *err)
{
    if (!up->want.raw_named) {
        up->want.raw = (struct steno_raw_audio){0};
        return STENO_OK;
    }
    if (!up->want.raw.channels)
        up->want.raw.channels = 1;
    if (up->want.raw.sample_rate)
        return STENO_OK;
    up->fault.param = "sample_rate";
    return steno_fail(err, STENO_ERR_INVAL, "sample_rate: must be given with encoding");
}

/* Deepgram's form: names of features that this server does not have are ignored. */
static steno_status on_deepgram_query(void *user, const char *name, const char *value,
                                      steno_err *err)
{
    struct steno_upload *up = user;
    if (!strcmp(name, "callback"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "callback: not possible here; this server keeps no jobs (jobs.dir is "
                          "empty)");
    if (!strcmp(name, "encoding"))
        return set_encoding(up, value, err);
    if (!strcmp(name, "sample_rate"))
        return steno_query_int(name, value, STENO_RATE_MIN, STENO_RATE_MAX,
                               &up->want.raw.sample_rate, err);
    if (!strcmp(name, "channels"))
        return set_channels(up, value, err);
    if (!strcmp(name, "alternatives"))
        return steno_query_int(name, value, 1, STENO_MAX_BEAM, &up->want.n_best, err);
    if (!strcmp(name, "search")) {
        up->want.deepgram.search = &up->want.search;
        return steno_deepgram_add_search(&up->want.search, value, err);
    }
    if (steno_deepgram_is_want(name))
        return steno_deepgram_want(&up->want.deepgram, &up->want.ask.hints, &up->want.options, name,
                                   value, err);
    if (!strcmp(name, "model") || (is_extension(name) && strcmp(name, "diarize") != 0))
        return on_query(user, name, value, err);
    up->want.deepgram.no_networks = !up->sv->srv->speakers;
    return steno_deepgram_diarize(&up->want.deepgram, name, value, &up->want.ask.voices.on, err);
}

/* whisper-asr-webservice's form has all parameters here; `model` and the extensions of OpenAI's are
 * this project's. */
static steno_status on_asr_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    if (!*value) /* of a page's form */
        return STENO_OK;
    if (!strcmp(name, "model") || !strcmp(name, "channel") ||
        (is_extension(name) && strcmp(name, "diarize") != 0))
        return on_query(user, name, value, err);
    return steno_whisper_asr_query(&up->want.ask, &up->want.asr, name, value, err);
}

/* ---- fields of forms ------------------------------------------------------------------------- */

static const char *field_value(const struct steno_upload *up)
{
    return up->in.field.data ? up->in.field.data : "";
}

/* Take a field that is this project's extension of the form. *is: whether it is one. */
static steno_status set_extended(struct steno_upload *up, bool *is, steno_err *err)
{
    const bool item = is_item(up->in.field_name);
    *is = is_extended_field(up->in.field_name);
    return *is ? set_extension(up, item, err) : STENO_OK;
}

static steno_status on_openai_field(struct steno_upload *up, steno_err *err)
{
    bool is;
    steno_status st = set_extended(up, &is, err);
    return is ? st
              : steno_openai_field(&up->want.ask, up->in.field_name, field_value(up),
                                   up->in.field.len, &up->fault.param, err);
}

static steno_status on_whisper_cpp_field(struct steno_upload *up, steno_err *err)
{
    bool is;
    if (!steno_whisper_cpp_known(up->in.field_name))
        return set_extended(up, &is, err);
    return steno_whisper_cpp_field(&up->want.ask, &up->want.cpp, up->in.field_name, field_value(up),
                                   up->in.field.len, &up->fault.param, err);
}

static steno_status check_openai(struct steno_upload *up, steno_err *err)
{
    return steno_openai_check(&up->want.ask, &up->fault.param, err);
}

static steno_status check_own_file(struct steno_upload *up, steno_err *err)
{
    return steno_upload_check_file(up, steno_upload_file_field(up), err);
}

/* What whisper.cpp's form asks for becomes what jobs know. */
static steno_status check_whisper_cpp(struct steno_upload *up, steno_err *err)
{
    if (up->want.cpp.beam)
        up->want.beam = up->want.cpp.beam;
    up->want.seconds = up->want.cpp.seconds;
    up->want.multichannel |= up->want.cpp.speakers;
    up->want.ask.voices.on |= up->want.cpp.speakers;
    if (up->want.cpp.detect) {
        *up->want.ask.hints.language = '\0';
        if (!(up->want.seconds > 0) || up->want.seconds > STENO_DETECT_SECONDS)
            up->want.seconds = STENO_DETECT_SECONDS;
    }
    return check_own_file(up, err);
}

/* ---- /v1/speakers ---------------------------------------------------------------------------- */

static steno_status on_enroll_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    if (strcmp(name, "name") != 0)
        return steno_fail(err, STENO_ERR_INVAL, "'%.40s' is unknown; known are name and file",
                          name);
    snprintf(up->want.enroll, sizeof up->want.enroll, "%s", value);
    return steno_speaker_name_check(value, err);
}

static steno_status on_enroll_field(struct steno_upload *up, steno_err *err)
{
    const steno_status st = steno_buf_add(&up->in.field, "", 1);
    up->fault.param = up->in.field_name;
    return st || memchr(up->in.field.data, '\0', up->in.field.len - 1)
               ? steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL, or is too long",
                            up->in.field_name)
               : on_enroll_query(up, up->in.field_name, up->in.field.data, err);
}

static steno_status check_enroll(struct steno_upload *up, steno_err *err)
{
    up->fault.param = "name";
    return *up->want.enroll ? check_own_file(up, err)
                            : steno_fail(err, STENO_ERR_INVAL, "no 'name' field in the request");
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* How the requests of a form are read. */
static const struct reader {
    steno_query_fn parameter; /* takes a pair of the query */
    const char *file;         /* the field with the recording; NULL: the body is the recording */
    /* Takes the field of up->in.field_name and up->in.field. NULL: all parameters are in the query,
     * and other fields are ignored. */
    steno_status (*field)(struct steno_upload *up, steno_err *err);
    steno_status (*check)(struct steno_upload *up, steno_err *err); /* after the last field */
} readers[] = {
    [STENO_UPLOAD_OPENAI] = {on_openai_query, "file", on_openai_field, check_openai},
    [STENO_UPLOAD_NATIVE] = {on_query, NULL, NULL, NULL},
    [STENO_UPLOAD_DEEPGRAM] = {on_deepgram_query, NULL, NULL, NULL},
    [STENO_UPLOAD_WHISPER_CPP] = {on_openai_query, "file", on_whisper_cpp_field, check_whisper_cpp},
    [STENO_UPLOAD_WHISPER_ASR] = {on_asr_query, "audio_file", NULL, check_own_file},
    [STENO_UPLOAD_DETECT] = {on_asr_query, "audio_file", NULL, check_own_file},
    [STENO_UPLOAD_ALIGN] = {steno_upload_align_parameter, "file", steno_upload_align_field,
                            steno_upload_align_check},
    [STENO_UPLOAD_ENROLL] = {on_enroll_query, "file", on_enroll_field, check_enroll},
};

const char *steno_upload_file_field(const struct steno_upload *up)
{
    const char *name = readers[up->form].file;
    return name ? name : "file"; /* of a job's form */
}

steno_status steno_upload_check_form(struct steno_upload *up, steno_err *err)
{
    return readers[up->form].check(up, err);
}

/* Take a pair of the query; when it is wrong, up->fault.param names it. */
static steno_status on_parameter(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_upload *up = user;
    steno_status st = STENO_OK;
    if (!steno_credentials_parameter(name))
        st = readers[up->form].parameter(user, name, value, err);
    if (!st)
        return STENO_OK;
    snprintf(up->in.field_name, sizeof up->in.field_name, "%s", name);
    up->fault.param = up->in.field_name;
    return st;
}

/* Jobs keep all fields. */
static bool ignores_fields(const struct steno_upload *up)
{
    return !up->stored && !readers[up->form].field;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* A recording in a field, to know a speaker by: too long for a field of a job. */
static steno_status begin_reference(struct steno_upload *up, steno_err *err)
{
    up->fault.param = STENO_KNOWN_VOICE_FIELD;
    up->in.in_reference = true;
    return up->stored ? steno_fail(err, STENO_ERR_INVAL,
                                   STENO_KNOWN_VOICE_FIELD "[]: not possible in jobs")
                      : steno_known_voices_begin(&up->want.known, err);
}

static steno_status on_part(void *user, const char *name, const char *filename, steno_err *err)
{
    struct steno_upload *up = user;
    const char *file = steno_upload_file_field(up);
    const size_t known = strlen(STENO_KNOWN_VOICE_FIELD);
    up->in.in_reference = up->in.in_text = false;
    if (up->form == STENO_UPLOAD_OPENAI && !strncmp(name, STENO_KNOWN_VOICE_FIELD, known) &&
        (!name[known] || !strcmp(name + known, "[]"))) {
        up->in.in_file = false;
        return begin_reference(up, err);
    }
    up->in.in_text = up->form == STENO_UPLOAD_ALIGN && !strcmp(name, STENO_ALIGN_TEXT);
    up->in.in_file = !strcmp(name, file);
    up->fault.param = up->in.in_file ? file : NULL;
    if (up->in.in_file && up->want.ask.has_file)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the form has more than one", file);
    up->want.ask.has_file |= up->in.in_file;
    if (up->in.in_file) /* its format is not trusted: the first bytes tell that */
        snprintf(up->in.file_name, sizeof up->in.file_name, "%s", filename ? filename : "");
    snprintf(up->in.field_name, sizeof up->in.field_name, "%s", name);
    up->in.field_is_file = filename && *filename;
    steno_buf_reset(&up->in.field);
    return STENO_OK;
}

static steno_status on_part_data(void *user, const char *data, size_t n, steno_err *err)
{
    struct steno_upload *up = user;
    if (up->in.in_file)
        return keep_data(up, data, n, err);
    if (up->in.in_text)
        return steno_upload_align_text(up, data, n, err);
    if (up->in.in_reference)
        return steno_known_voices_add(&up->want.known, data, n, err);
    if (ignores_fields(up)) { /* but for their size, which may be that of a recording */
        up->in.ignored += n;
        return up->in.ignored > steno_upload_max(up) ? steno_upload_too_large(up, err) : STENO_OK;
    }
    if (!steno_buf_add(&up->in.field, data, n))
        return STENO_OK;
    if (up->in.field_is_file &&
        !up->want.ask.has_file) { /* the recording, by another server's name */
        up->fault.param = steno_upload_file_field(up);
        return steno_fail(err, STENO_ERR_INVAL,
                          "%s: is missing; the form has a file in the field '%s'", up->fault.param,
                          up->in.field_name);
    }
    up->fault.param = up->in.field_name;
    return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", up->in.field_name,
                      STENO_OPENAI_FIELD);
}

static steno_status on_part_end(void *user, steno_err *err)
{
    struct steno_upload *up = user;
    steno_status st = STENO_OK;
    if (up->in.in_reference)
        st = steno_known_voices_end(&up->want.known, err);
    else if (!up->in.in_file && up->stored)
        st = set_stored(up, err);
    else if (!up->in.in_file && !up->in.in_text && !ignores_fields(up))
        st = readers[up->form].field(up, err);
    if (!st)
        up->fault.param = NULL; /* later failures are not this part's fault */
    return st;
}

bool steno_upload_read_length(struct steno_request *rq, struct steno_upload *up)
{
    const char *text = steno_request_header(rq, "Content-Length");
    size_t v = 0;
    for (; text && *text; text++) {
        if (*text < '0' || *text > '9' || !steno_mul_size(v, 10, &v) ||
            !steno_add_size(v, (size_t)(*text - '0'), &v))
            return false;
    }
    up->in.content_length = v;
    return true;
}

steno_status steno_upload_open_body(struct steno_request *rq, struct steno_upload *up,
                                    steno_err *err)
{
    const char *encoding = steno_request_header(rq, "Content-Encoding");
    steno_status st;
    if (encoding && strcasecmp(encoding, "identity"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "Content-Encoding '%.40s' is not supported",
                          encoding);
    /* a page of others may send text without asking (Fetch, 2.2.2), and a recording is none */
    if (steno_request_has_type(rq, "text/"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "Content-Type: text is not a recording");
    if (up->stored)
        return steno_upload_storing_of(up)->open(rq, up, err);
    st = steno_upload_read_target(up, rq->target, err);
    return st || !readers[up->form].file ? st : steno_upload_open_parts(rq, up, err);
}

steno_status steno_upload_read_target(struct steno_upload *up, const char *target, steno_err *err)
{
    steno_status st;
    if (up->form == STENO_UPLOAD_DEEPGRAM)
        steno_deepgram_default_options(&up->want.options);
    st = steno_query_each(target, on_parameter, up, err);
    if (!st && up->form == STENO_UPLOAD_DETECT) {
        up->want.seconds = STENO_DETECT_SECONDS;
        up->want.ask.hints.translate = false;
        *up->want.ask.hints.language = '\0';
    }
    if (!st && up->want.asr.raw) {
        up->want.raw_named = true;
        up->want.raw.sample_rate = STENO_WHISPER_ASR_RATE;
        st = steno_pcm_parse("s16le", &up->want.raw.format, err);
    }
    return st ? st : check_raw(up, err);
}

steno_status steno_upload_open_parts(struct steno_request *rq, struct steno_upload *up,
                                     steno_err *err)
{
    const struct steno_multipart_events events = {up, on_part, on_part_data, on_part_end};
    return steno_multipart_open(&up->in.parts, steno_request_header(rq, "Content-Type"), &events,
                                err);
}

steno_status steno_upload_take(struct steno_upload *up, const char *data, size_t n, steno_err *err)
{
    return up->in.parts ? steno_multipart_push(up->in.parts, data, n, err)
                        : keep_data(up, data, n, err);
}
