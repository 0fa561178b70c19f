#include "tests/support/whisper_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

const char *whisper_model(const char *which)
{
    const bool base = !strcmp(which, "base");
    const char *variable = base ? "STENO_WHISPER_BASE" : "STENO_WHISPER_TINY_EN";
    const char *dir = getenv(variable), *here = base ? "build/models/base" : "build/models/tiny.en";
    dir = dir && *dir ? dir : here;
    if (access(dir, R_OK) == 0)
        return dir;
    fprintf(stderr, "# %s is not there: set %s to a faster-whisper directory of %s\n", dir,
            variable, which);
    return NULL;
}

bool whisper_model_file(const char *which, const char *name, char *path, size_t size)
{
    const char *dir = whisper_model(which);
    if (!dir)
        return false;
    snprintf(path, size, "%s/%s", dir, name);
    if (access(path, R_OK) == 0)
        return true;
    fprintf(stderr, "# %s is not there\n", path);
    return false;
}

static struct {
    const char *dir;
    enum steno_precision precision;
    steno_model *m;
} kept[6];
static size_t n_kept;

steno_model *whisper_model_kept(const char *which, enum steno_precision precision)
{
    struct steno_model_options o = steno_model_options_default();
    const char *dir = whisper_model(which);
    steno_err err = {0};
    for (size_t i = 0; dir && i < n_kept; i++)
        if (!strcmp(kept[i].dir, dir) && kept[i].precision == precision)
            return kept[i].m;
    if (!dir)
        return NULL;
    assert_true(n_kept < sizeof kept / sizeof *kept);
    o.precision = precision;
    if (steno_model_open(&kept[n_kept].m, dir, &o, &err))
        fail_msg("%s", err.msg);
    kept[n_kept].dir = dir;
    kept[n_kept].precision = precision;
    return kept[n_kept++].m;
}

int whisper_models_close(void **state)
{
    (void)state;
    while (n_kept > 0)
        steno_model_close(kept[--n_kept].m);
    return 0;
}

static float *made(bool noise, size_t *n)
{
    float *x = calloc(160000, sizeof *x);
    uint32_t v = 1;
    *n = 160000;
    for (size_t i = 0; x && noise && i < *n; i++) {
        v = v * 1664525u + 1013904223u;
        x[i] = (float)(rint(((double)(v >> 16) - 32768) * 0.1) / 32768);
    }
    return x;
}

/* The samples of an open recording. NULL: no memory, or damaged. */
static float *read_samples(steno_audio *a, size_t *n)
{
    size_t cap = 0, got = 1;
    float *x = NULL;
    *n = 0;
    while (got) {
        if (*n == cap) {
            float *more = realloc(x, (cap = cap ? 2 * cap : 1 << 16) * sizeof *x);
            if (!more)
                break;
            x = more;
        }
        if (steno_audio_read(a, x + *n, cap - *n, &got, NULL))
            break;
        *n += got;
    }
    if (got) {
        free(x);
        return NULL;
    }
    return x;
}

float *whisper_recording(const char *rel, size_t *n)
{
    struct steno_audio_info info;
    steno_audio *a = NULL;
    size_t bytes;
    void *file;
    float *x;
    if (!strcmp(rel, "noise10") || !strcmp(rel, "silence10"))
        return made(*rel == 'n', n);
    file = steno_test_shared(rel, &bytes);
    if (!file)
        return NULL;
    if (steno_audio_open_mem(&a, file, bytes, NULL, NULL)) {
        free(file);
        return NULL;
    }
    steno_audio_get_info(a, &info);
    x = info.sample_rate == 16000 ? read_samples(a, n) : NULL;
    steno_audio_close(a);
    free(file);
    return x;
}

const struct whisper_zoo whisper_zoo[] = {{"jfk", "zoo/whisper/audio/jfk_16k.flac", true},
                                          {"ls0", "audio/librispeech/61-70968-0000.flac", true},
                                          {"ls1", "audio/librispeech/61-70968-0001.flac", false},
                                          {"ls2", "audio/librispeech/61-70968-0002.flac", false},
                                          {"intent", "audio/speech/intent.wav", true},
                                          {"beckett", "audio/speech/beckett.wav", false},
                                          {"endgame", "zoo/whisper/audio/endgame_16k.flac", false},
                                          {"two_cities", "audio/speech/two_cities_16k.wav", false},
                                          {"silero60", "audio/formats/silero-test.wav", false},
                                          {"es", "zoo/whisper/audio/es_16k.flac", true},
                                          {"ja", "zoo/whisper/audio/ja_16k.flac", true},
                                          {"silence10", "silence10", true},
                                          {"noise10", "noise10", false},
                                          {NULL, NULL, false}};

bool whisper_zoo_wanted(const struct whisper_zoo *z, const char *which)
{
    const char *only = getenv("STENO_WHISPER_ONLY");
    if (!strcmp(which, "tiny.en") && (!strcmp(z->name, "es") || !strcmp(z->name, "ja")))
        return false;
    return only ? !strcmp(only, z->name) : z->brief || getenv("STENO_WHISPER_ALL");
}
