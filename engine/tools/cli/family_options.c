#include "tools/cli/family_options.h"

#include <stdio.h>
#include <string.h>

void cli_family_values(const struct steno_option_info *info, char *out, size_t size)
{
    if (info->kind == STENO_OPTION_NUMBER)
        snprintf(out, size, "%g..%g", info->min, info->max);
    else
        snprintf(out, size, "%s",
                 info->kind == STENO_OPTION_LIST     ? "N,N..."
                 : info->kind == STENO_OPTION_CHOICE ? info->choices
                                                     : "yes|no");
}

/* On the command line a flag that holds unless it is set takes a value. */
static bool is_switch(const struct steno_option_info *info)
{
    return info->kind == STENO_OPTION_FLAG && strcmp(info->fallback, "yes") != 0;
}

static void name_option(struct cli_family_option *o, const struct steno_option_info *info)
{
    o->info = info;
    snprintf(o->name, sizeof o->name, "--%s", info->name);
    for (char *p = o->name; *p; p++)
        if (*p == '_')
            *p = '-';
    if (info->kind != STENO_OPTION_NUMBER)
        cli_family_values(info, o->arg, sizeof o->arg);
    else
        snprintf(o->arg, sizeof o->arg, "N");
}

void cli_family_rows(struct cli_family_options *f, struct cli_option *rows)
{
    const struct steno_option_info *info;
    const char *family = "";
    for (size_t i = 0; f->n < CLI_FAMILY_OPTIONS && (info = steno_option_at(i)); i++) {
        struct cli_family_option *o = &f->v[f->n];
        bool flag = is_switch(info);
        if (steno_option_find(info->name) != info) /* an earlier family has it too */
            continue;
        if (strcmp(family, info->family)) {
            family = info->family;
            snprintf(
                f->headings[f->n], sizeof f->headings[0],
                strcmp(family, "all") ? "Models of family %s:" : "Models of %s families:", family);
            *rows++ = (struct cli_option){.name = f->headings[f->n], .kind = CLI_HEADING};
        }
        name_option(o, info);
        *rows++ = (struct cli_option){.name = o->name,
                                      .kind = flag ? CLI_FLAG : CLI_TEXT,
                                      .arg = o->arg,
                                      .to = flag ? (void *)&o->yes : (void *)&o->text,
                                      .about = info->help};
        f->n++;
    }
    *rows = (struct cli_option){0};
}

bool cli_family_check(struct cli_family_options *f)
{
    f->n_set = 0;
    for (int i = 0; i < f->n; i++) {
        struct cli_family_option *o = &f->v[i];
        const char *value = o->yes ? "yes" : o->text;
        steno_err err;
        if (!value)
            continue;
        if (steno_option_check(o->info->name, value, &err)) {
            const char *why = strstr(err.msg, ": "); /* after the name */
            (void)cli_usage("%s%s", o->name, why ? why : "");
            return false;
        }
        f->set[f->n_set++] = (struct steno_option){o->info->name, value};
    }
    return true;
}

void cli_family_give(struct cli_family_options *f, struct steno_model_options *model,
                     struct steno_stream_options *stream)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_set; i++) { /* move those of streams to the front */
        struct steno_option o = f->set[i];
        if (steno_option_find(o.name)->scope != STENO_OPTION_OF_STREAM)
            continue;
        f->set[i] = f->set[n];
        f->set[n++] = o;
    }
    if (stream) {
        stream->options = f->set;
        stream->n_options = n;
    }
    model->options = f->set;
    model->n_options = f->n_set;
}

void cli_family_print(void)
{
    const struct steno_option_info *info;
    for (size_t i = 0; (info = steno_option_at(i)); i++) {
        char values[64];
        cli_family_values(info, values, sizeof values);
        printf("%-12s %-27s %-6s %-18s %-5s %s\n", info->family, info->name,
               info->scope == STENO_OPTION_OF_MODEL ? "model" : "stream", values,
               *info->fallback ? info->fallback : "-", info->help);
    }
}
