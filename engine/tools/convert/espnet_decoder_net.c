/* espnet2/asr/ctc.py, decoder/transformer_decoder.py, lm/transformer_lm.py of ESPnet 202511. No
 * position is masked: the last token of a prefix attends to all before it. */
#include "tools/convert/espnet_graphs.h"
#include "tools/convert/espnet_parts.h"

#include <math.h>
#include <stdio.h>

steno_status steno_espnet_write_ctc(const struct steno_espnet_arch *a,
                                    const struct steno_make_weights *w, const char *path,
                                    steno_err *err)
{
    struct steno_make m;
    steno_value_id x;
    int64_t rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "token_list";
    rows = steno_make_symbol(&m, "ctc_in_length");
    x = steno_make_input(&m, "x", STENO_F32, 3, (int64_t[]){1, rows, a->d});
    steno_make_at(&m, "ctc.");
    x = steno_make_linear(&m, x, "ctc_lo", a->d, a->vocab, true);
    x = steno_make_softmax(&m, "LogSoftmax", x, -1);
    steno_make_output(&m, x, "ctc_out", STENO_F32, 3, (int64_t[]){1, rows, a->vocab});
    return steno_make_write(&m, path, NULL);
}

/* ---- decoder, language model --------------------------------------------------------------- */

static steno_value_id last_row(struct steno_make *m, steno_value_id x)
{
    return steno_make_slice(m, x, 1, -1, INT64_MAX);
}

/* The last row alone, without its axis. */
static steno_value_id last_vector(struct steno_make *m, steno_value_id x)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    return steno_make_node(m, "Gather", 2, (steno_value_id[]){x, steno_make_int(m, -1)}, 1, &axis);
}

static steno_value_id cache(struct steno_make *m, int i, int64_t d)
{
    char name[32], rows[40], batch[40];
    snprintf(name, sizeof name, "cache_%d", i);
    snprintf(batch, sizeof batch, "cache_%d_batch", i);
    snprintf(rows, sizeof rows, "cache_%d_length", i);
    return steno_make_input(
        m, name, STENO_F32, 3,
        (int64_t[]){steno_make_symbol(m, batch), steno_make_symbol(m, rows), d});
}

static void out_cache(struct steno_make *m, int i, int64_t d, steno_value_id v)
{
    char name[32], rows[40], batch[40];
    snprintf(name, sizeof name, "out_cache_%d", i);
    snprintf(batch, sizeof batch, "out_cache_%d_batch", i);
    snprintf(rows, sizeof rows, "out_cache_%d_length", i);
    steno_make_output(m, v, name, STENO_F32, 3,
                      (int64_t[]){steno_make_symbol(m, batch), steno_make_symbol(m, rows), d});
}

/* Norm of all rows, of which the last one asks. */
static steno_value_id self_attention(struct steno_make *m, steno_value_id x, const char *norm,
                                     int64_t heads, int64_t d, bool before)
{
    steno_value_id all = before ? steno_make_norm(m, x, norm, d, STENO_ESPNET_EPSILON) : x, y;
    y = steno_espnet_attention(m, "self_attn", last_row(m, all), all, heads, d);
    y = steno_make_add(m, last_row(m, x), y);
    return before ? y : steno_make_norm(m, y, norm, d, STENO_ESPNET_EPSILON);
}

steno_status steno_espnet_write_decoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    const int64_t d = a->d, layers = a->dec_blocks;
    struct steno_make m;
    steno_value_id tgt, memory, x, past[256];
    if (layers > 256)
        return steno_fail(err, STENO_ERR_LIMIT, "decoder_conf.num_blocks: more than 256");
    if (steno_make_begin(&m, w, (int)layers + 4, err))
        return m.st;
    m.asked = "decoder_conf";
    tgt = steno_make_input(
        &m, "tgt", STENO_I64, 2,
        (int64_t[]){steno_make_symbol(&m, "tgt_batch"), steno_make_symbol(&m, "tgt_length")});
    memory = steno_make_input(&m, "memory", STENO_F32, 3,
                              (int64_t[]){steno_make_symbol(&m, "memory_batch"),
                                          steno_make_symbol(&m, "memory_length"), d});
    for (int i = 0; i < layers; i++)
        past[i] = cache(&m, i, d);
    steno_make_at(&m, "decoder.");
    x = steno_make_embed(&m, tgt, "embed.0.weight", a->vocab, d);
    x = steno_make_scale(&m, x, sqrtf((float)d));
    x = steno_make_add(&m, x,
                       steno_espnet_positions(
                           &m, x, steno_make_sinusoids(&m, "pe", STENO_ESPNET_POSITIONS, d, 0, 1)));
    for (int i = 0; i < layers && !m.st; i++) {
        steno_make_at(&m, "decoder.decoders.%d.", i);
        x = self_attention(&m, x, "norm1", a->dec_heads, d, a->dec_before);
        STENO_ESPNET_RESIDUAL(&m, x, "norm2", d, a->dec_before, 1,
                              steno_espnet_attention(&m, "src_attn", y, memory, a->dec_heads, d));
        STENO_ESPNET_RESIDUAL(&m, x, "norm3", d, a->dec_before, 1,
                              steno_make_feed_forward(&m, y, "feed_forward", d, a->dec_ff, "relu"));
        x = steno_make_concat(&m, 1, past[i], x);
        past[i] = x;
        x = steno_make_slice(&m, x, 1, 1, INT64_MAX);
    }
    steno_make_at(&m, "decoder.");
    x = last_vector(&m, x);
    if (a->dec_before)
        x = steno_make_norm(&m, x, "after_norm", d, STENO_ESPNET_EPSILON);
    x = steno_make_softmax(&m, "LogSoftmax",
                           steno_make_linear(&m, x, "output_layer", d, a->vocab, true), -1);
    steno_make_output(&m, x, "y", STENO_F32, 2,
                      (int64_t[]){steno_make_symbol(&m, "y_batch"), a->vocab});
    for (int i = 0; i < layers; i++)
        out_cache(&m, i, d, past[i]);
    return steno_make_write(&m, path, NULL);
}

steno_status steno_espnet_write_lm(const struct steno_espnet_arch *a,
                                   const struct steno_make_weights *w, const char *path,
                                   steno_err *err)
{
    const int64_t d = a->lm_d, e = a->lm_embed, layers = a->lm_blocks;
    struct steno_make m;
    steno_value_id tgt, x, past[256];
    if (layers > 256)
        return steno_fail(err, STENO_ERR_LIMIT, "lm_conf.layer: more than 256");
    if (steno_make_begin(&m, w, (int)layers + 4, err))
        return m.st;
    m.asked = "lm_conf";
    tgt = steno_make_input(
        &m, "tgt", STENO_I64, 2,
        (int64_t[]){steno_make_symbol(&m, "tgt_batch"), steno_make_symbol(&m, "tgt_length")});
    for (int i = 0; i < layers; i++)
        past[i] = cache(&m, i, d);
    steno_make_at(&m, "lm.");
    x = steno_make_embed(&m, tgt, "embed.weight", a->vocab, e);
    steno_make_at(&m, "lm.encoder.embed.");
    x = steno_make_norm(&m, steno_make_linear(&m, x, "0", e, d, true), "1", d, 1e-5f);
    x = steno_make_1(&m, "Relu", x);
    if (a->lm_positions)
        x = steno_make_add(
            &m, steno_make_scale(&m, x, sqrtf((float)d)),
            steno_espnet_positions(
                &m, x, steno_make_sinusoids(&m, "pe", STENO_ESPNET_POSITIONS, d, 0, 1)));
    for (int i = 0; i < layers && !m.st; i++) {
        steno_make_at(&m, "lm.encoder.encoders.%d.", i);
        x = self_attention(&m, x, "norm1", a->lm_heads, d, true);
        STENO_ESPNET_RESIDUAL(&m, x, "norm2", d, true, 1,
                              steno_make_feed_forward(&m, y, "feed_forward", d, a->lm_ff, "relu"));
        x = steno_make_concat(&m, 1, past[i], x);
        past[i] = x;
    }
    steno_make_at(&m, "lm.");
    x = steno_make_norm(&m, last_vector(&m, x), "encoder.after_norm", d, STENO_ESPNET_EPSILON);
    x = steno_make_linear(&m, x, "decoder", d, a->vocab, true);
    steno_make_output(&m, x, "y", STENO_F32, 2,
                      (int64_t[]){steno_make_symbol(&m, "y_batch"), a->vocab});
    for (int i = 0; i < layers; i++)
        out_cache(&m, i, d, past[i]);
    return steno_make_write(&m, path, NULL);
}
