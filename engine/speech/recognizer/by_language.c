#include "speech/recognizer/by_language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/path.h"
#include "speech/store/places.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

static steno_status open_own_grammar(void **out, const char *dir, steno_err *err)
{
    steno_itn *g = NULL;
    const steno_status st = steno_itn_open_of_model(&g, dir, err);
    *out = g;
    return st;
}

static steno_status open_grammar(void **out, const char *dir, const char *language, steno_err *err)
{
    steno_itn *g = NULL;
    const steno_status st = steno_itn_open(&g, dir, language, err);
    *out = g;
    return st;
}

static void close_grammar(void *tool)
{
    steno_itn_close(tool);
}

const struct steno_tool_kind steno_grammars = {
    "grammars", "itn-", "en zh ja", open_own_grammar, open_grammar, close_grammar, NULL};

static steno_status open_punctuator(void **out, const char *dir, const char *language,
                                    steno_err *err)
{
    steno_punctuator *p = NULL;
    const steno_status st = steno_punctuator_open(&p, dir, err);
    (void)language;
    *out = p;
    return st;
}

/* That of the folder `punctuation`. */
static steno_status open_own_punctuator(void **out, const char *dir, steno_err *err)
{
    char *own = steno_path_join(dir, "punctuation");
    steno_status st = own ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    *out = NULL;
    if (own && steno_path_is_dir(own))
        st = open_punctuator(out, own, "", err);
    free(own);
    return st;
}

static void close_punctuator(void *tool)
{
    steno_punctuator_close(tool);
}

static bool is_bilingual(const void *tool)
{
    return steno_punctuator_is_bilingual(tool);
}

const struct steno_tool_kind steno_punctuators = {
    "punctuators",   "punctuation-",   "en zh",     open_own_punctuator,
    open_punctuator, close_punctuator, is_bilingual};

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status add_tool(struct steno_by_language *b, const struct steno_tool_kind *kind,
                             const char *language, const char *dir, steno_err *err)
{
    steno_status st;
    if (b->n == STENO_BY_LANGUAGE_MAX)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d", kind->name,
                          STENO_BY_LANGUAGE_MAX);
    st = kind->open(&b->v[b->n].tool, dir, language, err);
    if (st)
        return st;
    snprintf(b->v[b->n].language, sizeof b->v[0].language, "%s", language);
    b->v[b->n].english = kind->is_bilingual && kind->is_bilingual(b->v[b->n].tool);
    b->n++;
    return STENO_OK;
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

/* Whether a model of these languages may need one; "": they are not known. */
static bool may_speak(const char *languages, const char *language)
{
    return !*languages || steno_list_holds(languages, language);
}

/* Open those of "en=DIR,zh=DIR" that the model may need. */
static steno_status open_listed(struct steno_by_language *b, const struct steno_tool_kind *kind,
                                const char *languages, const char *list, steno_err *err)
{
    steno_status st = STENO_OK;
    for (const char *p = list; !st && *p;) {
        char language[8], dir[STENO_PLACE_MAX];
        const size_t n = strcspn(p, ","), name = strcspn(p, "=,");
        if (name >= n || !copy_code(language, p, name) || n - name >= sizeof dir)
            return steno_fail(err, STENO_ERR_INVAL,
                              "%s: '%.*s' is not LANGUAGE=DIR, such as en=/srv/text/en", kind->name,
                              n < 60 ? (int)n : 60, p);
        snprintf(dir, sizeof dir, "%.*s", (int)(n - name - 1), p + name + 1);
        if (may_speak(languages, language))
            st = add_tool(b, kind, language, dir, err);
        p += n + (p[n] == ',');
        p += strspn(p, " ");
    }
    return st;
}

static steno_status open_fetched(struct steno_by_language *b, const struct steno_tool_kind *kind,
                                 const char *languages, steno_err *err)
{
    steno_status st = STENO_OK;
    for (struct steno_list_item i = steno_list_next(*languages ? languages : kind->published);
         !st && i.n; i = steno_list_next(i.p + i.n)) {
        char language[8], name[32], dir[STENO_PLACE_MAX];
        if (!copy_code(language, i.p, i.n))
            continue;
        snprintf(name, sizeof name, "%s%s", kind->fetched, language);
        if (steno_place_fetched(dir, name))
            st = add_tool(b, kind, language, dir, err);
    }
    return st;
}

steno_status steno_by_language_open(struct steno_by_language *b, const struct steno_tool_kind *kind,
                                    const char *dir, const char *languages, const char *list,
                                    steno_err *err)
{
    steno_status st = kind->open_of_model(&b->v[0].tool, dir, err);
    b->n = !st && b->v[0].tool;
    b->v[0].language[0] = '\0';
    if (st || b->n)
        return st;
    if (!list || !*list)
        st = open_fetched(b, kind, languages, err);
    else if (strcmp(list, "none") != 0)
        st = open_listed(b, kind, languages, list, err);
    return st;
}

void steno_by_language_close(struct steno_by_language *b, const struct steno_tool_kind *kind)
{
    for (size_t i = 0; i < b->n; i++)
        kind->close(b->v[i].tool);
    b->n = 0;
}

/* ---- choice ---------------------------------------------------------------------------------- */

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

const struct steno_tool *steno_by_language_choose(const struct steno_by_language *b,
                                                  const char *language, const char *text)
{
    const char *told = *language ? language : language_of(text);
    for (size_t i = 0; i < b->n; i++)
        if (!*b->v[i].language ||
            (*told ? !strcmp(b->v[i].language, told) : is_of_letters(b->v[i].language)))
            return &b->v[i];
    for (size_t i = 0; i < b->n && (!*told || !strcmp(told, "en")); i++)
        if (b->v[i].english)
            return &b->v[i];
    return NULL;
}

bool steno_by_language_is_sure(const struct steno_tool *t, const char *languages)
{
    static const char apart[] = "zh yue ja ko"; /* characters tell them from the others */
    if (!*t->language || steno_list_holds(apart, t->language)) /* of any; of characters */
        return true;
    for (struct steno_list_item i = steno_list_next(languages); i.n;
         i = steno_list_next(i.p + i.n)) {
        char language[8];
        if (!copy_code(language, i.p, i.n) ||
            (strcmp(language, t->language) != 0 && !(t->english && !strcmp(language, "en")) &&
             !steno_list_holds(apart, language)))
            return false;
    }
    return true;
}
