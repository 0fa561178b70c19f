/* A family's model without a recognizer: its functions, called in the order in which a stream calls
 * them. Failures fail the test. */
#ifndef STENO_TESTS_DIRECT_H
#define STENO_TESTS_DIRECT_H

#include "speech/families/registry.h"

struct direct {
    const struct steno_family *family;
    void *model, *state, *worker;
    struct steno_family_info info;
};

void direct_open(struct direct *d, const struct steno_family_open *o,
                 struct steno_family_stream *so);
void direct_close(struct direct *d);
/* Features of a whole recording, pcm [n], for a state that begins anew: [*frames, feature_bins],
 * which the caller frees. */
float *direct_begin(struct direct *d, const float *pcm, size_t n, size_t *frames);
/* One step, of a window of the features. */
void direct_step(struct direct *d, const float *window);

#endif
