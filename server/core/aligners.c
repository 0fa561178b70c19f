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

steno_status steno_aligners_check(const char *list, steno_err *err)
{
    struct entry e;
    while (next_entry(&list, &e)) {
        char language[32];
        if (!e.n_name || e.n_name >= STENO_ALIGNER_NAME)
            return steno_fail(err, STENO_ERR_INVAL,
                              "'%.*s': expected NAME or LANGUAGE=NAME, with a name of at most %d "
                              "bytes",
                              (int)(e.n_language + 1 + e.n_name), e.language,
                              STENO_ALIGNER_NAME - 1);
        if (e.language == e.name)
            continue;
        if (e.n_language < sizeof language) {
            memcpy(language, e.language, e.n_language);
            language[e.n_language] = '\0';
        }
        if (e.n_language >= sizeof language || !steno_language_code(language))
            return steno_fail(err, STENO_ERR_INVAL, "'%.*s' is no language that is known here",
                              (int)e.n_language, e.language);
    }
    return STENO_OK;
}

/* Whether the entry is of the language. */
static bool is_of(const struct entry *e, const char *code)
{
    char language[32];
    const char *own;
    if (e->language == e->name || e->n_language >= sizeof language)
        return false;
    memcpy(language, e->language, e->n_language);
    language[e->n_language] = '\0';
    own = steno_language_code(language);
    return own && !strcmp(own, code);
}

bool steno_aligners_find(const char *list, const char *language, char out[STENO_ALIGNER_NAME])
{
    const char *code = language && *language ? steno_language_code(language) : NULL;
    struct entry e, found = {0};
    while (next_entry(&list, &e)) {
        const bool own = code && is_of(&e, code);
        if (own || (e.language == e.name && !found.n_name))
            found = e;
        if (own)
            break;
    }
    if (!found.n_name || found.n_name >= STENO_ALIGNER_NAME)
        return false;
    memcpy(out, found.name, found.n_name);
    out[found.n_name] = '\0';
    return true;
}
