/* Costs of models on this machine, measured at an earlier start. A cache directory holds one file
 * per model, so that a start need not measure again. The file's name is a hash of everything that
 * the costs depend on: the content of the model directory and how it is loaded, the processor and
 * the instruction level in use, this program, and the largest batch that is allowed. Damaged and
 * foreign files count as missing. Any thread; several processes at once. */
#ifndef STENO_SERVER_CORE_COSTS_H
#define STENO_SERVER_CORE_COSTS_H

#include "speech/pool/pool.h"

struct steno_costs_id {
    char file[4096]; /* "": nothing is kept */
};

/* Find the file of a model's costs. dir: the cache directory; "" = $CACHE_DIRECTORY (systemd's),
 * $XDG_CACHE_HOME/steno or $HOME/.cache/steno, whichever is set first; "none" = no file. model_dir:
 * all files in it are hashed. how: any text that names precision and the like. batch:
 * steno_pool_options.batch. */
void steno_costs_identify(struct steno_costs_id *id, const char *dir, const char *model_dir,
                          const char *how, int batch);
/* Load the costs. False when there are none that can be used, such as those that were measured
 * while other programs used the machine: they make large batches look worse than they are. */
bool steno_costs_load(const struct steno_costs_id *id, struct steno_pool_costs *out);
/* Store the costs and replace earlier ones. quiet: they count at the next start, too. STENO_ERR_IO:
 * they are not stored, and the next start measures again. */
STENO_MUST steno_status steno_costs_store(const struct steno_costs_id *id,
                                          const struct steno_pool_costs *c, bool quiet,
                                          steno_err *err);

#endif
