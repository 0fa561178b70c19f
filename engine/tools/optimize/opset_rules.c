/* Versions of operators whose form changed in a way that schemas do not tell: attributes that
 * became inputs, other names, other meanings of a default. From the operators' change log
 * (github.com/onnx/onnx, docs/Changelog.md). A rule may assume that the node was valid before. */
#include "nn/kernels/half.h"
#include "tools/optimize/opset.h"

#include <string.h>

enum { MAX_LIST = 64 };

static bool text_is(const Onnx__Attribute *a, const char *text)
{
    return a && a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

/* ---- lists that became inputs ---- */

static steno_status list_to_input(struct opset_change *c, const char *name, size_t k)
{
    const Onnx__Attribute *a = steno_opset_find(c->m, name);
    steno_status st;
    if (!a)
        return STENO_OK;
    if (a->type != ONNX__ATTRIBUTE__KIND__INTS)
        return steno_opset_refuse(c, "attribute '%s' is not a list of integers", name);
    st = steno_opset_set_list(c, k, name, a->ints, a->n_ints);
    steno_opset_remove(c->m, name);
    return st;
}

static steno_status input_to_list(struct opset_change *c, size_t k, const char *name)
{
    int64_t v[MAX_LIST];
    size_t n;
    if (k >= c->m->n_input || c->in[k].absent)
        return STENO_OK;
    if (!steno_opset_ints(c, k, v, MAX_LIST, &n))
        return steno_opset_refuse(c, "input %zu '%s' is not constant, and is an attribute there", k,
                                  name);
    c->m->n_input = k;
    return steno_opset_set_ints(c, name, v, n);
}

static steno_status axes_up(struct opset_change *c)
{
    return list_to_input(c, "axes", 1);
}

static steno_status axes_down(struct opset_change *c)
{
    return input_to_list(c, 1, "axes");
}

static steno_status unsqueeze_up(struct opset_change *c)
{
    if (!steno_opset_find(c->m, "axes"))
        return steno_opset_refuse(c, "it has no axes");
    return list_to_input(c, "axes", 1);
}

static steno_status reduce_down(struct opset_change *c)
{
    int64_t v[MAX_LIST];
    size_t n = 0;
    bool noop = steno_opset_int(c->m, "noop_with_empty_axes", 0) != 0;
    bool given = c->m->n_input > 1 && !c->in[1].absent;
    bool empty = given && steno_opset_ints(c, 1, v, MAX_LIST, &n) && !n;
    if (empty && noop)
        return steno_opset_refuse(c, "attribute 'noop_with_empty_axes' exists from opset %d on",
                                  !strcmp(c->m->op_type, "ReduceSum") ? 13 : 18);
    if (empty) {
        c->m->n_input = 1; /* empty axes mean all of them, as an absent attribute does */
        return STENO_OK;
    }
    return input_to_list(c, 1, "axes");
}

/* ---- Split ---- */

static steno_status split13_up(struct opset_change *c)
{
    return list_to_input(c, "split", 1);
}

static steno_status split13_down(struct opset_change *c)
{
    return input_to_list(c, 1, "split");
}

static steno_status split18_up(struct opset_change *c)
{
    return c->m->n_input > 1 && !c->in[1].absent
               ? STENO_OK
               : steno_opset_set_int(c, "num_outputs", c->n->n_out);
}

static steno_status split18_down(struct opset_change *c)
{
    const struct steno_shape *x = &c->in[0].shape;
    int64_t axis = steno_opset_int(c->m, "axis", 0), dim, part, len[MAX_LIST];
    int n = c->n->n_out;
    steno_opset_remove(c->m, "num_outputs");
    if (c->m->n_input > 1 && !c->in[1].absent)
        return STENO_OK; /* the lengths are given */
    axis += axis < 0 && x->rank > 0 ? x->rank : 0;
    dim = axis >= 0 && axis < x->rank ? x->dim[axis] : -1;
    if (dim >= 0 && dim % n == 0)
        return STENO_OK;
    if (dim < 0 || n > MAX_LIST)
        return steno_opset_refuse(c, "attribute 'num_outputs', of parts that may differ in size, "
                                     "exists from opset 18 on");
    part = (dim + n - 1) / n;
    for (int i = 0; i < n; i++, dim -= part)
        len[i] = dim < part ? (dim > 0 ? dim : 0) : part;
    return steno_opset_set_list(c, 1, "split", len, (size_t)n);
}

/* ---- Softmax, LogSoftmax, Hardmax ----
 * Up to opset 12 they flatten the axes from `axis` on, 1 by default; later they work on one axis,
 * the last by default. */

static steno_status softmax_up(struct opset_change *c)
{
    int rank = c->in[0].shape.rank;
    int64_t axis = steno_opset_int(c->m, "axis", 1);
    const char *shape, *flat, *y, *made;
    const char *one[3] = {c->m->input[0]}, *two[3];
    Onnx__Node *m = c->m, *flatten, *reshape;
    steno_status st;
    if (axis == -1 || (rank > 0 && axis == rank - 1))
        return steno_opset_set_int(c, "axis", -1);
    /* a wrong axis of Softmax is an error when it runs, one of Flatten when the file is loaded */
    if (rank >= 0 && (axis < -rank || axis >= rank))
        return steno_opset_refuse(c, "attribute 'axis' is out of range");
    shape = steno_write_name(c->w, "shape");
    flat = steno_write_name(c->w, "flat");
    y = shape && flat ? steno_opset_redirect(c, "flat", &made) : NULL;
    if (!y)
        return STENO_ERR_NOMEM;
    st = steno_opset_add(c, false, "Shape", one, shape, NULL);
    if (!st)
        st = steno_opset_add(c, false, "Flatten", one, flat, &flatten);
    if (st)
        return st;
    c->m = flatten;
    st = steno_opset_set_int(c, "axis", axis);
    c->m = m;
    if (!st)
        st = steno_opset_set_int(c, "axis", -1);
    two[0] = made;
    two[1] = shape;
    two[2] = NULL;
    if (!st)
        st = steno_opset_add(c, true, "Reshape", two, y, &reshape);
    /* an extent of 0 is an extent; before opset 14 it copies one of the flattened value's */
    if (!st && c->to >= 14) {
        c->m = reshape;
        st = steno_opset_set_int(c, "allowzero", 1);
        c->m = m;
    }
    return !st && (m->input[0] = steno_write_read(c->w, flat)) ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status insert_transpose(struct opset_change *c, bool after, const char *x,
                                     const char *y, const int64_t *perm, int rank)
{
    const char *in[3] = {x};
    Onnx__Node *m = c->m, *t;
    steno_status st = steno_opset_add(c, after, "Transpose", in, y, &t);
    if (st)
        return st;
    c->m = t;
    st = steno_opset_set_ints(c, "perm", perm, (size_t)rank);
    c->m = m;
    return st;
}

static steno_status softmax_down(struct opset_change *c)
{
    int rank = c->in[0].shape.rank;
    int64_t axis = steno_opset_int(c->m, "axis", -1), perm[STENO_MAX_RANK];
    const char *x, *y, *made;
    steno_status st;
    if (axis == -1 || (rank > 0 && axis == rank - 1))
        return steno_opset_set_int(c, "axis", rank > 0 ? rank - 1 : -1);
    if (rank < 1 || axis < -rank || axis >= rank)
        return steno_opset_refuse(c, "attribute 'axis' is not the last one, and the rank is "
                                     "unknown");
    axis += axis < 0 ? rank : 0;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[axis] = rank - 1;
    perm[rank - 1] = axis; /* its own inverse */
    x = steno_write_name(c->w, "transposed");
    y = x ? steno_opset_redirect(c, "transposed", &made) : NULL;
    if (!y)
        return STENO_ERR_NOMEM;
    st = insert_transpose(c, false, c->m->input[0], x, perm, rank);
    if (!st)
        st = insert_transpose(c, true, made, y, perm, rank);
    if (!st)
        st = steno_opset_set_int(c, "axis", rank - 1);
    return !st && (c->m->input[0] = steno_write_read(c->w, x)) ? STENO_OK : STENO_ERR_NOMEM;
}

/* ---- scalars that became inputs ---- */

/* A scalar of the element type of input 0. */
static steno_status scalar(struct opset_change *c, size_t k, const char *name, double v)
{
    union {
        float f;
        double d;
        int32_t i32;
        int64_t i64;
        uint16_t h;
    } u = {.i64 = 0};
    struct steno_tensor t = {.dtype = c->in[0].dtype, .data = &u};
    switch (t.dtype) {
    case STENO_F32:
        u.f = (float)v;
        break;
    case STENO_F64:
        u.d = v;
        break;
    case STENO_F16:
        u.h = half_to_f16((float)v);
        break;
    case STENO_I32:
        u.i32 = (int32_t)v;
        break;
    case STENO_I64:
        u.i64 = (int64_t)v;
        break;
    default:
        return steno_opset_refuse(c, "'%s' becomes an input of element type %s", name,
                                  steno_dtype_name(t.dtype));
    }
    return steno_opset_set_constant(c, k, name, &t);
}

static steno_status clip_up(struct opset_change *c)
{
    static const char *const names[] = {"min", "max"};
    for (size_t k = 0; k < 2; k++) {
        const Onnx__Attribute *a = steno_opset_find(c->m, names[k]);
        steno_status st;
        if (!a)
            continue;
        st = scalar(c, 1 + k, names[k], (double)a->f);
        if (st)
            return st;
        steno_opset_remove(c->m, names[k]);
    }
    return STENO_OK;
}

static steno_status pad_up(struct opset_change *c)
{
    const Onnx__Attribute *a;
    steno_status st = list_to_input(c, "pads", 1);
    if (st || !(a = steno_opset_find(c->m, "value")))
        return st;
    if (a->f != 0) /* the default */
        st = scalar(c, 2, "value", (double)a->f);
    steno_opset_remove(c->m, "value");
    return st;
}

/* Opset 18 pads the axes of input 3; before, `pads` has all of them. */
static steno_status pad_down(struct opset_change *c)
{
    int64_t axes[STENO_MAX_RANK], pads[2 * STENO_MAX_RANK], all[2 * STENO_MAX_RANK] = {0};
    int rank = c->in[0].shape.rank;
    size_t n, n_pads;
    if (c->m->n_input < 4 || c->in[3].absent)
        return STENO_OK;
    if (rank < 0 || !steno_opset_ints(c, 3, axes, STENO_MAX_RANK, &n) ||
        !steno_opset_ints(c, 1, pads, 2 * STENO_MAX_RANK, &n_pads) || n_pads != 2 * n)
        return steno_opset_refuse(c, "input 3 'axes' exists from opset 18 on");
    for (size_t i = 0; i < n; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return steno_opset_refuse(c, "input 3 'axes' is out of range");
        all[axis] = pads[i];
        all[rank + axis] = pads[n + i];
    }
    c->m->n_input = 3;
    return steno_opset_set_list(c, 1, "pads", all, 2 * (size_t)rank);
}

static steno_status slice_up(struct opset_change *c)
{
    steno_status st = list_to_input(c, "starts", 1);
    if (!st)
        st = list_to_input(c, "ends", 2);
    return st ? st : list_to_input(c, "axes", 3);
}

static steno_status topk_up(struct opset_change *c)
{
    int64_t k = steno_opset_int(c->m, "k", 0);
    steno_opset_remove(c->m, "k");
    return steno_opset_set_list(c, 1, "k", &k, 1);
}

static steno_status tile_up(struct opset_change *c)
{
    return steno_opset_refuse(c, "tiles and axis are inputs of another form");
}

static steno_status reshape_up(struct opset_change *c)
{
    return list_to_input(c, "shape", 1);
}

/* ---- Dropout ---- */

static bool output_used(const struct opset_change *c, int k)
{
    return k < c->n->n_out && c->n->out[k] != STENO_NONE && c->s->g->values[c->n->out[k]].uses;
}

/* From opset 12 on the mask of inference is all true; before, nothing says what it is. */
static steno_status mask_unused(const struct opset_change *c)
{
    return output_used(c, 1)
               ? steno_opset_refuse(c, "output 1 'mask' is defined for inference from "
                                       "opset 12 on")
               : STENO_OK;
}

static steno_status dropout12_up(struct opset_change *c)
{
    const Onnx__Attribute *a = steno_opset_find(c->m, "ratio");
    struct steno_tensor t = {.dtype = STENO_F32};
    float ratio = a ? a->f : 0.5f;
    steno_status st = mask_unused(c);
    if (st)
        return st;
    t.data = &ratio;
    steno_opset_remove(c->m, "ratio");
    return a ? steno_opset_set_constant(c, 1, "ratio", &t) : STENO_OK;
}

/* Inference does not read the ratio: it only must not be lost where it is known. */
static steno_status dropout12_down(struct opset_change *c)
{
    const uint8_t *on = c->m->n_input > 2 ? steno_opset_bytes(&c->in[2]) : NULL;
    if (c->m->n_input > 2 && !c->in[2].absent && (!on || *on))
        return steno_opset_refuse(c, "input 2 'training_mode' exists from opset 12 on");
    c->m->n_input = 1;
    steno_opset_remove(c->m, "seed");
    return mask_unused(c);
}

/* ---- pooling with ceil_mode ----
 * From opset 22 on a window that would start in the padding behind the last element is left out. */

static int64_t entry(const Onnx__Attribute *a, size_t i, int64_t fallback)
{
    return a && i < a->n_ints ? a->ints[i] : fallback;
}

static steno_status pool22(struct opset_change *c)
{
    const Onnx__Attribute *kernel = steno_opset_find(c->m, "kernel_shape");
    const Onnx__Attribute *strides = steno_opset_find(c->m, "strides");
    const Onnx__Attribute *dilations = steno_opset_find(c->m, "dilations");
    const Onnx__Attribute *pads = steno_opset_find(c->m, "pads");
    size_t n = kernel ? kernel->n_ints : 0;
    if (!steno_opset_int(c->m, "ceil_mode", 0))
        return STENO_OK;
    for (size_t i = 0; i < n; i++) {
        int64_t stride = entry(strides, i, 1), begin = entry(pads, i, 0);
        int64_t end = entry(pads, n + i, 0);
        int64_t window = (kernel->ints[i] - 1) * entry(dilations, i, 1) + 1;
        int64_t dim = (int)i + 2 < c->in[0].shape.rank ? c->in[0].shape.dim[i + 2] : -1;
        int64_t rest = dim + begin + end - window;
        if (end + stride <= window)
            continue; /* no window can start there */
        if (dim < 0 || stride < 1 || rest < 0 ||
            (rest + stride - 1) / stride * stride >= dim + begin)
            return steno_opset_refuse(c, "'ceil_mode' leaves out windows in the padding at the end "
                                         "from opset 22 on");
    }
    return STENO_OK;
}

/* ---- BatchNormalization ---- */

static steno_status batch_norm9_up(struct opset_change *c)
{
    if (!steno_opset_int(c->m, "spatial", 1))
        return steno_opset_refuse(c, "attribute 'spatial' exists up to opset 8");
    steno_opset_remove(c->m, "spatial");
    return STENO_OK;
}

static steno_status batch_norm14_up(struct opset_change *c)
{
    /* up to opset 13 more than one output means training */
    for (size_t k = 1; k < c->m->n_output; k++)
        if (*c->m->output[k])
            return steno_opset_refuse(c, "its outputs of training exist up to opset 13");
    c->m->n_output = 1;
    return STENO_OK;
}

static steno_status batch_norm14_down(struct opset_change *c)
{
    if (steno_opset_int(c->m, "training_mode", 0))
        return steno_opset_refuse(c, "attribute 'training_mode' exists from opset 14 on");
    c->m->n_output = 1;
    return STENO_OK;
}

/* ---- GroupNormalization: one scale for each group, from opset 21 on for each channel ---- */

static steno_status per_channel(struct opset_change *c, size_t k, int64_t groups, int64_t channels)
{
    const struct steno_tensor *t = c->in[k].constant;
    const char *data = steno_opset_bytes(&c->in[k]);
    bool up = c->to > c->from;
    int64_t from = up ? groups : channels, to = up ? channels : groups, each = channels / groups;
    struct steno_tensor made;
    size_t size;
    char *p;
    if (!data || t->shape.rank != 1 || t->shape.dim[0] != from)
        return steno_opset_refuse(c, "input %zu is for each %s, from opset 21 on for each %s", k,
                                  "group", "channel");
    size = steno_dtype_size(t->dtype);
    made = (struct steno_tensor){.dtype = t->dtype, .shape = {.rank = 1, .dim = {to}}};
    made.data = p = steno_write_alloc(c->w, (size_t)to + 1, size);
    if (!p)
        return STENO_ERR_NOMEM;
    for (int64_t i = 0; i < channels; i++) {
        const char *old = data + (size_t)(up ? i / each : i) * size;
        char *put = p + (size_t)(up ? i : i / each) * size;
        if (!up && i % each && memcmp(put, old, size))
            return steno_opset_refuse(c,
                                      "input %zu differs within a group; it does from opset 21 "
                                      "on",
                                      k);
        memcpy(put, old, size);
    }
    return steno_opset_set_constant(c, k, k == 1 ? "scale" : "bias", &made);
}

static steno_status group_norm(struct opset_change *c)
{
    int64_t groups = steno_opset_int(c->m, "num_groups", 0);
    int64_t channels = c->in[0].shape.rank > 1 ? c->in[0].shape.dim[1] : -1;
    steno_status st;
    if (groups == channels && groups > 0)
        return STENO_OK;
    if (groups < 1 || channels < groups || channels % groups)
        return steno_opset_refuse(c, "the number of channels is unknown, and the scale is for each "
                                     "group or, from opset 21 on, for each channel");
    st = per_channel(c, 1, groups, channels);
    return st ? st : per_channel(c, 2, groups, channels);
}

/* ---- other names ---- */

static steno_status rename_value(struct opset_change *c, const char *name, const char *fallback,
                                 const char *const from[], const char *const to[])
{
    const Onnx__Attribute *a = steno_opset_find(c->m, name);
    size_t len = a ? a->s.len : strlen(fallback);
    const char *is = a ? (const char *)a->s.data : fallback;
    for (int i = 0; from[i]; i++)
        if (strlen(from[i]) == len && !memcmp(from[i], is, len))
            return steno_opset_set_string(c, name, to[i]);
    return STENO_OK;
}

static const char *const sample16[] = {"bilinear", "bicubic", "nearest", NULL};
static const char *const sample20[] = {"linear", "cubic", "nearest", NULL};

static steno_status grid_sample_up(struct opset_change *c)
{
    return rename_value(c, "mode", "bilinear", sample16, sample20);
}

static steno_status grid_sample_down(struct opset_change *c)
{
    if (c->in[0].shape.rank != 4)
        return steno_opset_refuse(c, "input 0 'X' can have another rank than 4 from opset 20 on");
    return rename_value(c, "mode", "linear", sample20, sample16);
}

static steno_status dft_up(struct opset_change *c)
{
    struct steno_tensor t = {.dtype = STENO_I64};
    int64_t axis = steno_opset_int(c->m, "axis", 1);
    t.data = &axis;
    steno_opset_remove(c->m, "axis");
    return steno_opset_set_constant(c, 2, "axis", &t);
}

static steno_status dft_down(struct opset_change *c)
{
    int64_t axis = -2;
    size_t n = 1;
    if (c->m->n_input > 2 && !c->in[2].absent && !steno_opset_ints(c, 2, &axis, 1, &n))
        return steno_opset_refuse(c, "input 2 'axis' is not constant, and is an attribute there");
    if (c->m->n_input > 2)
        c->m->n_input = 2;
    if (axis < 0 && c->in[0].shape.rank < 0)
        return steno_opset_refuse(c, "the axis is counted from the end, and the rank is unknown");
    return steno_opset_set_int(c, "axis", axis < 0 ? axis + c->in[0].shape.rank : axis);
}

static steno_status roi_align_up(struct opset_change *c)
{
    return steno_opset_set_string(c, "coordinate_transformation_mode", "output_half_pixel");
}

static steno_status roi_align_down(struct opset_change *c)
{
    const char *name = "coordinate_transformation_mode";
    const Onnx__Attribute *a = steno_opset_find(c->m, name);
    if (!text_is(a, "output_half_pixel"))
        return steno_opset_refuse(c, "attribute '%s' can be 'half_pixel' from opset 16 on", name);
    steno_opset_remove(c->m, name);
    return STENO_OK;
}

static steno_status rename_node(struct opset_change *c, const char *type)
{
    c->m->op_type = steno_write_dup(c->w, type);
    return c->m->op_type ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status scatter_up(struct opset_change *c)
{
    return rename_node(c, "ScatterElements");
}

/* ---- Upsample, Resize ---- */

static steno_status upsample9_up(struct opset_change *c)
{
    const Onnx__Attribute *a = steno_opset_find(c->m, "scales");
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 1}};
    steno_status st;
    if (!a || a->type != ONNX__ATTRIBUTE__KIND__FLOATS)
        return steno_opset_refuse(c, "it has no scales");
    t.shape.dim[0] = (int64_t)a->n_floats;
    t.data = a->floats;
    st = steno_opset_set_constant(c, 1, "scales", &t);
    steno_opset_remove(c->m, "scales");
    return st;
}

static steno_status upsample10_up(struct opset_change *c)
{
    static const char *const from[] = {"bilinear", NULL}, *const to[] = {"linear", NULL};
    steno_status st = rename_value(c, "mode", "nearest", from, to);
    return st ? st : rename_node(c, "Resize");
}

/* Before opset 11: x_in = x_out / scale, rounded down. Opset 11 has region of interest and scales
 * as inputs 1 and 2. */
static steno_status resize11_up(struct opset_change *c)
{
    struct steno_tensor none = {.dtype = STENO_F32, .shape = {.rank = 1}, .data = &none};
    steno_status st = steno_opset_set_string(c, "coordinate_transformation_mode", "asymmetric");
    if (!st)
        st = steno_opset_set_string(c, "nearest_mode", "floor");
    c->m->input[2] = c->m->input[1];
    c->in[2] = c->in[1];
    c->m->n_input = 3;
    return st ? st : steno_opset_set_constant(c, 1, "roi", &none);
}

/* Opset 11 and 12 require the region of interest and the scales. */
static steno_status resize13_down(struct opset_change *c)
{
    struct steno_tensor none = {.dtype = STENO_F32, .shape = {.rank = 1}, .data = &none};
    steno_status st = STENO_OK;
    if (c->m->n_input < 2 || c->in[1].absent)
        st = steno_opset_set_constant(c, 1, "roi", &none);
    if (!st && (c->m->n_input < 3 || c->in[2].absent))
        st = steno_opset_set_constant(c, 2, "scales", &none);
    return st;
}

/* Opset 18 resizes the axes of an attribute; before, scales and sizes have all of them. */
static steno_status resize18_down(struct opset_change *c)
{
    const Onnx__Attribute *a = steno_opset_find(c->m, "axes");
    const struct steno_tensor *given;
    struct steno_tensor t = {.shape = {.rank = 1}};
    float scales[STENO_MAX_RANK];
    int64_t sizes[STENO_MAX_RANK];
    int rank = c->in[0].shape.rank;
    size_t k = c->m->n_input > 3 && !c->in[3].absent ? 3 : 2;
    const void *data;
    const Onnx__Attribute *policy = steno_opset_find(c->m, "keep_aspect_ratio_policy");
    if (k == 3 && policy && !text_is(policy, "stretch"))
        return steno_opset_refuse(c, "attribute 'keep_aspect_ratio_policy' exists from opset 18 "
                                     "on");
    steno_opset_remove(c->m, "keep_aspect_ratio_policy");
    if (!a)
        return STENO_OK;
    given = k < c->m->n_input ? c->in[k].constant : NULL;
    data = given ? steno_opset_bytes(&c->in[k]) : NULL;
    if (!data || rank < 0 || given->shape.rank != 1 || (size_t)given->shape.dim[0] != a->n_ints ||
        (c->m->n_input > 1 && !c->in[1].absent))
        return steno_opset_refuse(c, "attribute 'axes' exists from opset 18 on");
    for (int i = 0; i < rank; i++) {
        scales[i] = 1;
        sizes[i] = c->in[0].shape.dim[i];
    }
    for (size_t i = 0; i < a->n_ints; i++) {
        int64_t axis = a->ints[i] + (a->ints[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return steno_opset_refuse(c, "attribute 'axes' is out of range");
        if (k == 2)
            memcpy(&scales[axis], (const char *)data + i * sizeof *scales, sizeof *scales);
        else
            memcpy(&sizes[axis], (const char *)data + i * sizeof *sizes, sizeof *sizes);
    }
    for (int i = 0; k == 3 && i < rank; i++)
        if (sizes[i] < 0)
            return steno_opset_refuse(c, "attribute 'axes' exists from opset 18 on");
    steno_opset_remove(c->m, "axes");
    t.dtype = k == 2 ? STENO_F32 : STENO_I64;
    t.shape.dim[0] = rank;
    t.data = k == 2 ? (void *)scales : (void *)sizes;
    return steno_opset_set_constant(c, k, k == 2 ? "scales" : "sizes", &t);
}

/* ---- quantization: one scale for the tensor up to opset 12, of any axis later ---- */

static steno_status quantize_down(struct opset_change *c)
{
    const struct steno_shape *s = &c->in[1].shape;
    if (s->rank < 0 || (s->rank && (s->rank != 1 || s->dim[0] != 1)))
        return steno_opset_refuse(c, "attribute 'axis' (a scale for each channel) exists from "
                                     "opset 13 on");
    steno_opset_remove(c->m, "axis");
    return STENO_OK;
}

/* The output's type: an attribute from opset 21 on (DequantizeLinear: 23), before that the zero
 * point's, or u8 (the scale's). */
static steno_status output_type(struct opset_change *c)
{
    steno_dtype t = (steno_dtype)steno_opset_int(c->m, "output_dtype", 0);
    bool given = c->m->n_input > 2 && !c->in[2].absent;
    steno_dtype would = !strcmp(c->m->op_type, "DequantizeLinear") ? c->in[1].dtype
                        : given                                    ? c->in[2].dtype
                                                                   : STENO_U8;
    if (t && t != would)
        return steno_opset_refuse(c, "attribute 'output_dtype' exists from opset %d on",
                                  !strcmp(c->m->op_type, "DequantizeLinear") ? 23 : 21);
    steno_opset_remove(c->m, "output_dtype");
    return STENO_OK;
}

/* ---- Shape: a part of the shape from opset 15 on ---- */

static steno_status shape_down(struct opset_change *c)
{
    const Onnx__Attribute *end = steno_opset_find(c->m, "end");
    int64_t start = steno_opset_int(c->m, "start", 0), until = end ? end->i : INT64_MAX;
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {1}}};
    const char *in[3], *y, *made;
    steno_status st;
    steno_opset_remove(c->m, "start");
    steno_opset_remove(c->m, "end");
    if (!start && !end)
        return STENO_OK;
    t.data = &start;
    y = steno_opset_redirect(c, "shape", &made);
    st = y ? steno_opset_constant(c, "start", &t, &in[1]) : STENO_ERR_NOMEM;
    t.data = &until;
    if (!st)
        st = steno_opset_constant(c, "end", &t, &in[2]);
    in[0] = made;
    return st ? st : steno_opset_add(c, true, "Slice", in, y, NULL);
}

/* ---- operators that did not exist ---- */

static steno_status cast_like_down(struct opset_change *c)
{
    steno_status st;
    if (!c->in[1].dtype)
        return steno_opset_refuse(c, "CastLike exists from opset 15 on, and the type is unknown");
    st = steno_opset_set_int(c, "to", (int64_t)c->in[1].dtype);
    c->m->n_input = 1;
    return st ? st : rename_node(c, "Cast");
}

/* a >= b is (a > b) or (a = b), false for NaN. */
static steno_status compare_down(struct opset_change *c)
{
    const char *type = *c->m->op_type == 'G' ? "Greater" : "Less";
    const char *in[3] = {c->m->input[0], c->m->input[1]};
    const char *more = steno_write_name(c->w, "more"), *same = steno_write_name(c->w, "same");
    steno_status st = more && same ? STENO_OK : STENO_ERR_NOMEM;
    if (!st)
        st = steno_opset_add(c, false, type, in, more, NULL);
    if (!st)
        st = steno_opset_add(c, false, "Equal", in, same, NULL);
    if (st)
        return st;
    for (int k = 0; k < 2; k++) {
        if (!steno_opset_takes(steno_opset_in(steno_opset_version(k ? "Equal" : type, c->to), 0),
                               c->in[0].dtype))
            return steno_opset_refuse(c, "input 0 'A' can be %s from opset 12 on",
                                      steno_dtype_name(c->in[0].dtype));
        c->in[k] = (struct opset_operand){.dtype = STENO_BOOL};
    }
    c->m->input[0] = steno_write_read(c->w, more);
    c->m->input[1] = steno_write_read(c->w, same);
    return c->m->input[0] && c->m->input[1] ? rename_node(c, "Or") : STENO_ERR_NOMEM;
}

static steno_status scan9_up(struct opset_change *c)
{
    return steno_opset_refuse(c, "Scan of opset 8 has a batch axis, later ones have none");
}

static const struct opset_rule rules[] = {
    {"AveragePool", 22, pool22, pool22},
    {"BatchNormalization", 9, batch_norm9_up, NULL},
    {"BatchNormalization", 14, batch_norm14_up, batch_norm14_down},
    {"CastLike", 15, NULL, cast_like_down},
    {"Clip", 11, clip_up, NULL},
    {"DFT", 20, dft_up, dft_down},
    {"DequantizeLinear", 13, NULL, quantize_down},
    {"DequantizeLinear", 23, NULL, output_type},
    {"Dropout", 12, dropout12_up, dropout12_down},
    {"GreaterOrEqual", 12, NULL, compare_down},
    {"GridSample", 20, grid_sample_up, grid_sample_down},
    {"GroupNormalization", 21, group_norm, group_norm},
    {"Hardmax", 13, softmax_up, softmax_down},
    {"LessOrEqual", 12, NULL, compare_down},
    {"LogSoftmax", 13, softmax_up, softmax_down},
    {"MaxPool", 22, pool22, pool22},
    {"Pad", 11, pad_up, NULL},
    {"Pad", 18, NULL, pad_down},
    {"QuantizeLinear", 13, NULL, quantize_down},
    {"QuantizeLinear", 21, NULL, output_type},
    {"ReduceL1", 18, axes_up, reduce_down},
    {"ReduceL2", 18, axes_up, reduce_down},
    {"ReduceLogSum", 18, axes_up, reduce_down},
    {"ReduceLogSumExp", 18, axes_up, reduce_down},
    {"ReduceMax", 18, axes_up, reduce_down},
    {"ReduceMean", 18, axes_up, reduce_down},
    {"ReduceMin", 18, axes_up, reduce_down},
    {"ReduceProd", 18, axes_up, reduce_down},
    {"ReduceSum", 13, axes_up, reduce_down},
    {"ReduceSumSquare", 18, axes_up, reduce_down},
    {"Reshape", 5, reshape_up, NULL},
    {"Resize", 11, resize11_up, NULL},
    {"Resize", 13, NULL, resize13_down},
    {"Resize", 18, NULL, resize18_down},
    {"RoiAlign", 16, roi_align_up, roi_align_down},
    {"Scan", 9, scan9_up, NULL},
    {"Scatter", 11, scatter_up, NULL},
    {"Shape", 15, NULL, shape_down},
    {"Slice", 10, slice_up, NULL},
    {"Softmax", 13, softmax_up, softmax_down},
    {"Split", 13, split13_up, split13_down},
    {"Split", 18, split18_up, split18_down},
    {"Squeeze", 13, axes_up, axes_down},
    {"Tile", 6, tile_up, NULL},
    {"TopK", 10, topk_up, NULL},
    {"Unsqueeze", 13, unsqueeze_up, axes_down},
    {"Upsample", 9, upsample9_up, NULL},
    {"Upsample", 10, upsample10_up, NULL},
};

const struct opset_rule *steno_opset_rules(size_t *n)
{
    *n = sizeof rules / sizeof *rules;
    return rules;
}
