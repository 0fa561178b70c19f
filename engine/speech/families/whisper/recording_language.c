#include "speech/families/whisper/recording_internal.h"

#include <math.h>

#include "speech/text/language.h"

#define MAX_LANGUAGES 128
/* A window has another language than the text before if it is this probable, and this much more
 * probable than that one. docs/log/2026-11-29.md: single digits that are taken for German fall from
 * 6 to 3 of 57, and a second of speech after each of three switches is still noticed. */
#define SURE 0.5f
#define LIKELIER 3.0f

steno_status steno_whisper_language_choose(steno_whisper_recording *j, steno_err *err)
{
    const struct steno_whisper_specials *s = &j->m->special;
    const char *code = steno_language_code_at(j->o.language);
    j->at.first_language = s->multilingual ? j->o.language : 0;
    j->at.language = s->multilingual && j->o.each_language ? -1 : j->at.first_language;
    j->at.language_probability = 1;
    if (j->o.language >= s->n_languages || (!s->multilingual && j->o.language > 0))
        return steno_fail(err, STENO_ERR_INVAL, "language '%s': the model knows %s",
                          code ? code : "?", s->multilingual ? "99 others" : "English alone");
    if (!s->multilingual && j->o.translate)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "a model for English alone translates nothing");
    return STENO_OK;
}

int steno_whisper_recording_language(const steno_whisper_recording *r, float *probability)
{
    *probability = r->at.language_probability;
    return r->at.first_language;
}

int steno_whisper_recording_spoken(const steno_whisper_recording *r)
{
    return r->at.spoken;
}

void steno_whisper_recording_set_spoken(steno_whisper_recording *r, int language)
{
    r->at.spoken = language;
}

void steno_whisper_language_ask(const steno_whisper_recording *j, struct steno_whisper_ask *ask)
{
    static const size_t first = 0;
    *ask = (struct steno_whisper_ask){
        .state = j->state, .token = &j->m->special.sot, .n = 1, .pick = &first, .n_pick = 1};
}

static bool may_be(const steno_whisper_recording *j, size_t i)
{
    const struct steno_whisper_languages *l = &j->o.among;
    return !(l->bits[0] | l->bits[1]) || l->bits[i / 64] >> i % 64 & 1;
}

struct steno_whisper_guess steno_whisper_language_best(const steno_whisper_recording *j,
                                                       const struct steno_whisper_ask *ask)
{
    const size_t n = (size_t)j->m->special.n_languages;
    const float *logits = ask->logits + j->m->special.first_language;
    float p[MAX_LANGUAGES] = {0};
    struct steno_whisper_guess g = {0};
    for (size_t i = 0; i < n; i++)
        p[i] = may_be(j, i) ? logits[i] : -HUGE_VALF;
    j->m->kernels.softmax_f32(p, p, 1, n);
    g.probability = p[0];
    for (size_t i = 1; i < n; i++) {
        if (p[i] > g.probability)
            g = (struct steno_whisper_guess){(int)i, p[i], g.probability, 0};
        else if (p[i] > g.second)
            g.second = p[i];
    }
    g.before = j->at.spoken >= 0 ? p[j->at.spoken] : 0;
    return g;
}

struct steno_whisper_guess steno_whisper_language_keep(const steno_whisper_recording *j,
                                                       struct steno_whisper_guess g)
{
    if (j->at.spoken < 0 || (g.probability >= SURE && g.probability >= LIKELIER * g.before))
        return g;
    g.language = j->at.spoken;
    g.probability = g.before;
    return g;
}

bool steno_whisper_language_has_padding(const steno_whisper_recording *j)
{
    size_t there;
    (void)steno_whisper_mel_at(j->mel, j->at.seek, &there);
    return there > j->at.size && j->at.size < STENO_WHISPER_WINDOW_FRAMES &&
           j->at.size < 2 * (size_t)j->m->dims.audio_ctx;
}
