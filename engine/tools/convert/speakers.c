#include "tools/convert/sources.h"

#include "base/path.h"
#include "tools/convert/output.h"
#include "tools/convert/speakers_graphs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILES 16 /* of a directory that are looked at */
#define MAX_PATH 4200
#define MAX_EXTENT 16384 /* larger than any model; bounds what is computed here */

static const struct kind {
    const char *what, *mark[2]; /* a checkpoint with both weights is one */
    const char *root, *network;
    steno_status (*write)(const struct steno_make_weights *w, const char *path, steno_err *err);
} kinds[] = {
    {"PyanNet",
     {"state_dict.sincnet.conv1d.0.filterbank.low_hz_", "state_dict.classifier.weight"},
     "state_dict.",
     "segmentation",
     steno_speaker_write_pyannote},
    {"CAM++",
     {"head.conv1.weight", "xvector.block1.tdnnd1.cam_layer.linear1.weight"},
     "",
     "embedding",
     steno_speaker_write_campplus},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct files {
    char *path[KINDS], *second; /* the second of one kind */
};

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_kind(const struct kind *k, const steno_torch *t)
{
    return steno_torch_find(t, k->mark[0]) && steno_torch_find(t, k->mark[1]);
}

/* Keep the path of a checkpoint, or free it. */
static void look_at_file(struct files *f, char *path)
{
    steno_torch *t = NULL;
    char **to = NULL;
    if (!path || steno_torch_open(&t, path, NULL)) {
        free(path);
        return;
    }
    for (int i = 0; i < KINDS && !to; i++)
        if (is_kind(&kinds[i], t))
            to = f->path[i] ? &f->second : &f->path[i];
    steno_torch_close(t);
    if (to && !*to)
        *to = path;
    else
        free(path);
}

static int is_checkpoint(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return *e->d_name != '.' && dot &&
           (!strcmp(dot, ".bin") || !strcmp(dot, ".pt") || !strcmp(dot, ".ckpt"));
}

static void search_folder(struct files *f, const char *in)
{
    struct dirent **list = NULL;
    int n;
    if (!steno_path_is_dir(in)) {
        look_at_file(f, strdup(in));
        return;
    }
    n = scandir(in, &list, is_checkpoint, alphasort);
    for (int i = 0; i < n; i++) {
        if (n <= MAX_FILES)
            look_at_file(f, steno_path_join(in, list[i]->d_name));
        free(list[i]);
    }
    free(list);
}

static void forget_files(struct files *f)
{
    for (int i = 0; i < KINDS; i++)
        free(f->path[i]);
    free(f->second);
}

static bool probe(const struct steno_bundle *b)
{
    struct files f = {0};
    bool any = false;
    search_folder(&f, b->path);
    for (int i = 0; i < KINDS; i++)
        any |= f.path[i] != NULL;
    forget_files(&f);
    return any;
}

/* ---- weights --------------------------------------------------------------------------------- */

int64_t steno_speaker_extent(struct steno_make *m, const char *name, int axis)
{
    const int64_t n = steno_make_extent(m, name, axis);
    if (n > 0 && n <= MAX_EXTENT)
        return n;
    if (!m->st)
        m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                           "%s: '%s%s%s' is missing or has another shape than in a %s", m->w.file,
                           m->w.root, m->prefix, name, m->asked);
    return 1;
}

int64_t steno_speaker_outputs(struct steno_make *m, const char *name)
{
    char weight[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    return steno_speaker_extent(m, weight, 0);
}

struct asked {
    const steno_torch *t;
    bool *read; /* for each tensor: something has asked for it */
};

static const struct steno_torch_tensor *find_converted(const void *of, const char *name)
{
    const struct asked *a = of;
    const struct steno_torch_tensor *t = steno_torch_find(a->t, name);
    if (t)
        a->read[t - steno_torch_get(a->t, 0)] = true;
    return t;
}

/* A weight that nothing asked for belongs to an architecture that is not known. */
static steno_status check_all_read(const struct asked *a, const struct kind *k, const char *file,
                                   steno_err *err)
{
    for (size_t i = 0; i < steno_torch_count(a->t); i++) {
        const struct steno_torch_tensor *t = steno_torch_get(a->t, i);
        if (!a->read[i] && t->type != STENO_TORCH_I64 && /* counts of the training */
            !strncmp(t->name, k->root, strlen(k->root)))
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: '%s' is no weight of a %s as it is known here", file, t->name,
                              k->what);
    }
    return STENO_OK;
}

static steno_status write(const struct kind *k, const char *in, const char *out, steno_err *err)
{
    char path[STENO_OUTPUT_PATH];
    struct asked a = {0};
    steno_torch *t = NULL;
    steno_status st = steno_torch_open(&t, in, err);
    if (st)
        return st;
    a.t = t;
    a.read = calloc(steno_torch_count(t) + 1, sizeof *a.read);
    st = a.read ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", in);
    if (!st) {
        const struct steno_make_weights w = {
            .file = in, .torch = t, .find = find_converted, .of = &a, .root = k->root};
        steno_output_network(path, out, k->network);
        st = k->write(&w, path, err);
    }
    if (!st)
        st = check_all_read(&a, k, in, err);
    free(a.read);
    steno_torch_close(t);
    return st;
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct files f = {0};
    steno_status st;
    (void)o;
    search_folder(&f, b->path);
    st = f.second
             ? steno_fail(err, STENO_ERR_INVAL, "%s is a second checkpoint of its kind", f.second)
             : steno_output_make(out, err);
    for (int i = 0; i < KINDS && !st; i++)
        if (f.path[i])
            st = write(&kinds[i], f.path[i], out, err);
    forget_files(&f);
    return st;
}

const struct steno_convert_source steno_source_speakers = {
    "speaker networks", probe, NULL, convert,
    "networks that tell speakers apart: pyannote's segmentation, 3D-Speaker's CAM++ (*.bin, *.pt, "
    "or a directory with one or both)"};
