#include "speech/families/whisper/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "speech/families/whisper/build.h"

/* ---- networks ------------------------------------------------------------------------------ */

/* The numbers of heads come from other files than the weights. `tensor` is in the file that the
 * network's weights come from: encoder and decoder may have one each. */
static steno_status
open_network_whisper(const struct steno_whisper *m, const char *name, const char *tensor,
                     steno_status (*make)(void *, struct steno_graph **, steno_err *),
                     steno_network **out, steno_err *err)
{
    const char *file = steno_whisper_weights_find(m->weights, tensor)->file;
    char variant[400];
    const struct steno_graph_source s = {.make = make, .arg = m->weights, .variant = variant};
    const struct steno_network_options o = {.source = &s,
                                            .cpu = m->opt.cpu,
                                            .opt_level = m->opt.plain ? 0 : -1,
                                            .precision = m->opt.precision,
                                            .cache_dir = m->opt.cache_dir};
    snprintf(variant, sizeof variant, "whisper %s %lld %lld%s", name,
             (long long)m->dims.audio_heads, (long long)m->dims.text_heads,
             steno_whisper_weights_variant(m->weights));
    return steno_network_open(out, file, &o, err);
}

static steno_status open_networks_whisper(struct steno_whisper *m, steno_err *err)
{
    unsigned cpu;
    steno_status st = steno_cpu_choose(m->opt.cpu, &cpu, err);
    if (st)
        return st;
    steno_kernels_init(&m->kernels, cpu);
    /* first: the largest matrix is f32 while it is packed, half of the memory that loading takes */
    st = open_network_whisper(m, "scores", "decoder.token_embedding.weight",
                              steno_whisper_build_scores, &m->scores, err);
    if (!st)
        st = open_network_whisper(m, "encoder", "encoder.conv1.weight", steno_whisper_build_encoder,
                                  &m->encoder, err);
    if (!st)
        st = open_network_whisper(m, "cross", "decoder.blocks.0.cross_attn.key.weight",
                                  steno_whisper_build_cross, &m->cross, err);
    return st ? st
              : open_network_whisper(m, "step", "decoder.token_embedding.weight",
                                     steno_whisper_build_step, &m->step, err);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static steno_status read_positions(struct steno_whisper *m, const char *name, float **out,
                                   steno_err *err)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(m->weights, name);
    const size_t rows = steno_whisper_row_count(t), d = steno_whisper_row_length(t);
    *out = steno_aligned_alloc(rows * d * sizeof **out);
    if (!*out)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    steno_whisper_rows(t, 0, rows, *out);
    return STENO_OK;
}

/* All heads of the upper half of the decoder's layers (whisper/model.py). */
static steno_status take_all_heads(struct steno_whisper *m, steno_err *err)
{
    const int layers = (int)m->dims.text_layers, heads = (int)m->dims.text_heads;
    m->all_heads = calloc((size_t)layers * (size_t)heads, sizeof *m->all_heads);
    if (!m->all_heads)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int l = layers / 2; l < layers; l++)
        for (int h = 0; h < heads; h++)
            m->all_heads[m->n_heads++] = (struct steno_whisper_head){l, h};
    m->heads = m->all_heads;
    return STENO_OK;
}

static steno_status find_heads(struct steno_whisper *m, steno_err *err)
{
    m->heads = steno_whisper_weights_heads(m->weights, &m->n_heads);
    if (!m->n_heads)
        m->heads = steno_whisper_known_heads(&m->dims, &m->n_heads);
    return m->n_heads ? STENO_OK : take_all_heads(m, err);
}

static steno_status check_vocabulary(const struct steno_whisper *m, steno_err *err)
{
    const int32_t regular = steno_bpe_regular(m->bpe);
    /* the last regular piece of multilingual vocabularies is empty, so a file may leave it out */
    if (regular == m->special.eot || regular + 1 == m->special.eot)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "the vocabulary has %d regular pieces, a decoder of %lld pieces has %d",
                      (int)regular, (long long)m->dims.vocab, (int)m->special.eot);
}

static steno_status open_text(struct steno_whisper *m, steno_err *err)
{
    const char *file = steno_whisper_weights_file(m->weights);
    const struct steno_whisper_marks *said = steno_whisper_weights_marks(m->weights);
    steno_status st = steno_whisper_specials(m->dims.vocab, said, file, &m->special, err);
    m->bpe = steno_whisper_weights_bpe(m->weights);
    if (!st)
        st = check_vocabulary(m, err);
    if (!st)
        st = steno_whisper_suppressed(m->bpe, &said->never, &m->special, &m->suppressed,
                                      &m->n_suppressed, err);
    if (!st)
        st = steno_whisper_not_first(m->bpe, &said->not_first, &m->special, m->not_first,
                                     &m->n_not_first, err);
    return st ? steno_fail_in(err, st, "%s", file) : find_heads(m, err);
}

static steno_status open_all(struct steno_whisper *m, const char *path, steno_err *err)
{
    steno_status st = steno_whisper_weights_open(&m->weights, path, err);
    if (st)
        return st;
    m->dims = steno_whisper_weights_dims(m->weights);
    st = open_text(m, err);
    if (!st)
        st = read_positions(m, "encoder.positional_embedding", &m->audio_positions, err);
    if (!st)
        st = read_positions(m, "decoder.positional_embedding", &m->text_positions, err);
    if (!st)
        st = open_networks_whisper(m, err);
    return steno_whisper_weights_check(m->weights, err) ? STENO_ERR_IO : st;
}

steno_status steno_whisper_open(struct steno_whisper **out, const char *path,
                                const struct steno_whisper_options *opt, steno_err *err)
{
    struct steno_whisper *m = calloc(1, sizeof *m);
    steno_status st;
    if (!m)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    m->opt = *opt;
    st = open_all(m, path, err);
    if (st)
        steno_whisper_close(m);
    else
        *out = m;
    return st;
}

void steno_whisper_close(struct steno_whisper *m)
{
    if (!m)
        return;
    steno_network_close(m->encoder);
    steno_network_close(m->cross);
    steno_network_close(m->step);
    steno_network_close(m->scores);
    steno_whisper_weights_close(m->weights);
    steno_aligned_free(m->audio_positions);
    steno_aligned_free(m->text_positions);
    free(m->suppressed);
    free(m->all_heads);
    free(m);
}

struct steno_whisper_pages steno_whisper_pages_of(const struct steno_whisper *m)
{
    enum { PANEL = 32 }; /* rows */
    const size_t size = (size_t)(m->dims.text_state / m->dims.text_heads);
    const steno_kernels *i8 = steno_network_kv_i8(m->step), *bf16 = steno_network_kv_bf16(m->step);
    if (size <= STENO_ATTEND_SIZE && i8)
        return (struct steno_whisper_pages){i8, true, STENO_KV_PAGE_KEYS,
                                            steno_kv_i8_page_bytes(size, size)};
    if (size <= STENO_ATTEND_SIZE && bf16)
        return (struct steno_whisper_pages){bf16, false, STENO_KV_PAGE_KEYS,
                                            steno_kv_page_bytes(bf16, size, size)};
    return (struct steno_whisper_pages){NULL, false, PANEL, PANEL * 2 * size * sizeof(float)};
}

size_t steno_whisper_weight_bytes(const struct steno_whisper *m)
{
    return steno_network_weight_bytes(m->encoder) + steno_network_weight_bytes(m->cross) +
           steno_network_weight_bytes(m->step) + steno_network_weight_bytes(m->scores);
}

size_t steno_whisper_step_bytes(const struct steno_whisper *m)
{
    return steno_network_weight_bytes(m->step) + steno_network_weight_bytes(m->scores);
}

size_t steno_whisper_window_bytes(const struct steno_whisper *m, size_t rows)
{
    return (size_t)m->dims.text_layers * steno_whisper_layer_bytes(m, rows);
}

size_t steno_whisper_layer_bytes(const struct steno_whisper *m, size_t rows)
{
    const struct steno_whisper_pages p = steno_whisper_pages_of(m);
    return (size_t)m->dims.text_heads * ((rows + p.rows - 1) / p.rows) * p.bytes;
}
