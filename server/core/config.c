#include "server/core/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/list.h"

enum type { STRING, INT, BYTES, SECONDS, RATIO, BOOL };

struct row {
    enum type type;
    size_t offset;
    const char *section, *key, *env, *value; /* value: the default */
    double min, max;
    const char *doc;
};

#define ROW(type, field, section, key, env, value, min, max, doc)                                  \
    {type, offsetof(struct steno_config, field), section, key, env, value, min, max, doc},
static const struct row rows[] = {
#include "server/core/config_table.h"
};
#undef ROW
#define ROWS (sizeof rows / sizeof *rows)
_Static_assert(ROWS <= sizeof((struct steno_config *)0)->from, "config.from has a place per row");

#define MODEL "model"       /* the section of the families' options */
#define MAX_VALUE 4096      /* bytes of one value */
#define MAX_FILE (1u << 20) /* bytes of a configuration file */

static void *row_field(struct steno_config *c, const struct row *r)
{
    return (char *)c + r->offset;
}

static const void *field_const(const struct steno_config *c, const struct row *r)
{
    return (const char *)c + r->offset;
}

/* ---- values ---------------------------------------------------------------------------------- */

struct unit {
    const char *suffix;
    double factor;
};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};
static const struct unit byte_units[] = {
    {"", 1},          {"K", 1024},         {"M", 1048576}, {"G", 1073741824}, {"KiB", 1024},
    {"MiB", 1048576}, {"GiB", 1073741824}, {"B", 1},       {NULL, 0}};
static const struct unit second_units[] = {{"", 1},     {"s", 1},    {"ms", 0.001},
                                           {"min", 60}, {"h", 3600}, {NULL, 0}};

/* Parse a number and a unit of the list; spaces between them are allowed. Decimal only: strtod
 * alone would also take "0x1p4", "inf", "nan" and "1e9". */
static bool parse_number(const char *text, const struct unit *units, double *out)
{
    char digits[32], *end;
    size_t n = (text[0] == '-') + strspn(text + (text[0] == '-'), "0123456789.");
    double v;
    if (!n || n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    v = strtod(digits, &end);
    if (end != digits + n || !isdigit((unsigned char)digits[n - 1]))
        return false;
    text += n + strspn(text + n, " ");
    for (; units->suffix; units++)
        if (!strcmp(text, units->suffix)) {
            *out = v * units->factor;
            return true;
        }
    return false;
}

static const struct unit *units_of(enum type t)
{
    return t == BYTES ? byte_units : t == SECONDS ? second_units : no_units;
}

static bool parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i])) {
            *out = i & 1;
            return true;
        }
    return false;
}

static const char *type_hint(enum type t)
{
    switch (t) {
    case INT:
        return "a whole number";
    case BYTES:
        return "a size such as 65536, 64K, 100M or 1G";
    case SECONDS:
        return "a time such as 30, 1.5s, 500ms, 10min or 4h";
    case RATIO:
        return "a number such as 0.25";
    case BOOL:
        return "yes or no";
    case STRING:
        break;
    }
    return "text";
}

static steno_status bad_value(const struct row *r, const char *value, steno_err *err)
{
    return steno_fail(err, STENO_ERR_INVAL, "%s.%s: '%.60s' is not %s", r->section, r->key, value,
                      type_hint(r->type));
}

static steno_status set_number(struct steno_config *c, const struct row *r, const char *value,
                               steno_err *err)
{
    double v;
    if (!parse_number(value, units_of(r->type), &v) ||
        (r->type != SECONDS && r->type != RATIO && floor(v) != v))
        return bad_value(r, value, err);
    if (v < r->min || v > r->max)
        return steno_fail(err, STENO_ERR_INVAL, "%s.%s: %.60s is outside %.15g..%.15g%s",
                          r->section, r->key, value, r->min, r->max,
                          r->type == BYTES     ? " bytes"
                          : r->type == SECONDS ? " s"
                                               : "");
    if (r->type == INT)
        *(int *)row_field(c, r) = (int)v;
    else if (r->type == BYTES)
        *(size_t *)row_field(c, r) = (size_t)v;
    else
        *(double *)row_field(c, r) = v;
    return STENO_OK;
}

static steno_status set_string(struct steno_config *c, const struct row *r, const char *value,
                               steno_err *err)
{
    char **at = row_field(c, r), *copy;
    if (strlen(value) > MAX_VALUE)
        return steno_fail(err, STENO_ERR_INVAL, "%s.%s: longer than %d bytes", r->section, r->key,
                          MAX_VALUE);
    copy = strdup(value);
    if (!copy)
        return steno_fail(err, STENO_ERR_NOMEM, "%s.%s: out of memory", r->section, r->key);
    free(*at);
    *at = copy;
    return STENO_OK;
}

static steno_status set_row(struct steno_config *c, const struct row *r, const char *value,
                            enum steno_config_source from, steno_err *err)
{
    steno_status st = STENO_OK;
    if (r->type == STRING)
        st = set_string(c, r, value, err);
    else if (r->type == BOOL)
        st = parse_bool(value, row_field(c, r)) ? STENO_OK : bad_value(r, value, err);
    else
        st = set_number(c, r, value, err);
    if (!st)
        c->from[r - rows] = (unsigned char)from;
    return st;
}

/* ---- options of families --------------------------------------------------------------------- */

/* Row i of the families' table; NULL past the last one. *first: no earlier row has this name, so
 * the row is a setting. */
static const struct steno_option_info *option_at(size_t i, bool *first)
{
    const struct steno_option_info *o = i < STENO_CONFIG_OPTIONS ? steno_option_at(i) : NULL;
    *first = o && steno_option_find(o->name) == o;
    return o;
}

/* Index of an option in option_from; STENO_CONFIG_OPTIONS when it is not one. */
static size_t find_option(const char *section, const char *key)
{
    const struct steno_option_info *o;
    bool first;
    for (size_t i = 0; !strcmp(section, MODEL) && (o = option_at(i, &first)); i++)
        if (first && !strcmp(o->name, key))
            return i;
    return STENO_CONFIG_OPTIONS;
}

/* An empty value unsets it: the model's own value applies. */
static steno_status set_option(struct steno_config *c, size_t at, const char *value,
                               enum steno_config_source from, steno_err *err)
{
    const struct steno_option_info *o = steno_option_at(at);
    steno_err why;
    steno_status st = STENO_OK;
    if (*value)
        st = steno_options_set(&c->options, o->name, value, &why);
    else
        steno_options_unset(&c->options, o->name);
    if (st) /* the message begins with the option's name */
        return steno_fail(err, st, MODEL ".%.1000s", why.msg);
    c->option_from[at] = (unsigned char)from;
    return STENO_OK;
}

static void option_variable(const struct steno_option_info *o, char *out, size_t size)
{
    int n = snprintf(out, size, "STENO_MODEL_%s", o->name);
    for (int i = 0; i < n && out[i]; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

const char *steno_config_variable(size_t i, char *out, size_t size)
{
    const struct steno_option_info *o;
    bool first;
    if (i < ROWS)
        return rows[i].env;
    o = option_at(i - ROWS, &first);
    if (!o)
        return "";
    option_variable(o, out, size);
    return out;
}

bool steno_config_note_error(const struct steno_config *c, const steno_err *what,
                             steno_status *first, steno_err *err)
{
    if (!*first && err)
        *err = *what;
    if (!*first)
        *first = what->code;
    if (c->on_error)
        c->on_error(what->msg);
    return c->on_error;
}

static steno_status read_option_variables(struct steno_config *c, steno_err *err)
{
    const struct steno_option_info *o;
    steno_status st = STENO_OK;
    bool first;
    for (size_t i = 0; (o = option_at(i, &first)); i++) {
        char name[64];
        const char *value;
        steno_err what;
        option_variable(o, name, sizeof name);
        value = first ? getenv(name) : NULL;
        if (!value || !set_option(c, i, value, STENO_CONFIG_ENVIRONMENT, &what))
            continue;
        steno_fail_in(&what, what.code, "environment variable %s", name);
        if (!steno_config_note_error(c, &what, &st, err))
            break;
    }
    return st;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Settings of earlier versions: whoever still has one is told what to do. */
static const struct {
    const char *section, *key, *env, *why;
} removed[] = {{"pool", "batch_wait", "STENO_POOL_BATCH_WAIT",
                "streams wait for others at most 20 ms; pool.batch = 1 makes none wait"}};
#define REMOVED (sizeof removed / sizeof *removed)

static steno_status refuse_removed(size_t i, steno_err *err)
{
    return steno_fail(err, STENO_ERR_INVAL, "%s.%s is no setting any more: %s", removed[i].section,
                      removed[i].key, removed[i].why);
}

static const struct row *find_row(const char *section, const char *key)
{
    for (const struct row *r = rows; r < rows + ROWS; r++)
        if (!strcmp(r->section, section) && !strcmp(r->key, key))
            return r;
    return NULL;
}

struct candidate {
    const char *section, *key; /* NULL: no candidate */
    bool home;                 /* of the section that was given, and half of the key is right */
    size_t same, near;         /* how alike the keys and the sections are, percent */
};

static bool is_likelier(const struct candidate *a, const struct candidate *b)
{
    if (a->home != b->home)
        return a->home;
    return a->same == b->same ? a->near > b->near : a->same > b->same;
}

static void consider(struct candidate *best, const char *section, const char *key,
                     const char *given_section, const char *given)
{
    struct candidate c = {section, key, false, steno_list_likeness_percent(key, given),
                          steno_list_likeness_percent(section, given_section)};
    c.home = c.same >= 50 && !strcmp(section, given_section);
    if ((c.home || c.same >= STENO_LIST_ALIKE) && is_likelier(&c, best))
        *best = c;
}

/* The key that a misspelt one most likely means: one of its section before all others. */
static struct candidate similar_key(const char *section, const char *key)
{
    struct candidate best = {0};
    const struct steno_option_info *o;
    bool first;
    for (const struct row *r = rows; r < rows + ROWS; r++)
        consider(&best, r->section, r->key, section, key);
    for (size_t i = 0; (o = option_at(i, &first)); i++)
        consider(&best, MODEL, o->name, section, key);
    return best;
}

steno_status steno_config_set(struct steno_config *c, const char *section, const char *key,
                              const char *value, enum steno_config_source from, steno_err *err)
{
    const struct row *r = find_row(section, key);
    struct candidate like;
    size_t option = find_option(section, key);
    if (r)
        return set_row(c, r, value, from, err);
    if (option < STENO_CONFIG_OPTIONS)
        return set_option(c, option, value, from, err);
    for (size_t i = 0; i < REMOVED; i++)
        if (!strcmp(section, removed[i].section) && !strcmp(key, removed[i].key))
            return refuse_removed(i, err);
    if (!*section)
        return steno_fail(err, STENO_ERR_INVAL, "key '%.60s' is before the first [section]", key);
    like = similar_key(section, key);
    if (like.key)
        return steno_fail(err, STENO_ERR_INVAL, "unknown key %.60s.%.60s (%s.%s is known)", section,
                          key, like.section, like.key);
    return steno_fail(err, STENO_ERR_INVAL, "unknown key %.60s.%.60s", section, key);
}

steno_status steno_config_assign(struct steno_config *c, const char *assignment,
                                 enum steno_config_source from, steno_err *err)
{
    const char *dot = strchr(assignment, '.'), *equals = strchr(assignment, '=');
    char section[64], key[64];
    if (!dot || !equals || dot > equals || dot - assignment >= (long)sizeof section ||
        equals - dot - 1 >= (long)sizeof key)
        return steno_fail(err, STENO_ERR_INVAL, "'%.80s' is not SECTION.KEY=VALUE", assignment);
    memcpy(section, assignment, (size_t)(dot - assignment));
    section[dot - assignment] = '\0';
    memcpy(key, dot + 1, (size_t)(equals - dot - 1));
    key[equals - dot - 1] = '\0';
    return steno_config_set(c, section, key, equals + 1, from, err);
}

steno_status steno_config_init(struct steno_config *c, steno_err *err)
{
    memset(c, 0, sizeof *c);
    for (const struct row *r = rows; r < rows + ROWS; r++) {
        steno_status st = set_row(c, r, r->value, STENO_CONFIG_DEFAULT, err);
        if (st) {
            steno_config_free(c);
            return st;
        }
    }
    return STENO_OK;
}

void steno_config_free(struct steno_config *c)
{
    for (const struct row *r = rows; r < rows + ROWS; r++)
        if (r->type == STRING)
            free(*(char **)row_field(c, r));
    memset(c, 0, sizeof *c);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* inih reports line numbers only of lines that it cannot parse, so the reader counts lines. */
struct source {
    struct steno_config *conf;
    const char *name, *text;
    size_t len, at;
    int line, error_line; /* the line that was read last; the first one with an error */
    char kind;            /* first character of the line; 0: the line needs no key */
    bool given[ROWS + STENO_CONFIG_OPTIONS];
    steno_status status;
    steno_err *err;
};

static void source_fail(struct source *s, steno_status st, int line, const char *what)
{
    steno_err err;
    steno_fail(&err, st, "%s:%d: %s", s->name, line, what);
    s->error_line = s->status ? s->error_line : line;
    (void)steno_config_note_error(s->conf, &err, &s->status, s->err);
}

/* Whether reading ends here. */
static bool over(const struct source *s)
{
    return s->status && !s->conf->on_error;
}

/* inih tells only the first line that it cannot parse. It calls on_key for each line except empty
 * ones, comments and sections. */
static void end_line(struct source *s)
{
    if (s->kind && !strchr("\n\r#;", s->kind))
        source_fail(s, STENO_ERR_INVAL, s->line, "neither [section], KEY = VALUE nor comment");
    s->kind = 0;
}

/* What decides whether line [n] needs a key: 0 for a section. */
static char line_kind(const char *line, size_t n)
{
    const char *bom = "\xEF\xBB\xBF";
    size_t at = n >= 3 && !memcmp(line, bom, 3) ? 3 : 0;
    while (at < n && strchr(" \t", line[at]))
        at++;
    if (at < n && line[at] == '[' && memchr(line + at, ']', n - at))
        return 0;
    return at < n ? line[at] : 0;
}

static char *next_line(char *out, int size, void *ctx)
{
    struct source *s = ctx;
    const char *begin = s->text + s->at, *nl;
    size_t n;
    end_line(s);
    if (s->at >= s->len || over(s))
        return NULL;
    s->line++;
    nl = memchr(begin, '\n', s->len - s->at);
    n = nl ? (size_t)(nl - begin) : s->len - s->at;
    s->at += n + (nl != NULL);
    if (n + 2 > (size_t)size) {
        source_fail(s, STENO_ERR_INVAL, s->line, "the line is too long");
        return NULL;
    }
    if (memchr(begin, '\0', n)) {
        source_fail(s, STENO_ERR_INVAL, s->line, "the line holds a NUL byte");
        return NULL;
    }
    memcpy(out, begin, n);
    memcpy(out + n, "\n", 2);
    s->kind = line_kind(begin, n);
    return out;
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
    struct source *s = user;
    const struct row *r = find_row(section, key);
    size_t at = r ? (size_t)(r - rows) : ROWS + find_option(section, key);
    bool known = at < ROWS + STENO_CONFIG_OPTIONS;
    steno_err err;
    s->kind = 0;
    if (over(s))
        return 0;
    if (known && s->given[at]) {
        steno_fail(&err, STENO_ERR_INVAL, "%s.%s is given twice", section, key);
        source_fail(s, STENO_ERR_INVAL, s->line, err.msg);
        return 0;
    }
    if (steno_config_set(s->conf, section, key, value, STENO_CONFIG_FILE, &err)) {
        source_fail(s, err.code, s->line, err.msg);
        return 0;
    }
    if (known) {
        s->given[at] = true;
        s->conf->line[at] = s->line;
    }
    return 1;
}

steno_status steno_config_read_text(struct steno_config *c, const char *name, const char *text,
                                    size_t len, steno_err *err)
{
    struct source s = {.conf = c, .name = name, .text = text, .len = len, .err = err};
    int rc;
    snprintf(c->file, sizeof c->file, "%s", name);
    rc = ini_parse_stream(next_line, &s, on_key, &s);
    /* inih goes on after a line that it cannot parse, and returns the first one. Lines that
     * end_line takes for sections are left, such as "[a ;]". */
    if (rc > 0 && (!s.status || rc < s.error_line))
        source_fail(&s, STENO_ERR_INVAL, rc, "neither [section], KEY = VALUE nor comment");
    if (!s.status && rc < 0)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    return s.status;
}

/* Read the file's text. *out belongs to the caller, also on an error. */
static steno_status load_text(const char *path, char **out, size_t *n, steno_err *err)
{
    steno_status st = STENO_OK;
    FILE *f = fopen(path, "re");
    *out = NULL;
    if (!f)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    *out = malloc(MAX_FILE + 1);
    *n = *out ? fread(*out, 1, MAX_FILE + 1, f) : 0;
    if (!*out)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    else if (ferror(f))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    else if (*n > MAX_FILE)
        st = steno_fail(err, STENO_ERR_LIMIT, "%s: larger than %u bytes", path, MAX_FILE);
    fclose(f);
    return st;
}

steno_status steno_config_read_file(struct steno_config *c, const char *path, steno_err *err)
{
    steno_status st = STENO_OK;
    steno_err what;
    char *text;
    size_t n = 0;
    if (load_text(path, &text, &n, &what))
        (void)steno_config_note_error(c, &what, &st, err);
    else
        st = steno_config_read_text(c, path, text, n, err);
    free(text);
    return st;
}

/* The variable of row i, then of removed ones; NULL past the last. */
static const char *variable_at(size_t i)
{
    return i < ROWS ? rows[i].env : i < ROWS + REMOVED ? removed[i - ROWS].env : NULL;
}

steno_status steno_config_read_environment(struct steno_config *c, steno_err *err)
{
    steno_status st = STENO_OK, options;
    const char *name;
    for (size_t i = 0; (name = variable_at(i)); i++) {
        const char *value = getenv(name);
        steno_err what;
        if (!value || !(i < ROWS ? set_row(c, &rows[i], value, STENO_CONFIG_ENVIRONMENT, &what)
                                 : refuse_removed(i - ROWS, &what)))
            continue;
        steno_fail_in(&what, what.code, "environment variable %s", name);
        if (!steno_config_note_error(c, &what, &st, err))
            return st;
    }
    options = read_option_variables(c, st ? NULL : err);
    return st ? st : options;
}

bool steno_config_differs(const struct steno_config *c, const char *section, const char *key)
{
    const struct row *r = find_row(section, key);
    const void *at = field_const(c, r);
    double was = 0;
    bool yes = false;
    if (r->type == STRING)
        return strcmp(*(char *const *)at, r->value) != 0;
    if (r->type == BOOL)
        return parse_bool(r->value, &yes) && *(const bool *)at != yes;
    (void)parse_number(r->value, units_of(r->type), &was);
    return was != (r->type == INT     ? *(const int *)at
                   : r->type == BYTES ? (double)*(const size_t *)at
                                      : *(const double *)at);
}

bool steno_config_place(const struct steno_config *c, const char *text, char *out, size_t size)
{
    const struct steno_option_info *o;
    const struct row *r;
    char section[32], key[32], name[64];
    int from, n = sscanf(text, "%31[a-z].%31[a-z_]", section, key);
    size_t at, option;
    bool first;
    *out = '\0';
    if (n != 2)
        return false;
    r = find_row(section, key);
    option = find_option(section, key);
    if (!r && option == STENO_CONFIG_OPTIONS)
        return false;
    at = r ? (size_t)(r - rows) : ROWS + option;
    from = r ? c->from[at] : c->option_from[option];
    if (from == STENO_CONFIG_FILE) {
        snprintf(out, size, "%s:%d: ", c->file, c->line[at]);
    } else if (from == STENO_CONFIG_ENVIRONMENT) {
        o = r ? NULL : option_at(option, &first);
        if (o)
            option_variable(o, name, sizeof name);
        snprintf(out, size, "environment variable %s: ", r ? r->env : name);
    }
    return true;
}

steno_status steno_config_search(const struct steno_config *c, const char *family,
                                 struct steno_options *options, struct steno_stream_options *io,
                                 steno_err *err)
{
    struct steno_options defaults = c->options, list = {0};
    int beam = 0;
    steno_status st = steno_options_read_list(&list, &beam, c->search, err);
    if (st)
        return steno_fail_in(err, st, "model.search");
    steno_options_keep(&defaults, STENO_OPTION_OF_STREAM, family);
    steno_options_keep(&list, STENO_OPTION_OF_STREAM, family);
    steno_options_complete(options, &defaults);
    steno_options_complete(options, &list);
    if (!io->beam)
        io->beam = -beam;
    return STENO_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_value(const struct steno_config *c, const struct row *r, FILE *out)
{
    const void *at = field_const(c, r);
    switch (r->type) {
    case STRING:
        fputs(*(char *const *)at, out);
        break;
    case INT:
        fprintf(out, "%d", *(const int *)at);
        break;
    case BYTES:
        fprintf(out, "%zu", *(const size_t *)at);
        break;
    case SECONDS:
    case RATIO:
        fprintf(out, "%g", *(const double *)at);
        break;
    case BOOL:
        fputs(*(const bool *)at ? "yes" : "no", out);
        break;
    }
}

static const char *const source_names[] = {"default", "file", "environment", "option"};

/* The families' options follow the rows of their section. */
static bool ends_model_section(const struct row *r)
{
    return !strcmp(r->section, MODEL) && (r + 1 == rows + ROWS || strcmp(r[1].section, MODEL));
}

static void print_options(const struct steno_config *c, FILE *out)
{
    const struct steno_option_info *o;
    bool first;
    for (size_t i = 0; (o = option_at(i, &first)); i++) {
        char text[STENO_OPTION_TEXT];
        const char *value = steno_options_get(&c->options, o->name, text);
        if (first)
            fprintf(out, "%s = %s ; %s\n", o->name, value ? value : o->fallback,
                    source_names[c->option_from[i]]);
    }
}

void steno_config_print(const struct steno_config *c, FILE *out)
{
    const char *section = "";
    for (const struct row *r = rows; r < rows + ROWS; r++) {
        if (strcmp(section, r->section)) {
            fprintf(out, "%s[%s]\n", *section ? "\n" : "", r->section);
            section = r->section;
        }
        fprintf(out, "%s = ", r->key);
        print_value(c, r, out);
        fprintf(out, " ; %s\n", source_names[c->from[r - rows]]);
        if (ends_model_section(r))
            print_options(c, out);
    }
}

/* Comment lines of at most 100 columns. */
static void print_comment(const char *doc, FILE *out)
{
    while (*doc) {
        size_t n = strlen(doc), cut = n;
        if (n > 96)
            for (cut = 96; cut > 0 && doc[cut] != ' '; cut--)
                ;
        fprintf(out, "# %.*s\n", (int)cut, doc);
        doc += cut;
        while (*doc == ' ')
            doc++;
    }
}

static void print_sample_key(const char *doc, const char *env, const char *key, const char *value,
                             FILE *out)
{
    print_comment(doc, out);
    fprintf(out, "# Environment: %s\n#%s =%s%s\n", env, key, *value ? " " : "", value);
}

static bool same_option(const struct steno_option_info *a, const struct steno_option_info *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->help, b->help);
}

/* "Families a, b: help. Family c: help. " of all options of the name of row i, the first one. */
static void describe_option(size_t i, char *doc, size_t size)
{
    const struct steno_option_info *first = steno_option_at(i), *o, *p;
    size_t n = 0;
    for (; (o = steno_option_at(i)) && n < size; i++) {
        char families[256] = "";
        bool told = strcmp(o->name, first->name) != 0, many = false;
        for (size_t k = 0; !told && k < i; k++)
            told = same_option(steno_option_at(k), o);
        if (told)
            continue;
        for (size_t k = i + 1; (p = steno_option_at(k)); k++)
            if (same_option(p, o)) {
                size_t at = strlen(families);
                snprintf(families + at, sizeof families - at, ", %s", p->family);
                many = true;
            }
        if (!strcmp(o->family, "all"))
            n += (size_t)snprintf(doc + n, size - n, "All families: %s. ", o->help);
        else
            n += (size_t)snprintf(doc + n, size - n, "%s %s%s: %s. ", many ? "Families" : "Family",
                                  o->family, families, o->help);
    }
}

static void print_sample_options(FILE *out)
{
    const struct steno_option_info *o;
    bool first;
    for (size_t i = 0; (o = option_at(i, &first)); i++) {
        char env[64], doc[1024];
        size_t n;
        if (!first)
            continue;
        option_variable(o, env, sizeof env);
        describe_option(i, doc, sizeof doc);
        n = strlen(doc);
        snprintf(doc + n, sizeof doc - n, "A request may override it (%s).%s", o->name,
                 *o->fallback ? "" : " Empty: the model's own.");
        fputc('\n', out);
        print_sample_key(doc, env, o->name, o->fallback, out);
    }
}

void steno_config_print_sample(FILE *out)
{
    const char *section = "";
    fputs("# stenod configuration: every key with its default, commented out. See steno.conf(5).\n"
          "# Environment variables and options of the command line override this file.\n",
          out);
    for (const struct row *r = rows; r < rows + ROWS; r++) {
        if (strcmp(section, r->section)) {
            fprintf(out, "\n[%s]\n", r->section);
            section = r->section;
        } else {
            fputc('\n', out);
        }
        print_sample_key(r->doc, r->env, r->key, r->value, out);
        if (ends_model_section(r))
            print_sample_options(out);
    }
}

struct steno_port_settings steno_config_port(const struct steno_config *c)
{
    return (struct steno_port_settings){.listen = c->listen,
                                        .wyoming_listen = c->wyoming_listen,
                                        .cors_origins = c->cors_origins,
                                        .trusted_proxies = c->trusted_proxies,
                                        .proxy_protocol = c->proxy_protocol,
                                        .tls_required = c->tls_required,
                                        .connections = c->connections,
                                        .per_address = c->per_address,
                                        .header_timeout = c->header_timeout,
                                        .retry_after = c->retry_after};
}
