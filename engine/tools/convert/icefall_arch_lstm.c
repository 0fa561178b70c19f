#include "tools/convert/icefall_reader.h"

/* All is in shapes. The layout has no weights of its own for whole recordings. */
static void read_layers(struct steno_icefall_reader *r)
{
    static const char first[] = "encoder.encoder.layers.0";
    static const int at[] = {0, 3, 6};
    struct steno_icefall_arch *a = r->a;
    struct steno_zipformer_stack *s = &a->stack[0];
    a->stacks = s->downsampling = 1;
    while (steno_icefall_has(r, "encoder.encoder.layers.%d.norm_final.eps", (int)s->layers))
        s->layers++;
    if (!s->layers)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                           "%s: '%s%s.norm_final.eps' is missing: every LSTM transducer has it",
                           r->w->file, r->w->root, first);
    steno_icefall_at_most(r, "layers", s->layers, STENO_ZIPFORMER_LAYERS);
    for (int i = 0; i < 3; i++)
        a->conv[i] = steno_icefall_extent(r, 0, "encoder.encoder_embed.conv.%d.weight", at[i]);
    s->d = a->out = steno_icefall_extent(r, 1, "%s.lstm.weight_ih_l0", first);
    s->ff[0] = s->ff[1] = steno_icefall_extent(r, 0, "%s.feed_forward.0.weight", first);
    a->units = steno_icefall_extent(r, 0, "%s.lstm.weight_ih_l0", first) / 4;
    steno_icefall_at_most(r, "columns", s->d, STENO_ICEFALL_MAX_COLUMNS);
    steno_icefall_at_most(r, "columns", a->units, STENO_ICEFALL_MAX_COLUMNS);
    if (!r->st && a->units < 1)
        r->st = steno_fail(r->err, STENO_ERR_FORMAT, "%s: '%s%s.lstm.weight_ih_l0' has no 4 gates",
                           r->w->file, r->w->root, first);
}

steno_status steno_icefall_read_lstm(struct steno_icefall_reader *r)
{
    static const char known[] =
        "num-encoder-layers, encoder-dim, feedforward-dim, decoder-dim, joiner-dim, "
        "context-size, tokens, use-averaged-model";
    const struct steno_zipformer_stack *s = &r->a->stack[0];
    r->a->lstm = true;
    r->a->at = "encoder.";
    read_layers(r);
    if (!r->st)
        steno_icefall_only(r, known, "an LSTM transducer");
    steno_icefall_compare(r, "num-encoder-layers", s->layers);
    steno_icefall_compare(r, "encoder-dim", s->d);
    steno_icefall_compare(r, "feedforward-dim", s->ff[0]);
    if (!r->st)
        steno_icefall_read_transducer(r);
    return r->st;
}
