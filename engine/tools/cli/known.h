/* People whose voices are known: those of --known, and those that steno speaker enrolled. */
#ifndef STENO_CLI_KNOWN_H
#define STENO_CLI_KNOWN_H

#include "tools/cli/options.h"
#include "steno.h"

/* Zeros: only those who are enrolled at the usual place. */
struct cli_known {
    struct cli_list given;    /* "NAME=FILE" */
    const char *enrolled_dir; /* NULL: the usual place; "none": nobody */
    size_t n;
    float *prints; /* [n, steno_speaker_print_floats] */
    char **names;  /* [n] */
};
#define CLI_KNOWN_OPTIONS(K)                                                                       \
    CLI_ROW("--known", CLI_MANY, "NAME=FILE", &(K)->given, 0, 0,                                   \
            "the speaker with the voice of FILE is called NAME; for each one"),                    \
        CLI_ROW("--enrolled", CLI_TEXT, "DIR|none", &(K)->enrolled_dir, 0, 0,                      \
                "people that steno speaker enrolled in DIR; none: nobody")

/* Make the print of a recording, of its first minute: out [floats]; *seconds of clear speech.
 * Errors name it. */
STENO_MUST steno_status cli_print_make(const steno_speakers *s, const char *path, float *out,
                                       double *seconds, steno_err *err);
/* Read and make the prints. Returns an exit code; an error (not "NAME=FILE", too little speech, no
 * such place) is printed. */
int cli_known_open(struct cli_known *k, const steno_speakers *s);
/* The names of the speakers of a diarization that has ended: *out [speakers], NULL for those that
 * are not known; the caller frees it. */
STENO_MUST steno_status cli_known_names(const struct cli_known *k, const steno_speakers *s,
                                        const steno_diarization *d, const char ***out,
                                        steno_err *err);
void cli_known_close(struct cli_known *k);

#endif
