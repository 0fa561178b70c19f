/* Lists hypotheses: partials mostly from the CTC best path, finals from the search. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/espnet/stream.h"

#include "base/array.h"

/* Limit of tokens times frames for aligning a partial. Partials of longer segments, which exist
 * only without endpointing, are the CTC best path. */
#define MOST_CELLS ((size_t)1 << 21)

/* ---- partials -------------------------------------------------------------------------------- */

static steno_status reserve_tokens(struct steno_espnet_stream *s, size_t n)
{
    return STENO_RESERVE(&s->tokens, &s->cap_tokens, n);
}

static steno_status reserve_spans(struct steno_espnet_stream *s, size_t n)
{
    size_t cap = s->cap_spans;
    const steno_status st = STENO_RESERVE(&s->spans, &cap, n);
    return st ? st : STENO_RESERVE(&s->costs, &s->cap_spans, n);
}

/* The length of the head of the path that the n tokens stand for: the head with the smallest edit
 * distance to them, the longest of several. */
static size_t covered_length(struct steno_espnet_stream *s, const int32_t *tokens, size_t n,
                             const struct steno_hyp *path)
{
    size_t *cost = s->costs, best = 0;
    for (size_t k = 0; k <= path->n; k++)
        cost[k] = k;
    for (size_t i = 0; i < n; i++) {
        size_t left_up = cost[0]++;
        for (size_t k = 0; k < path->n; k++) {
            size_t swap = left_up + (path->spans[k].token != tokens[i]);
            size_t edit = 1 + (cost[k] < cost[k + 1] ? cost[k] : cost[k + 1]);
            left_up = cost[k + 1];
            cost[k + 1] = swap < edit ? swap : edit;
        }
    }
    for (size_t k = 1; k <= path->n; k++)
        if (cost[k] <= cost[best])
            best = k;
    return best;
}

/* The joint search stops before it would read past the audio, so its tokens lack the newest speech.
 * Replace *path by the search's tokens and the rest of the best path. */
static steno_status join_running(struct steno_espnet_stream *s, struct steno_hyp *path)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    struct steno_joint_hyp h = steno_joint_running(steno_espnet_block_search_joint(s->blocks));
    const struct steno_span *spans = NULL;
    size_t n = 0, rows = s->n_rows, from;
    steno_status st;
    if (h.n && (rows > MOST_CELLS / h.n || path->n > MOST_CELLS / h.n))
        return STENO_OK;
    st = reserve_tokens(s, h.n + 1);
    if (!st)
        st = reserve_spans(s, h.n + path->n + 1);
    if (st)
        return st;
    for (size_t i = 1; i < h.n; i++)
        if (h.tokens[i] != c->blank)
            s->tokens[n++] = h.tokens[i];
    from = covered_length(s, s->tokens, n, path);
    if (from < path->n && path->spans[from].first > 0)
        rows = (size_t)path->spans[from].first;
    st = steno_align_run(&s->align, s->ctc, rows, c->vocab, c->blank, s->tokens, n, &spans);
    if (st)
        return st;
    if (n)
        memcpy(s->spans, spans, n * sizeof *spans);
    if (from < path->n)
        memcpy(s->spans + n, path->spans + from, (path->n - from) * sizeof *spans);
    *path = (struct steno_hyp){.spans = s->spans, .n = n + path->n - from};
    return STENO_OK;
}

steno_status steno_espnet_list_partial(struct steno_espnet_stream *s, steno_transducer *t)
{
    struct steno_hyp best = steno_ctc_greedy_best(s->greedy);
    struct steno_transducer_hyp h;
    steno_status st = STENO_OK;
    steno_hypothesis_list_clear(&s->list);
    if (t && !steno_transducer_count(t))
        t = NULL;
    if (t && steno_transducer_best(t, &h))
        return STENO_ERR_NOMEM;
    if (t)
        best = (struct steno_hyp){.spans = h.spans, .n = h.n - 1};
    else if (s->blocks && s->n_rows)
        st = join_running(s, &best);
    if (!st)
        st = steno_hypothesis_list_add(&s->list, best.spans, best.n, NULL, 0, best.score);
    steno_hypothesis_list_finish(&s->list);
    return st;
}

/* ---- hypotheses ------------------------------------------------------------------------------ */

static steno_status join_pieces(struct steno_espnet_stream *s, const int32_t *tokens, size_t n)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    const char **pieces = malloc((n + 1) * sizeof *pieces);
    steno_status st = pieces ? STENO_OK : STENO_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++)
        pieces[i] = c->tokens[tokens[i]];
    if (!st)
        st = steno_sentencepiece_decode(c->sentencepiece, pieces, n, &s->list.text);
    free(pieces);
    return st ? st : steno_buf_add(&s->list.text, "", 1);
}

/* Append the text as espnet_onnx's tokenizers join it. */
static steno_status join_plain(struct steno_espnet_stream *s, const int32_t *tokens, size_t n)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    bool words = strcmp(c->token_type, "word") == 0, chars = strcmp(c->token_type, "char") == 0;
    bool bpe = strcmp(c->token_type, "bpe") == 0;
    size_t begin = s->list.text.len;
    steno_status st = STENO_OK;
    if (c->sentencepiece)
        return join_pieces(s, tokens, n);
    for (size_t i = 0; i < n && !st; i++) {
        const char *t = c->tokens[tokens[i]];
        if (bpe && strncmp(t, "\xE2\x96\x81", 3) == 0) {
            t += 3;
            if (s->list.text.len > begin)
                st = steno_buf_puts(&s->list.text, " ");
        } else if (words && i) {
            st = steno_buf_puts(&s->list.text, " ");
        } else if (chars && strcmp(t, "<space>") == 0) {
            t = " ";
        }
        if (!st)
            st = steno_buf_puts(&s->list.text, t);
    }
    return st ? st : steno_buf_add(&s->list.text, "", 1);
}

/* Write the tokens between sos and eos, without blanks, to s->tokens, as ESPnet does. */
static size_t inner_tokens(struct steno_espnet_stream *s, const struct steno_joint_hyp *h)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    bool compat = s->net->opt.as_espnet_onnx;
    size_t n = 0;
    for (size_t i = 1; i + 1 < h->n; i++)
        if (h->tokens[i] != c->blank && (compat || h->tokens[i] != c->eos))
            s->tokens[n++] = h->tokens[i];
    return n;
}

/* In the compat mode give the last hypothesis the text of espnet_onnx. */
static steno_status add_text(struct steno_espnet_stream *s, const int32_t *tokens, size_t n)
{
    if (!s->net->opt.as_espnet_onnx)
        return STENO_OK;
    steno_hypothesis_list_begin_text(&s->list);
    return join_plain(s, tokens, n);
}

static steno_status list_joint(struct steno_espnet_stream *s, const struct steno_espnet_scores *x,
                               const steno_joint *j)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    size_t n = steno_joint_count(j);
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && i < s->search.n_best && !st; i++) {
        struct steno_joint_hyp h = steno_joint_get(j, i);
        const struct steno_span *spans = NULL;
        size_t inner;
        st = reserve_tokens(s, h.n);
        inner = st ? 0 : inner_tokens(s, &h);
        if (!st)
            st = steno_align_run(&s->align, x->ctc, x->rows, c->vocab, c->blank, s->tokens, inner,
                                 &spans);
        if (!st)
            st = steno_hypothesis_list_add(&s->list, spans, inner, h.tokens, h.n, h.score);
        if (!st)
            st = add_text(s, s->tokens, inner);
    }
    return st;
}

static steno_status list_transducer(struct steno_espnet_stream *s, steno_transducer *t)
{
    size_t n = steno_transducer_count(t);
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && i < s->search.n_best && !st; i++) {
        struct steno_transducer_hyp h;
        st = steno_transducer_get(t, i, &h);
        if (!st)
            st = steno_hypothesis_list_add(&s->list, h.spans, h.n - 1, h.tokens, h.n, h.score);
        if (!st)
            st = add_text(s, h.tokens + 1, h.n - 1);
    }
    return st;
}

/* Search with CTC alone. With blocks the search has followed already. */
static steno_status search_ctc(struct steno_espnet_stream *s, const struct steno_espnet_scores *x)
{
    if (steno_espnet_by_blocks(s->net))
        return STENO_OK;
    if (s->beam) {
        steno_ctc_beam_restart(s->beam, 0);
        return steno_ctc_beam_push(s->beam, x->ctc, x->rows);
    }
    steno_ctc_greedy_restart(s->greedy, 0);
    return steno_ctc_greedy_push(s->greedy, x->ctc, x->rows);
}

static steno_status list_ctc(struct steno_espnet_stream *s, const struct steno_espnet_scores *x)
{
    struct steno_hyp hyps[STENO_MAX_BEAM];
    size_t n = 1;
    steno_status st = search_ctc(s, x);
    if (!st && s->beam)
        st = steno_ctc_beam_nbest(s->beam, hyps, s->search.n_best, &n);
    else
        hyps[0] = steno_ctc_greedy_best(s->greedy);
    for (size_t i = 0; i < n && !st; i++)
        st = steno_hypothesis_list_add(&s->list, hyps[i].spans, hyps[i].n, NULL, 0, hyps[i].score);
    return st;
}

steno_status steno_espnet_list_final(struct steno_espnet_stream *s,
                                     const struct steno_espnet_scores *x, const steno_joint *j,
                                     steno_transducer *t)
{
    steno_status st = STENO_OK;
    steno_hypothesis_list_clear(&s->list);
    if (j)
        st = list_joint(s, x, j);
    else if (t)
        st = list_transducer(s, t);
    else if (x->rows)
        st = list_ctc(s, x);
    steno_hypothesis_list_finish(&s->list);
    return st;
}

/* A later partial may change every token, so none is stable. */
steno_status steno_espnet_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                     size_t *n, size_t *stable)
{
    const struct steno_espnet_stream *s = state;
    *n = s->list.n < max ? s->list.n : max;
    *stable = 0;
    for (size_t i = 0; i < *n; i++)
        out[i] = s->list.h[i];
    return STENO_OK;
}
