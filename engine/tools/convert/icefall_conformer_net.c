/* Networks of icefall's Conformers: conformer_ctc, conformer_ctc2 and conformer_ctc3 with their CTC
 * layer, the encoder of pruned_transducer_stateless2 to 5 for whole recordings and, as
 * export-onnx-streaming.py of these recipes writes it, for chunks. */
#include "tools/convert/icefall_conformer.h"

#include "tools/convert/icefall_parts.h"

#include <stdlib.h>

/* ---- whole recordings ---------------------------------------------------------------------- */

/* True at frames behind the end of a recording, [N, 1, T]. */
static steno_value_id padding(struct steno_make *m, steno_value_id lengths, steno_value_id frames)
{
    const steno_value_id zero = steno_make_ints(m, 1, (int64_t[]){0});
    const steno_value_id in[] = {steno_make_int(m, 0), steno_make_2(m, "Squeeze", frames, zero),
                                 steno_make_int(m, 1)};
    lengths = steno_make_2(m, "Unsqueeze", lengths, steno_make_ints(m, 2, (int64_t[]){1, 2}));
    return steno_make_2(m, "GreaterOrEqual", steno_make_node(m, "Range", 3, in, 0, NULL), lengths);
}

static void describe_whole(struct steno_make *m, const struct steno_icefall_arch *a)
{
    /* the type under which sherpa-onnx has CTC on icefall's features */
    steno_icefall_about(m, a->ctc ? "zipformer2_ctc" : "conformer");
    steno_make_meta(m, "comment", "non-streaming conformer%s", a->ctc ? " CTC" : "");
}

static void whole_recording(struct steno_conformer *c)
{
    const struct steno_icefall_arch *a = c->a;
    struct steno_make *m = c->m;
    const int64_t batch = steno_make_symbol(m, "N");
    steno_value_id x, lengths, frames, table = STENO_NONE;
    x = steno_make_input(m, "x", STENO_F32, 3,
                         (int64_t[]){batch, steno_make_symbol(m, "T"), STENO_ICEFALL_BINS});
    lengths = steno_make_input(m, "x_lens", STENO_I64, 1, &batch);
    lengths = steno_icefall_half(m, steno_icefall_half(m, lengths, 1), 1);
    x = steno_conformer_embed(c, x);
    frames = steno_make_extent_of(m, x, 1);
    c->positions = steno_icefall_positions(m, &table, frames, c->s->d);
    c->mask = padding(m, lengths, frames);
    for (int i = 0; i < c->s->layers && !m->st; i++)
        x = steno_conformer_layer(c, i, x);
    if (a->plain && !a->norm_after) {
        steno_make_at(m, "%s", a->at);
        x = steno_make_norm(m, x, "after_norm", c->s->d, 1e-5f);
    }
    steno_icefall_end(m, a, x, batch, 0);
    steno_icefall_end_lengths(m, a, lengths, batch);
    describe_whole(m, a);
}

/* ---- chunks -------------------------------------------------------------------------------- */

/* The left context that has not been filled yet, [N, 1, left + T]. */
static steno_value_id unfilled(struct steno_conformer *c, steno_value_id lengths)
{
    const int64_t left = c->a->left, all = left + c->a->chunk + c->a->right;
    int64_t *last = malloc((size_t)all * sizeof *last);
    struct steno_make *m = c->m;
    steno_value_id rows;
    for (int64_t i = 0; last && i < all; i++)
        last[i] = i < left ? left - 1 - i : -1;
    lengths = steno_make_2(m, "Unsqueeze", lengths, steno_make_ints(m, 2, (int64_t[]){1, 2}));
    rows = steno_make_ints(m, (int)all, last);
    free(last);
    return steno_make_2(m, "LessOrEqual", lengths, rows);
}

static void describe_chunks(struct steno_make *m, const struct steno_icefall_arch *a)
{
    const struct {
        const char *key;
        int64_t value;
    } number[] = {{"pad_length", 4 * (a->right + 2) + 3},
                  {"decode_chunk_len", 4 * a->chunk},
                  {"encoder_dim", a->stack[0].d},
                  {"num_encoder_layers", a->stack[0].layers},
                  {"cnn_module_kernel", a->stack[0].kernel},
                  {"left_context", a->left},
                  {"right_context", a->right},
                  {"chunk_size", a->chunk},
                  {"T", 4 * (a->chunk + a->right + 2) + 3}};
    steno_icefall_about(m, "conformer");
    steno_make_meta(m, "comment", "streaming conformer");
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        steno_make_meta(m, number[i].key, "%lld", (long long)number[i].value);
}

static void chunks(struct steno_conformer *c)
{
    /* states have time before streams */
    static const int64_t to_rows[] = {0, 2, 1, 3}, to_taps[] = {0, 2, 3, 1},
                         from_taps[] = {0, 3, 1, 2};
    const struct steno_icefall_arch *a = c->a;
    const int64_t d = c->s->d, all = a->chunk + a->right, rows = 4 * (all + 2) + 3;
    struct steno_make *m = c->m;
    const int64_t batch = steno_make_symbol(m, "N");
    const int64_t attn[] = {c->s->layers, a->left, batch, d};
    const int64_t conv[] = {c->s->layers, c->s->kernel - 1, batch, d};
    steno_value_id x, past, taps, new_past[STENO_ZIPFORMER_LAYERS],
        new_taps[STENO_ZIPFORMER_LAYERS];
    x = steno_make_input(m, "x", STENO_F32, 3, (int64_t[]){batch, rows, STENO_ICEFALL_BINS});
    past = steno_make_input(m, "cached_attn", STENO_F32, 4, attn);
    taps = steno_make_input(m, "cached_conv", STENO_F32, 4, conv);
    c->mask = unfilled(c, steno_make_input(m, "processed_lens", STENO_I64, 1, &batch));
    past = steno_make_transpose(m, past, 4, to_rows);
    taps = steno_make_transpose(m, taps, 4, to_taps);
    c->positions = steno_make_sinusoids(m, "positions", a->left + 2 * all - 1, d,
                                        (double)(a->left + all - 1), -1);
    /* the first and the last frame saw the padding of the convolutions */
    x = steno_make_slice(m, steno_conformer_embed(c, x), 1, 1, all + 1);
    for (int i = 0; i < c->s->layers && !m->st; i++) {
        c->past = steno_icefall_layer_of(m, past, i);
        c->taps = steno_icefall_layer_of(m, taps, i);
        x = steno_conformer_layer(c, i, x);
        new_past[i] = c->past;
        new_taps[i] = c->taps;
    }
    if (a->right)
        x = steno_make_slice(m, x, 1, 0, a->chunk);
    steno_icefall_end(m, a, x, batch, a->chunk);
    past = steno_make_transpose(m, steno_icefall_state_of(m, c->s->layers, new_past), 4, to_rows);
    taps = steno_make_transpose(m, steno_icefall_state_of(m, c->s->layers, new_taps), 4, from_taps);
    steno_make_output(m, past, "new_cached_attn", STENO_F32, 4, attn);
    steno_make_output(m, taps, "new_cached_conv", STENO_F32, 4, conv);
    describe_chunks(m, a);
}

/* ---- the network --------------------------------------------------------------------------- */

steno_status steno_icefall_write_conformer(const struct steno_icefall_arch *a,
                                           const struct steno_make_weights *w, const char *path,
                                           steno_err *err)
{
    struct steno_make m;
    struct steno_conformer c = {.m = &m, .a = a, .s = &a->stack[0]};
    if (steno_make_begin(&m, w, 4, err))
        return m.st;
    m.asked = "the architecture";
    if (a->chunk)
        chunks(&c);
    else
        whole_recording(&c);
    return steno_make_write(&m, path, NULL);
}
