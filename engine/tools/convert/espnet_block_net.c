/* espnet2/asr/encoder/contextual_block_{transformer,conformer}_encoder.py of ESPnet 202511 for one
 * block of a stream, with the inputs and outputs of espnet_onnx (docs/espnet.md): buffered frames
 * before and after the input layer, the context of the block before, and its layers' contexts. The
 * caller gives as many frames as complete one block.
 *
 * espnet_onnx 0.2.1 itself hands on the context of the first layer alone, so with three layers and
 * more its frames differ from ESPnet's; these do not. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <math.h>

/* The inputs beside the frames. */
struct ends {
    steno_value_id xs, mask, before, after, addin, pos, pos_addin, ctx, first;
};

static void add_inputs(struct steno_make *m, const struct steno_espnet_encoder *e, struct ends *in)
{
    const int64_t d = e->d, bands = e->in, rows = steno_make_symbol(m, "pex_length");
    in->xs = steno_make_input(m, "xs_pad", STENO_F32, 3,
                              (int64_t[]){1, steno_make_symbol(m, "xs_pad_length"), bands});
    in->mask = steno_make_input(m, "mask", STENO_F32, 4,
                                (int64_t[]){1, 1, steno_make_symbol(m, "block_height"),
                                            steno_make_symbol(m, "block_width")});
    in->before = steno_make_input(m, "buffer_before_downsampling", STENO_F32, 3,
                                  (int64_t[]){1, steno_make_symbol(m, "bbd_length"), bands});
    in->after = steno_make_input(m, "buffer_after_downsampling", STENO_F32, 3,
                                 (int64_t[]){1, steno_make_symbol(m, "bad_length"), d});
    in->addin = steno_make_input(m, "prev_addin", STENO_F32, 3, (int64_t[]){1, 1, d});
    in->pos = steno_make_input(m, "pos_enc_xs", STENO_F32, 3, (int64_t[]){1, rows, d});
    in->pos_addin = steno_make_input(m, "pos_enc_addin", STENO_F32, 3, (int64_t[]){1, 1, d});
    in->ctx = steno_make_input(m, "past_encoder_ctx", STENO_F32, 3, (int64_t[]){1, e->blocks, d});
    in->first = steno_make_input(m, "is_first", STENO_I64, 1, (int64_t[]){1});
}

static steno_value_id one_int(struct steno_make *m, int64_t x)
{
    return steno_make_ints(m, 1, &x);
}

/* Rows [from, to) of x; the ends are values [1]. */
static steno_value_id cut_rows(struct steno_make *m, steno_value_id x, steno_value_id from,
                               steno_value_id to)
{
    return steno_make_cut(m, x, 1, from, to);
}

static steno_value_id rows_from(struct steno_make *m, steno_value_id x, steno_value_id from)
{
    return cut_rows(m, x, from, one_int(m, INT64_MAX));
}

/* The frames that are left of earlier calls, which the first call has not, and x. */
static steno_value_id behind_buffer(struct steno_make *m, steno_value_id buffer,
                                    steno_value_id first, steno_value_id x)
{
    steno_value_id skip = steno_make_2(m, "Mul", steno_make_extent_of(m, buffer, 1), first);
    return rows_from(m, steno_make_concat(m, 1, buffer, x), skip);
}

/* Whole frames after the input layer. *rest: the feature frames that the next call needs again. */
static steno_value_id subsampled(struct steno_make *m, const struct steno_espnet_encoder *e,
                                 const struct ends *in, steno_value_id *rest)
{
    steno_value_id x = behind_buffer(m, in->before, in->first, in->xs), n, keep, use;
    n = steno_make_extent_of(m, x, 1);
    keep = steno_make_2(m, "Mod", n, one_int(m, e->subsample));
    keep = steno_make_add(m, keep, one_int(m, 2 * e->subsample));
    use = steno_make_2(m, "Sub", n, steno_make_2(m, "Mod", n, one_int(m, e->subsample)));
    use = steno_make_2(m, "Sub", use, one_int(m, e->subsample));
    *rest = rows_from(m, x, steno_make_2(m, "Sub", n, keep));
    steno_make_at(m, "encoder.embed.");
    return steno_espnet_input_layer(m, cut_rows(m, x, one_int(m, 0), use), e);
}

/* The frames of the block. *rest: those that the next block begins with. */
static steno_value_id one_block(struct steno_make *m, const struct steno_espnet_encoder *e,
                                const struct ends *in, steno_value_id x, steno_value_id *rest)
{
    const int64_t overlap = e->block - e->hop;
    steno_value_id hops;
    x = behind_buffer(m, in->after, in->first, x);
    hops = steno_make_2(m, "Sub", steno_make_extent_of(m, x, 1), one_int(m, overlap));
    hops = steno_make_2(m, "Max", hops, one_int(m, 0));
    hops = steno_make_2(m, "Div", hops, one_int(m, e->hop));
    hops = steno_make_2(m, "Mul", hops, one_int(m, e->hop));
    *rest = rows_from(m, x, hops);
    return cut_rows(m, x, one_int(m, 0), steno_make_add(m, hops, one_int(m, overlap)));
}

/* x or, at the first block, y: both [1,1,d]. */
static steno_value_id first_is(struct steno_make *m, const struct ends *in, steno_value_id x,
                               steno_value_id y)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    x = steno_make_concat(m, 1, x, y);
    return steno_make_node(m, "Gather", 2, (steno_value_id[]){x, in->first}, 1, &axis);
}

static steno_value_id mean(struct steno_make *m, steno_value_id x)
{
    static const int64_t axis = 1;
    const struct steno_attr a[] = {{.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &axis},
                                   {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1}};
    return steno_make_node(m, "ReduceMean", 1, &x, 2, a);
}

/* [context before, the block with zeros up to its size, its own context]. */
static steno_value_id framed(struct steno_make *m, const struct steno_espnet_encoder *e,
                             const struct ends *in, steno_value_id x, steno_value_id *addin)
{
    const float root = sqrtf((float)e->d);
    steno_value_id zeros = steno_make_scale(m, in->pos, 0), pos;
    *addin = mean(m, x);
    if (e->ctx_pos)
        *addin = steno_make_add(m, steno_make_scale(m, *addin, root), in->pos_addin);
    pos = cut_rows(m, in->pos, one_int(m, 0), steno_make_extent_of(m, x, 1));
    x = steno_make_add(m, steno_make_scale(m, x, root), pos);
    x = steno_make_slice(m, steno_make_concat(m, 1, x, zeros), 1, 0, e->block);
    x = steno_make_concat(m, 1, first_is(m, in, in->addin, *addin), x);
    return steno_make_concat(m, 1, x, *addin);
}

/* All layers. After each, row 0 becomes the layer's context of the block before. *ctx: the contexts
 * [1,blocks,d]. */
static steno_value_id layers(struct steno_make *m, const struct steno_espnet_encoder *e,
                             const struct ends *in, steno_value_id x, steno_value_id *ctx)
{
    const struct steno_espnet_view v = {
        .pos = STENO_NONE,
        .hidden = steno_make_2(m, "Equal", in->mask, steno_make_number(m, 0)),
        .off = STENO_NONE,
        .mask = STENO_NONE};
    steno_value_id last[STENO_ESPNET_MAX_BLOCKS];
    for (int64_t i = 0; i < e->blocks && !m->st; i++) {
        steno_value_id head;
        steno_make_at(m, "encoder.encoders.%d.", (int)i);
        x = steno_espnet_layer(m, x, &v, e, i);
        last[i] = steno_make_slice(m, x, 1, -1, INT64_MAX);
        head = first_is(m, in, steno_make_slice(m, in->ctx, 1, i, i + 1), last[i]);
        x = steno_make_concat(m, 1, head, steno_make_slice(m, x, 1, 1, INT64_MAX));
    }
    *ctx = m->st ? STENO_NONE : steno_make_join(m, 1, (int)e->blocks, last);
    return x;
}

/* The frames that this block is the last to see; the first block gives all up to there. */
static steno_value_id final_frames(struct steno_make *m, const struct steno_espnet_encoder *e,
                                   const struct ends *in, steno_value_id x)
{
    const int64_t offset = e->block - e->look_ahead - e->hop;
    steno_value_id later = steno_make_2(m, "Sub", one_int(m, 1), in->first);
    steno_value_id from =
        steno_make_add(m, steno_make_2(m, "Mul", later, one_int(m, offset)), one_int(m, 1));
    x = cut_rows(m, x, from, one_int(m, 1 + e->block - e->look_ahead));
    steno_make_at(m, "encoder.");
    return e->before ? steno_make_norm(m, x, "after_norm", e->d, STENO_ESPNET_EPSILON) : x;
}

steno_status steno_espnet_write_blocks(const struct steno_espnet_encoder *e,
                                       const struct steno_make_weights *w, const char *path,
                                       steno_err *err)
{
    const int64_t d = e->d;
    struct steno_make m;
    struct ends in;
    steno_value_id x, before, after, addin, ctx;
    if (steno_make_begin(&m, w, 9, err))
        return m.st;
    m.asked = "encoder_conf";
    add_inputs(&m, e, &in);
    x = subsampled(&m, e, &in, &before);
    x = one_block(&m, e, &in, x, &after);
    x = framed(&m, e, &in, x, &addin);
    x = layers(&m, e, &in, x, &ctx);
    steno_espnet_check_blocks(&m, e);
    x = final_frames(&m, e, &in, x);
    steno_make_output(&m, x, "ys_pad", STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(&m, "ys_pad_length"), d});
    steno_make_output(&m, before, "next_buffer_before_downsampling", STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(&m, "nbbd_length"), e->in});
    steno_make_output(&m, after, "next_buffer_after_downsampling", STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(&m, "nbad_length"), d});
    steno_make_output(&m, addin, "next_addin", STENO_F32, 3, (int64_t[]){1, 1, d});
    steno_make_output(&m, ctx, "next_encoder_ctx", STENO_F32, 3, (int64_t[]){1, e->blocks, d});
    return steno_make_write(&m, path, NULL);
}
