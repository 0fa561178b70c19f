/* Configurations of ESPnet2 beside tiny checkpoints: each is refused with a message, or the written
 * directory has a configuration and networks that open. The input: a digit that chooses the
 * checkpoint, then the recognizer's config.yaml, and behind lines "---" that of the language model
 * and meta.yaml; missing ones are those of a packed model. */
/* covers: engine/tools/convert/espnet.c engine/tools/convert/espnet_decoders.c */
#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"
#include "folder.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const models[] = {
    "conformer", "transformer-linear", "rnn-location",   "rnn-coverage",
    "rnn-gru",   "transducer-lstm",    "transducer-gru", "lm-relu"};
#define N_MODELS (sizeof models / sizeof *models)

static char into[96], below[128];

static void empty(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[600];
    while (d && (e = readdir(d))) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file); /* not folders */
    }
    if (d)
        closedir(d);
}

static void remove_all(void)
{
    empty(below);
    rmdir(below);
    empty(into);
    rmdir(into);
    empty(folder);
}

static void copy(const struct steno_bundle *b, const char *from, const char *to)
{
    struct steno_blob blob;
    if (!steno_bundle_has(b, from))
        return;
    if (steno_bundle_read(b, from, (size_t)1 << 24, &blob, NULL))
        exit(70);
    folder_write(to, blob.p, blob.n);
    steno_blob_close(&blob);
}

/* The checkpoints of tests/data/convert as asrN.pth and lmN.pth in the folder. */
static void prepare(void)
{
    if (*folder)
        return;
    folder_make();
    snprintf(into, sizeof into, "%s/out", folder);
    snprintf(below, sizeof below, "%s/full", into);
    atexit(remove_all); /* runs before the folder goes */
    for (size_t i = 0; i < N_MODELS; i++) {
        struct steno_bundle b;
        char path[128], name[32];
        snprintf(path, sizeof path, "tests/data/convert/%s.zip", models[i]);
        if (steno_bundle_open(&b, path, NULL))
            exit(70);
        snprintf(name, sizeof name, "asr%zu.pth", i);
        copy(&b, "exp/asr/valid.acc.ave.pth", name);
        snprintf(name, sizeof name, "lm%zu.pth", i);
        copy(&b, "exp/lm/valid.loss.ave.pth", name);
        steno_bundle_close(&b);
    }
}

/* The next part of the input, up to a line "---". */
static size_t part(const uint8_t **p, size_t *n)
{
    static const char line[] = "\n---\n";
    const size_t k = sizeof line - 1;
    for (size_t i = 0; i + k <= *n; i++)
        if (!memcmp(*p + i, line, k)) {
            *p += i + k;
            *n -= i + k;
            return i;
        }
    *p += *n;
    *n = 0;
    return SIZE_MAX;
}

static void networks_open(void)
{
    DIR *d = opendir(below);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        struct steno_network_options opt = {0};
        steno_network *net = NULL;
        steno_err err = {0};
        char path[512];
        if (!strstr(e->d_name, ".onnx"))
            continue;
        snprintf(path, sizeof path, "%s/%s", below, e->d_name);
        if (steno_network_open(&net, path, &opt, &err)) {
            fprintf(stderr, "%s: %s\n", e->d_name, err.msg);
            abort();
        }
        steno_network_close(net);
    }
    if (d)
        closedir(d);
}

static void write_inputs(size_t model, const uint8_t *p, size_t n)
{
    static const char *const names[] = {"config.yaml", "lm.yaml", "meta.yaml"};
    char meta[256];
    const uint8_t *rest_of = p;
    size_t left = n;
    const bool lm = part(&rest_of, &left) != SIZE_MAX;
    int length = snprintf(meta, sizeof meta,
                          "files:\n  asr_model_file: asr%zu.pth\n  lm_file: %s%zu.pth\n"
                          "yaml_files:\n  asr_train_config: config.yaml\n",
                          model, lm ? "lm" : "asr", model);
    if (lm)
        length +=
            snprintf(meta + length, sizeof meta - (size_t)length, "  lm_train_config: lm.yaml\n");
    char path[128];
    unlink(folder_path(path, "lm.yaml"));
    folder_write("meta.yaml", meta, (size_t)length);
    for (int i = 0; i < 3 && n; i++) {
        const uint8_t *start = p;
        const size_t rest = n, k = part(&p, &n);
        folder_write(names[i], start, k == SIZE_MAX ? rest : k);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct steno_convert_options none = {0};
    const char *what = NULL;
    char config[160];
    steno_err err = {0};
    if (!size || size > 65536)
        return 0;
    prepare();
    empty(below);
    empty(into);
    write_inputs(data[0] % N_MODELS, data + 1, size - 1);
    if (steno_convert(folder, into, &none, &what, &err)) {
        if (!err.msg[0])
            abort();
        return 0;
    }
    snprintf(config, sizeof config, "%s/config.yaml", into);
    if (access(config, R_OK))
        abort();
    networks_open();
    return 0;
}
