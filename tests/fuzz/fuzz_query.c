/* Request targets, and the numbers and fields in them. */
/* covers: protocol/query.c protocol/openai_rest.c */
#include "protocol/openai_rest.h"
#include "protocol/query.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static steno_status on_pair(void *user, const char *name, const char *value, steno_err *err)
{
    const char *param = NULL;
    double d;
    int i;
    bool b;
    (void)!steno_query_double(name, value, -1e9, 1e9, &d, err);
    (void)!steno_query_int(name, value, -100, 100, &i, err);
    (void)!steno_query_bool(name, value, &b, err);
    (void)!steno_openai_field(user, name, value, strlen(value), &param, err);
    return STENO_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_openai_request r = {0};
    const char *param = NULL;
    steno_err err = {STENO_OK, ""};
    char decoded[32], *target = malloc(size + 1);
    if (!target)
        return 0;
    if (size)
        memcpy(target, data, size);
    target[size] = '\0';
    if (steno_query_path_len(target) > strlen(target))
        abort();
    (void)!steno_query_decode_path(target, steno_query_path_len(target), decoded, sizeof decoded,
                                   NULL);
    (void)steno_query_path_is(target, steno_query_path_len(target), "/v1/listen");
    if (steno_query_each(target, on_pair, &r, &err) && !err.msg[0])
        abort();
    (void)!steno_openai_check(&r, &param, &err);
    steno_query_make_origin_form(target);
    if (strlen(target) > size)
        abort();
    steno_query_clean_path(target);
    if (strstr(target, "//") && strstr(target, "//") < target + steno_query_path_len(target))
        abort();
    steno_hint_store_free(&r.hints);
    free(target);
    return 0;
}
