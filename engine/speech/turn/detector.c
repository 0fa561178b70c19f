#include "speech/turn/detector.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "nn/network/run.h"

#define BATCH 4 /* turns of one run */
#define NAME "smart-turn"

struct steno_turn_detector {
    steno_network *net;
};

struct steno_turn_judge {
    steno_session *session;
    steno_turn_features *features;
    float *x; /* [BATCH, STENO_TURN_BINS, STENO_TURN_FRAMES] */
};

/* ---- finding --------------------------------------------------------------------------------- */

static int wanted(const struct dirent *e)
{
    return steno_path_ends(e->d_name, ".onnx") && !strncmp(e->d_name, NAME, sizeof NAME - 1);
}

/* The path of the last such file of a directory by name: the newest version. NULL: none. */
static char *network_of(const char *dir)
{
    struct dirent **list = NULL;
    const int n = scandir(dir, &list, wanted, alphasort);
    char *path = n > 0 ? steno_path_join(dir, list[n - 1]->d_name) : NULL;
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return path;
}

bool steno_turn_detector_is_dir(const char *dir)
{
    char *path = network_of(dir);
    const bool has = path && !steno_path_is_dir(path);
    free(path);
    return has;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status check_network(const steno_network *net, steno_err *err)
{
    const struct steno_value *x;
    if (steno_network_n_inputs(net) != 1 || steno_network_n_outputs(net) != 1)
        return steno_fail(err, STENO_ERR_FORMAT, "one input and one output expected");
    x = steno_network_input(net, 0);
    if (x->dtype != STENO_F32 || x->shape.rank != 3 || x->shape.dim[1] != STENO_TURN_BINS ||
        x->shape.dim[2] != STENO_TURN_FRAMES)
        return steno_fail(err, STENO_ERR_FORMAT, "the input is not f32 [N, %d, %d]",
                          STENO_TURN_BINS, STENO_TURN_FRAMES);
    return STENO_OK;
}

/* Errors that only a run shows come at open. */
static steno_status try_silence(const steno_turn_detector *d, steno_err *err)
{
    const struct steno_turn_audio silence = {NULL, 0};
    steno_turn_judge *j = NULL;
    float p;
    steno_status st = steno_turn_judge_open(&j, d, err);
    if (!st)
        st = steno_turn_judge_run(j, &silence, 1, &p, err);
    steno_turn_judge_close(j);
    return st;
}

static steno_status open_file(steno_turn_detector **out, const char *path, steno_err *err)
{
    const struct steno_network_options o = {
        .opt_level = -1, .precision = STENO_AUTO_WEIGHTS, .cache_dir = steno_cache_dir()};
    steno_turn_detector *d = calloc(1, sizeof *d);
    steno_status st = d ? steno_network_open(&d->net, path, &o, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    if (!st)
        st = check_network(d->net, err);
    if (!st)
        st = try_silence(d, err);
    if (st) {
        steno_turn_detector_close(d);
        return st;
    }
    *out = d;
    return STENO_OK;
}

steno_status steno_turn_detector_open(steno_turn_detector **out, const char *path, steno_err *err)
{
    char *file = steno_path_is_dir(path) ? network_of(path) : strdup(path);
    steno_status st;
    if (!file)
        return steno_fail(err, STENO_ERR_IO, "turn: %.200s has no file " NAME "*.onnx", path);
    st = open_file(out, file, err);
    if (st)
        st = steno_fail_in(err, st, "turn: %.200s", file);
    free(file);
    return st;
}

void steno_turn_detector_close(steno_turn_detector *d)
{
    if (!d)
        return;
    steno_network_close(d->net);
    free(d);
}

/* ---- running --------------------------------------------------------------------------------- */

steno_status steno_turn_judge_open(steno_turn_judge **out, const steno_turn_detector *d,
                                   steno_err *err)
{
    const size_t n = (size_t)BATCH * STENO_TURN_BINS * STENO_TURN_FRAMES;
    steno_turn_judge *j = calloc(1, sizeof *j);
    steno_status st = j && (j->x = malloc(n * sizeof *j->x))
                          ? steno_turn_features_open(&j->features, err)
                          : steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    if (!st)
        st = steno_session_open(&j->session, d->net, NULL, err);
    if (st) {
        steno_turn_judge_close(j);
        return st;
    }
    *out = j;
    return STENO_OK;
}

void steno_turn_judge_close(steno_turn_judge *j)
{
    if (!j)
        return;
    steno_session_close(j->session);
    steno_turn_features_close(j->features);
    free(j->x);
    free(j);
}

static steno_status take_answers(const steno_session *session, size_t n, float *probability,
                                 steno_err *err)
{
    const float *p;
    const size_t count = steno_run_floats(session, 0, &p);
    if (count != n)
        return steno_fail(err, STENO_ERR_FORMAT, "the network gave %zu numbers for %zu turns",
                          count, n);
    for (size_t i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= 1)) /* NaN too */
            return steno_fail(err, STENO_ERR_FORMAT, "the network gave %g, no probability",
                              (double)p[i]);
    memcpy(probability, p, n * sizeof *p);
    return STENO_OK;
}

static steno_status run_batch(steno_turn_judge *j, const struct steno_turn_audio *turn, size_t n,
                              float *probability, steno_err *err)
{
    struct steno_run r = steno_run_begin(j->session, NULL, err);
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = steno_turn_features_make(j->features, turn[i].pcm, turn[i].n,
                                      j->x + i * STENO_TURN_BINS * STENO_TURN_FRAMES, err);
    if (st)
        return st;
    steno_run_set(&r, 0, STENO_F32,
                  (const int64_t[]){(int64_t)n, STENO_TURN_BINS, STENO_TURN_FRAMES}, 3, j->x);
    st = steno_run_end(&r);
    return st ? st : take_answers(j->session, n, probability, err);
}

steno_status steno_turn_judge_run(steno_turn_judge *j, const struct steno_turn_audio *turn,
                                  size_t n, float *probability, steno_err *err)
{
    steno_status st = STENO_OK;
    while (n && !st) {
        const size_t k = n < BATCH ? n : BATCH;
        st = run_batch(j, turn, k, probability, err);
        turn += k;
        probability += k;
        n -= k;
    }
    return st;
}
