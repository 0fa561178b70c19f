/* Command line of the daemon. */
#ifndef STENO_SERVER_OPTIONS_H
#define STENO_SERVER_OPTIONS_H

#include "server/core/config.h"

enum steno_action {
    STENO_ACTION_SERVE,
    STENO_ACTION_CHECK,  /* --check-config */
    STENO_ACTION_PRINT,  /* --print-config */
    STENO_ACTION_SAMPLE, /* --print-sample-config */
    STENO_ACTION_HELP,
    STENO_ACTION_VERSION
};

/* Fill c (initialised) from file, environment and argv; later sources override earlier ones.
 * STENO_ERR_INVAL; *usage is true for a wrong command line and false for a wrong configuration. */
STENO_MUST steno_status steno_options_read(struct steno_config *c, int argc, char **argv,
                                           enum steno_action *action, bool *usage, steno_err *err);
extern const char steno_usage[];

#endif
