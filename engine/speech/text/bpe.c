#include "speech/text/bpe_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/utf8.h"

#define WORD_MAX 1024 /* maximum of bytes merged at a time: merging is quadratic */
#define NO_PIECE INT32_MAX

/* ---- building ------------------------------------------------------------------------------ */

steno_bpe *steno_bpe_empty(void)
{
    steno_bpe *b = calloc(1, sizeof *b);
    if (b)
        b->mem = steno_arena_new(0);
    if (b && b->mem)
        return b;
    free(b);
    return NULL;
}

static bool reserve_bpe(steno_bpe *b, size_t n)
{
    const size_t had = b->cap;
    if (STENO_RESERVE(&b->piece, &b->cap, n))
        return false;
    memset(b->piece + had, 0, (b->cap - had) * sizeof *b->piece);
    return true;
}

steno_status steno_bpe_put(steno_bpe *b, int64_t id, const char *bytes, size_t n, const char *name,
                           steno_err *err)
{
    if (id < 0 || id >= STENO_BPE_MAX_PIECES)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: piece '%.*s' has number %lld, 0 to %d expected", name,
                          (int)(n < 40 ? n : 40), bytes, (long long)id, STENO_BPE_MAX_PIECES - 1);
    if (n > STENO_BPE_MAX_PIECE)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: piece %lld has %zu bytes, at most %d", name,
                          (long long)id, n, STENO_BPE_MAX_PIECE);
    if (id < b->n && b->piece[id].n)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: number %lld is given twice", name,
                          (long long)id);
    if (!reserve_bpe(b, (size_t)id + 1))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    b->n = id >= b->n ? (int32_t)id + 1 : b->n;
    b->piece[id] = (struct steno_bpe_piece){steno_arena_strndup(b->mem, bytes, n), n};
    return b->piece[id].p ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
}

/* The byte of a character in GPT-2's printable form; -1: none. 33 to 126, 161 to 172 and 174 to 255
 * represent themselves; the characters from 256 on represent the other 68 bytes in order. */
static int printed_byte(utf8proc_int32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return c;
    c -= 256;
    if (c < 0 || c > 67)
        return -1;
    return c <= 32 ? c : c < 67 ? c - 33 + 127 : 173;
}

steno_status steno_bpe_put_printed(steno_bpe *b, int64_t id, const char *text, size_t n,
                                   const char *name, steno_err *err)
{
    char bytes[STENO_BPE_MAX_PIECE + 1];
    size_t len = 0;
    for (size_t at = 0; at < n && len <= STENO_BPE_MAX_PIECE; len++) {
        int32_t c;
        const size_t step = steno_utf8_next(text + at, n - at, &c);
        const int byte = printed_byte(c);
        if (byte < 0)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: piece %lld: character %zu does not represent a byte", name,
                              (long long)id, len);
        bytes[len] = (char)byte;
        at += step;
    }
    return steno_bpe_put(b, id, bytes, len, name, err);
}

static size_t slot_of_bytes(const steno_bpe *b, const void *bytes, size_t n)
{
    size_t i = (size_t)XXH3_64bits(bytes, n) & (b->n_slots - 1);
    while (b->slots[i] >= 0) {
        const struct steno_bpe_piece *p = &b->piece[b->slots[i]];
        if (p->n == n && !memcmp(p->p, bytes, n))
            break;
        i = (i + 1) & (b->n_slots - 1);
    }
    return i;
}

steno_status steno_bpe_finish(steno_bpe *b, const char *name, steno_err *err)
{
    int32_t end;
    if (!b->n)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: a vocabulary without pieces", name);
    for (b->n_slots = 16; b->n_slots < 2 * (size_t)b->n;)
        b->n_slots *= 2;
    b->slots = malloc(b->n_slots * sizeof *b->slots);
    if (!b->slots)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memset(b->slots, 0xFF, b->n_slots * sizeof *b->slots);
    for (int32_t i = 0; i < b->n; i++) {
        size_t at = b->piece[i].n ? slot_of_bytes(b, b->piece[i].p, b->piece[i].n) : 0;
        if (b->piece[i].n && b->slots[at] < 0)
            b->slots[at] = i;
    }
    end = steno_bpe_find(b, "<|endoftext|>", 13);
    b->regular = end < 0 ? b->n : end;
    return STENO_OK;
}

typedef steno_status put_piece(steno_bpe *b, int64_t id, const char *text, size_t n,
                               const char *name, steno_err *err);

static steno_status new_of(steno_bpe **out, put_piece *put, const struct steno_bpe_piece *pieces,
                           size_t n, const char *name, steno_err *err)
{
    steno_bpe *b = steno_bpe_empty();
    steno_status st = b ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    for (size_t i = 0; i < n && !st; i++)
        st = put(b, (int64_t)i, pieces[i].p, pieces[i].n, name, err);
    if (!st)
        st = steno_bpe_finish(b, name, err);
    if (st)
        steno_bpe_close(b);
    else
        *out = b;
    return st;
}

steno_status steno_bpe_new(steno_bpe **out, const struct steno_bpe_piece *pieces, size_t n,
                           const char *name, steno_err *err)
{
    return new_of(out, steno_bpe_put, pieces, n, name, err);
}

steno_status steno_bpe_new_printed(steno_bpe **out, const struct steno_bpe_piece *pieces, size_t n,
                                   const char *name, steno_err *err)
{
    return new_of(out, steno_bpe_put_printed, pieces, n, name, err);
}

void steno_bpe_close(steno_bpe *b)
{
    if (!b)
        return;
    steno_arena_free(b->mem);
    free(b->piece);
    free(b->slots);
    free(b);
}

/* ---- looking up ---------------------------------------------------------------------------- */

int32_t steno_bpe_count(const steno_bpe *b)
{
    return b->n;
}

void steno_bpe_set_pattern(steno_bpe *b, enum steno_bpe_pattern pattern)
{
    b->pattern = pattern;
}

int32_t steno_bpe_regular(const steno_bpe *b)
{
    return b->regular;
}

struct steno_bpe_piece steno_bpe_piece(const steno_bpe *b, int32_t id)
{
    return b->piece[id];
}

int32_t steno_bpe_find(const steno_bpe *b, const void *bytes, size_t n)
{
    return n && n <= STENO_BPE_MAX_PIECE ? b->slots[slot_of_bytes(b, bytes, n)] : -1;
}

/* ---- splitting text into words -------------------------------------------------------------- */

enum kind { BLANK, LETTER, DIGIT, OTHER };

/* White_Space of the Unicode Character Database. */
static bool is_blank(utf8proc_int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* Kind of the character at p, *len bytes. Invalid UTF-8 is one byte of OTHER. */
static enum kind kind_at(const char *p, const char *end, size_t *len)
{
    int32_t c;
    *len = steno_utf8_next(p, (size_t)(end - p), &c);
    if (is_blank(c))
        return BLANK;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return DIGIT;
    default:
        return OTHER;
    }
}

static size_t contraction(const char *p, const char *end, bool any_case)
{
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i]);
        if ((size_t)(end - p) >= n &&
            !(any_case ? strncasecmp(p, all[i], n) : strncmp(p, all[i], n)))
            return n;
    }
    return 0;
}

/* Length in bytes of the characters of one kind from p on. */
static size_t run_of_kind(const char *p, const char *end, enum kind kind)
{
    const char *at = p;
    size_t len;
    while (at < end && kind_at(at, end, &len) == kind)
        at += len;
    return (size_t)(at - p);
}

/* \s+(?!\S)|\s+ : a run of blanks leaves its last one to the following word. */
static size_t blanks(const char *p, const char *end)
{
    const char *at = p, *last = p;
    size_t len;
    while (at < end && kind_at(at, end, &len) == BLANK) {
        last = at;
        at += len;
    }
    return (size_t)((at < end && last > p ? last : at) - p);
}

/* Length in bytes of the word at p < end. */
static size_t gpt2_word_at(const char *p, const char *end)
{
    const char *at = p + (*p == ' ' && p + 1 < end);
    size_t len, n = contraction(p, end, false);
    enum kind kind;
    if (n)
        return n;
    kind = kind_at(at, end, &len);
    return kind == BLANK ? blanks(p, end) : (size_t)(at - p) + run_of_kind(at, end, kind);
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* \s*[\r\n]+ : blanks up to the last end of a line among them; 0: there is none. */
static size_t blanks_of_lines(const char *p, const char *end)
{
    size_t n = run_of_kind(p, end, BLANK);
    while (n && !is_line_end(p[n - 1]))
        n--;
    return n;
}

/* The first `most` characters of one kind from p on, in bytes. */
static size_t few_of_kind(const char *p, const char *end, enum kind kind, int most)
{
    const char *at = p;
    size_t len;
    for (int i = 0; i < most && at < end && kind_at(at, end, &len) == kind; i++)
        at += len;
    return (size_t)(at - p);
}

/* The same with Qwen's pattern, or cl100k's, which take this many digits. */
static size_t qwen_word_at(const char *p, const char *end, int digits)
{
    const char *at;
    size_t len, n = contraction(p, end, true);
    enum kind kind = kind_at(p, end, &len);
    if (n)
        return n;
    /* letters, with any one character before them but a digit or the end of a line */
    at = p + (kind == LETTER || kind == DIGIT || is_line_end(*p) ? 0 : len);
    n = run_of_kind(at, end, LETTER);
    if (n)
        return (size_t)(at - p) + n;
    if (kind == DIGIT)
        return few_of_kind(p, end, DIGIT, digits);
    at = p + (*p == ' ');
    n = run_of_kind(at, end, OTHER);
    if (n) {
        for (at += n; at < end && is_line_end(*at); at++)
            ;
        return (size_t)(at - p);
    }
    n = blanks_of_lines(p, end);
    return n ? n : blanks(p, end);
}

/* ---- merging ------------------------------------------------------------------------------- */

struct parts {
    const steno_bpe *b;
    const char *word;
    uint16_t from[WORD_MAX + 1]; /* part i is bytes from[i] .. from[i + 1] */
    int32_t pair[WORD_MAX]; /* number of the piece of parts i and i + 1 joined; NO_PIECE: none */
    size_t n;
};

static void rank_pair(struct parts *s, size_t i)
{
    int32_t id = -1;
    if (i + 1 < s->n)
        id = steno_bpe_find(s->b, s->word + s->from[i], (size_t)(s->from[i + 2] - s->from[i]));
    s->pair[i] = id < 0 || id >= s->b->regular ? NO_PIECE : id;
}

static void merge_parts(struct parts *s, size_t i)
{
    memmove(s->from + i + 1, s->from + i + 2, (s->n - i - 1) * sizeof *s->from);
    memmove(s->pair + i, s->pair + i + 1, (s->n - i - 1) * sizeof *s->pair);
    s->n--;
    rank_pair(s, i);
    if (i)
        rank_pair(s, i - 1);
}

static void merge_all(struct parts *s, const char *word, size_t n)
{
    s->word = word;
    s->n = n;
    for (size_t i = 0; i <= n; i++)
        s->from[i] = (uint16_t)i;
    for (size_t i = 0; i < n; i++)
        rank_pair(s, i);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < s->n; i++)
            best = s->pair[i] < s->pair[best] ? i : best;
        if (s->pair[best] == NO_PIECE)
            return;
        merge_parts(s, best);
    }
}

static steno_status encode_word(struct parts *s, const char *word, size_t n, int32_t *ids,
                                size_t max, size_t *count, steno_err *err)
{
    int32_t whole = steno_bpe_find(s->b, word, n);
    if (whole >= 0 && whole < s->b->regular) {
        if (*count < max)
            ids[*count] = whole;
        ++*count;
        return STENO_OK;
    }
    merge_all(s, word, n);
    for (size_t i = 0; i < s->n; i++, ++*count) {
        int32_t id = steno_bpe_find(s->b, word + s->from[i], (size_t)(s->from[i + 1] - s->from[i]));
        if (id < 0 || id >= s->b->regular)
            return steno_fail(err, STENO_ERR_FORMAT, "the vocabulary has no piece for byte 0x%02X",
                              (unsigned)(unsigned char)word[s->from[i]]);
        if (*count < max)
            ids[*count] = id;
    }
    return STENO_OK;
}

steno_status steno_bpe_encode(const steno_bpe *b, const char *text, size_t n, int32_t *ids,
                              size_t max, size_t *count, steno_err *err)
{
    const char *end = text + n;
    struct parts *s = malloc(sizeof *s);
    steno_status st = STENO_OK;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->b = b;
    *count = 0;
    while (text < end && !st) {
        size_t word = b->pattern == STENO_BPE_GPT2
                          ? gpt2_word_at(text, end)
                          : qwen_word_at(text, end, b->pattern == STENO_BPE_QWEN ? 1 : 3);
        for (size_t at = 0; at < word && !st; at += WORD_MAX)
            st = encode_word(s, text + at, word - at < WORD_MAX ? word - at : WORD_MAX, ids, max,
                             count, err);
        text += word;
    }
    free(s);
    return st;
}

/* ---- back to text -------------------------------------------------------------------------- */

steno_status steno_bpe_bytes(const steno_bpe *b, const int32_t *ids, size_t n,
                             struct steno_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        steno_status st;
        if (ids[i] < 0 || ids[i] >= b->regular)
            continue;
        st = steno_buf_add(out, b->piece[ids[i]].p, b->piece[ids[i]].n);
        if (st)
            return st;
    }
    return STENO_OK;
}

steno_status steno_bpe_text(const steno_bpe *b, const int32_t *ids, size_t n, struct steno_buf *out)
{
    struct steno_buf raw;
    steno_status st;
    steno_buf_init(&raw, out->max);
    st = steno_bpe_bytes(b, ids, n, &raw);
    if (!st)
        st = steno_utf8_repair(raw.data ? raw.data : "", raw.len, out);
    steno_buf_free(&raw);
    return st;
}
