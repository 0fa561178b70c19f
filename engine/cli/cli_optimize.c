/* steno optimize: the graph after the passes, as a file that every ONNX runtime reads. */
#include "base/buf.h"
#include "cli/options.h"
#include "cli/tally.h"
#include "exec/save.h"
#include "onnx/load.h"
#include "passes/passes.h"
#include "passes/quantize.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

static const char usage[] =
    "Usage: steno optimize IN.onnx|MODELDIR -o OUT [OPTION]...\n"
    "\n"
    "Rewrites a network into fewer nodes. Fused operators are written as functions of domain\n"
    "ai.steno whose bodies are standard operators: steno runs them as one kernel, any other "
    "runtime\n"
    "inlines them. Of a model directory every .onnx file is rewritten and all else is copied to "
    "OUT,\n"
    "a directory.\n";

enum { LEVEL_BASIC, LEVEL_EXTENDED, LEVEL_LAYER, LEVEL_ALL };
enum { REPORT_TEXT, REPORT_JSON };
enum { KEEP_FP32, TO_FP16, TO_BF16, TO_INT8 }; /* --precision */
#define MAX_MODEL ((size_t)INT32_MAX)

struct optimize {
    const char *in, *out;
    int level, report, external;
    bool verbose, input_int32;
    struct cli_network n;
    struct steno_save_options save;
    json_t *refused;
    int precision;
    bool dynamic;
    struct steno_quantize_options quantize;
    long bits, block;
    json_t *products; /* of the quantizer; empty without */
};

static void on_refused(void *arg, const char *pass, const char *node, const char *why)
{
    struct optimize *o = arg;
    json_t *line = json_pack("{s:s, s:s, s:s}", "pass", pass, "node", node, "why", why);
    size_t i;
    json_t *old;
    json_array_foreach (o->refused, i, old) /* passes repeat until none finds anything */
        if (json_equal(old, line)) {
            json_decref(line);
            return;
        }
    (void)json_array_append_new(o->refused, line);
}

static void on_product(void *arg, const char *node, int64_t rows, int64_t columns, double error,
                       const char *why)
{
    struct optimize *o = arg;
    json_t *j = json_pack("{s:s, s:I, s:I}", "node", node, "rows", (json_int_t)rows, "columns",
                          (json_int_t)columns);
    if (why)
        (void)json_object_set_new(j, "kept", json_string(why));
    else
        (void)json_object_set_new(j, "error", json_real(error));
    (void)json_array_append_new(o->products, j);
}

static bool quantizes(const struct optimize *o)
{
    return o->precision != KEEP_FP32 || o->dynamic || o->bits;
}

/* 16 bits come after the passes, 8 and 4 before the fusions: passes/quantize.h. */
static bool after_passes(const struct optimize *o)
{
    return o->quantize.kind == STENO_QUANTIZE_F16 || o->quantize.kind == STENO_QUANTIZE_BF16;
}

static size_t file_bytes(const char *path)
{
    struct stat sb;
    return stat(path, &sb) ? 0 : (size_t)sb.st_size;
}

struct result {
    struct tally t;
    struct steno_onnx_written written;
    size_t bytes_in;
};

static void report_text(const struct optimize *o, const struct result *r, const steno_network *n,
                        const char *in, const char *out)
{
    const struct steno_pass_counts *c = steno_network_passes(n);
    size_t i;
    json_t *x;
    printf("%s -> %s\n  %-34s %9s %9s\n", in, out, "operator", "original", "optimized");
    for (int k = 0; k < r->t.n_rows; k++) {
        const struct tally_row *row = &r->t.row[k];
        char name[160];
        snprintf(name, sizeof name, "%.40s%s%.100s", row->domain, *row->domain ? ":" : "",
                 row->type);
        printf("  %-34s %9d %9d\n", name, row->n[0], row->n[1]);
    }
    printf("  %-34s %9zu %9zu\n", "nodes", r->t.nodes[0], r->t.nodes[1]);
    if (r->t.steps[1] != r->t.nodes[1])
        printf("  %-34s %9zu %9zu\n", "steps (nodes of layers counted)", r->t.steps[0],
               r->t.steps[1]);
    printf("  %-34s %9zu %9zu\n", "parameters", r->t.params[0], r->t.params[1]);
    printf("  %-34s %9.2f %9.2f\n", "file, MiB", (double)r->bytes_in / 1048576,
           (double)(r->written.bytes + r->written.data_bytes) / 1048576);
    printf("  functions of ai.steno: %zu\n  passes:", r->written.functions);
    for (int k = 0; steno_passes[k].name; k++)
        if (c->changed[k])
            printf(" %s %d", steno_passes[k].name, c->changed[k]);
    puts("");
    json_array_foreach (o->products, i, x) {
        const json_t *kept = json_object_get(x, "kept");
        printf("  product %s [%lld, %lld]: ", json_string_value(json_object_get(x, "node")),
               (long long)json_integer_value(json_object_get(x, "rows")),
               (long long)json_integer_value(json_object_get(x, "columns")));
        if (kept)
            printf("kept, %s\n", json_string_value(kept));
        else
            printf("error %.5f\n", json_real_value(json_object_get(x, "error")));
    }
    if (o->verbose && !json_array_size(o->refused))
        puts("  no near misses");
    json_array_foreach (o->refused, i, x)
        printf("  refused: pass %s at node '%s': %s\n",
               json_string_value(json_object_get(x, "pass")),
               json_string_value(json_object_get(x, "node")),
               json_string_value(json_object_get(x, "why")));
}

static void report_json(const struct optimize *o, const struct result *r, const steno_network *n,
                        const char *in, const char *out)
{
    const struct steno_pass_counts *c = steno_network_passes(n);
    json_t *j = json_pack(
        "{s:s, s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:I}, s:I}", "input", in,
        "output", out, "nodes", "original", (json_int_t)r->t.nodes[0], "optimized",
        (json_int_t)r->t.nodes[1], "steps", "original", (json_int_t)r->t.steps[0], "optimized",
        (json_int_t)r->t.steps[1], "parameters", "original", (json_int_t)r->t.params[0],
        "optimized", (json_int_t)r->t.params[1], "bytes", "original", (json_int_t)r->bytes_in,
        "optimized", (json_int_t)(r->written.bytes + r->written.data_bytes), "functions",
        (json_int_t)r->written.functions);
    json_t *ops = json_array(), *passes = json_object();
    for (int k = 0; k < r->t.n_rows; k++) {
        const struct tally_row *row = &r->t.row[k];
        (void)json_array_append_new(
            ops, json_pack("{s:s, s:s, s:i, s:i}", "domain", *row->domain ? row->domain : "ai.onnx",
                           "operator", row->type, "original", row->n[0], "optimized", row->n[1]));
    }
    for (int k = 0; steno_passes[k].name; k++)
        if (c->changed[k]) {
            json_t *old = json_object_get(passes, steno_passes[k].name); /* dead runs twice */
            (void)json_object_set_new(
                passes, steno_passes[k].name,
                json_integer(c->changed[k] + (old ? json_integer_value(old) : 0)));
        }
    (void)json_object_set_new(j, "operators", ops);
    (void)json_object_set_new(j, "passes", passes);
    (void)json_object_set(j, "refused", o->refused);
    (void)json_object_set(j, "products", o->products);
    (void)json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    puts("");
    json_decref(j);
}

static steno_status rewrite(struct optimize *o, steno_network *n, const char *in, const char *out,
                            steno_err *err)
{
    struct result *r = calloc(1, sizeof *r);
    struct steno_graph *file = NULL;
    struct steno_onnx_options lo = {.max_bytes = 0};
    steno_status st = r ? steno_onnx_load(&file, in, &lo, NULL, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && o->input_int32)
        st = steno_network_narrow_inputs(n, err);
    if (!st) {
        r->bytes_in = file_bytes(in); /* before out, which may be the same file */
        st = steno_network_save(n, out, &o->save, &r->written, err);
    }
    if (!st) {
        tally_graph(&r->t, file, 0);
        tally_graph(&r->t, steno_network_graph(n), 1);
        tally_sort(&r->t);
        (o->report == REPORT_JSON ? report_json : report_text)(o, r, n, in, out);
    }
    steno_graph_free(file);
    free(r);
    return st;
}

/* Eliminations, then the products, then everything from the bytes of that. */
static steno_status open_quantized(struct optimize *o, const char *in, steno_network **out,
                                   steno_err *err)
{
    struct steno_network_options basic = o->n.net;
    struct steno_save_options as_is = {.contrib = o->bits != 0};
    struct steno_buf bytes;
    steno_network *n = NULL;
    int changed;
    steno_status st;
    basic.opt_level = 1;
    steno_buf_init(&bytes, MAX_MODEL);
    st = steno_network_open(&n, in, &basic, err);
    if (!st)
        st = steno_network_quantize(n, &o->quantize, &changed, err);
    if (!st)
        st = steno_network_serialize(n, &as_is, &bytes, err);
    steno_network_close(n);
    if (!st)
        st = steno_network_open_memory(out, bytes.data, bytes.len, in, &o->n.net, err);
    steno_buf_free(&bytes);
    return st;
}

static steno_status open_input(struct optimize *o, const char *in, steno_network **out,
                               steno_err *err)
{
    int changed;
    steno_status st;
    if (quantizes(o) && !after_passes(o))
        return open_quantized(o, in, out, err);
    st = steno_network_open(out, in, &o->n.net, err);
    if (!st && quantizes(o))
        st = steno_network_quantize(*out, &o->quantize, &changed, err);
    return st;
}

static int optimize_file(struct optimize *o, const char *in, const char *out)
{
    steno_err err = {0};
    steno_network *n = NULL;
    steno_status st;
    json_array_clear(o->refused);
    json_array_clear(o->products);
    st = open_input(o, in, &n, &err);
    if (!st)
        st = rewrite(o, n, in, out, &err);
    steno_network_close(n);
    return st ? cli_fail(&err) : EX_OK;
}

/* ---- directories ---- */

static int copy_file(const char *from, const char *to)
{
    char buf[65536];
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    size_t n;
    bool bad = !in || !out;
    while (!bad && (n = fread(buf, 1, sizeof buf, in)) > 0)
        bad = fwrite(buf, 1, n, out) != n;
    bad = bad || ferror(in);
    if (in)
        fclose(in);
    if (out && fclose(out))
        bad = true;
    if (!bad)
        return EX_OK;
    fprintf(stderr, "steno: %s: cannot be copied to %s: %s\n", from, to, strerror(errno));
    return EX_IOERR;
}

static int optimize_dir(struct optimize *o, const char *in, const char *out, int depth);

static int optimize_entry(struct optimize *o, const char *from, const char *to, const char *name,
                          int depth)
{
    char a[4096], b[4096];
    struct stat sb;
    size_t n = strlen(name);
    if (snprintf(a, sizeof a, "%s/%s", from, name) >= (int)sizeof a ||
        snprintf(b, sizeof b, "%s/%s", to, name) >= (int)sizeof b || stat(a, &sb)) {
        fprintf(stderr, "steno: %s/%s: cannot be read\n", from, name);
        return EX_NOINPUT;
    }
    if (S_ISDIR(sb.st_mode))
        return optimize_dir(o, a, b, depth + 1);
    if (n > 5 && !strcmp(name + n - 5, ".onnx"))
        return optimize_file(o, a, b);
    return S_ISREG(sb.st_mode) ? copy_file(a, b) : EX_OK;
}

static int optimize_dir(struct optimize *o, const char *in, const char *out, int depth)
{
    DIR *d = depth < 8 ? opendir(in) : NULL;
    struct dirent *e;
    int rc = EX_OK;
    if (!d) {
        fprintf(stderr, "steno: %s: cannot be listed\n", in);
        return EX_NOINPUT;
    }
    if (mkdir(out, 0777) && errno != EEXIST) {
        fprintf(stderr, "steno: %s: %s\n", out, strerror(errno));
        closedir(d);
        return EX_CANTCREAT;
    }
    while (rc == EX_OK && (e = readdir(d)))
        if (e->d_name[0] != '.')
            rc = optimize_entry(o, in, out, e->d_name, depth);
    closedir(d);
    return rc;
}

/* ---- arguments ---- */

static int parse(int argc, char **argv, struct optimize *o)
{
    long opset = 0;
    int quantize = 0;
    const struct cli_option options[] = {
        {"-o", CLI_TEXT, "OUT", &o->out, 0, 0, "the file, or directory, to write"},
        {"--level", CLI_CHOICE, "basic|extended|layer|all", &o->level, 0, 0,
         "basic: eliminations; extended: and fusions of primitives;\nlayer: and products with "
         "what follows, whole layers; all: the default"},
        {"--disable-pass", CLI_TEXT, "LIST", &o->n.net.disable_passes, 0, 0,
         "comma-separated passes to leave out"},
        {"--only", CLI_TEXT, "LIST", &o->n.net.only_passes, 0, 0,
         "comma-separated passes to run, no others"},
        {"--opset", CLI_NUMBER, "N", &opset, 11, 28,
         "of ai.onnx in the file written; by default that of IN"},
        {"--contrib", CLI_FLAG, NULL, &o->save.contrib, 0, 0,
         "com.microsoft operators where one is exactly the fused operator"},
        {"--input-int32", CLI_FLAG, NULL, &o->input_int32, 0, 0,
         "inputs of 64-bit integers become 32-bit ones"},
        {"--external", CLI_CHOICE, "auto|never|always", &o->external, 0, 0,
         "weights in OUT.data beside OUT; auto: from 1 GiB on"},
        {"--precision", CLI_CHOICE, "fp32|fp16|bf16|int8", &o->precision, 0, 0,
         "weights of products in 16 bits, or int8: as --quantize dynamic"},
        {"--quantize", CLI_CHOICE, "none|dynamic", &quantize, 0, 0,
         "products of 8-bit weights by activations rounded as they come"},
        {"--weight-bits", CLI_NUMBER, "4|8", &o->bits, 4, 8,
         "weights alone, in blocks (com.microsoft MatMulNBits)"},
        {"--block", CLI_NUMBER, "N", &o->block, 16, 65536, "rows of a block, 32 by default"},
        {"--exclude", CLI_TEXT, "LIST", &o->quantize.exclude, 0, 0,
         "comma-separated names of nodes (with * and ?) that keep their weights"},
        {"--reduce-range", CLI_FLAG, NULL, &o->quantize.reduce_range, 0, 0,
         "7-bit weights, for runtimes and CPUs whose 8-bit sums saturate"},
        {"--report", CLI_CHOICE, "text|json", &o->report, 0, 0, "what is printed: text by default"},
        {"--verbose", CLI_FLAG, NULL, &o->verbose, 0, 0,
         "also say where a pass found most of its pattern, and why it refused"},
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &o->in, 1, &n);
    if (rc != EX_OK)
        return rc;
    if (!o->in || !o->out)
        return cli_usage("optimize needs a model and -o");
    o->dynamic = quantize == 1;
    if ((o->dynamic || o->precision) && o->bits)
        return cli_usage("optimize: --weight-bits goes without --precision and --quantize");
    if (o->dynamic && (o->precision == TO_FP16 || o->precision == TO_BF16))
        return cli_usage("optimize: --quantize goes with --precision int8 alone");
    if (o->bits && o->bits != 4 && o->bits != 8)
        return cli_usage("optimize: --weight-bits are 4 or 8");
    o->quantize.kind = o->bits                   ? STENO_QUANTIZE_BLOCKS
                       : o->precision == TO_FP16 ? STENO_QUANTIZE_F16
                       : o->precision == TO_BF16 ? STENO_QUANTIZE_BF16
                                                 : STENO_QUANTIZE_DYNAMIC;
    o->quantize.bits = (int)o->bits;
    o->quantize.block = (int)o->block;
    o->quantize.report = on_product;
    o->quantize.report_arg = o;
    o->save.opset = (int)opset;
    o->save.external = (enum steno_onnx_external)o->external;
    o->n.net.opt_level = o->level == LEVEL_BASIC ? 1 : o->level == LEVEL_EXTENDED ? 2 : 3;
    o->n.net.rewrite_only = true;
    o->n.net.refused = o->verbose ? on_refused : NULL;
    o->n.net.refused_arg = o;
    return EX_OK;
}

int cli_optimize(int argc, char **argv)
{
    struct optimize o = {.level = LEVEL_ALL, .block = 32};
    struct stat sb;
    int rc = parse(argc, argv, &o);
    if (rc == EX_OK)
        rc = cli_readable(o.in);
    o.refused = json_array();
    o.products = json_array();
    if (rc == EX_OK && !stat(o.in, &sb) && S_ISDIR(sb.st_mode))
        rc = optimize_dir(&o, o.in, o.out, 0);
    else if (rc == EX_OK)
        rc = optimize_file(&o, o.in, o.out);
    json_decref(o.refused);
    json_decref(o.products);
    return rc < 0 ? EX_OK : rc;
}
