#include "speech/families/whisper/tokens.h"

#include <stdlib.h>
#include <string.h>

/* ---- special pieces ------------------------------------------------------------------------ */

#define ENGLISH 51864 /* pieces of the .en models; 51865 with 99 languages, 51866 with 100 */
#define MOST_LANGUAGES 100

/* From the end of text on they stand in one order everywhere. */
static steno_status use_marks(int64_t vocab, const struct steno_whisper_marks *said,
                              const char *file, struct steno_whisper_specials *s, steno_err *err)
{
    const int64_t languages = said->translate - said->sot - 1;
    if (said->sot != said->eot + 1 || languages < 1 || languages > MOST_LANGUAGES ||
        said->translate + 6 + STENO_WHISPER_TIMES > vocab)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: %lld pieces, of them <|endoftext|> %lld, <|startoftranscript|> %lld, "
            "<|translate|> %lld: not in the order of Whisper's vocabularies",
            file, (long long)vocab, (long long)said->eot, (long long)said->sot,
            (long long)said->translate);
    s->eot = (int32_t)said->eot;
    s->n_languages = (int32_t)languages;
    return STENO_OK;
}

steno_status steno_whisper_specials(int64_t vocab, const struct steno_whisper_marks *said,
                                    const char *file, struct steno_whisper_specials *out,
                                    steno_err *err)
{
    struct steno_whisper_specials s = {.multilingual = vocab != ENGLISH};
    const bool named = said->translate != 0;
    if (vocab < ENGLISH && !named)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: scores for %lld pieces of text, Whisper's vocabularies have %d and more", file,
            (long long)vocab, ENGLISH);
    s.n_languages = vocab == ENGLISH + 2 ? MOST_LANGUAGES : 99;
    s.eot = 50256 + s.multilingual;
    if (named) {
        const steno_status st = use_marks(vocab, said, file, &s, err);
        if (st)
            return st;
    }
    s.sot = s.eot + 1;
    s.first_language = s.sot + 1;
    s.translate = s.first_language + s.n_languages;
    s.transcribe = s.translate + 1;
    s.sot_lm = s.translate + 2;
    s.sot_prev = s.translate + 3;
    s.no_speech = s.translate + 4;
    s.no_times = s.translate + 5;
    s.first_time = s.translate + 6;
    *out = s;
    return STENO_OK;
}

/* ---- what is not sampled ------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

#define MOST_SUPPRESSED 250 /* of the model's own rule */

struct list {
    const steno_bpe *b;
    int32_t *ids;
    size_t n, max;
    steno_status st;
    steno_err *err;
};

/* text with and without a blank before it, where that is one piece, or its first piece (first). */
static void suppress(struct list *l, const char *text, bool first)
{
    char with[16] = " ";
    const char *forms[2] = {text, with};
    strncat(with, text, sizeof with - 2);
    for (int i = 0; i < 2 && !l->st; i++) {
        int32_t id[8];
        size_t n;
        l->st = steno_bpe_encode(l->b, forms[i], strlen(forms[i]), id, 8, &n, l->err);
        if (!l->st && n && (first || n == 1) && l->n < l->max)
            l->ids[l->n++] = id[0];
    }
}

/* One piece alone: the dash and the apostrophe are words' own inside them. */
static void suppress_piece(struct list *l, const char *text)
{
    int32_t id[8];
    size_t n = 0;
    if (!l->st)
        l->st = steno_bpe_encode(l->b, text, strlen(text), id, 8, &n, l->err);
    if (!l->st && n && l->n < l->max)
        l->ids[l->n++] = id[0];
}

/* whisper/tokenizer.py, Tokenizer.non_speech_tokens. */
static void suppress_all(struct list *l)
{
    static const char *const whole[] = {
        "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
        "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "「",
        "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
        "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
    static const char *const first[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
    suppress_piece(l, " -");
    suppress_piece(l, " '");
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        suppress(l, whole[i], false);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        suppress(l, first[i], true);
}

void steno_whisper_unwritten(const struct steno_whisper_specials *s,
                             int32_t out[STENO_WHISPER_UNWRITTEN])
{
    const int32_t ids[] = {s->translate, s->transcribe, s->sot_lm,
                           s->sot_prev,  s->no_speech,  s->sot};
    memcpy(out, ids, sizeof ids);
}

steno_status steno_whisper_suppressed(const steno_bpe *b, const struct steno_whisper_ids *never,
                                      const struct steno_whisper_specials *s, int32_t **ids,
                                      size_t *n, steno_err *err)
{
    struct list l = {.b = b, .max = never->id ? never->n : MOST_SUPPRESSED, .err = err};
    l.ids = malloc((l.max + STENO_WHISPER_UNWRITTEN) * sizeof *l.ids);
    if (!l.ids)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (never->id)
        memcpy(l.ids, never->id, (l.n = never->n) * sizeof *l.ids);
    else
        suppress_all(&l);
    steno_whisper_unwritten(s, l.ids + l.n);
    l.n += STENO_WHISPER_UNWRITTEN;
    if (l.st) {
        free(l.ids);
        return l.st;
    }
    qsort(l.ids, l.n, sizeof *l.ids, ascending);
    *n = 0;
    for (size_t i = 0; i < l.n; i++)
        if (!i || l.ids[i] != l.ids[i - 1])
            l.ids[(*n)++] = l.ids[i];
    *ids = l.ids;
    return STENO_OK;
}

steno_status steno_whisper_not_first(const steno_bpe *b, const struct steno_whisper_ids *said,
                                     const struct steno_whisper_specials *s,
                                     int32_t ids[STENO_WHISPER_NOT_FIRST], size_t *n,
                                     steno_err *err)
{
    const int32_t own[] = {s->eot, steno_bpe_find(b, " ", 1)};
    const int32_t *from = said->id ? said->id : own;
    *n = said->id ? said->n : own[1] < 0 ? 1 : 2;
    if (*n > STENO_WHISPER_NOT_FIRST)
        return steno_fail(err, STENO_ERR_LIMIT, "%zu pieces do not begin a text, at most %d", *n,
                          STENO_WHISPER_NOT_FIRST);
    memcpy(ids, from, *n * sizeof *ids);
    return STENO_OK;
}

/* ---- heads that follow time ---------------------------------------------------------------- */

static const struct steno_whisper_head heads[] = {
    {1, 0},   {2, 0},   {2, 5},   {3, 0},   {3, 1},   {3, 2},   {3, 3},   {3, 4},   {2, 2},
    {3, 0},   {3, 2},   {3, 3},   {3, 4},   {3, 5},   {3, 3},   {4, 7},   {5, 1},   {5, 5},
    {5, 7},   {3, 1},   {4, 2},   {4, 3},   {4, 7},   {5, 1},   {5, 2},   {5, 4},   {5, 6},
    {6, 6},   {7, 0},   {7, 3},   {7, 8},   {8, 2},   {8, 5},   {8, 7},   {9, 0},   {9, 4},
    {9, 8},   {9, 10},  {10, 0},  {10, 1},  {10, 2},  {10, 3},  {10, 6},  {10, 11}, {11, 2},
    {11, 4},  {5, 3},   {5, 9},   {8, 0},   {8, 4},   {8, 7},   {8, 8},   {9, 0},   {9, 7},
    {9, 9},   {10, 5},  {11, 4},  {14, 1},  {14, 12}, {14, 14}, {15, 4},  {16, 0},  {16, 4},
    {16, 9},  {17, 12}, {17, 14}, {18, 7},  {18, 10}, {18, 15}, {20, 0},  {20, 3},  {20, 9},
    {20, 14}, {21, 12}, {13, 15}, {15, 4},  {15, 15}, {16, 1},  {20, 0},  {23, 4},  {10, 12},
    {13, 17}, {16, 11}, {16, 12}, {16, 13}, {17, 15}, {17, 16}, {18, 4},  {18, 11}, {18, 19},
    {19, 11}, {21, 2},  {21, 3},  {22, 3},  {22, 9},  {22, 12}, {23, 5},  {23, 7},  {23, 13},
    {25, 5},  {26, 1},  {26, 12}, {27, 15}, {7, 0},   {10, 17}, {12, 18}, {13, 12}, {16, 1},
    {17, 14}, {19, 11}, {21, 4},  {24, 1},  {25, 6},  {2, 4},   {2, 11},  {3, 3},   {3, 6},
    {3, 11},  {3, 14},
};

static const struct {
    int64_t layers, heads, vocab;
    size_t first, n;
} known[] = {
    {4, 6, 51864, 0, 8},      /* tiny.en */
    {4, 6, 51865, 8, 6},      /* tiny */
    {6, 8, 51864, 14, 5},     /* base.en */
    {6, 8, 51865, 19, 8},     /* base */
    {12, 12, 51864, 27, 19},  /* small.en */
    {12, 12, 51865, 46, 10},  /* small */
    {24, 16, 51864, 56, 18},  /* medium.en */
    {24, 16, 51865, 74, 6},   /* medium */
    {32, 20, 51865, 80, 23},  /* large-v2 */
    {32, 20, 51866, 103, 10}, /* large-v3 */
    {4, 20, 51866, 113, 6},   /* turbo */
};

const struct steno_whisper_head *steno_whisper_known_heads(const struct steno_whisper_dims *d,
                                                           size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].layers == d->text_layers && known[i].heads == d->text_heads &&
            known[i].vocab == d->vocab) {
            *n = known[i].n;
            return heads + known[i].first;
        }
    return NULL;
}
