/* zipformer/subsampling.py, zipformer.py, decoder.py, joiner.py and export-onnx*.py of icefall. */
#include "tools/convert/icefall_graphs.h"

#include "tools/convert/icefall_parts.h"
#include "tools/convert/zipformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct steno_attr to_float = {.name = "to", .kind = STENO_ATTR_INT, .i = 1};

/* ---- whole recordings ---------------------------------------------------------------------- */

static steno_value_id offline(struct steno_zipformer *e)
{
    const int64_t frames = steno_make_symbol(e->m, "T"), zero = 0;
    struct steno_make *m = e->m;
    steno_value_id x, lengths, at;
    x = steno_make_input(m, "x", STENO_F32, 3,
                         (int64_t[]){e->batch_symbol, frames, STENO_ICEFALL_BINS});
    lengths = steno_make_input(m, "x_lens", STENO_I64, 1, &e->batch_symbol);
    e->batch = steno_make_extent_of(m, x, 0);
    x = steno_zipformer_embed(e, x, NULL);
    e->lengths = steno_icefall_half(m, lengths, 7);
    e->frames = steno_make_extent_of(m, x, 1);
    e->positions = steno_zipformer_positions(m, e->frames, e->a->pos_dim);
    at = steno_zipformer_count(m, steno_make_ints(m, 1, &zero), e->frames);
    e->mask = steno_make_2(
        m, "GreaterOrEqual", at,
        steno_make_2(m, "Unsqueeze", e->lengths, steno_make_ints(m, 2, (int64_t[]){1, 2})));
    return steno_zipformer_stacks(e, x);
}

/* ---- chunks -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int rank, batch; /* the axis of the streams */
} states[STENO_ZIPFORMER_STATES] = {{"cached_key", 3, 1},   {"cached_nonlin_attn", 4, 1},
                                    {"cached_val1", 3, 1},  {"cached_val2", 3, 1},
                                    {"cached_conv1", 3, 0}, {"cached_conv2", 3, 0}};

/* Shape of state `kind` of a layer. */
static void state_shape(const struct steno_zipformer *e, const struct steno_zipformer_stack *s,
                        int kind, int64_t dim[4])
{
    const int64_t left = e->a->left / s->downsampling, n = e->batch_symbol;
    const int64_t shapes[STENO_ZIPFORMER_STATES][4] = {
        {left, n, s->heads * s->query}, {1, n, left, 3 * s->d / 4}, {left, n, s->heads * s->value},
        {left, n, s->heads * s->value}, {n, s->d, s->kernel / 2},   {n, s->d, s->kernel / 2}};
    memcpy(dim, shapes[kind], sizeof shapes[kind]);
}

/* Make the inputs (first) or the outputs of all states. */
static void each_state(struct steno_zipformer *e, bool outputs)
{
    const struct steno_icefall_arch *a = e->a;
    const int64_t bands = STENO_ZIPFORMER_BANDS;
    int layer = 0, at = 0;
    for (int64_t i = 0; i < a->stacks; i++)
        for (int64_t k = 0; k < a->stack[i].layers; k++, layer++)
            for (int s = 0; s < STENO_ZIPFORMER_STATES; s++, at++) {
                char name[48];
                int64_t dim[4];
                state_shape(e, &a->stack[i], s, dim);
                snprintf(name, sizeof name, "%s%s_%d", outputs ? "new_" : "", states[s].name,
                         layer);
                if (outputs)
                    steno_make_output(e->m, e->state[at], name, STENO_F32, states[s].rank, dim);
                else
                    e->state[at] = steno_make_input(e->m, name, STENO_F32, states[s].rank, dim);
            }
    if (outputs) {
        steno_make_output(
            e->m, e->state[at], "new_embed_states", STENO_F32, 4,
            (int64_t[]){e->batch_symbol, a->conv[2], STENO_ZIPFORMER_EMBED_STATE, bands});
        steno_make_output(e->m, e->state[at + 1], "new_processed_lens", STENO_I64, 1,
                          &e->batch_symbol);
        return;
    }
    e->state[at] = steno_make_input(
        e->m, "embed_states", STENO_F32, 4,
        (int64_t[]){e->batch_symbol, a->conv[2], STENO_ZIPFORMER_EMBED_STATE, bands});
    e->state[at + 1] = steno_make_input(e->m, "processed_lens", STENO_I64, 1, &e->batch_symbol);
    e->n_states = at + 2;
}

static steno_value_id streaming(struct steno_zipformer *e)
{
    struct steno_make *m = e->m;
    const int64_t chunk = e->a->chunk;
    steno_value_id x = steno_make_input(
        m, "x", STENO_F32, 3, (int64_t[]){e->batch_symbol, 2 * chunk + 13, STENO_ICEFALL_BINS});
    each_state(e, false);
    e->lengths = e->state[e->n_states - 1];
    e->batch = steno_make_extent_of(m, x, 0);
    x = steno_zipformer_embed(e, x, e->state + e->n_states - 2);
    e->state[e->n_states - 1] = steno_make_add(m, e->lengths, steno_make_ints(m, 1, &chunk));
    return steno_zipformer_stacks(e, x);
}

/* ---- metadata ------------------------------------------------------------------------------ */

static void describe_zipformer(struct steno_make *m, const struct steno_icefall_arch *a)
{
    int64_t query[STENO_ZIPFORMER_STACKS], value[STENO_ZIPFORMER_STACKS];
    int64_t heads[STENO_ZIPFORMER_STACKS];
    steno_icefall_about(m, a->ctc && !a->chunk ? "zipformer2_ctc" : "zipformer2");
    steno_make_meta(m, "comment", "%s%s", a->chunk ? "streaming " : "non-streaming ",
                    a->ctc ? "zipformer2 CTC" : "zipformer2");
    if (!a->chunk)
        return;
    for (int64_t i = 0; i < a->stacks; i++) {
        query[i] = a->stack[i].query;
        value[i] = a->stack[i].value;
        heads[i] = a->stack[i].heads;
    }
    steno_icefall_about_chunks(m, a, 13);
    steno_icefall_list(m, "query_head_dims", a->stacks, query);
    steno_icefall_list(m, "value_head_dims", a->stacks, value);
    steno_icefall_list(m, "num_heads", a->stacks, heads);
}

/* ---- the networks -------------------------------------------------------------------------- */

static int count_states(const struct steno_icefall_arch *a)
{
    int n = 2;
    for (int64_t i = 0; i < a->stacks; i++)
        n += (int)a->stack[i].layers * STENO_ZIPFORMER_STATES;
    return a->chunk ? n : 0;
}

steno_status steno_icefall_write_encoder(const struct steno_icefall_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err)
{
    struct steno_zipformer *e = calloc(1, sizeof *e);
    struct steno_make m;
    steno_value_id x;
    if (!e)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (steno_make_begin(&m, w, count_states(a) + 2, err)) {
        free(e);
        return m.st;
    }
    *e = (struct steno_zipformer){.m = &m, .a = a, .batch_symbol = steno_make_symbol(&m, "N")};
    m.asked = "the architecture";
    x = a->chunk ? streaming(e) : offline(e);
    steno_icefall_end(&m, a, x, e->batch_symbol, a->chunk / 2);
    if (a->chunk)
        each_state(e, true);
    else
        steno_icefall_end_lengths(&m, a, steno_icefall_half(&m, e->lengths, -1), e->batch_symbol);
    describe_zipformer(&m, a);
    free(e);
    return steno_make_write(&m, path, NULL);
}

steno_status steno_icefall_write_decoder(const struct steno_icefall_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err)
{
    const int64_t zero = 0, d = a->decoder;
    struct steno_make m;
    steno_value_id y, x, none, known;
    int64_t batch;
    if (steno_make_begin(&m, w, 1, err))
        return m.st;
    m.asked = "the prediction network";
    batch = steno_make_symbol(&m, "N");
    y = steno_make_input(&m, "y", STENO_I64, 2, (int64_t[]){batch, a->context});
    steno_make_at(&m, "decoder.");
    none = steno_make_int(&m, zero);
    x = steno_make_embed(&m, steno_make_2(&m, "Max", y, none), "embedding.weight", a->vocab, d);
    known = steno_make_2(&m, "GreaterOrEqual", y, none);
    known = steno_make_node(&m, "Cast", 1, &known, 1, &to_float);
    known = steno_make_unsqueeze(&m, known, -1);
    if (w->scaled && steno_make_has(&m, "embedding.scale"))
        known = steno_make_scale(&m, known, steno_make_exp(&m, "embedding.scale"));
    x = steno_make_2(&m, "Mul", x, known);
    if (a->context > 1) {
        const struct steno_make_conv c = {.rank = 1,
                                          .in = d,
                                          .out = d,
                                          .kernel = a->context,
                                          .stride = 1,
                                          .groups = d / a->group};
        x = steno_make_convolve(&m, steno_make_turn(&m, x), "conv", &c);
        x = steno_make_turn(&m, x);
    }
    if (a->context > 1 || a->conformer || a->lstm || a->first)
        x = steno_make_1(&m, "Relu", x);
    x = steno_make_squeeze(&m, x, 1);
    steno_make_at(&m, "joiner.");
    x = steno_make_linear(&m, x, "decoder_proj", d, a->joiner, true);
    steno_make_output(&m, x, "decoder_out", STENO_F32, 2, (int64_t[]){batch, a->joiner});
    steno_make_meta(&m, "context_size", "%lld", (long long)a->context);
    steno_make_meta(&m, "vocab_size", "%lld", (long long)a->vocab);
    return steno_make_write(&m, path, NULL);
}

steno_status steno_icefall_write_joiner(const struct steno_icefall_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    struct steno_make m;
    steno_value_id x, y;
    int64_t dim[2];
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "the joiner";
    dim[0] = steno_make_symbol(&m, "N");
    dim[1] = a->joiner;
    x = steno_make_input(&m, "encoder_out", STENO_F32, 2, dim);
    y = steno_make_input(&m, "decoder_out", STENO_F32, 2, dim);
    x = steno_make_1(&m, "Tanh", steno_make_add(&m, x, y));
    steno_make_at(&m, "joiner.");
    x = steno_make_linear(&m, x, "output_linear", a->joiner, a->vocab, true);
    steno_make_output(&m, x, "logit", STENO_F32, 2, (int64_t[]){dim[0], a->vocab});
    steno_make_meta(&m, "joiner_dim", "%lld", (long long)a->joiner);
    return steno_make_write(&m, path, NULL);
}
