#include "speech/speakers/networks.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define MAX_FILES 64 /* of a directory that are looked at */

struct found {
    char *sortformer, *segmentation, *embedding;
};

/* Take the file if it is one of ours and the first of its kind; path is freed otherwise. */
static void look(struct found *f, char *path)
{
    steno_onnx_head *h = NULL;
    char **to = NULL;
    if (!steno_onnx_head_open(&h, path, NULL)) {
        to = steno_sortformer_is(h)     ? &f->sortformer
             : steno_segmentation_is(h) ? &f->segmentation
             : steno_embedding_is(h)    ? &f->embedding
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
        if (path && steno_path_ends(path, ".onnx") && !steno_path_is_dir(path))
            look(f, path);
        else
            free(path);
        free(list[i]);
    }
    free(list);
}

static void forget(struct found *f)
{
    free(f->sortformer);
    free(f->segmentation);
    free(f->embedding);
}

bool steno_speakers_is_dir(const char *dir)
{
    struct found f = {0};
    bool enough;
    search_networks(&f, dir, true);
    enough = f.sortformer || (f.segmentation && f.embedding);
    forget(&f);
    return enough;
}

/* The networks that say who talks: a Sortformer, or else segmentation. */
static steno_status open_first(steno_speakers *s, const struct found *f, const char *dir,
                               steno_err *err)
{
    steno_status st;
    if (f->sortformer) {
        s->rate = STENO_SORTFORMER_RATE;
        return steno_sortformer_open(&s->sortformer, f->sortformer, err);
    }
    if (!f->segmentation || !f->embedding)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "speakers: %s has no Sortformer, and no %s network with the metadata of "
                          "sherpa-onnx",
                          dir, f->segmentation ? "embedding" : "segmentation");
    st = steno_segmentation_open(&s->segmentation, f->segmentation, err);
    s->rate = s->segmentation.rate;
    return st;
}

static steno_status open_found(steno_speakers *s, const struct found *f, const char *dir,
                               steno_err *err)
{
    steno_status st = open_first(s, f, dir, err);
    if (!st && f->embedding)
        st = steno_embedding_open(&s->embedding, f->embedding, err);
    if (!st && f->embedding && s->rate != s->embedding.rate)
        st = steno_fail(
            err, STENO_ERR_UNSUPPORTED, "speakers: the %s takes %d Hz, the embedding network %d",
            f->sortformer ? "Sortformer" : "segmentation network", s->rate, s->embedding.rate);
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
    st = open_found(s, &f, dir, err);
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
    steno_sortformer_close(&s->sortformer);
    steno_segmentation_close(&s->segmentation);
    steno_embedding_close(&s->embedding);
    free(s);
}

steno_status steno_speakers_set_latency(steno_speakers *s, double seconds, steno_err *err)
{
    return s->sortformer.net
               ? steno_sortformer_set_latency(&s->sortformer, seconds, err)
               : steno_fail(err, STENO_ERR_UNSUPPORTED,
                            "latency: these networks are no Sortformer, theirs is fixed");
}

static void describe_steps(const char *name, const struct steno_sortformer_steps *t, FILE *out)
{
    fprintf(out,
            "%-13s steps of %zu frames of 80 ms, %zu before and %zu after them (%.2f s behind); "
            "FIFO %zu, speaker cache %zu, update period %zu\n",
            name, t->chunk, t->left, t->right,
            (double)((t->chunk + t->right) * STENO_SORTFORMER_SAMPLES) / STENO_SORTFORMER_RATE,
            t->queue, t->cache, t->period);
}

void steno_speakers_describe(const steno_speakers *s, FILE *out)
{
    const struct steno_sortformer *f = &s->sortformer;
    if (f->net) {
        fprintf(out, "speakers      streaming Sortformer, up to %zu speakers, told each %zu ms\n",
                f->speakers, 80 / f->parts);
        describe_steps("recordings", &f->recording, out);
        describe_steps("live", &f->live, out);
    } else {
        fprintf(out, "speakers      segmentation, %d speakers in windows of %.1f s; clusters\n",
                s->segmentation.speakers, (double)s->segmentation.window / s->segmentation.rate);
    }
    fprintf(out, "sample rate   %d Hz\n", s->rate);
    if (s->embedding.dim)
        fprintf(out, "voices        vectors of %zu numbers\n", s->embedding.dim);
    else
        fputs("voices        no embedding network: nobody can be known again\n", out);
}
