#include "server/http/page.h"

#include "base/base64.h"
#include "base/sha256.h"

#include <string.h>

#include "page.inc" /* made by the Makefile from page.html */

/* Append the sum of each element's text as a source (CSP Level 3, 2.3.1). */
static steno_status add_sums(struct steno_buf *out, const char *begin, const char *end)
{
    steno_status st = STENO_OK;
    for (const char *at = steno_page, *to; !st && (at = strstr(at, begin)); at = to) {
        struct steno_sha256 sum;
        uint8_t digest[STENO_SHA256_BYTES];
        at += strlen(begin);
        to = strstr(at, end);
        if (!to)
            break;
        steno_sha256_begin(&sum);
        steno_sha256_add(&sum, at, (size_t)(to - at));
        steno_sha256_end(&sum, digest);
        st = steno_buf_puts(out, " 'sha256-");
        if (!st)
            st = steno_base64_put(out, digest, sizeof digest);
        if (!st)
            st = steno_buf_puts(out, "'");
    }
    return st;
}

steno_status steno_page_policy(struct steno_buf *out)
{
    /* blob: is the page's own code and sound: the worklet of the microphone, recordings that it
     * plays. 'self' includes WebSockets of the same host (CSP Level 3, 6.7.2.8). */
    steno_status st = steno_buf_puts(out, "default-src 'none'; connect-src 'self'; img-src data:; "
                                          "media-src blob:; frame-ancestors 'none'; "
                                          "base-uri 'none'; form-action 'none'; style-src");
    if (!st)
        st = add_sums(out, "<style>", "</style>");
    if (!st)
        st = steno_buf_puts(out, "; script-src blob:");
    return st ? st : add_sums(out, "<script>", "</script>");
}
