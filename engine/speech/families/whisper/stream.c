/* One stream: utterance after utterance, each a recording of its own. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/option.h"
#include "speech/families/whisper/batched.h"
#include "speech/families/whisper/internal.h"
#include "speech/families/whisper/transcript.h"
#include "speech/text/language.h"

#define VAD_BATCHED 8 /* windows at once, if a VAD is wanted and nothing is said of them */

struct stream {
    const struct steno_whisper_model *model;
    struct steno_whisper_recording_options o;
    char *texts;                           /* of o */
    int32_t *suppressed;                   /* of o, or NULL */
    const char *prefix;                    /* of o, for the first utterance of a recording */
    int32_t before[STENO_WHISPER_CONTEXT]; /* text of the utterances before, for the prompt */
    size_t n_before;
    int spoken;                   /* language of the utterances before; -1: none */
    steno_whisper_recording *rec; /* of the utterance; NULL: nothing of it has come */
    /* Of a stream whose windows are decoded side by side, instead of rec. Each of its segments is
     * an utterance. */
    struct steno_speech_source speech;
    steno_whisper_batched *batched;
    size_t accepted;
    bool ended;
    bool early;                     /* ended, but more audio may follow */
    steno_whisper_transcript *said; /* in it */
};

/* ---- opening ------------------------------------------------------------------------------- */

static bool is_batched(const struct stream *s)
{
    return s->o.batched > 1;
}

/* All audio is one segment then, which the cutter cuts. A VAD for a whole recording asks for this
 * too: the cutter is what leaves silence out. */
static void set_batched(struct stream *s, struct steno_family_stream *o)
{
    if (!o->speech)
        s->o.batched = 1;
    else if (o->speech->vad && o->whole && s->o.batched == 1 &&
             !steno_option_value(o->options, o->n_options, "batched"))
        s->o.batched = VAD_BATCHED;
    if (!is_batched(s))
        return;
    s->speech = *o->speech;
    o->cuts = true;
}

steno_status steno_whisper_state_new(void **state, void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct steno_whisper_model *m = model;
    struct stream *s;
    steno_status st;
    bool steady;
    if (o->beam > STENO_WHISPER_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "beam: %d is more than %d", o->beam,
                          STENO_WHISPER_MAX_BEAM);
    s = calloc(1, sizeof *s);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = m;
    s->spoken = -1;
    s->o = m->defaults;
    st = steno_whisper_options_apply(m->net, o->options, o->n_options, &s->o, &s->suppressed, err);
    if (!st)
        st = steno_whisper_hints_apply(&o->hints, o->vocabulary, &s->o, &s->texts, err);
    if (st) {
        steno_whisper_state_free(s);
        return st;
    }
    if (steno_option_get_flag(o->options, o->n_options, STENO_OPTION_STABILIZE, &steady))
        s->o.every_guess = !steady;
    s->o.few_words = o->no_word_times && !(s->o.hallucination_silence > 0);
    if (o->beam)
        s->o.decode.search.beam = (size_t)o->beam;
    o->beam = (int)s->o.decode.search.beam;
    s->prefix = s->o.prefix;
    set_batched(s, o);
    if (is_batched(s) || o->n_best < 1)
        o->n_best = 1;
    o->n_best = o->n_best < o->beam ? o->n_best : o->beam;
    st = steno_whisper_transcript_open(&s->said, m, (size_t)o->n_best, err);
    if (st) {
        steno_whisper_state_free(s);
        return st;
    }
    *state = s;
    return STENO_OK;
}

static steno_status take_batched(struct stream *s, steno_err *err);

/* The next utterance follows the one that has ended. */
static void keep_context(struct stream *s)
{
    const int32_t *ids;
    s->spoken = steno_whisper_recording_spoken(s->rec);
    if (!s->o.carry)
        return;
    ids = steno_whisper_recording_context(s->rec, &s->n_before);
    if (s->n_before)
        memcpy(s->before, ids, s->n_before * sizeof *ids);
}

/* A final may begin; what it says is forgotten if it was too early. */
static steno_status end_early(struct stream *s, steno_err *err)
{
    steno_whisper_transcript_mark(s->said);
    s->early = true;
    return steno_whisper_recording_end_early(s->rec, err);
}

static void resume(struct stream *s)
{
    if (!s->early)
        return;
    steno_whisper_transcript_back(s->said);
    steno_whisper_recording_resume(s->rec);
    s->early = s->ended = false;
}

steno_status steno_whisper_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    if (what == STENO_RESET_RESUMED) {
        resume(s);
        return STENO_OK;
    }
    steno_whisper_transcript_clear(s->said);
    if (what == STENO_RESET_TAKEN)
        return take_batched(s, err);
    if (what != STENO_RESET_UTTERANCE)
        s->n_before = 0;
    else if (s->rec)
        keep_context(s);
    if (what == STENO_RESET_RECORDING) {
        s->spoken = -1;
        s->o.prefix = s->prefix;
    } else if (s->rec) {
        s->o.prefix = NULL;
    }
    steno_whisper_recording_close(s->rec);
    steno_whisper_batched_close(s->batched);
    s->rec = NULL;
    s->batched = NULL;
    s->accepted = 0;
    s->ended = s->early = false;
    return STENO_OK;
}

void steno_whisper_state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_whisper_recording_close(s->rec);
    steno_whisper_batched_close(s->batched);
    steno_whisper_transcript_close(s->said);
    free(s->texts);
    free(s->suppressed);
    free(s);
}

/* ---- audio --------------------------------------------------------------------------------- */

static steno_status push_batched(struct stream *s, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!s->batched)
        st = steno_whisper_batched_open(&s->batched, s->model->net, &s->o, &s->speech, err);
    if (!st)
        st = steno_whisper_batched_push(s->batched, pcm, n, err);
    if (!st)
        s->accepted += n;
    return st;
}

static steno_status push_whisper_stream(struct stream *s, const float *pcm, size_t n,
                                        steno_err *err)
{
    steno_status st = STENO_OK;
    if (is_batched(s))
        return push_batched(s, pcm, n, err);
    if (!s->rec)
        st = steno_whisper_recording_open(&s->rec, s->model->net, &s->o, err);
    if (!st && !s->accepted)
        steno_whisper_recording_set_spoken(s->rec, s->spoken);
    if (!st && !s->accepted && s->n_before)
        st = steno_whisper_recording_follow(s->rec, s->before, s->n_before, err);
    if (!st)
        st = steno_whisper_recording_push(s->rec, pcm, n, err);
    if (!st)
        s->accepted += n;
    return st;
}

static bool is_due(const struct stream *s)
{
    if (is_batched(s))
        return s->batched && steno_whisper_batched_due(s->batched);
    return s->rec && steno_whisper_recording_ready(s->rec);
}

static steno_status end(struct stream *s, bool early, steno_err *err)
{
    if (s->batched)
        return steno_whisper_batched_end(s->batched, err);
    if (s->rec && early)
        return end_early(s, err);
    return s->rec ? steno_whisper_recording_end(s->rec, err) : STENO_OK;
}

steno_status steno_whisper_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                  bool *due)
{
    struct stream *s = state;
    steno_status st = STENO_OK;
    if (end > s->accepted && !(s->rec && steno_whisper_recording_ready(s->rec)))
        st = push_whisper_stream(s, pcm + (s->accepted - dropped), end - s->accepted, NULL);
    *due = !st && is_due(s);
    return st;
}

size_t steno_whisper_accepted(const void *state)
{
    return ((const struct stream *)state)->accepted;
}

size_t steno_whisper_missing(const void *state)
{
    return STENO_WHISPER_WINDOW - ((const struct stream *)state)->accepted % STENO_WHISPER_WINDOW;
}

/* ---- what was said -------------------------------------------------------------------------- */

static int language(const struct stream *s, float *probability)
{
    return s->batched ? steno_whisper_batched_language(s->batched, probability)
                      : steno_whisper_recording_language(s->rec, probability);
}

steno_status steno_whisper_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable)
{
    struct stream *s = state;
    steno_whisper_transcript_list(s->said, out, max, n, stable);
    if (*n)
        out[0].language = steno_language_code_at(language(s, &out[0].language_probability));
    return STENO_OK;
}

/* ---- steps --------------------------------------------------------------------------------- */

steno_status steno_whisper_worker_open(void **worker, void *model, int max, steno_err *err)
{
    steno_whisper_runner *r;
    steno_status st =
        steno_whisper_runner_open(&r, ((struct steno_whisper_model *)model)->net, err);
    (void)max;
    if (!st)
        *worker = r;
    return st;
}

void steno_whisper_worker_close(void *worker)
{
    steno_whisper_runner_close(worker);
}

/* The rest of the segment is taken in, once. Whether there is work for a step. */
static bool prepare_whisper_stream(struct steno_step_item *item)
{
    struct stream *s = item->state;
    item->st = STENO_OK;
    item->more = false;
    if ((item->goal == STENO_STEP_PARTIAL || item->goal == STENO_STEP_GLANCE) && s->rec)
        item->st =
            steno_whisper_recording_partial(s->rec, item->goal == STENO_STEP_GLANCE, item->err);
    if ((item->goal == STENO_STEP_FINAL || item->goal == STENO_STEP_EARLY) && !s->ended) {
        if (item->n > s->accepted)
            item->st = push_whisper_stream(s, item->pcm + (s->accepted - item->dropped),
                                           item->n - s->accepted, item->err);
        if (!item->st)
            item->st = end(s, item->goal == STENO_STEP_EARLY, item->err);
        s->ended = true;
    }
    if (is_batched(s))
        return !item->st && s->batched && steno_whisper_batched_busy(s->batched);
    if (s->ended)
        steno_whisper_transcript_settle(s->said); /* until a window says more */
    return !item->st && s->rec && steno_whisper_recording_ready(s->rec);
}

/* The next segment of a recording in chunks becomes the hypothesis. */
static steno_status take_batched(struct stream *s, steno_err *err)
{
    struct steno_whisper_segment g;
    const struct steno_whisper_decoded *window;
    steno_status st =
        s->batched ? steno_whisper_batched_next(s->batched, &g, &window) : STENO_NEED_MORE;
    if (st)
        return st == STENO_NEED_MORE ? STENO_OK : st;
    return steno_whisper_transcript_add(s->said, &g, window, err);
}

/* The hypothesis is the first segment that has not been taken. At the end the last one is left to
 * the final of the whole. */
static void finish_batched(struct steno_step_item *item)
{
    struct stream *s = item->state;
    size_t waiting;
    item->st = steno_whisper_batched_stepped(s->batched, item->err);
    if (!item->st && !steno_whisper_transcript_any(s->said))
        item->st = take_batched(s, item->err);
    if (item->st)
        return;
    waiting = steno_whisper_batched_waiting(s->batched) + steno_whisper_transcript_any(s->said);
    item->more = s->ended ? steno_whisper_batched_busy(s->batched) : is_due(s);
    item->finals = s->ended && !item->more && waiting ? waiting - 1 : waiting;
}

static void finish_whisper_stream(struct steno_step_item *item, steno_status st)
{
    struct stream *s = item->state;
    if (st) {
        item->st = st;
        return;
    }
    if (s->batched) {
        finish_batched(item);
        return;
    }
    item->st = steno_whisper_transcript_follow(s->said, s->rec, item->err);
    item->more = !item->st && steno_whisper_recording_ready(s->rec);
}

/* A recording in chunks fills steps by itself. */
double steno_whisper_share(const void *state)
{
    const struct stream *s = state;
    return is_batched(s) || !s->rec ? 1 : steno_whisper_recording_share(s->rec);
}

/* The recordings of one step, and whose they are. */
struct gathered {
    steno_whisper_recording *rec[STENO_WHISPER_BATCH];
    size_t of[STENO_WHISPER_BATCH]; /* numbers of items */
    size_t n;
};

/* Every stream has a place for its earliest window; what places are left go to the others in the
 * order of the items. */
static void gather_whisper_stream(struct steno_step_item *items, const bool *works, size_t n,
                                  struct gathered *g)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        left += works[i];
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        size_t got = 1;
        if (!works[i])
            continue;
        left--;
        if (s->batched)
            got = steno_whisper_batched_steps(s->batched, g->rec + g->n,
                                              STENO_WHISPER_BATCH - g->n - left);
        else
            g->rec[g->n] = s->rec;
        for (size_t k = 0; k < got; k++)
            g->of[g->n++] = i;
    }
}

void steno_whisper_step_items(void *worker, struct steno_step_item *items, size_t n, int size,
                              struct steno_network_time *spent)
{
    struct gathered g = {.n = 0};
    bool works[STENO_WHISPER_BATCH];
    steno_status st[STENO_WHISPER_BATCH];
    steno_err err[STENO_WHISPER_BATCH];
    (void)size;
    (void)spent; /* there is no trial */
    for (size_t i = 0; i < n; i++)
        works[i] = prepare_whisper_stream(&items[i]);
    gather_whisper_stream(items, works, n, &g);
    if (g.n)
        steno_whisper_recordings_step(worker, g.rec, g.n, st, err);
    for (size_t i = 0, k = 0; i < n; i++) {
        steno_status first = STENO_OK; /* of its recordings */
        for (; k < g.n && g.of[k] == i; k++) {
            if (!st[k] || first)
                continue;
            first = st[k];
            if (items[i].err)
                *items[i].err = err[k];
        }
        if (works[i])
            finish_whisper_stream(&items[i], first);
    }
}
