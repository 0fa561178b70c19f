/* The networks of NeMo's models (speech/families/nemo/build.h), written to files. */
#ifndef STENO_CONVERT_NEMO_GRAPHS_H
#define STENO_CONVERT_NEMO_GRAPHS_H

#include "speech/families/nemo/build.h"

/* Build one network (steno_nemo_build_decoder and its kind) and write it to path. Errors of both.
 */
typedef steno_status steno_nemo_builder(const struct steno_nemo_arch *a,
                                        const struct steno_make_weights *w, struct steno_graph **g,
                                        steno_err *err);
STENO_MUST steno_status steno_nemo_write(steno_nemo_builder *build, const struct steno_nemo_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err);
/* The same of steno_nemo_build_encoder. */
STENO_MUST steno_status steno_nemo_write_encoder(const struct steno_nemo_arch *a,
                                                 const struct steno_make_weights *w,
                                                 const char *head, const char *path,
                                                 steno_err *err);
/* One step of a streaming Sortformer. */
STENO_MUST steno_status steno_nemo_write_sortformer(const struct steno_nemo_arch *a,
                                                    const struct steno_make_weights *w,
                                                    const char *path, steno_err *err);

#endif
