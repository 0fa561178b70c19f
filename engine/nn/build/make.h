/* Makes ONNX graphs out of named weights: a function for each usual part. The first failure
 * sticks (m->st), later calls do nothing and return STENO_NONE, so that an architecture reads as a
 * list of its parts. Operators are those of opset 17. Confined. */
#ifndef STENO_NN_BUILD_MAKE_H
#define STENO_NN_BUILD_MAKE_H

#include "base/map.h"
#include "formats/torch.h"
#include "nn/graph/graph.h"

#define STENO_MAKE_OPSET 17
#define STENO_MAKE_PREFIX 160

/* Weights by name, whatever the file is. */
struct steno_make_weights {
    const char *file; /* for messages */
    const struct steno_torch *torch;
    /* Where the weights are if they are in no such checkpoint, or NULL. */
    const struct steno_torch_tensor *(*find)(const void *of, const char *name);
    const void *of;
    /* Elements from..from+n of a weight as f32, if they are not those of a checkpoint; or NULL. */
    void (*read)(const struct steno_torch_tensor *t, size_t from, size_t n, float *out);
    bool squeezed; /* axes of 1 do not count: the file leaves some out, and has others more */
    /* Matrices of linear layers are made when the network packs them. Weights and `of` then live as
     * long as the graph. */
    bool late;
    /* The mapping that the weights are in, whose pages are let go after each part; or NULL. */
    const struct steno_map *map;
    const char *root; /* in front of every name: "", "model." */
    /* NAME_scale [], where there is one, is the logarithm of what NAME is multiplied by (icefall's
     * ScaledLinear and its kind). */
    bool scaled;
};

struct steno_make {
    struct steno_graph *g;
    struct steno_make_weights w;
    char prefix[STENO_MAKE_PREFIX]; /* of the weights of the present part: "encoder.encoders.3." */
    /* What in the configuration asks for the weights of the present part, for messages:
     * "encoder_conf". */
    const char *asked;
    steno_status st;
    steno_err *err;
};

/* Begin a graph of up to `ends` inputs and as many outputs. */
STENO_MUST steno_status steno_make_begin(struct steno_make *m, const struct steno_make_weights *w,
                                         int ends, steno_err *err);
/* Free the graph; it has not been taken. */
void steno_make_drop(struct steno_make *m);
/* Sort the graph and hand it over as *out; it is freed after a failure. Returns m->st. */
STENO_MUST steno_status steno_make_take(struct steno_make *m, struct steno_graph **out);
/* Set m->prefix. */
void steno_make_at(struct steno_make *m, const char *fmt, ...) STENO_PRINTF(2, 3);

/* ---- ends ---- */
/* dim: the extent, or the negative number of a symbol (steno_make_symbol). */
steno_value_id steno_make_input(struct steno_make *m, const char *name, steno_dtype type, int rank,
                                const int64_t *dim);
void steno_make_output(struct steno_make *m, steno_value_id v, const char *name, steno_dtype type,
                       int rank, const int64_t *dim);
int64_t steno_make_symbol(struct steno_make *m, const char *name);
/* Metadata of the model. */
void steno_make_meta(struct steno_make *m, const char *key, const char *fmt, ...)
    STENO_PRINTF(3, 4);

/* ---- constants ---- */
/* Is there a weight of that name, below the prefix? */
bool steno_make_has(const struct steno_make *m, const char *name);
/* Extent `axis` of a weight; -1: there is no such weight or axis. */
int64_t steno_make_extent(const struct steno_make *m, const char *name, int axis);
/* Elements of a weight of exactly this shape, malloc'd. NULL: m->st is set; the message names the
 * weight, its shape, and the shape that the configuration asks for. */
float *steno_make_read(struct steno_make *m, const char *name, int rank, const int64_t *dim);
/* The weight as a constant. */
steno_value_id steno_make_param(struct steno_make *m, const char *name, int rank,
                                const int64_t *dim);
/* A constant of x, which is copied. x NULL: STENO_ERR_NOMEM. */
steno_value_id steno_make_floats(struct steno_make *m, const char *name, int rank,
                                 const int64_t *dim, const float *x);
steno_value_id steno_make_number(struct steno_make *m, float x);
/* e^x of a weight without axes. */
float steno_make_exp(struct steno_make *m, const char *name);
/* The same of whole numbers. */
steno_value_id steno_make_ints(struct steno_make *m, int n, const int64_t *x);
steno_value_id steno_make_int(struct steno_make *m, int64_t x); /* a scalar */

/* ---- nodes ---- */
/* in: n values; attr: n_attr attributes, copied (names are literals). The output of the node. */
steno_value_id steno_make_node(struct steno_make *m, const char *type, int n,
                               const steno_value_id *in, int n_attr, const struct steno_attr *attr);
/* The same with n_out outputs, into out; STENO_NONE after a failure. */
void steno_make_outputs(struct steno_make *m, const char *type, int n, const steno_value_id *in,
                        int n_out, steno_value_id *out, int n_attr, const struct steno_attr *attr);
/* A node of another operator set than ONNX's of STENO_MAKE_OPSET, with one output. */
steno_value_id steno_make_node_of(struct steno_make *m, const char *domain, int opset,
                                  const char *type, int n, const steno_value_id *in, int n_attr,
                                  const struct steno_attr *attr);
steno_value_id steno_make_1(struct steno_make *m, const char *type, steno_value_id x);
steno_value_id steno_make_2(struct steno_make *m, const char *type, steno_value_id x,
                            steno_value_id y);
steno_value_id steno_make_concat(struct steno_make *m, int64_t axis, steno_value_id x,
                                 steno_value_id y);
/* Concat of n values. */
steno_value_id steno_make_join(struct steno_make *m, int64_t axis, int n, const steno_value_id *x);
/* x[from:to] along an axis. */
steno_value_id steno_make_slice(struct steno_make *m, steno_value_id x, int64_t axis, int64_t from,
                                int64_t to);
/* The same with ends that are values [1]. */
steno_value_id steno_make_cut(struct steno_make *m, steno_value_id x, int64_t axis,
                              steno_value_id from, steno_value_id to);
/* 0 in dim: as in x; -1: the rest. */
steno_value_id steno_make_reshape(struct steno_make *m, steno_value_id x, int rank,
                                  const int64_t *dim);
steno_value_id steno_make_transpose(struct steno_make *m, steno_value_id x, int rank,
                                    const int64_t *perm);
/* [B,a,b] -> [B,b,a]. */
steno_value_id steno_make_turn(struct steno_make *m, steno_value_id x);
steno_value_id steno_make_softmax(struct steno_make *m, const char *type, steno_value_id x,
                                  int64_t axis);
steno_value_id steno_make_unsqueeze(struct steno_make *m, steno_value_id x, int64_t axis);
steno_value_id steno_make_squeeze(struct steno_make *m, steno_value_id x, int64_t axis);
/* Extent `axis` of x as a value [1]. */
steno_value_id steno_make_extent_of(struct steno_make *m, steno_value_id x, int64_t axis);
/* x + y, x * number. */
steno_value_id steno_make_add(struct steno_make *m, steno_value_id x, steno_value_id y);
steno_value_id steno_make_scale(struct steno_make *m, steno_value_id x, float by);
/* x, or `number` where hidden. */
steno_value_id steno_make_hide(struct steno_make *m, steno_value_id hidden, float number,
                               steno_value_id x);

enum { STENO_MAKE_FLOAT = 1, STENO_MAKE_INT64 = 7 }; /* ONNX's numbers */
steno_value_id steno_make_cast(struct steno_make *m, steno_value_id x, int64_t onnx_type);
/* 0, 1, .. n - 1; n [1]. */
steno_value_id steno_make_range(struct steno_make *m, steno_value_id n);
/* [B,n] bool: frame i is before length [B] i64; n [1]. */
steno_value_id steno_make_present(struct steno_make *m, steno_value_id n, steno_value_id length);

/* ---- parts ---- */
/* x W' + b of NAME.weight [out, in] and NAME.bias [out] (if `bias`). */
steno_value_id steno_make_linear(struct steno_make *m, steno_value_id x, const char *name,
                                 int64_t in, int64_t out, bool bias);
/* The same of rows from..to-1 of the weight and the bias alone: several layers stored as one. */
steno_value_id steno_make_linear_rows(struct steno_make *m, steno_value_id x, const char *name,
                                      int64_t in, int64_t out, int64_t from, int64_t to);
/* A convolution over time with one tap, of columns that are the last axis: NAME.weight [out, in,
 * 1], NAME.bias. */
steno_value_id steno_make_pointwise(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t in, int64_t out);
/* Layer normalization over the last axis, NAME.weight and NAME.bias [d]. */
steno_value_id steno_make_norm(struct steno_make *m, steno_value_id x, const char *name, int64_t d,
                               float epsilon);
/* A norm of each of d channels over time, x [N, d, T]. */
steno_value_id steno_make_channel_norm(struct steno_make *m, steno_value_id x, const char *name,
                                       int64_t d, float epsilon);
/* Rows `ids` of NAME [rows, width]. */
steno_value_id steno_make_embed(struct steno_make *m, steno_value_id ids, const char *name,
                                int64_t rows, int64_t width);
struct steno_make_conv {
    int rank; /* spatial axes, 1 or 2 */
    int64_t in, out, kernel, stride, pad, groups, dilation;
    /* Where the axes differ: [rank] strides, [2 rank] pads (all starts, then all ends); or NULL. */
    const int64_t *strides, *pads;
    bool bias;
    const char *batch_norm; /* NAME of a batch normalization behind it, folded in; or NULL */
};
/* Convolution of NAME.weight [out, in / groups, kernel ...]. */
steno_value_id steno_make_convolve(struct steno_make *m, steno_value_id x, const char *name,
                                   const struct steno_make_conv *c);
/* Gated linear unit: the first half of x along an axis, times the sigmoid of the second. */
steno_value_id steno_make_glu(struct steno_make *m, steno_value_id x, int64_t axis);
/* "relu", "swish" (also "silu"), "gelu", "tanh". STENO_ERR_UNSUPPORTED names another one. */
steno_value_id steno_make_activation(struct steno_make *m, steno_value_id x, const char *name);
/* ---- recurrent layers (make_rnn.c) ---- */
enum steno_make_cell { STENO_MAKE_LSTM, STENO_MAKE_GRU, STENO_MAKE_RNN_TANH, STENO_MAKE_RNN_RELU };
struct steno_make_rnn {
    enum steno_make_cell cell;
    int64_t in, units;
    bool both; /* both directions: the outputs of the two stand side by side */
};
struct steno_make_states {
    steno_value_id h, c; /* [directions, B, units]; c: LSTM only, else STENO_NONE */
};
/* A layer of PyTorch's LSTM, GRU or RNN: NAME.weight_ih SUFFIX, weight_hh, bias_ih, bias_hh
 * (suffix "_l0"; "" for the cells, "_reverse" is added for the way back). x [T, B, in]. start:
 * states, or NULL: zeros. end, which may be NULL, receives the states after the last step. The
 * outputs [T, B, directions * units]. */
steno_value_id steno_make_recur(struct steno_make *m, steno_value_id x, const char *name,
                                const char *suffix, const struct steno_make_rnn *r,
                                const struct steno_make_states *start,
                                struct steno_make_states *end);

/* ---- tables ---- */
/* Rows 0..n-1 of the sinusoidal table of ESPnet and fairseq-like models: sin at even columns, cos
 * at odd ones. Row r is of position first + r * step. */
void steno_make_sinusoid_table(float *x, int64_t n, int64_t d, double first, double step);
steno_value_id steno_make_sinusoids(struct steno_make *m, const char *name, int64_t n, int64_t d,
                                    double first, double step);

/* The rows of relative positions n - 1 down to 1 - n, n [1], of a table of those below `most`:
 * [1,2 n - 1,d]. */
steno_value_id steno_make_relative(struct steno_make *m, const char *name, int64_t most, int64_t d,
                                   steno_value_id n);

/* ---- layers of Transformers and Conformers (make_attention.c) ---- */
/* x W' + b of NAME.PART. */
steno_value_id steno_make_linear_of(struct steno_make *m, steno_value_id x, const char *name,
                                    const char *part, int64_t in, int64_t out, bool bias);
/* x [B,T,d] -> [B,T,heads,d / heads]. */
steno_value_id steno_make_split(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d);
/* x [B,T,d] -> [B,heads,T,d / heads]; keys: [B,heads,d / heads,T]. */
steno_value_id steno_make_heads(struct steno_make *m, steno_value_id x, int64_t heads, int64_t d,
                                bool keys);
/* The same of NAME.PART of x. */
steno_value_id steno_make_heads_of(struct steno_make *m, steno_value_id x, const char *name,
                                   const char *part, int64_t heads, int64_t d, bool keys,
                                   bool bias);
/* Queries q [B,T,heads,d / heads] + NAME.BIAS [heads,d / heads] -> [B,heads,T,d / heads]. */
steno_value_id steno_make_biased(struct steno_make *m, steno_value_id q, const char *name,
                                 const char *bias, int64_t heads, int64_t d);
/* x / sqrt(d). */
steno_value_id steno_make_root(struct steno_make *m, steno_value_id x, int64_t d);
/* Softmax of the scores times the values v [B,heads,T,d / heads]: [B,T,d]. */
steno_value_id steno_make_weigh(struct steno_make *m, steno_value_id scores, steno_value_id v,
                                int64_t d);
/* NAME.w_1 [ff, d], the activation, NAME.w_2 [d, ff]. */
steno_value_id steno_make_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                       int64_t d, int64_t ff, const char *activation);
/* Convolution of x [B,in,T] with one tap: NAME.weight [out, in, 1]. */
steno_value_id steno_make_mix(struct steno_make *m, steno_value_id x, const char *name, int64_t in,
                              int64_t out, bool bias);
/* x + by * part(norm(x)), or norm(x + by * part(x)); PART reads y. */
#define STENO_MAKE_RESIDUAL(M, X, NORM, D, BEFORE, EPSILON, BY, PART)                              \
    do {                                                                                           \
        steno_value_id y = (BEFORE) ? steno_make_norm(M, X, NORM, D, EPSILON) : (X);               \
        y = (PART);                                                                                \
        if ((BY) != 1)                                                                             \
            y = steno_make_scale(M, y, BY);                                                        \
        (X) = steno_make_add(M, X, y);                                                             \
        if (!(BEFORE))                                                                             \
            (X) = steno_make_norm(M, X, NORM, D, EPSILON);                                         \
    } while (0)
/* Scores of relative positions x [B,heads,T,n] to scores of keys: row i moves i places to the right
 * (Dai et al., Transformer-XL, appendix B). half: the first n / 2 + 1 columns stay, for positions
 * of both signs. */
steno_value_id steno_make_shift(struct steno_make *m, steno_value_id x, bool half);

/* ---- Conformers (make_conformer.c) ---- */
/* Convolutions over time and mel bands of ESPnet's and WeNet's input layers. */
struct steno_make_subsampling {
    const char *name; /* of the input layer: "conv2d" */
    int n;
    int64_t kernel[3], stride[3];
};
/* NULL: there is no such input layer. */
const struct steno_make_subsampling *steno_make_subsampling(const char *input_layer);
/* Weights conv.0, conv.2 .. and OUT: [B,T,in] -> [B,T',d]. batch: B, or 0: as in x. */
steno_value_id steno_make_subsample(struct steno_make *m, steno_value_id x,
                                    const struct steno_make_subsampling *s, int64_t batch,
                                    int64_t in, int64_t d, const char *out);
/* The convolution module, weights NAME.*: three parts between which toolkits hide frames, keep some
 * for the next chunk, or have a norm. */
struct steno_make_conv_module {
    const char *name;
    int64_t d, kernel, pads[2];
    bool bias;
    const char *batch_norm; /* behind the depthwise convolution, folded in; or NULL */
};
/* pointwise_conv1 and a gated linear unit: [B,d,T] -> [B,d,T]. */
steno_value_id steno_make_conv_gate(struct steno_make *m, steno_value_id x,
                                    const struct steno_make_conv_module *c);
steno_value_id steno_make_conv_depthwise(struct steno_make *m, steno_value_id x,
                                         const struct steno_make_conv_module *c);
/* pointwise_conv2: [B,d,T] -> [B,T,d]. */
steno_value_id steno_make_conv_out(struct steno_make *m, steno_value_id x,
                                   const struct steno_make_conv_module *c);

#endif
