/* Nodes are pairs of a place in the text and a state. All nodes of a block of the text are made,
 * place by place, then ordered by a depth-first walk, then given their distance in that order.
 *
 * A text longer than a block is cut where all paths that go on pass through one node: what comes
 * before it is decided. Such nodes exist between most words; if a block has none, a longer one is
 * tried. */
#include "speech/itn/rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define BLOCK ((size_t)8192)
#define MAX_EDGES ((size_t)1 << 21)        /* of a block */
#define KEPT_EDGES ((size_t)1 << 18)       /* room that stays for the next text */
#define EDGES_PER_BYTE ((uint64_t)1 << 12) /* in the mean, of a whole text */
#define CHAIN ((uint32_t)1 << 31)
#define NONE UINT32_MAX
#define SEVERAL (UINT32_MAX - 1)

struct node {
    uint32_t state, at;
    uint32_t edge, n_edges;
    uint32_t best; /* the edge of the best path into it */
    float distance;
    bool seen, alive; /* the walk has been there; the end can be reached */
};

/* An arc, and the chain behind it if there is one. A chain has a place of its own in the order, as
 * its states would have. */
struct edge {
    uint32_t from, to, arc;
    float distance; /* at the chain's begin */
    bool chain;
};

struct visit {
    uint32_t node, edge;
};

struct steno_rewrite {
    struct node *node;
    struct edge *edge;
    struct visit *stack;
    uint32_t *order;    /* live nodes and chains (CHAIN + edge), each behind all that it leads to */
    uint32_t *layer[2]; /* nodes of this place and of the next one */
    uint32_t *mark[2];  /* the node of a state, by odd and even places; checked when used */
    uint32_t *entry;    /* by place of the block: the one node by which paths come there */
    struct steno_rewrite_step *step;
    size_t n_nodes, n_edges, n_order, n_layer[2], n_steps;
    size_t cap_nodes, cap_stack, cap_layer[2], cap_edges, cap_order, cap_marks[2], cap_entries,
        cap_steps;
};

struct block {
    const struct steno_fst *f;
    const unsigned char *text; /* behind the last byte of the whole text there is a zero */
    size_t n;
    bool end;      /* they end the text */
    bool open;     /* what follows is not known */
    uint64_t left; /* edges that may still be made */
};

/* ---- room ------------------------------------------------------------------------------------ */

static bool reserve_nodes(steno_rewrite *w)
{
    const size_t n = w->n_nodes + 1;
    return !STENO_RESERVE(&w->node, &w->cap_nodes, n) &&
           !STENO_RESERVE(&w->stack, &w->cap_stack, n) &&
           !STENO_RESERVE(&w->layer[0], &w->cap_layer[0], n) &&
           !STENO_RESERVE(&w->layer[1], &w->cap_layer[1], n);
}

static bool reserve_edges(steno_rewrite *w, size_t more)
{
    const size_t n = w->n_edges + more;
    return !STENO_RESERVE(&w->edge, &w->cap_edges, n) &&
           !STENO_RESERVE(&w->order, &w->cap_order, 2 * n + 1);
}

static bool reserve_marks(steno_rewrite *w, size_t states)
{
    for (int i = 0; i < 2; i++) {
        const size_t had = w->cap_marks[i];
        if (STENO_RESERVE(&w->mark[i], &w->cap_marks[i], states))
            return false;
        memset(w->mark[i] + had, 0, (w->cap_marks[i] - had) * sizeof *w->mark[i]);
    }
    return true;
}

static void free_block(steno_rewrite *w)
{
    free(w->node);
    free(w->edge);
    free(w->stack);
    free(w->order);
    free(w->layer[0]);
    free(w->layer[1]);
    w->node = NULL;
    w->edge = NULL;
    w->stack = NULL;
    w->order = w->layer[0] = w->layer[1] = NULL;
    w->cap_nodes = w->cap_stack = w->cap_layer[0] = w->cap_layer[1] = 0;
    w->cap_edges = w->cap_order = 0;
}

/* ---- nodes and edges ------------------------------------------------------------------------- */

/* The node of a state at a place, perhaps a new one; NONE: out of memory. */
static uint32_t node_at(steno_rewrite *w, uint32_t state, uint32_t at)
{
    const uint32_t mark = w->mark[at & 1][state];
    if (mark < w->n_nodes && w->node[mark].state == state && w->node[mark].at == at)
        return mark;
    if (!reserve_nodes(w))
        return NONE;
    w->node[w->n_nodes] = (struct node){.state = state, .at = at, .distance = INFINITY};
    w->layer[at & 1][w->n_layer[at & 1]++] = (uint32_t)w->n_nodes;
    w->mark[at & 1][state] = (uint32_t)w->n_nodes;
    return (uint32_t)w->n_nodes++;
}

/* An edge to a node at a place; none if no path goes on from there. */
static bool add_edge(steno_rewrite *w, const struct block *b, uint32_t from, uint32_t arc,
                     uint32_t at)
{
    const uint32_t next = b->f->arc[arc].next, state = b->f->chain[next].end;
    uint32_t to;
    if (!(b->open && at == b->n) && !steno_fst_reads(b->f, state, b->text[at]))
        return true;
    to = node_at(w, state, at);
    w->edge[w->n_edges] = (struct edge){.from = from, .to = to, .arc = arc, .chain = state != next};
    w->n_edges += to != NONE;
    return to != NONE;
}

/* The first arc in [a, end) that reads byte c; end: there is none. */
static uint32_t find_arc(const struct steno_fst *f, uint32_t a, uint32_t end, uint8_t c)
{
    const uint8_t *p = a < end ? memchr(f->in + a, c, end - a) : NULL;
    return p ? (uint32_t)(p - f->in) : end;
}

/* Edges of a node: arcs that read nothing, then those that read the byte of its place. */
static bool expand_node(steno_rewrite *w, const struct block *b, uint32_t node)
{
    const struct steno_fst *f = b->f;
    const uint32_t state = w->node[node].state, at = w->node[node].at;
    const uint32_t end = f->first[state + 1];
    uint32_t a = f->first[state];
    if (!reserve_edges(w, end - a))
        return false;
    w->node[node].edge = (uint32_t)w->n_edges;
    for (; a < end && !f->in[a]; a++)
        if (!add_edge(w, b, node, a, at))
            return false;
    if (at < b->n && b->text[at])
        for (a = find_arc(f, a, end, b->text[at]); a < end && f->in[a] == b->text[at]; a++)
            if (!add_edge(w, b, node, a, at + 1))
                return false;
    w->node[node].n_edges = (uint32_t)w->n_edges - w->node[node].edge;
    return true;
}

/* All nodes of a block that can be reached from a state at its begin. */
static steno_status expand_block(steno_rewrite *w, struct block *b, uint32_t state, float weight)
{
    bool ok;
    w->n_nodes = w->n_edges = w->n_layer[0] = w->n_layer[1] = 0;
    ok = node_at(w, state, 0) != NONE;
    if (ok)
        w->node[0].distance = weight;
    for (uint32_t at = 0; ok && at <= b->n; at++) {
        w->n_layer[~at & 1] = 0;
        for (size_t i = 0; ok && i < w->n_layer[at & 1]; i++) {
            if (w->n_edges > MAX_EDGES || w->n_edges > b->left)
                return STENO_ERR_LIMIT;
            ok = expand_node(w, b, w->layer[at & 1][i]);
        }
    }
    b->left -= w->n_edges < b->left ? w->n_edges : b->left;
    return ok ? STENO_OK : STENO_ERR_NOMEM;
}

/* ---- order and distance ---------------------------------------------------------------------- */

static bool is_end(const struct block *b, const struct node *node)
{
    return node->at == b->n && (!b->end || b->f->final[node->state] < INFINITY);
}

/* Leave a node of the walk: all that it leads to has been left. */
static void leave_node(steno_rewrite *w, const struct block *b, uint32_t at)
{
    struct node *node = &w->node[at];
    node->alive = is_end(b, node);
    for (uint32_t e = 0; !node->alive && e < node->n_edges; e++)
        node->alive = w->node[w->edge[node->edge + e].to].alive;
    if (node->alive)
        w->order[w->n_order++] = at;
}

/* Leave an edge: what it leads to has been left. */
static void leave_edge(steno_rewrite *w, uint32_t e)
{
    if (w->edge[e].chain && w->node[w->edge[e].to].alive)
        w->order[w->n_order++] = CHAIN + e;
}

/* Depth-first, in the order of edges. */
static void walk_nodes(steno_rewrite *w, const struct block *b)
{
    size_t n = 1;
    w->n_order = 0;
    w->node[0].seen = true;
    w->stack[0] = (struct visit){0, 0};
    while (n) {
        struct visit *v = &w->stack[n - 1];
        const struct node *node = &w->node[v->node];
        if (v->edge == node->n_edges) {
            leave_node(w, b, v->node);
            if (--n)
                leave_edge(w, w->node[v[-1].node].edge + v[-1].edge - 1);
        } else {
            const uint32_t e = node->edge + v->edge++, to = w->edge[e].to;
            if (w->node[to].seen) {
                leave_edge(w, e);
                continue;
            }
            w->node[to].seen = true;
            w->stack[n++] = (struct visit){to, 0};
        }
    }
}

static void relax_edge(steno_rewrite *w, uint32_t e, float distance)
{
    struct node *to = &w->node[w->edge[e].to];
    if (distance < to->distance) {
        to->distance = distance;
        to->best = e;
    }
}

static void relax_all(steno_rewrite *w, const struct steno_fst *f)
{
    for (size_t i = w->n_order; i-- > 0;) {
        const uint32_t at = w->order[i];
        if (at & CHAIN) {
            const struct edge *e = &w->edge[at - CHAIN];
            relax_edge(w, at - CHAIN, e->distance + f->chain[f->arc[e->arc].next].weight);
            continue;
        }
        for (uint32_t e = w->node[at].edge; e < w->node[at].edge + w->node[at].n_edges; e++) {
            const float d = w->node[at].distance + f->arc[w->edge[e].arc].weight;
            if (w->edge[e].chain)
                w->edge[e].distance = d;
            else
                relax_edge(w, e, d);
        }
    }
}

/* ---- the path -------------------------------------------------------------------------------- */

/* The node at a place of the order; NULL: a chain is there. */
static const struct node *node_of(const steno_rewrite *w, size_t i)
{
    return w->order[i] & CHAIN ? NULL : &w->node[w->order[i]];
}

/* The node at which the lightest path through the whole text ends; NONE: there is none. */
static uint32_t find_end(const steno_rewrite *w, const struct block *b, float *weight)
{
    uint32_t best = NONE;
    *weight = INFINITY;
    for (size_t i = w->n_order; i-- > 0;) {
        const struct node *node = node_of(w, i);
        const float d =
            node && is_end(b, node) ? node->distance + b->f->final[node->state] : INFINITY;
        if (d < *weight) {
            *weight = d;
            best = w->order[i];
        }
    }
    return best;
}

/* The last node of the block through which all paths pass that go on; NONE: there is none. */
static uint32_t find_cut(steno_rewrite *w, const struct block *b)
{
    for (size_t i = 0; i <= b->n; i++)
        w->entry[i] = NONE;
    for (size_t i = 0; i < w->n_order; i++) {
        const struct node *node = node_of(w, i);
        for (uint32_t e = 0; node && e < node->n_edges; e++) {
            const uint32_t to = w->edge[node->edge + e].to, at = w->node[to].at;
            if (w->node[to].alive && at != node->at)
                w->entry[at] = w->entry[at] == NONE || w->entry[at] == to ? to : SEVERAL;
        }
    }
    for (size_t i = b->n; i > 0; i--)
        if (w->entry[i] < SEVERAL)
            return w->entry[i];
    return NONE;
}

/* The steps of an edge, if there is room at p. Their number. */
static size_t put_edge(const steno_rewrite *w, const struct steno_fst *f, const struct edge *e,
                       struct steno_rewrite_step *p)
{
    const uint32_t end = w->node[e->to].state;
    size_t n = 0;
    for (uint32_t a = e->arc;; a = f->first[f->arc[a].next]) {
        if (p)
            p[n] = (struct steno_rewrite_step){f->in[a], (uint8_t)f->arc[a].out};
        n++;
        if (f->arc[a].next == end)
            return n;
    }
}

/* Add the steps from the block's begin to a node. */
static bool add_path(steno_rewrite *w, const struct steno_fst *f, uint32_t end)
{
    const struct edge *e;
    size_t n = 0;
    for (uint32_t i = end; i; i = e->from) {
        e = &w->edge[w->node[i].best];
        n += put_edge(w, f, e, NULL);
    }
    if (STENO_RESERVE(&w->step, &w->cap_steps, w->n_steps + n))
        return false;
    w->n_steps += n;
    n = w->n_steps;
    for (uint32_t i = end; i; i = e->from) {
        e = &w->edge[w->node[i].best];
        n -= put_edge(w, f, e, NULL);
        (void)put_edge(w, f, e, w->step + n);
    }
    return true;
}

/* ---- what is decided before the end is known ------------------------------------------------- */

/* Whether an edge ends a token: it writes the brace without reading it. */
static bool ends_token(const steno_rewrite *w, const struct steno_fst *f, const struct edge *e)
{
    const uint32_t end = w->node[e->to].state;
    for (uint32_t a = e->arc;; a = f->first[f->arc[a].next]) {
        if (!f->in[a] && f->arc[a].out == '}')
            return true;
        if (f->arc[a].next == end)
            return false;
    }
}

/* The node at which the last token before or at a node ended, on the best path there. 0: the
 * begin. */
static uint32_t last_token_end(const steno_rewrite *w, const struct steno_fst *f, uint32_t i)
{
    while (i && !ends_token(w, f, &w->edge[w->node[i].best]))
        i = w->edge[w->node[i].best].from;
    return i;
}

/* Whether the best path to a node ends within a token of this name: what the token writes begins
 * with it, and is read from its end. */
static bool is_within(const steno_rewrite *w, const struct steno_fst *f, uint32_t i,
                      const char *name)
{
    const size_t n = strlen(name);
    char text[32] = "";
    for (; i && !ends_token(w, f, &w->edge[w->node[i].best]); i = w->edge[w->node[i].best].from) {
        const struct edge *e = &w->edge[w->node[i].best];
        char own[sizeof text];
        size_t k = 0;
        for (uint32_t a = e->arc;; a = f->first[f->arc[a].next]) {
            if (f->arc[a].out && k < sizeof own)
                own[k++] = (char)f->arc[a].out;
            if (f->arc[a].next == w->node[e->to].state)
                break;
        }
        memmove(text + k, text, sizeof text - k);
        memcpy(text, own, k);
    }
    for (i = 0; text[i] == ' ';)
        i++;
    return i + n < sizeof text && !memcmp(text + i, name, n);
}

/* Mark the best path to a node; the marks are in `seen`. */
static void mark_path(steno_rewrite *w, uint32_t i)
{
    for (;; i = w->edge[w->node[i].best].from) {
        w->node[i].seen = true;
        if (!i)
            return;
    }
}

/* The last node on all best paths to the block's end, but those within a token `but`. */
static uint32_t find_common(steno_rewrite *w, const struct block *b, const char *but)
{
    uint32_t common = NONE;
    for (uint32_t i = 0; i < w->n_nodes; i++)
        w->node[i].seen = false;
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        uint32_t j = i;
        if (!w->node[i].alive || w->node[i].at != b->n || !(w->node[i].distance < INFINITY) ||
            (but && is_within(w, b->f, i, but)))
            continue;
        if (common == NONE) {
            mark_path(w, common = i);
            continue;
        }
        while (!w->node[j].seen)
            j = w->edge[w->node[j].best].from;
        for (; common != j; common = w->edge[w->node[common].best].from)
            w->node[common].seen = false;
    }
    return common;
}

steno_status steno_rewrite_decided(steno_rewrite *w, const struct steno_fst *f, const char *text,
                                   size_t n, const char *but, size_t *decided)
{
    struct block b = {.f = f,
                      .text = (const unsigned char *)text,
                      .n = n,
                      .open = true,
                      .left = (n + BLOCK) * EDGES_PER_BYTE};
    uint32_t common;
    steno_status st;
    *decided = 0;
    if (n > UINT32_MAX / 2)
        return STENO_ERR_LIMIT;
    st = reserve_marks(w, f->n_states) ? expand_block(w, &b, f->start, 0) : STENO_ERR_NOMEM;
    if (st)
        return st;
    walk_nodes(w, &b);
    relax_all(w, f);
    common = find_common(w, &b, but);
    if (common != NONE)
        *decided = w->node[last_token_end(w, f, common)].at;
    return STENO_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Decide a block, from the node where the last one ended. */
static steno_status run_block(steno_rewrite *w, struct block *b, uint32_t *state, float *weight,
                              uint32_t *cut)
{
    steno_status st = expand_block(w, b, *state, *weight);
    if (st)
        return st;
    walk_nodes(w, b);
    relax_all(w, b->f);
    if (!b->end && STENO_RESERVE(&w->entry, &w->cap_entries, b->n + 1))
        return STENO_ERR_NOMEM;
    *cut = b->end ? find_end(w, b, weight) : find_cut(w, b);
    if (*cut == NONE)
        return STENO_OK;
    if (!add_path(w, b->f, *cut))
        return STENO_ERR_NOMEM;
    *state = w->node[*cut].state;
    if (!b->end)
        *weight = w->node[*cut].distance;
    return STENO_OK;
}

static steno_status run_text(steno_rewrite *w, const struct steno_fst *f, const char *text,
                             size_t n, struct steno_rewrite_path *out)
{
    struct block b = {.f = f, .left = (n + BLOCK) * EDGES_PER_BYTE};
    uint32_t state = f->start, cut = 0;
    size_t at = 0, size = BLOCK;
    float weight = 0;
    steno_status st = STENO_OK;
    for (bool done = false; !st && !done;) {
        b.text = (const unsigned char *)text + at;
        b.n = n - at < size ? n - at : size;
        b.end = b.n == n - at;
        st = run_block(w, &b, &state, &weight, &cut);
        done = st || b.end || !w->n_order;
        if (!done && cut == NONE)
            size *= 2;
        else if (!done) {
            at += w->node[cut].at;
            size = BLOCK;
        }
    }
    *out = (struct steno_rewrite_path){
        .step = w->step, .n = w->n_steps, .weight = weight, .found = w->n_order && cut != NONE};
    return st;
}

steno_status steno_rewrite_run(steno_rewrite *w, const struct steno_fst *f, const char *text,
                               size_t n, struct steno_rewrite_path *out)
{
    steno_status st;
    w->n_steps = 0;
    *out = (struct steno_rewrite_path){0};
    if (n > UINT32_MAX / 2)
        return STENO_ERR_LIMIT;
    if (!reserve_marks(w, f->n_states))
        return STENO_ERR_NOMEM;
    st = run_text(w, f, text, n, out);
    if (w->cap_edges > KEPT_EDGES || w->cap_nodes > KEPT_EDGES)
        free_block(w);
    return st;
}

steno_rewrite *steno_rewrite_new(void)
{
    return calloc(1, sizeof(steno_rewrite));
}

void steno_rewrite_free(steno_rewrite *w)
{
    if (!w)
        return;
    free_block(w);
    free(w->mark[0]);
    free(w->mark[1]);
    free(w->entry);
    free(w->step);
    free(w);
}
