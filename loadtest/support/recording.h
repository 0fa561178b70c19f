/* A WAV file as 16-bit mono samples in memory, as the clients stream it. */
#ifndef STENO_LOADTEST_RECORDING_H
#define STENO_LOADTEST_RECORDING_H

#include "base/status.h"

struct recording {
    int rate; /* Hz */
    size_t n;
    int16_t *pcm; /* [n] */
};

/* STENO_ERR_IO, STENO_ERR_FORMAT, which name the file. */
STENO_MUST steno_status recording_read(struct recording *r, const char *path, steno_err *err);
void recording_free(struct recording *r);
static inline double recording_seconds(const struct recording *r)
{
    return (double)r->n / r->rate;
}

#endif
