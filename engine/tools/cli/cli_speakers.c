/* steno speakers: who speaks when in recordings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/path.h"
#include "tools/cli/known.h"
#include "tools/cli/voices.h"
#include "protocol/rttm.h"
#include "steno.h"

#define MAX_OUTPUT ((size_t)512 << 20)

enum format { FORMAT_RTTM, FORMAT_JSON };

struct job {
    const char *dir;
    int format;
    bool live;
    long channel;
    struct cli_voice_options voices;
    struct cli_known known;
    steno_speakers *speakers;
};

static const char usage[] = "Usage: steno speakers [OPTION]... FILE...\n"
                            "Prints who speaks when in each recording.\n";

/* The recording's name in RTTM: that of the file, without what follows its last dot. */
static void recording_name(char *out, size_t size, const char *path)
{
    char *dot;
    steno_path_copy_name(out, size, path);
    dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = '\0';
}

static steno_status print(const struct job *j, const char *path, const struct steno_turn *turn,
                          size_t n, double seconds, int speakers, const char *const *names,
                          steno_err *err)
{
    char name[256];
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, MAX_OUTPUT);
    recording_name(name, sizeof name, path);
    st = j->format == FORMAT_RTTM
             ? steno_rttm_write(&b, name, turn, n, names)
             : steno_turns_json_write(&b, path, seconds, speakers, turn, n, names);
    if (!st && b.data)
        fputs(b.data, stdout);
    steno_buf_free(&b);
    return st ? steno_fail(err, STENO_ERR_LIMIT, "%s: the result is too long", path) : STENO_OK;
}

static steno_status diarize_live(const struct job *j, const char *path, steno_err *err)
{
    struct cli_live_turns t = {0};
    const char *names[STENO_LIVE_SPEAKERS];
    steno_status st = cli_voices_live(&t, j->speakers, path, (int)j->channel, (int)j->voices.max,
                                      j->known.prints, j->known.n, err);
    for (int k = 0; !st && k < STENO_LIVE_SPEAKERS; k++)
        names[k] = t.person[k] >= 0 ? j->known.names[t.person[k]] : NULL;
    if (!st)
        st = print(j, path, t.turn, t.n, t.seconds, t.speakers, names, err);
    free(t.turn);
    return st;
}

static steno_status diarize(const struct job *j, const char *path, steno_err *err)
{
    steno_diarization *d = NULL;
    steno_status st = cli_voices_of(&d, j->speakers, path, (int)j->channel, &j->voices, err);
    const char **names = NULL;
    if (!st)
        st = cli_known_names(&j->known, j->speakers, d, &names, err);
    if (!st) {
        size_t n;
        const struct steno_turn *turn = steno_diarization_turns(d, &n);
        st = print(j, path, turn, n, steno_diarization_seconds(d), steno_diarization_speakers(d),
                   names, err);
    }
    free(names);
    steno_diarization_close(d);
    return st;
}

int cli_speakers(int argc, char **argv)
{
    struct job j = {0};
    struct cli_option options[] = {
        {"--model", CLI_TEXT, "NAME|DIR", &j.dir, 0, 0,
         "directory with the networks (default: $STENO_SPEAKERS, else those that steno model "
         "fetch speakers downloads)"},
        {"--format", CLI_CHOICE, "rttm|json", &j.format, 0, 0,
         "rttm: a line per turn, the default"},
        {"--channel", CLI_NUMBER, "N", &j.channel, 1, 64,
         "use channel N, counted from 1, instead of the mean of all"},
        {"--live", CLI_FLAG, NULL, &j.live, 0, 0,
         "label them as while audio comes: one at a time, never renamed; at most 32, or --max"},
        {"--latency", CLI_REAL, "S", &j.voices.latency, 0, 0,
         "with --live and a Sortformer: 0.32, 1.04, 10 or 30.4 s (default: what its file says, "
         "else 10)"},
        CLI_KNOWN_OPTIONS(&j.known),
        CLI_VOICE_OPTIONS(&j.voices),
        {0}};
    const char **files = calloc((size_t)argc, sizeof *files);
    int n = 0, rc = files ? cli_parse(argc, argv, usage, options, files, argc, &n) : EX_OSERR;
    if (!rc && !n)
        rc = cli_usage("speakers: no recording given");
    if (!rc && j.live && (j.voices.speakers || j.voices.min || j.voices.threshold > 0))
        rc = cli_usage("speakers: --live: not together with --speakers, --min, --threshold");
    if (!rc && !j.live && j.voices.latency > 0)
        rc = cli_usage("speakers: --latency needs --live");
    if (!rc)
        rc = cli_voices_open(&j.speakers, j.dir, &j.voices);
    if (!rc)
        rc = cli_known_open(&j.known, j.speakers);
    for (int i = 0, opened = !rc; i < n && opened; i++) {
        steno_err err = {0};
        int one = cli_readable(files[i]);
        if (one == EX_OK &&
            (j.live ? diarize_live(&j, files[i], &err) : diarize(&j, files[i], &err)))
            one = cli_fail(&err);
        rc = rc ? rc : one;
    }
    cli_known_close(&j.known);
    steno_speakers_close(j.speakers);
    free(files);
    return rc;
}
