/* What models cost on this machine, as measured at an earlier start: a file per model in a cache
 * directory, so that a start need not measure again. The file's name is a hash of all that the
 * figures depend on: the content of the model directory and how it is loaded, the processor and the
 * level of instructions in use, this program, the largest batch that is allowed. Damaged and
 * foreign files are as good as none. Any thread; several processes at once. */
#ifndef STENO_SERVER_COSTS_H
#define STENO_SERVER_COSTS_H

#include "pool/pool.h"

struct steno_costs_id {
    char file[4096]; /* "": nothing is kept */
};

/* dir: where to keep them; "" = $CACHE_DIRECTORY (systemd's), $XDG_CACHE_HOME/steno or
 * $HOME/.cache/steno, whichever is set first; "none" = nowhere. model_dir: hashed with all that
 * lies in it. how: precision and the like, any text. batch: steno_pool_options.batch. */
void steno_costs_identify(struct steno_costs_id *id, const char *dir, const char *model_dir,
                          const char *how, int batch);
/* False when there are none that can be used: also when they were measured while others used the
 * machine, which makes large batches look worse than they are, unless that has happened at three
 * starts: then it is no accident, and the least of what was measured counts. */
bool steno_costs_load(const struct steno_costs_id *id, struct steno_pool_costs *out);
/* Keep them, in place of what was there. slowed: how much longer measuring took than the processor
 * worked for it. STENO_ERR_IO: they are not kept, and measured again next time. */
STENO_MUST steno_status steno_costs_store(const struct steno_costs_id *id,
                                          const struct steno_pool_costs *c, double slowed,
                                          steno_err *err);

#endif
