/* Strided copies: the core of Transpose, Slice, Expand, Tile, Concat and Pad. */
#include "nn/ops/internal.h"

struct dims {
    int rank;
    int64_t dim[STENO_MAX_RANK], ds[STENO_MAX_RANK], ss[STENO_MAX_RANK]; /* innermost first */
};

/* Drop dims of 1, and merge neighbouring dims through which both sides step evenly. */
static void merge(struct dims *m, int rank, const int64_t *dim, const int64_t *ds,
                  const int64_t *ss)
{
    m->rank = 0;
    for (int i = rank - 1; i >= 0; i--) {
        int t = m->rank - 1;
        if (dim[i] == 1)
            continue;
        if (t >= 0 && ds[i] == m->ds[t] * m->dim[t] && ss[i] == m->ss[t] * m->dim[t]) {
            m->dim[t] *= dim[i];
            continue;
        }
        m->dim[m->rank] = dim[i];
        m->ds[m->rank] = ds[i];
        m->ss[m->rank++] = ss[i];
    }
    if (!m->rank) {
        m->dim[0] = m->ds[0] = m->ss[0] = 1;
        m->rank = 1;
    }
}

/* A block of 16 x 16 elements of 4 bytes is 16 lines on each side: half of L1 stays free. */
#define BLOCK 16

#define PLANE(NAME, T)                                                                             \
    /* A plane of rows x cols; neither side needs to be dense. */                                  \
    static void NAME(T *d, int64_t dr, int64_t dc, const T *s, int64_t sr, int64_t sc,             \
                     int64_t rows, int64_t cols)                                                   \
    {                                                                                              \
        if (sc == 1 && dc == 1) {                                                                  \
            for (int64_t r = 0; r < rows; r++)                                                     \
                memcpy(d + r * dr, s + r * sr, (size_t)cols * sizeof(T));                          \
            return;                                                                                \
        }                                                                                          \
        if (sc == 0 && dc == 1) { /* Expand */                                                     \
            for (int64_t r = 0; r < rows; r++) {                                                   \
                const T v = s[r * sr];                                                             \
                T *const to = d + r * dr;                                                          \
                for (int64_t c = 0; c < cols; c++)                                                 \
                    to[c] = v;                                                                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)                                               \
            for (int64_t c0 = 0; c0 < cols; c0 += BLOCK) {                                         \
                int64_t r1 = r0 + BLOCK < rows ? r0 + BLOCK : rows;                                \
                int64_t c1 = c0 + BLOCK < cols ? c0 + BLOCK : cols;                                \
                for (int64_t r = r0; r < r1; r++)                                                  \
                    for (int64_t c = c0; c < c1; c++)                                              \
                        d[r * dr + c * dc] = s[r * sr + c * sc];                                   \
            }                                                                                      \
    }
PLANE(plane1, uint8_t)
PLANE(plane2, uint16_t)
PLANE(plane4, uint32_t)
PLANE(plane8, uint64_t)

static void plane(size_t esize, char *d, int64_t dr, int64_t dc, const char *s, int64_t sr,
                  int64_t sc, int64_t rows, int64_t cols)
{
    switch (esize) {
    case 1:
        plane1((uint8_t *)d, dr, dc, (const uint8_t *)s, sr, sc, rows, cols);
        break;
    case 2:
        plane2((uint16_t *)(void *)d, dr, dc, (const uint16_t *)(const void *)s, sr, sc, rows,
               cols);
        break;
    case 4:
        plane4((uint32_t *)(void *)d, dr, dc, (const uint32_t *)(const void *)s, sr, sc, rows,
               cols);
        break;
    default:
        plane8((uint64_t *)(void *)d, dr, dc, (const uint64_t *)(const void *)s, sr, sc, rows,
               cols);
        break;
    }
}

void steno_ops_copy(int rank, const int64_t *dim, size_t esize, void *dst, const int64_t *ds,
                    const void *src, const int64_t *ss)
{
    struct dims m;
    int64_t idx[STENO_MAX_RANK] = {0}, rows = 1, dr = 0, sr = 0, e = (int64_t)esize;
    char *d = dst;
    const char *s = src;
    int second = -1;
    for (int i = 0; i < rank; i++)
        if (!dim[i])
            return;
    merge(&m, rank, dim, ds, ss);
    /* Choose the plane's other dim. If the source's innermost step is not 1, it is the dim of step
     * 1, so that a transposition is read and written in blocks; else it is the next dim. */
    for (int i = 1; i < m.rank && m.ss[0] != 1; i++)
        if (m.ss[i] == 1)
            second = i;
    if (second < 0 && m.rank > 1)
        second = 1;
    if (second > 0) {
        rows = m.dim[second];
        dr = m.ds[second];
        sr = m.ss[second];
        m.dim[second] = 1;
    }
    for (;;) {
        int i = 1;
        plane(esize, d, dr, m.ds[0], s, sr, m.ss[0], rows, m.dim[0]);
        for (; i < m.rank; i++) {
            if (++idx[i] < m.dim[i]) {
                d += m.ds[i] * e;
                s += m.ss[i] * e;
                break;
            }
            d -= (m.dim[i] - 1) * m.ds[i] * e;
            s -= (m.dim[i] - 1) * m.ss[i] * e;
            idx[i] = 0;
        }
        if (i >= m.rank)
            return;
    }
}

void steno_ops_fill(void *dst, size_t n, size_t esize, const void *value)
{
    char *d = dst;
    size_t done = esize, total = n * esize;
    if (!n)
        return;
    memcpy(d, value, esize);
    while (done < total) { /* double what is filled */
        size_t k = done < total - done ? done : total - done;
        memcpy(d + done, d, k);
        done += k;
    }
}

void steno_ops_transpose(const struct steno_shape *s, const int *perm, size_t esize, void *dst,
                         const void *src)
{
    int64_t in[STENO_MAX_RANK], ss[STENO_MAX_RANK], ds[STENO_MAX_RANK];
    struct steno_shape out = {.rank = s->rank};
    steno_ops_strides(s, in);
    for (int i = 0; i < s->rank; i++) {
        out.dim[i] = s->dim[perm[i]];
        ss[i] = in[perm[i]];
    }
    steno_ops_strides(&out, ds);
    steno_ops_copy(s->rank, out.dim, esize, dst, ds, src, ss);
}
