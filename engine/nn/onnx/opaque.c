/* Parts of a file that the engine does not read, kept as messages for a file that is written. */
#include "nn/onnx/internal.h"

#include <stdlib.h>
#include <string.h>

bool steno_onnx_readable(const Onnx__Tensor *m)
{
    return steno_dtype_is_element((steno_dtype)m->data_type) && m->n_dims <= STENO_MAX_RANK;
}

static steno_status pack_message(struct loader *l, struct steno_graph *g, const ProtobufCMessage *m,
                                 const struct steno_opaque **out)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    struct steno_opaque *o = steno_graph_alloc(g, 1, sizeof *o, l->err);
    uint8_t *bytes = o ? steno_graph_alloc(g, n + 1, 1, l->err) : NULL;
    if (!bytes)
        return STENO_ERR_NOMEM;
    protobuf_c_message_pack(m, bytes);
    o->bytes = bytes;
    o->n = n;
    *out = o;
    return STENO_OK;
}

steno_status steno_onnx_keep_type(struct loader *l, struct steno_graph *g, const Onnx__Type *m,
                                  const struct steno_opaque **out)
{
    return pack_message(l, g, &m->base, out);
}

/* Tensors whose elements are put into their messages while these are packed. */
struct gathered {
    struct {
        Onnx__Tensor *m, was;
        void *owned;
    } t[3];
    int n;
};

static steno_status gather_message(struct loader *l, struct gathered *g, Onnx__Tensor *m)
{
    const void *bytes;
    void *owned = NULL;
    size_t n;
    steno_status st = m ? steno_onnx_raw(&l->src, m, &bytes, &n, &owned, l->err) : STENO_OK;
    if (st || !m || !bytes)
        return st;
    g->t[g->n].m = m;
    g->t[g->n].was = *m;
    g->t[g->n++].owned = owned;
    memcpy(&m->raw_data.data, &bytes, sizeof m->raw_data.data);
    m->raw_data.len = n;
    m->data_location = ONNX__TENSOR__DATA_LOCATION__DEFAULT;
    m->n_external_data = 0;
    return STENO_OK;
}

static void restore(struct gathered *g)
{
    for (int i = 0; i < g->n; i++) {
        *g->t[i].m = g->t[i].was;
        free(g->t[i].owned);
    }
}

steno_status steno_onnx_keep_tensor(struct loader *l, struct steno_graph *g, Onnx__Tensor *m,
                                    const struct steno_opaque **out)
{
    struct gathered here = {.n = 0};
    steno_status st = gather_message(l, &here, m);
    if (!st)
        st = pack_message(l, g, &m->base, out);
    restore(&here);
    return st;
}

steno_status steno_onnx_keep_attribute(struct loader *l, struct steno_graph *g,
                                       const Onnx__Attribute *m, const struct steno_opaque **out)
{
    struct gathered here = {.n = 0};
    steno_status st = gather_message(l, &here, m->t);
    if (!st && m->sparse_tensor)
        st = gather_message(l, &here, m->sparse_tensor->values);
    if (!st && m->sparse_tensor)
        st = gather_message(l, &here, m->sparse_tensor->indices);
    if (!st)
        st = pack_message(l, g, &m->base, out);
    restore(&here);
    return st;
}
