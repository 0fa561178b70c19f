#include "server/core/aligners.h"

#include <string.h>

#include "steno.h"

/* An entry of the list. */
struct entry {
    const char *language, *name; /* language: [n_language]; 0: all */
    size_t n_language, n_name;
};

/* Read the entry at *at, and move behind it. False: the list is over. */
static bool next_entry(const char **at, struct entry *e)
{
    const char *p = *at + strspn(*at, " ,"), *equals;
    const size_t n = strcspn(p, ",");
    if (!*p)
        return false;
    *at = p + n;
    *e = (struct entry){.language = p, .name = p, .n_name = n};
    equals = memchr(p, '=', n);
    if (equals) {
        e->n_language = (size_t)(equals - p);
        e->name = equals + 1;
        e->n_name = n - e->n_language - 1;
    }
    while (e->n_name && e->name[e->n_name - 1] == ' ')
        e->n_name--;
    return true;
}

/* Of all languages that no other entry names. */
static bool is_general(const struct entry *e)
{
    return e->language == e->name;
}

/* The code of an entry's language; NULL: it is general, or no language that is known here. */
static const char *code_of(const struct entry *e)
{
    char language[32];
    if (is_general(e) || e->n_language >= sizeof language)
        return NULL;
    memcpy(language, e->language, e->n_language);
    language[e->n_language] = '\0';
    return steno_language_code(language);
}

static bool same_language(const struct entry *a, const struct entry *b)
{
    const char *x = code_of(a), *y = code_of(b);
    return x && y ? !strcmp(x, y) : is_general(a) && is_general(b);
}

/* Whether an entry before e has its language, and is taken instead. */
static bool comes_second(const char *list, const struct entry *e)
{
    struct entry one;
    while (next_entry(&list, &one) && one.language < e->language)
        if (same_language(&one, e))
            return true;
    return false;
}

steno_status steno_aligners_check(const char *list, steno_err *err)
{
    const char *at = list;
    struct entry e;
    while (next_entry(&at, &e)) {
        const int n = (int)(e.n_language + !is_general(&e) + e.n_name);
        if (!e.n_name || e.n_name >= STENO_ALIGNER_NAME)
            return steno_fail(err, STENO_ERR_INVAL,
                              "'%.*s': expected NAME or LANGUAGE=NAME, with a name of at most %d "
                              "bytes",
                              n, e.language, STENO_ALIGNER_NAME - 1);
        if (!is_general(&e) && !code_of(&e))
            return steno_fail(err, STENO_ERR_INVAL, "'%.*s' is no language that is known here",
                              (int)e.n_language, e.language);
        if (comes_second(list, &e))
            return steno_fail(err, STENO_ERR_INVAL,
                              "'%.*s' comes after another one for its language", n, e.language);
    }
    return STENO_OK;
}

static bool copy_name(const struct entry *e, char out[STENO_ALIGNER_NAME])
{
    if (!e->n_name || e->n_name >= STENO_ALIGNER_NAME)
        return false;
    memcpy(out, e->name, e->n_name);
    out[e->n_name] = '\0';
    return true;
}

bool steno_aligners_next(const char **list, char out[STENO_ALIGNER_NAME])
{
    struct entry e;
    return next_entry(list, &e) && copy_name(&e, out);
}

bool steno_aligners_find(const char *list, const char *language, char out[STENO_ALIGNER_NAME])
{
    const char *code = language && *language ? steno_language_code(language) : NULL;
    struct entry e, found = {0};
    while (next_entry(&list, &e)) {
        const char *language_of = code_of(&e);
        const bool own = code && language_of && !strcmp(language_of, code);
        if (own || (is_general(&e) && !found.n_name))
            found = e;
        if (own)
            break;
    }
    return copy_name(&found, out);
}
