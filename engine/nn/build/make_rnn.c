/* PyTorch's recurrent layers as ONNX's LSTM, GRU and RNN. ONNX has the gates in another order, and
 * the two biases one after the other. */
#include "nn/build/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 200

/* Gate i of ONNX is gate order[i] of PyTorch: iofc out of ifgo, zrh out of rzn. */
static const struct cell {
    const char *type;
    int gates;
    int order[4];
    const char *activation[2];
} cells[] = {
    [STENO_MAKE_LSTM] = {.type = "LSTM", .gates = 4, .order = {0, 3, 1, 2}},
    [STENO_MAKE_GRU] = {.type = "GRU", .gates = 3, .order = {1, 0, 2}},
    [STENO_MAKE_RNN_TANH] = {.type = "RNN", .gates = 1},
    [STENO_MAKE_RNN_RELU] = {.type = "RNN", .gates = 1, .activation = {"Relu", "Relu"}},
};

/* A weight [gates * units, width] (width 0: [gates * units]) with its gates in ONNX's order, to
 * out; *all, which has room for `total` floats, is made when the first weight is known to be there.
 */
static void read_gates(struct steno_make *m, const char *name, const struct cell *c, int64_t units,
                       int64_t width, size_t total, size_t at, float **all)
{
    const int64_t dim[] = {c->gates * units, width};
    const size_t n = (size_t)units * (size_t)(width ? width : 1);
    float *x = steno_make_read(m, name, width ? 2 : 1, dim);
    if (x && !*all && !(*all = malloc(total * sizeof **all)))
        m->st = steno_fail(m->err, STENO_ERR_NOMEM, "%s: out of memory", m->w.file);
    for (int i = 0; x && *all && i < c->gates; i++)
        memcpy(*all + at + (size_t)i * n, x + (size_t)c->order[i] * n, n * sizeof **all);
    free(x);
}

static void part_name(char *out, const char *name, const char *role, const char *suffix, int way)
{
    snprintf(out, MAX_NAME, "%s.%s%s%s", name, role, suffix, way ? "_reverse" : "");
}

/* One input of the node out of the weights `role` (and `second` behind it) of all directions. */
static steno_value_id joined_weights(struct steno_make *m, const char *name, const char *suffix,
                                     const struct steno_make_rnn *r, int64_t width,
                                     const char *role, const char *second)
{
    const struct cell *c = &cells[r->cell];
    const int64_t ways = r->both ? 2 : 1, rows = c->gates * r->units;
    const int64_t dim[] = {ways, second ? 2 * rows : rows, width};
    const size_t n = (size_t)rows * (size_t)(width ? width : 1);
    const size_t total = (size_t)ways * n * (second ? 2 : 1);
    char full[MAX_NAME];
    float *x = NULL;
    size_t at = 0;
    steno_value_id v;
    for (int i = 0; i < ways && !m->st; i++) {
        const char *const roles[] = {role, second};
        for (int k = 0; k < (second ? 2 : 1) && !m->st; k++, at += n) {
            part_name(full, name, roles[k], suffix, i);
            read_gates(m, full, c, r->units, width, total, at, &x);
        }
    }
    part_name(full, name, role, suffix, 0);
    v = m->st ? STENO_NONE : steno_make_floats(m, full, width ? 3 : 2, dim, x);
    free(x);
    return v;
}

steno_value_id steno_make_recur(struct steno_make *m, steno_value_id x, const char *name,
                                const char *suffix, const struct steno_make_rnn *r,
                                const struct steno_make_states *start,
                                struct steno_make_states *end)
{
    static const int64_t together[] = {0, 2, 1, 3};
    const struct cell *c = &cells[r->cell];
    const int n_out = r->cell == STENO_MAKE_LSTM ? 3 : 2;
    struct steno_attr attr[4];
    int n = 0, n_in = 4;
    steno_value_id in[7], out[3], y;
    in[0] = x;
    in[1] = joined_weights(m, name, suffix, r, r->in, "weight_ih", NULL);
    in[2] = joined_weights(m, name, suffix, r, r->units, "weight_hh", NULL);
    in[3] = joined_weights(m, name, suffix, r, 0, "bias_ih", "bias_hh");
    if (start) {
        in[4] = STENO_NONE; /* lengths: all of them whole */
        in[5] = start->h;
        in[6] = start->c;
        n_in = r->cell == STENO_MAKE_LSTM ? 7 : 6;
    }
    attr[n++] = (struct steno_attr){.name = "hidden_size", .kind = STENO_ATTR_INT, .i = r->units};
    if (r->both)
        attr[n++] = (struct steno_attr){
            .name = "direction", .kind = STENO_ATTR_STRING, .s = "bidirectional"};
    if (r->cell == STENO_MAKE_GRU)
        attr[n++] =
            (struct steno_attr){.name = "linear_before_reset", .kind = STENO_ATTR_INT, .i = 1};
    if (c->activation[0])
        attr[n++] = (struct steno_attr){.name = "activations",
                                        .kind = STENO_ATTR_STRINGS,
                                        .n = r->both ? 2 : 1,
                                        .strings = c->activation};
    steno_make_outputs(m, c->type, n_in, in, n_out, out, n, attr);
    if (end)
        *end = (struct steno_make_states){.h = out[1], .c = n_out > 2 ? out[2] : STENO_NONE};
    /* [T, directions, B, units] */
    if (!r->both)
        return steno_make_squeeze(m, out[0], 1);
    y = steno_make_transpose(m, out[0], 4, together);
    return steno_make_reshape(m, y, 3, (int64_t[]){0, 0, 2 * r->units});
}
