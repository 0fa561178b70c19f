/* Scaled dot-product attention: the core that Attention (ONNX 23 to 25) and the com.microsoft
 * operators share. */
#ifndef STENO_NN_OPS_ATTENTION_H
#define STENO_NN_OPS_ATTENTION_H

#include "nn/exec/op.h"

/* View of [batch, heads, rows, size]; the last axis is dense, strides are in elements. Heads may
 * lie side by side in a row ([batch, rows, heads * size]); such input needs no transposition. */
struct steno_attention_view {
    const float *data;
    size_t batch, head, row;
};

#define STENO_ATTENTION_HIDES (-1e29f)

enum steno_attention_capture {
    STENO_ATTENTION_RAW,
    STENO_ATTENTION_CAPPED,
    STENO_ATTENTION_BIASED,
    STENO_ATTENTION_WEIGHTS
};

/* One byte for each score, non-zero where the key is hidden. Strides are in bytes, 0 on an axis
 * that repeats. */
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
    /* Added to the scores: [batch, heads, rows, mask_keys], stride 0 on an axis that repeats. Keys
     * from mask_keys on are masked out. NULL = no mask. */
    struct steno_attention_view mask;
    size_t mask_keys;
    /* Row i sees key j when i + offset - left <= j <= i + offset + right; -1 = unbounded. */
    int64_t left, right;
    const int64_t *offset;                /* [batch] */
    const int64_t *valid;                 /* [batch] number of valid keys, or NULL = all */
    struct steno_attention_hidden hidden; /* data NULL = none */
    /* With `fills` hidden keys have the score `fill` in the softmax: it takes weight from the other
     * keys where their scores are as low. Their own weight is 0 in any case. */
    bool fills;
    float fill;
    /* The mask stands for a Where that puts `fill` in place of the scores beside which the mask is
     * below STENO_ATTENTION_HIDES, and every other number of it is 0. p must be NULL. */
    bool replaces;
    /* Relative positions (Transformer-XL): p [batch, heads, p_len, size], data NULL = none. Before
     * the scale, the score of row i and key j gets element (i, j) of the shifted product (q +
     * p_bias) p'; nn/ops/op_fused_attention.c defines RelativeShift. */
    struct steno_attention_view p;
    size_t p_len;
    bool p_by_key;                /* p has one row for each key; the product is not shifted */
    const float *q_bias, *p_bias; /* [q_heads * size], added to q for k and for p; or NULL */
    bool use_bf16;   /* factors may be rounded, to bf16 where the CPU multiplies bf16, else to
                      * integers of 16 bits where all rows see all keys */
    float empty;     /* result of a row that sees no key */
    bool no_nan;     /* a row whose weights are NaN has the result 0 */
    float *captured; /* [batch, q_heads, rows, keys] or NULL */
    enum steno_attention_capture capture;
};

/* y = softmax(cap(((q + q_bias) k' + shift((q + p_bias) p')) * scale) + bias) v. A row that sees no
 * key gets the value `empty`. Parallel over batch and heads. Scores exist one tile at a time
 * (online softmax: Dao et al., FlashAttention, 2022). Softcap and capture need whole rows of
 * scores; with them p, q_bias, p_bias and hidden must be NULL. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_attention(struct steno_op_ctx *ctx,
                                            const struct steno_attention *a, steno_err *err);

/* Row i of the shifted x: out[j - from] = element (i, j) of RelativeShift(x [rows, len]), from <= j
 * < to. x points at row `first` of the whole matrix; only the rows that this row reads must
 * exist. */
void steno_ops_shift_row(float *out, const float *x, size_t first, size_t rows, size_t len,
                         size_t i, size_t from, size_t to);

/* Check the attributes heads, size and v_size, and the first columns q_at, k_at, v_at and `fourth`.
 * STENO_ERR_FORMAT: one of them is invalid. */
STENO_MUST steno_status steno_attention_check_columns(const struct steno_node *n,
                                                      const char *fourth, steno_err *err);

/* The functions of ai.steno:Attention (op_fused_attention.c), for operators with its first three
 * inputs and its attributes: infer and prepare, whose priv is freed by free(); reading Q, K and V
 * into a (NULL, or a message that says what is wrong); the output, with a->y NULL if it is empty.
 */
STENO_MUST steno_status steno_attention_infer(struct steno_infer *ic, steno_err *err);
STENO_MUST steno_status steno_attention_prepare(struct steno_prepare *pc, void **priv,
                                                steno_err *err);
const char *steno_attention_read_factors(struct steno_op_ctx *ctx, struct steno_attention *a);
STENO_MUST steno_status steno_attention_output(struct steno_op_ctx *ctx, struct steno_attention *a,
                                               steno_err *err);

/* Read input `in`, bool or f32, broadcast to a's [batch, q_heads, rows, keys], into a->hidden or
 * a->mask. An absent input changes nothing. Returns NULL, or a message that says what is wrong. */
const char *steno_attention_read_mask(struct steno_op_ctx *ctx, int in, struct steno_attention *a);

/* First key, and the one past the last, that row i of batch entry b may see by length and
 * window. */
void steno_attention_visible(const struct steno_attention *a, size_t b, size_t i, size_t *from,
                             size_t *to);
/* Find which of the keys [j0, j0 + n) row i of head h, batch entry b, sees: [*from, *to), relative
 * to j0. Returns the mask to add to their scores, or NULL. It is a row of a->mask, or is built in
 * `made` [n] if keys inside that range are hidden. */
const float *steno_attention_mask_row(const struct steno_attention *a, size_t b, size_t h, size_t i,
                                      size_t j0, size_t n, float *made, size_t *from, size_t *to);

/* True when RelativeShift reads into the row before: there are fewer positions than rows and keys
 * need. */
static inline bool steno_attention_wraps(const struct steno_attention *a)
{
    return !a->p_by_key && a->rows + a->keys > a->p_len + 1;
}

/* Reserve n times `each` bytes at *at = *bytes, which grows by that. False: overflow. */
bool steno_attention_reserve(size_t *bytes, size_t *at, size_t n, size_t each);
/* Finish row i: y [v_size] = o / sum. A row that saw no key (max is its largest score) gets
 * a->empty, or 0 where there are no keys at all. y == o is allowed. With a->replaces, a row in
 * which the added mask is not the same as the fill is computed anew. */
void steno_attention_finish(const struct steno_attention *a, const steno_kernels *k, size_t b,
                            size_t h, size_t i, float *y, const float *o, float max, float sum);

/* Sum of the weights of the keys that a->hidden hides from row i, relative to the row's largest
 * score; 0 without a->fills. */
float steno_attention_filled(const struct steno_attention *a, size_t b, size_t h, size_t i,
                             float max);

/* ---- attention_fused.c ---- */
struct steno_attention_fused {
    const struct steno_attention *a;
    const steno_kernels *k;
    const struct steno_attend_kernel *by;
    size_t bytes; /* scratch of one part */
    float unit;   /* of largest scores (struct steno_attend) */
    bool plain;   /* all rows see all keys */
    bool skips;   /* blocks that a mask hides are skipped */
    size_t block; /* keys per block */
    size_t at_k, at_v, at_p, at_edge, at_o, at_row, at_seen, at_mask;
};
bool steno_attention_fused_fits(const struct steno_attention *a, const steno_kernels *k);
/* False: sizes overflow. */
bool steno_attention_fused_init(struct steno_attention_fused *t, const struct steno_attention *a,
                                const steno_kernels *k);
/* Compute one head of one batch entry; mem: t->bytes, 64-byte aligned. */
void steno_attention_fused_head(const struct steno_attention_fused *t, size_t b, size_t h,
                                char *mem);

/* ---- attention_tiled.c ---- */
struct steno_attention_tiles {
    const struct steno_attention *a;
    const steno_kernels *k;
    bool use_bf16; /* products are in bf16 */
    size_t bytes;  /* scratch of one part */
    size_t tile;   /* rows per tile */
    size_t block;  /* keys per block */
    bool skips;    /* blocks that a mask hides are skipped */
    size_t score_ld, pos_ld;
    size_t work_bytes;
    size_t at_q, at_s, at_p, at_o, at_mask, at_row, at_k, at_v, at_pos, at_work;
};
/* False: sizes overflow. */
bool steno_attention_tiles_init(struct steno_attention_tiles *t, const struct steno_attention *a,
                                const steno_kernels *k);
/* Compute one head of one batch entry; mem: t->bytes, 64-byte aligned. */
void steno_attention_tiles_head(const struct steno_attention_tiles *t, size_t b, size_t h,
                                char *mem);

#endif
