/* A YAML (or JSON, which is YAML as well) document as a tree, read with libyaml's event parser.
 * Scalars, sequences, mappings; no anchors, no tags, one document. Input is hostile: depth, nodes
 * and bytes are bounded, aliases ("billion laughs") refused. Frozen after parse. */
#ifndef STENO_FORMATS_YAML_H
#define STENO_FORMATS_YAML_H

#include "base/status.h"

typedef struct steno_yaml steno_yaml;

enum steno_yaml_kind { STENO_YAML_SCALAR, STENO_YAML_LIST, STENO_YAML_MAP };

struct steno_yaml_node {
    enum steno_yaml_kind kind;
    const char *key;  /* in a mapping: its key; else NULL */
    const char *text; /* scalar: its value, terminated */
    bool quoted;      /* scalar: written in quotes, so a string whatever it looks like */
    size_t line;      /* from 1 */
    size_t n;         /* list, mapping: children */
    const struct steno_yaml_node *first, *next;
};

/* name: for messages. STENO_ERR_FORMAT with the line; STENO_ERR_LIMIT over 64 MiB, 2^21 nodes or 32
 * levels; a key given twice is STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_yaml_parse(steno_yaml **out, const void *bytes, size_t n,
                                         const char *name, steno_err *err);
STENO_MUST steno_status steno_yaml_open(steno_yaml **out, const char *path, steno_err *err);
void steno_yaml_close(steno_yaml *y);
const struct steno_yaml_node *steno_yaml_root(const steno_yaml *y);
const char *steno_yaml_name(const steno_yaml *y);

/* "encoder.frontend.stft": the node below the root, NULL when any part is missing. */
const struct steno_yaml_node *steno_yaml_find(const steno_yaml *y, const char *path);
/* null, ~ or nothing at all; a NULL node counts as well. */
bool steno_yaml_null(const struct steno_yaml_node *n);

/* Value at a path. Missing or null: *out stays as it is (the caller's default). Of another type or
 * out of range: STENO_ERR_FORMAT naming file, line, path, value. */
STENO_MUST steno_status steno_yaml_str(const steno_yaml *y, const char *path, const char **out,
                                       steno_err *err);
STENO_MUST steno_status steno_yaml_bool(const steno_yaml *y, const char *path, bool *out,
                                        steno_err *err);
STENO_MUST steno_status steno_yaml_int(const steno_yaml *y, const char *path, long min, long max,
                                       long *out, steno_err *err);
STENO_MUST steno_status steno_yaml_double(const steno_yaml *y, const char *path, double min,
                                          double max, double *out, steno_err *err);
/* "config.yaml: line 7: a.b is missing" and the like: the one error of a missing key. */
steno_status steno_yaml_missing(const steno_yaml *y, const char *path, steno_err *err);

#endif
