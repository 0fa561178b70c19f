#include "speech/punctuation/punctuation.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ascii.h"
#include "base/buf.h"
#include "base/path.h"
#include "formats/onnx_head.h"
#include "nn/network/run.h"
#include "speech/punctuation/ct_marks.h"
#include "speech/punctuation/rows.h"

#define VOCABULARY "bpe.vocab"
#define CLASSES 4 /* of case and of marks */
#define PADDING 8 /* at least so many zeros end a row, which convolutions see; a multiple of it */

enum layout { NO_LAYOUT, CNN_BILSTM, CT_TRANSFORMER };

struct steno_punctuator {
    enum layout layout;
    steno_network *net;
    steno_bpe_vocab *bpe;       /* CNN_BILSTM */
    struct steno_ct_vocab ct;   /* CT_TRANSFORMER */
    int pieces, valid, lengths; /* inputs; CT_TRANSFORMER: without valid */
    int letters, marks;         /* outputs; CT_TRANSFORMER: marks alone */
};

struct steno_punctuation_writer {
    const steno_punctuator *p;
    steno_session *session;
    struct steno_punctuation_tokens tokens;
    struct steno_buf low, text; /* in small letters; written */
    int32_t *id;                /* [cap_id] numbers of the tokens */
    uint8_t *mark;              /* [cap_mark] */
    size_t cap_id, cap_mark;
};

/* ---- finding --------------------------------------------------------------------------------- */

static enum layout layout_of(const char *path)
{
    steno_onnx_head *h = NULL;
    enum layout l = NO_LAYOUT;
    if (steno_onnx_head_open(&h, path, NULL))
        return l;
    if (steno_onnx_head_has_input(h, "token_ids") && steno_onnx_head_has_input(h, "valid_ids") &&
        steno_onnx_head_has_input(h, "label_lens"))
        l = CNN_BILSTM;
    else if (steno_onnx_head_has_input(h, "inputs") &&
             steno_onnx_head_has_input(h, "text_lengths") &&
             steno_onnx_head_meta(h, "punctuations"))
        l = CT_TRANSFORMER;
    steno_onnx_head_close(h);
    return l;
}

static int is_onnx(const struct dirent *e)
{
    return *e->d_name != '.' && steno_path_ends(e->d_name, ".onnx");
}

/* The path of the first network of a folder by name, and its layout. NULL: none. */
static char *find_network(const char *dir, enum layout *layout)
{
    struct dirent **list = NULL;
    const int n = scandir(dir, &list, is_onnx, alphasort);
    char *found = NULL;
    for (int i = 0; i < n; i++) {
        char *path = found ? NULL : steno_path_join(dir, list[i]->d_name);
        if (path && (*layout = layout_of(path)) != NO_LAYOUT)
            found = path;
        else
            free(path);
        free(list[i]);
    }
    free(list);
    return found;
}

bool steno_punctuator_is_dir(const char *dir)
{
    enum layout layout;
    char *path = find_network(dir, &layout);
    free(path);
    return path != NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The numbers of classes are the layout's: files that name others are not read. */
static steno_status check_classes(const steno_network *net, steno_err *err)
{
    static const char *const want[][2] = {{"COMMA", "1"}, {"PERIOD", "2"}, {"QUESTION", "3"},
                                          {"UPPER", "1"}, {"CAP", "2"},    {"MIX_CASE", "3"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *value = steno_network_meta(net, want[i][0]);
        if (!value || strcmp(value, want[i][1]) != 0)
            return steno_fail(err, STENO_ERR_FORMAT, "metadata %s is %.40s, expected %s",
                              want[i][0], value ? value : "missing", want[i][1]);
    }
    return STENO_OK;
}

static steno_status open_cnn_bilstm(steno_punctuator *p, const char *dir, steno_err *err)
{
    char *path = steno_path_join(dir, VOCABULARY);
    steno_status st = path ? steno_bpe_vocab_open(&p->bpe, path, NULL, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(path);
    p->pieces = steno_network_find_input(p->net, "token_ids");
    p->valid = steno_network_find_input(p->net, "valid_ids");
    p->lengths = steno_network_find_input(p->net, "label_lens");
    p->letters = steno_network_find_output(p->net, "active_case_logits");
    p->marks = steno_network_find_output(p->net, "active_punct_logits");
    if (!st && (p->letters < 0 || p->marks < 0))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "no outputs active_case_logits and active_punct_logits");
    return st ? st : check_classes(p->net, err);
}

static steno_status open_ct_transformer(steno_punctuator *p, const char *path, steno_err *err)
{
    const char *words = steno_network_meta(p->net, "tokens");
    const char *marks = steno_network_meta(p->net, "punctuations");
    const char *unknown = steno_network_meta(p->net, "unk_symbol");
    p->pieces = steno_network_find_input(p->net, "inputs");
    p->valid = -1;
    p->lengths = steno_network_find_input(p->net, "text_lengths");
    p->marks = steno_network_find_output(p->net, "logits");
    if (!words || !marks || p->marks < 0)
        return steno_fail(err, STENO_ERR_FORMAT, "no output logits, or no metadata %s",
                          words ? "punctuations" : "tokens");
    return steno_ct_vocab_read(&p->ct, words, marks, unknown ? unknown : "<unk>", path, err);
}

/* Errors that only a run shows come at open. */
static steno_status try_text(const steno_punctuator *p, steno_err *err)
{
    steno_punctuation_writer *w = NULL;
    struct steno_punctuation out;
    steno_status st = steno_punctuation_writer_open(&w, p, err);
    if (!st)
        st = steno_punctuation_find(w, "a b", &out, err);
    steno_punctuation_writer_close(w);
    return st;
}

static steno_status open_network_punctuation(steno_punctuator *p, const char *dir, const char *path,
                                             steno_err *err)
{
    const struct steno_network_options o = {
        .opt_level = -1, .precision = STENO_AUTO_WEIGHTS, .cache_dir = steno_cache_dir()};
    steno_status st = steno_network_open(&p->net, path, &o, err);
    if (!st)
        st = p->layout == CNN_BILSTM ? open_cnn_bilstm(p, dir, err)
                                     : open_ct_transformer(p, path, err);
    return st ? st : try_text(p, err);
}

steno_status steno_punctuator_open(steno_punctuator **out, const char *dir, steno_err *err)
{
    enum layout layout = NO_LAYOUT;
    char *path = find_network(dir, &layout);
    steno_punctuator *p = path ? calloc(1, sizeof *p) : NULL;
    steno_status st;
    if (!path)
        return steno_fail(err, STENO_ERR_IO,
                          "punctuation: %.200s has no network of the layouts of sherpa-onnx", dir);
    if (p) {
        p->layout = layout;
        st = open_network_punctuation(p, dir, path, err);
    } else {
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    if (st) {
        st = steno_fail_in(err, st, "punctuation: %.200s", path);
        steno_punctuator_close(p);
    } else {
        *out = p;
    }
    free(path);
    return st;
}

void steno_punctuator_close(steno_punctuator *p)
{
    if (!p)
        return;
    steno_network_close(p->net);
    steno_bpe_vocab_close(p->bpe);
    steno_ct_vocab_free(&p->ct);
    free(p);
}

bool steno_punctuator_is_bilingual(const steno_punctuator *p)
{
    return p->layout == CT_TRANSFORMER;
}

steno_status steno_punctuation_writer_open(steno_punctuation_writer **out,
                                           const steno_punctuator *p, steno_err *err)
{
    steno_punctuation_writer *w = calloc(1, sizeof *w);
    steno_status st = w ? steno_session_open(&w->session, p->net, NULL, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "punctuation: out of memory");
    if (st) {
        free(w);
        return st;
    }
    w->p = p;
    steno_buf_init(&w->low, STENO_PUNCTUATION_MAX);
    steno_buf_init(&w->text, 8 * STENO_PUNCTUATION_MAX);
    *out = w;
    return STENO_OK;
}

void steno_punctuation_writer_close(steno_punctuation_writer *w)
{
    if (!w)
        return;
    steno_session_close(w->session);
    steno_buf_free(&w->low);
    steno_buf_free(&w->text);
    free(w->tokens.v);
    free(w->id);
    free(w->mark);
    free(w);
}

/* ---- running --------------------------------------------------------------------------------- */

/* An input [1, n]. */
static void set_row(struct steno_run *r, int input, const int32_t *v, size_t n)
{
    steno_run_set(r, input, STENO_I32, (const int64_t[]){1, (int64_t)n}, 2, v);
}

static void set_length(struct steno_run *r, int input, const int32_t *length)
{
    steno_run_set(r, input, STENO_I32, (const int64_t[]){1}, 1, length);
}

/* The scores [n, classes] of an output. */
static steno_status take_scores(const steno_punctuation_writer *w, int output, size_t n,
                                size_t classes, const float **scores, steno_err *err)
{
    const size_t count = steno_run_floats(w->session, output, scores);
    if (count != n * classes)
        return steno_fail(err, STENO_ERR_FORMAT, "the network gave %zu scores for %zu of %zu",
                          count, n, classes);
    return STENO_OK;
}

/* The first of the greatest. */
static uint8_t greatest(const float *scores, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (scores[i] > scores[best])
            best = i;
    return (uint8_t)best;
}

/* ---- CNN-BiLSTM ------------------------------------------------------------------------------ */

static void take_label(struct steno_punctuation_token *t, const float *letters, const float *marks)
{
    static const char *const mark[CLASSES] = {"", ",", ".", "?"};
    static const enum steno_letters to[CLASSES] = {STENO_LETTERS_KEEP, STENO_LETTERS_UPPER,
                                                   STENO_LETTERS_FIRST_UPPER, STENO_LETTERS_KEEP};
    t->letters = to[greatest(letters, CLASSES)];
    t->mark = mark[greatest(marks, CLASSES)];
}

/* A row at a time: the network puts several in an order of its own. */
static steno_status run_row(steno_punctuation_writer *w, struct steno_punctuation_row *row,
                            struct steno_punctuation_token *t, steno_err *err)
{
    const steno_punctuator *p = w->p;
    const size_t padded = (row->n + 2 * PADDING - 1) / PADDING * PADDING;
    const size_t n = padded < STENO_PUNCTUATION_ROW ? padded : STENO_PUNCTUATION_ROW;
    const float *letters, *marks;
    const int32_t length = (int32_t)row->words + 2;
    struct steno_run r = steno_run_begin(w->session, NULL, err);
    steno_status st;
    set_row(&r, p->pieces, row->piece, n);
    set_row(&r, p->valid, row->valid, n);
    set_length(&r, p->lengths, &length);
    st = steno_run_end(&r);
    if (!st)
        st = take_scores(w, p->letters, row->words, CLASSES, &letters, err);
    if (!st)
        st = take_scores(w, p->marks, row->words, CLASSES, &marks, err);
    for (size_t i = 0; !st && i < row->words; i++)
        take_label(&t[i], letters + i * CLASSES, marks + i * CLASSES);
    return st;
}

static steno_status run_rows(steno_punctuation_writer *w, steno_err *err)
{
    struct steno_punctuation_row row;
    steno_status st = steno_punctuation_words(&w->tokens, w->low.data);
    for (size_t i = 0; !st && i < w->tokens.n; i += row.words) {
        st = steno_punctuation_fill_row(&row, w->p->bpe, w->low.data, &w->tokens, i);
        if (!st)
            st = run_row(w, &row, &w->tokens.v[i], err);
    }
    return st;
}

/* ---- CT-Transformer -------------------------------------------------------------------------- */

static steno_status run_part(void *arg, size_t begin, size_t end, uint8_t *mark, steno_err *err)
{
    steno_punctuation_writer *w = arg;
    const size_t n = end - begin, classes = w->p->ct.n_marks;
    const float *scores;
    const int32_t length = (int32_t)n;
    struct steno_run r = steno_run_begin(w->session, NULL, err);
    steno_status st;
    set_row(&r, w->p->pieces, w->id + begin, n);
    set_length(&r, w->p->lengths, &length);
    st = steno_run_end(&r);
    if (!st)
        st = take_scores(w, w->p->marks, n, classes, &scores, err);
    for (size_t i = 0; !st && i < n; i++)
        mark[i] = greatest(scores + i * classes, classes);
    return st;
}

static steno_status run_parts(steno_punctuation_writer *w, steno_err *err)
{
    const struct steno_ct_vocab *v = &w->p->ct;
    struct steno_punctuation_tokens *t = &w->tokens;
    steno_status st = steno_ct_split(t, w->low.data);
    if (!st)
        st = STENO_RESERVE(&w->id, &w->cap_id, t->n);
    if (!st)
        st = STENO_RESERVE(&w->mark, &w->cap_mark, t->n);
    for (size_t i = 0; !st && i < t->n; i++)
        w->id[i] = steno_ct_vocab_find(v, w->low.data + t->v[i].begin, t->v[i].end - t->v[i].begin);
    if (!st)
        st = steno_ct_choose(v, t->n, run_part, w, w->mark, err);
    for (size_t i = 0; !st && i < t->n; i++)
        t->v[i].mark = v->mark[w->mark[i]];
    return st;
}

/* ---- texts ----------------------------------------------------------------------------------- */

steno_status steno_punctuation_add(struct steno_punctuation_tokens *t, size_t begin, size_t end)
{
    if (STENO_RESERVE(&t->v, &t->cap, t->n + 1))
        return STENO_ERR_NOMEM;
    t->v[t->n++] = (struct steno_punctuation_token){
        .begin = (uint32_t)begin, .end = (uint32_t)end, .mark = ""};
    return STENO_OK;
}

steno_status steno_punctuation_find(steno_punctuation_writer *w, const char *text,
                                    struct steno_punctuation *out, steno_err *err)
{
    const size_t n = strlen(text);
    steno_status st;
    w->tokens.n = 0;
    steno_buf_reset(&w->low);
    st = steno_buf_add(&w->low, text, n);
    for (size_t i = 0; !st && i < n; i++)
        w->low.data[i] = steno_to_small(text[i]);
    if (st)
        return steno_fail(err, st, "punctuation: %s",
                          st == STENO_ERR_LIMIT ? "the text is too long" : "out of memory");
    if (n)
        st = w->p->layout == CNN_BILSTM ? run_rows(w, err) : run_parts(w, err);
    if (st == STENO_ERR_NOMEM)
        return steno_fail(err, st, "punctuation: out of memory");
    *out = (struct steno_punctuation){w->tokens.v, w->tokens.n};
    return st;
}

/* A blank stands between words; with the CT-Transformer between two of ASCII without a mark. */
static bool stands_apart(const steno_punctuation_writer *w, const char *text, size_t i)
{
    const struct steno_punctuation_token *t = w->tokens.v;
    return i && (w->p->layout == CNN_BILSTM ||
                 (!*t[i - 1].mark && !(text[t[i - 1].begin] & 0x80) && !(text[t[i].begin] & 0x80)));
}

static steno_status write_token(steno_punctuation_writer *w, const char *text, size_t i)
{
    const struct steno_punctuation_token *t = &w->tokens.v[i];
    steno_status st = stands_apart(w, text, i) ? steno_buf_puts(&w->text, " ") : STENO_OK;
    const size_t at = w->text.len;
    if (!st)
        st = steno_buf_add(&w->text, text + t->begin, t->end - t->begin);
    if (!st && t->letters != STENO_LETTERS_KEEP)
        for (size_t k = at; k < (t->letters == STENO_LETTERS_UPPER ? w->text.len : at + 1); k++)
            w->text.data[k] = steno_to_capital(w->text.data[k]);
    return st ? st : steno_buf_puts(&w->text, t->mark);
}

steno_status steno_punctuation_write(steno_punctuation_writer *w, const char *text,
                                     const char **out, steno_err *err)
{
    struct steno_punctuation p;
    bool small = false;
    steno_status st = steno_punctuation_find(w, text, &p, err);
    if (st)
        return st;
    for (const char *c = text; *c; c++)
        small |= steno_is_small(*c);
    steno_buf_reset(&w->text);
    for (size_t i = 0; !st && i < p.n; i++)
        st = write_token(w, small ? text : w->low.data, i);
    if (st)
        return steno_fail(err, st, "punctuation: %s",
                          st == STENO_ERR_LIMIT ? "the text is too long" : "out of memory");
    *out = w->text.len ? w->text.data : "";
    return STENO_OK;
}
