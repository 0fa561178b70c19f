#include "speech/families/nemo/canary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/scores.h"

#define PROMPT 10 /* with an empty word at its begin */
#define SPACE "\xE2\x96\x81"

/* ---- binding --------------------------------------------------------------------------------- */

static steno_status find_marks(struct steno_canary *c, const steno_tokens *tokens, steno_err *err)
{
    const struct {
        const char *mark;
        int32_t *to;
    } want[] = {{"<|endoftext|>", &c->end},
                {"<|startofcontext|>", &c->begin[0]},
                {"<|startoftranscript|>", &c->begin[1]},
                {"<|emo:undefined|>", &c->begin[2]},
                {"<|pnc|>", &c->after[0]},
                {"<|noitn|>", &c->after[1]},
                {"<|notimestamp|>", &c->after[2]},
                {"<|nodiarize|>", &c->after[3]}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        *want[i].to = steno_tokens_find(tokens, want[i].mark);
        if (*want[i].to < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: the vocabulary has no %s", c->name,
                              want[i].mark);
    }
    steno_language_marks(tokens, c->languages, sizeof c->languages);
    return *c->languages
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT,
                            "%s: the vocabulary has no language, such as <|en|>", c->name);
}

/* The one input of onnx-asr's export. */
static steno_status find_stack(struct steno_canary *c, steno_err *err)
{
    const struct steno_value *v;
    c->memory[0] = steno_network_find_input(c->net, "decoder_mems");
    if (c->memory[0] < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an input decoder_mems", c->name);
    v = steno_network_input(c->net, c->memory[0]);
    if (v->dtype != STENO_F32 || v->shape.rank != 4 || v->shape.dim[0] < 1 || v->shape.dim[3] < 1 ||
        steno_network_input(c->net, c->ids)->dtype != STENO_I64 ||
        steno_network_input(c->net, c->mask)->dtype != STENO_I64)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected input_ids i64, encoder_mask i64 and decoder_mems f32 "
                          "[layers,N,n,H] of known layers and H",
                          c->name);
    c->n_memories = 1;
    c->layers = v->shape.dim[0];
    c->hidden = v->shape.dim[3];
    return STENO_OK;
}

static steno_status find_inputs(struct steno_canary *c, steno_err *err)
{
    c->stacked = steno_network_find_input(c->net, "decoder_mems") >= 0;
    c->ids = steno_network_find_input(c->net, c->stacked ? "input_ids" : "decoder_input_ids");
    c->states = steno_network_find_input(c->net, c->stacked ? "encoder_embeddings" : "enc_states");
    c->mask = steno_network_find_input(c->net, c->stacked ? "encoder_mask" : "enc_mask");
    if (c->ids < 0 || c->states < 0 || c->mask < 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs decoder_input_ids, enc_states and enc_mask, or "
                          "input_ids, encoder_embeddings, encoder_mask and decoder_mems",
                          c->name);
    c->layers = 1;
    c->width = steno_network_input(c->net, c->states)->shape.rank == 3
                   ? steno_network_input(c->net, c->states)->shape.dim[2]
                   : -1;
    if (c->stacked)
        return find_stack(c, err);
    for (int i = 0; i < steno_network_n_inputs(c->net); i++) {
        const struct steno_value *v = steno_network_input(c->net, i);
        if (i == c->ids || i == c->states || i == c->mask)
            continue;
        if (v->dtype != STENO_F32 || v->shape.rank != 3 || v->shape.dim[2] < 1 ||
            (c->hidden && v->shape.dim[2] != c->hidden) || c->n_memories == STENO_CANARY_MEMORIES)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: input %s, expected at most %d memories [1,n,%lld]", c->name,
                              v->name, STENO_CANARY_MEMORIES, (long long)c->hidden);
        c->hidden = v->shape.dim[2];
        c->memory[c->n_memories++] = i;
    }
    return STENO_OK;
}

steno_status steno_canary_bind(struct steno_canary *c, steno_network *net, const char *name,
                               const steno_tokens *tokens, int64_t memories, int64_t hidden,
                               steno_err *err)
{
    steno_status st;
    *c = (struct steno_canary){.net = net,
                               .name = name,
                               .lead = -1,
                               .hidden = hidden,
                               .vocab = steno_tokens_count(tokens)};
    st = find_inputs(c, err);
    if (!st && c->stacked)
        return steno_network_n_outputs(net) == 2
                   ? find_marks(c, tokens, err)
                   : steno_fail(err, STENO_ERR_FORMAT,
                                "%s: %d outputs, expected logits and decoder_hidden_states", name,
                                steno_network_n_outputs(net));
    if (!st && (!c->n_memories || (memories && c->n_memories != memories) ||
                steno_network_n_outputs(net) != c->n_memories + 1))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: %d memories and %d outputs, expected %lld memories as metadata "
                        "num_decoder_layers says, and one output more",
                        name, c->n_memories, steno_network_n_outputs(net), (long long)memories);
    return st ? st : find_marks(c, tokens, err);
}

void steno_canary_lead(struct steno_canary *c, const steno_tokens *tokens)
{
    c->lead = steno_tokens_find(tokens, SPACE);
}

/* ---- decoding -------------------------------------------------------------------------------- */

struct steno_canary_decoder {
    const struct steno_canary *c;
    steno_session *session;
    struct steno_greedy_text text;
    struct steno_ones ones; /* the mask */
};

steno_status steno_canary_decoder_open(steno_canary_decoder **out, const struct steno_canary *c,
                                       int threads, steno_err *err)
{
    const struct steno_session_options so = {.threads = threads};
    steno_canary_decoder *d = calloc(1, sizeof *d);
    steno_status st;
    st = d ? steno_greedy_text_open(&d->text, c->vocab, err)
           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->name);
    if (!st)
        st = steno_session_open(&d->session, c->net, &so, err);
    if (st) {
        steno_canary_decoder_close(d);
        return st;
    }
    d->c = c;
    *out = d;
    return STENO_OK;
}

void steno_canary_decoder_close(steno_canary_decoder *d)
{
    if (!d)
        return;
    steno_session_close(d->session);
    steno_greedy_text_close(&d->text);
    free(d->ones.data);
    free(d);
}

/* Set the memories: empty before the first token, then those that the last run gave. */
static void set_memories(const steno_canary_decoder *d, int32_t position, struct steno_run *r)
{
    const struct steno_canary *c = d->c;
    const int64_t none[] = {c->layers, 1, 0, c->hidden};
    for (int i = 0; i < c->n_memories; i++)
        if (position)
            steno_run_set_tensor(r, c->memory[i], steno_session_get(d->session, 1 + i));
        else
            steno_run_set(r, c->memory[i], STENO_F32, c->stacked ? none : none + 1,
                          c->stacked ? 4 : 3, d->text.row);
}

/* Read a token: the scores [vocab] of its successor. */
static steno_status read_token_canary(steno_canary_decoder *d, int32_t token, int32_t position,
                                      const float **scores, steno_err *err)
{
    static const int64_t one[] = {1, 1}, two[] = {1, 2};
    const struct steno_canary *c = d->c;
    const int32_t pair[2] = {token, position};
    const int64_t wide = token;
    struct steno_run r = steno_run_begin(d->session, c->name, err);
    const struct steno_tensor *y;
    steno_status st;
    if (c->stacked)
        steno_run_set(&r, c->ids, STENO_I64, one, 2, &wide);
    else
        steno_run_set(&r, c->ids, STENO_I32, two, 2, pair);
    set_memories(d, position, &r);
    st = steno_run_end(&r);
    if (st)
        return st;
    y = steno_session_get(d->session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != (size_t)c->vocab)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu scores, expected those of %d tokens",
                          c->name, steno_numel(y), (int)c->vocab);
    *scores = y->data;
    return steno_scores_check(*scores, (size_t)c->vocab, c->name, err);
}

/* Set the encoder's frames; the mask says that all of them count. */
static steno_status set_frames(steno_canary_decoder *d, const float *states, size_t frames,
                               size_t width, steno_err *err)
{
    const struct steno_canary *c = d->c;
    const int64_t dim[] = {1, (int64_t)frames, (int64_t)width};
    struct steno_run r = steno_run_begin(d->session, c->name, err);
    steno_run_set(&r, c->states, STENO_F32, dim, 3, states);
    steno_run_set_ones(&r, c->mask, c->stacked ? STENO_I64 : STENO_BOOL, frames, &d->ones);
    return r.st;
}

steno_status steno_canary_decode(steno_canary_decoder *d, const float *states, size_t frames,
                                 size_t width, int32_t source, int32_t target, size_t most,
                                 const struct steno_offline_piece *p)
{
    const struct steno_canary *c = d->c;
    const int32_t all[PROMPT] = {c->lead, c->begin[0], c->begin[1], c->begin[2], source,
                                 target,  c->after[0], c->after[1], c->after[2], c->after[3]};
    const int32_t *prompt = all + (c->lead < 0), n = PROMPT - (c->lead < 0);
    const float *scores = NULL;
    int32_t position = 0, token = 0;
    steno_status st = steno_greedy_text_begin(&d->text, most, p->err);
    if (!st)
        st = set_frames(d, states, frames, width, p->err);
    for (; position < n && !st; position++)
        st = read_token_canary(d, prompt[position], position, &scores, p->err);
    while (!st && d->text.n < most && token != c->end) {
        token = steno_greedy_text_add(&d->text, scores, c->end);
        if (token == c->end)
            d->text.score += (double)d->text.row[c->end];
        else if (d->text.n < most)
            st = read_token_canary(d, token, position++, &scores, p->err);
    }
    if (st)
        return st;
    steno_greedy_text_share(&d->text, frames);
    return steno_greedy_text_list(&d->text, p);
}
