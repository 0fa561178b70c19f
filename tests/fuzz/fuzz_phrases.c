/* bpe.vocab and hotwords: the input is a vocabulary, a zero byte, and phrases. Any bytes are read
 * or refused, and every sequence can be scored. The phrases are also cut by the tokens alone, plain
 * and byte-level ones. */
/* covers: engine/speech/text/bpe_vocab.c engine/speech/families/common/phrases.c */
/* covers: engine/speech/search/hotwords.c */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"

#define M "\xE2\x96\x81"

static const char tokens_txt[] =
    "<blk> 0\n<unk> 1\n" M "A 2\nB 3\nAB 4\n" M " 5\n\xE4\xBD\xA0 6\nC 7\n" M "WORD 8\n";

/* "丽" and others of byte-level BPE */
static const char bytes_txt[] = "<blk> 0\n" M "\xC6\x8B\xC5\x9E 1\n\xC5\xA3 2\n" M "A 3\nB 4\n" M
                                " 5\n\xC6\x8B 6\n\xC5\x9E 7\nA 8\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The sum of a sequence that leaves all phrases is what complete ones added, which is not
 * negative. */
static void check(const steno_hotwords *h)
{
    int32_t state = STENO_HOTWORDS_START;
    double sum = 0;
    for (int32_t i = 0; i < 200; i++) {
        float score = 0;
        state = steno_hotwords_step(h, state, (i * i / 3 + i) % 9, &score);
        if (state < 0 || isnan(score))
            abort();
        sum += (double)score;
    }
    if (sum + (double)steno_hotwords_end(h, state) < -1e-3 * (1 + fabs(sum)))
        abort();
}

static void cut_by_tokens(const char *txt, size_t n, const char *phrases)
{
    struct steno_phrases v;
    steno_tokens *tokens = NULL;
    steno_hotwords *h = NULL;
    if (steno_tokens_parse(&tokens, txt, n, "t", NULL) || steno_phrases_open(&v, tokens, NULL))
        abort();
    if (!steno_phrases_build(&h, &v, (const char *[]){phrases}, 1, 1.5f, NULL) && h)
        check(h);
    steno_hotwords_close(h);
    steno_phrases_close(&v);
    steno_tokens_close(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *zero = n ? memchr(data, '\0', n) : NULL;
    size_t vocab = zero ? (size_t)(zero - data) : n;
    struct steno_phrases v = {.upper = n % 2};
    steno_tokens *tokens = NULL;
    steno_hotwords *h = NULL;
    char *text = malloc(n + 1);
    if (!text || steno_tokens_parse(&tokens, tokens_txt, sizeof tokens_txt - 1, "t", NULL))
        abort();
    memcpy(text, zero ? zero + 1 : data, zero ? n - vocab - 1 : n);
    text[zero ? n - vocab - 1 : n] = '\0';
    v.tokens = tokens;
    if (steno_bpe_vocab_parse(&v.bpe, (const char *)data, vocab, "v", tokens, NULL))
        v.bpe = NULL;
    if (!steno_phrases_build(&h, &v, (const char *[]){text}, 1, 1.5f, NULL) && h)
        check(h);
    cut_by_tokens(tokens_txt, sizeof tokens_txt - 1, text);
    cut_by_tokens(bytes_txt, sizeof bytes_txt - 1, text);
    steno_hotwords_close(h);
    steno_phrases_close(&v);
    steno_tokens_close(tokens);
    free(text);
    return 0;
}
