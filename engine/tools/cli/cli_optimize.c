/* steno optimize: write the graph after the passes as a file that every ONNX runtime reads. */
#include "base/path.h"
#include "tools/cli/optimize.h"
#include "tools/cli/progress.h"
#include "nn/onnx/load.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char usage[] =
    "Usage: steno optimize IN.onnx|MODELDIR -o OUT [OPTION]...\n"
    "\n"
    "Rewrites a network into fewer nodes. Fused operators are written as functions of domain\n"
    "ai.steno whose bodies are standard operators: steno runs them as one kernel, any other "
    "runtime\n"
    "inlines them. In a model directory every .onnx file is rewritten, and all other files are\n"
    "copied to the directory OUT.\n";

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

static size_t file_bytes(const char *path)
{
    struct stat sb;
    return stat(path, &sb) ? 0 : (size_t)sb.st_size;
}

/* Bytes of the file and its external data. */
static size_t input_bytes(const steno_network *n, const char *in)
{
    const struct steno_onnx_info *info = steno_network_info(n);
    const char *slash = strrchr(in, '/');
    size_t sum = file_bytes(in);
    char path[4096];
    for (int i = 0; i < info->n_external && i < 4; i++)
        if (snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - in + 1) : 0, in,
                     info->external[i]) < (int)sizeof path)
            sum += file_bytes(path);
    return sum;
}

/* The f32 weights that lay beside a network which now has its own. */
static void drop_data(const struct optimize_result *r, const char *path)
{
    char data[4200];
    if (!r->written.data_bytes && snprintf(data, sizeof data, "%s.data", path) < (int)sizeof data)
        unlink(data);
}

static void tell_of_result(const struct optimize *o, const struct optimize_result *r,
                           const char *path)
{
    char before[32], after[32];
    if (!o->quiet)
        fprintf(stderr, "  %s: %s, %s to %s\n", o->precision == TO_INT8 ? "int8" : "bf16",
                path + strlen(o->in) + 1,
                progress_size((int64_t)r->bytes_in, before, sizeof before),
                progress_size((int64_t)(r->written.bytes + r->written.data_bytes), after,
                              sizeof after));
}

static steno_status rewrite_network(struct optimize *o, steno_network *n, const char *in,
                                    const char *out, steno_err *err)
{
    struct optimize_result *r = o->result;
    steno_status st = o->input_int32 ? steno_network_int32_inputs(n, err) : STENO_OK;
    if (!st) {
        r->bytes_in = input_bytes(n, in); /* before writing out, which may be the same file */
        st = steno_network_narrow(n, err);
    }
    if (!st) {
        tally_graph(&r->t, steno_network_graph(n), 1);
        st = steno_network_save(n, out, &o->save, &r->written, err);
    }
    if (!st && o->in_place) {
        drop_data(r, out);
        tell_of_result(o, r, out);
    } else if (!st) {
        tally_sort(&r->t);
        optimize_report(o, r, n, in, out);
    }
    o->networks += !st;
    return st;
}

/* From IR version 4 on an initializer that is also an input is the input's default. */
static bool overridable(void *arg, const char *name, int64_t ir)
{
    (void)name;
    return ir >= 4 && !((const struct optimize *)arg)->freeze_inputs;
}

/* The last opened network is the one that is written: its graph has the strings. */
static void on_loaded(void *arg, const struct steno_graph *g)
{
    struct optimize *o = arg;
    memset(&o->result->t, 0, sizeof o->result->t);
    tally_graph(&o->result->t, g, 0);
}

static int optimize_file(struct optimize *o, const char *in, const char *out)
{
    steno_err err = {0};
    steno_network *n = NULL;
    steno_status st;
    json_array_clear(o->refused);
    json_array_clear(o->products);
    json_array_clear(o->notes);
    o->result = calloc(1, sizeof *o->result);
    st = o->result ? optimize_open(o, in, &n, &err)
                   : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = optimize_check_type(o, n, in, &err);
    if (!st)
        st = rewrite_network(o, n, in, out, &err);
    steno_network_close(n);
    free(o->result);
    return st ? cli_fail(&err) : EX_OK;
}

/* ---- directories ---- */

/* Whether both names are those of one file or directory. */
static bool are_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* NETWORK.onnx.data beside NETWORK.onnx has the weights of the network, which is rewritten with its
 * own. */
static bool is_data_of_network(const char *path)
{
    char network[4096];
    const size_t n = strlen(path), more = sizeof ".data" - 1;
    if (!steno_path_ends(path, ".onnx.data") || n >= sizeof network)
        return false;
    snprintf(network, sizeof network, "%.*s", (int)(n - more), path);
    return !access(network, F_OK);
}

static int copy_file(const char *from, const char *to)
{
    char buf[65536];
    FILE *in, *out;
    size_t n;
    bool bad;
    if (are_same(from, to) || is_data_of_network(from))
        return EX_OK;
    in = fopen(from, "rb");
    out = in ? fopen(to, "wb") : NULL;
    bad = !in || !out;
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
    if (snprintf(a, sizeof a, "%s/%s", from, name) >= (int)sizeof a ||
        snprintf(b, sizeof b, "%s/%s", to, name) >= (int)sizeof b || stat(a, &sb)) {
        fprintf(stderr, "steno: %s/%s: cannot be read\n", from, name);
        return EX_NOINPUT;
    }
    if (S_ISDIR(sb.st_mode))
        return optimize_dir(o, a, b, depth + 1);
    if (cli_is_onnx(name))
        return optimize_file(o, a, b);
    return S_ISREG(sb.st_mode) && !o->in_place ? copy_file(a, b) : EX_OK;
}

/* The names are read first: written in its place, a network is a new entry of the directory. */
static int optimize_dir(struct optimize *o, const char *in, const char *out, int depth)
{
    struct dirent **e = NULL;
    const int n = depth < 8 ? scandir(in, &e, NULL, alphasort) : -1;
    int rc = EX_OK;
    if (n < 0) {
        fprintf(stderr, "steno: %s: cannot be listed\n", in);
        return EX_NOINPUT;
    }
    if (mkdir(out, 0777) && errno != EEXIST) {
        fprintf(stderr, "steno: %s: %s\n", out, strerror(errno));
        rc = EX_CANTCREAT;
    }
    for (int i = 0; i < n; i++) {
        if (rc == EX_OK && e[i]->d_name[0] != '.')
            rc = optimize_entry(o, in, out, e[i]->d_name, depth);
        free(e[i]);
    }
    free(e);
    return rc;
}

/* ---- arguments ---- */

/* EX_OK; EX_USAGE with the one printed that is no operator with weights. */
static int check_excluded(const char *list)
{
    char pattern[64];
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(p, ","), p);
        if (fnmatch(pattern, "MatMul", 0) && fnmatch(pattern, "Gemm", 0) &&
            fnmatch(pattern, "Conv", 0))
            return cli_usage("optimize: --exclude-op: '%s' is none of MatMul, Gemm, Conv", pattern);
    }
    return EX_OK;
}

/* EX_OK; EX_USAGE with the reason printed: an option that does nothing without another. */
static int check_idle(const struct optimize *o)
{
    const bool bytes = o->form || o->precision == TO_INT8, any = bytes || o->precision || o->bits;
    int rc = EX_OK;
    if (o->form != QUANTIZE_STATIC)
        rc = cli_idle("optimize", "--range, --percentile", "needs --quantize static");
    if (rc == EX_OK && o->method != STENO_RANGE_PERCENTILE)
        rc = cli_idle("optimize", "--percentile", "needs --range percentile");
    if (rc == EX_OK && o->form != QUANTIZE_STATIC && !o->layer_errors)
        rc = cli_idle("optimize", "--calibrate", "needs --quantize static or --layer-errors");
    if (rc == EX_OK && !o->bits)
        rc = cli_idle("optimize", "--block", "needs --weight-bits");
    if (rc == EX_OK && !bytes)
        rc = cli_idle("optimize", "--reduce-range", "needs --quantize or --precision int8");
    if (rc == EX_OK && !any)
        rc = cli_idle("optimize", "--exclude, --exclude-op, --layer-errors",
                      "needs --quantize, --precision or --weight-bits");
    return rc;
}

static int check_combination(const struct optimize *o)
{
    bool half = o->precision == TO_FP16 || o->precision == TO_BF16;
    if ((o->form || o->precision) && o->bits)
        return cli_usage("optimize: --weight-bits excludes --precision and --quantize");
    if (o->form && half)
        return cli_usage("optimize: --quantize allows --precision int8 only");
    if (o->bits && o->bits != 4 && o->bits != 8)
        return cli_usage("optimize: --weight-bits must be 4 or 8");
    if (o->quantize.convolutions && !o->form && o->precision != TO_INT8)
        return cli_usage("optimize: --convolutions needs --quantize or --precision int8");
    if (o->form == QUANTIZE_STATIC && !o->calibrate.n)
        return cli_usage("optimize: --quantize static needs --calibrate");
    if (check_excluded(o->quantize.exclude_ops))
        return EX_USAGE;
    if (o->percentile <= 50 || o->percentile > 100)
        return cli_usage("optimize: --percentile must be more than 50 and at most 100");
    if (o->directory && (o->heads || o->hidden))
        return cli_usage("optimize: --num-heads and --hidden-size need a single network");
    return check_idle(o);
}

/* What follows from the options. */
static void derive(struct optimize *o, long opset)
{
    o->quantize.kind = o->bits                      ? STENO_QUANTIZE_BLOCKS
                       : o->precision == TO_FP16    ? STENO_QUANTIZE_F16
                       : o->precision == TO_BF16    ? STENO_QUANTIZE_BF16
                       : o->form == QUANTIZE_STATIC ? STENO_QUANTIZE_STATIC
                                                    : STENO_QUANTIZE_DYNAMIC;
    o->quantize.bits = (int)o->bits;
    o->quantize.block = (int)o->block;
    o->save.microsoft = o->save.contrib || o->bits;
    o->n.net.num_heads = (int)o->heads;
    o->n.net.hidden_size = (int)o->hidden;
    o->save.opset = (int)opset;
    o->save.external = (enum steno_onnx_external)o->external;
    o->n.net.opt_level = o->level == LEVEL_BASIC ? 1 : o->level == LEVEL_EXTENDED ? 2 : 3;
    o->n.net.write_opset = (int)opset;
    o->n.net.rewrite_only = true;
    o->n.net.overridable = overridable;
    o->n.net.overridable_arg = o;
    o->n.net.refused = o->verbose ? on_refused : NULL;
    o->n.net.refused_arg = o;
    o->n.net.loaded = on_loaded;
    o->n.net.loaded_arg = o;
}

static int parse_optimize(int argc, char **argv, struct optimize *o)
{
    long opset = 0;
    const struct cli_option options[] = {
        {"-o", CLI_TEXT, "OUT", &o->out, 0, 0, "file or directory to write"},
        {"--level", CLI_CHOICE, "basic|extended|layer|all", &o->level, 0, 0,
         "basic: eliminations; extended: also fusions of primitives;\nlayer, all: also epilogues "
         "and whole layers, the default"},
        {"--disable-pass", CLI_TEXT, "LIST", &o->n.net.disable_passes, 0, 0,
         "comma-separated passes to leave out"},
        {"--only", CLI_TEXT, "LIST", &o->n.net.only_passes, 0, 0,
         "comma-separated list of the only passes to run"},
        {"--opset", CLI_NUMBER, "N", &opset, 11, 28,
         "version of ai.onnx in the written file; by default that of IN"},
        {"--contrib", CLI_FLAG, NULL, &o->save.contrib, 0, 0,
         "write com.microsoft operators where one equals the fused operator"},
        {"--input-int32", CLI_FLAG, NULL, &o->input_int32, 0, 0,
         "turn inputs of 64-bit integers into 32-bit ones"},
        {"--freeze-inputs", CLI_FLAG, NULL, &o->freeze_inputs, 0, 0,
         "make constants of inputs that have an initializer"},
        {"--external", CLI_CHOICE, "auto|never|always", &o->external, 0, 0,
         "weights in OUT.data beside OUT; auto: from 1 GiB on"},
        {"--precision", CLI_CHOICE, "fp32|fp16|bf16|int8", &o->precision, 0, 0,
         "weights of products in 16 bits; int8 is the same as --quantize dynamic"},
        {"--model-type", CLI_CHOICE, optimize_types, &o->type, 0, 0,
         "expected type; fails and names what was found if it differs"},
        {"--num-heads", CLI_NUMBER, "N", &o->heads, 1, 65535,
         "heads of attention: checked, and used where the graph has no number"},
        {"--hidden-size", CLI_NUMBER, "N", &o->hidden, 1, 1048576,
         "of all heads together: likewise"},
        {"--quantize", CLI_CHOICE, "none|dynamic|static", &o->form, 0, 0,
         "products of 8-bit weights and activations; range of activations:\ndynamic: their own at "
         "run time, static: that of --calibrate"},
        {"--calibrate", CLI_MANY, "FILE", &o->calibrate, 0, 0,
         "recordings or folders of them (for a model directory or a network\nin it), or .npz "
         "files of the network's inputs"},
        {"--range", CLI_CHOICE, "minmax|percentile", &o->method, 0, 0,
         "choice of static ranges, minmax by default"},
        {"--percentile", CLI_REAL, "X", &o->percentile, 0, 0,
         "percent of activations within the range, 99.99 by default"},
        {"--layer-errors", CLI_FLAG, NULL, &o->layer_errors, 0, 0,
         "compare each product's output with f32, on calibration or random inputs"},
        {"--convolutions", CLI_FLAG, NULL, &o->quantize.convolutions, 0, 0,
         "8-bit products of convolutions (Conv of one group), too"},
        {"--weight-bits", CLI_NUMBER, "4|8", &o->bits, 4, 8,
         "quantize only weights, in blocks (com.microsoft MatMulNBits)"},
        {"--block", CLI_NUMBER, "N", &o->block, 16, 65536, "rows of a block, 32 by default"},
        {"--exclude", CLI_TEXT, "LIST", &o->quantize.exclude, 0, 0,
         "comma-separated names of nodes (with * and ?) that keep their weights"},
        {"--exclude-op", CLI_TEXT, "LIST", &o->quantize.exclude_ops, 0, 0,
         "comma-separated operator types (MatMul, Gemm, Conv) that keep their weights"},
        {"--reduce-range", CLI_FLAG, NULL, &o->quantize.reduce_range, 0, 0,
         "7-bit weights, for runtimes and CPUs whose 8-bit sums saturate"},
        {"--report", CLI_CHOICE, "text|json", &o->report, 0, 0,
         "form of the report, text by default"},
        {"--verbose", CLI_FLAG, NULL, &o->verbose, 0, 0,
         "also print near misses: where a pass found most of its pattern,\nand why it refused"},
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &o->in, 1, &n);
    if (rc != EX_OK)
        return rc;
    if (!o->in || !o->out)
        return cli_usage("optimize needs a model and -o");
    o->directory = steno_path_is_dir(o->in);
    rc = check_combination(o);
    if (rc != EX_OK)
        return rc;
    derive(o, opset);
    return EX_OK;
}

static int optimize(struct optimize *o)
{
    steno_err err = {0};
    int rc;
    if (optimize_record_inputs(o, &err))
        return cli_fail(&err);
    rc = o->directory ? optimize_dir(o, o->in, o->out, 0) : optimize_file(o, o->in, o->out);
    if (rc == EX_OK && o->directory && !o->fitting) {
        (void)steno_fail(&err, STENO_ERR_FORMAT,
                         o->networks ? "%s: no network in it is of the type of --model-type"
                                     : "%s: there is no network (.onnx) in it",
                         o->in);
        rc = cli_fail(&err);
    }
    return rc;
}

static void open_lists(struct optimize *o)
{
    o->refused = json_array();
    o->products = json_array();
    o->notes = json_array();
}

static void close_lists(struct optimize *o)
{
    json_decref(o->refused);
    json_decref(o->products);
    json_decref(o->notes);
}

int optimize_in_place(const char *dir, int precision, bool quiet, int *n)
{
    struct optimize o = {.in = dir,
                         .out = dir,
                         .level = LEVEL_ALL,
                         .block = 32,
                         .percentile = 99.99,
                         .precision = precision,
                         .directory = true,
                         .in_place = true,
                         .quiet = quiet};
    int rc;
    open_lists(&o);
    derive(&o, 0);
    rc = optimize_dir(&o, dir, dir, 0);
    close_lists(&o);
    *n = o.networks;
    return rc;
}

int cli_optimize(int argc, char **argv)
{
    struct optimize o = {.level = LEVEL_ALL, .block = 32, .percentile = 99.99};
    int rc = parse_optimize(argc, argv, &o);
    if (rc == EX_OK)
        rc = cli_readable(o.in);
    if (rc == EX_OK)
        rc = cli_all_readable(o.calibrate.v, o.calibrate.n);
    open_lists(&o);
    if (rc == EX_OK)
        rc = optimize(&o);
    recorded_inputs_close(o.recorded_inputs);
    cli_list_free(&o.calibrate);
    close_lists(&o);
    return rc;
}
