#include "speech/text/sentencepiece.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "sentencepiece.pb-c.h"

#define MARK "\xE2\x96\x81" /* U+2581 */
#define MARK_LEN 3
#define UNKNOWN_TEXT " \xE2\x81\x87 " /* U+2047 */
#define REPLACEMENT "\xEF\xBF\xBD"

struct piece {
    const char *text;
    enum steno_sentencepiece_type type;
    unsigned char byte; /* the byte of a byte piece */
    float score;
};

struct steno_sentencepiece {
    steno_arena *mem;
    struct piece *pieces;
    int32_t n, unknown;
    int32_t *slots; /* [n_slots] hash table of piece numbers, -1 = free */
    size_t n_slots; /* a power of two */
    int model_type;
    bool dummy_prefix, trims;
    const char *unknown_text;
};

/* ---- reading ------------------------------------------------------------------------------- */

/* An empty piece takes two bytes in the file and about 100 here: memory is bounded by the file
 * size. */
struct heap {
    ProtobufCAllocator alloc;
    size_t left;
};

static void *heap_alloc(void *data, size_t n)
{
    struct heap *h = data;
    if (n > h->left)
        return NULL;
    h->left -= n;
    return malloc(n ? n : 1);
}

static void heap_free(void *data, void *p)
{
    (void)data;
    free(p);
}

static bool is_text(const void *s, size_t n)
{
    return steno_utf8_valid(s, n) && !memchr(s, '\0', n);
}

/* "<0xE4>" */
static int byte_of(const char *p)
{
    const bool is = strlen(p) == 6 && memcmp(p, "<0x", 3) == 0 && p[5] == '>' &&
                    strspn(p + 3, "0123456789ABCDEF") == 2;
    return is ? steno_hex(p[3]) * 16 + steno_hex(p[4]) : -1;
}

static size_t slot_of_piece(const steno_sentencepiece *s, const char *piece)
{
    size_t at = (size_t)XXH3_64bits(piece, strlen(piece)) & (s->n_slots - 1);
    while (s->slots[at] >= 0 && strcmp(s->pieces[s->slots[at]].text, piece) != 0)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

static steno_status add_unigram_piece(steno_sentencepiece *s, const StenoSpm__Piece *from,
                                      const char *name, steno_err *err)
{
    struct piece *p = &s->pieces[s->n];
    size_t slot, len = from->piece.len;
    int byte;
    if (!len || len > STENO_SENTENCEPIECE_MAX_PIECE || !is_text(from->piece.data, len))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: piece %d is empty, longer than %d bytes or not UTF-8 text", name,
                          (int)s->n, STENO_SENTENCEPIECE_MAX_PIECE);
    if (from->type < STENO_SENTENCEPIECE_NORMAL || from->type > STENO_SENTENCEPIECE_BYTE)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: piece %d has type %d, expected 1 to 6", name,
                          (int)s->n, (int)from->type);
    p->text = steno_arena_strndup(s->mem, (const char *)from->piece.data, len);
    if (!p->text)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    p->type = (enum steno_sentencepiece_type)from->type;
    p->score = from->score;
    byte = byte_of(p->text);
    if (p->type == STENO_SENTENCEPIECE_BYTE && byte < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: piece %d, '%.32s', is not a byte", name,
                          (int)s->n, p->text);
    p->byte = (unsigned char)(byte < 0 ? 0 : byte);
    slot = slot_of_piece(s, p->text);
    if (s->slots[slot] >= 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: piece %d, '%.32s', is a duplicate of piece %d", name, (int)s->n,
                          p->text, (int)s->slots[slot]);
    if (p->type == STENO_SENTENCEPIECE_UNKNOWN && s->unknown >= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: pieces %d and %d are both the unknown piece",
                          name, (int)s->unknown, (int)s->n);
    if (p->type == STENO_SENTENCEPIECE_UNKNOWN)
        s->unknown = s->n;
    s->slots[slot] = s->n++;
    return STENO_OK;
}

static steno_status reserve_pieces(steno_sentencepiece *s, size_t n, const char *name,
                                   steno_err *err)
{
    for (s->n_slots = 16; s->n_slots < 2 * n; s->n_slots *= 2)
        ;
    s->mem = steno_arena_new(0);
    s->pieces = calloc(n, sizeof *s->pieces);
    s->slots = malloc(s->n_slots * sizeof *s->slots);
    if (!s->mem || !s->pieces || !s->slots)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memset(s->slots, 0xFF, s->n_slots * sizeof *s->slots);
    return STENO_OK;
}

static steno_status take_model(steno_sentencepiece *s, const StenoSpm__Model *m, const char *name,
                               steno_err *err)
{
    const StenoSpm__TrainerSpec *t = m->trainer_spec;
    const StenoSpm__NormalizerSpec *n = m->normalizer_spec;
    const char *surface = t && t->unk_surface ? t->unk_surface : UNKNOWN_TEXT;
    steno_status st = STENO_OK;
    if (!m->n_pieces || m->n_pieces > STENO_SENTENCEPIECE_MAX_PIECES)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu pieces, expected 1 to %d", name,
                          m->n_pieces, STENO_SENTENCEPIECE_MAX_PIECES);
    s->model_type = t ? t->model_type : 1;
    if (s->model_type < 1 || s->model_type > 4)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: model type %d, expected 1 to 4", name,
                          s->model_type);
    if (strlen(surface) > STENO_SENTENCEPIECE_MAX_PIECE || !is_text(surface, strlen(surface)))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: trainer_spec.unk_surface is not a short text",
                          name);
    s->dummy_prefix = !n || n->add_dummy_prefix;
    s->trims = !n || n->remove_extra_whitespaces;
    st = reserve_pieces(s, m->n_pieces, name, err);
    for (size_t i = 0; i < m->n_pieces && !st; i++)
        st = add_unigram_piece(s, m->pieces[i], name, err);
    if (st)
        return st;
    if (s->unknown < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no unknown piece", name);
    s->unknown_text = steno_arena_strdup(s->mem, surface);
    return s->unknown_text ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
}

steno_status steno_sentencepiece_parse(steno_sentencepiece **out, const void *bytes, size_t n,
                                       const char *name, steno_err *err)
{
    struct heap heap = {.alloc = {heap_alloc, heap_free, &heap}};
    steno_sentencepiece *s;
    StenoSpm__Model *m;
    steno_status st;
    if (n > STENO_SENTENCEPIECE_MAX_FILE)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu bytes, at most %zu", name, n,
                          STENO_SENTENCEPIECE_MAX_FILE);
    heap.left = 16 * n + ((size_t)1 << 20);
    m = steno_spm__model__unpack(&heap.alloc, n, bytes);
    if (!m)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: not a SentencePiece model (no protocol buffer of that kind)", name);
    s = calloc(1, sizeof *s);
    if (s) {
        s->unknown = -1;
        st = take_model(s, m, name, err);
    } else {
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    steno_spm__model__free_unpacked(m, &heap.alloc);
    if (st)
        steno_sentencepiece_close(s);
    else
        *out = s;
    return st;
}

steno_status steno_sentencepiece_open(steno_sentencepiece **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_SENTENCEPIECE_MAX_FILE, &bytes, &n, err);
    if (st)
        return st;
    st = steno_sentencepiece_parse(out, bytes, n, path, err);
    free(bytes);
    return st;
}

void steno_sentencepiece_close(steno_sentencepiece *s)
{
    if (!s)
        return;
    steno_arena_free(s->mem);
    free(s->pieces);
    free(s->slots);
    free(s);
}

/* ---- looking up ---------------------------------------------------------------------------- */

int32_t steno_sentencepiece_count(const steno_sentencepiece *s)
{
    return s->n;
}

const char *steno_sentencepiece_model_type(const steno_sentencepiece *s)
{
    static const char *const names[] = {"unigram", "bpe", "word", "char"};
    return names[s->model_type - 1];
}

const char *steno_sentencepiece_piece(const steno_sentencepiece *s, int32_t id)
{
    return s->pieces[id].text;
}

float steno_sentencepiece_score(const steno_sentencepiece *s, int32_t id)
{
    return s->pieces[id].score;
}

enum steno_sentencepiece_type steno_sentencepiece_type(const steno_sentencepiece *s, int32_t id)
{
    return s->pieces[id].type;
}

int32_t steno_sentencepiece_find(const steno_sentencepiece *s, const char *piece)
{
    return s->slots[slot_of_piece(s, piece)];
}

/* ---- pieces to text ------------------------------------------------------------------------ */

/* A piece with its word marks as spaces. */
static steno_status add_spaced(struct steno_buf *out, const char *piece)
{
    steno_status st = STENO_OK;
    while (*piece && !st) {
        const char *mark = strstr(piece, MARK);
        size_t n = mark ? (size_t)(mark - piece) : strlen(piece);
        st = steno_buf_add(out, piece, n);
        if (mark && !st)
            st = steno_buf_add(out, " ", 1);
        piece += n + (mark ? MARK_LEN : 0);
    }
    return st;
}

/* Append the text of a piece. begin: nothing was written before. *seen: a word mark was removed. */
static steno_status add_piece_text(const steno_sentencepiece *s, const char *piece, int32_t id,
                                   bool begin, bool *seen, struct steno_buf *out)
{
    *seen = false;
    if (id < 0)
        return steno_buf_puts(out, piece);
    if (s->pieces[id].type == STENO_SENTENCEPIECE_CONTROL)
        return STENO_OK;
    if (id == s->unknown)
        return steno_buf_puts(out, s->unknown_text);
    if (begin && (s->dummy_prefix || s->trims) && strncmp(piece, MARK, MARK_LEN) == 0) {
        piece += MARK_LEN;
        *seen = !s->trims; /* where spaces are trimmed, all of them at the beginning are removed */
    }
    return add_spaced(out, piece);
}

/* Append a run of byte pieces. */
static steno_status add_bytes(const char *p, size_t n, struct steno_buf *out)
{
    steno_status st = STENO_OK;
    for (size_t k; n && !st; p += k, n -= k) {
        int32_t c;
        k = steno_utf8_next(p, n, &c);
        st = c >= 0 ? steno_buf_add(out, p, k) : steno_buf_puts(out, REPLACEMENT);
    }
    return st;
}

steno_status steno_sentencepiece_decode(const steno_sentencepiece *s, const char *const *pieces,
                                        size_t n, struct steno_buf *out)
{
    size_t begin = out->len, run = 0;
    char *bytes = malloc(n ? n : 1);
    bool first = true, seen = false;
    steno_status st = bytes ? STENO_OK : STENO_ERR_NOMEM;
    for (size_t i = 0; i <= n && !st; i++) {
        int32_t id = i < n ? steno_sentencepiece_find(s, pieces[i]) : -1;
        if (id >= 0 && s->pieces[id].type == STENO_SENTENCEPIECE_BYTE) {
            bytes[run++] = (char)s->pieces[id].byte;
            continue;
        }
        st = add_bytes(bytes, run, out);
        run = 0;
        if (seen || out->len > begin)
            first = false;
        if (i < n && !st)
            st = add_piece_text(s, pieces[i], id, first, &seen, out);
    }
    free(bytes);
    return st;
}
