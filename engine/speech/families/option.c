#include "speech/families/option.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

const char *steno_option_value(const struct steno_option *options, size_t n, const char *name)
{
    for (size_t i = n; i > 0; i--)
        if (!strcmp(options[i - 1].name, name))
            return options[i - 1].value;
    return NULL;
}

bool steno_option_read_flag(const char *value, bool *out)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        bool is_yes = !strcmp(value, yes[i]);
        if (!is_yes && strcmp(value, no[i]))
            continue;
        *out = is_yes;
        return true;
    }
    return false;
}

bool steno_option_read_number(const char *value, double *out)
{
    char *end;
    double v = strtod(value, &end);
    if (end == value || *end || !isfinite(v) || strpbrk(value, "xX \t\n"))
        return false;
    *out = v;
    return true;
}

bool steno_option_next(const char **at, long *out)
{
    const struct steno_list_item it = steno_list_next(*at);
    char *end;
    long v;
    *at = it.p;
    if (!it.n)
        return false;
    errno = 0;
    v = strtol(it.p, &end, 10);
    if (errno || end != it.p + it.n)
        return false;
    *out = v;
    *at = end;
    return true;
}

bool steno_option_is_choice(const char *value, const char *choices)
{
    size_t n = strlen(value);
    for (const char *p = choices; n && *p;) {
        size_t k = strcspn(p, "|");
        if (k == n && !memcmp(p, value, n))
            return true;
        p += k + (p[k] == '|');
    }
    return false;
}

bool steno_option_get_flag(const struct steno_option *options, size_t n, const char *name, bool *io)
{
    const char *v = steno_option_value(options, n, name);
    return v && steno_option_read_flag(v, io);
}

bool steno_option_get_number(const struct steno_option *options, size_t n, const char *name,
                             double *io)
{
    const char *v = steno_option_value(options, n, name);
    return v && steno_option_read_number(v, io);
}
