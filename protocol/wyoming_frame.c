#include "protocol/wyoming_frame.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"

#define ERROR_BYTES 4096 /* of the data of an error */
#define VERSION "1.8.0"  /* of the protocol's reference implementation */

void steno_wyoming_reader_init(struct steno_wyoming_reader *r, size_t max_text,
                               uint64_t max_payload)
{
    memset(r, 0, sizeof *r);
    r->max_text = max_text;
    r->max_payload = max_payload;
    steno_buf_init(&r->line, max_text);
    steno_buf_init(&r->data, max_text);
}

void steno_wyoming_reader_free(struct steno_wyoming_reader *r)
{
    steno_buf_free(&r->line);
    steno_buf_free(&r->data);
    json_decref(r->head);
    r->head = NULL;
    free(r->event);
    r->event = NULL;
}

static steno_status parse_object(json_t **out, const struct steno_buf *b, const char *what,
                                 steno_err *err)
{
    steno_status st = steno_json_object(out, b->len ? b->data : "", b->len, err);
    return st ? steno_fail_in(err, st, "%s", what) : STENO_OK;
}

/* Read a length of the line; absent and null mean 0. */
static steno_status length(const json_t *line, const char *name, uint64_t max, uint64_t *out,
                           steno_err *err)
{
    const json_t *v = json_object_get(line, name);
    *out = 0;
    if (!v || json_is_null(v))
        return STENO_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return steno_fail(err, STENO_ERR_INVAL, "event: %s must be a number of bytes", name);
    *out = (uint64_t)json_integer_value(v);
    if (*out > max)
        return steno_fail(err, STENO_ERR_LIMIT, "event: %s is %llu, more than %llu", name,
                          (unsigned long long)*out, (unsigned long long)max);
    return STENO_OK;
}

static steno_status take_line(struct steno_wyoming_reader *r, steno_err *err)
{
    steno_status st = parse_object(&r->head, &r->line, "event", err);
    if (!st)
        st = length(r->head, "data_length", r->max_text, &r->data_bytes, err);
    if (!st)
        st = length(r->head, "payload_length", r->max_payload, &r->payload_bytes, err);
    return st;
}

/* Add the data that follow the line to those that are in it. */
static steno_status add_data(struct steno_wyoming_reader *r, json_t *data, steno_err *err)
{
    json_t *more;
    steno_status st = parse_object(&more, &r->data, "event: data", err);
    if (st)
        return st;
    if (json_object_update(data, more))
        st = steno_fail(err, STENO_ERR_NOMEM, "event: out of memory");
    json_decref(more);
    return st;
}

/* The line and the data are complete: make {"type":...,"data":...} of both. */
static steno_status finish_event(struct steno_wyoming_reader *r, steno_err *err)
{
    const char *type = json_string_value(json_object_get(r->head, "type"));
    json_t *data = json_object_get(r->head, "data"), *event;
    steno_status st = STENO_OK;
    data = json_is_object(data) ? json_incref(data) : json_object();
    if (r->data_bytes)
        st = add_data(r, data, err);
    if (!st && (!type || !*type))
        st = steno_fail(err, STENO_ERR_INVAL, "event: has no type");
    if (st) {
        json_decref(data);
        return st;
    }
    event = json_pack("{s:s, s:o}", "type", type, "data", data);
    free(r->event);
    r->event = event ? json_dumps(event, JSON_COMPACT) : NULL;
    json_decref(event);
    r->audio = !strcmp(type, "audio-chunk");
    return r->event ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "event: out of memory");
}

static void begin_event(struct steno_wyoming_reader *r)
{
    steno_buf_reset(&r->line);
    steno_buf_reset(&r->data);
    json_decref(r->head);
    r->head = NULL;
    r->at = STENO_WYOMING_LINE;
}

/* Collect bytes of the line. STENO_OK: it is complete. */
static steno_status read_line(struct steno_wyoming_reader *r, const char *p, size_t n, size_t *used,
                              steno_err *err)
{
    const char *end = n ? memchr(p, '\n', n) : NULL;
    size_t take = end ? (size_t)(end - p) : n;
    steno_status st = steno_buf_add(&r->line, p, take);
    if (st)
        return steno_fail(err, st, "event: the line has more than %zu bytes", r->max_text);
    *used += take + (end != NULL);
    return end ? take_line(r, err) : STENO_NEED_MORE;
}

/* Likewise of the data. */
static steno_status read_data(struct steno_wyoming_reader *r, const char *p, size_t n, size_t *used,
                              steno_err *err)
{
    size_t want = (size_t)r->data_bytes - r->data.len, take = n < want ? n : want;
    steno_status st = steno_buf_add(&r->data, p, take);
    if (st)
        return steno_fail(err, st, "event: data: out of memory");
    *used += take;
    return take < want ? STENO_NEED_MORE : STENO_OK;
}

/* Give bytes of the payload, or drop them. */
static bool read_payload(struct steno_wyoming_reader *r, const char *p, size_t n, size_t *used,
                         struct steno_wyoming_item *item)
{
    size_t take = n < r->left ? n : (size_t)r->left;
    *item = (struct steno_wyoming_item){
        .first = r->left == r->payload_bytes, .last = take == r->left, .data = p, .n = take};
    *used += take;
    r->left -= take;
    if (!r->left)
        begin_event(r);
    return r->audio && take;
}

steno_status steno_wyoming_reader_next(struct steno_wyoming_reader *r, const char *p, size_t n,
                                       size_t *used, struct steno_wyoming_item *item,
                                       steno_err *err)
{
    steno_status st = STENO_OK;
    *used = 0;
    while (r->at == STENO_WYOMING_PAYLOAD) {
        if (*used == n)
            return STENO_NEED_MORE;
        if (read_payload(r, p + *used, n - *used, used, item))
            return STENO_OK;
    }
    if (r->at == STENO_WYOMING_LINE) {
        st = read_line(r, p + *used, n - *used, used, err);
        if (!st)
            r->at = STENO_WYOMING_DATA;
    }
    if (!st)
        st = read_data(r, p + *used, n - *used, used, err);
    if (!st)
        st = finish_event(r, err);
    if (st)
        return st;
    *item = (struct steno_wyoming_item){.is_event = true, .data = r->event, .n = strlen(r->event)};
    r->left = r->payload_bytes;
    if (r->left)
        r->at = STENO_WYOMING_PAYLOAD;
    else
        begin_event(r);
    return STENO_OK;
}

steno_status steno_wyoming_write(struct steno_buf *out, const char *type,
                                 const struct steno_buf *data)
{
    steno_status st = steno_buf_printf(out, "{\"type\":\"%s\",\"version\":\"" VERSION "\"", type);
    if (!st && data->len)
        st = steno_buf_printf(out, ",\"data_length\":%zu", data->len);
    if (!st)
        st = steno_buf_puts(out, "}\n");
    return !st && data->len ? steno_buf_add(out, data->data, data->len) : st;
}

steno_status steno_wyoming_write_error(struct steno_buf *out, const char *code, const char *message)
{
    struct steno_buf data;
    steno_status st;
    steno_buf_init(&data, ERROR_BYTES);
    st = steno_json_printf(&data, "{\"text\":%s,\"code\":%s}", message, code);
    if (!st)
        st = steno_wyoming_write(out, "error", &data);
    steno_buf_free(&data);
    return st;
}
