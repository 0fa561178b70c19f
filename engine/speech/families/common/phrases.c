/* Phrases to tokens. A character of Chinese, Japanese or Korean writing is a token by itself where
 * the vocabulary has it; everything else is cut into pieces (sherpa-onnx's modeling units cjkchar,
 * bpe and cjkchar+bpe in one), or spelled in letters where a token separates words. */
#include "speech/families/common/phrases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/path.h"

#define MARK "\xE2\x96\x81" /* U+2581 begins a word */
#define SEPARATORS "\n\r,/"
#define BLANKS " \t"

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* Which cases of letters the tokens have, and whether one has several characters of a writing
 * without spaces. */
static void look_at_tokens(struct steno_phrases *p)
{
    bool small = false, capital = false;
    for (int32_t i = 0; i < steno_tokens_count(p->tokens); i++) {
        const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)steno_tokens_piece(p->tokens, i);
        size_t apart = 0;
        for (utf8proc_int32_t c; *at && *at != '<'; at += utf8proc_iterate(at, -1, &c)) {
            (void)utf8proc_iterate(at, -1, &c);
            if (!steno_tokens_byte_level(p->tokens) || c < 0x80) {
                small |= utf8proc_category(c) == UTF8PROC_CATEGORY_LL;
                capital |= utf8proc_category(c) == UTF8PROC_CATEGORY_LU;
            }
            apart += steno_tokens_apart(c);
        }
        p->runs |= apart > 1;
    }
    p->upper = !small;
    p->lower = small && !capital;
}

/* bpe.vocab, else a SentencePiece model. */
static int rank_source(const char *name, const void *arg)
{
    const bool model = steno_path_ends(name, "bpe.model") || !strcmp(name, "bpe.model") ||
                       !strcmp(name, "tokenizer.model") ||
                       (steno_path_ends(name, ".model") && strstr(name, "unigram"));
    (void)arg;
    return strcmp(name, "bpe.vocab") ? model : 2;
}

static steno_status read_model(struct steno_phrases *p, const char *path, steno_err *err)
{
    steno_sentencepiece *s = NULL;
    steno_status st = steno_sentencepiece_open(&s, path, err);
    if (!st)
        st = steno_bpe_vocab_of_model(&p->bpe, s, p->tokens, err);
    steno_sentencepiece_close(s);
    return st;
}

steno_status steno_phrases_open(struct steno_phrases *p, const steno_tokens *tokens, steno_err *err)
{
    *p = (struct steno_phrases){.tokens = tokens};
    look_at_tokens(p);
    if (steno_tokens_delimiter(tokens) >= 0)
        return STENO_OK;
    snprintf(p->source, sizeof p->source, "tokens.txt");
    return steno_bpe_vocab_of_tokens(&p->bpe, tokens, err);
}

steno_status steno_phrases_open_in(struct steno_phrases *p, const steno_tokens *tokens,
                                   const char *dir, steno_err *err)
{
    char *name = NULL, *path;
    steno_status st = STENO_OK;
    if (steno_path_is_dir(dir))
        st = steno_path_find(&name, dir, rank_source, NULL, NULL, err);
    if (st || !name)
        return st ? st : steno_phrases_open(p, tokens, err);
    *p = (struct steno_phrases){.tokens = tokens};
    look_at_tokens(p);
    snprintf(p->source, sizeof p->source, "%s", name);
    path = steno_path_join(dir, name);
    if (!path) {
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    } else if (strcmp(name, "bpe.vocab")) {
        st = read_model(p, path, err);
    } else {
        st = steno_bpe_vocab_open(&p->bpe, path, tokens, err);
        p->runs = false; /* as in sherpa-onnx */
    }
    free(path);
    free(name);
    return st;
}

const char *steno_phrases_source(const struct steno_phrases *p)
{
    if (p->bpe)
        return p->source;
    return steno_tokens_delimiter(p->tokens) >= 0 ? "letters" : "whole words";
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
    /* the other case takes at most one byte more (U+0250 and others) */
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
        c = v->upper ? utf8proc_toupper(c) : v->lower ? utf8proc_tolower(c) : c;
        at += utf8proc_encode_char(c, at);
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

static bool stands_apart(const char *text)
{
    utf8proc_int32_t c;
    return utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c) > 0 && steno_tokens_apart(c);
}

/* The run as pieces have it, terminated: with a word mark, and its bytes as letters for byte-level
 * pieces. NULL: out of memory. */
static char *piece_text(const struct steno_phrases *v, const char *text, size_t n, bool mark)
{
    char *out = malloc(2 * n + sizeof MARK), *at = out;
    if (!out)
        return NULL;
    if (mark) {
        memcpy(at, MARK, sizeof MARK - 1);
        at += sizeof MARK - 1;
    }
    if (steno_tokens_byte_level(v->tokens)) {
        for (size_t i = 0; i < n; i++)
            at += steno_tokens_byte_letter((unsigned char)text[i], at);
    } else {
        memcpy(at, text, n);
        at += n;
    }
    *at = '\0';
    return out;
}

/* The token that is the whole word, with its mark or without. */
static int32_t token_of_word(const struct steno_phrases *v, const char *word, bool mark)
{
    const int32_t id = steno_tokens_find(v->tokens, word);
    return id < 0 && mark ? steno_tokens_find(v->tokens, word + sizeof MARK - 1) : id;
}

/* Cut a run of characters, which begins a word. */
static bool add_run(const struct steno_phrases *v, const char *text, size_t n, struct phrase *p)
{
    /* where bpe cuts Chinese, no piece of it has a mark unless its bytes are the pieces */
    const bool mark = steno_tokens_byte_level(v->tokens) || !v->runs || !stands_apart(text);
    char *word;
    size_t count = 0;
    bool ok;
    if (!v->bpe && steno_tokens_delimiter(v->tokens) >= 0)
        return spell(v, text, n, p);
    word = piece_text(v, text, n, mark);
    if (!word)
        return false;
    ok = v->bpe && !steno_bpe_vocab_encode(v->bpe, word, strlen(word), p->ids + p->n, &count);
    if (!ok) { /* the whole word may be a token */
        p->ids[p->n] = token_of_word(v, word, mark);
        ok = p->ids[p->n] >= 0;
        count = ok;
    }
    p->n += count;
    free(word);
    return ok;
}

/* The character is a unit by itself: a token, or a word for training's spaces (byte-level). */
static bool is_unit(const struct steno_phrases *v, const char *text, size_t n, int32_t *id)
{
    *id = -1;
    if (steno_tokens_byte_level(v->tokens))
        return stands_apart(text);
    if (!v->runs && n <= 4)
        *id = token_of(v, text, n);
    return *id >= 0;
}

static bool add_word(const struct steno_phrases *v, const char *word, struct phrase *p)
{
    const char *run = word;
    for (size_t n; *word; word += n) {
        int32_t id;
        n = character(word);
        if (!is_unit(v, word, n, &id))
            continue;
        if (word > run && !add_run(v, run, (size_t)(word - run), p))
            return false;
        if (id >= 0)
            p->ids[p->n++] = id;
        else if (!add_run(v, word, n, p))
            return false;
        run = word + n;
    }
    return word == run || add_run(v, run, (size_t)(word - run), p);
}

/* Read ":2.5" of n bytes. */
static bool read_score(const char *word, size_t n, float *score)
{
    char *end;
    float v;
    if (n < 2 || word[0] != ':' || strchr(BLANKS, word[1]))
        return false;
    v = strtof(word + 1, &end);
    if (end != word + n || !isfinite(v) || v < 0)
        return false;
    *score = v;
    return true;
}

static size_t without_blanks(const char *text, size_t n)
{
    while (n && strchr(BLANKS, text[n - 1]))
        n--;
    return n;
}

bool steno_phrases_next(const char **list, const char **phrase, size_t *n, float *score)
{
    for (const char *p = *list; *(p += strspn(p, SEPARATORS BLANKS)); p = *list) {
        const size_t all = strcspn(p, SEPARATORS);
        size_t end = without_blanks(p, all), word = end;
        float own = *score;
        while (word && !strchr(BLANKS, p[word - 1]))
            word--;
        if (read_score(p + word, end - word, &own))
            end = without_blanks(p, word);
        *list = p + all;
        *phrase = p;
        *n = end;
        if (!end)
            continue;
        *score = own;
        return true;
    }
    return false;
}

/* False: the vocabulary cannot spell it. text is cut into words. */
static bool read_phrase(const struct steno_phrases *v, char *text, struct phrase *p)
{
    char *next;
    for (char *word = text + strspn(text, BLANKS); *word; word = next) {
        size_t n = strcspn(word, BLANKS);
        next = word + n + strspn(word + n, BLANKS);
        word[n] = '\0';
        if (!add_word(v, word, p))
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

static steno_status add_phrases(steno_hotwords *h, const struct steno_phrases *v, const char *text,
                                float score, size_t *added, steno_err *err)
{
    steno_status st = STENO_OK;
    float own = score;
    const char *phrase;
    for (size_t n; !st && text && steno_phrases_next(&text, &phrase, &n, &own); own = score)
        st = add_phrase(h, v, phrase, n, own, added, err);
    return st;
}

steno_status steno_phrases_build(steno_hotwords **out, const struct steno_phrases *v,
                                 const char *const *texts, size_t n, float score, steno_err *err)
{
    steno_hotwords *h = NULL;
    size_t added = 0;
    steno_status st = steno_hotwords_open(&h, err);
    for (size_t i = 0; !st && i < n; i++)
        st = add_phrases(h, v, texts[i], score, &added, err);
    if (!st)
        st = steno_hotwords_build(h, err);
    if (st || !added)
        steno_hotwords_close(h);
    *out = st || !added ? NULL : h;
    return st;
}

/* ---- lines to be aligned --------------------------------------------------------------------- */

static bool spell_word(const void *of, const char *word, int32_t *ids, size_t *n)
{
    struct phrase p = {.ids = ids};
    const bool ok = add_word(of, word, &p);
    *n = p.n;
    return ok;
}

steno_status steno_phrases_spell_lines(const struct steno_phrases *v, steno_alignment *a,
                                       steno_err *err)
{
    const struct steno_speller s = {.tokens = v->tokens,
                                    .of = v,
                                    .upper = v->upper,
                                    .lower = v->lower,
                                    .letters = steno_tokens_delimiter(v->tokens) >= 0,
                                    .spell = spell_word};
    if (!v->tokens)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "text: the model cannot spell words");
    return steno_alignment_spell(a, &s, err);
}
