#include "speech/families/wav2vec2/conf.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buf.h"

#define CONFIG "config.json"
#define PREPROCESSOR "preprocessor_config.json"
#define VOCAB "vocab.json"
#define RATE 16000
#define CONVS 32

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is(const struct steno_json_node *n, enum steno_json_kind kind)
{
    return n && n->kind == kind;
}

static steno_status read_list(const struct steno_json_node *root, const char *key, int64_t *out,
                              int *n, steno_err *err)
{
    const struct steno_json_node *list = steno_json_get(root, key);
    int k = 0;
    if (!list)
        return STENO_OK;
    for (const struct steno_json_node *e = list->first; e; e = e->next, k++)
        if (k == CONVS || !steno_json_int(e, 1, 4096, &out[k]))
            break;
    if (!is(list, STENO_JSON_LIST) || !k || (size_t)k != list->n)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: line %zu: %s is no list of up to %d numbers in 1..4096", CONFIG,
                          list->line, key, CONVS);
    *n = k;
    return STENO_OK;
}

/* How far the convolutions reach, and how far one frame is from the next. */
static steno_status read_frames(struct steno_wav2vec2_conf *c, const struct steno_json_node *root,
                                steno_err *err)
{
    int64_t kernel[CONVS] = {10, 3, 3, 3, 3, 2, 2}, stride[CONVS] = {5, 2, 2, 2, 2, 2, 2};
    int n = 7, m = 7;
    size_t reach = 1, step = 1;
    steno_status st = read_list(root, "conv_kernel", kernel, &n, err);
    if (!st)
        st = read_list(root, "conv_stride", stride, &m, err);
    if (st)
        return st;
    for (int i = n < m ? n : m; i-- > 0 && reach < RATE && step < RATE;) {
        reach = (reach - 1) * (size_t)stride[i] + (size_t)kernel[i];
        step *= (size_t)stride[i];
    }
    if (n != m || reach >= RATE || step >= RATE)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: conv_kernel [%d] and conv_stride [%d] do not fit together, or reach "
                          "over a second",
                          CONFIG, n, m);
    c->least = reach;
    c->frame_samples = step;
    return STENO_OK;
}

steno_status steno_wav2vec2_conf_read(struct steno_wav2vec2_conf *c,
                                      const struct steno_json_node *config,
                                      const struct steno_json_node *preprocessor, steno_err *err)
{
    const struct steno_json_node *rate = steno_json_get(preprocessor, "sampling_rate");
    const struct steno_json_node *vocab = steno_json_get(config, "vocab_size");
    *c = (struct steno_wav2vec2_conf){.normalize = true, .eps = 1e-7, .rate = RATE, .pad = -1};
    (void)steno_json_bool(steno_json_get(preprocessor, "do_normalize"), &c->normalize);
    (void)steno_json_int(steno_json_get(config, "pad_token_id"), 0, STENO_TOKENS_MAX, &c->pad);
    if (rate && (!steno_json_int(rate, 1, 1 << 20, &c->rate) || c->rate != RATE))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: line %zu: sampling_rate is not %d",
                          PREPROCESSOR, rate->line, RATE);
    if (vocab && !steno_json_int(vocab, 2, STENO_TOKENS_MAX, &c->vocab))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: vocab_size is not in 2..%d", CONFIG,
                          vocab->line, STENO_TOKENS_MAX);
    return read_frames(c, config, err);
}

struct steno_wav2vec2_conf steno_wav2vec2_conf_omnilingual(void)
{
    return (struct steno_wav2vec2_conf){
        .normalize = true, .eps = 1e-5, .rate = RATE, .frame_samples = 320, .least = 400, .pad = 0};
}

/* ---- vocabulary ------------------------------------------------------------------------------ */

struct pieces {
    const char **of; /* [n]; NULL: there is none of that number */
    int64_t n, cap;
};

static steno_status put_wav2vec2_conf(struct pieces *p, int64_t id, const char *piece,
                                      steno_err *err)
{
    if (id >= p->cap) {
        const int64_t cap = 2 * id + 64;
        const char **of = realloc(p->of, (size_t)cap * sizeof *of);
        if (!of)
            return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", VOCAB);
        memset(of + p->cap, 0, (size_t)(cap - p->cap) * sizeof *of);
        p->of = of;
        p->cap = cap;
    }
    p->n = id < p->n ? p->n : id + 1;
    if (!p->of[id])
        p->of[id] = piece;
    return STENO_OK;
}

/* {"piece": id, ...} */
static steno_status put_all(struct pieces *p, const struct steno_json_node *object,
                            const char *file, steno_err *err)
{
    steno_status st = STENO_OK;
    for (const struct steno_json_node *e = object ? object->first : NULL; e && !st; e = e->next) {
        int64_t id;
        if (!e->key || !steno_json_int(e, 0, STENO_TOKENS_MAX - 1, &id))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: line %zu: expected \"piece\": id with an id below %d", file,
                              e->line, STENO_TOKENS_MAX);
        st = put_wav2vec2_conf(p, id, e->key, err);
    }
    return st;
}

static const char *text_of(const struct steno_json_node *tokenizer, const char *key,
                           const char *otherwise)
{
    const struct steno_json_node *n = steno_json_get(tokenizer, key);
    const char *text = steno_json_text(is(n, STENO_JSON_OBJECT) ? steno_json_get(n, "content") : n);
    return text ? text : otherwise;
}

/* The vocabulary of one language. */
static steno_status choose_wav2vec2_conf(const struct steno_json_node **vocab,
                                         const struct steno_json_node *tokenizer, steno_err *err)
{
    const struct steno_json_node *v = *vocab;
    const char *language = text_of(tokenizer, "target_lang", "");
    if (!is(v, STENO_JSON_OBJECT) || !v->n)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no vocabulary {\"piece\": id, ...}", VOCAB);
    if (v->first->kind != STENO_JSON_OBJECT)
        return STENO_OK;
    *vocab = steno_json_get(v, language);
    if (!is(*vocab, STENO_JSON_OBJECT))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: vocabularies of %zu languages (%s, ...), and target_lang of "
                          "tokenizer_config.json is '%s'",
                          VOCAB, v->n, v->first->key, language);
    return STENO_OK;
}

static int64_t find(const struct pieces *p, const char *piece)
{
    for (int64_t i = 0; i < p->n; i++)
        if (p->of[i] && !strcmp(p->of[i], piece))
            return i;
    return -1;
}

static steno_status put_lower(struct steno_buf *b, const char *piece)
{
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)piece;
    steno_status st = STENO_OK;
    while (*s && !st) {
        utf8proc_int32_t c;
        utf8proc_uint8_t to[8];
        const utf8proc_ssize_t k = utf8proc_iterate(s, -1, &c);
        if (k <= 0)
            break; /* JSON's texts are UTF-8 */
        s += k;
        st = steno_buf_add(b, to, (size_t)utf8proc_encode_char(utf8proc_tolower(c), to));
    }
    return st;
}

/* A piece that can be a line of its own. */
static bool is_line(const char *piece)
{
    return piece && *piece && strlen(piece) <= STENO_TOKENS_MAX_PIECE && !strpbrk(piece, "\r\n");
}

/* "piece id" lines. Numbers without a piece go to hidden. */
static steno_status put_lines(struct steno_buf *lines, int32_t *hidden, size_t *n_hidden,
                              const struct pieces *p, int64_t n, bool lower)
{
    steno_status st = STENO_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        const char *piece = i < p->n && is_line(p->of[i]) ? p->of[i] : "<none>";
        if (i >= p->n || piece != p->of[i])
            hidden[(*n_hidden)++] = (int32_t)i;
        st = lower && *piece != '<' && *piece != '[' ? put_lower(lines, piece)
                                                     : steno_buf_puts(lines, piece);
        if (!st)
            st = steno_buf_printf(lines, " %lld\n", (long long)i);
    }
    return st;
}

static steno_status make_tokens(steno_tokens **out, const struct pieces *p, int64_t n,
                                const struct steno_json_node *tokenizer, int64_t blank,
                                steno_err *err)
{
    static const char *const special[][2] = {
        {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    const int64_t delimiter = find(p, text_of(tokenizer, "word_delimiter_token", "|"));
    int32_t *hidden = malloc((size_t)(n + 4) * sizeof *hidden);
    struct steno_buf lines;
    size_t n_hidden = 0;
    bool lower = false;
    steno_status st;
    if (!hidden)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", VOCAB);
    (void)steno_json_bool(steno_json_get(tokenizer, "do_lower_case"), &lower);
    steno_buf_init(&lines, STENO_TOKENS_MAX_FILE);
    st = put_lines(&lines, hidden, &n_hidden, p, n, lower);
    for (size_t i = 0; i < 3; i++) {
        const int64_t id = find(p, text_of(tokenizer, special[i][0], special[i][1]));
        if (id >= 0 && id < n && id != delimiter)
            hidden[n_hidden++] = (int32_t)id;
    }
    hidden[n_hidden++] = (int32_t)blank;
    st = st ? steno_fail(err, st, "%s: too large", VOCAB)
            : steno_tokens_parse(out, lines.data ? lines.data : "", lines.len, VOCAB, err);
    if (!st && delimiter >= 0 && delimiter < n)
        steno_tokens_set_delimiter(*out, (int32_t)delimiter);
    if (!st)
        steno_tokens_hide(*out, hidden, n_hidden);
    steno_buf_free(&lines);
    free(hidden);
    return st;
}

/* {"33": {"content": "<s>"}, ...} of the tokenizer. */
static steno_status put_added(struct pieces *p, const struct steno_json_node *tokenizer,
                              steno_err *err)
{
    const struct steno_json_node *added = steno_json_get(tokenizer, "added_tokens_decoder");
    steno_status st = STENO_OK;
    for (const struct steno_json_node *e = added ? added->first : NULL; e && !st; e = e->next) {
        const char *content = steno_json_text(steno_json_get(e, "content"));
        char *end = NULL;
        const long id = e->key ? strtol(e->key, &end, 10) : -1;
        if (end && end != e->key && !*end && id >= 0 && id < STENO_TOKENS_MAX && content)
            st = put_wav2vec2_conf(p, id, content, err);
    }
    return st;
}

static steno_status find_blank(int64_t *out, const struct pieces *p,
                               const struct steno_wav2vec2_conf *c,
                               const struct steno_json_node *tokenizer, steno_err *err)
{
    const char *pad = text_of(tokenizer, "pad_token", "<pad>");
    int64_t id = find(p, pad);
    if (id < 0)
        id = c->pad;
    if (id < 0 || id >= p->n || !p->of[id])
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: there is no '%s', the blank, and config.json's pad_token_id is none "
                          "of the tokens",
                          VOCAB, pad);
    *out = id;
    return STENO_OK;
}

steno_status steno_wav2vec2_tokens(steno_tokens **out, int32_t *blank,
                                   const struct steno_wav2vec2_conf *c,
                                   const struct steno_json_node *vocab,
                                   const struct steno_json_node *tokenizer,
                                   const struct steno_json_node *added, steno_err *err)
{
    struct pieces p = {0};
    int64_t pad = 0;
    steno_status st = choose_wav2vec2_conf(&vocab, tokenizer, err);
    if (!st)
        st = put_all(&p, vocab, VOCAB, err);
    if (!st)
        st = put_all(&p, added, "added_tokens.json", err);
    if (!st)
        st = put_added(&p, tokenizer, err);
    if (!st)
        st = find_blank(&pad, &p, c, tokenizer, err);
    if (!st && c->vocab && pad >= c->vocab)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: the blank is %lld of %lld scores", VOCAB,
                        (long long)pad, (long long)c->vocab);
    if (!st)
        st = make_tokens(out, &p, c->vocab ? c->vocab : p.n, tokenizer, pad, err);
    if (!st)
        *blank = (int32_t)pad;
    free(p.of);
    return st;
}

static bool is_mark_wav2vec2_conf(const char *piece)
{
    const size_t n = strlen(piece);
    return n > 2 && piece[0] == '<' && piece[n - 1] == '>';
}

steno_status steno_wav2vec2_tokens_txt(steno_tokens **out, int32_t *blank, const char *path,
                                       steno_err *err)
{
    steno_status st = steno_tokens_open(out, path, err);
    int32_t space;
    if (st)
        return st;
    if (!is_mark_wav2vec2_conf(steno_tokens_piece(*out, 0)))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: number 0, the blank, is '%.40s', expected <s>", path,
                          steno_tokens_piece(*out, 0));
    *blank = 0;
    for (int32_t i = 0; i < steno_tokens_count(*out); i++)
        if (is_mark_wav2vec2_conf(steno_tokens_piece(*out, i)))
            steno_tokens_hide(*out, &i, 1);
    space = steno_tokens_find(*out, " ");
    if (space >= 0)
        steno_tokens_set_delimiter(*out, space);
    return STENO_OK;
}
