#include "speech/recognizer/redact.h"

#include <string.h>
#include <utf8proc.h>

#include "base/english.h"
#include "base/list.h"
#include "base/utf8.h"

enum { PCI = 1, SSN = 2, NUMBERS = 4, EMAIL = 8, PHONE = 16, EVERY_NUMBER = 32 };

steno_status steno_redact_read(unsigned *kinds, const char *text, steno_err *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"pci", PCI},
                 {"ssn", SSN},
                 {"numbers", NUMBERS},
                 {"true", NUMBERS},
                 {"email", EMAIL},
                 {"phone", PHONE},
                 {"aggressive_numbers", EVERY_NUMBER}};
    while (*(text += strspn(text, ", "))) {
        const size_t n = strcspn(text, ", ");
        size_t i = 0;
        while (i < sizeof names / sizeof *names &&
               (strlen(names[i].name) != n || memcmp(names[i].name, text, n) != 0))
            i++;
        if (i == sizeof names / sizeof *names)
            return steno_fail(
                err, STENO_ERR_INVAL,
                "redact: '%.*s' is not one of pci, ssn, numbers, aggressive_numbers, email, "
                "phone",
                n > 40 ? 40 : (int)n, text);
        *kinds |= names[i].bit;
        text += n;
    }
    return STENO_OK;
}

static bool core_is(const struct steno_filter_piece *p, const char *word)
{
    return !strcmp(p->core, word);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The digits that a power of ten adds to the number before it; 0: it is none. */
static size_t digits_of_power(const struct steno_filter_piece *p)
{
    const struct steno_english_word *w = steno_english_word(p->core, p->core_n);
    size_t digits = 0;
    if (w->ordinal || (w->kind != STENO_EN_HUNDRED && w->kind != STENO_EN_MAGNITUDE))
        return 0;
    for (int64_t v = w->value; v >= 10; v /= 10)
        digits++;
    return digits;
}

/* The digits of a number word, and 1; 0: it is none. *tens: it is one of twenty to ninety. */
static size_t digits_of_word(const char *word, size_t n, bool *tens)
{
    const struct steno_english_word *w = steno_english_word(word, n);
    const bool follows_tens = *tens;
    if (w->ordinal || w->kind < STENO_EN_DIGIT || w->kind > STENO_EN_TENS)
        return 0;
    *tens = w->kind == STENO_EN_TENS;
    if (w->kind != STENO_EN_DIGIT)
        return 3;
    return follows_tens && w->value ? 1 : 2;
}

/* Whether a piece is a number: decimal digits of any script among others, a number word, or several
 * with hyphens between ("forty-two", "nine-one-one"). *digits: how many it adds to the number
 * before it. *tens: that one ends in twenty to ninety, whose zero one to nine replace; then this
 * one. */
static bool is_number(const struct steno_filter_piece *p, bool *tens, size_t *digits)
{
    *digits = 0;
    for (size_t i = 0; i < p->core_n;) {
        int32_t c;
        i += steno_utf8_next(p->core + i, p->core_n - i, &c);
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

/* Whether a word that is no number may stand within one; *digits: how many it adds. */
static bool joins_number(const struct steno_filter_piece *p, size_t *digits)
{
    *digits = steno_list_holds("oh o double", p->core) ? 1
              : core_is(p, "triple")                   ? 2
                                                       : digits_of_power(p);
    if (core_is(p, "and")) /* "two hundred and five" */
        return digits_of_power(p - 1) > 0;
    return *digits ||
           ((!*p->core || steno_list_holds("dash hyphen point", p->core)) && !p->changed);
}

/* The end of the number that begins with piece i, and its digits; 0: none begins there. */
static size_t end_of_number(const struct steno_filter_text *t, size_t i, size_t *digits)
{
    size_t end = i + 1, more = 0, own;
    bool tens = false;
    if (!is_number(&t->piece[i], &tens, digits)) {
        if (!digits_of_power(&t->piece[i]))
            return 0;
        *digits = 1 + digits_of_power(&t->piece[i]); /* "a thousand" */
    }
    for (size_t k = end; k < t->n; k++) {
        const bool whole = is_number(&t->piece[k], &tens, &own);
        if (!whole && !joins_number(&t->piece[k], &own))
            break;
        more += own;
        if (whole || digits_of_power(&t->piece[k]) || steno_list_holds("oh o", t->piece[k].core)) {
            *digits += more;
            more = 0;
            end = k + 1;
        }
    }
    return end;
}

/* Whether one of the few words before piece i begins with one of these. */
static bool is_about(const struct steno_filter_text *t, size_t i, const char *const *words,
                     size_t n)
{
    for (size_t k = i > 8 ? i - 8 : 0; k < i; k++)
        for (size_t w = 0; w < n; w++)
            if (!strncmp(t->piece[k].core, words[w], strlen(words[w])))
                return true;
    return false;
}

static bool is_redacted(const struct steno_filter_text *t, unsigned r, size_t from, size_t to,
                        size_t digits)
{
    static const char *const card[] = {"cvv", "cvc", "security", "expir", "exp"};
    static const char *const social[] = {"social", "ssn"};
    if (r & EVERY_NUMBER)
        return true;
    if (t->partial && to == t->n) /* it may grow */
        return r & NUMBERS || (r & (PCI | SSN | PHONE) && digits >= 3);
    return (r & NUMBERS && digits >= 3) || (r & PHONE && digits >= 7) ||
           (r & SSN && (digits == 9 || (digits == 4 && is_about(t, from, social, 2)))) ||
           (r & PCI &&
            (digits >= 12 || (digits >= 3 && digits <= 6 && is_about(t, from, card, 5))));
}

static bool redact_numbers(struct steno_filter_text *t, unsigned kinds)
{
    for (size_t i = 0; i < t->n;) {
        size_t digits;
        const size_t end = end_of_number(t, i, &digits);
        if (!end) {
            i++;
            continue;
        }
        if (is_redacted(t, kinds, i, end, digits) &&
            !steno_filter_change(t, i, end, STENO_REDACTED))
            return false;
        i = end;
    }
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The end of an address whose "at" is piece i, "name at host dot com": behind the word after the
 * last "dot". In a partial, whose host may go on, also at its end. 0: it is none. */
static size_t end_of_address(const struct steno_filter_text *t, size_t i)
{
    size_t end = 0;
    for (size_t k = i + 1; k < t->n && k <= (end ? end : i + 4); k++)
        if (core_is(&t->piece[k], "dot") && k > i + 1 && k + 1 < t->n)
            end = k + 2;
    return !end && t->partial && t->n - i <= 4 ? t->n : end;
}

/* Where that address starts, at piece `first` or later. */
static size_t start_of_address(const struct steno_filter_text *t, size_t i, size_t first)
{
    size_t begin = i - 1;
    while (begin >= first + 2 &&
           steno_list_holds("dot underscore dash hyphen", t->piece[begin - 1].core))
        begin -= 2;
    return begin;
}

static bool redact_addresses(struct steno_filter_text *t)
{
    size_t first = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct steno_filter_piece *p = &t->piece[i];
        size_t end = 0, begin = i;
        if (memchr(p->text, '@', p->n) && p->core_n > 2) {
            end = i + 1;
        } else if (i > first && core_is(p, "at")) {
            end = end_of_address(t, i);
            begin = start_of_address(t, i, first);
        }
        if (end && !steno_filter_change(t, begin, end, STENO_REDACTED))
            return false;
        i = end ? end - 1 : i;
        first = end ? end : first;
    }
    return true;
}

bool steno_redact_apply(struct steno_filter_text *t, unsigned kinds)
{
    if (kinds & EMAIL && !redact_addresses(t))
        return false;
    steno_filter_drop(t);
    if (kinds & ~(unsigned)EMAIL && !redact_numbers(t, kinds))
        return false;
    steno_filter_drop(t);
    return true;
}
