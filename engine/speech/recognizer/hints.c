/* What a request says of its recording, checked against what a model can use. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "speech/recognizer/model.h"
#include "speech/text/language.h"

const char *steno_language_code(const char *language)
{
    return steno_language_code_at(steno_language_find(language));
}

const char *steno_language_name(const char *code)
{
    return steno_language_name_at(steno_language_find(code));
}

/* No language is named: the model is to find it. */
static bool is_detection(const char *language)
{
    static const char *const words[] = {"", "auto", "multi", "detect"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(language, words[i]))
            return true;
    return false;
}

/* The model has the language, by its name there or by the code. */
static bool has_language(const struct steno_model_info *i, const char *language)
{
    const char *code = steno_language_code(language);
    if (!strcasecmp(language, i->languages))
        return true;
    for (struct steno_list_item x = steno_list_next(i->languages); x.n;
         x = steno_list_next(x.p + x.n)) {
        char own[32];
        snprintf(own, sizeof own, "%.*s", (int)x.n, x.p);
        if (!strcasecmp(language, own) ||
            (code && steno_language_code(own) && !strcmp(code, steno_language_code(own))))
            return true;
    }
    return false;
}

static steno_status check_one(const struct steno_model_info *i, const char *language,
                              steno_err *err)
{
    const char *const codes = i->languages;
    if (has_language(i, language))
        return STENO_OK;
    if (!steno_language_code(language))
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: '%.40s' is no code or English name of a language", language);
    if (strchr(codes, ' '))
        return steno_fail(err, STENO_ERR_INVAL, "language: the model '%.60s' has no '%.40s'",
                          i->name, language);
    return steno_fail(err, STENO_ERR_INVAL, "language: the model '%.60s' speaks '%s', not '%.40s'",
                      i->name, codes, language);
}

/* Each of "en,de". */
static steno_status check_several(const struct steno_model_info *i, const char *languages,
                                  steno_err *err)
{
    steno_status st = STENO_OK;
    if (!i->detects_language)
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: the model '%.60s' does not detect which of '%.60s' is spoken",
                          i->name, languages);
    while (languages && !st) {
        char one[STENO_LANGUAGE_ITEM];
        steno_language_next(&languages, one);
        st = check_one(i, one, err);
    }
    return st;
}

static steno_status check_language(const struct steno_model_info *i, const char *language,
                                   steno_err *err)
{
    if (!language || is_detection(language) || !*i->languages)
        return STENO_OK;
    return strchr(language, ',') ? check_several(i, language, err) : check_one(i, language, err);
}

static steno_status check_text(const struct steno_model_info *i, const char *name, const char *text,
                               bool taken, steno_err *err)
{
    if (!text || !*text)
        return STENO_OK;
    if (!taken)
        return steno_fail(err, STENO_ERR_INVAL, "%s: models like '%.60s' take none", name, i->name);
    if (strlen(text) > STENO_HINT_BYTES)
        return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", name, STENO_HINT_BYTES);
    return STENO_OK;
}

steno_status steno_hints_check(const struct steno_model_info *i, const struct steno_hints *h,
                               steno_err *err)
{
    steno_status st = check_language(i, h->language, err);
    if (!st && h->translate && !i->translates)
        st = steno_fail(err, STENO_ERR_INVAL, "translate: the model '%.60s' does not translate",
                        i->name);
    if (!st)
        st = check_text(i, "prompt", h->prompt, i->takes_prompt, err);
    if (!st)
        st = check_text(i, "prefix", h->prefix, i->takes_prompt, err);
    return st ? st : check_text(i, "hotwords", h->hotwords, i->takes_hotwords, err);
}

steno_status steno_hints_resolve(const steno_model *m, struct steno_hints *io, steno_err *err)
{
    struct steno_model_info info;
    steno_status st;
    steno_model_get_info(m, &info);
    st = steno_hints_check(&info, io, err);
    if (!st) /* some models that take a prompt take no prefix */
        st = check_text(&info, "prefix", io->prefix, m->info.takes_prefix, err);
    if (st || !io->language)
        return st;
    if (is_detection(io->language))
        io->language = NULL;
    else if (!strchr(io->language, ','))
        io->language = steno_language_code(io->language);
    return STENO_OK;
}
