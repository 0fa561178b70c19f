/* What several forms have. */
#include "server/http/upload_internal.h"

#include <string.h>

steno_status steno_upload_set_format(struct steno_upload *up, const char *value, steno_err *err)
{
    static const struct {
        const char *name;
        enum steno_openai_format format;
    } names[] = {{"json", STENO_OPENAI_JSON},        {"text", STENO_OPENAI_TEXT},
                 {"srt", STENO_OPENAI_SRT},          {"vtt", STENO_OPENAI_VTT},
                 {"lrc", STENO_OPENAI_LRC},          {"tsv", STENO_OPENAI_TSV},
                 {"whisperx", STENO_OPENAI_WHISPERX}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(value, names[i].name)) {
            up->want.ask.format = names[i].format;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL,
                      "format: '%.40s' is not one of json, text, srt, vtt, lrc, tsv, whisperx",
                      value);
}

steno_status steno_upload_set_model(struct steno_upload *up, const char *value, steno_err *err)
{
    if (strlen(value) >= sizeof up->want.ask.model)
        return steno_fail(err, STENO_ERR_INVAL, "model: longer than %zu bytes",
                          sizeof up->want.ask.model - 1);
    memcpy(up->want.ask.model, value, strlen(value) + 1);
    return STENO_OK;
}

steno_status steno_upload_check_file(struct steno_upload *up, const char *file, steno_err *err)
{
    if (up->want.ask.has_file)
        return STENO_OK;
    up->fault.param = file;
    return steno_fail(err, STENO_ERR_INVAL, "no '%s' field in the request", up->fault.param);
}
