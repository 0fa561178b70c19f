/* Options of model families (steno.h: struct steno_option_info) as options of a command: --name,
 * with '-' for '_'. */
#ifndef STENO_CLI_FAMILY_OPTIONS_H
#define STENO_CLI_FAMILY_OPTIONS_H

#include "tools/cli/options.h"
#include "steno.h"

#define CLI_FAMILY_OPTIONS 48
#define CLI_FAMILY_ROWS (2 * CLI_FAMILY_OPTIONS) /* headings included */

/* Zero-initialise, then call cli_family_rows, cli_parse and cli_family_check. Strings belong to the
 * table and to argv. */
struct cli_family_options {
    int n;
    struct cli_family_option {
        const struct steno_option_info *info;
        char name[40];    /* "--ctc-weight" */
        char arg[40];     /* name of the value in --help */
        const char *text; /* the given value; NULL = none */
        bool yes;         /* value of a flag */
    } v[CLI_FAMILY_OPTIONS];
    char headings[CLI_FAMILY_OPTIONS][64];
    size_t n_set;
    struct steno_option set[CLI_FAMILY_OPTIONS];
};

/* Append rows for cli_parse, at most [CLI_FAMILY_ROWS] and a terminating one, with a heading for
 * each family. */
void cli_family_rows(struct cli_family_options *f, struct cli_option *rows);
/* Check the values after parsing. False when a value is wrong, which is printed. */
bool cli_family_check(struct cli_family_options *f);
/* Give all set options to the model, where those of streams are defaults, and those of streams to
 * the stream as well (stream NULL: no stream). */
void cli_family_give(struct cli_family_options *f, struct steno_model_options *model,
                     struct steno_stream_options *stream);
/* Write the values that an option takes: "0..1", "one|other", "yes|no". */
void cli_family_values(const struct steno_option_info *info, char *out, size_t size);
/* Print the whole table, one line per option. */
void cli_family_print(void);

#endif
