/* A tree: the children of a context are the last words of n-grams of one word more. A score is
 *     p(w | h) = prob(h w) if that n-gram exists,
 *     else backoff(h) + p(w | h without its oldest word), with backoff 0 if h is no n-gram
 * (Katz; KenLM's BaseScore, Heafield 2011). For all tokens at once: start with the 1-grams plus
 * every back-off, then replace the scores of the children of ever longer contexts. */
#include "speech/search/lm/ngram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/file.h"
#include "base/lines.h"
#include "speech/search/lm/kenlm.h"

#define ABSENT 1.0F            /* not an n-gram itself: a context of longer ones */
#define UNKNOWN_PROB (-100.0F) /* of <unk> if the file has none, as in KenLM */
#define MAX_NODES (1 << 28)

_Static_assert(STENO_KENLM_MAX_ORDER == STENO_NGRAM_MAX_ORDER, "counts of either");

struct node {
    float prob, backoff;
    int32_t word, child, sibling; /* -1: none */
};

struct steno_ngram {
    steno_kenlm *binary; /* a KenLM binary: then only this and bytes are used */
    char *bytes;         /* [n_bytes] of the binary file */
    size_t n_bytes;
    steno_arena *mem;   /* memory of the words */
    struct node *nodes; /* [n], 0: the root */
    int32_t *parents;   /* [n] */
    int32_t n;
    size_t cap, cap_parents;
    int32_t *slots; /* hash of (parent, word) -> node; -1 = free */
    size_t n_slots; /* a power of two, at least twice the nodes */
    const char **words;
    int32_t n_words;
    size_t cap_words;
    int32_t *word_slots;
    size_t n_word_slots;
    int32_t unknown, begin;
    int order;
    int64_t counts[STENO_NGRAM_MAX_ORDER + 1];
};

struct reader {
    steno_ngram *m;
    const char *name;
    struct steno_lines lines;
    const char *text; /* the current line, [len], without blanks at its end */
    size_t len;
    steno_err *err;
};

static steno_status oom(const struct reader *r)
{
    return steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Twice the slots, or the first ones, and none of them taken. */
static bool grow_slots(int32_t **slots, size_t *n, size_t first)
{
    const size_t more = *n ? 2 * *n : first;
    int32_t *new = malloc(more * sizeof *new);
    if (!new)
        return false;
    memset(new, 0xFF, more * sizeof *new);
    free(*slots);
    *slots = new;
    *n = more;
    return true;
}

static size_t word_slot(const steno_ngram *m, const char *word, size_t n)
{
    size_t at = (size_t)XXH3_64bits(word, n) & (m->n_word_slots - 1);
    for (; m->word_slots[at] >= 0; at = (at + 1) & (m->n_word_slots - 1)) {
        const char *w = m->words[m->word_slots[at]];
        if (strncmp(w, word, n) == 0 && !w[n])
            break;
    }
    return at;
}

static bool rehash_words(steno_ngram *m)
{
    if (!grow_slots(&m->word_slots, &m->n_word_slots, 1024))
        return false;
    for (int32_t i = 0; i < m->n_words; i++)
        m->word_slots[word_slot(m, m->words[i], strlen(m->words[i]))] = i;
    return true;
}

/* Number of a new or known word; -1: out of memory. */
static int32_t add_word(steno_ngram *m, const char *word, size_t n)
{
    size_t at;
    if (2 * (size_t)m->n_words + 2 > m->n_word_slots && !rehash_words(m))
        return -1;
    at = word_slot(m, word, n);
    if (m->word_slots[at] >= 0)
        return m->word_slots[at];
    if (m->n_words == MAX_NODES || STENO_RESERVE(&m->words, &m->cap_words, (size_t)m->n_words + 1))
        return -1;
    m->words[m->n_words] = steno_arena_strndup(m->mem, word, n);
    if (!m->words[m->n_words])
        return -1;
    m->word_slots[at] = m->n_words;
    return m->n_words++;
}

static size_t node_slot(const steno_ngram *m, int32_t parent, int32_t word)
{
    const int32_t key[2] = {parent, word};
    size_t at = (size_t)XXH3_64bits(key, sizeof key) & (m->n_slots - 1);
    for (; m->slots[at] >= 0; at = (at + 1) & (m->n_slots - 1))
        if (m->parents[m->slots[at]] == parent && m->nodes[m->slots[at]].word == word)
            break;
    return at;
}

static bool rehash_nodes(steno_ngram *m)
{
    if (!grow_slots(&m->slots, &m->n_slots, 4096))
        return false;
    for (int32_t i = 1; i < m->n; i++)
        m->slots[node_slot(m, m->parents[i], m->nodes[i].word)] = i;
    return true;
}

static bool grow_nodes(steno_ngram *m)
{
    return m->n < MAX_NODES && !STENO_RESERVE(&m->nodes, &m->cap, (size_t)m->n + 1) &&
           !STENO_RESERVE(&m->parents, &m->cap_parents, (size_t)m->n + 1);
}

static int32_t find_child(const steno_ngram *m, int32_t parent, int32_t word)
{
    return m->slots[node_slot(m, parent, word)];
}

/* -1: out of memory. */
static int32_t add_child(steno_ngram *m, int32_t parent, int32_t word)
{
    int32_t i;
    if (2 * (size_t)m->n + 2 > m->n_slots && !rehash_nodes(m))
        return -1;
    i = find_child(m, parent, word);
    if (i >= 0)
        return i;
    if (!grow_nodes(m))
        return -1;
    i = m->n++;
    m->nodes[i] =
        (struct node){.prob = ABSENT, .word = word, .child = -1, .sibling = m->nodes[parent].child};
    m->parents[i] = parent;
    m->nodes[parent].child = i;
    m->slots[node_slot(m, parent, word)] = i;
    return i;
}

/* ---- ARPA ---------------------------------------------------------------------------------- */

/* Read the next line that is not blank; false at the end. */
static bool next_line(struct reader *r)
{
    while (steno_lines_next(&r->lines)) {
        r->text = r->lines.line;
        r->len = r->lines.n;
        while (r->len && strchr(" \t\r", r->text[r->len - 1]))
            r->len--;
        if (r->len)
            return true;
    }
    return false;
}

static bool line_is(const struct reader *r, const char *text)
{
    return r->len == strlen(text) && memcmp(r->text, text, r->len) == 0;
}

static steno_status wrong(const struct reader *r, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s:%zu: %s", r->name, r->lines.number, what);
}

/* "ngram 2=17": order and count; false if it is no such line. */
static bool header_line(const struct reader *r, long *order, int64_t *count)
{
    char *end;
    if (r->len < 9 || memcmp(r->text, "ngram ", 6) != 0)
        return false;
    *order = strtol(r->text + 6, &end, 10);
    if (end >= r->text + r->len || *end != '=')
        return false;
    *count = strtoll(end + 1, &end, 10);
    return end == r->text + r->len;
}

static steno_status read_arpa_header(struct reader *r)
{
    do
        if (!next_line(r))
            return wrong(r, "no \\data\\ section: not an ARPA file");
    while (!line_is(r, "\\data\\"));
    while (next_line(r) && r->text[0] != '\\') {
        long order;
        int64_t count;
        if (!header_line(r, &order, &count))
            return wrong(r, "expected 'ngram N=COUNT'");
        if (order != r->m->order + 1 || order > STENO_NGRAM_MAX_ORDER || count < 0)
            return wrong(r, "orders must be 1, 2, ... at most 16, counts not negative");
        r->m->order++;
        r->m->counts[order] = count;
    }
    return r->m->order ? STENO_OK : wrong(r, "the header names no n-grams");
}

/* A field up to the next blank; false if there is none. */
static bool field(const char **at, const char *end, const char **text, size_t *len)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
    *text = *at;
    while (*at < end && **at != ' ' && **at != '\t')
        ++*at;
    *len = (size_t)(*at - *text);
    return *len > 0;
}

static bool parse_score(const char *text, size_t len, float *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end != text + len || !isfinite(v) || fabs(v) > 1e30)
        return false;
    *out = (float)v;
    return true;
}

static steno_status set_node(struct reader *r, int32_t node, float prob, float backoff)
{
    struct node *x = &r->m->nodes[node];
    if (x->prob != ABSENT)
        return wrong(r, "duplicate n-gram");
    x->prob = prob;
    x->backoff = backoff;
    return STENO_OK;
}

/* "prob w1 ... wn [backoff]" */
static steno_status read_ngram(struct reader *r, int n)
{
    const char *at = r->text, *end = r->text + r->len, *text;
    float prob, backoff = 0;
    size_t len;
    int32_t node = 0;
    if (!field(&at, end, &text, &len) || !parse_score(text, len, &prob))
        return wrong(r, "no log-probability at the beginning");
    if (prob > 0)
        return wrong(r, "a log-probability above 0");
    for (int i = 0; i < n; i++) {
        int32_t word;
        if (!field(&at, end, &text, &len))
            return wrong(r, "too few words");
        if (memchr(text, 0, len))
            return wrong(r, "a zero byte in a word");
        word = n == 1 ? add_word(r->m, text, len) : r->m->word_slots[word_slot(r->m, text, len)];
        if (word < 0)
            return n == 1 ? oom(r) : wrong(r, "a word without a 1-gram");
        node = add_child(r->m, node, word);
        if (node < 0)
            return oom(r);
    }
    if (field(&at, end, &text, &len) && !parse_score(text, len, &backoff))
        return wrong(r, "the field after the words is not a back-off");
    if (field(&at, end, &text, &len))
        return wrong(r, "more than a back-off after the words");
    return set_node(r, node, prob, backoff);
}

static steno_status read_section(struct reader *r, int n)
{
    char title[32];
    int64_t count = 0;
    snprintf(title, sizeof title, "\\%d-grams:", n);
    if (!line_is(r, title))
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s:%zu: expected %s", r->name, r->lines.number,
                          title);
    while (next_line(r) && r->text[0] != '\\') {
        steno_status st = read_ngram(r, n);
        if (st)
            return st;
        count++;
    }
    if (count != r->m->counts[n])
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s:%zu: %lld %d-grams, the header says %lld",
                          r->name, r->lines.number, (long long)count, n,
                          (long long)r->m->counts[n]);
    return STENO_OK;
}

/* Find <unk> and the marker of the beginning of a sentence. */
static steno_status find_marks(struct reader *r)
{
    steno_ngram *m = r->m;
    int32_t before = m->n_words, node;
    m->unknown = add_word(m, "<unk>", 5);
    m->begin = m->unknown < 0 ? -1 : add_word(m, "<s>", 3);
    if (m->begin < 0)
        return oom(r);
    for (int32_t w = before; w < m->n_words; w++) {
        node = add_child(m, 0, w);
        if (node < 0)
            return oom(r);
        m->nodes[node].prob = UNKNOWN_PROB;
    }
    return STENO_OK;
}

static steno_status read_arpa(struct reader *r)
{
    steno_status st;
    if (!rehash_words(r->m) || !rehash_nodes(r->m) || !grow_nodes(r->m))
        return oom(r);
    r->m->nodes[0] = (struct node){.prob = ABSENT, .word = -1, .child = -1, .sibling = -1};
    r->m->parents[0] = -1;
    r->m->n = 1;
    st = read_arpa_header(r);
    for (int n = 1; n <= r->m->order && !st; n++)
        st = read_section(r, n);
    if (!st && !line_is(r, "\\end\\"))
        st = wrong(r, "expected \\end\\");
    return st ? st : find_marks(r);
}

static steno_status parse_arpa(steno_ngram **out, const char *bytes, size_t n, const char *name,
                               steno_err *err)
{
    struct reader r = {.m = calloc(1, sizeof *r.m),
                       .lines = {.p = bytes, .end = bytes + n},
                       .name = name,
                       .text = "",
                       .err = err};
    steno_status st;
    if (!r.m || !(r.m->mem = steno_arena_new(0)))
        st = oom(&r);
    else
        st = read_arpa(&r);
    if (st)
        steno_ngram_close(r.m);
    else
        *out = r.m;
    return st;
}

/* Takes ownership of bytes. */
static steno_status take_binary(steno_ngram **out, char *bytes, size_t n, const char *name,
                                steno_err *err)
{
    steno_ngram *m = calloc(1, sizeof *m);
    steno_status st;
    if (!m) {
        free(bytes);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    m->bytes = bytes;
    m->n_bytes = n;
    st = steno_kenlm_parse(&m->binary, bytes, n, name, err);
    if (st) {
        steno_ngram_close(m);
        return st;
    }
    m->order = steno_kenlm_order(m->binary);
    for (int i = 1; i <= m->order; i++)
        m->counts[i] = steno_kenlm_count(m->binary, i);
    m->begin = steno_kenlm_word(m->binary, "<s>");
    *out = m;
    return STENO_OK;
}

steno_status steno_ngram_parse(steno_ngram **out, const char *bytes, size_t n, const char *name,
                               steno_err *err)
{
    char *own;
    if (!steno_kenlm_is(bytes, n))
        return parse_arpa(out, bytes, n, name, err);
    own = malloc(n);
    if (!own)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memcpy(own, bytes, n);
    return take_binary(out, own, n, name, err);
}

steno_status steno_ngram_open(steno_ngram **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_NGRAM_MAX_FILE, &bytes, &n, err);
    if (st)
        return st;
    if (steno_kenlm_is(bytes, n))
        return take_binary(out, bytes, n, path, err);
    st = parse_arpa(out, bytes, n, path, err);
    free(bytes);
    return st;
}

void steno_ngram_close(steno_ngram *m)
{
    if (!m)
        return;
    steno_kenlm_close(m->binary);
    free(m->bytes);
    steno_arena_free(m->mem);
    free(m->nodes);
    free(m->parents);
    free(m->slots);
    free(m->words);
    free(m->word_slots);
    free(m);
}

int steno_ngram_order(const steno_ngram *m)
{
    return m->order;
}

int64_t steno_ngram_count(const steno_ngram *m, int n)
{
    return n >= 1 && n <= m->order ? m->counts[n] : 0;
}

int32_t steno_ngram_word(const steno_ngram *m, const char *word)
{
    int32_t w;
    if (m->binary)
        return steno_kenlm_word(m->binary, word);
    w = m->word_slots[word_slot(m, word, strlen(word))];
    return w < 0 ? m->unknown : w;
}

size_t steno_ngram_bytes(const steno_ngram *m)
{
    if (m->binary)
        return m->n_bytes;
    return m->cap * sizeof *m->nodes + m->cap_parents * sizeof *m->parents +
           m->n_slots * sizeof *m->slots + steno_arena_used(m->mem);
}

/* ---- scores -------------------------------------------------------------------------------- */

/* Node of a context; -1 if no n-gram begins with it. */
static int32_t find_context(const steno_ngram *m, const int32_t *words, size_t n)
{
    int32_t node = 0;
    for (size_t i = 0; i < n && node >= 0; i++)
        node = find_child(m, node, words[i]);
    return node;
}

double steno_ngram_score(const steno_ngram *m, const int32_t *context, size_t n, int32_t word)
{
    size_t most = (size_t)m->order - 1;
    double sum = 0;
    if (m->binary) {
        steno_kenlm_score(m->binary, context, n, &word, 1, &sum);
        return sum;
    }
    if (n > most) {
        context += n - most;
        n = most;
    }
    for (;; context++, n--) {
        int32_t node = find_context(m, context, n);
        int32_t hit = node < 0 ? -1 : find_child(m, node, word);
        if (hit >= 0 && m->nodes[hit].prob != ABSENT)
            return sum + (double)m->nodes[hit].prob;
        if (!n)
            return sum + (double)UNKNOWN_PROB; /* not reached: every word is a 1-gram */
        if (node >= 0)
            sum += (double)m->nodes[node].backoff;
    }
}

struct steno_ngram_map {
    const steno_ngram *m;
    size_t n, n_unknown;
    int32_t *word;    /* [n] word of a token */
    int32_t *token;   /* [words] token of a word, -1 = none; ARPA only */
    int32_t *unknown; /* [n_unknown] tokens */
    struct steno_blocks memory;
};

steno_status steno_ngram_map_open(steno_ngram_map **out, const steno_ngram *m,
                                  const char *const *words, size_t n, steno_err *err)
{
    steno_ngram_map *p = calloc(1, sizeof *p);
    if (p) {
        p->word = steno_blocks_add(&p->memory, n + 1, sizeof *p->word);
        p->unknown = steno_blocks_add(&p->memory, n + 1, sizeof *p->unknown);
        p->token = steno_blocks_add(&p->memory, (size_t)m->n_words + 1, sizeof *p->token);
    }
    if (!p || p->memory.failed) {
        steno_ngram_map_close(p);
        return steno_fail(err, STENO_ERR_NOMEM, "n-gram model: out of memory");
    }
    p->m = m;
    p->n = n;
    memset(p->token, 0xFF, ((size_t)m->n_words + 1) * sizeof *p->token);
    for (size_t i = 0; i < n; i++) {
        p->word[i] = steno_ngram_word(m, words[i]);
        if (p->word[i] == m->unknown)
            p->unknown[p->n_unknown++] = (int32_t)i;
        else if (!m->binary)
            p->token[p->word[i]] = (int32_t)i;
    }
    *out = p;
    return STENO_OK;
}

void steno_ngram_map_close(steno_ngram_map *p)
{
    if (!p)
        return;
    steno_blocks_free(&p->memory);
    free(p);
}

size_t steno_ngram_map_unknown(const steno_ngram_map *p)
{
    return p->n_unknown;
}

/* Replace the scores of a context's children, which shorter contexts gave. */
static void put_children(const steno_ngram_map *p, int32_t node, double backoff, float *out)
{
    const struct node *nodes = p->m->nodes;
    for (int32_t c = nodes[node].child; c >= 0; c = nodes[c].sibling) {
        float score = (float)((double)nodes[c].prob + backoff);
        if (nodes[c].prob == ABSENT)
            continue;
        if (nodes[c].word == p->m->unknown)
            for (size_t i = 0; i < p->n_unknown; i++)
                out[p->unknown[i]] = score;
        else if (p->token[nodes[c].word] >= 0)
            out[p->token[nodes[c].word]] = score;
    }
}

/* Look up every token: hash tables do not tell which words follow a context. */
static void score_binary(const steno_ngram_map *p, const int32_t *context, size_t n, float *out)
{
    double score[64];
    for (size_t from = 0; from < p->n; from += 64) {
        size_t some = p->n - from < 64 ? p->n - from : 64;
        steno_kenlm_score(p->m->binary, context, n, p->word + from, some, score);
        for (size_t i = 0; i < some; i++)
            out[from + i] = (float)score[i];
    }
}

void steno_ngram_map_score(const steno_ngram_map *p, const int32_t *tokens, size_t n, float *out)
{
    int32_t context[STENO_NGRAM_MAX_ORDER], node[STENO_NGRAM_MAX_ORDER];
    double behind[STENO_NGRAM_MAX_ORDER]; /* sums of the back-offs of longer contexts */
    size_t most = (size_t)p->m->order - 1, k = n + 1 < most ? n + 1 : most;
    for (size_t i = 0; i < k; i++) { /* the last k of <s> and the tokens */
        size_t at = n + 1 - k + i;
        context[i] = at ? p->word[tokens[at - 1]] : p->m->begin;
    }
    if (p->m->binary) {
        score_binary(p, context, k, out);
        return;
    }
    for (size_t i = 0; i < k; i++)
        node[k - i] = find_context(p->m, context + i, k - i);
    node[0] = 0;
    behind[k] = 0;
    for (size_t i = k; i > 0; i--)
        behind[i - 1] = behind[i] + (node[i] >= 0 ? (double)p->m->nodes[node[i]].backoff : 0);
    for (size_t i = 0; i <= k; i++)
        if (node[i] >= 0)
            put_children(p, node[i], behind[i], out);
}
