#include "protocol/whisper_asr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "protocol/json_text.h"
#include "protocol/subtitle.h"
#include "protocol/then.h"
#include "protocol/word.h"

/* ---- the query ------------------------------------------------------------------------------- */

static const char *const extensions[] = {[STENO_WHISPER_ASR_TXT] = "txt",
                                         [STENO_WHISPER_ASR_JSON] = "json",
                                         [STENO_WHISPER_ASR_SRT] = "srt",
                                         [STENO_WHISPER_ASR_VTT] = "vtt",
                                         [STENO_WHISPER_ASR_TSV] = "tsv"};

const char *steno_whisper_asr_extension(enum steno_whisper_asr_output output)
{
    return extensions[output];
}

/* The service's own documentation says "text" for txt, and clients send it. */
static steno_status set_output(struct steno_whisper_asr_wants *w, const char *value, steno_err *err)
{
    if (!strcmp(value, "text"))
        value = "txt";
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        if (!strcmp(value, extensions[i])) {
            w->output = (enum steno_whisper_asr_output)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL,
                      "output: '%.40s' is not one of txt, json, srt, vtt, tsv", value);
}

static steno_status set_task(struct steno_openai_request *ask, const char *value, steno_err *err)
{
    ask->hints.translate = !strcmp(value, "translate");
    if (ask->hints.translate || !strcmp(value, "transcribe"))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "task: '%.40s' is neither transcribe nor translate",
                      value);
}

/* As FastAPI reads it (pydantic's bool): Python's clients write True and False. */
static steno_status read_bool(const char *name, const char *value, bool *out, steno_err *err)
{
    static const char *const words[2][6] = {{"false", "0", "no", "off", "f", "n"},
                                            {"true", "1", "yes", "on", "t", "y"}};
    for (int is = 0; is < 2; is++)
        for (size_t i = 0; i < 6; i++)
            if (!strcasecmp(value, words[is][i])) {
                *out = is;
                return STENO_OK;
            }
    return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is neither true nor false", name, value);
}

static steno_status set_encode(struct steno_whisper_asr_wants *w, const char *value, steno_err *err)
{
    bool encode = true;
    steno_status st = read_bool("encode", value, &encode, err);
    w->raw = !encode;
    return st;
}

steno_status steno_whisper_asr_query(struct steno_openai_request *ask,
                                     struct steno_whisper_asr_wants *wants, const char *name,
                                     const char *value, steno_err *err)
{
    if (!strcmp(name, "output"))
        return set_output(wants, value, err);
    if (!strcmp(name, "task"))
        return set_task(ask, value, err);
    if (!strcmp(name, "encode"))
        return set_encode(wants, value, err);
    if (!strcmp(name, "language"))
        return steno_hint_set(&ask->hints, name, value, err);
    if (!strcmp(name, "initial_prompt"))
        return steno_hint_set(&ask->hints, "prompt", value, err);
    if (!strcmp(name, "vad_filter"))
        return read_bool(name, value, &ask->vad_filter, err);
    if (!strcmp(name, "diarize"))
        return read_bool(name, value, &ask->voices.on, err);
    if (!strcmp(name, "word_timestamps"))
        return read_bool(name, value, &wants->words, err);
    return STENO_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A segment's text without blanks at its ends. */
static const char *stripped(const steno_transcript *t, size_t i, size_t *n)
{
    const char *text = steno_transcript_segment_text(t, i);
    text += strspn(text, " ");
    *n = strlen(text);
    while (*n && text[*n - 1] == ' ')
        --*n;
    return text;
}

#define LABEL 32 /* bytes */

/* WhisperX's label of who speaks segment i; "": it is not known. */
static const char *label_of(const steno_transcript *t, size_t i, char out[LABEL])
{
    const unsigned speaker = steno_transcript_segment_speaker(t, i);
    *out = '\0';
    if (speaker)
        snprintf(out, LABEL, "SPEAKER_%02u", speaker - 1);
    return out;
}

/* Append a line for each segment, with its times before it if tabs. */
static steno_status put_cue_lines(struct steno_buf *out, const steno_transcript *t, bool tabs)
{
    steno_status st = tabs ? steno_buf_puts(out, "start\tend\ttext\n") : STENO_OK;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        const unsigned channel = steno_transcript_segment_channel(t, i);
        size_t n;
        const char *text = stripped(t, i, &n);
        char label[LABEL];
        if (tabs)
            THEN(st, steno_buf_printf(out, "%lld\t%lld\t", llround(1000 * seg->start),
                                      llround(1000 * seg->end)));
        if (*label_of(t, i, label))
            THEN(st, steno_buf_printf(out, "[%s]: ", label));
        else if (channel)
            THEN(st, steno_buf_printf(out, "Channel %u: ", channel));
        for (size_t k = 0; k < n && tabs; k++)
            THEN(st, steno_buf_add(out, text[k] == '\t' ? " " : text + k, 1));
        if (!tabs)
            THEN(st, steno_buf_add(out, text, n));
        THEN(st, steno_buf_puts(out, "\n"));
    }
    return st;
}

static steno_status write_json(struct steno_buf *out, const struct steno_openai_result *r,
                               bool words)
{
    steno_transcript *t = r->transcript;
    const size_t n = steno_transcript_n_segments(t);
    const bool spaced = n && *steno_transcript_segment_text(t, 0) == ' ';
    steno_status st = steno_buf_puts(out, "{");
    THEN(st, steno_json_put_spaced(out, "text", steno_transcript_text(t), spaced));
    THEN(st, steno_buf_puts(out, ",\"segments\":["));
    for (size_t i = 0; i < n; i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        char label[LABEL];
        THEN(st, steno_openai_open_segment(out, seg, i, steno_transcript_segment_channel(t, i)));
        if (*label_of(t, i, label))
            THEN(st, steno_buf_printf(out, ",\"speaker\":\"%s\"", label));
        if (words) {
            THEN(st, steno_buf_puts(out, ",\"words\":"));
            THEN(st, steno_words_write(out, steno_transcript_segment_text(t, i), seg->words,
                                       seg->n_words, true, label));
        }
        THEN(st, steno_buf_puts(out, "}"));
    }
    return THEN(st, steno_json_printf(out, "],\"language\":%s}", r->language ? r->language : ""));
}

steno_status steno_whisper_asr_write(struct steno_buf *out, const struct steno_openai_result *r,
                                     const struct steno_whisper_asr_wants *wants)
{
    struct steno_subtitle_options opt = wants->subtitle;
    opt.blank_end = true;
    switch (wants->output) {
    case STENO_WHISPER_ASR_JSON:
        return write_json(out, r, wants->words);
    case STENO_WHISPER_ASR_SRT:
        return steno_subtitle_write(out, r->transcript, STENO_SRT, &opt);
    case STENO_WHISPER_ASR_VTT:
        return steno_subtitle_write(out, r->transcript, STENO_VTT, &opt);
    case STENO_WHISPER_ASR_TXT:
    case STENO_WHISPER_ASR_TSV:
        break;
    }
    return put_cue_lines(out, r->transcript, wants->output == STENO_WHISPER_ASR_TSV);
}

steno_status steno_whisper_asr_write_language(struct steno_buf *out,
                                              const struct steno_openai_result *r)
{
    const bool any = r->language && *r->language;
    const char *code = any ? r->language : "und";
    const char *name = any ? steno_openai_language(code) : "undetermined";
    steno_status st =
        steno_json_printf(out, "{\"detected_language\":%s,\"language_code\":%s", name, code);
    return THEN(st, steno_buf_printf(out, ",\"confidence\":%.6g}",
                                     any ? (double)r->language_probability : 0.0));
}

steno_status steno_whisper_asr_write_error(struct steno_buf *out, const char *message)
{
    return steno_json_printf(out, "{\"detail\":%s}\n", message);
}
