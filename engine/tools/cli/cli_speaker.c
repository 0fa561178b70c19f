/* steno speaker: people whose voices are known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "base/path.h"
#include "speech/speakers/cluster.h"
#include "speech/store/places.h"
#include "tools/cli/known.h"
#include "tools/cli/voices.h"

static const char usage[] =
    "Usage: steno speaker enroll NAME FILE... | list | delete NAME\n"
    "Keeps voice prints, by which steno speakers, steno transcribe --speakers and a server name\n"
    "speakers. A voice print is personal data: ask whose it is.\n";

struct work {
    const char *dir;
    const char *place; /* where voice prints are kept */
    bool usual;        /* the user named no place */
    const char **arg;  /* what follows the verb: [n] */
    int n;
};

/* The mean of the recordings' prints, each as its speech is long. */
static steno_status print_of_all(const steno_speakers *s, const struct work *w, float *one,
                                 float *mean, double *all, steno_err *err)
{
    const size_t floats = steno_speaker_print_floats(s);
    steno_status st = STENO_OK;
    for (int i = 1; !st && i < w->n; i++) {
        double seconds;
        st = cli_print_make(s, w->arg[i], one, &seconds, err);
        if (st)
            break;
        for (size_t k = 0; k < floats; k++)
            mean[k] += (float)seconds * one[k];
        *all += seconds;
    }
    steno_cluster_unit(mean, 1, floats);
    return st;
}

/* Make what is above the usual place: other users may read it, since models lie there too. */
static steno_status make_above(const struct work *w, steno_err *err)
{
    char above[STENO_PLACE_MAX];
    if (!w->usual)
        return STENO_OK;
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(w->place, '/') - w->place), w->place);
    return steno_path_make_dirs(above, 0755, err);
}

static steno_status enroll_with(const steno_speakers *s, const struct work *w, steno_err *err)
{
    const size_t floats = steno_speaker_print_floats(s);
    float *prints = calloc(2 * floats, sizeof *prints);
    double seconds = 0;
    steno_status st = prints ? print_of_all(s, w, prints, prints + floats, &seconds, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = make_above(w, err);
    if (!st)
        st = steno_enroll(w->place, w->arg[0], s, prints + floats, seconds, err);
    if (!st)
        printf("%s\t%.1f s of clear speech\n", w->arg[0], seconds);
    free(prints);
    return st;
}

static int enroll(const struct work *w)
{
    steno_speakers *s = NULL;
    steno_err err = {0};
    int rc = w->n >= 2 ? cli_all_readable(w->arg + 1, w->n - 1)
                       : cli_usage("speaker enroll: a name and recordings are needed");
    if (rc == EX_OK)
        rc = cli_voices_open(&s, w->dir, &(struct cli_voice_options){0});
    if (rc == EX_OK && enroll_with(s, w, &err))
        rc = cli_fail(&err);
    steno_speakers_close(s);
    return rc;
}

static int list(const struct work *w)
{
    struct steno_enrolled_speaker who;
    steno_enrolled *e;
    steno_speakers *s = NULL;
    char *found = NULL;
    steno_err err = {0};
    int rc = w->n ? cli_usage("speaker list: takes no name") : EX_OK;
    if (rc == EX_OK && !w->usual)
        rc = cli_readable(w->place);
    if (rc == EX_OK && w->dir)
        rc = cli_voices_open(&s, w->dir, &(struct cli_voice_options){0});
    if (rc != EX_OK)
        return rc;
    /* without networks nobody knows whose print is of use */
    if (!s && !steno_speakers_find(&found, NULL, NULL))
        (void)!steno_speakers_open(&s, found, 1, NULL);
    steno_free(found);
    if (steno_enrolled_open(&e, w->place, s, &err)) {
        steno_speakers_close(s);
        return cli_fail(&err);
    }
    for (size_t i = 0; steno_enrolled_at(e, i, &who); i++) {
        const time_t since = (time_t)who.since;
        struct tm tm;
        char day[16] = "";
        if (gmtime_r(&since, &tm))
            (void)!strftime(day, sizeof day, "%Y-%m-%d", &tm);
        printf("%s\t%.1f s\t%s%s\n", who.name, who.seconds, day,
               !s || who.known ? "" : "\tof another network, or damaged: enroll again");
    }
    steno_enrolled_close(e);
    steno_speakers_close(s);
    return EX_OK;
}

static int delete_one(const struct work *w)
{
    steno_err err = {0};
    if (w->n != 1)
        return cli_usage("speaker delete: one name is needed");
    return steno_enrolled_delete(w->place, w->arg[0], &err) ? cli_fail(&err) : EX_OK;
}

int cli_speaker(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct work *w);
    } verbs[] = {{"enroll", enroll}, {"list", list}, {"delete", delete_one}};
    char usual[STENO_PLACE_MAX];
    struct work w = {0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, "NAME|DIR", &w.dir, 0, 0,
         "directory with the networks of steno speakers"},
        {"--enrolled", CLI_TEXT, "DIR", &w.place, 0, 0,
         "where voice prints are kept (default: voices in the user's directory of data)"},
        {0}};
    const char **args = calloc((size_t)argc, sizeof *args);
    int n = 0, rc = args ? cli_parse(argc, argv, usage, options, args, argc, &n) : EX_OSERR;
    if (!rc && !n)
        rc = cli_usage("speaker: enroll, list or delete is missing");
    w.usual = !w.place;
    if (!rc && w.usual && !steno_place_voices(usual))
        rc = cli_usage("speaker: --enrolled is needed, for $HOME is not set");
    w.place = w.usual ? usual : w.place;
    w.arg = args ? args + 1 : NULL;
    w.n = n - 1;
    if (!rc) {
        size_t i = 0;
        while (i < sizeof verbs / sizeof *verbs && strcmp(args[0], verbs[i].name) != 0)
            i++;
        rc = i < sizeof verbs / sizeof *verbs
                 ? verbs[i].run(&w)
                 : cli_usage("speaker: '%.40s' is not one of enroll, list, delete", args[0]);
    }
    free(args);
    return rc;
}
