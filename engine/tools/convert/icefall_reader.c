#include "tools/convert/icefall_reader.h"

#include "base/list.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Larger than any model; they bound what is computed here. */
#define MAX_EXTENT (1 << 20)

/* ---- weights ------------------------------------------------------------------------------- */

static const struct steno_torch_tensor *find_formatted(const struct steno_icefall_reader *r,
                                                       const char *fmt, va_list ap)
{
    char name[256];
    const int n = snprintf(name, sizeof name, "%s", r->w->root);
    vsnprintf(name + n, sizeof name - (size_t)n, fmt, ap);
    return r->w->find ? r->w->find(r->w->of, name) : steno_torch_find(r->w->torch, name);
}

bool steno_icefall_has(const struct steno_icefall_reader *r, const char *fmt, ...)
{
    const struct steno_torch_tensor *t;
    va_list ap;
    va_start(ap, fmt);
    t = find_formatted(r, fmt, ap);
    va_end(ap);
    return t != NULL;
}

/* Extent `axis` of a weight, which must be there and have it. */
int64_t steno_icefall_extent(struct steno_icefall_reader *r, int axis, const char *fmt, ...)
{
    const struct steno_torch_tensor *t;
    char name[200];
    va_list ap;
    if (r->st)
        return 1;
    va_start(ap, fmt);
    t = find_formatted(r, fmt, ap);
    va_end(ap);
    if (t && axis < t->rank && t->dim[axis] > 0 && t->dim[axis] <= MAX_EXTENT)
        return t->dim[axis];
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    r->st =
        t ? steno_fail(r->err, STENO_ERR_FORMAT, "%s: '%s%s' has another shape than in Zipformer",
                       r->w->file, r->w->root, name)
          : steno_fail(r->err, STENO_ERR_FORMAT, "%s: '%s%s' is missing: every Zipformer has it",
                       r->w->file, r->w->root, name);
    return 1;
}

/* A limit of our own. */
void steno_icefall_at_most(struct steno_icefall_reader *r, const char *what, int64_t is,
                           int64_t most)
{
    if (!r->st && is > most)
        r->st = steno_fail(r->err, STENO_ERR_LIMIT, "%s: %lld %s, at most %lld are read",
                           r->w->file, (long long)is, what, (long long)most);
}

/* ---- options ------------------------------------------------------------------------------- */

steno_status steno_icefall_flag(const struct steno_convert_options *o, const char *name, bool *out,
                                steno_err *err)
{
    static const char *const yes[] = {"1", "true", "yes", "t", "y"}, *const no[] = {"0", "false",
                                                                                    "no", "f", "n"};
    const char *v = steno_convert_flag(o, name);
    for (size_t i = 0; v && i < sizeof yes / sizeof *yes; i++)
        if (!strcasecmp(v, yes[i]) || !strcasecmp(v, no[i])) {
            *out = !strcasecmp(v, yes[i]);
            return STENO_OK;
        }
    return v ? steno_fail(err, STENO_ERR_INVAL, "--%s: '%.40s' is neither 1 nor 0", name, v)
             : STENO_OK;
}

/* The numbers of an option, "2,2,3"; 0: it is not given. */
int64_t steno_icefall_numbers(struct steno_icefall_reader *r, const char *name, int64_t min,
                              int64_t out[STENO_ZIPFORMER_STACKS])
{
    const char *text = steno_convert_flag(r->o, name), *p = text;
    int64_t n = 0;
    while (p && !r->st) {
        char *end;
        errno = 0;
        const long long v = strtoll(p, &end, 10);
        if (errno || end == p || v < min || v > MAX_EXTENT || n == STENO_ZIPFORMER_STACKS ||
            (*end && *end != ','))
            r->st = steno_fail(r->err, STENO_ERR_INVAL,
                               "--%s: '%.80s' is not a list of 1 to %d numbers of at least %d",
                               name, text, STENO_ZIPFORMER_STACKS, (int)min);
        else
            out[n++] = v;
        p = *end == ',' ? end + 1 : NULL;
    }
    return r->st ? 0 : n;
}

/* A number of each stack, which the option may give once for all; false: it is not given. */
bool steno_icefall_per_stack(struct steno_icefall_reader *r, const char *name,
                             int64_t out[STENO_ZIPFORMER_STACKS])
{
    const int64_t n = steno_icefall_numbers(r, name, 1, out);
    if (!n)
        return false;
    for (int64_t i = n; n == 1 && i < r->a->stacks; i++)
        out[i] = out[0];
    if (n != 1 && n != r->a->stacks)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--%s: %lld numbers, but %s has %lld stacks of layers", name,
                           (long long)n, r->w->file, (long long)r->a->stacks);
    return !r->st;
}

/* An option must say what the weights say. */
void steno_icefall_agree(struct steno_icefall_reader *r, const char *name, int64_t stack,
                         int64_t said, int64_t is)
{
    if (r->st || said == is)
        return;
    if (stack < 0)
        r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: %lld, but %s has %lld", name,
                           (long long)said, r->w->file, (long long)is);
    else
        r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: stack %lld: %lld, but %s has %lld", name,
                           (long long)stack + 1, (long long)said, r->w->file, (long long)is);
}

/* One number of an option that lists several for the training; -1: the whole recording. */
int64_t steno_icefall_one_number(struct steno_icefall_reader *r, const char *name,
                                 int64_t otherwise)
{
    int64_t v[STENO_ZIPFORMER_STACKS];
    const int64_t n = steno_icefall_numbers(r, name, -1, v);
    if (n > 1)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--%s: give one number, that of the model to write", name);
    return n ? v[0] : otherwise;
}

void steno_icefall_compare(struct steno_icefall_reader *r, const char *name, int64_t is)
{
    int64_t v[STENO_ZIPFORMER_STACKS];
    if (steno_icefall_numbers(r, name, 1, v))
        steno_icefall_agree(r, name, -1, v[0], is);
}

/* Options that repeat what the weights say: a wrong one tells of a wrong checkpoint. */
void steno_icefall_compare_stacks(struct steno_icefall_reader *r)
{
    static const char *const names[] = {"num-encoder-layers", "downsampling-factor", "encoder-dim",
                                        "feedforward-dim", "cnn-module-kernel"};
    int64_t option[STENO_ZIPFORMER_STACKS];
    for (int k = 0; k < 5; k++) {
        if (!steno_icefall_per_stack(r, names[k], option))
            continue;
        for (int64_t i = 0; i < r->a->stacks; i++) {
            const struct steno_zipformer_stack *s = &r->a->stack[i];
            const int64_t is[] = {s->layers, s->downsampling, s->d, s->ff[1], s->kernel};
            steno_icefall_agree(r, names[k], i, option[i], is[k]);
        }
    }
}

void steno_icefall_only(struct steno_icefall_reader *r, const char *known, const char *what)
{
    for (int i = 0; i < r->o->n_flags && !r->st; i++)
        if (r->o->flag[i].value && !steno_list_holds(known, r->o->flag[i].name))
            r->st = steno_fail(r->err, STENO_ERR_INVAL, "--%s: %s is %s, which has none",
                               r->o->flag[i].name, r->w->file, what);
}

/* ---- prediction network, joiner, CTC -----------------------------------------------------------
 */

void steno_icefall_read_transducer(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    int64_t group;
    a->vocab = steno_icefall_extent(r, 0, "decoder.embedding.weight");
    a->decoder = steno_icefall_extent(r, 1, "decoder.embedding.weight");
    a->joiner = steno_icefall_extent(r, 0, "joiner.encoder_proj.weight");
    a->context = a->group = 1;
    if (steno_icefall_has(r, "decoder.conv.weight")) {
        a->context = steno_icefall_extent(r, 2, "decoder.conv.weight");
        group = steno_icefall_extent(r, 1, "decoder.conv.weight");
        if (!r->st && a->decoder % group)
            r->st = steno_fail(r->err, STENO_ERR_FORMAT,
                               "%s: '%sdecoder.conv.weight': groups of %lld of %lld columns",
                               r->w->file, r->w->root, (long long)group, (long long)a->decoder);
        a->group = group;
    }
    steno_icefall_compare(r, "decoder-dim", a->decoder);
    steno_icefall_compare(r, "joiner-dim", a->joiner);
    steno_icefall_compare(r, "context-size", a->context);
}

/* A checkpoint may have both. */
void steno_icefall_read_outputs(struct steno_icefall_reader *r)
{
    struct steno_icefall_arch *a = r->a;
    const bool transducer = steno_icefall_has(r, "joiner.output_linear.weight") ||
                            steno_icefall_has(r, "decoder.embedding.weight");
    bool use_transducer = transducer, use_ctc = !transducer;
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "use-transducer", &use_transducer, r->err);
    if (!r->st)
        r->st = steno_icefall_flag(r->o, "use-ctc", &use_ctc, r->err);
    if (!r->st && !use_transducer && !use_ctc)
        r->st = steno_fail(r->err, STENO_ERR_INVAL,
                           "--use-transducer 0 without --use-ctc 1: there is nothing to write");
    a->ctc = !use_transducer;
    if (a->ctc)
        a->vocab = steno_icefall_extent(r, 0, "ctc_output.1.weight");
    else
        steno_icefall_read_transducer(r);
}
