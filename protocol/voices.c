#include "protocol/voices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/query.h"
#include "protocol/word.h"

#define MOST_SPEAKERS 1000 /* of steno_speaker_options */
#define MOVE_WORDS 2       /* that change their speaker, so that a sentence has one */

struct spoken {
    const struct steno_word *word;
    int speaker; /* of the turns */
    bool end;    /* of a sentence or segment */
};

/* ---- what is wanted -------------------------------------------------------------------------- */

/* The number that a parameter sets; NULL: none. */
static int *voice_number(struct steno_voices_wants *w, const char *name)
{
    if (!strcmp(name, "num_speakers"))
        return &w->speakers;
    if (!strcmp(name, "min_speakers"))
        return &w->min;
    return !strcmp(name, "max_speakers") ? &w->max : NULL;
}

bool steno_voices_known(const char *name)
{
    struct steno_voices_wants w;
    return voice_number(&w, name) || !strcmp(name, "diarize");
}

steno_status steno_voices_set(struct steno_voices_wants *w, const char *name, const char *value,
                              steno_err *err)
{
    int *number = voice_number(w, name);
    return number ? steno_query_int(name, value, 1, MOST_SPEAKERS, number, err)
                  : steno_query_bool(name, value, &w->on, err);
}

steno_status steno_voices_check(const struct steno_voices_wants *w, const char **param,
                                steno_err *err)
{
    const char *given = w->speakers ? "num_speakers"
                        : w->min    ? "min_speakers"
                        : w->max    ? "max_speakers"
                                    : NULL;
    *param = given;
    if (given && !w->on)
        return steno_fail(err, STENO_ERR_INVAL, "%s: needs diarize=true", given);
    if (!w->max || w->min <= w->max)
        return STENO_OK;
    *param = "min_speakers";
    return steno_fail(err, STENO_ERR_INVAL, "min_speakers: %d is more than max_speakers, %d",
                      w->min, w->max);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The first turn that begins after a time. */
static size_t begins_after(const struct steno_turn *turn, size_t n, double time)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (turn[mid].start <= time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Who talks at a time, or next to it; -1: nobody ever. */
static int speaker_at(const struct steno_turn *turn, size_t n, double time)
{
    const size_t low = begins_after(turn, n, time);
    if (!n)
        return -1;
    if (!low)
        return turn[0].speaker;
    if (low == n || time - turn[low - 1].end <= turn[low].start - time)
        return turn[low - 1].speaker;
    return turn[low].speaker;
}

/* The change before word i moves to `to`. No other change is on the way. */
static void move_change(struct spoken *s, size_t i, size_t to)
{
    for (size_t k = to; k < i; k++)
        s[k].speaker = s[i].speaker;
    for (size_t k = i; k < to; k++)
        s[k].speaker = s[i - 1].speaker;
}

static bool same_speaker(const struct spoken *s, size_t from, size_t to)
{
    for (size_t k = from; k < to; k++)
        if (s[k].speaker != s[from].speaker)
            return false;
    return true;
}

/* Move the changes that are within a sentence to its nearest end. What moves is never a whole
 * stretch of one speaker, who would be gone. */
static void snap(struct spoken *s, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (s[i].speaker == s[i - 1].speaker || s[i - 1].end)
            continue;
        for (size_t far = 1; far <= MOVE_WORDS; far++) {
            if (i + far < n && s[i + far - 1].end && same_speaker(s, i, i + far + 1)) {
                move_change(s, i, i + far);
                break;
            }
            if (i > far && s[i - far - 1].end && same_speaker(s, i - far - 1, i)) {
                move_change(s, i, i - far);
                break;
            }
        }
    }
}

/* Write the words of a segment behind each other, with who(ctx, s) speaks in the middle of each. */
static struct spoken *put_spoken(struct spoken *s, const struct steno_event *seg,
                                 int (*who)(const void *ctx, double seconds), const void *ctx)
{
    for (size_t k = 0; k < seg->n_words; k++) {
        const struct steno_word *w = &seg->words[k];
        *s++ = (struct spoken){w, who(ctx, (w->start + w->end) / 2),
                               k + 1 == seg->n_words || steno_word_ends_sentence(w->text)};
    }
    return s;
}

struct turns {
    const struct steno_turn *turn; /* [n] */
    size_t n;
};

static int who_has_turn(const void *ctx, double seconds)
{
    const struct turns *t = ctx;
    return speaker_at(t->turn, t->n, seconds);
}

static struct spoken *find_speakers(const steno_transcript *t, const struct steno_turn *turn,
                                    size_t n_turns)
{
    const struct turns turns = {turn, n_turns};
    size_t n = 0;
    struct spoken *s, *end;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        n += steno_transcript_segment(t, i)->n_words;
    s = end = malloc((n + 1) * sizeof *s);
    for (size_t i = 0; s && i < steno_transcript_n_segments(t); i++)
        end = put_spoken(end, steno_transcript_segment(t, i), who_has_turn, &turns);
    if (s)
        snap(s, n);
    return s;
}

/* ---- finals of live sessions ----------------------------------------------------------------- */

/* The speakers of the words; one that is not known has that of the word before, or else after. */
static struct spoken *speakers_of_final(const struct steno_event *ev,
                                        int (*who)(const void *ctx, double seconds),
                                        const void *ctx)
{
    struct spoken *s = malloc(ev->n_words * sizeof *s);
    int last = -1;
    if (!s)
        return NULL;
    put_spoken(s, ev, who, ctx);
    for (size_t k = 0; k < ev->n_words; k++)
        last = s[k].speaker = s[k].speaker < 0 ? last : s[k].speaker;
    for (size_t k = ev->n_words; k-- > 0;)
        last = s[k].speaker = s[k].speaker < 0 ? last : s[k].speaker;
    snap(s, ev->n_words);
    return s;
}

static size_t join_words(const struct spoken *s, size_t n_words, struct steno_voiced *out)
{
    size_t n = 0;
    for (size_t a = 0, b; a < n_words && s[a].speaker >= 0; a = b) {
        for (b = a + 1; b < n_words && s[b].speaker == s[a].speaker;)
            b++;
        out[n++] =
            (struct steno_voiced){s[a].speaker, s[a].word->start, s[b - 1].word->end, a, b - a};
    }
    return n;
}

steno_status steno_voices_divide(const struct steno_event *final,
                                 int (*who)(const void *ctx, double seconds), const void *ctx,
                                 struct steno_voiced **out, size_t *n)
{
    const int one =
        final->n_words || !*final->text ? -1 : who(ctx, (final->start + final->end) / 2);
    struct steno_voiced *parts = calloc(final->n_words + 1, sizeof *parts);
    struct spoken *s = parts && final->n_words ? speakers_of_final(final, who, ctx) : NULL;
    const bool done = parts && (s || !final->n_words);
    *n = 0;
    *out = parts;
    if (s)
        *n = join_words(s, final->n_words, parts);
    else if (done && one >= 0)
        parts[(*n)++] = (struct steno_voiced){one, final->start, final->end, 0, 0};
    if (!*n) {
        free(parts);
        *out = NULL;
    }
    free(s);
    return done ? STENO_OK : STENO_ERR_NOMEM;
}

unsigned steno_live_voice_at(const struct steno_live_voices *v, double seconds)
{
    size_t i = 1;
    if (!v || !v->n_parts)
        return 0;
    while (i < v->n_parts && v->part[i].start <= seconds)
        i++;
    return (unsigned)v->part[i - 1].speaker + 1;
}

steno_status steno_voices_put_words(struct steno_buf *out, const struct steno_event *seg,
                                    size_t word, size_t n_words, size_t *at)
{
    steno_status st = STENO_OK;
    for (size_t k = word; !st && k < word + n_words; k++) {
        const bool spaced = steno_word_is_spaced(seg->text, at, seg->words[k].text);
        st = steno_buf_printf(out, "%s%s", k > word && spaced ? " " : "", seg->words[k].text);
    }
    return st;
}

/* ---- segments -------------------------------------------------------------------------------- */

struct maker {
    steno_transcript *out;
    struct steno_attribution *voice; /* [cap] of the segments of out */
    const struct steno_turn *turn;   /* [n_turns] */
    size_t n_turns;
    size_t cap;
    unsigned *number; /* [n_numbers] of the turns' speakers, from 1; 0 = not yet */
    size_t n_numbers;
    unsigned next;
};

/* The share of a segment in which its speaker has a turn. */
static float voice_share(const struct maker *m, const struct steno_event *seg, int speaker)
{
    double sum = 0;
    size_t i = begins_after(m->turn, m->n_turns, seg->start);
    for (i -= i > 0; i < m->n_turns && m->turn[i].start < seg->end; i++)
        if (m->turn[i].speaker == speaker)
            sum += fmax(fmin(m->turn[i].end, seg->end) - fmax(m->turn[i].start, seg->start), 0);
    return seg->end > seg->start ? (float)fmin(sum / (seg->end - seg->start), 1) : 1;
}

static bool add_voiced(struct maker *m, const struct steno_event *piece, int speaker)
{
    const size_t before = steno_transcript_n_segments(m->out);
    size_t n;
    if (steno_transcript_add(m->out, piece, NULL))
        return false;
    n = steno_transcript_n_segments(m->out);
    if (n == before) /* it has no text */
        return true;
    if (speaker >= 0 && !m->number[speaker])
        m->number[speaker] = ++m->next;
    if (n > m->cap) {
        const size_t cap = 2 * n + 16;
        struct steno_attribution *grown = realloc(m->voice, cap * sizeof *grown);
        if (!grown)
            return false;
        m->voice = grown;
        m->cap = cap;
    }
    m->voice[n - 1] = (struct steno_attribution){0};
    if (speaker >= 0)
        m->voice[n - 1] =
            (struct steno_attribution){m->number[speaker], voice_share(m, piece, speaker)};
    return true;
}

/* Words [a, b) of a segment as one; *at: where the word before them ended in its text. */
static bool add_words(struct maker *m, const struct steno_event *seg, size_t a, size_t b,
                      size_t *at, int speaker)
{
    struct steno_event piece = *seg;
    double logs = 0;
    struct steno_buf text;
    bool done;
    steno_buf_init(&text, SIZE_MAX / 2);
    done = !steno_voices_put_words(&text, seg, a, b - a, at);
    for (size_t k = a; k < b; k++)
        logs += steno_confidence_log(seg->words[k].confidence);
    piece.start = seg->words[a].start;
    piece.end = seg->words[b - 1].end;
    piece.words = seg->words + a;
    piece.n_words = piece.stable_words = b - a;
    piece.text = text.data ? text.data : "";
    piece.stable_bytes = text.len;
    piece.confidence = (float)exp(logs / (double)(b - a));
    piece.n_tokens = piece.n_alternatives = piece.n_sections = 0;
    done = done && add_voiced(m, &piece, speaker);
    steno_buf_free(&text);
    return done;
}

static bool add_segment(struct maker *m, const struct steno_event *seg, const struct spoken *s,
                        const struct steno_turn *turn, size_t n_turns)
{
    size_t at = 0;
    if (!seg->n_words)
        return add_voiced(m, seg, speaker_at(turn, n_turns, (seg->start + seg->end) / 2));
    if (same_speaker(s, 0, seg->n_words))
        return add_voiced(m, seg, s[0].speaker);
    for (size_t a = 0, b; a < seg->n_words; a = b) {
        for (b = a + 1; b < seg->n_words && s[b].speaker == s[a].speaker;)
            b++;
        if (!add_words(m, seg, a, b, &at, s[a].speaker))
            return false;
    }
    return true;
}

static bool name_speakers(const struct maker *m, const char *const *names)
{
    bool good = true;
    for (size_t i = 0; names && good && i < m->n_numbers; i++)
        if (m->number[i] && names[i])
            good = !steno_transcript_name_speaker(m->out, m->number[i], names[i]);
    return good;
}

steno_transcript *steno_transcript_with_voices(const steno_transcript *t,
                                               const struct steno_turn *turn, size_t n,
                                               const char *const *names)
{
    struct maker m = {.out = steno_transcript_new(0), .turn = turn, .n_turns = n};
    struct spoken *s = find_speakers(t, turn, n);
    bool good;
    size_t word = 0;
    for (size_t i = 0; i < n; i++)
        if ((size_t)turn[i].speaker >= m.n_numbers)
            m.n_numbers = (size_t)turn[i].speaker + 1;
    m.number = calloc(m.n_numbers + 1, sizeof *m.number);
    good = m.out && m.number && s;
    for (size_t i = 0; good && i < steno_transcript_n_segments(t); i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        good = add_segment(&m, seg, s + word, turn, n);
        word += seg->n_words;
    }
    free(s);
    if (good) {
        steno_transcript_set_duration(m.out, steno_transcript_duration(t));
        steno_transcript_take_voices(m.out, m.voice, m.next);
        m.voice = NULL;
        good = name_speakers(&m, names);
    }
    free(m.number);
    free(m.voice);
    if (!good)
        steno_transcript_free(m.out);
    return good ? m.out : NULL;
}

steno_status steno_voices_put_label(struct steno_buf *out, const steno_transcript *t,
                                    unsigned speaker)
{
    const char *name = steno_transcript_speaker_name(t, speaker);
    return name ? steno_buf_puts(out, name) : steno_buf_printf(out, "Speaker %u", speaker);
}

steno_status steno_voices_write_text(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = STENO_OK;
    unsigned last = 0;
    for (size_t i = 0; i < steno_transcript_n_segments(t) && !st; i++) {
        const unsigned speaker = steno_transcript_segment_speaker(t, i);
        const bool begins = !i || speaker != last;
        if (begins)
            st = steno_buf_puts(out, i ? "\n" : "");
        if (!st && begins)
            st = steno_voices_put_label(out, t, speaker);
        if (!st && begins)
            st = steno_buf_puts(out, ":");
        if (!st)
            st = steno_buf_printf(out, " %s", steno_transcript_segment(t, i)->text);
        last = speaker;
    }
    return st;
}
