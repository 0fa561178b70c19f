/* The written text is cut into pieces: at blanks, and beside characters that are not ASCII where
 * what follows comes from later words. Each piece is a word. */
#include "speech/recognizer/written.h"

#include <math.h>
#include <string.h>

#define NO_WORD UINT32_MAX

/* Spoken words [first, end). */
struct range {
    uint32_t first, end;
};

struct piece {
    size_t at, n; /* bytes of the written text */
    struct range from;
};

struct job {
    const struct steno_alternative *in;
    steno_arena *arena;
    size_t n;          /* bytes of the spoken text */
    char *low;         /* the spoken text in small letters */
    uint32_t *word_of; /* [n] the word of each byte of it */
    bool capitals;     /* it has no small letters, but capital ones */
    const struct steno_itn_text *out;
    char *text;          /* the written text */
    struct range *from;  /* [out->n] words that each byte of it comes from */
    uint32_t *later;     /* [out->n + 1] the first word of any byte from here on */
    struct piece *piece; /* [out->n] */
    size_t n_pieces;
};

static bool is_small(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

static char to_small(char c)
{
    return is_capital(c) ? (char)(c + ('a' - 'A')) : c;
}

static void find_cases(const char *text, bool *small, bool *capital)
{
    *small = *capital = false;
    for (; *text; text++) {
        *small |= is_small(*text);
        *capital |= is_capital(*text);
    }
}

bool steno_written_is_spoken(const char *text)
{
    static const char *const marks[] = {"\xE3\x80\x82", "\xEF\xBC\x8C",
                                        "\xEF\xBC\x9F"}; /* 。，？ */
    bool small, capital;
    find_cases(text, &small, &capital);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(text, marks[i]))
            return false;
    return !(small && capital) && !text[strcspn(text, "0123456789.,?!;:")];
}

/* ---- the spoken text ------------------------------------------------------------------------- */

/* False: the words do not follow each other in the text. */
static bool place_words(struct job *j)
{
    const char *p = j->in->text;
    for (size_t i = 0; i < j->n; i++)
        j->word_of[i] = NO_WORD;
    for (size_t i = 0; i < j->in->n_words; i++) {
        const char *text = j->in->words[i].text, *at = strstr(p, text);
        if (!at)
            return false;
        p = at + strlen(text);
        for (; at < p; at++)
            j->word_of[at - j->in->text] = (uint32_t)i;
    }
    return true;
}

static bool prepare_job(struct job *j)
{
    bool small, capital;
    j->n = strlen(j->in->text);
    j->low = steno_arena_strndup(j->arena, j->in->text, j->n);
    j->word_of = steno_arena_calloc(j->arena, j->n + 1, sizeof *j->word_of);
    for (size_t i = 0; j->low && i < j->n; i++)
        j->low[i] = to_small(j->low[i]);
    find_cases(j->in->text, &small, &capital);
    j->capitals = capital && !small;
    return j->low && j->word_of;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct range words_in(const struct job *j, struct steno_itn_origin o)
{
    struct range r = {NO_WORD, 0};
    for (uint32_t i = o.begin; i < o.end; i++)
        if (j->word_of[i] != NO_WORD) {
            r.first = r.first < j->word_of[i] ? r.first : j->word_of[i];
            r.end = r.end > j->word_of[i] + 1 ? r.end : j->word_of[i] + 1;
        }
    return r;
}

static void find_ranges(struct job *j)
{
    const struct steno_itn_text *t = j->out;
    j->later[t->n] = NO_WORD;
    for (size_t i = 0; i < t->n; i++) {
        const bool same = i && t->origin[i].begin == t->origin[i - 1].begin &&
                          t->origin[i].end == t->origin[i - 1].end;
        j->from[i] = same ? j->from[i - 1] : words_in(j, t->origin[i]);
    }
    for (size_t i = t->n; i-- > 0;)
        j->later[i] = j->from[i].first < j->later[i + 1] ? j->from[i].first : j->later[i + 1];
}

/* Whether a word may end before byte i, whose words so far are up to `end`. */
static bool may_cut(const struct job *j, size_t i, uint32_t end)
{
    const unsigned char before = (unsigned char)j->out->text[i - 1];
    const unsigned char at = (unsigned char)j->out->text[i];
    return (at & 0xC0) != 0x80 && (before >= 0x80 || at >= 0x80) && end <= j->later[i] &&
           j->later[i] != NO_WORD;
}

static void cut_pieces(struct job *j)
{
    struct range last = {0, 1};
    for (size_t i = 0; i < j->out->n;) {
        struct piece p = {.at = i, .from = {NO_WORD, 0}};
        if (j->out->text[i] == ' ') {
            i++;
            continue;
        }
        do {
            p.from.first = j->from[i].first < p.from.first ? j->from[i].first : p.from.first;
            p.from.end = j->from[i].end > p.from.end ? j->from[i].end : p.from.end;
            i++;
        } while (i < j->out->n && j->out->text[i] != ' ' && !may_cut(j, i, p.from.end));
        p.n = i - p.at;
        if (!p.from.end) /* of no word */
            p.from = last;
        last = p.from;
        j->piece[j->n_pieces++] = p;
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_same(const char *word, const char *piece, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (to_small(word[i]) != piece[i]) /* also where the word ends */
            return false;
    return !word[n];
}

/* The text of a piece: the spoken word in its own case if it stays. */
static const char *piece_text(struct job *j, const struct piece *p)
{
    const char *spoken = j->in->words[p->from.first].text;
    char *at = j->text + p->at;
    if (p->from.end == p->from.first + 1 && is_same(spoken, at, p->n)) {
        memcpy(at, spoken, p->n);
        return spoken;
    }
    for (size_t i = 0; j->capitals && i < p->n; i++)
        at[i] = is_small(at[i]) ? (char)(at[i] - ('a' - 'A')) : at[i];
    return steno_arena_strndup(j->arena, at, p->n);
}

static float mean_confidence(const struct steno_word *w, struct range r)
{
    double sum = 0;
    for (uint32_t i = r.first; i < r.end; i++)
        sum += log(fmax((double)w[i].confidence, 1e-30));
    return (float)exp(sum / (r.end - r.first));
}

/* Pieces [i, end) share words with each other and with no later piece. */
static size_t end_of_group(const struct job *j, size_t i, struct range *r)
{
    *r = j->piece[i].from;
    for (i++; i < j->n_pieces && j->piece[i].from.first < r->end; i++) {
        r->first = j->piece[i].from.first < r->first ? j->piece[i].from.first : r->first;
        r->end = j->piece[i].from.end > r->end ? j->piece[i].from.end : r->end;
    }
    return i;
}

/* Give the words of a group their times: all of it for one, shares of it by length for several. */
static void time_group(const struct job *j, size_t i, size_t end, struct range r,
                       struct steno_word *out)
{
    const double start = j->in->words[r.first].start, stop = j->in->words[r.end - 1].end;
    size_t bytes = 0, done = 0;
    for (size_t k = i; k < end; k++)
        bytes += j->piece[k].n;
    for (size_t k = i; k < end; k++) {
        out[k].start = start + (stop - start) * (double)done / (double)bytes;
        done += j->piece[k].n;
        out[k].end = k + 1 == end ? stop : start + (stop - start) * (double)done / (double)bytes;
    }
}

static bool write_words(struct job *j, struct steno_alternative *io)
{
    struct steno_word *out = steno_arena_calloc(j->arena, j->n_pieces + 1, sizeof *out);
    bool ok = out != NULL;
    for (size_t i = 0; ok && i < j->n_pieces; i++) {
        out[i].text = piece_text(j, &j->piece[i]);
        out[i].confidence = mean_confidence(j->in->words, j->piece[i].from);
        ok = out[i].text != NULL;
    }
    for (size_t i = 0, end; ok && i < j->n_pieces; i = end) {
        struct range r;
        end = end_of_group(j, i, &r);
        time_group(j, i, end, r, out);
    }
    if (ok) {
        io->text = j->text;
        io->words = out;
        io->n_words = j->n_pieces;
    }
    return ok;
}

static bool write_alternative(struct job *j, struct steno_alternative *io)
{
    const size_t n = j->out->n;
    j->text = steno_arena_strndup(j->arena, j->out->text, n);
    j->from = steno_arena_calloc(j->arena, n + 1, sizeof *j->from);
    j->later = steno_arena_calloc(j->arena, n + 1, sizeof *j->later);
    j->piece = steno_arena_calloc(j->arena, n + 1, sizeof *j->piece);
    if (!j->text || !j->from || !j->later || !j->piece)
        return false;
    find_ranges(j);
    cut_pieces(j);
    return write_words(j, io);
}

steno_status steno_written_apply(struct steno_alternative *io, const steno_itn *g,
                                 steno_itn_writer *w, steno_arena *arena)
{
    const struct steno_alternative in = *io;
    struct job j = {.in = &in, .arena = arena};
    struct steno_itn_text t;
    steno_status st;
    if (!in.n_words)
        return STENO_OK;
    if (!prepare_job(&j))
        return steno_arena_failure(arena);
    if (!place_words(&j))
        return STENO_OK;
    st = steno_itn_write(w, g, j.low, &t, NULL);
    if (st == STENO_ERR_LIMIT || (!st && (!t.read || !t.n || !strcmp(t.text, j.low))))
        return STENO_OK;
    j.out = &t;
    if (st)
        return st;
    return write_alternative(&j, io) ? STENO_OK : steno_arena_failure(arena);
}
