/* Attention within a window: asr/encoder/longformer_encoder.py of ESPnet 202511, which takes it
 * from the package longformer, mode sliding_chunks (Beltagy et al., Longformer, 2020). That package
 * cuts the rows into chunks of two windows and turns diagonals into columns; here a chunk of w rows
 * meets itself and the chunks before and behind it, and a band of -inf leaves the window. The
 * scores are [T, 3 w] instead of [T, 2 w + 1], in products without moves of single elements. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <math.h>
#include <stdlib.h>

#define HIDES (-10000.0f) /* added to the scores of rows that are not there */

static steno_value_id int_value(struct steno_make *m, int64_t x)
{
    return steno_make_ints(m, 1, &x);
}

/* x with zeros, or `fill`, behind: pads [2 rank] is a value. */
static steno_value_id padded(struct steno_make *m, steno_value_id x, steno_value_id pads,
                             steno_value_id fill)
{
    return steno_make_node(m, "Pad", fill == STENO_NONE ? 2 : 3, (steno_value_id[]){x, pads, fill},
                           0, NULL);
}

steno_value_id steno_espnet_fill_windows(struct steno_make *m, steno_value_id x,
                                         const struct steno_espnet_encoder *e,
                                         struct steno_espnet_view *v)
{
    const steno_value_id rows = int_value(m, e->window_rows), n = steno_make_extent_of(m, x, 1);
    steno_value_id more, zeros, number, in[3];
    more = steno_make_2(m, "Sub", rows, steno_make_2(m, "Mod", n, rows));
    more = steno_make_2(m, "Mod", more, rows);
    zeros = steno_make_join(m, 0, 3, (steno_value_id[]){int_value(m, 1), more, int_value(m, e->d)});
    x = steno_make_concat(m, 1, x, steno_make_1(m, "ConstantOfShape", zeros));
    in[0] = steno_make_int(m, 0);
    in[1] = steno_make_squeeze(m, steno_make_extent_of(m, x, 1), 0);
    in[2] = steno_make_int(m, 1);
    number = steno_make_node(m, "Range", 3, in, 0, NULL);
    v->off = steno_make_2(m, "GreaterOrEqual", number, n);
    v->mask = steno_make_node(
        m, "Where", 3,
        (steno_value_id[]){v->off, steno_make_number(m, HIDES), steno_make_number(m, 0)}, 0, NULL);
    return x;
}

/* x [.., (n + 2) w, ..] as [.., n, 3 w, ..]: for each chunk the rows before it, its own, and those
 * behind it. chunk: the target [rank] that makes chunks of w rows. */
static steno_value_id three_chunks(struct steno_make *m, steno_value_id x, int64_t axis, int64_t w,
                                   int rank, const int64_t *chunk)
{
    steno_value_id part[3];
    for (int64_t i = 0; i < 3; i++) {
        part[i] = steno_make_slice(m, x, axis, i * w, i == 2 ? INT64_MAX : (i - 2) * w);
        part[i] = steno_make_reshape(m, part[i], rank, chunk);
    }
    x = steno_make_concat(m, axis + 1, part[0], part[1]);
    return steno_make_concat(m, axis + 1, x, part[2]);
}

/* Keys or values [1,T,d] as [1,n,heads,3 w,d / heads]; swapped: the last two axes. */
static steno_value_id windows(struct steno_make *m, steno_value_id x, int64_t w,
                              const struct steno_espnet_encoder *e, bool swapped)
{
    static const int64_t rows[] = {0, 1, 3, 2, 4}, columns[] = {0, 1, 3, 4, 2};
    const int64_t pads[] = {0, w, 0, 0, w, 0}, chunk[] = {0, -1, w, e->d};
    const int64_t heads[] = {0, 0, 3 * w, e->heads, e->d / e->heads};
    x = padded(m, x, steno_make_ints(m, 6, pads), STENO_NONE);
    x = steno_make_reshape(m, three_chunks(m, x, 1, w, 4, chunk), 5, heads);
    return steno_make_transpose(m, x, 5, swapped ? columns : rows);
}

/* [w, 3 w]: 0 where row r sees column c, r <= c <= r + 2 w, else -inf. */
static steno_value_id band(struct steno_make *m, int64_t w)
{
    const int64_t dim[] = {w, 3 * w};
    float *x = m->st ? NULL : malloc((size_t)(3 * w * w) * sizeof *x);
    steno_value_id v;
    for (int64_t i = 0; x && i < 3 * w * w; i++)
        x[i] = i % (3 * w) >= i / (3 * w) && i % (3 * w) <= i / (3 * w) + 2 * w ? 0 : -INFINITY;
    v = steno_make_floats(m, "band", 2, dim, x);
    free(x);
    return v;
}

/* The mask [T] of the keys of each chunk, -inf where there are no rows: [1,n,1,1,3 w]. */
static steno_value_id key_mask(struct steno_make *m, const struct steno_espnet_view *v)
{
    const int64_t w = v->window, pads[] = {w, w}, chunk[] = {-1, w};
    const int64_t broad[] = {1, -1, 1, 1, 3 * w};
    steno_value_id x =
        padded(m, v->mask, steno_make_ints(m, 2, pads), steno_make_number(m, -INFINITY));
    return steno_make_reshape(m, three_chunks(m, x, 0, w, 2, chunk), 5, broad);
}

steno_value_id steno_espnet_local_attention(struct steno_make *m, const char *name,
                                            steno_value_id x, const struct steno_espnet_view *v,
                                            const struct steno_espnet_encoder *e)
{
    static const int64_t turn[] = {0, 1, 3, 2, 4};
    const int64_t d = e->d, h = e->heads, w = v->window;
    const int64_t chunks[] = {0, -1, w, h, d / h}, rows[] = {1, -1, 1, w, 1}, join[] = {0, -1, d};
    steno_value_id q, k, s, p;
    q = steno_make_linear_of(m, x, name, "attention_layer.query", d, d, true);
    k = steno_make_linear_of(m, x, name, "attention_layer.key", d, d, true);
    x = steno_make_linear_of(m, x, name, "attention_layer.value", d, d, true);
    q = steno_make_reshape(m, steno_make_root(m, q, d / h), 5, chunks);
    s = steno_make_2(m, "MatMul", steno_make_transpose(m, q, 5, turn), windows(m, k, w, e, true));
    s = steno_make_add(m, steno_make_add(m, s, band(m, w)), key_mask(m, v));
    s = steno_make_softmax(m, "Softmax", s, -1);
    p = steno_make_hide(m, steno_make_reshape(m, v->off, 5, rows), 0, s);
    p = steno_make_2(m, "MatMul", p, windows(m, x, w, e, false));
    return steno_make_reshape(m, steno_make_transpose(m, p, 5, turn), 3, join);
}
