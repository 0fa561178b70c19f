/* --check-config: what a start would find wrong beyond the configuration itself. */
#ifndef STENO_SERVER_CHECK_H
#define STENO_SERVER_CHECK_H

#include "server/core/config.h"

/* Open keys, speech detectors, the tracer, the shared store of jobs and the default model, read the
 * certificate and the secrets, bind the addresses without listening, look at the directories of the
 * administrator's socket, of jobs, state and models, and at the names of environment variables, and
 * close everything again. Each error is passed to tell, with the line of its setting. Returns their
 * number. An address that is in use now is none, because the daemon that is to be restarted may
 * hold it: it is told as a note. good: the configuration has no error; otherwise the model is not
 * loaded, because that would tell such errors again. */
size_t steno_check_start(const struct steno_config *conf, bool good,
                         void (*tell)(const char *message));

#endif
