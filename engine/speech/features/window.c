#include "speech/features/window.h"

#include <math.h>
#include <string.h>

static const char *const names[STENO_WINDOW_COUNT] = {
    [STENO_WINDOW_POVEY] = "povey",        [STENO_WINDOW_HANN] = "hanning",
    [STENO_WINDOW_HANN_PERIODIC] = "hann", [STENO_WINDOW_HAMMING] = "hamming",
    [STENO_WINDOW_BLACKMAN] = "blackman",  [STENO_WINDOW_RECTANGULAR] = "rectangular",
};

static double value(enum steno_window w, double phase)
{
    switch (w) {
    case STENO_WINDOW_POVEY:
        return pow(0.5 - 0.5 * cos(phase), 0.85);
    case STENO_WINDOW_HANN:
    case STENO_WINDOW_HANN_PERIODIC:
        return 0.5 - 0.5 * cos(phase);
    case STENO_WINDOW_HAMMING:
        return 0.54 - 0.46 * cos(phase);
    case STENO_WINDOW_BLACKMAN:
        return 0.42 - 0.5 * cos(phase) + 0.08 * cos(2 * phase);
    default:
        return 1;
    }
}

void steno_window_fill(enum steno_window w, size_t n, float *out)
{
    double period = w == STENO_WINDOW_HANN_PERIODIC ? (double)n : (double)n - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = n == 1 ? 1 : (float)value(w, 2 * 3.14159265358979323846 * (double)i / period);
}

steno_status steno_window_parse(const char *name, enum steno_window *out, steno_err *err)
{
    for (size_t i = 0; i < STENO_WINDOW_COUNT; i++) {
        if (!strcmp(name, names[i])) {
            *out = (enum steno_window)i;
            return STENO_OK;
        }
    }
    return steno_fail(err, STENO_ERR_INVAL,
                      "unknown window '%.32s' (povey, hanning, hann, hamming, blackman, "
                      "rectangular)",
                      name);
}
