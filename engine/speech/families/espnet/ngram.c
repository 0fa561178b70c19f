#include "speech/families/espnet/ngram.h"

#include <stdlib.h>
#include <string.h>

steno_status steno_espnet_open_ngram(struct steno_espnet *e, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    const char **words;
    steno_status st;
    if (!c->ngram || e->opt.as_espnet_onnx)
        return STENO_OK;
    if (c->decoder_kind == STENO_ESPNET_TRANSDUCER)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: ngram.use_ngram with a transducer is not supported", c->path);
    st = steno_ngram_open(&e->ngram, c->ngram, err);
    if (st)
        return st;
    words = malloc((size_t)c->vocab * sizeof *words);
    if (!words)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", c->ngram);
    for (int32_t i = 0; i < c->vocab; i++)
        words[i] = strcmp(c->tokens[i], "<eos>") == 0 ? "</s>" : c->tokens[i];
    st = steno_ngram_map_open(&e->ngram_map, e->ngram, words, (size_t)c->vocab, err);
    free(words);
    return st;
}

static steno_status ngram_score(void *self, const int32_t *const *prefix, size_t length,
                                const int32_t *parent, size_t n, float *out, steno_err *err)
{
    const struct steno_espnet *e = self;
    (void)parent;
    (void)err;
    for (size_t i = 0; i < n; i++) /* without sos, which is <s> */
        steno_ngram_map_score(e->ngram_map, prefix[i] + 1, length - 1,
                              out + i * (size_t)e->conf.vocab);
    return STENO_OK;
}

static void keeps_nothing(void *self, int calls)
{
    (void)self;
    (void)calls;
}

struct steno_joint_scorer steno_espnet_ngram_scorer(const struct steno_espnet *e)
{
    struct steno_joint_scorer s = {.weight = e->conf.weight_ngram,
                                   .score = ngram_score,
                                   .rewind = keeps_nothing,
                                   .partial = e->conf.ngram_partial};
    memcpy(&s.self, &e,
           sizeof s.self); /* self is not const; the model is frozen and is not written */
    return s;
}
