/* What CachedAttention (op_cached_attention.c) reads beside its inputs: keys and values that
 * outlive a run, of the searches whose hypotheses are the entries of a batch. The caller of the
 * session lends them (steno_session_bind_kv); no file and no input can name such memory. */
#ifndef STENO_NN_EXEC_KV_CACHE_H
#define STENO_NN_EXEC_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A layer's memory with room for `cap` rows, n of which are somebody's. */
struct steno_kv_rows {
    const float *p;
    size_t cap, n;
};

struct steno_kv_layer {
    /* by heads [heads, cap, size + v_size], a key and its value; a hypothesis' are those that its
     * list says, and n is how many it has */
    struct steno_kv_rows own;
    /* rows 0 .. n are everybody's; as the products of a whole beam read them: keys [heads, size,
     * cap], then values [heads, cap, v_size] */
    struct steno_kv_rows memory;
    /* ... or, where this is not NULL, by heads, in pieces of STENO_KV_PAGE_KEYS rows as
     * kv_append_bf16 makes them (nn/kernels/kernels.h); cap is a multiple of that */
    const char *pages;
};

struct steno_kv_view {
    size_t hyps;          /* entries of the batch */
    const int32_t *index; /* [hyps, index_row] rows of each, oldest first */
    size_t index_row;
    const float *bias;                  /* [cap of own] of each row, or NULL */
    const struct steno_kv_layer *layer; /* [n_layers] */
    size_t n_layers;
    /* The entries are no hypotheses but one text, token by token: entry b has the rows that index
     * names (one list for all) and then the new rows of entries 0 to b. */
    bool is_text;
};

/* Entries 0 .. of the batch are the hypotheses of search 0, then those of search 1, ... Entries
 * behind the last are nobody's. */
struct steno_kv_binding {
    const struct steno_kv_view *view;
    size_t n;
};

#endif
