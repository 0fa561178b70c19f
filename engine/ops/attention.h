/* Scaled dot-product attention, the core that Attention (ONNX 23 to 25) and the com.microsoft
 * operators share. */
#ifndef STENO_OPS_ATTENTION_H
#define STENO_OPS_ATTENTION_H

#include "ops/op.h"

/* [batch, heads, rows, size] with the last axis dense; strides in elements. Two heads may lie side
 * by side in a row ([batch, rows, heads * size]): no transposition is needed for that. */
struct steno_attn_view {
    const float *data;
    size_t batch, head, row;
};

enum steno_attn_capture {
    STENO_ATTN_RAW,
    STENO_ATTN_CAPPED,
    STENO_ATTN_BIASED,
    STENO_ATTN_WEIGHTS
};

struct steno_attention {
    size_t batch, q_heads, kv_heads, rows, keys, size, v_size; /* kv_heads divides q_heads */
    struct steno_attn_view q, k, v;
    float *y; /* written with y_view's strides */
    struct steno_attn_view y_view;
    float scale;
    float softcap; /* 0 = none */
    /* Added to the scores: mask [batch, heads, rows, mask_keys], stride 0 where it repeats; keys
     * from mask_keys on are masked out. NULL = none. */
    struct steno_attn_view mask;
    size_t mask_keys;
    /* Key j is seen by row i when i + offset - left <= j <= i + offset + right; -1 = unbounded. */
    int64_t left, right;
    const int64_t *offset; /* [batch] */
    const int64_t *valid;  /* [batch] keys that count, or NULL = all */
    float *captured;       /* [batch, q_heads, rows, keys] or NULL */
    enum steno_attn_capture capture;
};

/* y = softmax(cap(q k' * scale) + bias) v. A row that may see no key is zero. Shared out over batch
 * and heads. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_attention(struct steno_op_ctx *ctx,
                                            const struct steno_attention *a, steno_err *err);

#endif
