/* GGUF of GigaAM 3 as transcribe.cpp (keys stt.gigaam.*) and CrispASR (gigaam.*) write it: a
 * Conformer with rotated frames. Tensors are called as in the Parakeets of each. */
#include "speech/families/nemo/file_internal.h"

#include <string.h>

#define CRISPASR "gigaam."
#define KEY "stt.gigaam."
#define ENCODER KEY "encoder."
#define FRONT "stt.frontend."
#define RUSSIAN "ru"

enum {
    RATE,
    MELS,
    FFT,
    LENGTH,
    HOP,
    CENTER,
    LAYERS,
    D,
    HEADS,
    FF,
    KERNEL,
    FACTOR,
    TAPS,
    POSITIONS,
    N_NUMBERS
};

static const struct program {
    const char *number[N_NUMBERS];
    const char *attention, *norm, *head;            /* texts */
    const char *pred, *layers, *joint, *activation; /* of a transducer; activation NULL: ReLU */
} programs[] = {
    {.number = {FRONT "sample_rate", FRONT "num_mels", FRONT "n_fft", FRONT "win_length",
                FRONT "hop_length", FRONT "center", ENCODER "n_layers", ENCODER "d_model",
                ENCODER "n_heads", ENCODER "d_ff", ENCODER "conv_kernel",
                ENCODER "subsampling_factor", ENCODER "subs_kernel_size",
                ENCODER "pos_emb_max_len"},
     .attention = ENCODER "self_attention_model",
     .norm = ENCODER "conv_norm_type",
     .head = KEY "head_kind",
     .pred = KEY "predictor.hidden",
     .layers = KEY "predictor.n_layers",
     .joint = KEY "joint.hidden",
     .activation = KEY "joint.activation"},
    {.number = {CRISPASR "sample_rate", CRISPASR "n_mels", CRISPASR "n_fft", CRISPASR "win_length",
                CRISPASR "hop_length", CRISPASR "mel_center", CRISPASR "n_layers",
                CRISPASR "d_model", CRISPASR "n_heads", CRISPASR "ff_dim", CRISPASR "conv_kernel",
                CRISPASR "subsampling_factor", CRISPASR "subs_kernel", CRISPASR "pos_emb_max_len"},
     .attention = CRISPASR "self_attention_model",
     .norm = CRISPASR "conv_norm_type",
     .head = CRISPASR "head_type",
     .pred = CRISPASR "pred_hidden",
     .layers = CRISPASR "pred_layers",
     .joint = CRISPASR "joint_hidden"}};

bool steno_nemo_is_gigaam(const steno_nemo_file *f)
{
    const char *kind = steno_gguf_text(f->base.gguf, "general.architecture");
    return kind && strcmp(kind, "gigaam") == 0;
}

static steno_status read_encoder(steno_nemo_file *f, const struct program *p, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t fixed;
    const struct steno_ggml_wanted numbers[] = {
        {p->number[RATE], 16000, 16000, &fixed, 0},
        {p->number[MELS], 1, 512, &a->in, 0},
        {p->number[FFT], 320, 320, &fixed, 0},
        {p->number[LENGTH], 320, 320, &fixed, 0},
        {p->number[HOP], 160, 160, &fixed, 0},
        {p->number[CENTER], 0, 0, &fixed, -1},
        {p->number[LAYERS], 1, 256, &a->layers, 0},
        {p->number[D], 2, 65536, &a->d, 1},
        {p->number[HEADS], 1, 1024, &a->heads, 0},
        {p->number[FF], 1, 1 << 20, &a->ff, 0},
        {p->number[KERNEL], 1, 1024, &a->kernel, 0},
        {p->number[FACTOR], 2, 64, &a->factor, 1},
        {p->number[TAPS], 5, 5, &fixed, 4},
        {p->number[POSITIONS], 2, 100000, &a->positions, 1}};
    const char *text;
    steno_status st = steno_ggml_file_numbers(&f->base, numbers, N_NUMBERS, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, p->attention, "rotary", NULL, &text, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, p->norm, "layer_norm", NULL, &text, err);
    a->out = a->channels = a->d;
    a->before = (a->kernel - 1) / 2;
    a->left = a->right = -1;
    a->rotary = a->layer_norm = true;
    f->info.gigaam = true;
    return st;
}

static steno_status read_head(steno_nemo_file *f, const struct program *p, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    const char *kind;
    const struct steno_ggml_wanted numbers[] = {{p->pred, 1, 65536, &a->pred, 0},
                                                {p->layers, 1, 64, &a->pred_layers, 0},
                                                {p->joint, 1, 65536, &a->joint, 0}};
    steno_status st = steno_ggml_file_word(&f->base, p->head, "ctc rnnt", NULL, &kind, err);
    if (st)
        return st;
    f->info.ctc = strcmp(kind, "ctc") == 0;
    a->model_type = f->info.ctc ? "EncDecCTCModel" : "EncDecRNNTBPEModel";
    a->joint_activation = "relu";
    if (f->info.ctc)
        return STENO_OK;
    st = steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    return st || !p->activation ? st
                                : steno_ggml_file_word(&f->base, p->activation, "relu", NULL,
                                                       &a->joint_activation, err);
}

/* Checkpoints of version 3 have window and filters in bfloat16, whatever type the file gives them.
 * Without a window it is so, too. */
static bool has_rounded_window(const steno_nemo_file *f, const char *name)
{
    const struct steno_gguf_tensor *t = steno_gguf_find(f->base.gguf, name);
    if (!t || !t->type || strcmp(t->type->name, "f32") != 0)
        return true;
    for (size_t i = 0; i < t->count; i++)
        if (t->data[4 * i] || t->data[4 * i + 1])
            return false;
    return true;
}

steno_status steno_nemo_read_gigaam(steno_nemo_file *f, steno_err *err)
{
    const bool crispasr = steno_ggml_file_has_number(&f->base, CRISPASR "d_model");
    const struct program *p = &programs[crispasr];
    steno_status st = read_encoder(f, p, err);
    if (!st)
        st = read_head(f, p, err);
    if (!st)
        st = crispasr ? steno_nemo_gguf_pieces(f, "tokenizer.ggml.tokens", CRISPASR "blank_id", err)
                      : steno_nemo_gguf_all_pieces(f, err);
    memcpy(f->languages, RUSSIAN, sizeof RUSSIAN);
    f->info.rounded = has_rounded_window(f, crispasr ? "preprocessor.window" : "frontend.window");
    f->one_bias = !crispasr;
    return st ? st
              : steno_ggml_file_tensors(
                    &f->base, crispasr ? &steno_nemo_crispasr_names : &steno_nemo_transcribe_names,
                    err);
}
