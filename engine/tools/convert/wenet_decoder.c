/* The attention decoder of WeNet (wenet/transformer/decoder.py, decoder_layer.py), which scores
 * whole hypotheses from left to right and, in U2++, from right to left too (asr_model.py,
 * forward_attention_decoder); and the metadata of the networks. */
#include "tools/convert/wenet_graphs.h"

#include <math.h>
#include <stdio.h>

/* ---- metadata ------------------------------------------------------------------------------ */

static void meta_int(struct steno_make *m, const char *key, int64_t v)
{
    steno_make_meta(m, key, "%lld", (long long)v);
}

void steno_wenet_sherpa_meta(struct steno_make *m, const struct steno_wenet_arch *a, bool streaming)
{
    steno_make_meta(m, "model_type", "wenet_ctc");
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "model_author", "wenet");
    steno_make_meta(m, "comment", streaming ? "streaming" : "non-streaming");
    steno_make_meta(m, "url", "%s", "");
    meta_int(m, "subsampling_factor", steno_wenet_subsampling(a));
    meta_int(m, "vocab_size", a->vocab);
    if (!streaming)
        return;
    meta_int(m, "chunk_size", a->chunk);
    meta_int(m, "left_chunks", a->left);
    meta_int(m, "head", a->heads);
    meta_int(m, "num_blocks", a->blocks);
    meta_int(m, "output_size", a->d);
    meta_int(m, "cnn_module_kernel", a->kernel);
    meta_int(m, "right_context", steno_wenet_right_context(a));
}

void steno_wenet_runtime_meta(struct steno_make *m, const struct steno_wenet_arch *a)
{
    const int64_t by = steno_wenet_subsampling(a), right = steno_wenet_right_context(a);
    meta_int(m, "batch", 1);
    meta_int(m, "chunk_size", a->chunk);
    meta_int(m, "left_chunks", a->left);
    steno_make_meta(m, "reverse_weight", "%g", a->reverse_weight);
    meta_int(m, "output_size", a->d);
    meta_int(m, "num_blocks", a->blocks);
    meta_int(m, "cnn_module_kernel", a->kernel);
    meta_int(m, "head", a->heads);
    meta_int(m, "feature_size", a->in);
    meta_int(m, "vocab_size", a->vocab);
    meta_int(m, "decoding_window", a->chunk > 0 ? (a->chunk - 1) * by + right + 1 : 67);
    steno_make_meta(m, "encoder", a->conformer ? "conformer" : "transformer");
    steno_make_meta(m, "decoder", a->right_blocks ? "bitransformer" : "transformer");
    meta_int(m, "subsampling_rate", by);
    meta_int(m, "right_context", right);
    meta_int(m, "sos_symbol", a->sos);
    meta_int(m, "eos_symbol", a->eos);
    meta_int(m, "is_bidirectional_decoder", a->right_blocks > 0);
}

/* ---- the decoder --------------------------------------------------------------------------- */

struct decoder {
    const struct steno_wenet_arch *a;
    steno_value_id memory; /* [1,T,d] */
    steno_value_id mask;   /* [B,1,L,L]: of the tokens before each one */
    steno_value_id range;  /* [L] */
};

static steno_value_id decoder_attention(struct steno_make *m, const struct decoder *e,
                                        const char *name, steno_value_id x, steno_value_id kv,
                                        steno_value_id mask)
{
    const struct steno_wenet_arch *a = e->a;
    const int64_t h = a->dec_heads, d = a->d;
    steno_value_id q = steno_make_heads_of(m, x, name, "linear_q", h, d, false, a->dec_query_bias),
                   k = steno_make_heads_of(m, kv, name, "linear_k", h, d, false, a->dec_key_bias),
                   v = steno_make_heads_of(m, kv, name, "linear_v", h, d, false, a->dec_value_bias);
    return steno_wenet_weigh(m, name, steno_wenet_products(m, q, k), mask, v, h, d);
}

static steno_value_id wenet_decoder_layer(struct steno_make *m, const struct decoder *e,
                                          steno_value_id x)
{
    const struct steno_wenet_arch *a = e->a;
    const float eps = a->dec_epsilon;
    STENO_MAKE_RESIDUAL(m, x, "norm1", a->d, a->dec_before, eps, 1,
                        decoder_attention(m, e, "self_attn", y, y, e->mask));
    STENO_MAKE_RESIDUAL(m, x, "norm2", a->d, a->dec_before, eps, 1,
                        decoder_attention(m, e, "src_attn", y, e->memory, STENO_NONE));
    STENO_MAKE_RESIDUAL(
        m, x, "norm3", a->d, a->dec_before, eps, 1,
        steno_make_feed_forward(m, y, "feed_forward", a->d, a->dec_ff, a->dec_activation));
    return x;
}

static void refuse_more(struct steno_make *m, int64_t blocks)
{
    char name[60];
    snprintf(name, sizeof name, "decoders.%d.norm1.weight", (int)blocks);
    if (!m->st && steno_make_has(m, name))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: '%s%s' is there: more than the %d blocks of decoder_conf",
                           m->w.file, m->prefix, name, (int)blocks);
}

/* Scores [B,L,vocab] of the next token behind each token of ids [B,L]. */
static steno_value_id token_scores(struct steno_make *m, const struct decoder *e,
                                   const char *prefix, int64_t blocks, steno_value_id ids,
                                   steno_value_id pe)
{
    const struct steno_wenet_arch *a = e->a;
    static const int64_t zero = 0;
    steno_value_id x, n;
    steno_make_at(m, "%s", prefix);
    refuse_more(m, blocks);
    x = steno_make_embed(m, ids, "embed.0.weight", a->vocab, a->d);
    n = steno_make_extent_of(m, ids, 1);
    x = steno_make_add(m, steno_make_scale(m, x, sqrtf((float)a->d)),
                       steno_make_cut(m, pe, 1, steno_make_ints(m, 1, &zero), n));
    for (int i = 0; i < blocks && !m->st; i++) {
        steno_make_at(m, "%sdecoders.%d.", prefix, i);
        x = wenet_decoder_layer(m, e, x);
    }
    steno_make_at(m, "%s", prefix);
    if (a->dec_before)
        x = steno_make_norm(m, x, "after_norm", a->d, a->dec_epsilon);
    x = steno_make_linear(m, x, "output_layer", a->d, a->vocab, true);
    return steno_make_softmax(m, "LogSoftmax", x, -1);
}

/* A token sees those before it and itself, and no padding. lengths [B,1] */
static steno_value_id mask_of(struct steno_make *m, steno_value_id range, steno_value_id lengths)
{
    steno_value_id row = steno_make_unsqueeze(m, range, 1),
                   past = steno_make_2(m, "LessOrEqual", range, row),
                   real = steno_make_unsqueeze(m, steno_make_2(m, "Less", range, lengths), 1);
    return steno_make_unsqueeze(m, steno_make_2(m, "And", past, real), 1);
}

/* The hypotheses [B,L] from right to left behind their first token: token j of n is n - j; what is
 * behind the last one becomes the end. */
static steno_value_id reversed(struct steno_make *m, const struct decoder *e, steno_value_id ids,
                               steno_value_id lengths)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    steno_value_id zero = steno_make_int(m, 0), real = steno_make_2(m, "Less", e->range, lengths),
                   tail = steno_make_2(m, "Greater", e->range, zero), at, y;
    at = steno_make_2(m, "Sub", lengths, e->range);
    at = steno_make_node(m, "Where", 3,
                         (steno_value_id[]){steno_make_2(m, "And", real, tail), at, zero}, 0, NULL);
    y = steno_make_node(m, "GatherElements", 2, (steno_value_id[]){ids, at}, 1, &axis);
    return steno_make_node(m, "Where", 3, (steno_value_id[]){real, y, steno_make_int(m, e->a->eos)},
                           0, NULL);
}

steno_status steno_wenet_write_decoder(const struct steno_wenet_arch *a,
                                       const struct steno_make_weights *w, const char *path,
                                       steno_err *err)
{
    struct decoder e = {.a = a};
    struct steno_make m;
    steno_value_id ids, lengths, n, pe, y;
    int64_t batch, length;
    if (steno_make_begin(&m, w, 3, err))
        return m.st;
    m.asked = "decoder_conf";
    batch = steno_make_symbol(&m, "NBEST");
    length = steno_make_symbol(&m, "L");
    ids = steno_make_input(&m, "hyps", STENO_I64, 2, (int64_t[]){batch, length});
    lengths = steno_make_input(&m, "hyps_lens", STENO_I64, 1, &batch);
    e.memory = steno_make_input(&m, "encoder_out", STENO_F32, 3,
                                (int64_t[]){1, steno_make_symbol(&m, "T"), a->d});
    n = steno_make_2(&m, "Gather", steno_make_1(&m, "Shape", ids), steno_make_int(&m, 1));
    e.range = steno_make_node(&m, "Range", 3,
                              (steno_value_id[]){steno_make_int(&m, 0), n, steno_make_int(&m, 1)},
                              0, NULL);
    lengths = steno_make_unsqueeze(&m, lengths, 1);
    e.mask = mask_of(&m, e.range, lengths);
    pe = steno_make_sinusoids(&m, "pe", STENO_WENET_POSITIONS, a->d, 0, 1);
    y = token_scores(&m, &e, a->right_blocks ? "decoder.left_decoder." : "decoder.", a->dec_blocks,
                     ids, pe);
    steno_make_output(&m, y, "score", STENO_F32, 3, (int64_t[]){batch, length, a->vocab});
    if (a->right_blocks)
        y = token_scores(&m, &e, "decoder.right_decoder.", a->right_blocks,
                         reversed(&m, &e, ids, lengths), pe);
    else /* WeNet's network has this output in any case */
        y = steno_make_1(&m, "Identity", steno_make_number(&m, 0));
    steno_make_output(&m, y, "r_score", STENO_F32, a->right_blocks ? 3 : 0,
                      (int64_t[]){batch, length, a->vocab});
    steno_wenet_runtime_meta(&m, a);
    return steno_make_write(&m, path, NULL);
}
