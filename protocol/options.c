#include "protocol/options.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "protocol/json_text.h"
#include "protocol/query.h"

/* ---- the table ------------------------------------------------------------------------------- */

/* The next row from *i on whose name no earlier row has; NULL past the last one. */
static const struct steno_option_info *next_row(size_t *i)
{
    const struct steno_option_info *row;
    while ((row = steno_option_at((*i)++)))
        if (steno_option_find(row->name) == row)
            return row;
    return NULL;
}

static bool family_has(const char *family, const char *name)
{
    const struct steno_option_info *row;
    for (size_t i = 0; family && (row = steno_option_at(i)); i++)
        if (!strcmp(row->name, name) &&
            (!strcmp(row->family, family) || !strcmp(row->family, "all")))
            return true;
    return false;
}

bool steno_options_known(const char *name)
{
    return steno_option_find(name) != NULL;
}

bool steno_options_known_of(const char *name, enum steno_option_scope scope)
{
    const struct steno_option_info *row = steno_option_find(name);
    return row && row->scope == scope;
}

const char *steno_options_meant(const char *names, const char *name, char out[STENO_OPTIONS_MEANT])
{
    struct steno_list_item best = steno_list_similar(names, name);
    const struct steno_option_info *row;
    size_t most = best.n ? steno_list_likeness(best.p, best.n, name) : 2;
    for (size_t i = 0; (row = next_row(&i));) {
        const size_t n = strlen(row->name), alike = steno_list_likeness(row->name, n, name);
        best = alike > most ? (struct steno_list_item){row->name, n} : best;
        most = alike > most ? alike : most;
    }
    snprintf(out, STENO_OPTIONS_MEANT, best.n ? " (%.*s is known)" : "", (int)best.n, best.p);
    return out;
}

const char *steno_options_named_in(const char *message)
{
    const struct steno_option_info *row;
    for (size_t i = 0; (row = next_row(&i));) {
        size_t n = strlen(row->name);
        if (!strncmp(message, row->name, n) && message[n] == ':')
            return row->name;
    }
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Print digits that read back to the same number. */
static void print_number(char out[STENO_OPTION_TEXT], double v)
{
    for (int digits = 12; digits <= 17; digits++) {
        snprintf(out, STENO_OPTION_TEXT, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            return;
    }
}

static bool is_yes(const char *value)
{
    static const char *const words[] = {"yes", "true", "on", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value, words[i]))
            return true;
    return false;
}

/* Word i of "a|b|c"; *n: its length. */
static const char *word_at(const char *words, size_t i, size_t *n)
{
    for (; i && *words; i--) {
        words += strcspn(words, "|");
        words += *words == '|';
    }
    *n = strcspn(words, "|");
    return words;
}

/* Which of the row's choices it is; their number if it is none. */
static size_t find_choice(const struct steno_option_info *row, const char *text)
{
    size_t i = 0, n;
    for (const char *w; *(w = word_at(row->choices, i, &n)); i++)
        if (strlen(text) == n && !memcmp(text, w, n))
            break;
    return i;
}

/* Whether it is a choice that takes the words of a flag too: on, off and others. */
static bool is_switch(const struct steno_option_info *row)
{
    size_t n;
    return row->kind == STENO_OPTION_CHOICE && *word_at(row->choices, find_choice(row, "on"), &n);
}

/* The value of a text that has been checked. */
static double option_value(const struct steno_option_info *row, const char *text)
{
    size_t i, n;
    if (row->kind == STENO_OPTION_NUMBER)
        return strtod(text, NULL);
    if (row->kind == STENO_OPTION_FLAG)
        return is_yes(text);
    if (row->kind == STENO_OPTION_LIST)
        return 0;
    i = find_choice(row, text);
    if (!*word_at(row->choices, i, &n) && is_switch(row))
        i = find_choice(row, is_yes(text) ? "on" : "off");
    return (double)i;
}

static void print_value(const struct steno_option_info *row, double v, char out[STENO_OPTION_TEXT])
{
    size_t n;
    const char *word;
    if (row->kind == STENO_OPTION_NUMBER) {
        print_number(out, v);
    } else if (row->kind == STENO_OPTION_FLAG) {
        snprintf(out, STENO_OPTION_TEXT, "%s", v != 0 ? "yes" : "no");
    } else {
        word = word_at(row->choices, (size_t)v, &n);
        snprintf(out, STENO_OPTION_TEXT, "%.*s", (int)n, word);
    }
}

/* ---- sets ------------------------------------------------------------------------------------ */

static const struct steno_option_info *option_row(const struct steno_options *o, size_t i)
{
    return steno_option_at(o->row[i]);
}

/* Index of a name in the set; o->n when it is not set. */
static size_t find_option(const struct steno_options *o, const char *name)
{
    size_t i = 0;
    while (i < o->n && strcmp(option_row(o, i)->name, name))
        i++;
    return i;
}

static bool is_list(const struct steno_options *o, size_t i)
{
    return option_row(o, i)->kind == STENO_OPTION_LIST;
}

static const char *list_at(const struct steno_options *o, size_t i)
{
    return o->lists + (size_t)o->value[i];
}

/* The value of option i as text: written to out, or o's own list. */
static const char *option_text(const struct steno_options *o, size_t i, char out[STENO_OPTION_TEXT])
{
    if (is_list(o, i))
        return list_at(o, i);
    print_value(option_row(o, i), o->value[i], out);
    return out;
}

/* Whether the value is the default. */
static bool is_default(const struct steno_options *o, size_t i)
{
    const struct steno_option_info *row = option_row(o, i);
    if (is_list(o, i))
        return !strcmp(list_at(o, i), row->fallback);
    return *row->fallback && option_value(row, row->fallback) == o->value[i];
}

const char *steno_options_get(const struct steno_options *o, const char *name,
                              char out[STENO_OPTION_TEXT])
{
    size_t i = find_option(o, name);
    return i == o->n ? NULL : option_text(o, i, out);
}

/* Append the text of a list; *place: of it. False: there is no room. */
static bool add_list(struct steno_options *o, const char *text, double *place)
{
    size_t used = 0, n = strlen(text) + 1;
    for (size_t i = 0; i < o->n; i++)
        if (is_list(o, i))
            used += strlen(list_at(o, i)) + 1;
    if (n > sizeof o->lists - used)
        return false;
    memcpy(o->lists + used, text, n);
    *place = (double)used;
    return true;
}

/* Keep the options for which `keep` is true. */
static void filter(struct steno_options *o,
                   bool (*keep)(const struct steno_option_info *row, const void *arg),
                   const void *arg)
{
    const struct steno_options all = *o;
    o->n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (keep(option_row(&all, i), arg)) {
            double value = all.value[i];
            if (is_list(&all, i))
                (void)add_list(o, list_at(&all, i), &value);
            o->row[o->n] = all.row[i];
            o->value[o->n++] = value;
        }
}

static bool is_other(const struct steno_option_info *row, const void *name)
{
    return strcmp(row->name, name) != 0;
}

void steno_options_unset(struct steno_options *o, const char *name)
{
    filter(o, is_other, name);
}

/* Set a row's value; list: its text, else NULL. Without room it is left out, which does not happen
 * with options of the table and one list. */
static bool put_option(struct steno_options *o, unsigned char row, double value, const char *list)
{
    const char *name = steno_option_at(row)->name;
    size_t i;
    if (list) {
        steno_options_unset(o, name);
        if (!add_list(o, list, &value))
            return false;
    }
    i = find_option(o, name);
    if (i == STENO_OPTIONS_MAX)
        return false;
    o->n = (unsigned char)(o->n + (i == o->n));
    o->row[i] = row;
    o->value[i] = value;
    return true;
}

/* Set the value of option i of `from`. */
static bool put_from(struct steno_options *o, unsigned char row, const struct steno_options *from,
                     size_t i)
{
    return put_option(o, row, from->value[i], is_list(from, i) ? list_at(from, i) : NULL);
}

/* The row of a name; its number fits a byte. */
static const struct steno_option_info *row_named(const char *name, unsigned char *at)
{
    const struct steno_option_info *row = steno_option_find(name);
    for (*at = 0; row && steno_option_at(*at) != row; (*at)++)
        if (*at == UCHAR_MAX)
            return NULL;
    return row;
}

static steno_status unknown(const char *name, const char *names, steno_err *err)
{
    char meant[STENO_OPTIONS_MEANT];
    return steno_fail(err, STENO_ERR_INVAL, "unknown option '%.40s'%s", name,
                      steno_options_meant(names, name, meant));
}

steno_status steno_options_set(struct steno_options *o, const char *name, const char *value,
                               steno_err *err)
{
    unsigned char at;
    const struct steno_option_info *row = row_named(name, &at);
    steno_status st;
    if (!row)
        return unknown(name, "", err);
    st = steno_option_check(name, value, err);
    if (st)
        return st;
    if (row->kind == STENO_OPTION_LIST && strlen(value) >= STENO_OPTIONS_LISTS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: the list has more than %d bytes", name,
                          STENO_OPTIONS_LISTS - 1);
    if (!put_option(o, at, option_value(row, value), row->kind == STENO_OPTION_LIST ? value : NULL))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d options", name,
                          STENO_OPTIONS_MAX);
    return STENO_OK;
}

/* A list from JSON: text, one number, or an array of numbers. */
static steno_status set_json_list(struct steno_options *o, const char *name, const json_t *value,
                                  steno_err *err)
{
    char text[STENO_OPTIONS_LISTS + STENO_OPTION_TEXT] = "";
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    size_t at = 0;
    if (json_is_string(value))
        return steno_options_set(o, name, json_string_value(value), err);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(v))
            return steno_fail(err, STENO_ERR_INVAL,
                              "%s: must be a list of whole numbers, or a string with commas "
                              "between them",
                              name);
        if (at < STENO_OPTIONS_LISTS) /* what is too long stays so */
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? "," : "",
                                   (long long)json_integer_value(v));
    }
    return steno_options_set(o, name, text, err);
}

steno_status steno_options_set_json(struct steno_options *o, const char *name, const json_t *value,
                                    steno_err *err)
{
    const struct steno_option_info *row = steno_option_find(name);
    char number[STENO_OPTION_TEXT];
    if (row && row->kind == STENO_OPTION_NUMBER) {
        if (!json_is_number(value))
            return steno_fail(err, STENO_ERR_INVAL, "%s: must be a number", name);
        print_number(number, json_number_value(value));
        return steno_options_set(o, name, number, err);
    }
    if (row && (row->kind == STENO_OPTION_FLAG || (is_switch(row) && json_is_boolean(value)))) {
        if (!json_is_boolean(value))
            return steno_fail(err, STENO_ERR_INVAL, "%s: must be true or false", name);
        return steno_options_set(o, name, json_is_true(value) ? "true" : "false", err);
    }
    if (row && row->kind == STENO_OPTION_LIST)
        return set_json_list(o, name, value, err);
    if (row && !json_is_string(value))
        return steno_fail(err, STENO_ERR_INVAL, "%s: must be a string", name);
    return steno_options_set(o, name, row ? json_string_value(value) : "", err);
}

/* Read one "NAME=VALUE" without blanks around it. */
static steno_status read_pair(struct steno_options *o, int *beam, const char *p, size_t n,
                              steno_err *err)
{
    char pair[64], *equals;
    if (n >= sizeof pair)
        return steno_fail(err, STENO_ERR_INVAL, "'%.40s' is longer than any option", p);
    memcpy(pair, p, n);
    pair[n] = '\0';
    equals = strchr(pair, '=');
    if (!equals)
        return steno_fail(err, STENO_ERR_INVAL, "'%s' is not NAME=VALUE", pair);
    *equals = '\0';
    if (!strcmp(pair, "beam"))
        return steno_query_int("beam", equals + 1, 0, STENO_MAX_BEAM, beam, err);
    if (steno_options_known_of(pair, STENO_OPTION_OF_STREAM))
        return steno_options_set(o, pair, equals + 1, err);
    return unknown(pair, "beam", err);
}

steno_status steno_options_read_list(struct steno_options *o, int *beam, const char *list,
                                     steno_err *err)
{
    struct steno_list_item it = steno_list_next(list);
    for (; it.n; it = steno_list_next(it.p + it.n)) {
        steno_status st = read_pair(o, beam, it.p, it.n, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

void steno_options_complete(struct steno_options *io, const struct steno_options *defaults)
{
    for (size_t i = 0; i < defaults->n; i++)
        if (find_option(io, option_row(defaults, i)->name) == io->n)
            (void)put_from(io, defaults->row[i], defaults, i);
}

struct wanted {
    enum steno_option_scope scope;
    const char *family;
};

static bool is_wanted(const struct steno_option_info *row, const void *arg)
{
    const struct wanted *w = arg;
    return row->scope == w->scope && family_has(w->family, row->name);
}

void steno_options_keep(struct steno_options *io, enum steno_option_scope scope, const char *family)
{
    filter(io, is_wanted, &(struct wanted){scope, family});
}

struct steno_options steno_options_variant(const struct steno_options *o)
{
    struct steno_options out = {0};
    const struct steno_option_info *row;
    for (size_t i = 0; (row = next_row(&i));) { /* i: one past the row */
        size_t at = find_option(o, row->name);
        if (at < o->n && row->scope == STENO_OPTION_OF_MODEL && !is_default(o, at))
            (void)put_from(&out, (unsigned char)(i - 1), o, at);
    }
    return out;
}

static bool is_of_streams(const struct steno_option_info *row, const void *arg)
{
    (void)arg;
    return row->scope == STENO_OPTION_OF_STREAM;
}

void steno_options_set_variant(struct steno_options *io, const struct steno_options *variant)
{
    filter(io, is_of_streams, NULL);
    steno_options_complete(io, variant);
}

bool steno_options_equal(const struct steno_options *a, const struct steno_options *b)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t k = find_option(b, option_row(a, i)->name);
        if (k == b->n || (is_list(a, i) ? strcmp(list_at(a, i), list_at(b, k)) != 0
                                        : a->value[i] != b->value[k]))
            return false;
    }
    return a->n == b->n;
}

/* ---- conversions ----------------------------------------------------------------------------- */

void steno_options_list(const struct steno_options *o, enum steno_option_scope scope,
                        struct steno_option_list *out)
{
    out->n = 0;
    memcpy(out->lists, o->lists, sizeof out->lists);
    for (size_t i = 0; i < o->n; i++) {
        const struct steno_option_info *row = option_row(o, i);
        const char *text = option_text(o, i, out->text[out->n]);
        if (row->scope != scope)
            continue;
        if (is_list(o, i))
            text = out->lists + (text - o->lists);
        out->v[out->n++] = (struct steno_option){row->name, text};
    }
}

const char *steno_options_label(const struct steno_options *o, char out[STENO_OPTIONS_LABEL])
{
    struct steno_options variant = steno_options_variant(o);
    out[0] = '\0';
    for (size_t i = 0; i < variant.n; i++) {
        const struct steno_option_info *row = option_row(&variant, i);
        char text[STENO_OPTION_TEXT];
        const char *value = option_text(&variant, i, text);
        size_t at = strlen(out);
        bool yes = row->kind == STENO_OPTION_FLAG && variant.value[i] != 0;
        if (yes || row->kind == STENO_OPTION_CHOICE)
            snprintf(out + at, STENO_OPTIONS_LABEL - at, "+%s", yes ? row->name : value);
        else
            snprintf(out + at, STENO_OPTIONS_LABEL - at, "+%s=%s", row->name, value);
    }
    return out;
}

steno_status steno_options_write(struct steno_buf *out, const struct steno_options *o)
{
    struct steno_options variant = steno_options_variant(o);
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < variant.n; i++) {
        const struct steno_option_info *row = option_row(&variant, i);
        char text[STENO_OPTION_TEXT];
        const char *value = option_text(&variant, i, text);
        st = steno_buf_printf(out, ",\"%s\":", row->name);
        if (!st && row->kind == STENO_OPTION_FLAG)
            st = steno_buf_puts(out, variant.value[i] != 0 ? "true" : "false");
        else if (!st && row->kind == STENO_OPTION_NUMBER)
            st = steno_buf_puts(out, value);
        else if (!st)
            st = steno_json_put_string(out, value, strlen(value));
    }
    return st;
}
