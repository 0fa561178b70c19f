/* Parts of NeMo's Transformer layers (nemo/collections/asr/modules/transformer of NeMo 3.0.0), of
 * the layer at m->prefix. Confined. */
#ifndef STENO_FAMILIES_NEMO_BUILD_TRANSFORMER_H
#define STENO_FAMILIES_NEMO_BUILD_TRANSFORMER_H

#include "speech/families/nemo/build_parts.h"

/* PART.*: x [B,n,d] looks at keys [B,k,d]. mask: added to the scores, or STENO_NONE. */
steno_value_id steno_nemo_attention(struct steno_make *m, const char *part, steno_value_id x,
                                    steno_value_id keys, steno_value_id mask, int64_t d,
                                    int64_t heads);
/* PART.dense_in, an activation, PART.dense_out. */
steno_value_id steno_nemo_dense(struct steno_make *m, const char *part, steno_value_id x, int64_t d,
                                int64_t ff, const char *activation);
/* -10000 where present [B,k] bool is false: [B,1,1,k] to be added to scores. */
steno_value_id steno_nemo_hidden(struct steno_make *m, steno_value_id present);

#endif
