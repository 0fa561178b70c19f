#include "tools/cli/output.h"

#include "tools/cli/cli.h"

#include <stdio.h>

#include "protocol/result_json.h"
#include "protocol/voices.h"
#include "protocol/whisper_asr.h"
#include "protocol/whisperx.h"

static void print_words(const struct steno_event *ev)
{
    for (size_t i = 0; i < ev->n_words; i++)
        printf("%.2f %.2f %.3f %s\n", ev->words[i].start, ev->words[i].end,
               (double)ev->words[i].confidence, ev->words[i].text);
}

static steno_status write_text(struct steno_buf *b, const struct cli_output *o, steno_transcript *t)
{
    steno_status st = STENO_OK;
    if (o->words) {
        for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
            print_words(steno_transcript_segment(t, i));
        return STENO_OK;
    }
    st = o->speakers ? steno_voices_write_text(b, t) : steno_buf_puts(b, steno_transcript_text(t));
    return st ? st : steno_buf_puts(b, "\n");
}

/* openai-whisper's table and JSON. */
static steno_status write_whisper(struct steno_buf *b, const struct cli_output *o,
                                  steno_transcript *t, const char *language, float probability)
{
    const struct steno_whisper_asr_wants want = {
        .output = o->format == CLI_FORMAT_WHISPER ? STENO_WHISPER_ASR_JSON : STENO_WHISPER_ASR_TSV,
        .words = true};
    const struct steno_openai_result result = {
        .transcript = t, .language = language, .language_probability = probability};
    return steno_whisper_asr_write(b, &result, &want);
}

static steno_status write_any(struct steno_buf *b, const struct cli_output *o, steno_transcript *t)
{
    struct steno_result_json_options json = {
        .file = o->file, .model = o->model, .characters = o->characters};
    json.language = steno_transcript_language(t, &json.language_probability);
    if (!json.language)
        json.language = o->language;
    switch (o->format) {
    case CLI_FORMAT_JSON:
        return steno_result_json_write(b, t, &json);
    case CLI_FORMAT_SRT:
        return steno_subtitle_write(b, t, STENO_SRT, &o->subtitle);
    case CLI_FORMAT_VTT:
        return steno_subtitle_write(b, t, STENO_VTT, &o->subtitle);
    case CLI_FORMAT_LRC:
        return steno_subtitle_write(b, t, STENO_LRC, &o->subtitle);
    case CLI_FORMAT_TSV:
    case CLI_FORMAT_WHISPER:
        return write_whisper(b, o, t, json.language, json.language_probability);
    case CLI_FORMAT_WHISPERX:
        return steno_whisperx_write(b, t, json.language, o->characters);
    case CLI_FORMAT_TEXT:
    case CLI_FORMAT_NBEST:
        break;
    }
    return write_text(b, o, t);
}

steno_status cli_output_print(const struct cli_output *o, steno_transcript *t, steno_err *err)
{
    const bool line = o->format == CLI_FORMAT_JSON || o->format == CLI_FORMAT_WHISPER ||
                      o->format == CLI_FORMAT_WHISPERX;
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, CLI_MAX_OUTPUT);
    st = write_any(&b, o, t);
    if (!st && line)
        st = steno_buf_puts(&b, "\n");
    if (st)
        st = steno_fail(err, st, "result too long");
    else if (b.data)
        fputs(b.data, stdout);
    steno_buf_free(&b);
    cli_flush();
    return st;
}
