/* steno model: what is in a model file. */
#include "base/buf.h"
#include "cli/cli.h"
#include "onnx/load.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "steno.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#define MAX_TYPES 256
#define MAX_DUMP ((size_t)1 << 30)

static const char usage[] =
    "Usage: steno model info|text|dot FILE.onnx|DIR\n"
    "       steno model ops\n"
    "\n"
    "  info    of a network: inputs, outputs, opsets, metadata, operators before and after the\n"
    "          passes, weights; of a model directory: name, language, sampling rate, sizes\n"
    "  text    the network after the passes, one line per node\n"
    "  dot     the same for Graphviz: steno model dot FILE.onnx | dot -Tsvg > graph.svg\n"
    "  ops     every operator this build knows: domain, name, first opset, last opset (- = newest)\n"
    "\n"
    "  --opt-level N        0 (graph as it is) to 3 (all passes, the default)\n"
    "  --disable-pass LIST  comma-separated passes to leave out\n"
    "  --only LIST          comma-separated passes to run, no others\n";

struct model_options {
    const char *what, *path;
    struct steno_network_options net;
};

struct tally {
    const char *type;
    int before, after;
};

struct tallies {
    struct tally t[MAX_TYPES];
    int n;
    bool after;
};

static void count(struct tallies *t, const struct steno_graph *g);

static int count_body(struct steno_graph *g, void *arg)
{
    count(arg, g);
    return 0;
}

static void count(struct tallies *t, const struct steno_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int k = 0;
        if (g->nodes[i].dead)
            continue;
        while (k < t->n && strcmp(t->t[k].type, g->nodes[i].op_type))
            k++;
        if (k == MAX_TYPES)
            continue;
        if (k == t->n)
            t->t[t->n++].type = g->nodes[i].op_type;
        *(t->after ? &t->t[k].after : &t->t[k].before) += 1;
        steno_node_each_graph(&g->nodes[i], count_body, t);
    }
}

static int by_count(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    if (x->before != y->before)
        return y->before - x->before;
    return strcmp(x->type, y->type);
}

static void print_value(const char *role, const struct steno_graph *g, const struct steno_value *v)
{
    printf("%-8s %-28s %-5s [", role, v->name, steno_dtype_name(v->dtype));
    if (v->shape.rank < 0)
        printf("...");
    for (int i = 0; i < v->shape.rank; i++) {
        int64_t d = v->shape.dim[i], sym = -d - 2;
        printf("%s", i ? ", " : "");
        if (d >= 0)
            printf("%lld", (long long)d);
        else if (sym >= 0 && sym < g->n_symbols)
            printf("%s", g->symbols[sym].name);
        else
            printf("?");
    }
    puts("]");
}

static void print_passes(const steno_network *n)
{
    const struct steno_pass_counts *c = steno_network_passes(n);
    printf("passes  ");
    for (int i = 0; steno_passes[i].name; i++)
        if (c->changed[i])
            printf(" %s %d", steno_passes[i].name, c->changed[i]);
    puts("");
}

static void print_info(const steno_network *n, struct tallies *t)
{
    const struct steno_graph *g = steno_network_graph(n);
    const struct steno_onnx_info *info = steno_network_info(n);
    printf("producer %s, IR version %lld, opset", info->producer, (long long)info->ir_version);
    for (int i = 0; i < info->n_opset; i++)
        printf(" %s %lld", info->opset[i].domain, (long long)info->opset[i].version);
    puts("");
    for (int i = 0; i < g->n_meta; i++)
        printf("meta     %s = %s\n", g->meta_keys[i], g->meta_values[i]);
    for (int i = 0; i < g->n_inputs; i++)
        print_value("input", g, steno_network_input(n, i));
    for (int i = 0; i < g->n_outputs; i++)
        print_value("output", g, steno_network_output(n, i));
    printf("weights  %.2f MiB\n", (double)steno_network_weight_bytes(n) / 1048576);
    print_passes(n);
    printf("nodes    %zu in the file, %zu after the passes\n", steno_network_nodes_in_file(n),
           steno_graph_count_nodes(g));
    t->after = true;
    count(t, g);
    qsort(t->t, (size_t)t->n, sizeof t->t[0], by_count);
    for (int i = 0; i < t->n; i++)
        printf("  %-28s %6d %6d\n", t->t[i].type, t->t[i].before, t->t[i].after);
}

static steno_status info(const struct model_options *o, const steno_network *n, steno_err *err)
{
    struct tallies *t = calloc(1, sizeof *t);
    struct steno_graph *file = NULL;
    steno_status st = t ? steno_onnx_load(&file, o->path, NULL, NULL, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        count(t, file);
        print_info(n, t);
    }
    steno_graph_free(file);
    free(t);
    return st;
}

static steno_status dump(const steno_network *n, bool dot, steno_err *err)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, MAX_DUMP);
    st = steno_graph_dump(steno_network_graph(n), dot, &b);
    if (st)
        st = steno_fail(err, st, "the dump is too long");
    else
        fwrite(b.data, 1, b.len, stdout);
    steno_buf_free(&b);
    return st;
}

static int show_dir(const char *dir)
{
    steno_err err = {0};
    steno_model *m = NULL;
    if (steno_model_open(&m, dir, NULL, &err))
        return cli_fail(&err);
    steno_model_describe(m, stdout);
    steno_model_close(m);
    return EX_OK;
}

static int show_ops(void)
{
    for (const struct steno_op *op = steno_op_next(NULL); op; op = steno_op_next(op)) {
        printf("%s %s %d ", *op->domain ? op->domain : "ai.onnx", op->type, op->since);
        if (op->until)
            printf("%d\n", op->until);
        else
            printf("-\n");
    }
    return EX_OK;
}

static int show(const struct model_options *o)
{
    steno_err err = {0};
    steno_network *n = NULL;
    steno_status st = steno_network_open(&n, o->path, &o->net, &err);
    if (!st && !strcmp(o->what, "info"))
        st = info(o, n, &err);
    else if (!st)
        st = dump(n, !strcmp(o->what, "dot"), &err);
    steno_network_close(n);
    return st ? cli_fail(&err) : EX_OK;
}

static int parse(int argc, char **argv, struct model_options *o)
{
    static const char *const names[] = {"--opt-level", "--disable-pass", "--only", NULL};
    struct cli_args a = {.argc = argc, .at = 1, .argv = argv};
    const char *v;
    long n;
    int c;
    while ((c = cli_next(&a, names, &v)) != CLI_END) {
        switch (c) {
        case 0:
            if (!cli_int("--opt-level", v, 0, 3, &n))
                return EX_USAGE;
            o->net.opt_level = (int)n;
            break;
        case 1:
            o->net.disable_passes = v;
            break;
        case 2:
            o->net.only_passes = v;
            break;
        case CLI_POSITIONAL:
            if (o->path)
                return cli_usage("model takes one file, '%s' is a second", v);
            *(o->what ? &o->path : &o->what) = v;
            break;
        case CLI_HELP:
            fputs(usage, stdout);
            return -1;
        default:
            return EX_USAGE;
        }
    }
    if (o->what && !strcmp(o->what, "ops") && !o->path)
        return EX_OK;
    if (!o->path || (strcmp(o->what, "info") && strcmp(o->what, "text") && strcmp(o->what, "dot")))
        return cli_usage("model needs info, text or dot, and a file");
    return EX_OK;
}

int cli_model(int argc, char **argv)
{
    struct model_options o = {.net.opt_level = -1};
    struct stat sb;
    int rc = parse(argc, argv, &o);
    if (rc != EX_OK)
        return rc < 0 ? EX_OK : rc;
    if (!strcmp(o.what, "ops"))
        return show_ops();
    rc = cli_readable(o.path);
    if (rc != EX_OK)
        return rc;
    if (!strcmp(o.what, "info") && !stat(o.path, &sb) && S_ISDIR(sb.st_mode))
        return show_dir(o.path);
    return show(&o);
}
