/* steno: dispatches to the subcommands. */
#include "tools/cli/cli.h"

#include "base/list.h"
#include "base/map.h"
#include "base/pages.h"
#include "base/path.h"
#include "nn/passes/passes.h"
#include "nn/rare_ops/rare_ops.h"
#include "steno.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const struct cli_command commands[] = {
    {"transcribe", "[OPTION]... FILE...|-", "print the text of recordings", cli_transcribe},
    {"align", "[OPTION]... TEXT RECORDING", "print when the words of a text are spoken", cli_align},
    {"optimize", "IN.onnx|MODELDIR -o OUT [OPTION]...", "rewrite a network into fewer nodes",
     cli_optimize},
    {"convert", "CHECKPOINT|ZIP|DIR -o OUT|--name NAME",
     "write a model directory from a training checkpoint", cli_convert},
    {"run", "MODEL.onnx [--input NAME=FILE.npy]... --output-dir DIR", "run a network on arrays",
     cli_run},
    {"bench", "MODEL.onnx [--shape NAME=AxBxC]...", "time a network", cli_bench},
    {"profile", "MODEL.onnx [--shape NAME=AxBxC]...", "show where the time of a network goes",
     cli_profile},
    {"verify", "A.onnx [B.onnx] | --model DIR... --audio FILE...",
     "compare two networks or two models", cli_verify},
    {"graph", "MODEL.onnx [--text|--dot]", "print the nodes of a network", cli_graph},
    {"model", "info FILE.onnx|DIR | fetch NAME | list | remove NAME | calibrate NAME LIST",
     "describe a model, or fetch one", cli_model},
    {"features", "[OPTION]... --output OUT.npy FILE|-", "write the log-mel features of a recording",
     cli_features},
    {"speakers", "[OPTION]... FILE...", "print who speaks when in recordings", cli_speakers},
    {"speaker", "enroll NAME FILE... | list | delete NAME", "keep voices to name speakers by",
     cli_speaker},
    {"turn", "[OPTION]... FILE...", "tell whether the speaker of a recording has finished",
     cli_turn},
    {"itn", "[--language L] DIR < SPOKEN > WRITTEN", "write numbers and dates of spoken lines",
     cli_itn},
    {"punctuate", "[--model NAME|DIR] < TEXT > TEXT", "write marks and capitals of lines",
     cli_punctuate},
    {"top", "[OPTION]...", "show the state of a running server", cli_top},
    {"jobs", "submit FILE|DIR|URL... | watch [ID]... | get ID | list | remove ID...",
     "have a server transcribe recordings later", cli_jobs},
};

int cli_fail(const steno_err *err)
{
    fprintf(stderr, "steno: %s\n", err->msg);
    return steno_status_info(err->code)->exit_code;
}

int cli_readable(const char *path)
{
    if (!access(path, R_OK))
        return EX_OK;
    fprintf(stderr, "steno: %s: %s\n", path, strerror(errno));
    return EX_NOINPUT;
}

int cli_all_readable(const char *const *path, int n)
{
    int rc = EX_OK;
    for (int i = 0; i < n && rc == EX_OK; i++)
        rc = cli_readable(path[i]);
    return rc;
}

int cli_open_model(steno_model **out, const char *option, const char *name,
                   const struct steno_model_options *o)
{
    steno_err err = {0};
    char *dir = NULL;
    int rc = EX_OK;
    steno_status st = steno_model_find(&dir, name, &err);
    if (!st && name && *name)
        rc = cli_readable(dir);
    if (!st && rc == EX_OK)
        st = steno_model_open(out, dir, o, &err);
    steno_free(dir);
    if (st && option)
        (void)steno_fail_in(&err, st, "%s", option);
    return st ? cli_fail(&err) : rc;
}

/* errno of the first output that could not be written. */
static int why_lost;

bool cli_flush(void)
{
    errno = 0;
    if (fflush(stdout) && !why_lost)
        why_lost = errno;
    return !ferror(stdout);
}

bool cli_is_onnx(const char *name)
{
    return steno_path_ends(name, ".onnx");
}

int cli_usage(const char *fmt, ...)
{
    va_list ap;
    fputs("steno: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(" (see steno --help)\n", stderr);
    return EX_USAGE;
}

void cli_note_similar(const char *known, const char *given, const char **best, size_t *alike)
{
    const size_t n = steno_list_likeness_percent(known, given);
    if (n < STENO_LIST_ALIKE || n <= *alike)
        return;
    *best = known;
    *alike = n;
}

bool cli_int(const char *option, const char *s, long min, long max, long *out)
{
    char *end;
    long v;
    errno = 0;
    v = strtol(s, &end, 10);
    if (errno || end == s || *end || v < min || v > max) {
        (void)cli_usage("%s: '%s' is not a whole number from %ld to %ld", option, s, min, max);
        return false;
    }
    *out = v;
    return true;
}

static int help(void)
{
    puts("steno: speech recognition on one CPU, from the command line\n\nUsage:");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        printf("  steno %-10s %s\n      %s\n", commands[i].name, commands[i].args,
               commands[i].about);
    puts("\nsteno COMMAND --help lists the options of a command; steno --version prints the "
         "version.");
    return EX_OK;
}

/* Print the names of the commands, for shell completion. */
static int names(void)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        puts(commands[i].name);
    return EX_OK;
}

static int passes(void)
{
    for (int i = 0; steno_passes[i].name; i++)
        puts(steno_passes[i].name);
    return EX_OK;
}

/* Run a command; argv[0] is its name. */
static int run_command(int argc, char **argv)
{
    const char *best = NULL;
    size_t alike = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (!strcmp(argv[0], commands[i].name))
            return commands[i].run(argc, argv);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        cli_note_similar(commands[i].name, argv[0], &best, &alike);
    return cli_usage(best ? "unknown command '%s' (%s is known)" : "unknown command '%s'", argv[0],
                     best);
}

/* "steno help COMMAND [SUBCOMMAND]" is "steno COMMAND [SUBCOMMAND] --help". */
static int help_of(char *command, char *sub)
{
    char option[] = "--help", *argv[] = {command, sub ? sub : option, sub ? option : NULL, NULL};
    return run_command(sub ? 3 : 2, argv);
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return cli_usage("no command given");
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("steno %s\n", steno_version());
        return EX_OK;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return argc > 2 && !strcmp(argv[2], "--names")    ? names()
               : argc > 2 && !strcmp(argv[2], "--passes") ? passes()
               : argc > 2 && argv[2][0] != '-'            ? help_of(argv[2], argv[3])
                                                          : help();
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int rc;
    steno_pages_for_large();
    steno_map_guard();
    steno_rare_ops_add();
    rc = run(argc, argv);
    if (cli_flush())
        return rc < 0 ? EX_OK : rc;
    fprintf(stderr, "steno: standard output: %s\n",
            why_lost ? strerror(why_lost) : "cannot be written");
    return EX_IOERR;
}
