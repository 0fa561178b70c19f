#include "speech/features/activity.h"

#include <math.h>

#define FLOOR_START (-60.0) /* a quiet room at a microphone */
#define FLOOR_LOW (-75.0)   /* in digital silence, dither must not count as loud */
#define RISE_PER_SECOND 3.0 /* after some seconds, the noise of a fan counts as floor */
#define CLEAR_DB 12.0       /* above the noise floor */
#define SOFT_DB 5.0         /* hops of steady noise stay within 2 dB of its quietest ones */
#define LOUD_RUN 3

void steno_activity_init(struct steno_activity *a, double frame_seconds)
{
    *a = (struct steno_activity){.floor_db = FLOOR_START,
                                 .rise_db = RISE_PER_SECOND * frame_seconds};
}

bool steno_activity_push(struct steno_activity *a, const float *pcm, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)pcm[i] * (double)pcm[i];
    return steno_activity_push_sum(a, sum, n);
}

bool steno_activity_push_sum(struct steno_activity *a, double sum, size_t n)
{
    double db = 10 * log10(sum / (double)n + 1e-12);
    if (db < a->floor_db)
        a->floor_db = db > FLOOR_LOW ? db : FLOOR_LOW;
    else
        a->floor_db += a->rise_db;
    a->run = db > a->floor_db + CLEAR_DB ? a->run + 1 : 0;
    a->soft_run = db > a->floor_db + SOFT_DB ? a->soft_run + 1 : 0;
    return a->run >= LOUD_RUN;
}

bool steno_activity_is_soft(const struct steno_activity *a)
{
    return a->soft_run >= LOUD_RUN;
}
