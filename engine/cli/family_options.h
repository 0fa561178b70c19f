/* Options of model families (steno.h: struct steno_option_info) as options of a command: --name,
 * with '-' for '_'. */
#ifndef STENO_CLI_FAMILY_OPTIONS_H
#define STENO_CLI_FAMILY_OPTIONS_H

#include "cli/options.h"
#include "steno.h"

#define CLI_FAMILY_OPTIONS 24
#define CLI_FAMILY_ROWS (2 * CLI_FAMILY_OPTIONS) /* headings included */

/* Zero-initialised, then rows, cli_parse, check. Strings are the table's and argv's. */
struct cli_family_options {
    int n;
    struct cli_family_option {
        const struct steno_option_info *info;
        char name[40];    /* "--ctc-weight" */
        char arg[40];     /* what --help calls the value */
        const char *text; /* given; NULL = not */
        bool yes;         /* of a flag */
    } v[CLI_FAMILY_OPTIONS];
    char headings[CLI_FAMILY_OPTIONS][64];
    size_t n_set;
    struct steno_option set[CLI_FAMILY_OPTIONS];
};

/* Append rows for cli_parse, [CLI_FAMILY_ROWS] at most and one that ends them, with a heading for
 * each family. */
void cli_family_rows(struct cli_family_options *f, struct cli_option *rows);
/* After parsing. False when a value is wrong, which is printed. */
bool cli_family_check(struct cli_family_options *f);
/* What was given: all of it to the model, for which those of streams are its streams' defaults, and
 * to a stream those of streams (stream NULL: there is none). */
void cli_family_give(struct cli_family_options *f, struct steno_model_options *model,
                     struct steno_stream_options *stream);
/* The values an option takes: "0..1", "one|other", "yes|no". */
void cli_family_values(const struct steno_option_info *info, char *out, size_t size);
/* The whole table, a line for each option. */
void cli_family_print(void);

#endif
