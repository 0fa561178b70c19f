/* steno itn: spoken lines to written lines, by grammars. steno punctuate: marks and capitals for
 * lines that have neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/arena.h"
#include "base/path.h"
#include "speech/itn/itn.h"
#include "speech/punctuation/punctuation.h"
#include "speech/recognizer/written.h"
#include "speech/store/places.h"
#include "tools/cli/options.h"

static const char itn_usage[] =
    "Usage: steno itn [OPTION]... DIR < SPOKEN > WRITTEN\n"
    "Writes each line of text as the grammar in DIR does: \"two dollars\" becomes \"$2\".\n"
    "A line that the grammar cannot read stays as it is.\n";

static const char punctuate_usage[] =
    "Usage: steno punctuate [--model NAME|DIR] < TEXT > TEXT\n"
    "Writes each line of text with marks and capitals: \"how are you\" becomes \"How are you?\".\n";

/* What writes a line. *out: until the next call. */
typedef steno_status write_line(void *arg, const char *line, const char **out, steno_err *err);

static int write_lines(write_line *write, void *arg)
{
    steno_err err = {0};
    steno_status st = STENO_OK;
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    for (size_t i = 1; !st && (n = getline(&line, &size, stdin)) > 0; i++) {
        const char *out;
        n -= line[n - 1] == '\n';
        line[n] = '\0';
        st = strlen(line) < (size_t)n ? steno_fail(&err, STENO_ERR_FORMAT, "it has a zero byte")
                                      : write(arg, line, &out, &err);
        if (st)
            (void)steno_fail_in(&err, st, "line %zu", i);
        else if (puts(out) == EOF || !cli_flush())
            break; /* main says it */
    }
    free(line);
    return st ? cli_fail(&err) : EX_OK;
}

/* ---- steno itn ------------------------------------------------------------------------------- */

struct itn {
    steno_itn *grammar;
    steno_itn_writer *writer;
    bool shielded;      /* it is one of English, with --auto */
    steno_arena *arena; /* with --auto: of the line */
};

static steno_status write_spoken(void *arg, const char *line, const char **out, steno_err *err)
{
    const struct itn *x = arg;
    struct steno_itn_text t;
    const steno_status st = steno_itn_write(x->writer, x->grammar, line, &t, err);
    if (!st)
        *out = t.text;
    return st;
}

/* The words of a line, without times. NULL: out of memory. */
static struct steno_word *words_of_line(const char *line, steno_arena *arena, size_t *n)
{
    struct steno_word *w = steno_arena_calloc(arena, strlen(line) / 2 + 1, sizeof *w);
    char *copy = steno_arena_strndup(arena, line, strlen(line)), *rest = copy;
    *n = 0;
    for (char *p; w && copy && (p = strtok_r(rest, " \t", &rest));)
        w[(*n)++] = (struct steno_word){.text = p, .confidence = 1};
    return copy ? w : NULL;
}

/* As finals are with itn=auto. */
static steno_status write_as_final(void *arg, const char *line, const char **out, steno_err *err)
{
    struct itn *x = arg;
    struct steno_alternative a = {.text = line};
    const struct steno_written_by by = {
        .grammar = x->grammar, .itn = x->writer, .shielded = x->shielded};
    steno_status st;
    *out = line;
    if (!steno_written_is_spoken(line))
        return STENO_OK;
    a.words = steno_arena_renew(&x->arena) ? words_of_line(line, x->arena, &a.n_words) : NULL;
    if (!a.words)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = steno_written_apply(&a, &by, x->arena);
    *out = a.text;
    return st ? steno_fail(err, st, "the line is too long") : STENO_OK;
}

/* Whether a grammar is one of English: that is asked for, or fetched. */
static bool is_english(const char *dir, const char *language)
{
    char name[STENO_PLACE_MAX];
    if (language)
        return !strncmp(language, "en", 2);
    steno_path_copy_name(name, sizeof name, dir);
    return !strcmp(name, "itn-en");
}

int cli_itn(int argc, char **argv)
{
    const char *dir = NULL, *language = NULL;
    bool automatic = false;
    const struct cli_option options[] = {
        {"--language", CLI_TEXT, "L", &language, 0, 0,
         "which grammar of DIR, such as en, if there are several"},
        {"--auto", CLI_FLAG, NULL, &automatic, 0, 0,
         "as itn=auto: lines with digits, marks or capitals stay as they are, and so do English "
         "words that are rarely meant as numbers (--language en, or DIR is itn-en)"},
        {0}};
    struct itn x = {0};
    steno_err err = {0};
    int n = 0, rc = cli_parse(argc, argv, itn_usage, options, &dir, 1, &n);
    if (!rc && !n)
        rc = cli_usage("itn: the directory of a grammar is missing");
    if (!rc)
        rc = cli_readable(dir);
    if (!rc && steno_itn_open(&x.grammar, dir, language, &err))
        rc = cli_fail(&err);
    if (!rc && !(x.writer = steno_itn_writer_new())) {
        (void)steno_fail(&err, STENO_ERR_NOMEM, "itn: out of memory");
        rc = cli_fail(&err);
    }
    if (!rc) {
        x.shielded = automatic && is_english(dir, language);
        rc = write_lines(automatic ? write_as_final : write_spoken, &x);
    }
    steno_arena_free(x.arena);
    steno_itn_writer_free(x.writer);
    steno_itn_close(x.grammar);
    return rc;
}

/* ---- steno punctuate ------------------------------------------------------------------------- */

static steno_status write_punctuated(void *arg, const char *line, const char **out, steno_err *err)
{
    return steno_punctuation_write(arg, line, out, err);
}

/* The directory of a name or path; NULL: the first fetched one. */
static steno_status find_punctuator(char out[STENO_PLACE_MAX], const char *given, steno_err *err)
{
    if (given && (steno_path_is_dir(given) || !steno_place_fetched(out, given)))
        snprintf(out, STENO_PLACE_MAX, "%s", given);
    else if (!given && !steno_place_fetched(out, "punctuation-en") &&
             !steno_place_fetched(out, "punctuation-zh"))
        return steno_fail(err, STENO_ERR_IO,
                          "punctuate: there is no network on this machine; `steno model fetch "
                          "punctuation-en` or --model DIR");
    return STENO_OK;
}

int cli_punctuate(int argc, char **argv)
{
    const char *model = NULL;
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, "NAME|DIR", &model, 0, 0,
         "the network (default: punctuation-en, else punctuation-zh, of steno model fetch)"},
        {0}};
    char dir[STENO_PLACE_MAX];
    steno_punctuator *p = NULL;
    steno_punctuation_writer *w = NULL;
    steno_err err = {0};
    int n = 0, rc = cli_parse(argc, argv, punctuate_usage, options, NULL, 0, &n);
    if (!rc)
        rc = find_punctuator(dir, model, &err) ? cli_fail(&err) : cli_readable(dir);
    if (!rc && (steno_punctuator_open(&p, dir, &err) || steno_punctuation_writer_open(&w, p, &err)))
        rc = cli_fail(&err);
    if (!rc)
        rc = write_lines(write_punctuated, w);
    steno_punctuation_writer_close(w);
    steno_punctuator_close(p);
    return rc;
}
