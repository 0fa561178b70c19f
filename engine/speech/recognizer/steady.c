#include "speech/recognizer/steady.h"

#include <string.h>

#include "base/ascii.h"
#include "base/hash.h"

#define MOST_WORDS 64 /* that are compared: more of them are shown as they are */

/* ---- words ----------------------------------------------------------------------------------- */

/* The bytes of a text without the marks at its end. */
static size_t without_marks(const char *text, size_t n)
{
    static const char *const marks[] = {".",
                                        ",",
                                        "?",
                                        "!",
                                        ";",
                                        ":",
                                        "\xE2\x80\xA6",
                                        "\xE3\x80\x82",
                                        "\xEF\xBC\x8C",
                                        "\xEF\xBC\x9F",
                                        "\xEF\xBC\x81",
                                        "\xE3\x80\x81"}; /* … 。 ， ？ ！ 、 */
    for (size_t i = 0; i < sizeof marks / sizeof *marks;) {
        const size_t k = strlen(marks[i]);
        const bool ends = n > k && !memcmp(text + n - k, marks[i], k);
        n -= ends ? k : 0;
        i = ends ? 0 : i + 1;
    }
    return n;
}

/* Hash of a word without ASCII's marks and capitals, and without marks at its end. */
static uint64_t key_of(const char *word)
{
    const size_t n = without_marks(word, strlen(word));
    uint64_t h = STENO_HASH;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)steno_to_small(word[i]);
        if (c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            h = steno_hash_add(h, c);
    }
    return h;
}

/* Whether a text is its words with a blank between each two. */
static bool is_spaced(const struct steno_event *ev)
{
    const char *at = ev->text;
    for (size_t i = 0; i < ev->n_words; i++) {
        const size_t n = strlen(ev->words[i].text);
        if ((i && *at++ != ' ') || strncmp(at, ev->words[i].text, n) != 0)
            return false;
        at += n;
    }
    return !*at;
}

/* Whether the text is one of finished windows: what a final would say. */
static bool is_finished(const struct steno_event *ev)
{
    const struct steno_section *last = ev->n_sections ? &ev->sections[ev->n_sections - 1] : NULL;
    return last && last->first_word + last->n_words == ev->n_words;
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Words with which both lists begin. */
static size_t common_words(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

/* How many of the words `now` [m] say again what the words `before` [n] do: those behind them are
 * new. The head of `now` that is the fewest edits away; of several the one nearest to n. */
static size_t said_again(const uint64_t *before, size_t n, const uint64_t *now, size_t m)
{
    size_t cost[MOST_WORDS + 1], best = 0;
    for (size_t j = 0; j <= m; j++)
        cost[j] = j;
    for (size_t i = 0; i < n; i++) {
        size_t diagonal = cost[0];
        cost[0] = i + 1;
        for (size_t j = 1; j <= m; j++) {
            const size_t changed = diagonal + (before[i] != now[j - 1]);
            size_t least = cost[j] < cost[j - 1] ? cost[j] + 1 : cost[j - 1] + 1;
            diagonal = cost[j];
            cost[j] = changed < least ? changed : least;
        }
    }
    for (size_t j = 1; j <= m; j++) {
        const size_t away = j > n ? j - n : n - j, was = best > n ? best - n : n - best;
        if (cost[j] < cost[best] || (cost[j] == cost[best] && away < was))
            best = j;
    }
    return best;
}

static bool add_word(struct steno_steady *t, const struct steno_word *w, size_t bytes, uint64_t key)
{
    struct steno_word *to = &t->shown[t->n];
    *to = *w;
    to->text = steno_arena_strndup(t->arena[t->turn], w->text, bytes);
    t->shown_keys[t->n++] = key;
    return to->text != NULL;
}

/* Add word i of the model's, as it was spelled before if it was. */
static bool add_heard(struct steno_steady *t, const struct steno_event *ev, size_t i,
                      const struct steno_steady *was, bool as_it_is)
{
    const struct steno_word *w = &ev->words[i];
    const size_t all = strlen(w->text);
    struct steno_word same = *w;
    if (as_it_is || i < ev->stable_words)
        return add_word(t, w, all, t->heard[i]);
    if (t->n >= was->n || was->shown_keys[t->n] != t->heard[i])
        return add_word(t, w, without_marks(w->text, all), t->heard[i]);
    same.text = was->shown[t->n].text;
    return add_word(t, &same, strlen(same.text), t->heard[i]);
}

/* The words to be shown: those of the model that are agreed on, those that were shown behind them,
 * and what is new behind these. */
static bool choose_words(struct steno_steady *t, const struct steno_event *ev,
                         const struct steno_steady *was, bool as_it_is)
{
    const size_t same = common_words(t->heard, t->n_heard, was->shown_keys, was->n);
    size_t agreed = common_words(t->heard, t->n_heard, was->heard, was->n_heard), old, next;
    bool ok = true;
    agreed = agreed > ev->stable_words ? agreed : ev->stable_words;
    agreed = agreed > same ? agreed : same;
    if (as_it_is || was->n - same > MOST_WORDS || t->n_heard - same > MOST_WORDS) {
        agreed = next = t->n_heard;
        old = was->n;
    } else {
        old = same +
              said_again(t->heard + same, agreed - same, was->shown_keys + same, was->n - same);
        next = agreed + said_again(was->shown_keys + old, was->n - old, t->heard + agreed,
                                   t->n_heard - agreed);
    }
    for (size_t i = 0; i < agreed && ok; i++)
        ok = add_heard(t, ev, i, was, as_it_is);
    for (size_t i = old; i < was->n && ok; i++)
        ok = add_word(t, &was->shown[i], strlen(was->shown[i].text), was->shown_keys[i]);
    for (size_t i = next; i < t->n_heard && ok; i++)
        ok = add_heard(t, ev, i, was, false);
    return ok;
}

/* ---- the event ------------------------------------------------------------------------------- */

/* Words follow each other, whichever partial they are from. */
static void order_times(struct steno_word *w, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        w[i].start = w[i].start > w[i - 1].end ? w[i].start : w[i - 1].end;
        w[i].end = w[i].end > w[i].start ? w[i].end : w[i].start;
    }
}

static steno_status write_event(const struct steno_steady *t, struct steno_event *io)
{
    steno_arena *a = t->arena[t->turn];
    size_t bytes = 1;
    char *text, *at;
    for (size_t i = 0; i < t->n; i++)
        bytes += strlen(t->shown[i].text) + 1;
    text = at = steno_arena_alloc(a, bytes);
    if (!text)
        return steno_arena_failure(a);
    for (size_t i = 0; i < t->n; i++) {
        const size_t n = strlen(t->shown[i].text);
        if (i)
            *at++ = ' ';
        memcpy(at, t->shown[i].text, n);
        at += n;
    }
    *at = 0;
    if (io->n_words != t->n || memcmp(t->shown_keys, t->heard, t->n * sizeof *t->heard) != 0)
        io->n_tokens = 0; /* they spell what the model says */
    io->text = text;
    io->words = t->shown;
    io->n_words = t->n;
    io->stable_bytes =
        io->stable_bytes < (size_t)(at - text) ? io->stable_bytes : (size_t)(at - text);
    io->end = t->n ? t->shown[t->n - 1].end : io->end;
    return STENO_OK;
}

/* Text without blanks between its words: the marks at its end alone are left out, unless they are
 * stable. */
static steno_status drop_end_marks(struct steno_event *io, steno_arena *a)
{
    const size_t n = strlen(io->text), kept = without_marks(io->text, n);
    struct steno_word *w;
    const char *word;
    if (kept == n || kept < io->stable_bytes || !io->n_words || io->stable_words == io->n_words)
        return STENO_OK;
    word = io->words[io->n_words - 1].text;
    if (strlen(word) <= n - kept || strcmp(word + strlen(word) - (n - kept), io->text + kept) != 0)
        return STENO_OK;
    w = steno_arena_calloc(a, io->n_words, sizeof *w);
    if (!w)
        return steno_arena_failure(a);
    memcpy(w, io->words, io->n_words * sizeof *w);
    w[io->n_words - 1].text = steno_arena_strndup(a, word, strlen(word) - (n - kept));
    io->words = w;
    io->text = steno_arena_strndup(a, io->text, kept);
    return io->text && w[io->n_words - 1].text ? STENO_OK : steno_arena_failure(a);
}

steno_status steno_steady_apply(struct steno_steady *t, struct steno_event *io)
{
    const struct steno_steady was = *t;
    const bool finished = is_finished(io);
    steno_arena *a;
    t->turn = !t->turn; /* the arena of the last partial but one becomes that of this one */
    a = steno_arena_renew(&t->arena[t->turn]);
    if (!a)
        return STENO_ERR_NOMEM;
    if (!is_spaced(io)) {
        steno_steady_reset(t);
        return finished ? STENO_OK : drop_end_marks(io, a);
    }
    t->n = 0;
    t->n_heard = io->n_words;
    t->heard = steno_arena_calloc(a, io->n_words + 1, sizeof *t->heard);
    t->shown = steno_arena_calloc(a, io->n_words + was.n + 1, sizeof *t->shown);
    t->shown_keys = steno_arena_calloc(a, io->n_words + was.n + 1, sizeof *t->shown_keys);
    if (!t->heard || !t->shown || !t->shown_keys) {
        steno_steady_reset(t);
        return steno_arena_failure(a);
    }
    for (size_t i = 0; i < io->n_words; i++)
        t->heard[i] = key_of(io->words[i].text);
    if (!choose_words(t, io, &was, finished)) {
        steno_steady_reset(t);
        return steno_arena_failure(a);
    }
    order_times(t->shown, t->n);
    return write_event(t, io);
}

void steno_steady_reset(struct steno_steady *t)
{
    t->n = t->n_heard = 0;
}

void steno_steady_free(struct steno_steady *t)
{
    steno_arena_free(t->arena[0]);
    steno_arena_free(t->arena[1]);
    *t = (struct steno_steady){0};
}
