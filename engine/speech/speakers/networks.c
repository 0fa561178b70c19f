#include "speech/speakers/networks.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define MAX_FILES 64 /* of a directory that are looked at */

struct found {
    char *segmentation, *embedding;
};

static bool is_onnx(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".onnx");
}

/* Take the file if it is one of the two and the first of its kind; path is freed otherwise. */
static void look(struct found *f, char *path)
{
    steno_onnx_head *h = NULL;
    char **to = NULL;
    if (!steno_onnx_head_open(&h, path, NULL)) {
        to = steno_segmentation_is(h) ? &f->segmentation
             : steno_embedding_is(h)  ? &f->embedding
                                      : NULL;
        steno_onnx_head_close(h);
    }
    if (to && !*to)
        *to = path;
    else
        free(path);
}

static int wanted(const struct dirent *e)
{
    return *e->d_name != '.';
}

/* Look at the files of a directory by name, and at those of its directories. */
static void search_networks(struct found *f, const char *dir, bool deeper)
{
    struct dirent **list = NULL;
    const int n = scandir(dir, &list, wanted, alphasort);
    for (int i = 0; i < n; i++) {
        char *path = i < MAX_FILES ? steno_path_join(dir, list[i]->d_name) : NULL;
        if (path && deeper && steno_path_is_dir(path))
            search_networks(f, path, false);
        if (path && is_onnx(path) && !steno_path_is_dir(path))
            look(f, path);
        else
            free(path);
        free(list[i]);
    }
    free(list);
}

static void forget(struct found *f)
{
    free(f->segmentation);
    free(f->embedding);
}

bool steno_speakers_is_dir(const char *dir)
{
    struct found f = {0};
    bool both;
    search_networks(&f, dir, true);
    both = f.segmentation && f.embedding;
    forget(&f);
    return both;
}

static steno_status open_both(steno_speakers *s, const struct found *f, const char *dir,
                              steno_err *err)
{
    steno_status st;
    if (!f->segmentation || !f->embedding)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "speakers: %s has no %s network with the metadata of sherpa-onnx", dir,
                          f->segmentation ? "embedding" : "segmentation");
    st = steno_segmentation_open(&s->segmentation, f->segmentation, err);
    if (!st)
        st = steno_embedding_open(&s->embedding, f->embedding, err);
    if (!st && s->segmentation.rate != s->embedding.rate)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "speakers: the segmentation network takes %d Hz, the embedding network %d",
                        s->segmentation.rate, s->embedding.rate);
    return st;
}

steno_status steno_speakers_open(steno_speakers **out, const char *dir, int threads, steno_err *err)
{
    struct found f = {0};
    steno_speakers *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    s->threads = threads > 0 ? threads : 1;
    search_networks(&f, dir, true);
    st = open_both(s, &f, dir, err);
    forget(&f);
    if (st) {
        steno_speakers_close(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

void steno_speakers_close(steno_speakers *s)
{
    if (!s)
        return;
    steno_segmentation_close(&s->segmentation);
    steno_embedding_close(&s->embedding);
    free(s);
}
