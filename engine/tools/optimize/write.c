/* The parts of a file for other tools that differ from a packed cache (nn/onnx/write.h has the
 * rest): standard operators in the requested opset, functions for fused ones, large constants in a
 * separate file. */
#include "tools/optimize/write_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- nodes ---- */

/* True when the node is written unchanged, false when as a function. */
static bool keeps_form(const struct steno_onnx_write_options *opt, const struct steno_node *n)
{
    if (*n->domain && !n->op)
        return true;
    if (*n->domain)
        return strcmp(n->domain, STENO_FUSED_DOMAIN) &&
               (!opt->keep || opt->keep(opt->arg, n->domain));
    return steno_opset_since(n->op_type, opt->opset) != 0 ||
           steno_opset_replaces(n->op_type, opt->opset);
}

/* --contrib: use an operator of ONNX Runtime with the same meaning. *done false: there is none. */
static steno_status as_contrib(struct writer *w, const struct steno_node *n, Onnx__Node *m,
                               bool *done)
{
    const char *type = NULL;
    if (!strcmp(n->op_type, "Gelu") && !*n->domain &&
        !strcmp(steno_node_str(n, "approximate", "none"), "none"))
        type = "Gelu";
    else if (!strcmp(n->op_type, "Swish") && !*n->domain)
        type = "QuickGelu"; /* x * sigmoid(alpha * x) */
    else if (!strcmp(n->op_type, "Linear") && steno_write_inputs(n) == 2 &&
             !steno_node_int(n, "act", 0))
        type = "FusedMatMul";
    *done = type != NULL;
    if (!type)
        return STENO_OK;
    m->op_type = steno_write_dup(w, type);
    m->domain = steno_write_dup(w, "com.microsoft");
    m->n_attribute = 0;
    if (strcmp(type, "Gelu")) {
        Onnx__Attribute *a;
        NEW(w, a, onnx__attribute__init);
        a->name = steno_write_dup(w, "alpha");
        a->type = ONNX__ATTRIBUTE__KIND__FLOAT;
        a->f = steno_node_float(n, "alpha", 1);
        m->attribute[m->n_attribute++] = a;
        if (!a->name)
            return STENO_ERR_NOMEM;
    }
    return m->op_type && m->domain ? steno_write_import(w, "com.microsoft", 1) : STENO_ERR_NOMEM;
}

static steno_status write_form(struct writer *w, struct write_scope *s, const struct steno_node *n,
                               Onnx__Node *m)
{
    const struct steno_onnx_write_options *opt = steno_file_writer(w)->opt;
    if (!keeps_form(opt, n)) {
        bool done = false;
        steno_status st = opt->contrib ? as_contrib(w, n, m, &done) : STENO_OK;
        return st || done ? st : steno_write_call(w, s->g, n, m);
    }
    if (*n->domain)
        return steno_write_import(w, n->domain, n->opset > 0 ? n->opset : 1);
    return steno_opset_convert(w, s, n, m);
}

/* ---- constants ---- */

static steno_status to_data_file(struct file_writer *o, Onnx__Tensor *m, const void *data,
                                 size_t bytes)
{
    char number[32];
    /* page boundaries, so that readers may map them */
    size_t pad = (4096 - o->data_bytes % 4096) % 4096;
    steno_status st;
    static const char zeros[4096];
    if (fwrite(zeros, 1, pad, o->data_file) != pad || fwrite(data, 1, bytes, o->data_file) != bytes)
        return steno_fail(o->w.err, STENO_ERR_IO, "%s: cannot write", o->data);
    o->data_bytes += pad;
    m->external_data = steno_write_alloc(&o->w, 3, sizeof *m->external_data);
    if (!m->external_data)
        return STENO_ERR_NOMEM;
    m->raw_data.data = NULL;
    m->raw_data.len = 0;
    m->data_location = ONNX__TENSOR__DATA_LOCATION__EXTERNAL;
    st = steno_write_external(&o->w, m, "location", o->data);
    snprintf(number, sizeof number, "%zu", o->data_bytes);
    if (!st)
        st = steno_write_external(&o->w, m, "offset", number);
    snprintf(number, sizeof number, "%zu", bytes);
    if (!st)
        st = steno_write_external(&o->w, m, "length", number);
    o->data_bytes += bytes;
    return st;
}

static steno_status write_constant(struct writer *w, const struct write_scope *s, const char *name,
                                   const struct steno_value *v, Onnx__Tensor **out)
{
    struct file_writer *o = steno_file_writer(w);
    const struct steno_tensor *t = v->constant;
    steno_status st;
    if (!steno_constant_bytes(t) && t->data)
        return steno_fail(w->err, STENO_ERR_NOMEM, "out of memory for '%s'", name);
    st = steno_write_tensor(w, name, t, out);
    if (st || s->up || !o->data_file || (*out)->raw_data.len < STENO_WRITE_SMALL)
        return st;
    return to_data_file(o, *out, t->data, (*out)->raw_data.len);
}

/* ---- model ---- */

static steno_status write_functions(struct file_writer *o, Onnx__Model *m)
{
    m->functions = steno_write_alloc(&o->w, o->n_functions + 1, sizeof *m->functions);
    if (!m->functions)
        return STENO_ERR_NOMEM;
    for (const struct write_function *f = o->functions; f; f = f->next)
        m->functions[m->n_functions++] = f->f;
    return STENO_OK;
}

/* The lowest IR version for an opset (ONNX, docs/Versioning.md). */
static int64_t least_ir(int opset, bool functions)
{
    int64_t v = opset >= 25 ? 12 : opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
    return functions || v > 8 ? v : 7;
}

static steno_status build_model(struct file_writer *o, const struct steno_graph *g, Onnx__Model *m)
{
    static const struct steno_write_form form = {
        .node = write_form, .region = steno_write_region, .constant = write_constant};
    const struct steno_onnx_write_options *opt = o->opt;
    int64_t least;
    steno_status st;
    if (opt->opset < STENO_OLDEST_WRITTEN)
        return steno_fail(o->w.err, STENO_ERR_UNSUPPORTED,
                          "opset %d is not supported: models are written in opset 11 or later",
                          opt->opset);
    o->w.form = &form;
    o->last = &o->functions;
    st = steno_write_model(&o->w, g, opt->opset, m);
    if (!st)
        st = write_functions(o, m);
    if (st)
        return st;
    least = least_ir(opt->opset, o->n_functions > 0);
    m->ir_version = opt->ir_version > least ? opt->ir_version : least;
    m->producer_version =
        steno_write_dup(&o->w, opt->producer_version ? opt->producer_version : "");
    return m->producer_version ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_onnx_serialize(const struct steno_graph *g, struct steno_buf *out,
                                  const struct steno_onnx_write_options *opt, steno_err *err)
{
    struct file_writer o = {.w = {.err = err}, .opt = opt};
    Onnx__Model m;
    steno_status st = build_model(&o, g, &m);
    if (!st)
        st = steno_write_pack(&m, out, err);
    steno_write_end(&o.w);
    return st;
}

/* ---- files ---- */

struct sink {
    ProtobufCBuffer base;
    FILE *f;
    size_t n;
    bool failed;
};

static void append_to_file(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
    struct sink *s = (struct sink *)buffer; /* base is the first member */
    s->failed = s->failed || fwrite(data, 1, len, s->f) != len;
    s->n += len;
}

static size_t constant_bytes(const struct steno_graph *g)
{
    size_t sum = 0;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].constant && g->values[i].uses) {
            size_t n;
            if (!steno_shape_bytes(&g->values[i].shape, g->values[i].dtype, &n))
                sum += n;
        }
    return sum;
}

static bool wants_external(const struct steno_graph *g, const struct steno_onnx_write_options *opt)
{
    return opt->external == STENO_EXTERNAL_ALWAYS ||
           (opt->external == STENO_EXTERNAL_AUTO && constant_bytes(g) > (size_t)1 << 30);
}

/* Flush, check for errors, rename into place if the names differ. */
static steno_status commit(FILE *f, const char *from, const char *to, bool failed, steno_err *err)
{
    const bool renamed = strcmp(from, to) != 0;
    int why;
    failed = fflush(f) || ferror(f) || failed;
    failed = fclose(f) || failed;
    if (!failed && (!renamed || !rename(from, to)))
        return STENO_OK;
    why = errno;
    if (renamed)
        remove(from);
    return steno_fail(err, STENO_ERR_IO, "cannot be written: %s", strerror(why));
}

struct paths {
    char model[4096], data[4096], model_new[4096], data_new[4096];
};

/* Where a device or a pipe is, it is written to; a rename would put a file into its place. */
static bool is_special(const char *path)
{
    struct stat s;
    return !stat(path, &s) && !S_ISREG(s.st_mode);
}

static steno_status write_files(struct file_writer *o, const struct steno_graph *g, struct paths *p,
                                struct steno_onnx_written *written)
{
    Onnx__Model m;
    struct sink s = {.base.append = append_to_file};
    steno_status st = build_model(o, g, &m);
    if (!st && o->data_file) {
        st = commit(o->data_file, p->data_new, p->data, false, o->w.err);
        o->data_file = NULL;
    }
    if (st)
        return st;
    if (onnx__model__get_packed_size(&m) > INT32_MAX)
        return steno_fail(o->w.err, STENO_ERR_LIMIT,
                          "the model takes more than 2 GiB: its weights "
                          "need a file of their own");
    s.f = fopen(p->model_new, "wb");
    if (!s.f)
        return steno_fail(o->w.err, STENO_ERR_IO, "cannot be written: %s", strerror(errno));
    onnx__model__pack_to_buffer(&m, &s.base);
    written->bytes = s.n;
    written->data_bytes = o->data_bytes;
    written->nodes = steno_graph_count_top(g);
    written->functions = o->n_functions;
    return commit(s.f, p->model_new, p->model, s.failed, o->w.err);
}

steno_status steno_onnx_write(const struct steno_graph *g, const char *path,
                              const struct steno_onnx_write_options *opt,
                              struct steno_onnx_written *written, steno_err *err)
{
    struct file_writer o = {.w = {.err = err}, .opt = opt};
    struct steno_onnx_written ignored;
    struct paths p;
    const char *slash = strrchr(path, '/');
    const bool special = is_special(path);
    steno_status st;
    if (strlen(path) + 10 > sizeof p.model)
        return steno_fail(err, STENO_ERR_INVAL, "the path of the model is too long");
    snprintf(p.model, sizeof p.model, "%s", path);
    snprintf(p.data, sizeof p.data, "%s.data", path);
    snprintf(p.model_new, sizeof p.model_new, special ? "%s" : "%s.new", path);
    snprintf(p.data_new, sizeof p.data_new, "%s.data.new", path);
    if (!special && wants_external(g, opt)) {
        o.data = p.data + (slash ? slash - path + 1 : 0);
        o.data_file = fopen(p.data_new, "wb");
        if (!o.data_file)
            return steno_fail(err, STENO_ERR_IO, "%s: cannot be written: %s", path,
                              strerror(errno));
    }
    st = write_files(&o, g, &p, written ? written : &ignored);
    if (o.data_file) {
        fclose(o.data_file);
        remove(p.data_new);
    }
    steno_write_end(&o.w);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}
