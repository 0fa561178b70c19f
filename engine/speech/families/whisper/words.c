#include "speech/families/whisper/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "speech/families/whisper/decode.h"
#include "speech/text/language.h"
#include "speech/text/tokens.h"

#define SENTENCE_END ".。!！?？"
#define JOINS_NEXT "\"'“¿([{-"
#define JOINS_LAST "\"'.。,，!！?？:：”)]}、"
#define PUNCTUATION "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" /* Python's string.punctuation */
#define LONGEST_MEDIAN 0.7                               /* seconds */
#define COLUMN 0.02                                      /* seconds */
#define REPLACEMENT 0xFFFD
#define TEXT_MAX ((size_t)1 << 20)

bool steno_whisper_by_characters(int language)
{
    static const char *const all[] = {"zh", "ja", "th", "lo", "my", "yue"};
    const char *code = steno_language_code_at(language);
    for (size_t i = 0; code && i < sizeof all / sizeof *all; i++)
        if (!strcmp(code, all[i]))
            return true;
    return false;
}

/* Python's `part in all`. */
static bool within(const char *part, size_t n, const char *all)
{
    for (const char *p = all; strlen(p) >= n; p++) {
        if (!memcmp(p, part, n))
            return true;
        if (!*p)
            break;
    }
    return false;
}

/* ---- pieces to subwords -------------------------------------------------------------------- */

struct splitter {
    const struct steno_whisper *m;
    const int32_t *ids;
    struct steno_buf part;  /* the text of the pieces so far */
    utf8proc_int32_t *full; /* characters of the whole text */
    size_t n_full, at;      /* `at` of them are in subwords */
    struct steno_whisper_words *w;
};

static size_t characters(const char *text, size_t n, utf8proc_int32_t *out)
{
    size_t count = 0;
    for (size_t at = 0; at < n; count++) {
        utf8proc_int32_t c;
        at += steno_utf8_next(text + at, n - at, &c);
        if (out)
            out[count] = c;
    }
    return count;
}

/* Number of the first character that is replaced; the count if none is. */
static size_t first_replaced(const char *text, size_t n)
{
    for (size_t at = 0; at + 3 <= n; at++)
        if (!memcmp(text + at, "\xEF\xBF\xBD", 3))
            return characters(text, at, NULL);
    return characters(text, n, NULL);
}

/* Pieces from..to make whole characters, or such as are broken in the whole text too. */
static steno_status is_whole(struct splitter *s, size_t from, size_t to, bool *whole)
{
    size_t first, count;
    steno_status st;
    steno_buf_cut(&s->part, 0);
    st = steno_bpe_text(s->m->bpe, s->ids + from, to - from, &s->part);
    if (st)
        return st;
    count = characters(s->part.data ? s->part.data : "", s->part.len, NULL);
    first = first_replaced(s->part.data ? s->part.data : "", s->part.len);
    *whole = first == count || (s->at + first < s->n_full && s->full[s->at + first] == REPLACEMENT);
    if (*whole)
        s->at += count;
    return STENO_OK;
}

/* The first character of text [n], or the last. */
static bool is_cjk(const char *text, size_t n, bool last)
{
    utf8proc_int32_t c = 0;
    size_t at = last && n ? n - 1 : 0;
    while (at && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    return n &&
           utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c) >
               0 &&
           steno_tokens_is_cjk(c);
}

/* A subword begins a word, or goes on with the last one. Within a language that writes blanks, too,
 * words of one that does not are split (faster-whisper makes one word of "today?今天"). */
static bool begins_word(const struct splitter *s, bool by_characters)
{
    const char *text = s->part.data ? s->part.data : "", *p;
    size_t n;
    if (by_characters || !s->w->n || (s->part.len && *text == ' ') ||
        is_cjk(text, s->part.len, false) || is_cjk(s->w->text.data, s->w->text.len, true))
        return true;
    p = steno_whisper_strip(text, s->part.len, &n);
    return within(p, n, PUNCTUATION);
}

static steno_status add_subword(struct splitter *s, size_t n, bool by_characters)
{
    struct steno_whisper_words *w = s->w;
    struct steno_whisper_timed *t;
    if (begins_word(s, by_characters))
        w->word[w->n++] = (struct steno_whisper_timed){.text = w->text.len};
    t = &w->word[w->n - 1];
    t->n += n;
    t->bytes += s->part.len;
    return steno_buf_add(&w->text, s->part.data ? s->part.data : "", s->part.len);
}

static steno_status split_whisper_words(struct splitter *s, size_t n, bool by_characters)
{
    steno_status st = STENO_OK;
    for (size_t from = 0, to = 1; to <= n && !st; to++) {
        bool whole;
        st = is_whole(s, from, to, &whole);
        if (!st && whole) {
            st = add_subword(s, to - from, by_characters);
            from = to;
        }
    }
    return st;
}

static steno_status read_full(struct splitter *s, size_t n)
{
    steno_status st = steno_bpe_text(s->m->bpe, s->ids, n, &s->part);
    if (st)
        return st;
    s->full = malloc((s->part.len + 1) * sizeof *s->full);
    if (!s->full)
        return STENO_ERR_NOMEM;
    s->n_full = characters(s->part.data ? s->part.data : "", s->part.len, s->full);
    return STENO_OK;
}

/* ---- times --------------------------------------------------------------------------------- */

static void set_times(struct steno_whisper_words *w, const struct steno_whisper_alignment *a)
{
    size_t at = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct steno_whisper_timed *t = &w->word[i];
        double sum = 0;
        for (size_t p = at; p < at + t->n; p++)
            sum += (double)a->probability[p];
        t->start = a->jump[at] * COLUMN;
        at += t->n;
        t->end = a->jump[at] * COLUMN;
        t->probability = (float)(sum / (double)t->n);
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static steno_status measure(struct steno_whisper_words *w)
{
    double *d = malloc((w->n + 1) * sizeof *d);
    size_t n = 0;
    if (!d)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < w->n; i++)
        if (w->word[i].end != w->word[i].start)
            d[n++] = w->word[i].end - w->word[i].start;
    qsort(d, n, sizeof *d, ascending);
    w->median = !n ? 0 : n % 2 ? d[n / 2] : (d[n / 2 - 1] + d[n / 2]) / 2;
    w->median = w->median < LONGEST_MEDIAN ? w->median : LONGEST_MEDIAN;
    w->longest = 2 * w->median;
    free(d);
    return STENO_OK;
}

static bool ends_sentence(const struct steno_whisper_words *w, size_t i)
{
    return within(w->text.data + w->word[i].text, w->word[i].bytes, SENTENCE_END);
}

/* The mark at the end of a sentence, and what follows it, take in the pause between them. */
static void cut_pauses(struct steno_whisper_words *w)
{
    for (size_t i = 1; i < w->n && w->median > 0; i++) {
        struct steno_whisper_timed *t = &w->word[i];
        if (t->end - t->start <= w->longest)
            continue;
        if (ends_sentence(w, i))
            t->end = t->start + w->longest;
        else if (ends_sentence(w, i - 1))
            t->start = t->end - w->longest;
    }
}

/* ---- punctuation --------------------------------------------------------------------------- */

/* Word i takes in its neighbour's spelling and pieces; they lie side by side in the text. */
static void join_whisper_words(struct steno_whisper_words *w, size_t first, size_t second,
                               size_t keep)
{
    struct steno_whisper_timed *a = &w->word[first], *b = &w->word[second];
    struct steno_whisper_timed *k = &w->word[keep], *gone = keep == first ? b : a;
    const size_t text = a->bytes ? a->text : b->text, bytes = a->bytes + b->bytes, n = a->n + b->n;
    k->text = text;
    k->bytes = bytes;
    k->n = n;
    gone->bytes = 0;
    gone->n = 0;
}

static void join_to_next(struct steno_whisper_words *w)
{
    for (size_t i = w->n > 1 ? w->n - 1 : 0, next = i; i-- > 0;) {
        const char *text = w->text.data + w->word[i].text, *p;
        size_t n;
        p = steno_whisper_strip(text, w->word[i].bytes, &n);
        if (w->word[i].bytes && *text == ' ' && within(p, n, JOINS_NEXT))
            join_whisper_words(w, i, next, next);
        else
            next = i;
    }
}

static void join_to_last(struct steno_whisper_words *w)
{
    for (size_t last = 0, i = 1; i < w->n; i++) {
        const struct steno_whisper_timed *t = &w->word[i], *l = &w->word[last];
        const bool blank = l->bytes && w->text.data[l->text + l->bytes - 1] == ' ';
        if (!blank && within(w->text.data + t->text, t->bytes, JOINS_LAST))
            join_whisper_words(w, last, i, last);
        else
            last = i;
    }
}

/* ---- order --------------------------------------------------------------------------------- */

void steno_whisper_words_order(struct steno_whisper_timed *w, size_t n, double from)
{
    double end = from;
    for (size_t i = 0; i < n; i++)
        end = fmax(end, w[i].end);
    for (size_t i = 0; i < n; from = w[i++].end) {
        const double latest = end - COLUMN * (double)(n - i); /* leaves a column for each */
        w[i].start = fmax(from, fmin(w[i].start, latest));
        w[i].end = fmin(fmax(w[i].end, w[i].start + COLUMN), latest + COLUMN);
        w[i].end = fmax(w[i].end, w[i].start);
    }
}

steno_status steno_whisper_words_make(const struct steno_whisper *m,
                                      const struct steno_whisper_alignment *a, const int32_t *ids,
                                      bool by_characters, struct steno_whisper_words *out,
                                      steno_err *err)
{
    struct splitter s = {.m = m, .ids = ids, .w = out};
    steno_status st;
    *out = (struct steno_whisper_words){0};
    steno_buf_init(&out->text, TEXT_MAX);
    steno_buf_init(&s.part, TEXT_MAX);
    out->word = calloc(a->n + 1, sizeof *out->word);
    st = out->word ? read_full(&s, a->n) : STENO_ERR_NOMEM;
    if (!st)
        st = split_whisper_words(&s, a->n, by_characters);
    if (!st) {
        set_times(out, a);
        st = measure(out);
    }
    if (!st) {
        cut_pauses(out);
        join_to_next(out);
        join_to_last(out);
    } else {
        st = steno_fail(err, st, "out of memory for the times of words");
        steno_whisper_words_free(out);
    }
    free(s.full);
    steno_buf_free(&s.part);
    return st;
}

void steno_whisper_words_free(struct steno_whisper_words *w)
{
    free(w->word);
    steno_buf_free(&w->text);
    *w = (struct steno_whisper_words){0};
}
