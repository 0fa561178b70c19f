/* Recordings given to a command: files, and folders of them. */
#ifndef STENO_CLI_RECORDINGS_H
#define STENO_CLI_RECORDINGS_H

#include "base/buf.h"
#include "cli/options.h"
#include "steno.h"

typedef steno_status recordings_fn(void *arg, const char *path, steno_err *err);

/* By the name's ending; a folder: one of its files. */
bool recordings_are(const char *path);
/* fn for each, files of a folder by name, until one fails. */
STENO_MUST steno_status recordings_each(const struct cli_list *paths, recordings_fn *fn, void *arg,
                                        steno_err *err);
/* The text of every final, spaces between, behind what is in `text` (NULL: not kept). */
STENO_MUST steno_status recordings_transcribe(steno_model *m, const char *path,
                                              struct steno_buf *text, steno_err *err);

#endif
