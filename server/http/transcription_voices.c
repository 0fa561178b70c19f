/* Who speaks in a recording: it is decoded once more, and goes through the networks on threads for
 * this alone. */
#include "server/http/transcriber_internal.h"

#include "base/clock.h"
#include "protocol/openai_rest.h"
#include "server/base/log.h"
#include "server/http/known_voices.h"

#include <stdio.h>
#include <stdlib.h>

#define TELLING_BLOCKS 4 /* of an iteration: they go through networks */

/* Open the recording once more. STENO_NEED_MORE as of open_audio. */
static steno_status open_voices(steno_transcription *work, steno_err *err)
{
    const struct steno_voices_wants *w = &work->req.voices;
    const struct steno_speaker_options opt = {.speakers = work->req.print_only ? 1 : w->speakers,
                                              .min_speakers = w->min,
                                              .max_speakers = w->max};
    struct steno_audio_info info;
    steno_status st = steno_transcription_open_audio(work, &info, err);
    if (st)
        return st;
    work->rate = info.sample_rate;
    return steno_diarization_open(&work->voices, work->transcriber->srv->speakers, work->rate, &opt,
                                  err);
}

/* The names of the speakers found, those of known voices: names [speakers], NULL for others. They
 * are those of the request and of `enrolled`. */
static steno_status name_voices(steno_transcription *work, const steno_enrolled *enrolled,
                                const char **names, steno_err *err)
{
    static const struct steno_known_voices none;
    const struct steno_known_voices *known = work->req.known ? work->req.known : &none;
    const size_t n = (size_t)steno_diarization_speakers(work->voices);
    struct steno_enrolled_speaker person;
    int *who = malloc((n + 1) * sizeof *who), mute;
    steno_status st = who ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_known_voices_identify(known, enrolled, work->transcriber->srv->speakers,
                                         work->voices, who, &mute, err);
    for (size_t k = 0; !st && k < n; k++)
        if (who[k] >= 0 && who[k] < known->n)
            names[k] = work->req.known_names->names[who[k]];
        else if (who[k] >= 0 && steno_enrolled_at(enrolled, (size_t)(who[k] - known->n), &person))
            names[k] = person.name;
    free(who);
    if (!st && mute) {
        char text[96];
        snprintf(text, sizeof text,
                 STENO_KNOWN_VOICE_FIELD "[]: number %d has too little speech to be known by",
                 mute);
        steno_transcription_warn(work, text);
    }
    return st;
}

/* Read who is enrolled. What is wrong there costs names, and no transcript. */
static steno_enrolled *open_enrolled(steno_transcription *work)
{
    steno_enrolled *enrolled;
    steno_err err;
    if (!steno_server_enrolled(work->transcriber->srv, work->req.key, &enrolled, &err))
        return enrolled;
    steno_transcription_warn(work, "enrolled speakers could not be read: they have no names");
    steno_log(LOG_WARNING, "speakers.store: %s", err.msg);
    return NULL;
}

/* Give the transcript its speakers. */
static steno_status tell_turns(steno_transcription *work, const steno_enrolled *enrolled,
                               const char **names, steno_err *err)
{
    struct steno_transcription_result *r = &work->result;
    const bool known = enrolled || (work->req.known && work->req.known->n);
    steno_status st = known ? name_voices(work, enrolled, names, err) : STENO_OK;
    size_t n;
    const struct steno_turn *turn = steno_diarization_exclusive(work->voices, &n);
    steno_transcript *told =
        st ? NULL : steno_transcript_with_voices(r->transcript, turn, n, names);
    if (st)
        return st;
    if (!told)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the speakers");
    steno_transcript_free(r->transcript);
    r->transcript = told;
    return STENO_OK;
}

/* The recording is over: the transcript gets its speakers. */
static steno_status end_voices(steno_transcription *work, steno_err *err)
{
    steno_enrolled *enrolled;
    const char **names;
    steno_status st = steno_diarization_end(work->voices, err);
    if (st)
        return st;
    enrolled = open_enrolled(work);
    names = calloc((size_t)steno_diarization_speakers(work->voices) + 1, sizeof *names);
    st = names ? tell_turns(work, enrolled, names, err)
               : steno_fail(err, STENO_ERR_NOMEM, "out of memory for the speakers");
    free(names);
    steno_enrolled_close(enrolled);
    if (st)
        return st;
    steno_diarization_close(work->voices);
    work->voices = NULL;
    work->decoded = work->before;
    steno_transcription_close_audio(work);
    return STENO_OK;
}

/* The recording is over, or as much of it as is wanted: make the print. */
static steno_status end_print(steno_transcription *work, steno_err *err)
{
    const steno_speakers *speakers = work->transcriber->srv->speakers;
    struct steno_transcription_result *r = &work->result;
    steno_status st = steno_diarization_end(work->voices, err);
    if (st)
        return st;
    r->duration = r->stats.audio_seconds = steno_diarization_seconds(work->voices);
    r->print = malloc(steno_speaker_print_floats(speakers) * sizeof *r->print);
    return r->print
               ? steno_diarization_print(work->voices, speakers, r->print, &r->print_seconds, err)
               : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* Go on until the speakers are told, or the iteration has done its share. *told, *again: the
 * former, the latter; neither: the waker wakes the transcription. */
static steno_status tell_speakers(steno_transcription *work, bool *told, bool *again,
                                  steno_err *err)
{
    float block[STENO_TRANSCRIPTION_BLOCK];
    size_t n;
    steno_status st = work->voices ? STENO_OK : open_voices(work, err);
    for (int i = 0; i < TELLING_BLOCKS && !st; i++) {
        st = steno_transcription_decode(work, block, steno_transcription_wanted(work), &n, err);
        if (!st && !n) {
            *told = true;
            return work->req.print_only ? end_print(work, err) : end_voices(work, err);
        }
        if (!st)
            st = steno_diarization_push(work->voices, block, n, err);
        if (!st)
            steno_metric_add(work->transcriber->srv->stats->speakers_audio, (double)n / work->rate);
    }
    *again = !st;
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

/* The same, and count its processor time. */
steno_status steno_transcription_tell(steno_transcription *work, bool *told, bool *again,
                                      steno_err *err)
{
    const int64_t begun = steno_thread_ns();
    const steno_status st = tell_speakers(work, told, again, err);
    steno_metric_add(work->transcriber->srv->stats->speakers_cpu,
                     (double)(steno_thread_ns() - begun) * 1e-9);
    return st;
}
