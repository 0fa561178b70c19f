/* Self-attention of the encoders: transformer/attention.py, asr/layers/fastformer.py of ESPnet
 * 202511. No position is masked. */
#include "tools/convert/espnet_encoder.h"
#include "tools/convert/espnet_parts.h"

#include <float.h>
#include <stdio.h>

static steno_value_id rel_attention(struct steno_make *m, const char *name, steno_value_id x,
                                    steno_value_id positions, const struct steno_espnet_encoder *e)
{
    const int64_t h = e->heads, d = e->d;
    steno_value_id q, k, v, p, content, place;
    q = steno_make_split(m, steno_make_linear_of(m, x, name, "linear_q", d, d, true), h, d);
    k = steno_make_heads_of(m, x, name, "linear_k", h, d, true, true);
    v = steno_make_heads_of(m, x, name, "linear_v", h, d, false, true);
    p = steno_make_heads_of(m, positions, name, "linear_pos", h, d, true, false);
    content = steno_make_2(m, "MatMul", steno_make_biased(m, q, name, "pos_bias_u", h, d), k);
    place = steno_make_2(m, "MatMul", steno_make_biased(m, q, name, "pos_bias_v", h, d), p);
    place = steno_make_shift(m, place, e->pos == STENO_ESPNET_POS_LATEST);
    if (e->zero_triu && e->pos == STENO_ESPNET_POS_LATEST) { /* legacy ones ignore the flag */
        const struct steno_attr lower = {.name = "upper", .kind = STENO_ATTR_INT, .i = 0};
        place = steno_make_node(m, "Trilu", 1, &place, 1, &lower);
    }
    return steno_espnet_weigh(m, name, steno_make_root(m, steno_make_add(m, content, place), d / h),
                              v, d);
}

/* The rows of x [1,T,d], per head, weighed by softmax(NAME(x) / sqrt(d / heads)): [1,h,1,d / h]. */
static steno_value_id pool(struct steno_make *m, const char *name, const char *part,
                           steno_value_id x, steno_value_id heads,
                           const struct steno_espnet_encoder *e)
{
    steno_value_id s = steno_make_linear_of(m, x, name, part, e->d, e->heads, true);
    s = steno_make_turn(m, steno_make_root(m, s, e->d / e->heads));
    s = steno_make_softmax(m, "Softmax", s, -1);
    s = steno_make_unsqueeze(m, s, 2);
    return steno_make_2(m, "MatMul", s, heads);
}

/* Additive attention (Wu et al., Fastformer, 2021): its work grows with T, not with T squared. */
static steno_value_id fast_attention(struct steno_make *m, const char *name, steno_value_id x,
                                     const struct steno_espnet_encoder *e)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    const int64_t d = e->d, h = e->heads, join[] = {0, -1, d};
    steno_value_id q = steno_make_linear_of(m, x, name, "query", d, d, true), k, queries, y;
    k = steno_make_linear_of(m, x, name, "key", d, d, true);
    queries = steno_make_heads(m, q, h, d, false);
    y = pool(m, name, "query_att", q, queries, e);
    k = steno_make_2(m, "Mul", k, steno_make_reshape(m, y, 3, join));
    y = pool(m, name, "key_att", k, steno_make_heads(m, k, h, d, false), e);
    y = steno_make_transpose(m, steno_make_2(m, "Mul", y, queries), 4, turn);
    y = steno_make_reshape(m, y, 3, join);
    return steno_make_add(m, steno_make_linear_of(m, y, name, "transform", d, d, true), q);
}

/* Heads of a part of x; with qk_norm they are normalized. */
static steno_value_id normed_heads(struct steno_make *m, const char *name, const char *part,
                                   const char *norm, steno_value_id x,
                                   const struct steno_espnet_encoder *e)
{
    char full[120];
    x = steno_make_heads_of(m, x, name, part, e->heads, e->d, false, true);
    snprintf(full, sizeof full, "%s.%s", name, norm);
    return e->qk_norm ? steno_make_norm(m, x, full, e->d / e->heads, STENO_ESPNET_EPSILON) : x;
}

static steno_value_id plain_attention(struct steno_make *m, const char *name, steno_value_id x,
                                      steno_value_id hidden, const struct steno_espnet_encoder *e)
{
    static const int64_t columns[] = {0, 1, 3, 2}, rows[] = {0, 2, 1, 3};
    const int64_t d = e->d, h = e->heads;
    steno_value_id q = normed_heads(m, name, "linear_q", "q_norm", x, e);
    steno_value_id k = normed_heads(m, name, "linear_k", "k_norm", x, e);
    steno_value_id v = steno_make_heads_of(m, x, name, "linear_v", h, d, false, true);
    steno_value_id s = steno_make_2(m, "MatMul", q, steno_make_transpose(m, k, 4, columns));
    s = steno_make_root(m, s, d / h);
    if (hidden == STENO_NONE)
        return steno_espnet_weigh(m, name, s, v, d);
    s = steno_make_softmax(m, "Softmax", steno_make_hide(m, hidden, -FLT_MAX, s), -1);
    s = steno_make_2(m, "MatMul", steno_make_hide(m, hidden, 0, s), v);
    s = steno_make_reshape(m, steno_make_transpose(m, s, 4, rows), 3, (int64_t[]){0, -1, d});
    return steno_make_linear_of(m, s, name, "linear_out", d, d, true);
}

steno_value_id steno_espnet_self_attention(struct steno_make *m, const char *name, steno_value_id x,
                                           const struct steno_espnet_view *v,
                                           const struct steno_espnet_encoder *e)
{
    if (e->window_rows)
        return steno_espnet_local_attention(m, name, x, v, e);
    if (e->fast)
        return fast_attention(m, name, x, e);
    if (v->pos != STENO_NONE)
        return rel_attention(m, name, x, v->pos, e);
    if (e->qk_norm || v->hidden != STENO_NONE)
        return plain_attention(m, name, x, v->hidden, e);
    return steno_espnet_attention(m, name, x, x, e->heads, e->d);
}
