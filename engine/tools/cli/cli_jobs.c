/* steno jobs: a client of a server's jobs (docs/jobs.md). */
#include "tools/cli/cli.h"

#include "base/atomic_file.h"
#include "base/path.h"
#include "tools/cli/download.h"
#include "tools/cli/options.h"
#include "tools/cli/progress.h"
#include "tools/cli/recordings.h"
#include "protocol/job_request.h"
#include "protocol/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX (256u << 20)
#define SHOWN 8        /* running jobs on the screen */
#define BAR 20         /* columns */
#define BUSY_TRIES 120 /* of a server that has no room, 5 s apart */
#define LOST_TRIES 4   /* of a request whose connection ended, after 1, 2, 4 and 8 s */
#define LOOK_MS 500    /* between two looks at a job */

static const char usage[] =
    "Usage: steno jobs submit [OPTION]... FILE|DIR|URL...\n"
    "       steno jobs watch [OPTION]... [ID]...\n"
    "       steno jobs get [OPTION]... ID\n"
    "       steno jobs list [OPTION]...\n"
    "       steno jobs remove|resend [OPTION]... ID...\n"
    "\n"
    "  submit  have a server transcribe recordings later: files, all recordings of a folder, or\n"
    "          URLs that the server fetches; prints the id of each job\n"
    "  watch   show the progress of jobs (of all that are not over) until they are over\n"
    "  get     print the transcript of a job\n"
    "  list    list jobs, the newest first\n"
    "  remove  cancel jobs that are not over, and forget others\n"
    "  resend  send callbacks once more that were delivered or given up\n";

struct job {
    char *id, *name;
    char state[16];
    double position, duration;
    char *error;
    bool over, done;
};

struct jobs {
    struct libcurl curl;
    const char *server, *key, *cafile;
    const char *output, *state, *callback, *expires;
    struct cli_list set;
    bool quiet, watch, dead;
    int format_at;
    struct job *v;
    size_t n, room;
    int drawn; /* lines on the screen */
};

static const char *const formats[] = {"json", "srt", "vtt", "text"};
enum { TEXT = 3 };
static const char *const endings[] = {"json", "srt", "vtt", "txt"};

/* ---- requests -------------------------------------------------------------------------------- */

struct exchange {
    const struct jobs *j;
    struct steno_buf out;
    FILE *file; /* the body; NULL: text */
    struct progress bar;
    bool shows;
    char once[33]; /* an Idempotency-Key; "" = none */
    bool unknown;  /* the connection ended before the answer: the server may have done it */
};

static size_t on_answer(char *p, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    return steno_buf_add(&x->out, p, size * n) ? 0 : size * n;
}

static size_t on_read(char *p, size_t size, size_t n, void *user)
{
    return fread(p, size, n, ((struct exchange *)user)->file);
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t total, curl_off_t sent)
{
    struct exchange *x = user;
    (void)a, (void)b, (void)total;
    if (x->shows)
        progress_show(&x->bar, sent);
    return 0;
}

/* What a server says is wrong. */
static steno_status refused(const struct steno_buf *answer, long code, steno_err *err)
{
    json_t *root = json_loadb(answer->data ? answer->data : "", answer->len, 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    const steno_status st = code == 429 || code == 503   ? STENO_ERR_BUSY
                            : code == 409                ? STENO_NEED_MORE
                            : code >= 400 && code <= 499 ? STENO_ERR_INVAL
                                                         : STENO_ERR_IO;
    (void)steno_fail(err, st, "the server answers %ld%s%s", code, message ? ": " : "",
                     message ? message : "");
    json_decref(root);
    return st;
}

static struct curl_slist *headers_of(const struct exchange *x, const char *type)
{
    const struct jobs *j = x->j;
    char line[512];
    struct curl_slist *list;
    snprintf(line, sizeof line, "Content-Type: %s", type);
    list = j->curl.slist_append(NULL, line);
    if (list && j->key && *j->key) {
        snprintf(line, sizeof line, "Authorization: Bearer %.400s", j->key);
        list = j->curl.slist_append(list, line);
    }
    if (list && *x->once) {
        snprintf(line, sizeof line, "Idempotency-Key: %s", x->once);
        list = j->curl.slist_append(list, line);
    }
    return list;
}

/* One request. body [n]: sent with POST, or x->file of n bytes. */
static steno_status exchange(struct exchange *x, const char *method, const char *target,
                             const char *type, const char *body, int64_t n, steno_err *err)
{
    const struct libcurl *l = &x->j->curl;
    struct curl_slist *headers = headers_of(x, type);
    CURL *c = headers ? l->easy_init() : NULL;
    char url[40000];
    long code = 0;
    CURLcode rc;
    if (!c) {
        if (headers)
            l->slist_free_all(headers);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    snprintf(url, sizeof url, "%s%s", x->j->server, target);
    steno_buf_reset(&x->out);
    l->easy_setopt(c, CURLOPT_URL, url);
    l->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    l->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    l->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    l->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    l->easy_setopt(c, CURLOPT_USERAGENT, "steno/" STENO_VERSION);
    l->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
    l->easy_setopt(c, CURLOPT_WRITEDATA, x);
    if (x->j->cafile)
        l->easy_setopt(c, CURLOPT_CAINFO, x->j->cafile);
    if (!strcmp(method, "POST")) {
        l->easy_setopt(c, CURLOPT_POST, 1L);
        l->easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
        if (body)
            l->easy_setopt(c, CURLOPT_POSTFIELDS, body);
        l->easy_setopt(c, CURLOPT_READFUNCTION, on_read);
        l->easy_setopt(c, CURLOPT_READDATA, x);
        l->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
        l->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
        l->easy_setopt(c, CURLOPT_XFERINFODATA, x);
    } else if (strcmp(method, "GET"))
        l->easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    rc = l->easy_perform(c);
    if (!rc)
        l->easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    l->easy_cleanup(c);
    l->slist_free_all(headers);
    x->unknown = rc == CURLE_GOT_NOTHING || rc == CURLE_RECV_ERROR || rc == CURLE_SEND_ERROR ||
                 rc == CURLE_PARTIAL_FILE;
    if (rc)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", x->j->server, l->easy_strerror(rc));
    return code >= 200 && code <= 299 ? STENO_OK : refused(&x->out, code, err);
}

/* GET a JSON object. */
static steno_status get_json(const struct jobs *j, const char *target, json_t **out, steno_err *err)
{
    struct exchange x = {.j = j};
    steno_status st;
    steno_buf_init(&x.out, ANSWER_MAX);
    st = exchange(&x, "GET", target, "text/plain", NULL, 0, err);
    if (!st) {
        *out = json_loadb(x.out.data ? x.out.data : "", x.out.len, 0, NULL);
        if (!*out)
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: the answer is no JSON", j->server);
    }
    steno_buf_free(&x.out);
    return st;
}

/* ---- the jobs of this call ------------------------------------------------------------------- */

static steno_status add_job(struct jobs *j, const char *id, const char *name, steno_err *err)
{
    struct job *v = j->v;
    if (j->n == j->room) {
        j->room = j->room ? 2 * j->room : 16;
        v = realloc(j->v, j->room * sizeof *v);
        if (!v)
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        j->v = v;
    }
    v[j->n] = (struct job){.id = strdup(id), .name = strdup(name)};
    if (!v[j->n].id || !v[j->n].name) {
        free(v[j->n].id);
        free(v[j->n].name);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    j->n++;
    return STENO_OK;
}

static void free_jobs(struct jobs *j)
{
    for (size_t i = 0; i < j->n; i++) {
        free(j->v[i].id);
        free(j->v[i].name);
        free(j->v[i].error);
    }
    free(j->v);
    cli_list_free(&j->set);
}

static double number_in_job(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static const char *text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

/* ---- submit ---------------------------------------------------------------------------------- */

/* The target with the parameters of the options. */
static steno_status make_target(const struct jobs *j, struct steno_buf *out, steno_err *err)
{
    steno_status st = steno_buf_puts(out, "/v1/jobs");
    for (int i = 0; i < j->set.n && !st; i++) {
        const char *equals = strchr(j->set.v[i], '=');
        char name[64];
        if (!equals || equals == j->set.v[i] || equals - j->set.v[i] >= (long)sizeof name)
            return steno_fail(err, STENO_ERR_INVAL, "--set: '%s' is not NAME=VALUE", j->set.v[i]);
        snprintf(name, sizeof name, "%.*s", (int)(equals - j->set.v[i]), j->set.v[i]);
        st = steno_target_add(out, name, equals + 1);
    }
    if (!st && j->callback)
        st = steno_target_add(out, "callback", j->callback);
    if (!st && j->expires)
        st = steno_target_add(out, "expires", j->expires);
    return st ? steno_fail(err, st, "the parameters are too long") : STENO_OK;
}

static steno_status send_file(struct exchange *x, const char *target, const char *path,
                              steno_err *err)
{
    struct stat s;
    steno_status st;
    x->file = fopen(path, "rb");
    if (!x->file || fstat(fileno(x->file), &s)) {
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
        if (x->file)
            fclose(x->file);
        return st;
    }
    progress_begin(&x->bar, path, s.st_size, 0, x->j->quiet);
    x->shows = true;
    st = exchange(x, "POST", target, "application/octet-stream", NULL, s.st_size, err);
    progress_end(&x->bar, s.st_size, false);
    x->shows = false;
    fclose(x->file);
    x->file = NULL;
    return st;
}

static steno_status send_url(struct exchange *x, const char *target, const char *url,
                             steno_err *err)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, 8192);
    st = steno_buf_puts(&b, "{");
    if (!st)
        st = steno_json_put_member(&b, "url", url);
    if (!st)
        st = steno_buf_puts(&b, "}");
    st = st ? steno_fail(err, st, "%s: too long", url)
            : exchange(x, "POST", target, "application/json", b.data, (int64_t)b.len, err);
    steno_buf_free(&b);
    return st;
}

static bool is_url(const char *s)
{
    return !strncasecmp(s, "http://", 7) || !strncasecmp(s, "https://", 8);
}

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Name a request, so that the server makes one job of it however often it comes. Without random
 * bits it has no name. */
static void name_request(struct exchange *x)
{
    uint64_t bits[2];
    if (getrandom(bits, sizeof bits, 0) == sizeof bits)
        snprintf(x->once, sizeof x->once, "%016llx%016llx", (unsigned long long)bits[0],
                 (unsigned long long)bits[1]);
}

/* Submit one recording. A server that has no room now is asked again; so is one whose answer was
 * lost. */
static steno_status submit_one(void *arg, const char *path, steno_err *err)
{
    struct jobs *j = arg;
    struct exchange x = {.j = j};
    struct steno_buf target;
    json_t *root = NULL;
    steno_status st;
    int lost = 0;
    name_request(&x);
    steno_buf_init(&x.out, ANSWER_MAX);
    steno_buf_init(&target, 32768);
    st = make_target(j, &target, err);
    for (int i = 0; !st; i++) {
        st = is_url(path) ? send_url(&x, target.data, path, err)
                          : send_file(&x, target.data, path, err);
        if (st && x.unknown && *x.once && lost < LOST_TRIES) {
            pause_ms(1000L << lost++);
            st = STENO_OK;
            continue;
        }
        if (st != STENO_ERR_BUSY || i == BUSY_TRIES)
            break;
        if (!i && !j->quiet)
            fprintf(stderr, "steno: %s: %s; waiting\n", path, err->msg);
        pause_ms(5000);
        st = STENO_OK;
    }
    if (!st) {
        root = json_loadb(x.out.data, x.out.len, 0, NULL);
        if (!*text(root, "id"))
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: the answer has no id", j->server);
        else
            st = add_job(j, text(root, "id"), path, err);
    } else {
        (void)steno_fail_in(err, st, "%s", path);
    }
    if (!st && !j->watch) {
        printf("%s\t%s\n", text(root, "id"), path);
        cli_flush();
    }
    json_decref(root);
    steno_buf_free(&target);
    steno_buf_free(&x.out);
    return st;
}

/* ---- watch ----------------------------------------------------------------------------------- */

static steno_status look_at_job(const struct jobs *j, struct job *b, steno_err *err)
{
    char target[128];
    json_t *root = NULL, *audio;
    const char *state;
    steno_status st;
    /* no segments: only the progress is shown */
    snprintf(target, sizeof target, "/v1/jobs/%.60s?segment=2000000000", b->id);
    st = get_json(j, target, &root, err);
    if (st)
        return steno_fail_in(err, st, "%s", b->id);
    audio = json_object_get(root, "audio");
    state = text(root, "state");
    snprintf(b->state, sizeof b->state, "%s", state);
    b->position = number_in_job(audio, "position");
    b->duration = number_in_job(audio, "duration");
    b->done = !strcmp(state, "done");
    b->over = strcmp(state, "queued") && strcmp(state, "running");
    if (b->over && !b->done && !b->error)
        b->error = strdup(text(json_object_get(root, "error"), "message"));
    json_decref(root);
    return STENO_OK;
}

static void draw_job(const struct job *b)
{
    const double part =
        b->duration > 0 && b->position < b->duration ? b->position / b->duration : b->done;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(part * BAR + 0.5) ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "%s %3.0f%% %6.0f of %.0f s  %.40s\033[K\n", bar, part * 100, b->position,
            b->duration, b->name);
}

/* Draw the running jobs and a line about all, in place of those drawn before. */
static void draw_jobs(struct jobs *j)
{
    size_t done = 0, failed = 0, shown = 0;
    if (j->drawn)
        fprintf(stderr, "\033[%dA", j->drawn);
    for (size_t i = 0; i < j->n; i++) {
        done += j->v[i].done;
        failed += j->v[i].over && !j->v[i].done;
        if (!strcmp(j->v[i].state, "running") && shown < SHOWN) {
            draw_job(&j->v[i]);
            shown++;
        }
    }
    fprintf(stderr, "%zu of %zu done, %zu failed\033[K\n\033[J", done, j->n, failed);
    j->drawn = (int)shown + 1;
}

/* Without a terminal: a line for each job that is over. */
static void tell_of_job(const struct job *b)
{
    printf("%s\t%s\t%s%s%s\n", b->id, b->state, b->name, b->error && *b->error ? "\t" : "",
           b->error ? b->error : "");
    cli_flush();
}

/* Look at the jobs until all are over. */
static steno_status watch(struct jobs *j, steno_err *err)
{
    const bool terminal = isatty(STDERR_FILENO) && !j->quiet;
    for (;;) {
        size_t left = 0;
        for (size_t i = 0; i < j->n; i++) {
            struct job *b = &j->v[i];
            steno_status st = b->over ? STENO_OK : look_at_job(j, b, err);
            if (st)
                return st;
            if (b->over && *b->state) { /* for the first time */
                if (terminal && j->drawn) {
                    fprintf(stderr, "\033[%dA\033[J", j->drawn);
                    j->drawn = 0;
                }
                if (!j->output || !b->done)
                    tell_of_job(b);
                *b->state = '\0';
            }
            left += !b->over;
        }
        if (terminal)
            draw_jobs(j);
        if (!left)
            return STENO_OK;
        pause_ms(LOOK_MS);
    }
}

/* ---- get ------------------------------------------------------------------------------------- */

static steno_status fetch_result(const struct jobs *j, const char *id, struct steno_buf *out,
                                 steno_err *err)
{
    struct exchange x = {.j = j};
    char target[128];
    steno_status st;
    snprintf(target, sizeof target, "/v1/jobs/%.60s/result?format=%s", id, formats[j->format_at]);
    x.out = *out;
    st = exchange(&x, "GET", target, "text/plain", NULL, 0, err);
    *out = x.out;
    return st ? steno_fail_in(err, st, "%s", id) : STENO_OK;
}

/* The name of a recording without its folder and its ending: *n bytes. */
static const char *stem_of(const struct job *b, size_t *n)
{
    const char *slash = strrchr(b->name, '/'), *name = slash ? slash + 1 : b->name;
    const char *dot = strrchr(name, '.');
    *n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return name;
}

/* Whether a job before b has a recording of the same name. */
static bool is_name_taken(const struct jobs *j, const struct job *b)
{
    size_t n, m;
    const char *stem = stem_of(b, &n);
    for (const struct job *a = j->v; a < b; a++) {
        const char *other = stem_of(a, &m);
        if (m == n && !strncmp(other, stem, n))
            return true;
    }
    return false;
}

/* DIR/NAME.srt for a recording NAME.wav; DIR/NAME.ID.srt for a second one of that name. */
static steno_status save_result(const struct jobs *j, const struct job *b, steno_err *err)
{
    const bool taken = is_name_taken(j, b);
    struct steno_buf out;
    char path[4096];
    size_t n;
    const char *stem = stem_of(b, &n);
    steno_status st;
    steno_buf_init(&out, ANSWER_MAX);
    st = fetch_result(j, b->id, &out, err);
    snprintf(path, sizeof path, "%s/%.*s%s%s.%s", j->output, (int)n, stem, taken ? "." : "",
             taken ? b->id : "", endings[j->format_at]);
    if (!st)
        st = steno_atomic_file_write(path, out.data, out.len, 0600, false, err);
    if (!st)
        printf("%s\t%s\n", b->id, path);
    steno_buf_free(&out);
    return st;
}

/* ---- the subcommands ------------------------------------------------------------------------- */

static int finish_watch(struct jobs *j)
{
    steno_err err;
    bool failed = false;
    if (watch(j, &err))
        return cli_fail(&err);
    for (size_t i = 0; i < j->n; i++) {
        failed |= !j->v[i].done;
        if (j->output && j->v[i].done && save_result(j, &j->v[i], &err))
            return cli_fail(&err);
    }
    return failed ? EX_DATAERR : EX_OK;
}

static steno_status make_output(const struct jobs *j, steno_err *err)
{
    if (j->output && mkdir(j->output, 0777) && errno != EEXIST)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", j->output, strerror(errno));
    return STENO_OK;
}

/* What is known before jobs are made: an exit code. */
static int check_submit(const struct jobs *j, const char **what, int n)
{
    steno_err err;
    int rc = EX_OK;
    if (!n)
        return cli_usage("jobs submit: no recording was given");
    if (j->output && !j->watch)
        return cli_usage("jobs submit: --output-dir needs --watch");
    for (int i = 0; i < n && rc == EX_OK; i++) {
        rc = is_url(what[i]) ? EX_OK : cli_readable(what[i]);
        if (rc == EX_OK && steno_path_is_dir(what[i]) && !recordings_are(what[i])) {
            fprintf(stderr, "steno: %s: there is no recording in it\n", what[i]);
            rc = EX_DATAERR;
        }
    }
    return rc == EX_OK && make_output(j, &err) ? cli_fail(&err) : rc;
}

/* What the server refuses does not keep it from the others. */
static int submit(struct jobs *j, const char **what, int n)
{
    steno_err err;
    steno_status st = STENO_OK;
    int watched, rc = check_submit(j, what, n);
    if (rc != EX_OK)
        return rc;
    for (int i = 0; i < n && (!st || st == STENO_ERR_INVAL); i++) {
        const struct cli_list one = {&what[i], 1};
        st = is_url(what[i]) ? submit_one(j, what[i], &err)
                             : recordings_each(&one, submit_one, j, &err);
        if (st) {
            const int failed = cli_fail(&err);
            rc = rc ? rc : failed;
        }
    }
    watched = j->watch ? finish_watch(j) : EX_OK;
    return rc ? rc : watched;
}

/* Pass on all jobs of the server in a state ("": any), page after page. */
static steno_status each_job(const struct jobs *j, const char *state,
                             steno_status (*fn)(void *arg, const json_t *job, steno_err *err),
                             void *arg, steno_err *err)
{
    char after[64] = "";
    for (;;) {
        char target[256];
        json_t *root = NULL, *list;
        steno_status st = STENO_OK;
        bool more;
        snprintf(target, sizeof target, "/v1/jobs?limit=200%s%.20s%s%s%s", *state ? "&state=" : "",
                 state, *after ? "&after=" : "", after, j->dead ? "&callback=dead" : "");
        st = get_json(j, target, &root, err);
        if (st)
            return st;
        list = json_object_get(root, "jobs");
        for (size_t i = 0; i < json_array_size(list) && !st; i++) {
            st = fn(arg, json_array_get(list, i), err);
            snprintf(after, sizeof after, "%s", text(json_array_get(list, i), "id"));
        }
        more = json_is_true(json_object_get(root, "has_more")) && json_array_size(list);
        json_decref(root);
        if (st || !more)
            return st;
    }
}

static steno_status print_job(void *arg, const json_t *job, steno_err *err)
{
    const double created = number_in_job(job, "created");
    const json_t *audio = json_object_get(job, "audio");
    const time_t t = (time_t)created;
    struct tm tm;
    char when[32] = "";
    (void)arg, (void)err;
    if (localtime_r(&t, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    printf("%s  %-9s  %s  %8.1f of %.1f s%s%s\n", text(job, "id"), text(job, "state"), when,
           number_in_job(audio, "position"), number_in_job(audio, "duration"),
           json_object_get(job, "error") ? "  " : "",
           text(json_object_get(job, "error"), "message"));
    return STENO_OK;
}

static steno_status add_listed(void *arg, const json_t *job, steno_err *err)
{
    return add_job(arg, text(job, "id"), text(job, "id"), err);
}

static int list_jobs(struct jobs *j)
{
    steno_err err;
    return each_job(j, j->state ? j->state : "", print_job, NULL, &err) ? cli_fail(&err) : EX_OK;
}

static int watch_all(struct jobs *j, const char **ids, int n)
{
    steno_err err;
    steno_status st = make_output(j, &err);
    for (int i = 0; i < n && !st; i++)
        st = add_job(j, ids[i], ids[i], &err);
    if (!n)
        st = each_job(j, "running", add_listed, j, &err);
    if (!n && !st)
        st = each_job(j, "queued", add_listed, j, &err);
    return st ? cli_fail(&err) : finish_watch(j);
}

static int get(struct jobs *j, const char **ids, int n)
{
    struct steno_buf out;
    steno_err err;
    steno_status st;
    if (n != 1)
        return cli_usage("jobs get: one id");
    steno_buf_init(&out, ANSWER_MAX);
    st = fetch_result(j, ids[0], &out, &err);
    if (!st && out.data)
        (void)fwrite(out.data, 1, out.len, stdout);
    steno_buf_free(&out);
    if (st == STENO_NEED_MORE) {
        (void)cli_fail(&err);
        return EX_TEMPFAIL;
    }
    return st ? cli_fail(&err) : EX_OK;
}

/* Send a request about each of the ids: its path is that of the job and what follows it. */
static int ask_of_each(const struct jobs *j, const char *method, const char *behind,
                       const char **ids, int n)
{
    struct exchange x = {.j = j};
    steno_err err;
    steno_status st = STENO_OK;
    steno_buf_init(&x.out, ANSWER_MAX);
    for (int i = 0; i < n && !st; i++) {
        char target[128];
        snprintf(target, sizeof target, "/v1/jobs/%.60s%s", ids[i], behind);
        st = exchange(&x, method, target, "text/plain", NULL, 0, &err);
        if (st)
            (void)steno_fail_in(&err, st, "%s", ids[i]);
    }
    steno_buf_free(&x.out);
    return st ? cli_fail(&err) : EX_OK;
}

static int run_command(struct jobs *j, const char *word, const char **args, int n)
{
    if (j->format_at >= 0 && !j->output && strcmp(word, "get") != 0)
        return cli_usage("jobs %s: --format needs --output-dir", word);
    if (j->format_at < 0)
        j->format_at = TEXT;
    if (!strcmp(word, "submit"))
        return submit(j, args, n);
    if (!strcmp(word, "watch"))
        return watch_all(j, args, n);
    if (!strcmp(word, "get"))
        return get(j, args, n);
    if (!n && (!strcmp(word, "remove") || !strcmp(word, "resend")))
        return cli_usage("jobs %s: no id was given", word);
    if (!strcmp(word, "remove"))
        return ask_of_each(j, "DELETE", "", args, n);
    if (!strcmp(word, "resend")) /* callbacks, once more */
        return ask_of_each(j, "POST", "/callback", args, n);
    if (strcmp(word, "list"))
        return cli_usage("jobs: '%s' is not submit, watch, get, list, resend or remove", word);
    return n ? cli_usage("jobs list: takes no arguments") : list_jobs(j);
}

int cli_jobs(int argc, char **argv)
{
    struct jobs j = {.server = getenv("STENO_SERVER"), .key = getenv("STENO_KEY"), .format_at = -1};
    const struct cli_option options[] = {
        {"--server", CLI_TEXT, "URL", &j.server, 0, 0,
         "the server ($STENO_SERVER, else http://127.0.0.1:8080)"},
        {"--key", CLI_TEXT, "KEY", &j.key, 0, 0,
         "API key; better in $STENO_KEY, which other users cannot see"},
        {"--cafile", CLI_TEXT, "FILE", &j.cafile, 0, 0, "certificates that are trusted"},
        {"--quiet", CLI_FLAG, NULL, &j.quiet, 0, 0, "no progress"},
        {"submit", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--set", CLI_MANY, "NAME=VALUE", &j.set, 0, 0,
         "a parameter of POST /v1/transcribe, as model, language, beam"},
        {"--callback", CLI_TEXT, "URL", &j.callback, 0, 0, "where the server sends the result"},
        {"--expires", CLI_TEXT, "S", &j.expires, 0, 0, "seconds until a job expires"},
        {"--watch", CLI_FLAG, NULL, &j.watch, 0, 0, "wait for the jobs, as watch does"},
        {"submit, watch", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--output-dir", CLI_TEXT, "DIR", &j.output, 0, 0,
         "write the transcript of a.wav to DIR/a.txt, a.srt, ...; of submit with --watch"},
        {"submit, watch, get", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--format", CLI_CHOICE, "json|srt|vtt|text", &j.format_at, 0, 0,
         "form of transcripts (text)"},
        {"list", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--state", CLI_TEXT, "STATE", &j.state, 0, 0,
         "only jobs that are queued, running, done, failed, expired or cancelled"},
        {"--dead", CLI_FLAG, NULL, &j.dead, 0, 0, "only jobs whose callback was given up"},
        {NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL}};
    const char **args = calloc((size_t)argc + 1, sizeof *args);
    steno_err err;
    int n = 0, rc;
    if (!args)
        return EX_OSERR;
    rc = cli_parse(argc, argv, usage, options, args, argc, &n);
    if (!rc && !n)
        rc = cli_usage("jobs: submit, watch, get, list, resend or remove?");
    if (!rc && j.cafile)
        rc = cli_readable(j.cafile);
    if (!rc && download_begin(&j.curl, &err))
        rc = cli_fail(&err);
    if (!rc) {
        if (!j.server || !*j.server)
            j.server = "http://127.0.0.1:8080";
        rc = run_command(&j, args[0], args + 1, n - 1);
        download_end(&j.curl);
    }
    free_jobs(&j);
    free(args);
    return rc;
}
