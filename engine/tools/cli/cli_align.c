/* steno align: print when the words of a text are spoken in a recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/file.h"
#include "protocol/text_lines.h"
#include "speech/families/alignment.h"
#include "tools/cli/options.h"
#include "tools/cli/output.h"
#include "tools/cli/recordings.h"
#include "steno.h"

struct align_job {
    const char *model_dir, *cpu;
    struct cli_output output;
    long channel, threads;
    int format; /* index of the words of --format */
    struct steno_text_lines text;
};

static const char usage[] =
    "Usage: steno align [OPTION]... TEXT RECORDING\n"
    "Prints when the words of the file TEXT (- = stdin) are spoken in the recording: by default a\n"
    "line for each, \"start end score word\". Each line of TEXT is a segment.\n";

/* ---- the text -------------------------------------------------------------------------------- */

static steno_status read_lines(struct align_job *j, const char *name, steno_err *err)
{
    char *text = NULL;
    size_t n = 0;
    steno_status st = steno_file_read(strcmp(name, "-") ? name : "/dev/stdin", STENO_ALIGNMENT_TEXT,
                                      &text, &n, err);
    if (!st && (st = steno_text_lines_cut(&j->text, text, n, err)))
        st = steno_fail_in(err, STENO_ERR_FORMAT, "%s", name);
    free(text);
    return st;
}

/* ---- the recording --------------------------------------------------------------------------- */

static steno_status take_finals(steno_stream *s, steno_transcript *t, steno_err *err)
{
    struct steno_event ev;
    steno_status st = STENO_OK;
    while (!st && steno_stream_next(s, &ev))
        st = steno_transcript_add(t, &ev, err);
    return st;
}

static steno_status run_stream(steno_stream *s, steno_recording *r, steno_transcript *t,
                               steno_err *err)
{
    const steno_status st = recordings_push(r, s, err);
    return st ? st : take_finals(s, t, err);
}

static steno_status align_recording(struct align_job *j, steno_model *m, const char *name,
                                    steno_err *err)
{
    struct steno_stream_options so = steno_stream_options_default();
    struct steno_model_info info;
    struct steno_recording_info ri;
    steno_recording *r = NULL;
    steno_stream *s = NULL;
    steno_transcript *t = steno_transcript_new(0);
    steno_status st = t ? steno_recording_open(&r, name, (int)j->channel, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    const bool named = st != STENO_OK; /* or has no file to name */
    if (!st) {
        steno_recording_get_info(r, &ri);
        so.sample_rate = ri.sample_rate;
        st = steno_stream_open_lines(&s, m, &so, j->text.lines, j->text.n, err);
    }
    if (!st)
        st = run_stream(s, r, t, err);
    if (!st) {
        steno_transcript_set_duration(t, (double)steno_stream_samples(s) / ri.sample_rate);
        steno_model_get_info(m, &info);
        j->output.file = name;
        j->output.model = info.name;
        j->output.language = info.language;
        st = cli_output_print(&j->output, t, err);
    }
    steno_stream_close(s);
    steno_recording_close(r);
    steno_transcript_free(t);
    return st && !named ? steno_fail_in(err, st, "%s", name) : st;
}

/* Returns an exit code; an error is printed. */
static int align(struct align_job *j, const char *text, const char *recording)
{
    struct steno_model_options mo = steno_model_options_default();
    steno_model *m = NULL;
    steno_err err = {0};
    int rc = strcmp(text, "-") ? cli_readable(text) : EX_OK;
    if (rc == EX_OK)
        rc = cli_readable(recording);
    mo.threads = (int)j->threads;
    mo.cpu = j->cpu;
    mo.precision = STENO_AUTO_WEIGHTS;
    if (rc == EX_OK && read_lines(j, text, &err))
        rc = cli_fail(&err);
    if (rc == EX_OK)
        rc = cli_open_model(&m, NULL, j->model_dir, &mo);
    if (rc == EX_OK && align_recording(j, m, recording, &err))
        rc = cli_fail(&err);
    steno_model_close(m);
    steno_text_lines_free(&j->text);
    return rc;
}

int cli_align(int argc, char **argv)
{
    static const enum cli_format formats[] = {CLI_FORMAT_TEXT, CLI_FORMAT_JSON, CLI_FORMAT_WHISPERX,
                                              CLI_FORMAT_SRT,  CLI_FORMAT_VTT,  CLI_FORMAT_LRC,
                                              CLI_FORMAT_TSV};
    struct align_job j = {.threads = 1, .output = {.words = true}};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, "NAME|DIR", &j.model_dir, 0, 0,
         "a fetched model with CTC or its directory (default: $STENO_MODEL, else the first fetched "
         "model, else the one that ships)"},
        {"--format", CLI_CHOICE, "text|json|whisperx|srt|vtt|lrc|tsv", &j.format, 0, 0,
         "text: a line for each word; whisperx: whisperX's JSON"},
        {"--characters", CLI_FLAG, NULL, &j.output.characters, 0, 0,
         "json, whisperx: the times of characters too"},
        {"--channel", CLI_NUMBER, "N", &j.channel, 1, 64,
         "use channel N, counted from 1, instead of the mean of all"},
        {"--threads", CLI_NUMBER, "N", &j.threads, 1, 256, "threads of the engine (default 1)"},
        {"--cpu", CLI_TEXT, "LEVEL", &j.cpu, 0, 0, CLI_CPU_LEVELS},
        {0}};
    const char *names[2];
    int n = 0, rc = cli_parse(argc, argv, usage, options, names, 2, &n);
    if (rc)
        return rc;
    if (n < 2)
        return cli_usage("align: a text and a recording are needed");
    j.output.format = formats[j.format];
    if (j.output.format != CLI_FORMAT_JSON && j.output.format != CLI_FORMAT_WHISPERX &&
        (rc = cli_idle("align", "--characters", "is for --format json or whisperx")))
        return rc;
    return align(&j, names[0], names[1]);
}
