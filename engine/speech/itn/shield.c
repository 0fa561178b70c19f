#include "speech/itn/shield.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/english.h"
#include "base/list.h"

#define TIMES                                                                                      \
    "in on of by until till since from before after this next last every" /* of a date             \
                                                                           */
#define DURATIONS "second seconds minute minutes hour hours"
#define DOTS "dot dash hyphen"                   /* between the names of a domain */
#define JOINTS "dot dash hyphen underscore plus" /* and of a mailbox */
#define NO_NAMES                                                                                   \
    "is are to at on me and my or the" /* before a number that is no part of a name                \
                                        */
/* Top-level domains that people say, but for those that are words. */
#define DOMAINS                                                                                    \
    "com org net edu gov mil int info biz io ai app dev co tv uk de fr es nl eu ca au jp cn ch "   \
    "se dk pl br ru"

struct word {
    char *p;
    size_t n;
};

struct text {
    struct word *word;
    size_t n;
};

/* ---- words ----------------------------------------------------------------------------------- */

/* Whether word i is one of a list with blanks between; there is none before the first and behind
 * the last one. */
static bool is(const struct text *t, size_t i, const char *list)
{
    if (i >= t->n)
        return false;
    for (struct steno_list_item x = steno_list_next(list); x.n; x = steno_list_next(x.p + x.n))
        if (x.n == t->word[i].n && !memcmp(x.p, t->word[i].p, x.n))
            return true;
    return false;
}

/* The number word i; of another kind: it is none, or an ordinal. */
static const struct steno_english_word *number_at(const struct text *t, size_t i, bool ordinal)
{
    const struct steno_english_word *w =
        i < t->n ? steno_english_word(t->word[i].p, t->word[i].n) : steno_english_word("", 0);
    return w->ordinal == ordinal ? w : steno_english_word("", 0);
}

static bool is_kind(const struct text *t, size_t i, enum steno_english_kind kind)
{
    return number_at(t, i, false)->kind == kind;
}

static bool is_digit(const struct text *t, size_t i)
{
    return is_kind(t, i, STENO_EN_DIGIT) || is_kind(t, i, STENO_EN_OH);
}

static bool is_power(const struct text *t, size_t i)
{
    return is_kind(t, i, STENO_EN_HUNDRED) || is_kind(t, i, STENO_EN_MAGNITUDE);
}

/* A letter, or a digit, of those that are spelled one by one. */
static bool is_spelled(const struct text *t, size_t i)
{
    return i < t->n && (t->word[i].n == 1 || is_digit(t, i));
}

static bool is_number(const struct text *t, size_t i)
{
    return is_digit(t, i) || is_kind(t, i, STENO_EN_TEEN) || is_kind(t, i, STENO_EN_TENS) ||
           is_power(t, i);
}

static void cover(const struct text *t, size_t i)
{
    if (i < t->n)
        memset(t->word[i].p, STENO_ITN_SHIELD, t->word[i].n);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* "march third" and "may first" may be a date, or neither; other months are one. */
static bool is_date(const struct text *t, size_t i)
{
    if (is(t, i + 1, "of") && is_kind(t, i + 2, STENO_EN_MONTH))
        return true;
    if (!is_kind(t, i - 1, STENO_EN_MONTH))
        return false;
    return !is(t, i - 1, "may march") || number_at(t, i, true)->value > 3 || is(t, i - 2, TIMES) ||
           is_number(t, i + 1);
}

/* "second quarter of twenty twenty two" */
static bool is_of_year(const struct text *t, size_t i)
{
    return is(t, i + 1, "quarter half") && is(t, i + 2, "of") && is_number(t, i + 3);
}

/* Ordinals below the tenth, and fractions, stay words: "the first", "a fifth of". */
static bool stays_ordinal(const struct text *t, size_t i)
{
    const struct steno_english_word *w = number_at(t, i, true);
    const bool joined = is_kind(t, i - 1, STENO_EN_TENS) || is_power(t, i - 1) ||
                        (is(t, i - 1, "and") && is_power(t, i - 2));
    if (joined || w->kind == STENO_EN_OTHER || is_date(t, i) || is_of_year(t, i))
        return false;
    return w->kind == STENO_EN_DIGIT || is(t, i - 1, "a an");
}

/* "four and two dollars": "and" is within a number behind a power of ten alone. */
static bool joins_numbers(const struct text *t, size_t i)
{
    return is(t, i, "and") && is_number(t, i - 1) && !is_power(t, i - 1) && is_number(t, i + 1);
}

/* ---- letters --------------------------------------------------------------------------------- */

static bool is_letter(const struct text *t, size_t i)
{
    return i < t->n && t->word[i].n == 1;
}

/* "a c compiler" has an article, unlike "a b c"; "f o o" has no zero. */
static bool stays_letter(const struct text *t, size_t i)
{
    size_t left = i - 1, right = i + 1;
    while (is(t, left, "o dot"))
        left--;
    while (is(t, right, "o dot"))
        right++;
    if (is(t, i, "a"))
        return is_letter(t, i + 1) && !is(t, i + 1, "i") && !is_letter(t, i + 2) &&
               !is_spelled(t, i - 1);
    return is(t, i, "o") && !is_number(t, left) && !is_number(t, right);
}

/* Two letters that words [i, i + 1] are, alone. */
static bool is_pair(const struct text *t, size_t i, const char *first, const char *second)
{
    return is(t, i, first) && is(t, i + 1, second) && !is_letter(t, i - 1) && !is_letter(t, i + 2);
}

/* "in fifty three b c", "e g twenty", "in nineteen fifty two a man": no part of the number. */
static bool stays_beside_number(const struct text *t, size_t i)
{
    const bool year = is_pair(t, i, "b", "c") && is_number(t, i - 1);
    return year || (is_pair(t, i - 1, "b", "c") && is_number(t, i - 2)) ||
           is_pair(t, i, "e i", "g e") || is_pair(t, i - 1, "e i", "g e") ||
           (is(t, i, "a i") && is_number(t, i - 1) && i + 1 < t->n && !is_spelled(t, i + 1));
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The end of a name of an address that begins with word i: letters and digits, or one word. */
static size_t name_end(const struct text *t, size_t i)
{
    if (!is_spelled(t, i))
        return i + (i < t->n);
    while (is_spelled(t, i))
        i++;
    return i;
}

/* Whether words [i, end) are a top-level domain: one of those, or two or three letters. */
static bool is_top(const struct text *t, size_t i, size_t end)
{
    if (is(t, i, DOMAINS))
        return true;
    for (size_t k = i; k < end; k++)
        if (!is_letter(t, k))
            return false;
    return end - i == 2 || end - i == 3;
}

/* The end of "example dot org", with "slash" and names behind it; 0: there is none at word i. */
static size_t domain_end(const struct text *t, size_t i)
{
    size_t last = i, end = name_end(t, i);
    bool dots = false;
    while (end < t->n && is(t, end, DOTS)) {
        dots |= is(t, end, "dot");
        last = end + 1;
        end = name_end(t, last);
    }
    if (!dots || last >= t->n || !is_top(t, last, end))
        return 0;
    while (is(t, end, "slash"))
        end = name_end(t, end + 1);
    return end;
}

/* The begin of a name that ends before word i > 0: of letters and digits, of one word, or of one
 * word with digits. */
static size_t name_begin(const struct text *t, size_t i)
{
    bool digits = true;
    if (!is_spelled(t, i - 1))
        return i - 1;
    for (; i && is_spelled(t, i - 1); i--)
        digits &= is_digit(t, i - 1);
    return i && digits && !is(t, i - 1, NO_NAMES) && !is(t, i - 1, JOINTS) ? i - 1 : i;
}

/* The begin of the names that end before word i, with joints between. */
static size_t names_begin(const struct text *t, size_t i, const char *joints)
{
    while (i) {
        i = name_begin(t, i);
        if (!is(t, i - 1, joints))
            break;
        i--;
    }
    return i;
}

/* The address around a "dot" or "at", word i: [*begin, end); 0: there is none. */
static size_t address_at(const struct text *t, size_t i, size_t *begin)
{
    size_t first = i + 1, end;
    *begin = names_begin(t, i, JOINTS);
    if (is(t, i, "dot"))
        first = *begin = names_begin(t, i, DOTS);
    end = domain_end(t, first);
    if (*begin > 3 && is(t, *begin - 1, "slash") && is(t, *begin - 2, "slash") &&
        is(t, *begin - 3, "colon")) /* "h t t p colon slash slash" */
        *begin = name_begin(t, *begin - 3);
    return end;
}

/* Numbers with three dots or more between: an IP address. */
static size_t numbers_at(const struct text *t, size_t i, size_t *begin)
{
    int dots = 0;
    for (*begin = i; *begin && is_number(t, *begin - 1);)
        --*begin;
    for (; is_number(t, i) || is(t, i, "dot"); i++)
        dots += is(t, i, "dot");
    return dots >= 3 ? i : 0;
}

/* The next address from word `from` on: [*begin, end); 0: none. */
static size_t find_address(const struct text *t, size_t from, size_t *begin)
{
    for (size_t i = from + 1; i < t->n; i++) {
        size_t end = 0;
        if (is(t, i, "at dot"))
            end = address_at(t, i, begin);
        if (!end && is(t, i, "dot"))
            end = numbers_at(t, i, begin);
        *begin = *begin < from ? from : *begin;
        if (end)
            return end;
    }
    return 0;
}

/* Addresses get a wall on both sides; elsewhere a dot is a word. */
static void wall_addresses(const struct text *t)
{
    size_t from = 0, begin = 0, end;
    do {
        end = find_address(t, from, &begin);
        for (size_t i = from; i < (end ? begin : t->n); i++)
            if (is(t, i, "dot"))
                cover(t, i);
        if (end && begin > from)
            cover(t, begin - 1);
        if (end)
            cover(t, end);
        from = end;
    } while (end);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool stays(const struct text *t, size_t i)
{
    return stays_ordinal(t, i) || joins_numbers(t, i) || stays_letter(t, i) ||
           stays_beside_number(t, i) ||
           (is(t, i, DURATIONS) && !is(t, i, "second") && !is(t, i - 1, "per watt")) ||
           (is(t, i, "real reals") && is_number(t, i - 1)) ||
           (is(t, i, "example") && is(t, i - 1, "for")) || is(t, i, "misses") ||
           (is(t, i, "linked") && is(t, i + 1, "in"));
}

steno_status steno_itn_shield_english(char *text)
{
    const size_t n = strlen(text);
    struct text t = {calloc(n / 2 + 1, sizeof *t.word), 0};
    bool *covered = calloc(n / 2 + 1, sizeof *covered);
    const bool plain = !strchr(text, STENO_ITN_SHIELD);
    const steno_status st = t.word && covered ? STENO_OK : STENO_ERR_NOMEM;
    for (char *p = text; !st && plain && *(p += strspn(p, " "));) {
        const size_t k = strcspn(p, " ");
        t.word[t.n++] = (struct word){p, k};
        p += k;
    }
    for (size_t i = 0; i < t.n; i++) /* all are judged before any is gone */
        covered[i] = stays(&t, i);
    if (t.n)
        wall_addresses(&t);
    for (size_t i = 0; i < t.n; i++)
        if (covered[i])
            cover(&t, i);
    free(t.word);
    free(covered);
    return st;
}

/* What each rule above looks for behind a word; the first is nothing of that kind. */
static const char *const behind[] = {"cats",
                                     "a",
                                     "b b",
                                     "in",
                                     "twenty",
                                     "of march",
                                     "march",
                                     "quarter of twenty",
                                     "of twenty",
                                     "com",
                                     "dot com",
                                     "b dot co",
                                     "cats dash c dot com",
                                     "at b dot com",
                                     "cats at c dot co",
                                     "dot two dot two dot two",
                                     "two dot two dot two dot two",
                                     "slash c",
                                     "slash b dot com",
                                     "slash slash b dot com",
                                     "colon slash slash b dot com",
                                     "o five",
                                     "dot o two"};

#define TAIL 10 /* words: no rule but that of addresses looks farther back */

/* Where the last words of a text begin: TAIL of them, and what may be of one address with them. */
static size_t tail_of(char *text)
{
    size_t at = strlen(text);
    for (int words = 1;; words++) {
        const size_t end = at;
        struct word w;
        while (at && text[at - 1] != ' ')
            at--;
        w = (struct word){text + at, end - at};
        if (!at ||
            (words > TAIL && w.n > 1 && !is(&(struct text){&w, 1}, 0, JOINTS " slash colon at")))
            return at;
        at--;
    }
}

steno_status steno_itn_shield_decided(char *text, size_t *decided)
{
    static const char before[] = "cats cats cats "; /* where an address at the begin begins */
    const size_t begin = tail_of(text), n = strlen(text + begin);
    const size_t most = n + strlen(before), room = most + 40;
    char *first = malloc(2 * room);
    steno_status st = first ? STENO_OK : STENO_ERR_NOMEM;
    size_t same = most;
    for (size_t i = 0; !st && i < sizeof behind / sizeof *behind; i++) {
        char *t = i ? first + room : first;
        size_t k = 0;
        snprintf(t, room, "%s%s %s", before, text + begin, behind[i]);
        st = steno_itn_shield_english(t);
        while (k < same && first[k] == t[k])
            k++;
        same = k;
    }
    /* an address that may begin with the tail may begin before it */
    *decided = same > strlen(before) ? begin + same - strlen(before) : 0;
    free(first);
    return st;
}
