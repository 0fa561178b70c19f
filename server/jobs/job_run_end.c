/* How a run ends: its result is stored, the job has failed, or it is queued again. */
#include "server/jobs/job_runner_internal.h"

#include "base/clock.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define AGAIN (5 * SECOND) /* until the store is tried again that could not take a result */
#define BACKOFF_MS 10000   /* after the first try; four times as long after the second */

int64_t steno_job_runner_lease_ms(const steno_job_runner *r)
{
    return (int64_t)(r->sv->srv->conf->jobs_lease * 1000);
}

/* A place is free: whoever waits looks now. */
static void look_again(struct steno_job_runner *r)
{
    r->next_claim = 0;
    for (int i = 0; i < r->n; i++)
        if (r->runs[i].phase == WAITING)
            r->runs[i].next = 0;
}

/* A run belongs to the trace of its request, though it may begin days later, and on another
 * machine. A job of a request without a trace begins one. */
static void trace_run(const struct steno_job_run *x)
{
    struct steno_trace_report r = {.trace = x->trace,
                                   .start_ns = x->began,
                                   .end_ns = steno_now_ns(),
                                   .kind = STENO_TRACE_RUN,
                                   .api = steno_session_api_name(STENO_SESSION_JOB),
                                   .failed = x->counted || x->end.state == STENO_JOB_FAILED,
                                   .audio_seconds = x->pool.audio_seconds};
    snprintf(r.job, sizeof r.job, "%s", x->rec.id);
    snprintf(r.result, sizeof r.result, "%s", x->outcome ? x->outcome : "cancelled");
    snprintf(r.key, sizeof r.key, "%s", x->rec.owner);
    snprintf(r.model, sizeof r.model, "%s", x->up && x->up->served ? x->up->served->label : "");
    steno_trace_pool_phases(&r, &x->pool);
    if (x->result_ns) /* the result is written and stored */
        r.phases[STENO_PHASE_ANSWER] = (struct steno_phase_time){x->result_ns, r.end_ns, 0};
    steno_tracer_report(x->r->sv->srv->tracer, &r);
}

void steno_job_run_clear(struct steno_job_run *x)
{
    if (steno_trace_recorded(&x->trace))
        trace_run(x);
    if (x->work)
        steno_transcription_free(x->work);
    if (x->fd >= 0)
        close(x->fd);
    steno_spool_discard(x->file);
    for (size_t i = 0; i < x->end.n_results; i++)
        free((void *)(uintptr_t)x->bodies[i].text);
    if (x->up)
        steno_upload_free(x->up);
    look_again(x->r);
    if (x->r->q->ops->get_audio) /* the spool has a copy only */
        steno_spool_remove(x->r->spool, x->rec.id);
    pthread_mutex_lock(&x->r->lock);
    steno_job_record_free(&x->rec);
    steno_buf_free(&x->texts);
    free(x->segments);
    *x = (struct steno_job_run){.r = x->r, .fd = -1, .cutting = -1};
    steno_buf_init(&x->texts, STENO_JOB_SEGMENTS_MAX);
    pthread_mutex_unlock(&x->r->lock);
}

void steno_job_runner_complain(steno_job_runner *r, const char *msg)
{
    const int64_t now = steno_now_ns();
    if (now < r->quiet)
        return;
    r->quiet = now + 60 * SECOND;
    steno_log(LOG_ERR, "jobs: %s", msg);
}

static void note_end(struct steno_job_run *x, enum steno_job_state state)
{
    const char *id = x->rec.id;
    x->outcome = steno_job_state_name(state);
    steno_metric_add(x->r->metrics->ended[state], 1);
    const struct steno_log_field fields[] = {
        {"job", id, 0},
        {"key", x->rec.owner, 0},
        {"state", steno_job_state_name(state), 0},
        {"tries", NULL, x->rec.attempts},
        {"audio_seconds", NULL, x->end.duration},
    };
    steno_log_event(LOG_INFO, "job", STENO_LOG_FIELDS(fields), "job %s: %s, try %d%s%s", id,
                    steno_job_state_name(state), x->rec.attempts, *x->reason ? ": " : "",
                    x->reason);
}

void steno_job_run_store_end(struct steno_job_run *x)
{
    steno_job_runner *r = x->r;
    steno_err err;
    steno_status st =
        r->q->ops->finish(r->q, x->rec.id, x->rec.attempts, steno_job_now(), &x->end, &err);
    x->phase = STORING;
    x->next = steno_now_ns() + AGAIN;
    if (st && st != STENO_ERR_CANCELLED) {
        steno_job_runner_complain(r, err.msg);
        /* the lease must not end meanwhile; it cannot be extended either where the disk is full */
        (void)!r->q->ops->heartbeat(r->q, x->rec.id, x->rec.attempts,
                                    steno_job_now() + steno_job_runner_lease_ms(r), &err);
        return;
    }
    if (!st) {
        note_end(x, x->end.state);
        steno_spool_remove(r->spool, x->rec.id);
    }
    steno_job_run_clear(x);
}

void steno_job_run_fail(struct steno_job_run *x, const char *code, const char *why)
{
    snprintf(x->reason, sizeof x->reason, "%s", why);
    snprintf(x->code, sizeof x->code, "%s", code);
    x->end = (struct steno_job_end){.state = STENO_JOB_FAILED,
                                    .reason = x->reason,
                                    .code = x->code,
                                    .model = x->up && x->up->served ? x->up->served->name : ""};
    steno_job_run_store_end(x);
}

void steno_job_run_release(struct steno_job_run *x)
{
    steno_job_runner *r = x->r;
    const int64_t now = steno_job_now();
    const struct steno_job_release how = {now, now + x->delay, x->counted, x->code, x->reason};
    bool failed = false;
    steno_err err;
    steno_status st = r->q->ops->release(r->q, x->rec.id, x->rec.attempts, &how, &failed, &err);
    if (st && st != STENO_ERR_CANCELLED) { /* the end of its lease would count as a try */
        steno_job_runner_complain(r, err.msg);
        x->phase = GIVING_UP;
        x->next = steno_now_ns() + SECOND;
        return;
    }
    if (!st)
        x->outcome = x->counted ? "failed try" : "interrupted";
    if (!st && failed) {
        note_end(x, STENO_JOB_FAILED);
        steno_spool_remove(r->spool, x->rec.id);
    } else if (!st && x->counted)
        steno_log(LOG_NOTICE, "job %s: try %d: %s", x->rec.id, x->rec.attempts, x->reason);
    steno_job_run_clear(x);
}

void steno_job_run_give_up(struct steno_job_run *x, bool counted, int64_t delay, const char *code,
                           const char *why)
{
    x->counted = counted;
    x->delay = delay;
    snprintf(x->reason, sizeof x->reason, "%s", why);
    snprintf(x->code, sizeof x->code, "%s", code);
    steno_job_run_release(x);
}

void steno_job_run_try_again(struct steno_job_run *x, const char *code, const char *why)
{
    steno_job_run_give_up(x, true, BACKOFF_MS << (2 * (x->rec.attempts - 1)), code, why);
}

bool steno_job_run_is_passing(steno_status st)
{
    return st == STENO_ERR_NOMEM || st == STENO_ERR_IO || st == STENO_ERR_INTERNAL;
}

/* ---- results --------------------------------------------------------------------------------- */

static steno_status write_body(struct steno_job_run *x, const char *format,
                               enum steno_upload_form form, enum steno_openai_format f,
                               const struct steno_openai_result *r)
{
    struct steno_job_body *b = &x->bodies[x->end.n_results];
    steno_status st;
    x->up->form = form;
    x->up->want.ask.format = f;
    st = steno_upload_write(x->up, r);
    if (st)
        return st;
    b->format = format;
    b->text = steno_buf_take(&x->up->out.answer, &b->len);
    x->end.n_results++;
    return STENO_OK;
}

/* Write the result in the format of the job's parameters, if it is none that every job has. */
static steno_status write_asked(struct steno_job_run *x, enum steno_openai_format asked,
                                const struct steno_openai_result *r)
{
    const char *name = asked == STENO_OPENAI_LRC        ? "lrc"
                       : asked == STENO_OPENAI_TSV      ? "tsv"
                       : asked == STENO_OPENAI_WHISPERX ? "whisperx"
                                                        : NULL;
    return name ? write_body(x, name, STENO_UPLOAD_NATIVE, asked, r) : STENO_OK;
}

void steno_job_run_store_result(struct steno_job_run *x, const struct steno_transcription_result *r)
{
    const struct steno_openai_result out = steno_upload_result(x->up, r);
    const enum steno_openai_format asked = x->up->want.ask.format;
    steno_status st;
    x->end = (struct steno_job_end){.state = STENO_JOB_DONE,
                                    .reason = r->warning,
                                    .code = "",
                                    .model = x->up->served->name,
                                    .duration = r->duration,
                                    .results = x->bodies};
    st = write_body(x, "json", STENO_UPLOAD_NATIVE, STENO_OPENAI_JSON, &out);
    if (!st)
        st = write_body(x, "srt", STENO_UPLOAD_NATIVE, STENO_OPENAI_SRT, &out);
    if (!st)
        st = write_body(x, "vtt", STENO_UPLOAD_NATIVE, STENO_OPENAI_VTT, &out);
    if (!st)
        st = write_body(x, "text", STENO_UPLOAD_NATIVE, STENO_OPENAI_TEXT, &out);
    if (!st)
        st = write_asked(x, asked, &out);
    if (!st && x->rec.form == STENO_JOB_DEEPGRAM)
        st = write_body(x, "deepgram", STENO_UPLOAD_DEEPGRAM, STENO_OPENAI_JSON, &out);
    if (st)
        steno_job_run_try_again(x, steno_status_info(st)->name, "the result could not be written");
    else
        steno_job_run_store_end(x);
}

void steno_job_run_observe(struct steno_job_run *x, const struct steno_transcription_result *r)
{
    const struct steno_server *srv = x->r->sv->srv;
    x->pool = r->stats;
    x->result_ns = steno_now_ns();
    if (r->status)
        steno_stats_decode_error(srv->stats, STENO_SESSION_JOB, r->status);
    steno_stats_audio(srv->stats, STENO_SESSION_JOB, r->received, 0, &r->stats, x->up->trace);
    if (r->stats.audio_seconds > 0)
        (void)!steno_key_audio(srv->keys, x->up->key, steno_now_ns(), r->stats.audio_seconds, NULL,
                               NULL);
}
