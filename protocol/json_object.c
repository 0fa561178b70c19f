#include "protocol/json_object.h"

#include <jansson.h>

#include "protocol/json_text.h"

steno_status steno_json_object(struct json_t **out, const char *p, size_t n, steno_err *err)
{
    json_error_t je;
    json_t *root;
    steno_status st = steno_json_check(p, n, err);
    if (st)
        return st;
    root = json_loadb(p, n, JSON_REJECT_DUPLICATES, &je);
    /* jansson 2.14 leaves the text empty when it fails before the first byte */
    if (!root && (!je.text[0] || json_error_code(&je) == json_error_out_of_memory))
        return steno_fail(err, STENO_ERR_NOMEM, "message: out of memory");
    if (!root)
        return steno_fail(err, STENO_ERR_FORMAT, "message: not JSON: line %d, column %d: %s",
                          je.line, je.column, je.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return steno_fail(err, STENO_ERR_FORMAT, "message: must be a JSON object");
    }
    *out = root;
    return STENO_OK;
}
