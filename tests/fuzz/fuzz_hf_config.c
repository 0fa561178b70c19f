/* config.json of Hugging Face's checkpoints, with the weights of a wav2vec 2.0 of a few numbers:
 * networks are written beside it, or the configuration is refused with a message. Two bytes in
 * front may cut the weights. */
/* covers: engine/tools/convert/hf.c, hf_ctc.c, hf_ctc_graph.c, hf_moonshine.c, hf_weights.c */
#include "tools/convert/convert.h"
#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define D 2 /* columns of everything */

struct weights {
    char head[1 << 14], zeros[1 << 12];
    size_t head_n, data_n;
};

static void add(struct weights *w, const char *name, const char *shape, size_t count)
{
    w->head_n +=
        (size_t)snprintf(w->head + w->head_n, sizeof w->head - w->head_n,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         w->data_n ? "," : "{", name, shape, w->data_n, w->data_n + 4 * count);
    w->data_n += 4 * count;
}

static void add_pair(struct weights *w, const char *name, const char *shape, size_t count)
{
    char full[160];
    snprintf(full, sizeof full, "wav2vec2.%s.weight", name);
    add(w, full, shape, count);
    snprintf(full, sizeof full, "wav2vec2.%s.bias", name);
    add(w, full, "2", D);
}

/* header bytes | header | zeros */
static size_t make_weights(uint8_t *out, size_t size)
{
    static const char *const linears[] = {"feature_projection.projection",
                                          "encoder.layers.0.attention.q_proj",
                                          "encoder.layers.0.attention.k_proj",
                                          "encoder.layers.0.attention.v_proj",
                                          "encoder.layers.0.attention.out_proj",
                                          "encoder.layers.0.feed_forward.intermediate_dense",
                                          "encoder.layers.0.feed_forward.output_dense"},
                             *const norms[] = {"feature_extractor.conv_layers.0.layer_norm",
                                               "feature_projection.layer_norm",
                                               "encoder.layer_norm", "encoder.layers.0.layer_norm",
                                               "encoder.layers.0.final_layer_norm"};
    static struct weights w;
    uint64_t head;
    w = (struct weights){0};
    add(&w, "wav2vec2.feature_extractor.conv_layers.0.conv.weight", "2,1,3", 6);
    add_pair(&w, "encoder.pos_conv_embed.conv", "2,2,2", 8);
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        add_pair(&w, linears[i], "2,2", 4);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        add_pair(&w, norms[i], "2", D);
    add(&w, "lm_head.weight", "2,2", 4);
    add(&w, "lm_head.bias", "2", 2);
    w.head[w.head_n++] = '}';
    head = w.head_n;
    if (8 + w.head_n + w.data_n > size || w.data_n > sizeof w.zeros)
        abort();
    memcpy(out, &head, 8); /* little-endian machines only, as the engine */
    memcpy(out + 8, w.head, w.head_n);
    memcpy(out + 8 + w.head_n, w.zeros, w.data_n);
    return 8 + w.head_n + w.data_n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t weights[1 << 15];
    static size_t n_weights;
    const struct steno_convert_options o = {0};
    const char *what = NULL;
    steno_err err = {0};
    size_t cut;
    if (n < 2)
        return 0;
    if (!n_weights) {
        folder_make();
        n_weights = make_weights(weights, sizeof weights);
        folder_write("vocab.json", "{}", 2);
    }
    cut = (size_t)(data[0] | data[1] << 8);
    folder_write("config.json", data + 2, n - 2);
    folder_write("model.safetensors", weights, n_weights - (cut < n_weights ? cut : 0));
    if (steno_convert(folder, folder, &o, &what, &err)) {
        if (!err.msg[0])
            abort();
    } else if (!what) {
        abort();
    }
    return 0;
}
