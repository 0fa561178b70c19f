/* steno turn: how likely the speaker at the end of a recording has finished. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "speech/turn/detector.h"
#include "speech/turn/recent.h"
#include "steno.h"
#include "tools/cli/options.h"
#include "tools/cli/recordings.h"

struct job {
    const char *model;
    long channel;
    steno_turn_detector *detector;
    steno_turn_judge *judge;
};

static const char usage[] =
    "Usage: steno turn [OPTION]... FILE...\n"
    "Prints for each recording how likely its speaker has finished at its end: 0 to 1, and the\n"
    "file's name. Of a long one the last 8 s count.\n";

static int open_judge(struct job *j)
{
    char *found = NULL;
    steno_err err = {0};
    steno_status st = steno_turn_detector_find(&found, j->model, &err);
    int rc = st ? EX_OK : cli_readable(found);
    if (!st && rc == EX_OK)
        st = steno_turn_detector_open(&j->detector, found, &err);
    if (!st && rc == EX_OK)
        st = steno_turn_judge_open(&j->judge, j->detector, &err);
    steno_free(found);
    return st ? cli_fail(&err) : rc;
}

static steno_status push_turn(void *recent, const float *pcm, size_t n, steno_err *err)
{
    return steno_turn_recent_push(recent, pcm, n, err);
}

static steno_status listen_for_turn(steno_turn_recent *recent, steno_recording *r, steno_err *err)
{
    const steno_status st = recordings_push_into(r, push_turn, recent, err);
    return st ? st : steno_turn_recent_end(recent, err);
}

static steno_status judge_recording(const struct job *j, steno_recording *r, float *probability,
                                    steno_err *err)
{
    struct steno_recording_info info;
    struct steno_turn_audio turn;
    steno_turn_recent *recent = NULL;
    steno_status st;
    steno_recording_get_info(r, &info);
    st = steno_turn_recent_open(&recent, info.sample_rate, err);
    if (!st)
        st = listen_for_turn(recent, r, err);
    if (!st) {
        turn.pcm = steno_turn_recent_samples(recent, &turn.n);
        st = steno_turn_judge_run(j->judge, &turn, 1, probability, err);
    }
    steno_turn_recent_close(recent);
    return st;
}

static int print(const struct job *j, const char *path)
{
    steno_recording *r = NULL;
    steno_err err = {0};
    float probability;
    steno_status st;
    const int rc = cli_readable(path);
    if (rc != EX_OK)
        return rc;
    st = steno_recording_open(&r, path, (int)j->channel, &err); /* names the path */
    if (!st) {
        st = judge_recording(j, r, &probability, &err);
        if (st)
            st = steno_fail_in(&err, st, "%s", path);
    }
    steno_recording_close(r);
    if (st)
        return cli_fail(&err);
    printf("%.4f  %s\n", (double)probability, path);
    return EX_OK;
}

int cli_turn(int argc, char **argv)
{
    struct job j = {0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, "NAME|DIR|FILE", &j.model, 0, 0,
         "the network, or its directory (default: $STENO_TURN, else the one that\n"
         "steno model fetch smart-turn downloads)"},
        {"--channel", CLI_NUMBER, "N", &j.channel, 1, 64,
         "use channel N, counted from 1, instead of the mean of all"},
        {0}};
    const char **files = calloc((size_t)argc, sizeof *files);
    int n = 0, rc = files ? cli_parse(argc, argv, usage, options, files, argc, &n) : EX_OSERR;
    if (!rc && !n)
        rc = cli_usage("turn: no recording given");
    if (!rc)
        rc = open_judge(&j);
    for (int i = 0; i < n && j.judge; i++) {
        const int one = print(&j, files[i]);
        rc = rc ? rc : one;
    }
    steno_turn_judge_close(j.judge);
    steno_turn_detector_close(j.detector);
    free(files);
    return rc;
}
