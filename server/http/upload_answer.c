/* The answer of an upload in each form: one body, or server-sent events while the job runs. */
#include "server/http/upload_internal.h"

#include "protocol/deepgram.h"
#include "protocol/query.h"
#include "protocol/result_json.h"
#include "protocol/subtitle.h"
#include "protocol/whisperx.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the body -------------------------------------------------------------------------------- */

static steno_status write_openai(struct steno_upload *up, const struct steno_openai_result *r)
{
    if (up->want.ask.format == STENO_OPENAI_VERBOSE_JSON)
        return steno_openai_write_verbose(&up->out.answer, r, up->want.ask.words,
                                          up->want.ask.segments);
    if (up->want.ask.format == STENO_OPENAI_DIARIZED_JSON)
        return steno_openai_write_diarized(&up->out.answer, r);
    return steno_openai_write_json(&up->out.answer, r);
}

static steno_status write_native(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_result_json_options opt = {.no_words = up->want.no_words,
                                                  .characters = up->want.characters,
                                                  .model = up->served->name,
                                                  .language = r->language,
                                                  .language_probability = r->language_probability,
                                                  .warning = r->warning};
    steno_status st = steno_result_json_write(&up->out.answer, r->transcript, &opt);
    return st ? st : steno_buf_puts(&up->out.answer, "\n");
}

static steno_status write_deepgram(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_model_info *info = &up->served->info;
    const size_t n = steno_transcript_n_channels(r->transcript);
    char id[STENO_DEEPGRAM_ID];
    const struct steno_deepgram_about about = {.request_id = id,
                                               .sha256 = up->in.sha256,
                                               .model = up->served->name,
                                               .version = info->version,
                                               .family = info->family,
                                               .channels = n ? (int)n : 1,
                                               .created = (int64_t)time(NULL),
                                               .wants = up->want.deepgram};
    steno_deepgram_request_id(up->client.id, id);
    return steno_deepgram_write(&up->out.answer, r, &about);
}

static steno_status write_whisper_cpp(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_whisper_cpp_about about = {
        .wants = &up->want.cpp,
        .subtitle = up->want.subtitle,
        .temperature = up->want.ask.temperature,
        .detected = up->served->info.detects_language &&
                    !steno_language_code(up->want.ask.hints.language)}; /* "", "auto" */
    return steno_whisper_cpp_write(&up->out.answer, up->want.ask.format, r, &about);
}

/* A model of one language has nothing to detect: it is certain. */
static steno_status write_language(struct steno_upload *up, const struct steno_openai_result *r)
{
    struct steno_openai_result certain = *r;
    if (!up->served->info.detects_language && *up->served->info.language)
        certain.language_probability = 1;
    return steno_whisper_asr_write_language(&up->out.answer, &certain);
}

static steno_status write_usual(struct steno_upload *up, const struct steno_openai_result *r)
{
    const struct steno_whisper_asr_wants tsv = {.output = STENO_WHISPER_ASR_TSV};
    steno_status st;
    switch (up->want.ask.format) {
    case STENO_OPENAI_SRT:
        return steno_subtitle_write(&up->out.answer, r->transcript, STENO_SRT, &up->want.subtitle);
    case STENO_OPENAI_VTT:
        return steno_subtitle_write(&up->out.answer, r->transcript, STENO_VTT, &up->want.subtitle);
    case STENO_OPENAI_LRC:
        return steno_subtitle_write(&up->out.answer, r->transcript, STENO_LRC, &up->want.subtitle);
    case STENO_OPENAI_TSV:
        return steno_whisper_asr_write(&up->out.answer, r, &tsv);
    case STENO_OPENAI_WHISPERX:
        st = steno_whisperx_write(&up->out.answer, r->transcript, r->language, up->want.characters);
        return st ? st : steno_buf_puts(&up->out.answer, "\n");
    case STENO_OPENAI_TEXT:
        st = steno_transcript_n_speakers(r->transcript)
                 ? steno_voices_write_text(&up->out.answer, r->transcript)
                 : steno_buf_puts(&up->out.answer, steno_transcript_text(r->transcript));
        return st ? st : steno_buf_puts(&up->out.answer, "\n");
    case STENO_OPENAI_JSON:
    case STENO_OPENAI_VERBOSE_JSON:
    case STENO_OPENAI_DIARIZED_JSON:
        break;
    }
    if (up->form == STENO_UPLOAD_DEEPGRAM)
        return write_deepgram(up, r);
    return up->form == STENO_UPLOAD_OPENAI ? write_openai(up, r) : write_native(up, r);
}

steno_status steno_upload_write(struct steno_upload *up, const struct steno_openai_result *r)
{
    if (up->form == STENO_UPLOAD_WHISPER_CPP)
        return write_whisper_cpp(up, r);
    up->want.asr.subtitle = up->want.subtitle;
    if (up->form == STENO_UPLOAD_WHISPER_ASR)
        return steno_whisper_asr_write(&up->out.answer, r, &up->want.asr);
    return up->form == STENO_UPLOAD_DETECT ? write_language(up, r) : write_usual(up, r);
}

const char *steno_upload_media_type(const struct steno_upload *up)
{
    if (up->form == STENO_UPLOAD_WHISPER_ASR) /* whatever the output is */
        return "text/plain; charset=utf-8";
    return steno_openai_media_type(up->form == STENO_UPLOAD_DETECT ? STENO_OPENAI_JSON
                                                                   : up->want.ask.format);
}

/* Write whisper-asr-webservice's Content-Disposition. */
static void write_disposition(const struct steno_upload *up, char *out, size_t size)
{
    struct steno_buf name;
    steno_buf_init(&name, size);
    if (steno_query_encode(&name, *up->in.file_name ? up->in.file_name : "audio"))
        steno_buf_reset(&name);
    snprintf(out, size, "attachment; filename=\"%s.%s\"", name.data ? name.data : "",
             steno_whisper_asr_extension(up->want.asr.output));
    steno_buf_free(&name);
}

void steno_upload_write_headers(const struct steno_upload *up, struct steno_upload_headers *out)
{
    size_t n = 0;
    if (up->served)
        out->v[n++] = (struct steno_header){"X-Steno-Model", up->served->name};
    if (*up->out.warning)
        out->v[n++] = (struct steno_header){"X-Steno-Warning", up->out.warning};
    if (up->form == STENO_UPLOAD_WHISPER_ASR) {
        write_disposition(up, out->disposition, sizeof out->disposition);
        out->v[n++] = (struct steno_header){"Asr-Engine", "steno"};
        out->v[n++] = (struct steno_header){"Content-Disposition", out->disposition};
    }
    out->v[n] = (struct steno_header){NULL, NULL};
}

struct steno_openai_result steno_upload_result(const struct steno_upload *up,
                                               const struct steno_transcription_result *r)
{
    struct steno_openai_result out = {.transcript = r->transcript,
                                      .language = up->served->info.language,
                                      .translated = up->want.ask.hints.translate,
                                      .duration = r->duration,
                                      .logprobs = up->want.ask.logprobs,
                                      .speakers = &up->want.ask.speakers,
                                      .warning = *r->warning ? r->warning : NULL};
    const char *language =
        r->transcript ? steno_transcript_language(r->transcript, &out.language_probability) : NULL;
    if (!language && !*out.language) /* silence: what was asked for is all that is known */
        language = steno_language_code(up->want.ask.hints.language);
    if (language)
        out.language = language;
    return out;
}

/* ---- server-sent events ---------------------------------------------------------------------- */

void steno_upload_resume(struct steno_upload *up)
{
    if (!up->client.suspended)
        return;
    up->client.suspended = false;
    MHD_resume_connection(up->client.conn);
}

/* Lock held. Add the part of a segment's stable text that the client does not have yet to the
 * events. */
static void add_delta(struct steno_upload *up, const struct steno_event *ev, size_t stable)
{
    if (ev->segment != up->sse.segment) {
        up->sse.segment = ev->segment;
        up->sse.sent_bytes = 0;
    }
    if (stable <= up->sse.sent_bytes || up->sse.failure)
        return;
    if (!up->sse.sent_bytes && up->sse.any_sent)
        up->sse.failure = steno_openai_write_delta(&up->sse.events, " ", 1, up->sse.sent_channel);
    if (!up->sse.failure)
        up->sse.failure =
            steno_openai_write_delta(&up->sse.events, ev->text + up->sse.sent_bytes,
                                     stable - up->sse.sent_bytes, up->sse.sent_channel);
    up->sse.sent_bytes = stable;
    up->sse.any_sent = true;
    steno_upload_resume(up);
}

/* Lock held. The same for a model that cuts: a delta for each section that is complete. */
static void add_sections(struct steno_upload *up, const struct steno_event *ev)
{
    if (ev->segment != up->sse.segment) {
        up->sse.segment = ev->segment;
        up->sse.sent_sections = 0;
    }
    for (; up->sse.sent_sections < ev->n_sections && !up->sse.failure; up->sse.sent_sections++) {
        const char *text = ev->sections[up->sse.sent_sections].text;
        if (!up->sse.any_sent)
            text += strspn(text, " ");
        if (!*text)
            continue;
        up->sse.failure =
            steno_openai_write_delta(&up->sse.events, text, strlen(text), up->sse.sent_channel);
        up->sse.any_sent = true;
    }
    steno_upload_resume(up);
}

void steno_upload_enter_channel(struct steno_upload *up, unsigned channel)
{
    if (!up->sse.sent_channel)
        up->sse.sent_channel = 1;
    if (channel == up->sse.sent_channel)
        return;
    while (up->sse.sent_channel < channel && !up->sse.failure)
        up->sse.failure =
            steno_openai_write_delta(&up->sse.events, "\n", 1, ++up->sse.sent_channel);
    up->sse.segment = -1;
    up->sse.any_sent = false;
    steno_upload_resume(up);
}

void steno_upload_on_event(void *user, unsigned channel, const struct steno_event *ev)
{
    struct steno_upload *up = user;
    if (ev->kind == STENO_SPEECH_START)
        return;
    pthread_mutex_lock(&up->lock);
    if (channel)
        steno_upload_enter_channel(up, channel);
    if (up->served->info.cuts)
        add_sections(up, ev);
    else
        add_delta(up, ev, ev->kind == STENO_FINAL ? strlen(ev->text) : ev->stable_bytes);
    if (up->want.ask.format == STENO_OPENAI_DIARIZED_JSON && !up->want.ask.voices.on &&
        ev->kind == STENO_FINAL && !up->sse.failure)
        up->sse.failure = steno_openai_write_segment_events(
            &up->sse.events, ev, channel, &up->want.ask.speakers, &up->sse.told_segments);
    pthread_mutex_unlock(&up->lock);
}

static ssize_t read_events(void *ctx, uint64_t pos, char *out, size_t max)
{
    struct steno_upload *up = ctx;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&up->lock);
    if (up->sse.events.len) {
        n = (ssize_t)(up->sse.events.len < max ? up->sse.events.len : max);
        memcpy(out, up->sse.events.data, (size_t)n);
        steno_buf_drop(&up->sse.events, (size_t)n);
    } else if (up->out.over) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
        up->sse.ended = true;
    } else {
        up->client.suspended = true;
        MHD_suspend_connection(up->client.conn);
    }
    pthread_mutex_unlock(&up->lock);
    return n;
}

enum MHD_Result steno_upload_respond_events(struct steno_request *rq, struct steno_upload *up)
{
    const struct steno_header headers[] = {{"X-Steno-Model", up->served->name}, {NULL, NULL}};
    return steno_respond_stream(rq, 200, "text/event-stream", headers, read_events, up);
}
