#include "text/bpe_vocab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

struct piece {
    char *text; /* terminated */
    size_t n;
    float score;
    int32_t token; /* -1: none has this spelling */
};

struct steno_bpe_vocab {
    struct piece *pieces; /* [n], sorted by bytes */
    size_t n, cap, longest;
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

static steno_status add_piece(steno_bpe_vocab *v, const char *text, size_t n, float score,
                              const steno_tokens *tokens)
{
    struct piece *p = v->pieces;
    if (v->n == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 256;
        p = realloc(p, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        v->pieces = p;
        v->cap = cap;
    }
    p = &p[v->n];
    *p = (struct piece){.text = malloc(n + 1), .n = n, .score = score};
    if (!p->text)
        return STENO_ERR_NOMEM;
    memcpy(p->text, text, n);
    p->text[n] = '\0';
    p->token = steno_tokens_find(tokens, p->text);
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
    size_t line = 0;
    for (const char *end = bytes + n; bytes < end;) {
        const char *nl = memchr(bytes, '\n', (size_t)(end - bytes));
        size_t len = (size_t)((nl ? nl : end) - bytes), piece;
        float score;
        line++;
        if (len && bytes[len - 1] == '\r')
            len--;
        if (len && (!split_line(bytes, len, &piece, &score) || memchr(bytes, '\0', len)))
            return steno_fail(err, STENO_ERR_FORMAT, "%s:%zu: expected \"piece score\"", name,
                              line);
        if (v->n == STENO_TOKENS_MAX)
            return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d pieces", name,
                              STENO_TOKENS_MAX);
        if (len && add_piece(v, bytes, piece, score, tokens))
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
        bytes = nl ? nl + 1 : end;
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

void steno_bpe_vocab_close(steno_bpe_vocab *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n; i++)
        free(v->pieces[i].text);
    free(v->pieces);
    free(v);
}

size_t steno_bpe_vocab_count(const steno_bpe_vocab *v)
{
    return v->n;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const struct piece *find(const steno_bpe_vocab *v, const char *text, size_t n)
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

static void find_ways(const steno_bpe_vocab *v, const char *word, size_t n, struct way *ways)
{
    ways[n] = (struct way){0};
    for (size_t i = n; i-- > 0;) {
        struct way best = {NULL, -INFINITY};
        for (size_t k = 1; k <= n - i && k <= v->longest; k++) {
            const struct piece *p = find(v, word + i, k);
            if (p && (i + k == n || ways[i + k].piece) && p->score + ways[i + k].score > best.score)
                best = (struct way){p, p->score + ways[i + k].score};
        }
        ways[i] = best;
    }
}

steno_status steno_bpe_vocab_encode(const steno_bpe_vocab *v, const char *word, size_t n,
                                    int32_t *ids, size_t *count)
{
    struct way *ways = malloc((n + 1) * sizeof *ways);
    steno_status st = ways ? STENO_OK : STENO_ERR_NOMEM;
    size_t k = 0;
    if (st)
        return st;
    find_ways(v, word, n, ways);
    for (size_t i = 0; i < n && !st; i += st ? 0 : ways[i].piece->n) {
        if (ways[i].piece && ways[i].piece->token >= 0)
            ids[k++] = ways[i].piece->token;
        else
            st = STENO_ERR_FORMAT;
    }
    free(ways);
    if (!st)
        *count = k;
    return st;
}
