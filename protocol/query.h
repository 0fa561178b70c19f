/* Request target: path and query (RFC 3986, 3.3 and 3.4; names and values as
 * application/x-www-form-urlencoded, WHATWG URL section 5.1). Pure, confined. */
#ifndef STENO_PROTOCOL_QUERY_H
#define STENO_PROTOCOL_QUERY_H

#include "base/buf.h"

#define STENO_QUERY_TEXT 2048 /* bytes of one decoded name or value, with its NUL */
#define STENO_QUERY_MAX 256   /* pairs; more is STENO_ERR_LIMIT */

/* Called for each pair in order, with borrowed strings. A status other than STENO_OK ends the
 * iteration. */
typedef steno_status (*steno_query_fn)(void *user, const char *name, const char *value,
                                       steno_err *err);

/* Decode every pair of a target's query ("/x?a=1&b=%20"); no '?' means no pairs. STENO_ERR_INVAL
 * for a bad %-escape, a NUL, or bytes that are not UTF-8; the message names the pair. */
STENO_MUST steno_status steno_query_each(const char *target, steno_query_fn fn, void *user,
                                         steno_err *err);
/* Length of the path before the query. */
size_t steno_query_path_len(const char *target);
/* Remove scheme and authority of a target in absolute form (RFC 9112, 3.2.2), in place; an empty
 * path becomes "/". */
void steno_query_make_origin_form(char *target);
/* Clean the path in place: one '/' for several, and none at its end, which clients leave there when
 * they join a base URL and a path. The query stays. */
void steno_query_clean_path(char *target);
/* Whether a path is `want`, but for such slashes. */
bool steno_query_path_is(const char *path, size_t len, const char *want);
/* Decode %-escapes of p [n], part of a path, into out [size]. STENO_ERR_INVAL: a bad escape, a NUL,
 * or too long. */
STENO_MUST steno_status steno_query_decode_path(const char *p, size_t n, char *out, size_t size,
                                                steno_err *err);
/* Append a text with %-escapes for all bytes but letters, digits and "-._~". */
STENO_MUST steno_status steno_query_encode(struct steno_buf *out, const char *text);
/* Parse numbers of queries and form fields: the whole text, within the range. STENO_ERR_INVAL names
 * the field. */
STENO_MUST steno_status steno_query_int(const char *name, const char *text, int min, int max,
                                        int *out, steno_err *err);
STENO_MUST steno_status steno_query_double(const char *name, const char *text, double min,
                                           double max, double *out, steno_err *err);
/* Parse true, false, 1, 0, yes or no. */
STENO_MUST steno_status steno_query_bool(const char *name, const char *text, bool *out,
                                         steno_err *err);

#endif
