#include "tools/convert/icefall_parts.h"

#include <stdio.h>
#include <string.h>

#define POSITIONS 4096 /* rows for each sign; beyond them steno computes, other runtimes end */

steno_value_id steno_icefall_double_swish(struct steno_make *m, steno_value_id x)
{
    steno_value_id y = steno_make_2(m, "Sub", x, steno_make_number(m, 1));
    return steno_make_2(m, "Mul", x, steno_make_1(m, "Sigmoid", y));
}

steno_value_id steno_icefall_basic_norm(struct steno_make *m, steno_value_id x, const char *name)
{
    const int64_t last = -1;
    const struct steno_attr attr[] = {
        {.name = "axes", .kind = STENO_ATTR_INTS, .n = 1, .ints = &last},
        {.name = "keepdims", .kind = STENO_ATTR_INT, .i = 1}};
    char eps[40];
    steno_value_id y = steno_make_2(m, "Mul", x, x);
    snprintf(eps, sizeof eps, "%s.eps", name);
    y = steno_make_node(m, "ReduceMean", 1, &y, 2, attr);
    y = steno_make_add(m, y, steno_make_number(m, steno_make_exp(m, eps)));
    return steno_make_2(m, "Div", x, steno_make_1(m, "Sqrt", y));
}

steno_value_id steno_icefall_half(struct steno_make *m, steno_value_id x, int64_t minus)
{
    const int64_t two = 2;
    x = steno_make_2(m, "Sub", x, steno_make_ints(m, 1, &minus));
    return steno_make_2(m, "Div", x, steno_make_ints(m, 1, &two));
}

steno_value_id steno_icefall_positions(struct steno_make *m, steno_value_id *table,
                                       steno_value_id frames, int64_t d)
{
    const int64_t center = POSITIONS - 1, one = center + 1;
    if (*table == STENO_NONE)
        *table = steno_make_sinusoids(m, "positions", 2 * POSITIONS - 1, d, (double)center, -1);
    return steno_make_cut(m, *table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &one), frames),
                          steno_make_add(m, steno_make_ints(m, 1, &center), frames));
}

steno_value_id steno_icefall_layer_of(struct steno_make *m, steno_value_id state, int64_t i)
{
    return steno_make_squeeze(m, steno_make_slice(m, state, 0, i, i + 1), 0);
}

steno_value_id steno_icefall_state_of(struct steno_make *m, int64_t n,
                                      const steno_value_id *of_layer)
{
    steno_value_id in[STENO_ZIPFORMER_LAYERS];
    for (int64_t i = 0; i < n; i++)
        in[i] = steno_make_unsqueeze(m, of_layer[i], 0);
    return steno_make_join(m, 0, (int)n, in);
}

void steno_icefall_end(struct steno_make *m, const struct steno_icefall_arch *a, steno_value_id x,
                       int64_t batch, int64_t rows)
{
    const int64_t width = a->ctc ? a->vocab : a->joiner;
    steno_make_at(m, "%s", "");
    x = steno_make_linear(m, x, a->ctc ? a->ctc_layer : "joiner.encoder_proj", a->out, width, true);
    if (a->ctc)
        x = steno_make_softmax(m, "LogSoftmax", x, -1);
    if (!rows)
        rows = steno_make_symbol(m, "T_out");
    steno_make_output(m, x, a->ctc ? "log_probs" : "encoder_out", STENO_F32, 3,
                      (int64_t[]){batch, rows, width});
}

void steno_icefall_end_lengths(struct steno_make *m, const struct steno_icefall_arch *a,
                               steno_value_id lengths, int64_t batch)
{
    steno_make_output(m, lengths, a->ctc ? "log_probs_len" : "encoder_out_lens", STENO_I64, 1,
                      &batch);
}

void steno_icefall_about(struct steno_make *m, const char *type)
{
    steno_make_meta(m, "model_type", "%s", type);
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "model_author", "k2-fsa");
}

void steno_icefall_list(struct steno_make *m, const char *key, int64_t n, const int64_t *numbers)
{
    char text[STENO_ZIPFORMER_STACKS * 22] = "";
    for (int64_t i = 0; i < n; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%lld", i ? "," : "", (long long)numbers[i]);
    }
    steno_make_meta(m, key, "%s", text);
}

void steno_icefall_about_chunks(struct steno_make *m, const struct steno_icefall_arch *a,
                                int64_t more)
{
    int64_t layers[STENO_ZIPFORMER_STACKS], d[STENO_ZIPFORMER_STACKS];
    int64_t kernel[STENO_ZIPFORMER_STACKS], left[STENO_ZIPFORMER_STACKS];
    for (int64_t i = 0; i < a->stacks; i++) {
        layers[i] = a->stack[i].layers;
        d[i] = a->stack[i].d;
        kernel[i] = a->stack[i].kernel;
        left[i] = a->left / a->stack[i].downsampling;
    }
    steno_make_meta(m, "decode_chunk_len", "%lld", (long long)(2 * a->chunk));
    steno_make_meta(m, "T", "%lld", (long long)(2 * a->chunk + more));
    steno_icefall_list(m, "num_encoder_layers", a->stacks, layers);
    steno_icefall_list(m, "encoder_dims", a->stacks, d);
    steno_icefall_list(m, "cnn_module_kernels", a->stacks, kernel);
    steno_icefall_list(m, "left_context_len", a->stacks, left);
}
