#include "protocol/result_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

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
    }
    return "unknown";
}

/* Milliseconds, and no digits behind them that mean nothing. */
static json_t *number(double x)
{
    return json_real(isfinite(x) ? round(x * 1000) / 1000 : 0);
}

static json_t *words_json(const struct steno_word *w, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        json_array_append_new(a, json_pack("{s:s, s:o, s:o, s:o}", "word", w[i].text, "start",
                                           number(w[i].start), "end", number(w[i].end),
                                           "confidence", number((double)w[i].confidence)));
    return a;
}

static json_t *alternatives_json(const struct steno_event *seg, bool no_words)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < seg->n_alternatives; i++) {
        const struct steno_alternative *x = &seg->alternatives[i];
        json_t *o = json_pack("{s:s, s:o, s:o}", "text", x->text, "confidence",
                              number((double)x->confidence), "score", number(x->score));
        if (o && !no_words)
            json_object_set_new(o, "words", words_json(x->words, x->n_words));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *segment_json(const struct steno_event *seg, bool no_words)
{
    json_t *o =
        json_pack("{s:s, s:o, s:o, s:o, s:s}", "text", seg->text, "start", number(seg->start),
                  "end", number(seg->end), "confidence", number((double)seg->confidence), "reason",
                  steno_final_reason_name(seg->reason));
    if (o && !no_words)
        json_object_set_new(o, "words", words_json(seg->words, seg->n_words));
    if (o && seg->n_alternatives > 1)
        json_object_set_new(o, "alternatives", alternatives_json(seg, no_words));
    return o;
}

static json_t *result_json(steno_transcript *t, const struct steno_result_json_options *opt)
{
    json_t *o = json_object(), *segments = json_array();
    if (opt->file)
        json_object_set_new(o, "file", json_string(opt->file));
    json_object_set_new(o, "text", json_string(steno_transcript_text(t)));
    json_object_set_new(o, "duration", number(steno_transcript_duration(t)));
    json_object_set_new(o, "confidence", number((double)steno_transcript_confidence(t)));
    if (opt->model)
        json_object_set_new(o, "model", json_string(opt->model));
    if (opt->language)
        json_object_set_new(o, "language", json_string(opt->language));
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        json_array_append_new(segments,
                              segment_json(steno_transcript_segment(t, i), opt->no_words));
    json_object_set_new(o, "segments", segments);
    if (opt->warning)
        json_object_set_new(o, "warnings", json_pack("[s]", opt->warning));
    return o;
}

struct sink {
    struct steno_buf *out;
    steno_status st;
};

/* The first failure stays: jansson 2.14 goes on after one in a member's name, and what comes next
 * may fit again. */
static int add_text(const char *text, size_t n, void *user)
{
    struct sink *s = user;
    if (!s->st)
        s->st = steno_buf_add(s->out, text, n);
    return s->st ? -1 : 0;
}

/* Takes o; on failure out is as it was. */
static steno_status dump(struct steno_buf *out, json_t *o, int indent)
{
    size_t before = out->len, flags = JSON_REAL_PRECISION(12);
    struct sink s = {out, STENO_OK};
    if (!o)
        return STENO_ERR_NOMEM;
    flags |= indent ? JSON_INDENT((size_t)indent & 31) : JSON_COMPACT;
    if (json_dump_callback(o, add_text, &s, flags) && !s.st)
        s.st = STENO_ERR_NOMEM; /* its own */
    json_decref(o);
    if (s.st && out->data)
        out->data[out->len = before] = '\0';
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
                                        [STENO_FINAL] = "final"};
    json_t *o = json_pack("{s:s, s:I, s:o, s:o, s:o}", "type", types[ev->kind], "segment",
                          (json_int_t)ev->segment, "time", number(ev->time), "start",
                          number(ev->start), "end", number(ev->end));
    if (!o || ev->kind == STENO_SPEECH_START)
        return o;
    json_object_set_new(o, "text", json_string(ev->text));
    if (ev->kind == STENO_PARTIAL)
        json_object_set_new(o, "stable", json_stringn(ev->text, ev->stable_bytes));
    json_object_set_new(o, "confidence", number((double)ev->confidence));
    json_object_set_new(o, "words", words_json(ev->words, ev->n_words));
    if (ev->kind == STENO_FINAL)
        json_object_set_new(o, "reason", json_string(steno_final_reason_name(ev->reason)));
    return o;
}

steno_status steno_event_json_write(struct steno_buf *out, const struct steno_event *ev)
{
    steno_status st = dump(out, event_json(ev), 0);
    return st ? st : steno_buf_puts(out, "\n");
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

steno_status steno_nbest_json_write(struct steno_buf *out, const struct steno_event *ev)
{
    json_t *list = json_array();
    steno_status st;
    for (size_t i = 0; list && ev && i < ev->n_alternatives; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        json_array_append_new(list, json_pack("{s:o, s:f, s:s}", "token_ids",
                                              ids_json(a->tokens, a->n_tokens), "score", a->score,
                                              "text", a->text));
    }
    st = dump(out, json_pack("{s:o}", "nbest", list), 0);
    return st ? st : steno_buf_puts(out, "\n");
}
