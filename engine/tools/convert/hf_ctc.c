#include "tools/convert/hf_ctc.h"

#include "tools/convert/hf.h"
#include "tools/convert/output.h"

#include <string.h>

/* Weights of pre-training, which have no part in recognition. */
static const char *const idle[] = {"masked_spec_embed", "quantizer.",          "project_hid.",
                                   "project_q.",        "num_batches_tracked", NULL};

static const char *const files[] = {"preprocessor_config.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json", NULL};

static const char *root_of(const char *type)
{
    return !strcmp(type, "hubert")           ? "hubert."
           : !strcmp(type, "wavlm")          ? "wavlm."
           : !strcmp(type, "data2vec-audio") ? "data2vec_audio."
                                             : "wav2vec2.";
}

static void read_convolutions(struct steno_hf_conf *c, struct steno_hf_ctc *a)
{
    static const int64_t dims[] = {512, 512, 512, 512, 512, 512, 512},
                         kernels[] = {10, 3, 3, 3, 3, 2, 2}, strides[] = {5, 2, 2, 2, 2, 2, 2};
    int kernel_n = 7, stride_n = 7;
    const char *norm = "group";
    a->convs = 7;
    memcpy(a->conv_dim, dims, sizeof dims);
    memcpy(a->conv_kernel, kernels, sizeof kernels);
    memcpy(a->conv_stride, strides, sizeof strides);
    steno_hf_ints(c, "conv_dim", 1, 65536, STENO_HF_CONVS, a->conv_dim, &a->convs);
    steno_hf_ints(c, "conv_kernel", 1, 4096, STENO_HF_CONVS, a->conv_kernel, &kernel_n);
    steno_hf_ints(c, "conv_stride", 1, 4096, STENO_HF_CONVS, a->conv_stride, &stride_n);
    if (!c->st && (kernel_n != a->convs || stride_n != a->convs))
        c->st = steno_fail(c->err, STENO_ERR_FORMAT,
                           "%s: conv_dim has %d entries, conv_kernel %d, conv_stride %d", c->file,
                           a->convs, kernel_n, stride_n);
    steno_hf_flag(c, "conv_bias", &a->conv_bias);
    steno_hf_text(c, "feat_extract_activation", &a->conv_activation);
    steno_hf_text(c, "feat_extract_norm", &norm);
    a->layer_norm = a->data2vec || !strcmp(norm, "layer");
    if (!a->layer_norm && strcmp(norm, "group"))
        steno_hf_refuse(c, "feat_extract_norm", norm, "group, layer");
}

static void read_wav2vec2_positions(struct steno_hf_conf *c, struct steno_hf_ctc *a)
{
    a->position_kernel = a->data2vec ? 19 : 128;
    a->position_groups = 16;
    a->position_layers = a->data2vec ? 5 : 1;
    steno_hf_int(c, "num_conv_pos_embedding_groups", 1, 65536, &a->position_groups);
    steno_hf_int(c, a->data2vec ? "conv_pos_kernel_size" : "num_conv_pos_embeddings", 1, 65536,
                 &a->position_kernel);
    if (a->data2vec)
        steno_hf_int(c, "num_conv_pos_embeddings", 1, 64, &a->position_layers);
    steno_hf_flag(c, "conv_pos_batch_norm", &a->position_batch_norm);
    a->buckets = 320;
    a->distance = 800;
    steno_hf_int(c, "num_buckets", 4, 65536, &a->buckets);
    steno_hf_int(c, "max_bucket_distance", 1, 1 << 14, &a->distance);
    if (!c->st && a->wavlm && a->distance <= a->buckets / 4)
        c->st = steno_fail(c->err, STENO_ERR_FORMAT, "%s: max_bucket_distance %lld of %lld buckets",
                           c->file, (long long)a->distance, (long long)a->buckets);
}

static void read_ctc(struct steno_hf_conf *c, struct steno_hf_ctc *a)
{
    const char *type = "";
    double epsilon = 1e-5;
    steno_hf_text(c, "model_type", &type);
    *a = (struct steno_hf_ctc){.root = root_of(type),
                               .data2vec = !strcmp(type, "data2vec-audio"),
                               .wavlm = !strcmp(type, "wavlm"),
                               .projection_norm = true,
                               .d = 768,
                               .heads = 12,
                               .ff = 3072,
                               .layers = 12,
                               .vocab = 32,
                               .activation = "gelu",
                               .conv_activation = "gelu"};
    steno_hf_only(c, "add_adapter", "false");
    steno_hf_only(c, "adapter_attn_dim", "null");
    read_convolutions(c, a);
    read_wav2vec2_positions(c, a);
    steno_hf_int(c, "hidden_size", 1, 65536, &a->d);
    steno_hf_int(c, "num_attention_heads", 1, 1024, &a->heads);
    steno_hf_int(c, "intermediate_size", 1, 1 << 20, &a->ff);
    steno_hf_int(c, "num_hidden_layers", 1, 1000, &a->layers);
    steno_hf_int(c, "vocab_size", 2, 1 << 20, &a->vocab);
    steno_hf_text(c, "hidden_act", &a->activation);
    if (!strcmp(type, "hubert"))
        steno_hf_flag(c, "feat_proj_layer_norm", &a->projection_norm);
    if (!a->data2vec)
        steno_hf_flag(c, "do_stable_layer_norm", &a->stable);
    steno_hf_number(c, "layer_norm_eps", 0, 1, &epsilon);
    a->epsilon = (float)epsilon;
    if (!c->st && (a->d % a->heads || a->d % a->position_groups))
        c->st = steno_fail(c->err, STENO_ERR_FORMAT,
                           "%s: hidden_size %lld does not divide by num_attention_heads %lld and "
                           "num_conv_pos_embedding_groups %lld",
                           c->file, (long long)a->d, (long long)a->heads,
                           (long long)a->position_groups);
}

steno_status steno_hf_convert_ctc(struct steno_hf_job *j)
{
    const struct steno_make_weights w = steno_hf_weights_of(j->weights);
    struct steno_hf_ctc a;
    char path[STENO_OUTPUT_PATH];
    steno_status st;
    read_ctc(j->conf, &a);
    st = j->conf->st;
    if (!st)
        st = steno_hf_write_ctc(&a, &w, steno_output_network(path, j->out, "model"), j->err);
    if (!st)
        st = steno_hf_weights_all_used(j->weights, idle, j->err);
    if (!st)
        st = steno_hf_copy(j, "vocab.json", true);
    for (const char *const *f = files; *f && !st; f++)
        st = steno_hf_copy(j, *f, false);
    return st;
}
