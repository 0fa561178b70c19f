#include "speech/recognizer/filters.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/recognizer/redact.h"

#define MAX_PAIRS 256  /* of replace */
#define MAX_MASKS 4096 /* of mask */
#define UNSTABLE 8     /* words at the end of a partial that later ones could still change */

/* from: lower case, without blanks. to NULL: asterisks. */
struct pair {
    const char *from, *to;
};

struct steno_filters {
    unsigned redact;
    size_t n, room;
    struct pair *pair;  /* [n] of room */
    char *text, *masks; /* what pairs point to */
};

/* ---- what is asked for ----------------------------------------------------------------------- */

/* Lower-case a text and take its blanks out, in place. */
static void squeeze(char *text)
{
    char *to = text;
    steno_filter_lower(text, strlen(text));
    for (; *text; text++)
        if (*text != ' ' && *text != '\t')
            *to++ = *text;
    *to = '\0';
}

static steno_status add_pair(struct steno_filters *f, const char *from, const char *to,
                             steno_err *err)
{
    if (STENO_RESERVE(&f->pair, &f->room, f->n + 1))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    f->pair[f->n++] = (struct pair){from, to};
    return STENO_OK;
}

/* Deepgram's fillers, also with a blank for the hyphen. */
static steno_status add_fillers(struct steno_filters *f, steno_err *err)
{
    static const char *const fillers[] = {"uh",    "um",    "mhmm",   "mm-mm", "mmmm",
                                          "uh-uh", "uhhuh", "uh-huh", "nuhuh", "nuh-uh"};
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < sizeof fillers / sizeof *fillers; i++)
        st = add_pair(f, fillers[i], "", err);
    return st;
}

/* A word or phrase per line. */
static steno_status read_masks(struct steno_filters *f, const char *text, steno_err *err)
{
    char *rest = f->masks = strdup(text), *one;
    steno_status st = STENO_OK;
    if (!rest)
        return steno_fail(err, STENO_ERR_NOMEM, "mask: out of memory");
    while (!st && (one = strsep(&rest, "\r\n"))) {
        squeeze(one);
        if (*one && f->n == MAX_MASKS)
            return steno_fail(err, STENO_ERR_INVAL, "mask: more than %d", MAX_MASKS);
        if (*one)
            st = add_pair(f, one, NULL, err);
    }
    return st;
}

/* "FROM:TO" pairs with commas or line ends between. */
static steno_status read_pairs(struct steno_filters *f, const char *text, steno_err *err)
{
    char *rest = f->text = strdup(text), *one;
    const size_t had = f->n;
    steno_status st = STENO_OK;
    if (!rest)
        return steno_fail(err, STENO_ERR_NOMEM, "replace: out of memory");
    while (!st && (one = strsep(&rest, ",\n"))) {
        char *colon = strchr(one, ':');
        one += strspn(one, " ");
        if (!*one)
            continue;
        if (!colon || colon == one)
            return steno_fail(err, STENO_ERR_INVAL, "replace: '%.40s' is not FROM:TO", one);
        if (f->n - had == MAX_PAIRS)
            return steno_fail(err, STENO_ERR_INVAL, "replace: more than %d", MAX_PAIRS);
        *colon = '\0';
        squeeze(one);
        if (!*one)
            return steno_fail(err, STENO_ERR_INVAL, "replace: a pair has nothing before its colon");
        st = add_pair(f, one, colon + 1, err);
    }
    return st;
}

steno_status steno_filters_open(steno_filters **out, const struct steno_filter_options *h,
                                steno_err *err)
{
    steno_filters *f;
    steno_status st = STENO_OK;
    *out = NULL;
    if (!(h->redact && *h->redact) && !(h->replace && *h->replace) && !(h->mask && *h->mask) &&
        !h->no_fillers)
        return STENO_OK;
    f = calloc(1, sizeof *f);
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (h->redact)
        st = steno_redact_read(&f->redact, h->redact, err);
    if (!st && h->mask)
        st = read_masks(f, h->mask, err);
    if (!st && h->no_fillers)
        st = add_fillers(f, err);
    if (!st && h->replace)
        st = read_pairs(f, h->replace, err);
    if (st || (!f->redact && !f->n)) {
        steno_filters_close(f);
        return st;
    }
    *out = f;
    return STENO_OK;
}

steno_status steno_filters_check(const struct steno_filter_options *o, steno_err *err)
{
    steno_filters *f;
    const steno_status st = steno_filters_open(&f, o, err);
    if (!st)
        steno_filters_close(f);
    return st;
}

void steno_filters_close(steno_filters *f)
{
    if (!f)
        return;
    free(f->pair);
    free(f->text);
    free(f->masks);
    free(f);
}

/* ---- words for others ------------------------------------------------------------------------ */

/* The number of pieces from i on that spell a text without blanks. 0: they do not. */
static size_t count_spelling(const struct steno_filter_text *t, size_t i, const char *text)
{
    size_t k = i;
    while (*text) {
        const struct steno_filter_piece *p = k < t->n ? &t->piece[k] : NULL;
        if (!p || !p->core_n || p->changed || strncmp(text, p->core, p->core_n) != 0)
            return 0;
        text += p->core_n;
        k++;
    }
    return k - i;
}

/* Write an asterisk for each letter of a piece. False: out of memory. */
static bool mask_piece(struct steno_filter_text *t, size_t i)
{
    const struct steno_filter_piece *p = &t->piece[i];
    char *stars = steno_arena_calloc(t->arena, p->core_n + 1, 1);
    for (size_t k = 0, n = 0; stars && k < p->core_n; k++)
        if ((p->core[k] & 0xc0) != 0x80) /* no further byte of a letter */
            stars[n++] = '*';
    return stars && steno_filter_change(t, i, i + 1, stars);
}

static bool change_words(struct steno_filter_text *t, size_t from, size_t to, const char *text)
{
    if (text)
        return steno_filter_change(t, from, to, text);
    for (size_t i = from; i < to; i++)
        if (!mask_piece(t, i))
            return false;
    return true;
}

static bool replace_words(const struct steno_filters *f, struct steno_filter_text *t)
{
    for (size_t i = 0; i < t->n;) {
        const char *to = NULL;
        size_t most = 0;
        for (size_t k = 0; k < f->n; k++) {
            const size_t n = count_spelling(t, i, f->pair[k].from);
            if (n > most) {
                most = n;
                to = f->pair[k].to;
            }
        }
        if (most && !change_words(t, i, i + most, to))
            return false;
        i += most ? most : 1;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool filter_pieces(const struct steno_filters *f, struct steno_filter_text *t)
{
    if (!steno_redact_apply(t, f->redact) || !replace_words(f, t))
        return false;
    steno_filter_drop(t);
    return true;
}

/* The pieces [from, to) as a text, the first without its gap unless with_gap. NULL: out of memory.
 */
static char *join_pieces(struct steno_filter_text *t, size_t from, size_t to, bool with_gap)
{
    size_t n = 0, done = 0;
    char *text;
    for (size_t i = from; i < to; i++)
        n += t->piece[i].n + t->piece[i].gap;
    text = steno_arena_alloc(t->arena, n + 2);
    for (size_t i = from; text && i < to; i++) {
        const size_t gap = i > from ? t->piece[i].gap : with_gap;
        memset(text + done, ' ', gap);
        memcpy(text + done + gap, t->piece[i].text, t->piece[i].n);
        done += gap + t->piece[i].n;
    }
    if (text)
        text[done] = '\0';
    return text;
}

static size_t count_words(const struct steno_filter_piece *p)
{
    size_t n = 0;
    for (size_t at = 0; at < p->n;) {
        at += strspn(p->text + at, " ");
        n += at < p->n;
        at += at < p->n ? strcspn(p->text + at, " ") : 0;
    }
    return n;
}

/* Append the words of a changed piece: they share its time by length. */
static bool put_words(struct steno_filter_text *t, const struct steno_filter_piece *p,
                      struct steno_word *out, size_t *n)
{
    const double start = t->words[p->first].start, end = t->words[p->last].end;
    float least = 1;
    for (size_t i = p->first; i <= p->last; i++)
        least = t->words[i].confidence < least ? t->words[i].confidence : least;
    for (size_t at = 0; at < p->n;) {
        const size_t blank = strspn(p->text + at, " "), len = strcspn(p->text + at + blank, " ");
        struct steno_word w = {.confidence = least};
        if (!len)
            break;
        w.text = steno_arena_strndup(t->arena, p->text + at + blank, len);
        w.start = start + (end - start) * (double)(at + blank) / (double)p->n;
        at += blank + len;
        w.end = at >= p->n ? end : start + (end - start) * (double)at / (double)p->n;
        if (!w.text)
            return false;
        out[(*n)++] = w;
    }
    return true;
}

/* The words of all pieces. False: out of memory. */
static bool write_words(struct steno_filter_text *t, struct steno_alternative *io)
{
    size_t n = 0, most = 0;
    struct steno_word *out;
    for (size_t i = 0; i < t->n; i++)
        most += t->piece[i].changed ? count_words(&t->piece[i]) : 1;
    out = steno_arena_calloc(t->arena, most + 1, sizeof *out);
    for (size_t i = 0; out && i < t->n; i++) {
        if (!t->piece[i].changed)
            out[n++] = t->words[t->piece[i].first];
        else if (!put_words(t, &t->piece[i], out, &n))
            return false;
    }
    io->words = out;
    io->n_words = n;
    return out != NULL;
}

/* Find the pieces of an alternative, and filter them. */
static steno_status filter(const struct steno_filters *f, struct steno_filter_text *t,
                           const struct steno_alternative *in)
{
    bool fits = false;
    t->piece = steno_arena_calloc(t->arena, strlen(in->text) + in->n_words + 1, sizeof *t->piece);
    t->words = in->n_words ? in->words : NULL;
    if (!t->piece || (t->words && !steno_filter_take_words(t, in->text, in->n_words, &fits)))
        return steno_arena_failure(t->arena);
    if (!fits) {
        t->words = NULL;
        if (!steno_filter_take_blanks(t, in->text))
            return steno_arena_failure(t->arena);
    }
    return filter_pieces(f, t) ? STENO_OK : steno_arena_failure(t->arena);
}

/* Write what the pieces became. Words that are not in the text one after the other would tell what
 * it does not, and are left out. */
static steno_status write_alternative(struct steno_filter_text *t, struct steno_alternative *io)
{
    char *text;
    if (!t->changed)
        return STENO_OK;
    text = join_pieces(t, 0, t->n, false);
    if (!text || (t->words && !write_words(t, io)))
        return steno_arena_failure(t->arena);
    io->text = text;
    io->n_words = t->words ? io->n_words : 0;
    io->n_tokens = 0;
    return STENO_OK;
}

/* Sections of an event whose words changed: those that begin in a section are its own. */
static steno_status write_sections(struct steno_filter_text *t, struct steno_event *io)
{
    const struct steno_section *old = io->sections;
    struct steno_section *s = steno_arena_calloc(t->arena, io->n_sections, sizeof *s);
    size_t at = 0, word = 0;
    if (!s)
        return steno_arena_failure(t->arena);
    for (size_t k = 0; k < io->n_sections; k++) {
        const size_t from = at, end = old[k].first_word + old[k].n_words;
        s[k] = old[k];
        s[k].first_word = word;
        for (; at < t->n && (t->piece[at].first < end || k + 1 == io->n_sections); at++)
            word += t->piece[at].changed ? count_words(&t->piece[at]) : 1;
        s[k].n_words = word - s[k].first_word;
        s[k].text = join_pieces(t, from, at, *old[k].text == ' ');
        s[k].n_tokens = s[k].n_ids = 0;
        if (!s[k].text)
            return steno_arena_failure(t->arena);
    }
    io->sections = s;
    return STENO_OK;
}

/* Sections of an event without words: each for itself. */
static steno_status filter_sections(const steno_filters *f, struct steno_event *io,
                                    steno_arena *arena)
{
    struct steno_section *s = steno_arena_calloc(arena, io->n_sections, sizeof *s);
    for (size_t k = 0; s && k < io->n_sections; k++) {
        struct steno_filter_text t = {.arena = arena, .partial = io->kind == STENO_PARTIAL};
        const struct steno_alternative in = {.text = io->sections[k].text};
        steno_status st = filter(f, &t, &in);
        s[k] = io->sections[k];
        if (st)
            return st;
        if (!t.changed)
            continue;
        s[k].n_tokens = s[k].n_ids = 0;
        s[k].text = join_pieces(&t, 0, t.n, *in.text == ' ');
        if (!s[k].text)
            return steno_arena_failure(arena);
    }
    io->sections = s;
    return s ? STENO_OK : steno_arena_failure(arena);
}

/* What of a partial stays whatever comes. */
static void hold_back(const struct steno_filter_text *t, struct steno_event *io)
{
    size_t words = io->stable_words;
    words = words > UNSTABLE ? words - UNSTABLE : 0;
    io->stable_words = io->stable_bytes = 0;
    for (size_t i = 0; t->words && i < t->n && t->piece[i].last < words; i++) {
        io->stable_bytes += (i ? t->piece[i].gap : 0) + t->piece[i].n;
        io->stable_words += t->piece[i].changed ? count_words(&t->piece[i]) : 1;
    }
}

static steno_status filter_alternatives(const steno_filters *f, struct steno_event *io,
                                        steno_arena *arena)
{
    struct steno_alternative *a = steno_arena_calloc(arena, io->n_alternatives, sizeof *a);
    for (size_t i = 0; a && i < io->n_alternatives; i++) {
        struct steno_filter_text t = {.arena = arena, .partial = io->kind == STENO_PARTIAL};
        steno_status st = filter(f, &t, &io->alternatives[i]);
        a[i] = io->alternatives[i];
        if (!st)
            st = write_alternative(&t, &a[i]);
        if (t.changed)
            a[i].n_ids = 0;
        if (st)
            return st;
    }
    io->alternatives = a;
    return a ? STENO_OK : steno_arena_failure(arena);
}

steno_status steno_filters_apply(const steno_filters *f, struct steno_event *io, steno_arena *arena)
{
    struct steno_filter_text t = {.arena = arena, .partial = io->kind == STENO_PARTIAL};
    struct steno_alternative best = {.text = io->text, .words = io->words, .n_words = io->n_words};
    steno_status st;
    if ((io->kind != STENO_PARTIAL && io->kind != STENO_FINAL) || !*io->text)
        return STENO_OK;
    st = filter(f, &t, &best);
    if (!st && io->n_alternatives)
        st = filter_alternatives(f, io, arena);
    if (!st && io->n_sections && t.changed)
        st = t.words ? write_sections(&t, io) : filter_sections(f, io, arena);
    if (!st)
        st = write_alternative(&t, &best);
    if (st)
        return st;
    if (io->kind == STENO_PARTIAL)
        hold_back(&t, io);
    io->text = best.text;
    io->words = best.words;
    io->n_words = best.n_words;
    io->n_tokens = t.changed ? 0 : io->n_tokens;
    if (io->kind == STENO_FINAL) {
        io->stable_words = io->n_words;
        io->stable_bytes = strlen(io->text);
    }
    return STENO_OK;
}
