#include "speech/families/common/offline.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/families/common/join.h"
#include "speech/families/common/speech_cutter.h"
#include "speech/text/words.h"

#define GROWTH 3 /* a chunk grows by a third until its next partial */
#define TEXT_MAX ((size_t)64 << 20)

struct offline {
    const struct steno_offline_family *family;
    void *settings;
    struct steno_speech_source speech;
    steno_speech_cutter *cutter; /* NULL: the segment has no samples yet */
    size_t accepted;             /* samples of the segment */
    size_t partial;              /* accepted samples at which a partial is due */
    bool ended;                  /* all samples of the segment are in */
    struct steno_span *done;     /* [n_done, cap_done] tokens of complete chunks */
    size_t n_done, cap_done;
    size_t fixed;             /* of these, tokens that the next chunk cannot change */
    struct steno_span *shown; /* [n_shown, cap_shown] with those of a partial; 0: none */
    size_t n_shown, cap_shown;
    double score;
    struct steno_hypothesis_list piece; /* of the last chunk */
    size_t n_chunks;                    /* complete ones */
    uint64_t chunk;                     /* number of the one that grows */
    struct steno_labels labels;         /* of the first chunk that has any, likewise */
    const char *language;
    float language_probability;
    struct steno_section *sections; /* [n_chunks, cap_sections] */
    size_t cap_sections;
    struct steno_buf text; /* of the sections */
    struct steno_words words;
};

struct steno_cutter_options steno_offline_cuts(int rate, double full, size_t frame_samples)
{
    return (struct steno_cutter_options){.rate = rate,
                                         .full = full,
                                         .late = 0.5 * full,
                                         .earliest = 0.2 * full,
                                         .quiet_from = 0.6 * full,
                                         .keep_silence = true,
                                         .overlap = 0.05 * full,
                                         .grain = frame_samples};
}

void steno_offline_info(const struct steno_offline_family *family, struct steno_family_info *out)
{
    out->frame_samples = family->frame_samples;
    out->stream_bytes = (size_t)(family->cuts.full * family->cuts.rate) * sizeof(float);
    out->endpoint = (struct steno_endpoint_rules){5, 0.8, family->cuts.full};
    out->untimed = true;
    out->feeding = STENO_FEED_SEGMENTS;
    out->segments = (struct steno_segments_info){.incremental = true, .cuts = true};
}

void steno_offline_describe(const struct steno_offline_family *family,
                            const struct steno_model_info *i, FILE *out)
{
    fprintf(out, "streaming  no: a chunk of at most %.0f s at once, partials as it grows\n",
            family->cuts.full);
    fprintf(out, "endpoint   %g s of silence after speech, %g s at most\n",
            i->endpoint.silence_after, i->endpoint.longest);
    fprintf(out, "memory     weights %.2f MiB shared, %.2f MiB for each stream\n",
            (double)i->weight_bytes / 1048576, (double)i->stream_bytes / 1048576);
}

/* ---- open, reset, close ---------------------------------------------------------------------- */

steno_status steno_offline_new(void **state, const struct steno_offline_family *family,
                               void *settings, struct steno_family_stream *o, steno_err *err)
{
    struct offline *s = calloc(1, sizeof *s);
    if (!s) {
        family->settings_free(settings);
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    }
    s->family = family;
    s->settings = settings;
    s->speech = *o->speech;
    steno_hypothesis_list_init(&s->piece);
    steno_buf_init(&s->text, TEXT_MAX);
    steno_words_init(&s->words);
    o->cuts = o->whole;
    (void)steno_offline_reset(s, STENO_RESET_RECORDING, NULL);
    *state = s;
    return STENO_OK;
}

void steno_offline_free(void *state)
{
    struct offline *s = state;
    if (!s)
        return;
    steno_speech_cutter_close(s->cutter);
    steno_hypothesis_list_free(&s->piece);
    steno_buf_free(&s->text);
    steno_words_free(&s->words);
    free(s->sections);
    free(s->done);
    free(s->shown);
    s->family->settings_free(s->settings);
    free(s);
}

steno_status steno_offline_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct offline *s = state;
    (void)what;
    (void)err;
    steno_speech_cutter_close(s->cutter);
    s->cutter = NULL;
    s->accepted = 0;
    s->chunk++;
    s->partial = (size_t)(STENO_OFFLINE_FIRST_PARTIAL * s->family->cuts.rate);
    s->ended = false;
    s->n_done = s->n_shown = s->fixed = s->n_chunks = 0;
    s->score = 0;
    steno_hypothesis_list_clear(&s->piece);
    s->labels = (struct steno_labels){0};
    s->language = NULL;
    s->language_probability = 0;
    return STENO_OK;
}

/* ---- audio ----------------------------------------------------------------------------------- */

static steno_status push_common_offline(struct offline *s, const float *pcm, size_t n,
                                        steno_err *err)
{
    steno_status st = STENO_OK;
    if (!s->cutter)
        st = steno_speech_cutter_open(&s->cutter, &s->family->cuts, &s->speech, err);
    if (!st)
        st = steno_speech_cutter_push(s->cutter, pcm, n, err);
    if (!st)
        s->accepted += n;
    return st;
}

static bool has_chunk(const struct offline *s)
{
    struct steno_cutter_chunk c;
    return s->cutter && steno_speech_cutter_peek(s->cutter, &c);
}

steno_status steno_offline_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                  bool *due)
{
    struct offline *s = state;
    steno_status st = STENO_OK;
    if (end > s->accepted && !has_chunk(s))
        st = push_common_offline(s, pcm + (s->accepted - dropped), end - s->accepted, NULL);
    *due = !st && (has_chunk(s) || s->accepted >= s->partial);
    return st;
}

size_t steno_offline_accepted(const void *state)
{
    return ((const struct offline *)state)->accepted;
}

size_t steno_offline_missing(const void *state)
{
    const struct offline *s = state;
    return s->partial > s->accepted ? s->partial - s->accepted : 1;
}

/* The next partial is due when the chunk that grows has a third more. */
static void plan_partial(struct offline *s)
{
    struct steno_cutter_chunk c = {0};
    const size_t first = (size_t)(STENO_OFFLINE_FIRST_PARTIAL * s->family->cuts.rate);
    if (s->cutter)
        steno_speech_cutter_so_far(s->cutter, &c);
    s->partial = s->accepted + (c.n / GROWTH > first && !s->family->resumes ? c.n / GROWTH : first);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static bool add_section(struct offline *s, const struct steno_section *section)
{
    if (STENO_RESERVE(&s->sections, &s->cap_sections, s->n_chunks + 1))
        return false;
    s->sections[s->n_chunks++] = *section;
    return true;
}

static int64_t first_frame(const struct offline *s, const struct steno_cutter_chunk *c)
{
    return c->pieces[0].from / (int64_t)s->family->frame_samples;
}

/* How the tokens of the last chunk go on from those of the chunks before it: `keep` of these stay,
 * and `n` tokens from `from` on follow. */
struct joint {
    size_t keep, n;
    const struct steno_span *from;
};

static struct joint join_common_offline(const struct offline *s, const struct steno_cutter_chunk *c)
{
    const int64_t before = (int64_t)(c->before / s->family->frame_samples);
    const struct steno_hypothesis none = {0}, *h = s->piece.n ? &s->piece.h[0] : &none;
    size_t keep = s->n_done, skip = 0;
    if (before)
        steno_join_spans(s->done, s->n_done, h->spans, h->n, first_frame(s, c) + before, before,
                         s->family->slack, &keep, &skip);
    return (struct joint){keep, h->n - skip, h->n ? h->spans + skip : NULL};
}

static void copy(struct steno_span *to, const struct steno_span *from, size_t n)
{
    if (n)
        memcpy(to, from, n * sizeof *to);
}

/* Show what the chunk that grows has been recognized as, behind the complete ones. */
static steno_status show_partial(struct offline *s, const struct steno_cutter_chunk *c,
                                 steno_err *err)
{
    const struct joint j = join_common_offline(s, c);
    if (STENO_RESERVE(&s->shown, &s->cap_shown, j.keep + j.n))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    copy(s->shown, s->done, j.keep);
    copy(s->shown + j.keep, j.from, j.n);
    s->n_shown = j.keep + j.n;
    return STENO_OK;
}

/* Tokens before the overlap with the next chunk. */
static size_t count_fixed(const struct offline *s, const struct steno_cutter_chunk *c)
{
    const int64_t end = c->pieces[0].from + (int64_t)(c->n - 2 * c->after);
    size_t n = s->n_done;
    while (c->after && n && (s->done[n - 1].last + 1) * (int64_t)s->family->frame_samples > end)
        n--;
    return n;
}

/* What the first chunk that tells it says of the voice holds for the segment. */
static void take_details(struct offline *s, const struct steno_offline_piece *p)
{
    if (!s->language && p->language) {
        s->language = p->language;
        s->language_probability = p->language_probability;
    }
    if (!s->labels.emotion)
        s->labels.emotion = p->labels.emotion;
    if (!s->labels.sound)
        s->labels.sound = p->labels.sound;
}

/* The complete chunk has been recognized: its tokens are a section. */
static steno_status finish_chunk(struct offline *s, const struct steno_cutter_chunk *c,
                                 const struct steno_offline_piece *p, steno_err *err)
{
    const struct joint j = join_common_offline(s, c);
    const struct steno_section section = {.first_token = j.keep,
                                          .n_tokens = j.n,
                                          .labels = p->labels,
                                          .seek = (double)c->pieces[0].from / s->family->cuts.rate};
    if (s->n_chunks) { /* the overlap reaches into the chunk before only */
        struct steno_section *before = &s->sections[s->n_chunks - 1];
        before->n_tokens = j.keep - before->first_token;
    }
    if (STENO_RESERVE(&s->done, &s->cap_done, j.keep + j.n) || !add_section(s, &section))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    copy(s->done + j.keep, j.from, j.n);
    s->n_done = j.keep + j.n;
    s->score += s->piece.n ? s->piece.h[0].score : 0;
    s->fixed = count_fixed(s, c);
    s->chunk++;
    take_details(s, p);
    return steno_speech_cutter_drop(s->cutter, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* What a step does for one stream. */
struct work {
    struct steno_step_item *item;
    struct steno_cutter_chunk chunk;
    bool complete; /* the chunk is */
};

/* Take the rest of the segment in, once. Whether there is a chunk to recognize. */
static bool prepare_common_offline(struct work *w)
{
    struct steno_step_item *item = w->item;
    struct offline *s = item->state;
    item->st = STENO_OK;
    item->more = item->deferred = false;
    if (item->goal == STENO_STEP_FINAL && !s->ended) {
        if (item->n > s->accepted)
            item->st = push_common_offline(s, item->pcm + (s->accepted - item->dropped),
                                           item->n - s->accepted, item->err);
        if (!item->st && s->cutter)
            item->st = steno_speech_cutter_end(s->cutter, item->err);
        s->ended = true;
    }
    if (item->st || !s->cutter)
        return false;
    w->complete = steno_speech_cutter_peek(s->cutter, &w->chunk);
    if (!w->complete)
        steno_speech_cutter_so_far(s->cutter, &w->chunk);
    return w->complete || (item->goal == STENO_STEP_PARTIAL && w->chunk.n);
}

static struct steno_offline_piece piece_of(const struct work *w)
{
    struct offline *s = w->item->state;
    const size_t frame = s->family->frame_samples;
    steno_hypothesis_list_clear(&s->piece);
    return (struct steno_offline_piece){.settings = s->settings,
                                        .pcm = w->chunk.pcm,
                                        .n = w->chunk.n,
                                        .partial = !w->complete,
                                        .chunk = s->chunk,
                                        .frame = first_frame(s, &w->chunk),
                                        .before = (int64_t)(w->chunk.before / frame),
                                        .end = (int64_t)((w->chunk.n - w->chunk.after) / frame),
                                        .out = &s->piece,
                                        .err = w->item->err};
}

/* The piece has been recognized. */
static void finish_common_offline(const struct work *w, const struct steno_offline_piece *p)
{
    struct steno_step_item *item = w->item;
    struct offline *s = item->state;
    item->st = p->st;
    steno_hypothesis_list_finish(&s->piece);
    for (size_t i = 0; i < s->piece.n_spans; i++) {
        s->piece.spans[i].first += first_frame(s, &w->chunk);
        s->piece.spans[i].last += first_frame(s, &w->chunk);
    }
    if (!item->st)
        item->st = w->complete ? finish_chunk(s, &w->chunk, p, item->err)
                               : show_partial(s, &w->chunk, item->err);
    item->more = !item->st && item->goal == STENO_STEP_FINAL && has_chunk(s);
}

void steno_offline_step(void *worker, struct steno_step_item *items, size_t n, int size,
                        struct steno_network_time *spent)
{
    const struct steno_offline_family *f = ((const struct offline *)items[0].state)->family;
    const size_t most = (size_t)(STENO_OFFLINE_TOGETHER * f->cuts.rate);
    struct work works[STENO_BATCH_MAX];
    struct steno_offline_piece pieces[STENO_BATCH_MAX];
    size_t k = 0, samples = 0;
    (void)size;
    (void)spent; /* offline.h */
    for (size_t i = 0; i < n; i++) {
        struct work w = {.item = &items[i]};
        const bool has = prepare_common_offline(&w);
        items[i].deferred = has && k && samples + w.chunk.n > most;
        if (items[i].deferred)
            continue;
        ((struct offline *)items[i].state)->n_shown = 0;
        if (!has)
            continue;
        samples += w.chunk.n;
        pieces[k] = piece_of(&w);
        works[k++] = w;
    }
    if (k)
        f->recognize(worker, pieces, k);
    for (size_t i = 0; i < k; i++)
        finish_common_offline(&works[i], &pieces[i]);
    for (size_t i = 0; i < n; i++)
        if (!items[i].deferred)
            plan_partial(items[i].state);
}

/* ---- hypotheses ------------------------------------------------------------------------------ */

/* Texts and times of the sections, by their tokens. */
static steno_status spell_sections(struct offline *s)
{
    const double frame = (double)s->family->frame_samples / s->family->cuts.rate;
    const char *text;
    steno_buf_reset(&s->text);
    for (size_t i = 0; i < s->n_chunks; i++) {
        struct steno_section *o = &s->sections[i];
        const struct steno_span *t = s->done + o->first_token;
        const char *line;
        steno_status st = steno_words_build(&s->words, s->family->tokens, t, o->n_tokens, 0);
        if (st)
            return st;
        o->start = o->n_tokens ? (double)t[0].first * frame : o->seek;
        o->end = o->n_tokens ? (double)(t[o->n_tokens - 1].last + 1) * frame : o->seek;
        o->score = 0;
        for (size_t k = 0; k < o->n_tokens; k++)
            o->score += (double)t[k].peak;
        line = steno_words_line(&s->words);
        if (i && *line && steno_tokens_flags(s->family->tokens, t[0].token) & STENO_TOKEN_WORD)
            st = steno_buf_puts(&s->text, " "); /* the blank before a text belongs to it */
        if (!st)
            st = steno_buf_add(&s->text, line, strlen(line) + 1);
        if (st)
            return st;
    }
    text = s->text.data;
    for (size_t i = 0; i < s->n_chunks; i++) {
        s->sections[i].text = text;
        text += strlen(text) + 1;
    }
    return STENO_OK;
}

steno_status steno_offline_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable)
{
    struct offline *s = state;
    const bool alone = s->n_chunks == 1 && s->ended;
    steno_status st = STENO_OK;
    const struct steno_hypothesis all = {
        .spans = s->n_shown ? s->shown : s->done,
        .n = s->n_shown ? s->n_shown : s->n_done,
        .score = s->score,
    };
    *n = alone ? s->piece.n : all.n > 0;
    if (*n > max)
        *n = max;
    *stable = s->fixed;
    if (!*n)
        return STENO_OK;
    if (alone)
        memcpy(out, s->piece.h, *n * sizeof *out);
    else
        out[0] = all;
    if (s->n_chunks > 1 && s->ended) {
        st = spell_sections(s);
        out[0].sections = s->sections;
        out[0].n_sections = s->n_chunks;
    }
    out[0].language = s->language;
    out[0].language_probability = s->language_probability;
    out[0].labels = s->labels;
    return st;
}
