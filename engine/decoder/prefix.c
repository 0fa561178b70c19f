#include "decoder/prefix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ZERO STENO_PREFIX_ZERO

/* One prefix; r as [frames] n and b. */
struct state {
    double *n, *b;
    double psi; /* log-probability of the prefix */
    int32_t last;
    size_t length;
};

/* Column c of the scores: p[t] = exp(x[t,c] - max). Made when c is first asked for. */
struct column {
    double *p;
    double max;
};

struct steno_prefix {
    int32_t vocab, blank, eos;
    size_t states, frames, cap_frames;
    const float *x;
    struct state *now, *next; /* [states] */
    double *r;                /* [2 sets, states, 2, cap_frames] */
    double *weight,
        *repeat;            /* [cap_frames] exp(phi - max), for new tokens and for the last again */
    struct column *columns; /* [vocab] */
    int32_t *used;          /* columns made for this utterance */
    size_t n_used;
    double **pool; /* memory of columns, [cap_frames] each, kept from utterance to utterance */
    size_t n_pool, cap_pool;
};

static double log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo - hi < -40 ? hi : hi + log1p(exp(lo - hi));
}

steno_status steno_prefix_open(steno_prefix **out, int32_t vocab, int32_t blank, int32_t eos,
                               size_t states, steno_err *err)
{
    steno_prefix *p = calloc(1, sizeof *p);
    if (p) {
        *p = (steno_prefix){.vocab = vocab, .blank = blank, .eos = eos, .states = states};
        p->now = calloc(states, sizeof *p->now);
        p->next = calloc(states, sizeof *p->next);
        p->columns = calloc((size_t)vocab, sizeof *p->columns);
        p->used = calloc((size_t)vocab, sizeof *p->used);
    }
    if (!p || !p->now || !p->next || !p->columns || !p->used) {
        steno_prefix_close(p);
        return steno_fail(err, STENO_ERR_NOMEM, "prefix scores: out of memory");
    }
    *out = p;
    return STENO_OK;
}

static void drop_pool(steno_prefix *p)
{
    for (size_t i = 0; i < p->n_pool; i++)
        free(p->pool[i]);
    p->n_pool = 0;
}

void steno_prefix_close(steno_prefix *p)
{
    if (!p)
        return;
    drop_pool(p);
    free(p->pool);
    free(p->now);
    free(p->next);
    free(p->columns);
    free(p->used);
    free(p->r);
    free(p->weight);
    free(p->repeat);
    free(p);
}

static void move_state(struct state *s, double *to, size_t cap, size_t keep)
{
    if (keep) {
        memcpy(to, s->n, keep * sizeof *to);
        memcpy(to + cap, s->b, keep * sizeof *to);
    }
    s->n = to;
    s->b = to + cap;
}

/* Room for `frames`; the states' first `keep` frames stay. */
static steno_status reserve(steno_prefix *p, size_t frames, size_t keep)
{
    size_t cap = p->cap_frames ? p->cap_frames : 256, n;
    double *r, *w, *q;
    if (frames <= p->cap_frames)
        return STENO_OK;
    while (cap < frames)
        cap *= 2;
    if (!steno_mul_size(cap, 4 * p->states * sizeof *r, &n))
        return STENO_ERR_NOMEM;
    r = malloc(n);
    w = malloc(cap * sizeof *w);
    q = malloc(cap * sizeof *q);
    if (!r || !w || !q) {
        free(r);
        free(w);
        free(q);
        return STENO_ERR_NOMEM;
    }
    for (size_t i = 0; i < p->states; i++) {
        move_state(&p->now[i], r + 4 * i * cap, cap, keep);
        move_state(&p->next[i], r + (4 * i + 2) * cap, cap, keep);
    }
    free(p->r);
    free(p->weight);
    free(p->repeat);
    drop_pool(p); /* its pieces are too short now */
    p->r = r;
    p->weight = w;
    p->repeat = q;
    p->cap_frames = cap;
    return STENO_OK;
}

/* NaN and what lies below "log 0" count as that. */
static double at(const steno_prefix *p, size_t t, int32_t c)
{
    double v = (double)p->x[t * (size_t)p->vocab + (size_t)c];
    return v > ZERO ? v : ZERO;
}

/* The scores are x [frames, vocab] from now on. */
static void take_scores(steno_prefix *p, const float *x, size_t frames)
{
    for (size_t i = 0; i < p->n_used; i++)
        p->columns[p->used[i]].p = NULL;
    p->n_used = 0;
    p->x = x;
    p->frames = frames;
}

steno_status steno_prefix_start(steno_prefix *p, const float *x, size_t frames)
{
    struct state *s = p->now;
    double sum = 0;
    if (reserve(p, frames, 0))
        return STENO_ERR_NOMEM;
    take_scores(p, x, frames);
    for (size_t t = 0; t < frames; t++) {
        sum += at(p, t, p->blank);
        s->n[t] = ZERO;
        s->b[t] = sum;
    }
    s->psi = 0;
    s->last = -1;
    s->length = 0;
    return STENO_OK;
}

steno_status steno_prefix_extend(steno_prefix *p, size_t n, const float *x, size_t frames)
{
    size_t before = p->frames;
    if (reserve(p, frames, before))
        return STENO_ERR_NOMEM;
    take_scores(p, x, frames);
    for (size_t i = 0; i < n; i++)
        for (size_t t = before; t < frames; t++) {
            p->now[i].n[t] = ZERO;
            p->now[i].b[t] = p->now[i].b[t - 1] + at(p, t, p->blank);
        }
    return STENO_OK;
}

static steno_status make_column(steno_prefix *p, int32_t c)
{
    struct column *col = &p->columns[c];
    double max = ZERO;
    if (p->n_used == p->n_pool) {
        if (p->n_pool == p->cap_pool) {
            size_t cap = p->cap_pool ? 2 * p->cap_pool : 64;
            double **q = realloc(p->pool, cap * sizeof *q);
            if (!q)
                return STENO_ERR_NOMEM;
            p->pool = q;
            p->cap_pool = cap;
        }
        p->pool[p->n_pool] = malloc(p->cap_frames * sizeof(double));
        if (!p->pool[p->n_pool])
            return STENO_ERR_NOMEM;
        p->n_pool++;
    }
    col->p = p->pool[p->n_used];
    p->used[p->n_used++] = c;
    for (size_t t = 0; t < p->frames; t++)
        max = fmax(max, at(p, t, c));
    for (size_t t = 0; t < p->frames; t++)
        col->p[t] = exp(at(p, t, c) - max);
    col->max = max;
    return STENO_OK;
}

/* w[t] = exp(phi[t] - max); the maximum. */
static double weigh(const double *n, const double *b, size_t frames, double *w)
{
    double max = ZERO;
    for (size_t t = 0; t < frames; t++) {
        w[t] = n ? log_add(n[t], b[t]) : b[t];
        max = fmax(max, w[t]);
    }
    for (size_t t = 0; t < frames; t++)
        w[t] = exp(w[t] - max);
    return max;
}

static double dot(const double *a, const double *b, size_t n)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0; /* four chains: the sum does not wait for itself */
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++)
        s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

/* psi of s extended by c, weights w of s relative to max. */
static double extend(const steno_prefix *p, const struct state *s, int32_t c, const double *w,
                     double max)
{
    const struct column *col = &p->columns[c];
    size_t start = s->length > 1 ? s->length : 1;
    double sum = start < p->frames ? dot(w + start - 1, col->p + start, p->frames - start) : 0;
    double psi = sum > 0 ? max + col->max + log(sum) : ZERO;
    if (s->length == 0)
        psi = log_add(at(p, 0, c), psi);
    return psi > ZERO ? psi : ZERO;
}

steno_status steno_prefix_score(steno_prefix *p, size_t h, const int32_t *tokens, size_t n,
                                float *out)
{
    const struct state *s = &p->now[h];
    double max = weigh(s->n, s->b, p->frames, p->weight), again = 0;
    bool have_again = false;
    for (size_t i = 0; i < n; i++) {
        int32_t c = tokens[i];
        double psi;
        if (c == p->blank) {
            psi = ZERO;
        } else if (c == p->eos) {
            psi = log_add(s->n[p->frames - 1], s->b[p->frames - 1]);
        } else {
            if (!p->columns[c].p && make_column(p, c))
                return STENO_ERR_NOMEM;
            if (c == s->last && !have_again) {
                again = weigh(NULL, s->b, p->frames, p->repeat);
                have_again = true;
            }
            psi =
                c == s->last ? extend(p, s, c, p->repeat, again) : extend(p, s, c, p->weight, max);
        }
        out[i] = (float)(psi - s->psi);
    }
    return STENO_OK;
}

static void extend_state(const steno_prefix *p, const struct state *s, int32_t c, struct state *to)
{
    size_t start = s->length > 1 ? s->length : 1;
    bool again = c == s->last;
    double psi, phi;
    for (size_t t = 0; t < start && t < p->frames; t++)
        to->n[t] = to->b[t] = ZERO;
    if (s->length == 0)
        to->n[0] = at(p, 0, c);
    psi = start - 1 < p->frames ? to->n[start - 1] : ZERO;
    for (size_t t = start; t < p->frames; t++) {
        double x = at(p, t, c);
        phi = again ? s->b[t - 1] : log_add(s->n[t - 1], s->b[t - 1]);
        to->n[t] = log_add(to->n[t - 1], phi) + x;
        to->b[t] = log_add(to->n[t - 1], to->b[t - 1]) + at(p, t, p->blank);
        psi = log_add(psi, phi + x);
    }
    to->psi = psi;
    to->last = c;
    to->length = s->length + 1;
}

void steno_prefix_advance(steno_prefix *p, const int32_t *from, const int32_t *token, size_t n)
{
    struct state *swap = p->now;
    for (size_t i = 0; i < n; i++)
        extend_state(p, &p->now[from[i]], token[i], &p->next[i]);
    p->now = p->next;
    p->next = swap;
}

void steno_prefix_back(steno_prefix *p)
{
    struct state *swap = p->now;
    p->now = p->next;
    p->next = swap;
}

double steno_prefix_total(const steno_prefix *p, size_t i)
{
    return p->now[i].psi;
}
