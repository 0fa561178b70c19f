#include "speech/families/common/beam_states.h"

#include <string.h>

#include "base/arena.h"

void steno_beam_states_free(struct steno_beam_states *b)
{
    for (int k = 0; k < 3; k++)
        steno_aligned_free(b->p[k]);
    *b = (struct steno_beam_states){0};
}

bool steno_beam_states_reserve(struct steno_beam_states *b, size_t n, size_t floats)
{
    size_t stride = (floats + 15) / 16 * 16, bytes;
    float *p[3] = {0};
    if (n <= b->cap && stride <= b->stride)
        return true;
    n = n < b->cap ? b->cap : n;
    stride = stride < b->stride ? b->stride : stride;
    for (int k = 0; k < 3 && steno_mul_size(n, stride * sizeof(float), &bytes); k++)
        p[k] = steno_aligned_alloc(bytes);
    if (!p[0] || !p[1] || !p[2]) {
        for (int k = 0; k < 3; k++)
            steno_aligned_free(p[k]);
        return false;
    }
    for (int k = 0; k < 3; k++) {
        memset(p[k], 0, bytes);
        for (size_t i = 0; i < b->cap; i++)
            memcpy(p[k] + i * stride, b->p[k] + i * b->stride, b->stride * sizeof(float));
        steno_aligned_free(b->p[k]);
        b->p[k] = p[k];
    }
    b->cap = n;
    b->stride = stride;
    return true;
}

static void swap(struct steno_beam_states *b)
{
    float *p = b->p[STENO_BEAM_IN];
    b->p[STENO_BEAM_IN] = b->p[STENO_BEAM_BEFORE];
    b->p[STENO_BEAM_BEFORE] = p;
}

void steno_beam_states_step(struct steno_beam_states *b, const int32_t *parent, size_t n)
{
    if (!b->again) {
        swap(b);
        for (size_t i = 0; i < n && parent; i++)
            memcpy(steno_beam_state(b, STENO_BEAM_IN, i),
                   steno_beam_state(b, STENO_BEAM_OUT, (size_t)parent[i]),
                   b->stride * sizeof(float));
        for (size_t i = 0; i < n && !parent; i++)
            memset(steno_beam_state(b, STENO_BEAM_IN, i), 0, b->stride * sizeof(float));
    }
    b->again = false;
}

void steno_beam_states_rewind(struct steno_beam_states *b, int calls)
{
    b->again = true;
    if (calls)
        swap(b);
}

size_t steno_beam_states_bytes(const struct steno_beam_states *b)
{
    return 3 * b->cap * b->stride * sizeof(float);
}
