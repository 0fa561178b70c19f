#include "speech/families/whisper/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <zlib.h>

#include "base/utf8.h"

struct steno_whisper_decoder {
    const struct steno_whisper *m;
    struct steno_whisper_decode_options o;
    steno_whisper_search *search;
    steno_whisper_state *state;
    const int32_t *prompt; /* the caller's, until the result is there */
    size_t n_prompt, tried;
    bool latest; /* best is of the search that ran last */
    struct steno_whisper_decoded now, best;
};

struct steno_whisper_decode_options steno_whisper_decode_default(const struct steno_whisper *m)
{
    return (struct steno_whisper_decode_options){
        .search = {.beam = 5,
                   .patience = 1,
                   .length_penalty = 1,
                   .best_of = 5,
                   .rules = steno_whisper_rules_default(m)},
        .temperatures = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1},
        .n_temperatures = 6,
        .compression = 2.4f,
        .log_prob = -1,
        .no_speech = 0.6f,
        .silence_log_prob = -INFINITY};
}

/* ---- how well a text compresses ------------------------------------------------------------ */

static bool is_blank(utf8proc_int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

const char *steno_whisper_strip(const char *text, size_t n, size_t *len)
{
    size_t begin = n, end = 0;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        const size_t width = steno_utf8_next(text + at, n - at, &c);
        if (c < 0 || !is_blank(c)) {
            begin = at < begin ? at : begin;
            end = at + width;
        }
        at += width;
    }
    *len = end > begin ? end - begin : 0;
    return text + (begin < n ? begin : n);
}

/* Bytes of a text over those that zlib makes of them (level 6). */
static steno_status compression_of(const char *text, size_t n, float *out, steno_err *err)
{
    uLongf packed = compressBound((uLong)n);
    Bytef *to = malloc(packed);
    int rc = to ? compress2(to, &packed, (const Bytef *)text, (uLong)n, Z_DEFAULT_COMPRESSION)
                : Z_MEM_ERROR;
    free(to);
    if (rc != Z_OK)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for %zu bytes of text", n);
    *out = (float)n / (float)packed;
    return STENO_OK;
}

steno_status steno_whisper_decoded_measure(const struct steno_whisper *m,
                                           struct steno_whisper_decoded *d, steno_err *err)
{
    struct steno_buf text;
    const char *p;
    size_t n;
    steno_status st;
    steno_buf_init(&text, 1 << 20);
    st = steno_bpe_text(m->bpe, d->ids, d->n, &text);
    p = steno_whisper_strip(text.data ? text.data : "", text.len, &n);
    if (!st)
        st = compression_of(p, n, &d->compression, err);
    else
        (void)steno_fail(err, st, "out of memory for text");
    steno_buf_free(&text);
    return st;
}

/* ---- a window ------------------------------------------------------------------------------ */

static steno_status read_result(steno_whisper_decoder *w, steno_err *err)
{
    const struct steno_whisper_text t = steno_whisper_search_best(w->search);
    struct steno_whisper_decoded *d = &w->now;
    memcpy(d->ids, t.ids, t.n * sizeof *d->ids);
    memcpy(d->log_probs, t.log_probs, (t.n + t.ended) * sizeof *d->log_probs);
    d->n = t.n;
    d->ended = t.ended;
    d->sum = t.sum;
    d->avg_log_prob = t.sum / (double)(t.n + 1);
    d->no_speech = t.no_speech;
    d->temperature = w->o.temperatures[w->tried];
    return steno_whisper_decoded_measure(w->m, d, err);
}

static bool loops(const struct steno_whisper_decode_options *o,
                  const struct steno_whisper_decoded *d)
{
    return d->compression > o->compression;
}

bool steno_whisper_decoded_silent(const struct steno_whisper_decode_options *o,
                                  const struct steno_whisper_decoded *d)
{
    const float least = o->log_prob > o->silence_log_prob ? o->log_prob : o->silence_log_prob;
    return d->no_speech > o->no_speech &&
           (!(d->avg_log_prob > (double)least) || (o->loops_are_silence && loops(o, d)));
}

static bool good(const struct steno_whisper_decode_options *o,
                 const struct steno_whisper_decoded *d)
{
    const bool unlikely = d->avg_log_prob < (double)o->log_prob;
    if (d->no_speech > o->no_speech && (unlikely || steno_whisper_decoded_silent(o, d)))
        return true; /* silence is as good as it gets */
    return !unlikely && !loops(o, d);
}

/* Of two that are not good the one that repeats itself less, then the likelier one. */
static bool better(const struct steno_whisper_decode_options *o,
                   const struct steno_whisper_decoded *a, const struct steno_whisper_decoded *b)
{
    return loops(o, a) != loops(o, b) ? loops(o, b) : a->avg_log_prob > b->avg_log_prob;
}

steno_status steno_whisper_decoder_open(steno_whisper_decoder **out, const struct steno_whisper *m,
                                        steno_err *err)
{
    steno_whisper_decoder *d = calloc(1, sizeof *d);
    steno_status st;
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    d->m = m;
    st = steno_whisper_search_open(&d->search, m, err);
    if (st)
        steno_whisper_decoder_close(d);
    else
        *out = d;
    return st;
}

void steno_whisper_decoder_close(steno_whisper_decoder *d)
{
    if (!d)
        return;
    steno_whisper_search_close(d->search);
    free(d);
}

static steno_status start_search(steno_whisper_decoder *d, steno_err *err)
{
    struct steno_whisper_search_options o = d->o.search;
    o.temperature = d->o.temperatures[d->tried];
    o.seed += d->tried;
    return steno_whisper_search_start(d->search, &o, d->state, d->prompt, d->n_prompt, err);
}

steno_status steno_whisper_decoder_start(steno_whisper_decoder *d,
                                         const struct steno_whisper_decode_options *o,
                                         steno_whisper_state *state, const int32_t *prompt,
                                         size_t n, steno_err *err)
{
    if (!o->n_temperatures || o->n_temperatures > STENO_WHISPER_MAX_TEMPERATURES)
        return steno_fail(err, STENO_ERR_INVAL, "%zu temperatures, 1 to %d expected",
                          o->n_temperatures, STENO_WHISPER_MAX_TEMPERATURES);
    d->o = *o;
    d->state = state;
    d->prompt = prompt;
    d->n_prompt = n;
    d->tried = 0;
    return start_search(d, err);
}

bool steno_whisper_decoder_ask(steno_whisper_decoder *d, struct steno_whisper_ask *ask)
{
    return steno_whisper_search_ask(d->search, ask);
}

/* A text is there: take it, or try the next temperature. */
static steno_status judge_whisper_decode(steno_whisper_decoder *d, steno_err *err)
{
    steno_status st = read_result(d, err);
    bool enough;
    if (st)
        return st;
    enough = good(&d->o, &d->now);
    d->latest = !d->tried || enough || better(&d->o, &d->now, &d->best);
    if (d->latest)
        d->best = d->now;
    if (!enough) /* the last that was tried, whichever is taken */
        d->best.temperature = d->now.temperature;
    if (enough || ++d->tried == d->o.n_temperatures)
        return STENO_OK;
    return start_search(d, err);
}

steno_status steno_whisper_decoder_take(steno_whisper_decoder *d,
                                        const struct steno_whisper_ask *ask, steno_err *err)
{
    struct steno_whisper_ask more;
    steno_whisper_search_take(d->search, ask);
    return steno_whisper_search_ask(d->search, &more) ? STENO_OK : judge_whisper_decode(d, err);
}

size_t steno_whisper_decoder_texts(const steno_whisper_decoder *d, struct steno_whisper_text *out,
                                   size_t max)
{
    return d->latest ? steno_whisper_search_ranked(d->search, out, max) : 0;
}

const struct steno_whisper_decoded *steno_whisper_decoder_result(const steno_whisper_decoder *d)
{
    return &d->best;
}
