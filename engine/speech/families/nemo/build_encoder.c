/* nemo/collections/asr/modules/conformer_encoder.py of NeMo 3.0.0: FastConformer and Conformer, for
 * padded batches of whole utterances or, with caches, for one chunk of each stream.
 *
 * Frames behind an utterance's length are hidden as in NeMo: the subsampling multiplies them by
 * zero, attention gives them -10000 before the softmax and zero behind it, and the depthwise
 * convolutions see zeros. Their own outputs are not NeMo's, since nothing reads them. */
#include "speech/families/nemo/build_parts.h"

#define MAX_LAYERS 256

int64_t steno_nemo_shift(const struct steno_nemo_arch *a)
{
    return a->factor * (a->right + 1);
}

/* Before the chunk come the frames that its first convolutions need. */
int64_t steno_nemo_window(const struct steno_nemo_arch *a)
{
    return steno_nemo_shift(a) + a->factor + 1;
}

/* ---- layers -------------------------------------------------------------------------------- */

static steno_value_id nemo_feed_forward(struct steno_make *m, steno_value_id x, const char *name,
                                        const struct steno_nemo_arch *a)
{
    x = steno_make_linear_of(m, x, name, "linear1", a->d, a->ff, a->bias);
    return steno_make_linear_of(m, steno_make_activation(m, x, "swish"), name, "linear2", a->ff,
                                a->d, a->bias);
}

static steno_value_id nemo_convolution(struct steno_make *m, steno_value_id x,
                                       struct steno_nemo_frame *f)
{
    const struct steno_nemo_arch *a = f->a;
    const struct steno_make_conv_module c = {
        .name = "conv",
        .d = a->d,
        .kernel = a->kernel,
        .pads = {a->streaming ? 0 : a->before, a->kernel - 1 - a->before},
        .bias = a->bias,
        .batch_norm = a->layer_norm ? NULL : "conv.batch_norm"};
    x = steno_make_conv_gate(m, steno_make_turn(m, x), &c);
    x = steno_make_hide(m, f->padding, 0, x);
    if (a->streaming) {
        x = steno_make_concat(m, 2, f->time, x);
        f->time = steno_make_slice(m, x, 2, -a->before, INT64_MAX);
    }
    x = steno_make_conv_depthwise(m, x, &c);
    if (a->layer_norm)
        x = steno_make_turn(m, steno_make_norm(m, steno_make_turn(m, x), "conv.batch_norm", a->d,
                                               STENO_NEMO_EPSILON));
    return steno_make_conv_out(m, steno_make_activation(m, x, "swish"), &c);
}

static steno_value_id nemo_norm(struct steno_make *m, steno_value_id x, const char *name,
                                const struct steno_nemo_frame *f)
{
    return steno_make_norm(m, x, name, f->a->d, STENO_NEMO_EPSILON);
}

static steno_value_id nemo_layer(struct steno_make *m, steno_value_id x, struct steno_nemo_frame *f)
{
    steno_value_id y =
        nemo_feed_forward(m, nemo_norm(m, x, "norm_feed_forward1", f), "feed_forward1", f->a);
    x = steno_make_add(m, x, steno_make_scale(m, y, 0.5f));
    x = steno_make_add(m, x, steno_nemo_attend(m, nemo_norm(m, x, "norm_self_att", f), f));
    x = steno_make_add(m, x, nemo_convolution(m, nemo_norm(m, x, "norm_conv", f), f));
    y = nemo_feed_forward(m, nemo_norm(m, x, "norm_feed_forward2", f), "feed_forward2", f->a);
    x = steno_make_add(m, x, steno_make_scale(m, y, 0.5f));
    return nemo_norm(m, x, "norm_out", f);
}

/* ---- caches -------------------------------------------------------------------------------- */

struct caches {
    steno_value_id channel, time, length; /* [B,layers,left,d], [B,layers,d,before], [B] */
    steno_value_id next_channel, next_time;
    int64_t channel_dim[4], time_dim[4], batch;
};

static void take_caches(struct steno_make *m, struct caches *c, int64_t batch,
                        const struct steno_nemo_arch *a)
{
    *c = (struct caches){.channel_dim = {batch, a->layers, a->left, a->d},
                         .time_dim = {batch, a->layers, a->d, a->before},
                         .batch = batch,
                         .next_channel = STENO_NONE,
                         .next_time = STENO_NONE};
    c->channel = steno_make_input(m, "cache_last_channel", STENO_F32, 4, c->channel_dim);
    c->time = steno_make_input(m, "cache_last_time", STENO_F32, 4, c->time_dim);
    c->length = steno_make_input(m, "cache_last_channel_len", STENO_I64, 1, &batch);
}

static steno_value_id of_layer(struct steno_make *m, steno_value_id cache, int64_t i)
{
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = 1};
    return steno_make_node(m, "Gather", 2, (steno_value_id[]){cache, steno_make_int(m, i)}, 1,
                           &axis);
}

static void give_caches(struct steno_make *m, const struct caches *c, int64_t frames,
                        const struct steno_nemo_arch *a)
{
    steno_value_id n = steno_make_add(m, c->length, steno_make_ints(m, 1, &frames));
    n = steno_make_2(m, "Min", n, steno_make_ints(m, 1, &a->left));
    steno_make_output(m, c->next_channel, "cache_last_channel_next", STENO_F32, 4, c->channel_dim);
    steno_make_output(m, c->next_time, "cache_last_time_next", STENO_F32, 4, c->time_dim);
    steno_make_output(m, n, "cache_last_channel_next_len", STENO_I64, 1, &c->batch);
}

static steno_value_id stacked(struct steno_make *m, steno_value_id all, steno_value_id x)
{
    x = steno_make_unsqueeze(m, x, 1);
    return all == STENO_NONE ? x : steno_make_concat(m, 1, all, x);
}

static void streaming_layer(struct steno_make *m, steno_value_id *x, struct steno_nemo_frame *f,
                            struct caches *c, int64_t i)
{
    f->channel = of_layer(m, c->channel, i);
    f->time = of_layer(m, c->time, i);
    *x = nemo_layer(m, *x, f);
    c->next_channel = stacked(m, c->next_channel, f->channel);
    c->next_time = stacked(m, c->next_time, f->time);
}

/* ---- the network --------------------------------------------------------------------------- */

static void metadata(struct steno_make *m, const struct steno_nemo_arch *a, const char *head)
{
    steno_make_meta(m, "vocab_size", "%lld", (long long)a->vocab);
    if (a->streaming) {
        steno_make_meta(m, "window_size", "%lld", (long long)steno_nemo_window(a));
        steno_make_meta(m, "chunk_size_ms", "%lld", (long long)(10 * steno_nemo_shift(a)));
        steno_make_meta(m, "chunk_shift", "%lld", (long long)steno_nemo_shift(a));
    }
    steno_make_meta(m, "normalize_type", "%s", a->normalize);
    if (a->streaming) {
        steno_make_meta(m, "cache_last_channel_dim1", "%lld", (long long)a->layers);
        steno_make_meta(m, "cache_last_channel_dim2", "%lld", (long long)a->left);
        steno_make_meta(m, "cache_last_channel_dim3", "%lld", (long long)a->d);
        steno_make_meta(m, "cache_last_time_dim1", "%lld", (long long)a->layers);
        steno_make_meta(m, "cache_last_time_dim2", "%lld", (long long)a->d);
        steno_make_meta(m, "cache_last_time_dim3", "%lld", (long long)a->before);
    }
    if (!head) {
        steno_make_meta(m, "pred_rnn_layers", "%lld", (long long)a->pred_layers);
        steno_make_meta(m, "pred_hidden", "%lld", (long long)a->pred);
    }
    steno_make_meta(m, "subsampling_factor", "%lld", (long long)a->factor);
    steno_make_meta(m, "feat_dim", "%lld", (long long)a->in);
    steno_make_meta(m, "model_type", "%s", a->model_type);
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "model_author", "NeMo");
    steno_make_meta(m, "url", "%s", a->url);
    steno_make_meta(m, "comment", "Only the %s branch is here", head ? "CTC" : "transducer");
}

/* [B,d,T] -> log-probabilities [B,T,vocab + 1]. */
static steno_value_id ctc(struct steno_make *m, steno_value_id x, const char *head,
                          const struct steno_nemo_arch *a)
{
    const struct steno_make_conv c = {
        .rank = 1, .in = a->out, .out = a->vocab + 1, .kernel = 1, .stride = 1, .bias = true};
    steno_make_at(m, "%s", head);
    m->asked = "the vocabulary";
    x = steno_make_convolve(m, x, "decoder_layers.0", &c);
    return steno_make_softmax(m, "LogSoftmax", steno_make_turn(m, x), -1);
}

static void check_layers(struct steno_make *m, const struct steno_nemo_arch *a)
{
    steno_make_at(m, "encoder.layers.%d.", (int)a->layers);
    if (!m->st && steno_make_has(m, "norm_out.weight"))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: more than the %lld layers of encoder.n_layers", m->w.file,
                           (long long)a->layers);
}

/* Subsampled frames [B,T,d] -> [B,T,out]. c: caches, if it streams. */
static steno_value_id encode_frames(struct steno_make *m, steno_value_id x, steno_value_id length,
                                    struct caches *c, const struct steno_nemo_arch *a)
{
    struct steno_nemo_frame f = {.a = a};
    x = steno_nemo_place(m, &f, x);
    steno_nemo_see(m, &f, x, length, a->streaming ? c->length : STENO_NONE);
    for (int64_t i = 0; i < a->layers && !m->st; i++) {
        steno_make_at(m, "encoder.layers.%d.", (int)i);
        if (a->streaming)
            streaming_layer(m, &x, &f, c, i);
        else
            x = nemo_layer(m, x, &f);
    }
    check_layers(m, a);
    steno_make_at(m, "encoder.");
    return a->out != a->d ? steno_make_linear(m, x, "out_proj", a->d, a->out, true) : x;
}

steno_value_id steno_nemo_encode_frames(struct steno_make *m, steno_value_id x,
                                        steno_value_id length, const struct steno_nemo_arch *a)
{
    return encode_frames(m, x, length, NULL, a);
}

/* Features [B,bands,T] -> [B,T',out]; *length [B] follows. c: caches, if it streams. */
static steno_value_id encode(struct steno_make *m, steno_value_id x, steno_value_id *length,
                             struct caches *c, const struct steno_nemo_arch *a)
{
    x = steno_nemo_subsample(m, x, length, a);
    if (a->streaming) { /* the first ones are of the frames before the chunk */
        const int64_t drop = 2;
        x = steno_make_slice(m, x, 1, drop, INT64_MAX);
        *length = steno_make_2(m, "Sub", *length, steno_make_ints(m, 1, &drop));
    }
    return encode_frames(m, x, *length, c, a);
}

/* Beside each frame of x [B,T,d] stands its stream's number of a prompt, one of a->prompts; two
 * layers make frames of both (EncDecRNNTBPEModelWithPrompt). prompt [B]. */
static steno_value_id told(struct steno_make *m, steno_value_id x, steno_value_id prompt,
                           const struct steno_nemo_arch *a)
{
    const int64_t one = 1;
    const steno_value_id ones = steno_make_ints(m, 1, &one);
    const steno_value_id shape[] = {ones, steno_make_extent_of(m, x, 1), ones};
    steno_value_id chosen = steno_make_2(m, "Equal", steno_make_unsqueeze(m, prompt, 1),
                                         steno_make_range(m, steno_make_ints(m, 1, &a->prompts)));
    chosen = steno_make_unsqueeze(m, steno_make_cast(m, chosen, STENO_MAKE_FLOAT), 1);
    chosen = steno_make_2(m, "Expand", chosen, steno_make_join(m, 0, 3, shape));
    steno_make_at(m, "%s", "");
    m->asked = "the prompt";
    x = steno_make_linear(m, steno_make_concat(m, 2, x, chosen), "prompt_kernel.0",
                          a->out + a->prompts, a->prompt_hidden, true);
    x = steno_make_1(m, "Relu", x);
    return steno_make_linear(m, x, "prompt_kernel.2", a->prompt_hidden, a->out, true);
}

steno_status steno_nemo_build_encoder(const struct steno_nemo_arch *a,
                                      const struct steno_make_weights *w, const char *head,
                                      struct steno_graph **out, steno_err *err)
{
    struct caches c;
    struct steno_make m;
    steno_value_id x, length, prompt = STENO_NONE;
    int64_t batch, frames;
    if (a->layers > MAX_LAYERS)
        return steno_fail(err, STENO_ERR_LIMIT, "encoder.n_layers: more than %d", MAX_LAYERS);
    if (steno_make_begin(&m, w, 5, err))
        return m.st;
    m.asked = "encoder";
    batch = steno_make_symbol(&m, "batch");
    /* with a fixed window, runtimes compute the products with positions once, at load */
    frames = a->streaming ? steno_nemo_window(a) : steno_make_symbol(&m, "feature_frames");
    x = steno_make_input(&m, "audio_signal", STENO_F32, 3, (int64_t[]){batch, a->in, frames});
    length = steno_make_input(&m, "length", STENO_I64, 1, &batch);
    if (a->streaming)
        take_caches(&m, &c, batch, a);
    if (a->prompts)
        prompt = steno_make_input(&m, "prompt_index", STENO_I64, 1, &batch);
    frames = a->streaming ? a->right + 1 : steno_make_symbol(&m, "frames");
    x = encode(&m, x, &length, &c, a);
    x = steno_make_turn(&m, a->prompts ? told(&m, x, prompt, a) : x);
    if (head)
        x = ctc(&m, x, head, a);
    steno_make_output(&m, x, head ? "logprobs" : "outputs", STENO_F32, 3,
                      head ? (int64_t[]){batch, frames, a->vocab + 1}
                           : (int64_t[]){batch, a->out, frames});
    if (!head || a->streaming)
        steno_make_output(&m, length, "encoded_lengths", STENO_I64, 1, &batch);
    if (a->streaming)
        give_caches(&m, &c, frames, a);
    metadata(&m, a, head);
    return steno_make_take(&m, out);
}

static void aed_metadata(struct steno_make *m, const struct steno_nemo_arch *a)
{
    steno_make_meta(m, "vocab_size", "%lld", (long long)a->vocab);
    steno_make_meta(m, "normalize_type", "%s", a->normalize);
    steno_make_meta(m, "subsampling_factor", "%lld", (long long)a->factor);
    steno_make_meta(m, "model_type", "%s", a->model_type);
    steno_make_meta(m, "version", "1");
    steno_make_meta(m, "model_author", "NeMo");
    steno_make_meta(m, "url", "%s", a->url);
    steno_make_meta(m, "feat_dim", "%lld", (long long)a->in);
    /* what sherpa-onnx calls layers are the memories */
    steno_make_meta(m, "num_decoder_layers", "%lld", (long long)steno_nemo_memories(&a->aed));
    steno_make_meta(m, "decoder_hidden_size", "%lld", (long long)a->aed.d);
}

steno_status steno_nemo_build_aed_encoder(const struct steno_nemo_arch *a,
                                          const struct steno_make_weights *w,
                                          struct steno_graph **out, steno_err *err)
{
    struct steno_make m;
    steno_value_id x, length, mask;
    int64_t batch, frames;
    if (steno_make_begin(&m, w, 3, err))
        return m.st;
    m.asked = "encoder";
    batch = steno_make_symbol(&m, "batch");
    frames = steno_make_symbol(&m, "feature_frames");
    x = steno_make_input(&m, "x", STENO_F32, 3, (int64_t[]){batch, frames, a->in});
    length = steno_make_input(&m, "x_len", STENO_I64, 1, &batch);
    frames = steno_make_symbol(&m, "frames");
    x = encode(&m, steno_make_turn(&m, x), &length, NULL, a);
    steno_make_at(&m, "%s", "");
    m.asked = "model_defaults.lm_dec_hidden";
    if (a->out != a->aed.d || steno_make_has(&m, "encoder_decoder_proj.weight"))
        x = steno_make_linear(&m, x, "encoder_decoder_proj", a->out, a->aed.d, true);
    mask = steno_make_present(&m, steno_make_extent_of(&m, x, 1), length);
    steno_make_output(&m, x, "enc_states", STENO_F32, 3, (int64_t[]){batch, frames, a->aed.d});
    steno_make_output(&m, length, "enc_len", STENO_I64, 1, &batch);
    steno_make_output(&m, mask, "enc_mask", STENO_BOOL, 2, (int64_t[]){batch, frames});
    aed_metadata(&m, a);
    return steno_make_take(&m, out);
}
