/* Deepgram's /v1/listen: the answer of its REST form. Its WebSocket dialect is
 * steno_dialect_deepgram (dialect.h). Source: the OpenAPI and AsyncAPI of deepgram-api-specs
 * (2026-07). Pure. */
#ifndef STENO_PROTOCOL_DEEPGRAM_H
#define STENO_PROTOCOL_DEEPGRAM_H

#include "protocol/openai_rest.h"

struct steno_deepgram_about {
    const char *request_id, *model, *version, *family;
    int channels;
    int64_t created; /* s since 1970 */
};

/* Append the answer of POST /v1/listen: {"metadata", "results"}. */
STENO_MUST steno_status steno_deepgram_write(struct steno_buf *out,
                                             const struct steno_openai_result *r,
                                             const struct steno_deepgram_about *about);
/* Append {"err_code", "err_msg", "request_id"}. */
STENO_MUST steno_status steno_deepgram_write_error(struct steno_buf *out, const char *code,
                                                   const char *message, const char *request_id);

#endif
