/* The steps of LSTM, GRU and RNN: one direction through time, row by row. */
#include "nn/ops/rnn.h"

#include <string.h>

static void gate(const struct steno_rnn *p, const steno_kernels *k,
                 const struct steno_rnn_activation *a, float *x, size_t n)
{
    if (p->clip > 0)
        k->clip_f32(x, x, n, -p->clip, p->clip);
    steno_rnn_activate(k, a, x, n);
}

static void lstm_row(struct steno_rnn_run *r, float *g, size_t b)
{
    size_t n = r->p->hidden;
    const steno_kernels *k = r->k;
    float *i = g, *o = g + n, *f = g + 2 * n, *cc = g + 3 * n, *c = r->c + b * n, *h = r->h + b * n;
    for (size_t j = 0; r->peep && j < n; j++) {
        i[j] += r->peep[j] * c[j];
        f[j] += r->peep[2 * n + j] * c[j];
    }
    gate(r->p, k, &r->act[0], i, n);
    if (r->p->input_forget)
        k->affine_f32(f, i, n, -1, 1);
    else
        gate(r->p, k, &r->act[0], f, n);
    gate(r->p, k, &r->act[1], cc, n);
    for (size_t j = 0; j < n; j++)
        c[j] = f[j] * c[j] + i[j] * cc[j];
    for (size_t j = 0; r->peep && j < n; j++)
        o[j] += r->peep[n + j] * c[j];
    gate(r->p, k, &r->act[0], o, n);
    memcpy(h, c, n * sizeof *h);
    steno_rnn_activate(k, &r->act[2], h, n);
    k->mul_f32(h, h, 1, o, 1, n);
}

/* g holds z r h of the input; z and r already include their recurrent part. */
static void gru_row(struct steno_rnn_run *r, float *g, size_t b)
{
    size_t n = r->p->hidden;
    const steno_kernels *k = r->k;
    float *z = g, *reset = g + n, *hh = g + 2 * n, *h = r->h + b * n, *t = r->tmp + b * n;
    gate(r->p, k, &r->act[0], z, n);
    gate(r->p, k, &r->act[0], reset, n);
    if (r->p->linear_before_reset) {
        r->form->part(1, n, n, h, n, r->packed.rh, t, n, NULL, 0, 1);
        for (size_t j = 0; j < n; j++)
            hh[j] += reset[j] * (t[j] + (r->bias_h ? r->bias_h[j] : 0));
    } else {
        float *rh = r->rec + b * n * 3 + 2 * n; /* a part of rec that GRU does not use otherwise */
        k->mul_f32(rh, reset, 1, h, 1, n);
        r->form->part(1, n, n, rh, n, r->packed.rh, t, n, NULL, 0, 1);
        for (size_t j = 0; j < n; j++)
            hh[j] += t[j] + (r->bias_h ? r->bias_h[j] : 0);
    }
    gate(r->p, k, &r->act[1], hh, n);
    for (size_t j = 0; j < n; j++)
        h[j] = (1 - z[j]) * hh[j] + z[j] * h[j];
}

static void rnn_row(struct steno_rnn_run *r, float *g, size_t b)
{
    gate(r->p, r->k, &r->act[0], g, r->p->hidden);
    memcpy(r->h + b * r->p->hidden, g, r->p->hidden * sizeof *g);
}

static size_t row_of(const struct steno_rnn_run *r, size_t t, size_t b)
{
    return r->p->batch_first ? b * r->seq + t : t * r->batch + b;
}

/* The h before step t, in r->tmp. Sequences that ended before the previous step count as zeros in
 * the range that h is quantized over, as in ONNX Runtime. */
static void copy_state(struct steno_rnn_run *r, size_t t)
{
    size_t n = r->p->hidden;
    memcpy(r->tmp, r->h, r->batch * n * sizeof *r->tmp);
    for (size_t b = 0; b < r->batch; b++)
        if (t > (size_t)r->lens[b])
            memset(r->tmp + b * n, 0, n * sizeof *r->tmp);
}

/* rec = h R before step t. */
static void recurrent_product(struct steno_rnn_run *r, size_t t)
{
    const size_t n = r->p->hidden, wide = n * (size_t)r->p->gates,
                 cols = steno_rnn_recurrent_columns(r->p);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    if (r->p->quantized)
        copy_state(r, t);
    if (r->r8) {
        steno_rnn_int8_round(r->k, r->tmp, r->batch, n, &r->h8);
        steno_rnn_int8_product(r->k, r->r8, &r->h8, r->batch, NULL, r->rec, 0, 1);
        return;
    }
    if (r->p->quantized)
        ep.alpha = steno_contrib_dynamic(r->k, r->tmp, r->batch * n, r->tmp);
    r->form->part(r->batch, cols, n, r->p->quantized ? r->tmp : r->h, n, r->packed.r, r->rec, wide,
                  &ep, 0, 1);
}

void steno_rnn_direction(struct steno_rnn_run *r, bool reverse, float *y, size_t y_time,
                         size_t y_batch)
{
    size_t n = r->p->hidden, wide = n * (size_t)r->p->gates,
           cols = steno_rnn_recurrent_columns(r->p);
    for (size_t t = 0; t < r->seq; t++) {
        recurrent_product(r, t);
        for (size_t b = 0; b < r->batch; b++) {
            size_t len = (size_t)r->lens[b], at = reverse ? len - 1 - t : t;
            float *g;
            if (t >= len)
                continue;
            g = r->gates + row_of(r, at, b) * wide;
            r->k->add_f32(g, g, 1, r->rec + b * wide, 1, cols);
            if (r->p->cell == STENO_CELL_LSTM)
                lstm_row(r, g, b);
            else if (r->p->cell == STENO_CELL_GRU)
                gru_row(r, g, b);
            else
                rnn_row(r, g, b);
            if (y)
                memcpy(y + at * y_time + b * y_batch, r->h + b * n, n * sizeof *y);
        }
    }
}
