/* Files of transducers, and some texts that are rewritten by what they hold. Checks: a path reads
 * the whole text. */
/* covers: engine/speech/itn/fst.c */
#include <stdlib.h>
#include <string.h>

#include "speech/itn/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void rewrite(steno_rewrite *w, const struct steno_fst *f, const char *text)
{
    struct steno_rewrite_path p;
    size_t at = 0;
    if (steno_rewrite_run(w, f, text, strlen(text), &p) || !p.found)
        return;
    for (size_t i = 0; i < p.n; i++)
        if (p.step[i].in && p.step[i].in != (unsigned char)text[at++])
            abort();
    if (at != strlen(text))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const texts[] = {"", "a", "ab", "ab ab", "abbbab a"};
    struct steno_fst_list l = {0};
    steno_rewrite *w = steno_rewrite_new();
    const steno_status st = steno_fst_parse(&l, data, n, "fuzz", NULL);
    for (size_t i = 0; w && !st && i < l.n; i++)
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            rewrite(w, &l.fst[i], texts[k]);
    steno_fst_list_free(&l);
    steno_rewrite_free(w);
    return 0;
}
