/* OpenAI's own checkpoints (torch.save of {"dims", "model_state_dict"}; whisper/__init__.py,
 * load_model). Their names are ours already. */
#include "speech/families/whisper/weights_internal.h"

#include <stdio.h>
#include <string.h>

#define STATE "model_state_dict."

static bool type_of(enum steno_torch_type from, enum steno_whisper_type *out)
{
    *out = from == STENO_TORCH_F16    ? STENO_WHISPER_F16
           : from == STENO_TORCH_BF16 ? STENO_WHISPER_BF16
                                      : STENO_WHISPER_F32;
    return from == STENO_TORCH_F32 || from == STENO_TORCH_F16 || from == STENO_TORCH_BF16;
}

static steno_status add_tensor(steno_whisper_weights *w, const struct steno_torch_tensor *from,
                               const char *file, steno_err *err)
{
    struct steno_whisper_tensor t = {.file = file, .rank = from->rank, .data = from->data};
    int n = snprintf(t.name, sizeof t.name, "%s", from->name + strlen(STATE));
    if (n >= (int)sizeof t.name)
        return STENO_OK; /* none that the model needs */
    if (!type_of(from->type, &t.type))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: tensor '%s' is of %s, expected f32, f16 or bf16", file, t.name,
                          steno_torch_type_name(from->type));
    if (!from->contiguous || from->rank > STENO_WHISPER_MAX_RANK)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: tensor '%s' has %d axes or gaps between its elements", file, t.name,
                          from->rank);
    memcpy(t.dim, from->dim, (size_t)from->rank * sizeof *t.dim);
    return steno_whisper_add(w, &t, err);
}

bool steno_whisper_is_openai(const steno_torch *t)
{
    int64_t n;
    return steno_torch_int(t, "dims.n_text_layer", 0, INT64_MAX, &n) &&
           steno_torch_find(t, STATE "decoder.token_embedding.weight");
}

steno_status steno_whisper_read_openai(steno_whisper_weights *w, const steno_torch *t,
                                       const char *file, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!steno_whisper_is_openai(t))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: a checkpoint without 'dims' and 'model_state_dict' of a Whisper "
                          "model",
                          file);
    if (!steno_torch_int(t, "dims.n_audio_head", 1, 1024, &w->audio_heads) ||
        !steno_torch_int(t, "dims.n_text_head", 1, 1024, &w->text_heads))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: dims.n_audio_head or dims.n_text_head is no number from 1 to 1024",
                          file);
    for (size_t i = 0; i < steno_torch_count(t) && !st; i++)
        if (!strncmp(steno_torch_get(t, i)->name, STATE, strlen(STATE)))
            st = add_tensor(w, steno_torch_get(t, i), file, err);
    return st;
}
