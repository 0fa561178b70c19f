/* Hypotheses and their words as events: partials from the CTC best path, finals from the search. */
#include <stdlib.h>
#include <string.h>

#include "families/espnet/stream.h"

/* Tokens times rows that a partial takes the trouble to align; of longer segments, which come
 * without endpointing alone, partials are the CTC best path. */
#define MOST_CELLS ((size_t)1 << 21)
#define FIRST_WORDS 256 /* of events, once there is one */

/* ---- clock --------------------------------------------------------------------------------- */

double steno_espnet_stream_seconds(const struct steno_espnet_stream *s, double at)
{
    double t =
        (double)s->base / s->opt.sample_rate + ((double)s->from + at) / s->model->conf.sample_rate;
    double end = (double)s->taken / s->opt.sample_rate;
    return t > end ? end : t;
}

static double row_seconds(const struct steno_espnet_stream *s, int64_t row)
{
    return steno_espnet_stream_seconds(s, (double)row * (double)s->model->espnet->frame_samples);
}

/* ---- events -------------------------------------------------------------------------------- */

static void fill_words(const struct steno_espnet_stream *s, const struct steno_words *w,
                       struct steno_word *out)
{
    for (size_t i = 0; i < w->n; i++)
        out[i] = (struct steno_word){.text = w->words.data + w->w[i].text,
                                     .start = row_seconds(s, w->w[i].first),
                                     .end = row_seconds(s, w->w[i].last + 1),
                                     .confidence = w->w[i].confidence};
}

static void fill_event(const struct steno_espnet_stream *s, size_t samples, struct steno_event *ev)
{
    const struct steno_words *w = &s->words[0];
    ev->segment = s->segment;
    ev->time = steno_espnet_stream_seconds(s, (double)samples);
    ev->text = steno_words_line(w);
    ev->confidence = w->confidence;
    ev->n_words = w->n;
    ev->words = s->out.w;
    ev->start = w->n ? s->out.w[0].start : steno_espnet_stream_seconds(s, 0);
    ev->end = w->n ? s->out.w[w->n - 1].end : ev->start;
}

steno_status steno_espnet_stream_emit_start(struct steno_espnet_stream *s)
{
    struct steno_event ev = {.kind = STENO_SPEECH_START,
                             .segment = s->segment,
                             .time = steno_espnet_stream_seconds(s, (double)s->n),
                             .start = steno_espnet_stream_seconds(s, 0),
                             .end = steno_espnet_stream_seconds(s, 0),
                             .text = ""};
    return steno_events_add(&s->events, &ev);
}

static steno_status reserve_tokens(struct steno_espnet_stream *s, size_t n)
{
    int32_t *p;
    if (n <= s->cap_tokens)
        return STENO_OK;
    p = realloc(s->tokens, 2 * n * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    s->tokens = p;
    s->cap_tokens = 2 * n;
    return STENO_OK;
}

static steno_status reserve_spans(struct steno_espnet_stream *s, size_t n)
{
    struct steno_span *p;
    size_t *q;
    if (n <= s->cap_spans)
        return STENO_OK;
    p = realloc(s->spans, 2 * n * sizeof *p);
    if (p)
        s->spans = p;
    q = realloc(s->costs, 2 * n * sizeof *q);
    if (q)
        s->costs = q;
    if (!p || !q)
        return STENO_ERR_NOMEM;
    s->cap_spans = 2 * n;
    return STENO_OK;
}

/* How much of the path the n tokens stand for: that head of it from which they differ in the fewest
 * edits, the longest of several. */
static size_t covered(struct steno_espnet_stream *s, const int32_t *tokens, size_t n,
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

/* The search waits where it would read past the audio; what it has not said yet is the best path's.
 */
static steno_status running(struct steno_espnet_stream *s, struct steno_hyp *path)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
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
    from = covered(s, s->tokens, n, path);
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

steno_status steno_espnet_stream_emit_partial(struct steno_espnet_stream *s, steno_transducer *t)
{
    struct steno_event ev = {.kind = STENO_PARTIAL};
    struct steno_words *w = &s->words[0];
    struct steno_hyp best = steno_ctc_greedy_best(s->greedy);
    struct steno_transducer_hyp h;
    steno_status st;
    uint64_t print;
    if (t && !steno_transducer_count(t))
        t = NULL;
    if (t && steno_transducer_best(t, &h))
        return STENO_ERR_NOMEM;
    if (t)
        best = (struct steno_hyp){.spans = h.spans, .n = h.n - 1};
    else if (s->blocks && s->n_rows && (st = running(s, &best)))
        return st;
    /* a later look at the segment may change any of it: nothing is stable */
    st = steno_words_build(w, s->model->tokens, best.spans, best.n, 0);
    if (!st)
        st = steno_event_words_reserve(&s->out, w->n, FIRST_WORDS);
    if (st)
        return st;
    print = steno_event_fingerprint(steno_words_line(w), 0);
    if (print == s->shown || (!w->n && !s->shown))
        return STENO_OK;
    s->shown = print;
    fill_words(s, w, s->out.w);
    fill_event(s, s->n, &ev);
    return steno_events_add(&s->events, &ev);
}

/* ---- hypotheses ---------------------------------------------------------------------------- */

static steno_status join_pieces(struct steno_espnet_stream *s, const int32_t *tokens, size_t n)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    const char **pieces = malloc((n + 1) * sizeof *pieces);
    steno_status st = pieces ? STENO_OK : STENO_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++)
        pieces[i] = c->tokens[tokens[i]];
    if (!st)
        st = steno_sentencepiece_decode(c->sentencepiece, pieces, n, &s->plain);
    free(pieces);
    return st ? st : steno_buf_add(&s->plain, "", 1);
}

/* Text as espnet_onnx's tokenizers join it. */
static steno_status join_plain(struct steno_espnet_stream *s, const int32_t *tokens, size_t n)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    bool words = strcmp(c->token_type, "word") == 0, chars = strcmp(c->token_type, "char") == 0;
    bool bpe = strcmp(c->token_type, "bpe") == 0;
    size_t begin = s->plain.len;
    steno_status st = STENO_OK;
    if (c->sentencepiece)
        return join_pieces(s, tokens, n);
    for (size_t i = 0; i < n && !st; i++) {
        const char *t = c->tokens[tokens[i]];
        if (bpe && strncmp(t, "\xE2\x96\x81", 3) == 0) {
            t += 3;
            if (s->plain.len > begin)
                st = steno_buf_puts(&s->plain, " ");
        } else if (words && i) {
            st = steno_buf_puts(&s->plain, " ");
        } else if (chars && strcmp(t, "<space>") == 0) {
            t = " ";
        }
        if (!st)
            st = steno_buf_puts(&s->plain, t);
    }
    return st ? st : steno_buf_add(&s->plain, "", 1);
}

/* The tokens between sos and eos, without blanks; as ESPnet shows them. */
static size_t inner_tokens(struct steno_espnet_stream *s, const struct steno_joint_hyp *h)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    bool compat = s->model->espnet->opt.as_espnet_onnx;
    size_t n = 0;
    for (size_t i = 1; i + 1 < h->n; i++)
        if (h->tokens[i] != c->blank && (compat || h->tokens[i] != c->eos))
            s->tokens[n++] = h->tokens[i];
    return n;
}

static steno_status take_joint(struct steno_espnet_stream *s,
                               const struct steno_espnet_stream_scores *x, const steno_joint *j,
                               size_t *n_alts)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    size_t n = steno_joint_count(j), k = 0;
    steno_buf_reset(&s->plain);
    for (size_t i = 0; i < n && k < s->search.n_best; i++) {
        struct steno_joint_hyp h = steno_joint_get(j, i);
        const struct steno_span *spans = NULL;
        steno_status st = reserve_tokens(s, h.n);
        size_t inner = st ? 0 : inner_tokens(s, &h);
        if (!st)
            st = steno_align_run(&s->align, x->ctc, x->rows, c->vocab, c->blank, s->tokens, inner,
                                 &spans);
        if (!st)
            st = steno_words_build(&s->words[k], s->model->tokens, spans, inner, inner);
        if (!st)
            st = join_plain(s, s->tokens, inner);
        if (st)
            return st;
        s->alts[k] = (struct steno_alternative){.confidence = s->words[k].confidence,
                                                .score = h.score,
                                                .n_words = s->words[k].n,
                                                .n_tokens = h.n,
                                                .tokens = h.tokens};
        k++;
    }
    *n_alts = k;
    return STENO_OK;
}

/* Tokens of all hypotheses go into one buffer: the search's own holds one at a time. */
static steno_status take_transducer(struct steno_espnet_stream *s, steno_transducer *t,
                                    size_t *n_alts)
{
    size_t n = steno_transducer_count(t), total = 0, at = 0;
    struct steno_transducer_hyp h;
    steno_status st = STENO_OK;
    n = n < s->search.n_best ? n : s->search.n_best;
    steno_buf_reset(&s->plain);
    for (size_t i = 0; i < n && !st; i++, total += st ? 0 : h.n)
        st = steno_transducer_get(t, i, &h);
    if (!st)
        st = reserve_tokens(s, total);
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_transducer_get(t, i, &h);
        if (st)
            break;
        memcpy(s->tokens + at, h.tokens, h.n * sizeof *h.tokens);
        st = steno_words_build(&s->words[i], s->model->tokens, h.spans, h.n - 1, h.n - 1);
        if (!st)
            st = join_plain(s, s->tokens + at + 1, h.n - 1);
        s->alts[i] = (struct steno_alternative){.confidence = s->words[i].confidence,
                                                .score = h.score,
                                                .n_words = s->words[i].n,
                                                .n_tokens = h.n,
                                                .tokens = s->tokens + at};
        at += h.n;
    }
    *n_alts = st ? 0 : n;
    return st;
}

/* Blocks have gone through the search as they came. */
static steno_status search_ctc(struct steno_espnet_stream *s,
                               const struct steno_espnet_stream_scores *x)
{
    if (steno_espnet_stream_by_blocks(s))
        return STENO_OK;
    if (s->beam) {
        steno_ctc_beam_restart(s->beam, 0);
        return steno_ctc_beam_push(s->beam, x->ctc, x->rows);
    }
    steno_ctc_greedy_restart(s->greedy, 0);
    return steno_ctc_greedy_push(s->greedy, x->ctc, x->rows);
}

static steno_status take_ctc(struct steno_espnet_stream *s,
                             const struct steno_espnet_stream_scores *x, size_t *n_alts)
{
    struct steno_hyp hyps[STENO_MAX_BEAM];
    size_t n = 1;
    steno_status st = search_ctc(s, x);
    if (!st && s->beam)
        st = steno_ctc_beam_nbest(s->beam, hyps, s->search.n_best, &n);
    else
        hyps[0] = steno_ctc_greedy_best(s->greedy);
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_words_build(&s->words[i], s->model->tokens, hyps[i].spans, hyps[i].n, hyps[i].n);
        s->alts[i] = (struct steno_alternative){
            .confidence = s->words[i].confidence, .score = hyps[i].score, .n_words = s->words[i].n};
    }
    *n_alts = n;
    return st;
}

/* Texts and words of the alternatives, once all memory has been made. */
static steno_status place_alternatives(struct steno_espnet_stream *s, size_t n)
{
    bool plain = s->model->espnet->opt.as_espnet_onnx;
    size_t words = 0, at = 0, text = 0;
    steno_status st;
    for (size_t i = 0; i < n; i++)
        words += s->words[i].n;
    st = steno_event_words_reserve(&s->out, words, FIRST_WORDS);
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_alternative *a = &s->alts[i];
        a->text = plain ? s->plain.data + text : steno_words_line(&s->words[i]);
        a->words = s->out.w + at;
        fill_words(s, &s->words[i], s->out.w + at);
        at += s->words[i].n;
        text += plain ? strlen(a->text) + 1 : 0;
    }
    return st;
}

steno_status steno_espnet_stream_emit_final(struct steno_espnet_stream *s, size_t n,
                                            const struct steno_espnet_stream_scores *x,
                                            const steno_joint *j, steno_transducer *t)
{
    struct steno_event ev = {.kind = STENO_FINAL, .reason = s->reason};
    steno_status st = STENO_OK;
    if (j)
        st = take_joint(s, x, j, &ev.n_alternatives);
    else if (t)
        st = take_transducer(s, t, &ev.n_alternatives);
    else if (x->rows)
        st = take_ctc(s, x, &ev.n_alternatives);
    if (!ev.n_alternatives && !st)
        st = steno_words_build(&s->words[0], s->model->tokens, NULL, 0, 0);
    if (!st)
        st = place_alternatives(s, ev.n_alternatives);
    if (st)
        return st;
    fill_event(s, n, &ev);
    if (ev.n_alternatives)
        ev.text = s->alts[0].text;
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(ev.text);
    ev.alternatives = s->alts;
    st = steno_events_add(&s->events, &ev);
    if (!st)
        s->segment++;
    return st;
}
