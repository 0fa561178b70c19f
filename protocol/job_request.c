#include "protocol/job_request.h"

#include "protocol/json_object.h"

#include <jansson.h>
#include <string.h>

static steno_status add_url(const json_t *value, struct steno_buf *urls, size_t *n, steno_err *err)
{
    const char *url = json_string_value(value);
    if (!url || !*url)
        return steno_fail(err, STENO_ERR_INVAL, "url: must be a string that is not empty");
    if (*n == STENO_JOB_URLS)
        return steno_fail(err, STENO_ERR_INVAL, "urls: more than %d", STENO_JOB_URLS);
    if (steno_buf_add(urls, url, strlen(url) + 1))
        return steno_fail(err, STENO_ERR_INVAL, "urls: longer than %zu bytes", urls->max);
    ++*n;
    return STENO_OK;
}

static steno_status add_urls(const json_t *list, struct steno_buf *urls, size_t *n, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!json_is_array(list))
        return steno_fail(err, STENO_ERR_INVAL, "urls: must be an array of strings");
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = add_url(json_array_get(list, i), urls, n, err);
    return st;
}

static steno_status pass_pair(const char *name, const json_t *value, steno_query_fn pair,
                              void *user, steno_err *err)
{
    char text[32];
    if (json_is_string(value)) {
        if (strlen(json_string_value(value)) != json_string_length(value))
            return steno_fail(err, STENO_ERR_INVAL, "%.40s: holds a NUL", name);
        return pair(user, name, json_string_value(value), err);
    }
    if (json_is_boolean(value))
        return pair(user, name, json_is_true(value) ? "true" : "false", err);
    if (json_is_null(value))
        return STENO_OK;
    if (!json_is_number(value))
        return steno_fail(err, STENO_ERR_INVAL, "%.40s: must be a string, a number or a boolean",
                          name);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(text, sizeof text, "%.15g", json_real_value(value));
    return pair(user, name, text, err);
}

static steno_status read_object(json_t *root, steno_query_fn pair, void *user,
                                struct steno_buf *urls, size_t *n_urls, steno_err *err)
{
    const char *name;
    json_t *value;
    steno_status st = STENO_OK;
    json_object_foreach (root, name, value) {
        if (!strcmp(name, "url"))
            st = add_url(value, urls, n_urls, err);
        else if (!strcmp(name, "urls"))
            st = add_urls(value, urls, n_urls, err);
        else
            st = pass_pair(name, value, pair, user, err);
        if (st)
            return st;
    }
    return *n_urls
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL, "url: missing; the body must name a recording");
}

steno_status steno_job_request_read(const char *p, size_t n, steno_query_fn pair, void *user,
                                    struct steno_buf *urls, size_t *n_urls, steno_err *err)
{
    json_t *root;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    *n_urls = 0;
    st = read_object(root, pair, user, urls, n_urls, err);
    json_decref(root);
    return st;
}

steno_status steno_target_add(struct steno_buf *target, const char *name, const char *value)
{
    const bool first = !target->len || !memchr(target->data, '?', target->len);
    steno_status st = steno_buf_puts(target, first ? "?" : "&");
    if (!st)
        st = steno_query_encode(target, name);
    if (!st)
        st = steno_buf_puts(target, "=");
    return st ? st : steno_query_encode(target, value);
}
