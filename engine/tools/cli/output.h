/* How commands print a transcript. */
#ifndef STENO_CLI_OUTPUT_H
#define STENO_CLI_OUTPUT_H

#include "protocol/subtitle.h"
#include "protocol/transcript.h"

enum cli_format {
    CLI_FORMAT_TEXT,
    CLI_FORMAT_JSON,
    CLI_FORMAT_NBEST,
    CLI_FORMAT_SRT,
    CLI_FORMAT_VTT,
    CLI_FORMAT_LRC,
    CLI_FORMAT_TSV,
    CLI_FORMAT_WHISPER,
    CLI_FORMAT_WHISPERX
};

#define CLI_MAX_OUTPUT ((size_t)512 << 20) /* bytes of a result */

struct cli_output {
    enum cli_format format; /* but CLI_FORMAT_NBEST */
    bool words, speakers;   /* text: a line for each word; with speakers */
    bool characters;        /* json, whisperx: of a text's lines, the times of characters too */
    struct steno_subtitle_options subtitle;
    const char *file, *model, *language; /* language: where the transcript has none */
};

/* Print a transcript on standard output. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status cli_output_print(const struct cli_output *o, steno_transcript *t,
                                         steno_err *err);

#endif
