#include "speech/recognizer/grammars.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/path.h"
#include "speech/store/places.h"

#define FETCHED "itn-" /* and the language: names of the catalogue */
#define PUBLISHED "en zh ja"

static steno_status add_grammar(struct steno_grammars *g, const char *language, const char *dir,
                                steno_err *err)
{
    steno_status st;
    if (g->n == STENO_GRAMMARS_MAX)
        return steno_fail(err, STENO_ERR_LIMIT, "grammars: more than %d", STENO_GRAMMARS_MAX);
    st = steno_itn_open(&g->v[g->n].itn, dir, language, err);
    if (!st)
        snprintf(g->v[g->n++].language, sizeof g->v[0].language, "%s", language);
    return st;
}

/* A language that a text of code [n] may name; false: it is too long for one. */
static bool copy_code(char out[8], const char *p, size_t n)
{
    if (!n || n >= 8)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

/* Whether a model of these languages may need a grammar; "": they are not known. */
static bool may_speak(const char *languages, const char *language)
{
    return !*languages || steno_list_holds(languages, language);
}

/* Open those of "en=DIR,zh=DIR" that the model may need. */
static steno_status open_listed(struct steno_grammars *g, const char *languages, const char *list,
                                steno_err *err)
{
    steno_status st = STENO_OK;
    for (const char *p = list; !st && *p;) {
        char language[8], dir[STENO_PLACE_MAX];
        const size_t n = strcspn(p, ","), name = strcspn(p, "=,");
        if (name >= n || !copy_code(language, p, name) || n - name >= sizeof dir)
            return steno_fail(err, STENO_ERR_INVAL,
                              "grammars: '%.*s' is not LANGUAGE=DIR, such as en=/srv/itn/en",
                              n < 60 ? (int)n : 60, p);
        snprintf(dir, sizeof dir, "%.*s", (int)(n - name - 1), p + name + 1);
        if (may_speak(languages, language))
            st = add_grammar(g, language, dir, err);
        p += n + (p[n] == ',');
        p += strspn(p, " ");
    }
    return st;
}

static steno_status open_fetched(struct steno_grammars *g, const char *languages, steno_err *err)
{
    steno_status st = STENO_OK;
    for (struct steno_list_item i = steno_list_next(*languages ? languages : PUBLISHED); !st && i.n;
         i = steno_list_next(i.p + i.n)) {
        char language[8], name[16], dir[STENO_PLACE_MAX];
        if (!copy_code(language, i.p, i.n))
            continue;
        snprintf(name, sizeof name, FETCHED "%s", language);
        if (steno_place_fetched(dir, name))
            st = add_grammar(g, language, dir, err);
    }
    return st;
}

steno_status steno_grammars_open(struct steno_grammars *g, const char *dir, const char *languages,
                                 const char *list, steno_err *err)
{
    steno_status st = steno_itn_open_of_model(&g->v[0].itn, dir, err);
    g->n = g->v[0].itn != NULL;
    g->v[0].language[0] = '\0';
    if (st || g->n)
        return st;
    if (!list || !*list)
        st = open_fetched(g, languages, err);
    else if (strcmp(list, "none") != 0)
        st = open_listed(g, languages, list, err);
    return st;
}

void steno_grammars_close(struct steno_grammars *g)
{
    for (size_t i = 0; i < g->n; i++)
        steno_itn_close(g->v[i].itn);
    g->n = 0;
}

/* Whether a text has a character of [low, high], which have three bytes. */
static bool has_between(const char *text, uint32_t low, uint32_t high)
{
    const unsigned char *p = (const unsigned char *)text;
    for (; *p; p++)
        if (p[0] >> 4 == 0xE && p[1] && p[2]) {
            const uint32_t c = (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
            if (c >= low && c <= high)
                return true;
        }
    return false;
}

/* The language that a text's characters tell; "": one of letters. */
static const char *language_of(const char *text)
{
    if (has_between(text, 0x3041, 0x30FF)) /* kana */
        return "ja";
    return has_between(text, 0x4E00, 0x9FFF) ? "zh" : "";
}

static bool is_of_letters(const char *language)
{
    return strcmp(language, "ja") != 0 && strcmp(language, "zh") != 0;
}

const steno_itn *steno_grammars_choose(const struct steno_grammars *g, const char *language,
                                       const char *text)
{
    const char *told = *language ? language : language_of(text);
    for (size_t i = 0; i < g->n; i++)
        if (!*g->v[i].language ||
            (*told ? !strcmp(g->v[i].language, told) : is_of_letters(g->v[i].language)))
            return g->v[i].itn;
    return NULL;
}
