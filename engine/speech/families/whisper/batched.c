#include "speech/families/whisper/batched.h"

#include <stdlib.h>
#include <string.h>

#include "speech/families/common/speech_cutter.h"
#include "speech/families/whisper/model.h"

#define LONG_PAUSE 1.0 /* s between words: a segment ends there */

/* A copy of a segment; ids, texts and words lie behind it. */
struct said {
    struct said *next;
    struct steno_whisper_segment of;
    struct steno_whisper_decoded window;
};

struct chunk {
    steno_whisper_recording *rec; /* NULL: it is done; its segments wait for earlier ones */
    struct steno_cutter_piece piece[STENO_CUTTER_MAX_PIECES];
    size_t n_pieces;
    struct said *first, **last;
};

#define QUEUE (4 * STENO_WHISPER_MOST_CHUNKS) /* done chunks wait for an earlier one here */

struct steno_whisper_batched {
    const struct steno_whisper *m;
    struct steno_whisper_recording_options o;
    size_t width;
    steno_speech_cutter *cutter;
    struct chunk chunk[QUEUE];                                /* [n], earliest first */
    size_t n, active;                                         /* active: chunks that are not done */
    steno_whisper_recording *idle[STENO_WHISPER_MOST_CHUNKS]; /* [n_idle] */
    size_t n_idle;
    size_t since; /* samples since the last step */
    int language;
    float probability;
    bool ended;
    struct said *given; /* what next gave */
};

/* ---- opening ------------------------------------------------------------------------------- */

steno_status steno_whisper_batched_open(steno_whisper_batched **out, const struct steno_whisper *m,
                                        const struct steno_whisper_recording_options *o,
                                        const struct steno_speech_source *speech, steno_err *err)
{
    /* Chunks as of faster-whisper's batched pipeline. */
    static const struct steno_cutter_options cuts = {
        .rate = STENO_WHISPER_RATE, .full = 30, .late = 22, .earliest = 10, .quiet_from = 20};
    steno_whisper_batched *b = calloc(1, sizeof *b);
    steno_status st;
    if (!b)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    b->m = m;
    b->o = *o;
    b->o.condition = b->o.times = false; /* words tell the times */
    b->o.words = b->o.recover = true;
    b->o.prefix = NULL;             /* every chunk would begin with it */
    b->o.hallucination_silence = 0; /* chunks have no long silence */
    b->width = o->batched < STENO_WHISPER_MOST_CHUNKS ? o->batched : STENO_WHISPER_MOST_CHUNKS;
    b->language = o->language;
    st = steno_speech_cutter_open(&b->cutter, &cuts, speech, err);
    if (!st) /* an option that does not fit is told now */
        st = steno_whisper_recording_open(&b->idle[0], m, &b->o, err);
    b->n_idle = !st;
    if (st)
        steno_whisper_batched_close(b);
    else
        *out = b;
    return st;
}

static void free_said(struct said *s)
{
    while (s) {
        struct said *next = s->next;
        free(s);
        s = next;
    }
}

void steno_whisper_batched_close(steno_whisper_batched *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++) {
        steno_whisper_recording_close(b->chunk[i].rec);
        free_said(b->chunk[i].first);
    }
    for (size_t i = 0; i < b->n_idle; i++)
        steno_whisper_recording_close(b->idle[i]);
    steno_speech_cutter_close(b->cutter);
    free_said(b->given);
    free(b);
}

/* ---- chunks -------------------------------------------------------------------------------- */

/* Until the language is known the first chunk is alone, as the others need it. */
static size_t room(const steno_whisper_batched *b)
{
    return b->language < 0 ? 1 : b->width;
}

static steno_status take_recording(steno_whisper_batched *b, steno_whisper_recording **rec,
                                   steno_err *err)
{
    steno_status st;
    if (b->n_idle) {
        *rec = b->idle[--b->n_idle];
        st = steno_whisper_recording_restart(*rec, b->language, err);
        if (st)
            b->n_idle++;
        return st;
    }
    b->o.language = b->language;
    return steno_whisper_recording_open(rec, b->m, &b->o, err);
}

static steno_status start_chunk(steno_whisper_batched *b, const struct steno_cutter_chunk *from,
                                steno_err *err)
{
    struct chunk *c = &b->chunk[b->n];
    steno_status st;
    memset(c, 0, sizeof *c);
    st = take_recording(b, &c->rec, err);
    if (st)
        return st;
    b->n++;
    b->active++;
    c->last = &c->first;
    c->n_pieces = from->n_pieces;
    memcpy(c->piece, from->pieces, c->n_pieces * sizeof *c->piece);
    st = steno_whisper_recording_push(c->rec, from->pcm, from->n, err);
    return st ? st : steno_whisper_recording_end(c->rec, err);
}

/* Start complete chunks as long as there is room for them. */
static steno_status start_complete(steno_whisper_batched *b, steno_err *err)
{
    struct steno_cutter_chunk from;
    steno_status st = STENO_OK;
    while (!st && b->active < room(b) && b->n < QUEUE &&
           steno_speech_cutter_peek(b->cutter, &from)) {
        st = start_chunk(b, &from, err);
        if (!st)
            st = steno_speech_cutter_drop(b->cutter, err);
    }
    return st;
}

steno_status steno_whisper_batched_push(steno_whisper_batched *b, const float *pcm, size_t n,
                                        steno_err *err)
{
    steno_status st = steno_speech_cutter_push(b->cutter, pcm, n, err);
    b->since += n;
    return st ? st : start_complete(b, err);
}

steno_status steno_whisper_batched_end(steno_whisper_batched *b, steno_err *err)
{
    steno_status st = steno_speech_cutter_end(b->cutter, err);
    b->ended = true;
    return st ? st : start_complete(b, err);
}

/* ---- steps --------------------------------------------------------------------------------- */

bool steno_whisper_batched_due(const steno_whisper_batched *b)
{
    return b->active &&
           (b->ended || b->active == room(b) || b->n == QUEUE || b->since >= STENO_WHISPER_WINDOW);
}

bool steno_whisper_batched_busy(const steno_whisper_batched *b)
{
    return b->active > 0;
}

size_t steno_whisper_batched_steps(steno_whisper_batched *b, steno_whisper_recording **out,
                                   size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n && n < max; i++)
        if (b->chunk[i].rec)
            out[n++] = b->chunk[i].rec;
    return n;
}

/* ---- segments ------------------------------------------------------------------------------ */

/* Seconds that times of the chunk are off at this time of it. */
static double offset(const struct chunk *c, double at)
{
    const size_t sample = at > 0 ? (size_t)(at * STENO_WHISPER_RATE) : 0;
    return (double)(steno_cutter_time(c->piece, c->n_pieces, sample, false) - (int64_t)sample) /
           STENO_WHISPER_RATE;
}

/* A word is in the piece that its middle is in. */
static void place_words(const struct chunk *c, struct steno_whisper_word *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double by = offset(c, (w[i].start + w[i].end) / 2);
        w[i].start += by;
        w[i].end += by;
    }
}

static void place_segment(const struct chunk *c, struct steno_whisper_segment *g)
{
    const size_t end = (size_t)(g->end * STENO_WHISPER_RATE);
    g->start += offset(c, g->start);
    g->end = (double)steno_cutter_time(c->piece, c->n_pieces, end, true) / STENO_WHISPER_RATE;
    g->seek = (size_t)steno_cutter_time(c->piece, c->n_pieces, g->seek * STENO_WHISPER_HOP, false) /
              STENO_WHISPER_HOP;
    if (g->n_words) {
        g->start = g->words[0].start;
        g->end = g->words[g->n_words - 1].end;
    }
}

static char *put_text(char *to, const char *text, const char **out)
{
    const size_t n = strlen(text) + 1;
    *out = memcpy(to, text, n);
    return to + n;
}

static size_t size_of(const struct steno_whisper_segment *g)
{
    size_t n = sizeof(struct said) + g->n_words * sizeof *g->words +
               g->n_ids * (sizeof *g->ids + sizeof *g->log_probs) + strlen(g->text) + 1;
    for (size_t i = 0; i < g->n_words; i++)
        n += strlen(g->words[i].text) + 1;
    return n;
}

static struct said *copy_segment(const struct steno_whisper_segment *g)
{
    struct said *s = malloc(size_of(g));
    struct steno_whisper_word *words;
    float *log_probs;
    int32_t *ids;
    char *text;
    if (!s)
        return NULL;
    s->next = NULL;
    s->of = *g;
    words = (struct steno_whisper_word *)(s + 1);
    log_probs = (float *)(words + g->n_words);
    ids = (int32_t *)(log_probs + g->n_ids);
    text = put_text((char *)(ids + g->n_ids), g->text, &s->of.text);
    for (size_t i = 0; i < g->n_words; i++) {
        words[i] = g->words[i];
        text = put_text(text, g->words[i].text, &words[i].text);
    }
    memcpy(log_probs, g->log_probs, g->n_ids * sizeof *log_probs);
    memcpy(ids, g->ids, g->n_ids * sizeof *ids);
    s->of.words = words;
    s->of.log_probs = log_probs;
    s->of.ids = ids;
    return s;
}

static bool ends_sentence(const char *word)
{
    static const char *const marks[] = {".",           "?", "!", "\xE3\x80\x82", "\xEF\xBC\x9F",
                                        "\xEF\xBC\x81"};
    const size_t n = strlen(word);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t m = strlen(marks[i]);
        if (n > m && !strcmp(word + n - m, marks[i]))
            return true;
    }
    return false;
}

/* Number of words of the sentence that begins with word `from`: to its mark, or to a pause. */
static size_t sentence(const struct steno_whisper_segment *g, size_t from)
{
    size_t i = from;
    while (i + 1 < g->n_words && !ends_sentence(g->words[i].text) &&
           g->words[i + 1].start - g->words[i].end < LONG_PAUSE)
        i++;
    return i + 1 - from;
}

static steno_status keep_segment(struct chunk *c, const struct steno_whisper_segment *g,
                                 steno_err *err)
{
    struct said *s = copy_segment(g);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a segment");
    s->window = *steno_whisper_recording_window(c->rec, NULL, NULL);
    place_words(c, (struct steno_whisper_word *)(s + 1), s->of.n_words);
    place_segment(c, &s->of);
    *c->last = s;
    c->last = &s->next;
    return STENO_OK;
}

/* The text of words [n]; returns how many pieces they are made of. */
static size_t join_words(char *text, const struct steno_whisper_word *w, size_t n)
{
    size_t ids = 0;
    *text = '\0';
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(w[i].text) + 1;
        memcpy(text, w[i].text, bytes);
        text += bytes - 1;
        ids += w[i].n_ids;
    }
    return ids;
}

static size_t words_bytes(const struct steno_whisper_segment *g)
{
    size_t n = 1;
    for (size_t i = 0; i < g->n_words; i++)
        n += strlen(g->words[i].text);
    return n;
}

/* Sentence after sentence of the segment of a window. `text` is room for its text. */
static steno_status keep_sentences(struct chunk *c, const struct steno_whisper_segment *g,
                                   char *text, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t w = 0, id = 0, n; w < g->n_words && !st; w += n) {
        struct steno_whisper_segment part = *g;
        n = sentence(g, w);
        part.words += w;
        part.n_words = n;
        part.ids += id;
        part.log_probs += id;
        part.n_ids = join_words(text, part.words, n);
        part.text = text;
        if (w + n == g->n_words)
            part.n_ids = g->n_ids - id;
        id += part.n_ids;
        st = keep_segment(c, &part, err);
    }
    return st;
}

static steno_status take_segments(struct chunk *c, steno_err *err)
{
    struct steno_whisper_segment g;
    steno_status st;
    while (!(st = steno_whisper_recording_next(c->rec, &g))) {
        char *text = malloc(words_bytes(&g));
        if (!text)
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a segment");
        st = g.n_words ? keep_sentences(c, &g, text, err) : keep_segment(c, &g, err);
        free(text);
        if (st)
            return st;
    }
    return st == STENO_NEED_MORE ? STENO_OK
                                 : steno_fail(err, st, "segment: %s", steno_status_info(st)->name);
}

static void drop_first(steno_whisper_batched *b)
{
    memmove(b->chunk, b->chunk + 1, --b->n * sizeof *b->chunk);
    for (size_t i = 0; i < b->n; i++)
        if (!b->chunk[i].first) /* it pointed into the place that the chunk has left */
            b->chunk[i].last = &b->chunk[i].first;
}

/* The recording serves another chunk. */
static void finish_chunk(steno_whisper_batched *b, struct chunk *c)
{
    b->idle[b->n_idle++] = c->rec;
    c->rec = NULL;
    b->active--;
}

static bool first_is_read(const steno_whisper_batched *b)
{
    return b->n && !b->chunk[0].rec && !b->chunk[0].first;
}

steno_status steno_whisper_batched_stepped(steno_whisper_batched *b, steno_err *err)
{
    b->since = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct chunk *c = &b->chunk[i];
        steno_status st = c->rec ? take_segments(c, err) : STENO_OK;
        if (st)
            return st;
        if (b->language < 0 && c->rec)
            b->language = steno_whisper_recording_language(c->rec, &b->probability);
        if (c->rec && !steno_whisper_recording_ready(c->rec))
            finish_chunk(b, c);
    }
    while (first_is_read(b))
        drop_first(b);
    return start_complete(b, err);
}

steno_status steno_whisper_batched_next(steno_whisper_batched *b, struct steno_whisper_segment *out,
                                        const struct steno_whisper_decoded **window)
{
    struct chunk *c = b->chunk;
    free_said(b->given);
    b->given = NULL;
    while (first_is_read(b))
        drop_first(b);
    if (!b->n || !c->first)
        return STENO_NEED_MORE;
    b->given = c->first;
    c->first = c->first->next;
    if (!c->first)
        c->last = &c->first;
    b->given->next = NULL;
    *out = b->given->of;
    *window = &b->given->window;
    return STENO_OK;
}

size_t steno_whisper_batched_waiting(const steno_whisper_batched *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        for (const struct said *s = b->chunk[i].first; s; s = s->next)
            n++;
        if (b->chunk[i].rec)
            break;
    }
    return n;
}

int steno_whisper_batched_language(const steno_whisper_batched *b, float *probability)
{
    *probability = b->probability;
    return b->language;
}
