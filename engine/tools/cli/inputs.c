#include "tools/cli/inputs.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

const char *cli_inputs_given(const struct cli_list *l, const char *name)
{
    size_t n = strlen(name);
    for (int i = l->n - 1; i >= 0; i--)
        if (!strncmp(l->v[i], name, n) && l->v[i][n] == '=')
            return l->v[i] + n + 1;
    return NULL;
}

static steno_status check_names(const struct cli_list *l, const char *option,
                                const steno_network *n, steno_err *err)
{
    for (int i = 0; i < l->n; i++) {
        const char *eq = strchr(l->v[i], '=');
        char name[256];
        if (!eq || (size_t)(eq - l->v[i]) >= sizeof name)
            return steno_fail(err, STENO_ERR_INVAL, "%s '%s' is not of the form NAME=...", option,
                              l->v[i]);
        memcpy(name, l->v[i], (size_t)(eq - l->v[i]));
        name[eq - l->v[i]] = '\0';
        if (steno_network_find_input(n, name) < 0)
            return steno_fail(err, STENO_ERR_INVAL, "the network has no input '%s'", name);
    }
    return STENO_OK;
}

static bool is_number(const char *s)
{
    char *end;
    (void)strtod(s, &end);
    return end != s && !*end;
}

static bool parse_dims(const char *s, struct steno_shape *out)
{
    out->rank = 0;
    while (*s) {
        char *end;
        if (out->rank == STENO_MAX_RANK || *s < '0' || *s > '9')
            return false;
        out->dim[out->rank++] = strtoll(s, &end, 10);
        if (*end && (*end != 'x' || !end[1]))
            return false;
        s = *end ? end + 1 : end;
    }
    return true;
}

static steno_status shape_of(const struct cli_inputs_options *o, const struct steno_value *v,
                             struct steno_shape *out, steno_err *err)
{
    const char *s = cli_inputs_given(&o->shapes, v->name);
    if (s && !parse_dims(s, out))
        return steno_fail(err, STENO_ERR_INVAL, "--shape '%s=%s' is not NAME=AxBxC", v->name, s);
    if (s)
        return STENO_OK;
    *out = v->shape;
    if (out->rank < 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          "input '%s' needs --shape: the model does not give its rank", v->name);
    for (int d = 0; d < out->rank; d++)
        if (out->dim[d] < 0)
            out->dim[d] = d == 0 && out->rank > 1 ? o->batch : o->length;
    return STENO_OK;
}

/* ---- ranges ---- */

static bool passes_on(const char *type)
{
    static const char *const types[] = {"Cast",  "Identity", "Reshape", "Unsqueeze", "Squeeze",
                                        "Slice", "Concat",   "Expand",  "Transpose"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i], type))
            return true;
    return false;
}

/* Rows of the smallest constant from which elements of v select; 0 when there is none. */
static int64_t index_range(const struct steno_graph *g, steno_value_id v, int depth)
{
    int64_t least = 0;
    for (int32_t i = 0; depth && i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        int64_t r = 0;
        if (n->dead)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == v && !strcmp(n->op_type, "Gather") && k == 1) {
                const struct steno_shape *s = &g->values[n->in[0]].shape;
                int64_t axis = steno_node_int(n, "axis", 0);
                axis += axis < 0 ? s->rank : 0;
                r = axis >= 0 && axis < s->rank ? s->dim[axis] : 0;
            } else if (n->in[k] == v && k == 0 && passes_on(n->op_type) && n->n_out) {
                r = index_range(g, n->out[0], depth - 1);
            }
        if (r > 0 && (!least || r < least))
            least = r;
    }
    return least;
}

/* Uniform in (-1.7, 1.7), so that the variance is 1. Numerical Recipes' 64-bit linear congruential
 * generator. */
static float next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((float)(*state >> 40) / (float)(1 << 24) - 0.5f) * 3.4641f;
}

static uint16_t half_bits(float f) /* of a normal number of moderate size, truncated */
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u >> 23 & 0xff) < 113)
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u >> 16 & 0x8000) | (((u >> 23 & 0xff) - 112) << 10) | (u >> 13 & 0x3ff));
}

static void put_float(struct steno_tensor *t, size_t i, float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t->dtype == STENO_F32)
        ((float *)t->data)[i] = f;
    else if (t->dtype == STENO_F64)
        ((double *)t->data)[i] = (double)f;
    else if (t->dtype == STENO_F16)
        ((uint16_t *)t->data)[i] = half_bits(f);
    else
        ((uint16_t *)t->data)[i] = (uint16_t)(u >> 16);
}

static bool is_float(steno_dtype t)
{
    return t == STENO_F32 || t == STENO_F64 || t == STENO_F16 || t == STENO_BF16;
}

static void put_int(struct steno_tensor *t, size_t i, int64_t v)
{
    size_t size = steno_dtype_size(t->dtype);
    memcpy((char *)t->data + i * size, &v, size); /* little-endian */
}

static int64_t whole_number(const struct cli_inputs_options *o, const char *name, int64_t range,
                            uint64_t *seed)
{
    if (range > 0) {
        (void)next_random(seed);
        return (int64_t)((*seed >> 33) % (uint64_t)range);
    }
    return strstr(name, "len") ? o->length : 1;
}

static void fill_input(struct steno_tensor *t, const struct cli_inputs_options *o,
                       const struct steno_value *v, int64_t range, uint64_t *seed)
{
    const char *fixed = cli_inputs_given(&o->values, v->name);
    size_t n = steno_numel(t);
    for (size_t i = 0; i < n; i++)
        if (is_float(t->dtype))
            put_float(t, i, fixed ? strtof(fixed, NULL) : next_random(seed));
        else
            put_int(t, i,
                    fixed                    ? strtoll(fixed, NULL, 10)
                    : t->dtype == STENO_BOOL ? 1
                                             : whole_number(o, v->name, range, seed));
}

steno_status cli_inputs_make(struct cli_inputs *in, const steno_network *n,
                             const struct cli_inputs_options *o, steno_err *err)
{
    const struct steno_graph *g = steno_network_graph(n);
    uint64_t seed = o->seed;
    steno_status st = check_names(&o->shapes, "--shape", n, err);
    if (!st)
        st = check_names(&o->values, "--value", n, err);
    in->n = steno_network_n_inputs(n);
    in->t = calloc((size_t)in->n + 1, sizeof *in->t);
    if (!st && !in->t)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; !st && i < o->values.n; i++)
        if (!is_number(strchr(o->values.v[i], '=') + 1))
            st = steno_fail(err, STENO_ERR_INVAL, "--value '%s' is not NAME=N", o->values.v[i]);
    for (int i = 0; !st && i < in->n; i++) {
        const struct steno_value *v = steno_network_input(n, i);
        struct steno_tensor *t = &in->t[i];
        size_t bytes;
        t->dtype = v->dtype;
        st = shape_of(o, v, &t->shape, err);
        if (!st && (steno_shape_bytes(&t->shape, t->dtype, &bytes) ||
                    !(t->data = steno_aligned_alloc(bytes))))
            st = steno_fail(err, STENO_ERR_NOMEM, "input '%s' is too large", v->name);
        if (!st)
            fill_input(t, o, v, is_float(v->dtype) ? 0 : index_range(g, g->inputs[i], 6), &seed);
    }
    if (st)
        cli_inputs_free(in);
    return st;
}

steno_status cli_inputs_set(const struct cli_inputs *in, steno_session *s, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < in->n; i++)
        st = steno_session_set(s, i, &in->t[i], err);
    return st;
}

void cli_inputs_free(struct cli_inputs *in)
{
    for (int i = 0; in->t && i < in->n; i++)
        steno_aligned_free(in->t[i].data);
    free(in->t);
    in->t = NULL;
    in->n = 0;
}

steno_status cli_opened_open(struct cli_opened *o, const char *path, const struct cli_network *how,
                             const struct cli_inputs_options *in, steno_err *err)
{
    const int64_t began = steno_now_ns();
    steno_status st = steno_network_open(&o->n, path, &how->net, err);
    o->load_ms = (double)(steno_now_ns() - began) / 1e6;
    if (!st)
        st = cli_inputs_make(&o->in, o->n, in, err);
    if (!st)
        st = steno_session_open(&o->s, o->n, &how->sess, err);
    return st ? st : cli_inputs_set(&o->in, o->s, err);
}

void cli_opened_close(struct cli_opened *o)
{
    steno_session_close(o->s);
    cli_inputs_free(&o->in);
    steno_network_close(o->n);
}
