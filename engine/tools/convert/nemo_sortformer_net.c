/* nemo/collections/asr/models/sortformer_diar_models.py of NeMo 3.0.0: one step of a streaming
 * Sortformer, forward_for_export, with the names of its inputs and outputs. Memory and chunk are
 * joined as they are, so each has exactly its frames. */
#include "speech/families/nemo/build_transformer.h"
#include "tools/convert/make.h"
#include "tools/convert/nemo_graphs.h"

#define MODULES "sortformer_modules."

/* frames [1,T,out] -> [1,T,d] behind the Transformer's layers; present [1,T] bool. */
static steno_value_id transformer(struct steno_make *m, steno_value_id x, steno_value_id present,
                                  const struct steno_nemo_arch *a)
{
    const struct steno_nemo_sortformer *t = &a->sortformer;
    const steno_value_id mask = steno_nemo_hidden(m, present);
    steno_make_at(m, "%s", MODULES);
    m->asked = "sortformer_modules";
    if (a->out != t->d)
        x = steno_make_linear(m, x, "encoder_proj", a->out, t->d, true);
    m->asked = "transformer_encoder";
    for (int64_t i = 0; i < t->layers && !m->st; i++) {
        steno_value_id y;
        steno_make_at(m, "transformer_encoder.layers.%d.", (int)i);
        y = steno_nemo_attention(m, "first_sub_layer", x, x, mask, t->d, t->heads);
        x = steno_make_norm(m, steno_make_add(m, y, x), "layer_norm_1", t->d, STENO_NEMO_EPSILON);
        y = steno_nemo_dense(m, "second_sub_layer", x, t->d, t->ff, t->activation);
        x = steno_make_norm(m, steno_make_add(m, y, x), "layer_norm_2", t->d, STENO_NEMO_EPSILON);
    }
    steno_make_at(m, "transformer_encoder.layers.%d.", (int)t->layers);
    if (!m->st && steno_make_has(m, "layer_norm_1.weight"))
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: more than the %lld layers of transformer_encoder.num_layers",
                           m->w.file, (long long)t->layers);
    return x;
}

/* [1,T,d] -> probabilities [1,T,speakers], zeros where no frame is present. */
static steno_value_id speakers_of(struct steno_make *m, steno_value_id x, steno_value_id present,
                                  const struct steno_nemo_sortformer *t)
{
    steno_make_at(m, "%s", MODULES);
    m->asked = "sortformer_modules";
    x = steno_make_1(m, "Relu", x);
    x = steno_make_linear(m, x, "first_hidden_to_hidden", t->d, t->d, true);
    x = steno_make_1(m, "Relu", x);
    x = steno_make_linear(m, x, "single_hidden_to_spks", t->d, t->speakers, true);
    present = steno_make_unsqueeze(m, steno_make_cast(m, present, STENO_MAKE_FLOAT), 2);
    return steno_make_2(m, "Mul", steno_make_1(m, "Sigmoid", x), present);
}

/* An input [1,T,width] of any length, and how many rows it has, "NAME_lengths". */
static steno_value_id rows_of(struct steno_make *m, const char *name, const char *length,
                              const char *time, int64_t width, steno_value_id *n)
{
    const int64_t one = 1;
    const steno_value_id x =
        steno_make_input(m, name, STENO_F32, 3, (int64_t[]){1, steno_make_symbol(m, time), width});
    *n = steno_make_input(m, length, STENO_I64, 1, &one);
    return x;
}

steno_status steno_nemo_write_sortformer(const struct steno_nemo_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err)
{
    const struct steno_nemo_sortformer *t = &a->sortformer;
    const int64_t one = 1;
    struct steno_make m;
    steno_value_id chunk, cache, queue, n, cached, queued, all, present, x;
    if (steno_make_begin(&m, w, 6, err))
        return m.st;
    m.asked = "encoder";
    chunk = rows_of(&m, "chunk", "chunk_lengths", "time_chunk", a->in, &n);
    cache = rows_of(&m, "spkcache", "spkcache_lengths", "time_cache", a->d, &cached);
    queue = rows_of(&m, "fifo", "fifo_lengths", "time_fifo", a->d, &queued);
    chunk = steno_nemo_subsample(&m, steno_make_turn(&m, chunk), &n, a);
    x = steno_make_join(&m, 1, 3, (steno_value_id[]){cache, queue, chunk});
    all = steno_make_add(&m, steno_make_add(&m, cached, queued), n);
    present = steno_make_present(&m, steno_make_extent_of(&m, x, 1), all);
    x = steno_nemo_encode_frames(&m, x, all, a);
    x = speakers_of(&m, transformer(&m, x, present, a), present, t);
    steno_make_output(&m, x, "spkcache_fifo_chunk_preds", STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(&m, "time_out"), t->speakers});
    steno_make_output(&m, chunk, "chunk_pre_encode_embs", STENO_F32, 3,
                      (int64_t[]){1, steno_make_symbol(&m, "time_pre_encode"), a->d});
    steno_make_output(&m, n, "chunk_pre_encode_lengths", STENO_I64, 1, &one);
    steno_make_meta(&m, "spkcache_len", "%lld", (long long)t->cache);
    steno_make_meta(&m, "spkcache_sil_frames_per_spk", "%lld", (long long)t->rests);
    return steno_make_write(&m, path, NULL);
}
