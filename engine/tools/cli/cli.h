/* The `steno` command: one file per subcommand. Each gets its own arguments, with its name in
 * argv[0], and returns an exit code of sysexits.h; -1 after --help, which is a success. */
#ifndef STENO_CLI_CLI_H
#define STENO_CLI_CLI_H

#include "base/status.h"
#include "nn/network/network.h"
#include "steno.h"

struct cli_command {
    const char *name, *args, *about;
    int (*run)(int argc, char **argv);
};

int cli_transcribe(int argc, char **argv);
int cli_align(int argc, char **argv);
int cli_optimize(int argc, char **argv);
int cli_convert(int argc, char **argv);
int cli_profile(int argc, char **argv);
int cli_graph(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_model(int argc, char **argv);
int cli_calibrate(int argc, char **argv);
int cli_features(int argc, char **argv);
int cli_speakers(int argc, char **argv);
int cli_speaker(int argc, char **argv);
int cli_turn(int argc, char **argv);
int cli_itn(int argc, char **argv);
int cli_punctuate(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_jobs(int argc, char **argv);

/* Print "steno: message" on standard error. Returns the exit code of err. */
int cli_fail(const steno_err *err);
/* Check that path can be opened for reading: EX_OK, or EX_NOINPUT with the reason printed. */
int cli_readable(const char *path);
/* The same of each path: [n]. */
int cli_all_readable(const char *const *path, int n);
/* Open the model of --model NAME|DIR, or of another option that takes one (option; NULL: --model),
 * with which errors begin. Returns an exit code; an error is printed. */
int cli_open_model(steno_model **out, const char *option, const char *name,
                   const struct steno_model_options *o);
/* Write what waits for standard output. False: it cannot be written, which main says at the end. */
bool cli_flush(void);
/* Whether the name is that of a network: NAME.onnx. */
bool cli_is_onnx(const char *name);
/* Print "steno: ..." and the hint to --help. Returns EX_USAGE. */
int cli_usage(const char *fmt, ...) STENO_PRINTF(1, 2);

/* Keep the name that one which is not known most likely means. *alike: percent, of *best. */
void cli_note_similar(const char *known, const char *given, const char **best, size_t *alike);

/* Parse a whole number within [min, max]; prints what is wrong. */
bool cli_int(const char *option, const char *s, long min, long max, long *out);
#endif
