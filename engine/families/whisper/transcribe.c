#include "families/whisper/transcribe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/whisper/mel.h"
#include "families/whisper/words.h"

#define WINDOW 3000    /* mel frames: 30 s */
#define FRAME 0.01     /* seconds */
#define STEP 0.02      /* seconds of a timestamp: two frames */
#define CONTEXT 223    /* pieces of what was before, at most */
#define PROMPT_MAX 460 /* pieces: the start, and all that goes before and behind it */
#define MAX_SEGMENTS (STENO_WHISPER_MAX_TEXT + 1) /* of a window */
#define TEXT_MAX ((size_t)1 << 20)

struct steno_whisper_transcribe_options
steno_whisper_transcribe_default(const struct steno_whisper *m)
{
    return (struct steno_whisper_transcribe_options){.decode = steno_whisper_decode_default(m),
                                                     .language = -1,
                                                     .times = true,
                                                     .condition = true,
                                                     .condition_reset = 0.5f};
}

/* A segment while its window is worked on: pieces first .. first + n of the window's. */
struct cut {
    size_t first, n;
    double start, end;
    size_t first_word, n_words; /* of the window's words */
};

struct pieces {
    int32_t *ids;
    size_t n, cap;
};

/* One recording. */
struct job {
    steno_whisper_runner *r;
    const struct steno_whisper *m;
    const struct steno_whisper_transcribe_options *o;
    const struct steno_whisper_sink *sink;
    steno_whisper_search *search;
    steno_whisper_state *state;
    float *mel;
    size_t frames; /* of the recording, and one behind it */
    int language;
    struct pieces context, hotwords, prefix;
    size_t context_from; /* pieces before have been forgotten */
    double last_speech;  /* seconds */
    steno_err *err;

    /* the window */
    size_t seek, size; /* frames */
    int32_t prompt[PROMPT_MAX];
    size_t n_prompt;
    struct steno_whisper_decoded decoded;
    struct cut cut[MAX_SEGMENTS];
    size_t n_cuts;
    bool single_end; /* it ended with one timestamp, not two */
    struct steno_whisper_words words;
    struct steno_whisper_word *out; /* of a segment, [words.n] */
};

/* ---- pieces of text ------------------------------------------------------------------------ */

static steno_status add_pieces(struct job *j, struct pieces *p, const int32_t *ids, size_t n)
{
    if (p->n + n > p->cap) {
        size_t cap = 2 * (p->n + n);
        int32_t *more = realloc(p->ids, cap * sizeof *more);
        if (!more)
            return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
        p->ids = more;
        p->cap = cap;
    }
    if (n)
        memcpy(p->ids + p->n, ids, n * sizeof *ids);
    p->n += n;
    return STENO_OK;
}

/* A blank and text without the white space at its ends, as pieces: at most `most`, from the front.
 */
static steno_status encode(struct job *j, const char *text, size_t most, struct pieces *p)
{
    struct steno_buf b;
    const char *at;
    size_t n, count = 0;
    int32_t *ids = NULL;
    steno_status st;
    if (!text)
        return STENO_OK;
    at = steno_whisper_strip(text, strlen(text), &n);
    steno_buf_init(&b, TEXT_MAX);
    st = steno_buf_puts(&b, " ");
    if (!st)
        st = steno_buf_add(&b, at, n);
    if (st)
        st = steno_fail(j->err, st, "a prompt of %zu bytes", n);
    if (!st && !(ids = malloc((b.len + 1) * sizeof *ids)))
        st = steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_bpe_encode(j->m->bpe, b.data, b.len, ids, b.len, &count, j->err);
    if (!st)
        st = add_pieces(j, p, ids, count < most ? count : most);
    free(ids);
    steno_buf_free(&b);
    return st;
}

/* ---- the prompt ---------------------------------------------------------------------------- */

static void put(struct job *j, const int32_t *ids, size_t n)
{
    if (n > PROMPT_MAX - j->n_prompt)
        n = PROMPT_MAX - j->n_prompt;
    if (n)
        memcpy(j->prompt + j->n_prompt, ids, n * sizeof *ids);
    j->n_prompt += n;
}

static void put_one(struct job *j, int32_t id)
{
    put(j, &id, 1);
}

static void put_start(struct job *j)
{
    put_one(j, j->m->special.sot);
    if (!j->m->special.multilingual)
        return;
    put_one(j, j->m->special.first_language + j->language);
    put_one(j, j->o->translate ? j->m->special.translate : j->m->special.transcribe);
}

/* Hotwords and what was said before share the room: 223 pieces. faster-whisper gives 223 to each,
 * which the decoder may have no positions for. */
static void put_context(struct job *j, bool with_hotwords)
{
    const size_t hot = with_hotwords ? j->hotwords.n : 0;
    size_t n = j->context.n - j->context_from;
    if (!n && !hot)
        return;
    n = n < CONTEXT - hot ? n : CONTEXT - hot;
    put_one(j, j->m->special.sot_prev);
    put(j, j->hotwords.ids, hot);
    put(j, j->context.ids + j->context.n - n, n);
}

static void make_prompt(struct job *j)
{
    const bool with_prefix = j->prefix.n && j->seek == 0;
    j->n_prompt = 0;
    put_context(j, !with_prefix);
    put_start(j);
    if (!j->o->times)
        put_one(j, j->m->special.no_times);
    if (!with_prefix)
        return;
    if (j->o->times)
        put_one(j, j->m->special.first_time);
    put(j, j->prefix.ids, j->prefix.n);
}

/* ---- cutting a window into segments -------------------------------------------------------- */

static bool is_time(const struct job *j, size_t i)
{
    return j->decoded.ids[i] >= j->m->special.first_time;
}

static double seconds_at(const struct job *j, size_t i)
{
    return (double)j->seek * FRAME + STEP * (j->decoded.ids[i] - j->m->special.first_time);
}

static void add_cut(struct job *j, size_t first, size_t end, double from, double to)
{
    if (j->n_cuts < MAX_SEGMENTS)
        j->cut[j->n_cuts++] =
            (struct cut){.first = first, .n = end - first, .start = from, .end = to};
}

/* One segment of all pieces; its end is the last timestamp, or the window's. */
static void cut_whole(struct job *j)
{
    const double from = (double)j->seek * FRAME;
    double length = (double)j->size * FRAME;
    for (size_t i = j->decoded.n; i-- > 0;) {
        if (!is_time(j, i))
            continue;
        if (j->decoded.ids[i] != j->m->special.first_time)
            length = STEP * (j->decoded.ids[i] - j->m->special.first_time);
        break;
    }
    add_cut(j, 0, j->decoded.n, from, from + length);
}

/* Cut where two timestamps follow each other. Returns the frames to go on by. */
static size_t cut_segments(struct job *j)
{
    const size_t n = j->decoded.n;
    size_t last = 0;
    j->n_cuts = 0;
    j->single_end = n >= 2 && !is_time(j, n - 2) && is_time(j, n - 1);
    for (size_t i = 1; i < n; i++)
        if (is_time(j, i) && is_time(j, i - 1)) {
            add_cut(j, last, i, seconds_at(j, last), seconds_at(j, i - 1));
            last = i;
        }
    if (!last) {
        cut_whole(j);
        return j->size;
    }
    if (j->single_end) {
        add_cut(j, last, n, seconds_at(j, last), seconds_at(j, n - 1));
        return j->size;
    }
    return 2 * (size_t)(j->decoded.ids[last - 1] - j->m->special.first_time);
}

/* ---- words --------------------------------------------------------------------------------- */

static double hundredths(double x)
{
    return rint(x * 100) / 100;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static steno_status align_window(struct job *j, const int32_t *ids, size_t n)
{
    struct steno_whisper_alignment a;
    int32_t start[3];
    steno_status st;
    j->n_prompt = 0;
    put_start(j);
    memcpy(start, j->prompt, j->n_prompt * sizeof *start);
    st = steno_whisper_align(j->r, j->state, start, j->n_prompt, ids, n, j->size / 2, &a, j->err);
    if (st)
        return st;
    st = steno_whisper_words_make(j->m, &a, ids, steno_whisper_by_characters(j->language),
                                  &j->words, j->err);
    steno_whisper_alignment_free(&a);
    return st;
}

/* The first word after a pause, or the first two, are not to reach back into it. */
static void shorten_first(struct job *j, struct steno_whisper_timed *w, size_t n)
{
    const double median = j->words.median, longest = j->words.longest;
    if (w[0].end - j->last_speech <= median * 4 ||
        (w[0].end - w[0].start <= longest && (n < 2 || w[1].end - w[0].start <= longest * 2)))
        return;
    if (n > 1 && w[1].end - w[1].start > longest)
        w[0].end = w[1].start = larger(w[1].end / 2, w[1].end - longest);
    w[0].start = larger(0, w[0].end - longest);
}

/* Whichever of segment and word is less likely to hold a pause gives the time. */
static void settle_ends(struct job *j, struct cut *c, struct steno_whisper_timed *first,
                        struct steno_whisper_timed *last)
{
    if (c->start < first->end && c->start - 0.5 > first->start)
        first->start = larger(0, smaller(first->end - j->words.median, c->start));
    else
        c->start = first->start;
    if (c->end > last->start && c->end + 0.5 < last->end)
        last->end = larger(last->start + j->words.median, c->end);
    else
        c->end = last->end;
    j->last_speech = c->end;
}

/* Words of one segment from number *at on; those without spelling are gone afterwards. */
static void take_words(struct job *j, struct cut *c, size_t *at, size_t *to)
{
    struct steno_whisper_timed *w = j->words.word;
    size_t text = 0, taken = 0;
    for (size_t i = c->first; i < c->first + c->n; i++)
        text += j->decoded.ids[i] < j->m->special.eot;
    c->first_word = *to;
    for (; *at < j->words.n && taken < text; ++*at) {
        struct steno_whisper_timed t = w[*at];
        taken += t.n;
        if (!t.bytes)
            continue;
        t.start = hundredths((double)j->seek * FRAME + t.start);
        t.end = hundredths((double)j->seek * FRAME + t.end);
        w[(*to)++] = t;
    }
    c->n_words = *to - c->first_word;
    if (!c->n_words)
        return;
    shorten_first(j, w + c->first_word, c->n_words);
    settle_ends(j, c, w + c->first_word, w + *to - 1);
}

static steno_status time_words(struct job *j)
{
    int32_t ids[STENO_WHISPER_MAX_TEXT];
    size_t n = 0, at = 0, to = 0;
    steno_status st;
    steno_whisper_words_free(&j->words);
    for (size_t i = 0; i < j->decoded.n; i++)
        if (j->decoded.ids[i] < j->m->special.eot)
            ids[n++] = j->decoded.ids[i];
    for (size_t i = 0; i < j->n_cuts; i++)
        j->cut[i].n_words = 0;
    if (!n)
        return STENO_OK;
    st = align_window(j, ids, n);
    for (size_t i = 0; i < j->n_cuts && !st; i++)
        take_words(j, &j->cut[i], &at, &to);
    return st;
}

/* End of the last word; of the last segment where there are none. */
static double end_of_words(const struct job *j)
{
    for (size_t i = j->n_cuts; i-- > 0;)
        if (j->cut[i].n_words)
            return j->words.word[j->cut[i].first_word + j->cut[i].n_words - 1].end;
    return j->cut[j->n_cuts - 1].end;
}

/* The frame behind the window's words, unless a timestamp alone says that there is no more. */
static size_t seek_behind_words(struct job *j, size_t seek)
{
    const double end = end_of_words(j);
    j->last_speech = end;
    return !j->single_end && end > (double)j->seek * FRAME ? (size_t)rint(end * 100) : seek;
}

/* ---- giving out ---------------------------------------------------------------------------- */

static steno_status list_words(struct job *j, const struct cut *c, struct steno_buf *spellings)
{
    const struct steno_whisper_timed *t = j->words.word + c->first_word;
    steno_status st = STENO_OK;
    free(j->out);
    j->out = calloc(c->n_words + 1, sizeof *j->out);
    for (size_t i = 0; i < c->n_words && !st && j->out; i++) {
        st = steno_buf_add(spellings, j->words.text.data + t[i].text, t[i].bytes);
        if (!st)
            st = steno_buf_add(spellings, "", 1);
    }
    if (st || !j->out)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0, at = 0; i < c->n_words; at += t[i++].bytes + 1)
        j->out[i] = (struct steno_whisper_word){spellings->data + at, t[i].start, t[i].end,
                                                t[i].probability};
    return STENO_OK;
}

static steno_status give(struct job *j, const struct cut *c, const char *text)
{
    struct steno_whisper_segment s = {.seek = j->seek,
                                      .start = c->start,
                                      .end = c->end,
                                      .text = text,
                                      .ids = j->decoded.ids + c->first,
                                      .n_ids = c->n,
                                      .n_words = c->n_words,
                                      .window = &j->decoded};
    struct steno_buf spellings;
    steno_status st = STENO_OK;
    steno_buf_init(&spellings, TEXT_MAX);
    if (c->n_words)
        st = list_words(j, c, &spellings);
    s.words = j->out;
    if (!st)
        st = j->sink->segment(j->sink->arg, &s);
    steno_buf_free(&spellings);
    return st;
}

/* Segments with a text and a length. */
static steno_status give_all(struct job *j)
{
    struct steno_buf text;
    steno_status st = STENO_OK;
    steno_buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < j->n_cuts && !st; i++) {
        const struct cut *c = &j->cut[i];
        size_t n;
        steno_buf_cut(&text, 0);
        st = steno_bpe_text(j->m->bpe, j->decoded.ids + c->first, c->n, &text);
        if (st) {
            st = steno_fail(j->err, st, "out of memory for text");
            break;
        }
        (void)steno_whisper_strip(text.data ? text.data : "", text.len, &n);
        if (!n || c->start == c->end)
            continue;
        st = add_pieces(j, &j->context, j->decoded.ids + c->first, c->n);
        if (!st)
            st = give(j, c, text.data);
    }
    steno_buf_free(&text);
    return st;
}

/* ---- windows ------------------------------------------------------------------------------- */

static steno_status encode_window(struct job *j, size_t seek, size_t size)
{
    const struct steno_whisper_window w = {
        .mel = j->mel, .from = seek, .n = size, .rows = (size_t)j->m->dims.audio_ctx};
    return steno_whisper_encode(j->r, j->state, &w, j->err);
}

static steno_status decode_window(struct job *j)
{
    make_prompt(j);
    return steno_whisper_decode(j->r, j->search, j->state, &j->o->decode, j->prompt, j->n_prompt,
                                &j->decoded, j->err);
}

static void forget_context(struct job *j)
{
    if (!j->o->condition || j->decoded.temperature > j->o->condition_reset)
        j->context_from = j->context.n;
}

static steno_status one_window(struct job *j, size_t *next)
{
    steno_status st = encode_window(j, j->seek, j->size);
    if (!st)
        st = decode_window(j);
    if (st)
        return st;
    if (j->sink->window)
        j->sink->window(j->sink->arg, j->prompt, j->n_prompt, &j->decoded);
    if (steno_whisper_decoded_silent(&j->o->decode, &j->decoded)) {
        *next = j->seek + j->size;
        return STENO_OK;
    }
    *next = j->seek + cut_segments(j);
    if (j->o->words) {
        st = time_words(j);
        *next = seek_behind_words(j, *next);
    }
    if (!st)
        st = give_all(j);
    forget_context(j);
    return st;
}

static steno_status all_windows(struct job *j)
{
    steno_status st = STENO_OK;
    while (j->seek < j->frames && !st) {
        size_t next = j->frames;
        j->size = j->frames - j->seek < WINDOW ? j->frames - j->seek : WINDOW;
        st = one_window(j, &next);
        j->seek = next > j->seek ? next : j->seek + j->size; /* never the same window again */
    }
    return st;
}

/* ---- languages ----------------------------------------------------------------------------- */

/* What the first window is in. */
static steno_status detect(struct job *j, struct steno_whisper_summary *out)
{
    const size_t size = j->frames + 1 < WINDOW ? j->frames + 1 : WINDOW;
    float p[128];
    steno_status st = encode_window(j, 0, size);
    if (!st)
        st = steno_whisper_languages(j->r, j->state, p, j->err);
    if (st)
        return st;
    j->language = 0;
    for (int i = 1; i < j->m->special.n_languages; i++)
        j->language = p[i] > p[j->language] ? i : j->language;
    out->language_probability = p[j->language];
    return STENO_OK;
}

static steno_status choose_language(struct job *j, struct steno_whisper_summary *out)
{
    const struct steno_whisper_specials *s = &j->m->special;
    j->language = j->o->language;
    out->language_probability = 1;
    if (j->language >= s->n_languages || (!s->multilingual && j->language > 0))
        return steno_fail(j->err, STENO_ERR_INVAL, "language '%s': the model knows %s",
                          steno_whisper_language_code(j->language),
                          s->multilingual ? "99 others" : "English alone");
    if (!s->multilingual && j->o->translate)
        return steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                          "a model for English alone translates nothing");
    if (!s->multilingual)
        j->language = 0;
    return j->language < 0 ? detect(j, out) : STENO_OK;
}

/* ---- recordings ---------------------------------------------------------------------------- */

static steno_status prepare(struct job *j, const float *pcm, size_t n)
{
    steno_status st = steno_whisper_search_open(&j->search, j->m, j->err);
    if (!st)
        st = steno_whisper_state_open(&j->state, j->m, j->err);
    if (!st)
        st = steno_whisper_logmel(pcm, n, (size_t)j->m->dims.mels, &j->mel, &j->frames, j->err);
    if (!st && j->o->words)
        steno_whisper_state_keep_keys(j->state);
    if (!st)
        st = encode(j, j->o->hotwords, CONTEXT, &j->hotwords);
    if (!st)
        st = encode(j, j->o->prefix, CONTEXT, &j->prefix);
    return st ? st : encode(j, j->o->prompt, TEXT_MAX, &j->context);
}

static void release(struct job *j)
{
    steno_whisper_search_close(j->search);
    steno_whisper_state_close(j->state);
    steno_whisper_words_free(&j->words);
    free(j->mel);
    free(j->context.ids);
    free(j->hotwords.ids);
    free(j->prefix.ids);
    free(j->out);
    free(j);
}

steno_status steno_whisper_transcribe(steno_whisper_runner *r, const float *pcm, size_t n,
                                      const struct steno_whisper_transcribe_options *opt,
                                      const struct steno_whisper_sink *sink,
                                      struct steno_whisper_summary *out, steno_err *err)
{
    struct steno_whisper_transcribe_options o = *opt;
    struct job *j = calloc(1, sizeof *j);
    steno_status st;
    if (!j)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    o.decode.search.rules.times = o.times;
    j->r = r;
    j->m = steno_whisper_runner_model(r);
    j->o = &o;
    j->sink = sink;
    j->err = err;
    st = prepare(j, pcm, n);
    if (!st)
        st = choose_language(j, out);
    if (!st)
        st = all_windows(j);
    out->language = j->language;
    out->seconds = (double)n / STENO_WHISPER_RATE;
    release(j);
    return st;
}
