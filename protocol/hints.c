#include "protocol/hints.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "protocol/json_text.h"
#include "protocol/query.h"

static const char *const names[] = {"language", "translate",    "prompt",
                                    "prefix",   "hotwords",     "replace",
                                    "redact",   "filler_words", "profanity_filter"};
#define N_NAMES (sizeof names / sizeof *names)

void steno_hint_store_free(struct steno_hint_store *s)
{
    free(s->prompt);
    free(s->prefix);
    free(s->hotwords);
    free(s->replace);
    free(s->redact);
    *s = (struct steno_hint_store){.profanity = s->profanity};
}

static bool copy_text(char **out, const char *from)
{
    *out = from ? strdup(from) : NULL;
    return *out || !from;
}

steno_status steno_hint_store_copy(struct steno_hint_store *out,
                                   const struct steno_hint_store *from, steno_err *err)
{
    steno_hint_store_free(out);
    out->translate = from->translate;
    out->no_fillers = from->no_fillers;
    out->profanity_filter = from->profanity_filter;
    out->profanity = from->profanity;
    memcpy(out->language, from->language, sizeof out->language);
    if (copy_text(&out->prompt, from->prompt) && copy_text(&out->prefix, from->prefix) &&
        copy_text(&out->hotwords, from->hotwords) && copy_text(&out->replace, from->replace) &&
        copy_text(&out->redact, from->redact))
        return STENO_OK;
    steno_hint_store_free(out);
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

bool steno_hint_known(const char *name)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

const char *steno_hint_named_in(const char *message)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(message, names[i], n) && message[n] == ':')
            return names[i];
    }
    return NULL;
}

static char **stored_text(struct steno_hint_store *s, const char *name)
{
    return !strcmp(name, "prompt")    ? &s->prompt
           : !strcmp(name, "prefix")  ? &s->prefix
           : !strcmp(name, "replace") ? &s->replace
           : !strcmp(name, "redact")  ? &s->redact
                                      : &s->hotwords;
}

static steno_status set_language(struct steno_hint_store *s, const char *value, steno_err *err)
{
    if (strlen(value) >= sizeof s->language)
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: '%.40s' is no code or English name of a language", value);
    memcpy(s->language, value, strlen(value) + 1);
    return STENO_OK;
}

static steno_status check_text(const char *name, size_t n, const char *value, steno_err *err)
{
    if (n > STENO_HINT_BYTES)
        return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", name, STENO_HINT_BYTES);
    if (!steno_utf8_valid(value, strlen(value)))
        return steno_fail(err, STENO_ERR_INVAL, "%s: it is not UTF-8", name);
    return STENO_OK;
}

static bool is_flag(const char *name)
{
    return !strcmp(name, "translate") || !strcmp(name, "filler_words") ||
           !strcmp(name, "profanity_filter");
}

static steno_status set_flag(struct steno_hint_store *s, const char *name, bool on, steno_err *err)
{
    if (!strcmp(name, "translate"))
        s->translate = on;
    else if (!strcmp(name, "filler_words"))
        s->no_fillers = !on;
    else if (on && !s->profanity)
        return steno_fail(err, STENO_ERR_INVAL,
                          "profanity_filter: the server has no list (text.profanity)");
    else
        s->profanity_filter = on;
    return STENO_OK;
}

/* Whether values of a hint add up. */
static bool is_filter_list(const char *name)
{
    return !strcmp(name, "replace") || !strcmp(name, "redact");
}

steno_status steno_hint_set(struct steno_hint_store *s, const char *name, const char *value,
                            steno_err *err)
{
    char *copy = NULL, **to = stored_text(s, name);
    steno_status st;
    bool on;
    if (is_flag(name)) {
        st = steno_query_bool(name, value, &on, err);
        return st ? st : set_flag(s, name, on, err);
    }
    if (!strcmp(name, "language"))
        return set_language(s, value, err);
    if (*value && is_filter_list(name))
        return steno_hint_add(s, name, value, err);
    st = check_text(name, strlen(value), value, err);
    if (st)
        return st;
    if (*value && !(copy = strdup(value)))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    free(*to);
    *to = copy;
    return STENO_OK;
}

steno_status steno_hint_add_list(struct steno_hint_store *s, const char *name, const char *called,
                                 const json_t *list, steno_err *err)
{
    const json_t *one;
    size_t i;
    bool good = !list || json_is_null(list) || json_is_array(list);
    steno_status st = STENO_OK;
    json_array_foreach (list, i, one) {
        good &= json_is_string(one);
        if (!st && good && strcmp(json_string_value(one), "[unk]") != 0)
            st = steno_hint_add(s, name, json_string_value(one), err);
    }
    return good ? st : steno_fail(err, STENO_ERR_INVAL, "%s: must be a list of strings", called);
}

steno_status steno_hint_set_json(struct steno_hint_store *s, const char *name, const json_t *value,
                                 steno_err *err)
{
    if (is_flag(name))
        return json_is_boolean(value)
                   ? set_flag(s, name, json_is_true(value), err)
                   : steno_fail(err, STENO_ERR_INVAL, "%s: must be true or false", name);
    if (json_is_null(value))
        return steno_hint_set(s, name, "", err);
    if (json_is_array(value) && is_filter_list(name))
        return steno_hint_add_list(s, name, name, value, err);
    if (!json_is_string(value))
        return steno_fail(err, STENO_ERR_INVAL, "%s: must be a string", name);
    return steno_hint_set(s, name, json_string_value(value), err);
}

steno_status steno_hint_add(struct steno_hint_store *s, const char *name, const char *value,
                            steno_err *err)
{
    char **to = stored_text(s, name);
    const size_t had = *to ? strlen(*to) : 0, n = strlen(value);
    steno_status st;
    char *all;
    if (!n)
        return STENO_OK;
    st = check_text(name, had + 2 + n, value, err);
    if (st)
        return st;
    all = realloc(*to, had + 2 + n + 1);
    if (!all)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memcpy(all + had, ", ", 2);
    memcpy(all + had + (had ? 2 : 0), value, n + 1);
    *to = all;
    return STENO_OK;
}

struct steno_hints steno_hints_of(const struct steno_hint_store *s)
{
    if (!s)
        return (struct steno_hints){0};
    return (struct steno_hints){.language = s->language,
                                .translate = s->translate,
                                .prompt = s->prompt,
                                .prefix = s->prefix,
                                .hotwords = s->hotwords};
}

struct steno_filter_options steno_hint_filters(const struct steno_hint_store *s)
{
    if (!s)
        return (struct steno_filter_options){0};
    return (struct steno_filter_options){.replace = s->replace,
                                         .redact = s->redact,
                                         .mask = s->profanity_filter ? s->profanity : NULL,
                                         .no_fillers = s->no_fillers};
}

steno_status steno_hint_check(const struct steno_hint_store *s, const struct steno_hints *taken,
                              const struct steno_model_info *info, steno_err *err)
{
    const struct steno_filter_options filters = steno_hint_filters(s);
    const steno_status st = steno_hints_check(info, taken, err);
    return st ? st : steno_filters_check(&filters, err);
}

struct steno_hints steno_hints_taken(const struct steno_hints *h,
                                     const struct steno_model_info *info)
{
    struct steno_hints out = *h;
    if (!info->takes_prompt)
        out.prompt = out.prefix = NULL;
    if (!info->takes_hotwords)
        out.hotwords = NULL;
    return out;
}
