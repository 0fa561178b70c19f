/* steno run: run a network on arrays. */
#include "base/arena.h"
#include "base/buf.h"
#include "tools/cli/arrays.h"
#include "tools/cli/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#define MAX_ARRAY ((size_t)16 << 30)
enum { MAX_LIST = 1 << 20 }; /* bytes of a message */

static const char usage[] =
    "Usage: steno run MODEL.onnx [--input NAME=FILE.npy]... --output-dir DIR\n"
    "\n"
    "Runs an ONNX network once. Graph outputs are written, in order, as DIR/0.npy, DIR/1.npy, "
    "...\n";

struct run_options {
    const char *model, *dir;
    struct cli_list inputs; /* "NAME=FILE" */
    struct cli_network n;
};

/* A given input may replace the elements that the model has for it. */
static bool given(void *arg, const char *name, int64_t ir)
{
    const struct run_options *o = arg;
    (void)ir;
    return cli_inputs_given(&o->inputs, name) != NULL;
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
    arrays_tensor(a, steno_network_input(n, i)->dtype, &t);
    return steno_session_set(s, i, &t, err);
}

static steno_status write_output(const struct run_options *o, int i, const struct steno_tensor *t,
                                 steno_err *err)
{
    struct steno_npy a;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%d.npy", o->dir, i) >= (int)sizeof path)
        return steno_fail(err, STENO_ERR_INVAL, "--output-dir is too long");
    arrays_npy(t, &a);
    return steno_npy_write(path, &a, err);
}

static steno_status run_session(const struct run_options *o, steno_network *n, steno_session *s,
                                struct steno_npy *arrays, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < o->inputs.n; i++)
        st = set_input(s, n, o->inputs.v[i], &arrays[i], err);
    if (!st)
        st = steno_session_run(s, err);
    if (!st && mkdir(o->dir, 0777) && errno != EEXIST)
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", o->dir, strerror(errno));
    for (int i = 0; !st && i < steno_network_n_outputs(n); i++)
        st = write_output(o, i, steno_session_get(s, i), err);
    return st;
}

/* An error message is short: say all operators that the engine lacks. False: it lacks none. */
static bool print_missing(const struct run_options *o)
{
    struct steno_network_options opt = o->n.net;
    steno_network *n = NULL;
    struct steno_buf list;
    int count = 0;
    opt.rewrite_only = true;
    opt.opt_level = 0;
    steno_buf_init(&list, MAX_LIST);
    if (!steno_network_open(&n, o->model, &opt, NULL) && !steno_network_missing(n, &list, &count) &&
        count)
        fprintf(stderr, "steno: %s: %d operator%s not supported: %s\n", o->model, count,
                count > 1 ? "s are" : " is", list.data);
    steno_buf_free(&list);
    steno_network_close(n);
    return count > 0;
}

static bool has_all_inputs(const struct run_options *o, const steno_network *n)
{
    int found = 0;
    for (int i = 0; i < steno_network_n_inputs(n); i++)
        found += cli_inputs_given(&o->inputs, steno_network_input(n, i)->name) != NULL;
    return found >= o->inputs.n;
}

/* Open the model. An input with an initializer is a constant, unless the user gives its elements;
 * then the model is opened again, without a packed cache, which has the constant. */
static steno_status open_for(struct run_options *o, steno_network **n, steno_err *err)
{
    steno_status st = steno_network_open(n, o->model, &o->n.net, err);
    if (st || has_all_inputs(o, *n))
        return st;
    steno_network_close(*n);
    *n = NULL;
    o->n.net.overridable = given;
    o->n.net.overridable_arg = o;
    o->n.net.cache_dir = NULL;
    return steno_network_open(n, o->model, &o->n.net, err);
}

static int run_and_write(struct run_options *o)
{
    steno_err err = {0};
    steno_network *n = NULL;
    steno_session *s = NULL;
    struct steno_npy *arrays = calloc((size_t)o->inputs.n + 1, sizeof *arrays);
    steno_status st =
        arrays ? open_for(o, &n, &err) : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_session_open(&s, n, &o->n.sess, &err);
    if (!st)
        st = run_session(o, n, s, arrays, &err);
    steno_session_close(s);
    steno_network_close(n);
    for (int i = 0; arrays && i < o->inputs.n; i++)
        steno_aligned_free(arrays[i].data);
    free(arrays);
    if (st == STENO_ERR_UNSUPPORTED && print_missing(o))
        return EX_DATAERR;
    return st ? cli_fail(&err) : EX_OK;
}

int cli_run(int argc, char **argv)
{
    struct run_options o = {.n = CLI_NETWORK_INIT};
    const struct cli_option options[] = {
        {"--input", CLI_MANY, "NAME=FILE.npy", &o.inputs, 0, 0, "array for a graph input"},
        {"--output-dir", CLI_TEXT, "DIR", &o.dir, 0, 0, "output folder, made if needed"},
        CLI_NETWORK_OPTIONS(&o.n),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &o.model, 1, &n);
    rc = cli_network_resolve(&o.n, rc);
    if (rc == EX_OK && (!o.model || !o.dir))
        rc = cli_usage("run needs a model and --output-dir");
    if (rc == EX_OK)
        rc = cli_readable(o.model);
    for (int i = 0; rc == EX_OK && i < o.inputs.n; i++) {
        const char *eq = strchr(o.inputs.v[i], '=');
        rc = eq ? cli_readable(eq + 1) : EX_OK;
    }
    if (rc == EX_OK)
        rc = run_and_write(&o);
    cli_list_free(&o.inputs);
    return rc;
}
