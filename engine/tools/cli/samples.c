#include "tools/cli/samples.h"

#include "base/arena.h"
#include "base/file.h"
#include "formats/zip.h"
#include "tools/cli/arrays.h"
#include "tools/cli/recordings.h"
#include "speech/recognizer/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NPZ ((size_t)1 << 30)

void samples_free(struct samples *s)
{
    for (int i = 0; i < s->n; i++)
        cli_inputs_free(&s->v[i]);
    free(s->v);
    *s = (struct samples){NULL, 0};
}

static struct cli_inputs *more(struct samples *s, int inputs, steno_err *err)
{
    struct cli_inputs *v = realloc(s->v, (size_t)(s->n + 1) * sizeof *v);
    if (v) {
        s->v = v;
        v += s->n;
        *v = (struct cli_inputs){calloc((size_t)inputs + 1, sizeof *v->t), inputs};
        if (v->t) {
            s->n++;
            return v;
        }
    }
    (void)steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    return NULL;
}

steno_status samples_random(struct samples *s, const steno_network *n, int count, uint64_t seed,
                            steno_err *err)
{
    static const int64_t lengths[] = {64, 100, 37, 150, 16, 203, 81, 128};
    for (int i = 0; i < count; i++) {
        struct cli_inputs_options o = {
            .batch = 1, .length = lengths[i % 8], .seed = seed + (uint64_t)i};
        struct cli_inputs in = {NULL, 0}, *to;
        steno_status st = cli_inputs_make(&in, n, &o, err);
        if (st)
            return st;
        to = more(s, 0, err);
        if (!to) {
            cli_inputs_free(&in);
            return STENO_ERR_NOMEM;
        }
        free(to->t);
        *to = in;
    }
    return STENO_OK;
}

/* ---- files ---- */

static steno_status copy_of(struct steno_tensor *to, const struct steno_tensor *t, steno_err *err)
{
    size_t bytes;
    *to = *t;
    if (steno_shape_bytes(&t->shape, t->dtype, &bytes) || !(to->data = steno_aligned_alloc(bytes)))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a sample");
    if (bytes)
        memcpy(to->data, t->data, bytes);
    return STENO_OK;
}

static steno_status take_member(struct cli_inputs *in, const steno_network *n, const char *zip,
                                size_t size, const char *path, const struct steno_zip_member *m,
                                steno_err *err)
{
    char name[256], what[512];
    size_t len = m->name_len > 4 && !memcmp(m->name + m->name_len - 4, ".npy", 4) ? m->name_len - 4
                                                                                  : m->name_len;
    struct steno_npy a = {.data = NULL};
    void *bytes = NULL;
    steno_status st;
    int i;
    snprintf(name, sizeof name, "%.*s", (int)(len < 200 ? len : 200), m->name);
    snprintf(what, sizeof what, "%.200s: %s", path, name);
    i = steno_network_find_input(n, name);
    if (i < 0) /* results stored with the inputs, for example */
        return STENO_OK;
    st = steno_zip_read(zip, size, path, m, MAX_NPZ, &bytes, err);
    if (!st)
        st = steno_npy_parse(bytes, m->size, what, MAX_NPZ, &a, err);
    free(bytes);
    if (st)
        return st;
    steno_aligned_free(in->t[i].data);
    arrays_tensor(&a, steno_network_input(n, i)->dtype, &in->t[i]);
    return STENO_OK;
}

steno_status samples_npz(struct samples *s, const steno_network *n, const char *path,
                         steno_err *err)
{
    char *zip = NULL;
    size_t size = 0;
    struct cli_inputs *in = more(s, steno_network_n_inputs(n), err);
    steno_status st = in ? steno_file_read(path, MAX_NPZ, &zip, &size, err) : STENO_ERR_NOMEM;
    for (size_t i = 0; !st; i++) {
        struct steno_zip_member m;
        st = steno_zip_member(zip, size, path, i, &m, err);
        if (st == STENO_NEED_MORE)
            break;
        if (!st)
            st = take_member(in, n, zip, size, path, &m, err);
    }
    free(zip);
    if (st != STENO_NEED_MORE)
        return st;
    for (int i = 0; i < in->n; i++)
        if (!in->t[i].data)
            return steno_fail(err, STENO_ERR_INVAL, "%s: no array for input '%s'", path,
                              steno_network_input(n, i)->name);
    return STENO_OK;
}

/* ---- recordings ---- */

struct recorded_network {
    char path[PATH_MAX];
    const steno_network *net; /* the network of these inputs; open as long as its model */
    char **names;
    struct samples s;
    long runs, stride;
};

struct recorded_inputs {
    struct recorded_network *v;
    int n;
    steno_model *model;
    steno_status st; /* of a failure in the middle of a run */
    steno_err err;
};

static struct recorded_network *network_of(struct recorded_inputs *h, const char *path,
                                           const steno_network *n)
{
    struct recorded_network *v;
    for (int i = 0; i < h->n; i++)
        if (h->v[i].net == n)
            return &h->v[i];
    v = realloc(h->v, (size_t)(h->n + 1) * sizeof *v);
    if (!v)
        return NULL;
    h->v = v;
    v += h->n;
    memset(v, 0, sizeof *v);
    if (!realpath(path, v->path))
        snprintf(v->path, sizeof v->path, "%.1000s", path);
    v->net = n;
    v->stride = 1;
    h->n++;
    return v;
}

/* Drop half of the samples when there are too many, so that all recordings count. */
static void thin_out(struct recorded_network *v)
{
    int kept = 0;
    for (int i = 0; i < v->s.n; i++)
        if (i % 2)
            cli_inputs_free(&v->s.v[i]);
        else
            v->s.v[kept++] = v->s.v[i];
    v->s.n = kept;
    v->stride *= 2;
}

static void on_run(void *arg, const char *path, const steno_network *n,
                   const struct steno_tensor *in)
{
    struct recorded_inputs *h = arg;
    struct recorded_network *v = h->st ? NULL : network_of(h, path, n);
    struct cli_inputs *to;
    if (h->st || !v) {
        h->st = h->st ? h->st : steno_fail(&h->err, STENO_ERR_NOMEM, "out of memory");
        return;
    }
    if (v->runs++ % v->stride)
        return;
    if (v->s.n == SAMPLES_MAX)
        thin_out(v);
    to = more(&v->s, steno_network_n_inputs(n), &h->err);
    h->st = to ? STENO_OK : STENO_ERR_NOMEM;
    for (int i = 0; !h->st && i < to->n; i++)
        h->st = copy_of(&to->t[i], &in[i], &h->err);
}

static steno_status listen_to_file(void *arg, const char *path, steno_err *err)
{
    struct recorded_inputs *h = arg;
    steno_status st = recordings_transcribe(h->model, path, NULL, err);
    if (!st && h->st) {
        st = h->st;
        if (err)
            *err = h->err;
    }
    return st;
}

steno_status recorded_inputs_open(struct recorded_inputs **out, const char *dir,
                                  const struct cli_list *audio, steno_err *err)
{
    struct recorded_inputs *h = calloc(1, sizeof *h);
    struct steno_observer observer = {on_run, h};
    struct steno_model_options mo = {.plain = true};
    steno_status st = h ? steno_model_open_observed(&h->model, dir, &mo, &observer, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = recordings_each(audio, listen_to_file, h, err);
    for (int i = 0; !st && i < h->n; i++) {
        struct recorded_network *v = &h->v[i];
        v->names = calloc((size_t)steno_network_n_inputs(v->net) + 1, sizeof *v->names);
        for (int k = 0; v->names && k < steno_network_n_inputs(v->net); k++)
            v->names[k] = strdup(steno_network_input(v->net, k)->name);
    }
    if (h)
        steno_model_close(h->model); /* the observer ends with this call */
    if (h)
        h->model = NULL;
    if (st) {
        recorded_inputs_close(h);
        return st;
    }
    *out = h;
    return STENO_OK;
}

void recorded_inputs_close(struct recorded_inputs *h)
{
    if (!h)
        return;
    for (int i = 0; i < h->n; i++) {
        for (int k = 0; h->v[i].names && h->v[i].names[k]; k++)
            free(h->v[i].names[k]);
        free(h->v[i].names);
        samples_free(&h->v[i].s);
    }
    free(h->v);
    free(h);
}

static bool same_inputs(const struct recorded_network *v, const steno_network *n)
{
    int i = 0;
    while (i < steno_network_n_inputs(n) && v->names && v->names[i] &&
           !strcmp(v->names[i], steno_network_input(n, i)->name))
        i++;
    return i == steno_network_n_inputs(n) && v->names && !v->names[i];
}

static steno_status copy_samples(const struct recorded_network *v, struct samples *s,
                                 steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < v->s.n; i++) {
        const struct cli_inputs *from = &v->s.v[i];
        struct cli_inputs *to = more(s, from->n, err);
        st = to ? STENO_OK : STENO_ERR_NOMEM;
        for (int k = 0; !st && k < from->n; k++)
            st = copy_of(&to->t[k], &from->t[k], err);
    }
    return st;
}

steno_status recorded_inputs_samples(const struct recorded_inputs *h, const char *path,
                                     const steno_network *n, struct samples *s, steno_err *err)
{
    char real[PATH_MAX];
    steno_status st = STENO_OK;
    if (!realpath(path, real))
        return STENO_OK;
    for (int i = 0; !st && i < h->n; i++)
        if (!strcmp(h->v[i].path, real) && same_inputs(&h->v[i], n))
            st = copy_samples(&h->v[i], s, err);
    return st;
}
