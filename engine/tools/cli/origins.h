/* Where this machine gets Python packages and models of a hub from. The program knows no address
 * of its own: it takes the ones of the machine's other tools. */
#ifndef STENO_CLI_ORIGINS_H
#define STENO_CLI_ORIGINS_H

#include "base/status.h"

#define ORIGINS_MAX 8
#define ORIGIN_SIZE 1024

struct origins {
    int n;
    char url[ORIGINS_MAX][ORIGIN_SIZE]; /* in order of preference, without a '/' at the end */
    char cafile[ORIGIN_SIZE];           /* certificates that they need; "": the system's */
};

/* Package indexes (simple API). given: an address that is used alone; else PIP_INDEX_URL alone if
 * set; else what pip of python3 would use: its configuration, or its own default.
 * STENO_ERR_UNSUPPORTED: none is known; the message says how to name one. */
STENO_MUST steno_status origins_of_packages(struct origins *out, const char *given, steno_err *err);
/* The model hub. given, else HF_ENDPOINT, else the default of Python's huggingface_hub.
 * STENO_ERR_UNSUPPORTED as above. */
STENO_MUST steno_status origins_of_hub(struct origins *out, const char *given, steno_err *err);

#endif
