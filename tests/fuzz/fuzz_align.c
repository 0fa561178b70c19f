/* Texts to be aligned: the input is a text of lines, spelled by letters, pieces and bytes and found
 * in scores that its own bytes make. Any bytes are taken or refused; words and tokens lie within
 * their lines, in order, and frames within those that were given. */
/* covers: engine/speech/families/alignment.c engine/speech/families/alignment_spell.c */
/* covers: engine/speech/search/align.c protocol/text_lines.c */
#include <stdlib.h>
#include <string.h>

#include "protocol/text_lines.h"
#include "speech/families/common/phrases.h"

#define VOCAB 9
#define FRAMES 96
#define M "\xE2\x96\x81"

static const char *const vocabularies[] = {
    "<pad> 0\n| 1\nA 2\nB 3\n' 4\nE 5\nO 6\nN 7\n<unk> 8\n",
    "<blk> 0\n<unk> 1\n" M "A 2\nB 3\nAB 4\n" M " 5\n\xE4\xBD\xA0 6\nC 7\n" M "WORD 8\n",
    "<blk> 0\n" M "\xC6\x8B\xC5\x9E 1\n\xC5\xA3 2\n" M "A 3\nB 4\n" M
    " 5\n\xC6\x8B 6\n\xC5\x9E 7\nA 8\n",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_words(const steno_alignment *a)
{
    size_t n_lines, n_words, n_units;
    const struct steno_aligned_line *l = steno_alignment_lines(a, &n_lines);
    const struct steno_aligned_word *w = steno_alignment_words(a, &n_words);
    const struct steno_aligned_unit *u = steno_alignment_units(a, &n_units);
    for (size_t i = 0; i < n_lines; i++)
        for (size_t k = l[i].word, at = 0; k < l[i].word + l[i].n_words; k++) {
            if (k >= n_words || w[k].from < at || w[k].to <= w[k].from ||
                w[k].to > strlen(l[i].text) || w[k].unit + w[k].n_units > n_units)
                abort();
            at = w[k].from;
            for (size_t j = w[k].unit; j < w[k].unit + w[k].n_units; at = u[j++].from)
                if (u[j].from < at || u[j].to > w[k].to ||
                    u[j].to < u[j].from) /* a mark alone has no bytes */
                    abort();
            at = w[k].to;
        }
}

static void check_frames(const steno_alignment *a)
{
    size_t n;
    const struct steno_aligned_unit *u = steno_alignment_units(a, &n);
    for (size_t i = 0; i < n; i++)
        if (u[i].span.first >= 0 &&
            (u[i].span.last < u[i].span.first || u[i].span.last >= steno_alignment_frames(a)))
            abort();
}

static void align(const struct steno_text_lines *l, int which, const uint8_t *data, size_t n)
{
    static float x[FRAMES * VOCAB];
    const char *txt = vocabularies[which];
    struct steno_phrases v;
    steno_tokens *t = NULL;
    steno_alignment *a = NULL;
    if (steno_alignment_open(&a, l->lines, l->n, NULL))
        return;
    if (steno_tokens_parse(&t, txt, strlen(txt), "t", NULL))
        abort();
    if (which == 0)
        steno_tokens_set_delimiter(t, 1);
    for (size_t i = 0; i < FRAMES * VOCAB; i++)
        x[i] = n ? -(float)(data[(i * 7) % n] % 32) : -2;
    if (steno_phrases_open(&v, t, NULL) || steno_phrases_spell_lines(&v, a, NULL))
        abort();
    check_words(a);
    steno_alignment_attach(a, VOCAB, 0);
    steno_alignment_set_clock(a, 1, 12.5);
    for (int64_t at = 0, k = 0; at + 8 <= FRAMES; at += k % 5 + 3, k++)
        if (steno_alignment_push_at(a, at, x + at * VOCAB, 8))
            abort();
    steno_alignment_end(a);
    check_frames(a);
    steno_alignment_close(a);
    steno_phrases_close(&v);
    steno_tokens_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_text_lines l;
    if (n > 4096 || steno_text_lines_cut(&l, (const char *)data, n, NULL))
        return 0;
    for (int i = 0; i < 3; i++)
        align(&l, i, data, n);
    for (size_t i = 0; i < l.n && n; i++) { /* each line in a part of the audio */
        l.lines[i].from = (double)i * (data[0] % 4) / 2;
        l.lines[i].to = l.lines[i].from + 0.5 * (data[n - 1] % 5);
    }
    align(&l, 0, data, n);
    steno_text_lines_free(&l);
    return 0;
}
