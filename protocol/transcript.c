#include "protocol/transcript.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "protocol/event_copy.h"

#define DEFAULT_MAX ((size_t)64 << 20)

/* The hypotheses of a final that became segments [first, first + n). */
struct joint {
    size_t first, n;
    const struct steno_alternative *alternatives;
    size_t n_alternatives;
};

/* The sum of the logarithms of n confidences. */
struct logs {
    double sum;
    size_t n;
};

struct steno_transcript {
    steno_arena *arena;
    struct steno_event *segments;
    size_t n, cap;
    struct joint *joints;
    size_t n_joints, cap_joints;
    struct steno_buf text;
    double duration;
    struct logs logs;     /* of all words */
    const char *language; /* of the first final that has one */
    float language_probability;
    /* of several channels */
    steno_transcript **channels;
    size_t n_channels;
    unsigned *channel_of;             /* [n] */
    struct steno_attribution *voices; /* [n], or NULL */
    unsigned n_speakers;
    const char **names; /* [n_speakers] in the arena, or NULL: none has a name */
};

steno_transcript *steno_transcript_new(size_t max_bytes)
{
    steno_transcript *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    if (!max_bytes)
        max_bytes = DEFAULT_MAX;
    steno_buf_init(&t->text, max_bytes);
    t->arena = steno_arena_new(max_bytes);
    if (!t->arena) {
        free(t);
        return NULL;
    }
    return t;
}

void steno_transcript_free(steno_transcript *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_channels; i++)
        steno_transcript_free(t->channels[i]);
    free(t->channels);
    free(t->channel_of);
    free(t->voices);
    steno_arena_free(t->arena);
    steno_buf_free(&t->text);
    free(t->segments);
    free(t->joints);
    free(t);
}

/* Add what a channel has to the sums and the text. */
static steno_status add_channel(steno_transcript *t, steno_transcript *c, bool first)
{
    steno_status st = first ? STENO_OK : steno_buf_puts(&t->text, "\n");
    t->logs.sum += c->logs.sum;
    t->logs.n += c->logs.n;
    t->duration = c->duration > t->duration ? c->duration : t->duration;
    if (!t->language && c->language) {
        t->language = c->language;
        t->language_probability = c->language_probability;
    }
    return st ? st : steno_buf_puts(&t->text, steno_transcript_text(c));
}

/* Merge the channels' segments by time; of equal times the first channel's comes first. */
static void merge_segments(steno_transcript *t, size_t *at)
{
    for (t->n = 0; t->n < t->cap; t->n++) {
        size_t next = t->n_channels;
        for (size_t k = 0; k < t->n_channels; k++)
            if (at[k] < t->channels[k]->n &&
                (next == t->n_channels || t->channels[k]->segments[at[k]].start <
                                              t->channels[next]->segments[at[next]].start))
                next = k;
        t->channel_of[t->n] = (unsigned)next + 1;
        if (t->channels[next]->voices)
            t->voices[t->n] = t->channels[next]->voices[at[next]];
        t->segments[t->n] = t->channels[next]->segments[at[next]++];
    }
}

/* Number the speakers of a channel after those of the channels before it. */
static void number_through(steno_transcript *t, steno_transcript *c)
{
    for (size_t i = 0; i < c->n && c->voices && t->n_speakers; i++)
        c->voices[i].speaker += c->voices[i].speaker ? t->n_speakers : 0;
    t->n_speakers += c->n_speakers;
}

steno_transcript *steno_transcript_of_channels(steno_transcript *const *channels, size_t n)
{
    steno_transcript *t = steno_transcript_new(0);
    steno_transcript **own = calloc(n ? n : 1, sizeof *own);
    size_t *at = calloc(n ? n : 1, sizeof *at);
    bool good = t && own && at, told = false;
    for (size_t i = 0; good && i < n; i++) {
        t->cap += channels[i]->n;
        told |= channels[i]->voices != NULL;
    }
    if (good && told) {
        t->voices = calloc(t->cap + 1, sizeof *t->voices);
        good = t->voices != NULL;
    }
    if (good) {
        t->segments = calloc(t->cap ? t->cap : 1, sizeof *t->segments);
        t->channel_of = calloc(t->cap ? t->cap : 1, sizeof *t->channel_of);
        good = t->segments && t->channel_of;
    }
    for (size_t i = 0; good && i < n; i++) {
        own[i] = channels[i];
        number_through(t, own[i]);
        good = !add_channel(t, own[i], !i);
    }
    if (good) {
        t->channels = own;
        t->n_channels = n;
        merge_segments(t, at);
    } else {
        for (size_t i = 0; i < n; i++)
            steno_transcript_free(channels[i]);
        free(own);
        steno_transcript_free(t);
        t = NULL;
    }
    free(at);
    return t;
}

size_t steno_transcript_n_channels(const steno_transcript *t)
{
    return t->n_channels;
}

steno_transcript *steno_transcript_channel(const steno_transcript *t, size_t k)
{
    return t->channels[k];
}

unsigned steno_transcript_segment_channel(const steno_transcript *t, size_t i)
{
    return t->channel_of ? t->channel_of[i] : 0;
}

void steno_transcript_take_voices(steno_transcript *t, struct steno_attribution *voice, unsigned n)
{
    free(t->voices);
    t->voices = voice;
    t->n_speakers = n;
}

unsigned steno_transcript_n_speakers(const steno_transcript *t)
{
    return t->n_speakers;
}

steno_status steno_transcript_name_speaker(steno_transcript *t, unsigned speaker, const char *name)
{
    if (!t->names)
        t->names = steno_arena_calloc(t->arena, t->n_speakers, sizeof *t->names);
    if (!t->names || !(t->names[speaker - 1] = steno_arena_strdup(t->arena, name)))
        return steno_arena_failure(t->arena);
    return STENO_OK;
}

const char *steno_transcript_speaker_name(const steno_transcript *t, unsigned speaker)
{
    return t->names && speaker ? t->names[speaker - 1] : NULL;
}

unsigned steno_transcript_segment_speaker(const steno_transcript *t, size_t i)
{
    return t->voices ? t->voices[i].speaker : 0;
}

struct steno_attribution steno_transcript_voice_at(const steno_transcript *t, double seconds)
{
    size_t low = 0, high = t->n;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        if (t->segments[mid].start <= seconds)
            low = mid;
        else
            high = mid;
    }
    return t->voices && t->n ? t->voices[low] : (struct steno_attribution){0};
}

static steno_status reserve_segment(steno_transcript *t)
{
    size_t cap = t->cap ? 2 * t->cap : 16;
    struct steno_event *p;
    if (t->n < t->cap)
        return STENO_OK;
    p = realloc(t->segments, cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    t->segments = p;
    t->cap = cap;
    return STENO_OK;
}

static steno_status failed(const steno_transcript *t, steno_status st, steno_err *err)
{
    if (st == STENO_ERR_NOMEM)
        return steno_fail(err, st, "out of memory for the transcript");
    return steno_fail(err, st, "the transcript exceeds %zu bytes", t->text.max);
}

/* Add the confidences of words that were found in the audio. */
static struct logs add_logs(struct logs l, const struct steno_word *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (w[i].confidence > 0) {
            l.sum += log((double)w[i].confidence);
            l.n++;
        }
    return l;
}

/* Their geometric mean. */
static float mean_of_logs(struct logs l)
{
    return l.n ? (float)exp(l.sum / (double)l.n) : 0;
}

/* Add a segment; joined: what the text of the whole gets for it. */
static steno_status add_segment(steno_transcript *t, const struct steno_event *ev,
                                const char *joined)
{
    struct steno_event copy;
    steno_status st = steno_event_copy(&copy, ev, t->arena);
    if (!st)
        st = reserve_segment(t);
    if (!st)
        st = steno_buf_puts(&t->text, joined);
    if (st)
        return st;
    t->segments[t->n++] = copy;
    t->logs = add_logs(t->logs, ev->words, ev->n_words);
    return STENO_OK;
}

/* Add section i of a final as a segment of its own. */
static steno_status add_section(steno_transcript *t, const struct steno_event *whole, size_t i)
{
    struct steno_section s = whole->sections[i];
    struct steno_event ev = *whole;
    struct steno_alternative only;
    const char *plain = s.text + strspn(s.text, " ");
    if (!*plain)
        return STENO_OK;
    ev.start = s.start;
    ev.end = s.end;
    ev.text = plain;
    ev.stable_bytes = strlen(plain);
    ev.stable_words = ev.n_words = s.n_words;
    ev.words = whole->words + s.first_word;
    ev.n_tokens = s.n_tokens;
    ev.tokens = whole->tokens + s.first_token;
    ev.confidence = mean_of_logs(add_logs((struct logs){0}, ev.words, ev.n_words));
    only = (struct steno_alternative){.text = plain,
                                      .confidence = ev.confidence,
                                      .score = s.score,
                                      .n_words = ev.n_words,
                                      .words = ev.words,
                                      .n_tokens = ev.n_tokens,
                                      .tokens = ev.tokens,
                                      .n_ids = s.n_ids,
                                      .ids = s.ids};
    ev.alternatives = &only;
    ev.n_alternatives = 1;
    s.first_word = s.first_token = 0;
    ev.sections = &s;
    ev.n_sections = 1;
    ev.labels = s.labels;
    return add_segment(t, &ev, t->text.len ? s.text : plain);
}

/* The final became segments [first, t->n). */
static steno_status add_joint(steno_transcript *t, const struct steno_event *ev, size_t first)
{
    struct joint *j;
    if (ev->n_alternatives < 2 || t->n == first)
        return STENO_OK;
    if (t->n_joints == t->cap_joints) {
        const size_t cap = t->cap_joints ? 2 * t->cap_joints : 4;
        struct joint *p = realloc(t->joints, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        t->joints = p;
        t->cap_joints = cap;
    }
    j = &t->joints[t->n_joints];
    *j = (struct joint){.first = first, .n = t->n - first, .n_alternatives = ev->n_alternatives};
    j->alternatives = steno_alternatives_copy(t->arena, ev->alternatives, ev->n_alternatives);
    if (!j->alternatives)
        return steno_arena_failure(t->arena);
    t->n_joints++;
    return STENO_OK;
}

static steno_status add_final(steno_transcript *t, const struct steno_event *ev)
{
    const size_t first = t->n;
    steno_status st = STENO_OK;
    if (!ev->n_sections) {
        st = t->n ? steno_buf_puts(&t->text, " ") : STENO_OK;
        return st ? st : add_segment(t, ev, ev->text);
    }
    for (size_t i = 0; i < ev->n_sections && !st; i++)
        st = add_section(t, ev, i);
    return st ? st : add_joint(t, ev, first);
}

steno_status steno_transcript_add(steno_transcript *t, const struct steno_event *ev, steno_err *err)
{
    const size_t before = t->text.len, n = t->n;
    const struct logs logs = t->logs;
    steno_status st;
    if (ev->kind != STENO_FINAL || !ev->text[0])
        return STENO_OK;
    st = add_final(t, ev);
    if (st) {
        steno_buf_cut(&t->text, before);
        t->n = n;
        t->logs = logs;
        return failed(t, st, err);
    }
    if (!t->language && ev->language && *ev->language) {
        t->language = ev->language;
        t->language_probability = ev->language_probability;
    }
    return STENO_OK;
}

const char *steno_transcript_language(const steno_transcript *t, float *probability)
{
    *probability = t->language_probability;
    return t->language;
}

void steno_transcript_set_duration(steno_transcript *t, double seconds)
{
    t->duration = seconds;
}

double steno_transcript_duration(const steno_transcript *t)
{
    return t->duration;
}

size_t steno_transcript_n_segments(const steno_transcript *t)
{
    return t->n;
}

const struct steno_event *steno_transcript_segment(const steno_transcript *t, size_t i)
{
    return &t->segments[i];
}

struct steno_event *steno_transcript_own_segment(steno_transcript *t, size_t i, steno_arena **arena)
{
    *arena = t->arena;
    return &t->segments[i];
}

const char *steno_transcript_segment_text(const steno_transcript *t, size_t i)
{
    const struct steno_event *seg = &t->segments[i];
    return seg->n_sections ? seg->sections[0].text : seg->text;
}

const char *steno_transcript_text(steno_transcript *t)
{
    return t->text.data ? t->text.data : "";
}

float steno_transcript_confidence(const steno_transcript *t)
{
    return mean_of_logs(t->logs);
}

double steno_confidence_log(float confidence)
{
    return confidence > 1e-6f ? log((double)confidence) : log(1e-6);
}

size_t steno_transcript_n_alternatives(const steno_transcript *t)
{
    size_t most = 1;
    for (size_t i = 0; i < t->n; i++)
        if (t->segments[i].n_alternatives > most)
            most = t->segments[i].n_alternatives;
    for (size_t i = 0; i < t->n_joints; i++)
        if (t->joints[i].n_alternatives > most)
            most = t->joints[i].n_alternatives;
    return most;
}

bool steno_transcript_has_joint_alternatives(const steno_transcript *t)
{
    return t->n_joints > 0;
}

static struct steno_alternative pick_alternative(const struct steno_event *ev, size_t k)
{
    if (k < ev->n_alternatives)
        return ev->alternatives[k];
    return (struct steno_alternative){.text = ev->text,
                                      .confidence = ev->confidence,
                                      .score = ev->n_alternatives ? ev->alternatives[0].score : 0,
                                      .n_words = ev->n_words,
                                      .words = ev->words};
}

/* Hypothesis k of what begins at segment *i, which moves behind it. */
static struct steno_alternative take_part(const steno_transcript *t, size_t *i, size_t k)
{
    for (size_t w = 0; k && w < t->n_joints; w++) {
        const struct joint *j = &t->joints[w];
        if (j->first != *i || k >= j->n_alternatives)
            continue;
        *i += j->n;
        return j->alternatives[k];
    }
    return pick_alternative(&t->segments[(*i)++], k);
}

steno_status steno_transcript_alternative(steno_transcript *t, size_t k,
                                          struct steno_alternative *out, steno_err *err)
{
    struct steno_alternative sum = {0};
    size_t bytes = 1, at = 0;
    struct steno_word *words;
    struct logs logs = {0};
    char *text;
    for (size_t i = 0; i < t->n;) {
        struct steno_alternative a = take_part(t, &i, k);
        bytes += strlen(a.text) + 1;
        sum.n_words += a.n_words;
        sum.score += a.score;
    }
    text = steno_arena_calloc(t->arena, bytes, 1);
    words = steno_arena_calloc(t->arena, sum.n_words ? sum.n_words : 1, sizeof *words);
    if (!text || !words)
        return failed(t, steno_arena_failure(t->arena), err);
    sum.n_words = 0;
    for (size_t i = 0; i < t->n;) {
        struct steno_alternative a = take_part(t, &i, k);
        size_t n = strlen(a.text);
        if (n && at)
            text[at++] = ' ';
        memcpy(text + at, a.text, n);
        at += n;
        logs = add_logs(logs, a.words, a.n_words);
        for (size_t w = 0; w < a.n_words; w++)
            words[sum.n_words++] = a.words[w];
    }
    sum.text = text;
    sum.words = words;
    sum.confidence = mean_of_logs(logs);
    *out = sum;
    return STENO_OK;
}
