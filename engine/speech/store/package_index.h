/* Pages of a Python package index: the simple repository API, as HTML (PEP 503) or JSON
 * (PEP 691). */
#ifndef STENO_STORE_PACKAGE_INDEX_H
#define STENO_STORE_PACKAGE_INDEX_H

#include "base/status.h"

#define STENO_PACKAGE_LINK 4096 /* bytes of a link */

/* Find the link to a file of a project on its page.
 * page: n bytes, borrowed, untrusted. file: its name, "some_package-1.0-py3-none-any.whl".
 * out: the link as written, without its fragment; it may be relative to the page.
 * STENO_ERR_FORMAT: the page is neither form, or the link is too long. STENO_ERR_INVAL: the page
 * has no such file. */
STENO_MUST steno_status steno_package_link(const char *page, size_t n, const char *file,
                                           char out[STENO_PACKAGE_LINK], steno_err *err);

#endif
