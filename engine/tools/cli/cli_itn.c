/* steno itn: spoken lines to written lines, by grammars. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "speech/itn/itn.h"
#include "tools/cli/options.h"

static const char usage[] =
    "Usage: steno itn [--language L] DIR < SPOKEN > WRITTEN\n"
    "Writes each line of text as the grammar in DIR does: \"two dollars\" becomes \"$2\".\n"
    "A line that the grammar cannot read stays as it is.\n";

/* Write one line. */
static steno_status write_line(steno_itn_writer *w, const steno_itn *g, const char *line,
                               steno_err *err)
{
    struct steno_itn_text t;
    steno_status st = steno_itn_write(w, g, line, &t, err);
    if (!st && (puts(t.text) == EOF || fflush(stdout)))
        st = steno_fail(err, STENO_ERR_IO, "cannot write the output");
    return st;
}

static int write_lines(const steno_itn *g)
{
    steno_itn_writer *w = steno_itn_writer_new();
    steno_err err = {0};
    steno_status st = w ? STENO_OK : steno_fail(&err, STENO_ERR_NOMEM, "itn: out of memory");
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    for (size_t i = 1; !st && (n = getline(&line, &size, stdin)) > 0; i++) {
        line[n - (line[n - 1] == '\n')] = '\0';
        st = write_line(w, g, line, &err);
        if (st)
            (void)steno_fail_in(&err, st, "line %zu", i);
    }
    free(line);
    steno_itn_writer_free(w);
    return st ? cli_fail(&err) : EX_OK;
}

int cli_itn(int argc, char **argv)
{
    const char *dir = NULL, *language = NULL;
    const struct cli_option options[] = {{"--language", CLI_TEXT, "L", &language, 0, 0,
                                          "which grammar of DIR, such as en, if there are several"},
                                         {0}};
    steno_itn *g = NULL;
    steno_err err = {0};
    int n = 0, rc = cli_parse(argc, argv, usage, options, &dir, 1, &n);
    if (!rc && !n)
        rc = cli_usage("itn: the directory of a grammar is missing");
    if (!rc && steno_itn_open(&g, dir, language, &err))
        rc = cli_fail(&err);
    if (!rc)
        rc = write_lines(g);
    steno_itn_close(g);
    return rc < 0 ? EX_OK : rc;
}
