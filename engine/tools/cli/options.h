/* Options of a command as a table. The same rows are used for parsing, for checks and for --help.
 */
#ifndef STENO_CLI_OPTIONS_H
#define STENO_CLI_OPTIONS_H

#include "tools/cli/cli.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/weights.h"

struct cli_list {
    const char **v; /* borrowed from argv; freed by cli_list_free */
    int n;
};
void cli_list_free(struct cli_list *l);

enum cli_kind {
    CLI_FLAG,    /* bool */
    CLI_TEXT,    /* const char * */
    CLI_NUMBER,  /* long, within [min, max] */
    CLI_REAL,    /* double, at least min */
    CLI_CHOICE,  /* int: index of the value in arg, "a|b|c" */
    CLI_MANY,    /* struct cli_list: every occurrence */
    CLI_HEADING, /* not an option: name is a line of its own in --help */
    /* The same, and a list of subcommands, "submit, get": the options of the rows below, up to the
     * next such row, are theirs alone. The first positional argument is the subcommand. */
    CLI_COMMANDS
};

struct cli_option {
    const char *name; /* "--runs"; NULL ends the table */
    enum cli_kind kind;
    const char *arg; /* name of the value in --help */
    void *to;
    long min, max;
    const char *about; /* one or more lines for --help */
};

#define CLI_MAX_OPTIONS 160 /* rows of a table */
/* A row, in macros of several. */
#define CLI_ROW(NAME, KIND, ARG, TO, MIN, MAX, ABOUT)                                              \
    {                                                                                              \
        NAME, KIND, ARG, TO, MIN, MAX, ABOUT                                                       \
    }
/* Parse argv. Arguments that are not options go to positional, [max], and their number to *n; one
 * more is an error that names the command, and so is an option of another subcommand. Returns
 * EX_OK; EX_USAGE after printing the error; -1 after --help printed usage and the table. */
int cli_parse(int argc, char **argv, const char *usage, const struct cli_option *options,
              const char **positional, int max, int *n);
/* Whether an option was given to the command that cli_parse has read. */
bool cli_given(const char *name);
/* EX_OK; EX_USAGE with "COMMAND: OPTION why" printed if one of the options was given that do
 * nothing here: "--a,--b". */
int cli_idle(const char *command, const char *options, const char *why);

#define CLI_PRECISIONS "fp32|bf16|int8|fp16|auto"

/* How to open and run networks. Every command that does so has these rows. */
struct cli_network {
    struct steno_network_options net;
    struct steno_session_options sess;
    long threads, opt_level;
    int precision;
};
#define CLI_NETWORK_INIT                                                                           \
    {                                                                                              \
        .net.opt_level = -1, .threads = 1, .opt_level = -1                                         \
    }
#define CLI_PASS_OPTIONS(N)                                                                        \
    CLI_ROW("--opt-level", CLI_NUMBER, "N", &(N)->opt_level, 0, 3,                                 \
            "0 (graph as it is) to 3 (all passes, the default)"),                                  \
        CLI_ROW("--disable-pass", CLI_TEXT, "LIST", &(N)->net.disable_passes, 0, 0,                \
                "comma-separated passes to leave out"),                                            \
        CLI_ROW("--only", CLI_TEXT, "LIST", &(N)->net.only_passes, 0, 0,                           \
                "comma-separated list of the only passes to run")
#define CLI_CPU_LEVELS                                                                             \
    "highest level: scalar, blas, avx2, avxvnni, avx512, vnni, bf16, amx, neon, dotprod, or "      \
    "native (all the CPU has, the default)"
#define CLI_NETWORK_OPTIONS(N)                                                                     \
    CLI_ROW("--cpu", CLI_TEXT, "LEVEL", &(N)->net.cpu, 0, 0, CLI_CPU_LEVELS),                      \
        CLI_ROW("--threads", CLI_NUMBER, "N", &(N)->threads, 1, 1024, "1 by default"),             \
        CLI_ROW("--precision", CLI_CHOICE, CLI_PRECISIONS, &(N)->precision, 0, 0, "of weights"),   \
        CLI_ROW("--cache", CLI_TEXT, "DIR", &(N)->net.cache_dir, 0, 0,                             \
                "folder for packed weights, which the next start maps"),                           \
        CLI_ROW("--free-batch", CLI_TEXT, "LIST", &(N)->net.free_batch, 0, 0,                      \
                "comma-separated inputs, exported for one stream, that take any number"),          \
        CLI_PASS_OPTIONS(N)
/* Apply the parsed rows to net and sess. rc: what cli_parse returned; returned as it is unless it
 * is EX_OK and the folder of --cache cannot be used, which is printed. */
int cli_network_resolve(struct cli_network *n, int rc);
/* Operations per second that one core reaches for the type of most products: f32, or the
 * instructions for weights of fewer bits. */
double cli_network_peak(const struct steno_precision_report *p, const steno_kernels *k);

#endif
