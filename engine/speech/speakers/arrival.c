#include "speech/speakers/arrival.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 10000 /* frames of one part: 13 minutes */
#define MOST_DIM 4096
#define TALKS 0.5f         /* probability of a frame that stands for a speaker */
#define LEAST_P 0.25f      /* smaller probabilities count as this one */
#define SILENT_SUM 0.2f    /* of all speakers' probabilities, in a frame of silence */
#define LATEST 0.05f       /* added to the score of frames that are new in the cache */
#define STRONG_SHARE 0.75f /* of a speaker's part: frames that surely stay */
#define WEAK_SHARE 1.5f    /* the same, of those that are preferred */
#define ALONE_SHARE 0.5f   /* from which frames with others are not needed */
#define LN2 0.69314718056f

/* A frame as a candidate for the cache, for one speaker. */
struct candidate {
    float score;
    uint32_t at; /* speaker * rows + frame */
};

/* ---- life ------------------------------------------------------------------------------------ */

static steno_status check_arrival(const struct steno_arrival_rules *r, steno_err *err)
{
    const size_t least = (1 + r->rests) * r->speakers;
    if (r->speakers < 1 || r->speakers > STENO_ARRIVAL_SPEAKERS)
        return steno_fail(err, STENO_ERR_INVAL, "%zu speakers, expected 1 to %d", r->speakers,
                          STENO_ARRIVAL_SPEAKERS);
    if (r->rests > MOST || r->cache < least || r->cache > MOST)
        return steno_fail(err, STENO_ERR_INVAL,
                          "a speaker cache of %zu frames, expected %zu to %d for %zu speakers",
                          r->cache, least, MOST, r->speakers);
    if (r->chunk < 1 || r->chunk > MOST || r->queue > MOST || r->period < 1 || r->period > MOST)
        return steno_fail(err, STENO_ERR_INVAL,
                          "a chunk of %zu frames, a FIFO of %zu with an update period of %zu: "
                          "expected 1 to %d",
                          r->chunk, r->queue, r->period, MOST);
    return r->dim >= 1 && r->dim <= MOST_DIM
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL, "embeddings of %zu numbers", r->dim);
}

steno_status steno_arrival_init(struct steno_arrival *a, const struct steno_arrival_rules *rules,
                                steno_err *err)
{
    const struct steno_arrival_rules *r = rules;
    const size_t queue = r->queue + r->chunk, cache = r->cache + queue;
    steno_status st = check_arrival(rules, err);
    *a = (struct steno_arrival){.rules = *rules};
    if (st)
        return st;
    a->cache = steno_blocks_add(&a->memory, cache, r->dim * sizeof *a->cache);
    a->cache_probs = steno_blocks_add(&a->memory, cache, r->speakers * sizeof *a->cache_probs);
    a->queue = steno_blocks_add(&a->memory, queue, r->dim * sizeof *a->queue);
    a->queue_probs = steno_blocks_add(&a->memory, queue, r->speakers * sizeof *a->queue_probs);
    a->silence = steno_blocks_add(&a->memory, r->dim, sizeof *a->silence);
    a->scratch = steno_blocks_add(&a->memory,
                                  (cache + r->rests) * r->speakers *
                                          (sizeof(struct candidate) + sizeof(float)) +
                                      r->cache * (r->dim + r->speakers) * sizeof(float),
                                  1);
    if (a->memory.failed) {
        steno_arrival_free(a);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    if (r->silence)
        memcpy(a->silence, r->silence, r->dim * sizeof *a->silence);
    return STENO_OK;
}

void steno_arrival_free(struct steno_arrival *a)
{
    steno_blocks_free(&a->memory);
    memset(a, 0, sizeof *a);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* High for frames of which it is sure that this speaker talks, and no other. NaN: lowest. */
static void score_frame(const float *p, size_t speakers, float *score)
{
    float others[STENO_ARRIVAL_SPEAKERS], sum = 0;
    for (size_t s = 0; s < speakers; s++) {
        const float no = 1 - p[s];
        others[s] = logf(no > LEAST_P ? no : LEAST_P);
        sum += others[s];
    }
    for (size_t s = 0; s < speakers; s++)
        score[s] = p[s] > TALKS ? logf(p[s]) - others[s] + sum + LN2 : -INFINITY;
}

static int by_score(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static int by_place(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Raise the `most` highest scores of a speaker [rows] by `by`. */
static void raise_best(float *score, size_t rows, size_t most, float by, struct candidate *c)
{
    for (size_t f = 0; f < rows; f++)
        c[f] = (struct candidate){score[f], (uint32_t)f};
    qsort(c, rows, sizeof *c, by_score);
    for (size_t k = 0; k < most && k < rows; k++)
        score[c[k].at] += by;
}

/* Scores of a speaker's frames [rows], before frames of silence are added. */
static void weigh(const struct steno_arrival *a, float *score, size_t rows, struct candidate *c)
{
    const struct steno_arrival_rules *r = &a->rules;
    const float part = (float)(r->cache / r->speakers - r->rests);
    size_t alone = 0;
    for (size_t f = 0; f < rows; f++)
        alone += score[f] > 0;
    for (size_t f = 0; f < rows; f++)
        if (!(score[f] > 0) && alone >= (size_t)(part * ALONE_SHARE))
            score[f] = -INFINITY;
    for (size_t f = r->cache; f < rows; f++)
        score[f] += LATEST;
    raise_best(score, rows, (size_t)(part * STRONG_SHARE), 2 * LN2, c);
    raise_best(score, rows, (size_t)(part * WEAK_SHARE), LN2, c);
}

/* Bring the frames of the cache [n_cache] down to those of the highest scores. */
static void compress_cache(struct steno_arrival *a)
{
    const struct steno_arrival_rules *r = &a->rules;
    const size_t n = a->n_cache, rows = n + r->rests;
    struct candidate *c = a->scratch;
    float *score = (float *)(c + rows * r->speakers), frame[STENO_ARRIVAL_SPEAKERS];
    float *to = score + rows * r->speakers, *to_probs = to + r->cache * r->dim;
    for (size_t f = 0; f < n; f++) {
        score_frame(a->cache_probs + f * r->speakers, r->speakers, frame);
        for (size_t s = 0; s < r->speakers; s++)
            score[s * rows + f] = frame[s];
    }
    for (size_t s = 0; s < r->speakers; s++) {
        weigh(a, score + s * rows, n, c);
        for (size_t f = n; f < rows; f++)
            score[s * rows + f] = INFINITY;
    }
    for (size_t i = 0; i < rows * r->speakers; i++)
        c[i] = (struct candidate){score[i], (uint32_t)i};
    qsort(c, rows * r->speakers, sizeof *c, by_score);
    for (size_t k = 0; k < r->cache; k++)
        if (c[k].score == -INFINITY)
            c[k].at = UINT32_MAX; /* no frame: silence, at the end */
    qsort(c, r->cache, sizeof *c, by_place);
    for (size_t k = 0; k < r->cache; k++) {
        const size_t f = c[k].at == UINT32_MAX ? n : c[k].at % rows;
        memcpy(to + k * r->dim, f < n ? a->cache + f * r->dim : a->silence, r->dim * sizeof *to);
        if (f < n)
            memcpy(to_probs + k * r->speakers, a->cache_probs + f * r->speakers,
                   r->speakers * sizeof *to_probs);
        else
            memset(to_probs + k * r->speakers, 0, r->speakers * sizeof *to_probs);
    }
    memcpy(a->cache, to, r->cache * r->dim * sizeof *to);
    memcpy(a->cache_probs, to_probs, r->cache * r->speakers * sizeof *to_probs);
    a->n_cache = r->cache;
    a->compressed = true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Add those of the first n frames of the queue in which nobody talks to the mean of silence. */
static void hear_silence(struct steno_arrival *a, size_t n)
{
    const struct steno_arrival_rules *r = &a->rules;
    const size_t had = a->n_silence;
    float *sum = a->scratch;
    memset(sum, 0, r->dim * sizeof *sum);
    for (size_t f = 0; f < n; f++) {
        float talking = 0;
        for (size_t s = 0; s < r->speakers; s++)
            talking += a->queue_probs[f * r->speakers + s];
        if (!(talking < SILENT_SUM))
            continue;
        for (size_t k = 0; k < r->dim; k++)
            sum[k] += a->queue[f * r->dim + k];
        a->n_silence++;
    }
    for (size_t k = 0; k < r->dim && a->n_silence > had; k++)
        a->silence[k] = (a->silence[k] * (float)had + sum[k]) / (float)a->n_silence;
}

/* Copy probabilities [n]; those that are not finite are 0. */
static void copy_probs(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = isfinite(from[i]) ? from[i] : 0;
}

/* Move the first n frames of the queue to the cache. all: of the cache's frames. */
static void leave_queue(struct steno_arrival *a, size_t n, const float *all)
{
    const struct steno_arrival_rules *r = &a->rules;
    const size_t left = a->n_queue - n;
    if (!r->silence)
        hear_silence(a, n);
    if (!a->compressed && a->n_cache + n > r->cache)
        copy_probs(a->cache_probs, all, a->n_cache * r->speakers);
    memcpy(a->cache + a->n_cache * r->dim, a->queue, n * r->dim * sizeof *a->cache);
    memcpy(a->cache_probs + a->n_cache * r->speakers, a->queue_probs,
           n * r->speakers * sizeof *a->cache_probs);
    a->n_cache += n;
    memmove(a->queue, a->queue + n * r->dim, left * r->dim * sizeof *a->queue);
    memmove(a->queue_probs, a->queue_probs + n * r->speakers,
            left * r->speakers * sizeof *a->queue_probs);
    a->n_queue = left;
    if (a->n_cache > r->cache)
        compress_cache(a);
}

void steno_arrival_take(struct steno_arrival *a, const float *all, const float *embeddings,
                        const float *probs, size_t n)
{
    const struct steno_arrival_rules *r = &a->rules;
    const size_t had = a->n_queue;
    copy_probs(a->queue_probs, all + a->n_cache * r->speakers, had * r->speakers);
    copy_probs(a->queue_probs + had * r->speakers, probs, n * r->speakers);
    memcpy(a->queue + had * r->dim, embeddings, n * r->dim * sizeof *a->queue);
    a->n_queue += n;
    if (a->n_queue > r->queue) {
        const size_t least = a->n_queue - r->queue;
        const size_t pop = r->period > least ? r->period : least;
        leave_queue(a, pop < a->n_queue ? pop : a->n_queue, all);
    }
}
