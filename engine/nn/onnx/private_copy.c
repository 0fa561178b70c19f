#include "nn/onnx/private_copy.h"

#include "nn/onnx/write.h"

#include <stdio.h>

struct private_writer {
    struct writer w; /* first: nn/onnx/write.h */
    steno_onnx_store_fn *put;
    void *arg;
};

static steno_status node(struct writer *w, struct write_scope *s, const struct steno_node *n,
                         Onnx__Node *m)
{
    char own[48];
    (void)s;
    snprintf(own, sizeof own, "%d,%d", n->opset, (int)n->region);
    m->overload = steno_write_dup(w, own);
    return m->overload ? STENO_OK : STENO_ERR_NOMEM;
}

/* Write small constants in the message and the others with put. */
static steno_status write_constant(struct writer *w, const struct write_scope *s, const char *name,
                                   const struct steno_value *v, Onnx__Tensor **out)
{
    const struct private_writer *o = (const struct private_writer *)w;
    struct steno_tensor t = *v->constant;
    char number[32];
    int64_t offset;
    size_t bytes;
    steno_status st;
    (void)s;
    if (steno_shape_bytes(&t.shape, t.dtype, &bytes) ||
        (bytes < STENO_WRITE_SMALL && (steno_constant_bytes(v->constant) || !bytes)))
        return steno_write_tensor(w, name, v->constant, out);
    st = o->put(o->arg, v, &offset, w->err);
    if (!st)
        st = steno_write_tensor(w, name, &t, out);
    if (st)
        return st;
    (*out)->raw_data.len = 0;
    (*out)->raw_data.data = NULL;
    (*out)->data_location = ONNX__TENSOR__DATA_LOCATION__EXTERNAL;
    (*out)->external_data = steno_write_alloc(w, 1, sizeof *(*out)->external_data);
    snprintf(number, sizeof number, "%lld", (long long)offset);
    return (*out)->external_data ? steno_write_external(w, *out, "offset", number)
                                 : STENO_ERR_NOMEM;
}

steno_status steno_onnx_write_private(const struct steno_graph *g, steno_onnx_store_fn *put,
                                      void *arg, struct steno_buf *out, steno_err *err)
{
    static const struct steno_write_form form = {
        .node = node, .constant = write_constant, .private_copy = true};
    struct private_writer o = {.w = {.form = &form, .err = err}, .put = put, .arg = arg};
    Onnx__Model m;
    steno_status st = steno_write_model(&o.w, g, 21, &m);
    m.ir_version = 10;
    if (!st)
        st = steno_write_pack(&m, out, err);
    steno_write_end(&o.w);
    return st;
}
