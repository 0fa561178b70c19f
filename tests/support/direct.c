#include "tests/support/direct.h"

#include <stdlib.h>

#include "speech/features/fbank.h"
#include "tests/support/test.h"

void direct_open(struct direct *d, const struct steno_family_open *o,
                 struct steno_family_stream *so)
{
    steno_err err = {0};
    struct steno_family_open of = *o;
    *d = (struct direct){.family = steno_family_of(o->dir)};
    assert_non_null(d->family);
    of.family = d->family;
    if (d->family->open(&d->model, &of, &err) ||
        d->family->worker_open(&d->worker, d->model, 1, &err) ||
        d->family->state_new(&d->state, d->model, so, &err))
        fail_msg("%s", err.msg);
    d->family->info(d->model, &d->info);
}

void direct_close(struct direct *d)
{
    d->family->state_free(d->state);
    d->family->worker_close(d->worker);
    d->family->close(d->model);
}

float *direct_begin(struct direct *d, const float *pcm, size_t n, size_t *frames)
{
    const size_t cap = n / d->info.hop + 8;
    float *feats = calloc(cap * (size_t)d->info.feature_bins, sizeof *feats);
    steno_fbank *f = NULL;
    assert_non_null(feats);
    assert_int_equal(steno_fbank_open_like(&f, d->info.windows.front, NULL), STENO_OK);
    assert_int_equal(steno_fbank_whole(f, pcm, n, feats, cap, frames), STENO_OK);
    steno_fbank_close(f);
    assert_int_equal(d->family->reset(d->state, STENO_RESET_RECORDING, NULL), STENO_OK);
    return feats;
}

void direct_step(struct direct *d, const float *window)
{
    struct steno_network_time spent = {0};
    struct steno_step_item item = {.state = d->state, .window = window};
    bool left = true;
    d->family->step(d->worker, &item, 1, 1, &spent);
    assert_int_equal(item.st, STENO_OK);
    while (left)
        assert_int_equal(d->family->consume(d->state, &left), STENO_OK);
}
