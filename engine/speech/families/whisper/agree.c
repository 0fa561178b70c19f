#include "speech/families/whisper/agree.h"

#include <string.h>

#define MAX_HOLD 8

static bool is_time(const struct steno_whisper_agreement *a, int32_t id)
{
    return id >= a->first_time;
}

/* The place of the next piece of text at or behind `at`; n: none. */
static size_t next_text(const struct steno_whisper_agreement *a, const int32_t *ids, size_t n,
                        size_t at)
{
    while (at < n && is_time(a, ids[at]))
        at++;
    return at;
}

static bool begins_word(const struct steno_whisper_agreement *a, int32_t id)
{
    return a->begins_word(a->arg, id);
}

/* Begins of words in the new hypothesis, before which all text agrees; the newest last. */
struct begins {
    size_t at[MAX_HOLD + 1], n;
};

static void add_begin(struct begins *b, size_t hold, size_t at)
{
    if (b->n > hold)
        memmove(b->at, b->at + 1, --b->n * sizeof *b->at);
    b->at[b->n++] = at;
}

/* Pieces of text that ids has in common with the hypothesis before, up to where a word begins in
 * ids. The old hypothesis may end there, but its word may not go on. */
static size_t in_common(const struct steno_whisper_agreement *a, const int32_t *ids, size_t n)
{
    const size_t hold = a->hold < MAX_HOLD ? a->hold : MAX_HOLD;
    struct begins b = {.n = 0};
    size_t i = next_text(a, ids, n, 0), j = next_text(a, a->ids, a->n, 0);
    for (size_t same = 0; i < n; same++) {
        const bool ends = j == a->n;
        if (begins_word(a, ids[i]) && (ends || begins_word(a, a->ids[j])))
            add_begin(&b, hold, same);
        if (ends || ids[i] != a->ids[j])
            break;
        i = next_text(a, ids, n, i + 1);
        j = next_text(a, a->ids, a->n, j + 1);
    }
    return b.n > hold ? b.at[0] : 0;
}

/* The place behind the first `texts` pieces of text. */
static size_t behind(const struct steno_whisper_agreement *a, const int32_t *ids, size_t n,
                     size_t texts)
{
    size_t at = 0;
    for (; texts; texts--)
        at = next_text(a, ids, n, at) + 1;
    return at;
}

void steno_whisper_agreement_add(struct steno_whisper_agreement *a, const int32_t *ids,
                                 const float *log_probs, size_t n)
{
    const size_t links = a->needed - 1;
    size_t texts, end;
    memmove(a->common + 1, a->common, (links - 1) * sizeof *a->common);
    a->common[0] = texts = in_common(a, ids, n);
    for (size_t i = 1; i < links; i++)
        texts = a->common[i] < texts ? a->common[i] : texts;
    end = behind(a, ids, n, texts);
    if (end > a->agreed)
        a->agreed = end;
    memmove(a->ids, ids, n * sizeof *ids);
    memmove(a->log_probs, log_probs, n * sizeof *log_probs);
    a->n = n;
}

bool steno_whisper_agreement_kept(const struct steno_whisper_agreement *a, const int32_t *ids,
                                  size_t n, size_t *used)
{
    size_t i = next_text(a, ids, n, 0), j = next_text(a, a->ids, a->agreed, 0);
    *used = 0;
    for (; i < n && j < a->agreed; ++*used) {
        if (ids[i] != a->ids[j])
            return false;
        i = next_text(a, ids, n, i + 1);
        j = next_text(a, a->ids, a->agreed, j + 1);
    }
    return true;
}

size_t steno_whisper_agreement_text(const struct steno_whisper_agreement *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->agreed; i++)
        n += !is_time(a, a->ids[i]);
    return n;
}

/* Number of pieces before the second one of the last pair of timestamps in the agreed text. */
static size_t before_pair(const struct steno_whisper_agreement *a, size_t most)
{
    size_t at = 0;
    for (size_t i = 1; i < a->agreed && i <= most; i++)
        if (is_time(a, a->ids[i]) && is_time(a, a->ids[i - 1]) && a->ids[i] > a->first_time)
            at = i;
    return at;
}

static void shift_times(struct steno_whisper_agreement *a, int32_t by)
{
    for (size_t i = 0; i < a->n; i++)
        a->ids[i] += is_time(a, a->ids[i]) ? by : 0;
}

size_t steno_whisper_agreement_split(struct steno_whisper_agreement *a, size_t most, int32_t *ids,
                                     float *log_probs, int32_t *shift)
{
    const size_t n = before_pair(a, most);
    size_t texts = 0;
    if (!n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        ids[i] = a->ids[i];
        log_probs[i] = a->log_probs[i];
        texts += !is_time(a, ids[i]);
    }
    a->n -= n;
    a->agreed -= n;
    memmove(a->ids, a->ids + n, a->n * sizeof *ids);
    memmove(a->log_probs, a->log_probs + n, a->n * sizeof *log_probs);
    *shift = a->ids[0] - a->first_time;
    shift_times(a, -*shift);
    for (size_t i = 0; i + 1 < STENO_WHISPER_AGREE_MOST; i++)
        a->common[i] -= a->common[i] < texts ? a->common[i] : texts;
    return n;
}

void steno_whisper_agreement_join(struct steno_whisper_agreement *a, const int32_t *ids,
                                  const float *log_probs, size_t n, int32_t shift)
{
    const size_t room = STENO_WHISPER_AGREE_MAX - n;
    shift_times(a, shift);
    a->n = a->n < room ? a->n : room;
    a->agreed = a->agreed < a->n ? a->agreed : a->n;
    memmove(a->ids + n, a->ids, a->n * sizeof *ids);
    memmove(a->log_probs + n, a->log_probs, a->n * sizeof *log_probs);
    memcpy(a->ids, ids, n * sizeof *ids);
    memcpy(a->log_probs, log_probs, n * sizeof *log_probs);
    a->n += n;
    a->agreed += n;
}

void steno_whisper_agreement_move(struct steno_whisper_agreement *a, size_t used)
{
    const size_t mark = a->agreed && is_time(a, a->ids[0]);
    size_t at = next_text(a, a->ids, a->agreed, 0), left = mark;
    for (; used && at < a->agreed; used--)
        at = next_text(a, a->ids, a->agreed, at + 1);
    for (; at < a->agreed; at = next_text(a, a->ids, a->agreed, at + 1), left++) {
        a->ids[left] = a->ids[at];
        a->log_probs[left] = a->log_probs[at];
    }
    if (mark) {
        a->ids[0] = a->first_time;
        a->log_probs[0] = 0;
    }
    a->n = a->agreed = left > mark ? left : 0;
    memset(a->common, 0, sizeof a->common);
}
