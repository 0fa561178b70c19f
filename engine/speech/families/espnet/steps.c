/* Steps of several streams: blocks of the encoder as one batch, searches together, results into the
 * list of each stream. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/noise.h"
#include "speech/families/espnet/stream.h"

#define SEARCH_STEPS 8 /* steps of the last block's search in one step of the stream */

/* The model owns the runners, so the worker is the model itself. */
steno_status steno_espnet_worker_open(void **worker, void *model, int max, steno_err *err)
{
    (void)max;
    (void)err;
    *worker = model;
    return STENO_OK;
}

void steno_espnet_worker_close(void *worker)
{
    (void)worker;
}

/* ---- one stream ------------------------------------------------------------------------------ */

/* List the partial: the best path of the segment so far. */
static steno_status list_partial(const struct steno_espnet_work *w, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = w->s;
    const struct steno_espnet_scores *x = &w->x;
    steno_transducer *t = NULL;
    steno_status st = STENO_OK;
    if (s->transduced) {
        t = s->transduced;
    } else if (steno_espnet_is_transducer(s->net) && x->rows) {
        st = steno_espnet_transduce(r, &s->search, x->enc, x->rows, true, &t, w->item->err);
        if (st)
            return st;
    } else if (x->ctc && !steno_espnet_by_blocks(s->net)) {
        steno_ctc_greedy_restart(s->greedy, 0);
        st = steno_ctc_greedy_push(s->greedy, x->ctc, x->rows);
    }
    if (!st)
        st = steno_espnet_list_partial(s, t);
    return steno_espnet_explain(st, w->item->err);
}

/* Finish a transducer's search of the segment. If it did not follow the blocks, do all of it now.
 */
static steno_status transduce(const struct steno_espnet_work *w, steno_espnet_runner *r,
                              steno_transducer **t)
{
    struct steno_espnet_stream *s = w->s;
    if (!s->transduced)
        return steno_espnet_transduce(r, &s->search, w->x.enc, w->x.rows, false, t, w->item->err);
    *t = s->transduced;
    return steno_espnet_transduce_finish(r, &s->search, s->transduced, w->item->err);
}

/* The part of a step before the search. */
static void begin_work(struct steno_espnet_work *w, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = w->s;
    bool final = w->item->goal == STENO_STEP_FINAL;
    if (final || !steno_espnet_by_blocks(s->net)) {
        w->st = steno_espnet_recognize(w->item, r, &w->x);
    } else {
        w->st = steno_espnet_take_block(s, r, SIZE_MAX, w->item->err);
        w->x = (struct steno_espnet_scores){s->ctc, s->rows, s->n_rows};
    }
    w->more = w->st == STENO_NEED_MORE;
    if (w->more)
        w->st = STENO_OK;
    else if (final)
        w->last = SEARCH_STEPS;
}

/* List the hypotheses of the segment. */
static steno_status list_final(const struct steno_espnet_work *w, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = w->s;
    const struct steno_espnet_scores *x = &w->x;
    steno_err *err = w->item->err;
    const steno_joint *j = NULL;
    steno_transducer *transduced = NULL;
    steno_status st = STENO_OK;
    if (x->rows && s->blocks) {
        j = steno_espnet_block_search_joint(s->blocks);
        if (!steno_joint_count(j)) /* no hypothesis ended: search again, like ESPnet */
            st = steno_espnet_decode(r, &s->search, x->enc, x->rows, x->ctc, &j, err);
    } else if (x->rows && steno_espnet_is_transducer(s->net)) {
        st = transduce(w, r, &transduced);
    } else if (x->rows && !steno_espnet_ctc_alone(s)) {
        st = steno_espnet_decode(r, &s->search, x->enc, x->rows, x->ctc, &j, err);
    }
    return st ? st : steno_espnet_explain(steno_espnet_list_final(s, x, j, transduced), err);
}

/* The part of a step after the search. A FINAL that is not complete continues in the next step. */
static void end_work(const struct steno_espnet_work *w, steno_espnet_runner *r)
{
    struct steno_step_item *item = w->item;
    item->st = w->st;
    if (item->goal != STENO_STEP_FINAL) {
        if (!item->st && item->goal == STENO_STEP_PARTIAL)
            item->st = list_partial(w, r);
        return;
    }
    item->more = item->st == STENO_NEED_MORE || (!item->st && w->more);
    if (item->more)
        item->st = STENO_OK;
    else if (!item->st)
        item->st = list_final(w, r);
}

/* ---- several streams ------------------------------------------------------------------------- */

/* Streams whose steps begin with blocks of one form: they are one batch. Or a single stream. */
struct group {
    struct steno_espnet_stream *s[STENO_BATCH_MAX];
    struct steno_step_item *item[STENO_BATCH_MAX];
    size_t n;
    bool blocks;
};

static void find_group(struct steno_step_item *items, size_t n, size_t first, bool *done,
                       struct group *g)
{
    struct steno_espnet_stream *s = items[first].state;
    *g = (struct group){{s}, {&items[first]}, 1, steno_espnet_wants_block(&items[first])};
    done[first] = true;
    for (size_t i = first + 1; g->blocks && s->net->batches && i < n; i++) {
        struct steno_espnet_stream *o = items[i].state;
        if (done[i] || !steno_espnet_wants_block(&items[i]) ||
            !steno_espnet_same_form(&s->state, &o->state))
            continue;
        g->item[g->n] = &items[i];
        g->s[g->n++] = o;
        done[i] = true;
    }
}

/* Do the part before the search for a group. *spent grows by the time of the networks of blocks,
 * if there is a trial of them. If a batch fails, each stream tries again alone, so that none fails
 * because of another. */
static void begin_group(const struct group *g, steno_espnet_runner *r,
                        struct steno_espnet_work *work, struct steno_network_time *spent)
{
    if (g->blocks) {
        const bool timed = g->s[0]->net->batches; /* steno_espnet_trial_open */
        if (timed)
            steno_network_time_begin(spent);
        (void)!steno_espnet_encode_blocks(g->s, g->n, r, NULL);
        if (timed)
            steno_network_time_end(spent);
    }
    for (size_t i = 0; i < g->n; i++) {
        work[i] = (struct steno_espnet_work){.s = g->s[i], .item = g->item[i]};
        begin_work(&work[i], r);
    }
}

/* Step streams: groups one after the other, then the search of all of them. Without blocks the
 * runner holds a stream's encoder frames, so that stream is completed before the next one. */
static void step_some(struct steno_step_item *items, size_t n, steno_espnet_runner *r, bool *done,
                      struct steno_network_time *spent)
{
    struct steno_espnet_work work[STENO_BATCH_MAX];
    size_t m = 0;
    struct group g;
    for (size_t i = 0; i < n; i++) {
        if (done[i])
            continue;
        find_group(items, n, i, done, &g);
        begin_group(&g, r, work + m, spent);
        m += g.n;
        if (!steno_espnet_by_blocks(g.s[0]->net))
            break;
    }
    steno_espnet_search_blocks(work, m, r);
    for (size_t i = 0; i < m; i++)
        end_work(&work[i], r);
}

void steno_espnet_step(void *worker, struct steno_step_item *items, size_t n, int size,
                       struct steno_network_time *spent)
{
    struct steno_espnet *e = &((struct steno_espnet_model *)worker)->net;
    steno_espnet_runner *r = NULL;
    bool done[STENO_BATCH_MAX] = {false};
    (void)size;
    for (size_t i = 0; i < n; i++) {
        if (done[i] || (!r && (items[i].st = steno_espnet_acquire(e, &r, items[i].err))))
            continue;
        step_some(items, n, r, done, spent);
    }
    if (r)
        steno_espnet_release(e, r);
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct steno_espnet *net;
    steno_espnet_runner *runner;
    struct steno_espnet_state block[STENO_BATCH_MAX];
    float *feats; /* feature frames of a block, the same for all streams */
};

static steno_status begin_trial(struct trial *t, steno_err *err)
{
    struct steno_espnet *e = t->net;
    size_t n = steno_espnet_next_frames(&e->conf) * (size_t)e->conf.bins;
    steno_status st = steno_espnet_acquire(e, &t->runner, err);
    t->feats = malloc(n * sizeof *t->feats);
    if (!st && !t->feats)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < STENO_BATCH_MAX && !st; i++)
        st = steno_espnet_state_reset(&t->block[i], e, err);
    if (!st)
        steno_noise_fill(t->feats, n, 1);
    return st;
}

steno_status steno_espnet_trial_open(void **trial, void *worker, steno_err *err)
{
    struct steno_espnet_model *m = worker;
    struct trial *t;
    steno_status st;
    *trial = NULL;
    if (!m->net.batches)
        return STENO_OK;
    t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    t->net = &m->net;
    st = begin_trial(t, err);
    if (st)
        steno_espnet_trial_close(t);
    else
        *trial = t;
    return st;
}

/* A later block. Its states have the extents of a new stream. */
steno_status steno_espnet_trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    const struct steno_espnet *e = t->net;
    struct steno_espnet_state *s[STENO_BATCH_MAX];
    const float *feats[STENO_BATCH_MAX], *rows, *ctc;
    size_t n;
    steno_status st;
    for (int i = 0; i < size; i++) {
        s[i] = &t->block[i];
        s[i]->block = 1;
        feats[i] = t->feats;
    }
    st = steno_espnet_block(t->runner, s, feats, (size_t)size, steno_espnet_next_frames(&e->conf),
                            &rows, &n, err);
    return st ? st : steno_espnet_ctc(t->runner, rows, (size_t)size * n, &ctc, err);
}

void steno_espnet_trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_espnet_state_free(&t->block[i]);
    if (t->runner)
        steno_espnet_release(t->net, t->runner);
    free(t->feats);
    free(t);
}
