#include "speech/search/ctc_prefix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define ZERO STENO_PREFIX_ZERO

/* Forward variables are probabilities, not logarithms, so a frame costs two products and no
 * function call. Over a thousand frames a probability becomes too small for a double. So it is a
 * double times 2^(UNIT * scale), with a scale for each frame. The scale goes down while both
 * variables of the frame are below 2^-UNIT. A term that is 2^-(4 UNIT) of another in the same sum
 * is ignored. */
#define UNIT 256
#define LEAST (-500.0) /* least log-probability of a frame: times 2^-UNIT it is still a double */
#define LN_UNIT (UNIT * 0.69314718055994530942)
#define SMALL 0x1p-256 /* 2^-UNIT */

/* The state of one prefix. */
struct state {
    double *n, *b;  /* [frames] of alignments that end in its last token; in a blank */
    int32_t *scale; /* [frames] */
    double psi;     /* log-probability of the prefix */
    int32_t last;
    size_t length;
};

struct steno_ctc_prefix {
    int32_t vocab, blank, eos;
    size_t states, frames, cap_frames;
    const float *x;
    struct state *now, *next; /* [states] */
    double *weight, *repeat;  /* [cap_frames] phi, for new tokens and for the last token again */
    double *blank_p;          /* [cap_frames] probabilities of blank */
    double **column;          /* [vocab] probabilities of a token, computed when first needed */
    int32_t *used;            /* columns computed for this utterance */
    size_t n_used;
    double **pool; /* memory of columns, [cap_frames] each, kept between utterances */
    size_t n_pool, cap_pool;
    struct steno_blocks fixed, grown; /* arrays of [states] and [vocab]; of [cap_frames] */
};

static double log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo - hi < -40 ? hi : hi + log1p(exp(lo - hi));
}

/* log of v * 2^(UNIT * scale). */
static double log_of(double v, int32_t scale)
{
    double y = v > 0 ? log(v) + LN_UNIT * scale : ZERO;
    return y > ZERO ? y : ZERO;
}

/* 2^-(UNIT * d), d >= 0. */
static double down(int32_t d)
{
    return d == 0   ? 1
           : d == 1 ? SMALL
           : d == 2 ? SMALL * SMALL
           : d == 3 ? SMALL * SMALL * SMALL
                    : 0;
}

steno_status steno_ctc_prefix_open(steno_ctc_prefix **out, int32_t vocab, int32_t blank,
                                   int32_t eos, size_t states, steno_err *err)
{
    steno_ctc_prefix *p = calloc(1, sizeof *p);
    if (p) {
        *p = (steno_ctc_prefix){.vocab = vocab, .blank = blank, .eos = eos, .states = states};
        p->now = steno_blocks_add(&p->fixed, states, sizeof *p->now);
        p->next = steno_blocks_add(&p->fixed, states, sizeof *p->next);
        p->column = steno_blocks_add(&p->fixed, (size_t)vocab, sizeof *p->column);
        p->used = steno_blocks_add(&p->fixed, (size_t)vocab, sizeof *p->used);
    }
    if (!p || p->fixed.failed) {
        steno_ctc_prefix_close(p);
        return steno_fail(err, STENO_ERR_NOMEM, "prefix scores: out of memory");
    }
    *out = p;
    return STENO_OK;
}

static void drop_pool(steno_ctc_prefix *p)
{
    for (size_t i = 0; i < p->n_pool; i++)
        free(p->pool[i]);
    p->n_pool = 0;
}

void steno_ctc_prefix_close(steno_ctc_prefix *p)
{
    if (!p)
        return;
    drop_pool(p);
    free(p->pool);
    steno_blocks_free(&p->fixed);
    steno_blocks_free(&p->grown);
    free(p);
}

static void move_state(struct state *s, double *to, int32_t *scale, size_t cap, size_t keep)
{
    if (keep) {
        memcpy(to, s->n, keep * sizeof *to);
        memcpy(to + cap, s->b, keep * sizeof *to);
        memcpy(scale, s->scale, keep * sizeof *scale);
    }
    s->n = to;
    s->b = to + cap;
    s->scale = scale;
}

/* Reserve room for `frames`; the first `keep` frames of the states are kept. */
static steno_status reserve_states(steno_ctc_prefix *p, size_t frames, size_t keep)
{
    size_t cap = p->cap_frames ? p->cap_frames + p->cap_frames / 2 : 128;
    struct steno_blocks grown = {0};
    double *r, *more; /* [2 sets, states, 2, cap]; [3, cap] */
    int32_t *scales;  /* [2 sets, states, cap] */
    if (frames <= p->cap_frames)
        return STENO_OK;
    cap = ((cap > frames ? cap : frames) + 63) / 64 * 64;
    r = steno_blocks_add(&grown, cap, 4 * p->states * sizeof *r);
    scales = steno_blocks_add(&grown, cap, 2 * p->states * sizeof *scales);
    more = steno_blocks_add(&grown, cap, 3 * sizeof *more);
    if (grown.failed) {
        steno_blocks_free(&grown);
        return STENO_ERR_NOMEM;
    }
    for (size_t i = 0; i < p->states; i++) {
        move_state(&p->now[i], r + 4 * i * cap, scales + 2 * i * cap, cap, keep);
        move_state(&p->next[i], r + (4 * i + 2) * cap, scales + (2 * i + 1) * cap, cap, keep);
    }
    steno_blocks_free(&p->grown);
    drop_pool(p); /* its columns are too short now */
    p->grown = grown;
    p->weight = more;
    p->repeat = more + cap;
    p->blank_p = more + 2 * cap;
    p->cap_frames = cap;
    return STENO_OK;
}

/* NaN and values below "log 0" count as "log 0". */
static double log_at(const steno_ctc_prefix *p, size_t t, int32_t c)
{
    double v = (double)p->x[t * (size_t)p->vocab + (size_t)c];
    return v > ZERO ? v : ZERO;
}

static double probability(double x)
{
    return x > LEAST ? exp(x) : x > ZERO / 10 ? exp(LEAST) : 0;
}

/* From now on the scores are x [frames, vocab]. */
static void take_scores(steno_ctc_prefix *p, const float *x, size_t frames)
{
    for (size_t i = 0; i < p->n_used; i++)
        p->column[p->used[i]] = NULL;
    p->n_used = 0;
    p->x = x;
    p->frames = frames;
    for (size_t t = 0; t < frames; t++)
        p->blank_p[t] = probability(log_at(p, t, p->blank));
}

/* Continue s with blanks only, frames [from, frames). b: its blank variable before them. */
static void continue_in_blanks(const steno_ctc_prefix *p, struct state *s, size_t from, double b,
                               int32_t scale)
{
    for (size_t t = from; t < p->frames; t++) {
        b *= p->blank_p[t];
        while (b < SMALL && b > 0) {
            b *= 1 / SMALL;
            scale--;
        }
        s->n[t] = 0;
        s->b[t] = b;
        s->scale[t] = scale;
    }
}

steno_status steno_ctc_prefix_start(steno_ctc_prefix *p, const float *x, size_t frames)
{
    struct state *s = p->now;
    if (reserve_states(p, frames, 0))
        return STENO_ERR_NOMEM;
    take_scores(p, x, frames);
    continue_in_blanks(p, s, 0, 1, 0);
    s->psi = 0;
    s->last = -1;
    s->length = 0;
    return STENO_OK;
}

steno_status steno_ctc_prefix_extend(steno_ctc_prefix *p, size_t n, const float *x, size_t frames)
{
    size_t before = p->frames;
    if (reserve_states(p, frames, before))
        return STENO_ERR_NOMEM;
    take_scores(p, x, frames);
    for (size_t i = 0; i < n; i++)
        continue_in_blanks(p, &p->now[i], before, p->now[i].b[before - 1],
                           p->now[i].scale[before - 1]);
    return STENO_OK;
}

static steno_status make_column(steno_ctc_prefix *p, int32_t c)
{
    double *q;
    if (p->n_used == p->n_pool) {
        if (STENO_RESERVE(&p->pool, &p->cap_pool, p->n_pool + 1))
            return STENO_ERR_NOMEM;
        p->pool[p->n_pool] = malloc(p->cap_frames * sizeof(double));
        if (!p->pool[p->n_pool])
            return STENO_ERR_NOMEM;
        p->n_pool++;
    }
    q = p->column[c] = p->pool[p->n_used];
    p->used[p->n_used++] = c;
    for (size_t t = 0; t < p->frames; t++)
        q[t] = log_at(p, t, c); /* a loop of its own, so that the loads from memory overlap */
    for (size_t t = 0; t < p->frames; t++)
        q[t] = probability(q[t]);
    return STENO_OK;
}

/* w = phi at a common scale, the largest of all frames, which is returned. n NULL: without n. */
static int32_t weigh_frames(const struct state *s, const double *n, size_t frames, double *w)
{
    int32_t most = INT32_MIN;
    for (size_t t = 0; t < frames; t++) {
        w[t] = n ? n[t] + s->b[t] : s->b[t];
        if (w[t] > 0 && s->scale[t] > most)
            most = s->scale[t];
    }
    for (size_t t = 0; t < frames; t++)
        if (s->scale[t] != most)
            w[t] *= s->scale[t] < most ? down(most - s->scale[t]) : 0;
    return most == INT32_MIN ? 0 : most;
}

static double dot(const double *a, const double *b, size_t n)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0; /* four chains hide the latency of the additions */
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

/* psi of s extended by c. w: the weights of s, at `scale`. */
static double psi_of_extension(const steno_ctc_prefix *p, const struct state *s, int32_t c,
                               const double *w, int32_t scale)
{
    const double *q = p->column[c];
    size_t start = s->length > 1 ? s->length : 1;
    double psi = ZERO;
    if (start < p->frames)
        psi = log_of(dot(w + start - 1, q + start, p->frames - start), scale);
    return s->length == 0 ? log_add(log_at(p, 0, c), psi) : psi;
}

steno_status steno_ctc_prefix_score(steno_ctc_prefix *p, size_t h, const int32_t *tokens, size_t n,
                                    float *out)
{
    const struct state *s = &p->now[h];
    const size_t end = p->frames - 1;
    int32_t scale = weigh_frames(s, s->n, p->frames, p->weight), again = 0;
    bool have_again = false;
    for (size_t i = 0; i < n; i++) {
        int32_t c = tokens[i];
        double psi;
        if (c == p->blank) {
            psi = ZERO;
        } else if (c == p->eos) {
            psi = log_of(s->n[end] + s->b[end], s->scale[end]);
        } else {
            if (!p->column[c] && make_column(p, c))
                return STENO_ERR_NOMEM;
            if (c == s->last && !have_again) {
                again = weigh_frames(s, NULL, p->frames, p->repeat);
                have_again = true;
            }
            psi = c == s->last ? psi_of_extension(p, s, c, p->repeat, again)
                               : psi_of_extension(p, s, c, p->weight, scale);
        }
        out[i] = (float)(psi - s->psi);
    }
    return STENO_OK;
}

/* The sums so far, at one scale. */
struct sums {
    double n, b, psi;
    int32_t scale;
};

/* Convert the sums to another scale. psi, a sum over all frames, is first added to the logarithm
 * `total`. */
static void change_scale(struct sums *a, int32_t scale, double *total)
{
    const double f = scale > a->scale ? down(scale - a->scale) : 1 / SMALL;
    *total = log_add(*total, log_of(a->psi, a->scale));
    a->n *= f;
    a->b *= f;
    a->psi = 0;
    a->scale = scale;
}

/* Bring phi and the sums to the same scale, the higher one, and return phi. `above`: phi's scale
 * minus that of the sums. */
static double meet(struct sums *a, double phi, int32_t above, double *total)
{
    if (above > 0 ? phi > 0 : !(a->n > 0 || a->b > 0))
        change_scale(a, a->scale + above, total);
    else
        phi *= above < 0 ? down(-above) : 0;
    return phi;
}

static inline bool is_small(const struct sums *a)
{
    return a->n < SMALL && a->b < SMALL && (a->n > 0 || a->b > 0);
}

static void extend_state(const steno_ctc_prefix *p, const struct state *s, int32_t c,
                         struct state *to)
{
    const size_t start = s->length > 1 ? s->length : 1;
    const double *q = p->column[c];
    const bool again = c == s->last;
    struct sums a = {.scale = start <= p->frames ? s->scale[start - 1] : 0};
    double total = ZERO;
    for (size_t t = 0; t < start && t < p->frames; t++) {
        to->n[t] = to->b[t] = 0;
        to->scale[t] = a.scale;
    }
    if (s->length == 0) {
        a = (struct sums){.n = probability(log_at(p, 0, c))};
        total = log_at(p, 0, c);
    }
    for (size_t t = start - 1; t < p->frames; t++) {
        if (t >= start) {
            const double x = q ? q[t] : probability(log_at(p, t, c));
            double n, phi = again ? s->b[t - 1] : s->n[t - 1] + s->b[t - 1];
            if (s->scale[t - 1] != a.scale)
                phi = meet(&a, phi, s->scale[t - 1] - a.scale, &total);
            n = a.n;
            a.n = (n + phi) * x;
            a.b = (n + a.b) * p->blank_p[t];
            a.psi += phi * x;
        }
        while (is_small(&a))
            change_scale(&a, a.scale - 1, &total);
        to->n[t] = a.n;
        to->b[t] = a.b;
        to->scale[t] = a.scale;
    }
    to->psi = log_add(total, log_of(a.psi, a.scale));
    to->last = c;
    to->length = s->length + 1;
}

void steno_ctc_prefix_advance(steno_ctc_prefix *p, const int32_t *from, const int32_t *token,
                              size_t n)
{
    struct state *swap = p->now;
    for (size_t i = 0; i < n; i++)
        extend_state(p, &p->now[from[i]], token[i], &p->next[i]);
    p->now = p->next;
    p->next = swap;
}

void steno_ctc_prefix_back(steno_ctc_prefix *p)
{
    struct state *swap = p->now;
    p->now = p->next;
    p->next = swap;
}
