/* Words of lines, and the tokens that they are spelled with. */
#include "speech/families/alignment_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- words ----------------------------------------------------------------------------------- */

/* What a character is to an alignment. */
enum kind { KIND_SPACE, KIND_MARK, KIND_COMBINING, KIND_SPOKEN, KIND_APART };

static enum kind kind_of(utf8proc_int32_t c)
{
    if (c == ' ' || (c >= '\t' && c <= '\r'))
        return KIND_SPACE;
    if (steno_tokens_is_cjk(c))
        return KIND_APART;
    if (c < 0x80 && strchr("%&@#", (int)c))
        return KIND_SPOKEN;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return KIND_SPACE;
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SM:
        return KIND_SPOKEN;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return KIND_COMBINING;
    default:
        return KIND_MARK;
    }
}

/* Read a character of valid text. */
static size_t read_character(const char *text, utf8proc_int32_t *c)
{
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, c);
    return n > 0 ? (size_t)n : 1;
}

/* Where the word ends that begins at `at`: at a space, before and behind a character of a writing
 * without spaces, to which the marks behind it belong. */
static size_t word_end(const char *text, size_t at)
{
    bool apart = false;
    for (size_t begin = at; text[at];) {
        utf8proc_int32_t c;
        const size_t n = read_character(text + at, &c);
        const enum kind kind = kind_of(c);
        if (kind == KIND_SPACE || (at > begin && kind == KIND_APART) ||
            (apart && kind == KIND_SPOKEN))
            break;
        apart |= kind == KIND_APART;
        at += n;
    }
    return at;
}

size_t steno_alignment_cut_words(const char *text, struct steno_aligned_word *out)
{
    size_t n = 0;
    for (size_t at = 0; text[at];) {
        utf8proc_int32_t c;
        const size_t length = read_character(text + at, &c);
        if (kind_of(c) == KIND_SPACE) {
            at += length;
            continue;
        }
        if (out)
            out[n] = (struct steno_aligned_word){.from = at, .to = word_end(text, at)};
        n++;
        at = word_end(text, at);
    }
    return n;
}

/* ---- spelling -------------------------------------------------------------------------------- */

/* A word on its way to tokens. `text` has the characters that are spoken, in the vocabulary's case;
 * place[i] is where byte i of it is in the line. */
struct spoken {
    char *text;
    size_t *place; /* [n + 1] */
    size_t n;
    int32_t *ids;
};

static void add_unit(steno_alignment *a, struct steno_aligned_word *w, int32_t token, size_t from,
                     size_t to)
{
    const size_t i = a->n_units++;
    a->units[i] = (struct steno_aligned_unit){
        .from = from, .to = to, .span = {.token = token, .first = -1, .last = -1}};
    a->tokens[i] = token;
    a->begins[i] = w->n_units == 0;
    w->n_units++;
}

/* Characters without a token are one wildcard. */
static void add_wildcard(steno_alignment *a, struct steno_aligned_word *w, size_t from, size_t to)
{
    if (w->n_units && a->tokens[a->n_units - 1] == STENO_ALIGN_ANY)
        a->units[a->n_units - 1].to = to;
    else
        add_unit(a, w, STENO_ALIGN_ANY, from, to);
}

static utf8proc_int32_t fold_case(const struct steno_speller *s, utf8proc_int32_t c)
{
    return s->upper ? utf8proc_toupper(c) : s->lower ? utf8proc_tolower(c) : c;
}

static bool spell_character(const struct steno_speller *s, utf8proc_int32_t c, int32_t *id)
{
    char piece[8];
    int32_t ids[20];
    size_t n = 0;
    piece[utf8proc_encode_char(fold_case(s, c), (utf8proc_uint8_t *)piece)] = '\0';
    if (!s->spell(s->of, piece, ids, &n) || n != 1)
        return false;
    *id = ids[0];
    return true;
}

/* The token of a character, or of the letter without its accents. */
static bool find_letter(const struct steno_speller *s, utf8proc_int32_t c, int32_t *id)
{
    utf8proc_int32_t parts[8];
    if (spell_character(s, c, id))
        return true;
    if (c == 0x2019 && spell_character(s, '\'', id))
        return true;
    if (utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, NULL) < 1)
        return false;
    return parts[0] != c && spell_character(s, parts[0], id);
}

/* Whether a mark is a letter's neighbour on both sides, as in "don't". */
static bool is_within(const char *line, const struct steno_aligned_word *w, size_t at, size_t n)
{
    utf8proc_int32_t before = 0, after = 0;
    size_t k = at;
    if (at == w->from || at + n >= w->to)
        return false;
    while (k > w->from && ((unsigned char)line[--k] & 0xC0) == 0x80)
        ;
    (void)read_character(line + k, &before);
    (void)read_character(line + at + n, &after);
    return kind_of(before) == KIND_SPOKEN && kind_of(after) == KIND_SPOKEN;
}

/* A unit for each character. */
static void spell_letters(steno_alignment *a, const struct steno_speller *s, const char *line,
                          struct steno_aligned_word *w)
{
    for (size_t at = w->from, n; at < w->to; at += n) {
        utf8proc_int32_t c;
        int32_t id;
        enum kind kind;
        n = read_character(line + at, &c);
        kind = kind_of(c);
        if (kind == KIND_MARK && !is_within(line, w, at, n))
            continue;
        if (find_letter(s, c, &id) && id != steno_tokens_delimiter(s->tokens))
            add_unit(a, w, id, at, at + n);
        else if (kind >= KIND_SPOKEN)
            add_wildcard(a, w, at, at + n);
    }
}

/* What of a word is spoken. */
static void clean_word(const struct steno_speller *s, const char *line,
                       const struct steno_aligned_word *w, struct spoken *out)
{
    out->n = 0;
    for (size_t at = w->from, n; at < w->to; at += n) {
        utf8proc_int32_t c;
        size_t k;
        n = read_character(line + at, &c);
        c = c == 0x2019 ? '\'' : c;
        if (kind_of(c) == KIND_MARK && !(c == '\'' && is_within(line, w, at, n)))
            continue;
        k = (size_t)utf8proc_encode_char(fold_case(s, c), (utf8proc_uint8_t *)out->text + out->n);
        for (size_t i = 0; i < k; i++)
            out->place[out->n + i] = at;
        out->n += k;
        out->place[out->n] = at + n;
    }
    out->text[out->n] = '\0';
}

/* Units of a word's pieces, or a wildcard. */
static void spell_pieces(steno_alignment *a, const struct steno_speller *s, const char *line,
                         struct steno_aligned_word *w, struct spoken *p)
{
    size_t n = 0, at = 0;
    clean_word(s, line, w, p);
    if (!p->n)
        return;
    if (!s->spell(s->of, p->text, p->ids, &n) || !n) {
        add_wildcard(a, w, p->place[0], p->place[p->n]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t length, end;
        (void)steno_tokens_text(s->tokens, p->ids[i], &length);
        end = i + 1 == n || at + length > p->n ? p->n : at + length;
        add_unit(a, w, p->ids[i], p->place[at], p->place[end > at ? end : at]);
        at = end;
    }
}

static bool reserve_units(steno_alignment *a, struct spoken *p)
{
    size_t longest = 0, bytes = 0;
    for (size_t i = 0; i < a->n_words; i++) {
        const size_t n = a->words[i].to - a->words[i].from;
        longest = n > longest ? n : longest;
        bytes += n;
    }
    /* a letter of the other case may take a byte more; a word has a mark */
    a->units = calloc(4 * bytes + a->n_words + 1, sizeof *a->units);
    a->tokens = calloc(4 * bytes + a->n_words + 1, sizeof *a->tokens);
    a->begins = calloc(4 * bytes + a->n_words + 1, sizeof *a->begins);
    p->text = malloc(2 * longest + 8);
    p->place = calloc(2 * longest + 8, sizeof *p->place);
    p->ids = calloc(4 * longest + 16, sizeof *p->ids);
    return a->units && a->tokens && a->begins && p->text && p->place && p->ids;
}

/* Each group's units; until here a group has its first line. */
static void place_groups(steno_alignment *a)
{
    for (size_t i = 0; i < a->n_groups; i++) {
        struct steno_alignment_group *g = &a->groups[i];
        const size_t word = a->lines[g->unit].word;
        g->unit = word < a->n_words ? a->words[word].unit : a->n_units;
        if (i)
            g[-1].n_units = g->unit - g[-1].unit;
    }
    if (a->n_groups)
        a->groups[a->n_groups - 1].n_units = a->n_units - a->groups[a->n_groups - 1].unit;
}

steno_status steno_alignment_spell(steno_alignment *a, const struct steno_speller *s,
                                   steno_err *err)
{
    struct spoken p = {0};
    const bool ok = reserve_units(a, &p);
    a->delimiter = steno_tokens_delimiter(s->tokens);
    for (size_t i = 0; ok && i < a->n_lines; i++)
        for (size_t k = 0; k < a->lines[i].n_words; k++) {
            struct steno_aligned_word *w = &a->words[a->lines[i].word + k];
            w->unit = a->n_units;
            if (s->letters)
                spell_letters(a, s, a->lines[i].text, w);
            else
                spell_pieces(a, s, a->lines[i].text, w, &p);
        }
    if (ok)
        place_groups(a);
    free(p.text);
    free(p.place);
    free(p.ids);
    return ok ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "text: out of memory");
}
