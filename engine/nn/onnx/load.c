/* Reads model files: the message in memory, metadata, and the mapping that weights stay in. Its
 * graphs are read by load_graph.c. */
#include "nn/onnx/ort_format.h"
#include "nn/onnx/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* bytes; matrices from this size on stay in the file until they are needed */
#define STAYS ((size_t)64 << 10)

static steno_status metadata(struct loader *l, struct steno_graph *g)
{
    size_t n = l->model->n_metadata_props;
    if (n > 10000)
        return steno_fail(l->err, STENO_ERR_LIMIT, "more than 10000 metadata entries");
    g->meta_keys = steno_graph_alloc(g, n + 1, sizeof *g->meta_keys, l->err);
    g->meta_values = steno_graph_alloc(g, n + 1, sizeof *g->meta_values, l->err);
    if (!g->meta_keys || !g->meta_values)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const Onnx__StringStringEntry *e = l->model->metadata_props[i];
        g->meta_keys[g->n_meta] = steno_arena_strdup(g->arena, e->key);
        g->meta_values[g->n_meta] = steno_arena_strdup(g->arena, e->value);
        if (!g->meta_keys[g->n_meta] || !g->meta_values[g->n_meta])
            return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
        g->n_meta++;
    }
    return STENO_OK;
}

static void describe_model(const Onnx__Model *m, struct steno_onnx_info *info)
{
    memset(info, 0, sizeof *info);
    info->ir_version = m->ir_version;
    snprintf(info->producer, sizeof info->producer, "%.40s%s%.20s", m->producer_name,
             *m->producer_version ? " " : "", m->producer_version);
    for (size_t i = 0; i < m->n_opset_import && i < 16; i++) {
        snprintf(info->opset[i].domain, sizeof info->opset[i].domain, "%.47s",
                 *m->opset_import[i]->domain ? m->opset_import[i]->domain : "ai.onnx");
        info->opset[i].version = m->opset_import[i]->version;
        info->n_opset++;
    }
}

static steno_status convert_model(struct loader *l, struct steno_graph *g)
{
    struct scope top = {.g = g};
    steno_status st;
    if (!l->model->graph)
        return steno_fail(l->err, STENO_ERR_FORMAT, "not an ONNX model: it has no graph");
    st = steno_onnx_graph(l, &top, l->model->graph);
    steno_names_free(&top.names);
    if (!st)
        st = metadata(l, g);
    if (!st)
        st = steno_graph_sort(g, l->err);
    return st;
}

/* Unpack the message of [data, data + size), without its large byte strings if that is worth a
 * copy. */
static steno_status unpack(struct loader *l, struct steno_onnx_heap *heap, const void *data,
                           size_t size, struct steno_onnx_large *large)
{
    bool always = l->opt && l->opt->borrow_from;
    size_t max = 0, n = size;
    void *slim = NULL;
    steno_status st = steno_onnx_check_wire(data, size, large, l->err);
    if (!st && large->sum && (always || large->sum > size / 2)) {
        st = steno_onnx_slim(data, size, large, &slim, &n, l->err);
        l->src.map = data;
        l->src.n_map = size;
    }
    if (st)
        return st;
    /* an empty repeated message is two bytes in the file and about 100 here */
    if (!steno_mul_size(size, 64, &max) || !steno_add_size(max, 16 << 20, &max))
        max = SIZE_MAX;
    steno_onnx_heap_init(heap, max);
    l->model = onnx__model__unpack(&heap->alloc, n, slim ? slim : data);
    free(slim);
    return l->model ? STENO_OK
                    : steno_fail(l->err, STENO_ERR_FORMAT,
                                 "not an ONNX model, or one that takes more than "
                                 "%zu bytes of memory to read",
                                 max);
}

static steno_status parse_onnx(struct steno_graph **out, const void *data, size_t size,
                               const char *dir, const struct steno_onnx_options *opt,
                               struct steno_onnx_info *info, struct steno_onnx_large *large,
                               steno_err *err)
{
    struct loader l = {.opt = opt, .err = err, .src.dir = dir};
    struct steno_onnx_heap heap;
    struct steno_graph *g = NULL;
    steno_status st = unpack(&l, &heap, data, size, large);
    if (st)
        return st;
    l.src.max_bytes = opt && opt->max_bytes ? opt->max_bytes : (size_t)64 << 30;
    if (info)
        describe_model(l.model, info);
    l.src.info = info;
    g = steno_graph_new(NULL);
    st = g ? convert_model(&l, g) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    onnx__model__free_unpacked(l.model, &heap.alloc);
    steno_onnx_source_close(&l.src);
    if (st) {
        steno_graph_free(g);
        return st;
    }
    *out = g;
    return STENO_OK;
}

/* A model in ONNX Runtime's own format: nothing of it stays in the bytes read. Names are stored
 * once there and at each use in ONNX, hence the factor. */
static steno_status parse_ort(struct steno_graph **out, const void *data, size_t size,
                              const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                              steno_err *err)
{
    const size_t most = (size_t)4 << 30;
    struct steno_onnx_large none = {0};
    struct steno_buf onnx;
    steno_status st;
    steno_buf_init(&onnx, size < most / 128 ? 64 * size + ((size_t)1 << 20) : most);
    st = steno_ort_format_to_onnx(data, size, &onnx, err);
    if (!st)
        st = parse_onnx(out, onnx.data, onnx.len, NULL, opt, info, &none, err);
    steno_buf_free(&onnx);
    return st;
}

static steno_status parse_model(struct steno_graph **out, const void *data, size_t size,
                                const char *dir, const struct steno_onnx_options *opt,
                                struct steno_onnx_info *info, struct steno_onnx_large *large,
                                steno_err *err)
{
    return steno_ort_format_is(data, size)
               ? parse_ort(out, data, size, opt, info, err)
               : parse_onnx(out, data, size, dir, opt, info, large, err);
}

steno_status steno_onnx_parse(struct steno_graph **out, const void *data, size_t size,
                              const char *dir, const struct steno_onnx_options *opt,
                              struct steno_onnx_info *info, steno_err *err)
{
    struct steno_onnx_large large = {.from = opt ? opt->borrow_from : 0};
    return parse_model(out, data, size, dir, opt, info, &large, err);
}

/* ---- files ---- */

/* *fd becomes -1 once the mapping has it. */
static steno_status parse_file(struct steno_graph **out, int *fd, const char *path,
                               const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                               steno_err *err)
{
    struct stat sb;
    const char *slash = strrchr(path, '/');
    struct steno_onnx_large large = {.from = opt && opt->borrow_from ? opt->borrow_from : STAYS,
                                     .mapped = true};
    struct steno_map map;
    char *dir;
    steno_status st;
    if (fstat(*fd, &sb) || !S_ISREG(sb.st_mode))
        return steno_fail(err, STENO_ERR_IO, "not a regular file");
    if (sb.st_size <= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "the file is empty");
    dir = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!dir)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    /* the graph keeps the mapping; matrices are copied out when they are packed */
    st = steno_map_take(&map, *fd, false, path, err);
    if (!st) {
        *fd = -1;
        st = parse_model(out, map.p, map.n, dir, opt, info, &large, err);
        if (st && steno_map_changed(&map))
            st = steno_map_check(&map, path, err); /* the reason */
        if (st)
            steno_map_close(&map);
        else
            steno_graph_take_map(*out, &map);
        if (!st)
            steno_graph_rest_map(*out);
    }
    free(dir);
    return st;
}

steno_status steno_onnx_load(struct steno_graph **out, const char *path,
                             const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                             steno_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    steno_status st;
    if (fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = parse_file(out, &fd, path, opt, info, err);
    if (fd >= 0)
        close(fd);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}
