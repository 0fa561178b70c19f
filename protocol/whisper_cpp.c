#include "protocol/whisper_cpp.h"

#include <limits.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/then.h"
#include "protocol/word.h"

#define BEST_OF_MAX 32 /* of the option */

/* ---- fields ---------------------------------------------------------------------------------- */

/* What a field sets. */
struct taken {
    struct steno_openai_request *ask;
    struct steno_whisper_cpp_wants *wants;
};

/* As the server reads it: what is not true is false. */
static bool is_true(const char *value)
{
    return !strcmp(value, "true") || !strcmp(value, "1") || !strcmp(value, "yes") ||
           !strcmp(value, "y");
}

/* An unknown format is json, as with the server. */
static steno_status set_answer_format(struct taken *t, const char *name, const char *value,
                                      steno_err *err)
{
    static const struct {
        const char *name;
        enum steno_openai_format format;
    } formats[] = {{"text", STENO_OPENAI_TEXT},
                   {"srt", STENO_OPENAI_SRT},
                   {"vtt", STENO_OPENAI_VTT},
                   {"verbose_json", STENO_OPENAI_VERBOSE_JSON}};
    (void)name, (void)err;
    t->ask->format = STENO_OPENAI_JSON;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(value, formats[i].name))
            t->ask->format = formats[i].format;
    return STENO_OK;
}

static steno_status set_flag(struct taken *t, const char *name, const char *value, steno_err *err)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"translate", &t->ask->hints.translate},
                 {"vad", &t->ask->vad_filter},
                 {"detect_language", &t->wants->detect},
                 {"diarize", &t->wants->speakers},
                 {"no_timestamps", &t->wants->no_times},
                 {"no_language_probabilities", &t->wants->no_probabilities}};
    (void)err;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(name, flags[i].name))
            *flags[i].flag = is_true(value);
    return STENO_OK;
}

static steno_status set_no_times(struct taken *t, const char *name, const char *value,
                                 steno_err *err)
{
    steno_status st = set_flag(t, name, value, err);
    return st ? st
              : steno_options_set(&t->wants->options, "without_timestamps",
                                  t->wants->no_times ? "yes" : "no", err);
}

static steno_status set_word_times(struct taken *t, const char *name, const char *value,
                                   steno_err *err)
{
    (void)name, (void)err;
    t->wants->no_word_times = !is_true(value);
    return STENO_OK;
}

/* Without a step there is no second temperature. */
static steno_status set_step(struct taken *t, const char *name, const char *value, steno_err *err)
{
    double step = 0;
    steno_status st = steno_query_double(name, value, -1000, 1000, &step, err);
    return st ? st
              : steno_options_set(&t->wants->options, "temperature_fallback",
                                  step > 0 ? "yes" : "no", err);
}

/* The server's default is negative. */
static steno_status set_beam(struct taken *t, const char *name, const char *value, steno_err *err)
{
    int n = 0;
    steno_status st = steno_query_int(name, value, -1, STENO_MAX_BEAM, &n, err);
    if (!st)
        t->wants->beam = n > 0 ? n : 0;
    return st;
}

static steno_status set_best_of(struct taken *t, const char *name, const char *value,
                                steno_err *err)
{
    int n = 0;
    steno_status st = steno_query_int(name, value, -1, BEST_OF_MAX, &n, err);
    return st || n < 1 ? st : steno_options_set(&t->wants->options, "best_of", value, err);
}

/* 0: no text of the recording is the prompt of the next window. */
static steno_status set_context(struct taken *t, const char *name, const char *value,
                                steno_err *err)
{
    int n = 0;
    steno_status st = steno_query_int(name, value, -1, INT_MAX, &n, err);
    return st ? st
              : steno_options_set(&t->wants->options, "condition_on_previous_text",
                                  n ? "yes" : "no", err);
}

/* The ranges of the options are checked here too: an error names the form's field. */
static steno_status set_no_speech(struct taken *t, const char *name, const char *value,
                                  steno_err *err)
{
    double v;
    steno_status st = steno_query_double(name, value, 0, 1, &v, err);
    return st ? st : steno_options_set(&t->wants->options, "no_speech_threshold", value, err);
}

static steno_status set_log_prob(struct taken *t, const char *name, const char *value,
                                 steno_err *err)
{
    double v;
    steno_status st = steno_query_double(name, value, -1000, 0, &v, err);
    return st ? st : steno_options_set(&t->wants->options, "log_prob_threshold", value, err);
}

static steno_status set_max_len(struct taken *t, const char *name, const char *value,
                                steno_err *err)
{
    return steno_query_int(name, value, 0, 1000, &t->wants->max_len, err);
}

static steno_status set_offset_n(struct taken *t, const char *name, const char *value,
                                 steno_err *err)
{
    return steno_query_int(name, value, 0, STENO_WHISPER_CPP_CUES, &t->wants->offset_n, err);
}

static steno_status set_duration(struct taken *t, const char *name, const char *value,
                                 steno_err *err)
{
    int ms = 0;
    steno_status st = steno_query_int(name, value, 0, INT_MAX, &ms, err);
    if (!st)
        t->wants->seconds = ms / 1000.0;
    return st;
}

/* A part of the recording would be transcribed from another place than asked for. */
static steno_status check_offset(struct taken *t, const char *name, const char *value,
                                 steno_err *err)
{
    int ms = 0;
    steno_status st = steno_query_int(name, value, 0, INT_MAX, &ms, err);
    (void)t;
    return st || !ms ? st
                     : steno_fail(err, STENO_ERR_INVAL,
                                  "offset_t: only 0 is possible: recordings are transcribed from "
                                  "their beginning");
}

static const struct field {
    const char *name;
    /* NULL: as OpenAI's form has it. */
    steno_status (*set)(struct taken *t, const char *name, const char *value, steno_err *err);
} fields[] = {
    {"model", NULL},
    {"channel", NULL},
    {"language", NULL},
    {"prompt", NULL},
    {"temperature", NULL},
    {"response_format", set_answer_format},
    {"translate", set_flag},
    {"detect_language", set_flag},
    {"diarize", set_flag},
    {"vad", set_flag},
    {"no_language_probabilities", set_flag},
    {"no_timestamps", set_no_times},
    {"token_timestamps", set_word_times},
    {"temperature_inc", set_step},
    {"beam_size", set_beam},
    {"best_of", set_best_of},
    {"max_context", set_context},
    {"no_speech_thold", set_no_speech},
    {"logprob_thold", set_log_prob},
    {"max_len", set_max_len},
    {"offset_n", set_offset_n},
    {"offset_t", check_offset},
    {"duration", set_duration},
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    return NULL;
}

bool steno_whisper_cpp_known(const char *name)
{
    return find_field(name) != NULL;
}

steno_status steno_whisper_cpp_field(struct steno_openai_request *ask,
                                     struct steno_whisper_cpp_wants *wants, const char *name,
                                     const char *value, size_t len, const char **param,
                                     steno_err *err)
{
    const struct field *f = find_field(name);
    struct taken t = {ask, wants};
    char text[STENO_OPTION_TEXT];
    if (!f)
        return STENO_OK;
    if (!f->set)
        return steno_openai_field(ask, name, value, len, param, err);
    *param = f->name;
    if (!len) /* forms of pages send the fields that nobody filled in */
        return STENO_OK;
    if (len >= sizeof text || memchr(value, '\0', len))
        return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL, or is too long", f->name);
    memcpy(text, value, len);
    text[len] = '\0';
    return f->set(&t, f->name, text, err);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Whether speakers were told apart, by their voices or by several channels. */
static bool has_speakers(const steno_transcript *t)
{
    return steno_transcript_n_speakers(t) || steno_transcript_n_channels(t) > 1;
}

/* Append who speaks a segment. */
static steno_status put_speaker(struct steno_buf *out, const steno_transcript *t, size_t i)
{
    const unsigned voice = steno_transcript_segment_speaker(t, i);
    const unsigned number = voice ? voice : steno_transcript_segment_channel(t, i);
    return has_speakers(t) && number ? steno_buf_printf(out, "(speaker %u)", number - 1) : STENO_OK;
}

/* Append a line for each segment. */
static steno_status put_segment_lines(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++) {
        THEN(st, put_speaker(out, t, i));
        THEN(st, steno_json_printf(out, "%-s\n", steno_transcript_segment_text(t, i)));
    }
    return st;
}

/* Append "text":LINES. */
static steno_status put_text_member(struct steno_buf *out, const steno_transcript *t)
{
    struct steno_buf lines;
    steno_status st;
    steno_buf_init(&lines, out->max);
    st = put_segment_lines(&lines, t);
    THEN(st, steno_buf_puts(out, "\"text\":"));
    THEN(st, steno_json_put_string(out, lines.data ? lines.data : "", lines.len));
    steno_buf_free(&lines);
    return st;
}

static steno_status put_times(struct steno_buf *out, const struct steno_event *seg)
{
    steno_status st = steno_buf_puts(out, ",");
    THEN(st, steno_json_put_seconds(out, "start", seg->start));
    THEN(st, steno_buf_puts(out, ","));
    return THEN(st, steno_json_put_seconds(out, "end", seg->end));
}

static steno_status put_segment(struct steno_buf *out, const steno_transcript *t, size_t i,
                                const struct steno_whisper_cpp_about *about)
{
    const struct steno_event *seg = steno_transcript_segment(t, i);
    const struct steno_section *s = seg->n_sections ? seg->sections : NULL;
    const char *text = steno_transcript_segment_text(t, i);
    const bool no_times = about->wants->no_times;
    steno_status st = steno_buf_printf(out, "%s{\"id\":%zu,", i ? "," : "", i);
    THEN(st, steno_json_put_member(out, "text", text));
    if (!no_times)
        THEN(st, put_times(out, seg));
    if (has_speakers(t)) {
        THEN(st, steno_buf_puts(out, ",\"speaker\":\""));
        THEN(st, put_speaker(out, t, i));
        THEN(st, steno_buf_puts(out, "\""));
    }
    THEN(st, steno_buf_puts(out, ",\"words\":"));
    THEN(st, steno_words_write(out, text, seg->words, seg->n_words,
                               !no_times && !about->wants->no_word_times, ""));
    THEN(st, steno_buf_puts(out, ",\"tokens\":["));
    for (size_t k = 0; k < seg->n_tokens; k++)
        THEN(st, steno_buf_printf(out, k ? ",%d" : "%d", (int)seg->tokens[k].id));
    return THEN(st,
                steno_buf_printf(
                    out, "],\"temperature\":%.6g,\"avg_logprob\":%.6g,\"no_speech_prob\":%.6g}",
                    about->temperature, s ? s->avg_log_prob : steno_confidence_log(seg->confidence),
                    s ? (double)s->no_speech : 1 - (double)seg->confidence));
}

/* Append what was detected: the model tells how probable the best language is, and no other. */
static steno_status put_detected(struct steno_buf *out, const struct steno_openai_result *r)
{
    const double p = r->language_probability;
    steno_status st =
        steno_json_printf(out, ",\"detected_language\":%s", steno_openai_language(r->language));
    THEN(st, steno_buf_printf(out, ",\"detected_language_probability\":%.6g,", p));
    THEN(st, steno_json_printf(out, "\"language_probabilities\":{%s", r->language));
    return THEN(st, steno_buf_printf(out, ":%.6g}", p));
}

static steno_status write_verbose(struct steno_buf *out, const steno_transcript *t,
                                  const struct steno_openai_result *r,
                                  const struct steno_whisper_cpp_about *about)
{
    steno_status st = steno_json_printf(out, "{\"task\":\"%-s\",\"language\":%s,",
                                        r->translated ? "translate" : "transcribe",
                                        steno_openai_language(r->language));
    THEN(st, steno_json_put_seconds(out, "duration", r->duration));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_member(out, t));
    THEN(st, steno_buf_puts(out, ",\"segments\":["));
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        THEN(st, put_segment(out, t, i, about));
    THEN(st, steno_buf_puts(out, "]"));
    if (about->detected && r->language_probability > 0 && !about->wants->no_probabilities)
        THEN(st, put_detected(out, r));
    return THEN(st, steno_buf_puts(out, "}"));
}

static steno_status write_format(struct steno_buf *out, enum steno_openai_format format,
                                 steno_transcript *t, const struct steno_openai_result *r,
                                 const struct steno_whisper_cpp_about *about)
{
    struct steno_subtitle_options opt = about->subtitle;
    steno_status st;
    opt.before = about->wants->offset_n;
    opt.blank_end = true;
    if (about->wants->max_len) {
        opt.line_chars = about->wants->max_len;
        opt.lines = 1;
    }
    switch (format) {
    case STENO_OPENAI_TEXT:
        return put_segment_lines(out, t);
    case STENO_OPENAI_SRT:
        return steno_subtitle_write(out, t, STENO_SRT, &opt);
    case STENO_OPENAI_VTT:
        return steno_subtitle_write(out, t, STENO_VTT, &opt);
    case STENO_OPENAI_VERBOSE_JSON:
        return write_verbose(out, t, r, about);
    case STENO_OPENAI_JSON:
    case STENO_OPENAI_LRC:
    case STENO_OPENAI_TSV:
    case STENO_OPENAI_WHISPERX:
    case STENO_OPENAI_DIARIZED_JSON:
        break;
    }
    st = steno_buf_puts(out, "{");
    THEN(st, put_text_member(out, t));
    return THEN(st, steno_buf_puts(out, "}"));
}

steno_status steno_whisper_cpp_write(struct steno_buf *out, enum steno_openai_format format,
                                     const struct steno_openai_result *r,
                                     const struct steno_whisper_cpp_about *about)
{
    steno_transcript *t = r->transcript, *none = NULL;
    steno_status st;
    if (steno_transcript_n_channels(t) == 1) /* nobody is to be told apart */
        t = steno_transcript_channel(t, 0);
    if (about->wants->detect) {
        t = none = steno_transcript_new(0);
        if (!none)
            return STENO_ERR_NOMEM;
    }
    st = write_format(out, format, t, r, about);
    steno_transcript_free(none);
    return st;
}

steno_status steno_whisper_cpp_write_error(struct steno_buf *out, const char *message)
{
    return steno_json_printf(out, "{\"error\":%s}\n", message);
}
