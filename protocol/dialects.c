/* Which dialect a path, or a setting, means. */
#include "protocol/dialect.h"

#include <string.h>

#include "protocol/query.h"

const struct steno_dialect *steno_dialect_find(const char *path, size_t len,
                                               const struct steno_dialect *root)
{
    static const struct {
        const char *path;
        const struct steno_dialect *dialect;
    } paths[] = {{"/v1/stream", &steno_dialect_native},
                 {"/v1/listen", &steno_dialect_deepgram},
                 {"/v2/listen", &steno_dialect_flux},
                 {"/v1/realtime", &steno_dialect_realtime},
                 {"/vosk", &steno_dialect_vosk},
                 {"/sherpa", &steno_dialect_sherpa},
                 {"/wenet", &steno_dialect_wenet},
                 {"/openai/v1/realtime", &steno_dialect_realtime},
                 {"/twilio", &steno_dialect_twilio},
                 {"/asterisk", &steno_dialect_asterisk},
                 {"/freeswitch", &steno_dialect_freeswitch}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (steno_query_path_is(path, len, paths[i].path))
            return paths[i].dialect;
    return steno_query_path_is(path, len, "/") ? root : NULL;
}

const struct steno_dialect *steno_dialect_of_root(const char *name)
{
    static const struct {
        const char *name;
        const struct steno_dialect *dialect;
    } roots[] = {{"auto", &steno_dialect_any},
                 {"vosk", &steno_dialect_vosk},
                 {"sherpa", &steno_dialect_sherpa},
                 {"wenet", &steno_dialect_wenet}};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (!strcmp(name, roots[i].name))
            return roots[i].dialect;
    return NULL;
}
