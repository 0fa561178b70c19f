#include "speech/text/bpe_vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/lines.h"

#define ZIPF_OFFSET 10.0F /* of a rank: cuts 99 % of words as unigram models of 500 to 5,000 */
#define JOINED_SHARE 0.95 /* of the pieces of "bpe"; the others may be symbols of the user */

struct piece {
    char *text; /* terminated */
    size_t n;
    float score;
    int32_t token; /* -1: none has this spelling */
};

struct steno_bpe_vocab {
    struct piece *pieces; /* [n], sorted by bytes */
    size_t n, cap, longest;
    bool joins;
};

/* ---- reading --------------------------------------------------------------------------------- */

static int compare(const void *a, size_t n, const void *b, size_t k)
{
    int c = memcmp(a, b, n < k ? n : k);
    return c ? c : (n > k) - (n < k);
}

static int by_text(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return compare(x->text, x->n, y->text, y->n);
}

static steno_status add_scored_piece(steno_bpe_vocab *v, const char *text, size_t n, float score,
                                     const steno_tokens *tokens)
{
    struct piece *p;
    if (STENO_RESERVE(&v->pieces, &v->cap, v->n + 1))
        return STENO_ERR_NOMEM;
    p = &v->pieces[v->n];
    *p = (struct piece){.text = malloc(n + 1), .n = n, .score = score};
    if (!p->text)
        return STENO_ERR_NOMEM;
    memcpy(p->text, text, n);
    p->text[n] = '\0';
    p->token = tokens ? steno_tokens_find(tokens, p->text) : (int32_t)v->n;
    v->n++;
    v->longest = n > v->longest ? n : v->longest;
    return STENO_OK;
}

/* "piece score": the score follows the last tab or space. */
static bool split_line(const char *s, size_t n, size_t *piece, float *score)
{
    char number[48], *end;
    size_t at = n;
    while (at > 0 && s[at - 1] != ' ' && s[at - 1] != '\t')
        at--;
    if (at < 2 || at == n || n - at >= sizeof number)
        return false;
    memcpy(number, s + at, n - at);
    number[n - at] = '\0';
    *score = strtof(number, &end);
    *piece = at - 1;
    return !*end && isfinite(*score) && *piece <= STENO_TOKENS_MAX_PIECE;
}

static steno_status parse_lines(steno_bpe_vocab *v, const char *bytes, size_t n, const char *name,
                                const steno_tokens *tokens, steno_err *err)
{
    struct steno_lines l = {.p = bytes, .end = bytes + n};
    while (steno_lines_next(&l)) {
        size_t piece;
        float score;
        if (l.n && (!split_line(l.line, l.n, &piece, &score) || memchr(l.line, '\0', l.n)))
            return steno_fail(err, STENO_ERR_FORMAT, "%s:%zu: expected \"piece score\"", name,
                              l.number);
        if (v->n == STENO_TOKENS_MAX)
            return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d pieces", name,
                              STENO_TOKENS_MAX);
        if (l.n && add_scored_piece(v, l.line, piece, score, tokens))
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    return v->n ? STENO_OK : steno_fail(err, STENO_ERR_FORMAT, "%s: there are no pieces", name);
}

steno_status steno_bpe_vocab_parse(steno_bpe_vocab **out, const char *bytes, size_t n,
                                   const char *name, const steno_tokens *tokens, steno_err *err)
{
    steno_bpe_vocab *v = calloc(1, sizeof *v);
    steno_status st = v ? parse_lines(v, bytes, n, name, tokens, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (st) {
        steno_bpe_vocab_close(v);
        return st;
    }
    qsort(v->pieces, v->n, sizeof *v->pieces, by_text);
    *out = v;
    return STENO_OK;
}

steno_status steno_bpe_vocab_open(steno_bpe_vocab **out, const char *path,
                                  const steno_tokens *tokens, steno_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    steno_status st = steno_file_read(path, STENO_BPE_VOCAB_MAX_FILE, &bytes, &n, err);
    if (!st)
        st = steno_bpe_vocab_parse(out, bytes, n, path, tokens, err);
    free(bytes);
    return st;
}

/* ---- other sources --------------------------------------------------------------------------- */

/* Sort the pieces of v, or close it. */
static steno_status finish_vocabulary(steno_bpe_vocab **out, steno_bpe_vocab *v, steno_status st,
                                      steno_err *err)
{
    if (st) {
        steno_bpe_vocab_close(v);
        return steno_fail(err, st, "pieces of hot words: out of memory");
    }
    if (v->n)
        qsort(v->pieces, v->n, sizeof *v->pieces, by_text);
    *out = v;
    return STENO_OK;
}

steno_status steno_bpe_vocab_of_model(steno_bpe_vocab **out, const steno_sentencepiece *s,
                                      const steno_tokens *tokens, steno_err *err)
{
    steno_bpe_vocab *v = calloc(1, sizeof *v);
    steno_status st = v ? STENO_OK : STENO_ERR_NOMEM;
    for (int32_t i = 0; !st && i < steno_sentencepiece_count(s); i++) {
        const char *piece = steno_sentencepiece_piece(s, i);
        const enum steno_sentencepiece_type type = steno_sentencepiece_type(s, i);
        if (type == STENO_SENTENCEPIECE_NORMAL || type == STENO_SENTENCEPIECE_USER_DEFINED)
            st = add_scored_piece(v, piece, strlen(piece), steno_sentencepiece_score(s, i), tokens);
    }
    if (!st)
        v->joins = !strcmp(steno_sentencepiece_model_type(s), "bpe");
    return finish_vocabulary(out, v, st, err);
}

/* <blk>, <|en|>: no text has them. */
static bool is_mark_bpe_vocab(const char *piece, size_t n)
{
    return n > 2 && piece[0] == '<' && piece[n - 1] == '>';
}

/* Bytes of the first character of valid text. */
static size_t character(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

/* Zipf's law: the probability falls with the rank. All pieces together have 1. */
static float estimate(int32_t rank, int32_t n)
{
    return -logf((float)rank + ZIPF_OFFSET) - logf(logf((float)n + ZIPF_OFFSET + 1));
}

static steno_status add_tokens(steno_bpe_vocab *v, const steno_tokens *tokens)
{
    const int32_t n = steno_tokens_count(tokens);
    steno_status st = STENO_OK;
    for (int32_t i = 0, rank = 0; !st && i < n; i++) {
        const char *piece = steno_tokens_piece(tokens, i);
        if (!is_mark_bpe_vocab(piece, strlen(piece)) && steno_tokens_find(tokens, piece) == i)
            st = add_scored_piece(v, piece, strlen(piece), estimate(rank++, n), tokens);
    }
    return st;
}

static const struct piece *find_piece(const steno_bpe_vocab *v, const char *text, size_t n);

/* A character, or a piece before p. */
static bool comes_before(const steno_bpe_vocab *v, const char *text, size_t n,
                         const struct piece *p)
{
    const struct piece *q = character(text) == n ? NULL : find_piece(v, text, n);
    return character(text) == n || (q && q->token < p->token);
}

static bool is_joined(const steno_bpe_vocab *v, const struct piece *p)
{
    for (size_t k = character(p->text); k < p->n; k += character(p->text + k))
        if (comes_before(v, p->text, k, p) && comes_before(v, p->text + k, p->n - k, p))
            return true;
    return false;
}

/* Nearly all pieces of several characters are two earlier ones. */
static bool looks_joined(const steno_bpe_vocab *v)
{
    size_t several = 0, joined = 0;
    for (size_t i = 0; i < v->n; i++)
        if (character(v->pieces[i].text) < v->pieces[i].n) {
            several++;
            joined += is_joined(v, &v->pieces[i]);
        }
    return (double)joined >= JOINED_SHARE * (double)several;
}

steno_status steno_bpe_vocab_of_tokens(steno_bpe_vocab **out, const steno_tokens *tokens,
                                       steno_err *err)
{
    steno_bpe_vocab *v = calloc(1, sizeof *v);
    steno_status st = finish_vocabulary(&v, v, v ? add_tokens(v, tokens) : STENO_ERR_NOMEM, err);
    if (!st) {
        v->joins = looks_joined(v);
        *out = v;
    }
    return st;
}

void steno_bpe_vocab_close(steno_bpe_vocab *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n; i++)
        free(v->pieces[i].text);
    free(v->pieces);
    free(v);
}

/* ---- words ----------------------------------------------------------------------------------- */

static const struct piece *find_piece(const steno_bpe_vocab *v, const char *text, size_t n)
{
    size_t low = 0, high = v->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare(v->pieces[mid].text, v->pieces[mid].n, text, n);
        if (!c)
            return &v->pieces[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* The best way from a byte of the word to its end. */
struct way {
    const struct piece *piece; /* NULL: none */
    float score;
};

/* any: pieces may also end where no piece begins, which costs nothing. */
static void find_ways(const steno_bpe_vocab *v, const char *word, size_t n, bool any,
                      struct way *ways)
{
    ways[n] = (struct way){0};
    for (size_t i = n; i-- > 0;) {
        struct way best = {NULL, -INFINITY};
        for (size_t k = 1; k <= n - i && k <= v->longest; k++) {
            const struct piece *p = find_piece(v, word + i, k);
            if (p && (any || i + k == n || ways[i + k].piece) &&
                p->score + ways[i + k].score >= best.score)
                best = (struct way){p, p->score + ways[i + k].score};
        }
        ways[i] = best.piece || !any ? best : (struct way){0};
    }
}

static steno_status cut_word(const steno_bpe_vocab *v, const char *word, size_t n, int32_t *ids,
                             size_t *count)
{
    struct way *ways = malloc((n + 1) * sizeof *ways);
    steno_status st = ways ? STENO_OK : STENO_ERR_NOMEM;
    if (st)
        return st;
    find_ways(v, word, n, false, ways);
    for (size_t i = 0; i < n && !st; i += st ? 0 : ways[i].piece->n) {
        if (ways[i].piece && ways[i].piece->token >= 0)
            ids[(*count)++] = ways[i].piece->token;
        else
            st = STENO_ERR_FORMAT;
    }
    free(ways);
    return st;
}

/* A part of the word, in a list by its place. */
struct part {
    size_t at, n, next; /* next: index; parts that were joined to the one before are skipped */
    float score;        /* of the piece that it makes with the next part; -INFINITY: none */
};

static void score_pair(const steno_bpe_vocab *v, const char *word, struct part *parts, size_t i,
                       size_t end)
{
    const struct part *next = parts[i].next < end ? &parts[parts[i].next] : NULL;
    const struct piece *p = next ? find_piece(v, word + parts[i].at, parts[i].n + next->n) : NULL;
    parts[i].score = p ? p->score : -INFINITY;
}

/* Join neighbours, the best pair first and of equal ones the first in the word. */
static void join_parts(const steno_bpe_vocab *v, const char *word, struct part *parts, size_t end)
{
    for (size_t i = 0; i < end; i++)
        score_pair(v, word, parts, i, end);
    for (;;) {
        size_t best = end, before = end;
        for (size_t i = 0, last = end; i < end; last = i, i = parts[i].next)
            if (parts[i].score > (best < end ? parts[best].score : -INFINITY)) {
                best = i;
                before = last;
            }
        if (best == end)
            return;
        parts[best].n += parts[parts[best].next].n;
        parts[best].next = parts[parts[best].next].next;
        score_pair(v, word, parts, best, end);
        if (before < end)
            score_pair(v, word, parts, before, end);
    }
}

static steno_status join_word(const steno_bpe_vocab *v, const char *word, size_t n, int32_t *ids,
                              size_t *count)
{
    struct part *parts = malloc((n + 1) * sizeof *parts);
    steno_status st = parts ? STENO_OK : STENO_ERR_NOMEM;
    size_t end = 0;
    if (st)
        return st;
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 1; i + k < n && ((unsigned char)word[i + k] & 0xC0) == 0x80;)
            k++;
        parts[end] = (struct part){.at = i, .n = k, .next = end + 1};
        end++;
    }
    join_parts(v, word, parts, end);
    for (size_t i = 0; i < end && !st; i = parts[i].next) {
        const struct piece *p = find_piece(v, word + parts[i].at, parts[i].n);
        if (p && p->token >= 0)
            ids[(*count)++] = p->token;
        else
            st = STENO_ERR_FORMAT;
    }
    free(parts);
    return st;
}

steno_status steno_bpe_vocab_encode(const steno_bpe_vocab *v, const char *word, size_t n,
                                    int32_t *ids, size_t *count)
{
    size_t k = 0;
    steno_status st = (v->joins ? join_word : cut_word)(v, word, n, ids, &k);
    if (!st)
        *count = k;
    return st;
}

/* The token of a single byte; -1: none. */
static int32_t byte_token(const steno_bpe_vocab *v, char c)
{
    char name[8];
    const struct piece *p;
    snprintf(name, sizeof name, "<0x%02X>", (unsigned char)c);
    p = find_piece(v, name, strlen(name));
    return p ? p->token : -1;
}

steno_status steno_bpe_vocab_encode_any(const steno_bpe_vocab *v, const char *word, size_t n,
                                        int32_t unknown, int32_t *ids, size_t *count)
{
    struct way *ways = malloc((n + 1) * sizeof *ways);
    bool run = false; /* of bytes without any piece, which is written */
    *count = 0;
    if (!ways)
        return STENO_ERR_NOMEM;
    find_ways(v, word, n, true, ways);
    for (size_t i = 0; i < n;) {
        const struct piece *p = ways[i].piece;
        const int32_t byte = p ? -1 : byte_token(v, word[i]);
        if (p || byte >= 0 || !run)
            ids[(*count)++] = p ? p->token : byte >= 0 ? byte : unknown;
        run = !p && byte < 0;
        i += p ? p->n : 1;
    }
    free(ways);
    return STENO_OK;
}
