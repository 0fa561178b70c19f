/* A JSON document (RFC 8259) as a tree. The input is untrusted: depth, nodes and bytes are bounded,
 * and strings must be UTF-8. Frozen after parse. */
#ifndef STENO_FORMATS_JSON_H
#define STENO_FORMATS_JSON_H

#include "base/status.h"

typedef struct steno_json steno_json;

#define STENO_JSON_MAX_BYTES ((size_t)64 << 20)
#define STENO_JSON_MAX_NODES ((size_t)1 << 21)
#define STENO_JSON_MAX_DEPTH 32

enum steno_json_kind {
    STENO_JSON_NULL,
    STENO_JSON_BOOL,
    STENO_JSON_NUMBER,
    STENO_JSON_STRING,
    STENO_JSON_LIST,
    STENO_JSON_OBJECT
};

struct steno_json_node {
    enum steno_json_kind kind;
    const char *key;  /* member of an object: its name, unescaped and terminated; else NULL */
    const char *text; /* string: its value; number, true, false: as written; else NULL */
    size_t line;      /* from 1 */
    size_t n;         /* list, object: children */
    const struct steno_json_node *first, *next;
};

/* Parse n bytes, borrowed for the call; name is used in messages. STENO_ERR_FORMAT, with the line:
 * not JSON, not UTF-8, or a NUL in a string. STENO_ERR_LIMIT: over one of the bounds above.
 * Duplicate keys are all kept; steno_json_get returns the first. */
STENO_MUST steno_status steno_json_parse(steno_json **out, const void *bytes, size_t n,
                                         const char *name, steno_err *err);
/* Read and parse a file. STENO_ERR_IO: the reason. */
STENO_MUST steno_status steno_json_open(steno_json **out, const char *path, steno_err *err);
void steno_json_close(steno_json *j);

const struct steno_json_node *steno_json_root(const steno_json *j);
/* Find a member of an object. NULL if there is none, or if `object` is NULL or not an object.
 * Linear in the number of members. */
const struct steno_json_node *steno_json_get(const struct steno_json_node *object, const char *key);
/* The text of a string; NULL for everything else. */
const char *steno_json_text(const struct steno_json_node *n);
/* Get an integer in min..max. False for everything else (NULL, fractions, exponents). */
bool steno_json_int(const struct steno_json_node *n, int64_t min, int64_t max, int64_t *out);
/* Get a boolean. False unless n is true or false. */
bool steno_json_bool(const struct steno_json_node *n, bool *out);

#endif
