/* Shapes of a checkpoint of icefall's and options of its training: any of them become an
 * architecture within its bounds, or are refused. Input: a line "name=value name=value", then a
 * line "name extent extent" for each weight. */
/* covers: engine/tools/convert/icefall_arch.c engine/tools/convert/icefall_reader.c */
/* covers: engine/tools/convert/icefall_arch_conformer.c */
/* covers: engine/tools/convert/icefall_arch_zipformer1.c */
/* covers: engine/tools/convert/icefall_arch_lstm.c */
#include <stdlib.h>
#include <string.h>

#include "tools/convert/icefall_arch.h"

#define MAX_WEIGHTS 512
#define MAX_FLAGS 16

struct weights {
    struct steno_torch_tensor tensor[MAX_WEIGHTS];
    int n;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct steno_torch_tensor *find(const void *of, const char *name)
{
    const struct weights *w = of;
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->tensor[i].name, name))
            return &w->tensor[i];
    return NULL;
}

static int read_flags(char *line, struct steno_convert_flag *flag)
{
    char *next = NULL;
    int n = 0;
    for (char *p = strtok_r(line, " ", &next); p && n < MAX_FLAGS; p = strtok_r(NULL, " ", &next)) {
        char *value = strchr(p, '=');
        if (!value)
            continue;
        *value = '\0';
        flag[n++] = (struct steno_convert_flag){p, value + 1};
    }
    return n;
}

static void read_weight(char *line, struct weights *w)
{
    struct steno_torch_tensor *t = &w->tensor[w->n];
    char *next = NULL, *p = strtok_r(line, " ", &next);
    if (!p || w->n == MAX_WEIGHTS)
        return;
    *t = (struct steno_torch_tensor){.name = p};
    while (t->rank < STENO_TORCH_MAX_RANK && (p = strtok_r(NULL, " ", &next))) {
        t->dim[t->rank] = strtoll(p, NULL, 10);
        t->dim[t->rank] = t->dim[t->rank] < 0 ? 0 : t->dim[t->rank];
        t->rank++;
    }
    w->n++;
}

static void check(const struct steno_icefall_arch *a)
{
    if (a->stacks < 1 || a->stacks > STENO_ZIPFORMER_STACKS || a->chunk < 0 || a->vocab < 1 ||
        (a->chunk && (!a->causal || a->left < 1)))
        abort();
    if (a->conformer && (a->stack[0].layers < 1 || a->stack[0].heads < 1 || !a->at ||
                         a->stack[0].layers > STENO_ZIPFORMER_LAYERS || (a->ctc && a->chunk) ||
                         (a->plain && (!a->ctc || a->causal)) || a->right < 0 ||
                         a->stack[0].heads * a->stack[0].query != a->stack[0].d))
        abort();
    if (a->lstm && (a->stack[0].layers < 1 || a->stack[0].layers > STENO_ZIPFORMER_LAYERS ||
                    a->units < 1 || a->stack[0].d < 1 || a->ctc || a->chunk))
        abort();
    for (int64_t i = 0; i < a->stacks && !a->conformer && !a->lstm; i++) {
        const struct steno_zipformer_stack *s = &a->stack[i];
        if (a->first &&
            (a->chunk > STENO_ICEFALL_MAX_CHUNK || a->chunk % 2 || (a->ctc && a->causal)))
            abort();
        if (s->layers < 1 || s->layers > STENO_ZIPFORMER_LAYERS || s->heads < 1 || s->query < 1 ||
            s->value < 1 || s->pos < 1 || s->kernel % 2 == 0 || s->d > a->out || s->d < 1 ||
            s->downsampling < 1 || a->chunk % s->downsampling || a->left % s->downsampling)
            abort();
    }
    if (!a->ctc && (a->context < 1 || a->group < 1 || a->decoder % a->group))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct weights w;
    struct steno_convert_flag flag[MAX_FLAGS];
    const struct steno_make_weights of = {.file = "fuzz", .find = find, .of = &w, .root = ""};
    struct steno_convert_options o = {.flag = flag};
    struct steno_icefall_arch a;
    char *text = malloc(n + 1), *next = text;
    if (!text)
        return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    w.n = 0;
    for (char *line = text; (line = strsep(&next, "\n"));)
        if (line == text)
            o.n_flags = read_flags(line, flag);
        else
            read_weight(line, &w);
    if (!steno_icefall_read_arch(&of, &o, &a, NULL))
        check(&a);
    free(text);
    return 0;
}
