/* Reads training configurations strictly: a key or value that may change a network and is not known
 * is an error that names it and what is known. */
#ifndef STENO_CONVERT_CONF_H
#define STENO_CONVERT_CONF_H

#include "formats/yaml.h"
#include "tools/convert/bundle.h"

/* Go on if nothing has failed: st has the first failure. */
#define READ(CALL)                                                                                 \
    do {                                                                                           \
        if (!st)                                                                                   \
            st = (CALL);                                                                           \
    } while (0)

/* Read a configuration of a checkpoint. Errors of steno_bundle_read and steno_yaml_parse. */
STENO_MUST steno_status steno_conf_open(steno_yaml **out, const struct steno_bundle *b,
                                        const char *name, size_t max, steno_err *err);
/* steno_yaml_int for an int64_t. */
STENO_MUST steno_status steno_conf_int(const steno_yaml *y, const char *path, long min, long max,
                                       int64_t *out, steno_err *err);
/* STENO_ERR_UNSUPPORTED: "FILE: PATH: VALUE; known: KNOWN". */
STENO_MUST steno_status steno_conf_unsupported(const steno_yaml *y, const char *path,
                                               const char *value, const char *known,
                                               steno_err *err);
/* A text that is one of a list "a|b|c". Missing or null: *out stays. */
STENO_MUST steno_status steno_conf_choice(const steno_yaml *y, const char *path, const char *known,
                                          const char **out, steno_err *err);
/* A key that must have this value, if it is there. An empty list or mapping counts as missing. */
STENO_MUST steno_status steno_conf_only(const steno_yaml *y, const char *path, const char *want,
                                        steno_err *err);
/* known: the keys of a section, "a, b", that are read, or that change no network at inference.
 * Another key is STENO_ERR_UNSUPPORTED, because it may change the network. */
STENO_MUST steno_status steno_conf_keys(const steno_yaml *y, const char *section, const char *known,
                                        steno_err *err);

#endif
