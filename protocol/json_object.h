/* Messages of clients as trees. */
#ifndef STENO_PROTOCOL_JSON_OBJECT_H
#define STENO_PROTOCOL_JSON_OBJECT_H

#include "base/status.h"

struct json_t;
/* Parse a JSON object p [n] within the limits of json_text.h. The caller releases the result with
 * json_decref. Errors as of steno_native_parse. */
STENO_MUST steno_status steno_json_object(struct json_t **out, const char *p, size_t n,
                                          steno_err *err);

#endif
