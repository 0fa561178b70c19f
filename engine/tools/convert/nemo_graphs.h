/* The networks of NeMo's models (speech/families/nemo/build.h), written to files. */
#ifndef STENO_CONVERT_NEMO_GRAPHS_H
#define STENO_CONVERT_NEMO_GRAPHS_H

#include "speech/families/nemo/build.h"

/* Write one network to path. Errors of steno_nemo_build_encoder and its kind, and of writing. */
STENO_MUST steno_status steno_nemo_write_encoder(const struct steno_nemo_arch *a,
                                                 const struct steno_make_weights *w,
                                                 const char *head, const char *path,
                                                 steno_err *err);
STENO_MUST steno_status steno_nemo_write_decoder(const struct steno_nemo_arch *a,
                                                 const struct steno_make_weights *w,
                                                 const char *path, steno_err *err);
STENO_MUST steno_status steno_nemo_write_joiner(const struct steno_nemo_arch *a,
                                                const struct steno_make_weights *w,
                                                const char *path, steno_err *err);

/* The networks of a multitask model. */
STENO_MUST steno_status steno_nemo_write_aed_encoder(const struct steno_nemo_arch *a,
                                                     const struct steno_make_weights *w,
                                                     const char *path, steno_err *err);
STENO_MUST steno_status steno_nemo_write_aed_decoder(const struct steno_nemo_arch *a,
                                                     const struct steno_make_weights *w,
                                                     const char *path, steno_err *err);
/* One step of a streaming Sortformer. */
STENO_MUST steno_status steno_nemo_write_sortformer(const struct steno_nemo_arch *a,
                                                    const struct steno_make_weights *w,
                                                    const char *path, steno_err *err);

#endif
