/* model_config.yaml of a NeMo checkpoint: what is accepted has a shape that networks can be built
 * with, and a vocabulary that tokens.txt can hold. */
/* covers: engine/tools/convert/nemo_conf.c engine/tools/convert/nemo_tokens.c */
/* covers: engine/tools/convert/conf.c */
#include <stdlib.h>

#include "tools/convert/nemo_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct steno_nemo_arch *a)
{
    if (a->d < 1 || a->layers < 1 || a->heads < 1 || a->d % a->heads || a->in < 1 || a->out < 1)
        abort();
    if (a->before < 0 || a->before >= a->kernel || a->factor < 1 || a->channels < 1)
        abort();
    if (a->local && (a->left < 0 || a->right < 0 || a->left + a->right < 1 || a->streaming))
        abort();
    if (a->aed.layers && (a->aed.d < 2 || a->aed.d % a->aed.heads || a->streaming ||
                          steno_nemo_memories(&a->aed) > STENO_NEMO_MEMORIES))
        abort();
    if (a->sortformer.layers && (a->sortformer.d % a->sortformer.heads ||
                                 a->sortformer.speakers < 1 || a->factor != 8 || a->streaming))
        abort();
    if (a->streaming && (a->left < 1 || a->right < 0 || steno_nemo_window(a) < 1))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct steno_convert_options none;
    struct steno_bundle empty = {.path = "fuzz.nemo", .archive = true};
    struct steno_nemo_job j = {.b = &empty, .o = &none};
    if (steno_yaml_parse(&j.y, data, n, "fuzz", NULL))
        return 0;
    steno_buf_init(&j.tokens, (size_t)1 << 20);
    steno_buf_init(&j.bpe, (size_t)1 << 20);
    if (!steno_nemo_read_conf(&j))
        check(&j.a);
    if (!steno_nemo_read_tokens(&j) && j.a.vocab < 1)
        abort();
    steno_buf_free(&j.tokens);
    steno_buf_free(&j.bpe);
    steno_yaml_close(j.y);
    return 0;
}
