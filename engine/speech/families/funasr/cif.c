#include "speech/families/funasr/cif.h"

#include <stdlib.h>
#include <string.h>

bool steno_cif_open(struct steno_cif *c, size_t dim)
{
    *c = (struct steno_cif){.dim = dim, .sum = calloc(dim, sizeof *c->sum)};
    return c->sum;
}

void steno_cif_close(struct steno_cif *c)
{
    free(c->sum);
    c->sum = NULL;
}

void steno_cif_reset(struct steno_cif *c)
{
    memset(c->sum, 0, c->dim * sizeof *c->sum);
    c->integral = 0;
    c->quiet = 0;
}

static void add_cif(struct steno_cif *c, const float *frame, float weight)
{
    for (size_t i = 0; i < c->dim; i++)
        c->sum[i] += weight * frame[i];
}

bool steno_cif_push(struct steno_cif *c, const float *frame, float alpha, float *out)
{
    const float all = alpha + c->integral;
    c->quiet = alpha < STENO_CIF_QUIET ? c->quiet + 1 : 0;
    if (all < 1) {
        add_cif(c, frame, alpha);
        c->integral = all;
        return c->quiet == STENO_CIF_QUIET_ROWS && steno_cif_flush(c, out);
    }
    add_cif(c, frame, 1 - c->integral);
    memcpy(out, c->sum, c->dim * sizeof *out);
    c->integral = all - 1;
    for (size_t i = 0; i < c->dim; i++)
        c->sum[i] = c->integral * frame[i];
    return true;
}

bool steno_cif_flush(struct steno_cif *c, float *out)
{
    if (c->integral + STENO_CIF_TAIL < 1)
        return false;
    memcpy(out, c->sum, c->dim * sizeof *out);
    memset(c->sum, 0, c->dim * sizeof *c->sum);
    c->integral = 0;
    return true;
}
