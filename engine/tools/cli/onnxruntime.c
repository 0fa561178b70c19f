/* Arrays go through NumPy files in a directory of their own, requests and answers as lines over a
 * socket, which is the process's standard input and output. */
#include "tools/cli/onnxruntime.h"

#include "tools/cli/arrays.h"
#include "nn/graph/tensor.h"

#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Answers each line with "ok" or the first line of what went wrong. */
static const char script[] =
    "import json, sys\n"
    "def answer(text): print(' '.join(str(text).split()) or 'failed', flush=True)\n"
    "try:\n"
    "    import numpy\n"
    "    import onnxruntime\n"
    "    path, folder = sys.argv[1:]\n"
    "    options = onnxruntime.SessionOptions()\n"
    "    options.intra_op_num_threads, options.log_severity_level = 1, 4\n"
    "    session = onnxruntime.InferenceSession(path, options, "
    "providers=['CPUExecutionProvider'])\n"
    "except Exception as e:\n"
    "    answer(e)\n"
    "    sys.exit()\n"
    "answer('ok')\n"
    "for line in sys.stdin:\n"
    "    try:\n"
    "        asked = json.loads(line)\n"
    "        feed = {n: numpy.load(f'{folder}/in{k}.npy') for k, n in enumerate(asked['inputs'])}\n"
    "        for k, a in enumerate(session.run(asked['outputs'], feed)):\n"
    "            numpy.save(f'{folder}/out{k}.npy', numpy.ascontiguousarray(a).reshape(a.shape))\n"
    "        answer('ok')\n"
    "    except Exception as e:\n"
    "        answer(e)\n";

enum { MOST_BYTES = 1 << 30 }; /* of an output */

struct onnxruntime {
    pid_t pid;
    FILE *socket;
    char dir[64];
    const char *const *outputs;
    struct steno_npy *array; /* [n] */
    struct steno_tensor *t;  /* [n], of array's elements */
    int n, n_in;             /* n_in: most inputs of a run so far */
};

static void path_of(const onnxruntime *o, const char *kind, int k, char *to, size_t size)
{
    snprintf(to, size, "%s/%s%d.npy", o->dir, kind, k);
}

/* ---- the process ---- */

static steno_status start_runtime(onnxruntime *o, const char *path, steno_err *err)
{
    const char *python = getenv("STENO_PYTHON");
    const char *argv[] = {python ? python : "python3", "-c", script, path, o->dir, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], rc;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return steno_fail(err, STENO_ERR_IO, "no socket: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    rc = posix_spawnp(&o->pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (rc) {
        close(ends[0]);
        o->pid = 0;
        return steno_fail(err, STENO_ERR_IO, "ONNX Runtime: %s: %s", argv[0], strerror(rc));
    }
    o->socket = fdopen(ends[0], "r");
    if (!o->socket) {
        close(ends[0]);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    return STENO_OK;
}

static steno_status answered(onnxruntime *o, steno_err *err)
{
    char line[200];
    if (!fgets(line, sizeof line, o->socket))
        return steno_fail(err, STENO_ERR_INVAL, "ONNX Runtime: its process has ended");
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, "ok") ? steno_fail(err, STENO_ERR_INVAL, "ONNX Runtime: %s", line)
                              : STENO_OK;
}

static json_t *strings(const char *const *v, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        (void)json_array_append_new(a, json_string(v[i]));
    return a;
}

static steno_status ask(onnxruntime *o, const char *const *names, int n, steno_err *err)
{
    json_t *j =
        json_pack("{s:o, s:o}", "inputs", strings(names, n), "outputs", strings(o->outputs, o->n));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    steno_status st = STENO_OK;
    json_decref(j);
    if (!text)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t at = 0, len = strlen(text) + 1; !st && at < len;) {
        ssize_t k;
        text[len - 1] = '\n';
        k = send(fileno(o->socket), text + at, len - at, MSG_NOSIGNAL);
        if (k < 0 && errno != EINTR)
            st = steno_fail(err, STENO_ERR_INVAL, "ONNX Runtime: its process has ended");
        at += k > 0 ? (size_t)k : 0;
    }
    free(text);
    return st ? st : answered(o, err);
}

steno_status onnxruntime_open(onnxruntime **out, const char *path, const char *const *outputs,
                              int n, steno_err *err)
{
    onnxruntime *o = calloc(1, sizeof *o);
    steno_status st = STENO_OK;
    if (!o)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    o->outputs = outputs;
    o->n = n;
    o->array = calloc((size_t)n + 1, sizeof *o->array);
    o->t = calloc((size_t)n + 1, sizeof *o->t);
    snprintf(o->dir, sizeof o->dir, "/tmp/steno-verify-XXXXXX");
    if (!o->array || !o->t)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    else if (!mkdtemp(o->dir)) {
        o->dir[0] = '\0';
        st = steno_fail(err, STENO_ERR_IO, "/tmp: no directory: %s", strerror(errno));
    } else
        st = start_runtime(o, path, err);
    if (!st)
        st = answered(o, err);
    if (st)
        onnxruntime_close(o);
    else
        *out = o;
    return st;
}

static void drop_files(const onnxruntime *o)
{
    char path[128];
    for (int k = 0; k < o->n_in; k++) {
        path_of(o, "in", k, path, sizeof path);
        unlink(path);
    }
    for (int k = 0; k < o->n; k++) {
        path_of(o, "out", k, path, sizeof path);
        unlink(path);
    }
    if (*o->dir)
        rmdir(o->dir);
}

static void drop_outputs(onnxruntime *o)
{
    for (int k = 0; k < o->n; k++) {
        steno_aligned_free(o->array[k].data);
        o->array[k].data = NULL;
    }
}

void onnxruntime_close(onnxruntime *o)
{
    if (!o)
        return;
    if (o->socket)
        fclose(o->socket); /* the end of its input ends it */
    if (o->pid)
        waitpid(o->pid, NULL, 0);
    drop_files(o);
    if (o->array)
        drop_outputs(o);
    free(o->array);
    free(o->t);
    free(o);
}

/* ---- runs ---- */

static steno_status read_outputs(onnxruntime *o, steno_err *err)
{
    drop_outputs(o);
    for (int k = 0; k < o->n; k++) {
        char path[128];
        steno_status st;
        path_of(o, "out", k, path, sizeof path);
        st = steno_npy_read(path, MOST_BYTES, &o->array[k], err);
        if (st)
            return st;
        arrays_tensor(&o->array[k], STENO_DT_NONE, &o->t[k]);
    }
    return STENO_OK;
}

steno_status onnxruntime_run(onnxruntime *o, const struct steno_tensor *in,
                             const char *const *names, int n, steno_err *err)
{
    steno_status st = STENO_OK;
    o->n_in = n > o->n_in ? n : o->n_in;
    for (int k = 0; !st && k < n; k++) {
        struct steno_npy a;
        char path[128];
        path_of(o, "in", k, path, sizeof path);
        arrays_npy(&in[k], &a);
        st = steno_npy_write(path, &a, err);
    }
    if (!st)
        st = ask(o, names, n, err);
    return st ? st : read_outputs(o, err);
}

const struct steno_tensor *onnxruntime_get(const onnxruntime *o, int i)
{
    return &o->t[i];
}
