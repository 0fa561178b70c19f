/* The models of this server. The default model is always loaded. Those of models.dir (a directory
 * of model directories, whose names requests use; without a configured model, the fetched ones) are
 * loaded when a request wants them, and unloaded when nobody has used them for models.idle_unload.
 * Each loaded model has its pool. A request may want a directory with other options of its family
 * than the configuration has (struct steno_option_info, STENO_OPTION_OF_MODEL). Each such variant
 * is a model of its own: it is made at the first request, and loaded and unloaded like those of
 * models.dir.
 *
 * A loaded model is a generation with a count of its users. A reload makes a new generation.
 * Running sessions end on the old one, which is closed when its last user releases it. When the new
 * generation cannot be loaded, the old one stays in service. One thread of this module loads
 * models: requests do not wait for it, but are told to come back.
 *
 * Locked: one mutex, every function from any thread. It is a leaf and not held while a model loads.
 */
#ifndef STENO_SERVER_CORE_MODELS_H
#define STENO_SERVER_CORE_MODELS_H

#include "speech/pool/pool.h"
#include "protocol/options.h"
#include "server/core/config.h"
#include "server/core/costs.h"

typedef struct steno_models steno_models;
struct steno_model_slot; /* a name; lives as long as the process */

/* One generation of a loaded model. Frozen, except for the count. */
struct steno_served {
    const char *name;             /* the name in requests */
    const char *label;            /* the name in metrics and logs, where variants differ */
    const char *family;           /* of the directory; static storage */
    struct steno_options options; /* as it was opened; a variant (protocol/options.h) */
    steno_model *model;
    struct steno_model_info info;
    struct steno_costs_id costs; /* file of its streams' costs */
    /* Options of the streams with which the pool measures; the pool's options borrow them. */
    struct steno_option_list trial_options;
    steno_pool *pool;
    struct steno_model_slot *slot;
    int users; /* under the registry's lock */
    struct steno_served *next;
};

/* Load the default model and list the others. pool: options of every pool. conf outlives it. */
STENO_MUST steno_status steno_models_open(steno_models **out, const struct steno_config *conf,
                                          const struct steno_pool_options *pool, steno_err *err);
/* Close. Everything must have been released before. Accepts NULL. */
void steno_models_close(steno_models *m);

/* Use the model of this name; NULL, "" and the aliases mean the default. Unless model.strict, a
 * name of the catalogue means the model that it belongs to, or the default where that is not here
 * or where the name is one that clients send by default; the log tells so once. want: options of
 * models that override the configuration's; NULL = none. STENO_ERR_INVAL: no model has this name
 * (steno_models_check says so too), or it does not have the wanted option (the message begins with
 * the option). STENO_ERR_BUSY: it is being loaded, or there is no memory for it now.
 * STENO_ERR_INTERNAL: it could not be loaded. */
STENO_MUST steno_status steno_models_acquire(steno_models *m, const char *name,
                                             const struct steno_options *want,
                                             struct steno_served **out, steno_err *err);
/* Use the model of align.model for what is spoken in a language; NULL, "": not known. *out NULL: it
 * names none for it (STENO_NO_ALIGNER). STENO_ERR_INVAL: the setting is empty; errors of
 * steno_models_acquire. */
STENO_MUST steno_status steno_models_acquire_aligner(steno_models *m, const char *language,
                                                     struct steno_served **out, steno_err *err);
#define STENO_NO_ALIGNER "no model of align.model is for the language"
/* Accepts NULL. */
void steno_models_release(steno_models *m, struct steno_served *s);
/* Check that a model has this name, loaded or not; else STENO_ERR_INVAL. */
STENO_MUST steno_status steno_models_check(steno_models *m, const char *name, steno_err *err);
/* Find the slot that serves this name, as above; NULL: there is none. */
struct steno_model_slot *steno_models_named(steno_models *m, const char *name);
/* Load every loaded model again, look for new ones, and wait until both are done. *failed: how many
 * models kept their old generation. */
void steno_models_reload(steno_models *m, int *reloaded, int *failed);

/* Slot i, for lists and metrics; NULL past the last one. */
struct steno_model_slot *steno_models_slot(steno_models *m, size_t i);
/* A slot that was not returned before; NULL when there is none now. Variants count once they were
 * loaded. */
struct steno_model_slot *steno_models_next_new(steno_models *m);
struct steno_model_view {
    const char *name; /* a variant's has its options after "+" */
    bool loaded, is_default, is_variant;
    int users, generation;
    size_t bytes;                              /* of packed weights */
    char family[32], version[32], license[48]; /* "" before the first load */
    /* steno_model_info's; before the first load as far as the directory tells them */
    char language[32], languages[400];
    bool translates;
    struct steno_pool_stats pool;
};
void steno_model_slot_view(struct steno_model_slot *slot, struct steno_model_view *out);
/* Find the first worker of any pool that has been at one step since before `since_ns`; false if
 * there is none. */
bool steno_models_find_stuck(steno_models *m, int64_t since_ns, int *worker, int64_t *at_ns);

#endif
