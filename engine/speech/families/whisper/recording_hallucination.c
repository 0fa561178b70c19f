#include "speech/families/whisper/recording_internal.h"

#include <math.h>
#include <string.h>

#define WORDS 8         /* of a segment that are judged */
#define UNLIKELY 0.15   /* probability of a word */
#define SHORT 0.133     /* s */
#define LONG 2.0        /* s */
#define AT_THE_EDGE 2.0 /* s from an end of the window */
#define STEP 1.0        /* s that the next window moves at least */

static const struct steno_whisper_timed *words_of(const steno_whisper_recording *j,
                                                  const struct steno_whisper_cut *c)
{
    return j->words.word + c->first_word;
}

/* As Python's `word in "\"'“¿([{-\"'.。,，!！?？:：”)]}、"`. */
static bool is_punctuation(const steno_whisper_recording *j, const struct steno_whisper_timed *w)
{
    static const char all[] = "\"'\xE2\x80\x9C\xC2\xBF([{-\"'.\xE3\x80\x82,\xEF\xBC\x8C!"
                              "\xEF\xBC\x81?\xEF\xBC\x9F:\xEF\xBC\x9A\xE2\x80\x9D)]}"
                              "\xE3\x80\x81";
    const char *text = j->words.text.data + w->text;
    for (size_t i = 0; i + w->bytes < sizeof all; i++)
        if (!memcmp(all + i, text, w->bytes))
            return true;
    return false;
}

static double recording_hallucination_score(const struct steno_whisper_timed *w)
{
    const double duration = w->end - w->start;
    return (double)((double)w->probability < UNLIKELY) +
           (duration < SHORT ? (SHORT - duration) * 15 : 0) +
           (duration > LONG ? duration - LONG : 0);
}

/* Words that are very long, very short or unlikely. */
static bool is_anomalous(const steno_whisper_recording *j, const struct steno_whisper_cut *c)
{
    const struct steno_whisper_timed *w = words_of(j, c);
    double sum = 0;
    size_t n = 0;
    if (!c->n_words)
        return false;
    for (size_t i = 0; i < c->n_words && n < WORDS; i++) {
        if (is_punctuation(j, &w[i]))
            continue;
        sum += recording_hallucination_score(&w[i]);
        n++;
    }
    return sum >= 3 || sum + 0.01 >= (double)n;
}

/* The first segment with words from number i on; NULL: there is none. */
static const struct steno_whisper_cut *next_spoken(const steno_whisper_recording *j, size_t i)
{
    while (i < j->n_cuts && !j->cut[i].n_words)
        i++;
    return i < j->n_cuts ? &j->cut[i] : NULL;
}

/* Silence or made-up text, or an end of the window, is on both sides of segment i. */
static bool lies_in_silence(const steno_whisper_recording *j, size_t i, double before)
{
    const double threshold = j->o.hallucination_silence;
    const double from = (double)j->at.seek * STENO_WHISPER_FRAME_S;
    const double end = from + STENO_WHISPER_WINDOW_FRAMES * STENO_WHISPER_FRAME_S;
    const struct steno_whisper_cut *c = &j->cut[i], *next = next_spoken(j, i + 1);
    const double after =
        next ? words_of(j, next)->start : from + (double)j->at.size * STENO_WHISPER_FRAME_S;
    if (c->start - before <= threshold && c->start >= threshold && c->start - from >= AT_THE_EDGE)
        return false;
    return after - c->end > threshold || (next && is_anomalous(j, next)) ||
           end - c->end < AT_THE_EDGE;
}

/* The next window begins where segment c does, or the recording is over. */
static size_t seek_behind(const steno_whisper_recording *j, const struct steno_whisper_cut *c)
{
    const size_t frames = steno_whisper_mel_frames(j->mel);
    if (j->ended && (double)frames * STENO_WHISPER_FRAME_S - c->end < j->o.hallucination_silence)
        return frames;
    return (size_t)rint(fmax((double)j->at.seek * STENO_WHISPER_FRAME_S + STEP, c->start) * 100);
}

bool steno_whisper_hallucination_cut(steno_whisper_recording *j, double before, size_t *next)
{
    const struct steno_whisper_cut *first = next_spoken(j, 0);
    const double from = (double)j->at.seek * STENO_WHISPER_FRAME_S;
    if (first && is_anomalous(j, first) && first->start - from > j->o.hallucination_silence) {
        *next = j->at.seek + (size_t)rint((first->start - from) * 100);
        return true;
    }
    for (size_t i = 0; i < j->n_cuts; i++) {
        const struct steno_whisper_cut *c = &j->cut[i];
        if (!c->n_words)
            continue;
        if (is_anomalous(j, c) && lies_in_silence(j, i, before)) {
            *next = seek_behind(j, c);
            j->n_cuts = i;
            return false;
        }
        before = c->end;
    }
    return false;
}
