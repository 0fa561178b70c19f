/* What text becomes before and after the punctuation networks: bpe.vocab and rows of the
 * CNN-BiLSTM; lists of the CT-Transformer's metadata, tokens and marks. The input is a list or
 * vocabulary, a zero byte, and a text. All of the text's words are in rows, tokens follow each
 * other, and each gets a mark. */
/* covers: engine/speech/text/bpe_vocab.c engine/speech/punctuation/rows.c */
/* covers: engine/speech/punctuation/ct_marks.c */
#include <stdlib.h>
#include <string.h>

#include "speech/punctuation/ct_marks.h"
#include "speech/punctuation/rows.h"

#define MARKS "<unk>|_|\xEF\xBC\x8C|\xE3\x80\x82|\xEF\xBC\x9F|\xE3\x80\x81"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_tokens(const struct steno_punctuation_tokens *t, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].begin >= t->v[i].end || t->v[i].end > n ||
            (i && t->v[i].begin < t->v[i - 1].end))
            abort();
}

static void check_rows(const char *vocab, size_t n_vocab, const char *text)
{
    steno_bpe_vocab *v = NULL;
    struct steno_punctuation_tokens t = {0};
    struct steno_punctuation_row row;
    if (steno_bpe_vocab_parse(&v, vocab, n_vocab, "v", NULL, NULL))
        return;
    if (steno_punctuation_words(&t, text))
        abort();
    check_tokens(&t, strlen(text));
    for (size_t i = 0; i < t.n; i += row.words) {
        size_t valid = 0;
        if (steno_punctuation_fill_row(&row, v, text, &t, i) || !row.words ||
            row.n > STENO_PUNCTUATION_ROW)
            abort();
        for (size_t k = 0; k < STENO_PUNCTUATION_ROW; k++)
            valid += (size_t)row.valid[k];
        if (valid != row.words + 2)
            abort();
    }
    free(t.v);
    steno_bpe_vocab_close(v);
}

/* Marks that the text's bytes tell. */
struct told {
    const struct steno_ct_vocab *v;
    const struct steno_punctuation_tokens *t;
    const char *text;
};

static steno_status tell_marks(void *arg, size_t begin, size_t end, uint8_t *mark, steno_err *err)
{
    const struct told *x = arg;
    (void)err;
    if (begin >= end || end > x->t->n || end - begin > STENO_CT_WINDOW)
        abort();
    for (size_t i = begin; i < end; i++)
        mark[i - begin] = (uint8_t)((uint8_t)x->text[x->t->v[i].begin] % x->v->n_marks);
    return STENO_OK;
}

static void check_marks(const char *words, const char *marks, const char *text)
{
    struct steno_ct_vocab v;
    struct steno_punctuation_tokens t = {0};
    uint8_t *mark = malloc(strlen(text) + 1);
    if (mark && !steno_ct_vocab_read(&v, words, marks, "a", "m", NULL)) {
        struct told x = {&v, &t, text};
        if (steno_ct_split(&t, text))
            abort();
        check_tokens(&t, strlen(text));
        for (size_t i = 0; i < t.n; i++)
            if (steno_ct_vocab_find(&v, text + t.v[i].begin, t.v[i].end - t.v[i].begin) < 0)
                abort();
        if (steno_ct_choose(&v, t.n, tell_marks, &x, mark, NULL))
            abort();
        for (size_t i = 0; i < t.n; i++)
            if (mark[i] >= v.n_marks)
                abort();
        if (t.n && mark[t.n - 1] != v.stop && mark[t.n - 1] != v.question)
            abort();
        steno_ct_vocab_free(&v);
    }
    free(t.v);
    free(mark);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *copy = malloc(n + 1);
    const char *text;
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    copy[n] = '\0';
    text = copy + strlen(copy) + (strlen(copy) < n);
    check_rows(copy, strlen(copy), text);
    check_marks(copy, MARKS, text);
    check_marks("a", copy, text);
    free(copy);
    return 0;
}
