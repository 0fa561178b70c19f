/* Times of a transcript's words by a model that aligns them: the recording goes through it once
 * more. */
#include "server/http/transcriber_internal.h"

#include "protocol/word_times.h"

#include <stdio.h>

bool steno_transcription_wants_words(const steno_transcription *work)
{
    return work->req.aligned && work->words == WORDS_PLAIN;
}

/* What is spoken, as far as it is known; NULL: it is not. */
static const char *language_of(const steno_transcription *work)
{
    float probability;
    const char *language = steno_transcript_language(work->result.transcript, &probability);
    if (!language)
        language = work->req.served->info.language;
    return *language ? language : work->req.hints.language;
}

static void warn(steno_transcription *work, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "word_times: words have the times of %.40s: %.90s",
             work->req.served->name, why);
    steno_transcription_warn(work, text);
}

bool steno_transcription_begin_words(steno_transcription *work)
{
    const struct steno_server *srv = work->transcriber->srv;
    steno_err err;
    steno_status st;
    work->words = WORDS_DONE;
    if (!steno_transcript_n_segments(work->result.transcript))
        return false;
    st = steno_models_acquire_aligner(srv->models, language_of(work), &work->aligner, &err);
    if (!st && !work->aligner)
        st = steno_fail(&err, STENO_ERR_INVAL, STENO_NO_ALIGNER);
    if (!st)
        st = steno_word_times_lines(&work->lines, work->result.transcript, &err);
    if (st) {
        warn(work, err.msg);
        steno_transcription_drop_words(work);
        return false;
    }
    work->words = WORDS_RUNNING;
    return true;
}

steno_status steno_transcription_open_words(steno_transcription *work, steno_pool_fn fn,
                                            steno_err *err)
{
    const struct steno_pool_stream_options so = {
        .stream = {.sample_rate = work->rate, .no_partials = true},
        .priority = work->req.background ? STENO_POOL_JOB : STENO_POOL_UPLOAD,
        .owner = work->req.owner,
        .lines = work->lines.lines,
        .n_lines = work->lines.n};
    return steno_pool_stream_open(&work->stream, work->aligner->pool, &so, fn, work, err);
}

void steno_transcription_drop_words(steno_transcription *work)
{
    steno_text_lines_free(&work->lines);
    steno_models_release(work->transcriber->srv->models, work->aligner);
    work->aligner = NULL;
}

void steno_transcription_end_words(steno_transcription *work, steno_status st, const steno_err *err)
{
    if (st)
        warn(work, err->msg);
    work->words = WORDS_DONE;
    steno_transcription_drop_words(work);
}
