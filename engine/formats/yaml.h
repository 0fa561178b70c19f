/* A YAML document as a tree, read with libyaml's event parser; JSON is YAML too. Scalars,
 * sequences, mappings; no anchors, no tags, one document. The input is untrusted: depth, nodes and
 * bytes are bounded, aliases ("billion laughs") are refused. Frozen after parse. */
#ifndef STENO_FORMATS_YAML_H
#define STENO_FORMATS_YAML_H

#include "base/status.h"

typedef struct steno_yaml steno_yaml;

enum steno_yaml_kind { STENO_YAML_SCALAR, STENO_YAML_LIST, STENO_YAML_MAP };

struct steno_yaml_node {
    enum steno_yaml_kind kind;
    const char *key;  /* in a mapping: its key; else NULL */
    const char *text; /* scalar: its value, terminated */
    bool quoted;      /* scalar: written in quotes, so a string whatever its characters */
    size_t line;      /* from 1 */
    size_t n;         /* list, mapping: children */
    const struct steno_yaml_node *first, *next;
};

/* Parse n bytes; name is used in messages. STENO_ERR_FORMAT with the line, also for a duplicate
 * key; STENO_ERR_LIMIT: over 64 MiB, 2^21 nodes or 32 levels. */
STENO_MUST steno_status steno_yaml_parse(steno_yaml **out, const void *bytes, size_t n,
                                         const char *name, steno_err *err);
STENO_MUST steno_status steno_yaml_open(steno_yaml **out, const char *path, steno_err *err);
void steno_yaml_close(steno_yaml *y);
const struct steno_yaml_node *steno_yaml_root(const steno_yaml *y);
const char *steno_yaml_name(const steno_yaml *y);

/* "encoder.frontend.stft": find the node of that path below the root. NULL if any part is
 * missing. */
const struct steno_yaml_node *steno_yaml_find(const steno_yaml *y, const char *path);
/* True for null, ~, an empty value, or a NULL node. */
bool steno_yaml_null(const struct steno_yaml_node *n);

/* Get the value at a path. Missing or null: *out does not change (the caller's default).
 * STENO_ERR_FORMAT: another type or out of range; the message names file, line, path, value. */
STENO_MUST steno_status steno_yaml_str(const steno_yaml *y, const char *path, const char **out,
                                       steno_err *err);
STENO_MUST steno_status steno_yaml_bool(const steno_yaml *y, const char *path, bool *out,
                                        steno_err *err);
STENO_MUST steno_status steno_yaml_int(const steno_yaml *y, const char *path, long min, long max,
                                       long *out, steno_err *err);
STENO_MUST steno_status steno_yaml_double(const steno_yaml *y, const char *path, double min,
                                          double max, double *out, steno_err *err);
/* Make the error of a missing key: "config.yaml: line 7: a.b is missing". */
steno_status steno_yaml_missing(const steno_yaml *y, const char *path, steno_err *err);

#endif
