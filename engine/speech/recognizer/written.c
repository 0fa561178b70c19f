/* The text that a grammar wrote is cut into pieces: at blanks, and beside characters that are not
 * ASCII where what follows comes from later words. Without a grammar the spoken words are the
 * pieces. Each piece becomes a word. */
#include "speech/recognizer/written.h"

#include <math.h>
#include <string.h>

#include "base/ascii.h"
#include "base/english.h"
#include "speech/itn/shield.h"

#define NO_WORD UINT32_MAX

/* Spoken words [first, end). */
struct range {
    uint32_t first, end;
};

struct piece {
    size_t at, n; /* bytes of the job's written text */
    struct range from;
    const char *text; /* as it is shown */
};

/* What the network says of a spoken word. */
struct label {
    enum steno_letters letters;
    const char *mark;
};

struct job {
    const struct steno_alternative *in;
    steno_arena *arena;
    size_t n;                         /* bytes of the spoken text */
    char *low;                        /* the spoken text in small letters */
    char *read;                       /* the same as the grammar reads it */
    bool shielded;                    /* words of it are covered */
    bool digits;                      /* lone numbers below ten become digits */
    uint32_t *word_of;                /* [n] the word of each byte of it */
    bool capitals;                    /* it has no small letters, but capital ones */
    struct label *label;              /* [in->n_words]; NULL: no marks are added */
    const struct steno_itn_text *out; /* what the grammar wrote; NULL: nothing */
    struct range *from;               /* [out->n] words that each byte of it comes from */
    uint32_t *later;                  /* [out->n + 1] the first word of any byte from here on */
    struct piece *piece;
    size_t n_pieces;
    bool cut; /* the text ends with the last piece */
};

static void make_capitals(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = steno_to_capital(text[i]);
}

static void find_cases(const char *text, bool *small, bool *capital)
{
    *small = *capital = false;
    for (; *text; text++) {
        *small |= steno_is_small(*text);
        *capital |= steno_is_capital(*text);
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
        j->low[i] = steno_to_small(j->low[i]);
    find_cases(j->in->text, &small, &capital);
    j->capitals = capital && !small;
    return j->low && j->word_of;
}

/* *can: the text has words, and they follow each other in it. */
static steno_status begin_job(struct job *j, bool *can)
{
    *can = false;
    if (!j->in->n_words)
        return STENO_OK;
    if (!prepare_job(j))
        return steno_arena_failure(j->arena);
    *can = place_words(j);
    return STENO_OK;
}

/* Ask the network of each word: the case from the token that begins it, the mark from the one that
 * ends in it last. A text that is too long has no labels. */
static steno_status find_labels(struct job *j, steno_punctuation_writer *w)
{
    struct steno_punctuation p;
    struct label *label = steno_arena_calloc(j->arena, j->in->n_words, sizeof *label);
    steno_status st =
        label ? steno_punctuation_find(w, j->low, &p, NULL) : steno_arena_failure(j->arena);
    if (st)
        return label && st == STENO_ERR_LIMIT ? STENO_OK : st;
    for (size_t i = 0; i < j->in->n_words; i++)
        label[i].mark = "";
    for (size_t i = 0; i < p.n; i++) {
        const uint32_t first = j->word_of[p.token[i].begin], last = j->word_of[p.token[i].end - 1];
        if (first != NO_WORD && (!p.token[i].begin || j->word_of[p.token[i].begin - 1] != first))
            label[first].letters = p.token[i].letters;
        if (last != NO_WORD)
            label[last].mark = p.token[i].mark;
    }
    j->label = label;
    return STENO_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The words as they were spoken. False: out of memory. */
static bool take_words_written(struct job *j)
{
    j->piece = steno_arena_calloc(j->arena, j->in->n_words, sizeof *j->piece);
    for (size_t i = 0; j->piece && i < j->n; i++) {
        const uint32_t word = j->word_of[i];
        if (word != NO_WORD && (!i || j->word_of[i - 1] != word))
            j->piece[j->n_pieces++] = (struct piece){.at = i, .from = {word, word + 1}};
        if (word != NO_WORD)
            j->piece[j->n_pieces - 1].n++;
    }
    return j->piece != NULL;
}

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
        if (steno_to_small(word[i]) != piece[i]) /* also where the word ends */
            return false;
    return !word[n];
}

/* Whether a later piece has words of this one too. */
static bool goes_on(const struct job *j, size_t i)
{
    return i + 1 < j->n_pieces && j->piece[i + 1].from.first < j->piece[i].from.end;
}

/* The mark behind piece i, text [n]. */
static const char *mark_behind(const struct job *j, size_t i, const char *text, size_t n)
{
    static const char *const ascii[][2] = {{"\xEF\xBC\x8C", ","},  /* ， */
                                           {"\xE3\x80\x81", ","},  /* 、 */
                                           {"\xE3\x80\x82", "."},  /* 。 */
                                           {"\xEF\xBC\x9F", "?"}}; /* ？ */
    const char *mark = j->label[j->piece[i].from.end - 1].mark;
    if (goes_on(j, i) || !n)
        return "";
    for (size_t k = 0; !(text[n - 1] & 0x80) && k < sizeof ascii / sizeof *ascii; k++)
        mark = strcmp(mark, ascii[k][0]) ? mark : ascii[k][1];
    return text[n - 1] == *mark ? "" : mark; /* "p.m." */
}

/* Whether piece p is a word that the grammar did not read. */
static bool is_shielded(const struct job *j, const struct piece *p)
{
    const char *at = j->out->text + p->at;
    for (size_t i = 0; i < p->n; i++)
        if (at[i] != STENO_ITN_SHIELD)
            return false;
    return j->shielded && p->from.end == p->from.first + 1 &&
           p->n == strlen(j->in->words[p->from.first].text);
}

/* The one word of a piece in small letters. */
static const char *small_word(const struct job *j, const struct piece *p)
{
    size_t i = 0;
    while (j->word_of[i] != p->from.first)
        i++;
    return j->low + i;
}

/* The digit of a word, text [n], that stays; false: it is none. */
static bool write_digit(const struct job *j, const char *text, size_t n, char *out)
{
    const struct steno_english_word *w = steno_english_word(text, n);
    if (!j->digits || w->kind != STENO_EN_DIGIT || w->ordinal || w->value == 1)
        return false;
    *out = (char)('0' + w->value);
    return true;
}

/* Write the text of piece i: the spoken word in its own case if it stays. False: out of memory. */
static bool write_piece(struct job *j, size_t i)
{
    struct piece *p = &j->piece[i];
    char digit = '\0';
    const bool one = p->from.end == p->from.first + 1;
    const char *spoken = j->in->words[p->from.first].text;
    const char *at = (j->out ? j->out->text : j->low) + p->at;
    const bool stays = one && (is_same(spoken, at, p->n) || (j->out && is_shielded(j, p)));
    const bool counts = stays && write_digit(j, at, p->n, &digit);
    const char *kept = j->label && j->capitals ? small_word(j, p) : spoken;
    const char *from = counts ? &digit : stays ? kept : at;
    const char *mark = j->label ? mark_behind(j, i, at, p->n) : "";
    const size_t n = counts ? 1 : p->n;
    char *text = steno_arena_printf(j->arena, "%.*s%s", (int)n, from, mark);
    if (!text)
        return false;
    if (j->label && one && j->label[p->from.first].letters != STENO_LETTERS_KEEP)
        make_capitals(text, j->label[p->from.first].letters == STENO_LETTERS_UPPER ? n : 1);
    else if (!j->label && j->capitals && !stays)
        make_capitals(text, n);
    p->text = text;
    return true;
}

/* The text of all pieces, with what lies between them. NULL: out of memory. */
static char *join_pieces(struct job *j)
{
    const char *between = j->out ? j->out->text : j->in->text;
    const struct piece *last = j->n_pieces ? &j->piece[j->n_pieces - 1] : NULL;
    size_t n = j->cut && last ? last->at + last->n : j->out ? j->out->n : j->n, done = 0, end = 0;
    char *text;
    for (size_t i = 0; i < j->n_pieces; i++)
        n += strlen(j->piece[i].text) - j->piece[i].n;
    text = steno_arena_alloc(j->arena, n + 1);
    for (size_t i = 0; text && i < j->n_pieces; i++) {
        const struct piece *p = &j->piece[i];
        const size_t length = strlen(p->text);
        memcpy(text + done, between + end, p->at - end);
        done += p->at - end;
        memcpy(text + done, p->text, length);
        done += length;
        end = p->at + p->n;
    }
    if (text)
        memcpy(text + done, between + end, n - done);
    return text;
}

static float mean_confidence_written(const struct steno_word *w, struct range r)
{
    double sum = 0;
    if (r.end == r.first + 1)
        return w[r.first].confidence;
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
    char *text = NULL;
    for (size_t i = 0; ok && i < j->n_pieces; i++) {
        ok = write_piece(j, i);
        out[i].text = j->piece[i].text;
        out[i].confidence = mean_confidence_written(j->in->words, j->piece[i].from);
    }
    for (size_t i = 0, end; ok && i < j->n_pieces; i = end) {
        struct range r;
        end = end_of_group(j, i, &r);
        time_group(j, i, end, r, out);
    }
    if (!ok || !(text = join_pieces(j)))
        return false;
    io->text = text;
    io->words = out;
    io->n_words = j->n_pieces;
    return true;
}

/* The pieces of what the grammar wrote. False: out of memory. */
static bool take_written(struct job *j)
{
    const size_t n = j->out->n;
    j->from = steno_arena_calloc(j->arena, n + 1, sizeof *j->from);
    j->later = steno_arena_calloc(j->arena, n + 1, sizeof *j->later);
    j->piece = steno_arena_calloc(j->arena, n + 1, sizeof *j->piece);
    if (!j->from || !j->later || !j->piece)
        return false;
    find_ranges(j);
    cut_pieces(j);
    return true;
}

/* Rewrite by the grammar; j->out stays NULL if nothing changes. */
static steno_status rewrite_text(struct job *j, const struct steno_written_by *by,
                                 struct steno_itn_text *t)
{
    steno_status st;
    j->read = steno_arena_strndup(j->arena, j->low, j->n);
    if (!j->read)
        return steno_arena_failure(j->arena);
    st = by->shielded ? steno_itn_shield_english(j->read) : STENO_OK;
    j->shielded = strcmp(j->read, j->low) != 0;
    if (!st)
        st = steno_itn_write(by->itn, by->grammar, j->read, t, NULL);
    if (!st && t->read && t->n && strcmp(t->text, j->read) != 0)
        j->out = t;
    return st == STENO_ERR_LIMIT ? STENO_OK : st;
}

/* Whether each shield of the written text is that of a whole word. */
static bool shields_are_whole(const struct job *j)
{
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct piece *p = &j->piece[i];
        if (memchr(j->out->text + p->at, STENO_ITN_SHIELD, p->n) && !is_shielded(j, p))
            return false;
    }
    return true;
}

/* The pieces of the text. False: out of memory. */
static bool take_pieces(struct job *j)
{
    if (j->out && !take_written(j))
        return false;
    if (j->out && j->shielded && !shields_are_whole(j)) {
        j->out = NULL;
        j->n_pieces = 0;
    }
    return j->out || take_words_written(j);
}

/* The number of words at the begin that the grammar has decided. */
static steno_status find_decided(struct job *j, const struct steno_written_by *by, size_t *words)
{
    size_t bytes = j->n;
    char *text = steno_arena_strndup(j->arena, j->low, j->n);
    steno_status st = text ? STENO_OK : steno_arena_failure(j->arena);
    if (!st && by->shielded)
        st = steno_itn_shield_decided(text, &bytes);
    if (!st && by->shielded)
        st = steno_itn_shield_english(text);
    if (!st) {
        text[bytes] = '\0';
        st = steno_itn_decided(by->itn, by->grammar, text, by->shielded, &bytes);
    }
    *words = 0;
    for (size_t i = 0; !st && i < bytes; i++)
        if (j->word_of[i] != NO_WORD && (i + 1 == j->n || j->word_of[i + 1] != j->word_of[i]))
            *words = j->word_of[i] + 1;
    return st;
}

/* Leave the pieces of the first words alone, and of these those whose pieces have no others. */
static void cut_job(struct job *j, size_t *words)
{
    size_t n = 0;
    while (n < j->n_pieces && j->piece[n].from.end <= *words)
        n++;
    for (size_t i = n; i < j->n_pieces; i++)
        if (j->piece[i].from.first < *words)
            *words = j->piece[i].from.first;
    while (n && j->piece[n - 1].from.end > *words)
        n--;
    j->n_pieces = n;
    j->cut = true;
}

steno_status steno_written_begin(struct steno_alternative *io, const struct steno_written_by *by,
                                 steno_arena *arena, size_t *words)
{
    const struct steno_alternative in = *io;
    struct job j = {.in = &in, .arena = arena, .digits = by->digits};
    struct steno_itn_text t;
    bool can;
    steno_status st = begin_job(&j, &can);
    io->n_words = *words = 0;
    io->text = "";
    if (st || !can)
        return st;
    st = find_decided(&j, by, words);
    if (st || !*words)
        return st == STENO_ERR_LIMIT ? STENO_OK : st;
    st = rewrite_text(&j, by, &t);
    if (st)
        return st;
    if (!take_pieces(&j))
        return steno_arena_failure(arena);
    cut_job(&j, words);
    return write_words(&j, io) ? STENO_OK : steno_arena_failure(arena);
}

steno_status steno_written_apply(struct steno_alternative *io, const struct steno_written_by *by,
                                 steno_arena *arena)
{
    const struct steno_alternative in = *io;
    struct job j = {.in = &in, .arena = arena, .digits = by->grammar && by->digits};
    struct steno_itn_text t;
    bool can;
    steno_status st = begin_job(&j, &can);
    if (st || !can)
        return st;
    if (by->marks)
        st = find_labels(&j, by->marks);
    if (!st && by->grammar)
        st = rewrite_text(&j, by, &t);
    if (st || (!j.out && !j.label && !j.digits))
        return st;
    if (!take_pieces(&j))
        return steno_arena_failure(arena);
    if (!j.out && !j.label && !j.digits)
        return STENO_OK;
    return write_words(&j, io) ? STENO_OK : steno_arena_failure(arena);
}
