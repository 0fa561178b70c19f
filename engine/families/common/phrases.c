/* Phrases to tokens. A character of Chinese, Japanese or Korean writing is a token by itself where
 * the vocabulary has it; everything else is cut by bpe.vocab (sherpa-onnx's modeling units cjkchar,
 * bpe and cjkchar+bpe in one), or spelled in letters where a token separates words. */
#include "families/common/phrases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "families/common/path.h"

#define MARK "\xE2\x96\x81" /* U+2581 begins a word */
#define SEPARATORS "\n\r,/"
#define BLANKS " \t"

/* ---- the vocabulary -------------------------------------------------------------------------- */

static bool has_small_letters(const steno_tokens *t)
{
    for (int32_t i = 0; i < steno_tokens_count(t); i++) {
        const char *p = steno_tokens_piece(t, i);
        for (; *p && *p != '<'; p++) /* marks such as <blk> do not count */
            if (*p >= 'a' && *p <= 'z')
                return true;
    }
    return false;
}

steno_status steno_phrases_open(struct steno_phrases *p, const steno_tokens *tokens,
                                const char *bpe_vocab, steno_err *err)
{
    *p = (struct steno_phrases){.tokens = tokens, .upper = !has_small_letters(tokens)};
    return bpe_vocab ? steno_bpe_vocab_open(&p->bpe, bpe_vocab, tokens, err) : STENO_OK;
}

steno_status steno_phrases_open_in(struct steno_phrases *p, const steno_tokens *tokens,
                                   const char *dir, steno_err *err)
{
    static const char name[] = "bpe.vocab";
    char *path = NULL;
    steno_status st;
    if (steno_path_readable(dir, name) && !(path = steno_path_join(dir, name)))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    st = steno_phrases_open(p, tokens, path, err);
    free(path);
    return st;
}

void steno_phrases_close(struct steno_phrases *p)
{
    steno_bpe_vocab_close(p->bpe);
    *p = (struct steno_phrases){0};
}

/* ---- phrases --------------------------------------------------------------------------------- */

/* The tokens of a phrase. */
struct phrase {
    int32_t *ids; /* [n] */
    size_t n;
    float score;
};

/* A terminated copy in the case of the vocabulary. NULL: out of memory, or not UTF-8. */
static char *fold(const struct steno_phrases *v, const char *text, size_t n)
{
    /* a capital takes at most one byte more than its small letter (U+0250 and others) */
    utf8proc_uint8_t *out = malloc(2 * n + 5), *at = out;
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text, *end = p + n;
    while (out && p < end) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate(p, end - p, &c);
        if (k <= 0) {
            free(out);
            return NULL;
        }
        p += k;
        at += utf8proc_encode_char(v->upper ? utf8proc_toupper(c) : c, at);
    }
    if (out)
        *at = '\0';
    return (char *)out;
}

/* Bytes of the first character of terminated, valid text. */
static size_t character(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

/* The token that is this character alone; -1: there is none. */
static int32_t token_of(const struct steno_phrases *v, const char *text, size_t n)
{
    char piece[8];
    int32_t id;
    memcpy(piece, text, n);
    piece[n] = '\0';
    id = steno_tokens_find(v->tokens, piece);
    return id >= 0 && steno_tokens_flags(v->tokens, id) & STENO_TOKEN_ALONE ? id : -1;
}

/* Letters of a word, behind the delimiter unless it is the first. */
static bool spell(const struct steno_phrases *v, const char *text, size_t n, struct phrase *p)
{
    if (p->n)
        p->ids[p->n++] = steno_tokens_delimiter(v->tokens);
    for (size_t k; n; text += k, n -= k) {
        char piece[8];
        int32_t id;
        k = character(text);
        if (k >= sizeof piece)
            return false;
        memcpy(piece, text, k);
        piece[k] = '\0';
        id = steno_tokens_find(v->tokens, piece);
        if (id < 0)
            return false;
        p->ids[p->n++] = id;
    }
    return true;
}

/* Cut a run of other characters, which begins a word. */
static bool add_run(const struct steno_phrases *v, const char *text, size_t n, struct phrase *p)
{
    size_t size = n + sizeof MARK, count = 0;
    char *word = malloc(size);
    bool ok = false;
    if (!v->bpe && steno_tokens_delimiter(v->tokens) >= 0) {
        free(word);
        return spell(v, text, n, p);
    }
    if (!word)
        return false;
    memcpy(word, MARK, sizeof MARK - 1);
    memcpy(word + sizeof MARK - 1, text, n);
    word[size - 1] = '\0';
    if (v->bpe) {
        ok = !steno_bpe_vocab_encode(v->bpe, word, size - 1, p->ids + p->n, &count);
    } else { /* the whole word may be a token */
        int32_t id = steno_tokens_find(v->tokens, word);
        if (id < 0)
            id = steno_tokens_find(v->tokens, word + sizeof MARK - 1);
        ok = id >= 0;
        if (ok)
            p->ids[p->n] = id;
        count = ok;
    }
    p->n += count;
    free(word);
    return ok;
}

static bool add_word(const struct steno_phrases *v, const char *word, struct phrase *p)
{
    const char *run = word;
    for (size_t n; *word; word += n) {
        int32_t id;
        n = character(word);
        id = n <= 4 ? token_of(v, word, n) : -1;
        if (id < 0)
            continue;
        if (word > run && !add_run(v, run, (size_t)(word - run), p))
            return false;
        p->ids[p->n++] = id;
        run = word + n;
    }
    return word == run || add_run(v, run, (size_t)(word - run), p);
}

/* ":2.5" */
static bool read_score(const char *word, float *score)
{
    char *end;
    float v;
    if (*word != ':')
        return false;
    v = strtof(word + 1, &end);
    if (end == word + 1 || *end || !isfinite(v) || v < 0)
        return false;
    *score = v;
    return true;
}

/* False: the vocabulary cannot spell it. text is cut into words. */
static bool read_phrase(const struct steno_phrases *v, char *text, struct phrase *p)
{
    char *next;
    for (char *word = text + strspn(text, BLANKS); *word; word = next) {
        size_t n = strcspn(word, BLANKS);
        next = word + n + strspn(word + n, BLANKS);
        word[n] = '\0';
        if (!(read_score(word, &p->score) && !*next) && !add_word(v, word, p))
            return false;
    }
    return p->n > 0;
}

static steno_status add_phrase(steno_hotwords *h, const struct steno_phrases *v, const char *text,
                               size_t n, float score, size_t *added, steno_err *err)
{
    char *folded = fold(v, text, n);
    /* each byte, and each word's mark, is at most one token */
    struct phrase p = {.score = score};
    steno_status st = STENO_OK;
    if (!folded)
        return STENO_OK;
    p.ids = malloc((4 * strlen(folded) + 4) * sizeof *p.ids);
    if (!p.ids)
        st = steno_fail(err, STENO_ERR_NOMEM, "hotwords: out of memory");
    else if (read_phrase(v, folded, &p)) {
        st = steno_hotwords_add(h, p.ids, p.n, p.score, err);
        ++*added;
    }
    free(p.ids);
    free(folded);
    return st;
}

steno_status steno_phrases_build(steno_hotwords **out, const struct steno_phrases *v,
                                 const char *text, float score, steno_err *err)
{
    steno_hotwords *h = NULL;
    size_t added = 0;
    steno_status st = steno_hotwords_open(&h, err);
    while (!st && *text) {
        size_t n = strcspn(text, SEPARATORS);
        st = add_phrase(h, v, text, n, score, &added, err);
        text += n + (text[n] != '\0');
    }
    if (!st)
        st = steno_hotwords_build(h, err);
    if (st || !added)
        steno_hotwords_close(h);
    *out = st || !added ? NULL : h;
    return st;
}
