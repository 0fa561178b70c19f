/* CTC prefix beam search.
 *
 * Prefixes are stored in a trie: a node is (parent, token). Equal prefixes are one node, so merging
 * two ways to a prefix is a look-up among the children of a node. A live hypothesis has for its
 * node
 *   pb, pnb   log-probability of all alignments that end in a blank, or in the node's token
 *   vb, vnb   the single best alignment of each, with its word times: the frames of the current
 *             token and the sequence of the tokens before it (sequences.h)
 * Trie nodes are reference-counted and addressed by index, so they may move when there are more.
 * Once there are enough, a frame allocates nothing.
 *
 * One frame: each hypothesis stays (blank, or its own token again) or is extended by one of the
 * frame's top_k tokens. Candidates for the same node add up (log domain, double). The best `beam`
 * candidates continue. Ties are decided by age, so the result does not depend on memory layout.
 *
 * After a reset the root represents the token of the last frame: the same token without a blank
 * between adds nothing, as in the greedy decoder. */
#include "speech/search/ctc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/search/sequences.h"

#define NIL STENO_NO_SEQUENCE /* no node, no token */
#define MOST 1e4f             /* limit of scores: +Inf of a broken network must not give NaN sums */
#define NEVER (-(double)INFINITY)

struct node {                           /* a node of the trie */
    int32_t parent, token, child, next; /* next: sibling, or next in the free list */
    uint32_t refs;                      /* children + hypotheses */
    int32_t depth;
    int32_t slot; /* its candidate of this frame, valid if stamp is the frame's */
    int64_t stamp;
    double bonus;  /* of hotwords and language model, for the whole prefix */
    int32_t match; /* state of the hotwords */
};

struct path {
    double score;
    int32_t tail;         /* the finished tokens: a sequence */
    int32_t count;        /* tokens, including the current one */
    struct steno_span at; /* the current token; NIL = none yet */
};

struct hyp {
    int32_t node;
    double pb, pnb, total;
    double rank; /* total and the bonus of the prefix */
    struct path vb, vnb;
};

struct steno_ctc_beam {
    struct steno_ctc_options opt;
    struct node *nodes; /* [used_nodes] */
    size_t cap_nodes;
    int32_t used_nodes, free_node; /* free_node: head of the free list */
    struct steno_sequences finished;
    struct steno_blocks fixed; /* arrays whose sizes are those of the options */
    struct hyp *live, *cand;   /* [beam], [cap_cand] */
    int32_t n_live, n_cand, cap_cand;
    int32_t committed; /* tokens at the beginning that commit() has fixed */
    int32_t *top;      /* [top_k] tokens of the frame, best first */
    int32_t n_top;
    float *row; /* the frame's scores, with the penalty subtracted and without NaN */
    struct steno_span *out;
    size_t out_cap;
    int64_t frame, last_sound, stamp;
};

static inline struct node *node_at(const steno_ctc_beam *b, int32_t i)
{
    return b->nodes + i;
}

static double log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo == NEVER ? hi : hi + log1p(exp(lo - hi));
}

/* ---- prefixes ------------------------------------------------------------------------------ */

static bool reserve_nodes(steno_ctc_beam *b, int32_t more)
{
    return b->used_nodes <= INT32_MAX - more &&
           !STENO_RESERVE(&b->nodes, &b->cap_nodes, (size_t)(b->used_nodes + more));
}

/* The language model's score of `token` after the prefix of a node. */
static double score_lm_of_prefix(const steno_ctc_beam *b, int32_t node, int32_t token)
{
    int32_t reversed[STENO_TOKEN_LM_HISTORY], history[STENO_TOKEN_LM_HISTORY];
    size_t n = 0;
    for (; node_at(b, node)->depth > 0 && n < b->opt.lm.history; node = node_at(b, node)->parent)
        reversed[n++] = node_at(b, node)->token;
    for (size_t i = 0; i < n; i++)
        history[i] = reversed[n - 1 - i];
    return b->opt.lm.one(b->opt.lm.self, history, n, token);
}

/* What hotwords and language model say of a new prefix. */
static void set_bonus(const steno_ctc_beam *b, struct node *n)
{
    const struct node *up = node_at(b, n->parent);
    float hot = 0;
    n->bonus = up->bonus;
    if (b->opt.hotwords) {
        n->match = steno_hotwords_step(b->opt.hotwords, up->match, n->token, &hot);
        n->bonus += (double)hot;
    }
    if (b->opt.lm.one)
        n->bonus += b->opt.lm.weight * score_lm_of_prefix(b, n->parent, n->token);
}

/* The memory was reserved before the frame. */
static int32_t node_new(steno_ctc_beam *b, int32_t parent, int32_t token)
{
    int32_t i = b->free_node;
    struct node *n, *up;
    if (i != NIL)
        b->free_node = node_at(b, i)->next;
    else
        i = b->used_nodes++;
    n = node_at(b, i);
    *n = (struct node){.parent = parent, .token = token, .child = NIL, .next = NIL, .stamp = -1};
    if (parent != NIL) {
        up = node_at(b, parent);
        n->next = up->child;
        n->depth = up->depth + 1;
        up->child = i;
        up->refs++;
        set_bonus(b, n);
    }
    return i;
}

static void node_unref(steno_ctc_beam *b, int32_t i)
{
    while (i != NIL && --node_at(b, i)->refs == 0) {
        struct node *n = node_at(b, i);
        int32_t parent = n->parent;
        if (parent != NIL) {
            int32_t *at = &node_at(b, parent)->child;
            while (*at != i)
                at = &node_at(b, *at)->next;
            *at = n->next;
        }
        n->next = b->free_node;
        b->free_node = i;
        i = parent;
    }
}

static void path_set(steno_ctc_beam *b, struct path *p, const struct path *from)
{
    steno_sequence_keep(&b->finished, from->tail);
    steno_sequence_drop(&b->finished, p->tail);
    *p = *from;
}

/* ---- open and close ------------------------------------------------------------------------- */

static void drop_hyp(steno_ctc_beam *b, struct hyp *h)
{
    steno_sequence_drop(&b->finished, h->vb.tail);
    steno_sequence_drop(&b->finished, h->vnb.tail);
    node_unref(b, h->node);
}

static const struct path no_path = {.score = NEVER, .tail = NIL, .at = {.token = NIL}};

/* Start with the empty prefix alone. token: the token of the last frame, or NIL. */
static void begin_prefixes(steno_ctc_beam *b, int32_t token)
{
    struct hyp *h = &b->live[0];
    for (int32_t i = 0; i < b->n_live; i++)
        drop_hyp(b, &b->live[i]);
    b->used_nodes = 0;
    b->free_node = NIL;
    steno_sequences_reset(&b->finished);
    *h = (struct hyp){.pb = NEVER, .pnb = NEVER, .vb = no_path, .vnb = no_path};
    h->node = node_new(b, NIL, token);
    node_at(b, h->node)->refs = 1;
    if (token == NIL)
        h->pb = h->vb.score = 0;
    else
        h->pnb = h->vnb.score = 0;
    b->n_live = 1;
    b->committed = 0;
}

steno_status steno_ctc_beam_open(steno_ctc_beam **out, const struct steno_ctc_options *opt,
                                 steno_err *err)
{
    steno_ctc_beam *b;
    size_t k;
    if (opt->vocab < 2 || opt->blank < 0 || opt->blank >= opt->vocab || opt->beam < 1 ||
        opt->beam > 64 || opt->lm.history > STENO_TOKEN_LM_HISTORY || opt->top_k < 0 ||
        opt->commit_delay < 0 || !(opt->margin >= 0))
        return steno_fail(err, STENO_ERR_INVAL,
                          "CTC: blank %d, vocabulary %d, beam %d, top_k %d, margin %g",
                          (int)opt->blank, (int)opt->vocab, opt->beam, opt->top_k, opt->margin);
    b = calloc(1, sizeof *b);
    if (!b)
        return steno_fail(err, STENO_ERR_NOMEM, "CTC: out of memory");
    b->opt = *opt;
    if (b->opt.top_k == 0 || b->opt.top_k >= opt->vocab)
        b->opt.top_k = opt->vocab - 1;
    k = (size_t)b->opt.top_k + 2; /* per hypothesis: itself, the top_k, its own last token */
    b->cap_cand = (int32_t)((size_t)opt->beam * k);
    b->live = steno_blocks_add(&b->fixed, (size_t)opt->beam, sizeof *b->live);
    b->cand = steno_blocks_add(&b->fixed, (size_t)b->cap_cand, sizeof *b->cand);
    b->top = steno_blocks_add(&b->fixed, (size_t)b->opt.top_k, sizeof *b->top);
    b->row = steno_blocks_add(&b->fixed, (size_t)opt->vocab, sizeof *b->row);
    if (b->fixed.failed || !reserve_nodes(b, 1)) {
        steno_ctc_beam_close(b);
        return steno_fail(err, STENO_ERR_NOMEM, "CTC: out of memory");
    }
    steno_ctc_beam_restart(b, 0);
    *out = b;
    return STENO_OK;
}

void steno_ctc_beam_close(steno_ctc_beam *b)
{
    if (!b)
        return;
    free(b->nodes);
    steno_sequences_free(&b->finished);
    steno_blocks_free(&b->fixed);
    free(b->out);
    free(b);
}

void steno_ctc_beam_restart(steno_ctc_beam *b, int64_t frame)
{
    begin_prefixes(b, NIL);
    b->frame = frame;
    b->last_sound = -1;
    b->stamp = 0;
}

void steno_ctc_beam_reset(steno_ctc_beam *b)
{
    const struct hyp *h = &b->live[0];
    begin_prefixes(b, h->pnb > h->pb ? node_at(b, h->node)->token : NIL);
    b->stamp++;
}

/* ---- one frame ----------------------------------------------------------------------------- */

static struct hyp *candidate(steno_ctc_beam *b, int32_t node)
{
    struct node *n = node_at(b, node);
    struct hyp *h;
    if (n->stamp == b->stamp)
        return &b->cand[n->slot];
    n->stamp = b->stamp;
    n->slot = b->n_cand;
    n->refs++;
    h = &b->cand[b->n_cand++];
    *h = (struct hyp){.node = node, .pb = NEVER, .pnb = NEVER, .vb = no_path, .vnb = no_path};
    return h;
}

static int32_t child_of(steno_ctc_beam *b, int32_t node, int32_t token)
{
    for (int32_t i = node_at(b, node)->child; i != NIL; i = node_at(b, i)->next)
        if (node_at(b, i)->token == token)
            return i;
    return node_new(b, node, token);
}

/* Continue the best alignment by one frame, in the same token or in a blank. */
static void keep_path(steno_ctc_beam *b, struct path *to, const struct path *from, double logp,
                      bool sounding)
{
    double score = from->score + logp;
    if (!(score > to->score))
        return;
    path_set(b, to, from);
    to->score = score;
    if (sounding && to->at.token != NIL) {
        to->at.last = b->frame;
        if (logp > (double)to->at.peak)
            to->at.peak = (float)logp;
    }
}

/* Continue it with a new token; *frozen caches the sequence with the token that ends. */
static void extend_path(steno_ctc_beam *b, struct path *to, const struct path *from, int32_t token,
                        double logp, int32_t *frozen)
{
    struct path p = *from;
    p.score = from->score + logp;
    if (!(p.score > to->score))
        return;
    if (from->at.token != NIL) {
        if (*frozen == NIL)
            *frozen = steno_sequence_extend(&b->finished, from->tail, &from->at);
        p.tail = *frozen;
    }
    p.count = from->count + 1;
    p.at = (struct steno_span){
        .token = token, .peak = (float)logp, .first = b->frame, .last = b->frame};
    path_set(b, to, &p);
}

static void extend_prefix(steno_ctc_beam *b, const struct hyp *h, int32_t token, int32_t last,
                          int32_t frozen[2])
{
    double logp = (double)b->row[token];
    double from = token == last ? h->pb : h->total;
    struct hyp *c;
    if (from == NEVER || logp == NEVER)
        return;
    c = candidate(b, child_of(b, h->node, token));
    c->pnb = log_add(c->pnb, from + logp);
    extend_path(b, &c->vnb, &h->vb, token, logp, &frozen[0]);
    if (token != last)
        extend_path(b, &c->vnb, &h->vnb, token, logp, &frozen[1]);
}

static void advance_prefix(steno_ctc_beam *b, const struct hyp *h)
{
    double blank = (double)b->row[b->opt.blank];
    int32_t last = node_at(b, h->node)->token, frozen[2] = {NIL, NIL};
    struct hyp *c = candidate(b, h->node);
    c->pb = log_add(c->pb, h->total + blank);
    keep_path(b, &c->vb, &h->vb, blank, false);
    keep_path(b, &c->vb, &h->vnb, blank, false);
    if (last != NIL) {
        double again = (double)b->row[last];
        c->pnb = log_add(c->pnb, h->pnb + again);
        keep_path(b, &c->vnb, &h->vnb, again, true);
        extend_prefix(b, h, last, last, frozen);
    }
    for (int32_t i = 0; i < b->n_top; i++)
        if (b->top[i] != last)
            extend_prefix(b, h, b->top[i], last, frozen);
    steno_sequence_drop(&b->finished, frozen[0]);
    steno_sequence_drop(&b->finished, frozen[1]);
}

/* The likeliest top_k tokens without the blank, best first; equal ones in the order of their
 * numbers. */
static void find_top(steno_ctc_beam *b)
{
    b->n_top = 0;
    for (int32_t v = 0; v < b->opt.vocab; v++) {
        int32_t i = b->n_top;
        if (v == b->opt.blank || b->row[v] == -INFINITY)
            continue;
        if (i == b->opt.top_k) {
            if (b->row[v] <= b->row[b->top[i - 1]])
                continue;
            i--;
        } else {
            b->n_top++;
        }
        for (; i > 0 && b->row[b->top[i - 1]] < b->row[v]; i--)
            b->top[i] = b->top[i - 1];
        b->top[i] = v;
    }
}

static void take_row(steno_ctc_beam *b, const float *row)
{
    int32_t blank = b->opt.blank;
    for (int32_t v = 0; v < b->opt.vocab; v++)
        b->row[v] = isnan(row[v]) ? -INFINITY : fminf(row[v], MOST);
    b->row[blank] -= b->opt.blank_penalty;
    find_top(b);
    if (b->row[blank] == -INFINITY && b->n_top == 0)
        b->row[blank] = 0; /* the frame has no information: it counts as silence */
    if (b->n_top && b->row[b->top[0]] > b->row[blank])
        b->last_sound = b->frame;
}

/* Keep the best `beam` candidates, best first; of equal ones the older first. */
static void prune(steno_ctc_beam *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_live; i++)
        drop_hyp(b, &b->live[i]);
    for (int32_t i = 0; i < b->n_cand; i++) {
        struct hyp *c = &b->cand[i];
        int32_t at = n;
        c->total = log_add(c->pb, c->pnb);
        c->rank = c->total + node_at(b, c->node)->bonus;
        if (c->total == NEVER || (n == b->opt.beam && c->rank <= b->live[n - 1].rank)) {
            drop_hyp(b, c);
            continue;
        }
        if (n == b->opt.beam)
            drop_hyp(b, &b->live[--at]);
        else
            n++;
        for (; at > 0 && b->live[at - 1].rank < c->rank; at--)
            b->live[at] = b->live[at - 1];
        b->live[at] = *c;
    }
    while (b->opt.margin > 0 && b->live[n - 1].rank < b->live[0].rank - b->opt.margin)
        drop_hyp(b, &b->live[--n]);
    b->n_live = n;
}

static const struct path *best_path(const struct hyp *h)
{
    return h->vnb.score > h->vb.score ? &h->vnb : &h->vb;
}

/* A frame is not silent if its likeliest token is not the blank (take_row), or if the best
 * hypothesis has a token there: alignments can add up to a word whose tokens never win a frame. */
static void note_sound(steno_ctc_beam *b)
{
    const struct path *p = best_path(&b->live[0]);
    if (p->at.token != NIL && p->at.last > b->last_sound)
        b->last_sound = p->at.last;
}

/* Number of tokens at the beginning of the path that ended before frame `until`. */
static int32_t old_tokens(const steno_ctc_beam *b, const struct path *p, int64_t until)
{
    const struct steno_sequence *node = b->finished.node;
    int32_t n = p->count, l = p->tail;
    if (p->at.token == NIL || p->at.last < until)
        return n;
    for (n--; l != NIL && node[l].span.last >= until; l = node[l].before)
        n--;
    return n;
}

static int32_t ancestor(const steno_ctc_beam *b, int32_t node, int32_t depth)
{
    while (node_at(b, node)->depth > depth)
        node = node_at(b, node)->parent;
    return node;
}

/* Commit tokens that are far enough in the past. Scores of frames long after a token say almost
 * nothing about it, so hypotheses that differ there only keep the shared prefix short. */
static void commit(steno_ctc_beam *b)
{
    int32_t depth, head, n = 1;
    if (b->opt.commit_delay <= 0)
        return;
    depth = old_tokens(b, best_path(&b->live[0]), b->frame - b->opt.commit_delay);
    if (depth <= b->committed)
        return;
    b->committed = depth;
    head = ancestor(b, b->live[0].node, depth);
    for (int32_t i = 1; i < b->n_live; i++) {
        if (ancestor(b, b->live[i].node, depth) == head)
            b->live[n++] = b->live[i];
        else
            drop_hyp(b, &b->live[i]);
    }
    b->n_live = n;
}

static steno_status step_beam(steno_ctc_beam *b, const float *row)
{
    /* Each candidate may need a node, and each live hypothesis two sequences. */
    if (!reserve_nodes(b, b->cap_cand) ||
        steno_sequences_reserve(&b->finished, 2 * (size_t)b->opt.beam))
        return STENO_ERR_NOMEM;
    take_row(b, row);
    b->stamp++;
    b->n_cand = 0;
    for (int32_t i = 0; i < b->n_live; i++) {
        b->live[i].total = log_add(b->live[i].pb, b->live[i].pnb);
        advance_prefix(b, &b->live[i]);
    }
    prune(b);
    note_sound(b);
    commit(b);
    b->frame++;
    return STENO_OK;
}

steno_status steno_ctc_beam_push(steno_ctc_beam *b, const float *scores, size_t frames)
{
    for (size_t t = 0; t < frames; t++) {
        steno_status st = step_beam(b, scores + t * (size_t)b->opt.vocab);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* ---- results ------------------------------------------------------------------------------- */

static void write_spans(const steno_ctc_beam *b, const struct path *p, struct steno_span *out)
{
    const size_t before = (size_t)p->count - 1; /* the finished ones */
    if (p->at.token == NIL)
        return;
    out[before] = p->at;
    steno_sequence_spans(&b->finished, p->tail, out, before);
}

steno_status steno_ctc_beam_nbest(steno_ctc_beam *b, struct steno_hyp *out, size_t n, size_t *count)
{
    size_t total = 0, at = 0, k = (size_t)b->n_live < n ? (size_t)b->n_live : n;
    for (size_t i = 0; i < k; i++)
        total += (size_t)best_path(&b->live[i])->count;
    if (STENO_RESERVE(&b->out, &b->out_cap, total + 1))
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < k; i++) {
        const struct hyp *h = &b->live[i];
        const struct path *p = best_path(h);
        write_spans(b, p, b->out + at);
        out[i] = (struct steno_hyp){
            .spans = b->out + at, .n = (size_t)p->count, .score = log_add(h->pb, h->pnb)};
        at += (size_t)p->count;
    }
    *count = k;
    return STENO_OK;
}

size_t steno_ctc_beam_stable(const steno_ctc_beam *b)
{
    int32_t common = b->live[0].node;
    for (int32_t i = 1; i < b->n_live; i++) {
        int32_t other = b->live[i].node;
        while (common != other) {
            if (node_at(b, common)->depth >= node_at(b, other)->depth)
                common = node_at(b, common)->parent;
            else
                other = node_at(b, other)->parent;
        }
    }
    return (size_t)node_at(b, common)->depth;
}

int64_t steno_ctc_beam_last_sound(const steno_ctc_beam *b)
{
    return b->last_sound;
}

int64_t steno_ctc_beam_frames(const steno_ctc_beam *b)
{
    return b->frame;
}
