/* The dialect of WeNet's runtime (websocket_server.cc): {"signal":"start"}, s16le at 16 kHz,
 * {"signal":"end"}. Results have their hypotheses as JSON inside a string. Without
 * continuous_decoding a recording is one utterance, as its clients expect one final_result. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/transcript.h"
#include "protocol/then.h"

#define RATE 16000
#define MAX_NBEST (1u << 20) /* bytes of the hypotheses of one result */

static void wenet_init(struct steno_dialect_session *d)
{
    d->start.audio.sample_rate = RATE;
    d->start.endpointing = false;
}

static void say(struct steno_dialect_session *d, const char *type)
{
    d->commit(d, steno_buf_printf(d->begin(d), "{\"status\":\"ok\",\"type\":\"%s\"}", type), false);
}

/* Read {"nbest", "continuous_decoding"}. More hypotheses than there are at most are that many. */
static steno_status wenet_begin(struct steno_dialect_session *d, const json_t *root, steno_err *err)
{
    const json_t *nbest = json_object_get(root, "nbest"),
                 *goes_on = json_object_get(root, "continuous_decoding");
    steno_status st = steno_dialect_ask(d, err);
    if (st)
        return st;
    if (goes_on && !json_is_boolean(goes_on))
        return steno_fail(err, STENO_ERR_INVAL, "continuous_decoding: must be true or false");
    d->asked.endpointing = json_is_true(goes_on);
    if (nbest && (!json_is_integer(nbest) || json_integer_value(nbest) < 1))
        return steno_fail(err, STENO_ERR_INVAL, "nbest: must be 1 or more");
    if (nbest)
        d->asked.alternatives =
            (int)fmin((double)json_integer_value(nbest), STENO_NATIVE_MAX_ALTERNATIVES);
    say(d, "server_ready");
    return STENO_OK;
}

static steno_status wenet_text(struct steno_dialect_session *d, const char *p, size_t n,
                               enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const char *signal;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    signal = json_string_value(json_object_get(root, "signal"));
    if (signal && !strcmp(signal, "start")) {
        *act = STENO_ACT_SETTINGS;
        st = wenet_begin(d, root, err);
    } else if (signal && !strcmp(signal, "end")) {
        *act = STENO_ACT_END;
    } else {
        st = steno_fail(err, STENO_ERR_INVAL, "message: signal '%.40s' is neither start nor end",
                        signal ? signal : "");
    }
    json_decref(root);
    return st;
}

static int ms(double seconds)
{
    return (int)lrint(seconds * 1000);
}

/* Append {"sentence","word_pieces":[{"word","start","end"}]}, times in ms. */
static steno_status put_hypothesis(struct steno_buf *b, const char *sentence,
                                   const struct steno_word *words, size_t n)
{
    steno_status st = steno_json_printf(b, "{\"sentence\":%s,\"word_pieces\":[", sentence);
    for (size_t i = 0; !st && i < n; i++) {
        st = steno_json_printf(b, "%-s\"word\":%s,\"start\":%d,\"end\":%d}", i ? ",{" : "{",
                               words[i].text, ms(words[i].start), ms(words[i].end));
    }
    return st ? st : steno_buf_puts(b, "]}");
}

static steno_status put_nbest(struct steno_buf *b, const struct steno_event *ev)
{
    steno_status st = steno_buf_puts(b, "[");
    if (!st && !ev->n_alternatives)
        st = put_hypothesis(b, ev->text, ev->words, ev->n_words);
    for (size_t i = 0; !st && i < ev->n_alternatives; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        if (i)
            st = steno_buf_puts(b, ",");
        THEN(st, put_hypothesis(b, a->text, a->words, a->n_words));
    }
    return st ? st : steno_buf_puts(b, "]");
}

static void wenet_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    bool final = ev->kind == STENO_FINAL;
    struct steno_buf nbest, *b;
    steno_status st;
    if (!final && ev->kind != STENO_PARTIAL)
        return;
    steno_buf_init(&nbest, MAX_NBEST);
    st = put_nbest(&nbest, ev);
    b = d->begin(d);
    THEN(st, steno_buf_printf(b, "{\"status\":\"ok\",\"type\":\"%s_result\",\"nbest\":",
                              final ? "final" : "partial"));
    THEN(st, steno_json_put_string(b, nbest.data, nbest.len));
    steno_buf_free(&nbest);
    d->commit(d, st ? st : steno_buf_puts(b, "}"), !final);
}

static void wenet_end(struct steno_dialect_session *d, bool draining)
{
    const struct steno_event nothing = {.kind = STENO_FINAL, .text = ""};
    (void)draining;
    if (!d->finals) /* a client waits for a final_result */
        wenet_event(d, &nothing);
    say(d, "speech_end");
}

static void wenet_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_puts(b, "{\"status\":\"failed\",");
    (void)code;
    THEN(st, steno_json_put_member(b, "message", message));
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

const struct steno_dialect steno_dialect_wenet = {
    .name = "wenet",
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = wenet_init,
    .query = steno_dialect_query,
    .text = wenet_text,
    .event = wenet_event,
    .error = wenet_error,
    .end = wenet_end,
};
