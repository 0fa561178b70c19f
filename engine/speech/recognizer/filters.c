/* A text is a list of pieces: its words, or, where they have no times, what lies between blanks. A
 * filter makes one piece of several, or changes its text. Pieces are compared by their cores: small
 * letters without the marks around them. */
#include "speech/recognizer/filters.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/list.h"

#define MAX_PAIRS 256  /* of replace */
#define MAX_MASKS 4096 /* of mask */
#define UNSTABLE 8     /* words at the end of a partial that later ones could still change */

enum { PCI = 1, SSN = 2, NUMBERS = 4, EMAIL = 8, PHONE = 16, EVERY_NUMBER = 32 };

/* from: small letters without blanks. to NULL: asterisks. */
struct pair {
    const char *from, *to;
};

struct steno_filters {
    unsigned redact;
    size_t n, room;
    struct pair *pair;  /* [n] of room */
    char *text, *masks; /* what pairs point to */
};

struct piece {
    const char *text; /* [n] */
    size_t n;
    size_t gap;         /* bytes before it that lie between it and the piece before */
    const char *core;   /* [core_n] in text, but small letters */
    size_t core_n, at;  /* of the core in text */
    size_t first, last; /* the words that it comes from */
    bool changed, gone;
};

struct job {
    const struct steno_filters *f;
    steno_arena *arena;
    const struct steno_word *words; /* NULL: pieces are no words */
    bool partial;
    struct piece *piece;
    size_t n;
    bool changed;
};

/* ---- what is asked for ----------------------------------------------------------------------- */

static steno_status read_redact(struct steno_filters *f, const char *text, steno_err *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } kinds[] = {{"pci", PCI},
                 {"ssn", SSN},
                 {"numbers", NUMBERS},
                 {"true", NUMBERS},
                 {"email", EMAIL},
                 {"phone", PHONE},
                 {"aggressive_numbers", EVERY_NUMBER}};
    while (*(text += strspn(text, ", "))) {
        const size_t n = strcspn(text, ", ");
        size_t i = 0;
        while (i < sizeof kinds / sizeof *kinds &&
               (strlen(kinds[i].name) != n || memcmp(kinds[i].name, text, n) != 0))
            i++;
        if (i == sizeof kinds / sizeof *kinds)
            return steno_fail(
                err, STENO_ERR_INVAL,
                "redact: '%.*s' is not one of pci, ssn, numbers, aggressive_numbers, email, "
                "phone",
                n > 40 ? 40 : (int)n, text);
        f->redact |= kinds[i].bit;
        text += n;
    }
    return STENO_OK;
}

/* The character at the begin of text [n > 0], and its bytes; a byte that is no text is one itself.
 */
static size_t character(const char *text, size_t n, utf8proc_int32_t *c)
{
    const utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, c);
    if (k > 0)
        return (size_t)k;
    *c = -1;
    return 1;
}

/* Make small letters in place. The few that have another number of bytes stay. */
static void make_small(char *text, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        utf8proc_int32_t c;
        utf8proc_uint8_t small[4];
        k = character(text + i, n - i, &c);
        if (c >= 0 && (size_t)utf8proc_encode_char(utf8proc_tolower(c), small) == k)
            memcpy(text + i, small, k);
    }
}

/* Make small letters of a text and take its blanks out, in place. */
static void squeeze(char *text)
{
    char *to = text;
    make_small(text, strlen(text));
    for (; *text; text++)
        if (*text != ' ' && *text != '\t')
            *to++ = *text;
    *to = '\0';
}

static steno_status add_pair(struct steno_filters *f, const char *from, const char *to,
                             steno_err *err)
{
    if (f->n == f->room) {
        const size_t room = f->room ? 2 * f->room : 16;
        struct pair *more = reallocarray(f->pair, room, sizeof *more);
        if (!more)
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        f->pair = more;
        f->room = room;
    }
    f->pair[f->n++] = (struct pair){from, to};
    return STENO_OK;
}

/* Deepgram's fillers, also with a blank for the hyphen. */
static steno_status add_fillers(struct steno_filters *f, steno_err *err)
{
    static const char *const fillers[] = {"uh",    "um",    "mhmm",   "mm-mm", "mmmm",
                                          "uh-uh", "uhhuh", "uh-huh", "nuhuh", "nuh-uh"};
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < sizeof fillers / sizeof *fillers; i++)
        st = add_pair(f, fillers[i], "", err);
    return st;
}

/* A word or phrase per line. */
static steno_status read_masks(struct steno_filters *f, const char *text, steno_err *err)
{
    char *rest = f->masks = strdup(text), *one;
    steno_status st = STENO_OK;
    if (!rest)
        return steno_fail(err, STENO_ERR_NOMEM, "mask: out of memory");
    while (!st && (one = strsep(&rest, "\r\n"))) {
        squeeze(one);
        if (*one && f->n == MAX_MASKS)
            return steno_fail(err, STENO_ERR_INVAL, "mask: more than %d", MAX_MASKS);
        if (*one)
            st = add_pair(f, one, NULL, err);
    }
    return st;
}

/* "FROM:TO" pairs with commas or line ends between. */
static steno_status read_pairs(struct steno_filters *f, const char *text, steno_err *err)
{
    char *rest = f->text = strdup(text), *one;
    const size_t had = f->n;
    steno_status st = STENO_OK;
    if (!rest)
        return steno_fail(err, STENO_ERR_NOMEM, "replace: out of memory");
    while (!st && (one = strsep(&rest, ",\n"))) {
        char *colon = strchr(one, ':');
        one += strspn(one, " ");
        if (!*one)
            continue;
        if (!colon || colon == one)
            return steno_fail(err, STENO_ERR_INVAL, "replace: '%.40s' is not FROM:TO", one);
        if (f->n - had == MAX_PAIRS)
            return steno_fail(err, STENO_ERR_INVAL, "replace: more than %d", MAX_PAIRS);
        *colon = '\0';
        squeeze(one);
        if (!*one)
            return steno_fail(err, STENO_ERR_INVAL, "replace: a pair has nothing before its colon");
        st = add_pair(f, one, colon + 1, err);
    }
    return st;
}

steno_status steno_filters_open(steno_filters **out, const struct steno_filter_options *h,
                                steno_err *err)
{
    steno_filters *f;
    steno_status st = STENO_OK;
    *out = NULL;
    if (!(h->redact && *h->redact) && !(h->replace && *h->replace) && !(h->mask && *h->mask) &&
        !h->no_fillers)
        return STENO_OK;
    f = calloc(1, sizeof *f);
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (h->redact)
        st = read_redact(f, h->redact, err);
    if (!st && h->mask)
        st = read_masks(f, h->mask, err);
    if (!st && h->no_fillers)
        st = add_fillers(f, err);
    if (!st && h->replace)
        st = read_pairs(f, h->replace, err);
    if (st || (!f->redact && !f->n)) {
        steno_filters_close(f);
        return st;
    }
    *out = f;
    return STENO_OK;
}

steno_status steno_filters_check(const struct steno_filter_options *o, steno_err *err)
{
    steno_filters *f;
    const steno_status st = steno_filters_open(&f, o, err);
    if (!st)
        steno_filters_close(f);
    return st;
}

void steno_filters_close(steno_filters *f)
{
    if (!f)
        return;
    free(f->pair);
    free(f->text);
    free(f->masks);
    free(f);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool is_inner(unsigned char c)
{
    return c >= 0x80 || isalnum(c) || c == '@' || c == '+';
}

/* False: out of memory. */
static bool add_piece_filters(struct job *j, const char *text, size_t n, size_t gap, size_t word)
{
    struct piece *p = &j->piece[j->n];
    size_t end = n;
    char *core;
    *p = (struct piece){.text = text, .n = n, .gap = gap, .first = word, .last = word};
    while (p->at < n && !is_inner((unsigned char)text[p->at]))
        p->at++;
    while (end > p->at && !is_inner((unsigned char)text[end - 1]))
        end--;
    p->core_n = end - p->at;
    core = steno_arena_strndup(j->arena, text + p->at, p->core_n);
    if (core)
        make_small(core, p->core_n);
    p->core = core;
    j->n++;
    return core != NULL;
}

/* The words of a text as pieces. *fits is false, and there are none, if they do not follow each
 * other in it. False: out of memory. */
static bool take_words_filters(struct job *j, const char *text, size_t n_words, bool *fits)
{
    const char *p = text;
    *fits = true;
    for (size_t i = 0; i < n_words; i++) {
        const size_t n = strlen(j->words[i].text);
        const char *at = strstr(p, j->words[i].text);
        *fits = at && n && strspn(p, " ") == (size_t)(at - p);
        if (!*fits) {
            j->n = 0;
            return true;
        }
        if (!add_piece_filters(j, at, n, (size_t)(at - p), i))
            return false;
        p = at + n;
    }
    *fits = !p[strspn(p, " ")];
    j->n = *fits ? j->n : 0;
    return true;
}

/* What lies between blanks as pieces. False: out of memory. */
static bool take_blanks(struct job *j, const char *text)
{
    while (*text) {
        const size_t gap = strspn(text, " "), n = strcspn(text + gap, " ");
        if (n && !add_piece_filters(j, text + gap, n, gap, j->n))
            return false;
        text += gap + n;
    }
    return true;
}

static bool core_is(const struct piece *p, const char *word)
{
    return !strcmp(p->core, word);
}

static bool core_is_any(const struct piece *p, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (core_is(p, words[i]))
            return true;
    return false;
}
#define CORE_IS_ANY(P, ...)                                                                        \
    core_is_any(P, (const char *const[]){__VA_ARGS__},                                             \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Make one piece of [from, to), with another text and the last one's marks behind it. False: out of
 * memory. */
static bool change_pieces(struct job *j, size_t from, size_t to, const char *text)
{
    struct piece *p = &j->piece[from];
    const struct piece *q = &j->piece[to - 1];
    const size_t n = strlen(text), before = *text ? p->at : 0;
    const size_t after = *text ? q->n - q->at - q->core_n : 0;
    char *all = steno_arena_alloc(j->arena, before + n + after + 1);
    if (!all)
        return false;
    memcpy(all, p->text, before);
    memcpy(all + before, text, n);
    memcpy(all + before + n, q->text + q->at + q->core_n, after);
    all[before + n + after] = '\0';
    p->last = q->last;
    p->text = all;
    p->n = before + n + after;
    p->core = "";
    p->core_n = 0;
    p->changed = j->changed = true;
    for (size_t i = from; i < to; i++)
        j->piece[i].gone = i > from || !p->n;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The digits of a number word; 0: it is none. *tens: it is one of twenty to ninety. */
static size_t digits_of_word(const char *word, size_t n, bool *tens)
{
    static const char *const lists[] = {
        "zero", "one two three four five six seven eight nine",
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety"};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (struct steno_list_item i = steno_list_next(lists[k]); i.n;
             i = steno_list_next(i.p + i.n))
            if (i.n == n && !memcmp(i.p, word, n)) {
                const size_t digits = k == 1 && *tens ? 0 : k < 2 ? 1 : 2;
                *tens = k == 3;
                return digits + 1;
            }
    return 0;
}

/* Whether a piece is a number: decimal digits of any script among others, a number word, or several
 * with hyphens between ("forty-two", "nine-one-one"). *digits: how many it adds to the number
 * before it. *tens: that one ends in twenty to ninety, whose zero one to nine replace; then this
 * one. */
static bool is_number(const struct piece *p, bool *tens, size_t *digits)
{
    *digits = 0;
    for (size_t i = 0; i < p->core_n;) {
        utf8proc_int32_t c;
        i += character(p->core + i, p->core_n - i, &c);
        *digits += c >= 0 && utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
    }
    if (*digits || !p->core_n) {
        *tens = false;
        return *digits > 0;
    }
    for (size_t i = 0, n; i < p->core_n; i += n + 1) {
        n = strcspn(p->core + i, "-");
        const size_t more = digits_of_word(p->core + i, n, tens);
        if (!more)
            return *tens = false;
        *digits += more - 1;
    }
    return true;
}

/* The digits that a power of ten adds to the number before it; 0: it is none. */
static size_t digits_of_power(const struct piece *p)
{
    return core_is(p, "hundred")    ? 2
           : core_is(p, "thousand") ? 3
           : core_is(p, "million")  ? 6
           : core_is(p, "billion")  ? 9
                                    : 0;
}

/* Whether a word that is no number may stand within one; *digits: how many it adds. */
static bool joins_number(const struct piece *p, size_t *digits)
{
    *digits = CORE_IS_ANY(p, "oh", "o", "double") ? 1
              : core_is(p, "triple")              ? 2
                                                  : digits_of_power(p);
    if (core_is(p, "and")) /* "two hundred and five" */
        return digits_of_power(p - 1) > 0;
    return *digits || (CORE_IS_ANY(p, "dash", "hyphen", "point", "") && !p->changed);
}

/* The end of the number that begins with piece i, and its digits; 0: none begins there. */
static size_t end_of_number(const struct job *j, size_t i, size_t *digits)
{
    size_t end = i + 1, more = 0, own;
    bool tens = false;
    if (!is_number(&j->piece[i], &tens, digits)) {
        if (!digits_of_power(&j->piece[i]))
            return 0;
        *digits = 1 + digits_of_power(&j->piece[i]); /* "a thousand" */
    }
    for (size_t k = end; k < j->n; k++) {
        const bool whole = is_number(&j->piece[k], &tens, &own);
        if (!whole && !joins_number(&j->piece[k], &own))
            break;
        more += own;
        if (whole || digits_of_power(&j->piece[k]) || CORE_IS_ANY(&j->piece[k], "oh", "o")) {
            *digits += more;
            more = 0;
            end = k + 1;
        }
    }
    return end;
}

/* Whether one of the few words before piece i begins with one of these. */
static bool is_about(const struct job *j, size_t i, const char *const *words, size_t n)
{
    for (size_t k = i > 8 ? i - 8 : 0; k < i; k++)
        for (size_t w = 0; w < n; w++)
            if (!strncmp(j->piece[k].core, words[w], strlen(words[w])))
                return true;
    return false;
}

static bool is_redacted(const struct job *j, size_t from, size_t to, size_t digits)
{
    static const char *const card[] = {"cvv", "cvc", "security", "expir", "exp"};
    static const char *const social[] = {"social", "ssn"};
    const unsigned r = j->f->redact;
    if (r & EVERY_NUMBER)
        return true;
    if (j->partial && to == j->n) /* it may grow */
        return r & NUMBERS || (r & (PCI | SSN | PHONE) && digits >= 3);
    return (r & NUMBERS && digits >= 3) || (r & PHONE && digits >= 7) ||
           (r & SSN && (digits == 9 || (digits == 4 && is_about(j, from, social, 2)))) ||
           (r & PCI &&
            (digits >= 12 || (digits >= 3 && digits <= 6 && is_about(j, from, card, 5))));
}

static bool redact_numbers(struct job *j)
{
    for (size_t i = 0; i < j->n;) {
        size_t digits;
        const size_t end = end_of_number(j, i, &digits);
        if (!end) {
            i++;
            continue;
        }
        if (is_redacted(j, i, end, digits) && !change_pieces(j, i, end, STENO_REDACTED))
            return false;
        i = end;
    }
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The end of an address whose "at" is piece i, "name at host dot com": behind the word after the
 * last "dot". In a partial, whose host may go on, also at its end. 0: it is none. */
static size_t end_of_address(const struct job *j, size_t i)
{
    size_t end = 0;
    for (size_t k = i + 1; k < j->n && k <= (end ? end : i + 4); k++)
        if (core_is(&j->piece[k], "dot") && k > i + 1 && k + 1 < j->n)
            end = k + 2;
    return !end && j->partial && j->n - i <= 4 ? j->n : end;
}

/* Its begin, not before piece `first`. */
static size_t begin_of_address(const struct job *j, size_t i, size_t first)
{
    size_t begin = i - 1;
    while (begin >= first + 2 &&
           CORE_IS_ANY(&j->piece[begin - 1], "dot", "underscore", "dash", "hyphen"))
        begin -= 2;
    return begin;
}

static bool redact_addresses(struct job *j)
{
    size_t first = 0;
    for (size_t i = 0; i < j->n; i++) {
        const struct piece *p = &j->piece[i];
        size_t end = 0, begin = i;
        if (memchr(p->text, '@', p->n) && p->core_n > 2) {
            end = i + 1;
        } else if (i > first && core_is(p, "at")) {
            end = end_of_address(j, i);
            begin = begin_of_address(j, i, first);
        }
        if (end && !change_pieces(j, begin, end, STENO_REDACTED))
            return false;
        i = end ? end - 1 : i;
        first = end ? end : first;
    }
    return true;
}

/* Leave out pieces that became part of others. */
static void drop_gone(struct job *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        if (!j->piece[i].gone)
            j->piece[n++] = j->piece[i];
    j->n = n;
}

/* ---- words for others ------------------------------------------------------------------------ */

/* The number of pieces from i on that spell a text without blanks. 0: they do not. */
static size_t count_spelling(const struct job *j, size_t i, const char *text)
{
    size_t k = i;
    while (*text) {
        const struct piece *p = k < j->n ? &j->piece[k] : NULL;
        if (!p || !p->core_n || p->changed || strncmp(text, p->core, p->core_n) != 0)
            return 0;
        text += p->core_n;
        k++;
    }
    return k - i;
}

/* Write an asterisk for each letter of a piece. False: out of memory. */
static bool mask_piece(struct job *j, size_t i)
{
    const struct piece *p = &j->piece[i];
    char *stars = steno_arena_calloc(j->arena, p->core_n + 1, 1);
    for (size_t k = 0, n = 0; stars && k < p->core_n; k++)
        if ((p->core[k] & 0xc0) != 0x80) /* no further byte of a letter */
            stars[n++] = '*';
    return stars && change_pieces(j, i, i + 1, stars);
}

static bool change_words(struct job *j, size_t from, size_t to, const char *text)
{
    if (text)
        return change_pieces(j, from, to, text);
    for (size_t i = from; i < to; i++)
        if (!mask_piece(j, i))
            return false;
    return true;
}

static bool replace_words(struct job *j)
{
    for (size_t i = 0; i < j->n;) {
        const char *to = NULL;
        size_t most = 0;
        for (size_t k = 0; k < j->f->n; k++) {
            const size_t n = count_spelling(j, i, j->f->pair[k].from);
            if (n > most) {
                most = n;
                to = j->f->pair[k].to;
            }
        }
        if (most && !change_words(j, i, i + most, to))
            return false;
        i += most ? most : 1;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool filter_pieces(struct job *j)
{
    if (j->f->redact & EMAIL && !redact_addresses(j))
        return false;
    drop_gone(j);
    if (j->f->redact & ~(unsigned)EMAIL && !redact_numbers(j))
        return false;
    drop_gone(j);
    if (!replace_words(j))
        return false;
    drop_gone(j);
    return true;
}

/* The pieces [from, to) as a text, the first without its gap unless with_gap. NULL: out of memory.
 */
static char *join_pieces(struct job *j, size_t from, size_t to, bool with_gap)
{
    size_t n = 0, done = 0;
    char *text;
    for (size_t i = from; i < to; i++)
        n += j->piece[i].n + j->piece[i].gap;
    text = steno_arena_alloc(j->arena, n + 2);
    for (size_t i = from; text && i < to; i++) {
        const size_t gap = i > from ? j->piece[i].gap : with_gap;
        memset(text + done, ' ', gap);
        memcpy(text + done + gap, j->piece[i].text, j->piece[i].n);
        done += gap + j->piece[i].n;
    }
    if (text)
        text[done] = '\0';
    return text;
}

static size_t count_words(const struct piece *p)
{
    size_t n = 0;
    for (size_t at = 0; at < p->n;) {
        at += strspn(p->text + at, " ");
        n += at < p->n;
        at += at < p->n ? strcspn(p->text + at, " ") : 0;
    }
    return n;
}

/* Append the words of a changed piece: they share its time by length. */
static bool put_words(struct job *j, const struct piece *p, struct steno_word *out, size_t *n)
{
    const double start = j->words[p->first].start, end = j->words[p->last].end;
    float least = 1;
    for (size_t i = p->first; i <= p->last; i++)
        least = j->words[i].confidence < least ? j->words[i].confidence : least;
    for (size_t at = 0; at < p->n;) {
        const size_t blank = strspn(p->text + at, " "), len = strcspn(p->text + at + blank, " ");
        struct steno_word w = {.confidence = least};
        if (!len)
            break;
        w.text = steno_arena_strndup(j->arena, p->text + at + blank, len);
        w.start = start + (end - start) * (double)(at + blank) / (double)p->n;
        at += blank + len;
        w.end = at >= p->n ? end : start + (end - start) * (double)at / (double)p->n;
        if (!w.text)
            return false;
        out[(*n)++] = w;
    }
    return true;
}

/* The words of all pieces. False: out of memory. */
static bool write_words(struct job *j, struct steno_alternative *io)
{
    size_t n = 0, most = 0;
    struct steno_word *out;
    for (size_t i = 0; i < j->n; i++)
        most += j->piece[i].changed ? count_words(&j->piece[i]) : 1;
    out = steno_arena_calloc(j->arena, most + 1, sizeof *out);
    for (size_t i = 0; out && i < j->n; i++) {
        if (!j->piece[i].changed)
            out[n++] = j->words[j->piece[i].first];
        else if (!put_words(j, &j->piece[i], out, &n))
            return false;
    }
    io->words = out;
    io->n_words = n;
    return out != NULL;
}

/* Find the pieces of an alternative, and filter them. */
static steno_status filter(struct job *j, const struct steno_alternative *in)
{
    bool fits = false;
    j->piece = steno_arena_calloc(j->arena, strlen(in->text) + in->n_words + 1, sizeof *j->piece);
    j->words = in->n_words ? in->words : NULL;
    if (!j->piece || (j->words && !take_words_filters(j, in->text, in->n_words, &fits)))
        return steno_arena_failure(j->arena);
    if (!fits) {
        j->words = NULL;
        if (!take_blanks(j, in->text))
            return steno_arena_failure(j->arena);
    }
    return filter_pieces(j) ? STENO_OK : steno_arena_failure(j->arena);
}

/* Write what the pieces became. Words that are not in the text one after the other would tell what
 * it does not, and are left out. */
static steno_status write_alternative(struct job *j, struct steno_alternative *io)
{
    char *text;
    if (!j->changed)
        return STENO_OK;
    text = join_pieces(j, 0, j->n, false);
    if (!text || (j->words && !write_words(j, io)))
        return steno_arena_failure(j->arena);
    io->text = text;
    io->n_words = j->words ? io->n_words : 0;
    io->n_tokens = 0;
    return STENO_OK;
}

/* Sections of an event whose words changed: those that begin in a section are its own. */
static steno_status write_sections(struct job *j, struct steno_event *io,
                                   const struct steno_section *old)
{
    struct steno_section *s = steno_arena_calloc(j->arena, io->n_sections, sizeof *s);
    size_t at = 0, word = 0;
    if (!s)
        return steno_arena_failure(j->arena);
    for (size_t k = 0; k < io->n_sections; k++) {
        const size_t from = at, end = old[k].first_word + old[k].n_words;
        s[k] = old[k];
        s[k].first_word = word;
        for (; at < j->n && (j->piece[at].first < end || k + 1 == io->n_sections); at++)
            word += j->piece[at].changed ? count_words(&j->piece[at]) : 1;
        s[k].n_words = word - s[k].first_word;
        s[k].text = join_pieces(j, from, at, *old[k].text == ' ');
        s[k].n_tokens = s[k].n_ids = 0;
        if (!s[k].text)
            return steno_arena_failure(j->arena);
    }
    io->sections = s;
    return STENO_OK;
}

/* Sections of an event without words: each for itself. */
static steno_status filter_sections(const steno_filters *f, struct steno_event *io,
                                    steno_arena *arena)
{
    struct steno_section *s = steno_arena_calloc(arena, io->n_sections, sizeof *s);
    for (size_t k = 0; s && k < io->n_sections; k++) {
        struct job j = {.f = f, .arena = arena, .partial = io->kind == STENO_PARTIAL};
        const struct steno_alternative in = {.text = io->sections[k].text};
        steno_status st = filter(&j, &in);
        s[k] = io->sections[k];
        if (st || !j.changed) {
            if (st)
                return st;
            continue;
        }
        s[k].n_tokens = s[k].n_ids = 0;
        s[k].text = join_pieces(&j, 0, j.n, *in.text == ' ');
        if (!s[k].text)
            return steno_arena_failure(arena);
    }
    io->sections = s;
    return s ? STENO_OK : steno_arena_failure(arena);
}

/* What of a partial stays whatever comes. */
static void hold_back(const struct job *j, struct steno_event *io)
{
    size_t words = io->stable_words;
    words = words > UNSTABLE ? words - UNSTABLE : 0;
    io->stable_words = io->stable_bytes = 0;
    for (size_t i = 0; j->words && i < j->n && j->piece[i].last < words; i++) {
        io->stable_bytes += (i ? j->piece[i].gap : 0) + j->piece[i].n;
        io->stable_words += j->piece[i].changed ? count_words(&j->piece[i]) : 1;
    }
}

static steno_status filter_alternatives(const steno_filters *f, struct steno_event *io,
                                        steno_arena *arena)
{
    struct steno_alternative *a = steno_arena_calloc(arena, io->n_alternatives, sizeof *a);
    for (size_t i = 0; a && i < io->n_alternatives; i++) {
        struct job j = {.f = f, .arena = arena, .partial = io->kind == STENO_PARTIAL};
        steno_status st = filter(&j, &io->alternatives[i]);
        a[i] = io->alternatives[i];
        if (!st)
            st = write_alternative(&j, &a[i]);
        if (j.changed)
            a[i].n_ids = 0;
        if (st)
            return st;
    }
    io->alternatives = a;
    return a ? STENO_OK : steno_arena_failure(arena);
}

steno_status steno_filters_apply(const steno_filters *f, struct steno_event *io, steno_arena *arena)
{
    struct job j = {.f = f, .arena = arena, .partial = io->kind == STENO_PARTIAL};
    struct steno_alternative best = {.text = io->text, .words = io->words, .n_words = io->n_words};
    steno_status st;
    if ((io->kind != STENO_PARTIAL && io->kind != STENO_FINAL) || !*io->text)
        return STENO_OK;
    st = filter(&j, &best);
    if (!st && io->n_alternatives)
        st = filter_alternatives(f, io, arena);
    if (!st && io->n_sections && (j.words || !j.changed))
        st = j.changed ? write_sections(&j, io, io->sections) : STENO_OK;
    else if (!st && io->n_sections)
        st = filter_sections(f, io, arena);
    if (!st)
        st = write_alternative(&j, &best);
    if (st)
        return st;
    if (io->kind == STENO_PARTIAL)
        hold_back(&j, io);
    io->text = best.text;
    io->words = best.words;
    io->n_words = best.n_words;
    io->n_tokens = j.changed ? 0 : io->n_tokens;
    if (io->kind == STENO_FINAL) {
        io->stable_words = io->n_words;
        io->stable_bytes = strlen(io->text);
    }
    return STENO_OK;
}

/* ---- marks of partials ----------------------------------------------------------------------- */

/* The bytes of a text without the marks at its end. */
static size_t without_marks(const char *text, size_t n)
{
    static const char *const marks[] = {".",
                                        ",",
                                        "?",
                                        "!",
                                        ";",
                                        ":",
                                        "\xE2\x80\xA6",
                                        "\xE3\x80\x82",
                                        "\xEF\xBC\x8C",
                                        "\xEF\xBC\x9F",
                                        "\xEF\xBC\x81",
                                        "\xE3\x80\x81"}; /* … 。 ， ？ ！ 、 */
    for (size_t i = 0; i < sizeof marks / sizeof *marks;) {
        const size_t k = strlen(marks[i]);
        const bool ends = n > k && !memcmp(text + n - k, marks[i], k);
        n -= ends ? k : 0;
        i = ends ? 0 : i + 1;
    }
    return n;
}

steno_status steno_partial_drop_marks(struct steno_event *io, steno_arena *a)
{
    const size_t n = strlen(io->text), kept = without_marks(io->text, n);
    const struct steno_section *last = io->n_sections ? &io->sections[io->n_sections - 1] : NULL;
    struct steno_word *w;
    const char *word;
    if (kept == n || kept < io->stable_bytes || !io->n_words || io->stable_words == io->n_words ||
        (last && last->first_word + last->n_words == io->n_words))
        return STENO_OK;
    word = io->words[io->n_words - 1].text;
    if (strlen(word) <= n - kept || strcmp(word + strlen(word) - (n - kept), io->text + kept) != 0)
        return STENO_OK;
    w = steno_arena_calloc(a, io->n_words, sizeof *w);
    if (!w)
        return steno_arena_failure(a);
    memcpy(w, io->words, io->n_words * sizeof *w);
    w[io->n_words - 1].text = steno_arena_strndup(a, word, strlen(word) - (n - kept));
    io->words = w;
    io->text = steno_arena_strndup(a, io->text, kept);
    return io->text && w[io->n_words - 1].text ? STENO_OK : steno_arena_failure(a);
}
