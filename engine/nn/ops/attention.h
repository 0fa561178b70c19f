/* Scaled dot-product attention, the core that Attention (ONNX 23 to 25) and the com.microsoft
 * operators share. */
#ifndef STENO_NN_OPS_ATTENTION_H
#define STENO_NN_OPS_ATTENTION_H

#include "nn/exec/op.h"

/* [batch, heads, rows, size] with the last axis dense; strides in elements. Two heads may lie side
 * by side in a row ([batch, rows, heads * size]): no transposition is needed for that. */
struct steno_attention_view {
    const float *data;
    size_t batch, head, row;
};

enum steno_attention_capture {
    STENO_ATTENTION_RAW,
    STENO_ATTENTION_CAPPED,
    STENO_ATTENTION_BIASED,
    STENO_ATTENTION_WEIGHTS
};

/* One byte for each score, non-zero where the key is hidden; strides in bytes, 0 where it repeats.
 */
struct steno_attention_hidden {
    const uint8_t *data;
    size_t batch, head, row, key;
};

struct steno_attention {
    size_t batch, q_heads, kv_heads, rows, keys, size, v_size; /* kv_heads divides q_heads */
    struct steno_attention_view q, k, v;
    float *y; /* written with y_view's strides */
    struct steno_attention_view y_view;
    float scale;
    float softcap; /* 0 = none */
    /* Added to the scores: mask [batch, heads, rows, mask_keys], stride 0 where it repeats; keys
     * from mask_keys on are masked out. NULL = none. */
    struct steno_attention_view mask;
    size_t mask_keys;
    /* Key j is seen by row i when i + offset - left <= j <= i + offset + right; -1 = unbounded. */
    int64_t left, right;
    const int64_t *offset;                /* [batch] */
    const int64_t *valid;                 /* [batch] keys that count, or NULL = all */
    struct steno_attention_hidden hidden; /* data NULL = none */
    /* Relative positions (Transformer-XL): p [batch, heads, p_len, size], data NULL = none. The
     * score of row i and key j gets, before the scale, element (i, j) of the shifted product
     * (q + p_bias) p'; nn/ops/op_fused_attention.c says what RelativeShift does. */
    struct steno_attention_view p;
    size_t p_len;
    bool p_by_key;                /* p has a row for each key, and the product is not shifted */
    const float *q_bias, *p_bias; /* [q_heads * size] added to q for k and for p, or NULL */
    bool use_bf16;   /* factors may be rounded to bf16 where the CPU multiplies such numbers */
    float empty;     /* result of a row that sees no key */
    float *captured; /* [batch, q_heads, rows, keys] or NULL */
    enum steno_attention_capture capture;
};

/* y = softmax(cap((q + q_bias) k' + shift((q + p_bias) p')) * scale) + bias) v. A row that may see
 * no key is `empty`. Shared out over batch and heads. Scores exist a tile at a time (online
 * softmax: Dao et al., FlashAttention, 2022), but for softcap and capture, where they exist by rows
 * and p, q_bias, p_bias and hidden must be NULL. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_attention(struct steno_op_ctx *ctx,
                                            const struct steno_attention *a, steno_err *err);

/* Row i of the shifted x: out[j - from] = element (i, j) of RelativeShift(x [rows, len]), from <= j
 * < to. x starts at row `first` of the whole; only the rows that are needed have to be there. */
void steno_ops_shift_row(float *out, const float *x, size_t first, size_t rows, size_t len,
                         size_t i, size_t from, size_t to);

/* Attributes heads, size, v_size, and first columns q_at, k_at, v_at and `fourth`.
 * STENO_ERR_FORMAT: one of them is no such thing. */
STENO_MUST steno_status steno_attention_check_columns(const struct steno_node *n,
                                                      const char *fourth, steno_err *err);

/* Input `in`, bool or f32, broadcast to a's [batch, q_heads, rows, keys], into a->hidden or
 * a->mask; nothing when it is absent. NULL, or what is wrong. */
const char *steno_attention_read_mask(struct steno_op_ctx *ctx, int in, struct steno_attention *a);

/* First key and the one past the last that row i of batch entry b may see by length and window. */
void steno_attention_visible(const struct steno_attention *a, size_t b, size_t i, size_t *from,
                             size_t *to);
/* What row i of head h, batch entry b, sees of keys [j0, j0 + n): [*from, *to) of them. Where keys
 * between are hidden, or a mask is added, returns that mask, in `made`, of n floats, if it has to
 * be made; else NULL. */
const float *steno_attention_mask_row(const struct steno_attention *a, size_t b, size_t h, size_t i,
                                      size_t j0, size_t n, float *made, size_t *from, size_t *to);

/* RelativeShift reaches into the row before: positions are fewer than rows and keys need. */
static inline bool steno_attention_wraps(const struct steno_attention *a)
{
    return !a->p_by_key && a->rows + a->keys > a->p_len + 1;
}

/* Room for n times `each` bytes from *at = *bytes on, which grows by it; false when it overflows.
 */
bool steno_attention_reserve(size_t *bytes, size_t *at, size_t n, size_t each);
/* y [v_size] of a row: o over the sum of its weights, or what a row gets that sees no key, by the
 * largest of its scores. y == o allowed. */
void steno_attention_finish(const struct steno_attention *a, const steno_kernels *k, float *y,
                            const float *o, float max, float sum);

/* ---- attention_fused.c ---- */
struct steno_attention_fused {
    const struct steno_attention *a;
    const steno_kernels *k;
    void (*attend)(const struct steno_attend *a); /* in f32 or bf16, and how that is packed */
    size_t (*packed_bytes)(size_t k, size_t n);
    void (*pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    size_t bytes; /* of one part's scratch */
    bool plain;   /* all rows see all keys */
    bool skips;   /* blocks that a mask hides */
    size_t block; /* keys at a time */
    size_t at_k, at_v, at_p, at_edge, at_o, at_row, at_seen, at_mask;
};
bool steno_attention_fused_fits(const struct steno_attention *a, const steno_kernels *k);
/* False: sizes overflow. */
bool steno_attention_fused_init(struct steno_attention_fused *t, const struct steno_attention *a,
                                const steno_kernels *k);
/* One head of one batch entry; mem: t->bytes, 64-byte aligned. */
void steno_attention_fused_head(const struct steno_attention_fused *t, size_t b, size_t h,
                                char *mem);

/* ---- attention_tiled.c ---- */
struct steno_attention_tiles {
    const struct steno_attention *a;
    const steno_kernels *k;
    bool use_bf16; /* products in bf16 */
    size_t bytes;  /* of one part's scratch */
    size_t tile;   /* rows at a time */
    size_t block;  /* keys at a time */
    bool skips;    /* blocks that a mask hides */
    size_t score_ld, pos_ld;
    size_t work_bytes;
    size_t at_q, at_s, at_p, at_o, at_mask, at_row, at_k, at_v, at_pos, at_work;
};
/* False: sizes overflow. */
bool steno_attention_tiles_init(struct steno_attention_tiles *t, const struct steno_attention *a,
                                const steno_kernels *k);
/* One head of one batch entry; mem: t->bytes, 64-byte aligned. */
void steno_attention_tiles_head(const struct steno_attention_tiles *t, size_t b, size_t h,
                                char *mem);

#endif
