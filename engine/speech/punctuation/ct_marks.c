#include "speech/punctuation/ct_marks.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (1 << 20)
#define STEP 20      /* tokens that each part reads on */
#define PATIENCE 200 /* tokens after which a comma may end a part */

#define COMMA "\xEF\xBC\x8C"    /* ， */
#define STOP "\xE3\x80\x82"     /* 。 */
#define QUESTION "\xEF\xBC\x9F" /* ？ */
#define NO_MARK "_"

/* ---- vocabulary ------------------------------------------------------------------------------ */

/* Cut a list into strings. Calls take for each, with its number; false ends it. */
static bool cut_list(char *list, bool (*take)(void *arg, const char *item, int32_t i), void *arg)
{
    int32_t i = 0;
    for (char *p = list, *bar; p; p = bar) {
        bar = strchr(p, '|');
        if (bar)
            *bar++ = '\0';
        if (!take(arg, p, i++))
            return false;
    }
    return true;
}

static bool take_mark(void *arg, const char *item, int32_t i)
{
    struct steno_ct_vocab *v = arg;
    const uint8_t k = (uint8_t)i;
    if (i == STENO_CT_MARKS)
        return false;
    if (!strcmp(item, COMMA))
        v->comma = k;
    else if (!strcmp(item, STOP))
        v->stop = k;
    else if (!strcmp(item, QUESTION))
        v->question = k;
    v->mark[i] = !strcmp(item, NO_MARK) || *item == '<' ? "" : item;
    v->n_marks = (size_t)i + 1;
    return true;
}

static bool take_word(void *arg, const char *item, int32_t i)
{
    struct steno_ct_vocab *v = arg;
    if (i == (int32_t)v->n_words)
        return false;
    v->word[i] = (struct steno_ct_word){item, i};
    return true;
}

static size_t count_items(const char *list)
{
    size_t n = 1;
    while ((list = strchr(list, '|'))) {
        list++;
        n++;
    }
    return n;
}

static int by_text(const void *a, const void *b)
{
    const struct steno_ct_word *x = a, *y = b;
    const int c = strcmp(x->text, y->text);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

static steno_status read_words(struct steno_ct_vocab *v, const char *words, const char *name,
                               steno_err *err)
{
    v->n_words = count_items(words);
    if (v->n_words > WORDS_MAX)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: metadata tokens: more than %d", name,
                          WORDS_MAX);
    v->words = strdup(words);
    v->word = calloc(v->n_words, sizeof *v->word);
    if (!v->words || !v->word)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    (void)cut_list(v->words, take_word, v);
    qsort(v->word, v->n_words, sizeof *v->word, by_text);
    return STENO_OK;
}

static steno_status read_marks(struct steno_ct_vocab *v, const char *marks, const char *name,
                               steno_err *err)
{
    v->comma = v->stop = v->question = STENO_CT_MARKS;
    v->marks = strdup(marks);
    if (!v->marks)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (!cut_list(v->marks, take_mark, v))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: metadata punctuations: more than %d", name,
                          STENO_CT_MARKS);
    if (v->comma == STENO_CT_MARKS || v->stop == STENO_CT_MARKS || v->question == STENO_CT_MARKS)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: metadata punctuations lacks one of " COMMA " " STOP " " QUESTION,
                          name);
    return STENO_OK;
}

/* -1: none. */
static int32_t find_word(const struct steno_ct_vocab *v, const char *token, size_t n)
{
    size_t low = 0, high = v->n_words;
    while (low < high) { /* the first of equal ones */
        const size_t mid = low + (high - low) / 2;
        if (strncmp(v->word[mid].text, token, n) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < v->n_words && !strncmp(v->word[low].text, token, n) && !v->word[low].text[n]
               ? v->word[low].id
               : -1;
}

int32_t steno_ct_vocab_find(const struct steno_ct_vocab *v, const char *token, size_t n)
{
    const int32_t id = find_word(v, token, n);
    return id < 0 ? v->unknown : id;
}

steno_status steno_ct_vocab_read(struct steno_ct_vocab *v, const char *words, const char *marks,
                                 const char *unknown, const char *name, steno_err *err)
{
    steno_status st;
    *v = (struct steno_ct_vocab){0};
    st = read_words(v, words, name, err);
    if (!st)
        st = read_marks(v, marks, name, err);
    if (!st && (v->unknown = find_word(v, unknown, strlen(unknown))) < 0)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: metadata tokens lacks unk_symbol '%.40s'", name,
                        unknown);
    if (st)
        steno_ct_vocab_free(v);
    return st;
}

void steno_ct_vocab_free(struct steno_ct_vocab *v)
{
    free(v->words);
    free(v->marks);
    free(v->word);
    *v = (struct steno_ct_vocab){0};
}

/* ---- tokens of a text ------------------------------------------------------------------------ */

/* Bytes of the character at p, by its first byte, as far as the text goes on. */
static size_t character(const unsigned char *p)
{
    const size_t n = *p < 0xC0 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4;
    size_t k = 1;
    while (k < n && (p[k] & 0xC0) == 0x80)
        k++;
    return k;
}

/* Bytes of a character that words are made of: a letter or digit of ASCII, or a letter of U+00C0 to
 * U+024F; 0: it is none. */
static size_t letter(const unsigned char *p)
{
    if ((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))
        return 1;
    return *p >= 0xC3 && *p <= 0xC9 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
}

steno_status steno_ct_split(struct steno_punctuation_tokens *t, const char *text)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && text[i];) {
        const unsigned char *p = (const unsigned char *)text + i;
        size_t n = 0;
        for (size_t k; (k = letter(p + n)) > 0;)
            n += k;
        if (!n && *p > ' ' && *p != 0x7F)
            n = character(p);
        if (n)
            st = steno_punctuation_add(t, i, i + n);
        i += n ? n : 1;
    }
    return st;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Where a part of n tokens is cut: the number of tokens before; 0: nowhere. */
static size_t find_cut(const struct steno_ct_vocab *v, uint8_t *mark, size_t n)
{
    size_t comma = 0;
    for (size_t m = n < 2 ? 0 : n - 2; m >= 1; m--) {
        if (mark[m] == v->stop || mark[m] == v->question)
            return m + 1;
        if (!comma && mark[m] == v->comma)
            comma = m;
    }
    if (n < PATIENCE || !comma)
        return 0;
    mark[comma] = v->stop;
    return comma + 1;
}

steno_status steno_ct_choose(const struct steno_ct_vocab *v, size_t n, steno_ct_run *run, void *arg,
                             uint8_t *mark, steno_err *err)
{
    for (size_t begin = 0, end = 0; begin < n;) {
        steno_status st;
        size_t cut;
        end = n - end < STEP ? n : end + STEP;
        st = run(arg, begin, end, mark + begin, err);
        if (st)
            return st;
        cut = find_cut(v, mark + begin, end - begin);
        if (cut)
            begin += cut;
        else if (end == n || end - begin + STEP > STENO_CT_WINDOW)
            begin = end;
    }
    if (n && mark[n - 1] != v->question)
        mark[n - 1] = v->stop;
    return STENO_OK;
}
