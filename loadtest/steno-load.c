/* Puts load on a running server. Many users from one thread stream recordings over WebSockets or
 * upload them; measures latency, correctness and cost of the answers.
 *
 *     steno-load --url ws://127.0.0.1:8080/v1/stream --users 500 --seconds 15 digits.wav
 *
 * steno-load(1) and loadtest/README.md explain the figures. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "loadtest/support/load.h"

static const char usage_text[] =
    "Usage: steno-load --url URL [OPTION]... FILE.wav...\n"
    "Users stream (ws://) or upload (http://) recordings; prints latencies, errors, cost.\n\n"
    "  --users N          users at once; default 64\n"
    "  --sessions N       sessions of each user, one after the other; default 1\n"
    "  --seconds S        begin new sessions for S seconds instead\n"
    "  --ramp S           time from the first user's start to the last one's; default 1\n"
    "  --think-ms N       pause between a user's sessions; default 0\n"
    "  --retry            a refused user comes back when the server says; refused\n"
    "                     sessions do not count\n"
    "  --fast             send as fast as the server reads, not in real time\n"
    "  --chunk-ms N       audio per message; default 100\n"
    "  --say N            repetitions of a recording in one session; default 1\n"
    "  --gap-ms N         silence after each repetition; default 1500\n"
    "  --encodings LIST   of s16le, f32le, mulaw, alaw, wav, opus; default s16le (uploads: wav)\n"
    "  --expect TEXT      text of every FILE; default: the content of FILE.txt\n"
    "  --plain            compare texts without case and punctuation\n"
    "  --start JSON       more members of the start message: '\"beam\":4'\n"
    "  --key KEY          API key\n"
    "  --drop PERCENT     share of streams that hang up at some point\n"
    "  --pid PID          the server's process: processor time and memory\n"
    "  --metrics URL      the server's metrics: batch sizes\n"
    "  --label TEXT       a name for the run\n"
    "  --json FILE        write all figures\n"
    "  --max-p99 MS       fail if p99 of partials (uploads: answers) is larger\n"
    "  --max-wer PERCENT  fail if the word error rate is larger; default: if a\n"
    "                     transcript is wrong\n"
    "  --help\n";

enum option_id {
    O_URL = 256,
    O_USERS,
    O_SESSIONS,
    O_SECONDS,
    O_RAMP,
    O_THINK,
    O_RETRY,
    O_FAST,
    O_CHUNK,
    O_SAY,
    O_GAP,
    O_ENCODINGS,
    O_EXPECT,
    O_PLAIN,
    O_START,
    O_KEY,
    O_DROP,
    O_PID,
    O_METRICS,
    O_LABEL,
    O_JSON,
    O_P99,
    O_WER,
    O_HELP
};

static const struct option options[] = {{"url", 1, 0, O_URL},
                                        {"users", 1, 0, O_USERS},
                                        {"sessions", 1, 0, O_SESSIONS},
                                        {"seconds", 1, 0, O_SECONDS},
                                        {"ramp", 1, 0, O_RAMP},
                                        {"think-ms", 1, 0, O_THINK},
                                        {"retry", 0, 0, O_RETRY},
                                        {"fast", 0, 0, O_FAST},
                                        {"chunk-ms", 1, 0, O_CHUNK},
                                        {"say", 1, 0, O_SAY},
                                        {"gap-ms", 1, 0, O_GAP},
                                        {"expect", 1, 0, O_EXPECT},
                                        {"plain", 0, 0, O_PLAIN},
                                        {"encodings", 1, 0, O_ENCODINGS},
                                        {"start", 1, 0, O_START},
                                        {"key", 1, 0, O_KEY},
                                        {"drop", 1, 0, O_DROP},
                                        {"pid", 1, 0, O_PID},
                                        {"metrics", 1, 0, O_METRICS},
                                        {"label", 1, 0, O_LABEL},
                                        {"json", 1, 0, O_JSON},
                                        {"max-p99", 1, 0, O_P99},
                                        {"max-wer", 1, 0, O_WER},
                                        {"help", 0, 0, O_HELP},
                                        {0, 0, 0, 0}};

struct range {
    double least, most;
};

/* Parse a number in the range; exits with a message otherwise. */
static double number(const char *name, const char *text, bool whole, struct range r)
{
    char *end;
    double v = strtod(text, &end);
    if (*text && !*end && v >= r.least && v <= r.most && (!whole || v == (double)(long)v))
        return v;
    fprintf(stderr, "steno-load: --%s is '%s', expected a %snumber from %g to %g\n", name, text,
            whole ? "whole " : "", r.least, r.most);
    exit(EX_USAGE);
}

static const char *encodings;

/* Handle options that are numbers; false for others. */
static bool take_number(struct load_plan *p, int opt, const char *name)
{
    const struct {
        int opt;
        int *i;
        double *d;
        struct range r;
    } rows[] = {
        {O_USERS, &p->users, NULL, {1, 1e6}},         {O_SESSIONS, &p->sessions, NULL, {1, 1e9}},
        {O_SECONDS, NULL, &p->seconds, {0.001, 1e7}}, {O_RAMP, NULL, &p->ramp, {0, 1e6}},
        {O_THINK, &p->think_ms, NULL, {0, 1e8}},      {O_CHUNK, &p->chunk_ms, NULL, {1, 60000}},
        {O_SAY, &p->say, NULL, {1, 100000}},          {O_GAP, &p->gap_ms, NULL, {0, 1e6}},
        {O_DROP, &p->drop_percent, NULL, {0, 100}},   {O_PID, &p->pid, NULL, {1, 1 << 30}},
        {O_P99, NULL, &p->max_p99_ms, {0, 1e9}},      {O_WER, NULL, &p->max_wer, {0, 1e9}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].opt == opt) {
            double v = number(name, optarg, rows[k].i != NULL, rows[k].r);
            if (rows[k].i)
                *rows[k].i = (int)v;
            else
                *rows[k].d = v;
            return true;
        }
    return false;
}

static void take_text(struct load_plan *p, int opt)
{
    const struct {
        int opt;
        const char **text;
    } rows[] = {{O_URL, &p->url_text}, {O_EXPECT, &p->expect},        {O_START, &p->start},
                {O_KEY, &p->key},      {O_METRICS, &p->metrics_text}, {O_LABEL, &p->label},
                {O_JSON, &p->json},    {O_ENCODINGS, &encodings}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].opt == opt)
            *rows[k].text = optarg;
}

static steno_status read_clips(struct load_plan *p, char *const *files, int n, steno_err *err)
{
    const char *list = encodings ? encodings : p->url.ws ? "s16le" : "wav";
    if (!*list)
        return steno_fail(err, STENO_ERR_INVAL, "--encodings names none");
    for (const char *e = list; *e; e += strspn(e, ",")) {
        char name[16];
        size_t len = strcspn(e, ",");
        snprintf(name, sizeof name, "%.*s", (int)len, e);
        e += len;
        for (int i = 0; i < n; i++) {
            steno_status st;
            if (!p->url.ws && strcmp(name, "wav") != 0)
                return steno_fail(err, STENO_ERR_INVAL,
                                  "encoding '%s' is only for streams, uploads are wav", name);
            if (p->n_clips == LOAD_MAX_CLIPS)
                return steno_fail(err, STENO_ERR_LIMIT, "more than %d recordings and encodings",
                                  LOAD_MAX_CLIPS);
            st =
                clip_read(&p->clips[p->n_clips], files[i], name, p->gap_ms, p->say, p->expect, err);
            if (st)
                return st;
            if (p->plain && p->clips[p->n_clips].text)
                clip_make_plain(p->clips[p->n_clips].text);
            p->n_clips++;
        }
    }
    return STENO_OK;
}

/* Check texts that otherwise only the server, or the end of the run, would find wrong. */
static steno_status check_texts(const struct load_plan *p, steno_err *err)
{
    struct steno_buf all;
    json_t *members = NULL;
    FILE *f;
    steno_buf_init(&all, LOAD_START_BYTES);
    if (!steno_buf_printf(&all, "{%s}", p->start))
        members = json_loadb(all.data, all.len, 0, NULL);
    steno_buf_free(&all);
    json_decref(members);
    if (!members)
        return steno_fail(err, STENO_ERR_INVAL,
                          "--start: '%.100s' is not members of a JSON object, or too long",
                          p->start);
    if (p->key && (strlen(p->key) > LOAD_KEY_BYTES || strpbrk(p->key, "\r\n")))
        return steno_fail(err, STENO_ERR_INVAL,
                          "--key: longer than %d bytes, or more than one line", LOAD_KEY_BYTES);
    if (p->max_p99_ms >= 0 && p->fast && !strncmp(p->url_text, "ws:", 3))
        return steno_fail(err, STENO_ERR_INVAL, "--max-p99: with --fast no partial is timed");
    f = p->json ? fopen(p->json, "a") : NULL;
    if (p->json && !f)
        return steno_fail(err, STENO_ERR_IO, "--json: %s: %s", p->json, strerror(errno));
    if (f)
        fclose(f);
    return STENO_OK;
}

static steno_status prepare(struct load_plan *p, char *const *files, int n, steno_err *err)
{
    steno_status st = check_texts(p, err);
    if (!st)
        st = load_url_parse(&p->url, p->url_text, err);
    if (!st && p->metrics_text)
        st = load_url_parse(&p->metrics, p->metrics_text, err);
    return st ? st : read_clips(p, files, n, err);
}

/* As many descriptors as the system allows. */
static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l))
        return;
    l.rlim_cur = l.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &l);
}

int main(int argc, char **argv)
{
    static struct load_plan p = {.users = 64,
                                 .sessions = 1,
                                 .say = 1,
                                 .gap_ms = 1500,
                                 .chunk_ms = 100,
                                 .ramp = 1,
                                 .start = "",
                                 .label = "",
                                 .max_p99_ms = -1,
                                 .max_wer = -1};
    static struct load_run run;
    steno_err err = {0};
    steno_status st;
    int opt, at = 0, rc;
    while ((opt = getopt_long(argc, argv, "", options, &at)) != -1) {
        if (opt == O_HELP || opt == '?') {
            fputs(usage_text, opt == O_HELP ? stdout : stderr);
            return opt == O_HELP ? 0 : EX_USAGE;
        }
        if (opt == O_FAST)
            p.fast = true;
        else if (opt == O_RETRY)
            p.retry = true;
        else if (opt == O_PLAIN)
            p.plain = true;
        else if (!take_number(&p, opt, options[at].name))
            take_text(&p, opt);
    }
    if (!p.url_text || optind >= argc) {
        fprintf(stderr, "steno-load: %s is missing\n%s", p.url_text ? "FILE.wav" : "--url",
                usage_text);
        return EX_USAGE;
    }
    raise_descriptors();
    st = prepare(&p, argv + optind, argc - optind, &err);
    rc = st == STENO_ERR_INVAL ? EX_USAGE : EX_NOINPUT;
    if (st || load_run(&run, &p, &err)) {
        fprintf(stderr, "steno-load: %s\n", err.msg);
        return rc;
    }
    rc = load_report(&run);
    load_run_free(&run);
    for (int i = 0; i < p.n_clips; i++)
        clip_free(&p.clips[i]);
    return rc;
}
