#include "speech/families/whisper/recording_internal.h"

#include <math.h>
#include <stdlib.h>

#define UNSAID 200 /* mel frames of speech that are more than a word */
#define STEP 0.02  /* seconds of a timestamp: two frames */
/* Seconds from the end of a word to the end of the next; pauses within chunks are shorter. */
#define SKIPPED 4.0
/* Letters, marks and blanks of a second of speech, at most: 655 English words in a minute, the
 * record that Guinness lists (S. Shannon, 1995), at 5.5 each. Timestamps may be wrong by 0.2 s,
 * which is a word. */
#define CHARACTERS_PER_SECOND 60
#define CHARACTERS_MORE 12

/* ---- cutting --------------------------------------------------------------------------------- */

static bool is_time(const steno_whisper_recording *j, size_t i)
{
    return j->decoded.ids[i] >= j->m->special.first_time;
}

/* The text ends with one timestamp, not two: nothing follows it in the window. */
static bool has_single_end(const steno_whisper_recording *j)
{
    const size_t n = j->decoded.n;
    return n >= 2 && !is_time(j, n - 2) && is_time(j, n - 1);
}

static double seconds_at(const steno_whisper_recording *j, size_t i)
{
    return (double)j->at.seek * STENO_WHISPER_FRAME_S +
           STEP * (j->decoded.ids[i] - j->m->special.first_time);
}

static void add_cut(steno_whisper_recording *j, size_t first, size_t end, double from, double to)
{
    if (j->n_cuts < STENO_WHISPER_MAX_SEGMENTS)
        j->cut[j->n_cuts++] = (struct steno_whisper_cut){
            .first = first, .n = end - first, .start = from, .end = to, .empty = from == to};
}

/* One segment of all pieces; its end is the last timestamp, or the window's. */
static void cut_whole(steno_whisper_recording *j)
{
    const double from = (double)j->at.seek * STENO_WHISPER_FRAME_S;
    double length = (double)j->at.size * STENO_WHISPER_FRAME_S;
    for (size_t i = j->decoded.n; i-- > 0;) {
        if (!is_time(j, i))
            continue;
        if (j->decoded.ids[i] != j->m->special.first_time)
            length = STEP * (j->decoded.ids[i] - j->m->special.first_time);
        break;
    }
    add_cut(j, 0, j->decoded.n, from, from + length);
}

/* Whether the next window begins where a timestamp says, instead of behind the last word. */
static bool times_decide(const steno_whisper_recording *j)
{
    return !j->o.words_move && !j->o.recover;
}

size_t steno_whisper_segments_cut(steno_whisper_recording *j)
{
    const size_t n = j->decoded.n;
    size_t last = 0;
    j->n_cuts = 0;
    for (size_t i = 1; i < n; i++)
        if (is_time(j, i) && is_time(j, i - 1)) {
            add_cut(j, last, i, seconds_at(j, last), seconds_at(j, i - 1));
            last = i;
        }
    if (!last) {
        cut_whole(j);
        return j->at.size;
    }
    if (has_single_end(j)) {
        add_cut(j, last, n, seconds_at(j, last), seconds_at(j, n - 1));
        return j->at.size;
    }
    return 2 * (size_t)(j->decoded.ids[last - 1] - j->m->special.first_time);
}

/* ---- words ----------------------------------------------------------------------------------- */

static double hundredths(double x)
{
    return rint(x * 100) / 100;
}

/* Shorten the first word or two after a pause where they reach back into it. */
static void shorten_first(steno_whisper_recording *j, struct steno_whisper_timed *w, size_t n)
{
    const double median = j->words.median, longest = j->words.longest;
    if (w[0].end - j->at.last_speech <= median * 4 ||
        (w[0].end - w[0].start <= longest && (n < 2 || w[1].end - w[0].start <= longest * 2)))
        return;
    if (n > 1 && w[1].end - w[1].start > longest)
        w[0].end = w[1].start = fmax(w[1].end / 2, w[1].end - longest);
    w[0].start = fmax(0, w[0].end - longest);
}

/* At each end of a segment, the time is the segment's or the word's: that which is less likely to
 * include a pause. */
static void adjust_ends(steno_whisper_recording *j, struct steno_whisper_cut *c,
                        struct steno_whisper_timed *first, struct steno_whisper_timed *last)
{
    if (c->start < first->end && c->start - 0.5 > first->start)
        first->start = fmax(0, fmin(first->end - j->words.median, c->start));
    else
        c->start = first->start;
    if (c->end > last->start && c->end + 0.5 < last->end)
        last->end = fmax(last->start + j->words.median, c->end);
    else
        c->end = last->end;
    c->empty = j->o.words_move && c->start == c->end; /* as faster-whisper does */
    j->at.last_speech = c->end;
}

/* Words of one segment from number *at on; those without spelling are gone afterwards. */
static void take_words_recording_segments(steno_whisper_recording *j, struct steno_whisper_cut *c,
                                          size_t *at, size_t *to)
{
    struct steno_whisper_timed *w = j->words.word;
    size_t text = 0, taken = 0;
    for (size_t i = c->first; i < c->first + c->n; i++)
        text += j->decoded.ids[i] < j->m->special.eot;
    c->first_word = *to;
    for (; *at < j->words.n && taken < text; ++*at) {
        struct steno_whisper_timed t = w[*at];
        taken += t.n;
        if (!t.bytes)
            continue;
        t.start = hundredths((double)j->at.seek * STENO_WHISPER_FRAME_S + t.start);
        t.end = hundredths((double)j->at.seek * STENO_WHISPER_FRAME_S + t.end);
        w[(*to)++] = t;
    }
    c->n_words = *to - c->first_word;
    if (!c->n_words)
        return;
    shorten_first(j, w + c->first_word, c->n_words);
    adjust_ends(j, c, w + c->first_word, w + *to - 1);
}

/* Words of the window follow each other and those before it, and segments have their times. */
static void order_words(steno_whisper_recording *j, size_t n, double before)
{
    struct steno_whisper_timed *w = j->words.word;
    steno_whisper_words_order(w, n, before);
    for (size_t i = 0; i < j->n_cuts; i++) {
        struct steno_whisper_cut *c = &j->cut[i];
        if (!c->n_words)
            continue;
        c->start = w[c->first_word].start;
        c->end = w[c->first_word + c->n_words - 1].end;
    }
}

void steno_whisper_segments_text(steno_whisper_recording *j)
{
    j->n_text = 0;
    for (size_t i = 0; i < steno_whisper_segments_pieces(j); i++)
        if (j->decoded.ids[i] < j->m->special.eot)
            j->text_ids[j->n_text++] = j->decoded.ids[i];
}

/* Mel frames in which the words lie: those before the next window, if its place is known. */
static size_t frames_of_words(const steno_whisper_recording *j)
{
    const bool known = times_decide(j) && j->at.next_seek > j->at.seek;
    return known ? steno_whisper_least(j->at.next_seek - j->at.seek, j->at.size) : j->at.size;
}

steno_status steno_whisper_segments_ask(steno_whisper_recording *j, struct steno_whisper_ask *ask,
                                        steno_err *err)
{
    int32_t start[3];
    return steno_whisper_aligner_ask(j->aligner, j->state, start,
                                     steno_whisper_prompt_start(j, start), j->text_ids, j->n_text,
                                     frames_of_words(j) / 2, ask, err);
}

steno_status steno_whisper_segments_take(steno_whisper_recording *j, steno_whisper_runner *net,
                                         const struct steno_whisper_ask *ask, steno_err *err)
{
    const double before = j->at.last_speech;
    struct steno_whisper_alignment a;
    size_t at = 0, to = 0;
    steno_status st = steno_whisper_aligner_take(j->aligner, net, ask, &a, err);
    if (st)
        return st;
    st = steno_whisper_words_make(j->m, &a, j->text_ids,
                                  steno_whisper_by_characters(j->at.language), &j->words, err);
    steno_whisper_alignment_free(&a);
    for (size_t i = 0; i < j->n_cuts && !st; i++)
        take_words_recording_segments(j, &j->cut[i], &at, &to);
    if (!st && !j->o.words_move)
        order_words(j, to, before);
    return st;
}

double steno_whisper_segments_end(const steno_whisper_recording *j)
{
    for (size_t i = j->n_cuts; i-- > 0;)
        if (j->cut[i].n_words)
            return j->words.word[j->cut[i].first_word + j->cut[i].n_words - 1].end;
    return j->cut[j->n_cuts - 1].end;
}

bool steno_whisper_segments_skip(const steno_whisper_recording *j)
{
    double at = (double)j->at.seek * STENO_WHISPER_FRAME_S;
    for (size_t i = 0; i < j->n_cuts; i++)
        for (size_t k = 0; k < j->cut[i].n_words; k++) {
            const double end = j->words.word[j->cut[i].first_word + k].end;
            if (end - at > SKIPPED)
                return j->o.recover;
            at = end;
        }
    return false;
}

/* The frame at `said`, the end of the last word in seconds, if more speech follows than a word,
 * else the window's end. */
static size_t seek_unsaid(const steno_whisper_recording *j, double said)
{
    const size_t end = j->at.seek + j->at.size;
    const size_t at = said > 0 ? (size_t)(said * 100) : 0;
    return at > j->at.seek && at + UNSAID < end ? at : end;
}

/* Code points of the text of a segment. */
static size_t characters(const steno_whisper_recording *j, const struct steno_whisper_cut *c)
{
    size_t n = 0;
    for (size_t i = c->first; i < c->first + c->n; i++) {
        struct steno_bpe_piece p;
        if (is_time(j, i) || j->decoded.ids[i] >= steno_bpe_count(j->m->bpe))
            continue; /* no text: tokens of time need not be in the vocabulary */
        p = steno_bpe_piece(j->m->bpe, j->decoded.ids[i]);
        for (size_t k = 0; k < p.n; k++)
            n += ((unsigned char)p.p[k] & 0xc0) != 0x80;
    }
    return n;
}

/* The number of segments before those that say more than can be said until the last one's end. */
static size_t credible(const steno_whisper_recording *j)
{
    const double end = j->cut[j->n_cuts - 1].end;
    double written = 0, most = CHARACTERS_MORE;
    size_t n = j->n_cuts;
    for (size_t i = j->n_cuts; i-- > 1;) {
        written += (double)characters(j, &j->cut[i]);
        if (written - CHARACTERS_PER_SECOND * (end - j->cut[i].start) <= most)
            continue;
        most = written - CHARACTERS_PER_SECOND * (end - j->cut[i].start);
        n = i;
    }
    return n;
}

/* Timestamps that are too early press the words behind them together, and the next window would
 * hear these again: it begins before them instead, if more than a word follows. */
static size_t seek_credible(steno_whisper_recording *j, size_t seek)
{
    const size_t n = j->n_cuts, end = j->at.seek + j->at.size;
    size_t at;
    if (seek >= end || (j->n_cuts = credible(j)) == n)
        return seek;
    at = seek_unsaid(j, j->cut[j->n_cuts].start);
    if (at < end)
        return at;
    j->n_cuts = n;
    return seek;
}

size_t steno_whisper_segments_seek(steno_whisper_recording *j, size_t seek)
{
    double end;
    if (times_decide(j))
        seek = seek_credible(j, seek);
    end = steno_whisper_segments_end(j);
    j->at.last_speech = end;
    if (j->o.recover)
        return seek_unsaid(j, end);
    return j->o.words_move && !has_single_end(j) && end > (double)j->at.seek * STENO_WHISPER_FRAME_S
               ? (size_t)rint(end * 100)
               : seek;
}

/* ---- what is kept of them -------------------------------------------------------------------- */

steno_status steno_whisper_segments_keep(steno_whisper_recording *j, steno_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->n_cuts; i++) {
        const struct steno_whisper_cut c = j->cut[i];
        size_t n;
        steno_status st;
        steno_buf_cut(&j->text, 0);
        st = steno_bpe_text(j->m->bpe, j->decoded.ids + c.first, c.n, &j->text);
        if (st)
            return steno_fail(err, st, "out of memory for text");
        (void)steno_whisper_strip(j->text.data ? j->text.data : "", j->text.len, &n);
        if (!n || (c.empty && !steno_whisper_partial_agreed(j)))
            continue;
        st = steno_whisper_pieces_add(&j->at.context, j->decoded.ids + c.first, c.n, err);
        if (st)
            return st;
        j->cut[kept++] = c;
    }
    j->n_cuts = kept;
    return STENO_OK;
}

size_t steno_whisper_segments_pieces(const steno_whisper_recording *j)
{
    return j->n_cuts ? j->cut[j->n_cuts - 1].first + j->cut[j->n_cuts - 1].n : 0;
}

/* The text of the segment, then the spellings of its words, each terminated. */
static steno_status write_texts(steno_whisper_recording *j, const struct steno_whisper_cut *c,
                                size_t *words)
{
    const struct steno_whisper_timed *t = j->words.word + c->first_word;
    steno_status st;
    steno_buf_cut(&j->text, 0);
    st = steno_bpe_text(j->m->bpe, j->decoded.ids + c->first, c->n, &j->text);
    if (!st)
        st = steno_buf_add(&j->text, "", 1);
    *words = j->text.len;
    for (size_t i = 0; i < c->n_words && !st; i++) {
        st = steno_buf_add(&j->text, j->words.text.data + t[i].text, t[i].bytes);
        if (!st)
            st = steno_buf_add(&j->text, "", 1);
    }
    if (st)
        return st;
    free(j->out);
    j->out = calloc(c->n_words + 1, sizeof *j->out);
    return j->out ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_whisper_recording_next(steno_whisper_recording *j,
                                          struct steno_whisper_segment *out)
{
    const struct steno_whisper_cut *c = &j->cut[j->n_read];
    const struct steno_whisper_timed *t = j->words.word ? j->words.word + c->first_word : NULL;
    size_t at;
    steno_status st;
    if (j->phase != STENO_WHISPER_LISTENING || j->n_read == j->n_cuts)
        return STENO_NEED_MORE;
    st = write_texts(j, c, &at);
    if (st)
        return st;
    j->n_read++;
    for (size_t i = 0; i < c->n_words; at += t[i++].bytes + 1)
        j->out[i] = (struct steno_whisper_word){.text = j->text.data + at,
                                                .n_ids = t[i].n,
                                                .start = t[i].start,
                                                .end = t[i].end,
                                                .probability = t[i].probability};
    *out = (struct steno_whisper_segment){.seek = j->at.seek,
                                          .language = j->at.spoken,
                                          .start = c->start,
                                          .end = c->end,
                                          .text = j->text.data,
                                          .ids = j->decoded.ids + c->first,
                                          .log_probs = j->decoded.log_probs + c->first,
                                          .n_ids = c->n,
                                          .words = j->out,
                                          .n_words = c->n_words};
    return STENO_OK;
}
