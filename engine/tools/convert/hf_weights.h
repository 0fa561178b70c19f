/* The weights of a Hugging Face directory by name: model.safetensors, its shards, or
 * pytorch_model.bin. Confined. */
#ifndef STENO_CONVERT_HF_WEIGHTS_H
#define STENO_CONVERT_HF_WEIGHTS_H

#include "tools/convert/bundle.h"
#include "tools/convert/make.h"

typedef struct steno_hf_weights steno_hf_weights;

/* Is there a file of weights? */
bool steno_hf_weights_present(const struct steno_bundle *b);
/* b must outlive the weights. STENO_ERR_IO: there are none. STENO_ERR_FORMAT: damaged.
 * STENO_ERR_UNSUPPORTED: elements of a type that is not known, shards of pytorch_model.bin. */
STENO_MUST steno_status steno_hf_weights_open(steno_hf_weights **out, const struct steno_bundle *b,
                                              steno_err *err);
void steno_hf_weights_close(steno_hf_weights *w);
/* For steno_make_begin; remembers which weights a graph asks for. */
struct steno_make_weights steno_hf_weights_of(steno_hf_weights *w);
/* STENO_ERR_UNSUPPORTED: a weight that no graph asked for, which is named: the network has a part
 * that is not known. Names with a part out of `idle` (ended by NULL) play no role at inference. */
STENO_MUST steno_status steno_hf_weights_all_used(const steno_hf_weights *w,
                                                  const char *const *idle, steno_err *err);

#endif
