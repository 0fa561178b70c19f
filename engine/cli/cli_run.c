/* steno run: arrays in, arrays out. */
#include "base/arena.h"
#include "base/npy.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#define MAX_ARRAY ((size_t)16 << 30)

static const char usage[] =
    "Usage: steno run MODEL.onnx [--input NAME=FILE.npy]... --output-dir DIR\n"
    "\n"
    "Runs an ONNX network once. Graph outputs are written, in order, as DIR/0.npy, DIR/1.npy, ...\n"
    "\n"
    "  --input NAME=FILE.npy  array for a graph input\n"
    "  --output-dir DIR       made if it is not there\n"
    "  --cpu LEVEL            scalar, avx2, avx512, vnni, bf16 or native (all the CPU has)\n"
    "  --threads N            1 by default\n"
    "  --precision P          fp32\n"
    "  --opt-level N          0 (graph as it is) to 3 (all passes, the default)\n"
    "  --disable-pass LIST    comma-separated passes to leave out\n"
    "  --only LIST            comma-separated passes to run, no others\n";

struct run_options {
    const char *model, *dir;
    const char **inputs; /* "NAME=FILE" */
    int n_inputs;
    struct steno_network_options net;
    struct steno_session_options sess;
};

static const struct {
    steno_dtype t;
    char kind;
    int item;
} types[] = {
    {STENO_F32, 'f', 4},
    {STENO_F64, 'f', 8},
    {STENO_F16, 'f', 2},
    {STENO_I8, 'i', 1},
    {STENO_I16, 'i', 2},
    {STENO_I32, 'i', 4},
    {STENO_I64, 'i', 8},
    {STENO_U8, 'u', 1},
    {STENO_U16, 'u', 2},
    {STENO_U32, 'u', 4},
    {STENO_U64, 'u', 8},
    {STENO_BOOL, 'b', 1},
    /* NumPy has no bfloat16: its bits */
    {STENO_BF16, 'u', 2},
};

static steno_dtype dtype_of(const struct steno_npy *a, steno_dtype want)
{
    if (want == STENO_BF16 && a->item == 2 && (a->kind == 'u' || a->kind == 'i'))
        return STENO_BF16;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].kind == a->kind && types[i].item == a->item)
            return types[i].t;
    return STENO_DT_NONE;
}

static steno_status set_input(steno_session *s, steno_network *n, const char *arg,
                              struct steno_npy *a, steno_err *err)
{
    const char *eq = strchr(arg, '=');
    char name[256];
    struct steno_tensor t;
    int i;
    steno_status st;
    if (!eq || (size_t)(eq - arg) >= sizeof name)
        return steno_fail(err, STENO_ERR_INVAL, "--input '%s' is not NAME=FILE.npy", arg);
    memcpy(name, arg, (size_t)(eq - arg));
    name[eq - arg] = '\0';
    i = steno_network_find_input(n, name);
    if (i < 0)
        return steno_fail(err, STENO_ERR_INVAL, "the network has no input '%s'", name);
    st = steno_npy_read(eq + 1, MAX_ARRAY, a, err);
    if (st)
        return st;
    t.dtype = dtype_of(a, steno_network_input(n, i)->dtype);
    t.shape.rank = a->rank;
    memcpy(t.shape.dim, a->dim, sizeof a->dim);
    t.data = a->data;
    if (t.dtype == STENO_BOOL)
        for (size_t k = 0; k < a->bytes; k++)
            ((uint8_t *)a->data)[k] = ((uint8_t *)a->data)[k] != 0;
    return steno_session_set(s, i, &t, err);
}

static steno_status write_output(const struct run_options *o, int i, const struct steno_tensor *t,
                                 steno_err *err)
{
    struct steno_npy a = {.rank = t->shape.rank, .data = t->data};
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%d.npy", o->dir, i) >= (int)sizeof path)
        return steno_fail(err, STENO_ERR_INVAL, "--output-dir is too long");
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].t == t->dtype) {
            a.kind = types[k].kind;
            a.item = types[k].item;
        }
    memcpy(a.dim, t->shape.dim, sizeof a.dim);
    a.bytes = steno_numel(t) * (size_t)a.item;
    return steno_npy_write(path, &a, err);
}

static steno_status run_session(const struct run_options *o, steno_network *n, steno_session *s,
                                struct steno_npy *arrays, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < o->n_inputs; i++)
        st = set_input(s, n, o->inputs[i], &arrays[i], err);
    if (!st)
        st = steno_session_run(s, err);
    if (!st && mkdir(o->dir, 0777) && errno != EEXIST)
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", o->dir, strerror(errno));
    for (int i = 0; !st && i < steno_network_n_outputs(n); i++)
        st = write_output(o, i, steno_session_get(s, i), err);
    return st;
}

static int run(const struct run_options *o)
{
    steno_err err = {0};
    steno_network *n = NULL;
    steno_session *s = NULL;
    struct steno_npy *arrays = calloc((size_t)o->n_inputs + 1, sizeof *arrays);
    steno_status st = arrays ? steno_network_open(&n, o->model, &o->net, &err)
                             : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_session_open(&s, n, &o->sess, &err);
    if (!st)
        st = run_session(o, n, s, arrays, &err);
    steno_session_close(s);
    steno_network_close(n);
    for (int i = 0; arrays && i < o->n_inputs; i++)
        steno_aligned_free(arrays[i].data);
    free(arrays);
    return st ? cli_fail(&err) : EX_OK;
}

/* EX_OK: go on; -1: help was printed. */
static int parse(int argc, char **argv, struct run_options *o)
{
    static const char *const names[] = {
        "--input",     "--output-dir", "--cpu",          "--threads",
        "--precision", "--opt-level",  "--disable-pass", "--only", NULL};
    struct cli_args a = {.argc = argc, .at = 1, .argv = argv};
    const char *v;
    long n;
    int c;
    while ((c = cli_next(&a, names, &v)) != CLI_END) {
        bool ok = true;
        switch (c) {
        case 0:
            o->inputs[o->n_inputs++] = v;
            break;
        case 1:
            o->dir = v;
            break;
        case 2:
            o->net.cpu = v;
            break;
        case 3:
            if ((ok = cli_int("--threads", v, 1, 1024, &n)))
                o->sess.threads = (int)n;
            break;
        case 4:
            ok = cli_precision(v, &o->net.precision);
            break;
        case 5:
            if ((ok = cli_int("--opt-level", v, 0, 3, &n)))
                o->net.opt_level = (int)n;
            break;
        case 6:
            o->net.disable_passes = v;
            break;
        case 7:
            o->net.only_passes = v;
            break;
        case CLI_POSITIONAL:
            if (o->model)
                return cli_usage("run takes one model, '%s' is a second", v);
            o->model = v;
            break;
        case CLI_HELP:
            fputs(usage, stdout);
            return -1;
        default:
            ok = false;
        }
        if (!ok)
            return EX_USAGE;
    }
    if (!o->model || !o->dir)
        return cli_usage("run needs a model and --output-dir");
    return EX_OK;
}

int cli_run(int argc, char **argv)
{
    struct run_options o = {.net.opt_level = -1};
    int rc;
    o.inputs = calloc((size_t)argc + 1, sizeof *o.inputs);
    if (!o.inputs)
        return EX_OSERR;
    rc = parse(argc, argv, &o);
    if (rc == EX_OK)
        rc = cli_readable(o.model);
    if (rc == EX_OK)
        rc = run(&o);
    free(o.inputs);
    return rc < 0 ? EX_OK : rc;
}
