/* Analysis windows, by Kaldi's and PyTorch's names. */
#ifndef STENO_FEATURES_WINDOW_H
#define STENO_FEATURES_WINDOW_H

#include "base/status.h"

enum steno_window {
    STENO_WINDOW_POVEY,         /* Kaldi: (0.5 - 0.5 cos(2 pi i / (n-1)))^0.85 */
    STENO_WINDOW_HANN,          /* symmetric, period n-1: Kaldi "hanning" */
    STENO_WINDOW_HANN_PERIODIC, /* period n: torch.hann_window, knf "hann" */
    STENO_WINDOW_HAMMING,       /* symmetric: 0.54 - 0.46 cos */
    STENO_WINDOW_BLACKMAN,      /* symmetric, Kaldi's coefficient 0.42 */
    STENO_WINDOW_RECTANGULAR,
    STENO_WINDOW_COUNT
};

/* out [n], n >= 1 (n = 1 gives 1). */
void steno_window_fill(enum steno_window w, size_t n, float *out);
/* "povey" "hanning" "hann" "hamming" "blackman" "rectangular" */
STENO_MUST steno_status steno_window_parse(const char *name, enum steno_window *out,
                                           steno_err *err);

#endif
