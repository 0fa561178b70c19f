#include "protocol/result_json.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "protocol/json_text.h"

const char *steno_final_reason_name(enum steno_final_reason r)
{
    switch (r) {
    case STENO_FINAL_ENDPOINT:
        return "endpoint";
    case STENO_FINAL_LENGTH:
        return "length";
    case STENO_FINAL_REQUEST:
        return "request";
    case STENO_FINAL_END:
        return "end";
    case STENO_FINAL_BACKCHANNEL:
        return "backchannel";
    }
    return "unknown";
}

/* Round to milliseconds, without meaningless digits. */
static json_t *json_of_number(double x)
{
    return json_real(isfinite(x) ? round(x * 1000) / 1000 : 0);
}

/* The functions below take their arguments. When a step fails, it releases everything and returns
 * NULL, and NULL is passed on. So the last call of a chain shows whether the whole was built. */
static json_t *with(json_t *object, const char *name, json_t *value)
{
    if (!json_object_set_new(object, name, value))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *and_then(json_t *array, json_t *item)
{
    if (!json_array_append_new(array, item))
        return array;
    json_decref(array);
    return NULL;
}

/* Make a string of bytes that may not be UTF-8. */
static json_t *json_of_text(const char *s)
{
    size_t n = strlen(s);
    json_t *j = NULL;
    struct steno_buf b;
    steno_buf_init(&b, SIZE_MAX / 2);
    if (!steno_json_put_string(&b, s, n))
        j = json_loadb(b.data, b.len, JSON_DECODE_ANY, NULL);
    steno_buf_free(&b);
    return j;
}

static json_t *words_json(const struct steno_word *w, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++) {
        json_t *o = with(json_object(), "word", json_string(w[i].text));
        o = with(o, "start", json_of_number(w[i].start));
        o = with(o, "end", json_of_number(w[i].end));
        a = and_then(a, with(o, "confidence", json_of_number((double)w[i].confidence)));
    }
    return a;
}

static json_t *alternative_json(const struct steno_alternative *x, bool no_words)
{
    json_t *o = with(json_object(), "text", json_string(x->text));
    o = with(o, "confidence", json_of_number((double)x->confidence));
    o = with(o, "score", json_of_number(x->score));
    return no_words ? o : with(o, "words", words_json(x->words, x->n_words));
}

static json_t *alternatives_json(const struct steno_event *seg, bool no_words)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < seg->n_alternatives; i++)
        a = and_then(a, alternative_json(&seg->alternatives[i], no_words));
    return a;
}

/* Those of the whole. */
static json_t *joint_json(steno_transcript *t, bool no_words)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < steno_transcript_n_alternatives(t); i++) {
        struct steno_alternative x;
        const steno_status st = steno_transcript_alternative(t, i, &x, NULL);
        a = and_then(a, st ? NULL : alternative_json(&x, no_words));
    }
    return a;
}

/* What the model says of a segment that it has cut. */
static json_t *section_json(json_t *o, const struct steno_section *s)
{
    o = with(o, "temperature", json_of_number((double)s->temperature));
    o = with(o, "avg_logprob", json_of_number(s->avg_log_prob));
    o = with(o, "compression_ratio", json_of_number((double)s->compression_ratio));
    o = with(o, "no_speech_prob", json_of_number((double)s->no_speech));
    return *s->language ? with(o, "language", json_of_text(s->language)) : o;
}

/* The characters of a line, by the places in its text that ids has. */
static json_t *characters_json(const struct steno_event *seg)
{
    const struct steno_section *line = &seg->sections[0];
    json_t *a = json_array();
    for (size_t i = 0; a && 2 * i + 1 < line->n_ids && i < seg->n_tokens; i++) {
        const struct steno_token *k = &seg->tokens[i];
        const int32_t from = line->ids[2 * i], to = line->ids[2 * i + 1];
        json_t *o;
        if (to <= from || !(k->confidence > 0))
            continue;
        o = with(json_object(), "character", json_stringn(seg->text + from, (size_t)(to - from)));
        o = with(o, "start", json_of_number(k->start));
        o = with(o, "end", json_of_number(k->end));
        a = and_then(a, with(o, "confidence", json_of_number((double)k->confidence)));
    }
    return a;
}

static json_t *segment_json(const steno_transcript *t, size_t i,
                            const struct steno_result_json_options *opt)
{
    const bool no_words = opt->no_words;
    const struct steno_event *seg = steno_transcript_segment(t, i);
    const unsigned channel = steno_transcript_segment_channel(t, i);
    const unsigned speaker = steno_transcript_segment_speaker(t, i);
    json_t *o = with(json_object(), "text", json_string(seg->text));
    if (channel)
        o = with(o, "channel", json_integer(channel));
    if (speaker)
        o = with(o, "speaker", json_integer(speaker));
    if (steno_transcript_speaker_name(t, speaker))
        o = with(o, "speaker_name", json_of_text(steno_transcript_speaker_name(t, speaker)));
    o = with(o, "start", json_of_number(seg->start));
    o = with(o, "end", json_of_number(seg->end));
    o = with(o, "confidence", json_of_number((double)seg->confidence));
    o = with(o, "reason", json_string(steno_final_reason_name(seg->reason)));
    if (!no_words)
        o = with(o, "words", words_json(seg->words, seg->n_words));
    if (opt->characters && seg->n_sections)
        o = with(o, "characters", characters_json(seg));
    if (seg->labels.emotion)
        o = with(o, "emotion", json_of_text(seg->labels.emotion));
    if (seg->labels.sound)
        o = with(o, "sound", json_of_text(seg->labels.sound));
    if (seg->n_sections && seg->sections[0].compression_ratio > 0)
        o = section_json(o, &seg->sections[0]);
    if (seg->n_alternatives > 1)
        o = with(o, "alternatives", alternatives_json(seg, no_words));
    return o;
}

static json_t *result_json(steno_transcript *t, const struct steno_result_json_options *opt)
{
    json_t *o = json_object(), *segments = json_array();
    if (opt->file)
        o = with(o, "file", json_of_text(opt->file));
    o = with(o, "text", json_string(steno_transcript_text(t)));
    o = with(o, "duration", json_of_number(steno_transcript_duration(t)));
    o = with(o, "confidence", json_of_number((double)steno_transcript_confidence(t)));
    if (steno_transcript_n_channels(t))
        o = with(o, "channels", json_integer((json_int_t)steno_transcript_n_channels(t)));
    if (steno_transcript_n_speakers(t))
        o = with(o, "speakers", json_integer((json_int_t)steno_transcript_n_speakers(t)));
    if (opt->model)
        o = with(o, "model", json_of_text(opt->model));
    if (opt->language)
        o = with(o, "language", json_of_text(opt->language));
    if (opt->language_probability > 0)
        o = with(o, "language_probability", json_of_number((double)opt->language_probability));
    for (size_t i = 0; segments && i < steno_transcript_n_segments(t); i++)
        segments = and_then(segments, segment_json(t, i, opt));
    o = with(o, "segments", segments);
    if (steno_transcript_has_joint_alternatives(t))
        o = with(o, "alternatives", joint_json(t, opt->no_words));
    if (opt->warning)
        o = with(o, "warnings", and_then(json_array(), json_of_text(opt->warning)));
    return o;
}

struct sink {
    struct steno_buf *out;
    steno_status st;
};

/* The first failure stays: jansson 2.14 goes on after a failure in a member's name, and the next
 * part may fit again. */
static int append_text(const char *text, size_t n, void *user)
{
    struct sink *s = user;
    if (!s->st)
        s->st = steno_buf_add(s->out, text, n);
    return s->st ? -1 : 0;
}

/* Takes o. On failure out is unchanged. */
static steno_status dump(struct steno_buf *out, json_t *o, int indent)
{
    size_t before = out->len, flags = JSON_REAL_PRECISION(12);
    struct sink s = {out, STENO_OK};
    if (!o)
        return STENO_ERR_NOMEM;
    flags |= indent ? JSON_INDENT((size_t)indent & 31) : JSON_COMPACT;
    if (json_dump_callback(o, append_text, &s, flags) && !s.st)
        s.st = STENO_ERR_NOMEM; /* jansson's own allocation failed */
    json_decref(o);
    if (s.st)
        steno_buf_cut(out, before);
    return s.st;
}

steno_status steno_result_json_write(struct steno_buf *out, steno_transcript *t,
                                     const struct steno_result_json_options *opt)
{
    static const struct steno_result_json_options none;
    json_t *o;
    if (!opt)
        opt = &none;
    o = result_json(t, opt);
    return dump(out, o, opt->indent);
}

static json_t *event_json(const struct steno_event *ev)
{
    static const char *const types[] = {[STENO_SPEECH_START] = "speech_start",
                                        [STENO_PARTIAL] = "partial",
                                        [STENO_FINAL] = "final",
                                        [STENO_UTTERANCE_END] = "utterance_end"};
    json_t *o = with(json_object(), "type", json_string(types[ev->kind]));
    o = with(o, "segment", json_integer((json_int_t)ev->segment));
    o = with(o, "time", json_of_number(ev->time));
    o = with(o, "start", json_of_number(ev->start));
    o = with(o, "end", json_of_number(ev->end));
    if (ev->kind == STENO_SPEECH_START || ev->kind == STENO_UTTERANCE_END)
        return o;
    o = with(o, "text", json_string(ev->text));
    if (ev->kind == STENO_PARTIAL)
        o = with(o, "stable", json_stringn(ev->text, ev->stable_bytes));
    o = with(o, "confidence", json_of_number((double)ev->confidence));
    o = with(o, "words", words_json(ev->words, ev->n_words));
    if (ev->kind == STENO_FINAL)
        o = with(o, "reason", json_string(steno_final_reason_name(ev->reason)));
    return o;
}

/* Append one line with its newline, or nothing. */
static steno_status dump_line(struct steno_buf *out, json_t *o)
{
    size_t before = out->len;
    steno_status st = dump(out, o, 0);
    if (!st)
        st = steno_buf_puts(out, "\n");
    if (st)
        steno_buf_cut(out, before);
    return st;
}

steno_status steno_event_json_write(struct steno_buf *out, const struct steno_event *ev)
{
    return dump_line(out, event_json(ev));
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        a = and_then(a, json_integer(ids[i]));
    return a;
}

steno_status steno_nbest_json_write(struct steno_buf *out, const struct steno_event *ev)
{
    json_t *list = json_array();
    for (size_t i = 0; list && ev && i < ev->n_alternatives; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        json_t *o = with(json_object(), "token_ids", ids_json(a->ids, a->n_ids));
        o = with(o, "score", json_real(isfinite(a->score) ? a->score : 0));
        list = and_then(list, with(o, "text", json_string(a->text)));
    }
    return dump_line(out, with(json_object(), "nbest", list));
}
