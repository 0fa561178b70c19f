/* The page at "/", made from page.html: recordings and the microphone with any model, examples for
 * programs. It loads nothing from elsewhere. */
#ifndef STENO_SERVER_HTTP_PAGE_H
#define STENO_SERVER_HTTP_PAGE_H

#include "base/buf.h"

extern const char steno_page[];

/* Append the page's Content-Security-Policy: only its own script and style run, by their sums; it
 * connects to its own server alone and is shown in no frame. */
STENO_MUST steno_status steno_page_policy(struct steno_buf *out);

#endif
