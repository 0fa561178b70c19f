/* The options of all families as one table. */
#include <string.h>

#include "speech/families/option.h"
#include "speech/families/registry.h"
#include "speech/recognizer/model.h"

/* Options that models of all families have. */
static const struct steno_option_info of_all[] = {
    {STENO_OPTION_ALL, STENO_OPTION_ITN, STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0,
     "auto|on|off", "auto",
     "write numbers, dates and money of finals by a grammar (docs/itn.md); auto: where there is "
     "one "
     "and the model writes words"},
    {STENO_OPTION_ALL, STENO_OPTION_ITN_DIGITS, STENO_OPTION_FLAG, STENO_OPTION_OF_STREAM, 0, 0,
     NULL, "no",
     "where a grammar of English writes finals: lone numbers below ten become digits too, but for "
     "one"},
    {STENO_OPTION_ALL, STENO_OPTION_PUNCTUATION, STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0,
     "auto|on|off", "auto",
     "write marks and capitals of finals by a network (docs/punctuation.md); auto: where there is "
     "one and the model writes neither"},
    {STENO_OPTION_ALL, STENO_OPTION_STABILIZE, STENO_OPTION_FLAG, STENO_OPTION_OF_STREAM, 0, 0,
     NULL, "yes",
     "partials of models that read the utterance again for each keep words that were shown, and "
     "marks wait until they are stable; no: every guess at once"},
};
#define N_OF_ALL (sizeof of_all / sizeof *of_all)

const struct steno_option_info *steno_option_at(size_t i)
{
    if (i < N_OF_ALL)
        return &of_all[i];
    i -= N_OF_ALL;
    for (size_t f = 0; steno_families[f]; f++) {
        if (i < steno_families[f]->n_options)
            return &steno_families[f]->options[i];
        i -= steno_families[f]->n_options;
    }
    return NULL;
}

static bool is_of_all(const char *name)
{
    for (size_t i = 0; i < N_OF_ALL; i++)
        if (!strcmp(of_all[i].name, name))
            return true;
    return false;
}

const struct steno_option_info *steno_option_find(const char *name)
{
    const struct steno_option_info *o;
    for (size_t i = 0; (o = steno_option_at(i)); i++)
        if (!strcmp(o->name, name))
            return o;
    return NULL;
}

/* List the options of one family (NULL: of all) as "a, b, c". */
static const char *list_names(const struct steno_family *f, char *out, size_t size)
{
    const struct steno_option_info *o;
    size_t n = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; (o = steno_option_at(i)) && n < size; i++)
        if (f ? !strcmp(o->family, f->name) : steno_option_find(o->name) == o) /* each once */
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", o->name);
    return out;
}

/* Error: "is neither a nor b", "is none of a|b|c". */
static steno_status refuse_choice(const struct steno_option_info *o, const char *value,
                                  steno_err *err)
{
    const char *bar = strchr(o->choices, '|');
    if (bar && !strchr(bar + 1, '|'))
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is neither %.*s nor %s", o->name,
                          value, (int)(bar - o->choices), o->choices, bar + 1);
    return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is none of %s", o->name, value,
                      o->choices);
}

static steno_status check_range(const struct steno_option_info *o, double number, steno_err *err)
{
    if (number < o->min || number > o->max)
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.12g is outside %.12g..%.12g", o->name,
                          number, o->min, o->max);
    return STENO_OK;
}

static steno_status check_list(const struct steno_option_info *o, const char *list, steno_err *err)
{
    const char *at = list;
    long number;
    while (steno_option_next(&at, &number)) {
        steno_status st = check_range(o, (double)number, err);
        if (st)
            return st;
    }
    if (*at)
        return steno_fail(err, STENO_ERR_INVAL,
                          "%s: '%.40s' is not a whole number; numbers have commas between them",
                          o->name, at);
    return STENO_OK;
}

static steno_status check_value(const struct steno_option_info *o, const char *value,
                                steno_err *err)
{
    double number;
    bool flag;
    switch (o->kind) {
    case STENO_OPTION_FLAG:
        if (steno_option_read_flag(value, &flag))
            return STENO_OK;
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not true or false", o->name, value);
    case STENO_OPTION_CHOICE:
        if (steno_option_is_choice(value, o->choices) ||
            (steno_option_is_choice("on", o->choices) && steno_option_read_flag(value, &flag)))
            return STENO_OK;
        return refuse_choice(o, value, err);
    case STENO_OPTION_LIST:
        return check_list(o, value, err);
    case STENO_OPTION_NUMBER:
        break;
    }
    if (!steno_option_read_number(value, &number))
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a number", o->name, value);
    return check_range(o, number, err);
}

steno_status steno_option_check(const char *name, const char *value, steno_err *err)
{
    const struct steno_option_info *o = steno_option_find(name);
    char names[sizeof err->msg];
    if (!o)
        return steno_fail(err, STENO_ERR_INVAL, "unknown option '%.40s', known are %s", name,
                          list_names(NULL, names, sizeof names));
    return check_value(o, value, err);
}

bool steno_options_family_has(const struct steno_family *f, const char *name)
{
    for (size_t i = 0; i < f->n_options; i++)
        if (!strcmp(f->options[i].name, name))
            return true;
    return false;
}

steno_status steno_options_check(const struct steno_family *f, const struct steno_option *options,
                                 size_t n, steno_err *err)
{
    char names[sizeof err->msg];
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_option_check(options[i].name, options[i].value, err);
        if (!st && !steno_options_family_has(f, options[i].name) && !is_of_all(options[i].name))
            st = steno_fail(err, STENO_ERR_INVAL,
                            "%s: models of family %s have no such option, theirs are: %s",
                            options[i].name, f->name, list_names(f, names, sizeof names));
    }
    return st;
}
