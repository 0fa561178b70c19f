/* Fetching a model of the catalogue into the directory of models. */
#ifndef STENO_CLI_FETCH_H
#define STENO_CLI_FETCH_H

#include "tools/cli/options.h"
#include "speech/store/catalogue.h"
#include "speech/store/places.h"

struct fetch {
    const struct steno_catalogue_model *model;
    const char *dir;             /* of models; is made if missing */
    const struct cli_list *from; /* files and directories to take instead of a download */
    const char *index, *hub;     /* addresses; NULL: this machine's. One given: only its sources */
    bool quiet;
    double patience; /* struct download */
    /* Make a model of a checkpoint, a file or a directory, in directory `to`, which it makes. */
    steno_status (*convert)(const char *from, const char *to, const char *weights, bool quiet,
                            steno_err *err);
};

/* Fetch into DIR/.NAME.new, check every file, then put the directory into its place, DIR/NAME, as
 * a whole; a directory that is there is replaced. What was fetched before an interruption is used
 * again. Of a checkpoint the model is made in DIR/.NAME.made, and takes that place; the checkpoint
 * is removed. Sources are tried in their order. The errors are those of download_file; STENO_ERR_IO
 * also when the disk lacks room. Without `from`, the only thread calls it: it sets up libcurl. */
STENO_MUST steno_status fetch_model(const struct fetch *f, steno_err *err);

enum fetched { FETCH_MISSING, FETCH_COMPLETE, FETCH_DAMAGED };
/* Compare the sizes of a model's files in a directory of models with the catalogue. A model made of
 * a checkpoint is complete if it is there, since it comes as a whole. */
enum fetched fetch_state(const struct steno_catalogue_model *m, const char *dir);
/* Remove DIR/NAME, and what an interrupted fetch left. */
STENO_MUST steno_status fetch_remove(const char *dir, const char *name, steno_err *err);

#endif
