/* libmicrohttpd (0.9.75) answers some requests before this program sees them: a head that does not
 * fit its memory, chunks that are none. Its answers are pages of HTML, which clients of an API
 * cannot read, and it has no function to change them. It makes them by the public function below,
 * through the linker's table. There a program's own definition comes first, so this one is called,
 * and makes JSON of them. A libmicrohttpd that calls its own function keeps its pages. */
#define _GNU_SOURCE /* memmem */
#include "protocol/openai_rest.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "<html><head><title>" /* ours begin otherwise */

/* The text of a page between a begin and an end; "" if it has none. */
static const char *between(const char *page, size_t size, const char *begin, const char *end,
                           size_t *n)
{
    const char *p = memmem(page, size, begin, strlen(begin)), *q;
    *n = 0;
    if (!p)
        return "";
    p += strlen(begin);
    q = memmem(p, size - (size_t)(p - page), end, strlen(end));
    *n = q ? (size_t)(q - p) : 0;
    return p;
}

/* *json stays empty if memory is out. */
static void write_error(struct steno_buf *json, const char *page, size_t size)
{
    char text[256];
    size_t n, n_title;
    const char *title = between(page, size, "<title>", "</title>", &n_title),
               *body = between(page, size, "<body>", "</body>", &n);
    const bool large = n_title == 15 && !memcmp(title, "Request too big", 15);
    if (n >= sizeof text)
        n = sizeof text - 1;
    memcpy(text, body, n);
    text[n] = '\0';
    if (steno_openai_write_error(json, text, "invalid_request_error", NULL,
                                 large ? "head_too_large" : "invalid_argument"))
        steno_buf_reset(json);
}

static struct MHD_Response *respond_error(const char *page, size_t size)
{
    struct MHD_Response *rs = NULL;
    struct steno_buf json;
    char *p;
    steno_buf_init(&json, 2048);
    write_error(&json, page, size);
    p = json.len ? malloc(json.len) : NULL;
    if (p) {
        memcpy(p, json.data, json.len);
        rs = MHD_create_response_from_buffer_with_free_callback(json.len, p, free);
        if (rs)
            (void)MHD_add_response_header(rs, "Content-Type", "application/json");
        else
            free(p);
    }
    steno_buf_free(&json);
    return rs;
}

/* As the library's. */
__attribute__((visibility("default"))) struct MHD_Response *
MHD_create_response_from_buffer(size_t size, void *buffer, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *rs;
    void *copy = buffer;
    if (mode == MHD_RESPMEM_PERSISTENT && size > strlen(PAGE) &&
        !memcmp(buffer, PAGE, strlen(PAGE)) && (rs = respond_error(buffer, size)))
        return rs;
    if (mode == MHD_RESPMEM_MUST_COPY && size && (copy = malloc(size)))
        memcpy(copy, buffer, size);
    if (size && !copy)
        return NULL;
    rs = MHD_create_response_from_buffer_with_free_callback(
        size, copy, mode == MHD_RESPMEM_PERSISTENT || !size ? NULL : free);
    if (!rs && mode == MHD_RESPMEM_MUST_COPY && size)
        free(copy);
    return rs;
}
