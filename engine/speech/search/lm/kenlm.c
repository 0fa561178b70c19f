/* The file has test values, parameters and counts, the vocabulary, 1-grams, one table per longer
 * order, and then the words, each with a zero byte (layout: kpu/kenlm, lm/binary_format.cc,
 * lm/vocab.cc, lm/search_hashed.hh, lm/trie.hh; Heafield 2011). An n-gram is looked up from its
 * last word backwards. Probing: keys are 64-bit hashes of the word numbers so far; 0 is an empty
 * bucket. Trie: each entry has the start of its entries of one word more; the next entry has their
 * end. Numbers are little-endian. */
#include "speech/search/lm/kenlm.h"

#include "base/little_endian.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "mmap lm http://kheafield.com/code"
#define MAGIC_VERSION MAGIC " format version "
#define SANITY_BYTES 88 /* text to 56, three floats, two word numbers, padding, one uint64 */
#define FIXED_BYTES 20  /* order, multiplier, type, has words, version of the search */
#define MAX_NUMBER 1e30F

enum type { PROBING = 0, TRIE = 2 };

/* The entries of one order. */
struct table {
    const unsigned char *at;
    uint64_t n;       /* entries; buckets of a hash table */
    uint64_t size;    /* bytes of a bucket */
    unsigned bits;    /* trie: bits of an entry */
    unsigned next;    /* trie: bits of the pointer in it */
    bool has_backoff; /* true for all orders but the longest */
};

struct steno_kenlm {
    enum type type;
    int order;
    uint64_t counts[STENO_KENLM_MAX_ORDER + 1];
    float multiplier;
    bool has_words;
    struct table vocabulary;
    uint64_t n_words;   /* including <unk> */
    unsigned word_bits; /* trie */
    const unsigned char *unigrams;
    struct table tables[STENO_KENLM_MAX_ORDER + 1]; /* from order 2 */
};

struct reader {
    steno_kenlm *m;
    const unsigned char *bytes;
    size_t n, at;
    const char *name;
    steno_err *err;
};

/* The position and the result of a look-up. */
struct place {
    uint64_t hash;       /* probing */
    uint64_t begin, end; /* trie: entries of one word more */
    float prob, backoff;
    bool more; /* longer n-grams may exist */
};

/* ---- look-up ------------------------------------------------------------------------------- */

/* MurmurHash64A (Appleby, public domain), seed 0. */
static uint64_t hash_word(const char *word, size_t n)
{
    const uint64_t by = 0xc6a4a7935bd1e995U;
    const unsigned char *p = (const unsigned char *)word;
    uint64_t h = n * by, tail = 0;
    size_t left = n;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t k = steno_le64(p) * by;
        h = (h ^ ((k ^ (k >> 47)) * by)) * by;
    }
    memcpy(&tail, p, left);
    if (left)
        h = (h ^ tail) * by;
    h = (h ^ (h >> 47)) * by;
    return h ^ (h >> 47);
}

static uint64_t hash_more(uint64_t hash, uint64_t word)
{
    return (hash * 8978948897894561157U) ^ ((1 + word) * 17894857484156487943U);
}

/* The bucket of a key; NULL if there is none. */
static const unsigned char *find_key(const struct table *t, uint64_t key)
{
    uint64_t i = key % t->n;
    for (;; i = i + 1 == t->n ? 0 : i + 1) {
        const unsigned char *p = t->at + i * t->size;
        uint64_t got = steno_le64(p);
        if (!got) /* test this before the key: 0 is an empty bucket */
            return NULL;
        if (got == key)
            return p;
    }
}

/* Read `bits` <= 57 bits, from a bit position on; 8 more bytes follow every table. */
static uint64_t get_bits(const struct table *t, uint64_t from, unsigned bits)
{
    return (steno_le64(t->at + from / 8) >> (from % 8)) & ((1ULL << bits) - 1);
}

static float get_bits_float(const struct table *t, uint64_t from, unsigned bits)
{
    uint32_t v = (uint32_t)get_bits(t, from, bits);
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}

static uint64_t next_of(const struct table *t, uint64_t entry)
{
    return get_bits(t, (entry + 1) * t->bits - t->next, t->next);
}

static void read_entry(const steno_kenlm *m, const struct table *t, uint64_t entry, struct place *p)
{
    uint64_t from = entry * t->bits + m->word_bits;
    p->prob = -fabsf(get_bits_float(t, from, 31));
    p->backoff = t->has_backoff ? get_bits_float(t, from + 31, 32) : 0;
    p->begin = t->has_backoff ? next_of(t, entry) : 0;
    p->end = t->has_backoff ? next_of(t, entry + 1) : 0;
    p->more = p->begin < p->end;
}

static bool longer_in_trie(const steno_kenlm *m, const struct table *t, uint64_t word,
                           struct place *p)
{
    uint64_t low = p->begin, high = p->end;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        uint64_t got = get_bits(t, mid * t->bits, m->word_bits);
        if (got == word) {
            read_entry(m, t, mid, p);
            return true;
        }
        if (got < word)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* A set sign bit of a probability says that no n-gram continues to the left. */
static void put_value(const unsigned char *value, bool has_backoff, struct place *p)
{
    float prob = steno_le_f32(value);
    p->prob = -fabsf(prob);
    p->backoff = has_backoff ? steno_le_f32(value + 4) : 0;
    p->more = !signbit(prob);
}

static void look_up_word(const steno_kenlm *m, uint64_t word, struct place *p)
{
    const unsigned char *at = m->unigrams + word * (m->type == TRIE ? 16 : 8);
    put_value(at, true, p);
    p->hash = word;
    if (m->type == TRIE) {
        p->begin = steno_le64(at + 8);
        p->end = steno_le64(at + 24);
        p->more = p->begin < p->end;
    }
}

/* Extend an n-gram of order - 1 words by a word on its left; false: there is no such n-gram. */
static bool look_up_longer(const steno_kenlm *m, int order, uint64_t word, struct place *p)
{
    const struct table *t = &m->tables[order];
    const unsigned char *bucket;
    if (m->type == TRIE)
        return longer_in_trie(m, t, word, p);
    p->hash = hash_more(p->hash, word);
    bucket = find_key(t, p->hash);
    if (bucket)
        put_value(bucket + 8, t->has_backoff, p);
    return bucket != NULL;
}

/* ---- the file ------------------------------------------------------------------------------ */

static steno_status wrong(const struct reader *r, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: byte %zu: %s", r->name, r->at, what);
}

/* *at: the next n * size bytes, which are consumed; false if the file ends before. */
static bool take_bytes(struct reader *r, uint64_t n, uint64_t size, const unsigned char **at)
{
    if (n > (r->n - r->at) / size)
        return false;
    *at = r->bytes + r->at;
    r->at += (size_t)(n * size);
    return true;
}

static steno_status check_sanity(struct reader *r)
{
    static const char magic[56] = MAGIC_VERSION "5\n";
    static const float floats[3] = {0, 1, -0.5F};
    static const uint32_t words[3] = {1, UINT32_MAX, 0};
    const uint64_t one = 1;
    const unsigned char *version = r->bytes + sizeof MAGIC_VERSION - 1;
    unsigned long number = 0;
    if (r->n < SANITY_BYTES)
        return wrong(r, "a KenLM binary that ends in its header");
    if (memcmp(r->bytes, MAGIC " incomplete", sizeof MAGIC + 10) == 0)
        return wrong(r, "a KenLM binary that build_binary did not finish");
    if (memcmp(r->bytes, MAGIC_VERSION, sizeof MAGIC_VERSION - 1) != 0)
        return wrong(r, "a KenLM binary without a format version");
    for (int i = 0; i < 9 && version[i] >= '0' && version[i] <= '9'; i++)
        number = 10 * number + version[i] - '0';
    if (number != 5)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: a KenLM binary of format version %lu, expected 5", r->name, number);
    r->at = SANITY_BYTES;
    if (memcmp(r->bytes, magic, sizeof magic) != 0 || memcmp(r->bytes + 56, floats, 12) != 0 ||
        memcmp(r->bytes + 68, words, 12) != 0 || memcmp(r->bytes + 80, &one, 8) != 0)
        return wrong(r, "a KenLM binary with other test values: made on another architecture");
    return STENO_OK;
}

static steno_status check_type(struct reader *r, uint32_t type, uint32_t version)
{
    static const char *const names[] = {"probing",
                                        "probing with rest costs",
                                        "trie",
                                        "trie with quantization",
                                        "trie with array-compressed pointers",
                                        "trie with quantization and array-compressed pointers"};
    if (type != PROBING && type != TRIE)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: a KenLM binary of type %u (%s); supported: probing, trie", r->name,
                          type, type < sizeof names / sizeof *names ? names[type] : "unknown");
    if (version != (type == TRIE ? 1 : 0))
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: a KenLM binary, %s of version %u, expected %d", r->name, names[type],
                          version, type == TRIE ? 1 : 0);
    r->m->type = (enum type)type;
    return STENO_OK;
}

static steno_status read_kenlm_header(struct reader *r)
{
    steno_kenlm *m = r->m;
    const unsigned char *at, *counts;
    steno_status st = check_sanity(r);
    if (st)
        return st;
    if (!take_bytes(r, FIXED_BYTES, 1, &at))
        return wrong(r, "a KenLM binary that ends in its header");
    m->order = at[0];
    m->multiplier = steno_le_f32(at + 4);
    m->has_words = at[12] != 0;
    st = check_type(r, steno_le32(at + 8), steno_le32(at + 16));
    if (st)
        return st;
    if (m->order < 2 || m->order > STENO_KENLM_MAX_ORDER)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: n-grams of %d words, supported 2 to %d", r->name, m->order,
                          STENO_KENLM_MAX_ORDER);
    if (!(m->multiplier >= 1 && m->multiplier <= 1e6F))
        return wrong(r, "the multiplier of the buckets is not from 1 to 1e6");
    if (!take_bytes(r, (uint64_t)m->order, 8, &counts))
        return wrong(r, "a KenLM binary that ends in its header");
    for (int i = 1; i <= m->order; i++) {
        m->counts[i] = steno_le64(counts + 8 * (i - 1));
        if (m->counts[i] > r->n || m->counts[i] > INT32_MAX - 2)
            return steno_fail(r->err, STENO_ERR_FORMAT,
                              "%s: the header says %llu %d-grams, the file has %zu bytes", r->name,
                              (unsigned long long)m->counts[i], i, r->n);
    }
    if (r->at % 8 && !take_bytes(r, 8 - r->at % 8, 1, &at))
        return wrong(r, "a KenLM binary that ends in its header");
    return STENO_OK;
}

static steno_status too_short(const struct reader *r, const char *what, int order)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: byte %zu: %d-grams: %s beyond the end (%zu)",
                      r->name, r->at, order, what, r->n);
}

/* A hash table of n entries; at least one bucket must be empty. */
static steno_status read_buckets(struct reader *r, struct table *t, uint64_t n, uint64_t size,
                                 int order)
{
    uint64_t buckets = (uint64_t)(r->m->multiplier * (float)n), used = 0;
    t->n = buckets > n + 1 ? buckets : n + 1;
    t->size = size;
    if (!take_bytes(r, t->n, size, &t->at))
        return too_short(r, "a hash table", order);
    for (uint64_t i = 0; i < t->n; i++)
        used += steno_le64(t->at + i * size) != 0;
    return used < t->n
               ? STENO_OK
               : steno_fail(r->err, STENO_ERR_FORMAT,
                            "%s: %d-grams: a hash table without an empty bucket", r->name, order);
}

static bool good(float v)
{
    return fabsf(v) <= MAX_NUMBER; /* false for NaN */
}

static steno_status bad_number(const struct reader *r, int order, uint64_t i)
{
    return steno_fail(r->err, STENO_ERR_FORMAT,
                      "%s: %d-grams: entry %llu: a log-probability or back-off is not a number",
                      r->name, order, (unsigned long long)i);
}

static steno_status read_hashed_vocabulary(struct reader *r)
{
    steno_kenlm *m = r->m;
    const unsigned char *at;
    steno_status st;
    if (!take_bytes(r, 8, 1, &at))
        return too_short(r, "the vocabulary", 1);
    if (steno_le32(at) != 0)
        return wrong(r, "a vocabulary of another version than 0");
    m->n_words = steno_le32(at + 4);
    if (!m->n_words || m->n_words > m->counts[1] + 1)
        return wrong(r, "more words than 1-grams, or none");
    st = read_buckets(r, &m->vocabulary, m->counts[1], 12, 1);
    for (uint64_t i = 0; i < m->vocabulary.n && !st; i++) {
        const unsigned char *p = m->vocabulary.at + i * 12;
        if (steno_le64(p) && steno_le32(p + 8) >= m->n_words)
            st = wrong(r, "a word without the number of a 1-gram");
    }
    return st;
}

static steno_status read_hashed(struct reader *r)
{
    steno_kenlm *m = r->m;
    steno_status st = read_hashed_vocabulary(r);
    if (st)
        return st;
    if (!take_bytes(r, m->counts[1] + 1, 8, &m->unigrams))
        return too_short(r, "the table", 1);
    for (uint64_t i = 0; i < m->n_words; i++)
        if (!good(steno_le_f32(m->unigrams + 8 * i)) ||
            !good(steno_le_f32(m->unigrams + 8 * i + 4)))
            return bad_number(r, 1, i);
    for (int n = 2; n <= m->order; n++) {
        struct table *t = &m->tables[n];
        t->has_backoff = n < m->order;
        st = read_buckets(r, t, m->counts[n], t->has_backoff ? 16 : 12, n);
        if (st)
            return st;
        for (uint64_t i = 0; i < t->n; i++) {
            const unsigned char *p = t->at + i * t->size;
            bool fine =
                good(steno_le_f32(p + 8)) && (!t->has_backoff || good(steno_le_f32(p + 12)));
            if (steno_le64(p) && !fine)
                return bad_number(r, n, i);
        }
    }
    return STENO_OK;
}

static unsigned bits_of(uint64_t most)
{
    return most ? 64 - (unsigned)__builtin_clzll(most) : 0;
}

static steno_status bad_pointer(const struct reader *r, int order, uint64_t i)
{
    return steno_fail(r->err, STENO_ERR_FORMAT,
                      "%s: %d-grams: entry %llu: a pointer goes back or beyond the %d-grams",
                      r->name, order, (unsigned long long)i, order + 1);
}

/* 1-grams: prob, back-off, pointer; one more for <unk> if it was missing, and one for the end. */
static steno_status read_trie_words(struct reader *r)
{
    steno_kenlm *m = r->m;
    const unsigned char *at;
    uint64_t before = 0;
    if (!take_bytes(r, 1, 8, &at))
        return too_short(r, "the vocabulary", 1);
    m->vocabulary.n = steno_le64(at);
    if (m->vocabulary.n >= m->counts[1])
        return wrong(r, "more words than 1-grams");
    m->n_words = m->vocabulary.n + 1;
    if (!take_bytes(r, m->counts[1], 8, &m->vocabulary.at))
        return too_short(r, "the vocabulary", 1);
    if (!take_bytes(r, m->counts[1] + 2, 16, &m->unigrams))
        return too_short(r, "the table", 1);
    for (uint64_t i = 0; i <= m->n_words; i++) {
        const unsigned char *p = m->unigrams + 16 * i;
        uint64_t next = steno_le64(p + 8);
        if (i < m->n_words && !(good(steno_le_f32(p)) && good(steno_le_f32(p + 4))))
            return bad_number(r, 1, i);
        if (next < before || next > m->counts[2])
            return bad_pointer(r, 1, i);
        before = next;
    }
    return STENO_OK;
}

static steno_status check_trie_table(const struct reader *r, int order)
{
    const steno_kenlm *m = r->m;
    const struct table *t = &m->tables[order];
    uint64_t before = 0;
    for (uint64_t i = 0; i <= t->n; i++) {
        uint64_t next = t->has_backoff ? next_of(t, i) : 0;
        struct place p = {0};
        if (t->has_backoff && (next < before || next > m->counts[order + 1]))
            return bad_pointer(r, order, i);
        before = next;
        if (i == t->n)
            break;
        read_entry(m, t, i, &p);
        if (!good(p.prob) || !good(p.backoff))
            return bad_number(r, order, i);
    }
    return STENO_OK;
}

static steno_status read_trie(struct reader *r)
{
    steno_kenlm *m = r->m;
    steno_status st = read_trie_words(r);
    m->word_bits = bits_of(m->counts[1]);
    for (int n = 2; n <= m->order && !st; n++) {
        struct table *t = &m->tables[n];
        t->has_backoff = n < m->order;
        t->n = m->counts[n];
        t->next = t->has_backoff ? bits_of(m->counts[n + 1]) : 0;
        t->bits = m->word_bits + (t->has_backoff ? 63 : 31) + t->next;
        if (!take_bytes(r, ((1 + t->n) * t->bits + 7) / 8 + 8, 1, &t->at))
            return too_short(r, "the table", n);
        st = check_trie_table(r, n);
    }
    return st;
}

/* The words come last, <unk> first. This also checks that all earlier parts have the right size. */
static steno_status check_words(const struct reader *r)
{
    if (r->m->has_words && (r->n - r->at < 6 || memcmp(r->bytes + r->at, "<unk>", 6) != 0))
        return wrong(r, "expected the words here, <unk> first");
    return STENO_OK;
}

bool steno_kenlm_is(const char *bytes, size_t n)
{
    return n >= sizeof MAGIC - 1 && memcmp(bytes, MAGIC, sizeof MAGIC - 1) == 0;
}

steno_status steno_kenlm_parse(steno_kenlm **out, const char *bytes, size_t n, const char *name,
                               steno_err *err)
{
    struct reader r = {.m = calloc(1, sizeof *r.m),
                       .bytes = (const unsigned char *)bytes,
                       .n = n,
                       .name = name,
                       .err = err};
    steno_status st;
    if (!r.m)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = read_kenlm_header(&r);
    if (!st)
        st = r.m->type == TRIE ? read_trie(&r) : read_hashed(&r);
    if (!st)
        st = check_words(&r);
    if (st)
        steno_kenlm_close(r.m);
    else
        *out = r.m;
    return st;
}

void steno_kenlm_close(steno_kenlm *m)
{
    free(m);
}

int steno_kenlm_order(const steno_kenlm *m)
{
    return m->order;
}

int64_t steno_kenlm_count(const steno_kenlm *m, int n)
{
    return n >= 1 && n <= m->order ? (int64_t)m->counts[n] : 0;
}

int32_t steno_kenlm_word(const steno_kenlm *m, const char *word)
{
    uint64_t hash = hash_word(word, strlen(word)), low = 0, high = m->vocabulary.n;
    if (m->type == PROBING) {
        const unsigned char *p = find_key(&m->vocabulary, hash);
        return p ? (int32_t)steno_le32(p + 8) : 0;
    }
    while (low < high) { /* sorted; a word's number is its position, with <unk> before all */
        uint64_t mid = low + (high - low) / 2, got = steno_le64(m->vocabulary.at + 8 * mid);
        if (got == hash)
            return (int32_t)mid + 1;
        if (got < hash)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

/* ---- scores -------------------------------------------------------------------------------- */

/* past[i]: the sum of the back-offs of the contexts of i words and more. Returns how many words
 * count. */
static int sum_backoffs(const steno_kenlm *m, const int32_t *newest, int n,
                        double past[static STENO_KENLM_MAX_ORDER + 1])
{
    float backoff[STENO_KENLM_MAX_ORDER];
    struct place p;
    int found = 0;
    for (; found < n; found++) {
        if (found == 0)
            look_up_word(m, (uint64_t)newest[0], &p);
        else if (!look_up_longer(m, found + 1, (uint64_t)newest[-found], &p))
            break;
        backoff[found] = p.backoff;
    }
    past[found + 1] = 0;
    for (int i = found; i > 0; i--)
        past[i] = past[i + 1] + (double)backoff[i - 1];
    return found;
}

void steno_kenlm_score(const steno_kenlm *m, const int32_t *context, size_t n, const int32_t *words,
                       size_t n_words, double *out)
{
    double past[STENO_KENLM_MAX_ORDER + 1];
    const int32_t *newest = n ? context + n - 1 : NULL;
    int most = m->order - 1, k = n < (size_t)most ? (int)n : most;
    int found = sum_backoffs(m, newest, k, past);
    for (size_t i = 0; i < n_words; i++) {
        struct place p;
        float prob;
        int length = 0; /* of the context including the following word */
        look_up_word(m, (uint64_t)words[i], &p);
        prob = p.prob;
        for (; length < k && p.more; length++) {
            if (!look_up_longer(m, length + 2, (uint64_t)newest[-length], &p))
                break;
            prob = p.prob;
        }
        out[i] = (double)prob + (length <= found ? past[length + 1] : 0);
    }
}
