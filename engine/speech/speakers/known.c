/* Known voices. A voice print is the mean of the vectors of one speaker, made as those of a
 * recording's speakers are, so that both compare. */
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/diarize.h"
#include "speech/speakers/known.h"
#include "speech/speakers/networks.h"

size_t steno_speaker_print_floats(const steno_speakers *s)
{
    return s->embedding.dim;
}

static steno_status need_embedding(const steno_speakers *s, steno_err *err)
{
    return s->embedding.dim ? STENO_OK
                            : steno_fail(err, STENO_ERR_UNSUPPORTED,
                                         "voice: there is no embedding network beside the "
                                         "Sortformer, so nobody can be known again");
}

steno_status steno_diarization_print(const steno_diarization *d, const steno_speakers *s,
                                     float *out, double *seconds, steno_err *err)
{
    const size_t dim = s->embedding.dim;
    float most = 0;
    steno_status st = need_embedding(s, err);
    float *one = st ? NULL : malloc(dim * sizeof *one);
    if (st)
        return st;
    memset(out, 0, dim * sizeof *out);
    if (!one)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    for (int k = 0; k < steno_diarization_speakers(d); k++) {
        const float k_seconds = steno_diarization_voice(d, k, one);
        if (k_seconds > most) {
            most = k_seconds;
            memcpy(out, one, dim * sizeof *out);
        }
    }
    free(one);
    if (seconds)
        *seconds = (double)most;
    if (most >= STENO_KNOWN_SECONDS)
        return STENO_OK;
    memset(out, 0, dim * sizeof *out);
    return steno_fail(err, STENO_ERR_INVAL,
                      "voice: the recording has %.1f s of clear speech, at least %.0f is needed, "
                      "better five",
                      (double)most, (double)STENO_KNOWN_SECONDS);
}

steno_status steno_speaker_print_make(const steno_speakers *s, int sample_rate, const float *pcm,
                                      size_t n, float *out, double *seconds, steno_err *err)
{
    steno_diarization *d;
    steno_status st = need_embedding(s, err);
    if (!st)
        st = steno_diarization_open(&d, s, sample_rate,
                                    &(struct steno_speaker_options){.speakers = 1}, err);
    if (st)
        return st;
    st = steno_diarization_push(d, pcm, n, err);
    if (!st)
        st = steno_diarization_end(d, err);
    if (!st)
        st = steno_diarization_print(d, s, out, seconds, err);
    steno_diarization_close(d);
    return st;
}

double steno_known_cosine(const float *a, const float *b, size_t dim)
{
    double sum = 0;
    for (size_t k = 0; k < dim; k++)
        sum += (double)a[k] * (double)b[k];
    return sum;
}

void steno_known_match(double *like, size_t n, size_t speakers, double least, int *who)
{
    for (;;) {
        size_t best = n * speakers;
        for (size_t i = 0; i < n * speakers; i++)
            if (like[i] >= least && (best == n * speakers || like[i] > like[best]))
                best = i;
        if (best == n * speakers)
            return;
        who[best % speakers] = (int)(best / speakers);
        for (size_t i = 0; i < n * speakers; i++)
            if (i % speakers == best % speakers || i / speakers == best / speakers)
                like[i] = -2;
    }
}

steno_status steno_diarization_identify(const steno_diarization *d, const steno_speakers *s,
                                        const float *prints, size_t n, double least, int *who,
                                        steno_err *err)
{
    const size_t dim = s->embedding.dim, speakers = (size_t)steno_diarization_speakers(d);
    double *like = calloc(n * speakers + 1, sizeof *like);
    float *voice = malloc((dim + 1) * sizeof *voice);
    steno_status st =
        like && voice ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    for (size_t k = 0; !st && k < speakers; k++) {
        who[k] = -1;
        (void)steno_diarization_voice(d, (int)k, voice);
        for (size_t i = 0; i < n; i++)
            like[i * speakers + k] = steno_known_cosine(voice, prints + i * dim, dim);
    }
    if (!st)
        steno_known_match(like, n, speakers, least > 0 ? least : STENO_KNOWN_COSINE, who);
    free(like);
    free(voice);
    return st;
}
