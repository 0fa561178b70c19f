/* POST /v1/align: a recording, and a text whose words are to be found in it. */
#include "server/http/upload_internal.h"

#include "protocol/query.h"
#include "server/core/aligners.h"

#include <stdio.h>
#include <string.h>

/* Bytes that an alignment takes for each byte of its text, at most, as measured. */
#define BYTES_PER_BYTE 224

static steno_status set_granularity(struct steno_upload *up, const char *value, steno_err *err)
{
    up->want.characters = !strcmp(value, "character");
    if (up->want.characters || !strcmp(value, "word"))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "granularity: '%.40s' is neither word nor character",
                      value);
}

steno_status steno_upload_align_parameter(void *user, const char *name, const char *value,
                                          steno_err *err)
{
    struct steno_upload *up = user;
    if (!strcmp(name, "model"))
        return steno_upload_set_model(up, value, err);
    if (!strcmp(name, "format") || !strcmp(name, "response_format"))
        return steno_upload_set_format(up, value, err);
    if (!strcmp(name, "granularity"))
        return set_granularity(up, value, err);
    if (!strcmp(name, "channel"))
        return steno_query_int(name, value, 0, STENO_OPENAI_CHANNELS, &up->want.ask.channel, err);
    if (!strcmp(name, "language"))
        return steno_hint_set(&up->want.ask.hints, name, value, err);
    if (steno_subtitle_option_known(name))
        return steno_subtitle_option_set(&up->want.subtitle, name, value, err);
    return steno_fail(
        err, STENO_ERR_INVAL,
        "'%.40s' is unknown; known are file, " STENO_ALIGN_TEXT
        ", model, language, response_format, granularity, channel, " STENO_SUBTITLE_NAMES,
        name);
}

steno_status steno_upload_align_field(struct steno_upload *up, steno_err *err)
{
    up->fault.param = up->in.field_name;
    if (!up->in.field.len) /* forms of pages send the fields that nobody filled in */
        return STENO_OK;
    if (steno_buf_add(&up->in.field, "", 1))
        return steno_fail(err, STENO_ERR_INVAL, "%s: is too long", up->in.field_name);
    if (memchr(up->in.field.data, '\0', up->in.field.len - 1))
        return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL", up->in.field_name);
    return steno_upload_align_parameter(up, up->in.field_name, up->in.field.data, err);
}

steno_status steno_upload_align_text(struct steno_upload *up, const char *data, size_t n,
                                     steno_err *err)
{
    const steno_status st = steno_buf_add(&up->want.text, data, n);
    up->fault.param = STENO_ALIGN_TEXT;
    return st ? steno_fail(err, st, STENO_ALIGN_TEXT ": %s",
                           st == STENO_ERR_LIMIT ? "longer than 1 MiB" : "out of memory")
              : STENO_OK;
}

steno_status steno_upload_align_check(struct steno_upload *up, steno_err *err)
{
    struct steno_buf *text = &up->want.text;
    if (steno_upload_check_file(up, "file", err))
        return err->code;
    up->fault.param = STENO_ALIGN_TEXT;
    if (!text->len)
        return steno_fail(err, STENO_ERR_INVAL, "no '" STENO_ALIGN_TEXT "' field in the request");
    if (steno_limits_reserve(up->sv->srv->limits, text->len * BYTES_PER_BYTE, err))
        return err->code;
    up->in.reserved += text->len * BYTES_PER_BYTE;
    return steno_text_lines_cut(&up->want.lines, text->data, text->len, err);
}

/* Whether the model is the operator's for the language, and which. */
static bool is_listed(const struct steno_upload *up, char name[STENO_ALIGNER_NAME])
{
    return !*up->want.ask.model &&
           steno_aligners_find(up->sv->srv->conf->align_model, up->want.ask.hints.language, name);
}

const char *steno_upload_align_model(const struct steno_upload *up, char *room, size_t size)
{
    char name[STENO_ALIGNER_NAME];
    if (!is_listed(up, name))
        return up->want.ask.model;
    snprintf(room, size, "%s", name);
    return room;
}

steno_status steno_upload_align_check_model(const struct steno_upload *up, steno_err *err)
{
    const struct steno_hints h = {.language = up->want.ask.hints.language};
    char name[STENO_ALIGNER_NAME];
    steno_stream *s = NULL;
    steno_status st =
        is_listed(up, name) ? STENO_OK : steno_hints_check(&up->served->info, &h, err);
    if (!st)
        st = steno_stream_open_lines(&s, up->served->model, NULL, up->want.lines.lines,
                                     up->want.lines.n, err);
    steno_stream_close(s);
    return st;
}
