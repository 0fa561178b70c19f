/* Shared by the files of LSTM, GRU and RNN: attributes and packed weights (rnn_prepare.c), the
 * steps of a direction (rnn_cell.c), inputs, outputs and the loop over directions (op_rnn.c). */
#ifndef STENO_NN_OPS_RNN_H
#define STENO_NN_OPS_RNN_H

#include "nn/ops/rnn_activation.h"
#include "nn/ops/rnn_int8.h"
#include "nn/ops/weights.h"

enum steno_rnn_cell { STENO_CELL_LSTM, STENO_CELL_GRU, STENO_CELL_RNN };

struct steno_rnn_packed { /* one direction; GRU has the recurrent rows of h separate */
    void *w, *r, *rh;
};

struct steno_rnn { /* the node's frozen state */
    enum steno_rnn_cell cell;
    int dirs, gates;
    bool quantized;     /* DynamicQuantizeLSTM */
    bool reverse_first; /* direction "reverse" */
    bool batch_first, input_forget, linear_before_reset;
    size_t hidden, input; /* input 0: not constant, read from X */
    float clip;           /* 0 = none */
    struct steno_rnn_activation act[2][3];
    struct steno_gemm_weights form; /* how they are packed and multiplied */
    struct steno_rnn_packed packed[2];
    bool is_packed;
    struct { /* quantized, by direction; W and R are constant where is_packed */
        struct steno_rnn_int8 w, r;
    } int8[2];
};

struct steno_rnn_run { /* one node, one direction at a time */
    const struct steno_rnn *p;
    const steno_kernels *k;
    size_t seq, batch, input;
    const struct steno_rnn_activation *act;
    const float *peep;   /* [3H] peepholes i o f, or NULL */
    const float *bias_h; /* GRU: recurrent bias of h */
    const int64_t *lens; /* [batch] */
    const struct steno_gemm_weights *form;
    struct steno_rnn_packed packed;
    const struct steno_rnn_int8 *w8, *r8; /* 8-bit weights of the direction, or NULL */
    struct steno_rnn_rounded x8, h8;      /* X, and the state of the last step */
    /* [seq * batch, G*H] input part, with the biases that do not depend on a gate */
    float *gates;
    float *rec;   /* [batch, G*H] recurrent part of this step */
    float *h, *c; /* [batch, H] */
    float *tmp;   /* [batch, H] */
};

/* Columns of R that multiply h directly. */
static inline size_t steno_rnn_recurrent_columns(const struct steno_rnn *p)
{
    return p->hidden * (size_t)(p->cell == STENO_CELL_GRU ? 2 : p->gates);
}

/* Read and check the attributes of node n. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_rnn_attributes(const struct steno_node *n, struct steno_rnn *p,
                                             steno_err *err);
/* Bytes of W, of R and of its last part (GRU), for one direction. */
void steno_rnn_packed_sizes(const struct steno_rnn *p, size_t input,
                            const struct steno_gemm_weights *f, size_t size[3]);
/* Pack W and R of one direction. */
void steno_rnn_pack_direction(const struct steno_rnn *p, size_t input,
                              const struct steno_gemm_weights *f, const struct steno_rnn_packed *to,
                              const float *w, const float *r);
/* True if W and R have shapes of this node. */
bool steno_rnn_weights_fit(const struct steno_rnn *p, const struct steno_shape *w,
                           const struct steno_shape *r);
/* Width of the input, given W, or hidden size, given R: the last axis, or the middle one if
 * quantized. */
int64_t steno_rnn_width(const struct steno_rnn *p, const struct steno_shape *s);
/* The operators' prepare and release (nn/exec/op.h); *priv is a struct steno_rnn. */
STENO_MUST steno_status steno_rnn_prepare(struct steno_prepare *pc, void **priv, steno_err *err);
void steno_rnn_release(void *priv);
/* Run one direction through time. y points at this direction's first element; y_time and y_batch
 * are its strides in time and batch. */
void steno_rnn_direction(struct steno_rnn_run *r, bool reverse, float *y, size_t y_time,
                         size_t y_batch);

#endif
