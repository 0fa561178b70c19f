/* The figures, as text and as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "loadtest/support/load.h"

struct row {
    const char *name, *what;
    const struct histogram *h;
};

static void print_row(const struct row *r)
{
    if (r->h->n)
        printf("  %-8s p50 %8.1f  p90 %8.1f  p95 %8.1f  p99 %8.1f  max %8.1f ms  %8llu  %s\n",
               r->name, histogram_quantile(r->h, 0.5), histogram_quantile(r->h, 0.9),
               histogram_quantile(r->h, 0.95), histogram_quantile(r->h, 0.99), r->h->max_ms,
               (unsigned long long)r->h->n, r->what);
}

static json_t *json_row(const struct histogram *h)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:I}", "mean", histogram_mean(h), "p50",
                     histogram_quantile(h, 0.5), "p90", histogram_quantile(h, 0.9), "p95",
                     histogram_quantile(h, 0.95), "p99", histogram_quantile(h, 0.99), "max",
                     h->max_ms, "n", (json_int_t)h->n);
}

/* If no word was said, each recognised word counts as one of one. */
static double wer(const struct load_run *r)
{
    return r->word_errors ? 100 * (double)r->word_errors / (double)(r->words ? r->words : 1) : 0;
}

static int sessions(const struct load_run *r)
{
    int n = 0;
    for (int i = 0; i < LOAD_OUTCOMES; i++)
        n += r->outcomes[i];
    return n;
}

/* Processor time of this program, s. */
static double own_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double mean_batch(const struct load_run *r)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->n_points; i++)
        if (r->points[i].batch > 0) {
            sum += r->points[i].batch;
            n++;
        }
    return n ? sum / n : 0;
}

static json_t *timeline(const struct load_run *r)
{
    json_t *a = json_array();
    for (int i = 0; i < r->n_points; i++) {
        const struct load_point *p = &r->points[i];
        json_array_append_new(a,
                              json_pack("{s:f,s:i,s:f,s:f,s:f,s:i}", "t", p->t, "active", p->active,
                                        "cpu_percent", p->cpu_percent, "rss_mib", p->rss_mib,
                                        "batch", p->batch, "descriptors", p->descriptors));
    }
    return a;
}

/* By clip: file, encoding and its last transcript; null if no session was complete. */
static json_t *transcripts(const struct load_run *r)
{
    json_t *a = json_array();
    for (int i = 0; i < r->plan->n_clips; i++)
        json_array_append_new(a, json_pack("{s:s,s:s,s:s?}", "file", r->plan->clips[i].file,
                                           "encoding", r->plan->clips[i].encoding, "text",
                                           r->said[i]));
    return a;
}

static json_t *as_json(const struct load_run *r, const struct row *rows, size_t n)
{
    const struct load_plan *p = r->plan;
    json_t *j = json_pack("{s:s,s:s,s:i,s:b,s:f,s:f,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f}", "label",
                          p->label, "url", p->url_text, "users", p->users, "flat_out", p->fast,
                          "seconds", r->took, "audio_seconds", r->audio_seconds, "sessions",
                          sessions(r), "ok", r->outcomes[LOAD_OK], "wrong", r->outcomes[LOAD_WRONG],
                          "refused", r->outcomes[LOAD_REFUSED], "refused_late", r->refused_late,
                          "failed", r->outcomes[LOAD_FAILED], "dropped", r->outcomes[LOAD_DROPPED],
                          "wer_percent", wer(r));
    for (size_t i = 0; j && i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ms", rows[i].name);
        json_object_set_new(j, key, json_row(rows[i].h));
    }
    if (j) {
        json_object_set_new(j, "words", json_integer((json_int_t)r->words));
        json_object_set_new(j, "word_errors", json_integer((json_int_t)r->word_errors));
        json_object_set_new(j, "transcripts", transcripts(r));
        json_object_set_new(j, "own_cpu_seconds", json_real(own_cpu()));
        json_object_set_new(j, "server",
                            json_pack("{s:f,s:f,s:f,s:f,s:i,s:f}", "cpu_seconds",
                                      r->after.cpu_seconds - r->before.cpu_seconds, "rss_mib",
                                      r->after.rss_mib, "rss_before_mib", r->before.rss_mib,
                                      "peak_rss_mib", r->after.peak_rss_mib, "descriptors",
                                      r->after.descriptors, "mean_batch", mean_batch(r)));
        json_object_set_new(j, "timeline", timeline(r));
    }
    return j;
}

static void print(const struct load_run *r, const struct row *rows, size_t n)
{
    double cpu = r->after.cpu_seconds - r->before.cpu_seconds;
    printf("%s%s%d users, %d sessions, %.0f s of audio in %.1f s (%.1f sessions/s); %d wrong, "
           "%d refused (%d of them after the handshake), %d failed, %d dropped, word error rate "
           "%.2f %%\n",
           r->plan->label, *r->plan->label ? ": " : "", r->plan->users, sessions(r),
           r->audio_seconds, r->took, sessions(r) / r->took, r->outcomes[LOAD_WRONG],
           r->outcomes[LOAD_REFUSED], r->refused_late, r->outcomes[LOAD_FAILED],
           r->outcomes[LOAD_DROPPED], wer(r));
    for (size_t i = 0; i < n; i++)
        print_row(&rows[i]);
    if (r->plan->pid)
        printf("  server: %.2f CPU s, %.0f %% of a core, %.3f %% per real-time stream; resident "
               "%.1f MiB (before %.1f, peak %.1f); mean batch %.1f; this program %.0f %% of a "
               "core\n",
               cpu, 100 * cpu / r->took, r->audio_seconds > 0 ? 100 * cpu / r->audio_seconds : 0,
               r->after.rss_mib, r->before.rss_mib, r->after.peak_rss_mib, mean_batch(r),
               100 * own_cpu() / r->took);
}

static int judge(const struct load_run *r)
{
    const struct load_plan *p = r->plan;
    const struct histogram *times = p->url.ws ? &r->partial : &r->answer;
    double p99 = histogram_quantile(times, 0.99);
    int rc = EX_OK;
    if (r->outcomes[LOAD_FAILED] || (r->outcomes[LOAD_WRONG] && p->max_wer < 0) ||
        sessions(r) == r->outcomes[LOAD_REFUSED])
        rc = EX_UNAVAILABLE;
    if (p->max_wer >= 0 && wer(r) > p->max_wer) {
        printf("FAILED: word error rate %.2f %%, limit %.2f\n", wer(r), p->max_wer);
        rc = EX_UNAVAILABLE;
    }
    if (p->max_p99_ms >= 0 && !times->n) {
        printf("FAILED: nothing was timed, limit of p99 %.1f ms\n", p->max_p99_ms);
        rc = EX_UNAVAILABLE;
    }
    if (p->max_p99_ms >= 0 && p99 > p->max_p99_ms) {
        printf("FAILED: p99 is %.1f ms, limit %.1f\n", p99, p->max_p99_ms);
        rc = EX_UNAVAILABLE;
    }
    return rc;
}

int load_report(const struct load_run *r)
{
    const struct row rows[] = {
        {"first", "first partial, since the stream began", &r->first},
        {"partial", "since its audio was sent", &r->partial},
        {"word", "first shown, since the chunk in which it ends was sent", &r->word},
        {"final", "since its audio, or `end`, was sent", &r->final},
        {"answer", r->plan->url.ws ? "closed, since `end` was sent" : "since the request began",
         &r->answer},
        {"late", "delay with which this program sent", &r->late},
    };
    size_t n = sizeof rows / sizeof *rows;
    print(r, rows, n);
    if (r->plan->json) {
        json_t *j = as_json(r, rows, n);
        if (!j || json_dump_file(j, r->plan->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9))) {
            fprintf(stderr, "steno-load: cannot write %s\n", r->plan->json);
            json_decref(j);
            return EX_CANTCREAT;
        }
        json_decref(j);
    }
    return judge(r);
}
