/* For fuzz targets of models, which may keep elements in other files: a folder for this process,
 * in memory if the machine has such a place. */
#ifndef STENO_TESTS_FOLDER_H
#define STENO_TESTS_FOLDER_H

#include "nn/network/network.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static inline const char *folder_path(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", folder, name);
    return out;
}

static inline void folder_remove(void)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    char path[512];
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path); /* "." and ".." cannot be unlinked */
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

static inline void folder_write(const char *name, const void *data, size_t size)
{
    char path[128];
    FILE *f = fopen(folder_path(path, name), "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        exit(70); /* the disk is full, which is not a finding */
}

/* Made at the first call, with `weights.bin` of 4 KiB in it; removed at the end of the process. */
static inline void folder_make(void)
{
    uint8_t weights[4096];
    if (*folder)
        return;
    snprintf(folder, sizeof folder, "%s/steno-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder))
        exit(70);
    atexit(folder_remove);
    for (size_t i = 0; i < sizeof weights; i++)
        weights[i] = (uint8_t)(i % 4 == 3 ? 0x3e : i); /* as floats: 0.13 .. 0.25 */
    folder_write("weights.bin", weights, sizeof weights);
}

/* NULL: the model was refused. A model that may name other files is opened as a file in the
 * folder, others from memory. */
static inline steno_network *folder_open(const uint8_t *data, size_t size,
                                         const struct steno_network_options *opt)
{
    static const char key[] = "location"; /* the key of a tensor's external data */
    steno_network *n = NULL;
    char path[128];
    bool named = false;
    for (size_t i = 0; i + sizeof key - 1 <= size && !named; i++)
        named = !memcmp(data + i, key, sizeof key - 1);
    if (!named)
        return steno_network_open_memory(&n, data, size, "fuzz", opt, NULL) ? NULL : n;
    folder_make();
    folder_write("model.onnx", data, size);
    return steno_network_open(&n, folder_path(path, "model.onnx"), opt, NULL) ? NULL : n;
}

#endif
