#include "speech/families/whisper/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/whisper/mel.h"

#define FRAMES_PER_SECOND 100
#define ROW_STEP 64      /* rows: few different sizes of the encoder's input */
#define LEAST_ROWS 512   /* of the encoder, however short the audio */
#define MARGIN_ROWS 128  /* silence behind the audio */
#define WIDE_MARGIN 500  /* after a result that was dropped */
#define LOOP_PIECES 8    /* longest repeated part that is looked for */
#define LOOP_TIMES 4     /* so often one behind the other: a loop */
#define LOOP_LEAST 8     /* pieces of all repetitions */
#define LATE_SECONDS 4.0 /* a timestamp so far behind the audio is wrong; cut words have some */
#define TIMES_PER_SECOND 50
#define LONG_SECONDS 8.0 /* of audio, from which on partials begin later: LEAST_ROWS hold less */
#define LONG_PIECES 200  /* with more in the window they do not */
#define HELD_BACK 0.2    /* s: a word that ends so near the end of the audio may go on */
/* Of 15 segments of English speech, tiny.en, finals that had to be decoded again because of agreed
 * text, and the delay of a stable word: 2 hypotheses in a row and no word held back 7, 2.1 s;
 * 2 and 2 words 5, 2.7 s; 3 and 1 3, 3.6 s; 4 and 2 2, 5.0 s. */
#define AGREE_NEEDED 3
#define AGREE_HOLD 1

struct steno_whisper_live {
    const struct steno_whisper *m;
    struct steno_whisper_agreement agreed;
    steno_whisper_state *state;
    float *mel;    /* [2 audio_ctx, mels] of a short window, with silence behind it */
    float *scores; /* [vocab] */
    const struct steno_whisper_decode_options *o;
    bool full; /* 30 s */
    bool wide; /* more silence behind the audio, to the window's end */
    bool begun, done;
    double seconds; /* of audio */
    size_t rows;    /* of the encoded window */
    bool by_characters;
    /* The text beside the audio: which of its pieces lie too near the end to be shown. */
    steno_whisper_aligner *aligner; /* borrowed; NULL: all are shown */
    struct steno_whisper_ask place;
    bool placing;
    size_t sot;    /* of the prompt: where the transcript begins */
    size_t hidden; /* pieces at the end of the hypothesis */
    /* A glance is shown and forgotten: what partials agree on does not change by it. */
    bool glances, glanced;
    struct steno_whisper_agreement glance;
    size_t most; /* pieces */
    /* prompt, agreed pieces, draft */
    int32_t text[STENO_WHISPER_PROMPT_MAX + STENO_WHISPER_MAX_TEXT];
    size_t pick[STENO_WHISPER_MAX_TEXT + 2];
    size_t n_prompt, n_draft, n_pick;
    int32_t token;
    struct steno_whisper_decoded now;
    /* what lies before the place where partials begin */
    int32_t from; /* steps of 0.02 s */
    int32_t before[STENO_WHISPER_AGREE_MAX];
    float before_log_probs[STENO_WHISPER_AGREE_MAX];
    size_t n_before;
    struct steno_whisper_agreement whole; /* of the last call of hypothesis */
    struct steno_whisper_live *kept;      /* or NULL */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool begins_word(const void *arg, int32_t id)
{
    const struct steno_bpe_piece p = steno_bpe_piece(arg, id);
    return p.n && p.p[0] == ' ';
}

steno_status steno_whisper_live_open(steno_whisper_live **out, const struct steno_whisper *m,
                                     steno_whisper_aligner *aligner, steno_err *err)
{
    steno_whisper_live *l = calloc(1, sizeof *l);
    if (l) {
        l->m = m;
        l->aligner = aligner;
        l->done = true;
        l->agreed.first_time = m->special.first_time;
        l->agreed.begins_word = begins_word;
        l->agreed.arg = m->bpe;
        l->agreed.needed = AGREE_NEEDED;
        l->agreed.hold = AGREE_HOLD;
        l->mel = calloc((size_t)(2 * m->dims.audio_ctx * m->dims.mels), sizeof *l->mel);
        l->scores = malloc((size_t)m->dims.vocab * sizeof *l->scores);
    }
    if (!l || !l->mel || !l->scores) {
        steno_whisper_live_close(l);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    *out = l;
    return STENO_OK;
}

void steno_whisper_live_close(steno_whisper_live *l)
{
    if (!l)
        return;
    free(l->mel);
    free(l->scores);
    free(l->kept);
    free(l);
}

struct steno_whisper_agreement *steno_whisper_live_agreement(steno_whisper_live *l)
{
    return &l->agreed;
}

/* ---- the place where partials begin -------------------------------------------------------- */

const int32_t *steno_whisper_live_before(const steno_whisper_live *l, size_t *n)
{
    *n = l->n_before;
    return l->before;
}

static void join_whisper_live(const steno_whisper_live *l, struct steno_whisper_agreement *a)
{
    if (l->n_before)
        steno_whisper_agreement_join(a, l->before, l->before_log_probs, l->n_before, l->from);
}

void steno_whisper_live_join(steno_whisper_live *l)
{
    join_whisper_live(l, &l->agreed);
    l->glanced = false;
    l->n_before = l->hidden = 0;
    l->from = 0;
}

const int32_t *steno_whisper_live_hypothesis(steno_whisper_live *l, const float **log_probs,
                                             size_t *n, size_t *agreed)
{
    l->whole = l->glanced ? l->glance : l->agreed;
    join_whisper_live(l, &l->whole);
    *log_probs = l->whole.log_probs;
    *agreed = l->whole.agreed;
    *n = l->whole.n - least(l->hidden, l->whole.n - *agreed);
    return l->whole.ids;
}

/* Partials of long audio begin behind the last pair of timestamps in the agreed text. */
static void begin_later(steno_whisper_live *l)
{
    const size_t at = l->n_before;
    int32_t shift;
    size_t n;
    if (l->seconds < LONG_SECONDS || at + l->agreed.n > LONG_PIECES)
        return;
    n = steno_whisper_agreement_split(&l->agreed, STENO_WHISPER_AGREE_MAX - at, l->before + at,
                                      l->before_log_probs + at, &shift);
    if (!n)
        return;
    for (size_t i = at; i < at + n; i++)
        l->before[i] += l->before[i] >= l->m->special.first_time ? l->from : 0;
    l->n_before += n;
    l->from += shift;
}

void steno_whisper_live_next_window(steno_whisper_live *l)
{
    l->wide = l->full = false;
    l->done = true;
    l->glances = l->glanced = false;
    l->n_before = l->hidden = 0;
    l->from = 0;
}

/* A copy of the struct alone: both share its buffers, whose content no later partial needs. */
steno_status steno_whisper_live_keep(steno_whisper_live *l, steno_err *err)
{
    if (!l->kept && !(l->kept = malloc(sizeof *l->kept)))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    *l->kept = *l;
    return STENO_OK;
}

void steno_whisper_live_restore(steno_whisper_live *l)
{
    *l = *l->kept; /* l->kept stays, since the copy was made with it */
}

void steno_whisper_live_begin(steno_whisper_live *l, bool glance)
{
    l->glances = glance;
}

/* ---- the encoder --------------------------------------------------------------------------- */

/* Rows for n frames of audio. */
static size_t whisper_live_rows_of(const steno_whisper_live *l, size_t n)
{
    const size_t all = (size_t)l->m->dims.audio_ctx;
    size_t rows = (n + 1) / 2 + (l->wide ? WIDE_MARGIN : MARGIN_ROWS);
    rows = rows > LEAST_ROWS ? rows : LEAST_ROWS;
    rows = (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    return l->full || rows > all ? all : rows;
}

steno_status steno_whisper_live_encode(steno_whisper_live *l, steno_whisper_runner *net,
                                       steno_whisper_state *state,
                                       const struct steno_whisper_live_window *w, steno_err *err)
{
    const size_t mels = (size_t)l->m->dims.mels;
    const size_t from = least(2 * (size_t)l->from, w->n - 1), n = w->n - from;
    const size_t rows = whisper_live_rows_of(l, n);
    const float *mel = w->mel + from * mels;
    struct steno_whisper_window in = {.mel = mel, .n = n, .rows = rows, .floor = w->floor};
    l->state = state;
    l->rows = rows;
    l->o = w->o;
    l->seconds = (double)n / FRAMES_PER_SECOND;
    l->by_characters = w->by_characters;
    l->most = (size_t)(16 + (w->by_characters ? 15 : 8) * l->seconds);
    l->most = l->most < STENO_WHISPER_MAX_TEXT ? l->most : STENO_WHISPER_MAX_TEXT;
    if (rows < (size_t)l->m->dims.audio_ctx && n < 2 * rows) {
        /* Frames of silence; of 0, as behind a whole window, tiny.en and base repeat themselves. */
        memcpy(l->mel, mel, n * mels * sizeof *l->mel);
        for (size_t i = n * mels; i < 2 * rows * mels; i++)
            l->mel[i] = w->floor;
        in.mel = l->mel;
        in.n = 2 * rows;
    }
    return steno_whisper_encode(net, state, &in, err);
}

size_t steno_whisper_live_rows(const steno_whisper_live *l)
{
    return l->rows;
}

/* ---- steps --------------------------------------------------------------------------------- */

steno_status steno_whisper_live_start(steno_whisper_live *l, const int32_t *prompt, size_t n,
                                      steno_err *err)
{
    const struct steno_whisper_agreement *a = &l->agreed;
    const size_t room = (size_t)l->m->dims.text_ctx;
    const size_t old = least(a->n, STENO_WHISPER_MAX_TEXT - 1);
    size_t sot = 0;
    if (n > STENO_WHISPER_PROMPT_MAX || n + old >= room || a->agreed > old)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "a prompt of %zu pieces, the decoder has %zu positions", n, room);
    while (sot + 1 < n && prompt[sot] != l->m->special.sot)
        sot++;
    l->most = l->most < room - n ? l->most : room - n;
    l->most = l->most > old ? l->most : old + 1;
    memcpy(l->text, prompt, n * sizeof *prompt);
    memcpy(l->text + n, a->ids, old * sizeof *a->ids);
    memcpy(l->now.ids, a->ids, a->agreed * sizeof *a->ids);
    memcpy(l->now.log_probs, a->log_probs, a->agreed * sizeof *a->log_probs);
    l->now.n = a->agreed;
    l->now.ended = false;
    l->n_prompt = n;
    l->sot = sot;
    l->placing = false;
    l->n_draft = old - a->agreed;
    l->n_pick = 0;
    if (sot + 1 < n + a->agreed)
        l->pick[l->n_pick++] = sot;
    for (size_t i = 0; i <= l->n_draft; i++)
        l->pick[l->n_pick++] = n - 1 + a->agreed + i;
    l->begun = l->done = false;
    return STENO_OK;
}

bool steno_whisper_live_ask(steno_whisper_live *l, struct steno_whisper_ask *ask)
{
    static const size_t first = 0;
    if (l->done)
        return false;
    if (l->placing)
        *ask = l->place;
    else if (l->begun)
        *ask = (struct steno_whisper_ask){
            .state = l->state, .token = &l->token, .parent = &first, .n = 1};
    else
        *ask = (struct steno_whisper_ask){.state = l->state,
                                          .token = l->text,
                                          .n = l->n_prompt + l->now.n + l->n_draft,
                                          .pick = l->pick,
                                          .n_pick = l->n_pick};
    return true;
}

/* The best piece by these scores, after the rules, behind the pieces so far. */
static int32_t choose_whisper_live(steno_whisper_live *l, const float *logits, float *log_prob)
{
    const size_t n = (size_t)l->m->dims.vocab;
    size_t best = 0;
    float max;
    memcpy(l->scores, logits, n * sizeof *logits);
    steno_whisper_rules_apply(l->m, &l->o->search.rules, l->now.ids, l->now.n, l->scores);
    max = l->m->kernels.max_reduce_f32(l->scores, n);
    while (best < n - 1 && !(l->scores[best] >= max))
        best++;
    *log_prob = l->scores[best] - l->m->kernels.log_sum_f32(l->scores, n);
    return (int32_t)best;
}

/* Whether the pieces end with a part that repeats itself. */
static bool loops(const int32_t *ids, size_t n)
{
    for (size_t part = 1; part <= LOOP_PIECES; part++) {
        const size_t times = LOOP_TIMES * part < LOOP_LEAST ? LOOP_LEAST / part : LOOP_TIMES;
        if (n >= times * part && !memcmp(ids + n - times * part, ids + n - (times - 1) * part,
                                         (times - 1) * part * sizeof *ids))
            return true;
    }
    return false;
}

/* Add the best piece by these scores; false: the text has ended. */
static bool write_piece(steno_whisper_live *l, const float *logits)
{
    struct steno_whisper_decoded *d = &l->now;
    float log_prob;
    const int32_t id = choose_whisper_live(l, logits, &log_prob);
    d->log_probs[d->n] = log_prob;
    d->ended = id == l->m->special.eot;
    if (d->ended)
        return false;
    d->ids[d->n++] = l->token = id;
    return d->n < l->most && !loops(d->ids, d->n);
}

/* Check the draft: pieces that are still the best are kept, and the first other one ends it. */
static bool check_draft(steno_whisper_live *l, const struct steno_whisper_ask *ask)
{
    const size_t vocab = (size_t)l->m->dims.vocab, at = l->n_prompt + l->now.n;
    const float *logits = ask->logits + (l->n_pick - 1 - l->n_draft) * vocab;
    const float no_speech = ask->logits[l->m->special.no_speech];
    size_t kept = 0;
    bool more;
    l->now.no_speech = expf(no_speech - l->m->kernels.log_sum_f32(ask->logits, vocab));
    for (; (more = write_piece(l, logits + kept * vocab)) && kept < l->n_draft; kept++)
        if (l->token != l->text[at + kept])
            break;
    steno_whisper_state_cut(l->state, at + kept);
    return more;
}

static bool is_late(const steno_whisper_live *l)
{
    const double last = (l->seconds + LATE_SECONDS) * TIMES_PER_SECOND;
    for (size_t i = l->now.n; i-- > l->agreed.agreed;)
        if (l->now.ids[i] >= l->m->special.first_time)
            return l->now.ids[i] - l->m->special.first_time > (int32_t)last;
    return false;
}

/* Whether the result is one that a short window may be the reason of. */
static steno_status judge_whisper_live(steno_whisper_live *l, bool *bad, bool *silent,
                                       steno_err *err)
{
    struct steno_whisper_decoded *d = &l->now;
    steno_status st;
    d->sum = 0;
    for (size_t i = 0; i < d->n + d->ended; i++)
        d->sum += (double)d->log_probs[i];
    d->avg_log_prob = d->sum / (double)(d->n + 1);
    st = steno_whisper_decoded_measure(l->m, d, err);
    if (st)
        return st;
    *silent = steno_whisper_decoded_silent(l->o, d);
    *bad = !d->ended || d->compression > l->o->compression ||
           d->avg_log_prob < (double)l->o->log_prob || is_late(l);
    return STENO_OK;
}

/* ---- what is shown (AlignAtt: Papi, Turchi, Negri, 2023; for Whisper SimulStreaming, 2025) ------
 */

/* The result becomes the hypothesis, without its last `hidden` pieces. */
static void keep_result(steno_whisper_live *l, size_t hidden)
{
    struct steno_whisper_agreement *a = &l->glance;
    l->placing = false;
    l->done = true;
    l->hidden = hidden;
    l->glanced = l->glances;
    if (!l->glances) {
        steno_whisper_agreement_add(&l->agreed, l->now.ids, l->now.log_probs, l->now.n);
        begin_later(l);
        return;
    }
    *a = l->agreed;
    a->n = l->now.n;
    memcpy(a->ids, l->now.ids, a->n * sizeof *a->ids);
    memcpy(a->log_probs, l->now.log_probs, a->n * sizeof *a->log_probs);
}

/* The result is there: ask where its pieces lie in the audio. */
static void place_result(steno_whisper_live *l)
{
    const size_t columns = (size_t)(l->seconds * TIMES_PER_SECOND);
    const size_t times = l->text[l->n_prompt - 1] == l->m->special.no_times;
    int32_t ids[STENO_WHISPER_MAX_TEXT];
    size_t n = 0;
    for (size_t i = 0; i < l->now.n; i++)
        if (l->now.ids[i] < l->m->special.first_time)
            ids[n++] = l->now.ids[i];
    l->placing = l->aligner && n &&
                 !steno_whisper_aligner_ask(l->aligner, l->state, l->text + l->sot,
                                            l->n_prompt - l->sot - times, ids, n,
                                            least(columns, l->rows), &l->place, NULL);
    if (l->placing)
        l->done = false;
    else
        keep_result(l, 0);
}

/* Pieces of the result from the first word on that ends within HELD_BACK of the audio's end: a word
 * ends where the next one begins, piece i of the text at jump[i]. */
static size_t count_hidden(const steno_whisper_live *l, const int32_t *jump)
{
    const double limit = (l->seconds - HELD_BACK) * TIMES_PER_SECOND;
    const struct steno_whisper_decoded *d = &l->now;
    size_t word = 0, text = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (d->ids[i] >= l->m->special.first_time)
            continue;
        if (!text || l->by_characters || begins_word(l->m->bpe, d->ids[i]))
            word = i;
        if (jump[++text] > limit)
            return d->n - word;
    }
    return 0;
}

static steno_status take_places(steno_whisper_live *l, steno_whisper_runner *net,
                                const struct steno_whisper_ask *ask, steno_err *err)
{
    int32_t jump[STENO_WHISPER_MAX_TEXT + 1];
    steno_status st = steno_whisper_aligner_jumps(l->aligner, net, ask, jump, err);
    if (!st)
        keep_result(l, count_hidden(l, jump));
    return st;
}

steno_status steno_whisper_live_take(steno_whisper_live *l, steno_whisper_runner *net,
                                     const struct steno_whisper_ask *ask, bool *again,
                                     steno_err *err)
{
    bool more, bad, silent;
    steno_status st;
    *again = false;
    if (l->placing)
        return take_places(l, net, ask, err);
    more = l->begun ? write_piece(l, ask->logits) : check_draft(l, ask);
    l->begun = true;
    if (more)
        return STENO_OK;
    l->done = true;
    st = judge_whisper_live(l, &bad, &silent, err);
    if (st)
        return st;
    if (l->glances && (bad || silent))
        return STENO_OK;
    if (bad && !silent && !l->full) {
        l->full = l->wide = *again = true;
        return STENO_OK;
    }
    l->full = false;
    if (!bad && !silent)
        place_result(l);
    return STENO_OK;
}
