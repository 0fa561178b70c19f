#include "speech/speakers/sortformer_voices.h"

#include <stdlib.h>
#include <string.h>

#include "speech/speakers/activity.h"
#include "speech/speakers/cluster.h"

#define ENOUGH 30.0f   /* s of a speaker's speech: more tells nothing new */
#define LEAST_END 8000 /* samples that are embedded at the end */

steno_status steno_sortformer_voices_open(struct steno_sortformer_voices *v,
                                          const struct steno_sortformer *s, size_t dim,
                                          size_t ahead, steno_err *err)
{
    *v = (struct steno_sortformer_voices){.dim = dim,
                                          .speakers = s->speakers,
                                          .row = STENO_SORTFORMER_SAMPLES / s->parts,
                                          .cap = ahead};
    v->pcm = steno_blocks_add(&v->memory, ahead, sizeof *v->pcm);
    v->alone = steno_blocks_add(&v->memory, s->speakers, STENO_SORTFORMER_PIECE * sizeof *v->alone);
    v->vector = steno_blocks_add(&v->memory, dim, sizeof *v->vector);
    v->sum = steno_blocks_add(&v->memory, s->speakers, dim * sizeof *v->sum);
    if (!v->memory.failed)
        return STENO_OK;
    steno_sortformer_voices_close(v);
    return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
}

void steno_sortformer_voices_close(struct steno_sortformer_voices *v)
{
    steno_blocks_free(&v->memory);
    memset(v, 0, sizeof *v);
}

void steno_sortformer_voices_push(struct steno_sortformer_voices *v, const float *pcm, size_t n)
{
    const size_t k = n < v->cap - v->have ? n : v->cap - v->have;
    memcpy(v->pcm + v->have, pcm, k * sizeof *pcm);
    v->have += k;
}

/* Embed what waits of a speaker. */
static steno_status embed_alone(struct steno_sortformer_voices *v, steno_embedder *embedder,
                                size_t s, steno_err *err)
{
    const float seconds = (float)v->n_alone[s] / STENO_SORTFORMER_RATE;
    const steno_status st = steno_embedder_run(embedder, v->alone + s * STENO_SORTFORMER_PIECE,
                                               v->n_alone[s], v->vector, err);
    v->n_alone[s] = 0;
    if (st)
        return st == STENO_NEED_MORE ? STENO_OK : st;
    steno_cluster_unit(v->vector, 1, v->dim);
    for (size_t k = 0; k < v->dim; k++)
        v->sum[s * v->dim + k] += v->vector[k] * seconds;
    v->seconds[s] += seconds;
    return STENO_OK;
}

/* The only one who talks; `speakers`: nobody, or several. */
static size_t who_alone(const float *p, size_t speakers)
{
    size_t who = speakers;
    for (size_t s = 0; s < speakers; s++) {
        if (!(p[s] > STENO_ACTIVITY_TALKS))
            continue;
        if (who < speakers)
            return speakers;
        who = s;
    }
    return who;
}

steno_status steno_sortformer_voices_told(struct steno_sortformer_voices *v,
                                          steno_embedder *embedder, const float *p, size_t n,
                                          steno_err *err)
{
    size_t used = 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st && v->have - used >= v->row; i++, used += v->row) {
        const size_t s = who_alone(p + i * v->speakers, v->speakers);
        if (!embedder || s == v->speakers || v->seconds[s] >= ENOUGH)
            continue;
        memcpy(v->alone + s * STENO_SORTFORMER_PIECE + v->n_alone[s], v->pcm + used,
               v->row * sizeof *v->pcm);
        v->n_alone[s] += v->row;
        if (v->n_alone[s] + v->row > STENO_SORTFORMER_PIECE)
            st = embed_alone(v, embedder, s, err);
    }
    v->have -= used;
    memmove(v->pcm, v->pcm + used, v->have * sizeof *v->pcm);
    return st;
}

steno_status steno_sortformer_voices_end(struct steno_sortformer_voices *v,
                                         steno_embedder *embedder, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t s = 0; !st && s < v->speakers; s++)
        if (v->n_alone[s] >= LEAST_END)
            st = embed_alone(v, embedder, s, err);
    return st;
}

float steno_sortformer_voices_of(const struct steno_sortformer_voices *v, int speaker, float *out)
{
    memcpy(out, v->sum + (size_t)speaker * v->dim, v->dim * sizeof *out);
    return v->seconds[speaker];
}
