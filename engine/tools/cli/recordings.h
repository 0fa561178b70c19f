/* Recordings given to a command: files, and folders of files. */
#ifndef STENO_CLI_RECORDINGS_H
#define STENO_CLI_RECORDINGS_H

#include "base/buf.h"
#include "tools/cli/options.h"
#include "steno.h"

typedef steno_status recordings_fn(void *arg, const char *path, steno_err *err);

/* Whether path is a recording, by the ending of its name; a folder, by one of its files. */
bool recordings_are(const char *path);
/* Call fn for each recording, files of a folder by name, until one call fails. */
STENO_MUST steno_status recordings_each(const struct cli_list *paths, recordings_fn *fn, void *arg,
                                        steno_err *err);
/* Append the text of every final to `text` (NULL: not kept), separated by spaces. */
STENO_MUST steno_status recordings_transcribe(steno_model *m, const char *path,
                                              struct steno_buf *text, steno_err *err);
/* Push all samples of a recording into something that takes them. */
typedef steno_status recordings_push_fn(void *to, const float *pcm, size_t n, steno_err *err);
STENO_MUST steno_status recordings_push_into(steno_recording *r, recordings_push_fn *push, void *to,
                                             steno_err *err);
/* Push all of a recording into a stream, and end it. */
STENO_MUST steno_status recordings_push(steno_recording *r, steno_stream *s, steno_err *err);

#endif
