/* A single row of an 8-bit product. Included after
 *   row_weights(p)   a vector of weights at p, and whatever prefetches it */

/* Prefetch what finishing panels [j, j + panels) reads besides the sums, while the sums are
 * computed. With few rows the weights come from memory, and so does this. */
static inline void prefetch_columns(const struct product *p, size_t j, size_t panels)
{
    const size_t end = (j + panels) * NR < p->g->n ? (j + panels) * NR : p->g->n;
    for (size_t x = j * NR; x < end; x += 16) {
        __builtin_prefetch(p->b.sum + x);
        if (p->g->scale)
            __builtin_prefetch(p->g->scale + x);
        if (p->g->ep && p->g->ep->bias)
            __builtin_prefetch(p->g->ep->bias + x);
    }
}

/* How many panels before its use a panel's columns are prefetched: the distance of the weights, and
 * at least one panel. */
static inline size_t prefetch_distance(const struct product *p)
{
    return 1 + STREAM_DISTANCE_ONE / (p->b.panel + 1);
}

/* One row, all of K. It takes panel by panel and stores results from the registers to C, so that
 * the weights are read as one stream for every K. Even and odd lanes have separate sums: enough
 * sums to hide the latency of a product. */
static inline __attribute__((always_inline)) void
one_row_as(enum reads reads, const struct product *p, const struct part *a, size_t j0, size_t j1)
{
    alignas(64) int32_t tile[NR];
    const size_t prefetch = prefetch_distance(p);
    prefetch_columns(p, j0, prefetch);
    for (size_t j = j0; j < j1; j++) {
        const int8_t *b = a->b + j * p->b.panel;
        vi even[2] = {vi_zero(), vi_zero()}, odd[2] = {vi_zero(), vi_zero()};
        size_t u = 0;
        prefetch_columns(p, j + prefetch, 1);
        for (; u + 2 <= a->ku; u += 2, b += 2 * LANE_ROW) {
            const vi x = vi_set1(a->buf[u]), y = vi_set1(a->buf[u + 1]);
            for (int i = 0; i < 2 * LANE_ROW && reads == STREAM; i += 64)
                __builtin_prefetch(b + STREAM_DISTANCE_ONE + i, 0, 3);
            even[0] = dot(even[0], x, row_weights(b));
            even[1] = dot(even[1], x, row_weights(b + VL * KG));
            odd[0] = dot(odd[0], y, row_weights(b + LANE_ROW));
            odd[1] = dot(odd[1], y, row_weights(b + LANE_ROW + VL * KG));
        }
        if (u < a->ku) {
            const vi x = vi_set1(a->buf[u]);
            even[0] = dot(even[0], x, row_weights(b));
            even[1] = dot(even[1], x, row_weights(b + VL * KG));
        }
        for (size_t i = 0; i < 2; i++)
            vi_store(tile + i * VL, vi_add(even[i], odd[i]));
        store_tile(p, a, tile, 0, 1, NR, j * NR);
    }
}
