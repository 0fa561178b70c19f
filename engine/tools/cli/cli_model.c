/* steno model: describe a model file; fetch, list and remove models (cli_store.c);
 * compare its confidences with known text (cli_calibrate.c). */
#include "base/path.h"
#include "tools/cli/family_options.h"
#include "tools/cli/store.h"
#include "tools/cli/tally.h"
#include "nn/onnx/load.h"
#include "nn/ops/registry.h"
#include "nn/passes/passes.h"
#include "steno.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "Usage: steno model info FILE|DIR\n"
    "       steno model ops\n"
    "       steno model options\n"
    "       steno model fetch|list|remove (steno model fetch --help)\n"
    "       steno model calibrate MODEL LIST (steno model calibrate --help)\n"
    "\n"
    "  info    about a network: inputs, outputs, opsets, metadata, operators before and after the\n"
    "          passes, weights; about a model directory, or a model in one file (whisper.cpp's):\n"
    "          name, language, sampling rate, sizes; about the networks that tell speakers apart\n"
    "  ops     every operator of this build: domain, name, first opset, last opset (- = "
    "newest)\n"
    "  options every option of a model family: family, name, whether of a model or a stream,\n"
    "          values, default (- = the model's own), description\n"
    "  fetch, list, remove\n"
    "          models of the catalogue on this machine\n"
    "  calibrate\n"
    "          compare confidences of words with the words that are right\n";

struct model_options {
    const char *what, *path;
    struct cli_network n;
    struct steno_model_options dir; /* of a model directory */
    struct cli_family_options family;
};

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

static void print_info(const steno_network *n, struct tally *t)
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
    printf("nodes    %zu in the file, %zu after the passes", steno_network_nodes_in_file(n),
           steno_graph_count_top(g));
    if (steno_graph_count_top(g) != steno_graph_count_nodes(g))
        printf(", layers as one (%zu steps)", steno_graph_count_nodes(g));
    puts("");
    tally_graph(t, g, 1);
    tally_sort(t);
    for (int i = 0; i < t->n_rows; i++)
        printf("  %-28s %6d %6d\n", t->row[i].type, t->row[i].n[0], t->row[i].n[1]);
}

static steno_status info(const struct model_options *o, const steno_network *n, steno_err *err)
{
    struct tally *t = calloc(1, sizeof *t);
    struct steno_graph *file = NULL;
    steno_status st = t ? steno_onnx_load(&file, o->path, NULL, NULL, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        tally_graph(t, file, 0);
        print_info(n, t);
    }
    steno_graph_free(file);
    free(t);
    return st;
}

/* A directory, or a file that is a whole model. The networks of a model's directory (.onnx) are
 * described as networks. */
static bool is_model(const char *path)
{
    return steno_path_is_dir(path) || (!cli_is_onnx(path) && steno_model_family(path));
}

static int show_speakers(const char *dir)
{
    steno_err err = {0};
    steno_speakers *s = NULL;
    if (steno_speakers_open(&s, dir, 1, &err))
        return cli_fail(&err);
    steno_speakers_describe(s, stdout);
    steno_speakers_close(s);
    return EX_OK;
}

static int show_model(const struct model_options *o)
{
    steno_err err = {0};
    steno_model *m = NULL;
    if (!steno_model_family(o->path) && steno_speakers_is_dir(o->path))
        return show_speakers(o->path);
    if (steno_model_open(&m, o->path, &o->dir, &err))
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
    steno_status st = steno_network_open(&n, o->path, &o->n.net, &err);
    if (!st)
        st = info(o, n, &err);
    steno_network_close(n);
    return st ? cli_fail(&err) : EX_OK;
}

int cli_model(int argc, char **argv)
{
    struct model_options o = {.n = CLI_NETWORK_INIT, .dir = steno_model_options_default()};
    int precision = -1;
    struct cli_option options[9 + CLI_FAMILY_ROWS] = {
        {"info", CLI_COMMANDS, NULL, NULL, 0, 0, NULL},
        {"--precision", CLI_CHOICE, CLI_PRECISIONS, &precision, 0, 0,
         "model directories: precision of the weights, auto by default"},
        CLI_PASS_OPTIONS(&o.n)};
    const char *args[2] = {NULL, NULL};
    int n, rc, own = 0;
    if (argc > 1 && cli_store_has(argv[1]))
        return cli_store(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "calibrate"))
        return cli_calibrate(argc - 1, argv + 1);
    while (options[own].name)
        own++;
    cli_family_rows(&o.family, options + own);
    rc = cli_parse(argc, argv, usage, options, args, 2, &n);
    if (rc != EX_OK)
        return rc;
    if (!cli_family_check(&o.family))
        return EX_USAGE;
    cli_family_give(&o.family, &o.dir, NULL);
    o.dir.precision = precision < 0 ? STENO_AUTO_WEIGHTS : (enum steno_precision)precision;
    (void)cli_network_resolve(&o.n, EX_OK);
    o.what = args[0];
    o.path = args[1];
    if (o.what && !strcmp(o.what, "ops") && !o.path)
        return show_ops();
    if (o.what && !strcmp(o.what, "options") && !o.path) {
        cli_family_print();
        return EX_OK;
    }
    if (!o.path || strcmp(o.what, "info"))
        return cli_usage(
            "model: info FILE, ops, options, fetch, list, remove or calibrate must follow");
    rc = cli_readable(o.path);
    if (rc != EX_OK)
        return rc;
    if (is_model(o.path) && (o.n.opt_level >= 0 || o.n.net.disable_passes || o.n.net.only_passes))
        return cli_usage("model info: passes can be chosen for a network (NAME.onnx) alone");
    if (!is_model(o.path) && (precision >= 0 || o.family.n_set))
        return cli_usage("model info: %s is for model directories, %s is a network",
                         precision >= 0 ? "--precision" : o.family.set[0].name, o.path);
    return is_model(o.path) ? show_model(&o) : show(&o);
}
