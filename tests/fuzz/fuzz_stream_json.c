/* Text messages and query parameters of the native dialect. Any bytes are parsed or refused with
 * a message. Accepted values are within the documented ranges and can be written back as
 * `ready`. */
/* covers: protocol/stream_native.c protocol/json_text.c protocol/options.c protocol/vad.c */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/stream_native.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_start(const struct steno_native_start *s)
{
    struct steno_native_head h = {"sess_fuzz", 0, 0, 0, 0, 0, NULL};
    struct steno_buf b;
    json_t *root;
    if (!steno_encoding_name(s->audio.encoding) || s->alternatives < 1 ||
        s->alternatives > STENO_NATIVE_MAX_ALTERNATIVES || s->beam < 0 ||
        s->beam > STENO_MAX_BEAM || !memchr(s->model, '\0', sizeof s->model))
        abort();
    steno_buf_init(&b, 65536);
    if (steno_native_write_ready(&b, &h, s))
        abort();
    root = json_loadb(b.data, b.len, 0, NULL);
    if (!root)
        abort();
    json_decref(root);
    steno_buf_free(&b);
}

/* The bytes as text of an error message: the message is JSON. */
static void check_string(const char *p, size_t n)
{
    struct steno_buf b;
    json_t *v;
    steno_buf_init(&b, 8 * n + 16);
    if (steno_json_put_string(&b, p, n))
        abort();
    v = json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!v)
        abort();
    json_decref(v);
    steno_buf_free(&b);
}

static void check_query(const char *p, size_t n)
{
    struct steno_native_resume r;
    struct steno_native_start s;
    char pair[512], *value;
    steno_err err;
    if (n >= sizeof pair) /* the server passes on no longer pairs of a query */
        return;
    memcpy(pair, p, n);
    pair[n] = '\0';
    value = strchr(pair, '=');
    if (value)
        *value++ = '\0';
    steno_native_resume_init(&r);
    if (!steno_native_resume_query(pair, value ? value : "", &r, &err) &&
        !memchr(r.session_id, '\0', sizeof r.session_id))
        abort();
    steno_native_start_init(&s);
    if (steno_native_query(pair, value ? value : "", &s, &err) == STENO_OK &&
        steno_native_start_complete(&s, &err) == STENO_OK)
        check_start(&s);
}

/* The bytes as a configuration's list of search options. Accepted options are marked as set, and
 * a request without them gets them. */
static void check_list(const char *p, size_t n)
{
    struct steno_options got = {0}, request = {0};
    struct steno_option_list out;
    int beam = -1;
    char list[1024];
    steno_err err = {.msg = ""};
    if (n >= sizeof list)
        return;
    memcpy(list, p, n);
    list[n] = '\0';
    if (steno_options_read_list(&got, &beam, list, &err)) {
        if (!err.msg[0])
            abort();
        return;
    }
    if (beam < -1 || beam > STENO_MAX_BEAM)
        abort();
    steno_options_complete(&request, &got);
    if (!steno_options_equal(&request, &got))
        abort();
    steno_options_list(&got, STENO_OPTION_OF_STREAM, &out);
    if (out.n != got.n)
        abort();
    for (size_t i = 0; i < out.n; i++)
        if (steno_option_check(out.v[i].name, out.v[i].value, NULL))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_native_start defaults;
    struct steno_native_message m;
    steno_err err = {.msg = ""};
    const char *p = (const char *)data;
    steno_status st;
    steno_native_start_init(&defaults);
    st = steno_native_parse(p, n, &defaults, &m, &err);
    if (st ? !err.msg[0] : m.type > STENO_NATIVE_KEEPALIVE)
        abort();
    if (!st && m.type == STENO_NATIVE_START)
        check_start(&m.start);
    check_string(p, n);
    check_query(p, n);
    check_list(p, n);
    return 0;
}
