/* Floating point operations of a node; a multiplication and an addition count as two. Only the
 * costly operators are counted: products, convolutions, attention. */
#include "nn/exec/internal.h"

#include <math.h>
#include <string.h>

static double count_elements(const struct steno_shape *s)
{
    double n = 1;
    if (!steno_shape_known(s))
        return 0;
    for (int i = 0; i < s->rank; i++)
        n *= (double)s->dim[i];
    return n;
}

static double dim(const struct steno_shape *s, int i)
{
    if (i < 0)
        i += s->rank;
    return i >= 0 && i < s->rank && s->dim[i] > 0 ? (double)s->dim[i] : 0;
}

static double matmul(const struct steno_tensor *const *in, const struct slot *y)
{
    return 2 * count_elements(&y->t.shape) * dim(&in[0]->shape, -1);
}

static double gemm(const struct steno_node *n, const struct steno_tensor *const *in,
                   const struct slot *y)
{
    return 2 * count_elements(&y->t.shape) *
           dim(&in[0]->shape, steno_node_int(n, "transA", 0) ? 0 : 1);
}

/* Weights [M, C/group, k...]. */
static double conv(const struct steno_tensor *const *in, const struct slot *y)
{
    double per = dim(&in[1]->shape, 0);
    return per > 0 ? 2 * count_elements(&y->t.shape) * count_elements(&in[1]->shape) / per : 0;
}

/* Weights [C, M/group, k...]: every input element is multiplied with M/group * k of them. */
static double conv_transpose(const struct steno_tensor *const *in)
{
    double per = dim(&in[1]->shape, 0);
    return per > 0 ? 2 * count_elements(&in[0]->shape) * count_elements(&in[1]->shape) / per : 0;
}

/* X [time, batch, input], W [dirs, gates*hidden, input], R [dirs, gates*hidden, hidden]. */
static double recurrent(const struct steno_tensor *const *in)
{
    return 2 * dim(&in[0]->shape, 0) * dim(&in[0]->shape, 1) *
           (count_elements(&in[1]->shape) + count_elements(&in[2]->shape));
}

/* Both products, and the product with positions: nn/ops/op_fused_attention.c. */
static double attention(const struct steno_node *n, const struct steno_tensor *const *in,
                        const struct slot *y)
{
    const double size = (double)steno_node_int(n, "size", 0);
    const double v_size = (double)steno_node_int(n, "v_size", 0);
    const int time = steno_node_int(n, "apart", 0) & 2 && in[1]->shape.rank == 4 ? 2 : 1;
    const double keys = dim(&in[1]->shape, time);
    const double rows = v_size > 0 ? count_elements(&y->t.shape) / v_size : 0; /* over all heads */
    const bool positions = n->n_in > 4 && in[4];
    return 2 * rows * keys * (size * (positions ? 2 : 1) + v_size);
}

/* Queries [B, T, h d], rows X [B, S, C], weights [C, h d] and [C, h v]: all queries times both
 * weights, and twice times every row for each head. */
static double absorbed_attention(const struct steno_node *n, const struct steno_tensor *const *in,
                                 const struct slot *y)
{
    double queries = dim(&y->t.shape, 0) * dim(&y->t.shape, 1);
    double rows = 2 * (double)steno_node_int(n, "heads", 1) * dim(&in[1]->shape, 1);
    return n->n_in > 4 && in[2] && in[4]
               ? 2 * queries *
                     (count_elements(&in[2]->shape) + count_elements(&in[4]->shape) +
                      rows * dim(&in[1]->shape, 2))
               : 0;
}

static double window_attention(const struct steno_node *n, const struct steno_tensor *const *in,
                               const struct slot *y)
{
    const double v = (double)steno_node_int(n, "v_size", 1);
    const double size = (double)steno_node_int(n, "size", 1);
    return in[2] ? 2 * count_elements(&y->t.shape) / v *
                       (dim(&in[2]->shape, 1) + dim(&y->t.shape, 1)) * (size + v)
                 : 0;
}

/* Of the whole cache: how many of its rows are seen only the run knows. */
static double past_attention(const struct steno_node *n, const struct steno_tensor *const *in,
                             const struct slot *y)
{
    const double v = (double)steno_node_int(n, "v_size", 1);
    return n->n_in > 3 && in[3] ? 2 * count_elements(&y->t.shape) / v * dim(&in[3]->shape, 1) *
                                      ((double)steno_node_int(n, "size", 1) + v)
                                : 0;
}

/* Q [B, T, h d]: each row sees 2 window + 1 keys, fewer at both ends. */
static double local_attention(const struct steno_node *n, const struct steno_tensor *const *in,
                              const struct slot *y)
{
    const double v = (double)steno_node_int(n, "v_size", 1);
    const double size = (double)steno_node_int(n, "size", 1);
    const double span = 2 * (double)steno_node_int(n, "window", 0) + 1,
                 rows = dim(&in[1]->shape, 1);
    return 2 * count_elements(&y->t.shape) / v * (span < rows ? span : rows) * (size + v);
}

/* X [N, H, W, C], weights of both convolutions [O, C/group, k, k]; the attributes are lists for
 * both. */
static double conv_row_tiles(const struct steno_node *n, const struct steno_tensor *const *in,
                             const struct slot *y)
{
    size_t n_strides, n_dilations, n_pads;
    const int64_t *strides = steno_node_ints(n, "strides", &n_strides);
    const int64_t *dilations = steno_node_ints(n, "dilations", &n_dilations);
    const int64_t *pads = steno_node_ints(n, "pads", &n_pads);
    double pixels = dim(&in[0]->shape, 0); /* of the first result */
    if (n_strides != 4 || n_dilations != 4 || n_pads != 8 || n->n_in < 4 || !in[3])
        return 0;
    for (int i = 0; i < 2; i++) {
        const double span = (dim(&in[1]->shape, i + 2) - 1) * (double)dilations[i] + 1;
        const double room = dim(&in[0]->shape, i + 1) + (double)(pads[i] + pads[i + 2]) - span;
        pixels *= floor(room / (double)strides[i]) + 1;
    }
    return 2 * pixels * count_elements(&in[1]->shape) + conv(in + 2, y);
}

double steno_node_flops(const struct steno_node *n, const struct steno_tensor *const *in,
                        struct slot *const *out)
{
    const char *t = n->op_type;
    bool two = n->n_in >= 2 && in[0] && in[1] && n->n_out && out[0];
    if (!two)
        return 0;
    if (steno_op_type_in(t, "MatMul Linear MatMulInteger FusedMatMul"))
        return matmul(in, out[0]);
    if (steno_op_type_in(t, "AbsorbedAttention AbsorbedNormAttention"))
        return absorbed_attention(n, in, out[0]);
    if (!strcmp(t, "Gemm") || !strcmp(t, "FusedGemm"))
        return gemm(n, in, out[0]);
    if (steno_op_type_in(t, "Conv ConvInteger FusedConv DepthwiseConv1d ConvNhwc"))
        return conv(in, out[0]);
    if (!strcmp(t, "Attention") && !strcmp(n->domain, "ai.steno"))
        return attention(n, in, out[0]);
    if (!strcmp(t, "LocalAttention"))
        return local_attention(n, in, out[0]);
    if (!strcmp(t, "ConvRowTiles"))
        return conv_row_tiles(n, in, out[0]);
    if (!strcmp(t, "PastAttention"))
        return past_attention(n, in, out[0]);
    if (!strcmp(t, "WindowAttention"))
        return window_attention(n, in, out[0]);
    if (!strcmp(t, "ConvTranspose"))
        return conv_transpose(in);
    if ((!strcmp(t, "LSTM") || !strcmp(t, "GRU")) && n->n_in > 2 && in[2])
        return recurrent(in);
    return 0;
}
