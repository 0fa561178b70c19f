/* The models this server has: the default one, always loaded, and those of models.dir (a directory
 * of model directories, named as requests call them), loaded when a request wants them and unloaded
 * when nobody has used them for models.idle_unload. Each loaded one has its pool. A directory
 * may be wanted with other options of its family than the configuration says (struct
 * steno_option_info, STENO_OPTION_OF_MODEL); each such variant is a model of its own, made when it
 * is first asked for, that comes and goes like those of models.dir.
 *
 * A loaded model is a generation, counted by those who use it. Reloading makes a new generation;
 * what runs ends on the old one, which is closed when its last user lets go; when the new one
 * cannot be loaded the old one serves on. Loading happens on one thread of this module: nobody
 * waits for it, but is told to come again.
 *
 * Locked: one mutex, every function from any thread; a leaf, not held while a model loads. */
#ifndef STENO_SERVER_MODELS_H
#define STENO_SERVER_MODELS_H

#include "pool/pool.h"
#include "protocol/options.h"
#include "server/config.h"
#include "server/costs.h"

typedef struct steno_models steno_models;
struct steno_model_slot; /* a name: stays for the process's life */

/* One generation of a loaded model. Frozen, but for the count. */
struct steno_served {
    const char *name;             /* what requests call it */
    const char *label;            /* the same for metrics and logs, where variants differ */
    const char *family;           /* of the directory: static storage */
    struct steno_options options; /* as it was opened: a variant (protocol/options.h) */
    steno_model *model;
    struct steno_model_info info;
    struct steno_costs_id costs; /* where what its streams cost is kept */
    /* Of the streams that the pool measures; its options borrow them. */
    struct steno_option_list trial_options;
    steno_pool *pool;
    struct steno_model_slot *slot;
    int users; /* the registry's lock */
    struct steno_served *next;
};

/* Load the default model and look which others there are. pool: options of every pool. conf
 * outlives it. */
STENO_MUST steno_status steno_models_open(steno_models **out, const struct steno_config *conf,
                                          const struct steno_pool_options *pool, steno_err *err);
/* Everything must have been released. Accepts NULL. */
void steno_models_close(steno_models *m);

/* Use the model of this name; NULL, "" and the aliases mean the default. want: options of
 * models that are set in it count over the configuration's; NULL = none. STENO_ERR_INVAL: there is
 * none of the name (steno_models_check says so too), or it cannot be had as wanted (the message
 * begins with the option). STENO_ERR_BUSY: it is being loaded, or there is no memory for it
 * now. STENO_ERR_INTERNAL: it could not be loaded. */
STENO_MUST steno_status steno_models_acquire(steno_models *m, const char *name,
                                             const struct steno_options *want,
                                             struct steno_served **out, steno_err *err);
/* Accepts NULL. */
void steno_models_release(steno_models *m, struct steno_served *s);
/* Whether there is one of this name, loaded or not; STENO_ERR_INVAL. */
STENO_MUST steno_status steno_models_check(steno_models *m, const char *name, steno_err *err);
/* Load every loaded model again and look for new ones. Waits until it is done. *failed: how many
 * kept their old generation. */
void steno_models_reload(steno_models *m, int *reloaded, int *failed);

/* For lists and metrics. Slot i; NULL past the last. */
struct steno_model_slot *steno_models_slot(steno_models *m, size_t i);
/* One that was not returned before, NULL when there is none now; of variants those that were
 * loaded. */
struct steno_model_slot *steno_models_next_new(steno_models *m);
struct steno_model_view {
    const char *name; /* of variants with their options behind "+" */
    bool loaded, is_default, is_variant;
    int users, generation;
    size_t bytes;                                            /* packed weights */
    char family[32], language[32], version[32], license[48]; /* "" before it was ever loaded */
    struct steno_pool_stats pool;
};
void steno_model_slot_view(struct steno_model_slot *slot, struct steno_model_view *out);
/* First worker of any pool that has been at one step since before `since_ns`; false if none. */
bool steno_models_find_stuck(steno_models *m, int64_t since_ns, int *worker, int64_t *at_ns);

#endif
