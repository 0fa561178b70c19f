#include "speech/punctuation/rows.h"

#include <string.h>

#define BLANKS " \t\r\n\v\f"
#define MARK "\xE2\x96\x81" /* U+2581 begins a word */
#define WORD_MAX 160        /* bytes of a word that count: any word then fits into a row */

enum { UNKNOWN, BEGIN, END }; /* numbers of <unk>, <s>, </s> */

steno_status steno_punctuation_words(struct steno_punctuation_tokens *t, const char *text)
{
    steno_status st = STENO_OK;
    for (size_t i = strspn(text, BLANKS); !st && text[i]; i += strspn(text + i, BLANKS)) {
        const size_t n = strcspn(text + i, BLANKS);
        st = steno_punctuation_add(t, i, i + n);
        i += n;
    }
    return st;
}

static void add_piece_rows(struct steno_punctuation_row *row, int32_t piece, bool valid)
{
    row->piece[row->n] = piece;
    row->valid[row->n++] = valid;
}

/* The pieces of a word: at most WORD_MAX + the mark's bytes. */
static steno_status cut_word(const steno_bpe_vocab *v, const char *word, size_t n, int32_t *pieces,
                             size_t *count)
{
    char marked[sizeof MARK + WORD_MAX] = MARK;
    n = n < WORD_MAX ? n : WORD_MAX;
    memcpy(marked + sizeof MARK - 1, word, n);
    return steno_bpe_vocab_encode_any(v, marked, sizeof MARK - 1 + n, UNKNOWN, pieces, count);
}

steno_status steno_punctuation_fill_row(struct steno_punctuation_row *row, const steno_bpe_vocab *v,
                                        const char *text, const struct steno_punctuation_tokens *t,
                                        size_t first)
{
    memset(row, 0, sizeof *row);
    add_piece_rows(row, BEGIN, true);
    for (size_t i = first; i < t->n; i++) {
        int32_t pieces[sizeof MARK + WORD_MAX];
        size_t n = 0;
        const steno_status st =
            cut_word(v, text + t->v[i].begin, t->v[i].end - t->v[i].begin, pieces, &n);
        if (st)
            return st;
        if (row->n + n > STENO_PUNCTUATION_ROW - 1)
            break;
        for (size_t k = 0; k < n; k++)
            add_piece_rows(row, pieces[k], !k);
        row->words++;
    }
    add_piece_rows(row, END, true);
    return STENO_OK;
}
