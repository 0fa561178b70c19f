#include "speech/text/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/lines.h"
#include "base/utf8.h"
#include "speech/text/bpe.h"

#define MARK "\xE2\x96\x81" /* U+2581 */
#define MARK_LEN 3

struct token {
    const char *piece; /* as in the file; NULL = id not seen yet */
    const char *text;  /* points into piece, or at byte */
    uint16_t len;
    uint8_t flags;
    char byte;
};

struct steno_tokens {
    steno_arena *arena;
    struct token *t;
    size_t cap;
    int32_t n;
    int32_t *slots;    /* [n_slots] hash table of pieces: the lowest id of each; -1 = free */
    size_t n_slots;    /* a power of two */
    int32_t delimiter; /* -1: none */
    bool whole_words, joining, byte_level, cut_characters;
};

bool steno_tokens_is_cjk(int32_t c)
{
    return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

/* Nothing but marks that stand behind a word, without a space before them. */
static bool is_mark_text_tokens(const char *s, size_t n)
{
    int32_t c = 0;
    for (size_t k; n > 0; s += k, n -= k) {
        k = steno_utf8_next(s, n, &c);
        switch (utf8proc_category(c)) {
        case UTF8PROC_CATEGORY_PO:
        case UTF8PROC_CATEGORY_PE:
        case UTF8PROC_CATEGORY_PF:
            break;
        default:
            return false;
        }
    }
    return c && c != 0xBF && c != 0xA1; /* ¿ ¡ */
}

/* Bytes of UTF-8: the first of an ideograph (U+4000 to U+9FFF), or one that is no first. */
static uint8_t byte_flags(unsigned byte)
{
    return STENO_TOKEN_BYTE | (byte >= 0xE4 && byte <= 0xE9 ? STENO_TOKEN_ALONE : 0u) |
           ((byte & 0xC0) == 0x80 ? STENO_TOKEN_FOLLOWS : 0u);
}

/* "<0xE4>" */
static int byte_piece(const char *p, size_t n)
{
    int hi, lo;
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>')
        return -1;
    hi = steno_hex(p[3]);
    lo = steno_hex(p[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

static void classify(struct token *t, size_t n)
{
    int32_t c;
    int byte = byte_piece(t->piece, n);
    t->text = t->piece;
    t->len = (uint16_t)n;
    if (byte >= 0) {
        t->byte = (char)byte;
        t->text = &t->byte;
        t->len = 1;
        t->flags = byte_flags((unsigned)byte);
    } else if (n >= MARK_LEN && memcmp(t->piece, MARK, MARK_LEN) == 0) {
        t->text += MARK_LEN;
        t->len = (uint16_t)(n - MARK_LEN);
        t->flags = STENO_TOKEN_WORD;
    } else if (n && t->piece[0] == ' ') {
        t->text += 1;
        t->len = (uint16_t)(n - 1);
        t->flags = STENO_TOKEN_WORD;
    } else if (n && steno_utf8_next(t->piece, n, &c) && c >= 0) {
        t->flags = steno_tokens_is_cjk(c)             ? STENO_TOKEN_ALONE
                   : is_mark_text_tokens(t->piece, n) ? STENO_TOKEN_FOLLOWS
                                                      : 0;
    }
}

static void find_whole_words(steno_tokens *t)
{
    t->whole_words = true;
    for (int32_t i = 0; i < t->n; i++)
        if ((t->t[i].flags & STENO_TOKEN_JOINS) ||
            !(t->t[i].flags & (STENO_TOKEN_WORD | STENO_TOKEN_ALONE | STENO_TOKEN_DROP)))
            t->whole_words = false;
}

/* ---- byte-level pieces ----------------------------------------------------------------------- */

#define UNKNOWN_BYTE 0x2047 /* k2's sign for a character without pieces; its text is a space */
#define HIGH_LETTER 0x180   /* from here on the signs are of bytes that begin a character */

/* The byte that a letter of icefall's byte-level BPE represents, and the other way round
 * (icefall/byte_utils.py, PRINTABLE_BASE_CHARS: the byte is the place in these ranges). */
static const struct {
    uint16_t first, last, byte;
} byte_letters[] = {{256, 287, 0},   {32, 126, 32},   {288, 305, 127}, {308, 318, 145},
                    {321, 328, 156}, {330, 382, 164}, {384, 422, 217}};

static int byte_of_letter(utf8proc_int32_t c)
{
    for (size_t i = 0; i < sizeof byte_letters / sizeof *byte_letters; i++)
        if (c >= byte_letters[i].first && c <= byte_letters[i].last)
            return c - byte_letters[i].first + byte_letters[i].byte;
    return c == UNKNOWN_BYTE ? ' ' : -1;
}

size_t steno_tokens_byte_letter(unsigned char byte, char out[2])
{
    size_t i = sizeof byte_letters / sizeof *byte_letters;
    while (byte_letters[--i].byte > byte)
        ;
    return (size_t)utf8proc_encode_char(byte_letters[i].first + byte - byte_letters[i].byte,
                                        (utf8proc_uint8_t *)out);
}

bool steno_tokens_apart(int32_t c)
{
    return (c >= 0x1100 && c <= 0x11FF) || (c >= 0x2E80 && c <= 0xA4CF) ||
           (c >= 0xA840 && c <= 0xD7AF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0xFE30 && c <= 0xFE4F) || (c >= 0xFF65 && c <= 0xFFDC) ||
           (c >= 0x20000 && c <= 0x2FFFF);
}

/* All pieces are letters of bytes, with a word mark at most in front, and one of them is a sign
 * that only Chinese and other such texts need: Latin vocabularies have accented letters that are
 * none of these, or no sign so high (sherpa-onnx's symbol-table.cc has the last rule). */
static bool is_byte_level(const steno_tokens *t)
{
    bool high = false;
    for (int32_t i = 0; i < t->n; i++) {
        const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)t->t[i].piece;
        utf8proc_int32_t c;
        if (strncmp(t->t[i].piece, MARK, MARK_LEN) == 0)
            p += MARK_LEN;
        for (; *p; p += utf8proc_iterate(p, -1, &c)) {
            if (utf8proc_iterate(p, -1, &c) <= 0 || byte_of_letter(c) < 0)
                return false;
            high |= c >= HIGH_LETTER && c != UNKNOWN_BYTE;
        }
    }
    return high;
}

/* Replace the text of each token by its bytes. */
static steno_status decode_bytes(steno_tokens *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        struct token *k = &t->t[i];
        const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)k->text;
        char *out = steno_arena_strndup(t->arena, k->text, k->len); /* not longer */
        uint16_t n = 0;
        if (!out)
            return STENO_ERR_NOMEM;
        k->flags &= (uint8_t)~STENO_TOKEN_FOLLOWS; /* the letters were no marks */
        for (utf8proc_int32_t c; *p; out[n++] = (char)byte_of_letter(c)) {
            p += utf8proc_iterate(p, -1, &c);
            if (c > 126)
                k->flags |= STENO_TOKEN_BYTE;
        }
        k->text = out;
        k->len = n;
    }
    t->byte_level = t->cut_characters = true;
    return STENO_OK;
}

/* ---- index ----------------------------------------------------------------------------------- */

static size_t slot_of_token(const steno_tokens *t, const char *piece)
{
    size_t at = (size_t)XXH3_64bits(piece, strlen(piece)) & (t->n_slots - 1);
    while (t->slots[at] >= 0 && strcmp(t->t[t->slots[at]].piece, piece) != 0)
        at = (at + 1) & (t->n_slots - 1);
    return at;
}

static steno_status index_pieces(steno_tokens *t)
{
    for (t->n_slots = 2; t->n_slots < 2 * (size_t)t->n;)
        t->n_slots *= 2;
    t->slots = malloc(t->n_slots * sizeof *t->slots);
    if (!t->slots)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < t->n_slots; i++)
        t->slots[i] = -1;
    for (int32_t i = 0; i < t->n; i++) {
        const size_t at = slot_of_token(t, t->t[i].piece);
        if (t->slots[at] < 0)
            t->slots[at] = i;
    }
    return STENO_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static steno_status grow_tokens(steno_tokens *t, int32_t id)
{
    const size_t had = t->cap;
    const steno_status st = STENO_RESERVE(&t->t, &t->cap, (size_t)id + 1);
    if (!st)
        memset(t->t + had, 0, (t->cap - had) * sizeof *t->t);
    return st;
}

/* Split "piece id" at the last run of blanks. Returns the id or -1. */
static int32_t split_line(const char *s, size_t n, size_t *piece_len)
{
    size_t d = n;
    int32_t id = 0;
    while (d > 0 && s[d - 1] >= '0' && s[d - 1] <= '9')
        d--;
    if (d == n || n - d > 7 || (d > 0 && s[d - 1] != ' ' && s[d - 1] != '\t'))
        return -1;
    for (size_t i = d; i < n; i++)
        id = id * 10 + (s[i] - '0');
    *piece_len = d ? d - 1 : 0;
    return id < STENO_TOKENS_MAX ? id : -1;
}

static steno_status parse_line(steno_tokens *t, const char *s, size_t n, const char *name,
                               size_t line, steno_err *err)
{
    size_t len = 0;
    int32_t id = split_line(s, n, &len);
    struct token *tok;
    if (id < 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s:%zu: expected \"piece id\" with an id below %d", name, line,
                          STENO_TOKENS_MAX);
    if (len == 0) { /* the exporter wrote a plain space as the piece */
        s = " ";
        len = 1;
    }
    if (len > STENO_TOKENS_MAX_PIECE)
        return steno_fail(err, STENO_ERR_LIMIT, "%s:%zu: piece of %zu bytes, at most %d", name,
                          line, len, STENO_TOKENS_MAX_PIECE);
    if (memchr(s, '\0', len) || !steno_utf8_valid(s, len))
        return steno_fail(err, STENO_ERR_FORMAT, "%s:%zu: piece is not UTF-8 text", name, line);
    if (grow_tokens(t, id))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    tok = &t->t[id];
    if (tok->piece)
        return steno_fail(err, STENO_ERR_FORMAT, "%s:%zu: duplicate id %d", name, line, (int)id);
    tok->piece = steno_arena_strndup(t->arena, s, len);
    if (!tok->piece)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (id >= t->n)
        t->n = id + 1;
    return STENO_OK;
}

static steno_status parse_lines(steno_tokens *t, const char *bytes, size_t n, const char *name,
                                steno_err *err)
{
    struct steno_lines l = {.p = bytes, .end = bytes + n};
    steno_status st = STENO_OK;
    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        l.p += 3;
    while (!st && steno_lines_next(&l))
        st = l.n ? parse_line(t, l.line, l.n, name, l.number, err) : STENO_OK;
    return st;
}

/* NULL: out of memory. */
static steno_tokens *new_tokens(void)
{
    steno_tokens *t = calloc(1, sizeof *t);
    if (!t || !(t->arena = steno_arena_new(0))) {
        free(t);
        return NULL;
    }
    t->delimiter = -1;
    return t;
}

/* Of a piece that need not be UTF-8. */
static void classify_bytes(struct token *t, size_t n)
{
    size_t blank = 0;
    while (blank < n && (unsigned char)t->piece[blank] <= ' ')
        blank++;
    classify(t, n);
    if (n && blank == n) {
        t->len = 0;
        t->flags = STENO_TOKEN_WORD;
    } else if (!steno_utf8_valid(t->text, t->len)) {
        const uint8_t flags = byte_flags((unsigned char)t->text[0]);
        t->flags = t->flags & STENO_TOKEN_WORD ? STENO_TOKEN_WORD | STENO_TOKEN_BYTE : flags;
    }
}

static steno_status copy_pieces(steno_tokens *t, const struct steno_bpe_piece *pieces, size_t n,
                                const char *name, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct token *k = &t->t[i];
        if (pieces[i].n > STENO_TOKENS_MAX_PIECE)
            return steno_fail(err, STENO_ERR_LIMIT, "%s: piece %zu has %zu bytes, at most %d", name,
                              i, pieces[i].n, STENO_TOKENS_MAX_PIECE);
        k->piece = steno_arena_strndup(t->arena, pieces[i].n ? pieces[i].p : "", pieces[i].n);
        if (!k->piece)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
        classify_bytes(k, pieces[i].n);
        if (!pieces[i].n)
            k->flags = STENO_TOKEN_DROP;
    }
    return STENO_OK;
}

steno_status steno_tokens_of_bytes(steno_tokens **out, const struct steno_bpe_piece *pieces,
                                   size_t n, const char *name, steno_err *err)
{
    steno_tokens *t = n && n <= STENO_TOKENS_MAX ? new_tokens() : NULL;
    steno_status st;
    if (!n || n > STENO_TOKENS_MAX)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu pieces, expected 1 to %d", name, n,
                          STENO_TOKENS_MAX);
    if (!t || grow_tokens(t, (int32_t)n - 1)) {
        steno_tokens_close(t);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    t->n = (int32_t)n;
    t->cut_characters = true;
    st = copy_pieces(t, pieces, n, name, err);
    if (!st && index_pieces(t))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (st) {
        steno_tokens_close(t);
        return st;
    }
    find_whole_words(t);
    *out = t;
    return STENO_OK;
}

steno_status steno_tokens_parse(steno_tokens **out, const char *bytes, size_t n, const char *name,
                                steno_err *err)
{
    steno_tokens *t = new_tokens();
    steno_status st;
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = parse_lines(t, bytes, n, name, err);
    if (st)
        goto fail;
    if (t->n == 0) {
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: no tokens", name);
        goto fail;
    }
    for (int32_t i = 0; i < t->n; i++) {
        if (!t->t[i].piece) {
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: id %d is missing (highest is %d)", name,
                            (int)i, (int)(t->n - 1));
            goto fail;
        }
        classify(&t->t[i], strlen(t->t[i].piece));
    }
    find_whole_words(t);
    st = index_pieces(t);
    if (!st && is_byte_level(t))
        st = decode_bytes(t);
    if (st) {
        steno_fail(err, st, "%s: out of memory", name);
        goto fail;
    }
    *out = t;
    return STENO_OK;
fail:
    steno_tokens_close(t);
    return st;
}

steno_status steno_tokens_open(steno_tokens **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_TOKENS_MAX_FILE, &bytes, &n, err);
    if (st)
        return st;
    st = steno_tokens_parse(out, bytes, n, path, err);
    free(bytes);
    return st;
}

void steno_tokens_close(steno_tokens *t)
{
    if (!t)
        return;
    steno_arena_free(t->arena);
    free(t->slots);
    free(t->t);
    free(t);
}

steno_status steno_tokens_drop(steno_tokens *t, const char *list, steno_err *err)
{
    while (*(list += strspn(list, " \t"))) {
        size_t n = strcspn(list, " \t");
        int32_t i;
        for (i = 0; i < t->n; i++)
            if (strlen(t->t[i].piece) == n && memcmp(t->t[i].piece, list, n) == 0)
                break;
        if (i == t->n)
            return steno_fail(err, STENO_ERR_FORMAT, "'%.*s' is not in the vocabulary", (int)n,
                              list);
        t->t[i].flags |= STENO_TOKEN_DROP;
        list += n;
    }
    find_whole_words(t);
    return STENO_OK;
}

void steno_tokens_hide(steno_tokens *t, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->t[ids[i]].flags |= STENO_TOKEN_DROP;
    find_whole_words(t);
}

void steno_tokens_set_joining(steno_tokens *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        struct token *k = &t->t[i];
        const size_t n = strlen(k->piece);
        const bool joins = n > 2 && memcmp(k->piece + n - 2, "@@", 2) == 0;
        const unsigned drop = k->flags & STENO_TOKEN_DROP;
        k->text = k->piece;
        k->len = (uint16_t)(joins ? n - 2 : n);
        k->flags =
            (uint8_t)(drop |
                      ((unsigned char)k->piece[0] < 0x80 ? STENO_TOKEN_WORD : STENO_TOKEN_ALONE) |
                      (joins ? STENO_TOKEN_JOINS : 0u));
    }
    t->joining = true;
    find_whole_words(t);
}

void steno_tokens_set_delimiter(steno_tokens *t, int32_t id)
{
    t->t[id].len = 0;
    t->t[id].flags = STENO_TOKEN_WORD;
    t->delimiter = id;
    find_whole_words(t);
}

int32_t steno_tokens_delimiter(const steno_tokens *t)
{
    return t->delimiter;
}

bool steno_tokens_joining(const steno_tokens *t)
{
    return t->joining;
}

int32_t steno_tokens_count(const steno_tokens *t)
{
    return t->n;
}

int32_t steno_tokens_find(const steno_tokens *t, const char *piece)
{
    return t->slots[slot_of_token(t, piece)];
}

const char *steno_tokens_text(const steno_tokens *t, int32_t id, size_t *len)
{
    *len = t->t[id].len;
    return t->t[id].text;
}

const char *steno_tokens_piece(const steno_tokens *t, int32_t id)
{
    return t->t[id].piece;
}

unsigned steno_tokens_flags(const steno_tokens *t, int32_t id)
{
    return t->t[id].flags;
}

bool steno_tokens_cut_characters(const steno_tokens *t)
{
    return t->cut_characters;
}

bool steno_tokens_byte_level(const steno_tokens *t)
{
    return t->byte_level;
}

bool steno_tokens_whole_words(const steno_tokens *t)
{
    return t->whole_words;
}
