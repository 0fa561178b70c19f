/* Look-ups in the table of operator schemas. */
#include "tools/optimize/opset_table.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *key, const void *row)
{
    return strcmp(key, ((const struct opset_op *)row)->name);
}

static const struct opset_op *find_operator(const char *type)
{
    return bsearch(type, opset_ops, sizeof opset_ops / sizeof *opset_ops, sizeof *opset_ops,
                   by_name);
}

int steno_opset_since(const char *type, int opset)
{
    const struct opset_version *v = steno_opset_version(type, opset);
    return v ? v->since : find_operator(type) ? 0 : -1;
}

int steno_opset_first(const char *type)
{
    const struct opset_op *op = find_operator(type);
    return op ? opset_versions[op->first].since : 0;
}

const struct opset_version *steno_opset_version(const char *type, int opset)
{
    const struct opset_op *op = find_operator(type);
    const struct opset_version *best = NULL;
    for (int i = 0; op && i < op->n && opset_versions[op->first + i].since <= opset; i++)
        best = &opset_versions[op->first + i];
    return best;
}

const struct opset_version *steno_opset_next(const char *type, const struct opset_version *v)
{
    const struct opset_op *op = find_operator(type);
    return op && v + 1 < opset_versions + op->first + op->n ? v + 1 : NULL;
}

const struct opset_attr *steno_opset_attr(const struct opset_version *v, const char *name)
{
    for (int i = 0; i < v->n_attr; i++)
        if (!strcmp(opset_attrs[v->attr + i].name, name))
            return &opset_attrs[v->attr + i];
    return NULL;
}

const struct opset_attr *steno_opset_attr_at(const struct opset_version *v, int i)
{
    return &opset_attrs[v->attr + i];
}

static const struct opset_param *param(size_t first, size_t n, size_t k)
{
    if (k >= n && n && opset_params[first + n - 1].kind == '*')
        k = n - 1;
    return k < n ? &opset_params[first + k] : NULL;
}

const struct opset_param *steno_opset_in(const struct opset_version *v, size_t k)
{
    return param(v->in, v->n_in, k);
}

const struct opset_param *steno_opset_out(const struct opset_version *v, size_t k)
{
    return param(v->out, v->n_out, k);
}

bool steno_opset_takes_other(const struct opset_param *p, enum opset_other other)
{
    return other == STENO_OPSET_TENSOR ||
           opset_types[p->types] >> (other == STENO_OPSET_SEQUENCE ? 0 : 31) & 1;
}

bool steno_opset_takes(const struct opset_param *p, steno_dtype t)
{
    return t == STENO_DT_NONE || ((unsigned)t < 31 && (opset_types[p->types] >> t & 1));
}
