/* The networks of NeMo's speech recognition models as graphs, in the layout of sherpa-onnx
 * (docs/nemo.md): for files of weights, and for `steno convert`. */
#ifndef STENO_FAMILIES_NEMO_BUILD_H
#define STENO_FAMILIES_NEMO_BUILD_H

#include "nn/build/make.h"

enum steno_nemo_subsampling {
    STENO_NEMO_LINEAR, /* none: one linear layer */
    STENO_NEMO_DW_STRIDING,
    STENO_NEMO_STRIDING,
    STENO_NEMO_STACKING,
    STENO_NEMO_STACKING_NORM,
    STENO_NEMO_VGGNET,
    STENO_NEMO_STRIDING_1D, /* over time alone */
    STENO_NEMO_DW_STRIDING_1D
};

#define STENO_NEMO_MEMORIES 66

/* The Transformer decoder of a multitask model. */
struct steno_nemo_aed {
    int64_t layers, d, heads, ff, positions;
    int64_t
        rows; /* of embedding and head: the vocabulary, and what fills it up to a multiple of 8 */
    bool before; /* norms come before their parts */
    bool final;  /* .. and one behind all layers */
    bool learnt; /* positions */
    const char *activation;
};

/* Those that hold its past: one of each layer, of the last output, and of the final norm. */
static inline int64_t steno_nemo_memories(const struct steno_nemo_aed *t)
{
    return t->layers + 1 + (t->before && t->final);
}

/* The Transformer behind the encoder of a Sortformer, and its head. layers 0: there is none. */
struct steno_nemo_sortformer {
    int64_t layers, d, heads, ff, speakers;
    int64_t cache, rests; /* frames of the speaker cache; of silence behind each speaker in it */
    const char *activation;
};

struct steno_nemo_arch {
    /* encoder */
    enum steno_nemo_subsampling subsampling;
    int64_t in, d, out, heads, ff, layers, factor, channels, positions;
    bool causal; /* the convolutions of the subsampling see no later frames */
    bool rel, xscale, bias;
    bool rotary;            /* queries and keys are of rotated frames; the base is `positions` */
    bool local;             /* attention by blocks, within left and right, both known */
    int64_t kernel, before; /* of the depthwise convolutions; frames before the present one */
    bool layer_norm;        /* behind them, instead of a batch normalization */
    int64_t left, right;    /* frames that attention sees; -1: all */
    bool chunked;           /* right + 1 frames are a chunk; left counts in whole chunks */
    bool streaming;         /* with caches, one chunk for each run */
    int64_t prompts, prompt_hidden; /* numbers of a prompt that frames get behind the layers, 0:
                                     * none; units of its first layer */
    /* heads */
    int64_t vocab; /* without the blank, which is the last one */
    int64_t durations, pred, pred_layers, joint;
    const char *joint_activation;
    struct steno_nemo_aed aed; /* layers 0: there is none */
    struct steno_nemo_sortformer sortformer;
    /* metadata */
    const char *model_type, *normalize;
    char url[256];
};

/* Feature frames that a streaming encoder takes at once, and by which it moves on. */
int64_t steno_nemo_window(const struct steno_nemo_arch *a);
int64_t steno_nemo_shift(const struct steno_nemo_arch *a);

/* Make one network, *out. Errors of steno_make_begin; missing and contradicting weights are
 * STENO_ERR_FORMAT. The encoder has the metadata.
 * head: the root of a CTC decoder's weights ("decoder."), which becomes part of the network; NULL:
 * the encoder alone. */
STENO_MUST steno_status steno_nemo_build_encoder(const struct steno_nemo_arch *a,
                                                 const struct steno_make_weights *w,
                                                 const char *head, struct steno_graph **out,
                                                 steno_err *err);
STENO_MUST steno_status steno_nemo_build_decoder(const struct steno_nemo_arch *a,
                                                 const struct steno_make_weights *w,
                                                 struct steno_graph **out, steno_err *err);
STENO_MUST steno_status steno_nemo_build_joiner(const struct steno_nemo_arch *a,
                                                const struct steno_make_weights *w,
                                                struct steno_graph **out, steno_err *err);
/* Encoder and decoder of a multitask model. */
STENO_MUST steno_status steno_nemo_build_aed_encoder(const struct steno_nemo_arch *a,
                                                     const struct steno_make_weights *w,
                                                     struct steno_graph **out, steno_err *err);
STENO_MUST steno_status steno_nemo_build_aed_decoder(const struct steno_nemo_arch *a,
                                                     const struct steno_make_weights *w,
                                                     struct steno_graph **out, steno_err *err);

#endif
