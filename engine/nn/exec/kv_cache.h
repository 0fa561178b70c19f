/* The key/value cache that CachedAttention (op_cached_attention.c) reads beside its inputs: keys
 * and values that outlive a run. They belong to the searches whose hypotheses are the entries of a
 * batch. The caller of the session binds them (steno_session_bind_kv); no file and no input can
 * name such memory. */
#ifndef STENO_NN_EXEC_KV_CACHE_H
#define STENO_NN_EXEC_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of one layer with room for `cap` rows, of which n are valid. */
struct steno_kv_rows {
    const float *p;
    size_t cap, n;
};

struct steno_kv_layer {
    /* by heads [heads, cap, size + v_size], a key and its value per row; the list of a hypothesis
     * names its rows, and n is their number */
    struct steno_kv_rows own;
    /* rows 0 .. n, shared by all hypotheses, in the layout for the products of a whole beam: keys
     * [heads, size, cap], then values [heads, cap, v_size] */
    struct steno_kv_rows memory;
    /* ... or, if not NULL, KV pages by heads, each of STENO_KV_PAGE_KEYS rows in the layout of
     * kv_append_bf16 or, if is_i8, of kv_pack_i8 (nn/kernels/kernels.h); cap is a multiple of that
     * number */
    const char *pages;
    bool is_i8;
};

struct steno_kv_view {
    size_t hyps;          /* hypotheses = entries of the batch */
    const int32_t *index; /* [hyps, index_row] rows of each hypothesis, oldest first */
    size_t index_row;
    const float *bias;                  /* [cap of own] bias of each row, or NULL */
    const struct steno_kv_layer *layer; /* [n_layers] */
    size_t n_layers;
    /* The entries are one text, token by token, instead of hypotheses: entry b sees the rows that
     * index names (one list for all), then the new rows of entries 0 to b. */
    bool is_text;
};

/* The first entries of the batch are the hypotheses of search 0, then come those of search 1, ...
 * The entries after the last search belong to no search. */
struct steno_kv_binding {
    const struct steno_kv_view *view;
    size_t n;
};

#endif
