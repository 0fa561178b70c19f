#include "tools/cli/profile.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ---- */

/* Length of the part of a node's name that names its layer: up to the first component with a number
 * in it that is not the last one, "/encoder/encoders/encoders.0" of
 * "/encoder/encoders/encoders.0/norm/Div". 0: none. */
static size_t layer_length(const char *name)
{
    const char *p = name;
    while (*p) {
        size_t n = strcspn(p + 1, "/") + 1;
        const char *digit = strpbrk(p, "0123456789");
        if (p[n] == '/' && digit && digit < p + n)
            return (size_t)(p + n - name);
        p += n;
    }
    return 0;
}

static const char *layer_of(const struct steno_graph *g, const struct steno_node *n, char **mem)
{
    int32_t r = steno_node_top_region(g, n);
    size_t len = layer_length(n->name);
    char *s = *mem;
    if (r != STENO_NONE && !layer_length(g->regions[r].name))
        return g->regions[r].name;
    if (r != STENO_NONE)
        len = layer_length(g->regions[r].name);
    if (!len)
        return "";
    memcpy(s, r != STENO_NONE ? g->regions[r].name : n->name, len);
    s[len] = '\0';
    *mem += len + 1;
    return s;
}

static void add_node_row(struct profile_row *to, const struct profile_row *r)
{
    to->us += r->us;
    to->flops += r->flops;
    to->bytes += r->bytes;
    to->bound_us += r->bound_us;
    to->nodes++;
}

static void add_to(struct profile_row *list, int *n, const struct profile_row *r, bool by_layer)
{
    int k = 0;
    while (k < *n && strcmp(by_layer ? list[k].layer : list[k].type, by_layer ? r->layer : r->type))
        k++;
    if (k == *n)
        list[(*n)++] = (struct profile_row){.type = r->type, .name = r->name, .layer = r->layer};
    add_node_row(&list[k], r);
}

static int slower(const void *a, const void *b)
{
    double x = ((const struct profile_row *)a)->us, y = ((const struct profile_row *)b)->us;
    return x < y ? 1 : x > y ? -1 : 0;
}

static steno_status reserve_rows(struct profile *p, steno_session *s, steno_err *err)
{
    struct steno_profile_row r;
    size_t names = 1;
    while (steno_session_profile(s, p->n_rows, &r)) {
        names += strlen(r.node->name) + 256;
        p->n_rows++;
    }
    p->rows = calloc((size_t)p->n_rows + 1, sizeof *p->rows);
    p->kinds = calloc((size_t)p->n_rows + 1, sizeof *p->kinds);
    p->layers = calloc((size_t)p->n_rows + 1, sizeof *p->layers);
    p->names = malloc(names);
    return p->rows && p->kinds && p->layers && p->names
               ? STENO_OK
               : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static double larger_of(double a, double b)
{
    return a > b ? a : b;
}

/* Take each node's minimum time: other load of the machine shows in few of the runs. */
static steno_status least_times(const struct profile *p, steno_session *s, long runs,
                                steno_err *err)
{
    int64_t *before = calloc((size_t)p->n_rows + 1, sizeof *before);
    steno_status st = before ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    struct steno_profile_row r;
    for (int i = 0; !st && i < p->n_rows && steno_session_profile(s, i, &r); i++)
        before[i] = r.ns;
    for (long k = 0; !st && k < runs; k++) {
        st = steno_session_run(s, err);
        for (int i = 0; !st && i < p->n_rows && steno_session_profile(s, i, &r); i++) {
            double us = (double)(r.ns - before[i]) / 1e3;
            before[i] = r.ns;
            if (!k || us < p->rows[i].us)
                p->rows[i].us = us;
        }
    }
    free(before);
    return st;
}

static void describe_session(struct profile *p, steno_session *s)
{
    char *mem = p->names;
    struct steno_profile_row r;
    for (int i = 0; i < p->n_rows && steno_session_profile(s, i, &r); i++) {
        struct profile_row *row = &p->rows[i];
        row->type = r.node->op_type;
        row->name = r.node->name;
        row->layer = layer_of(r.graph, r.node, &mem);
        row->flops = r.flops;
        row->bytes = r.bytes;
        row->nodes = 1;
        if (p->peak_flops > 0 && p->bandwidth > 0)
            row->bound_us = 1e6 * larger_of(r.flops / p->peak_flops, r.bytes / p->bandwidth);
        p->us += row->us;
        p->flops += row->flops;
        p->bytes += row->bytes;
        p->bound_us += row->bound_us;
        add_to(p->kinds, &p->n_kinds, row, false);
        add_to(p->layers, &p->n_layers, row, true);
    }
    qsort(p->kinds, (size_t)p->n_kinds, sizeof *p->kinds, slower);
}

steno_status profile_take(struct profile *p, steno_session *s, long runs, steno_err *err)
{
    steno_status st;
    steno_session_set_profile(s, true);
    st = steno_session_run(s, err);
    if (!st)
        st = reserve_rows(p, s, err);
    if (!st)
        st = least_times(p, s, runs, err);
    steno_session_set_profile(s, false);
    if (!st)
        describe_session(p, s);
    return st;
}

void profile_free(struct profile *p)
{
    free(p->rows);
    free(p->kinds);
    free(p->layers);
    free(p->names);
}

/* ---- printing ---- */

static double rate(double amount, double us)
{
    return us > 0 ? amount / (us * 1e3) : 0;
}

static double share(const struct profile_row *r)
{
    return r->us > 0 ? 100 * r->bound_us / r->us : 0;
}

static void print_row(const struct profile *p, const char *name, const struct profile_row *r)
{
    printf("  %-36.60s %5d %11.2f %6.1f %9.1f %8.2f %7.0f\n", name, r->nodes, r->us,
           p->us > 0 ? 100 * r->us / p->us : 0, rate(r->flops, r->us), rate(r->bytes, r->us),
           share(r));
}

static void print_head(const char *what)
{
    printf("\n  %-36s %5s %11s %6s %9s %8s %7s\n", what, "nodes", "us", "%", "GFLOP/s", "GB/s",
           "% limit");
}

void profile_print(const struct profile *p, int slowest)
{
    struct profile_row *sorted = calloc((size_t)p->n_rows + 1, sizeof *sorted);
    print_head("operator");
    for (int i = 0; i < p->n_kinds; i++)
        print_row(p, p->kinds[i].type, &p->kinds[i]);
    if (p->n_layers > 1) {
        print_head("layer");
        for (int i = 0; i < p->n_layers; i++)
            print_row(p, *p->layers[i].layer ? p->layers[i].layer : "(outside layers)",
                      &p->layers[i]);
    }
    if (!sorted)
        return;
    memcpy(sorted, p->rows, (size_t)p->n_rows * sizeof *sorted);
    qsort(sorted, (size_t)p->n_rows, sizeof *sorted, slower);
    print_head("slowest nodes");
    for (int i = 0; i < p->n_rows && i < slowest; i++) {
        char name[160];
        snprintf(name, sizeof name, "%.24s %.100s", sorted[i].type, sorted[i].name);
        print_row(p, name, &sorted[i]);
    }
    free(sorted);
    printf("\n  %.1f us in nodes, %.3f GFLOP, %.2f MB read and written; limits %.1f GFLOP/s, %.1f "
           "GB/s\n",
           p->us, p->flops / 1e9, p->bytes / 1e6, p->peak_flops / 1e9, p->bandwidth / 1e9);
}

static json_t *json_row(const struct profile_row *r)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "operator", r->type, "name",
                     r->name, "layer", r->layer, "nodes", r->nodes, "us", r->us, "gflops",
                     rate(r->flops, r->us), "gbytes_per_s", rate(r->bytes, r->us),
                     "percent_of_limit", share(r));
}

static json_t *json_rows(const struct profile_row *rows, int n, bool kinds, bool layers)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *r = json_row(&rows[i]);
        if (kinds || layers)
            (void)json_object_del(r, "name");
        if (kinds)
            (void)json_object_del(r, "layer");
        if (layers)
            (void)json_object_del(r, "operator");
        (void)json_array_append_new(list, r);
    }
    return list;
}

void profile_print_json(const struct profile *p)
{
    json_t *j = json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "us", p->us, "gflop",
                          p->flops / 1e9, "mbytes", p->bytes / 1e6, "limit_gflops",
                          p->peak_flops / 1e9, "limit_gbytes_per_s", p->bandwidth / 1e9,
                          "operators", json_rows(p->kinds, p->n_kinds, true, false), "layers",
                          json_rows(p->layers, p->n_layers, false, true), "nodes",
                          json_rows(p->rows, p->n_rows, false, false));
    (void)json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    puts("");
    json_decref(j);
}

steno_status profile_write_trace(const struct profile *p, const char *path, steno_err *err)
{
    json_t *events = json_array(), *j;
    double at = 0;
    bool bad;
    for (int i = 0; i < p->n_rows; i++) {
        const struct profile_row *r = &p->rows[i];
        (void)json_array_append_new(
            events,
            json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:{s:s, s:s, s:f, s:f}}", "name",
                      r->type, "cat", *r->layer ? r->layer : "network", "ph", "X", "ts", at, "dur",
                      r->us, "pid", 1, "tid", 1, "args", "node", r->name, "layer", r->layer,
                      "gflops", rate(r->flops, r->us), "percent_of_limit", share(r)));
        at += r->us;
    }
    j = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns");
    bad = !j || json_dump_file(j, path, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(j);
    return bad ? steno_fail(err, STENO_ERR_IO, "%s: cannot be written: %s", path, strerror(errno))
               : STENO_OK;
}
