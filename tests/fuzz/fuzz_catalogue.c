/* The catalogue of models. Any bytes give a catalogue or an error; names of an accepted one can
 * leave no directory, and every file can be had from every source of packages. */
/* covers: engine/speech/store/catalogue.c */
#include <stdlib.h>
#include <string.h>

#include "speech/store/catalogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Returns how many '/' it has. */
static size_t check_path(const char *name)
{
    size_t n = 0;
    for (const char *p = name; *p; p++)
        n += *p == '/';
    if (!*name || *name == '.' || *name == '/' || strstr(name, "/.") || strstr(name, "//") ||
        name[strlen(name) - 1] == '/' || n > STENO_CATALOGUE_DEPTH ||
        strlen(name) >= 2 * STENO_CATALOGUE_NAME)
        abort();
    return n;
}

static void check_name(const char *name, size_t slashes)
{
    if (check_path(name) != slashes)
        abort();
}

static void check_source(const struct steno_catalogue_model *m,
                         const struct steno_catalogue_source *s)
{
    if (s->hub) {
        check_name(s->hub, 1);
        check_name(s->revision, 0);
        return;
    }
    for (size_t i = 0; i < s->n_packages; i++)
        check_name(s->packages[i].file.name, 0);
    for (size_t i = 0; i < m->n_files; i++) {
        size_t found = 0;
        for (size_t k = 0; k < s->n_parts; k++)
            found += !strcmp(s->parts[k].file, m->files[i].name);
        if (!found)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_catalogue *c = NULL;
    const struct steno_catalogue_model *m;
    steno_err err = {0};
    if (steno_catalogue_parse(&c, data, n, "catalogue", &err)) {
        if (!err.code || !*err.msg)
            abort();
        return 0;
    }
    for (size_t i = 0; (m = steno_catalogue_at(c, i)); i++) {
        check_name(m->name, 0);
        if (steno_catalogue_find(c, m->name) != m || m->bytes <= 0)
            abort();
        if (m->n_picks > STENO_CATALOGUE_FILES || !(m->n_picks || m->n_files))
            abort();
        for (size_t k = 0; k < m->n_files; k++)
            check_path(m->files[k].name);
        for (size_t k = 0; k < m->n_sources; k++)
            check_source(m, &m->sources[k]);
        (void)steno_catalogue_client(c, m->name);
    }
    steno_catalogue_close(c);
    return 0;
}
